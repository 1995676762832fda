"""The posteriors that tests of the posterior go through: every possible problem of the gallery.

Each is solved level by level, which needs no compiling, and once more with the compiled kernels
where the model is one of a few that together use every branch of them.
"""

from functools import cache

import numpy as np
import pytest

import hctrellis as hct
import naive
from gallery import PROBLEMS, listing, posterior, quiet
from hctrellis.support.progress import silent
from hctrellis.trellis.full import _solve_numpy

COMPILED = ("single", "dasgupta", "correlation", "ginkgo", "yule", "function, numba, forbidding")
MOST_LEAVES = 6
EXACT = 1e-12
ROUNDING = 1e-15  # of a log weight, relative to its size


class LevelTrellis(hct.FullTrellis):
    """The full trellis, solved level by level whatever the potential."""

    def solve(self, potential, threads=None, progress=None):
        return _solve_numpy(potential, progress or silent)


@cache
def level_posterior(name):
    problem = PROBLEMS[name]
    return quiet(hct.infer, problem.make(), LevelTrellis(problem.n))


def _cases():
    for name, problem in PROBLEMS.items():
        if problem.n <= MOST_LEAVES and "all forbidden" not in name:
            yield "levels", name
            if name.startswith(COMPILED) and "non-stop" not in name:
                yield "compiled", name


CASES = list(_cases())
KINDS = {"levels": level_posterior, "compiled": posterior}
IMPOSSIBLE = [name for name in PROBLEMS if "all forbidden" in name]


def over(cases):
    """Run a test with (post, name) for each of some cases."""
    return pytest.mark.parametrize(("kind", "name"), cases, ids=[": ".join(c) for c in cases])


everywhere = over(CASES)
SMALL = [(kind, name) for kind, name in CASES if PROBLEMS[name].n in (3, 4, 5)]
SOME = [
    (kind, name)
    for kind, name in CASES
    if kind == "compiled" or "forbid" in name or "function" in name or "duplicates" in name
]


def solved(kind, name):
    return KINDS[kind](name)


def tolerance(name):
    """How far a probability may be off: log weights of 10^12 are known to 10^-4 only."""
    problem = PROBLEMS[name]
    rough = problem.tolerance if problem.tolerance > 1e-11 else EXACT
    return max(rough, 4 * ROUNDING * size(name))


def size(name):
    """The largest size of a log weight of a tree that matters."""
    return abs(naive.max_log_weight(listing(name)))


@cache
def marginals(name):
    return naive.cluster_marginals(listing(name))


def subsets(n):
    """All non-empty sets of leaves."""
    return [leaves(mask, n) for mask in range(1, 1 << n)]


@cache
def leaves(mask, n):
    return frozenset(i for i in range(n) if int(mask) >> i & 1)


def mask_of(cluster):
    return sum(1 << i for i in cluster)


def near(value, expected, allowed):
    return value == expected or abs(value - expected) <= allowed


def all_near(values, expected, allowed):
    np.testing.assert_allclose(values, expected, rtol=0, atol=allowed)
    return True


def in_sets(trees):
    """A list of trees kept as masks, each as the oracle writes it."""
    n = trees.potential.n_leaves
    return [frozenset(leaves(mask, n) for mask in row) for row in trees.clusters.tolist()]
