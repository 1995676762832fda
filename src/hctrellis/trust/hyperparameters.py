"""Hyperparameters of Student-t contrasts, by the evidence: log Z plus the log of a weak prior."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hctrellis.potentials.contrasts import StudentContrasts
from hctrellis.support.imports import ONE_AT_A_TIME
from hctrellis.support.progress import Progress
from hctrellis.trust.logpartition import (
    START,
    TIGHT,
    ExactLogPartition,
    Objective,
    SampledLogPartition,
    TableLogPartition,
)

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray, IntArray

EXACT_LEAVES = 14  # up to which all trees are weighed, some 50 times
NAMES = ("sigma", "tau", "gamma", "nu")
MEANS = np.array([-1.0, -1.0, 1.0, math.log(8.0)])  # of the prior, normal in each of u
DEVIATIONS = np.array([2.0, 2.0, 0.5, 1.0])
BOUNDS = ((math.log(0.01), 10.0), (math.log(0.01), 10.0), (-1.0, 3.0), (math.log(2.0), 8.0))
REFITS = 2  # with a new effective number of columns
STILL = 0.1  # in u: smaller than the posterior deviation of each
MOST_STEPS = 15
LAST_TIMES = 10  # as many trees for the last step, so that another seed gives nearly the same
PARTS = 100  # of a fit that are reported as done
STEP, WIDE_STEP = 0.05, 0.3  # of what is left of a climb: a look at one place, or around one
CURVATURE_STEP = 1e-2  # in each of u
AT_BOUND = 1e-6
TINY = 1e-9
LEAST = 0.25  # of curvatures: that of the widest prior


def log_prior(u: FloatArray, which: Sequence[int] = range(len(NAMES))) -> FloatArray:
    """The log of the prior density of some hyperparameters, within their bounds."""
    z = (u - MEANS[list(which)]) / DEVIATIONS[list(which)]
    return np.asarray((-0.5 * z**2 - _log_masses()[list(which)]).sum(axis=-1))


def prior_slope(u: FloatArray) -> FloatArray:
    """The gradient of the log prior density."""
    slope: FloatArray = (MEANS - u) / DEVIATIONS**2
    return slope


@cache
def _log_masses() -> FloatArray:
    """The log of the integral of each factor of the prior within its bounds."""
    with ONE_AT_A_TIME:
        from scipy.special import ndtr

    low, high = (np.array(ends) for ends in zip(*BOUNDS, strict=True))
    inside = ndtr((high - MEANS) / DEVIATIONS) - ndtr((low - MEANS) / DEVIATIONS)
    masses: FloatArray = np.log(DEVIATIONS * math.sqrt(2 * math.pi) * inside)
    return masses


class Optimum(NamedTuple):
    """What was found.

    Attributes
    ----------
    u : array, shape (4,)
    columns : float
        The effective number of columns.
    log_volume : float
        Log of the integral of Z times prior over u, relative to its greatest value.
    n_evaluations : int
        How often log Z was computed.
    is_exact : bool
        Whether all trees were weighed.
    """

    u: FloatArray
    columns: float
    log_volume: float
    n_evaluations: int
    is_exact: bool


def fit(
    model: StudentContrasts,
    fixed: Mapping[int, float],
    columns: float | None,
    rng: np.random.Generator,
    progress: Progress,
) -> Optimum:
    """The hyperparameters of greatest evidence, and the effective number of columns.

    Parameters
    ----------
    model : StudentContrasts
        Its hyperparameters are not used.
    fixed : mapping
        Entries of u that are given.
    columns : float, optional
        The effective number of columns, if it is given.
    """
    progress(0, PARTS)
    is_exact = model.n_leaves <= EXACT_LEAVES
    target = (ExactLogPartition if is_exact else SampledLogPartition)(model, rng)
    free = np.array([i for i in range(len(NAMES)) if i not in fixed], int)
    starts = [START.copy(), TIGHT.copy()] if is_exact else [START.copy()]
    for start in starts:
        start[list(fixed)] = list(fixed.values())
    target.columns = float(model.n_columns) if columns is None else columns
    rounds = 1 if columns is not None or model.n_columns == 1 else 1 + REFITS
    n_evaluations = 0
    for done in range(rounds):
        pace = _Pace(progress, done, rounds)
        climbs = [_maximise(target, start, free, pace) for start in starts]
        u, objective, _ = max(climbs, key=_height) if len(climbs) > 1 else climbs[0]
        starts = [u]
        n_evaluations += sum(count for _, _, count in climbs)
        if done + 1 < rounds:
            target.columns = effective_columns(target.contrasts(u))
    if not is_exact:
        u, objective, count = _maximise(target, u, free, pace, most_steps=1, times=LAST_TIMES)
        n_evaluations += count
    volume = _log_volume(objective, u, free)
    progress(PARTS, PARTS)
    return Optimum(u, target.columns, volume, n_evaluations, is_exact)


class _Pace:
    """How far a fit has come; it is not known how many steps a climb will take."""

    def __init__(self, progress: Progress, round_: int, rounds: int) -> None:
        self.progress, self.round, self.rounds = progress, round_, rounds
        self.rest = 1.0

    def step(self, radius: float) -> None:
        """One more look at log Z, at a place or (with a radius) around it."""
        self.progress(int(PARTS * (self.round + 1 - self.rest) / self.rounds), PARTS)
        self.rest *= 1 - (STEP if radius == math.inf else WIDE_STEP)


def _maximise(
    target: TableLogPartition,
    u: FloatArray,
    free: IntArray,
    pace: _Pace,
    most_steps: int = MOST_STEPS,
    times: int = 1,
) -> tuple[FloatArray, Objective, int]:
    """Climb to the greatest log Z + log prior, by steps as far as the objective is believed."""
    with ONE_AT_A_TIME:
        from scipy.optimize import minimize

    count = 0
    for _ in range(most_steps):
        objective, radius = target.around(u, times)
        pace.step(radius)

        def loss(
            x: FloatArray,
            centre: FloatArray = u,
            log_z: Objective = objective,
            believed: float = radius,
        ) -> Any:
            nonlocal count
            count += 1
            if believed == math.inf:
                pace.step(believed)
            point = centre.copy()
            point[free] = x
            value, slope = log_z(point)
            return -(value + float(log_prior(point))), -(slope + prior_slope(point))[free]

        if len(free) == 0:
            return u, objective, count
        bounds = [
            (max(low, u[i] - radius), min(high, u[i] + radius))
            for i, (low, high) in enumerate(BOUNDS)
            if i in free
        ]
        found = minimize(loss, u[free], jac=True, bounds=bounds, method="L-BFGS-B")
        before, u = u, u.copy()
        u[free] = found.x
        if radius == math.inf or np.abs(u - before).max() < STILL:
            break
    return u, objective, count


def _height(climb: tuple[FloatArray, Objective, int]) -> float:
    """log Z + log prior where a climb ended, for objectives that share their constant."""
    u, objective, _ = climb
    return objective(u)[0] + float(log_prior(u))


def effective_columns(contrasts: Sequence[FloatArray]) -> float:
    """1 / the mean squared cosine between two contrasts of a tree; from 1 to the number of columns.

    Contrasts of independent columns point in random directions, and the mean is 1 / d.
    """
    cosines, pairs = 0.0, 0
    for rows in contrasts:
        lengths = np.sqrt((rows**2).sum(axis=1))
        directions = rows[lengths > TINY] / lengths[lengths > TINY, None]
        products = (directions @ directions.T) ** 2
        cosines += float(products.sum() - np.trace(products)) / 2
        pairs += len(directions) * (len(directions) - 1) // 2
    if pairs == 0 or cosines == 0:
        return float(contrasts[0].shape[1])
    return float(np.clip(pairs / cosines, 1.0, contrasts[0].shape[1]))


def _log_volume(objective: Objective, u: FloatArray, free: IntArray) -> float:
    """Laplace's method: log of the integral of Z times prior over u, relative to the maximum.

    A hyperparameter at a bound is integrated over on one side of it.
    """
    with ONE_AT_A_TIME:
        from scipy.special import log_ndtr

    def slope(point: FloatArray) -> FloatArray:
        found: FloatArray = objective(point)[1] + prior_slope(point)
        return found

    steps = CURVATURE_STEP * np.eye(len(u))[free]
    rows = [(slope(u - step) - slope(u + step))[free] / (2 * CURVATURE_STEP) for step in steps]
    curvature = np.array(rows).reshape(len(free), len(free))
    curvature = (curvature + curvature.T) / 2
    bounds = np.array(BOUNDS)[free]
    inner = np.abs(bounds - u[free, None]).min(axis=1) > AT_BOUND
    values = np.linalg.eigvalsh(curvature[np.ix_(inner, inner)])
    total = 0.5 * float((math.log(2 * math.pi) - np.log(np.maximum(values, LEAST))).sum())
    pushes = np.abs(slope(u)[free])
    for i in np.flatnonzero(~inner):
        h = max(float(curvature[i, i]), LEAST)
        z = float(pushes[i]) / math.sqrt(h)
        total += 0.5 * (math.log(2 * math.pi / h) + z * z) + float(log_ndtr(-z))
    return total
