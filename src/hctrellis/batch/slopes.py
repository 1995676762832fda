"""Log Z of many data sets, and its derivatives by parameters that they share.

Data sets are given once, parameters again and again: a fit asks for log Z at many values of them.
Those of equal numbers of leaves are solved side by side, in the lanes of vectors, as in `lanes`;
the derivatives, which are means of sums over splits, come with the same upward pass (see
`kernels.slopes`). Others are solved one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from hctrellis.batch.lanes import (
    MOST_LEAVES,
    JetPotential,
    Stack,
    lanes_of,
    lattice_of,
    sort_into_stacks,
)
from hctrellis.batch.momenta import Particles
from hctrellis.posterior.gradient import solved_gradient
from hctrellis.potentials.base import Potential, SumPotential, Sums
from hctrellis.support.steps import check_stop
from hctrellis.support.threads import default_threads
from hctrellis.trellis.full import FullTrellis

if TYPE_CHECKING:
    from hctrellis.kernels.bind import SplitCode
    from hctrellis.support.types import FloatArray, IntArray

AT_ONCE = 512  # data sets in one call of the kernel, which Ctrl-C has to wait for
STEP = 1e-3  # relative, of differences where a derivative has no compiled form

Values: TypeAlias = Mapping[str, float]
Work: TypeAlias = Callable[[], tuple["IntArray", "FloatArray"]]
"""What finds log Z and derivatives, a row for each data set, and tells which these are."""


class AsValue(Potential):
    """A derivative of log psi, of which the mean is wanted, beside the weights."""

    def __init__(self, statistic: Potential) -> None:
        self.labels = statistic.labels
        self.statistic = statistic

    def sums(self) -> Sums | None:
        return self.statistic.sums()

    def code(self) -> SplitCode | None:
        code = self.statistic.code()
        return None if code is None or code.users else replace(code, role="value")

    def params(self, root: bool = False) -> tuple[float, ...]:
        return self.statistic.params(root)


class DataSets:
    """Many potentials with parameters of the same names.

    Parameters
    ----------
    potentials : sequence of Potential
    names : sequence of str
        Of the parameters by which derivatives are wanted.
    """

    def __init__(self, potentials: Sequence[Potential], names: Sequence[str]) -> None:
        self.potentials = list(potentials)
        self.names = tuple(names)
        self.is_compiled = all(
            AsValue(model.derivative(name)).code() is not None
            for model in self.potentials
            for name in names
        )
        self.sizes = np.array([model.n_leaves for model in self.potentials], np.int64)

    def __len__(self) -> int:
        return len(self.potentials)

    def work(self, values: Values, threads: int) -> Iterator[Work]:
        """Pieces of work that find log Z and derivatives of all data sets, long ones first.

        threads : of each data set that is solved by itself
        """
        models = [model.with_parameters(**values) for model in self.potentials]
        for size in np.unique(self.sizes)[::-1]:
            rows = np.flatnonzero(self.sizes == size)
            names = self.names if self.is_compiled else ()
            stacks, left = sort_into_stacks([_with_values(models[row], names) for row in rows])
            for stack in stacks:
                yield from _pieces(stack, rows, len(names))
            for row in left:
                yield _apart(models[rows[row]], int(rows[row]), names, threads)


class JetSets:
    """Jets of one model.

    Parameters
    ----------
    model : type
        Such as `GinkgoDensity`.
    particles : Particles
        Checked and repaired before.
    parameters : mapping
        What the model takes besides momenta, with a value for each of `names`.
    names : sequence of str
    """

    def __init__(
        self,
        model: JetPotential,
        particles: Particles,
        parameters: Mapping[str, Any],
        names: Sequence[str],
    ) -> None:
        from hctrellis.kernels.products import minkowski_products

        self.model, self.names = model, tuple(names)
        self.parameters = dict(parameters)
        self.is_compiled = True
        self.sizes = particles.sizes
        self._starts = np.cumsum(self.sizes) - self.sizes
        self._momenta = particles.momenta
        self._products: dict[int, FloatArray] = {}
        for size in np.unique(self.sizes[self.sizes <= MOST_LEAVES]).tolist():
            rows = np.flatnonzero(self.sizes == size)
            block = self._momenta[self._starts[rows][:, None] + np.arange(size)]
            lanes = lanes_of(len(rows))
            self._products[size] = minkowski_products(np.take(block.T, lanes, axis=-1))

    def __len__(self) -> int:
        return len(self.sizes)

    def work(self, values: Values, threads: int) -> Iterator[Work]:
        """As `DataSets.work`."""
        parameters = self.parameters | dict(values)
        large = np.flatnonzero(self.sizes > MOST_LEAVES)
        for row in large[np.argsort(-self.sizes[large], kind="stable")].tolist():
            start = self._starts[row]
            jet = self.model(self._momenta[start : start + self.sizes[row]], **parameters)
            yield _apart(jet, row, self.names, threads)
        one = _with_values(self.model([[1.0, 0.0, 0.0, 0.0]], **parameters), self.names)
        codes = tuple(code for part in one.parts if (code := part.code()) is not None)
        params = [
            np.array([p for part in one.parts for p in part.params(r)]) for r in (False, True)
        ]
        for size, products in reversed(self._products.items()):
            rows = np.flatnonzero(self.sizes == size)
            width = products.shape[-1]
            spread = [np.repeat(each[:, None], width, axis=1) for each in params]
            stack = Stack(codes, np.arange(len(rows)), [products] * len(codes), *spread)
            yield from _pieces(stack, rows, len(self.names))


def log_partitions(
    sets: DataSets | JetSets, values: Values, threads: int | None = None
) -> FloatArray:
    """Log Z of each data set and its derivatives, shape (data sets, 1 + names).

    Where a derivative of log psi has no compiled form, differences of log Z take its place.
    """
    if sets.is_compiled:
        return _answers(sets, values, threads, len(sets.names))
    columns = [_answers(sets, values, threads, 0)[:, 0]]
    for name in sets.names:
        step = STEP * max(abs(values[name]), 0.1)
        total = np.zeros(len(sets))
        for count, weight in ((1, 8.0), (-1, -8.0), (2, -1.0), (-2, 1.0)):
            near = {**values, name: values[name] + count * step}
            with np.errstate(invalid="ignore"):
                total = total + weight * _answers(sets, near, threads, 0)[:, 0]
        columns.append(total / (12 * step))
    return np.column_stack(columns)


def _answers(
    sets: DataSets | JetSets, values: Values, threads: int | None, n_values: int
) -> FloatArray:
    answers = np.empty((len(sets), 1 + n_values))
    number = threads or default_threads()
    pieces = sets.work(values, number if len(sets) == 1 else 1)
    if number == 1 or len(sets) == 1:
        found: Any = (piece() for piece in pieces)
        for rows, part in found:
            check_stop()
            answers[rows] = part
        return answers
    with ThreadPoolExecutor(number) as pool:
        for rows, part in pool.map(lambda piece: piece(), pieces):
            check_stop()
            answers[rows] = part
    return answers


def _with_values(model: Potential, names: Sequence[str]) -> Potential:
    return SumPotential([*model.parts, *(AsValue(model.derivative(name)) for name in names)])


def _pieces(stack: Stack, rows: IntArray, n_values: int) -> Iterator[Work]:
    """A stack of data sets in pieces; rows: the places of all data sets of this size."""
    for start in range(0, len(stack.rows), AT_ONCE):
        some = slice(start, start + AT_ONCE)
        sums = [np.ascontiguousarray(array[..., some]) for array in stack.sums]
        params = (np.ascontiguousarray(p[:, some]) for p in (stack.params, stack.root_params))
        yield partial(_solve, Stack(stack.codes, rows[stack.rows[some]], sums, *params), n_values)


def _solve(stack: Stack, n_values: int) -> tuple[IntArray, FloatArray]:
    from hctrellis.kernels.bind import bind
    from hctrellis.kernels.simd import LANES

    kernel = bind(("weights", "batch", "slopes"), stack.codes)
    n = len(stack.sums[0]) if stack.sums[0].ndim == 3 else len(stack.sums[0]) - 1
    features = sum(code.n_features for code in stack.codes)
    width = kernel.FEATURES + LANES * (features + n_values)
    answers = np.empty(
        (stack.params.shape[1] if stack.params.size else stack.sums[0].shape[-1], 1 + n_values)
    )
    kernel.solve_slopes(
        tuple(array.ravel() for array in stack.sums),
        np.array([array.ndim == 2 for array in stack.sums]),
        tuple(np.empty(LANES << n) for _ in stack.sums),
        tuple(stack.params),
        tuple(stack.root_params),
        lattice_of(n, width),
        width,
        answers,
    )
    return stack.rows, answers[: len(stack.rows)]


def _apart(model: Potential, row: int, names: Sequence[str], threads: int) -> Work:
    """One data set by itself."""

    def solve() -> tuple[IntArray, FloatArray]:
        solution = FullTrellis(model.n_leaves).solve(model, threads)
        found = np.full((1, 1 + len(names)), np.nan)
        found[0, 0] = solution.log_partition
        if names and solution.log_partition > -np.inf:
            gradient = solved_gradient(solution, matrices=False)
            found[0, 1:] = [gradient[name] for name in names]
        return np.array([row]), found

    return solve
