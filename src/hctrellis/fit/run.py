"""`fit`: the parameters that make data most probable, with errors and intervals."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from hctrellis.fit.cost import ANY, RANGES, NegativeLogLikelihood
from hctrellis.fit.minimise import Bounds, minimise
from hctrellis.fit.profile import Interval, Profile, interval_of, profile_of
from hctrellis.support.progress import Progress, followed, silent

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray

Minimiser: TypeAlias = Literal["auto", "iminuit", "scipy"]

ONE_SIGMA = math.erf(math.sqrt(0.5))  # the level of an interval of one standard deviation
OF_ONE_SIZE = 5  # jets with the same number of particles, from which a selection is suspected
NEAR_END = 2.0  # standard errors from the end of its range at which a parameter is hardly known
MISSED = 15.0  # jets of unseen sizes that are expected: none would be seen once in e^15 times
FLAT = 1e-6  # curvature in units of parameters that is rounding: errors of 1000 times their value
SMALL = 1e-3  # parameters that are smaller count as this large
AT_BOUND = 1e-6  # relative distance to a bound that counts as none


class Parameter(NamedTuple):
    """A fitted parameter: its value, its standard error, and whether it is at a bound."""

    value: float
    error: float
    at_bound: bool = False


@dataclass(frozen=True, repr=False)
class Fit(Mapping[str, Parameter]):
    """What `fit` found: a mapping from names to parameters.

    Attributes
    ----------
    estimates, errors : dict from str to float
        The best values, and standard errors from the curvature of the log likelihood at its maximum
        (NaN at a bound).
    covariance : float64 array, shape (k, k)
        Of the parameters, in the order of `estimates`.
    log_likelihood : float
        At the maximum.
    gradient : float64 array, shape (k,)
        Of minus the log likelihood, which is near 0 unless a parameter is at a bound.
    n_data_sets : int
    n_evaluations : int
        How often the likelihood was computed.
    minimiser : str
    cost : NegativeLogLikelihood
    bounds : dict from str to (float, float)
    """

    estimates: dict[str, float]
    errors: dict[str, float]
    covariance: FloatArray
    log_likelihood: float
    gradient: FloatArray
    n_data_sets: int
    n_evaluations: int
    minimiser: str
    cost: NegativeLogLikelihood = field(repr=False)
    bounds: dict[str, tuple[float, float]]

    def __getitem__(self, name: str) -> Parameter:
        value = self.estimates[name]
        return Parameter(value, self.errors[name], _at_bound(value, self.bounds[name]))

    def __iter__(self) -> Any:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    def interval(self, name: str, level: float = ONE_SIGMA) -> Interval:
        """The profile-likelihood interval of a parameter.

        Its ends are where the log likelihood, maximised over all other parameters, is below its
        maximum by z^2 / 2, z being the quantile of a standard normal distribution for the level
        (one standard deviation by default). An end may be a bound.

        Parameters
        ----------
        name : str
        level : float
            Between 0 and 1.
        """
        if not 0 < level < 1:
            raise ValueError(f"level must be between 0 and 1; got {level!r:.80}")
        return interval_of(self._checked(name), name, level)

    def profile(self, name: str, size: int = 21, width: float = 3.0) -> Profile:
        """The log likelihood, maximised over all other parameters, around the estimate.

        Parameters
        ----------
        name : str
        size : int
            Number of values of the parameter.
        width : float
            How far they go to either side, in standard errors.
        """
        return profile_of(self._checked(name), name, size, width)

    def _checked(self, name: str) -> Fit:
        if name not in self.estimates:
            known = ", ".join(self.estimates)
            raise ValueError(f"{name!r:.80} was not fitted; the free parameters are {known}")
        return self

    def __repr__(self) -> str:
        shown = []
        for name, (value, error, at_bound) in self.items():
            digits = max(0, 1 - math.floor(math.log10(error))) if error > 0 else 6
            text = f"{value:.{digits}f} +- {error:.{digits}f}" if error > 0 else f"{value:.6g}"
            note = " (at its bound)" if at_bound else "" if error > 0 else " (not determined)"
            shown.append(f"{name} = {text}{note}")
        sets = f"{self.n_data_sets} data set{'s' if self.n_data_sets > 1 else ''}"
        return f"Fit({', '.join(shown)}; {sets}, log likelihood {self.log_likelihood:.6g})"


def fit(
    model: Any,
    data: Any = None,
    *,
    free: Sequence[str] | str | None = None,
    bounds: Bounds | None = None,
    n_leaves: tuple[int, int] | None = None,
    minimiser: Minimiser = "auto",
    column: str | None = None,
    threads: int | None = None,
    progress: Progress | bool | None = None,
    **parameters: Any,
) -> Fit:
    """Maximum marginal likelihood: the parameters at which the sum of log Z is largest.

    Each log Z is the likelihood of a data set, summed over all trees, if the model is a density
    of data. That is so for `GinkgoDensity`, `BetaSplitting` and `Contrasts` whose columns all
    count; for others a warning says that the maximum is not an estimate.

    Parameters
    ----------
    model : class, callable, name or Potential
        A model of jets (`GinkgoDensity`, "ginkgo-density", ...); a class or function that is called
        as ``model(data_set, **parameters)`` and makes a potential; or potentials, one or a list,
        without data.
    data : optional
        Jets, as `infer_many` takes them (an Awkward array, simulated `Jets`, an Arrow table, a list
        of arrays, the path of a Parquet file); for other models a data set, or a list of them.
    free : sequence of str, optional
        The parameters to be fitted; by default all that the model has. lam_root of a shower is one
        if it is given a value to start from.
    bounds : mapping from str to (float, float), optional
        Between which a parameter must stay; None stands for no bound on that side.
    n_leaves : (int, int), optional
        Use only jets with a number of particles from the first to the second of two numbers. Which
        jets these are depends on the rates, so the likelihood is divided by the probability that a
        jet is kept. Never leave out jets without saying so: estimates are biased by many standard
        errors.
    minimiser : "auto", "iminuit" or "scipy"
        iminuit if it is installed, by default.
    column : str, optional
        Which column of a table or file of jets to take the momenta from.
    threads : int, optional
    progress : bool or callable, optional
        True shows how often the likelihood was computed; a callable is called as
        progress(evaluations, None).
    **parameters
        Those of the model: values of fixed ones, and where to start for free ones.

    Returns
    -------
    Fit

    Examples
    --------
    >>> import hctrellis as hct
    >>> jets = hct.simulate.ginkgo(300, lam=1.5, t_cut=64, rng=1)
    >>> found = hct.fit(hct.GinkgoDensity, jets, lam=1.0, t_cut=64)
    >>> found
    Fit(lam = 1.522 +- 0.084; 300 data sets, log likelihood -7567.48)
    >>> low, high = found.interval("lam")[:2]
    >>> low < 1.5 < high
    True
    """
    cost = NegativeLogLikelihood(
        model,
        data,
        free=free,
        n_leaves=n_leaves,
        column=column,
        threads=threads,
        **parameters,
    )
    limits = _as_bounds(cost, bounds)
    with followed(progress, "evaluations") as cost.report:
        _refuse_impossible(cost)
        found = minimise(cost, limits, minimiser)
        covariance = _covariance(cost, found.x, limits)
    cost.report = silent
    point = dict(zip(cost.names, map(float, found.x), strict=True))
    _warn_if_selected(cost, point)
    errors = np.sqrt(np.diagonal(covariance))
    _warn_if_flat(cost.names, errors, [_at_bound(point[name], limits[name]) for name in point])
    _warn_if_hardly_known(point, errors)
    return Fit(
        point,
        dict(zip(cost.names, errors.tolist(), strict=True)),
        covariance,
        -found.cost,
        found.gradient,
        cost.n_data_sets,
        cost.n_evaluations,
        found.minimiser,
        cost,
        limits,
    )


def _refuse_impossible(cost: NegativeLogLikelihood) -> None:
    """Refuse data that no tree can explain, whatever the parameters."""
    cost(*cost.start.values())
    if len(cost.impossible) > 0:
        raise ValueError(
            f"{len(cost.impossible)} of {cost.n_data_sets} data sets are impossible under the "
            f"model (number {cost.impossible[0]} is the first): every tree has weight 0; for jets, "
            "t_cut may be wrong: no particle may have a squared mass above it"
        )


def _warn_if_selected(cost: NegativeLogLikelihood, point: Mapping[str, float]) -> None:
    """Warn if jets with few or with many particles seem to have been left out."""
    if cost.seen is None:
        return
    missing = float(-np.expm1(cost.seen.log_probabilities(point)).sum())
    low, high = cost.seen.window
    if low == high and cost.n_data_sets >= OF_ONE_SIZE:  # a rate that fits this can be found
        warnings.warn(
            f"all {cost.n_data_sets} jets have {low} particles: if they were selected by that, say "
            f"n_leaves=({low}, {low}), or the estimate is that of a shower which makes no others",
            stacklevel=3,
        )
    elif missing > MISSED:
        warnings.warn(
            f"all jets have from {low} to {high} particles, while about {missing:.0f} of "
            f"{cost.n_data_sets} should have others at the fitted rates: if they were selected by "
            f"number of particles, say n_leaves=({low}, {high}), which corrects for it",
            stacklevel=3,
        )


def _warn_if_flat(names: Sequence[str], errors: FloatArray, at_bound: Sequence[bool]) -> None:
    """Warn if the likelihood has no maximum inside the bounds that would tell a parameter."""
    flat = [n for n, e, b in zip(names, errors, at_bound, strict=True) if not e > 0 and not b]
    if flat:
        which = ", ".join(flat)
        warnings.warn(
            f"the data do not tell {which}: the likelihood is flat there, or has no maximum, so "
            "that the value is only where the search ended, and it has no error",
            stacklevel=3,
        )


def _warn_if_hardly_known(point: Mapping[str, float], errors: FloatArray) -> None:
    """Warn if the range of a parameter ends within its error."""
    for (name, value), error in zip(point.items(), errors, strict=True):
        ends = [end for end in RANGES.get(name, ANY) if math.isfinite(end)]
        if any(abs(value - end) < NEAR_END * error for end in ends):
            warnings.warn(
                f"the data tell little about {name}: its value, {value:.3g}, is less than two "
                f"standard errors ({error:.2g} each) from the end of its range; take its interval, "
                "or more data",
                stacklevel=3,
            )


def _as_bounds(cost: NegativeLogLikelihood, given: Bounds | None) -> dict[str, tuple[float, float]]:
    """A pair of numbers, perhaps infinite, for each parameter."""
    found = {name: RANGES.get(name, ANY) for name in cost.names}
    for name, pair in (given or {}).items():
        if name not in found:
            raise ValueError(f"bounds were given for {name!r:.80}, which is not a free parameter")
        low, high = pair
        low = found[name][0] if low is None else max(found[name][0], float(low))
        high = found[name][1] if high is None else min(found[name][1], float(high))
        if not low < high:
            raise ValueError(f"the bounds of {name} are empty: {pair!r:.80}")
        found[name] = (low, high)
    return found


def _at_bound(value: float, bounds: tuple[float, float]) -> bool:
    return any(math.isclose(value, end, rel_tol=AT_BOUND, abs_tol=AT_BOUND) for end in bounds)


def _covariance(
    cost: NegativeLogLikelihood, x: FloatArray, bounds: Mapping[str, tuple[float, float]]
) -> FloatArray:
    """The inverse of the curvature; NaN for parameters at a bound, or if it is flat or rises."""
    inside = np.array(
        [not _at_bound(value, bounds[name]) for name, value in zip(cost.names, x, strict=True)]
    )
    covariance = np.full((len(x), len(x)), np.nan)
    if inside.any():
        curvature = cost.curvature(*x)[np.ix_(inside, inside)]
        size = np.maximum(np.abs(x[inside]), SMALL)
        if (np.linalg.eigvalsh(curvature * np.outer(size, size)) > FLAT).all():
            covariance[np.ix_(inside, inside)] = np.linalg.inv(curvature)
    return covariance
