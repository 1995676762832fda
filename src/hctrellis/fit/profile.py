"""Profile likelihood: the likelihood as a function of one parameter, all others at their best."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hctrellis.support.checks import as_count

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray

SETTLED = 1e-4  # by which the cost may still fall when the others are at their best
MOST_STEPS = 25
CLOSE = 2e-3  # standard deviations by which an end of an interval may be off


class Interval(NamedTuple):
    """The ends of an interval, and whether each is a bound of the parameter."""

    low: float
    high: float
    low_is_bound: bool = False
    high_is_bound: bool = False


class Profile(NamedTuple):
    """Values of a parameter, and how far the log likelihood there is below its maximum."""

    name: str
    x: FloatArray
    drop: FloatArray


def profile_of(fit: Any, name: str, size: int, width: float) -> Profile:
    """See `Fit.profile`."""
    error = fit.errors[name]
    if not error > 0:
        raise ValueError(
            f"{name} has no standard error (it is at a bound, or the likelihood is flat), so there "
            "is no scale for its profile"
        )
    low, high = fit.bounds[name]
    ends = (fit.estimates[name] - width * error, fit.estimates[name] + width * error)
    x = np.linspace(max(low, ends[0]), min(high, ends[1]), as_count(size, "size"))
    return Profile(name, x, np.array([drop_at(fit, name, float(value)) for value in x]))


def interval_of(fit: Any, name: str, level: float) -> Interval:
    """See `Fit.interval`."""
    wanted = NormalDist().inv_cdf((1 + level) / 2)
    low, low_is_bound = _end(fit, name, -wanted)
    high, high_is_bound = _end(fit, name, wanted)
    return Interval(low, high, low_is_bound, high_is_bound)


def _end(fit: Any, name: str, wanted: float) -> tuple[float, bool]:
    """Where the square root of twice the drop is `wanted` (negative: below the estimate).

    That root is almost linear, so that a step or two find it between two values.
    """
    best, error = fit.estimates[name], fit.errors[name]
    bound = fit.bounds[name][0 if wanted < 0 else 1]
    step = wanted * (error if error > 0 else 0.1 * max(abs(best), 1e-3))

    def missing(x: float) -> float:
        return math.sqrt(2 * max(drop_at(fit, name, x), 0.0)) - abs(wanted)

    inner, before = best, -abs(wanted)
    for _ in range(MOST_STEPS):
        outer = max(inner + step, bound) if wanted < 0 else min(inner + step, bound)
        found = before if outer == inner else missing(outer)
        if found >= -CLOSE:
            return _between(missing, (inner, before), (outer, found)), False
        if outer == bound:
            return bound, True
        inner, before, step = outer, found, 1.6 * step
    raise ValueError(f"no end of the interval of {name} was found: the likelihood is too flat")


def _between(
    missing: Callable[[float], float], inner: tuple[float, float], outer: tuple[float, float]
) -> float:
    """Where a function is 0 between two points, given with its values of different signs.

    By the rule of false position; an end that stays counts half (the Illinois rule).
    """
    for _ in range(MOST_STEPS):
        if abs(outer[1]) < CLOSE:
            break
        x = inner[0] - inner[1] * (outer[0] - inner[0]) / (outer[1] - inner[1])
        found = missing(x)
        inner = outer if found * outer[1] < 0 else (inner[0], inner[1] / 2)
        outer = (x, found)
    return outer[0]


def drop_at(fit: Any, name: str, value: float) -> float:
    """How far the log likelihood is below its maximum at a value of one parameter."""
    return profiled_cost(fit, name, value) + float(fit.log_likelihood)


def profiled_cost(fit: Any, name: str, value: float) -> float:
    """The least cost at a value of one parameter.

    From where the curvature says that the others are best, Newton steps with that curvature.
    """
    names = list(fit.estimates)
    k = names.index(name)
    point = np.array(list(fit.estimates.values()))
    others = [i for i in range(len(names)) if i != k and fit.errors[names[i]] > 0]
    shift = value - point[k]
    point[k] = value
    if not others:
        return float(fit.cost(*point))
    inside = [*others, k] if fit.errors[name] > 0 else others
    curvature = np.linalg.inv(fit.covariance[np.ix_(inside, inside)])[: len(others), : len(others)]
    if fit.errors[name] > 0:
        ratio = fit.covariance[others, k] / fit.covariance[k, k]
        point[others] += ratio * shift
    ends = np.array([fit.bounds[names[i]] for i in others]).T
    point[others] = np.clip(point[others], *ends)
    cost, gradient = fit.cost.with_grad(*point)
    for _ in range(MOST_STEPS):
        step = -np.linalg.solve(curvature, gradient[others])
        if -0.5 * gradient[others] @ step < SETTLED:
            break
        best = cost
        for scale in (1.0, 0.5, 0.25, 0.1):
            trial = point.copy()
            trial[others] = np.clip(point[others] + scale * step, *ends)
            cost, gradient = fit.cost.with_grad(*trial)
            if cost <= best:
                break
        if np.array_equal(trial, point) or cost > best:
            break
        point = trial
    return float(cost)
