"""How good sparse trellises built on other data are: the MAP against sparsity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hctrellis import simulate
from hctrellis.infer import infer
from hctrellis.potentials.jets import Ginkgo
from hctrellis.reproduce.record import Size, Tell, silent
from hctrellis.search import beam_search, greedy
from hctrellis.tree import Tree
from hctrellis.trellis.orders import Order, order_leaves, place
from hctrellis.trellis.sparse import SparseTrellis

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray, IntArray

LEAVES = 9
ORDERS: tuple[Order, ...] = ("norm", "random", "traversal")
SOURCES = ("simulator", "beam search")
N_TEST, SIZES = 100, (1, 3, 10, 30, 100, 200, 500, 1000, 1500, 3000, 10_000)
RESAMPLED = 300  # sets of test jets
SMALL_N_TEST, SMALL_SIZES = 8, (10, 30, 100, 300)


class SparsePoint(NamedTuple):
    """A trellis, and the MAP found in it for every test jet."""

    n_jets: int
    """Jets that the trellis was built on."""
    n_clusters: int
    sparsity: float
    gains: FloatArray
    """MAP - greedy of each test jet; -inf where the trellis has no tree of non-zero weight."""

    @property
    def found(self) -> float:
        """Share of the jets that have a tree of non-zero weight in the trellis."""
        return float(np.isfinite(self.gains).mean())

    @property
    def gain(self) -> float:
        """Mean of MAP - greedy over those jets."""
        some = self.gains[np.isfinite(self.gains)]
        return float(some.mean()) if len(some) > 0 else np.nan

    @property
    def error(self) -> float:
        """Standard error of that mean."""
        some = self.gains[np.isfinite(self.gains)]
        return float(some.std(ddof=1) / np.sqrt(len(some))) if len(some) > 1 else np.nan


@dataclass(frozen=True)
class Baselines:
    """Means over the test jets, relative to greedy."""

    beam: float
    exact: float


@dataclass(frozen=True)
class SparseStudy:
    """MAP against sparsity for each source of trees and order of leaves.

    Attributes
    ----------
    beam, exact : float64 arrays, shape (jets,)
        Log likelihood of the trees of beam search and of the best trees, relative to greedy.
    curves : dict
        By source of trees and order of leaves.
    """

    beam: FloatArray
    exact: FloatArray
    curves: dict[tuple[str, str], list[SparsePoint]]

    @property
    def n_test(self) -> int:
        """Number of test jets."""
        return len(self.beam)

    @property
    def baselines(self) -> Baselines:
        """Means of beam search and of the exact answer."""
        return Baselines(float(self.beam.mean()), float(self.exact.mean()))

    def crossing(self, source: str, order: str, jets: IntArray | None = None) -> float | None:
        """The sparsity at which a curve passes beam search, interpolated; None if it does not.

        By default for the mean over all test jets; `jets` may select some, or some repeatedly.
        """
        chosen = np.arange(self.n_test) if jets is None else jets
        before: tuple[float, float] | None = None
        for point in self.curves[source, order]:
            lead = float((point.gains - self.beam)[chosen].mean())
            if lead >= 0:
                return point.sparsity if before is None else _zero(before, (point.sparsity, lead))
            before = (point.sparsity, lead) if np.isfinite(lead) else None
        return None

    def crossing_range(self, source: str, order: str) -> tuple[float, float] | None:
        """Where the crossing is in two thirds of resampled sets of test jets."""
        rng = np.random.default_rng(0)
        draws = rng.integers(self.n_test, size=(RESAMPLED, self.n_test))
        found = [self.crossing(source, order, jets) for jets in draws]
        crossings = [at for at in found if at is not None]
        if len(crossings) < RESAMPLED:
            return None
        low, high = (float(np.quantile(crossings, q)) for q in (1 / 6, 5 / 6))
        return low, high


_done: dict[tuple[Size, int], SparseStudy] = {}


def study_of_size(size: Size, seed: int, tell: Tell) -> SparseStudy:
    """The study, small or as large as in the paper; made once for all experiments that show it."""
    if (size, seed) not in _done:
        n_test, sizes = (N_TEST, SIZES) if size == "full" else (SMALL_N_TEST, SMALL_SIZES)
        _done[size, seed] = study(n_test, sizes, seed, tell)
    return _done[size, seed]


def gain_at(points: Sequence[SparsePoint], sparsity: float) -> float:
    """Where a curve is at a sparsity, interpolated in its logarithm."""
    logs = np.log([point.sparsity for point in points])
    return float(np.interp(np.log(sparsity), logs, [point.gain for point in points]))


def _zero(one: tuple[float, float], other: tuple[float, float]) -> float:
    """Where the line between two points (sparsity, lead), in log sparsity, is 0."""
    share = -one[1] / (other[1] - one[1])
    return float(one[0] * (other[0] / one[0]) ** share)


def study(
    n_test: int = N_TEST,
    sizes: Sequence[int] = SIZES,
    seed: int = 1,
    tell: Tell = silent,
) -> SparseStudy:
    """Build trellises on more and more jets of 9 leaves, and apply them to other jets.

    Parameters
    ----------
    n_test : int
        Jets that the trellises are applied to.
    sizes : sequence of int
        Numbers of jets to build on.
    seed : int
    tell : callable
        Called with a text that says what is going on.
    """
    rng = np.random.default_rng(seed)
    train = simulate.ginkgo(max(sizes), n_leaves=LEAVES, rng=rng)
    tests = [jet.potential() for jet in simulate.ginkgo(n_test, n_leaves=LEAVES, rng=rng)]
    greedy_weights = np.array([model.log_weight(greedy(model)) for model in tests])
    beams = [beam_search(model)[0] for model in tests]
    beam_weights = np.array([m.log_weight(tree) for m, tree in zip(tests, beams, strict=True)])
    exact = np.array([infer(model).map_log_weight for model in tests])
    curves = {}
    for source in SOURCES:
        tell(f"trees by the {source} on {len(train):,} jets")
        trees = [_tree(source, jet) for jet in train]
        for order in ORDERS:
            places = [
                order_leaves(model, tree, order, rng)
                for model, tree in zip(tests, beams, strict=True)
            ]
            points = []
            for n_jets, trellis in _trellises(train, trees, order, sizes, rng):
                maps = [_map_log_weight(model, trellis, places[i]) for i, model in enumerate(tests)]
                gains = np.array(maps) - greedy_weights
                points.append(SparsePoint(n_jets, trellis.n_clusters, trellis.sparsity, gains))
                tell(f"{source}, {order}, {n_jets} jets: sparsity {trellis.sparsity:.3g}")
            curves[source, str(order)] = points
    return SparseStudy(beam_weights - greedy_weights, exact - greedy_weights, curves)


def _trellises(
    jets: simulate.Jets,
    trees: list[Tree],
    order: Order,
    sizes: Sequence[int],
    rng: np.random.Generator,
) -> Iterator[tuple[int, SparseTrellis]]:
    """Trellises built on the first jets, on more and more of them."""
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
