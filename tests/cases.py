"""The posteriors that tests of the posterior go through.

What is asked of a posterior no longer depends on the potential, but on the size, on what is
forbidden, on ties and on the range of numbers; so a few problems of the gallery stand for all. Each
is solved level by level, which needs no compiling, or with compiled kernels, for models that
together use every branch of these.
"""

from functools import cache

import numpy as np
import pytest

import naive
from gallery import PROBLEMS, level_posterior, listing, posterior

EXACT = 1e-12
ROUNDING = 1e-15  # of a log weight, relative to its size

SIZES = ["yule, 1 leaves", "average, 2 leaves", "function, numpy, 3 leaves", "single, 5 leaves"]
MODELS = [
    "ward, 6 leaves",
    "correlation, 6 leaves",
    "ginkgo, 6 leaves",
    "function, numpy, 6 leaves",
]
FORBIDDEN = [
    "ginkgo, pair at the threshold",
    "ginkgo, most forbidden",
    "jet mass, collinear pair",
    "forbidden twice",
    "function, numpy, forbidding, 5 leaves",
]
TIES = ["average, square", "complete, duplicates", "dasgupta, symmetric", "numpy, zero"]
RANGES = ["dasgupta, 1e10", "correlation, mixed", "centroid, beta 0.001", "ginkgo, steeper"]
COMPILED = [
    "ginkgo, 1 leaves",
    "dasgupta, 2 leaves",
    "function, numba, forbidding, 3 leaves",
    "correlation, 5 leaves",
    "single, 6 leaves",
    "dasgupta, 6 leaves",
    "ginkgo, most forbidden",
    "single, duplicates",
    "correlation, 1e10",
    "function, numba, forbidding, 6 leaves",
]
NAMES = [*SIZES, *MODELS, *FORBIDDEN, *TIES, *RANGES]
CASES = [("levels", name) for name in NAMES]
CASES += [("compiled", name) for name in COMPILED]
KINDS = {"levels": level_posterior, "compiled": posterior}
IMPOSSIBLE = [name for name in PROBLEMS if "all forbidden" in name]


def over(cases):
    """Run a test with (post, name) for each of some cases."""
    return pytest.mark.parametrize(("kind", "name"), cases, ids=[": ".join(c) for c in cases])


everywhere = over(CASES)
SMALL = [(kind, name) for kind, name in CASES if PROBLEMS[name].n in (3, 4, 5)]
SOME = [(kind, name) for kind, name in CASES if kind == "compiled" or name in FORBIDDEN]


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
