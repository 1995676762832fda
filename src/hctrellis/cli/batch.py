"""``hctrellis batch``: inference on all jets of some files."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from hctrellis.batch import BatchResult, infer_many
from hctrellis.cli.errors import INTERRUPTED, complain
from hctrellis.support.progress import bar

SOME_FAILED = 3


def as_rate(text: str) -> float | str:
    """A rate as it is written, or the name of a column with one for each jet."""
    try:
        return float(text)
    except ValueError:
        return text


def run_batch(jets: list[Path], output: Path, quiet: bool, overwrite: bool, **options: Any) -> int:
    """Run a batch, show its progress and a summary, and return the exit code."""
    start = time.perf_counter()
    reached: tuple[int, int | None] = (0, 0)

    def report(done: int, total: int | None) -> None:
        nonlocal reached
        reached = (done, total)
        show(done, total)

    try:
        with bar("jets", hidden=quiet or not sys.stderr.isatty()) as show:
            result = infer_many(
                jets, out=output, overwrite=overwrite, progress=report, **_given(options)
            )
    except KeyboardInterrupt:
        return complain(_interrupted(*reached, overwrite), INTERRUPTED)
    if not quiet:
        print(f"{_summary(result)} ({time.perf_counter() - start:.1f} s): {output}")
    if result.n_failed > 0:
        return complain(_failures(result), SOME_FAILED)
    return 0


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """The options that were given; those of the potential must not be None."""
    return {name: value for name, value in options.items() if value is not None}


def _interrupted(done: int, total: int | None, overwrite: bool) -> str:
    how = "the same command without --overwrite" if overwrite else "the same command"
    jets = f"{done:,} of {total:,} jets" if total else "no jets"
    return f"interrupted; {jets} are done, and {how} continues from there"


def _summary(result: BatchResult) -> str:
    counts = [f"{result.n_rows:,} jet{'' if result.n_rows == 1 else 's'}"]
    if result.n_failed > 0:
        counts.append(f"{result.n_failed:,} failed")
    if result.n_without_tree > 0:
        counts.append(f"{result.n_without_tree:,} without any possible tree")
    if result.n_repaired > 0:
        counts.append(f"{result.n_repaired:,} with space-like particles put on their mass shells")
    return ", ".join(counts)


def _failures(result: BatchResult) -> str:
    reasons = "; ".join(f"jet {row}: {text}" for row, text in result.reasons.items())
    more = "; ..." if result.n_failed > len(result.reasons) else ""
    return (
        f"{result.n_failed:,} of {result.n_rows:,} jets failed, see the column error ({reasons}"
        f"{more})"
    )
