"""How many trees there are, and how few operations it takes to sum over all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hctrellis.clusters import n_splits, n_trees
from hctrellis.infer import infer
from hctrellis.potentials.function import FunctionPotential
from hctrellis.reproduce.figures import BLUE, GREEN, INK, RED, new_figure, styled
from hctrellis.reproduce.record import (
    Experiment,
    Number,
    Picture,
    Size,
    Table,
    Tell,
    rounded,
    silent,
)
from hctrellis.trellis.full import FullTrellis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hctrellis.potentials.base import Rows
    from hctrellis.support.types import BoolArray, FloatArray

LARGEST = 20
LARGEST_MEASURED = {"small": 10, "full": 14}
SHOWN = (4, 5, 9, 12, 16, 20)


class Measured(NamedTuple):
    """What inference over n leaves asked of a potential, and how many trees it counted."""

    n_leaves: int
    splits: int
    trees: int


class _Counting(FunctionPotential):
    """A potential that counts the splits whose weights a pass asks for."""

    asked = 0

    def evaluate(
        self, left: Rows, right: Rows, parent: Rows, root: bool, single: BoolArray, cross: Any
    ) -> FloatArray:
        self.asked += single[0].size
        return super().evaluate(left, right, parent, root, single, cross)


def measure(n_leaves: int) -> Measured:
    """Count the splits whose weight is asked for in the pass for log Z and the best tree."""

    def balanced(left: FloatArray, right: FloatArray, parent: FloatArray) -> FloatArray:
        weights: FloatArray = -np.abs(left[0] - right[0])
        return weights

    model = _Counting(balanced, features=np.arange(1.0, n_leaves + 1))
    post = infer(model, FullTrellis(model.n_leaves), threads=1)
    return Measured(n_leaves, model.asked, post.n_trees)


def run(size: Size = "full", seed: int = 1, tell: Tell = silent) -> Experiment:
    """Count trees and operations."""
    measured = []
    for n in range(3, LARGEST_MEASURED[size] + 1):
        tell(f"counting operations, {n} leaves")
        measured.append(measure(n))
    last = measured[-1]
    fewer = n_trees(last.n_leaves) / last.splits
    right = all(m.trees == n_trees(m.n_leaves) for m in measured)
    as_stated = all(m.splits == n_splits(m.n_leaves) for m in measured)
    ratio = last.splits / 3**last.n_leaves
    return Experiment(
        name="complexity",
        title="Trees against operations",
        about="There are (2n − 3)!! binary trees over n leaves. The paper's point is that a "
        "dynamic program sums over all of them with a number of operations of the order of 3ⁿ. "
        "Here the operations are counted: the potential counts how often it is asked for the "
        "weight of a split.",
        verdict=f"At {last.n_leaves} leaves {last.splits:,} splits were weighed for "
        f"{rounded(last.trees)} trees: {rounded(fewer)} times fewer.",
        conclusion=f"The number of splits weighed is {ratio:.2f} × 3ⁿ at n = {last.n_leaves}: "
        "exactly the (3ⁿ − 2ⁿ⁺¹ + 1)/2 pairs of a cluster and a split of it, each asked for once. "
        f"At {LARGEST} leaves that is {rounded(n_splits(LARGEST))} splits for "
        f"{rounded(n_trees(LARGEST))} trees. It is still exponential: one more leaf costs three "
        "times as much.",
        numbers=[
            Number(
                f"trees over {m.n_leaves} leaves",
                f"{trees:,}",
                f"{m.trees:,}",
                f"{m.trees - trees:,}",
            )
            for m in measured
            for n, trees in ((4, 15), (5, 105), (9, 2_027_025))
            if n == m.n_leaves
        ],
        parts=[
            Picture(
                "complexity",
                [_curves(measured)],
                "Number of trees, three to the n, and counted operations against the number of "
                "leaves, on a logarithmic scale.",
                "Number of trees, 3ⁿ, and the splits that were weighed (points: counted; line: "
                "the formula). The gap between the red and the blue line is what the trellis "
                "saves.",
            ),
            _table(measured),
        ],
        claims={
            "the number of trees counted is (2n − 3)!!": right,
            "every split is weighed once: (3ⁿ − 2ⁿ⁺¹ + 1)/2": as_stated,
        },
    )


def _table(measured: list[Measured]) -> Table:
    counted = {m.n_leaves: f"{m.splits:,}" for m in measured}
    rows = [
        (
            f"{n}",
            rounded(n_trees(n), 3) if n > 9 else f"{n_trees(n):,}",
            f"{3**n:,}",
            f"{n_splits(n):,}",
            counted.get(n, "not counted"),
        )
        for n in SHOWN
    ]
    columns = ("leaves", "trees", "3ⁿ", "(3ⁿ − 2ⁿ⁺¹ + 1)/2", "splits counted")
    return Table("Trees and operations.", columns, rows)


@styled
def _curves(measured: list[Measured]) -> Figure:
    figure, ax = new_figure()
    n = np.arange(2, LARGEST + 1)
    trees, splits = ([float(count(k)) for k in n.tolist()] for count in (n_trees, n_splits))
    ax.plot(n, trees, color=RED, label="trees, (2n − 3)!!")
    ax.plot(n, 3.0**n, "--", color=GREEN, label="3ⁿ")
    ax.plot(n, splits, color=BLUE, label="splits, (3ⁿ − 2ⁿ⁺¹ + 1)/2")
    ax.plot(
        [m.n_leaves for m in measured],
        [m.splits for m in measured],
        "o",
        color=INK,
        ms=5,
        label="splits weighed, counted",
    )
    ax.set_yscale("log")
    ax.set_xticks(range(2, LARGEST + 1, 2))
    ax.set_xlabel("leaves")
    ax.set_ylabel("number")
    ax.legend(loc="upper left")
    return figure
