"""One named gallery of problems for all tests: a potential, and the oracle's psi of the same model.

`PROBLEMS` maps a name to a `Problem`. Problems are made when asked for, since some of them warn.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numba
import numpy as np

import hctrellis as hct
import naive
from hctrellis.kernels import splits
from hctrellis.kernels.bind import bind
from hctrellis.potentials.contrasts import StudentContrasts
from hctrellis.support.progress import silent
from hctrellis.trellis.full import _solve_numpy

METHODS = ("single", "complete", "average", "centroid", "ward")

INTERPRETED = bool(numba.config.DISABLE_JIT)
"""Whether kernels run as plain Python in this process (see `interpreted.py`)."""

BATCHED = (splits.AVERAGE, splits.DASGUPTA, splits.GINKGO)
"""The models whose kernels for batches are compiled; those of others are only interpreted."""


@dataclass(frozen=True)
class Problem:
    """A potential over n leaves, and what the oracle needs to check it.

    tolerance is relative to the larger of 1 and the answer; flat says that all trees weigh alike,
    of which `infer` warns; compiled is False where kernels of its own would show nothing new, and
    `posterior` then solves it level by level (`interpreted.py` runs its kernels as plain Python).
    """

    name: str
    n: int
    make: Callable[[], hct.Potential]
    psi: Callable[[frozenset, frozenset], float]
    tolerance: float = 1e-11
    flat: bool = False
    compiled: bool = True

    def __str__(self) -> str:
        return self.name


# ---- data -------------------------------------------------------------------------------------


def points(n, seed=0, dim=2):
    return np.random.default_rng(seed).normal(size=(n, dim))


def similarities(n, seed=0):
    return _symmetric(np.random.default_rng(seed).uniform(0, 1, (n, n)))


def affinities(n, seed=0):
    return _symmetric(np.random.default_rng(seed).normal(size=(n, n)))


def momenta(n, seed=0, mass=0.0):
    """Particles near a common axis, as in a jet: E, px, py, pz; massless by default."""
    rng = np.random.default_rng(seed)
    directions = np.array([1.0, 1.0, 1.0]) + 0.3 * rng.normal(size=(n, 3))
    p = rng.uniform(1, 10, (n, 1)) * directions
    masses = mass * rng.uniform(0.5, 1.5, n)
    return np.column_stack([np.sqrt((p**2).sum(axis=1) + masses**2), p])


def _symmetric(matrix):
    return np.tril(matrix, -1) + np.tril(matrix, -1).T


def equal_distances(n):
    return 1.0 - np.eye(n)


SQUARE = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
"""Four corners: ties between sides and between diagonals."""

DUPLICATES = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 2.0], [1.0, 2.0], [1.0, 2.0], [4.0, 0.0]])

COLLINEAR = np.array(
    [[5, 3, 4, 0], [10, 6, 8, 0], [13, 5, 12, 0], [25, 7, 0, 24], [17, 0, 8, 15]], float
)
"""Massless particles in whole numbers; the first two are parallel, so their mass is exactly 0.

The squared mass of the second and the third is exactly 8."""


def ladder():
    """The graph of facts.md with Dasgupta optimum 40.08: four rungs of 1.01, six rails of 1."""
    w = np.zeros((8, 8))
    for i, j in ((0, 1), (2, 3), (4, 5), (6, 7)):
        w[i, j] = w[j, i] = 1.01
    for i, j in ((0, 2), (2, 4), (4, 6), (1, 3), (3, 5), (5, 7)):
        w[i, j] = w[j, i] = 1.0
    return w


# ---- a user's functions -----------------------------------------------------------------------


def value_and_size(values):
    """Features: the sum of a value over the leaves, and the number of leaves."""
    return lambda clusters: [clusters.leaf_sums(values), clusters.sizes]


def with_arrays(left, right, parent):
    return -0.5 * np.abs(left[0] - right[0]) - np.log(parent[1])


def with_arrays_forbidding(left, right, parent):
    far = np.abs(left[1] - right[1]) > 2
    return np.where(far, -np.inf, 0.1 * left[0] * right[0] + np.log(parent[1]))


@numba.njit
def arithmetic(left, right, parent):
    gap = left[0] - right[0]
    return -0.5 * gap * gap - 0.1 * parent[1]


@numba.njit
def branching(left, right, parent):
    if left[1] == right[1]:
        return -0.25 * parent[1]
    return -math.log(1.0 + (left[0] - right[0]) ** 2)


@numba.njit
def forbidding(left, right, parent):
    if abs(left[1] - right[1]) > 2:
        return -np.inf
    return 0.1 * left[0] * right[0] + math.log(parent[1])


def by_sums(values, formula):
    """The oracle's psi of a formula (l, r, |L|, |R|), l and r the sums of values over leaves."""

    def psi(left, right):
        l, r = (math.fsum(float(values[i]) for i in child) for child in (left, right))
        return formula(l, r, len(left), len(right))

    return psi


def _absolute(l, r, nl, nr):
    return -0.5 * abs(l - r) - math.log(nl + nr)


def _square(l, r, nl, nr):
    return -0.5 * (l - r) ** 2 - 0.1 * (nl + nr)


def _branch(l, r, nl, nr):
    return -0.25 * (nl + nr) if nl == nr else -math.log(1 + (l - r) ** 2)


def _near_sizes(l, r, nl, nr):
    return -math.inf if abs(nl - nr) > 2 else 0.1 * l * r + math.log(nl + nr)


FUNCTIONS = {
    "numpy": (with_arrays, _absolute),
    "numpy, forbidding": (with_arrays_forbidding, _near_sizes),
    "numba, arithmetic": (arithmetic, _square),
    "numba, branching": (branching, _branch),
    "numba, forbidding": (forbidding, _near_sizes),
}


# ---- problems ---------------------------------------------------------------------------------


def linkage(name, method, table, beta=1.0, **options):
    def make():
        return hct.Linkage(table, method, beta)

    return Problem(name, len(table), make, naive.linkage(table, method, beta), **options)


def precomputed(name, method, distances, beta=1.0, **options):
    extreme = {"single": min, "complete": max, "average": naive.mean}[method]

    def make():
        return hct.Linkage(distances, method, beta, metric="precomputed")

    psi = naive.from_distances(extreme, distances, beta)
    return Problem(name, len(distances), make, psi, **options)


def dasgupta(name, similarity, beta=1.0, **options):
    psi = naive.dasgupta(similarity, beta)
    return Problem(name, len(similarity), lambda: hct.Dasgupta(similarity, beta), psi, **options)


def correlation(name, affinity, beta=1.0, ordered=False, **options):
    def make():
        return hct.CorrelationClustering(affinity, beta, ordered)

    psi = naive.correlation_clustering(affinity, beta, ordered)
    return Problem(name, len(affinity), make, psi, **options)


def ginkgo(name, jet, lam, t_cut, lam_root=None, non_stop=False, **options):
    def make():
        return hct.Ginkgo(jet, lam, t_cut, lam_root, non_stop=non_stop)

    psi = naive.ginkgo(jet, lam, t_cut, lam_root, non_stop)
    return Problem(name, len(jet), make, psi, **options)


def density(name, jet, lam, t_cut, lam_root=None, **options):
    psi = naive.ginkgo_density(jet, lam, t_cut, lam_root)
    return Problem(
        name, len(jet), lambda: hct.GinkgoDensity(jet, lam, t_cut, lam_root), psi, **options
    )


def jet_mass(name, jet, lam, **options):
    psi = naive.jet_mass(jet, lam)
    return Problem(name, len(jet), lambda: hct.JetMass(jet, lam), psi, **options)


def contrasts(name, table, sigma, tau, gamma, nu, columns, **options):
    given = (sigma, tau, gamma, nu, columns)
    psi = naive.contrasts(table, *given)
    return Problem(name, len(table), lambda: StudentContrasts(table, *given), psi, **options)


def beta_splitting(name, n, shape, **options):
    psi = naive.beta_splitting(shape)
    return Problem(name, n, lambda: hct.BetaSplitting(n, shape), psi, **options)


def function(name, which, n, seed=0, **options):
    values = np.random.default_rng(seed).normal(size=n)
    given, formula = FUNCTIONS[which]

    def make():
        return hct.FunctionPotential(given, value_and_size(values), n_leaves=n)

    return Problem(name, n, make, by_sums(values, formula), **options)


def always(name, value, n, **options):
    def make():
        return hct.FunctionPotential(lambda l, r, p: np.full(len(p[0]), value), np.zeros(n))

    return Problem(name, n, make, naive.constant(value), **options)


def added(name, *problems, **options):
    def make():
        return sum(problem.make() for problem in problems)

    psi = naive.added(*(problem.psi for problem in problems))
    return Problem(name, problems[0].n, make, psi, **options)


def _models(n, seed):
    """Every built-in model over n leaves, under its name."""
    table, w = points(n, seed), affinities(n, seed)
    jet, heavy = momenta(n, seed), momenta(n, seed, mass=1.0)
    yield from (linkage(method, method, table, 1.5) for method in METHODS)
    yield dasgupta("dasgupta", similarities(n, seed))
    yield correlation("correlation", w)
    yield correlation("correlation, ordered", w, 0.7, ordered=True)
    yield ginkgo("ginkgo", jet, 1.5, 0.01)
    yield ginkgo("ginkgo, root rate", heavy, 1.5, 0.5, lam_root=3.0)
    yield ginkgo("ginkgo, non-stop", jet, 1.5, 0.5, non_stop=True)
    yield ginkgo("ginkgo, non-stop, root rate", heavy, 1.5, 2.0, lam_root=3.0, non_stop=True)
    yield density("density", jet, 1.5, 0.01, compiled=False)
    yield density("density, root rate", heavy, 1.5, 2.5, lam_root=3.0, compiled=False)
    yield jet_mass("jet mass", heavy, 2.0)
    yield jet_mass("jet mass, massless", jet, 0.8)
    if n > 1:
        yield contrasts("contrasts", table, 0.5, 1.5, 1.2, 4.0, 1.5)
    yield beta_splitting("yule", n, 0.0)
    yield beta_splitting("balanced", n, 4.0)
    yield beta_splitting("caterpillars", n, -1.8)


def _sizes():
    for n in (1, 2, 3, 5, 6):
        for method in ("single", "average", "ward"):
            yield linkage(f"{method}, {n} leaves", method, points(n, n), 2.0)
        yield dasgupta(f"dasgupta, {n} leaves", similarities(n, n))
        yield correlation(f"correlation, {n} leaves", affinities(n, n + 2))
        yield ginkgo(f"ginkgo, {n} leaves", momenta(n, n, mass=0.5), 1.5, 0.5, lam_root=2.0)
        yield beta_splitting(f"yule, {n} leaves", n, 0.0)
        for which in FUNCTIONS:
            name = f"function, {which}, {n} leaves"
            yield function(name, which, n, n, compiled="branching" not in which)


def _forbidden():
    yield ginkgo("ginkgo, some forbidden", momenta(7, 3), 1.5, 20.0)
    yield ginkgo("ginkgo, most forbidden", momenta(6, 4), 1.5, 35.0)
    yield ginkgo("ginkgo, all forbidden", momenta(6, 5), 1.5, 1e9)
    yield always("numpy, all forbidden", -math.inf, 5)
    yield ginkgo("ginkgo, pair at the threshold", COLLINEAR[1:], 1.5, 8.0)
    yield ginkgo("ginkgo, non-stop, pair at the threshold", COLLINEAR[1:], 1.5, 8.0, non_stop=True)
    yield ginkgo("ginkgo, non-stop, some forbidden", momenta(7, 3), 1.5, 20.0, non_stop=True)
    yield density("density, some forbidden", momenta(6, 4), 1.5, 5.0, compiled=False)
    yield jet_mass("jet mass, collinear pair", COLLINEAR, 1.5)
    yield added(
        "forbidden twice",
        ginkgo("", momenta(6, 4), 1.5, 20.0),
        function("", "numpy, forbidding", 6),
    )
    for which in ("numpy, forbidding", "numba, forbidding"):
        yield function(f"function, {which}", which, 7)


def _ties():
    for method in METHODS:
        rough = {"tolerance": 1e-7} if method in ("centroid", "ward") else {}
        yield linkage(f"{method}, square", method, SQUARE, 2.0, **rough)
        yield linkage(f"{method}, duplicates", method, DUPLICATES, 1.0, **rough)
    yield contrasts("contrasts, duplicates", DUPLICATES, 0.1, 1.0, 0.5, 2.0, 2.0)
    for method in ("single", "complete", "average"):
        yield precomputed(f"{method}, equal", method, equal_distances(6), 1.0, flat=True)
    yield dasgupta("dasgupta, clique", equal_distances(6), 0.5, flat=True)
    yield dasgupta("dasgupta, symmetric", ladder()[:6, :6], 1.0)
    yield correlation("correlation, equal", -equal_distances(6), 0.5)


def _ranges():
    w, a = similarities(6, 1), affinities(6, 2)
    table = points(6, 3)
    yield dasgupta("dasgupta, 1e10", 1e10 * w)
    yield dasgupta("dasgupta, 1e-12", 1e-12 * w, flat=True)
    yield correlation("correlation, 1e10", 1e10 * a)
    yield correlation("correlation, 1e-12", 1e-12 * a, flat=True)
    yield correlation("correlation, mixed", a * 10.0 ** np.round(affinities(6, 5) * 6))
    for beta in (1e-3, 1e3):
        yield dasgupta(f"dasgupta, beta {beta:g}", w, beta)
        yield correlation(f"correlation, beta {beta:g}", a, beta)
        for method in METHODS:
            rough = {"tolerance": 1e-9} if method in ("centroid", "ward") else {}
            yield linkage(f"{method}, beta {beta:g}", method, table, beta, **rough)
    yield linkage("average, 1e10", "average", 1e10 * table)
    yield linkage("single, 1e-12 at beta 1e12", "single", 1e-12 * table, 1e12)
    yield dasgupta("dasgupta, energies 1e6", 1e6 * w)
    yield linkage("ward, energies 1e6", "ward", 1e6 * table, tolerance=1e-9)
    yield ginkgo("ginkgo, steep", momenta(7, 7), 200.0, 0.1)
    yield ginkgo("ginkgo, steeper", momenta(6, 8), 1e5, 1e-4)
    yield ginkgo("ginkgo, gentle", momenta(6, 8), 1e-4, 1e-2)
    yield jet_mass("jet mass, steep", momenta(7, 9, mass=1.0), 1e3)


def _sums():
    n = 7
    table, w, a = points(n, 11), similarities(n, 12), affinities(n, 13)
    jet = momenta(n, 14)
    average = linkage("", "average", table, 2.0)
    single = linkage("", "single", table, 1.0)
    clustering, prior = dasgupta("", w, 0.5), beta_splitting("", n, 1.0)
    affinity, shower = correlation("", a, 0.5), ginkgo("", jet, 1.5, 5.0, lam_root=2.5)
    yield added("average + prior", average, prior)
    yield added("dasgupta + correlation", clustering, affinity)
    yield added("dasgupta + prior", clustering, prior)
    yield added("dasgupta + dasgupta", clustering, dasgupta("", similarities(n, 15), 0.3))
    yield added("dasgupta + average", clustering, average)
    yield added("single + ginkgo", single, shower, compiled=False)
    yield added("single + complete", single, linkage("", "complete", table, 0.5))
    yield added("dasgupta + ginkgo + prior", clustering, shower, prior, compiled=False)
    yield added("prior + correlation + average", prior, affinity, average)
    yield added("ginkgo + numpy", shower, function("", "numpy", n))
    yield added("ginkgo + numba", shower, function("", "numba, forbidding", n))


def _functions():
    for which in FUNCTIONS:
        if "forbidding" not in which:
            yield function(f"function, {which}", which, 7, compiled="branching" not in which)
    yield always("numpy, zero", 0.0, 6, flat=True)
    yield always("numpy, constant", 1e6, 5, flat=True)


def _named(problems):
    named = {problem.name: problem for problem in problems}
    assert len(named) == len(problems), "two problems have one name"
    return named


PROBLEMS = _named(
    [*_models(7, 0), *_sizes(), *_forbidden(), *_ties(), *_ranges(), *_sums(), *_functions()]
)

BUILT_IN = [problem.name for problem in _models(7, 0)]
"""Names of the problems with one built-in potential each; `built_in` makes them at any size."""


def built_in(n, seed=0):
    """Every built-in model over n leaves: name -> potential."""
    return {problem.name: quiet(problem.make) for problem in _models(n, seed)}


def as_sets(tree: hct.Tree) -> frozenset[frozenset[int]]:
    """A tree as the oracle writes it."""
    return frozenset(
        frozenset(i for i in range(tree.n_leaves) if mask >> i & 1) for mask in tree.clusters()
    )


def as_tree(clusters: frozenset[frozenset[int]], n: int) -> hct.Tree:
    """The oracle's tree as a Tree with default labels."""
    return hct.Tree.from_clusters(clusters, labels=[str(i) for i in range(n)])


def is_batched(potential: hct.Potential) -> bool:
    """Whether to ask `infer_many` about a potential in this process."""
    return INTERPRETED or potential.code() in BATCHED


def plain_kernel(codes):
    """The module of plain scalar kernels for some split functions."""
    return bind(("weights", "scalar"), codes)


def quiet(call: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Call with the warning of a flat posterior turned off."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*every tree has the same weight")
        return call(*args, **options)


@cache
def listing(name):
    """The oracle's listing of a problem."""
    problem = PROBLEMS[name]
    return naive.listing(problem.n, problem.psi)


class LevelTrellis(hct.FullTrellis):
    """The full trellis, solved level by level whatever the potential, which compiles nothing."""

    def solve(self, potential, threads=None, progress=None):
        return _solve_numpy(potential, progress or silent)


@cache
def posterior(name):
    """The package's answer to a problem."""
    problem = PROBLEMS[name]
    trellis = None if problem.compiled else LevelTrellis(problem.n)
    return quiet(hct.infer, problem.make(), trellis)


@cache
def level_posterior(name):
    """The answer level by level."""
    problem = PROBLEMS[name]
    return quiet(hct.infer, problem.make(), LevelTrellis(problem.n))
