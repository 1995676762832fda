"""Log Z and MAP of hard problems against an evaluation with 200 bits; threads against each other.

python benchmarks/numerics.py           writes the section "numerics" of RESULTS.md
python benchmarks/numerics.py --small   up to 6 leaves; writes nothing
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import hctrellis as hct
from common import machine, table, write_section

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import campaign

SIZES = {4: 3, 6: 3, 8: 2, 10: 1}  # leaves: seeds
LARGE = 14  # leaves of a few problems ...
LARGE_DATA = ("uniform", "some forbidden", "sizes alone")  # ... with these kinds of data
TARGET = 1e-10


@dataclass
class Worst:
    """The largest errors of a model, and where they are."""

    count: int = 0
    log_partition: tuple[float, str] = (0.0, "")
    map_log_weight: tuple[float, str] = (0.0, "")
    differing: list[str] = field(default_factory=list)
    """Problems whose answers depend on the number of threads, or differ from run to run."""


def add(worst: Worst, problem: campaign.Problem) -> None:
    found = campaign.errors(problem)
    where = f"{problem.data}, {problem.beta:g}, n = {problem.potential.n_leaves}"
    worst.count += 1
    worst.log_partition = max(worst.log_partition, (found.log_partition, where))
    worst.map_log_weight = max(worst.map_log_weight, (found.map_log_weight, where))
    solved = [hct.infer(problem.potential, threads=threads) for threads in (1, 2, 2)]
    possible = solved[0].log_partition > -np.inf
    trees = {post.map_tree for post in solved} if possible else set()
    if len({post.log_partition for post in solved}) > 1 or len(trees) > 1:
        worst.differing.append(where)


def run(small: bool) -> dict[str, Worst]:
    found: dict[str, Worst] = {}
    for n, seeds in SIZES.items():
        if small and n > 6:
            break
        for seed in range(seeds):
            for problem in campaign.problems(n, seed):
                add(found.setdefault(problem.model, Worst()), problem)
        print(f"{n} leaves done", file=sys.stderr, flush=True)
    if not small:
        for problem in campaign.problems(LARGE, 0):
            if problem.beta in (1.0, 1e3) and problem.data in LARGE_DATA:
                add(found[problem.model], problem)
                print(f"{LARGE} leaves: {problem.model}", file=sys.stderr, flush=True)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="up to 6 leaves; writes nothing")
    small = parser.parse_args(arguments).small
    warnings.simplefilter("ignore")  # flat posteriors are among the problems
    found = run(small)
    rows = [
        [
            model,
            f"{w.count}",
            f"{w.log_partition[0]:.1e} ({w.log_partition[1]})",
            f"{w.map_log_weight[0]:.1e} ({w.map_log_weight[1]})",
            f"{len(w.differing)}",
        ]
        for model, w in found.items()
    ]
    worst = max(w.log_partition[0] for w in found.values())
    differing = sum(len(w.differing) for w in found.values())
    text = "\n".join(
        [
            "## numerics",
            "",
            "`python benchmarks/numerics.py`",
            "",
            *[f"- {fact}" for fact in machine()],
            "",
            f"{sum(w.count for w in found.values())} problems; beta (or lam) from 1e-6 to 1e6. "
            "Errors are relative to |log Z| (at least 1).",
            "",
            table(
                ["target", "measured", ""],
                [
                    [
                        f"log Z within {TARGET:g} of a 200-bit evaluation",
                        f"{worst:.1e}",
                        "met" if worst <= TARGET else "missed",
                    ],
                    [
                        "the same for 1 and 2 threads, and from run to run",
                        f"{differing} differ",
                        "met" if differing == 0 else "missed",
                    ],
                ],
            ),
            table(["model", "problems", "log Z: worst", "MAP: worst", "differ"], rows),
        ]
    )
    if not small:
        write_section("numerics", text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
