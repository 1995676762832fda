"""Progress of long work: what callers give as `progress`, and a bar on standard error."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import signature
from time import monotonic
from typing import Protocol, cast

from hctrellis.support.compiling import told

COMPILING = "compiling (first use, 5 to 20 s)"

Progress = Callable[[int, int | None], None]
"""Called as progress(done, total); total is None if it is not known."""


class Noted(Protocol):
    """Called as tell(done, total, note): a note says what is being done, or how far it has come."""

    def __call__(self, done: int, total: int | None, note: str = "") -> None: ...


@contextmanager
def noted(progress: Progress | bool | None, what: str) -> Iterator[Noted]:
    """The same as `followed`, with notes: a bar shows them, a function is given them as `note`.

    A function that takes no `note` is not given any.
    """
    if progress is True:
        with bar(what) as update:
            yield update
        return
    if callable(progress) and _takes_notes(progress):
        yield cast(Noted, progress)
        return
    with followed(progress, what) as simple:
        yield lambda done, total, note="": simple(done, total)


def _takes_notes(function: Callable[..., None]) -> bool:
    try:
        return "note" in signature(function).parameters
    except (TypeError, ValueError):  # some that are built in do not tell
        return False


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
def bar(what: str, hidden: bool = False, short: bool = False) -> Iterator[Noted]:
    """A bar on standard error: rich's where it is installed, else a line of text.

    rich draws only in terminals and notebooks; elsewhere nothing is written. A bar says when
    code is compiled; one of short work is seen only then.
    """
    if hidden:
        yield silent
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars
    except ImportError:
        line = _line(what)
        with told(lambda on: line(0, None, COMPILING) if on else None):
            yield silent if short else line
        return
    note = "{task.fields[note]}"
    columns = (BarColumn(), MofNCompleteColumn(), what, TimeRemainingColumn(), note)
    console = Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        yield silent
        return
    bars = Bars(*columns, console=console, transient=True)
    task = bars.add_task("", total=None, note="")

    def update(done: int, total: int | None, note: str = "") -> None:
        bars.update(task, completed=done, total=total, note=note)

    def compiling(on: bool) -> None:
        bars.update(task, note=COMPILING if on else "", refresh=True)
        if short:
            (bars.start if on else bars.stop)()

    with told(compiling):
        if not short:
            bars.start()
        try:
            yield silent if short else update
        finally:
            bars.stop()


def silent(done: int, total: int | None, note: str = "") -> None:
    """Show nothing."""


def _line(what: str) -> Noted:
    began = monotonic()

    def update(done: int, total: int | None, note: str = "") -> None:
        left = seconds_left(monotonic() - began, done, total)
        rest = "" if left is None or done == total else f", {left} s left"
        end = "\n" if done == total else "\r"
        sys.stderr.write(
            f"{what}: {done} of {'?' if total is None else total}{rest:15} {note}{end}"
        )
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
