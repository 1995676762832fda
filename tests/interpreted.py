"""The kernels as plain Python: every template with every model, and those that need no model.

Run by `test_kernels.py` in a process without the compiler (NUMBA_DISABLE_JIT=1), where an index out
of bounds is an error; compiled code would read or write some other memory. To interpret a kernel
takes milliseconds, to compile it seconds; so every model is taken through every kernel here, and
elsewhere through some compiled ones. What is compared with are the passes level by level, which are
NumPy alone, and of which `test_infer.py` holds every problem against the oracle.
"""

import itertools
import math
from functools import cache

import numba
import numpy as np
import pytest

import fuzz
import hctrellis as hct
import naive
import proofs
from fuzz_targets import TARGETS
from gallery import BUILT_IN, PROBLEMS, affinities, as_sets, as_tree, built_in, quiet
from gallery import level_posterior as by_levels
from hctrellis.batch import lanes
from hctrellis.batch.slopes import DataSets, log_partitions
from hctrellis.certify import search as certified
from hctrellis.chains.chains import Chains
from hctrellis.kernels import codes, ranked, uniform
from hctrellis.search import beam_search, greedy, local_search
from hctrellis.search.greedy import agglomerate
from hctrellis.search.model import CompiledModel, PlainModel, search_model
from hctrellis.trees.newick import newick_many, read_plain
from hctrellis.trellis import averages
from hctrellis.trellis.solution import CompiledSolution
from test_infer import assert_same_tables
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
def test_plain_recursion(name):
    assert_same_tables(quiet(PROBLEMS[name].make), cancels=True)


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
def test_plain_moves(name):
    """The log weight that a chain has after each move is that of its tree, and Metropolis' rule."""
    potential = quiet(PROBLEMS[name].make)
    n, (m, moves) = potential.n_leaves, (3, 20)
    chains = Chains(potential, 1)
    starts = np.array([by_kernels(name).map_tree.children] * m, np.int16)
    chosen = np.random.default_rng(1).random((m, moves, 1, 4))
    chosen[0, ..., 3] = 0.0  # all that is possible is accepted
    trees, found = np.empty((m, moves, n - 1, 2), np.int16), np.empty((m, moves))
    kernel = chains._model.kernel("metropolis")
    assert kernel.run_plain_chains(starts, chosen, chains._rooms[0], trees, found)
    children = trees.reshape(-1, n - 1, 2).astype(np.int64)
    weights = [potential.log_weight(hct.Tree(rows, labels=potential.labels)) for rows in children]
    np.testing.assert_allclose(found.ravel(), weights, rtol=1e-9, atol=1e-9)
    gains = np.diff(found, axis=1, prepend=by_kernels(name).map_log_weight)
    assert (np.abs(gains) > 1e-9).any() or np.ptp(weights) < 1e-9
    with np.errstate(divide="ignore"):
        assert (gains >= np.log(chosen[:, :, 0, 3]) - 1e-9).all()


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


# ---- kernels that need no model ---------------------------------------------------------------


@pytest.mark.parametrize("kind", proofs.KINDS)
def test_certified_search(kind, monkeypatch):
    """The best tree is found and proven, with arrays that have to grow again and again."""
    monkeypatch.setattr(certified, "FIRST_SPLITS", 4)
    monkeypatch.setattr(certified, "FIRST_CLUSTERS", 16)
    for seed in range(15):
        proofs.check(kind, seed, most=8)


def test_certified_search_of_blocks_in_blocks():
    """Most pairs are negative, so that splits leave clusters that are not solved at once."""
    for seed in range(8):
        share = (1.0, 0.5)[seed % 2]
        pairs = proofs.sparsened(affinities(10, seed) - 1.0, np.random.default_rng(seed), share)
        potential = hct.CorrelationClustering(pairs)
        low, tree = proofs.searched(potential, proofs.random_tree(potential, seed))
        best = quiet(hct.infer, potential).map_log_weight
        assert potential.log_weight(tree) == pytest.approx(best, rel=1e-9)
        assert float(low) == pytest.approx(-best, rel=1e-9)


def test_what_reads_files_of_trees(tmp_path):
    with np.errstate(over="ignore"):  # of hashes
        tally = fuzz.run(TARGETS["runs"](tmp_path), 1000, seed=3)
    assert tally.failures == []
    assert tally.accepted > 20 and tally.refused > 20


def drawn_children(n):
    """All trees over n leaves, from one number of each range from which a place is drawn."""
    places = [(np.arange(2 * leaf - 1) + 0.5) / (2 * leaf - 1) for leaf in range(1, n)]
    uniforms = np.array([*itertools.product(*places)])
    children = np.empty((len(uniforms), n - 1, 2), np.int64)
    uniform.uniform_trees(uniforms, children)
    return children


@pytest.mark.parametrize("n", [2, 3, 5])
def test_uniform_trees(n):
    found = [as_sets(hct.Tree(rows)) for rows in drawn_children(n)]
    assert len(found) == len({*found})
    assert {*found} == {*map(naive.clusters_of, naive.all_trees(n))}


def test_what_trees_have_in_common():
    n, size = 5, 3
    children = drawn_children(n)[::7]
    trees = [as_sets(hct.Tree(rows)) for rows in children]
    leaves = np.array([3, -5, 1 << 62, 17, 1 << 40])
    found = np.empty((len(trees), n - 1), np.int64)
    codes.fill_codes(children, leaves, found)
    for tree, row in zip(trees, found, strict=True):
        expected = [np.bitwise_xor.reduce(leaves[[*cluster]]) for cluster in tree]
        assert sorted(row) == sorted(expected)
    sizes, together = np.zeros((2, n, n))
    codes.add_pairs(children, size, sizes, together)
    for i, j in itertools.combinations(range(n), 2):
        common = [min(len(cluster) for cluster in tree if {i, j} <= cluster) for tree in trees]
        assert sizes[i, j] == sum(common)
        assert together[i, j] == sum(some <= size for some in common)


@pytest.mark.parametrize("share", [0.4, 0.8, 1.0])
def test_counts_by_ranked_convolution(share):
    n = 5
    masks = np.arange(1 << n)
    sizes = np.array([mask.bit_count() for mask in masks.tolist()])
    allowed = (np.random.default_rng(2).random(1 << n) < share) | (sizes == 1) | (sizes == n)
    trees = [as_tree(naive.clusters_of(tree), n) for tree in naive.all_trees(n)]
    expected = sum(all(allowed[mask] for mask in tree.clusters()) for tree in trees)
    found = ranked.count_ordered(allowed, sizes, np.zeros((n, 1 << n), np.uint64))
    assert found == expected << (n - 1)
    allowed[-1] = False
    assert ranked.count_ordered(allowed, sizes, np.zeros((n, 1 << n), np.uint64)) == 0


@pytest.mark.parametrize("n", [1, 2, 9, 300])
def test_newick_of_many_trees(n):
    trees = [proofs.random_tree(hct.BetaSplitting(n), seed) for seed in range(3)]
    labels = [[f"{'x' * (i % k)} {i}" for i in range(n)] for k in (1, 2, 5)]
    renamed = [hct.Tree(t.children, labels=own) for t, own in zip(trees, labels, strict=True)]
    children = np.array([tree.children for tree in trees])
    for given, written in ((None, trees), (labels, renamed)):
        texts, offsets = newick_many(children, given)
        found = [texts[i:j].tobytes().decode() for i, j in itertools.pairwise(offsets)]
        assert found == [tree.to_newick() for tree in written]
    again = np.zeros_like(children)
    assert read_plain([tree.to_newick() for tree in trees], again).all()
    np.testing.assert_array_equal(again, children)
