"""The kernel templates as plain Python: every kernel with every model.

Run by `test_kernels.py` in a process without the compiler (NUMBA_DISABLE_JIT=1). To interpret a
kernel takes milliseconds, to compile it seconds; so every model is taken through every kernel here,
and elsewhere through some compiled ones. What is compared with are the passes level by level, which
are NumPy alone, and of which `test_infer.py` holds every problem against the oracle.
"""

import math
from functools import cache

import numba
import numpy as np
import pytest

import hctrellis as hct
import naive
from gallery import BUILT_IN, PROBLEMS, built_in, quiet
from gallery import level_posterior as by_levels
from hctrellis.batch import lanes
from hctrellis.batch.slopes import DataSets, log_partitions
from hctrellis.search import beam_search, greedy, local_search
from hctrellis.search.greedy import agglomerate
from hctrellis.search.model import CompiledModel, PlainModel, search_model
from hctrellis.trellis import averages
from hctrellis.trellis.solution import CompiledSolution
from test_lanes import assert_like_infer
from test_search import assert_unions_weigh

SUMS = [name for name in PROBLEMS if " + " in name and "num" not in name]
MODELS = [*BUILT_IN, *(name for name in SUMS if name != "single + complete")]
"""Without users' functions, which are NumPy functions where nothing is compiled."""

FORBIDDEN = [
    "ginkgo, some forbidden",
    "ginkgo, non-stop, some forbidden",
    "density, some forbidden",
]

models = pytest.mark.parametrize("name", [*MODELS, *FORBIDDEN])


def test_nothing_is_compiled():
    assert numba.config.DISABLE_JIT


@cache
def by_kernels(name):
    return quiet(hct.infer, PROBLEMS[name].make())


@models
def test_upward(name):
    fast, slow = by_kernels(name), by_levels(name)
    assert isinstance(fast._solution, CompiledSolution)
    assert fast.log_partition == pytest.approx(slow.log_partition, rel=1e-11, abs=1e-11)
    assert fast.n_trees == slow.n_trees
    assert fast.map_tree == slow.map_tree
    assert fast.map_log_weight == pytest.approx(slow.map_log_weight, rel=1e-11, abs=1e-11)


@models
def test_downward(name):
    fast, slow = by_kernels(name), by_levels(name)
    for mask in range(1, 1 << fast.n_leaves):
        expected = slow.cluster_probability(mask)
        assert fast.cluster_probability(mask) == pytest.approx(expected, abs=1e-11), mask
    assert fast.entropy == pytest.approx(slow.entropy, rel=1e-10, abs=1e-10)


@models
def test_searches(name):
    potential = quiet(PROBLEMS[name].make)
    model = search_model(potential)
    assert isinstance(model, CompiledModel)
    (found, children), (expected, same) = agglomerate(model), agglomerate(PlainModel(potential))
    assert found == pytest.approx(expected, rel=1e-11)
    assert children.tolist() == same.tolist()
    best = by_kernels(name).map_log_weight
    least = potential.log_weight(greedy(potential))
    wide = potential.log_weight(beam_search(potential, width=30)[0])
    climbed = local_search(potential, restarts=3, rng=1)
    assert climbed.log_weight == pytest.approx(potential.log_weight(climbed.tree), rel=1e-10)
    for weight in (wide, climbed.log_weight):
        assert least - 1e-9 <= weight <= best + 1e-9 or weight == least == -math.inf


@models
def test_sparse(name):
    """All splits of the clusters of a few trees: the sum over its trees, listed one by one."""
    post = by_levels(name)
    trees = [post.map_tree, *post.sample(6, rng=1)]
    trellis = hct.SparseTrellis.from_trees(trees, splits="all")
    found = quiet(hct.infer, post.potential, trellis=trellis)
    listed = list(found.top_trees(found.n_trees + 1))
    assert set(trees) <= set(listed)
    assert len(listed) == found.n_trees
    expected = naive.log_sum([post.potential.log_weight(tree) for tree in listed])
    assert found.log_partition == pytest.approx(expected, rel=1e-11, abs=1e-10)


@models
def test_averages(name, monkeypatch):
    """Derivatives of log Z, with statistics fused into the passes up and down."""
    monkeypatch.setattr(averages, "LISTED_SPLITS", 0)
    if " + " in name and "single" in name:
        return  # the mean of a distance that another part asks for, too
    fast, slow = by_kernels(name).gradient(), by_levels(name).gradient()
    assert fast.keys() == slow.keys() and len(fast) > 0
    for key in fast:
        np.testing.assert_allclose(fast[key], slow[key], rtol=1e-9, atol=1e-9)


@models
def test_slopes_in_lanes(name):
    """Log Z and its derivatives for many data sets at once."""
    post = by_levels(name)
    sets = DataSets([post.potential] * 3, tuple(post.potential.parameters()))
    found = log_partitions(sets, post.potential.parameters(), threads=1)
    gradient = post.gradient()
    expected = [post.log_partition, *(gradient[key] for key in sets.names)]
    np.testing.assert_allclose(found, [expected] * 3, rtol=1e-9, atol=1e-9)


def test_lanes_of_sums(monkeypatch):
    monkeypatch.setattr(lanes, "_fill", None)  # nothing may be solved one at a time
    potentials = [PROBLEMS[name].make() for name in SUMS if "single" not in name]
    assert_like_infer(lanes.solve_group(potentials, entropy=True), potentials)


@pytest.mark.parametrize("name", BUILT_IN)
def test_unions_weigh_as_the_potential_does(name):
    assert_unions_weigh(built_in(7)[name], np.random.default_rng(0))
