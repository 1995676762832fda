"""Clade distributions with memory: how a cluster is split depends on what it was split from.

A vertex is a cluster with its context: its sibling, the sibling of its parent, and so on, up to so
many. With one sibling this is CCD2. A context that no tree has is cut, at its far end, to one that
some tree has. So the vertices are the contexts of the trees, of all lengths, and every tree of the
graph of clusters below has exactly one path through them.

Without smoothing, the probability of a split in a context is its share among the trees that have
the context, and only what was seen is possible. With smoothing, a context of which little was seen
leans on the next shorter one, in two ways. It may have probabilities of its own, drawn towards the
shorter context as if A further trees had been seen in it,

    own(split) = (trees(context, split) + A p(split | shorter)) / (trees(context) + A)

or just those of the shorter context; the trees tell which, by Bayes' rule at even odds:

    p(split | context) = w own(split) + (1 - w) p(split | shorter)

with w : 1 - w as the probability of the splits that were seen in the context if it has
probabilities of its own (a Dirichlet prior of weight A) is to that if it has not. This is how
context trees are weighed in data compression (Willems, Shtarkov and Tjalkens 1995).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from hctrellis.clades.graph import Graph
from hctrellis.support.imports import ONE_AT_A_TIME
from hctrellis.support.memory import check_fits
from hctrellis.tree import Tree
from hctrellis.trellis.numbered import NumberedTrees, find_splits, find_trees, totals
from hctrellis.trellis.sparse import SparseTrellis
from hctrellis.trellis.vertices import SparseVertices

if TYPE_CHECKING:
    from hctrellis.support.types import BoolArray, FloatArray, IntArray

BYTES_PER_EDGE = 150  # a split of a vertex, while the trellis is built
PSEUDO_TREES = 10.0  # A above


@dataclass(frozen=True, eq=False)
class ContextVertices(SparseVertices):
    """Vertices of which several may be the same cluster, in different contexts.

    Attributes
    ----------
    base : SparseVertices
        The clusters and splits without contexts.
    clusters : int64 array
        The number of the cluster of each vertex among those of `base`.
    base_splits : int64 array
        The number of each split among those of `base`; increasing for each vertex.
    """

    base: SparseVertices = field(repr=False)
    clusters: IntArray = field(repr=False)
    base_splits: IntArray = field(repr=False)

    @cached_property
    def by_cluster(self) -> IntArray:
        """The vertices, sorted by cluster."""
        return np.argsort(self.clusters, kind="stable")

    def copies(self, cluster: int) -> IntArray:
        """The vertices of a cluster of `base`."""
        order = self.clusters[self.by_cluster]
        start, stop = np.searchsorted(order, [cluster, cluster + 1])
        return self.by_cluster[start:stop]


@dataclass(frozen=True, eq=False, repr=False)
class ContextTrellis(SparseTrellis):
    """A sparse trellis whose vertices are clusters with contexts."""

    vertices: ContextVertices

    def __contains__(self, tree: object) -> bool:
        """Whether a tree is made of splits of this trellis (leaf i is leaf i here)."""
        if not isinstance(tree, Tree) or tree.n_leaves != self.n_leaves:
            return False
        zeros = np.zeros(self.n_splits)
        return bool(tree_sums(self.vertices, tree.children[None], zeros)[0] == 0)

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise ValueError(
            "a trellis of clusters with contexts belongs to its clade distribution and cannot be "
            'changed or saved; make one from trees, or use model="ccd1"'
        )

    union = reorder = restrict = save = add_trees = __or__ = _refuse

    def validate(self) -> None:
        """Check that the vertices stand for clusters, and their splits for splits of these."""
        v = self.vertices
        both = np.stack([v.clusters[v.lefts], v.clusters[v.rights]])
        if not (
            np.array_equal(v.words, v.base.words[v.clusters])
            and np.array_equal(both, [v.base.lefts[v.base_splits], v.base.rights[v.base_splits]])
        ):
            raise ValueError("not a trellis of contexts: its vertices do not match its clusters")


def tree_sums(vertices: ContextVertices, children: Any, values: FloatArray) -> FloatArray:
    """The sum of a value over the splits of trees, -inf for trees that are not there."""
    from hctrellis.kernels.contexts import walk_trees

    sums = np.empty(len(children))
    v, splits = vertices, find_trees(children, vertices.base)
    walk_trees(children, splits, v.offsets, v.lefts, v.rights, v.base_splits, values, sums)
    return sums


# ---- from trees to contexts -------------------------------------------------------------------


def with_contexts(
    graph: Graph,
    numbered: NumberedTrees,
    children: Any,
    shares: FloatArray,
    length: int,
    draws: float = math.inf,
) -> tuple[ContextTrellis, FloatArray]:
    """The trellis of contexts of up to `length` siblings, and the probability of each split.

    graph : without contexts; numbered, children, shares : the trees, and the share of each
    draws : the number of all trees, by which contexts are weighed; inf for no smoothing
    """
    v = graph.vertices
    splits = find_splits(numbered.vertices, v)[numbered.splits]
    above, side = _above(children)
    n_splits = len(v.lefts)
    degrees = np.diff(v.offsets)
    state = graph.parents[splits]
    states, backs = [np.arange(len(v))], [np.full(len(v), -1)]
    clusters, chances = [np.arange(len(v))], [graph.chances]
    starts = [v.offsets[:-1]]
    keys: list[IntArray] = []
    for _ in range(length):
        inside = (above >= 0) & (np.take_along_axis(state, above, 1) >= 0)
        up = np.take_along_axis(state, above, 1)
        up_split = np.take_along_axis(splits, above, 1)
        each = (up[inside] * n_splits + up_split[inside]) * 2 + side[inside]
        found, inverse = np.unique(each, return_inverse=True)
        if len(found) == 0:
            break
        fresh = np.full(state.shape, -1)
        fresh[inside] = inverse
        own = _child_clusters(v, found // 2 % n_splits, found % 2)
        begin = np.concatenate([[0], np.cumsum(degrees[own])])
        n_edges = sum(map(len, chances)) + int(begin[-1])
        check_fits(n_edges * BYTES_PER_EDGE, "the contexts of these trees", "a lower model")
        back = _shorter(found, keys, backs, clusters, v, n_splits)
        where = begin[inverse] + splits[inside] - v.offsets[own[inverse]]
        each_share = np.broadcast_to(shares[:, None], state.shape)[inside]
        counts = totals(where, each_share, int(begin[-1]))
        lower = _spread(starts[-1][back], degrees[own], chances[-1])
        chances.append(
            _estimated(counts, lower, np.repeat(np.arange(len(own)), degrees[own]), draws)
        )
        keys.append(found)
        backs.append(back)
        clusters.append(own)
        starts.append(begin[:-1])
        states.append(np.arange(len(found)))
        state = fresh
    return _assembled(graph, keys, backs, clusters, starts, chances, degrees, n_splits)


def _estimated(counts: FloatArray, lower: FloatArray, owners: IntArray, draws: float) -> FloatArray:
    """The probabilities of splits in contexts, see above.

    counts : the share of the trees that have the split in the context; owners : its context
    lower : the probabilities in the shorter contexts
    """
    size = int(owners[-1]) + 1
    whole = totals(owners, counts, size)
    if draws == math.inf:
        return np.asarray(counts / whole[owners])
    with ONE_AT_A_TIME:
        from scipy.special import expit, gammaln

    seen = np.flatnonzero(counts)
    trees, expected = draws * counts[seen], PSEUDO_TREES * lower[seen]
    apart = gammaln(trees + expected) - gammaln(expected) - trees * np.log(lower[seen])
    odds = totals(owners[seen], apart, size)
    odds += gammaln(PSEUDO_TREES) - gammaln(PSEUDO_TREES + draws * whole)
    few = PSEUDO_TREES / draws
    alone = (counts + few * lower) / (whole + few)[owners]
    return np.asarray(lower + expit(odds)[owners] * (alone - lower))


def _above(children: Any) -> tuple[IntArray, IntArray]:
    """The row of the parent of each row (-1: none), and which of its children it is."""
    m, rows = children.shape[:2]
    n = rows + 1
    above, side = np.full((m, rows), -1), np.zeros((m, rows), np.int64)
    for which in range(2):
        tree, row = np.nonzero(children[:, :, which] >= n)
        child = children[tree, row, which].astype(np.int64) - n
        above[tree, child], side[tree, child] = row, which
    return above, side


def _child_clusters(v: SparseVertices, splits: IntArray, side: IntArray) -> IntArray:
    return np.where(side == 0, v.lefts[splits], v.rights[splits])


def _spread(starts: IntArray, degrees: IntArray, values: FloatArray) -> FloatArray:
    """The values of some runs of an array, one after the other."""
    ends = np.cumsum(degrees)
    within = np.arange(int(ends[-1])) - np.repeat(ends - degrees, degrees)
    return np.asarray(values[np.repeat(starts, degrees) + within])


def _shorter(
    found: IntArray,
    keys: list[IntArray],
    backs: list[IntArray],
    clusters: list[IntArray],
    v: SparseVertices,
    n_splits: int,
) -> IntArray:
    """The states with their contexts cut by one, for new states of the next length."""
    if not keys:
        return _child_clusters(v, found // 2 % n_splits, found % 2)
    up = backs[-1][found // (2 * n_splits)]
    return np.searchsorted(keys[-1], up * (2 * n_splits) + found % (2 * n_splits))


def _assembled(
    graph: Graph,
    keys: list[IntArray],
    backs: list[IntArray],
    clusters: list[IntArray],
    starts: list[IntArray],
    chances: list[FloatArray],
    degrees: IntArray,
    n_splits: int,
) -> tuple[ContextTrellis, FloatArray]:
    """All states as one trellis: those that can be reached, children before parents."""
    from hctrellis.kernels import contexts as kernel

    v = graph.vertices
    firsts = np.cumsum([0, *map(len, clusters)])
    cluster = np.concatenate(clusters)
    back = np.concatenate([b + (firsts[k - 1] if k else 0) for k, b in enumerate(backs)])
    back[: firsts[1]] = -1
    order = np.repeat(np.arange(len(clusters)), np.diff(firsts))
    begin = np.concatenate([[0], np.cumsum(degrees[cluster])])
    chance = np.concatenate(chances)
    base = np.repeat(v.offsets[cluster] - begin[:-1], degrees[cluster]) + np.arange(begin[-1])
    chance = graph.mixed(chance, base)
    sides = []
    upper = np.repeat(np.arange(len(cluster)), degrees[cluster])
    longest = len(keys)
    shorter = np.where(order[upper] == longest, back[upper], upper) if longest else upper
    for side, children in enumerate((v.lefts, v.rights)):
        sides.append(
            _next_states(shorter, base, side, children[base], keys, back, order, firsts, n_splits)
        )
    alive = np.zeros(len(cluster), bool)
    root = v.root  # which has no context
    kernel.reach(root, begin, sides[0], sides[1], chance, v.n_leaves, alive)
    alive[: v.n_leaves] = True
    sizes = v.sizes[cluster]
    rank = np.lexsort((np.arange(len(cluster)), order, cluster, sizes))
    rank = rank[alive[rank]]
    number = np.full(len(cluster), -1)
    number[rank] = np.arange(len(rank))
    kept_degrees = degrees[cluster][rank]
    edges = _spread(begin[:-1][rank], kept_degrees, np.arange(begin[-1]))
    owner = np.repeat(np.arange(len(rank)), kept_degrees)
    possible = chance[edges] > 0
    edges, owner = edges[possible], owner[possible]
    offsets = np.searchsorted(owner, np.arange(len(rank) + 1))
    vertices = ContextVertices(
        v.n_leaves,
        v.words[cluster[rank]],
        offsets,
        number[sides[0][edges]],
        number[sides[1][edges]],
        v,
        cluster[rank],
        base[edges],
    )
    return ContextTrellis(vertices), chance[edges]


def _next_states(
    shorter: IntArray,
    splits: IntArray,
    side: int,
    child: IntArray,
    keys: list[IntArray],
    back: IntArray,
    order: IntArray,
    firsts: IntArray,
    n_splits: int,
) -> IntArray:
    """The state of a child after a split in a state: with the longest context that was seen."""
    found = child.copy()
    open_ = np.ones(len(child), bool)
    state = shorter.copy()
    for length in range(len(keys), 0, -1):
        here = np.flatnonzero(open_ & (order[state] == length - 1))
        sought = ((state[here] - firsts[length - 1]) * n_splits + splits[here]) * 2 + side
        at = np.searchsorted(keys[length - 1], sought).clip(max=len(keys[length - 1]) - 1)
        hit: BoolArray = keys[length - 1][at] == sought
        found[here[hit]] = firsts[length] + at[hit]
        open_[here[hit]] = False
        missed = here[~hit]
        lower = back[state[missed]]
        open_[missed[lower < 0]] = False
        state[missed] = np.where(lower < 0, state[missed], lower)
    return found
