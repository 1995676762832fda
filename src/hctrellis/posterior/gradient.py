"""Expected statistics and derivatives of log Z, from an exact pass or from sampled trees.

d log Z / d theta is the posterior mean of d log psi / d theta, summed over the splits of a tree. So
a derivative of log Z is the expectation of a statistic (see `trellis.averages`), and over a sample
of trees it is a mean, with a standard error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from hctrellis.clusters import split_members
from hctrellis.posterior.base import Estimate
from hctrellis.potentials.base import ExpectedPairs, Potential
from hctrellis.potentials.function import FunctionPotential
from hctrellis.tree import Tree
from hctrellis.trellis.averages import SolvedPairs, expected_each

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray
    from hctrellis.trellis.solution import Solution

Statistic: TypeAlias = Potential | Callable[..., Any]
"""A number for every split."""
Features: TypeAlias = Any


@dataclass(frozen=True, repr=False)
class Gradient(Mapping[str, Any]):
    """The derivatives of log Z, by the names of what they are taken by.

    A parameter has a float. A matrix of pairs has an array, shape (n, n), whose entry i, j is the
    derivative by the value of the pair: by what stands in places i, j and j, i together. (So a
    change of the matrix by dw changes log Z by the sum of gradient * dw over i < j.)

    Attributes
    ----------
    slopes : dict
    errors : dict
        Standard errors, if the values are means over sampled trees; empty if they are exact.
    """

    slopes: dict[str, Any]
    errors: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.slopes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.slopes)

    def __len__(self) -> int:
        return len(self.slopes)

    def __repr__(self) -> str:
        return f"Gradient({', '.join(map(self._show, self.slopes))})"

    def _show(self, name: str) -> str:
        value = self.slopes[name]
        if np.ndim(value) == 2:
            return f"{name}: {len(value)} x {len(value)}"
        error = f" +- {self.errors[name]:.2g}" if name in self.errors else ""
        return f"{name}: {value:.6g}{error}"


def as_statistic(given: Statistic, features: Features, labels: Sequence[str]) -> Potential:
    """A potential over some leaves, from what a user gives as a statistic."""
    if isinstance(given, Potential):
        if given.n_leaves != len(labels):
            raise ValueError(
                f"the statistic is one of {given.n_leaves} leaves, the posterior has {len(labels)}"
            )
        return given
    if not callable(given):
        raise TypeError(
            "statistic must be a Potential or a function of left, right and parent; got "
            f"{type(given).__name__}"
        )
    of_clusters = (lambda clusters: [clusters.sizes]) if features is None else features
    return FunctionPotential(given, of_clusters, labels=labels)


# ---- exact ------------------------------------------------------------------------------------


def solved_gradient(solution: Solution, matrices: bool = True) -> Gradient:
    """The derivatives of log Z of an upward pass; by matrices, too, if these are wanted."""
    pairs = SolvedPairs(solution) if matrices else None
    return _gradient(solution.potential, pairs, partial(expected_each, solution))


def _gradient(
    model: Potential,
    pairs: ExpectedPairs | None,
    means: Callable[[Sequence[Potential]], Sequence[float]],
) -> Gradient:
    """The derivatives of log Z, given expectations over the posterior.

    Where the energy is a sum over pairs, its derivatives by the pairs give that by beta as well.
    """
    energies = {
        id(part): None if pairs is None else part.pair_energy(pairs) for part in model.parts
    }
    values: dict[str, Any] = {}
    statistics: dict[str, Potential] = {}
    for name, (part, own) in model.named_parameters().items():
        energy = energies[id(part)] if own == "beta" else None
        values[name] = None if energy is None else -energy.total()
        if energy is None:
            statistics[name] = part.derivative(own)
    values |= zip(statistics, means([*statistics.values()]), strict=True)
    found = [energy for energy in energies.values() if energy is not None]
    names = [energy.name for energy in found]
    for place, part in enumerate(model.parts):
        energy = energies[id(part)]
        if energy is not None:
            alone = names.count(energy.name) == 1
            values[energy.name if alone else f"{energy.name}_{place}"] = (
                0.0 - part.beta * energy.counts
            )
    return Gradient(values)


# ---- from sampled trees -----------------------------------------------------------------------


def sampled_expected(trees: Sequence[Tree], statistic: Potential) -> Estimate:
    """The mean over trees of the sum of a statistic over their splits, and its standard error.

    The trees are independent draws from the posterior; their number is at least 2 if the error is
    to be known (it is NaN for one tree).

    Examples
    --------
    >>> import hctrellis as hct
    >>> yule = hct.BetaSplitting(6)
    >>> trees = hct.infer(yule).sample(400, rng=1)
    >>> value, error = sampled_expected(trees, yule)
    >>> abs(value - hct.infer(yule).expected_log_weight) < 4 * error
    True
    """
    return mean_of(tree_sums(trees, statistic))


def tree_sums(trees: Sequence[Tree], statistic: Potential) -> FloatArray:
    """The sum of a statistic over the splits of each tree."""
    sums = getattr(trees, "sums", None)  # of samples that are kept as arrays
    if sums is not None:
        found: FloatArray = sums(statistic)
        return found
    return np.array([statistic.log_weight(tree) for tree in trees])


def mean_of(values: FloatArray) -> Estimate:
    """The mean over the first axis and its standard error."""
    size = len(values)
    mean = values.mean(axis=0)
    spread = values.std(axis=0, ddof=1) / math.sqrt(size) if size > 1 else mean * math.nan
    return Estimate(mean, spread) if np.ndim(mean) else Estimate(float(mean), float(spread))


def sampled_gradient(model: Potential, trees: Sequence[Tree]) -> Gradient:
    """The derivatives of log Z as means over trees drawn from the posterior, with errors."""
    mean: dict[str, Any] = {}
    squares: dict[str, Any] = {}
    for count, tree in enumerate(trees, start=1):
        known = model.align(tree)
        of_one = _gradient(model, TreePairs(known), partial(_of_tree, known))
        for name, value in of_one.items():
            change = value - mean.get(name, 0.0)
            mean[name] = mean.get(name, 0.0) + change / count
            squares[name] = squares.get(name, 0.0) + change * (value - mean[name])
    size = len(trees)
    degrees = size * (size - 1) if size > 1 else math.nan
    return Gradient(mean, {name: np.sqrt(squares[name] / degrees) for name in mean})


def _of_tree(tree: Tree, statistics: Sequence[Potential]) -> list[float]:
    return [statistic.log_weight(tree) for statistic in statistics]


class TreePairs:
    """What `potentials.base.ExpectedPairs` asks for, of one tree."""

    def __init__(self, tree: Tree) -> None:
        self._left, self._right, self._parent = split_members(tree)

    def common_size(self) -> FloatArray:
        return self._cut(self._parent.sum(axis=1).astype(float))

    def common_clusters(self) -> FloatArray:
        inside = self._parent[~self._parent.all(axis=1)].astype(float)
        shared: FloatArray = inside.T @ inside
        np.fill_diagonal(shared, 0.0)
        return shared

    def parting(self, statistic: Potential) -> FloatArray:
        return self._cut(statistic.split_log_weights(self._left, self._right, self._parent))

    def _cut(self, values: FloatArray) -> FloatArray:
        """The value of the split that parts each two leaves."""
        half: FloatArray = self._left.T.astype(float) @ (self._right * values[:, None])
        return half + half.T
