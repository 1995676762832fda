"""Contrasts between siblings: a normalised density of a table given a tree, without a temperature.

For any binary tree over n rows, the n - 1 contrasts

    c_P = sqrt(|L| |R| / |P|) (mean of L - mean of R)

are an orthonormal transform of the rows less their mean, and |c_P|^2 = SSE(P) - SSE(L) - SSE(R) is
Ward's increase of the sum of squares. A density for each contrast is therefore a density of the
table, for every tree; times a probability of the tree, its sum over trees is the evidence of the
model, and that sum is what the trellis computes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from copy import copy
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from hctrellis.clusters import n_trees
from hctrellis.potentials.base import Potential, Sums
from hctrellis.support.checks import as_finite, as_labels, as_positive
from hctrellis.support.imports import ONE_AT_A_TIME
from hctrellis.support.memory import check_fits

if TYPE_CHECKING:
    from hctrellis.kernels.bind import SplitCode
    from hctrellis.support.types import FloatArray
    from hctrellis.tree import Tree

Prior = Literal["yule", "uniform"]


class Hyperparameters(NamedTuple):
    """What the density of a contrast depends on, besides its length and the sizes of its sides.

    Attributes
    ----------
    sigma : float
        Standard deviation of noise, per column, in the units of the table.
    tau : float
        How far clusters are apart, per column: the variance of a contrast is
        sigma^2 + tau^2 q^gamma for q = |L| |R| / |P|.
    gamma : float
        How contrasts grow with the sizes of clusters.
    nu : float
        Degrees of freedom of Student's t.
    """

    sigma: float
    tau: float
    gamma: float
    nu: float


class StudentContrasts(Potential):
    """psi(L, R) = f(c_P) x the share of the prior: Student-t contrasts, of a table.

    log f = lnG((nu + e) / 2) - lnG(nu / 2) - (e / 2) ln(pi nu v)
            - ((nu + e) / 2) ln(1 + D / (nu v)),   v = sigma^2 + tau^2 q^gamma,

    q = |L| |R| / |P|, D Ward's increase of the sum of squares times e / d, for d columns that are
    worth e independent ones. With e = d, the weight of a tree is the density of the table (given
    the means of its columns) times the prior probability of the tree.

    Parameters
    ----------
    table : array_like, shape (n, d)
    sigma, tau, gamma, nu : float
        See `Hyperparameters`.
    columns : float, optional
        e, from 1 to d; d by default.
    prior : {"yule", "uniform"}
        Over trees: the Yule model, or all trees alike.
    labels : iterable of str, optional
        By default the index of a DataFrame.
    """

    has_energy = False
    height_name = "spread of the cluster, \u221a(2 SSE)"

    def __init__(
        self,
        table: npt.ArrayLike,
        sigma: float,
        tau: float,
        gamma: float = 1.0,
        nu: float = 8.0,
        columns: float | None = None,
        *,
        prior: Prior = "yule",
        labels: Iterable[object] | None = None,
    ) -> None:
        values = as_table(table)
        self.labels = as_labels(labels, len(values), table)
        if prior not in get_args(Prior):
            raise ValueError(f"prior must be yule or uniform; got {prior!r:.80}")
        self.prior: Prior = prior
        self.n_columns = values.shape[1]
        self.unit, self.rows = _in_units(values)
        self.squares = _squared_distances(self.rows)
        self.assign(sigma, tau, gamma, nu, self.n_columns if columns is None else columns)

    def assign(self, sigma: float, tau: float, gamma: float, nu: float, columns: float) -> None:
        """Take hyperparameters, and tabulate what depends on the sizes of clusters only."""
        self.hyperparameters = Hyperparameters(
            as_positive(sigma, "sigma"),
            as_positive(tau, "tau", zero=True),
            _as_gamma(gamma),
            as_positive(nu, "nu"),
        )
        self.effective_columns = as_positive(columns, "columns")
        if not 1 <= self.effective_columns <= self.n_columns:
            raise ValueError(
                f"columns must be from 1 to the number of columns, {self.n_columns}; got {columns}"
            )
        sizes = np.maximum(np.arange(self.n_leaves + 1), 1)
        self._powers = sizes**self.hyperparameters.gamma
        in_units = log_constant(self.hyperparameters.nu, self.effective_columns)
        common = in_units - self.effective_columns * math.log(self.unit)
        self._own = common + log_prior(self.n_leaves, self.prior)

    @property
    def table(self) -> FloatArray:
        """The rows, less their mean."""
        return self.unit * self.rows

    def sums(self) -> Sums:
        return Sums(pairs=[self.squares], by_size=[self._powers, self._own])

    def code(self) -> SplitCode:
        from hctrellis.kernels.splits import CONTRAST

        return CONTRAST

    def params(self, root: bool = False) -> tuple[float, ...]:
        sigma, tau, _, nu = self.hyperparameters
        e = self.effective_columns
        variances = ((sigma / self.unit) ** 2, (tau / self.unit) ** 2)
        return (*variances, nu, e, e / self.n_columns)

    def parameters(self) -> dict[str, float]:
        return self.hyperparameters._asdict()

    def derivative(self, name: str) -> Potential:
        return _Slope(self, name) if name in self.parameters() else super().derivative(name)

    def with_parameters(self, **values: float) -> Potential:
        super().with_parameters(**values)
        other = copy(self)
        known = {**self.parameters(), **values}
        other.assign(**known, columns=self.effective_columns)
        return other

    def heights(self, tree: Tree) -> FloatArray:
        """The spread of each cluster: the root of twice the sum of squares within it (SSE).

        For two leaves it is their distance; towards the root it never falls, whatever the tree.
        (Ward's heights, of which this is the root of the summed squares, may.)
        """
        n = tree.n_leaves
        squares = np.zeros(2 * n - 1)
        lengths = (self.contrasts(tree) ** 2).sum(axis=1)
        for k, (left, right) in enumerate(tree.children.tolist()):
            squares[n + k] = squares[left] + squares[right] + lengths[k]
        heights: FloatArray = self.unit * np.sqrt(2 * squares[n:])
        return heights

    def contrasts(self, tree: Tree) -> FloatArray:
        """The contrasts of a tree, in units of `unit`: shape (n - 1, d)."""
        return contrast_matrix(*self._members(tree)[:2]) @ self.rows

    def _details(self) -> str:
        sigma, tau, gamma, nu = self.hyperparameters
        return f", sigma={sigma:.3g}, tau={tau:.3g}, gamma={gamma:.2f}, nu={nu:.3g}"


class _Slope(Potential):
    """The derivative of log psi of contrasts with respect to a hyperparameter."""

    def __init__(self, model: StudentContrasts, name: str) -> None:
        self.model, self.name, self.labels = model, name, model.labels

    def sums(self) -> Sums:
        squares, powers, _own = (*self.model.sums().pairs, *self.model.sums().by_size)
        return Sums(pairs=[squares], by_size=[powers])

    def code(self) -> SplitCode:
        from hctrellis.kernels.splits import CONTRAST_SLOPE

        return CONTRAST_SLOPE

    def params(self, root: bool = False) -> tuple[float, ...]:
        with ONE_AT_A_TIME:
            from scipy.special import digamma

        sigma, tau, _, nu = self.model.hyperparameters
        e = self.model.effective_columns
        parts = {"sigma": 2 / sigma, "tau": 2 / tau if tau > 0 else 0.0, "gamma": 1.0, "nu": 1.0}
        chosen = (part if name == self.name else 0.0 for name, part in parts.items())
        common = float(digamma((nu + e) / 2) - digamma(nu / 2)) - e / nu
        return (*self.model.params(), *chosen, common)


def log_constant(nu: float, columns: float) -> float:
    """What the log densities of all contrasts have in common."""
    gammas = math.lgamma((nu + columns) / 2) - math.lgamma(nu / 2)
    return gammas - columns / 2 * math.log(math.pi * nu)


def contrast_matrix(left: npt.NDArray[np.bool_], right: npt.NDArray[np.bool_]) -> FloatArray:
    """The orthonormal rows that turn a table into contrasts, one for each split of a tree."""
    a, b = left.sum(axis=1, keepdims=True), right.sum(axis=1, keepdims=True)
    matrix: FloatArray = np.sqrt(a * b / (a + b)) * (left / a - right / b)
    return matrix


def log_prior(n_leaves: int, prior: Prior) -> FloatArray:
    """What a parent of each size adds, so that the probabilities of all trees sum to 1.

    Yule: 2 / ((m - 1) C(m, i)) for a split of m leaves into i and m - i; the factorials of a
    cluster as a parent and as a child cancel, and those of the root remain.
    """
    sizes = np.arange(n_leaves + 1)
    own = np.zeros(n_leaves + 1)
    if prior == "yule":
        own[2:] = math.log(2) - np.log(sizes[2:] - 1)
        own[n_leaves] -= math.lgamma(n_leaves + 1)
    else:
        own[n_leaves] -= math.log(n_trees(n_leaves))
    return own


def as_table(values: npt.ArrayLike) -> FloatArray:
    """A table of at least two rows, not all alike."""
    table = as_finite(values, "table")
    if table.ndim != 2 or table.shape[1] == 0 or len(table) < 2:
        raise ValueError(
            "table must have at least two rows, one for each leaf, and at least one column; got "
            f"shape {table.shape}"
        )
    if not np.ptp(table, axis=0).any():
        raise ValueError("all rows of the table are the same, so there is nothing to tell apart")
    return table


def _as_gamma(gamma: float) -> float:
    try:
        number = float(gamma)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"gamma must be a number; got {gamma!r:.80}") from None
    if not -10 <= number <= 10:
        raise ValueError(f"gamma must be from -10 to 10; got {number}")
    return number


def _in_units(table: FloatArray) -> tuple[float, FloatArray]:
    """The root mean square of the contrasts, per column, and the centred rows in units of it."""
    largest = float(np.ptp(table, axis=0).max())
    rows = table / largest  # so that no square overflows or is lost
    rows = rows - rows.mean(axis=0)
    n, d = rows.shape
    spread = math.sqrt(float((rows**2).sum()) / ((n - 1) * d))
    return spread * largest, rows / spread


def _squared_distances(rows: FloatArray) -> FloatArray:
    n = len(rows)
    check_fits(24 * n * n, f"the distances between {n} rows", "fewer rows")
    squares = np.zeros((n, n))
    for column in rows.T:
        squares += np.subtract.outer(column, column) ** 2
    return squares
