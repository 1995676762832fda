"""The choice of beta: what each rule maximises, held against the oracle, and odd data."""

import math
import warnings
from functools import partial
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from sklearn.datasets import load_iris

import hctrellis as hct
import naive
from hctrellis.datasets import burtin
from hctrellis.trellis.sparse import SparseTrellis
from hctrellis.trust import beta as rules
from hctrellis.trust.beta import choose_beta, sensitivity
from hctrellis.trust.peaks import SLACK

RATIO = 1.03  # how well beta is found: three digits, and a few steps of golden section


def average(data, beta):
    return hct.Linkage(data, "average", beta)


def bare(matrix):
    return lambda data, beta: hct.Dasgupta(matrix, beta)


def table(n, d, seed=0, spread=1.5, groups=3):
    """A table of noise around a few centres."""
    rng = np.random.default_rng(seed)
    centres = spread * rng.normal(size=(groups, d))
    return rng.normal(size=(n, d)) + centres[np.arange(n) % groups]


def similarities(n, seed=0):
    matrix = np.random.default_rng(seed).random((n, n))
    return matrix + matrix.T


# ---- the heat capacity ------------------------------------------------------------------------


def test_heat_capacity_of_two_levels():
    """One tree of energy 3 and two of energy 3.5: a system that physics books solve."""

    def heat_capacity(x):
        return x**2 * 2 * math.exp(-x) / (1 + 2 * math.exp(-x)) ** 2

    peak = minimize_scalar(lambda x: -heat_capacity(x), bounds=(1, 5), method="bounded").x
    choice = choose_beta(lambda data, beta: hct.Linkage([1.0, 2.0, 2.0], beta=beta))
    assert choice.rule == "heat capacity"
    assert choice.beta == pytest.approx(peak / 0.5, rel=RATIO - 1)
    assert choice.curve.scores.max() == pytest.approx(heat_capacity(peak), rel=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_heat_capacity_against_all_trees(seed):
    matrix = similarities(6, seed)
    choice = choose_beta(bare(matrix))

    def heat_capacity(beta):
        return naive.log_weight_moments(naive.listing(6, naive.dasgupta(matrix, beta)))[1]

    curve = choice.curve
    assert (np.diff(curve.betas) > 0).all()
    for beta, score in list(zip(*curve, strict=True))[::4]:
        assert score == pytest.approx(heat_capacity(beta), rel=2e-3, abs=1e-5)
    peak = heat_capacity(choice.beta)
    assert peak >= max(heat_capacity(choice.beta * x) for x in (0.5, 0.8, 1.25, 2.0))


def iris(seed, per_species=4):
    """Some rows of each species of Fisher's irises, logarithms of centimetres."""
    flowers = load_iris()
    rng = np.random.default_rng(seed)
    rows = [rng.choice(np.flatnonzero(flowers.target == k), per_species, False) for k in range(3)]
    return np.log10(flowers.data[np.concatenate(rows)])


def several_scales(n, seed):
    """Points of a heavy tail, which lie in groups within groups."""
    return 10 ** np.random.default_rng(seed).normal(size=(n, 2))


MANY_PEAKS = {
    **{f"irises {seed}": partial(hct.Linkage, iris(seed)) for seed in (*range(8), 22)},
    **{f"scales {n}": partial(hct.Linkage, several_scales(n, n), "ward") for n in range(5, 10)},
    **{f"powers {n}": partial(hct.Linkage, 10.0 ** np.arange(n)[:, None]) for n in (4, 6, 8)},
    **{f"similarities {n}": partial(hct.Dasgupta, similarities(n, n)) for n in range(4, 10)},
    **{
        f"affinities {n}": partial(hct.CorrelationClustering, similarities(n, n) - 1)
        for n in range(4, 10)
    },
}


@pytest.mark.parametrize("name", MANY_PEAKS)
def test_highest_peak_of_the_heat_capacity(name):
    """A dense scan finds none that is higher, as a grid of factors two did for irises 4 and 22."""
    make = MANY_PEAKS[name]
    choice = choose_beta(lambda data, beta: make(beta=beta))

    def log_z(beta):
        return hct.infer(make(beta=beta)).log_partition

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # at the least beta all trees are alike
        unit = rules._unit(make(beta=1.0))
        grid = unit * 2.0 ** np.arange(-4, 10, 0.25)
        below, here, above = (np.array([log_z(x * beta) for beta in grid]) for x in (0.98, 1, 1.02))
    scan = (below - 2 * here + above) / 0.02**2
    assert choice.curve.scores.max() >= 0.998 * scan.max()
    assert choice.peaks[0] == choice.beta
    highest = choice.curve.betas[choice.curve.scores.argmax()]
    assert choice.beta == pytest.approx(highest, rel=0.005)


def test_several_peaks_are_told():
    """Groups that part at one beta, and flowers within them that part at another."""
    choice = choose_beta(average, iris(4))
    assert choice.peaks == pytest.approx((3.97, 22.8), rel=0.02)
    assert (
        f"another peak of nearly the same height, at beta = {choice.peaks[1]:g}" in choice.sentence
    )
    alone = choose_beta(average, iris(22))
    assert alone.peaks == (alone.beta,) and "another peak" not in alone.sentence


def test_narrow_tables_go_by_the_heat_capacity():
    wide, narrow = table(5, 10), table(5, 9)
    assert choose_beta(average, wide, n_resamples=5, rng=0).rule == "bootstrap"
    choice = choose_beta(average, narrow)
    assert (choice.rule, choice.n_resamples, choice.calibration) == ("heat capacity", 0, ())
    assert choice.beta == choose_beta(lambda data, beta: average(narrow, beta)).beta


def test_burtin():
    """The table of the demo: three columns, sixteen leaves."""
    data = burtin()
    choice = choose_beta(average, data.log10_standardised())
    assert choice.rule == "heat capacity"
    assert choice.beta == pytest.approx(1.53, rel=0.02)


# ---- the bootstrap ----------------------------------------------------------------------------


def resampled_clusters(data, n_resamples, seed):
    """How often each cluster is in the MAP tree of a table with columns drawn anew."""
    rng = np.random.default_rng(seed)
    counts = {}
    for _ in range(n_resamples):
        columns = rng.integers(data.shape[1], size=data.shape[1])
        best = hct.infer(average(data[:, columns], 1.0)).map_tree
        for mask in best.clusters():
            counts[mask] = counts.get(mask, 0) + 1
    return counts


def log_score(data, beta, counts, n_resamples):
    """The score by its definition: over all clusters, with one tree that knows nothing added."""
    n = len(data)
    marginals = naive.cluster_marginals(naive.listing(n, naive.linkage(data, "average", beta)))
    alike = naive.cluster_marginals(naive.listing(n, naive.constant(0.0)))
    total = 0.0
    for size in range(2, n):
        for leaves in combinations(range(n), size):
            seen = counts.get(sum(1 << leaf for leaf in leaves), 0)
            f = (seen + alike[frozenset(leaves)]) / (n_resamples + 1)
            p = marginals[frozenset(leaves)]
            total += f * math.log(p) + (1 - f) * math.log(1 - p)
    return total


def test_bootstrap_score_by_definition():
    data = table(5, 12, seed=3)
    choice = choose_beta(average, data, n_resamples=20, rng=7)
    counts = resampled_clusters(data, 20, seed=7)
    for beta, score in list(zip(*choice.curve, strict=True))[:12:3]:
        assert score == pytest.approx(log_score(data, beta, counts, 20), rel=1e-6)
    best = log_score(data, choice.beta, counts, 20)
    assert best >= max(log_score(data, choice.beta * x, counts, 20) for x in (0.7, 0.9, 1.1, 1.4))


def test_calibration_curve():
    """The bins hold the clusters they should, and at the chosen beta they agree."""
    data = table(8, 40, seed=1, spread=0.7)
    choice = choose_beta(average, data, rng=2)
    assert choice.rule == "bootstrap" and choice.n_resamples == 100
    post = hct.infer(average(data, choice.beta))
    counts = resampled_clusters(data, 100, seed=2)
    rows = post.cluster_probabilities(0.01)
    assert sum(row.n_clusters for row in choice.calibration) == len(rows)
    for low, high, size, probability, frequency in choice.calibration:
        inside = [k for k, p in enumerate(rows.probabilities) if low <= p < high]
        assert size == len(inside)
        assert probability == pytest.approx(rows.probabilities[inside].mean())
        mean = np.mean([counts.get(rows.masks[k], 0) / 100 for k in inside])
        assert frequency == pytest.approx(mean)
        assert abs(probability - frequency) < 0.2


def test_clear_data_give_a_finite_beta():
    """All resamples agree; the probabilities say so without being certain."""
    data = table(6, 30, spread=30, groups=3) + np.arange(30)
    choice = choose_beta(average, data, n_resamples=50, rng=0)
    post = hct.infer(average(data, choice.beta))
    pairs = [post.cluster_probability([i, i + 3]) for i in range(3)]
    assert 0.9 < min(pairs) <= max(pairs) < 1
    assert math.isfinite(choice.beta)


def test_more_columns_give_a_larger_beta():
    """The same structure seen in more columns is surer, in units of the distances."""
    data = table(7, 160, seed=4, spread=0.6)
    scale = {d: np.sqrt(d) for d in (20, 160)}
    few, many = (choose_beta(average, data[:, :d] / scale[d], rng=1).beta for d in scale)
    assert many > 1.5 * few


def test_resamples_that_cannot_be_used():
    data = table(5, 12)

    def often(values, beta):
        if len(np.unique(values[0])) < 8:
            raise ValueError("too few different columns")
        return average(values, beta)

    choice = choose_beta(often, data, n_resamples=60, rng=0)
    assert choice.rule == "bootstrap"
    assert 0 < choice.n_resamples < 60

    def never(values, beta):
        if len(np.unique(values[0])) < 12:
            raise ValueError("columns repeat")
        return average(values, beta)

    choice = choose_beta(never, data, n_resamples=5, rng=0)
    assert (choice.rule, choice.n_resamples) == ("heat capacity", 0)


# ---- many leaves ------------------------------------------------------------------------------


def test_subsets_tell_much_the_same(monkeypatch):
    data = table(12, 30, seed=2, spread=0.8)
    exact = choose_beta(average, data, n_resamples=50, rng=0)
    monkeypatch.setattr(rules, "EXACT_LEAVES", 9)
    monkeypatch.setattr(rules, "SUBSET_LEAVES", 8)
    monkeypatch.setattr(rules, "_good_tree", lambda potential: hct.infer(potential).map_tree)
    guess = choose_beta(average, data, n_resamples=50, rng=0)
    assert guess.n_resamples == 4 * 50
    assert guess.beta == pytest.approx(exact.beta, rel=0.4)
    assert "4 random subsets of 8 of the 12 leaves" in guess.sentence


def test_unit_is_near_the_peak_of_the_heat_capacity(monkeypatch):
    matrices = [similarities(7, seed) for seed in range(9)]
    peaks = np.array([choose_beta(bare(matrix)).beta for matrix in matrices])
    monkeypatch.setattr(rules, "EXACT_LEAVES", 6)
    monkeypatch.setattr(rules, "_good_tree", lambda potential: hct.infer(potential).map_tree)
    choices = [choose_beta(bare(matrix)) for matrix in matrices]
    assert all(len(choice.curve.betas) == 0 for choice in choices)
    ratios = peaks / [choice.beta for choice in choices]
    assert 0.6 < np.median(ratios) < 1.7
    assert 0.2 < ratios.min() <= ratios.max() < 5


def test_greedy_trees_that_are_worse_than_shuffled_ones():
    """The unit needs a good tree, also where merging the cheapest pair first gives a bad one."""
    matrix = similarities(18)
    model = hct.Dasgupta(matrix)
    assert model.log_weight(hct.greedy(model)) < model.log_weight(hct.infer(model).map_tree)
    choice = choose_beta(bare(matrix))
    assert "unit" in choice.sentence
    part = choose_beta(bare(matrix[:16, :16]))
    assert part.beta / 4 < choice.beta < 4 * part.beta


def test_forty_leaves():
    """As it is: the tree of a local search, subsets of rows."""
    data = table(40, 12, seed=5)
    seen = set()

    def watched(values, beta):
        seen.add(len(values))
        return average(values, beta)

    choice = choose_beta(watched, data, n_resamples=5, rng=0)
    assert seen == {12, 40}
    assert choice.rule == "bootstrap" and choice.n_resamples == 20
    alone = choose_beta(lambda values, beta: average(data, beta))
    assert alone.rule == "heat capacity"
    assert alone.beta / 5 < choice.beta < 5 * alone.beta


# ---- laws -------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=8)
@given(st.integers(0, 1000), st.sampled_from([1e-6, 0.1, 30.0, 1e9]), st.sampled_from([3, 12]))
def test_no_scale(seed, factor, d):
    """Data in other units: the same posterior."""
    data = table(5, d, seed)
    one = choose_beta(average, data, n_resamples=10, rng=1)
    other = choose_beta(average, data * factor, n_resamples=10, rng=1)
    assert other.rule == one.rule
    assert other.beta * factor == pytest.approx(one.beta, rel=0.02)


@settings(deadline=None, max_examples=8)
@given(st.integers(0, 1000), st.permutations(range(6)))
def test_order_of_leaves(seed, order):
    """The grid depends on it, and of two peaks within `SLACK` either may be taken."""
    matrix = similarities(6, seed)
    one = choose_beta(bare(matrix)).curve.scores.max()
    other = choose_beta(bare(matrix[np.ix_(order, order)])).curve.scores.max()
    assert other == pytest.approx(one, rel=1.1 * SLACK)


@pytest.mark.parametrize("d", [3, 12])
def test_the_same_beta_in_any_order(d):
    betas = []
    for seed in range(8):
        data = table(6, d, seed)
        order = np.random.default_rng(seed).permutation(6)
        for rows in data, data[order]:
            betas.append(choose_beta(average, rows, n_resamples=10, rng=1).beta)
    np.testing.assert_allclose(betas[::2], betas[1::2], rtol=2e-3)


def test_seeds():
    data = table(6, 12)
    first, again, other = (choose_beta(average, data, 10, rng=seed) for seed in (1, 1, 2))
    assert first.beta == again.beta and first.calibration == again.calibration
    np.testing.assert_array_equal(first.curve.scores, again.curve.scores)
    assert first.curve.scores.max() != other.curve.scores.max()


# ---- nothing to choose ------------------------------------------------------------------------


@pytest.mark.parametrize("data", [np.zeros((5, 3)), np.ones((6, 12)), [[1.0, 2.0], [3.0, 5.0]]])
def test_all_trees_alike(data):
    choice = choose_beta(average, data, n_resamples=3, rng=0)
    assert choice.beta == 1.0
    assert "nothing to choose" in choice.sentence
    assert len(choice.curve.betas) == len(choice.curve.scores) == 0


def test_three_leaves_and_duplicates():
    choice = choose_beta(average, table(3, 15), n_resamples=20, rng=0)
    assert choice.beta > 0
    data = table(6, 15)
    data[1] = data[0]
    choice = choose_beta(average, data, n_resamples=20, rng=0)
    assert hct.infer(average(data, choice.beta)).cluster_probability([0, 1]) > 0.5


# ---- words and progress -----------------------------------------------------------------------


def test_sentences_say_what_was_done():
    data = table(5, 12)
    boot = choose_beta(average, data, n_resamples=7, rng=0)
    heat = choose_beta(average, data[:, :3])
    for choice in (boot, heat):
        assert f"beta = {choice.beta:g}" in choice.sentence
        assert "larger beta" in choice.sentence
    assert "12 columns" in boot.sentence and "(7 times)" in boot.sentence
    assert "heat capacity" in heat.sentence and "rule of thumb" in heat.sentence


@pytest.mark.parametrize("d", [3, 12])
def test_progress(d):
    calls = []
    choose_beta(average, table(5, d), 10, rng=0, progress=lambda *call: calls.append(call))
    done, totals = zip(*calls, strict=True)
    assert list(done) == sorted(done)
    assert len(set(totals)) == 1
    assert done[-1] == totals[0] and done.count(totals[0]) == 1


def test_bad_input():
    with pytest.raises(ValueError, match="n_resamples must be a whole number"):
        choose_beta(average, table(4, 12), n_resamples=0)
    with pytest.raises(ValueError, match=r"table must be an array of shape \(n, d\)"):
        choose_beta(average, [1.0, 2.0])
    with pytest.raises(ValueError, match="not finite"):
        choose_beta(average, [[1.0, math.nan], [0.0, 1.0]])
    with pytest.raises(TypeError, match="progress must be True, False or a function"):
        choose_beta(average, table(4, 12), progress=3)
    with pytest.raises(ValueError, match="beta must be a finite number and positive"):
        sensitivity(average, table(4, 2), 0.0)


# ---- sensitivity ------------------------------------------------------------------------------


def test_sensitivity():
    data = table(6, 3)
    rows = sensitivity(average, data, 1.5)
    assert [row.beta for row in rows] == [0.75, 1.5, 3.0]
    best = hct.infer(average(data, 1.5)).map_tree
    inner = best.cluster_labels() - {frozenset(best.labels)}
    for row in rows:
        post = hct.infer(average(data, row.beta))
        assert row.map_log_probability == pytest.approx(post.map_log_probability)
        assert row.probabilities.keys() == inner
        for cluster, probability in row.probabilities.items():
            assert probability == pytest.approx(post.cluster_probability(cluster))
    surer = [row.map_log_probability for row in rows]
    assert surer == sorted(surer)


def test_sensitivity_of_given_clusters():
    data = table(6, 3)
    rows = sensitivity(average, data, 1.0, clusters=[["4", "5"], [0, 1, 2]])
    for row in rows:
        assert [*row.probabilities] == [frozenset("45"), frozenset("012")]


def test_sensitivity_on_a_sparse_trellis():
    data = table(5, 3)
    post = hct.infer(average(data, 1.0))
    trellis = SparseTrellis.from_trees(post.sample(20, rng=0), "all")
    rows = sensitivity(average, data, 1.0, trellis=trellis)
    given_trees = hct.infer(average(data, 0.5), trellis)
    assert rows[0].map_log_probability == pytest.approx(given_trees.map_log_probability)
    assert sensitivity(average, [[0.0], [1.0]], 1.0)[1].probabilities == {}


# ---- mistakes ---------------------------------------------------------------------------------


def test_a_table_is_no_function():
    with pytest.raises(TypeError, match=r"make must be a function.*hctrellis\.cluster"):
        choose_beta(np.ones((4, 12)))


def test_labels_for_some_of_the_rows():
    table = np.random.default_rng(0).normal(size=(20, 12))
    labels = [f"s{k}" for k in range(20)]

    def make(data, beta):
        return hct.Linkage(data, beta=beta, labels=labels)

    with pytest.raises(ValueError, match=r"also called with 12 of them.*leave labels out"):
        choose_beta(make, table, 2)


def test_a_large_difference_is_no_error_bar():
    from hctrellis.trust.beta import _bootstrap_sentence

    assert "give or take 0.08" in _bootstrap_sentence(1.0, (5, 12), 1, 100, 0.08)
    far = _bootstrap_sentence(1.0, (5, 12), 1, 100, 0.22)
    assert "give or take" not in far
    assert "disagree; take the probabilities as a ranking" in far
