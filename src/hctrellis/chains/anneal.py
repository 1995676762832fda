"""log Z, and trees that owe nothing to a search, by tempering from uniform trees (SMC).

A population of trees starts uniform, where the sum of all weights is (2n - 3)!!, and is moved
through heats 0 = h_0 < h_1 < ... < 1, at which a tree weighs weight^h. From one heat to the next
the trees are weighed by the ratio of their weights, whose mean is the ratio of the two sums; some
are drawn in proportion to it, and run as Markov chains at the new heat. All trees of these chains
are the next population ("waste-free" sequential Monte Carlo).

The heats are chosen in a pilot run and then kept: an estimate of Z is unbiased only if they do not
depend on the population that they weigh.

Reference: H.-D. Dau, N. Chopin, Waste-free sequential Monte Carlo, J. R. Stat. Soc. B 84 (2022).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hctrellis.chains.chains import Chains, LateError, Records
from hctrellis.clusters import n_trees

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray, IntArray, SmallArray

KEPT_SHARE = 0.5  # of a population that is effective after it is weighed for the next heat
FINEST = 1e-9  # the least step between two heats


@dataclass(frozen=True)
class Annealed:
    """One run.

    Attributes
    ----------
    log_partition : float
        An estimate of log Z: its exponential is unbiased if the heats were given.
    heats : tuple of float
        From 0 to 1.
    n_ancestors : int
        How many of the first trees have descendants among the last.
    final : Records
        The last population, chain by chain.
    trail : int16 array, shape (heats, n - 1, 2)
        A tree of the population at each heat.
    """

    log_partition: float
    heats: tuple[float, ...]
    n_ancestors: int
    final: Records
    trail: SmallArray


def anneal(
    chains: Chains,
    n_chains: int,
    n_records: int,
    n_moves: int,
    rng: np.random.Generator,
    heats: tuple[float, ...] | None = None,
    late: Callable[[], bool] = lambda: False,
) -> Annealed:
    """One run of tempering; without heats a pilot, which chooses them.

    Raises `LateError` if it is late before the last heat.
    """
    size = n_chains * n_records
    population = chains.weigh(chains.uniform(size, rng))
    origins = np.arange(size)
    log_partition = math.log(n_trees(chains.potential.n_leaves))
    used = [0.0]
    trail = [population.children[0, 0]]
    while used[-1] < 1.0:
        if late():
            raise LateError
        heat = _next_heat(population, used[-1]) if heats is None else heats[len(used)]
        steps = (population.log_targets(heat) - population.log_targets(used[-1])).ravel()
        top = float(steps.max())
        if top == -math.inf:  # every tree of the population has a forbidden split
            return Annealed(-math.inf, (*used, 1.0), 0, population, np.array([*trail, trail[-1]]))
        weights = np.exp(steps - top)
        log_partition += top + math.log(weights.mean())
        drawn = _systematic(weights, n_chains, rng)
        starts = population.children.reshape(size, -1, 2)[drawn]
        population = chains.run(starts, np.full(n_chains, heat), rng, n_records, n_moves, late)
        origins = np.repeat(origins[drawn], n_records)
        used.append(heat)
        trail.append(population.children[n_chains // 2, -1])
    n_ancestors = len(np.unique(origins))
    return Annealed(log_partition, tuple(used), n_ancestors, population, np.array(trail))


def _next_heat(population: Records, heat: float) -> float:
    """The heat at which the effective share of the population has fallen to what is kept."""
    before = population.log_targets(heat)

    def enough(candidate: float) -> bool:
        return _effective_share((population.log_targets(candidate) - before).ravel()) >= KEPT_SHARE

    if enough(1.0):
        return 1.0
    low, high = heat, 1.0
    while high - low > max(FINEST, 1e-3 * (low - heat)):
        middle = (low + high) / 2
        low, high = (middle, high) if enough(middle) else (low, middle)
    return max(low, heat + FINEST)


def _effective_share(log_weights: FloatArray) -> float:
    top = log_weights.max()
    if top == -np.inf:
        return 0.0
    weights = np.exp(log_weights - top)
    return float(weights.sum() ** 2 / (weights**2).sum() / len(weights))


def _systematic(weights: FloatArray, size: int, rng: np.random.Generator) -> IntArray:
    """Indices drawn in proportion to weights, spread as evenly as they can be."""
    cumulative = np.cumsum(weights)
    points = (np.arange(size) + rng.random()) / size * cumulative[-1]
    found: IntArray = np.searchsorted(cumulative, points, side="right")
    return np.minimum(found, len(weights) - 1)
