"""A model of tables that needs no beta: its hyperparameters follow from the evidence."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from hctrellis.chains.anneal import anneal
from hctrellis.chains.chains import Chains
from hctrellis.potentials.contrasts import Prior, StudentContrasts
from hctrellis.support.checks import as_positive
from hctrellis.support.imports import ONE_AT_A_TIME
from hctrellis.support.progress import Progress, followed
from hctrellis.support.types import Seed
from hctrellis.trellis.full import FullTrellis
from hctrellis.trust import hyperparameters as hyper
from hctrellis.trust.logpartition import at

EXACT_LEAVES = 20  # up to which all trees are weighed for the evidence
GRID = 4001  # places at which the one hyperparameter of a single Gaussian is integrated over
RUNS, CHAINS, RECORDS = 4, 32, 16  # of annealing
CLEAR, STRONG = 1.0, 3.0  # of log Bayes factors, from which on there are words for them


@dataclass(frozen=True)
class Evidence:
    """The evidence for any structure, against one Gaussian cloud.

    Attributes
    ----------
    structure : float
        Log of the probability density of the table under the model, summed over all trees and
        integrated over hyperparameters (by Laplace's method).
    one_gaussian : float
        The same if all rows are drawn from one Gaussian with equal variances.
    error : float
        How far off `structure` may be because trees were sampled; 0 where all were weighed.
    """

    structure: float
    one_gaussian: float
    error: float = 0.0

    @property
    def log_bayes_factor(self) -> float:
        """By how much structure is favoured, in nats; negative: one Gaussian is favoured."""
        return self.structure - self.one_gaussian

    @property
    def sentence(self) -> str:
        """What that means, in plain words."""
        gain = self.log_bayes_factor
        times = _times(abs(gain))
        if abs(gain) < max(CLEAR, 2 * self.error):
            return (
                "The table does not tell whether it has any structure: a tree of clusters and one "
                f"Gaussian cloud explain it about equally well (log Bayes factor {gain:+.1f})."
            )
        if gain > 0:
            how = "strong" if gain >= STRONG else "some"
            return (
                f"There is {how} evidence for structure (clusters, or rows far from all others): "
                f"the table is {times} as probable with a tree of clusters as with one Gaussian "
                f"cloud (log Bayes factor {gain:+.1f})."
            )
        how = "strong" if gain <= -STRONG else "some"
        return (
            f"There is {how} evidence against any structure: the table is {times} as probable with "
            f"one Gaussian cloud as with a tree of clusters (log Bayes factor {gain:+.1f})."
        )


def _times(gain: float) -> str:
    """e^gain, in words."""
    if gain > math.log(1e6):
        return "more than a million times"
    factor = math.exp(gain)
    return f"{float(f'{factor:.2g}'):,.0f} times" if factor >= 10 else f"{factor:.1f} times"


class Contrasts(StudentContrasts):
    """A table without beta: Student-t contrasts, with hyperparameters found by the evidence.

    The model says how a table comes about: a tree is drawn (from the Yule model), and each of its
    splits adds a contrast between the means of its two sides, from Student's t with variance
    sigma^2 + tau^2 q^gamma for q = |L| |R| / (|L| + |R|). The weights of all trees sum to the
    evidence of the model, so sigma, tau, gamma and nu are those that make the table most probable
    (with weak priors, and floors of a hundredth of the variance of the table for sigma^2 and
    tau^2), and a probability of a cluster depends on no temperature. Give some of them to keep
    them fixed.

    Columns that go together count as fewer: the effective number of columns is found from the
    directions of contrasts in drawn trees (start with all columns, fit, draw; twice).

    Up to 14 rows the fit is exact, and the better of two that start apart; for more it rests on
    trees that are sampled by Markov chains, and starts from one place. Either may miss a greater
    maximum elsewhere.

    Parameters
    ----------
    table : array_like, shape (n, d)
        One row per leaf. Columns should have comparable units: standardise them if not. Missing
        values are refused: fill them in, or leave out their rows or columns.
    sigma, tau, gamma, nu : float, optional
        Hyperparameters to keep fixed (see `hctrellis.potentials.contrasts.Hyperparameters`).
    columns : float, optional
        The effective number of columns, from 1 to d, to keep it fixed.
    prior : {"yule", "uniform"}
        Over trees.
    labels : iterable of str, optional
        By default the index of a DataFrame.
    rng : None, int or numpy Generator
        For the trees that are drawn. The same seed gives the same model.
    progress : bool or callable, optional
        True shows a progress bar; a callable is called as progress(hundredths done, 100).

    Attributes
    ----------
    hyperparameters : Hyperparameters
    effective_columns : float
    is_exact_fit : bool
        Whether all trees were weighed, rather than sampled.

    Examples
    --------
    >>> import hctrellis as hct
    >>> table = [[0.0, 0.1], [0.2, 0.0], [0.1, 0.3], [5.1, 5.0], [5.0, 5.2]]
    >>> post = hct.infer(hct.Contrasts(table))
    >>> round(post.cluster_probability([3, 4]), 1)
    1.0
    """

    def __init__(
        self,
        table: npt.ArrayLike,
        *,
        sigma: float | None = None,
        tau: float | None = None,
        gamma: float | None = None,
        nu: float | None = None,
        columns: float | None = None,
        prior: Prior = "yule",
        labels: Iterable[object] | None = None,
        rng: Seed = 0,
        progress: Progress | bool | None = None,
    ) -> None:
        given = (sigma, tau, gamma, nu)
        first = (1.0 if value is None else value for value in given)
        super().__init__(
            table,
            **dict(zip(hyper.NAMES, first, strict=True)),
            columns=columns,
            prior=prior,
            labels=labels,
        )
        self._fixed = {i: self._coordinate(i, x) for i, x in enumerate(given) if x is not None}
        self._rng = np.random.default_rng(rng)
        with followed(progress, "hundredths of the fit") as report:
            self._fit = hyper.fit(self, self._fixed, columns, self._rng, report)
        self.is_exact_fit = self._fit.is_exact
        found = at(self, self._fit.u, self._fit.columns).hyperparameters
        kept = {name: x for name, x in zip(hyper.NAMES, given, strict=True) if x is not None}
        self.assign(**found._replace(**kept)._asdict(), columns=self._fit.columns)

    def _coordinate(self, i: int, value: float) -> float:
        """A given hyperparameter as an entry of u."""
        if i < 2:
            return 2 * math.log(as_positive(value, hyper.NAMES[i]) / self.unit)
        return float(value) if i == 2 else math.log(value)

    @cached_property
    def evidence(self) -> Evidence:
        """The evidence for any structure against one Gaussian cloud; found when first asked for."""
        return self.evidence_at(*self._log_partition())

    def evidence_at(self, log_partition: float, error: float = 0.0) -> Evidence:
        """The same from a log Z that is known already, as that of a posterior, and its error."""
        prior = float(hyper.log_prior(self._fit.u[self._free], self._free))
        structure = log_partition + prior + self._fit.log_volume
        return Evidence(structure, self._one_gaussian(), error)

    @property
    def _free(self) -> list[int]:
        return [i for i in range(len(hyper.NAMES)) if i not in self._fixed]

    def _log_partition(self) -> tuple[float, float]:
        """log Z, and how far off it may be."""
        if self.n_leaves <= EXACT_LEAVES:
            return FullTrellis(self.n_leaves).solve(self).log_partition, 0.0
        chains = Chains(self)
        sizes = (CHAINS, RECORDS, self.n_leaves)
        heats = anneal(chains, *sizes, self._rng).heats
        runs = [anneal(chains, *sizes, self._rng, heats).log_partition for _ in range(RUNS)]
        return float(np.mean(runs)), float(np.std(runs, ddof=1) / math.sqrt(RUNS))

    def _one_gaussian(self) -> float:
        """The log density of the table if its rows are drawn from one Gaussian cloud."""
        with ONE_AT_A_TIME:
            from scipy.special import logsumexp

        numbers = (self.n_leaves - 1) * self.effective_columns
        if 0 in self._fixed:
            grid, weights = np.array([self._fixed[0]]), np.zeros(1)
        else:
            grid = np.linspace(*hyper.BOUNDS[0], GRID)
            weights = hyper.log_prior(grid[:, None], [0]) + math.log(grid[1] - grid[0])
        densities = -0.5 * numbers * (math.log(2 * math.pi) + grid + np.exp(-grid))
        return float(logsumexp(densities + weights)) - numbers * math.log(self.unit)

    @property
    def sentence(self) -> str:
        """How the model was found and what it says about the table as a whole, in plain words."""
        return f"{self.origin} {self.evidence.sentence}"

    @property
    def origin(self) -> str:
        """How the model was found, in plain words."""
        e, d = self.effective_columns, self.n_columns
        counted = (
            f"The {d} columns count as {e:.1f} independent ones."
            if d > 1 and e < 0.95 * d
            else f"The {d} columns count in full."
            if d > 1
            else "The one column counts in full."
        )
        how = (
            "all trees were weighed"
            if self.is_exact_fit
            else "its hyperparameters by sampled trees: other seeds give slightly other numbers"
        )
        return (
            "Probabilities follow from a model of how the table came about, fitted to the table "
            f"itself ({how}); no beta was chosen. {counted}"
        )
