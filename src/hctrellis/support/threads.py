"""How many threads there are to use."""

from __future__ import annotations

import os


def default_threads() -> int:
    """The number of cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1
