"""Beam search: greedy agglomeration with many partial clusterings side by side."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from hctrellis.potentials.base import Potential
from hctrellis.search.greedy import agglomerate
from hctrellis.search.model import PlainModel, SearchModel, room_for, search_model
from hctrellis.support.arrays import Forests, Joins
from hctrellis.support.checks import as_count
from hctrellis.support.logs import FORBIDDEN
from hctrellis.support.memory import check_fits
from hctrellis.support.steps import in_steps
from hctrellis.support.types import IntArray
from hctrellis.tree import Tree

Duplicates = Literal["clusters", "weight"]


def beam_search(
    potential: Potential,
    width: int | None = None,
    n_best: int = 1,
    duplicates: Duplicates = "clusters",
) -> list[Tree]:
    """The best trees found by a beam search.

    A state is a set of clusters formed so far; the search begins with the leaves alone. In each of
    n - 1 levels all joins of two clusters in all states are ranked by the log weight of the state
    they make, and the best `width` different ones are kept. (No more than the best `width` joins
    of one state can be among them.) Forbidden joins are made only if there are too few others.

    The tree of `greedy` takes part in the ranking at the end, so the first tree is never worse.

    Parameters
    ----------
    potential : Potential
    width : int, optional
        Number of states that are kept; n (n - 1) / 2 if not given. Time grows as width n^2 to
        width n^3 (depending on how much the states differ), memory as width n^2.
    n_best : int
        Number of trees to return.
    duplicates : {"clusters", "weight"}
        Which states count as the same: those with the same clusters, or, as in the paper, those
        with the same log weight.

    Returns
    -------
    list of Tree
        At most `n_best` different trees, the best first. Trees of weight 0 are left out, unless
        there is no other: then the list has one of them.

    Raises
    ------
    ValueError
        If a log weight is NaN or +inf; the message names the split.
    TooLargeError
        If the states do not fit into memory.

    References
    ----------
    S. Macaluso et al., Cluster trellis: data structures and algorithms for exact inference in
    hierarchical clustering, AISTATS 2021.

    Examples
    --------
    >>> from hctrellis import Linkage
    >>> model = Linkage([[0.0], [1.0], [2.1], [5.0]], method="average")
    >>> [round(model.energy(tree), 3) for tree in beam_search(model, n_best=2)]
    [6.567, 6.617]
    """
    model = search_model(potential)
    n = potential.n_leaves
    width = max(1, n * (n - 1) // 2) if width is None else as_count(width, "width")
    n_best = as_count(n_best, "n_best")
    if duplicates not in ("clusters", "weight"):
        raise ValueError(f'duplicates must be "clusters" or "weight"; got {duplicates!r:.80}')
    found = [agglomerate(model)]
    if n > 2:
        found += _search(model, width, n_best, duplicates == "weight")
    found.sort(key=lambda pair: -pair[0])
    possible = [pair for pair in found if pair[0] > -np.inf] or found[:1]
    trees = (Tree(children, labels=potential.labels) for _, children in possible)
    return [potential.with_heights(tree) for tree in [*dict.fromkeys(trees)][:n_best]]


def _search(
    model: SearchModel, width: int, n_best: int, by_weight: bool
) -> list[tuple[float, IntArray]]:
    """Log weights and children of the trees found."""
    n = model.potential.n_leaves
    _check_memory(model, width)
    forests, joins = _forests(model, width), _joins(n, width)
    children = np.empty((min(n_best, width), n - 1, 2), np.int64)
    table = model.table((width + 1) * n)
    kernel = model.kernel("beam")
    arrays = (table, model.arrays, room_for(n))
    fine = kernel.begin(forests, *arrays)
    for level in range(n - 1):
        n_states = int(joins.number[0]) if level > 0 else 1
        joins.number[0] = 0
        for some in in_steps(0, n_states):
            kernel.rank_joins(*some, n - level, forests, joins, by_weight)
        if level < n - 2:
            fine = fine and _advance(kernel, level, forests, arrays, joins)
        if not fine:
            return _search(PlainModel(model.potential), width, n_best, by_weight)  # names the split
    kernel.trace_all(joins, children)
    count = int(joins.number[0])
    totals = joins.totals[joins.rank[:count]]
    totals[totals < FORBIDDEN] = -np.inf
    return list(zip(totals.tolist(), children[:count], strict=False))


def _advance(kernel: Any, level: int, forests: Forests, arrays: Any, joins: Joins) -> bool:
    """Make the states of the next level; False if a log weight is NaN or +inf."""
    count = int(joins.number[0])
    states = joins.slots[joins.rank[:count], 0]
    uses = np.bincount(states, minlength=len(forests.live))
    free = np.append(np.flatnonzero(uses == 0), 0)
    return all(
        kernel.advance(*some, level, uses, free, forests, *arrays, joins)
        for some in in_steps(0, count)
    )


def _forests(model: SearchModel, width: int) -> Forests:
    """Room for the states, the first of which is the leaves."""
    n = model.potential.n_leaves
    links = np.zeros((width, *model.links.shape))
    links[0] = model.links
    codes = np.zeros((width, n), np.int64)
    codes[0] = model.codes()
    return Forests(
        live=np.zeros(width, np.int64),
        active=np.tile(np.arange(n), (width, 1)),
        links=links,
        log_psi=np.zeros((width, n, n)),
        codes=codes,
        keys=np.zeros(width, np.int64),
        totals=np.zeros(width),
    )


def _joins(n_leaves: int, width: int) -> Joins:
    return Joins(
        number=np.zeros(1, np.int64),
        rank=np.zeros(width, np.int64),
        totals=np.zeros(width),
        keys=np.zeros(width, np.int64),
        slots=np.zeros((width, 3), np.int64),
        history=np.zeros((n_leaves - 1, width, 3), np.int64),
    )


def _check_memory(model: SearchModel, width: int) -> None:
    n = model.potential.n_leaves
    needed = 8 * width * n * (n * (1 + len(model.links)) + model.table(n).shape[1] + 4)
    check_fits(needed, f"the {width} states of a beam search over {n} leaves", "a smaller width")
