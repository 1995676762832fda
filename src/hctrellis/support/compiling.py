"""Whether code is being compiled now, and who wants to be told.

Kernels are compiled when they are first used, which can take longer than the work itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Tell = Callable[[bool], None]
"""Called with True when compiling begins, and with False when it has ended."""

_lock = threading.RLock()
_depth = 0  # functions that are being compiled: one may need others
_listening: list[Tell] = []


def begin() -> None:
    """A function is about to be compiled."""
    _change(1)


def end() -> None:
    """It has been compiled, or that has failed."""
    _change(-1)


def _change(by: int) -> None:
    global _depth
    with _lock:
        before, _depth = _depth, _depth + by
        if (before > 0) != (_depth > 0) and _listening:
            _listening[-1](_depth > 0)


@contextmanager
def told(tell: Tell) -> Iterator[None]:
    """Within this context, a function is told when compiling begins and ends.

    Of several, only the one that asked last is told.
    """
    with _lock:
        _listening.append(tell)
    try:
        yield
    finally:
        with _lock:
            _listening.remove(tell)
