"""Trees as data: the clade distributions of a sample of trees (CCD0, CCD1, CCD2 and beyond)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from hctrellis.clades.contexts import ContextTrellis, tree_sums, with_contexts
from hctrellis.clades.graph import Graph, by_clusters, observed, widened
from hctrellis.clusters import Cluster, Clusters, Vertices, asked_mask
from hctrellis.potentials.base import Described, Potential, Rows
from hctrellis.support.checks import as_positive
from hctrellis.support.imports import ONE_AT_A_TIME
from hctrellis.support.memory import check_fits
from hctrellis.support.types import BoolArray
from hctrellis.tree import Tree
from hctrellis.treefiles.runs import TreeRuns
from hctrellis.trellis.numbered import NumberedTrees, find_trees, number_trees, totals
from hctrellis.trellis.sparse import SparseTrellis
from hctrellis.trellis.vertices import packed

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray, IntArray

MOST_CONTEXT = 9
SMOOTHING = 1e-3  # where nothing can be left out to choose it
HELD_OUT = 5  # parts of a single run, each of which is left out once
MOST_STEPS = 4  # of smoothing, up or down
MOST_DRAWS = 1e6  # that weights may stand for: programs write them with six digits
_MODEL = re.compile(r"ccd(\d)")


class CladeDistribution(Potential):
    """A distribution over trees that is put together from the clusters and splits of a sample.

    The weights of all trees sum to one (log Z = 0). It gives a probability also to trees that were
    not in the sample: those that can be put together from what the sample has. It has its own
    `trellis`, which holds exactly the trees of positive probability, and `hctrellis.infer` uses it.

    Parameters
    ----------
    trees : iterable of Tree, or TreeRuns
        Over the same labels, for instance draws of a Bayesian phylogenetics program
        (`hctrellis.read_trees`).
    weights : array_like of float, optional
        How much each tree counts: a tree of weight 2 counts as if it were given twice, and only
        the ratios of weights matter. By default the weights that the trees have, else all are
        equal.
    model : {"ccd1", "ccd0", "ccd2", "ccd3", ...}
        What the probability of a tree is the product of:

        - "ccd1": how often a cluster is split so, among the trees that have the cluster;
        - "ccd0": how often its clusters occur, normalised over all trees of such clusters. Fewest
          parameters: for few trees over many leaves;
        - "ccd2": how often a cluster is split so, among the trees that have it next to the same
          sibling; "ccd3" looks at the sibling of the parent too, and so on up to "ccd9": closer to
          the sample, further from independence. "ccd5" with smoothing="auto" is the closest to
          long runs of the data sets that were tried (benchmarks/RESULTS.md).
    smoothing : float or "auto"
        From 0 to below 1. Above 0, this share of every split of a cluster that all trees have (and
        more for clusters that fewer have) goes to splits that no tree has: those between clusters
        of the trees, or with clusters that are one interchange of neighbours away. And in "ccd2"
        and beyond, the splits in a context lean on those in a shorter one where little was seen,
        or where they do not differ. "auto" takes the value that gives trees that were left out
        the highest probability: one run in turn, or one of five parts of a single run. A single
        file of trees with weights has no parts, and 0.001 is taken.

    Attributes
    ----------
    trellis : SparseTrellis
    n_observed : int
        Number of trees given, without those of weight 0.
    n_draws : int or None
        The number of trees behind the frequencies: the sum of the weights if all are whole numbers.
        None for other weights, which do not tell how many trees were drawn.

    References
    ----------
    B. Larget, The estimation of tree posterior probabilities using conditional clade probability
    distributions, Syst. Biol. 62, 2013.
    C. Zhang and F. A. Matsen IV, Generalizing tree probability estimation via Bayesian networks,
    NeurIPS 2018.
    L. Berling and others, Accurate Bayesian phylogenetic point estimation using a tree distribution
    parameterized by clade probabilities, PLoS Comput. Biol. 21, 2025.

    Examples
    --------
    >>> import hctrellis as hct
    >>> trees = [hct.Tree.from_newick(text) for text in ("((a,b),c);", "((a,b),c);", "((a,c),b);")]
    >>> post = hct.infer(CladeDistribution(trees))
    >>> round(post.cluster_probability(["a", "b"]), 4), post.map_tree
    (0.6667, Tree(3 leaves: ((a,b),c)))
    >>> model = CladeDistribution(trees, weights=[0.7, 0.2, 0.1])
    >>> round(hct.infer(model).cluster_probability(["a", "b"]), 4)
    0.9
    """

    has_energy = False
    trellis: SparseTrellis

    def __init__(
        self,
        trees: Iterable[Tree],
        weights: npt.ArrayLike | None = None,
        model: str = "ccd1",
        smoothing: float | Literal["auto"] = 0.0,
    ) -> None:
        context = _as_context(model)
        given = TreeRuns.from_trees(trees, weights).counted()
        if smoothing == "auto":
            smoothing = best_smoothing(given, model)
        share = as_positive(smoothing, "smoothing", zero=True)
        if share >= 1:
            raise ValueError(f"smoothing is a share, from 0 to below 1; got {share:g}")
        _check_size(given.n_leaves, 2 * given.n_leaves - 1)
        numbered = number_trees(given.children)
        _check_size(given.n_leaves, len(numbered.vertices))
        counts = given.shares
        self.labels = given.labels
        self.model = model
        self.smoothing = share
        self.n_observed = len(given)
        self._total = float(counts.sum())
        self.n_draws = int(self._total) if (counts % 1 == 0).all() else None
        self._seen = observed(numbered, counts)
        graph = widened(self._seen, share) if share > 0 else self._seen
        if context == 0:
            graph = by_clusters(graph)
        self.trellis, chances = SparseTrellis(graph.vertices), graph.mixed(graph.chances)
        if context > 1:
            draws = self._draws(counts) if share > 0 else math.inf
            self.trellis, chances = _contexts(graph, numbered, given, context - 1, draws)
        with np.errstate(divide="ignore"):
            self._logs: FloatArray = np.log(chances)

    def _draws(self, counts: FloatArray) -> float:
        """The number of trees that were drawn, or a guess: the tree of the least weight is one."""
        return float(self.n_draws or min(self._total / counts.min(), MOST_DRAWS))

    # ---- what the sample says -----------------------------------------------------------------

    def seen(self, items: Cluster) -> float:
        """The total weight of the trees that have a cluster; without weights, their number."""
        mask = asked_mask(items, {name: i for i, name in enumerate(self.labels)}, self.n_leaves)
        if mask.bit_count() == 1:
            return self._total
        cluster = self._seen.vertices.find(mask)
        return float(self._times[cluster]) if cluster >= 0 else 0.0

    @cached_property
    def _times(self) -> FloatArray:
        """The total weight of the trees that have a cluster, for each."""
        seen = self._seen
        times = totals(seen.parents, seen.counts * self._total, len(seen.vertices))
        return times if self.n_draws is None else np.round(times)

    def interval(self, items: Cluster, level: float = 0.95) -> tuple[float, float] | None:
        """An interval for the probability of a cluster, if the trees are independent draws.

        Jeffreys' interval for a frequency among `n_draws` trees; None if that number is not known.

        Examples
        --------
        >>> tree = Tree.from_newick("((a,b),c);")
        >>> low, high = CladeDistribution([tree] * 200).interval(["a", "b"])
        >>> round(low, 3), high
        (0.988, 1.0)
        """
        with ONE_AT_A_TIME:
            from scipy.special import betaincinv

        if self.n_draws is None:
            return None
        seen, tail = self.seen(items), (1 - level) / 2
        missed = self.n_draws - seen
        low = betaincinv(seen + 0.5, missed + 0.5, tail) if seen > 0 else 0.0
        high = betaincinv(seen + 0.5, missed + 0.5, 1 - tail) if missed > 0 else 1.0
        return float(low), float(high)

    def log_probabilities(self, trees: Iterable[Tree]) -> FloatArray:
        """The log probability of each of some trees; -inf for those that are not possible.

        Examples
        --------
        >>> trees = [Tree.from_newick("((a,b),c);"), Tree.from_newick("((a,c),b);")]
        >>> np.exp(CladeDistribution(trees, weights=[3, 1]).log_probabilities(trees))
        array([0.75, 0.25])
        """
        given = TreeRuns.from_trees(trees)
        if given.labels != self.labels:
            given = TreeRuns.from_trees([self.align(tree) for tree in given])
        return self._sums(given.children)

    def _sums(self, children: Any) -> FloatArray:
        from hctrellis.kernels.numbering import add_up

        if isinstance(self.trellis, ContextTrellis):
            return tree_sums(self.trellis.vertices, children, self._logs)
        sums = np.empty(len(children))
        add_up(find_trees(children, self.trellis.vertices), self._logs, sums)
        return sums

    # ---- the contract of a potential ----------------------------------------------------------

    def sums(self) -> None:
        return None

    def code(self) -> None:
        return None

    def log_weight(self, tree: Tree) -> float:
        return float(self._sums(self.align(tree).children[None])[0])

    def describe(self, clusters: Clusters) -> Described:
        """The number of each cluster in the trellis of this distribution."""
        own = self.trellis.vertices
        if clusters is own:
            return Described([np.arange(len(own), dtype=float)])
        if isinstance(self.trellis, ContextTrellis):
            raise ValueError(
                f"{self.model} weighs a split by what is next to it, so it has a trellis of its "
                'own; use infer(model), or model="ccd1" on other trellises'
            )
        return Described([own.find_words(packed(clusters.members)).astype(float)])

    def evaluate(
        self, left: Rows, right: Rows, parent: Rows, root: bool, single: BoolArray, cross: Any
    ) -> FloatArray:
        one, other, above = (np.asarray(rows[0]).astype(np.int64) for rows in (left, right, parent))
        return self._lookup(above, one, other)

    def weigh_numbered(self, vertices: Vertices, parents: IntArray, lefts: IntArray) -> FloatArray:
        if vertices is not self.trellis.vertices:
            return super().weigh_numbered(vertices, parents, lefts)
        return self._lookup(parents, lefts, lefts)

    def _lookup(self, parents: IntArray, one: IntArray, other: IntArray) -> FloatArray:
        """Log psi of splits by the numbers of their clusters; `one` or `other` is the left one."""
        keys, order = self._keys
        size, known = len(self.trellis.vertices), (parents >= 0) & (one >= 0) & (other >= 0)
        found = np.full(known.shape, -np.inf)
        for side in (one, other):
            wanted = parents * size + side
            at = np.searchsorted(keys, wanted).clip(max=max(0, len(keys) - 1))
            hit = known & (keys[at] == wanted)
            found[hit] = self._logs[order[at[hit]]]
        return found

    @cached_property
    def _keys(self) -> tuple[IntArray, IntArray]:
        """Sorted keys of the splits, by parent and left child, and where these splits are."""
        triples = self.trellis.vertices.triples()
        keys = triples[:, 0] * len(self.trellis.vertices) + triples[:, 1]
        order = np.argsort(keys)
        return keys[order], order

    def _details(self) -> str:
        smoothed = f", smoothing {self.smoothing:g}" if self.smoothing else ""
        model = "" if self.model == "ccd1" else f", {self.model}"
        return f", {self.n_observed} trees{model}{smoothed}"


def best_smoothing(runs: TreeRuns, model: str) -> float:
    """The smoothing by which the trees that are left out are most probable.

    One run is left out in turn, or, of a single run, one of five parts. Steps are by the square
    root of ten, up or down from 0.001 as long as that helps. Trees that are not possible count as
    if they had a probability of 2e-16.
    """
    parts = [np.flatnonzero(runs.runs == k) for k in range(runs.n_runs)]
    if runs.n_runs == 1:
        if runs.weights is not None or len(runs) < 2:
            return SMOOTHING
        parts = np.array_split(np.arange(len(runs)), min(HELD_OUT, len(runs)))
    pairs = [(runs.some(np.setdiff1d(np.arange(len(runs)), part)), part) for part in parts]

    def score(power: int) -> float:
        share, total = SMOOTHING * 10 ** (power / 2), 0.0
        for rest, part in pairs:
            logs = CladeDistribution(rest, model=model, smoothing=share)._sums(runs.children[part])
            total += float(runs.shares[part] @ np.maximum(logs, math.log(np.finfo(float).eps)))
        return total

    scores = {power: score(power) for power in (-1, 0, 1)}
    while True:
        best = max(scores, key=lambda power: (scores[power], -abs(power)))
        beyond = best + 1 if best == max(scores) else best - 1
        if beyond in scores or abs(beyond) > MOST_STEPS:
            return float(SMOOTHING * 10 ** (best / 2))
        scores[beyond] = score(beyond)


def _as_context(model: object) -> int:
    match = _MODEL.fullmatch(model) if isinstance(model, str) else None
    if match is None or int(match[1]) > MOST_CONTEXT:
        raise ValueError(f'model must be "ccd1", "ccd0", "ccd2", ... or "ccd9"; got {model!r:.80}')
    return int(match[1])


def _contexts(
    graph: Graph, numbered: NumberedTrees, given: TreeRuns, length: int, draws: float
) -> tuple[ContextTrellis, FloatArray]:
    """The trellis of contexts of so many siblings; equal trees are taken together."""
    _, first, inverse = np.unique(numbered.splits, axis=0, return_index=True, return_inverse=True)
    shares = totals(inverse.ravel(), given.shares / given.shares.sum(), len(first))
    some = NumberedTrees(numbered.vertices, numbered.splits[first])
    return with_contexts(graph, some, given.children[first], shares, length, draws)


def _check_size(n_leaves: int, n_clusters: int) -> None:
    """Refuse clusters whose leaves, a byte for each, do not fit in memory."""
    what = f"{n_clusters} clusters of {n_leaves} leaves"
    check_fits(2 * n_leaves * n_clusters, what, "fewer trees, or trees of fewer leaves")
