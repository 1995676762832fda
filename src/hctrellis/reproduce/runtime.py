"""Times: one jet after the other, 12 samples, the small graph, and our curve to 20 leaves."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from hctrellis import simulate
from hctrellis.batch import infer_many
from hctrellis.potentials.base import Potential
from hctrellis.potentials.correlation import CorrelationClustering
from hctrellis.potentials.dasgupta import Dasgupta
from hctrellis.reproduce.dasgupta import ladder
from hctrellis.reproduce.expression import affinity, synthetic
from hctrellis.reproduce.figures import BLUE, INK, RED, SOFT, new_figure, styled
from hctrellis.reproduce.record import (
    Experiment,
    Number,
    Picture,
    Size,
    Table,
    Tell,
    show_factor,
    show_seconds,
    silent,
)
from hctrellis.reproduce.timing import best_tree_seconds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER_JETS = {5: 0.05, 9: 1.6, 10: 6.1}
PAPER_GENOMICS, PAPER_DASGUPTA = 15 * 60.0, 4.0
PAPER_MACHINES = (
    "The paper took the times of jets on a MacBook Pro with a 2.3 GHz Core i9 and 16 GB of memory, "
    "those of gene expression and of Dasgupta's cost on one with a 2.5 GHz Core i5 and 8 GB."
)
AUTHORS = {9: 2.6, 10: 8.8, 11: 41.0, 12: 300.0}
"""Seconds of the authors' public Python code, measured before on a machine of two cores."""
LARGEST = {"small": 12, "full": 20}
SMALLEST = 4
LOW_CUT = 1.21  # t_cut of jets with more than 10 leaves
BATCH = {"small": 100, "full": 2000}


def _jet(n_leaves: int, seed: int) -> Potential:
    t_cut = 16.0 if n_leaves <= max(PAPER_JETS) else LOW_CUT
    return simulate.ginkgo(1, n_leaves=n_leaves, t_cut=t_cut, rng=seed)[0].potential()


def _batch_seconds(n_leaves: int, size: Size, seed: int) -> float:
    """Time per jet when many are solved together."""
    jets = simulate.ginkgo(BATCH[size], n_leaves=n_leaves, rng=seed)
    infer_many(jets[:8])
    start = time.perf_counter()
    infer_many(jets)
    return (time.perf_counter() - start) / len(jets)


def run(size: Size = "full", seed: int = 1, tell: Tell = silent) -> Experiment:
    """Measure times."""
    curve = {}
    for n in range(SMALLEST, LARGEST[size] + 1):
        tell(f"one jet with {n} leaves")
        curve[n] = best_tree_seconds(_jet(n, seed))
    tell("12 samples, the small graph, and batches")
    values = synthetic(seed).values[:12]
    genomics = best_tree_seconds(CorrelationClustering(affinity(values)))
    graph = best_tree_seconds(Dasgupta(ladder()))
    batches = {n: _batch_seconds(n, size, seed) for n in PAPER_JETS}
    factors = [PAPER_JETS[n] / curve[n] for n in PAPER_JETS]
    others = (PAPER_GENOMICS / genomics, PAPER_DASGUPTA / graph)
    return Experiment(
        name="runtime",
        title="Times",
        about="Time of log Z and the best tree, exact, with kernels that are already compiled "
        "(compiling takes some seconds, once; then they come from disk). The median of several "
        "runs on this machine, with all its cores.",
        verdict=f"Jets with 5, 9 and 10 leaves take {_list(curve[n] for n in PAPER_JETS)} each; "
        f"{max(curve)} leaves take {show_seconds(curve[max(curve)])}.",
        conclusion=f"One jet at a time, we are {_factors(factors)} as fast as the paper; in "
        f"batches, a jet with 10 leaves takes {show_seconds(batches[10])}. The curve follows 3ⁿ "
        "once it leaves the fixed cost of a call behind, so the time that the paper took for 10 "
        f"leaves now suffices for {_reach(curve)}.",
        numbers=[
            *(
                Number(
                    f"a jet with {n} leaves",
                    f"{paper:g} s",
                    show_seconds(curve[n]),
                    show_factor(paper / curve[n]),
                )
                for n, paper in PAPER_JETS.items()
            ),
            Number(
                "gene expression, 12 samples",
                "15 min",
                show_seconds(genomics),
                show_factor(PAPER_GENOMICS / genomics),
            ),
            Number(
                "Dasgupta's cost, 8 nodes",
                f"{PAPER_DASGUPTA:g} s",
                show_seconds(graph),
                show_factor(PAPER_DASGUPTA / graph),
            ),
        ],
        parts=[
            Picture(
                "runtime",
                [_curve_figure(curve)],
                "Seconds per jet against the number of leaves on a logarithmic scale: ours, the "
                "paper's three points, and the authors' code.",
                "Seconds for one jet. Points of the paper and of the authors' public Python code "
                "(the latter measured earlier, on a machine of two cores) beside our curve; the "
                "dashed line is proportional to 3ⁿ.",
            ),
            _table(curve, batches),
        ],
        notes=[
            f"{PAPER_MACHINES} Ours is named at the end of this page. The times depend on the "
            "number of leaves, not on the data. The 12 samples are made up for this measurement."
        ],
        claims={"every time is shorter than the paper's": min(*factors, *others) > 1},
    )


def _list(times: Iterable[float]) -> str:
    texts = [show_seconds(seconds) for seconds in times]
    return f"{', '.join(texts[:-1])} and {texts[-1]}"


def _factors(factors: list[float]) -> str:
    low, high = (f"{float(f'{f:.1g}'):,.10g}" for f in (min(factors), max(factors)))
    return f"{low} to {high} times"


def _reach(curve: dict[int, float]) -> str:
    """How many leaves we solve in the time that the paper took for 10."""
    within = [n for n, seconds in curve.items() if seconds <= PAPER_JETS[10]]
    return f"{max(within)} leaves" + (" or more" if max(within) == max(curve) else "")


def _table(curve: dict[int, float], batches: dict[int, float]) -> Table:
    rows = [
        (
            f"{n}",
            f"{PAPER_JETS[n]:g} s" if n in PAPER_JETS else "",
            show_seconds(seconds),
            show_seconds(batches[n]) if n in batches else "",
        )
        for n, seconds in curve.items()
    ]
    return Table(
        "Seconds per jet.",
        ("leaves", "paper", "ours, one jet", "ours, per jet of a batch"),
        rows,
    )


@styled
def _curve_figure(curve: dict[int, float]) -> Figure:
    figure, ax = new_figure()
    n = np.array(list(curve))
    last = n[-1]
    steep = curve[last] * 3.0 ** (n - last)
    shown = steep > min(curve.values()) / 3
    ax.plot(n[shown], steep[shown], "--", color=SOFT, lw=1.2, label="proportional to 3ⁿ")
    ax.plot(n, list(curve.values()), "o-", color=BLUE, ms=5, label="ours")
    ax.plot(
        list(AUTHORS),
        list(AUTHORS.values()),
        "^",
        color=INK,
        ms=6.5,
        mfc="none",
        label="authors' code, measured earlier",
    )
    ax.plot(list(PAPER_JETS), list(PAPER_JETS.values()), "s", color=RED, ms=6.5, label="paper")
    ax.set_yscale("log")
    ax.set_xticks(range(SMALLEST, int(last) + 1, 2))
    ax.set_xlabel("leaves")
    ax.set_ylabel("seconds per jet")
    ax.legend(loc="upper left" if last < 16 else "upper right")
    return figure
