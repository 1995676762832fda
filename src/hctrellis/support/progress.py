"""Progress of long work: what callers give as `progress`, and a bar on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[int, int | None], None]
"""Called as progress(done, in all), None if that is not known."""


@contextmanager
def followed(progress: Progress | bool | None, what: str) -> Iterator[Progress]:
    """What to call with the work done: as given, or a bar, which is gone in the end."""
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise TypeError(f"progress must be True, False or a function; got {progress!r:.80}")
    if progress is True:
        with bar(what) as update:
            yield update
    else:
        yield progress or _nothing


@contextmanager
def bar(what: str, hidden: bool = False) -> Iterator[Progress]:
    """A bar on standard error: rich's where it is installed, else a line of text.

    rich draws only in terminals and notebooks; elsewhere nothing is written.
    """
    if hidden:
        yield _nothing
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
        yield _nothing
        return
    with Bars(*columns, console=console, transient=True) as bars:
        task = bars.add_task("", total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


def _nothing(done: int, total: int | None) -> None:
    pass


def _line(what: str) -> Progress:
    def update(done: int, total: int | None) -> None:
        end = "\n" if done == total else "\r"
        sys.stderr.write(f"{what}: {done} of {'?' if total is None else total}{end}")
        sys.stderr.flush()

    return update
