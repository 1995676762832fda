"""How good sparse trellises are that were built on other data: the MAP against sparsity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hctrellis import simulate
from hctrellis.orders import Order, order_leaves, place
from hctrellis.posterior import infer
from hctrellis.potentials.jets import Ginkgo
from hctrellis.reproduce.record import Size, Tell, silent
from hctrellis.search import beam_search, greedy
from hctrellis.tree import Tree
from hctrellis.trellis.sparse import SparseTrellis

if TYPE_CHECKING:
    from hctrellis.tree import FloatArray, IntArray

LEAVES = 9
ORDERS: tuple[Order, ...] = ("norm", "random", "traversal")
SOURCES = ("simulator", "beam search")
N_TEST, SIZES = 100, (1, 3, 10, 30, 100, 200, 500, 1000, 1500, 3000, 10_000)
SMALL_N_TEST, SMALL_SIZES = 8, (10, 30, 100, 300)


class Point(NamedTuple):
    """A trellis, and the MAP found in it, relative to greedy, over the test jets."""

    n_jets: int
    """Jets that the trellis was built on."""
    n_clusters: int
    sparsity: float
    found: float
    """Share of the jets that have a tree of non-zero weight in the trellis."""
    gain: float
    """Mean of MAP - greedy over those jets."""
    error: float
    """Standard error of that mean."""


@dataclass(frozen=True)
class Baselines:
    """Means over the test jets, relative to greedy."""

    beam: float
    exact: float


@dataclass(frozen=True)
class SparseStudy:
    """MAP against sparsity for each source of trees and order of leaves."""

    n_test: int
    baselines: Baselines
    curves: dict[tuple[str, str], list[Point]]

    def crossing(self, source: str, order: str) -> float | None:
        """The sparsity at which a curve passes beam search, interpolated; None if it does not."""
        level, before = self.baselines.beam, None
        for point in (p for p in self.curves[source, order] if p.found == 1):
            if point.gain >= level:
                return point.sparsity if before is None else _between(before, point, level)
            before = point
        return None


_done: dict[tuple[Size, int], SparseStudy] = {}


def study_of_size(size: Size, seed: int, tell: Tell) -> SparseStudy:
    """The study, small or as large as in the paper; made once, for all that show it."""
    if (size, seed) not in _done:
        n_test, sizes = (N_TEST, SIZES) if size == "full" else (SMALL_N_TEST, SMALL_SIZES)
        _done[size, seed] = study(n_test, sizes, seed, tell)
    return _done[size, seed]


def gain_at(points: Sequence[Point], sparsity: float) -> float:
    """Where a curve is at a sparsity, interpolated in its logarithm."""
    logs = np.log([point.sparsity for point in points])
    return float(np.interp(np.log(sparsity), logs, [point.gain for point in points]))


def _between(one: Point, other: Point, level: float) -> float:
    """Where the line between two points, in the logarithm of sparsity, has a level."""
    share = (level - one.gain) / (other.gain - one.gain)
    logs = np.log([one.sparsity, other.sparsity])
    return float(np.exp(logs[0] + share * (logs[1] - logs[0])))


def study(
    n_test: int = N_TEST,
    sizes: Sequence[int] = SIZES,
    seed: int = 1,
    progress: Tell = silent,
) -> SparseStudy:
    """Build trellises on more and more jets of 9 leaves, and apply them to other jets.

    Parameters
    ----------
    n_test : int
        Jets that the trellises are applied to.
    sizes : sequence of int
        Numbers of jets to build on.
    seed : int
    progress : callable
        Told what is done.
    """
    rng = np.random.default_rng(seed)
    train = simulate.ginkgo(max(sizes), leaves=LEAVES, rng=rng)
    tests = [jet.potential() for jet in simulate.ginkgo(n_test, leaves=LEAVES, rng=rng)]
    greedy_weights = np.array([model.log_weight(greedy(model)) for model in tests])
    beams = [beam_search(model)[0] for model in tests]
    beam_weights = np.array([m.log_weight(tree) for m, tree in zip(tests, beams, strict=True)])
    exact = np.array([infer(model).map_log_weight for model in tests])
    baselines = Baselines(
        float((beam_weights - greedy_weights).mean()), float((exact - greedy_weights).mean())
    )
    curves = {}
    for source in SOURCES:
        progress(f"trees by the {source} on {len(train):,} jets")
        trees = [_tree(source, jet) for jet in train]
        for order in ORDERS:
            places = [
                order_leaves(model, tree, order, rng)
                for model, tree in zip(tests, beams, strict=True)
            ]
            points = []
            for n_jets, trellis in _trellises(train, trees, order, sizes, rng):
                maps = [_map_log_weight(model, trellis, places[i]) for i, model in enumerate(tests)]
                points.append(_point(n_jets, trellis, np.array(maps), greedy_weights))
                progress(f"{source}, {order}, {n_jets} jets: sparsity {trellis.sparsity:.3g}")
            curves[source, str(order)] = points
    return SparseStudy(n_test, baselines, curves)


def _trellises(
    jets: simulate.Jets,
    trees: list[Tree],
    order: Order,
    sizes: Sequence[int],
    rng: np.random.Generator,
) -> Iterator[tuple[int, SparseTrellis]]:
    """Trellises on the first jets, more and more."""
    trellis: SparseTrellis | None = None
    done = 0
    for size in sorted(sizes):
        pairs = zip(jets[done:size], trees[done:size], strict=True)
        found = [place(tree, order_leaves(jet, tree, order, rng)) for jet, tree in pairs]
        more = SparseTrellis.from_children(np.array(found))
        trellis = more if trellis is None else trellis | more
        done = size
        yield size, trellis


def _tree(source: str, jet: simulate.Jet) -> Tree:
    return jet.tree if source == "simulator" else beam_search(jet.potential())[0]


def _map_log_weight(model: Ginkgo, trellis: SparseTrellis, order: IntArray) -> float:
    solution = trellis.reorder(order).solve(model)
    return float(solution.best[-1] * np.log(2)) if solution.rest[-1] > 0 else -np.inf


def _point(n_jets: int, trellis: SparseTrellis, maps: FloatArray, greedy: FloatArray) -> Point:
    gains = (maps - greedy)[np.isfinite(maps)]
    mean = float(gains.mean()) if len(gains) > 0 else np.nan
    error = float(gains.std(ddof=1) / np.sqrt(len(gains))) if len(gains) > 1 else np.nan
    found = len(gains) / len(maps)
    return Point(n_jets, trellis.n_clusters, trellis.sparsity, found, mean, error)
