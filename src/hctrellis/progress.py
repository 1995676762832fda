"""A progress bar for long passes: rich's where it is installed, else a line on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable


def bar(what: str) -> Callable[[int, int], None]:
    """A function progress(done, total) that shows a bar and removes it at the end."""
    try:
        return _rich_bar(what)
    except ImportError:
        return _plain_bar(what)


def _rich_bar(what: str) -> Callable[[int, int], None]:
    from rich.progress import Progress

    shown = Progress(transient=True)
    task = shown.add_task(what, total=None)

    def update(done: int, total: int) -> None:
        if not shown.live.is_started:
            shown.start()
        shown.update(task, completed=done, total=total)
        if done >= total:
            shown.stop()

    return update


def _plain_bar(what: str) -> Callable[[int, int], None]:
    def update(done: int, total: int) -> None:
        end = "\n" if done >= total else "\r"
        sys.stderr.write(f"{what}: {100 * done // total}%{end}")
        sys.stderr.flush()

    return update
