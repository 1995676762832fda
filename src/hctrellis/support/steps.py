"""Long work in short steps: Ctrl-C works between them, and threads can be told to stop.

Passes that are run when an answer is first asked for tell their progress by `tell_progress`, to
whoever has asked to be told with `watched_by`.

Compiled code cannot be interrupted, so its loops are called for one range after the other. Python
raises KeyboardInterrupt in the main thread only; other threads call `check_stop` between steps.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from hctrellis.support.progress import Progress

STEP_SECONDS = 0.05

_own = threading.local()


class StoppedError(Exception):
    """The work of this thread is no longer wanted."""


@contextmanager
def stopped_by(event: threading.Event) -> Iterator[None]:
    """Within this context, `check_stop` in this thread obeys the event."""
    _own.event = event
    try:
        yield
    finally:
        del _own.event


def check_stop() -> None:
    """Raise `StoppedError` if this thread was told to stop."""
    event = getattr(_own, "event", None)
    if event is not None and event.is_set():
        raise StoppedError


@contextmanager
def watched_by(progress: Progress) -> Iterator[None]:
    """Within this context, `tell_progress` in this thread calls a function of (done, total)."""
    before = getattr(_own, "progress", None)
    _own.progress = progress
    try:
        yield
    finally:
        _own.progress = before


def tell_progress(done: int, total: int) -> None:
    """Tell how far the work of this thread is, if someone asked to be told."""
    progress = getattr(_own, "progress", None)
    if progress is not None:
        progress(min(done, total), total)


def in_steps(start: int, end: int, seconds: float = STEP_SECONDS) -> Iterator[tuple[int, int]]:
    """The range from start to end, in pieces that take the caller about `seconds` each.

    >>> [*in_steps(0, 1)]
    [(0, 1)]
    """
    size = 1
    while start < end:
        check_stop()
        stop = min(end, start + size)
        began = perf_counter()
        yield start, stop
        took = max(perf_counter() - began, 1e-6)
        start, size = stop, max(1, min(4 * size, int(size * seconds / took)))
