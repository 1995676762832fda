"""Greedy agglomeration: join the best pair of clusters, again and again."""

from __future__ import annotations

import numpy as np

from hctrellis.potentials.base import Potential
from hctrellis.search.model import PlainModel, SearchModel, room_for, search_model
from hctrellis.support.memory import check_fits
from hctrellis.support.steps import in_steps
from hctrellis.support.types import IntArray
from hctrellis.tree import Tree


def greedy(potential: Potential) -> Tree:
    """The tree made by always joining the two clusters with the largest psi.

    Among pairs with equal psi the first one is joined: clusters are ordered by their lowest leaf,
    pairs by their first and then by their second cluster. If all pairs that are left are forbidden
    the first of them is joined nevertheless, so there always is a tree; its log weight is -inf
    then (see `local_search` for a way out).

    Takes O(n^2) evaluations of psi and, as a rule, O(n^2) time: 2,000 leaves in a second.

    Parameters
    ----------
    potential : Potential

    Returns
    -------
    Tree

    Raises
    ------
    ValueError
        If a log weight is NaN or +inf; the message names the split.

    Examples
    --------
    >>> from hctrellis import Linkage
    >>> greedy(Linkage([[0.0], [1.0], [5.0], [5.5]], method="average"))
    Tree(4 leaves: ((0,1),(2,3)))
    """
    _, children = agglomerate(search_model(potential))
    return potential.with_heights(Tree(children, labels=potential.labels))


def agglomerate(model: SearchModel) -> tuple[float, IntArray]:
    """The log weight of the greedy tree, and its children as in `Tree`."""
    n = model.potential.n_leaves
    check_fits(8 * n * n * (1 + len(model.links)), f"all pairs of {n} leaves", "fewer leaves")
    children, total = np.empty((n - 1, 2), np.int64), np.zeros(1)
    state = (np.arange(n), np.arange(n), np.full(n, -1), np.zeros(n), np.empty((n, n)), total)
    arrays = (state, model.links.copy(), model.table(2 * n), model.arrays, room_for(n))
    kernel = model.kernel("greedy")
    fine = all(kernel.compare(*some, *arrays) for some in in_steps(0, n - 1)) and all(
        kernel.agglomerate(*some, *arrays, children) for some in in_steps(0, n - 1)
    )
    if not fine:
        return agglomerate(PlainModel(model.potential))  # which names the split
    return float(total[0]), children
