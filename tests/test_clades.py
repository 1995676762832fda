"""Trees as data: the conditional clade distribution against its definition."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import hctrellis as hct
from hctrellis.clades.distribution import CladeDistribution
from hctrellis.treefiles import read_nexus, write_nexus
from hctrellis.treefiles.weighted import WeightedTrees

pytestmark = pytest.mark.filterwarnings("ignore:every tree has the same weight")


def random_tree(n: int, rng: np.random.Generator) -> hct.Tree:
    children, free = [], list(range(n))
    for k in range(n - 1):
        pair = [free.pop(rng.integers(len(free))) for _ in range(2)]
        children.append(pair)
        free.append(n + k)
    return hct.Tree(children)


def log_probability(tree: hct.Tree, trees: list[hct.Tree]) -> float:
    """The product over splits of how often the parent is split so, among trees that have it."""
    splits = Counter(split for other in trees for split in other.splits())
    parents = Counter(parent for other in trees for parent, _, _ in other.splits())
    total = 0.0
    for split in tree.splits():
        if splits[split] == 0:
            return -math.inf
        total += math.log(splits[split] / parents[split[0]])
    return total


@settings(max_examples=15, deadline=None)
@given(st.integers(2, 7), st.integers(1, 12), st.integers(0, 10**6))
def test_probabilities_are_products_of_frequencies(n, size, seed):
    rng = np.random.default_rng(seed)
    trees = [random_tree(n, rng) for _ in range(size)]
    model = CladeDistribution(trees)
    post = hct.infer(model, model.trellis)
    assert post.log_partition == pytest.approx(0, abs=1e-9)
    for tree in (*trees[:3], *(random_tree(n, rng) for _ in range(3))):
        expected = log_probability(tree, trees)
        assert model.log_weight(tree) == pytest.approx(expected, abs=1e-9)
        assert post.log_probability(tree) == pytest.approx(expected, abs=1e-9)


def test_cluster_probabilities_of_one_tree():
    tree = hct.Tree.from_newick("(((a,b),c),(d,e));")
    model = CladeDistribution([tree, tree])
    post = hct.infer(model, model.trellis)
    assert post.map_tree == tree
    assert post.n_trees == 1
    assert [post.cluster_probability(mask) for mask in tree.clusters()] == [1.0] * 4


def test_labels_in_any_order():
    texts = ("((a,b),c);", "(c,(b,a));", "((c,a),b);")
    model = CladeDistribution([hct.Tree.from_newick(text) for text in texts])
    post = hct.infer(model, model.trellis)
    assert post.cluster_probability(["a", "b"]) == pytest.approx(2 / 3)


AB, AC = (hct.Tree.from_newick(text) for text in ("((a,b),c);", "((a,c),b);"))


def test_weights_of_files_are_honoured():
    found = read_nexus(write_nexus(WeightedTrees([AB, AC], [0.9, 0.1])))
    model = CladeDistribution(found)
    post = hct.infer(model, model.trellis)
    assert post.cluster_probability(["a", "b"]) == pytest.approx(0.9)
    assert [math.exp(post.log_probability(tree)) for tree in (AB, AC)] == pytest.approx([0.9, 0.1])
    assert model.n_draws is None
    assert model.interval(["a", "b"]) is None


@settings(max_examples=15, deadline=None)
@given(st.integers(2, 6), st.lists(st.integers(0, 4), min_size=1, max_size=8), st.integers(0, 99))
def test_whole_weights_are_repetitions(n, times, seed):
    assume(any(times))
    rng = np.random.default_rng(seed)
    trees = [random_tree(n, rng) for _ in times]
    model = CladeDistribution(trees, weights=times)
    again = CladeDistribution([t for t, k in zip(trees, times, strict=True) for _ in range(k)])
    assert model.trellis == again.trellis == hct.SparseTrellis.from_trees(trees, weights=times)
    assert model.n_draws == again.n_draws == sum(times)
    for tree in trees:
        assert model.log_weight(tree) == again.log_weight(tree)
        halves = CladeDistribution(trees, weights=np.divide(times, 2 * sum(times)))
        assert halves.log_weight(tree) == pytest.approx(model.log_weight(tree), abs=1e-12)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], "weights has shape \\(1,\\) for 2 trees"),
        ([1.0, -0.5], "weights\\[1\\] is -0.5"),
        ([1.0, math.nan], "not finite"),
        ([0.0, 0.0], "all weights are 0"),
    ],
)
def test_weights_that_are_none_are_refused(weights, message):
    for make in (CladeDistribution, hct.SparseTrellis.from_trees):
        with pytest.raises(ValueError, match=message):
            make([AB, AC], weights=weights)


def test_trees_with_and_without_weights_are_not_joined():
    with pytest.raises(ValueError, match="others have none"):
        WeightedTrees([AB]) + WeightedTrees([AC], [1.0])


@pytest.mark.parametrize("seed", [0, 3, 13, 17])
def test_a_cluster_of_all_trees_has_probability_one(seed):
    """Whatever the rounding, and 1 is said of no other cluster."""
    rng = np.random.default_rng(seed)
    above = [random_tree(7, rng).relabel("abcdefX").to_newick() for _ in range(200)]
    model = CladeDistribution([hct.Tree.from_newick(t.replace("X", "((g,h),i)")) for t in above])
    post = hct.infer(model, model.trellis)
    assert post.cluster_probability(["g", "h"]) == post.cluster_probability(list("ghi")) == 1.0
    assert (post.cluster_probabilities(0.0).probabilities == 1.0).sum() == 2
    assert model.interval(["g", "h"]) == pytest.approx((0.98754, 1.0), abs=1e-5)
    assert model.interval(["a", "g"]) == pytest.approx((0.0, 0.01246), abs=1e-5)


def test_different_labels_are_refused():
    trees = [hct.Tree.from_newick("((a,b),c);"), hct.Tree.from_newick("((a,b),d);")]
    with pytest.raises(ValueError, match="different labels, for instance 'c'"):
        CladeDistribution(trees)


def test_repr_says_how_many():
    assert repr(CladeDistribution([hct.Tree([[0, 1]])])) == "CladeDistribution(2 leaves, 1 trees)"
