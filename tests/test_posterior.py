"""The posterior: marginals, conditions and information, against the oracle and by their laws."""

import math
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gallery
import hctrellis as hct
import naive
from cases import (
    CASES,
    IMPOSSIBLE,
    ROUNDING,
    SMALL,
    SOME,
    all_near,
    everywhere,
    leaves,
    marginals,
    mask_of,
    near,
    over,
    size,
    solved,
    subsets,
    tolerance,
)
from gallery import (
    PROBLEMS,
    LevelTrellis,
    affinities,
    as_sets,
    as_tree,
    listing,
    momenta,
    points,
    posterior,
    quiet,
    similarities,
)
from hctrellis.support.progress import silent
from hctrellis.trellis.full import _low_bits, _solve_numpy
from hctrellis.trellis.solution import CompiledSolution
from hctrellis.trellis.terms import assemble

relaxed = settings(deadline=None, max_examples=30)
seeds = st.integers(0, 10_000)

MODELS = {
    "single": lambda n, seed: gallery.linkage("", "single", points(n, seed), 1.5),
    "dasgupta": lambda n, seed: gallery.dasgupta("", similarities(n, seed)),
    "correlation": lambda n, seed: gallery.correlation("", affinities(n, seed) - 1.0),
    "ginkgo": lambda n, seed: gallery.ginkgo("", momenta(n, seed), 1.5, 0.5, lam_root=3.0),
    "numba": lambda n, seed: gallery.function("", "numba, forbidding", n, seed),
    "numpy": lambda n, seed: gallery.function("", "numpy", n, seed),
}
models = st.sampled_from(list(MODELS))


def inferred(problem, **options):
    return quiet(lambda: hct.infer(problem.make(), **options))


# ---- marginals --------------------------------------------------------------------------------


@everywhere
def test_cluster_probability(kind, name):
    post, n = solved(kind, name), PROBLEMS[name].n
    for cluster in subsets(n):
        expected = marginals(name).get(cluster, 0.0) if len(cluster) > 1 else 1.0
        assert near(post.cluster_probability(cluster), expected, tolerance(name)), cluster


def test_clusters_are_named_in_any_way():
    post = hct.infer(hct.Dasgupta(similarities(4), labels="abcd"))
    expected = post.cluster_probability(["b", "d"])
    assert 0 < expected < 1
    for same in ([1, 3], {"d", 1}, 0b1010, np.int64(10), (np.int64(3), "b")):
        assert post.cluster_probability(same) == expected
    assert post.cluster_probability("b") == 1


@over(SOME)
def test_split_probability(kind, name):
    post, n = solved(kind, name), PROBLEMS[name].n
    expected = naive.split_marginals(listing(name))
    for parent in subsets(n):
        for left, right in naive.splits_of(parent) if len(parent) > 1 else ():
            exact = expected[frozenset([left, right])]
            either = (left, right) if len(left) < len(right) else (right, left)
            assert near(post.split_probability(*either), exact, 10 * tolerance(name))


def test_splits_have_no_order():
    post = posterior("ginkgo, 6 leaves")
    for left, right in naive.splits_of(frozenset(range(6))):
        assert post.split_probability(left, right) == post.split_probability(right, left)


@everywhere
def test_subtree_probability(kind, name):
    post, n = solved(kind, name), PROBLEMS[name].n
    for clusters, _ in naive.top_trees(listing(name), 3):
        tree = as_tree(clusters, n)
        for cluster in clusters:
            below = frozenset(c for c in clusters if c <= cluster)
            expected = naive.subtree_probability(listing(name), below)
            found = post.subtree_probability(tree.subtree(cluster))
            assert near(found, expected, 10 * tolerance(name))


@over(SMALL)
def test_subtree_probability_of_forbidden_trees(kind, name):
    """Sub-trees over all sets of leaves, the impossible ones included."""
    post, n = solved(kind, name), PROBLEMS[name].n
    for leaf_set in subsets(n):
        for splits in naive.trees_over(leaf_set)[:4]:
            clusters = naive.clusters_of(splits)
            labels = sorted(map(str, leaf_set))
            names = [[str(i) for i in cluster] for cluster in clusters]
            found = post.subtree_probability(hct.Tree.from_clusters(names, labels=labels))
            expected = naive.subtree_probability(listing(name), clusters)
            assert near(found, expected, 10 * tolerance(name))


def test_subtrees_are_matched_by_label():
    post = hct.infer(hct.Dasgupta(similarities(5), labels="abcde"))
    one = hct.Tree.from_newick("((a,d),b);")
    other = hct.Tree.from_newick("(b,(d,a));")
    expected = post.probability(contains=[["a", "d"], ["a", "d", "b"]])
    assert post.subtree_probability(one) == pytest.approx(expected, rel=CONDITIONED)
    assert post.subtree_probability(other) == post.subtree_probability(one)
    assert post.subtree_probability(post.map_tree) == pytest.approx(
        math.exp(post.map_log_probability)
    )


@over(SOME)
def test_coclustering(kind, name):
    post, n = solved(kind, name), PROBLEMS[name].n
    exact = {pair: _common_sizes(name, *pair) for pair in _pairs(n)}
    for most in range(1, n + 1):
        found = post.coclustering(most)
        assert found.probability.shape == found.expected_size.shape == (n, n)
        for (i, j), sizes in exact.items():
            p = math.fsum(p for s, p in sizes.items() if s <= most)
            mean = math.fsum(s * p for s, p in sizes.items())
            allowed = 100 * tolerance(name)
            assert near(found.probability[i, j], p, allowed)
            assert near(found.probability[j, i], p, allowed)
            assert near(found.expected_size[i, j], mean, allowed)
            assert near(found.expected_size[j, i], mean, allowed)


@cache
def _common_sizes(name, i, j):
    return naive.common_sizes(listing(name), i, j)


def _pairs(n):
    return [(i, j) for j in range(n) for i in range(j + 1)]


def poison_free_memory(n_bytes):
    """Leave NaN in blocks of memory that NumPy is about to hand out again."""
    blocks = [np.full(n_bytes // 8, math.nan) for _ in range(50)]
    del blocks


@pytest.mark.parametrize("name", ["ginkgo, most forbidden", "ginkgo, pair at the threshold"])
def test_coclustering_reads_no_stale_memory(name):
    post = posterior(name)
    post.cluster_probability(1)
    for _ in range(20):
        poison_free_memory(8 << PROBLEMS[name].n)
        found = post.coclustering(3)
        assert np.isfinite(found.probability).all()
        assert np.isfinite(found.expected_size).all()


def test_marginals_are_computed_once(monkeypatch):
    post = hct.infer(hct.Dasgupta(similarities(6)))
    calls = []
    around = CompiledSolution.around

    def counted(self, amounts=None):
        calls.append(amounts)
        return around(self, amounts)

    monkeypatch.setattr(CompiledSolution, "around", counted)
    assert not calls
    for cluster in subsets(6):
        post.cluster_probability(cluster)
    post.cluster_probabilities()
    assert len(calls) == 1


# ---- conditions -------------------------------------------------------------------------------

CONDITIONED = 1e-12

CONDITIONS = {
    "none": ([], []),
    "trivial": ([{0}, {0, 1, 2}], []),
    "a pair": ([{0, 1}], []),
    "disjoint": ([{0, 1}, {2, 3}], []),
    "nested": ([{0, 2}, {0, 2, 3}], []),
    "twice": ([{1, 2}, {1, 2}], []),
    "crossing": ([{0, 1}, {1, 2}], []),
    "lacks": ([], [{0, 1}]),
    "lacks two": ([], [{0, 1}, {1, 2, 3}]),
    "both": ([{0, 1, 2}], [{0, 1}]),
    "contradiction": ([{0, 1}], [{0, 1}]),
    "no way out": ([{0, 1, 2}], [{0, 1}, {0, 2}, {1, 2}]),
    "all of a tree": ([{0, 1}, {2, 3}, {0, 1, 2, 3}], [{0, 1, 4}]),
}


def conditions(n):
    """The conditions that make sense for n leaves, the sets as the oracle writes them."""
    for required, forbidden in CONDITIONS.values():
        within = all(max(c) < n for c in (*required, *forbidden))
        if within and all(len(c) < n for c in forbidden):
            yield tuple(map(frozenset, required)), tuple(map(frozenset, forbidden))


def conditional_listing(name, required, forbidden):
    return naive.given(listing(name), [c for c in required if len(c) > 1], forbidden)


@over(SOME)
def test_probability_of_conditions(kind, name):
    post = solved(kind, name)
    for required, forbidden in conditions(PROBLEMS[name].n):
        trees = conditional_listing(name, required, forbidden)
        expected = math.exp(naive.log_partition(trees) - naive.log_partition(listing(name)))
        found = post.probability(contains=required, lacks=forbidden)
        assert near(found, expected, 10 * tolerance(name)), (required, forbidden)


@over(SOME)
def test_given(kind, name):
    post = solved(kind, name)
    for required, forbidden in conditions(PROBLEMS[name].n):
        restricted = post.given(contains=required, lacks=forbidden)
        trees = conditional_listing(name, required, forbidden)
        assert restricted.n_trees == naive.n_trees(trees), (required, forbidden)
        if restricted.n_trees == 0:
            assert_impossible(restricted)
        else:
            assert_answers(restricted, trees, name)


def assert_impossible(post):
    assert post.log_partition == -math.inf
    with pytest.raises(hct.NoTreeError, match="every tree over these"):
        _ = post.map_tree


def assert_answers(post, trees, name):
    """A posterior is that of a listing: log Z, best tree, marginals and samples."""
    n = post.n_leaves
    scale = max(1.0, abs(naive.max_log_weight(trees)))
    allowed = max(PROBLEMS[name].tolerance, CONDITIONED) * scale
    assert near(post.log_partition, naive.log_partition(trees), allowed)
    assert near(post.map_log_weight, naive.max_log_weight(trees), allowed)
    assert as_sets(post.map_tree) in naive.best_trees(trees, PROBLEMS[name].tolerance)
    expected = naive.cluster_marginals(trees)
    around = max(tolerance(name), CONDITIONED)
    for cluster in combinations(range(n), 2):
        p = expected.get(frozenset(cluster), 0.0)
        assert near(post.cluster_probability(cluster), p, 4 * ROUNDING * scale + around)
    possible = {tree for tree, weight in trees if weight > -math.inf}
    assert {as_sets(tree) for tree in post.sample(20, rng=1)} <= possible


@over(SMALL)
def test_trees_as_conditions(kind, name):
    post, n = solved(kind, name), PROBLEMS[name].n
    (clusters, _), *_ = naive.top_trees(listing(name), 1)
    tree = as_tree(clusters, n)
    whole = post.probability(contains=[tree])
    assert near(whole, math.exp(post.log_probability(tree)), 10 * tolerance(name))
    for cluster in clusters:
        below = tree.subtree(cluster)
        found = post.probability(contains=[below, {0}, range(n)])
        assert near(found, post.subtree_probability(below), 10 * tolerance(name))
    restricted = post.given(contains=[tree])
    assert (restricted.n_trees, restricted.map_tree) == (1, tree)
    assert restricted.cluster_probability(min(clusters, key=len)) == pytest.approx(1, abs=1e-12)


def test_conditions_follow_each_other():
    name = "dasgupta, 6 leaves"
    post = posterior(name)
    both = post.given([{0, 1}]).given([{0, 1, 2}], lacks=[{3, 4}])
    trees = conditional_listing(
        name, [frozenset({0, 1}), frozenset({0, 1, 2})], [frozenset({3, 4})]
    )
    assert both.n_trees == naive.n_trees(trees)
    assert both.log_partition == pytest.approx(naive.log_partition(trees), rel=1e-12)


def test_conditions_keep_labels_and_weights():
    post = hct.infer(hct.Dasgupta(similarities(5), beta=2.0, labels="abcde"))
    restricted = post.given([["a", "e"]])
    assert restricted.labels == tuple("abcde")
    tree = restricted.map_tree
    assert ("a", "e") in tree
    weight = post.potential.log_weight(tree)
    assert restricted.potential.log_weight(tree) == pytest.approx(weight, rel=1e-13)
    probability = post.probability(contains=[["a", "e"]])
    assert restricted.log_partition - post.log_partition == pytest.approx(math.log(probability))


def test_conditions_keep_the_unit_of_energy():
    """Under a condition that every tree meets, the mean energy is what it was."""
    post = hct.infer(hct.Dasgupta(similarities(5), beta=2.0))
    restricted = post.given([range(5)])
    assert restricted.expected_log_weight == pytest.approx(post.expected_log_weight)
    assert restricted.expected_energy == pytest.approx(post.expected_energy)


# ---- information ------------------------------------------------------------------------------


def spread(trees):
    """How far log weights of possible trees lie apart."""
    weights = [weight for _, weight in trees if weight > -math.inf]
    return max(weights) - min(weights)


@everywhere
def test_moments_of_the_log_weight(kind, name):
    post, trees = solved(kind, name), listing(name)
    mean, variance = naive.log_weight_moments(trees)
    wide = max(1.0, spread(trees))
    allowed = tolerance(name) * max(wide, size(name))
    assert near(post.expected_log_weight, mean, allowed)
    assert near(post.log_weight_variance, variance, 10 * tolerance(name) * wide**2)


@everywhere
def test_entropy(kind, name):
    allowed = 100 * tolerance(name)
    assert near(solved(kind, name).entropy, naive.entropy(listing(name)), allowed)


@everywhere
def test_expected_energy(kind, name):
    post = solved(kind, name)
    beta = post.potential.beta
    expected = naive.expected_energy(listing(name), beta)
    allowed = tolerance(name) * max(1.0, spread(listing(name)), size(name)) / beta
    assert near(post.expected_energy, expected, allowed)


def test_expected_energy_at_beta_zero():
    post = hct.infer(hct.Dasgupta(similarities(4), beta=0.0))
    assert post.entropy == pytest.approx(math.log(15))
    with pytest.raises(ValueError, match="not defined by its weight at beta = 0"):
        _ = post.expected_energy


@over(SMALL)
def test_kl_divergence(kind, name):
    post, n, trees = solved(kind, name), PROBLEMS[name].n, listing(name)
    assert post.kl_divergence(post) == 0
    for other in (gallery.always("", 0.0, n), gallery.function("", "numpy", n, 3)):
        exact = naive.kl_divergence(trees, naive.listing(n, other.psi))
        found = post.kl_divergence(inferred(other))
        allowed = 10 * tolerance(name) * max(1.0, size(name))
        assert found >= 0
        assert near(found, exact, allowed)


@pytest.mark.parametrize("model", MODELS)
def test_kl_divergence_between_kernels(model):
    """Compiled against level by level, both ways; and against another posterior."""
    problem, other = MODELS[model](5, 1), MODELS["dasgupta"](5, 2)
    fast, slow = inferred(problem), inferred(problem, trellis=LevelTrellis(5))
    assert fast.kl_divergence(slow) == pytest.approx(0, abs=1e-12)
    assert slow.kl_divergence(fast) == pytest.approx(0, abs=1e-12)
    exact = naive.kl_divergence(*(naive.listing(5, p.psi) for p in (problem, other)))
    assert fast.kl_divergence(inferred(other)) == pytest.approx(exact, rel=1e-11)
    assert slow.kl_divergence(inferred(other)) == pytest.approx(exact, rel=1e-11)


@over([case for case in CASES if case[1] == "ginkgo, most forbidden" or "numpy, 6" in case[1]])
def test_kl_divergence_from_what_is_forbidden(kind, name):
    post = solved(kind, name)
    likely = next(row for row in post.cluster_probabilities(0) if row.probability < 0.9).cluster
    lacking, having = post.given(lacks=[likely]), post.given([likely])
    mass = post.probability(lacks=[likely])
    assert post.kl_divergence(lacking) == math.inf
    assert lacking.kl_divergence(having) == math.inf
    assert lacking.kl_divergence(post) == pytest.approx(-math.log(mass), rel=1e-10)
    assert having.kl_divergence(post) == pytest.approx(-math.log1p(-mass), rel=1e-10)


@pytest.mark.parametrize("model", MODELS)
def test_kl_divergence_from_an_impossible_posterior(model):
    post = inferred(MODELS[model](5, 1))
    assert post.kl_divergence(posterior("numpy, all forbidden")) == math.inf


def test_kl_divergence_needs_the_same_leaves():
    one = hct.infer(hct.Dasgupta(similarities(4), labels="abcd"))
    other = hct.infer(hct.Dasgupta(similarities(4), labels="abdc"))
    with pytest.raises(ValueError, match="over the same leaves in the same order"):
        one.kl_divergence(other)


# ---- laws -------------------------------------------------------------------------------------


def all_marginals(post):
    """The probability of every mask but 0."""
    return np.array([post.cluster_probability(mask) for mask in range(1, 1 << post.n_leaves)])


def internal(n):
    """Which of all_marginals are of clusters of two or more leaves."""
    return np.array([mask.bit_count() > 1 for mask in range(1, 1 << n)], bool)


@relaxed
@given(models, st.integers(1, 9), seeds)
def test_marginals_sum_to_the_number_of_clusters(model, n, seed):
    post = inferred(MODELS[model](n, seed))
    if post.n_trees == 0:
        return
    found = all_marginals(post)
    assert ((found >= 0) & (found <= 1)).all()
    assert (found[~internal(n)] == 1).all()
    assert found[-1] == 1
    assert found[internal(n)].sum() == pytest.approx(n - 1, abs=1e-11)


@relaxed
@given(models, st.integers(2, 6), seeds, st.data())
def test_outside_equals_clamping(model, n, seed, data):
    """The paper's construction: a trellis of its own for each cluster."""
    problem = MODELS[model](n, seed)
    post = inferred(problem)
    if post.n_trees == 0:
        return
    cluster = leaves(data.draw(st.integers(1, (1 << n) - 1)), n)
    expected = naive.clamped_probability(n, problem.psi, cluster)
    assert near(post.cluster_probability(cluster), expected, 1e-11)


@relaxed
@given(models, st.integers(2, 9), seeds, st.data())
def test_outside_equals_conditioning(model, n, seed, data):
    post = inferred(MODELS[model](n, seed))
    if post.n_trees == 0:
        return
    cluster = data.draw(st.integers(1, (1 << n) - 1))
    assert near(post.cluster_probability(cluster), post.probability([cluster]), 1e-11)
    if 1 < cluster.bit_count() < n:
        assert near(1 - post.cluster_probability(cluster), post.probability((), [cluster]), 1e-11)


RELABELLED = {
    "single": lambda data, order: hct.Linkage(data[0][order], "single", 1.5),
    "dasgupta": lambda data, order: hct.Dasgupta(data[1][np.ix_(order, order)]),
    "correlation": lambda data, order: hct.CorrelationClustering(
        data[1][np.ix_(order, order)] - 3.0
    ),
    "ginkgo": lambda data, order: hct.Ginkgo(data[2][order], 1.5, 0.5, 3.0),
}


@relaxed
@given(st.sampled_from(list(RELABELLED)), st.integers(2, 9), seeds)
def test_relabelling_permutes_marginals(model, n, seed):
    data = points(n, seed), affinities(n, seed), momenta(n, seed)
    order = np.random.default_rng(seed).permutation(n)
    one = quiet(hct.infer, RELABELLED[model](data, np.arange(n)))
    other = quiet(hct.infer, RELABELLED[model](data, order))
    if one.n_trees == 0:
        return
    moved = [mask_of(order[i] for i in cluster) for cluster in subsets(n)]
    assert all_near(all_marginals(other), all_marginals(one)[np.array(moved) - 1], 1e-11)
    assert near(one.entropy, other.entropy, 1e-10)
    nearness, permuted = one.coclustering(2).expected_size, other.coclustering(2).expected_size
    assert all_near(permuted, nearness[np.ix_(order, order)], 1e-10)


@relaxed
@given(models, st.integers(2, 8), seeds)
def test_laws_of_information(model, n, seed):
    post = inferred(MODELS[model](n, seed))
    if post.n_trees == 0:
        return
    assert -1e-12 <= post.entropy <= math.log(post.n_trees) + 1e-12
    assert post.expected_log_weight <= post.map_log_weight + 1e-10
    assert post.log_weight_variance >= 0
    flat = quiet(hct.infer, gallery.always("", 0.0, n).make())
    from_flat = math.lgamma(2 * n - 1) - math.lgamma(n) - (n - 1) * math.log(2) - post.entropy
    assert post.kl_divergence(flat) == pytest.approx(from_flat, abs=1e-10)


# ---- kernels ----------------------------------------------------------------------------------


def wrapped(solution):
    return hct.Posterior(solution, hct.FullTrellis(solution.potential.n_leaves))


def by_levels(potential):
    return wrapped(_solve_numpy(potential, silent))


def assert_same_passes(potential, fast):
    slow = by_levels(potential)
    assert all_near(fast._probabilities, slow._probabilities, 1e-12)
    for one, other in zip(fast.coclustering(4), slow.coclustering(4), strict=True):
        assert all_near(one, other, 1e-11)
    assert fast.entropy == pytest.approx(slow.entropy, rel=1e-11)
    assert fast.log_weight_variance == pytest.approx(slow.log_weight_variance, rel=1e-10)


@pytest.mark.parametrize("n", [10, 11, 12])
@pytest.mark.parametrize("model", ["single", "dasgupta", "correlation", "ginkgo", "numba"])
def test_compiled_passes_are_those_by_levels(model, n):
    potential = MODELS[model](n, n).make()
    assert_same_passes(potential, hct.infer(potential))


@pytest.mark.parametrize("n", [10, 11])
def test_compiled_passes_with_forbidden_clusters(n):
    potential = hct.Ginkgo(momenta(n, 3), 1.5, 30.0)
    post = hct.infer(potential)
    assert 0 < post.n_trees < post.trellis.n_trees / 10
    assert_same_passes(potential, post)


OTHERS = {
    "complete": lambda n: hct.Linkage(points(n), "complete"),
}


@pytest.mark.parametrize("model", OTHERS)
def test_downward_kernel(model):
    """Tables by levels, then the compiled downward pass: the upward one is not compiled again."""
    for n in (7, 10):
        potential = OTHERS[model](n)
        up, terms = _solve_numpy(potential, silent), assemble(potential, _low_bits)
        fast = CompiledSolution(potential, up.best, up.scale, up.rest, terms, threads=2)
        assert_same_passes(potential, wrapped(fast))


@pytest.mark.parametrize("model", ["single", "dasgupta", "correlation", "ginkgo", "numba"])
def test_threads_do_not_change_a_bit(model):
    potential = MODELS[model](12, 5).make()
    one, two, three = (hct.infer(potential, threads=threads) for threads in (1, 2, 3))
    for other in (two, three):
        np.testing.assert_array_equal(one._probabilities, other._probabilities)
        np.testing.assert_array_equal(
            one.coclustering(5).probability, other.coclustering(5).probability
        )
        assert one.entropy == other.entropy


LARGE = {
    "single": lambda scale, n: hct.Linkage(points(n, 5), "single", scale),
    "dasgupta": lambda scale, n: hct.Dasgupta(scale * similarities(n, 5)),
    "correlation": lambda scale, n: hct.CorrelationClustering(affinities(n, 5), scale),
    "ginkgo": lambda scale, n: hct.Ginkgo(momenta(n, 5), scale, 1e-3),
    "constant": lambda scale, n: gallery.always("", scale, n).make(),
}


@pytest.mark.parametrize("n", [6, 10])
@pytest.mark.parametrize("scale", [1e3, 1e6])
@pytest.mark.parametrize("model", LARGE)
def test_large_energies(model, scale, n):
    post = quiet(hct.infer, LARGE[model](scale, n))
    found = all_marginals(post)
    assert np.isfinite(found).all()
    assert abs(post.map_log_weight) > scale / 100
    rounding = 100 * ROUNDING * abs(post.map_log_weight)
    assert found[internal(n)].sum() == pytest.approx(n - 1, abs=1e-11 + rounding)
    assert all_near(found, by_levels(post.potential)._probabilities[1:], 1e-12 + rounding)
    assert 0 <= post.entropy <= post.trellis.log_n_trees + rounding
    assert np.isfinite(post.coclustering(3).expected_size).all()
    assert math.isfinite(post.log_weight_variance)


@pytest.mark.parametrize("model", MODELS)
def test_one_and_two_leaves(model):
    for n in (1, 2):
        post = inferred(MODELS[model](n, 1))
        assert all_marginals(post).tolist() == [1.0] * (2**n - 1)
        assert len(post.cluster_probabilities(0)) == 0
        assert (post.entropy, post.log_weight_variance) == pytest.approx((0, 0), abs=1e-14)
        assert all_near(post.coclustering(n).probability, np.ones((n, n)), 1e-14)
        assert all_near(post.coclustering(n).expected_size[0], np.arange(1, n + 1), 1e-14)
        assert post.subtree_probability(post.map_tree) == pytest.approx(1)
        assert post.probability(contains=[post.map_tree, range(n)]) == pytest.approx(1)
        assert post.kl_divergence(post) == 0


def test_one_leaf_with_a_compiled_function():
    post = posterior("function, numba, forbidding, 1 leaves")
    assert post.cluster_probability([0]) == 1


# ---- errors -----------------------------------------------------------------------------------

TREE = hct.Tree.from_newick("((0,1),(2,(3,4)));")

QUESTIONS = {
    "cluster_probability": lambda post: post.cluster_probability([0, 1]),
    "cluster_probabilities": lambda post: post.cluster_probabilities(),
    "split_probability": lambda post: post.split_probability([0], [1]),
    "subtree_probability": lambda post: post.subtree_probability(TREE.subtree([0, 1])),
    "subtree of one leaf": lambda post: post.subtree_probability(TREE.subtree([0])),
    "probability": lambda post: post.probability([[0, 1]]),
    "given": lambda post: post.given([[0, 1]]),
    "coclustering": lambda post: post.coclustering(2),
    "sample": lambda post: post.sample(3),
    "top_trees": lambda post: post.top_trees(3),
    "credible_set": lambda post: post.credible_set(),
    "consensus_tree": lambda post: post.consensus_tree(),
    "expected_clusters_tree": lambda post: post.expected_clusters_tree(),
    "support": lambda post: post.support(TREE),
    "entropy": lambda post: post.entropy,
    "expected_log_weight": lambda post: post.expected_log_weight,
    "log_weight_variance": lambda post: post.log_weight_variance,
    "expected_energy": lambda post: post.expected_energy,
    "kl_divergence": lambda post: post.kl_divergence(post),
    "map_tree": lambda post: post.map_tree,
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
@pytest.mark.parametrize("question", QUESTIONS)
def test_nothing_is_said_of_impossible_posteriors(name, question):
    with pytest.raises(hct.NoTreeError, match=r"every tree over these \d leaves is forbidden"):
        QUESTIONS[question](posterior(name))


MISTAKES = {
    "unknown label": (lambda post: post.cluster_probability(["a", "x"]), "'x' is not a leaf"),
    "unknown text": (lambda post: post.cluster_probability("ab"), "'ab' is not a leaf"),
    "index too large": (lambda post: post.cluster_probability([0, 9]), "9 is not a leaf"),
    "negative index": (lambda post: post.cluster_probability([-1]), "-1 is not a leaf"),
    "no leaves": (lambda post: post.cluster_probability([]), "the cluster is empty"),
    "mask of nothing": (lambda post: post.cluster_probability(0), "0 is not the mask"),
    "mask too large": (lambda post: post.cluster_probability(16), "16 is not the mask of a cl"),
    "overlap": (
        lambda post: post.split_probability("a", ["a", "b"]),
        r"two sides of a split must be disjoint; both have \{'a'\}",
    ),
    "unknown side": (lambda post: post.split_probability("a", "x"), "'x' is not a leaf"),
    "unknown leaf of a tree": (
        lambda post: post.subtree_probability(hct.Tree.from_newick("(a,x);")),
        "'x' is not a leaf",
    ),
    "unknown condition": (lambda post: post.given([["a", "x"]]), "'x' is not a leaf"),
    "unknown tree": (
        lambda post: post.probability([hct.Tree.from_newick("(a,x);")]),
        "'x' is not a leaf",
    ),
    "forbidden leaf": (lambda post: post.given(lacks=["a"]), "are in every tree, so they"),
    "forbidden root": (lambda post: post.probability(lacks=[range(4)]), "are in every tree"),
    "size 0": (lambda post: post.coclustering(0), "size must be a whole number from 1 to 4; got 0"),
    "size 5": (lambda post: post.coclustering(5), "size must be a whole number from 1 to 4; got 5"),
    "size 2.0": (lambda post: post.coclustering(2.0), r"whole number from 1 to 4; got 2\.0"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_named(mistake):
    post = hct.infer(hct.Dasgupta(similarities(4), labels="abcd"))
    ask, message = MISTAKES[mistake]
    with pytest.raises(ValueError, match=message) as error:
        ask(post)
    assert "\n" not in str(error.value)


def test_an_index_that_is_the_label_of_another_leaf():
    """Rows that are counted from 1: whether 2 means the second or the third is not known."""
    post = hct.infer(hct.Linkage(points(4), labels="1234"))
    assert post.cluster_probability(["1", "2"]) == post.cluster_probability(0b11)
    with pytest.raises(ValueError, match=r"2 may be the leaf at index 2 or .* '2', .* index 1"):
        post.cluster_probability([0, 2])
    same = hct.infer(hct.Linkage(points(4)))
    assert same.cluster_probability([0, 2]) == same.cluster_probability(["0", "2"])
