"""The automatic beta against a dense scan of the heat capacity, on many small problems.

python benchmarks/beta.py           writes the section "beta" of RESULTS.md
python benchmarks/beta.py --small   fifty problems; writes nothing
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_iris

import hctrellis as hct
from common import log, machine, table, verdict, write_section
from hctrellis.trust.beta import choose_beta

PROBLEMS, SMALL_PROBLEMS = 500, 50
LEAST_LEAVES, MOST_LEAVES = 3, 10
OCTAVES = np.arange(-8, 12.01, 0.125)  # of the scan, around the beta that was chosen
STEP = 0.02
LOWER = 0.002  # a peak that is lower than the scan's by this fraction is a wrong one
METHODS = ("average", "single", "complete", "ward", "centroid")
TIMED_LEAVES = (8, 12, 16)

Make = Callable[..., hct.Potential]


class Outcome(NamedTuple):
    """What came of one problem.

    Attributes
    ----------
    height : float
        Height of the peak that was found, divided by the greatest height of the scan.
    n_peaks : int
        Peaks that are at least nine tenths as high as the highest.
    n_tried : int
        Betas that were tried.
    """

    height: float
    n_peaks: int
    n_tried: int


def _irises(rng: np.random.Generator) -> np.ndarray:
    flowers = load_iris()
    rows = [rng.choice(np.flatnonzero(flowers.target == k), 4, False) for k in range(3)]
    return np.asarray(np.log10(flowers.data[np.concatenate(rows)]))


def _similarities(n: int, rng: np.random.Generator) -> np.ndarray:
    matrix = rng.random((n, n))
    return matrix + matrix.T


def make_problem(kind: str, seed: int) -> Make:
    """A function of beta that gives a potential."""
    rng = np.random.default_rng([*kind.encode(), seed])
    n = int(rng.integers(LEAST_LEAVES, MOST_LEAVES + 1))
    if kind == "similarities":
        return partial(hct.Dasgupta, _similarities(n, rng))
    if kind == "similarities, heavy tail":
        return partial(hct.Dasgupta, 10 ** (3 * _similarities(n, rng)))
    if kind == "affinities":
        return partial(hct.CorrelationClustering, _similarities(n, rng) - 1)
    rows = {
        "irises": lambda: _irises(rng),
        "noise": lambda: rng.normal(size=(n, 3)),
        "groups": lambda: rng.normal(size=(n, 4)) + 10 * rng.normal(size=(3, 4))[np.arange(n) % 3],
        "random walk": lambda: rng.normal(size=(n, 2)).cumsum(axis=0),
        "heavy tail": lambda: 10 ** rng.normal(size=(n, 2)),
        "scales": lambda: 10 ** (np.arange(n)[:, None] * rng.uniform(0.2, 1)),
        "ties": lambda: rng.permutation(4 * 4)[:n, None] // [4, 1] % 4.0,
    }[kind]()
    return partial(hct.Linkage, rows, METHODS[seed % len(METHODS)])


KINDS = (
    "irises",
    "noise",
    "groups",
    "random walk",
    "heavy tail",
    "scales",
    "ties",
    "similarities",
    "similarities, heavy tail",
    "affinities",
)


def solve(make: Make) -> Outcome:
    choice = choose_beta(lambda data, beta: make(beta=beta))
    found = float(choice.curve.scores.max())
    scan = max(heat_capacity(make, choice.beta * 2.0**power) for power in OCTAVES)
    return Outcome(found / scan, len(choice.peaks), len(choice.curve.betas))


def heat_capacity(make: Make, beta: float) -> float:
    below, here, above = (
        hct.infer(make(beta=beta * (1 + step)), threads=1).log_partition
        for step in (-STEP, 0.0, STEP)
    )
    return (below - 2 * here + above) / STEP**2


def seconds(n: int) -> float:
    """How long the choice of beta takes for a table of n rows."""
    rows = np.random.default_rng(n).normal(size=(n, 3))
    start = time.perf_counter()
    choose_beta(lambda data, beta: hct.Linkage(rows, beta=beta))
    return time.perf_counter() - start


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="fifty problems; writes nothing")
    small = parser.parse_args(arguments).small
    warnings.simplefilter("ignore")  # at a very small beta all trees are equally probable
    each = (SMALL_PROBLEMS if small else PROBLEMS) // len(KINDS)
    found: dict[str, list[Outcome]] = {}
    for kind in KINDS:
        found[kind] = [solve(make_problem(kind, seed)) for seed in range(each)]
        log(f"{kind}: least height {min(outcome.height for outcome in found[kind]):.4f}")
    text = show(found, {n: seconds(n) for n in TIMED_LEAVES})
    if small:
        print(text)
    else:
        write_section("beta", text)
    return 0


def show(found: dict[str, list[Outcome]], times: dict[int, float]) -> str:
    every = [outcome for outcomes in found.values() for outcome in outcomes]
    missed = sum(outcome.height < 1 - LOWER for outcome in every)
    rows = [
        [
            kind,
            f"{len(outcomes)}",
            f"{min(outcome.height for outcome in outcomes):.4f}",
            f"{sum(outcome.n_peaks > 1 for outcome in outcomes)}",
            f"{np.mean([outcome.n_tried for outcome in outcomes]):.1f}",
        ]
        for kind, outcomes in found.items()
    ]
    columns = ["problems", "number", "least height", "with several peaks", "betas tried"]
    target = [f"the highest peak of {len(every)} problems", f"{missed} missed", verdict(not missed)]
    took = ", ".join(f"{value:.2f} s for {n}" for n, value in times.items())
    return "\n".join(
        [
            "## beta",
            "",
            "`python benchmarks/beta.py`",
            "",
            *[f"- {fact}" for fact in machine()],
            "",
            table(["target", "measured", ""], [target]),
            f"Problems of {LEAST_LEAVES} to {MOST_LEAVES} leaves (irises: 12). The peak of the "
            "heat capacity that `choose_beta` finds, over the highest point of a scan of "
            f"{len(OCTAVES)} betas from {2.0 ** OCTAVES[0]:g} to {2.0 ** OCTAVES[-1]:g} times as "
            "large; how many problems have other peaks at least nine tenths as high.",
            "",
            table(columns, rows),
            f"Time for the choice, average linkage of noise: {took} leaves.",
        ]
    )


if __name__ == "__main__":
    raise SystemExit(main())
