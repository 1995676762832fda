"""Correlation clustering of gene expression: greedy, best tree, and the posterior of clusters."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hctrellis.clusters import n_trees
from hctrellis.infer import infer
from hctrellis.posterior.posterior import Posterior
from hctrellis.potentials.correlation import CorrelationClustering
from hctrellis.reproduce.agglomerate import average_linkage
from hctrellis.reproduce.expression import PER_SUBTYPE, UNLABELLED, Expression, affinity
from hctrellis.reproduce.record import Tell, silent
from hctrellis.tree import Tree
from hctrellis.trellis.full import FullTrellis

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray, IntArray

N_DRAWS = {"small": 12, "full": 500}
N_TREES = 1000  # sampled for each draw
FLAT_TREES = 100_000
TIE = 1e-9  # of energies
SHARP = 1e6  # a beta at which only the best trees count


class Draw(NamedTuple):
    """Samples drawn from the table, two of each subtype in order, then two of unknown subtype."""

    places: IntArray
    model: CorrelationClustering
    post: Posterior
    greedy: Tree
    seconds: float
    """Time to find the best tree."""

    @property
    def gap(self) -> float:
        """Energy of the greedy tree above the least."""
        gap = self.model.energy(self.greedy) - self.model.energy(self.post.map_tree)
        return 0.0 if abs(gap) < TIE else gap

    def n_best(self) -> int:
        """How many trees share the least energy."""
        model = CorrelationClustering(self.model.affinity, beta=SHARP)
        sharp = infer(model, FullTrellis(model.n_leaves))
        return round(float(np.exp(-sharp.map_log_probability)))


@dataclass(frozen=True)
class Study:
    """What was found over many draws.

    Attributes
    ----------
    data : Expression
    shown : Draw
        The first in which greedy misses the best tree, or the first.
    gaps, seconds, n_best, best_probability : float64 arrays, shape (draws,)
        Energy of the greedy tree above the least; time of the best tree; number of trees that
        share the least energy; posterior probability of each of them.
    pairs : float64 array, shape (draws, subtypes)
        Probability that the two samples of a subtype form a cluster.
    unlabelled : float64 array, shape (draws, 2, subtypes + 1)
        Probability that an unlabelled sample goes with each subtype; last, with several.
    hidden : float64 array, shape (draws, 2, subtypes + 1)
        The same for labelled samples whose label was hidden.
    truth : int64 array, shape (draws, 2)
        Their subtypes.
    right_in_best : float64 array, shape (draws, 2)
        1 where they go with their own subtype in the best tree, 0 elsewhere.
    chance : float64 array, shape (subtypes + 1,)
        Probability that a sample goes with each subtype if all trees are equally probable.
    """

    data: Expression
    shown: Draw
    gaps: FloatArray
    seconds: FloatArray
    n_best: FloatArray
    best_probability: FloatArray
    pairs: FloatArray
    unlabelled: FloatArray
    hidden: FloatArray
    truth: IntArray
    right_in_best: FloatArray
    chance: FloatArray

    @property
    def n_draws(self) -> int:
        return len(self.gaps)

    @property
    def n_leaves(self) -> int:
        return self.shown.model.n_leaves

    @property
    def chance_of_pair(self) -> float:
        """The probability of a cluster of two given leaves if all trees are equally probable."""
        return n_trees(self.n_leaves - 1) / n_trees(self.n_leaves)

    def right(self) -> FloatArray:
        """The probability that each sample with a hidden label goes with its own subtype."""
        rows = self.hidden.reshape(-1, self.hidden.shape[-1])
        found: FloatArray = rows[np.arange(len(rows)), self.truth.ravel()]
        return found


def draw(data: Expression, rng: np.random.Generator, hide: bool = False) -> Draw:
    """Draw samples and find their trees; with `hide`, the last two have a label that is hidden."""
    places = [rng.choice(data.places(name), PER_SUBTYPE, replace=False) for name in data.names]
    labelled = np.flatnonzero(np.array(data.subtypes) != "")
    others = np.setdiff1d(labelled, places) if hide else data.places("")
    chosen = np.concatenate([*places, rng.choice(others, UNLABELLED, replace=False)])
    w = affinity(data.values[chosen])
    labels = [data.samples[i] for i in chosen]
    model = CorrelationClustering(w, labels=labels)
    start = time.perf_counter()
    post = infer(model, FullTrellis(model.n_leaves))
    _ = post.map_tree
    seconds = time.perf_counter() - start
    return Draw(chosen, model, post, average_linkage(w, labels), seconds)


def goes_with(clusters: IntArray, leaf: int, n_subtypes: int) -> FloatArray:
    """With which subtype a leaf goes: the share of the trees, for each subtype.

    The smallest cluster that holds the leaf and any labelled sample decides, if its labelled
    samples are of one subtype; the last entry is the share of trees in which they are not.

    Parameters
    ----------
    clusters : int64 array, shape (trees, n - 1)
        Masks of the clusters of each tree; leaves 2k and 2k + 1 are of subtype k.
    leaf : int
    n_subtypes : int
    """
    kinds = [((1 << PER_SUBTYPE) - 1) << (PER_SUBTYPE * k) for k in range(n_subtypes)]
    labelled = sum(kinds)
    holds = (clusters >> leaf & 1 == 1) & (clusters & labelled != 0)
    largest = np.iinfo(np.int64).max
    smallest = np.where(holds, clusters, largest).min(axis=1)  # a subset has a smaller mask
    shares = [(smallest & labelled & ~kind == 0).mean() for kind in kinds]
    return np.array([*shares, 1 - sum(shares)])


def study(data: Expression, n_draws: int, seed: int, tell: Tell = silent) -> Study:
    """Many draws from a table."""
    rng = np.random.default_rng(seed)
    kinds = len(data.names)
    last = range(PER_SUBTYPE * kinds, PER_SUBTYPE * kinds + UNLABELLED)

    def with_each(clusters: IntArray) -> FloatArray:
        return np.array([goes_with(clusters, leaf, kinds) for leaf in last])

    shown: Draw | None = None
    numbers, pairs, unlabelled, hidden, truth, best = [], [], [], [], [], []
    for k in range(n_draws):
        tell(f"draw {k + 1} of {n_draws}")
        drawn = draw(data, rng)
        post = drawn.post
        if shown is None or (shown.gap == 0 and drawn.gap > 0):
            shown = drawn
        probability = np.exp(post.map_log_probability)
        numbers.append((drawn.gap, drawn.seconds, drawn.n_best(), probability))
        pairs.append([post.cluster_probability([2 * i, 2 * i + 1]) for i in range(kinds)])
        unlabelled.append(with_each(post.sample(N_TREES, rng).clusters))
        blind = draw(data, rng, hide=True)
        hidden.append(with_each(blind.post.sample(N_TREES, rng).clusters))
        truth.append([data.names.index(data.subtypes[blind.places[leaf]]) for leaf in last])
        best.append(with_each(np.array([sorted(blind.post.map_tree.clusters())])))
    assert shown is not None
    gaps, seconds, n_best, probabilities = np.array(numbers).T
    flat = infer(CorrelationClustering(shown.model.affinity, beta=0.0))
    right = np.take_along_axis(np.array(best), np.array(truth)[..., None], axis=2)[..., 0]
    return Study(
        data,
        shown,
        gaps,
        seconds,
        n_best,
        probabilities,
        np.array(pairs),
        np.array(unlabelled),
        np.array(hidden),
        np.array(truth),
        right,
        goes_with(flat.sample(FLAT_TREES, rng).clusters, last[0], kinds),
    )
