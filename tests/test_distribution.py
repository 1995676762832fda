"""The distribution of the log weight, against the oracle and by its laws."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gallery
import hctrellis as hct
import naive
from cases import IMPOSSIBLE, SOME, near, over, size, solved, tolerance
from gallery import PROBLEMS, listing, momenta, points, posterior, quiet, similarities
from hctrellis.posterior.distribution import LogWeightDistribution

TIE = 1e-10  # of log weights, relative to their size


def distinct(trees):
    """The oracle's values, ties merged, in increasing order: (log weight, P(at most that))."""
    ps = naive.probabilities(trees)
    steps, total = [], 0.0
    for weight, p in sorted((weight, ps[tree]) for tree, weight in trees if weight > -math.inf):
        total += p
        if steps and weight - steps[-1][0] <= TIE * max(1.0, abs(weight)):
            steps[-1] = (weight, total)
        else:
            steps.append((weight, total))
    return steps


# ---- all trees --------------------------------------------------------------------------------


@over(SOME)
def test_moments(kind, name):
    found = solved(kind, name).log_weight_distribution()
    mean, variance = naive.log_weight_moments(listing(name))
    wide = max(1.0, size(name))
    allowed = 10 * tolerance(name)
    assert found.is_exact
    assert len(found.values) == naive.n_trees(listing(name))
    assert near(found.mean, mean, allowed * wide)
    assert near(found.variance, variance, allowed * wide**2)
    assert found.standard_deviation == math.sqrt(found.variance)
    assert near(found.maximum, naive.max_log_weight(listing(name)), allowed * wide)
    assert (np.diff(found.values) >= 0).all()
    assert found.probabilities.sum() == pytest.approx(1, abs=allowed)
    assert found.values @ found.probabilities == pytest.approx(mean, abs=allowed * wide)


@over(SOME)
def test_cdf(kind, name):
    post = solved(kind, name)
    found = post.log_weight_distribution()
    steps = distinct(listing(name))
    levels = [weight for weight, _ in steps]
    allowed = 10 * tolerance(name)
    np.testing.assert_allclose(found.cdf(levels), [p for _, p in steps], rtol=0, atol=allowed)
    between = [(a + b) / 2 for a, b in pairwise(levels)]
    np.testing.assert_allclose(found.cdf(between), [p for _, p in steps[:-1]], atol=allowed)
    assert found.cdf(-math.inf) == found.cdf(levels[0] - 1e-3 * max(1, abs(levels[0]))) == 0
    assert found.cdf(math.inf) == found.cdf(found.maximum) == 1


@over(SOME)
def test_quantile(kind, name):
    found = solved(kind, name).log_weight_distribution()
    steps = distinct(listing(name))
    wide = max(1.0, size(name))
    before = 0.0
    for weight, p in steps:
        if p - before > 1e-6:
            middle = found.quantile((p + before) / 2)
            assert near(middle, weight, 2 * TIE * max(wide, abs(weight)))
        before = p
    assert near(found.quantile(0), steps[0][0], TIE * max(wide, abs(steps[0][0])))
    assert near(found.quantile(1), steps[-1][0], TIE * wide)


def test_quantiles_at_the_steps():
    """A square: trees of few different weights, each of many trees."""
    found = posterior("single, square").log_weight_distribution()
    steps = distinct(listing("single, square"))
    assert 1 < len(steps) < len(found.values)
    for weight, p in steps:
        assert found.quantile(min(1.0, p)) == pytest.approx(weight)
        assert found.cdf(weight) == pytest.approx(p)
    np.testing.assert_array_equal(found.quantile([0.0, 1.0]), found.values[[0, -1]])


@pytest.mark.parametrize("name", ["ginkgo, most forbidden", "average, duplicates", "dasgupta"])
def test_rank_of_a_tree(name):
    """cdf at a tree's log weight: the probability of a tree at most as good, itself included."""
    post = posterior(name)
    found = post.log_weight_distribution()
    assert found.cdf(post.map_log_weight) == pytest.approx(1)
    ranked = post.top_trees(40)
    for tree, weight in zip(ranked, ranked.log_weights, strict=True):
        x = post.potential.log_weight(tree)
        better = found.probabilities[found.values > weight + TIE * abs(weight)].sum()
        assert found.cdf(x) == pytest.approx(1 - better, abs=1e-12)


def test_histogram():
    found = posterior("ginkgo, 6 leaves").log_weight_distribution()
    masses, edges = found.histogram(10)
    assert len(masses) == 10
    assert masses.sum() == pytest.approx(1)
    assert (edges[0], edges[-1]) == (found.values[0], found.values[-1])
    np.testing.assert_allclose(np.cumsum(masses)[:-1], found.cdf(edges[1:-1]), atol=1e-12)
    middle = found.quantile(0.3)
    masses, edges = found.histogram([-1e9, middle + 1e-6, 1e9])
    assert masses.tolist() == pytest.approx([found.cdf(middle), 1 - found.cdf(middle)])


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.integers(2, 5), st.floats(0, 1))
def test_quantile_inverts_cdf(seed, n, q):
    found = hct.infer(hct.Dasgupta(similarities(n, seed))).log_weight_distribution()
    x = found.quantile(q)
    assert x in found.values
    assert found.cdf(x) >= q - 1e-11
    lower = found.values[found.values < x - 1e-9 * max(1, abs(x))]
    assert len(lower) == 0 or found.cdf(lower[-1]) < q + 1e-11


# ---- samples ----------------------------------------------------------------------------------

SAMPLED = {
    "dasgupta": lambda n: gallery.dasgupta("", similarities(n, 2)),
    "ginkgo": lambda n: gallery.ginkgo("", momenta(n, 3), 1.5, 5.0),
    "complete": lambda n: gallery.linkage("", "complete", points(n, 4), 1.0),
}


@pytest.mark.parametrize("name", SAMPLED)
@pytest.mark.parametrize("n", [8, 9])
def test_samples_agree_with_all_trees(name, n):
    """Moments within five standard errors, and the upper tail as the best trees have it."""
    post = hct.infer(SAMPLED[name](n).make())
    drawn = post.log_weight_distribution(size=20_000, rng=5)
    assert not drawn.is_exact
    assert len(drawn.values) == 20_000
    assert (drawn.probabilities == 1 / 20_000).all()
    assert drawn.values.mean() == pytest.approx(
        drawn.mean, abs=5 * drawn.standard_deviation / math.sqrt(20_000)
    )
    assert drawn.values.var() == pytest.approx(drawn.variance, rel=0.1)
    assert drawn.values[-1] <= drawn.maximum + 1e-9 == post.map_log_weight + 1e-9
    best = post.top_trees(300)
    for k in (0, 20, 299):
        step = best.log_weights[k] + 1e-9
        above = 1 - best.probabilities[best.log_weights > step].sum()
        assert drawn.cdf(step) == pytest.approx(above, abs=2 / math.sqrt(20_000))


def test_samples_agree_with_a_list():
    """The distance of an empirical distribution function (Kolmogorov and Smirnov)."""
    post = hct.infer(SAMPLED["ginkgo"](7).make())
    listed, drawn = post.log_weight_distribution(), post.log_weight_distribution(4000, rng=1)
    assert (listed.is_exact, drawn.is_exact) == (True, False)
    assert len(listed.values) == post.n_trees > 4000
    distance = np.abs(listed.cdf(drawn.values) - drawn.cdf(drawn.values)).max()
    assert distance < 2 / math.sqrt(4000)
    np.testing.assert_allclose(
        drawn.quantile([0.1, 0.5, 0.9]), listed.quantile([0.1, 0.5, 0.9]), atol=0.3
    )
    assert listed.values[-1] == pytest.approx(listed.maximum)


def test_samples_are_seeded():
    post = posterior("dasgupta")
    one, other = (post.log_weight_distribution(100, rng=3) for _ in range(2))
    np.testing.assert_array_equal(one.values, other.values)


def test_listed_as_soon_as_all_fit():
    post = posterior("dasgupta, 5 leaves")
    assert post.log_weight_distribution(105).is_exact
    assert not post.log_weight_distribution(104).is_exact


# ---- the smallest problems, and mistakes ------------------------------------------------------


@pytest.mark.parametrize("name", ["dasgupta, 1 leaves", "ginkgo, 2 leaves"])
def test_one_tree(name):
    found = posterior(name).log_weight_distribution()
    (weight,) = [weight for _, weight in listing(name)]
    assert found.is_exact
    assert found.values.tolist() == pytest.approx([weight])
    assert found.probabilities.tolist() == pytest.approx([1])
    assert (found.mean, found.maximum) == pytest.approx((weight, weight))
    assert found.variance == pytest.approx(0, abs=1e-12)
    assert found.cdf([weight - 1, weight, weight + 1]).tolist() == [0, 1, 1]
    assert found.quantile([0, 0.5, 1]).tolist() == pytest.approx([weight] * 3)
    assert found.histogram(1)[0].tolist() == pytest.approx([1])


def test_flat():
    post = quiet(hct.infer, PROBLEMS["dasgupta, clique"].make())
    found = post.log_weight_distribution()
    assert found.variance == pytest.approx(0, abs=1e-9)
    assert found.cdf(found.maximum) == 1
    assert found.quantile(0.5) == pytest.approx(found.maximum)


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_everything_is_forbidden(name):
    with pytest.raises(hct.NoTreeError, match="every tree"):
        posterior(name).log_weight_distribution()


@pytest.mark.parametrize("size", [0, -1, 2.5, "many", True, None])
def test_bad_size(size):
    with pytest.raises(ValueError, match="size must be a whole number"):
        posterior("dasgupta, 5 leaves").log_weight_distribution(size)


def test_bad_questions():
    found = posterior("dasgupta, 5 leaves").log_weight_distribution()
    for q in (-0.1, 1.1, math.nan, [0.5, 2]):
        with pytest.raises(ValueError, match="q must be from 0 to 1"):
            found.quantile(q)
    with pytest.raises(ValueError, match="NaN"):
        found.cdf([1.0, math.nan])
    with pytest.raises(ValueError, match="bins"):
        found.histogram(0)


def test_repr():
    listed = LogWeightDistribution(-2.0, 0.25, -1.0, np.zeros(3), np.full(3, 1 / 3), True)
    assert repr(listed) == (
        "LogWeightDistribution(mean -2, standard deviation 0.5, maximum -1; all of 3 trees)"
    )
    drawn = LogWeightDistribution(-2.0, 0.25, -1.0, np.zeros(3), np.full(3, 1 / 3), False)
    assert repr(drawn).endswith("maximum -1; samples: 3 trees)")
