"""Samples: the exact distribution, the arrays they are kept in, and what is asked of them."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import gallery
import hctrellis as hct
import naive
from cases import SOME, in_sets, over, solved
from gallery import listing, momenta, posterior, quiet, similarities
from hctrellis.posterior.sample import TreeSample

DATA = Path(__file__).parents[2] / "shared" / "data"
MANY = 1_000_000


# ---- the distribution -------------------------------------------------------------------------


def assert_drawn_from(sample, trees):
    """No forbidden tree; and the chi-square of the others is not far out."""
    exact = {tree: p for tree, p in naive.probabilities(trees).items() if p > 0}
    found = dict(zip(*_as_lists(sample), strict=True))
    assert set(found) <= set(exact)
    expected = np.array([len(sample) * p for p in exact.values()])
    counts = np.array([found.get(tree, 0) for tree in exact])
    rare = expected < 10
    if rare.any():
        expected = np.append(expected[~rare], expected[rare].sum())
        counts = np.append(counts[~rare], counts[rare].sum())
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert chi_square <= max(1e-9, stats.chi2.isf(1e-4, max(1, len(expected) - 1)))


def _as_lists(sample):
    trees, counts = sample.counts()
    return in_sets(trees), counts.tolist()


def a_million(psi, potential):
    post = hct.infer(potential)
    assert 10 < post.n_trees < 105
    assert_drawn_from(post.sample(MANY, rng=5), naive.listing(5, psi))


def test_a_million_samples_of_a_jet():
    """Five leaves; clusters of too small a mass are forbidden."""
    problem = gallery.ginkgo("", momenta(5, 2), 1.5, 5.0)
    a_million(problem.psi, problem.make())


def test_a_million_samples_of_a_published_jet():
    path = DATA / "ginkgo_jets.json"
    if not path.exists():
        pytest.skip(f"{path} is absent")
    jets = json.loads(path.read_text())["jets"]
    five = [jet for jet in jets if jet["n"] == 5 and jet["n_trees_nonzero"] < 105]
    assert five, "no jet of five leaves has forbidden trees"
    jet = min(five, key=lambda jet: abs(jet["n_trees_nonzero"] - 60))
    psi = naive.ginkgo(jet["leaves"], jet["lam"], jet["t_cut"])
    a_million(psi, hct.Ginkgo(jet["leaves"], jet["lam"], jet["t_cut"]))


@over(SOME)
def test_samples(kind, name):
    sample = solved(kind, name).sample(20_000, rng=7)
    assert_drawn_from(sample, listing(name))


@pytest.mark.parametrize("name", ["dasgupta, 6 leaves", "function, numpy, 6 leaves"])
def test_sample_marginals_converge(name):
    post = posterior(name)
    errors = []
    for size in (400, 40_000):
        found = {
            row.cluster: row.probability for row in post.sample(size, 3).cluster_frequencies(0)
        }
        exact = post.cluster_probabilities(0)
        gaps = [abs(found.get(row.cluster, 0.0) - row.probability) for row in exact]
        errors.append(max(gaps))
        assert errors[-1] < 4 / math.sqrt(size)
    assert errors[1] < errors[0]


def test_samples_of_many_leaves():
    post = hct.infer(hct.Dasgupta(similarities(12)))
    sample = post.sample(5000, rng=2)
    assert (sample.clusters & (sample.clusters - 1)).min() > 0  # two leaves or more
    for row in sample.cluster_frequencies(0.05):
        deviation = math.sqrt(row.probability / 5000)
        assert abs(row.probability - post.cluster_probability(row.cluster)) < 5 * deviation
    for tree in sample[:20]:
        tree.validate()
    mean = sample.log_weights.mean()
    deviation = math.sqrt(post.log_weight_variance / 5000)
    assert abs(mean - post.expected_log_weight) < 5 * deviation


def test_samples_are_independent():
    """A tree says nothing about the next one: pairs are drawn from the product."""
    post = posterior("yule, 3 leaves")
    clusters = post.sample(90_000, rng=1).clusters[:, 1]
    pairs = clusters[:-1] * 8 + clusters[1:]
    counts = np.unique(pairs, return_counts=True)[1]
    assert len(counts) == 9
    assert stats.chisquare(counts).pvalue > 1e-3


# ---- seeds ------------------------------------------------------------------------------------


def test_seeds():
    post = posterior("dasgupta, 6 leaves")
    one = post.sample(50, rng=3).clusters
    np.testing.assert_array_equal(one, post.sample(50, rng=3).clusters)
    np.testing.assert_array_equal(one, post.sample(50, np.random.default_rng(3)).clusters)
    assert (one != post.sample(50, rng=4).clusters).any()
    assert (post.sample(50).clusters != post.sample(50).clusters).any()


def test_a_generator_moves_on():
    post = posterior("dasgupta, 6 leaves")
    generator = np.random.default_rng(3)
    one, other = post.sample(50, generator).clusters, post.sample(50, generator).clusters
    assert (one != other).any()


def test_threads_do_not_change_samples():
    potential = hct.Dasgupta(similarities(11))
    one, two = (hct.infer(potential, threads=k).sample(500, rng=1) for k in (1, 2))
    np.testing.assert_array_equal(one.clusters, two.clusters)


# ---- what a sample holds ----------------------------------------------------------------------


@over(SOME)
def test_log_weights(kind, name):
    post = solved(kind, name)
    sample = post.sample(30, rng=0)
    weights = [post.potential.log_weight(tree) for tree in sample]
    assert sample.log_weights == pytest.approx(weights, rel=1e-12, abs=1e-12)


def test_sequence():
    post = hct.infer(hct.Dasgupta(similarities(5), labels="abcde"))
    sample = post.sample(40, rng=1)
    assert (len(sample), sample.clusters.shape) == (40, (40, 4))
    trees = list(sample)
    assert trees[0].labels == tuple("abcde")
    assert [sample[0], sample[-1], sample[39]] == [trees[0], trees[39], trees[39]]
    assert sample[3:9:2] == trees[3:9:2]
    assert trees[5] in sample
    with pytest.raises(IndexError):
        sample[40]
    assert repr(sample) == f"TreeSample(40 trees, {len(set(trees))} distinct)"


def test_left_children_belong_to_the_tree():
    sample = posterior("ginkgo, 6 leaves").sample(50, rng=1)
    for tree, parents, lefts in zip(sample, sample.clusters, sample.lefts, strict=True):
        splits = {frozenset(split[:2]) for split in _mask_splits(tree)}
        assert {frozenset([l, p ^ l]) for p, l in zip(parents, lefts, strict=True)} == splits
        assert sorted(parents, reverse=True) == parents.tolist()


def _mask_splits(tree):
    masks = tree.masks
    return [(masks[left], masks[right]) for left, right in tree.children]


def test_counts():
    sample = posterior("single, 5 leaves").sample(3000, rng=1)
    trees, counts = sample.counts()
    expected = {}
    for tree in sample:
        expected[tree] = expected.get(tree, 0) + 1
    assert dict(zip(trees, counts.tolist(), strict=True)) == expected
    assert sample.n_distinct == len(trees) == len(expected)
    assert (np.diff(counts) <= 0).all()
    assert counts.sum() == 3000


def test_cluster_frequencies():
    sample = posterior("single, 5 leaves").sample(1000, rng=1)
    expected = {}
    for tree in sample:
        for names in tree.cluster_labels() - {frozenset("01234")}:
            expected[names] = expected.get(names, 0) + 0.001
    everything = sample.cluster_frequencies(0)
    assert {row.cluster: row.probability for row in everything} == pytest.approx(expected)
    frequent = sample.cluster_frequencies(0.1)
    assert 0 < len(frequent) < len(everything)
    assert {row.cluster for row in frequent} == {c for c, p in expected.items() if p >= 0.1}
    assert len(sample.cluster_frequencies()) == sum(p >= 0.01 for p in expected.values())


def test_no_trees_are_built_unless_asked_for(monkeypatch):
    def refuse(*args, **options):
        raise AssertionError("a Tree was built")

    post = posterior("dasgupta, 6 leaves")
    monkeypatch.setattr(hct.Tree, "from_clusters", refuse)
    monkeypatch.setattr(hct.Tree, "__init__", refuse)
    sample = post.sample(10_000, rng=1)
    trees, counts = sample.counts()
    assert len(trees) == len(counts) == sample.n_distinct > 10
    assert len(sample.log_weights) == 10_000
    assert len(sample.cluster_frequencies(0)) > 10
    assert "10000 trees" in repr(sample)
    with pytest.raises(AssertionError, match="a Tree was built"):
        trees[0]


def test_distinct_trees_that_share_a_key(monkeypatch):
    """Keys of rows are only a shortcut: if two trees share one, rows are compared in full."""
    sample = posterior("dasgupta, 6 leaves").sample(300, rng=1)
    expected = len({tuple(row) for row in sample.clusters.tolist()})
    monkeypatch.setattr(
        "hctrellis.posterior.sample._row_keys", lambda rows: np.zeros(len(rows), np.int64)
    )
    again = TreeSample(sample.potential, sample.vertices, sample.clusters, sample.lefts)
    assert again.n_distinct == expected
    np.testing.assert_array_equal(again.counts()[1], sample.counts()[1])
    np.testing.assert_allclose(again.log_weights, sample.log_weights)


MODELS = {
    "dasgupta": lambda n, seed: gallery.dasgupta("", similarities(n, seed)),
    "ginkgo": lambda n, seed: gallery.ginkgo("", momenta(n, seed), 1.5, 0.5),
    "numpy": lambda n, seed: gallery.function("", "numpy, forbidding", n, seed),
}


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(list(MODELS)), st.integers(1, 8), st.integers(0, 999), st.integers(0, 5))
def test_any_sample_is_of_possible_trees(model, n, seed, size):
    post = quiet(lambda: hct.infer(MODELS[model](n, seed).make()))
    if post.n_trees == 0:
        return
    sample = post.sample(size, seed)
    assert len(sample) == len(list(sample)) == len(sample.log_weights) == size
    for tree, weight in zip(sample, sample.log_weights, strict=True):
        tree.validate()
        assert weight > -math.inf
        assert weight == pytest.approx(post.potential.log_weight(tree), rel=1e-12, abs=1e-12)


# ---- small and bad ----------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 7])
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("model", ["dasgupta", "function, numpy"])
def test_few_leaves_and_few_samples(model, n, size):
    sample = posterior(f"{model}, {n} leaves").sample(size, rng=1)
    trees, counts = sample.counts()
    assert (len(sample), counts.sum()) == (size, size)
    assert sample.n_distinct == len(trees) == len(set(sample))
    assert sample.log_weights.shape == (size,)
    assert all(tree.n_leaves == n for tree in sample)
    frequencies = sample.cluster_frequencies(0)
    assert sum(frequencies.probabilities) == pytest.approx(max(0, n - 2) if size else 0)


@pytest.mark.parametrize("size", [-1, 2.0, 1.5, "3", None])
def test_bad_sizes(size):
    with pytest.raises(ValueError, match="size must be a whole number, not negative; got"):
        posterior("dasgupta, 3 leaves").sample(size)


def test_bad_seeds():
    post = posterior("dasgupta, 3 leaves")
    with pytest.raises((TypeError, ValueError)):
        post.sample(3, rng="seed")
    with pytest.raises((TypeError, ValueError)):
        post.sample(3, rng=-1)
