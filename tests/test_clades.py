"""Trees as data: the conditional clade distribution against its definition."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hctrellis as hct
from hctrellis.potentials.clades import CladeDistribution

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


def test_different_labels_are_refused():
    trees = [hct.Tree.from_newick("((a,b),c);"), hct.Tree.from_newick("((a,b),d);")]
    with pytest.raises(ValueError, match="different labels, for instance 'c'"):
        CladeDistribution(trees)


def test_repr_says_how_many():
    assert repr(CladeDistribution([hct.Tree([[0, 1]])])) == "CladeDistribution(2 leaves, 1 trees)"
