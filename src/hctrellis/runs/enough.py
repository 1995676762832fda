"""Are these runs enough? Agreement between runs, effective numbers of trees, rogue leaves."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hctrellis.clades.distribution import CladeDistribution
from hctrellis.clusters import mask_labels
from hctrellis.infer import infer
from hctrellis.support.types import Seed
from hctrellis.tree import Tree
from hctrellis.treefiles.runs import TreeRuns
from hctrellis.trellis.numbered import NumberedTrees, number_trees, totals
from hctrellis.trellis.vertices import SparseVertices, leaf_words

if TYPE_CHECKING:
    from hctrellis.posterior.posterior import Posterior
    from hctrellis.support.types import FloatArray, IntArray

LEAST_FREQUENCY = 0.1  # of a cluster in some run, to count in the mean deviation
AGREE, NEARLY = 0.01, 0.05  # mean deviations below which runs agree, or nearly
FAR = 0.2  # a difference of frequencies that needs an explanation
SAME = 1e-9  # an entropy below which all trees are the same, but for rounding
ENOUGH = 200  # effective trees of each run
FOCAL_TREES = 20  # from which distances are taken
ROGUE = 0.02  # gain of mean support that makes a leaf a rogue
MOST_ROGUES = 5
MOST_DIFFERENCES = 10


class Difference(NamedTuple):
    """A cluster whose frequency differs between runs: in each run, the least and the greatest."""

    cluster: frozenset[str]
    frequencies: tuple[float, ...]

    @property
    def low(self) -> float:
        """The least frequency."""
        return min(self.frequencies)

    @property
    def high(self) -> float:
        """The greatest frequency."""
        return max(self.frequencies)


class Rogue(NamedTuple):
    """A leaf, and how far the mean support of the majority tree rises without it."""

    label: str
    gain: float


@dataclass(frozen=True)
class RunReport:
    """What several runs say about each other; made by `compare_runs`.

    Attributes
    ----------
    names : tuple of str
        Of the runs.
    sizes : tuple of int
        Trees of each run.
    asdsf : float or None
        Average standard deviation of the frequencies of clusters between runs, over the clusters
        with a frequency of 0.1 or more in some run. None for a single run.
    differences : tuple of Difference
        The clusters on which runs differ most, at most ten, the worst first.
    divergence : float or None
        The largest Kullback-Leibler divergence of the clade distribution of a run from that of all
        runs together, in nats.
    ess : tuple of float, or None
        Effective number of independent trees of each run: the least over 20 trees of the run of
        that of the distances to this tree; their number if all trees of a run are the same. None
        if trees have weights and so no order.
    entropy : float
        Of the clade distribution of all runs, in nats.
    rogues : tuple of Rogue
        Leaves without which the trees agree better, the worst first.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    asdsf: float | None
    differences: tuple[Difference, ...]
    divergence: float | None
    ess: tuple[float, ...] | None
    entropy: float
    rogues: tuple[Rogue, ...]

    @property
    def largest(self) -> Difference | None:
        """The cluster on which runs differ most."""
        return self.differences[0] if self.differences else None

    @property
    def enough(self) -> bool | None:
        """Whether the runs are enough, by the usual rules; None if that cannot be told."""
        short = self.ess is not None and min(self.ess) < ENOUGH
        apart = self.asdsf is not None and self.asdsf >= AGREE
        far = self.largest is not None and self.largest.high - self.largest.low >= FAR
        if short or apart or far:
            return False
        return None if self.asdsf is None else True

    @property
    def verdict(self) -> str:
        """The answer in plain words."""
        return " ".join(self._sentences())

    def _sentences(self) -> list[str]:
        said = [
            {
                True: "Yes, these runs are enough.",
                False: "No, these runs are not enough.",
                None: "One run alone does not tell whether it is enough: make a second one.",
            }[self.enough]
        ]
        if self.asdsf is not None:
            word = (
                "agree"
                if self.asdsf < AGREE
                else "nearly agree"
                if self.asdsf < NEARLY
                else ("do not agree")
            )
            said.append(
                f"The {len(self.names)} runs {word}: the average standard deviation of cluster "
                f"frequencies is {self.asdsf:.4f} (below {AGREE} is good)."
            )
        if self.largest is not None and self.largest.high > self.largest.low:
            shown = ", ".join(sorted(self.largest.cluster)[:4])
            more = ", ..." if len(self.largest.cluster) > 4 else ""
            said.append(
                f"They differ most on {{{shown}{more}}}: {self.largest.low:.3f} to "
                f"{self.largest.high:.3f}."
            )
        if self.ess is not None and self.entropy < SAME:
            said.append(
                "All trees are the same, which does not tell how many independent ones they are "
                "worth."
            )
        elif self.ess is not None:
            least = min(self.ess)
            word = "enough" if least >= ENOUGH else f"fewer than {ENOUGH}; run longer"
            said.append(f"The shortest run is worth {least:.0f} independent trees, {word}.")
        if self.rogues:
            rogue = self.rogues[0]
            said.append(
                f"Without {rogue.label} the mean support of the majority tree would rise by "
                f"{rogue.gain:.2f}; look at that leaf's data."
            )
        return said

    def __str__(self) -> str:
        return self.verdict


def compare_runs(trees: Iterable[Tree], model: str = "ccd1") -> RunReport:
    """Whether runs of sampled trees agree with each other and are long enough.

    Parameters
    ----------
    trees : TreeRuns or iterable of Tree
        As `read_trees` returns them; other trees count as one run.
    model : str
        Of the clade distributions whose divergence and entropy are reported.

    Examples
    --------
    >>> trees = [Tree.from_newick("((a,b),(c,d));"), Tree.from_newick("((a,c),(b,d));")] * 300
    >>> report = compare_runs(trees)
    >>> round(report.entropy, 3), report.asdsf
    (0.693, None)
    """
    runs = TreeRuns.from_trees(trees).counted()
    numbered = number_trees(runs.children)
    parts = [np.flatnonzero(runs.runs == k) for k in range(runs.n_runs)]
    frequencies = np.array([_frequencies(numbered, runs, part) for part in parts])
    together = infer(CladeDistribution(runs, model=model))
    several = runs.n_runs > 1
    return RunReport(
        runs.names,
        tuple(map(len, parts)),
        _deviation(frequencies) if several else None,
        _differences(runs, numbered.vertices, frequencies) if several else (),
        _divergence(runs, parts, together, model) if several else None,
        None if runs.weights is not None else tuple(_ess(numbered, part) for part in parts),
        together.entropy,
        _rogues(runs, numbered),
    )


def _frequencies(numbered: NumberedTrees, runs: TreeRuns, part: IntArray) -> FloatArray:
    """The share of the trees of one run that have each cluster, leaves and root left out."""
    weights = np.zeros(len(runs))
    weights[part] = runs.shares[part]
    return np.asarray(numbered.cluster_weights(weights)[runs.n_leaves : -1] / weights.sum())


def _deviation(frequencies: FloatArray) -> float:
    often = frequencies.max(axis=0, initial=0.0) >= LEAST_FREQUENCY
    if not often.any():
        return 0.0
    return float(frequencies[:, often].std(axis=0, ddof=1).mean())


def _differences(
    runs: TreeRuns, vertices: SparseVertices, frequencies: FloatArray
) -> tuple[Difference, ...]:
    spread = frequencies.max(axis=0, initial=0.0) - frequencies.min(axis=0, initial=1.0)
    worst = np.argsort(-spread, kind="stable")[:MOST_DIFFERENCES]
    worst = worst[spread[worst] > 0]
    masks = vertices.masks(runs.n_leaves + worst)
    return tuple(
        Difference(frozenset(mask_labels(mask, runs.labels)), tuple(frequencies[:, k].tolist()))
        for mask, k in zip(masks, worst.tolist(), strict=True)
    )


def _divergence(runs: TreeRuns, parts: list[IntArray], together: Posterior, model: str) -> float:
    """The largest divergence of a run from all runs together, whose trees include its own."""
    each = (infer(CladeDistribution(runs.some(part), model=model)) for part in parts)
    return max(one.kl_divergence(together) for one in each)


# ---- effective numbers of trees ---------------------------------------------------------------


def _ess(numbered: NumberedTrees, part: IntArray) -> float:
    """The least effective number of trees by distances to some trees of the run.

    The distance is the number of clusters that are in only one of two trees (Robinson-Foulds).
    """
    clusters = numbered.parents[numbered.splits[part]]
    focal = np.unique(np.linspace(0, len(part) - 1, FOCAL_TREES).astype(int))
    found = []
    for k in focal:
        inside = np.zeros(len(numbered.vertices), bool)
        inside[clusters[k]] = True
        found.append(effective_size(inside[clusters].sum(axis=1).astype(float)))
    return min(found)


def effective_size(values: FloatArray) -> float:
    """The effective number of independent values of a chain (Geyer's initial positive sequence).

    Examples
    --------
    >>> values = np.random.default_rng(0).normal(size=1000)
    >>> 700 < effective_size(values) <= 1000
    True
    >>> effective_size(np.repeat(values, 10)) < 1200
    True
    """
    m = len(values)
    centred = values - values.mean()
    if m < 4 or not centred.any():
        return float(m)
    size = 1 << (2 * m - 1).bit_length()
    power = np.abs(np.fft.rfft(centred, size)) ** 2
    correlations = np.fft.irfft(power, size)[:m]
    correlations /= correlations[0]
    pairs = correlations[: m // 2 * 2].reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pairs <= 0)
    pairs = np.minimum.accumulate(pairs[: ends[0]] if len(ends) > 0 else pairs)
    return float(m / max(1.0, 2 * pairs.sum() - 1))


# ---- rogue leaves -----------------------------------------------------------------------------


def _rogues(runs: TreeRuns, numbered: NumberedTrees) -> tuple[Rogue, ...]:
    """Leaves without which the clusters of the majority tree have more support.

    A tree without leaf i has the cluster C if the tree had C, or C with i; it had both where C with
    i is split into C and i.
    """
    n = runs.n_leaves
    if n < 5:
        return ()
    v, total = numbered.vertices, float(runs.shares.sum())
    splits = numbered.split_weights(runs.shares) / total
    often = totals(numbered.parents, splits, len(v))
    often[:n] = 1.0
    before = _support(often[n:-1]) / (n - 2)
    gains = []
    for leaf, bit in enumerate(leaf_words(n)):
        has = (v.words & bit).any(axis=1)
        without = v.find_words(v.words & ~bit)  # the same cluster without the leaf, if it is there
        both = np.zeros(len(v))
        alone = (v.lefts == leaf) | (v.rights == leaf)
        np.add.at(both, numbered.parents[alone], splits[alone])
        support = np.where(has, 0.0, often)
        larger = np.flatnonzero(has & (v.sizes > 2))
        there = larger[without[larger] >= 0]
        support[without[there]] += often[there] - both[there]
        new = larger[(without[larger] < 0) & (v.sizes[larger] < n)]
        kept = (v.sizes >= 2) & (v.sizes < n - 1) & ~has
        after = _support(np.concatenate([support[kept], often[new]])) / (n - 3)
        gains.append(Rogue(runs.labels[leaf], after - before))
    worst = sorted((rogue for rogue in gains if rogue.gain >= ROGUE), key=lambda r: -r.gain)
    return tuple(worst[:MOST_ROGUES])


def _support(frequencies: FloatArray) -> float:
    """The sum of the frequencies above one half."""
    return float(frequencies[frequencies > 0.5].sum())


# ---- one tree among all -----------------------------------------------------------------------


class Standing(NamedTuple):
    """Where a tree stands in a posterior.

    Attributes
    ----------
    log_probability : float
    level : float
        The probability of all trees that are more probable, and of this one: the tree is in every
        credible set of at least this probability.
    rank : int or None
        1 for the most probable tree; None if it is beyond the trees that were listed, or has
        probability 0.
    is_exact : bool
        Whether the level is computed from all trees; if not, from samples.
    """

    log_probability: float
    level: float
    rank: int | None
    is_exact: bool


def standing(post: Posterior, tree: Tree, size: int = 10_000, rng: Seed = None) -> Standing:
    """The probability, the credible level and the rank of a tree.

    Parameters
    ----------
    post : Posterior
    tree : Tree
    size : int
        How many trees are listed, or drawn if there are more.
    rng : None, int or numpy Generator

    Examples
    --------
    >>> trees = [Tree.from_newick("((a,b),c);"), Tree.from_newick("((a,c),b);")]
    >>> post = infer(CladeDistribution(trees, weights=[3, 1]))
    >>> standing(post, trees[1])
    Standing(log_probability=-1.3862943611198906, level=1.0, rank=2, is_exact=True)
    """
    log_probability = post.log_probability(tree)
    if log_probability == -math.inf:
        return Standing(log_probability, 1.0, None, True)
    spread = post.log_weight_distribution(size, rng)
    weight = log_probability + post.log_partition
    margin = 1e-9 * max(1.0, abs(weight))
    above = 1.0 - float(spread.cdf(weight + margin))
    level = min(1.0, above + math.exp(log_probability))
    ranked = post.top_trees(size).log_weights
    better = int((ranked > weight + margin).sum())
    return Standing(
        log_probability, level, better + 1 if better < len(ranked) else None, spread.is_exact
    )
