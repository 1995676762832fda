"""The distribution of the log weight of a posterior tree: of all trees, or of samples."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hctrellis.support.logs import TIE

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray

_ROUNDING = 1e-12  # of sums of probabilities


@dataclass(frozen=True, eq=False, repr=False)
class LogWeightDistribution:
    """How the log weight of a tree is distributed over a posterior.

    Made by `Posterior.log_weight_distribution`. Mean, variance and maximum are exact in any case.

    Attributes
    ----------
    mean, variance, maximum : float
    values : float64 array
        The log weights of trees, in increasing order.
    probabilities : float64 array
        The probability of each of these trees, or 1 / size if they are samples.
    is_exact : bool
        Whether these are all trees; if not, they are samples.
    """

    mean: float
    variance: float
    maximum: float
    values: FloatArray
    probabilities: FloatArray
    is_exact: bool

    @property
    def standard_deviation(self) -> float:
        """The square root of the variance."""
        return math.sqrt(self.variance)

    def cdf(self, x: npt.ArrayLike) -> Any:
        """The probability that a posterior tree has a log weight of at most x.

        Log weights that agree to 1e-12, relative to their size, count as equal, so that
        ``cdf(potential.log_weight(tree))`` is the probability of a tree at most as good as this
        one, itself included.

        Parameters
        ----------
        x : float or array_like of float

        Returns
        -------
        float or float64 array
        """
        given = np.asarray(x, float)
        if np.isnan(given).any():
            raise ValueError("x must be a number, or an array of numbers; got NaN")
        margin = np.where(np.isinf(given), 0.0, TIE * np.maximum(1.0, np.abs(given)))
        below = np.searchsorted(self.values, given + margin, side="right")
        return np.append(0.0, self._cumulative)[below]

    def quantile(self, q: npt.ArrayLike) -> Any:
        """The least log weight of a tree whose `cdf` is at least q.

        Parameters
        ----------
        q : float or array_like of float
            From 0 to 1.

        Returns
        -------
        float or float64 array
        """
        given = np.asarray(q, float)
        if not ((given >= 0) & (given <= 1)).all():
            raise ValueError(f"q must be from 0 to 1; got {q!r:.80}")
        found = np.searchsorted(self._cumulative, given - _ROUNDING, side="left")
        return self.values[np.minimum(found, len(self.values) - 1)]

    def histogram(self, bins: Any = 50) -> tuple[FloatArray, FloatArray]:
        """The probability of each bin, and the edges of the bins.

        Parameters
        ----------
        bins : int or array_like of float
            The number of bins from the least to the greatest log weight, or their edges.
        """
        masses, edges = np.histogram(self.values, bins, weights=self.probabilities)
        return masses, edges

    @cached_property
    def _cumulative(self) -> FloatArray:
        sums = np.cumsum(self.probabilities)
        shares: FloatArray = sums / sums[-1]
        return shares

    def __repr__(self) -> str:
        source = "all of" if self.is_exact else "samples:"
        return (
            f"LogWeightDistribution(mean {self.mean:.6g}, standard deviation "
            f"{self.standard_deviation:.4g}, maximum {self.maximum:.6g}; {source} "
            f"{len(self.values)} trees)"
        )
