"""``hctrellis reproduce``: the tables and figures of the paper, as one page."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from hctrellis.cli.errors import INTERRUPTED, complain
from hctrellis.plotting import require_matplotlib
from hctrellis.reproduce import chosen, reproduce
from hctrellis.reproduce.record import Experiment, Size

LINE = 78
NOT_HELD = 3


def run_reproduce(
    names: Sequence[str],
    output: Path,
    small: bool,
    seed: int,
    data: Path | None,
    html: bool,
    quiet: bool,
) -> int:
    """Run experiments, write the page, say where it is, and return the exit code."""
    from hctrellis.reproduce.expression import read_expression
    from hctrellis.reproduce.page import ReproductionPage, write

    require_matplotlib()
    size: Size = "small" if small else "full"
    table = None if data is None else read_expression(data)
    wanted = chosen(names)
    output.mkdir(parents=True, exist_ok=True)
    experiments, seconds = [], []
    try:
        for k, name in enumerate(wanted):
            start = time.perf_counter()
            with _Line(f"[{k + 1}/{len(wanted)}] {name}", hidden=quiet) as tell:
                experiments.append(reproduce(name, size, seed, tell, table))
            seconds.append(time.perf_counter() - start)
    except KeyboardInterrupt:
        return complain("interrupted; no page was written", INTERRUPTED)
    command = _command(names, size, seed, data)
    written = write(ReproductionPage(experiments, seconds, size, command), output, html)
    if not quiet:
        print("\n".join(map(str, written)))
    return _complain(experiments)


class _Line:
    """A line on standard error that says what is going on: rewritten on a terminal."""

    def __init__(self, title: str, hidden: bool) -> None:
        self.title = title
        self.hidden = hidden
        self.lively = sys.stderr.isatty() and not hidden

    def __enter__(self) -> Callable[[str], None]:
        self.start = time.perf_counter()
        return self._tell

    def _tell(self, text: str) -> None:
        if self.lively:
            sys.stderr.write(f"\r{f'{self.title}: {text}':{LINE}.{LINE}}")
            sys.stderr.flush()

    def __exit__(self, kind: object, *rest: object) -> None:
        if self.lively:
            sys.stderr.write("\r" + " " * LINE + "\r")
        if kind is None and not self.hidden:
            took = time.perf_counter() - self.start
            print(f"{self.title}: {took:.1f} s", file=sys.stderr, flush=True)


def _command(names: Sequence[str], size: Size, seed: int, data: Path | None) -> str:
    words = ["hctrellis reproduce", *(names or ["all"])]
    words += ["--small"] if size == "small" else []
    words += [f"--data {data.name}"] if data is not None else []
    return " ".join([*words, f"--seed {seed}"])


def _complain(experiments: Sequence[Experiment]) -> int:
    """Name the claims that did not hold, and return the exit code."""
    failed = [
        f"{one.name}: {claim}"
        for one in experiments
        for claim, holds in one.claims.items()
        if not holds
    ]
    return complain(f"did not hold: {'; '.join(failed)}", NOT_HELD) if failed else 0
