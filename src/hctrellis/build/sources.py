"""Sparse trellises from a simulator, from searches, and from SciPy's linkages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hctrellis.potentials.base import Potential
from hctrellis.support.checks import as_count, as_finite
from hctrellis.support.imports import ONE_AT_A_TIME
from hctrellis.support.keywords import renamed
from hctrellis.tree import Tree
from hctrellis.trellis.orders import Order, order_leaves, place
from hctrellis.trellis.sparse import Keep, SparseTrellis

if TYPE_CHECKING:
    from hctrellis.support.types import IntArray, Seed

METHODS = ("single", "complete", "average", "ward")


def from_simulator(
    jets: Iterable[Any], order: Order = "norm", splits: Keep = "observed", rng: Seed = None
) -> SparseTrellis:
    """The clusters and splits of the true trees of simulated data sets.

    Parameters
    ----------
    jets : sequence
        Data sets with equal numbers of leaves, each with a `tree` (and `momenta`, for
        ``order="norm"``), such as `hctrellis.simulate.ginkgo` returns.
    order : {"norm", "random", "traversal"} or function
        How the leaves of a data set are assigned to the places of the trellis.
    splits : {"observed", "all"}
    rng : None, int or numpy Generator
        For ``order="random"``.
    """
    generator = np.random.default_rng(rng)
    found = [place(jet.tree, order_leaves(jet, jet.tree, order, generator)) for jet in jets]
    return SparseTrellis.from_children(_stacked(found, "jets"), splits)


def from_beam_search(
    potentials: Potential | Sequence[Potential],
    width: int | None = None,
    n_best: int | None = None,
    order: Order | None = None,
    splits: Keep = "observed",
    rng: Seed = None,
) -> SparseTrellis:
    """The clusters and splits of the trees that beam search finds, on one data set or several.

    Parameters
    ----------
    potentials : Potential or sequence of Potential
    width : int, optional
        Width of the beam, see `hctrellis.beam_search`.
    n_best : int, optional
        Trees kept per data set; by default all that the beam ends with.
    order : {"norm", "random", "traversal"} or function, optional
        How the leaves of a data set are assigned to the places of the trellis; by default they
        stay in their order, which makes sense for one data set only.
    splits : {"observed", "all"}
    rng : None, int or numpy Generator
        For ``order="random"``.
    """
    from hctrellis.search import beam_search

    given = [potentials] if isinstance(potentials, Potential) else list(potentials)
    if order is None and len(given) > 1:
        raise ValueError(
            "the leaves of different data sets are matched by an order; give one, for instance "
            'order="norm"'
        )
    generator = np.random.default_rng(rng)
    found = []
    for potential in given:
        n = potential.n_leaves
        most = max(1, n * (n - 1) // 2) if width is None else as_count(width, "width")
        for tree in beam_search(potential, width=most, n_best=n_best or most):
            leaves = np.arange(n)
            if order is not None:
                leaves = order_leaves(potential, tree, order, generator)
            found.append(place(tree, leaves))
    return SparseTrellis.from_children(_stacked(found, "data sets"), splits)


def from_linkages(
    table: npt.ArrayLike,
    methods: Sequence[str] = METHODS,
    metric: str = "euclidean",
    splits: Keep = "all",
) -> SparseTrellis:
    """The clusters and splits of SciPy's linkages of a table under several methods."""
    return SparseTrellis.from_trees(_linkages(as_finite(table, "table"), methods, metric), splits)


@renamed(size="n_resamples")
def from_bootstrap(
    table: npt.ArrayLike,
    n_resamples: int = 100,
    methods: Sequence[str] = METHODS,
    metric: str = "euclidean",
    splits: Keep = "all",
    rng: Seed = None,
) -> SparseTrellis:
    """The same for a table and for resamples of it: as many columns, drawn with replacement."""
    rows = as_finite(table, "table")
    generator = np.random.default_rng(rng)
    trees = _linkages(rows, methods, metric)
    for _ in range(as_count(n_resamples, "n_resamples")):
        columns = generator.integers(0, rows.shape[1], rows.shape[1])
        trees += _linkages(rows[:, columns], methods, metric)
    return SparseTrellis.from_trees(trees, splits)


def _linkages(rows: npt.NDArray[np.float64], methods: Sequence[str], metric: str) -> list[Tree]:
    with ONE_AT_A_TIME:
        from scipy.cluster.hierarchy import linkage
        from scipy.spatial.distance import pdist

    if rows.ndim != 2 or rows.shape[0] < 2 or rows.shape[1] < 1:
        raise ValueError(f"table must have at least two rows, one per leaf; got shape {rows.shape}")
    distances = pdist(rows, metric)
    if not np.isfinite(distances).all():  # constant rows in a resampling, say
        distances = np.nan_to_num(distances, nan=np.nanmax(distances, initial=0.0))
    found = []
    for method in methods:
        euclidean = method in ("centroid", "median", "ward")
        found.append(Tree.from_linkage(linkage(rows if euclidean else distances, method)))
    return found


def _stacked(children: list[IntArray], what: str) -> IntArray:
    if not children:
        raise ValueError(f"expected some {what} to make a sparse trellis from; got none")
    sizes = {len(rows) + 1 for rows in children}
    if len(sizes) > 1:
        found = ", ".join(map(str, sorted(sizes)))
        raise ValueError(f"all {what} must have the same number of leaves; got {found}")
    return np.array(children)
