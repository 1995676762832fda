"""Progress of long work: what callers give as `progress`, and a bar on standard error."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

Progress = Callable[[int, int | None], None]
"""Called as progress(done, total); total is None if it is not known."""


@contextmanager
def followed(progress: Progress | bool | None, what: str) -> Iterator[Progress]:
    """What to call with the work done: the function given, or a transient progress bar."""
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise TypeError(f"progress must be True, False or a function; got {progress!r:.80}")
    if progress is True:
        with bar(what) as update:
            yield update
    else:
        yield progress or silent


@contextmanager
def bar(what: str, hidden: bool = False) -> Iterator[Progress]:
    """A bar on standard error: rich's where it is installed, else a line of text.

    rich draws only in terminals and notebooks; elsewhere nothing is written.
    """
    if hidden:
        yield silent
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars
    except ImportError:
        yield _line(what)
        return
    columns = (BarColumn(), MofNCompleteColumn(), what, TimeRemainingColumn())
    console = Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        yield silent
        return
    with Bars(*columns, console=console, transient=True) as bars:
        task = bars.add_task("", total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


def silent(done: int, total: int | None) -> None:
    """Show nothing."""


def _line(what: str) -> Progress:
    began = monotonic()

    def update(done: int, total: int | None) -> None:
        left = seconds_left(monotonic() - began, done, total)
        rest = "" if left is None or done == total else f", {left} s left"
        end = "\n" if done == total else "\r"
        sys.stderr.write(f"{what}: {done} of {'?' if total is None else total}{rest:15}{end}")
        sys.stderr.flush()

    return update


def seconds_left(seconds: float, done: int, total: int | None) -> int | None:
    """How long the rest will take at the pace so far; None if that cannot be known.

    >>> seconds_left(10.0, 20, 100)
    40
    """
    if total is None or done <= 0:
        return None
    return math.ceil(seconds * (total - done) / done)
