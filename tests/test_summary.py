"""Best trees, credible sets, consensus and expected clusters, against the oracle."""

import math
from collections import Counter
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gallery
import hctrellis as hct
import naive
from cases import (
    ROUNDING,
    SOME,
    all_near,
    everywhere,
    in_sets,
    leaves,
    mask_of,
    near,
    over,
    size,
    solved,
    tolerance,
)
from gallery import (
    PROBLEMS,
    as_sets,
    as_tree,
    equal_distances,
    listing,
    momenta,
    posterior,
    quiet,
    similarities,
)
from hctrellis.posterior.summary import ConsensusTree, best_first
from hctrellis.trees.newick import parse_newick_support

relaxed = settings(deadline=None, max_examples=25)
seeds = st.integers(0, 10_000)


# ---- best trees -------------------------------------------------------------------------------


def assert_ranked(found, trees, name):
    """The trees are the best of a listing, in order, each once, with their weights."""
    best = naive.top_trees(trees, len(found))
    allowed = max(PROBLEMS[name].tolerance, 4 * ROUNDING) * max(1.0, size(name))
    np.testing.assert_allclose(
        found.log_weights, [weight for _, weight in best], rtol=4 * ROUNDING, atol=allowed
    )
    assert (np.diff(found.log_weights) <= 0).all()
    listed = in_sets(found)
    assert len(set(listed)) == len(listed)
    weights, exact = dict(trees), naive.probabilities(trees)
    np.testing.assert_allclose(
        found.log_weights, [weights[t] for t in listed], rtol=4 * ROUNDING, atol=allowed
    )
    assert all_near(found.probabilities, [exact[t] for t in listed], 10 * tolerance(name))


@everywhere
def test_top_trees(kind, name):
    post, trees = solved(kind, name), listing(name)
    for k in (1, 2, 10):
        found = post.top_trees(k)
        assert len(found) == min(k, post.n_trees)
        assert_ranked(found, trees, name)
        assert [as_sets(tree) for tree in found] == in_sets(found)


@over(SOME)
def test_all_trees(kind, name):
    """More than there are: every possible tree, and none twice."""
    post, trees = solved(kind, name), listing(name)
    found = post.top_trees(post.n_trees + 100)
    assert set(in_sets(found)) == {t for t, w in trees if w > -math.inf}
    assert_ranked(found, trees, name)
    assert found.probabilities.sum() == pytest.approx(1, abs=100 * tolerance(name))
    assert found.complete


@over(SOME)
def test_best_tree_is_the_map_tree(kind, name):
    post = solved(kind, name)
    (first,) = post.top_trees(1)
    assert near(post.potential.log_weight(first), post.map_log_weight, tolerance(name))
    if PROBLEMS[name].n > 2 and len(naive.best_trees(listing(name))) == 1:
        assert first == post.map_tree


def test_asking_for_fewer_trees_than_there_are_is_not_cut_short():
    found = posterior("dasgupta, 6 leaves").top_trees(10)
    assert found.complete
    assert "cut short" not in repr(found)


def test_ranked_trees_are_a_sequence():
    post = hct.infer(hct.Dasgupta(similarities(5), labels="abcde"))
    found = post.top_trees(np.int64(7))
    assert len(found) == 7
    assert found[0] == post.map_tree
    assert found[0].labels == tuple("abcde")
    assert found[2:4] == list(found)[2:4]
    assert repr(found).startswith("RankedTrees(7 trees, 0.")


@relaxed
@given(st.integers(2, 6), seeds, st.sampled_from([1, 2, 3]))
def test_ties(n, seed, levels):
    """Integer weights of few levels: many trees weigh alike, each is listed once."""
    w = np.random.default_rng(seed).integers(0, levels, (n, n)).astype(float)
    w = np.tril(w, -1) + np.tril(w, -1).T
    problem = gallery.dasgupta("", w)
    found = quiet(hct.infer, problem.make()).top_trees(2000)
    expected = naive.top_trees(naive.listing(n, problem.psi), 2000)
    assert len(set(found)) == len(found) == len(expected)
    assert found.log_weights == pytest.approx([weight for _, weight in expected], abs=1e-11)
    rounded = Counter(np.round(found.log_weights, 6))
    assert rounded == Counter(round(weight, 6) for _, weight in expected)


def test_best_trees_are_found_as_they_are_asked_for():
    """Twelve leaves have 1e10 trees; the first thousand come at once, in order."""
    post = hct.infer(hct.Dasgupta(similarities(12)))
    ranked = list(islice(best_first(post._solution, 10**6), 1000))
    losses = [tree.loss for tree in ranked]
    assert losses == sorted(losses)
    assert losses[0] == 0
    found = post.top_trees(1000)
    assert len(set(found)) == 1000
    weights = [post.potential.log_weight(tree) for tree in found]
    assert found.log_weights == pytest.approx(weights, rel=1e-12)
    assert found.probabilities == pytest.approx(
        [math.exp(post.log_probability(tree)) for tree in found], rel=1e-10
    )


@pytest.mark.parametrize("k", [0, -1, 2.0, "3", None])
def test_bad_k(k):
    with pytest.raises(ValueError, match="k must be a whole number, at least 1; got"):
        posterior("dasgupta, 3 leaves").top_trees(k)


# ---- credible sets ----------------------------------------------------------------------------


@over(SOME)
def test_credible_set(kind, name):
    post, trees = solved(kind, name), listing(name)
    exact = sorted(naive.probabilities(trees).values(), reverse=True)
    around = 100 * tolerance(name)
    for mass in (0.01, 0.5, 0.95, 1.0):
        found = post.credible_set(mass)
        assert found.complete
        assert math.fsum(exact[: len(found)]) >= mass - around
        assert math.fsum(exact[: len(found) - 1]) < mass + around
    assert_ranked(post.credible_set(0.5), trees, name)


def test_smallest_set():
    """Fifteen equal trees: 0.6 of the probability takes nine of them, a bit more takes ten."""
    post = quiet(hct.infer, gallery.always("", 0.0, 4).make())
    assert len(post.credible_set(0.6)) == 9
    assert len(post.credible_set(0.601)) == 10
    assert len(post.credible_set(0.599)) == 9
    assert len(post.credible_set()) == 15
    assert len(post.credible_set(1e-9)) == 1


def test_limit_of_a_credible_set():
    post = posterior("dasgupta, 6 leaves")
    whole = post.credible_set(0.95)
    assert len(whole) > 5
    with pytest.warns(UserWarning, match=r"the 5 most probable trees hold 0\.\d+ of the") as caught:
        found = post.credible_set(0.95, limit=5)
    assert "not 0.95; ask for less or raise limit" in str(caught[0].message)
    assert caught[0].filename == __file__
    assert not found.complete
    assert list(found) == whole[:5]
    assert "cut short" in repr(found)
    assert "cut short" not in repr(whole)
    assert post.credible_set(0.95, limit=len(whole)).complete


@pytest.mark.parametrize("mass", [0.0, -0.5, 1.5, math.nan])
def test_bad_mass(mass):
    with pytest.raises(ValueError, match="mass must be above 0 and at most 1; got"):
        posterior("dasgupta, 3 leaves").credible_set(mass)


@pytest.mark.parametrize("limit", [0, -1, 2.5])
def test_bad_limit(limit):
    with pytest.raises(ValueError, match="limit must be a whole number, at least 1; got"):
        posterior("dasgupta, 3 leaves").credible_set(0.5, limit=limit)


# ---- expected clusters ------------------------------------------------------------------------


@everywhere
def test_expected_clusters_tree(kind, name):
    post = solved(kind, name)
    expected = naive.expected_clusters(listing(name))
    tree = post.expected_clusters_tree()
    assert near(expected[as_sets(tree)], max(expected.values()), 100 * tolerance(name))
    if tree.n_leaves > 1:
        total = math.fsum(post.support(tree).values())
        assert near(total, max(expected.values()), 100 * tolerance(name))


def test_expected_clusters_tree_need_not_be_the_map_tree():
    """The two trees differ for some posterior, so that neither stands in for the other."""
    posts = [quiet(hct.infer, hct.Dasgupta(similarities(6, seed), 0.3)) for seed in range(30)]
    assert any(post.expected_clusters_tree() != post.map_tree for post in posts)


def test_expected_clusters_tree_keeps_labels():
    post = hct.infer(hct.Dasgupta(similarities(5), labels="vwxyz"))
    assert post.expected_clusters_tree().labels == tuple("vwxyz")


# ---- consensus --------------------------------------------------------------------------------


@everywhere
def test_consensus_tree(kind, name):
    post, n = solved(kind, name), PROBLEMS[name].n
    around = tolerance(name)
    for threshold in (0.5, 0.8):
        found = post.consensus_tree(threshold)
        clusters = {leaves(mask, n) for mask in found.clusters()}
        assert naive.majority_clusters(listing(name), threshold + around) <= clusters
        possible = naive.majority_clusters(listing(name), threshold - around)
        assert clusters <= possible
        for mask, p in found.support.items():
            assert p == pytest.approx(post.cluster_probability(mask))
        assert_hierarchy(found)


def assert_hierarchy(consensus):
    """Clusters are nested or disjoint, and the parts of each are a partition of it."""
    for one in consensus.clusters():
        for other in consensus.clusters():
            assert one & other in (0, one, other)
    for mask, parts in consensus.children().items():
        assert sum(parts) == mask
        assert len(parts) >= 2


@pytest.mark.parametrize("n", [3, 4, 5, 6])
@pytest.mark.parametrize("seed", range(40))
def test_clusters_of_one_half_are_no_majority(n, seed):
    """Two mirror images: clusters that cross have one half each, up to rounding."""
    rng = np.random.default_rng(seed)
    w = rng.uniform(0, 1, (n, n))
    w = np.tril(w, -1) + np.tril(w, -1).T
    post = quiet(hct.infer, hct.Dasgupta(w + w[::-1, ::-1], 20.0))
    consensus = post.consensus_tree()
    assert_hierarchy(consensus)
    assert consensus.to_newick().endswith(";")


@everywhere
def test_consensus_newick(kind, name):
    post, n = solved(kind, name), PROBLEMS[name].n
    found = post.consensus_tree()
    text = found.to_newick(support_format=".17g")
    assert text.count("(") == text.count(")") == len(found.clusters())
    if found.is_binary:
        tree = found.to_tree()
        assert tree == hct.Tree.from_newick(text).reorder(tree.labels)
        assert {mask_of(c) for c in as_sets(tree)} == found.clusters()
        expected = {c: p for c, p in post.support(tree).items() if len(c) < n}
        assert parse_newick_support(text) == pytest.approx(expected)
    else:
        with pytest.raises(ValueError, match=rf"where a binary tree has {n - 1}; lower the thresh"):
            found.to_tree()


def test_consensus_by_hand():
    labels = ("a", "b", "it's", "d d", "e")
    found = ConsensusTree(labels, {0b11111: 1.0, 0b00011: 0.75, 0b01111: 2 / 3})
    assert found.to_newick() == "(((a,b)0.75,'it''s','d d')0.6667,e);"
    assert found.children() == {0b11111: [0b01111, 16], 0b00011: [1, 2], 0b01111: [0b11, 4, 8]}
    assert (found.is_binary, found.n_leaves) == (False, 5)
    assert repr(found) == "ConsensusTree(5 leaves, 3 clusters)"
    with pytest.raises(ValueError, match="has 3 clusters where a binary tree has 4"):
        found.to_tree()


def test_consensus_of_equal_trees_is_a_star():
    post = quiet(hct.infer, hct.Linkage(equal_distances(5), "single", metric="precomputed"))
    found = post.consensus_tree()
    assert found.clusters() == {0b11111}
    assert found.to_newick() == "(0,1,2,3,4);"


def test_consensus_of_certain_clusters():
    post = posterior("dasgupta, 5 leaves").given([{0, 1}, {0, 1, 2}])
    assert {0b00011, 0b00111} <= post.consensus_tree(0.999).clusters()


def test_certain_clusters_at_threshold_one():
    post = posterior("ginkgo, 5 leaves").given([{0, 1}, {0, 1, 2}])
    assert post.consensus_tree(1.0).clusters() == {0b11, 0b111, 0b11111}


@pytest.mark.parametrize("n", [1, 2])
def test_consensus_of_few_leaves(n):
    found = posterior(f"dasgupta, {n} leaves").consensus_tree()
    assert found.to_newick() == ["", "0;", "(0,1);"][n]
    assert found.is_binary
    assert found.to_tree().n_leaves == n


@pytest.mark.parametrize("threshold", [0.49, -1.0, 1.01, math.nan])
def test_bad_threshold(threshold):
    with pytest.raises(ValueError, match=r"threshold must be from 0\.5 to 1, got"):
        posterior("dasgupta, 3 leaves").consensus_tree(threshold)


# ---- support ----------------------------------------------------------------------------------


@over(SOME)
def test_support(kind, name):
    post, n = solved(kind, name), PROBLEMS[name].n
    marginals = naive.cluster_marginals(listing(name))
    for clusters, _ in listing(name)[:: max(1, len(listing(name)) // 5)]:
        found = post.support(as_tree(clusters, n))
        expected = {frozenset(map(str, c)): marginals[c] for c in clusters}
        assert found.keys() == expected.keys()
        for cluster, p in found.items():
            assert near(p, expected[cluster], tolerance(name))


def test_support_in_newick():
    post = hct.infer(hct.Dasgupta(similarities(5), labels="abcde"))
    for tree in (post.map_tree, post.expected_clusters_tree(), *post.top_trees(3)):
        text = tree.to_newick(support=post.support(tree), support_format=".17g")
        found = parse_newick_support(text)
        expected = post.support(tree)
        assert found == pytest.approx({c: expected[c] for c in found})
        assert len(found) >= 3
        assert hct.Tree.from_newick(text) == tree


def test_support_of_a_tree_with_other_leaves():
    with pytest.raises(ValueError, match="'x' is not a leaf"):
        posterior("dasgupta, 3 leaves").support(hct.Tree.from_newick("(0,x);"))


def test_jets_have_the_same_summaries_for_any_order_of_particles():
    jet = momenta(6, 2)
    order = np.random.default_rng(0).permutation(6)
    names = np.array(list("abcdef"))
    one = hct.infer(hct.Ginkgo(jet, 1.5, 0.5, labels=names))
    other = hct.infer(hct.Ginkgo(jet[order], 1.5, 0.5, labels=names[order]))
    for one_tree, other_tree in zip(one.top_trees(20), other.top_trees(20), strict=True):
        assert one_tree == other_tree.reorder(one.labels)
    best = one.expected_clusters_tree()
    assert best == other.expected_clusters_tree().reorder(one.labels)
