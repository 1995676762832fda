"""Averages over trees of sums over splits: exact, in one pass over the trellis.

A statistic is a potential: a number for every split (what would be log psi). Its expectation over
the posterior is the sum, over all clusters P, of p(P) times the average over the splits of P. It is
found in one of three ways:

- a separable statistic is a sum over clusters, so the probabilities of clusters and one more
  downward pass are enough;
- on the full lattice a compiled pass weighs every split once more, with the statistic as a value
  beside its weight (see `kernels.means`);
- else the splits are listed, chunk by chunk.

For every two leaves i and j, the value for the split that parts them is a sum over clusters as
well: the split of P parts them if both are in P, but in neither child. So, with A(P) the sum of
p(split) v(split) over the splits of P, and B(S) that over the splits of which S is a child, it is
the sum of A - B over all clusters that have both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hctrellis.clusters import Lattice, Vertices, n_splits
from hctrellis.potentials.base import Potential
from hctrellis.support.steps import check_stop
from hctrellis.trellis.blocks import in_order
from hctrellis.trellis.full import _low_bits
from hctrellis.trellis.listed import Weights
from hctrellis.trellis.meanpass import MeanPass, means
from hctrellis.trellis.solution import CompiledSolution, Solution
from hctrellis.trellis.terms import Terms, cross_tables

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray, IntArray

LISTED_SPLITS = 300_000  # up to 12 leaves: no more than this are listed, without compiling anything
FAINT = 2.0**-90  # clusters that are less probable add nothing to a sum over all clusters
PARTS = 4  # of a pass, each with sums of its own
PAIRS_AT_ONCE = 1 << 20  # entries of a matrix of clusters and leaves


def expected(solution: Solution, statistic: Potential) -> float:
    """The posterior mean of the sum of a statistic over the splits of a tree.

    -inf if it is -inf for a split that is possible.
    """
    if solution.potential.n_leaves == 1:
        return 0.0
    statistic.check()
    return sum(_of_part(solution, part) for part in statistic.parts)


def expected_each(solution: Solution, statistics: Sequence[Potential]) -> list[float]:
    """As `expected`, of several statistics; those that see the same of clusters share a pass."""
    groups: dict[object, list[int]] = {}
    for k, statistic in enumerate(statistics):
        joint = len(statistic.parts) == 1 and not statistic.only_root
        if joint and statistic.separable(solution.vertices) is None:
            joint = _is_fused(solution, statistic, LISTED_SPLITS)
        groups.setdefault(statistic.code() if joint else k, []).append(k)
    found = np.zeros(len(statistics))
    for places in groups.values():
        some = [statistics[k] for k in places]
        terms = _with_values(solution, some) if len(some) > 1 else None
        if terms is not None:
            found[places] = _totals(solution, terms, len(some))
        else:
            found[places] = [expected(solution, statistic) for statistic in some]
    return found.tolist()


def _of_part(solution: Solution, part: Potential) -> float:
    if part.only_root:
        return float(_at_root(solution, part))
    separable = part.separable(solution.vertices)
    if separable is not None:
        own, gain, constant = separable
        p = solution.probabilities
        total = constant
        if own is not None:
            inside = p > 0
            inside[solution.root] = False
            inside[solution.vertices.leaves] = False
            total += float(p[inside] @ own[inside])
        if gain is not None:
            total += float(solution.growth @ gain)
        return total
    if _is_fused(solution, part, LISTED_SPLITS):
        assert isinstance(solution, CompiledSolution)
        terms, own = _with_value(solution, part)
        return float(means(solution, terms, own)[solution.root])
    return _listed(solution, part)


def _at_root(solution: Solution, part: Potential) -> float:
    splits = solution.splits(np.array([solution.root]))
    q = solution.split_probabilities(splits)
    values = Weights(part, solution.vertices)(splits)
    return float(q[q > 0] @ values[q > 0] / q.sum())


def _listed(solution: Solution, part: Potential) -> float:
    from hctrellis.kernels import passes

    weigh = Weights(part, solution.vertices)
    mean, variance = np.zeros(solution.best.size), np.zeros(solution.best.size)
    for chunk in solution.chunks():
        check_stop()
        splits = solution.splits(chunk)
        q = solution.split_probabilities(splits)
        passes.moments(*splits, q, weigh(splits), mean, variance)
    return float(mean[solution.root])


# ---- with the kernels of the full lattice -----------------------------------------------------


def _is_fused(solution: Solution, part: Potential, listed: int) -> bool:
    """Whether the statistic can be compiled into the pass, and more splits than some are listed."""
    if not isinstance(solution, CompiledSolution):
        return False
    code = part.code()
    if code is None or code.users or n_splits(part.n_leaves) <= listed:
        return False
    if code.cross is None:
        return True
    crosses = {known.cross for known in solution.terms.codes} - {None}
    known = solution.terms.distances
    alike = part.distances is not None and np.array_equal(part.distances, known)
    return not crosses or (crosses == {code.cross} and alike)


def _with_value(solution: CompiledSolution, part: Potential) -> tuple[Terms, FloatArray]:
    """The terms of a solution with a statistic as a value, and what it adds for each parent."""
    terms, lattice, code = solution.terms, Lattice(part.n_leaves), part.code()
    assert code is not None
    described = part.describe(lattice)
    codes = (*terms.codes, replace(code, role="value"))
    distances = part.distances if code.cross is not None else terms.distances
    assert distances is not None
    low_bits = _low_bits(part.n_leaves, linear=False)
    near, low, between = cross_tables(codes, distances, low_bits)
    known = terms.features[: sum(each.n_features for each in terms.codes)]
    own = np.zeros(len(lattice)) if described.own is None else described.own
    return replace(
        terms,
        codes=codes,
        features=np.array([*known, *described.features, *between]),
        params=(*terms.params, *part.params()),
        root_params=(*terms.root_params, *part.params(root=True)),
        distances=distances,
        linear=False,
        low_bits=low_bits,
        cross=(distances, near, low),
    ), own


def _with_values(solution: Solution, parts: Sequence[Potential]) -> Terms | None:
    """The terms of a solution with several statistics as values; None if their features differ."""
    assert isinstance(solution, CompiledSolution)
    lattice = Lattice(parts[0].n_leaves)
    first = parts[0].describe(lattice)
    for part in parts:
        each = first if part is parts[0] else part.describe(lattice)
        if each.own is not None or not np.array_equal(each.features, first.features):
            return None
    terms, _ = _with_value(solution, parts[0])
    params = [[*part.params(), *part.params(True)] for part in parts]
    size = len(parts[0].params())
    differs = [len(set(column)) > 1 for column in zip(*params, strict=True)]
    same = [*np.logical_or(differs[:size], differs[size:]), True].index(True)
    more = replace(terms.codes[-1], shared=same)
    return replace(
        terms,
        codes=(*terms.codes, *[more] * (len(parts) - 1)),
        params=(*terms.params, *(p for each in params[1:] for p in each[same:size])),
        root_params=(*terms.root_params, *(p for each in params[1:] for p in each[size + same :])),
    )


def _totals(solution: Solution, terms: Terms, number: int) -> FloatArray:
    """The expectations of several statistics."""
    from hctrellis.kernels.simd import LANES

    assert isinstance(solution, CompiledSolution)
    run = MeanPass(solution, terms, _likely(solution))
    nothing, found = np.empty(0), np.zeros(LANES * number)
    run.low(nothing, found, False)

    def solve(part: list[IntArray], check: Callable[[], None]) -> FloatArray:
        sums = np.zeros(LANES * number)
        for highs in part:
            check()
            run.high(highs, nothing, sums, False)
        return sums

    for sums in in_order(solve, run.blocks.parts(PARTS), solution.threads):
        found += sums
    totals: FloatArray = found.reshape(number, LANES).sum(axis=1)
    return totals


def _likely(solution: Solution) -> FloatArray:
    """The probabilities of clusters that are not too faint to count."""
    return np.where(solution.probabilities > FAINT, solution.probabilities, 0.0)


def _differences(solution: CompiledSolution, terms: Terms) -> FloatArray:
    """A - B of every cluster.

    Each of a few parts of the work has sums of its own for the children; these are added up in
    order, so that the result does not depend on the number of threads.
    """
    run = MeanPass(solution, terms, _likely(solution))
    sums, found = np.zeros(solution.best.size), np.zeros(solution.best.size)
    run.low(sums, found, False)

    def solve(part: list[IntArray], check: Callable[[], None]) -> FloatArray:
        shares = np.zeros(sums.size)
        for highs in part:
            check()
            run.high(highs, sums, shares, False)
        return shares

    for shares in in_order(solve, run.blocks.parts(PARTS), solution.threads):
        found += shares
    np.subtract(sums, found, out=found)
    return found


# ---- for every two leaves ---------------------------------------------------------------------


class SolvedPairs:
    """Expectations for every two leaves, from a solution (see `potentials.base.ExpectedPairs`).

    often : whether there are many solutions like this one, so that compiling is worth its time
        however few splits they have.
    """

    def __init__(self, solution: Solution, often: bool = False) -> None:
        self._solution = solution
        self._listed = 0 if often else LISTED_SPLITS

    def common_size(self) -> FloatArray:
        shrinks = pair_sums(self._solution.vertices, self._solution.growth)
        return _off_diagonal(self._solution.potential.n_leaves - shrinks)

    def common_clusters(self) -> FloatArray:
        p = self._solution.probabilities.copy()
        p[self._solution.root] = 0.0
        return _off_diagonal(pair_sums(self._solution.vertices, p))

    def parting(self, statistic: Potential) -> FloatArray:
        solution = self._solution
        if _is_fused(solution, statistic, self._listed):
            assert isinstance(solution, CompiledSolution)
            terms, _ = _with_value(solution, statistic)
            values = _differences(solution, terms)
        else:
            values = _listed_differences(solution, statistic)
        return _off_diagonal(pair_sums(solution.vertices, values))


def _listed_differences(solution: Solution, statistic: Potential) -> FloatArray:
    """A - B of every cluster."""
    from hctrellis.kernels import passes

    p, weigh = solution.probabilities, Weights(statistic, solution.vertices)
    found, ones = np.zeros(len(p)), np.ones(len(p))
    for chunk in solution.chunks():
        check_stop()
        splits = solution.splits(chunk)
        q = solution.split_probabilities(splits)
        values = np.repeat(p[splits.parents], np.diff(splits.offsets)) * q
        values *= np.where(q > 0, weigh(splits), 0.0)
        found[splits.parents] += np.add.reduceat(values, splits.offsets[:-1])
        passes.spread(*splits, -values, ones, found)
    return found


def _off_diagonal(matrix: FloatArray) -> FloatArray:
    np.fill_diagonal(matrix, 0.0)
    return matrix


def pair_sums(vertices: Vertices, values: FloatArray) -> FloatArray:
    """The sum of a value over all clusters that hold both of two leaves."""
    n = vertices.n_leaves
    if isinstance(vertices, Lattice):
        return _lattice_pair_sums(n, values)
    sums = np.zeros((n, n))
    step = max(1, PAIRS_AT_ONCE // n)
    for start in range(0, len(values), step):
        clusters = np.arange(start, min(start + step, len(values)))
        members = vertices.rows(clusters).astype(float)
        sums += members.T @ (members * values[clusters, None])
    return sums


def _lattice_pair_sums(n: int, values: FloatArray) -> FloatArray:
    """The same over all subsets, by folding: a leaf that is done no longer tells clusters apart."""
    sums = np.zeros((n, n))
    for i in reversed(range(n)):
        without, having = values[: 1 << i], values[1 << i :]
        sums[i, i] = having.sum()
        values, rest = without + having, having
        for j in reversed(range(i)):
            without, having = rest[: 1 << j], rest[1 << j :]
            sums[i, j] = sums[j, i] = having.sum()
            rest = without + having
    return sums
