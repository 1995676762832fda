"""Exact inference on many data sets of the same number of leaves.

The input is potentials over n leaves each, or the momenta of jets with n particles each; the output
is columns with one entry per data set. A data set that cannot be solved does not stop the others:
its message is in `Columns.errors`.

Small data sets whose potentials are of the same kind are solved side by side, one in each lane of
the CPU's vectors (see `kernels.batch`); parameters may differ. All others are solved one at a time:
more than `MOST_LEAVES` leaves, extreme distances (single and complete linkage), functions of NumPy
arrays, features that are not sums. Which way a data set is solved depends on it alone, and so do
its answers: neither the order nor the other data sets matter.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from hctrellis.clusters import Lattice
from hctrellis.posterior.base import BasePosterior
from hctrellis.posterior.posterior import Posterior
from hctrellis.potentials.base import Potential
from hctrellis.potentials.density import GinkgoDensity
from hctrellis.potentials.jets import Ginkgo, JetMass
from hctrellis.sampling.policy import Policy
from hctrellis.support.logs import LARGEST_LOG_WEIGHT
from hctrellis.support.memory import TooLargeError
from hctrellis.support.steps import StoppedError, check_stop
from hctrellis.tree import Tree

if TYPE_CHECKING:
    from hctrellis.kernels.bind import SplitCode
    from hctrellis.support.types import FloatArray, IntArray

MOST_LEAVES = 13  # solved side by side; with more, one at a time is as fast
COUNTABLE_LEAVES = 18  # (2n - 3)!! fits into 64 bits up to here
EXACT_LEAVES = 20  # of a data set that is solved exactly by default: a second or so
METHODS = ("exact", "sparse", "sampled")
DEFAULT = Policy(EXACT_LEAVES, "sparse")

Rates: TypeAlias = Mapping[str, "FloatArray"]
"""Parameters of which each jet has its own: a number for each."""
NO_RATES: Rates = {}
Look: TypeAlias = Callable[[int, BasePosterior], None]
JetPotential: TypeAlias = type[Ginkgo] | type[GinkgoDensity] | type[JetMass]
"""A potential that is made of the momenta of a jet."""


@dataclass(frozen=True)
class Columns:
    """Answers for m data sets of n leaves.

    Attributes
    ----------
    log_partition, map_log_weight : float64 array, shape (m,)
        -inf where every tree is forbidden; NaN where there is an error.
    children : int64 array, shape (m, n - 1, 2)
        `Tree.children` of the MAP trees; meaningless where there is none.
    n_trees : int64 array, or object array of int where they may not fit, shape (m,)
        Numbers of trees of non-zero weight; -1 where they were not counted.
    entropy : float64 array, shape (m,)
        NaN where it was not asked for, where every tree is forbidden, or where there is an error.
    method : int8 array, shape (m,)
        How each was solved, as a place in `METHODS`.
    log_partition_error : float64 array, shape (m,)
        0 where it is exact, the standard error where trees were sampled, or NaN.
    bound : float64 array, shape (m,)
        What log Z is not below, where it is not exact.
    errors : dict from int to str
        What went wrong, by position.
    """

    log_partition: FloatArray
    map_log_weight: FloatArray
    children: IntArray
    n_trees: npt.NDArray[Any]
    entropy: FloatArray
    method: npt.NDArray[np.int8]
    log_partition_error: FloatArray
    bound: FloatArray
    errors: dict[int, str]

    @classmethod
    def blank(cls, m: int, n: int) -> Columns:
        """Columns to be filled."""
        return cls(
            log_partition=np.full(m, np.nan),
            map_log_weight=np.full(m, np.nan),
            children=np.zeros((m, n - 1, 2), np.int64),
            n_trees=np.full(m, -1, np.int64 if n <= COUNTABLE_LEAVES else object),
            entropy=np.full(m, np.nan),
            method=np.zeros(m, np.int8),
            log_partition_error=np.zeros(m),
            bound=np.full(m, np.nan),
            errors={},
        )


def solve_group(
    potentials: Sequence[Potential],
    entropy: bool = False,
    policy: Policy = DEFAULT,
    look: Look | None = None,
    count: bool = True,
) -> Columns:
    """Inference on potentials of equal numbers of leaves.

    Parameters
    ----------
    potentials : sequence of Potential
        At least one.
    entropy : bool
        Whether the entropies of the posteriors are wanted.
    policy : Policy
        Up to how many leaves it is exact, and what is done beyond.
    look : callable, optional
        Is given the place and the posterior of each that can be solved.
    count : bool
        Whether to count trees also where that takes as long as all the rest.
    """
    columns = Columns.blank(len(potentials), potentials[0].n_leaves)
    few = potentials[0].n_leaves <= policy.max_leaves
    stacks, left = sort_into_stacks(potentials) if few else ([], [*range(len(potentials))])
    for stack in stacks:
        left += _solve_together(columns, stack, entropy)
    _solve_apart(columns, ((row, potentials[row]) for row in left), entropy, policy, look, count)
    if look is not None:
        solved = {*range(len(potentials))} - {*left}
        _show(columns, ((row, potentials[row]) for row in sorted(solved)), policy, look)
    return columns


def solve_jets(
    model: JetPotential,
    momenta: FloatArray,
    parameters: Mapping[str, Any],
    entropy: bool = False,
    policy: Policy = DEFAULT,
    rates: Rates = NO_RATES,
    look: Look | None = None,
    count: bool = True,
) -> Columns:
    """Inference on jets of equal numbers of particles.

    Parameters
    ----------
    model : type
        `Ginkgo`, `GinkgoDensity` or `JetMass`.
    momenta : float64 array, shape (m, n, 4)
        Rows E, px, py, pz; checked before.
    parameters : mapping
        What the model takes besides momenta.
    entropy : bool
        Whether the entropies of the posteriors are wanted.
    look : callable, optional
        Is given the place and the posterior of each that can be solved.
    count : bool
        Whether to count trees also where that takes as long as all the rest.
    """
    m, n, _ = momenta.shape
    columns = Columns.blank(m, n)
    left = list(range(m))
    if m > 0 and n <= min(MOST_LEAVES, policy.max_leaves):
        from hctrellis.kernels.products import minkowski_products

        one = with_parameters(model, tuple(parameters.items()))
        lanes = lanes_of(m)
        params = [_jet_params(model, parameters, rates, lanes, root) for root in (False, True)]
        products = minkowski_products(np.take(momenta.T, lanes, axis=-1))
        stack = Stack((one.code(),), np.arange(m), [products], *params)
        left = _solve_together(columns, stack, entropy)

    def models(rows: Iterable[int]) -> Iterator[tuple[int, Potential]]:
        return ((row, model(momenta[row], **of_jet(parameters, rates, row))) for row in rows)

    _solve_apart(columns, models(left), entropy, policy, look, count)
    if look is not None:
        _show(columns, models(sorted({*range(m)} - {*left})), policy, look)
    return columns


def of_jet(parameters: Mapping[str, Any], rates: Rates, row: int) -> dict[str, Any]:
    """The parameters of one jet."""
    return {**parameters, **{name: float(values[row]) for name, values in rates.items()}}


def _jet_params(
    model: JetPotential, parameters: Mapping[str, Any], rates: Rates, lanes: IntArray, root: bool
) -> FloatArray:
    """What the split function takes, a column for each jet."""
    jets = [0] if not rates else range(len(next(iter(rates.values()))))
    each = (tuple(of_jet(parameters, rates, row).items()) for row in jets)
    columns = np.array([with_parameters(model, given).params(root) for given in each]).T
    return np.ascontiguousarray(columns[:, lanes if rates else np.zeros(len(lanes), int)])


@lru_cache(maxsize=16)
def with_parameters(
    model: JetPotential, parameters: tuple[tuple[str, Any], ...]
) -> Ginkgo | GinkgoDensity | JetMass:
    """A model of one particle, for its parameters; kept, since making it takes long."""
    return model([[1.0, 0.0, 0.0, 0.0]], **dict(parameters))


def weigh_group(potentials: Sequence[Potential], children: IntArray) -> FloatArray:
    """The log weights of one tree for each potential, given by its `Tree.children`."""
    pairs = zip(potentials, children, strict=True)
    return np.array([model.log_weight(Tree(rows, labels=model.labels)) for model, rows in pairs])


def weigh_jets(
    model: JetPotential,
    momenta: FloatArray,
    children: IntArray,
    parameters: Mapping[str, Any],
    rates: Rates = NO_RATES,
) -> FloatArray:
    """The log weights of one tree for each jet, given by its `Tree.children`; all at once."""
    if rates:  # those with the same parameters together
        found = np.empty(len(momenta))
        distinct, which = np.unique(np.column_stack([*rates.values()]), axis=0, return_inverse=True)
        for i in range(len(distinct)):
            rows = np.flatnonzero(which.ravel() == i)
            given = of_jet(parameters, rates, int(rows[0]))
            found[rows] = weigh_jets(model, momenta[rows], children[rows], given)
        return found
    from hctrellis.kernels.products import minkowski_products

    m, n, _ = momenta.shape
    one = with_parameters(model, tuple(parameters.items()))
    members = np.zeros((m, 2 * n - 1, n))
    members[:, :n] = np.eye(n)
    rows = np.arange(m)
    for k in range(n - 1):
        members[:, n + k] = members[rows, children[:, k, 0]] + members[rows, children[:, k, 1]]
    products = np.ascontiguousarray(minkowski_products(momenta.T).T).swapaxes(1, 2)
    squares = np.einsum("mki,mki->mk", members @ products, members)
    weights = np.zeros(m)
    with np.errstate(all="ignore"):
        for splits, root in ((slice(0, n - 2), False), (slice(n - 2, n - 1), True)):
            if n > 1:
                weights += _weigh_splits(one, squares, members, children[:, splits], splits, root)
    return weights


def _weigh_splits(
    model: Ginkgo | GinkgoDensity | JetMass,
    squares: FloatArray,
    members: FloatArray,
    children: IntArray,
    splits: slice,
    root: bool,
) -> FloatArray:
    """The sum of log psi over some splits of trees, one tree for each jet."""
    n = members.shape[2]
    described, own = model.code().describe(members.sum(axis=2), (squares,), model.params(root))
    lefts, rights = children[..., 0], children[..., 1]
    features = [np.broadcast_to(feature, squares.shape) for feature in described]
    left, right = (
        [np.take_along_axis(feature, side, axis=1) for feature in features]
        for side in (lefts, rights)
    )
    parent = [feature[:, n:][:, splits] for feature in features]
    single = np.array([lefts < n, rights < n])
    found: FloatArray = model.evaluate(left, right, parent, root, single, None)
    total: FloatArray = (found + np.broadcast_to(own, squares.shape)[:, n:][:, splits]).sum(axis=1)
    return total


def explain(error: Exception) -> str:
    """An error in one line; its type is named unless it is a ValueError, which explains itself.

    It says the same in every run.
    """
    if isinstance(error, TooLargeError) and error.lasting is not None:
        return error.lasting
    name = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
    return name + " ".join(str(error).split())


# ---- one at a time ----------------------------------------------------------------------------


def _solve_apart(
    columns: Columns,
    potentials: Iterable[tuple[int, Potential]],
    entropy: bool,
    policy: Policy,
    look: Look | None,
    count: bool,
) -> None:
    """One potential after the other, each with its row."""
    for row, potential in potentials:
        check_stop()
        try:
            post = policy.solve(potential, threads=1)
            _fill(columns, row, post, entropy, count)
            if look is not None:
                look(row, post)
        except StoppedError:
            raise
        except Exception as error:  # a user's function may raise anything
            columns.errors[row] = explain(error)


def _show(
    columns: Columns,
    potentials: Iterable[tuple[int, Potential]],
    policy: Policy,
    look: Look,
) -> None:
    """Look at the posteriors of what was solved side by side."""
    for row, potential in potentials:
        check_stop()
        try:
            look(row, policy.solve(potential, threads=1))
        except StoppedError:
            raise
        except Exception as error:  # a user's function may raise anything
            columns.errors[row] = explain(error)


def _fill(columns: Columns, i: int, post: BasePosterior, entropy: bool, count: bool) -> None:
    columns.method[i] = METHODS.index(post.method)
    log_partition = None if post.method == "sparse" else post.log_partition
    if isinstance(post, Posterior) and post.is_exact:
        columns.n_trees[i] = post.n_trees if count or post.n_leaves <= MOST_LEAVES else -1
    else:
        error = post.log_partition_error
        columns.log_partition_error[i] = math.nan if error is None else error
        columns.bound[i] = post.log_partition_bound
    possible = post.log_partition_bound > -math.inf
    if possible:
        columns.children[i] = post.map_tree.children
    if possible and entropy and log_partition is not None:
        columns.entropy[i] = max(0.0, log_partition - post.expected_log_weight)
    columns.map_log_weight[i] = post.map_log_weight if possible else -math.inf
    columns.log_partition[i] = math.nan if log_partition is None else log_partition


# ---- side by side -----------------------------------------------------------------------------


class Stack(NamedTuple):
    """Data sets of one kind.

    Attributes
    ----------
    codes : tuple of SplitCode
        The split functions that all of them have.
    rows : int array, shape (m,)
        Their places in the columns.
    sums : list of arrays, shape (n, n, m) or (n + 1, m)
        What is added up over pairs and leaves; or a number by size. Here and below, the last data
        set is repeated until the vectors are full.
    params, root_params : arrays, shape (k, m)
    """

    codes: tuple[SplitCode, ...]
    rows: IntArray
    sums: list[FloatArray]
    params: FloatArray
    root_params: FloatArray


def sort_into_stacks(potentials: Sequence[Potential]) -> tuple[list[Stack], list[int]]:
    """Stacks of potentials that can be solved side by side, and the rows of all others."""
    kinds: dict[Any, list[tuple[int, list[FloatArray]]]] = defaultdict(list)
    others = []
    for row, potential in enumerate(potentials):
        try:
            potential.check()
            codes, sums = tuple(part.code() for part in potential.parts), _as_arrays(potential)
        except Exception:  # it is explained when the potential is solved apart
            codes, sums = (), []
        if sums:
            kinds[codes, tuple(array.ndim for array in sums)].append((row, sums))
        else:
            others.append(row)
    stacks = []
    for (codes, _), found in kinds.items():
        rows = np.array([row for row, _ in found])
        lanes = lanes_of(len(rows))
        sums = [
            np.stack([arrays[lane] for lane in lanes], axis=-1)
            for arrays in zip(*(arrays for _, arrays in found), strict=True)
        ]
        alike = [potentials[rows[lane]] for lane in lanes]
        stacks.append(Stack(codes, rows, sums, _params(alike, False), _params(alike, True)))
    return stacks, others


def lanes_of(m: int) -> IntArray:
    """The numbers of m data sets, the last repeated until the vectors are full."""
    from hctrellis.kernels.simd import LANES

    return np.minimum(np.arange(-(-m // LANES) * LANES), m - 1)


def _as_arrays(potential: Potential) -> list[FloatArray]:
    """The sums of a potential, those over leaves as diagonal matrices; none if it is solved apart.

    (The sum over pairs of a diagonal matrix is a sum over leaves.)
    """
    found: list[FloatArray] = []
    if potential.n_leaves > MOST_LEAVES:
        return found
    for part in potential.parts:
        code, sums = part.code(), part.sums()
        if code is None or code.cross is not None or sums is None:
            return []
        found += [*map(np.diag, sums.leaves), *sums.pairs, *sums.by_size]
    return found


def _params(potentials: Sequence[Potential], root: bool) -> FloatArray:
    """The parameters of potentials of one kind, a column each."""
    rows = [[p for part in each.parts for p in part.params(root)] for each in potentials]
    return np.ascontiguousarray(np.array(rows).T)


def _solve_together(columns: Columns, stack: Stack, entropy: bool) -> list[int]:
    """Solve a stack; returns the rows without a sound answer, which are to be solved apart."""
    from hctrellis.kernels.bind import bind
    from hctrellis.kernels.simd import LANES

    m, n = len(stack.rows), columns.children.shape[1] + 1
    kernel = bind(("weights", "batch"), stack.codes)
    features = sum(code.n_features for code in stack.codes)
    width = kernel.FEATURES + LANES * (features + entropy)
    filled = stack.params.shape[1]
    answers = np.empty((filled, 4))
    children = np.zeros((filled, n - 1, 2), np.int64)
    try:
        kernel.solve(
            tuple(array.ravel() for array in stack.sums),
            np.array([array.ndim == 2 for array in stack.sums]),
            tuple(np.empty(LANES << n) for _ in stack.sums),
            tuple(stack.params),
            tuple(stack.root_params),
            lattice_of(n, width),
            width,
            entropy,
            answers,
            children,
        )
    except Exception:
        if any(code.users for code in stack.codes):  # a user's function may raise anything
            return list(map(int, stack.rows))
        raise
    return _keep(columns, stack.rows, answers[:m], children[:m])


def _keep(columns: Columns, rows: IntArray, answers: FloatArray, children: IntArray) -> list[int]:
    """Write answers into the columns if they are sound; returns the rows of all others.

    Answers that are not numbers, or out of range, are explained when their rows are solved apart.
    """
    sizes = np.abs(answers[:, 0])
    sound = (sizes <= LARGEST_LOG_WEIGHT) | (sizes == np.inf)  # False for NaN
    kept = rows
    if not sound.all():
        kept, answers, children = rows[sound], answers[sound], children[sound]
    log_partition, map_log_weight, n_trees, entropies = answers.T
    columns.log_partition[kept] = log_partition
    columns.map_log_weight[kept] = map_log_weight
    columns.children[kept] = children
    columns.entropy[kept] = np.maximum(entropies, 0.0)
    columns.n_trees[kept] = n_trees  # exact: MOST_LEAVES have fewer than 2^53
    others: list[int] = rows[~sound].tolist()
    return others


@cache
def lattice_of(n_leaves: int, width: int) -> tuple[IntArray, IntArray, Any]:
    """The clusters to split, where each size begins, and all splits (see `kernels.batch`)."""
    sizes = Lattice(n_leaves).sizes
    masks = np.argsort(sizes, kind="stable")
    levels = np.searchsorted(sizes[masks], np.arange(n_leaves + 2))
    splits = [_list_splits(masks[i:j]) for i, j in pairwise(levels[2:])]
    listed = np.concatenate([np.empty(0, np.int64), *splits])
    return masks, levels, (listed * width).astype(np.int32)


def _list_splits(parents: IntArray) -> IntArray:
    """One child of each split of parents of equal size: for each parent, single leaves first."""
    size = int(parents[0]).bit_count()
    bits = np.arange(int(parents.max()).bit_length())
    members = (parents[:, None] >> bits) & 1
    leaves = (1 << np.nonzero(members)[1]).reshape(len(parents), size)
    patterns = (np.arange(1, 1 << size, 2)[:, None] >> np.arange(size)) & 1
    counts = patterns.sum(axis=1)
    pairs = leaves @ patterns[(counts > 1) & (counts < size - 1)].T
    return np.concatenate([leaves if size > 2 else leaves[:, :1], pairs], axis=1).ravel()
