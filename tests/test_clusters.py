"""Collections of clusters and the sums over them, against plain loops."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from hctrellis import Tree
from hctrellis.clusters import ClusterList, Lattice, n_splits, n_trees, split_members

relaxed = settings(deadline=None, max_examples=40)
sizes = st.integers(1, 7)
seeds = st.integers(0, 10_000)


def members_of(n):
    """All subsets of n leaves, in the order of their masks."""
    return [[i for i in range(n) if mask >> i & 1] for mask in range(1 << n)]


def matrix_of(n, seed):
    matrix = np.random.default_rng(seed).normal(size=(n, n))
    return matrix + matrix.T


def collections(n):
    """The same clusters as a lattice and as a list."""
    rows = [[i in cluster for i in range(n)] for cluster in members_of(n)]
    return Lattice(n), ClusterList(rows)


@relaxed
@given(sizes, seeds)
def test_leaf_sums(n, seed):
    values = np.random.default_rng(seed).normal(size=n)
    expected = [math.fsum(values[i] for i in cluster) for cluster in members_of(n)]
    for clusters in collections(n):
        np.testing.assert_allclose(clusters.leaf_sums(values), expected, rtol=0, atol=1e-13)


@relaxed
@given(sizes, seeds)
def test_pair_sums(n, seed):
    matrix = matrix_of(n, seed)
    expected = [
        math.fsum(matrix[i, j] for i, j in combinations(cluster, 2))
        + math.fsum(matrix[i, i] for i in cluster)
        for cluster in members_of(n)
    ]
    for clusters in collections(n):
        np.testing.assert_allclose(clusters.pair_sums(matrix), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", range(1, 8))
def test_sizes_and_members(n):
    expected = [[i in cluster for i in range(n)] for cluster in members_of(n)]
    for clusters in collections(n):
        assert len(clusters) == 1 << n
        assert clusters.n_leaves == n
        assert clusters.sizes.tolist() == [len(cluster) for cluster in members_of(n)]
        assert clusters.members.tolist() == expected


def test_the_two_collections_agree_on_hidden_scales():
    """The diagonal is added on its own: no cancellation against much larger entries."""
    matrix = np.array([[1e-20, 1.0], [1.0, 1e-20]])
    for clusters in collections(2):
        assert clusters.pair_sums(matrix)[1] == 1e-20


def test_inputs_are_left_alone():
    matrix, values = matrix_of(4, 0), np.arange(4.0)
    copies = matrix.copy(), values.copy()
    for clusters in collections(4):
        clusters.pair_sums(matrix)
        clusters.leaf_sums(values)
    np.testing.assert_array_equal(matrix, copies[0])
    np.testing.assert_array_equal(values, copies[1])


def test_split_members():
    tree = Tree.from_nested(((0, 2), (1, 3)))
    found = {
        tuple(frozenset(np.flatnonzero(row).tolist()) for row in rows)
        for rows in zip(*split_members(tree), strict=True)
    }
    one, other, root = frozenset({0, 2}), frozenset({1, 3}), frozenset(range(4))
    assert found == {
        (frozenset({0}), frozenset({2}), one),
        (frozenset({1}), frozenset({3}), other),
        (one, other, root),
    }


def test_split_members_of_one_leaf():
    assert [part.shape for part in split_members(Tree.from_nested(0))] == [(0, 1)] * 3


@pytest.mark.parametrize("n", range(1, 8))
def test_counts(n):
    clusters = [frozenset(cluster) for cluster in members_of(n) if cluster]
    assert n_trees(n) == len(naive.all_trees(n))
    assert n_splits(n) == sum(len(list(naive.splits_of(cluster))) for cluster in clusters)


def test_counts_of_facts():
    assert [n_trees(n) for n in (4, 5, 9)] == [15, 105, 2_027_025]
    assert n_trees(16) == 6_190_283_353_629_375
    assert n_trees(200) == math.prod(range(1, 398, 2))
