"""Expectations of sums over splits, and derivatives of log Z, held against the oracle."""

import math

import numpy as np
import pytest

import gallery
import hctrellis as hct
import naive
from gallery import PROBLEMS, affinities, listing, points, posterior, quiet, similarities
from hctrellis.posterior.gradient import sampled_expected, sampled_gradient
from hctrellis.potentials.linkage import PairShares
from hctrellis.trellis import averages

STEP = 1e-3
NAMES = [name for name in gallery.BUILT_IN if name != "caterpillars"]


def slope(function, step=STEP):
    """The derivative of a function at 0 by central differences of sixth order."""
    weights = (45.0, -9.0, 1.0)
    return sum(
        weight * (function(k * step) - function(-k * step))
        for k, weight in enumerate(weights, start=1)
    ) / (60 * step)


def by_parameter(model, name, solve):
    value = model.parameters()[name]
    return slope(lambda d: solve(model.with_parameters(**{name: value + d})).log_partition)


def by_pair(make, matrix, i, j, solve):
    def log_partition(d):
        changed = matrix.copy()
        changed[i, j] += d
        changed[j, i] += d
        return solve(make(changed)).log_partition

    return slope(log_partition)


def levels(model):
    """The posterior of a model without compiled kernels of its own."""
    trellis = gallery.LevelTrellis(model.n_leaves)
    return hct.Posterior(trellis.solve(model), trellis)


def sparse_of(n):
    """A sparse trellis of some of the trees over n leaves."""
    trees = hct.infer(hct.BetaSplitting(n)).sample(40, rng=3)
    return hct.SparseTrellis.from_trees(list(trees), splits="all")


@pytest.fixture
def fused(monkeypatch):
    """Have statistics compiled into the passes over lattices of any size."""
    monkeypatch.setattr(averages, "LISTED_SPLITS", 0)


# ---- parameters -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_by_parameters_are_those_of_log_partition(name):
    model = gallery.built_in(6, 2)[name]
    gradient = levels(model).gradient()
    assert set(model.parameters()) <= set(gradient) and model.parameters()
    for parameter in model.parameters():
        near = by_parameter(model, parameter, levels)
        assert gradient[parameter] == pytest.approx(near, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("name", ["ward", "dasgupta", "ginkgo, root rate", "balanced"])
def test_derivatives_over_a_sparse_trellis(name):
    model = gallery.built_in(7, 2)[name]
    trellis = sparse_of(7)

    def solve(potential):
        return hct.infer(potential, trellis)

    gradient = quiet(solve, model).gradient()
    for parameter in model.parameters():
        near = by_parameter(model, parameter, solve)
        assert gradient[parameter] == pytest.approx(near, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("name", ["single", "ginkgo, root rate"])
def test_compiled_expectations_are_those_of_listed_splits(name, fused):
    """With distances between children, forbidden splits, and leaves apart."""
    model = gallery.built_in(9, 4)[name]
    fast, slow = hct.infer(model, threads=1).gradient(), levels(model).gradient()
    assert fast.keys() == slow.keys()
    for parameter in fast:
        np.testing.assert_allclose(fast[parameter], slow[parameter], rtol=1e-10, atol=1e-10)


def test_compiled_expectations_for_every_two_leaves(fused):
    """The number of threads does not matter; see test_torch for average heights."""
    model = gallery.built_in(9, 4)["ginkgo, root rate"]
    statistic = PairShares(9)
    one, three = (
        averages.SolvedPairs(hct.FullTrellis(9).solve(model, threads)).parting(statistic)
        for threads in (1, 3)
    )
    listed = averages.SolvedPairs(gallery.LevelTrellis(9).solve(model)).parting(statistic)
    np.testing.assert_allclose(one, listed, rtol=1e-10, atol=1e-12)
    assert np.array_equal(one, three)


def test_sums_name_their_parameters():
    n = 6
    prior = hct.BetaSplitting(n, 1.0)
    one = hct.Dasgupta(similarities(n), 0.5) + prior
    two = hct.Linkage(points(n), "ward", 0.7) + prior + hct.Dasgupta(similarities(n), 0.5)
    assert one.parameters() == {"beta": 0.5, "shape": 1.0}
    assert two.parameters() == {"beta_0": 0.7, "shape": 1.0, "beta_2": 0.5}
    for model in (one, two):
        gradient = levels(model).gradient()
        assert "similarity" in gradient
        for name in model.parameters():
            assert gradient[name] == pytest.approx(by_parameter(model, name, levels), rel=1e-8)


def test_a_probability_distribution_has_no_slope():
    """Beta-splitting is normalised whatever its shape."""
    for shape in (-1.9, -1.5, 0.0, 30.0):
        assert levels(hct.BetaSplitting(7, shape)).gradient()["shape"] == pytest.approx(0)


def test_the_derivative_at_infinite_temperature():
    model = hct.Linkage(points(5), "ward", 0.0)
    heights = model.with_parameters(beta=1.0)
    trees = [gallery.as_tree(naive.clusters_of(tree), 5) for tree in naive.all_trees(5)]
    mean = np.mean([heights.log_weight(tree) for tree in trees])
    assert levels(model).gradient()["beta"] == pytest.approx(mean)


# ---- matrices ---------------------------------------------------------------------------------

MATRICES = {
    "similarity": (lambda w: hct.Dasgupta(w, 0.7), similarities),
    "affinity": (lambda w: hct.CorrelationClustering(w, 0.6), affinities),
    "affinity, ordered": (lambda w: hct.CorrelationClustering(w, 0.6, True), affinities),
    "distances": (
        lambda w: hct.Linkage(w, "average", 1.3, metric="precomputed"),
        lambda n: np.abs(affinities(n)),
    ),
}


@pytest.mark.parametrize("sparse", [False, True], ids=["full", "sparse"])
@pytest.mark.parametrize("name", MATRICES)
def test_derivatives_by_matrices(name, sparse):
    make, matrix_of = MATRICES[name]
    n = 6
    matrix, trellis = matrix_of(n), sparse_of(n)

    def solve(model):
        return hct.infer(model, trellis) if sparse else levels(model)

    found = solve(make(matrix)).gradient()[name.partition(",")[0]]
    assert np.array_equal(found, found.T) and not found.diagonal().any()
    for i in range(n):
        for j in range(i):
            near = by_pair(make, matrix, i, j, solve)
            assert found[i, j] == pytest.approx(near, rel=1e-8, abs=1e-8)


def test_symmetric_problems_have_known_gradients():
    """In a clique all pairs are alike, and the cost of every tree is (n^3 - n) / 3."""
    n, beta = 5, 0.3
    gradient = quiet(hct.infer, hct.Dasgupta(1 - np.eye(n), beta)).gradient()
    each = -beta * (n**3 - n) / 3 / math.comb(n, 2)
    np.testing.assert_allclose(gradient["similarity"], each * (1 - np.eye(n)), rtol=1e-12)
    assert gradient["beta"] == pytest.approx(-(n**3 - n) / 3)
    pair = hct.infer(hct.Linkage([[0.0], [2.0]], beta=0.5)).gradient()
    assert pair["beta"] == -2.0
    assert pair["distances"].tolist() == [[0.0, -0.5], [-0.5, 0.0]]


# ---- expectations -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["ginkgo, some forbidden", "dasgupta, 6 leaves", "single, 5 leaves"]
)
def test_expectations_are_means_over_all_trees(name):
    problem, post = PROBLEMS[name], posterior(name)
    n = problem.n
    for statistic in (
        hct.Linkage(points(n), "complete"),
        hct.Dasgupta(similarities(n)) + hct.BetaSplitting(n),
        hct.FunctionPotential(gallery.with_arrays, gallery.value_and_size(np.arange(n)), n),
    ):
        likely = [(t, p) for t, p in naive.probabilities(listing(name)).items() if p > 1e-14]
        mean = math.fsum(p * statistic.log_weight(gallery.as_tree(t, n)) for t, p in likely)
        assert post.expected(statistic) == pytest.approx(mean, rel=1e-10)


def test_expected_log_weight_is_that_of_the_potential():
    post = posterior("ginkgo, some forbidden")
    assert post.expected(post.potential) == pytest.approx(post.expected_log_weight, rel=1e-12)


def test_a_function_of_splits():
    post = hct.infer(hct.BetaSplitting(5, 2.0))
    assert post.expected(lambda left, right, parent: 1.0 + 0 * parent[0]) == pytest.approx(4)
    cherries = post.expected(lambda left, right, parent: 1.0 * (parent[0] == 2))
    table = post.cluster_probabilities(0.0)
    assert cherries == pytest.approx(sum(row.probability for row in table if row.size == 2))
    values = post.expected(lambda left, right, parent: left[0] * right[0], features=np.arange(5.0))
    assert values == pytest.approx(sum(i * j for i in range(5) for j in range(i)))


def test_what_is_forbidden_elsewhere_counts_as_minus_infinity():
    post = hct.infer(hct.BetaSplitting(5))
    assert post.expected(lambda l, r, p: np.where(p[0] == 3, -np.inf, 0.0)) == -math.inf


def test_wrong_statistics_are_refused():
    post = hct.infer(hct.BetaSplitting(5))
    with pytest.raises(ValueError, match="the statistic is one of 4 leaves, the posterior has 5"):
        post.expected(hct.BetaSplitting(4))
    with pytest.raises(TypeError, match="must be a Potential or a function"):
        post.expected(3)
    with pytest.raises(ValueError, match=r"'lam' is not a parameter .* it has shape"):
        post.potential.derivative("lam")
    impossible = hct.infer(PROBLEMS["numpy, all forbidden"].make())
    for ask in (impossible.gradient, lambda: impossible.expected(hct.BetaSplitting(5))):
        with pytest.raises(hct.NoTreeError):
            ask()


def test_one_leaf_and_two():
    one = hct.infer(hct.Dasgupta([[0.0]]))
    assert one.expected(hct.BetaSplitting(1)) == 0 and one.gradient()["beta"] == 0
    assert len(one.split_probabilities()) == 0


# ---- from samples -----------------------------------------------------------------------------


def test_sampled_trees_give_the_same_within_errors():
    n = 7
    model = hct.Linkage(points(n), "average", 1.0) + hct.BetaSplitting(n, 1.0)
    post = levels(model)
    trees = post.sample(2000, rng=5)
    exact, found = post.gradient(), sampled_gradient(model, trees)
    assert found.keys() == exact.keys() and not exact.errors
    for name in exact:
        far = np.abs(found[name] - exact[name])
        assert (far <= 5 * found.errors[name] + 1e-12).all() and np.any(found.errors[name])
    statistic = hct.Linkage(points(n), "single")
    value, error = sampled_expected(trees, statistic)
    one_by_one = sampled_expected(list(trees), statistic)
    assert value == pytest.approx(one_by_one.value) and error == pytest.approx(one_by_one.error)
    assert abs(value - post.expected(statistic)) < 5 * error


# ---- the table of splits ----------------------------------------------------------------------


@pytest.mark.parametrize("sparse", [False, True], ids=["full", "sparse"])
def test_the_table_of_splits(sparse):
    model = hct.Dasgupta(similarities(6), labels="abcdef")
    trees = hct.infer(model).sample(30, rng=1)
    post = hct.infer(model, hct.SparseTrellis.from_trees(list(trees)) if sparse else None)
    table = post.split_probabilities(0.0)
    assert table.probabilities.sum() == pytest.approx(5)  # as many as a tree has
    assert (np.diff(table.probabilities) <= 0).all()
    for row in table[:50]:
        assert row.probability == pytest.approx(post.split_probability(row.left, row.right))
        assert row.size == len(row.left | row.right)
    some = post.split_probabilities(0.05)
    assert list(some) == [row for row in table if row.probability >= 0.05]
    assert ("sparse trellis" in repr(some)) == sparse
    assert " | " in repr(some).splitlines()[1]
    assert list(some.to_pandas().columns) == ["left", "right", "size", "probability"]
