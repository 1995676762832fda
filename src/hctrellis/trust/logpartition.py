"""log Z of Student-t contrasts as a function of their hyperparameters, with its gradient.

u = (ln sigma^2, ln tau^2, gamma, ln nu), variances in units of that of the whole table. The
gradient of log Z is the posterior mean, over the splits of a tree, of that of the log density of a
contrast. With all trees weighed, both are exact. With more rows than that, the weights of trees
that Markov chains draw at one u tell by how much log Z changes near it (Geyer's Monte Carlo maximum
likelihood).

Reference: C. J. Geyer, Markov chain Monte Carlo maximum likelihood, Computing Science and
Statistics 23 (1991).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from hctrellis.chains.chains import Chains
from hctrellis.clusters import Lattice, split_members
from hctrellis.posterior.sample import draw
from hctrellis.potentials.contrasts import StudentContrasts, contrast_matrix, log_constant
from hctrellis.search import greedy
from hctrellis.support.imports import ONE_AT_A_TIME
from hctrellis.support.steps import check_stop
from hctrellis.support.types import BoolArray
from hctrellis.tree import Tree
from hctrellis.trellis.full import FullTrellis
from hctrellis.trellis.listed import lattice_chunks, lattice_splits

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray

START = np.array([-1.0, -1.0, 1.0, math.log(8.0)])  # where a fit begins
TIGHT = np.array([-4.0, -4.0, 1.0, math.log(3.0)])  # another start: tight groups, far apart
DRAWN_TREES = 1000  # whose contrasts are looked at
CHAINS, RECORDS = 16, 12  # of trees that are drawn where not all can be weighed
MOVES_PER_LEAF = 2  # between two records
WARM_UP = 10  # records' worth of moves before the first
RADIUS = 0.7  # in u, for which the trees drawn at one u serve

Objective: TypeAlias = "Callable[[FloatArray], tuple[float, FloatArray]]"
"""A number, and its gradient in u."""


class Local(NamedTuple):
    """log Z near some u, and how far from it this can be believed, in each of u."""

    objective: Objective
    radius: float = math.inf


class Lengths(NamedTuple):
    """What the density of contrasts depends on, for many splits.

    Attributes
    ----------
    increase : array
        Ward's increase of the sum of squares, in units of the table.
    harmonic : array
        q = |L| |R| / |P|.
    """

    increase: FloatArray
    harmonic: FloatArray


def log_densities(
    splits: Lengths, u: FloatArray, columns: float, share: float
) -> tuple[FloatArray, list[FloatArray]]:
    """The log density of contrasts, less what all have in common, and its derivatives in u.

    Parameters
    ----------
    splits : Lengths
    u : array, shape (4,)
    columns, share : float
        The effective number of columns, and its share of all columns.
    """
    with ONE_AT_A_TIME:
        from scipy.special import digamma

    noise, scale, nu = np.exp(u[[0, 1, 3]])
    logs = np.log(splits.harmonic)
    between = scale * np.exp(u[2] * logs)
    v, length = noise + between, share * splits.increase
    ratio = length / (nu * v)
    surprise = np.log1p(ratio)
    value = -0.5 * (columns * np.log(v) + (nu + columns) * surprise)
    pull = (nu + columns) * ratio / (1 + ratio)
    by_v = 0.5 * (pull - columns) / v
    gammas = float(digamma((nu + columns) / 2) - digamma(nu / 2)) - columns / nu
    by_nu = 0.5 * (gammas - surprise + pull / nu)
    return value, [by_v * noise, by_v * between, by_v * between * logs, nu * by_nu]


def at(model: StudentContrasts, u: FloatArray, columns: float) -> StudentContrasts:
    """The same table with other hyperparameters."""
    other = copy(model)
    sigma, tau = (model.unit * math.exp(x / 2) for x in u[:2])
    other.assign(sigma, tau, float(u[2]), math.exp(u[3]), columns)
    return other


# ---- all trees, or drawn ones ------------------------------------------------------------------


class TableLogPartition(ABC):
    """log Z of a table as a function of u, for one effective number of columns."""

    def __init__(self, model: StudentContrasts, rng: np.random.Generator) -> None:
        self.model, self.rng = model, rng
        self.columns = float(model.n_columns)

    @property
    def share(self) -> float:
        """The effective number of columns, divided by the number of columns."""
        return float(self.columns / self.model.n_columns)

    @abstractmethod
    def around(self, u: FloatArray, times: int = 1) -> Local:
        """log Z near u, up to a constant; if by trees that are drawn, by so many times as many."""

    @abstractmethod
    def contrasts(self, u: FloatArray) -> list[FloatArray]:
        """The contrasts of some trees that are drawn at u."""


class ExactLogPartition(TableLogPartition):
    """By weighing all trees."""

    def __init__(self, model: StudentContrasts, rng: np.random.Generator) -> None:
        super().__init__(model, rng)
        self.trellis = FullTrellis(model.n_leaves)
        lattice = Lattice(model.n_leaves)
        squares = lattice.pair_sums(model.squares) / np.maximum(lattice.sizes, 1)
        self.chunks = []
        for chunk in lattice_chunks(model.n_leaves):
            listed = lattice_splits(chunk)
            whole = np.repeat(chunk, np.diff(listed.offsets))
            increase = squares[whole] - squares[listed.lefts] - squares[listed.rights]
            a, b = lattice.sizes[listed.lefts], lattice.sizes[listed.rights]
            contrasts = Lengths(np.maximum(increase, 0.0), a * b / (a + b))
            self.chunks.append((whole, listed, contrasts))

    def around(self, u: FloatArray, times: int = 1) -> Local:
        return Local(self._value_and_slope)

    def _value_and_slope(self, u: FloatArray) -> tuple[float, FloatArray]:
        check_stop()
        solution = self.trellis.solve(at(self.model, u, self.columns), 1)
        slope = np.zeros(len(u))
        for whole, listed, contrasts in self.chunks:
            p = solution.probabilities[whole] * solution.split_probabilities(listed)
            _, slopes = log_densities(contrasts, u, self.columns, self.share)
            slope += [float((p * part).sum()) for part in slopes]
        return solution.log_partition, slope

    def contrasts(self, u: FloatArray) -> list[FloatArray]:
        model = at(self.model, u, self.columns)
        drawn = draw(self.trellis.solve(model, 1), DRAWN_TREES, self.rng)
        return [model.contrasts(tree) for tree in drawn]


class SampledLogPartition(TableLogPartition):
    """From trees of Markov chains: the log of the mean ratio of their weights."""

    def __init__(self, model: StudentContrasts, rng: np.random.Generator) -> None:
        super().__init__(model, rng)
        first = at(model, START, self.columns)
        self.trees = np.repeat(greedy(first).children[None].astype(np.int16), CHAINS, axis=0)

    def around(self, u: FloatArray, times: int = 1) -> Local:
        check_stop()
        model = at(self.model, u, self.columns)
        chains, moves = Chains(model), MOVES_PER_LEAF * model.n_leaves
        warm = chains.run(self.trees, 1.0, self.rng, 1, WARM_UP * moves)
        records = chains.run(warm.children[:, -1], 1.0, self.rng, times * RECORDS, moves)
        self.trees = records.children[:, -1]
        drawn = [
            split_members(Tree(children, labels=model.labels))[:2]
            for children in records.children.reshape(-1, *self.trees.shape[1:])
        ]
        lengths = [_lengths(model, left, right) for left, right in drawn]
        contrasts = Lengths(*(np.array(part) for part in zip(*lengths, strict=True)))
        self.drawn = drawn[:: max(1, len(drawn) // DRAWN_TREES)]
        return Local(_Ratios(contrasts, u, self.columns, self.share), RADIUS)

    def contrasts(self, u: FloatArray) -> list[FloatArray]:
        return [contrast_matrix(*sides) @ self.model.rows for sides in self.drawn]


class _Ratios:
    """log (Z / Z at the centre), by trees that were drawn there, and its gradient."""

    def __init__(
        self, contrasts: Lengths, centre: FloatArray, columns: float, share: float
    ) -> None:
        self.contrasts, self.columns, self.share = contrasts, columns, share
        self.at_centre, _ = self._log_weights(centre)

    def _log_weights(self, u: FloatArray) -> tuple[FloatArray, list[FloatArray]]:
        """The log weight of each tree, less the prior, and its derivatives."""
        values, slopes = log_densities(self.contrasts, u, self.columns, self.share)
        n_splits = values.shape[1]
        common = n_splits * log_constant(math.exp(u[3]), self.columns)
        return values.sum(axis=1) + common, [part.sum(axis=1) for part in slopes]

    def __call__(self, u: FloatArray) -> tuple[float, FloatArray]:
        values, slopes = self._log_weights(u)
        steps = values - self.at_centre
        weights = np.exp(steps - steps.max())
        value = float(steps.max()) + math.log(weights.mean())
        weights /= weights.sum()
        return value, np.array([float((weights * part).sum()) for part in slopes])


def _lengths(model: StudentContrasts, left: BoolArray, right: BoolArray) -> Lengths:
    contrasts = contrast_matrix(left, right) @ model.rows
    a, b = left.sum(axis=1), right.sum(axis=1)
    return Lengths((contrasts**2).sum(axis=1), a * b / (a + b))
