"""How beta is chosen when the user does not choose it: beta decides how sure every answer sounds.

There are two rules, and a sentence says which was used and what the probabilities then mean:

- *bootstrap*, for tables of at least ten columns: the beta at which the posterior cluster
  probabilities agree best, by the log score, with how often clusters come back in the MAP trees of
  tables with resampled columns (the bootstrap probability BP of Felsenstein and of pvclust);
- *heat capacity*, for bare matrices and narrow tables: the beta at which beta^2 Var(E) peaks. This
  rule has no scale: data in other units give the same posterior.

Both begin with a grid of betas around a unit, each twice the one before. The log score had one
maximum on each of 240 tables (noise, groups, real data), so it is looked for next to the best point
of the grid. The heat capacity often has several peaks: the entropies at the points of the grid tell
where one may hide, and each that could be the highest is looked at (see `hctrellis.trust.peaks`),
within 2^-12 to 2^20 units.

The unit is the beta at which the best tree weighs as much as all trees together would at the mean
energy of trees with shuffled leaves: log(number of trees) / (mean energy - least energy). In nine
of ten of 275 problems of 6 to 10 leaves (tables of noise, groups and random walks, random matrices;
several potentials) the heat capacity peaks at 0.65 to 2.4 times the unit, at 1.0 in the median.

Up to 16 leaves both rules are exact. More would take too long, since each rule weighs all trees a
hundred times or so (`infer` weighs them once, and so can take more leaves). Beyond 16, agreement
with the bootstrap is measured on some subsets of the leaves, in multiples of the unit of each (an
energy may grow with the number of leaves); and the unit itself is taken in place of the peak of the
heat capacity. Its least energy is then that of a tree from a short local search (greedy trees can
be worse than shuffled ones).

References
----------
J. Felsenstein, Confidence limits on phylogenies: an approach using the bootstrap, Evolution 39
(1985). R. Suzuki, H. Shimodaira, Pvclust: an R package for assessing the uncertainty in
hierarchical clustering, Bioinformatics 22 (2006).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from hctrellis.clusters import Cluster, Lattice, mask_labels, n_trees
from hctrellis.infer import infer
from hctrellis.potentials.base import Potential
from hctrellis.support.checks import as_count, as_finite, as_positive
from hctrellis.support.progress import Progress, followed
from hctrellis.support.steps import watched_by
from hctrellis.support.types import Seed
from hctrellis.tree import Tree
from hctrellis.trellis.full import FullTrellis
from hctrellis.trellis.sparse import SparseTrellis
from hctrellis.trust.peaks import PRECISION, Point, find_peaks, golden_section, summit

if TYPE_CHECKING:
    from hctrellis.posterior.base import BasePosterior
    from hctrellis.support.types import FloatArray, IntArray
    from hctrellis.trellis.solution import FullSolution

Make: TypeAlias = Callable[["FloatArray | None", float], Potential]
"""The potential of a table (or of None) at a beta."""

EXACT_LEAVES = 16  # a tenth of a second for each beta
LEAST_COLUMNS = 10  # of a table whose columns are resampled
SUBSETS, SUBSET_LEAVES = 4, 12
RESTARTS = 3  # of the local search for a good tree of many leaves
SHUFFLES = 5, 300  # (a, b): the unit takes a + b // n trees with shuffled leaves
THREADED_LEAVES = 14  # with fewer, threads cost more time than they save
LOWEST, HIGHEST, FURTHEST = -3, 4, 12  # powers of two around the unit: the grid, and its limit
PLACES = (
    -FURTHEST,
    *range(LOWEST, HIGHEST + 1),
    FURTHEST,
    20,
)  # where the heat capacity is measured first
DIGITS = 3  # of the beta that is chosen
UPWARD = 0.3  # of the time of log Z and cluster probabilities goes into log Z
STEP = 0.01  # of beta, relative, in differences of log Z
ULPS = 16  # units in the last place by which second differences of log Z may be off
EVALUATIONS = 23  # of a score, in most searches
BIN_EDGES = (0.01, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 1.0)
DISAGREE = 0.1  # mean difference above which probabilities do not agree with resampling
CLEAR = 0.1  # clusters of at least this probability or frequency tell how well the two agree
FLAT = 1e-9  # smaller relative differences of energies count as zero
TINY = 1e-300  # smaller probabilities count as this one
ROUNDING = 1e-16  # of one minus a probability


class Curve(NamedTuple):
    """The betas that were tried, in increasing order, and the score of each.

    The score is the log score of all clusters (its mean over subsets of leaves, if there are
    several), or the heat capacity; larger is better.
    """

    betas: FloatArray
    scores: FloatArray


class CalibrationBin(NamedTuple):
    """The clusters whose posterior probability lies in a range.

    Attributes
    ----------
    low, high : float
        The range.
    n_clusters : int
    probability, frequency : float
        The means of the posterior probability and of the bootstrap frequency.
    """

    low: float
    high: float
    n_clusters: int
    probability: float
    frequency: float


@dataclass(frozen=True)
class BetaChoice:
    """A beta, and why it was chosen.

    Attributes
    ----------
    beta : float
        Rounded to three digits.
    rule : {"bootstrap", "heat capacity"}
    sentence : str
        How beta was chosen and what the probabilities mean, for a report.
    curve : Curve
        What was tried; empty if there was nothing to choose.
    calibration : tuple of CalibrationBin
        For the bootstrap rule: posterior probabilities against bootstrap frequencies, at this beta.
    n_resamples : int
        How many tables with resampled columns were used.
    peaks : tuple of float
        For the heat capacity of up to 16 leaves: the betas of its highest peak, and of any others
        that are at least nine tenths as high; the highest first.
    """

    beta: float
    rule: Literal["bootstrap", "heat capacity"]
    sentence: str
    curve: Curve
    calibration: tuple[CalibrationBin, ...] = ()
    n_resamples: int = 0
    peaks: tuple[float, ...] = ()


class SensitivityRow(NamedTuple):
    """Some answers at one beta.

    Attributes
    ----------
    beta : float
    map_log_probability : float or None
        Of the MAP tree at this beta.
    probabilities : dict from frozenset of str to float
        The probabilities of the same clusters at every beta.
    """

    beta: float
    map_log_probability: float | None
    probabilities: dict[frozenset[str], float]


def choose_beta(
    make: Make,
    table: npt.ArrayLike | None = None,
    n_resamples: int = 100,
    rng: Seed = None,
    progress: Progress | bool | None = None,
) -> BetaChoice:
    """Choose beta by agreement with the bootstrap, or by the peak of the heat capacity.

    Parameters
    ----------
    make : callable
        ``make(data, beta)`` gives the potential of a table at a beta. The table is the given one,
        or one with as many columns drawn from it with replacement; if there are more than 16 rows,
        also one with only some of the rows. Without a table, ``make(None, beta)`` is called.
    table : array_like, shape (n, d), optional
        A row for each leaf. Without it, or with fewer than ten columns, the rule is the heat
        capacity.
    n_resamples : int
        How many tables with resampled columns; a resample that `make` refuses with a ValueError is
        left out.
    rng : None, int or numpy Generator
    progress : bool or callable, optional
        True shows a progress bar; a callable is called as progress(steps done, steps in all).

    Returns
    -------
    BetaChoice

    Notes
    -----
    The log score of a beta is the sum over all clusters C of f log p + (1 - f) log(1 - p), where p
    is the posterior probability at that beta and f the frequency among the MAP trees of the
    resamples and one more tree. That one stands for knowing nothing: it counts as a uniformly
    random tree, and keeps beta finite when all resamples agree.

    Examples
    --------
    >>> import hctrellis as hct
    >>> choice = choose_beta(lambda data, beta: hct.Linkage([1.0, 2.0, 2.0], beta=beta))
    >>> round(choice.beta, 1), choice.rule
    (5.3, 'heat capacity')
    """
    as_count(n_resamples, "n_resamples")
    if not callable(make):
        raise TypeError(
            "make must be a function of a table and a beta that gives a potential, such as lambda "
            f"data, beta: Linkage(data, beta=beta); got {type(make).__name__} (hctrellis.cluster "
            "takes a table, and chooses beta itself)"
        )
    data = None if table is None else _as_table(table)
    generator = np.random.default_rng(rng)
    unit = _unit(make(data, 1.0))
    if unit is None:
        return _nothing_to_choose()
    with _quiet(), followed(progress, "steps") as report:
        if data is None or data.shape[1] < LEAST_COLUMNS:
            return _by_heat_capacity(make, data, unit, report)
        return _by_bootstrap(make, data, unit, n_resamples, generator, report)


def sensitivity(
    make: Make,
    table: npt.ArrayLike | None,
    beta: float,
    clusters: Iterable[Cluster] | None = None,
    trellis: FullTrellis | SparseTrellis | None = None,
    progress: Progress | bool | None = None,
) -> list[SensitivityRow]:
    """How answers move with beta: the same probabilities at beta / 2, beta and 2 beta.

    Parameters
    ----------
    make, table
        As for `choose_beta`.
    beta : float
    clusters : iterable of clusters, optional
        By default those of the MAP tree at beta, without leaves and root.
    trellis : FullTrellis or SparseTrellis, optional
        The trees that are considered, as for `infer`. A sparse trellis that was grown at beta
        saves growing two more.
    progress : bool or callable, optional
        True shows a progress bar; a callable is called as progress(done, in all).

    Examples
    --------
    >>> import hctrellis as hct
    >>> rows = sensitivity(lambda data, beta: hct.Linkage(data, beta=beta), [[0], [1], [3]], 1.0)
    >>> for row in rows:
    ...     print(row.beta, round(row.probabilities[frozenset("01")], 3))
    0.5 0.419
    1.0 0.506
    2.0 0.665
    """
    betas = [as_positive(beta, "beta") * factor for factor in (0.5, 1.0, 2.0)]
    data = None if table is None else _as_table(table)
    with followed(progress, "thousandths of the answers at half and twice beta") as report:
        posteriors = [_asked(make(data, b), trellis, k, report) for k, b in enumerate(betas)]
    tree = posteriors[1].map_tree
    inner = tree.masks[tree.n_leaves : -1]
    masks = inner if clusters is None else [tree.mask(cluster) for cluster in clusters]
    labels = tree.labels
    names = [frozenset(mask_labels(mask, labels)) for mask in masks]
    return [
        SensitivityRow(
            beta,
            post.map_log_probability,
            {cluster: post.cluster_probability(cluster) for cluster in names},
        )
        for beta, post in zip(betas, posteriors, strict=True)
    ]


def _asked(
    potential: Potential, trellis: FullTrellis | SparseTrellis | None, k: int, progress: Progress
) -> BasePosterior:
    """The posterior at the k-th of three betas, with its cluster probabilities."""

    def part(first: float, share: float) -> Progress:
        """The progress of a pass as a part of all, from 0 to 1,000."""

        def tell(done: int, total: int | None) -> None:
            progress(round(1000 / 3 * (k + first + share * done / (total or 1))), 1000)

        return tell

    post = infer(potential, trellis, progress=part(0.0, UPWARD))
    with watched_by(part(UPWARD, 1 - UPWARD)):
        post.cluster_probabilities()
    return post


# ---- the two rules ----------------------------------------------------------------------------


def _by_bootstrap(
    make: Make,
    table: FloatArray,
    unit: float,
    n_resamples: int,
    rng: np.random.Generator,
    progress: Progress,
) -> BetaChoice:
    """The beta at which probabilities agree best with bootstrap frequencies."""
    subsets = _subsets(len(table), rng)
    steps = _Steps(progress, len(subsets) * n_resamples + EVALUATIONS)
    try:
        trials = [_Trial(make, table[rows], n_resamples, rng, steps) for rows in subsets]
    except ValueError as error:
        if len(subsets) > 1 and "labels were given" in str(error):
            raise ValueError(
                f"for {len(table)} rows, make(data, beta) is also called with {SUBSET_LEAVES} of "
                f"them, and gives these the wrong number of labels ({error}): leave labels out in "
                "make, which changes nothing"
            ) from None
        raise
    trials = [trial for trial in trials if trial.unit is not None and trial.n_resamples > 0]
    if not trials:
        return _by_heat_capacity(make, table, unit, progress)

    def score(beta: float) -> float:
        steps.step()
        return float(np.mean([trial.score(beta / unit) for trial in trials]))

    beta, curve = _maximise(score, unit)
    p = np.concatenate([trial.probabilities(beta / unit) for trial in trials])
    f = np.concatenate([trial.frequencies for trial in trials])
    steps.finish()
    used = sum(trial.n_resamples for trial in trials)
    clear = np.maximum(p, f) >= CLEAR
    gap = float(np.abs(p - f)[clear].mean()) if clear.any() else 0.0
    sentence = _bootstrap_sentence(beta, table.shape, len(trials), used, gap)
    return BetaChoice(beta, "bootstrap", sentence, curve, _calibration(p, f), used)


def _by_heat_capacity(
    make: Make, table: FloatArray | None, unit: float, progress: Progress
) -> BetaChoice:
    """The beta at which the heat capacity peaks, or one near it if there are many leaves."""
    n = make(table, unit).n_leaves
    if n > EXACT_LEAVES:
        beta = _rounded(unit)
        return BetaChoice(beta, "heat capacity", _unit_sentence(beta), _NO_CURVE)
    steps = _Steps(progress, EVALUATIONS)

    def measure(x: float) -> Point:
        steps.step()
        return _heat(lambda factor: make(table, unit * math.exp(x) * factor), x)

    peaks, points = find_peaks(measure, [power * math.log(2) for power in PLACES])
    steps.finish()
    xs, heights, _ = np.array(points).T
    betas = tuple(_rounded(unit * math.exp(peak.x)) for peak in peaks)
    curve = Curve(unit * np.exp(xs), heights)
    sentence = _peak_sentence(betas)
    return BetaChoice(betas[0], "heat capacity", sentence, curve, peaks=betas)


def _heat(scaled: Callable[[float], Potential], x: float) -> Point:
    """The heat capacity and the entropy, from log Z at a beta and slightly below and above it."""
    below, here, above = (_solve(scaled(1 + step)).log_partition for step in (-STEP, 0.0, STEP))
    capacity = (below - 2 * here + above) / STEP**2
    rounding = ULPS * np.finfo(float).eps * abs(here) / STEP**2
    entropy = here - (above - below) / (2 * STEP)
    return Point(x, capacity if capacity > rounding else 0.0, entropy)


def _maximise(score: Callable[[float], float], unit: float) -> tuple[float, Curve]:
    """The best beta on a grid of powers of two times the unit, then between its points."""
    tried: dict[float, float] = {}

    def at(power: float) -> float:
        if power not in tried:
            tried[power] = score(unit * 2.0**power)
        return tried[power]

    low, high = LOWEST, HIGHEST
    best = max(range(low, high + 1), key=at)
    while best in (low, high) and abs(best) < FURTHEST:
        low, high = min(low, best - 1), max(high, best + 1)
        best = max(range(low, high + 1), key=at)
    golden_section(at, best - 1.0, best + 1.0, PRECISION)
    powers = sorted(tried)
    scores = [tried[power] for power in powers]
    top = summit(powers, scores, max(powers, key=at))
    curve = Curve(np.array([unit * 2.0**power for power in powers]), np.array(scores))
    return _rounded(unit * 2.0**top), curve


def _rounded(beta: float) -> float:
    return float(f"{beta:.{DIGITS}g}")


# ---- agreement with resamples -----------------------------------------------------------------


class _Trial:
    """A table of few rows: the frequencies of clusters in its resamples, and scores against them.

    Attributes
    ----------
    unit : float or None
        The unit of beta for this table.
    n_resamples : int
        How many resamples were used.
    """

    def __init__(
        self,
        make: Make,
        table: FloatArray,
        n_resamples: int,
        rng: np.random.Generator,
        steps: _Steps,
    ) -> None:
        self.make = make
        self.table = table
        self.inner = _inner(len(table))
        self.n_resamples = 0
        self.unit = _unit(make(table, 1.0))
        counts = np.zeros(1 << len(table))
        for _ in range(n_resamples):
            columns = rng.integers(table.shape[1], size=table.shape[1])
            counts[self._clusters(table[:, columns])] += 1
            steps.step()
        self.frequencies = counts[self.inner] / max(1, self.n_resamples)

    def _clusters(self, resample: FloatArray) -> list[int]:
        """The clusters of the best tree of a resample, if it has one."""
        try:
            potential = self.make(resample, self.unit or 1.0)
        except ValueError:  # for instance a row has become constant and has no correlation
            return []
        self.n_resamples += 1
        return list(_solve(potential).map_tree.clusters())

    def probabilities(self, units: float) -> FloatArray:
        """The posterior probability of every inner cluster at a beta, in units."""
        potential = self.make(self.table, units * (self.unit or 1.0))
        return _solve(potential).probabilities[self.inner]

    def score(self, units: float) -> float:
        """The log score of the posterior at a beta, in units."""
        nothing = _fraction_of_trees(len(self.table), self.inner)
        f = (self.frequencies * self.n_resamples + nothing) / (self.n_resamples + 1)
        p = self.probabilities(units)
        present, absent = np.log(np.maximum(p, TINY)), np.log(np.maximum(1 - p, ROUNDING))
        return float((f * present + (1 - f) * absent).sum())


def _subsets(n_leaves: int, rng: np.random.Generator) -> list[IntArray]:
    """The rows on which to compare: all, or several small random subsets."""
    if n_leaves <= EXACT_LEAVES:
        return [np.arange(n_leaves)]
    return [np.sort(rng.choice(n_leaves, SUBSET_LEAVES, replace=False)) for _ in range(SUBSETS)]


def _inner(n_leaves: int) -> IntArray:
    """The masks of all clusters other than leaves and root."""
    lattice = Lattice(n_leaves)
    masks = np.arange(1, lattice.root)
    return masks[~lattice.single(masks)]


def _fraction_of_trees(n_leaves: int, masks: IntArray) -> FloatArray:
    """For each cluster, the fraction of all trees that have it."""
    counts = [n_trees(size) * n_trees(n_leaves - size + 1) for size in range(1, n_leaves + 1)]
    by_size = np.array([0.0, *(count / n_trees(n_leaves) for count in counts)])
    fractions: FloatArray = by_size[Lattice(n_leaves).sizes[masks].astype(int)]
    return fractions


def _calibration(probabilities: FloatArray, frequencies: FloatArray) -> tuple[CalibrationBin, ...]:
    """Mean probability and frequency of the clusters in bins of probability, without empty bins."""
    bins = []
    places = np.searchsorted(BIN_EDGES, probabilities, side="right")
    places[probabilities >= 1.0] = len(BIN_EDGES) - 1
    for place, (low, high) in enumerate(pairwise(BIN_EDGES), start=1):
        p, f = probabilities[places == place], frequencies[places == place]
        if len(p) > 0:
            bins.append(CalibrationBin(low, high, len(p), float(p.mean()), float(f.mean())))
    return tuple(bins)


# ---- the unit of beta -------------------------------------------------------------------------


def _unit(potential: Potential) -> float | None:
    """log(number of trees) / (mean energy - least energy); None if these two are the same.

    The mean is over trees with shuffled leaves. The potential is taken at beta = 1.
    """
    n = potential.n_leaves
    if n < 3:
        return None
    tree = _good_tree(potential)
    rng = np.random.default_rng(0)
    size = SHUFFLES[0] + SHUFFLES[1] // n
    shuffled = [tree.relabel(rng.permutation(tree.labels).tolist()) for _ in range(size)]
    weights = np.array([potential.log_weight(other) for other in shuffled])
    weights = weights[np.isfinite(weights)]
    if len(weights) == 0:
        return 1.0
    best = potential.log_weight(tree)
    gap = best - float(weights.mean())
    if gap <= FLAT * max(abs(best), TINY):
        return None
    return math.log(n_trees(n)) / gap


def _good_tree(potential: Potential) -> Tree:
    """The MAP tree if there are few leaves, else the tree of a short local search."""
    if potential.n_leaves <= EXACT_LEAVES:
        return _solve(potential).map_tree
    from hctrellis.search import local_search

    return local_search(potential, n_restarts=RESTARTS, rng=0).tree


def _solve(potential: Potential) -> FullSolution:
    n = potential.n_leaves
    return FullTrellis(n).solve(potential, 1 if n < THREADED_LEAVES else None)


# ---- words ------------------------------------------------------------------------------------

_NO_CURVE = Curve(np.empty(0), np.empty(0))
_THUMB = (
    "This is a rule of thumb, not backed by resampling: a probability says how clearly the model "
    "singles a cluster out at this beta. Quote none without those at half and twice beta."
)
_MOVES = "A larger beta would make every answer sound surer, a smaller one less sure."


def _nothing_to_choose() -> BetaChoice:
    sentence = (
        "Trees with shuffled leaves weigh as much as the best tree, so there is nothing to choose "
        "beta by: beta = 1."
    )
    return BetaChoice(1.0, "heat capacity", sentence, _NO_CURVE)


def _bootstrap_sentence(
    beta: float, shape: tuple[int, ...], n_trials: int, used: int, gap: float
) -> str:
    n, d = shape
    choices = f" (in {n_trials} random subsets of {SUBSET_LEAVES} of the {n} leaves)"
    where = choices if n > EXACT_LEAVES else ""
    read = (
        f"read 0.9 as nine times in ten, give or take {gap:.2g}, the mean difference."
        if gap <= DISAGREE
        else f"at best they differ by {gap:.2g} on average, so probabilities and resampling "
        "disagree; take the probabilities as a ranking of clusters, not as frequencies."
    )
    return (
        f"beta = {beta:g} was chosen so that the probabilities of clusters{where} agree best with "
        f"how often they come back when the {d} columns are resampled ({used} times): {read} "
        f"{_MOVES}"
    )


def _peak_sentence(betas: Sequence[float]) -> str:
    beta, *others = betas
    return (
        f"beta = {beta:g} is where the heat capacity peaks, between a small beta, at which all "
        "trees are equally probable, and a large one, at which one tree is certain"
        f"{_other_peaks(others)}. {_THUMB} {_MOVES}"
    )


def _other_peaks(betas: Sequence[float]) -> str:
    if not betas:
        return ""
    where = " and ".join(f"{beta:g}" for beta in sorted(betas))
    peaks = "another peak" if len(betas) == 1 else f"{len(betas)} other peaks"
    return (
        f"; it has {peaks} of nearly the same height, at beta = {where}, where answers may differ"
    )


def _unit_sentence(beta: float) -> str:
    return (
        f"beta = {beta:g} is the unit log(number of trees) / (energy of trees with shuffled leaves "
        "- energy of a good tree), near which the heat capacity of most data peaks (that of more "
        f"than {EXACT_LEAVES} leaves takes too long to search). {_THUMB} {_MOVES}"
    )


# ---- small things -----------------------------------------------------------------------------


class _Steps:
    """Counts steps for a progress bar."""

    def __init__(self, progress: Progress, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def step(self) -> None:
        """Count one more step, but never the last one."""
        self.done = min(self.done + 1, self.total - 1)
        self.progress(self.done, self.total)

    def finish(self) -> None:
        """Report that all steps are done."""
        self.progress(self.total, self.total)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings that potentials of resamples give."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _as_table(table: npt.ArrayLike) -> FloatArray:
    values = as_finite(table, "table")
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError(
            f"table must be an array of shape (n, d), a row for each leaf; got {values.shape}"
        )
    return values
