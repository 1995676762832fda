"""One tree for many: found by one of five rules, with heights and lengths of the sample."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np

from hctrellis.clades.distribution import CladeDistribution
from hctrellis.infer import infer
from hctrellis.posterior.summary import ConsensusTree
from hctrellis.potentials.constraint import Rewards
from hctrellis.runs.annotated import PROBABILITY, AnnotatedTree, Value
from hctrellis.support.types import BoolArray
from hctrellis.tree import Tree
from hctrellis.treefiles.runs import ULTRAMETRIC, TreeRuns
from hctrellis.trellis.numbered import NumberedTrees, number_trees

if TYPE_CHECKING:
    from hctrellis.posterior.posterior import Posterior
    from hctrellis.support.types import FloatArray, IntArray

Kind = Literal["map", "majority", "mcc", "hipstr", "expected"]
Heights = Literal["auto", "common", "mean", "lengths"]
LEVEL = 0.95
TREES_AT_ONCE = 1 << 12  # whose heights are computed together

KINDS = {
    "map": "the most probable tree of the clade distribution",
    "majority": "all clusters of probability above one half",
    "mcc": "the sampled tree with the largest product of cluster probabilities",
    "hipstr": "the tree with the largest product of cluster probabilities",
    "expected": "the tree with the largest expected number of correct clusters",
}


def summary_tree(
    trees: Iterable[Tree],
    kind: Kind = "map",
    *,
    post: Posterior | None = None,
    model: str = "ccd1",
    smoothing: float = 0.0,
    heights: Heights | None = "auto",
    threshold: float = 0.5,
) -> AnnotatedTree:
    """One tree that sums up a sample of trees, with lengths, intervals and probabilities.

    Parameters
    ----------
    trees : TreeRuns or iterable of Tree
    kind : {"map", "majority", "mcc", "hipstr", "expected"}
        Which tree:

        - "map": the most probable tree of the clade distribution, sampled or not;
        - "majority": the clusters of probability above `threshold`; not binary where the sample
          does not agree;
        - "mcc": the sampled tree with the largest product of the probabilities of its clusters
          (maximum clade credibility);
        - "hipstr": the tree with the largest product, put together from sampled splits;
        - "expected": the same with the largest sum, the expected number of correct clusters.
    post : Posterior, optional
        Of a `CladeDistribution` of these trees; made, if it is not given, with `model` and
        `smoothing`.
    heights : {"auto", "common", "mean", "lengths"} or None
        "common": a node is as high as the last common ancestor of its leaves, in the mean over all
        trees, so that no branch is negative; "mean": the mean over the trees that have the cluster;
        "lengths": the mean length of the branch above, over the trees that have the cluster.
        "auto" takes "common" if lengths are times (all leaves of each tree are equally deep), else
        "lengths". None writes no lengths.
    threshold : float
        Of "majority".

    Returns
    -------
    AnnotatedTree
        With ``posterior`` for each cluster, ``height`` or ``length`` with 95 % intervals of highest
        density, and the means and intervals of all numbers that the nodes of the trees have.

    Examples
    --------
    >>> texts = ["((a:1,b:1):1,c:2);"] * 3 + ["(a:3,(b:2,c:2):1);"]
    >>> trees = [Tree.from_newick(text) for text in texts]
    >>> tree = summary_tree(trees, "mcc")
    >>> tree.to_newick()
    '((a:1.5,b:1.5)0.75:0.75,c:2.25);'
    """
    runs = TreeRuns.from_trees(trees).counted()
    if runs.n_leaves < 2:
        raise ValueError("trees of one leaf need no summary; give trees of two leaves or more")
    if kind not in get_args(Kind):
        raise ValueError(f"kind must be one of {', '.join(get_args(Kind))}; got {kind!r:.80}")
    if heights is not None and heights not in get_args(Heights):
        raise ValueError(f"heights must be one of {get_args(Heights)} or None; got {heights!r:.80}")
    if post is None:
        post = infer(CladeDistribution(runs, model=model, smoothing=smoothing))
    numbered = number_trees(runs.children)
    shape = _shape(runs, numbered, post, kind, threshold)
    nodes = _Nodes.of(shape.children(), runs.n_leaves)
    measures = _measures(runs, numbered, nodes, heights)
    support = {mask: post.cluster_probability(mask) for mask in nodes.masks}
    return _annotated(runs, nodes, support, measures, KINDS[kind])


# ---- which tree -------------------------------------------------------------------------------


def _shape(
    runs: TreeRuns, numbered: NumberedTrees, post: Posterior, kind: Kind, threshold: float
) -> ConsensusTree:
    """The clusters of the tree that is asked for."""
    if kind == "majority":
        return post.consensus_tree(threshold)
    if kind == "map":
        tree = post.map_tree
    elif kind == "expected":
        tree = post.expected_clusters_tree()
    elif kind == "hipstr":
        tree = _highest(runs, numbered)
    else:
        tree = runs[_most_credible(runs, numbered)]
    return ConsensusTree(runs.labels, dict.fromkeys(tree.clusters(), 1.0))


def _log_frequencies(runs: TreeRuns, numbered: NumberedTrees) -> FloatArray:
    found: FloatArray = np.log(numbered.cluster_weights(runs.shares) / runs.shares.sum())
    return found


def _most_credible(runs: TreeRuns, numbered: NumberedTrees) -> int:
    """The number of the tree with the largest product of the frequencies of its clusters."""
    from hctrellis.kernels.numbering import add_up

    scores = np.empty(len(runs))
    add_up(numbered.splits, _log_frequencies(runs, numbered)[numbered.parents], scores)
    return int(np.argmax(scores))


def _highest(runs: TreeRuns, numbered: NumberedTrees) -> Tree:
    """The same among all trees that can be put together from splits of the sample."""
    from hctrellis.trellis.sparse import SparseTrellis

    rewards = Rewards(runs.labels, _log_frequencies(runs, numbered))
    return SparseTrellis(numbered.vertices).solve(rewards).map_tree


# ---- where its nodes are in the sample --------------------------------------------------------


class _Nodes(NamedTuple):
    """The internal nodes of a summary tree, parts first, the root last."""

    masks: list[int]
    children: dict[int, list[int]]
    offsets: IntArray
    members: IntArray

    @classmethod
    def of(cls, children: dict[int, list[int]], n: int) -> _Nodes:
        masks = sorted(children, key=int.bit_count)
        number = {1 << leaf: leaf for leaf in range(n)}
        number |= {mask: n + k for k, mask in enumerate(masks)}
        parts = [[number[part] for part in children[mask]] for mask in masks]
        offsets = np.cumsum([0, *map(len, parts)])
        members = np.array([part for some in parts for part in some], np.int64)
        return cls(masks, children, offsets, members)


class _Measure(NamedTuple):
    """A number for each node of a summary tree, with an interval."""

    name: str
    values: dict[int, float]
    intervals: dict[int, tuple[float, float]]


def _measures(
    runs: TreeRuns, numbered: NumberedTrees, nodes: _Nodes, heights: Heights | None
) -> list[_Measure]:
    """What the sample says about the nodes: heights or lengths first, then all notes."""
    n = runs.n_leaves
    rows = _rows(numbered, nodes.masks)
    singles = {1 << leaf: leaf for leaf in range(n)}
    weights = runs.shares

    def of_trees(name: str, table: FloatArray, with_root: bool = True) -> _Measure:
        """The mean over the trees that have a cluster; column k of a table is node k."""
        columns: dict[int, tuple[FloatArray, FloatArray]] = {}
        for mask, leaf in singles.items():
            columns[mask] = table[:, leaf], weights
        for k, mask in enumerate(nodes.masks):
            if with_root or mask != nodes.masks[-1]:
                there = np.flatnonzero(rows[:, k] >= 0)
                columns[mask] = table[there, n + rows[there, k]], weights[there]
        return _measure(name, columns)

    if runs.lengths is None or heights is None:
        return [of_trees(name, table) for name, table in runs.notes.items()]
    found, lengths, how = [], runs.lengths, heights
    if how == "auto":
        how = "common" if runs.is_clock else "lengths"
    if how in ("common", "mean") and np.isnan(lengths[:, :-1]).any():
        raise ValueError(
            'some branches have no length, so nodes have no heights; use heights="lengths" or None'
        )
    if how == "lengths":
        found.append(of_trees("length", lengths, with_root=False))
    elif how == "mean":
        found.append(of_trees("height", _at_bottom(runs.node_heights(), n)))
    elif how == "common":
        found.append(_common(runs, nodes))
    return found + [of_trees(name, table) for name, table in runs.notes.items()]


def _rows(numbered: NumberedTrees, masks: list[int]) -> Any:
    """In which row each tree has each of some clusters, -1 where it has none."""
    from hctrellis.kernels.heights import rows_with

    which = np.full(len(numbered.vertices) + 1, -1)  # the last one for those that no tree has
    which[numbered.vertices.find_all(masks)] = np.arange(len(masks))
    which[-1] = -1
    rows = np.empty((len(numbered.splits), len(masks)), np.int32)
    rows_with(numbered.splits, which[numbered.parents], rows)
    return rows


def _common(runs: TreeRuns, nodes: _Nodes) -> _Measure:
    """The heights of last common ancestors, over all trees."""
    from hctrellis.kernels.heights import ancestor_heights, node_heights

    n, lengths = runs.n_leaves, runs.lengths
    assert lengths is not None
    found, leaves = np.empty((len(runs), len(nodes.masks))), np.empty((len(runs), n))
    for start in range(0, len(runs), TREES_AT_ONCE):
        some = slice(start, start + TREES_AT_ONCE)
        heights = np.empty((len(leaves[some]), 2 * n - 1))
        node_heights(runs.children[some], lengths[some], heights)
        ancestor_heights(runs.children[some], heights, nodes.offsets, nodes.members, found[some])
        leaves[some] = _at_bottom(heights, n)[:, :n]
    columns = {1 << leaf: (leaves[:, leaf], runs.shares) for leaf in range(n)}
    columns |= {mask: (found[:, k], runs.shares) for k, mask in enumerate(nodes.masks)}
    return _measure("height", columns)


def _at_bottom(heights: FloatArray, n: int) -> FloatArray:
    """Heights with leaves at 0 where they are but for rounding."""
    near = heights[:, :n] <= ULTRAMETRIC * np.abs(heights[:, -1:])
    if near.all():
        heights[:, :n] = 0.0
    return heights


def _measure(name: str, columns: dict[int, tuple[FloatArray, FloatArray]]) -> _Measure:
    values, intervals = {}, {}
    for mask, (column, weights) in columns.items():
        known: BoolArray = np.isfinite(column)
        if not known.any() or weights[known].sum() == 0:
            continue
        some, shares = column[known], weights[known]
        values[mask] = float(np.average(some, weights=shares))
        intervals[mask] = highest_density(some, shares)
    return _Measure(name, values, intervals)


def highest_density(
    values: FloatArray, weights: FloatArray, level: float = LEVEL
) -> tuple[float, float]:
    """The shortest interval that holds at least a share `level` of the values.

    Examples
    --------
    >>> highest_density(np.array([1.0, 2.0, 3.0, 9.0]), np.ones(4), 0.7)
    (1.0, 3.0)
    """
    order = np.argsort(values)
    ranked, shares = values[order], weights[order] / weights.sum()
    before = np.concatenate([[0.0], np.cumsum(shares)])
    ends = np.searchsorted(before, before[:-1] + level - 1e-9)  # ranked[start : ends] is enough
    starts = np.flatnonzero(ends <= len(ranked))
    widths = ranked[ends[starts] - 1] - ranked[starts]
    best = starts[int(np.argmin(widths))]
    return float(ranked[best]), float(ranked[ends[best] - 1])


# ---- the tree ---------------------------------------------------------------------------------


def _annotated(
    runs: TreeRuns,
    nodes: _Nodes,
    support: dict[int, float],
    measures: list[_Measure],
    rule: str,
) -> AnnotatedTree:
    notes: dict[int, dict[str, Value]] = {1 << leaf: {} for leaf in range(runs.n_leaves)}
    for mask in nodes.masks:
        notes[mask] = {PROBABILITY: support[mask]}
    for measure in measures:
        for mask, value in measure.values.items():
            if measure.name == "height" and value == 0:
                continue  # leaves, if all are at the bottom
            notes[mask][measure.name] = value
            notes[mask][f"{measure.name}_95%_HPD"] = measure.intervals[mask]
    lengths, heights = None, None
    first = measures[0] if measures else None
    if first is not None and first.name == "height":
        heights = first.values
        lengths = {
            part: heights[mask] - heights[part]
            for mask, parts in nodes.children.items()
            for part in parts
            if mask in heights and part in heights
        }
    elif first is not None and first.name == "length":
        lengths = first.values
    remarks = (f"{rule}, of {len(runs):,} trees", *_negative(lengths), *runs.remarks)
    return AnnotatedTree(runs.labels, nodes.children, lengths, heights, notes, remarks)


def _negative(lengths: dict[int, float] | None) -> Iterator[str]:
    low = [length for length in (lengths or {}).values() if length < 0]
    if low:
        yield (
            f"{len(low)} branches are negative, down to {min(low):.3g}, because mean heights come "
            'from different trees; heights="common" has none'
        )
