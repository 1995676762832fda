"""Flat clusters: against all partitions of few leaves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hctrellis as hct
from hctrellis.posterior import partition
from hctrellis.posterior.partition import best_partition, cut_tree, probable_partition
from hctrellis.trellis.sparse import SparseTrellis


def posterior(n, seed=0, beta=1.5, spread=0.0):
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(n, 3)) + spread * rng.normal(size=(3, 3))[np.arange(n) % 3]
    return hct.infer(hct.Linkage(table, "average", beta))


def partitions(items):
    """All partitions of a list."""
    if not items:
        yield []
        return
    first, *rest = items
    for parts in partitions(rest):
        yield [[first], *parts]
        for k in range(len(parts)):
            yield [*parts[:k], [first, *parts[k]], *parts[k + 1 :]]


def worth(post, clusters):
    """The sum over leaves of the probability of the leaf's cluster."""
    return sum(len(cluster) * post.cluster_probability(cluster) for cluster in clusters)


def check(post, part, n_clusters=None):
    """A partition it is, and what it says of itself is so."""
    assert sorted(leaf for cluster in part.clusters() for leaf in cluster) == sorted(post.labels)
    assert n_clusters in (None, len(part))
    firsts = [mask & -mask for mask in part.masks]
    assert firsts == sorted(firsts)
    for number, (cluster, p) in enumerate(zip(part.clusters(), part.probabilities, strict=True)):
        assert p == pytest.approx(post.cluster_probability(cluster))
        members = {post.labels[leaf] for leaf in np.flatnonzero(part.assignment == number)}
        assert members == cluster


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 1000), st.integers(2, 7), st.sampled_from([0.0, 0.8, 3.0]))
def test_best_of_all_partitions(seed, n, beta):
    post = posterior(n, seed, beta)
    every = list(partitions(list(range(n))))
    for k in range(1, n + 1):
        part = best_partition(post, k)
        check(post, part, k)
        assert part.is_exact
        best = max(worth(post, parts) for parts in every if len(parts) == k)
        assert worth(post, part.clusters()) == pytest.approx(best, abs=n * partition.FLOOR)
        part = best_partition(post, k, total="clusters")
        check(post, part, k)
        best = max(chances(post, parts) for parts in every if len(parts) == k)
        assert chances(post, part.clusters()) == pytest.approx(best, abs=n * partition.FLOOR)
    with pytest.raises(ValueError, match='total must be "leaves" or "clusters"'):
        best_partition(post, 1, total="items")


def chances(post, parts):
    return sum(post.cluster_probability(part) for part in parts)


def test_best_need_not_be_in_the_map_tree():
    """Over many seeds the clusters of the MAP tree are at most as good, and sometimes worse."""
    better = 0
    for seed in range(10):
        post = posterior(7, seed)
        best, cut = best_partition(post, 3), cut_tree(post, post.map_tree, 3)
        assert worth(post, best.clusters()) >= worth(post, cut.clusters()) - 1e-9
        better += worth(post, best.clusters()) > worth(post, cut.clusters()) + 1e-3
    assert better > 0


def test_one_tree_only_for_many_leaves(monkeypatch):
    posts = [posterior(7, seed) for seed in range(5)]
    exact = [[worth(p, best_partition(p, k).clusters()) for k in range(1, 8)] for p in posts]
    monkeypatch.setattr(partition, "EXACT_LEAVES", 6)
    for post, best in zip(posts, exact, strict=True):
        tree = post.expected_clusters_tree()
        for k, value in enumerate(best, start=1):
            part = best_partition(post, k)
            check(post, part, k)
            assert not part.is_exact
            assert set(part.masks) <= tree.clusters(leaves=True)
            assert worth(post, part.clusters()) <= value + 1e-9
            nested = max(
                worth(post, parts)
                for parts in partitions(list(range(7)))
                if len(parts) == k and all(parts_in(tree, parts))
            )
            assert worth(post, part.clusters()) == pytest.approx(nested)


def parts_in(tree, parts):
    return (part in tree for part in parts)


def test_groups_are_found():
    post = posterior(12, seed=1, beta=4.0, spread=8.0)
    groups = np.arange(12) % 3
    tree = post.map_tree
    for part in (best_partition(post, 3), cut_tree(post, tree, 3), probable_partition(post, 0.9)):
        same = part.assignment[:, None] == part.assignment[None]
        if len(part) == 3:
            np.testing.assert_array_equal(same, groups[:, None] == groups[None])
    assert len(best_partition(post, 3)) == 3


def test_cut_is_that_of_scipy():
    from scipy.cluster.hierarchy import fcluster

    post = posterior(9, seed=3)
    heights = np.random.default_rng(0).random(8)
    tree = hct.Tree(post.map_tree.children, labels=post.labels, heights=heights)
    matrix = tree.to_linkage()
    matrix[:, 2] += np.arange(8)  # no ties, so that every number of clusters can be had
    compared = []
    for k in range(1, 10):
        part = cut_tree(post, tree, k)
        check(post, part, k)
        expected = fcluster(matrix, k, "maxclust")
        if expected.max() == k:  # early versions of SciPy join some where many are wanted
            same = part.assignment[:, None] == part.assignment[None]
            np.testing.assert_array_equal(same, expected[:, None] == expected[None])
            compared.append(k)
    assert compared[:7] == list(range(1, 8))


def test_above_a_probability():
    post = posterior(8, seed=2, beta=3.0, spread=2.0)
    for threshold in (0.5, 0.7, 0.95):
        part = probable_partition(post, threshold)
        check(post, part)
        inner = [row.cluster for row in post.cluster_probabilities(threshold + 1e-8)]
        largest = [c for c in inner if not any(c < other for other in inner)]
        assert {c for c in part.clusters() if len(c) > 1} == set(largest)
    with pytest.raises(ValueError, match=r"threshold must be from 0\.5 to 1"):
        probable_partition(post, 0.3)


def test_on_a_sparse_trellis():
    post = posterior(7, seed=4)
    trellis = SparseTrellis.from_trees(post.sample(30, rng=0), "all")
    sparse = hct.infer(post.potential, trellis)
    for k in (1, 3, 7):
        part = best_partition(sparse, k)
        check(sparse, part, k)
    check(sparse, probable_partition(sparse))


def test_few_leaves():
    for n in (1, 2):
        post = hct.infer(hct.Linkage(np.arange(n, dtype=float)[:, None]))
        for k in range(1, n + 1):
            check(post, best_partition(post, k), k)
            check(post, cut_tree(post, post.map_tree, k), k)
        check(post, probable_partition(post), n)


def test_shown():
    assert (
        repr(best_partition(posterior(5), 5))
        == "Partition(5 clusters of 1, 1, 1, 1, 1 of 5 leaves)"
    )


@pytest.mark.parametrize("n_clusters", [0, 6, 2.0, "3", True])
def test_bad_numbers(n_clusters):
    post = posterior(5)
    with pytest.raises(ValueError, match=r"n_clusters must be a whole|must be at most"):
        best_partition(post, n_clusters)
    with pytest.raises(ValueError, match=r"n_clusters must be a whole|must be at most"):
        cut_tree(post, post.map_tree, n_clusters)
