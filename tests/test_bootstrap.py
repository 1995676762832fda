"""AU and BP: the fit against pvclust's numbers, resamples against a plain loop, odd tables."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import linkage
from scipy.optimize import curve_fit
from scipy.spatial.distance import pdist
from scipy.stats import norm

import hctrellis as hct
from hctrellis.trust import bootstrap
from hctrellis.trust.bootstrap import SCALES, _fit, bootstrap_support


def groups(n=9, d=30, seed=0, spread=1.0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) + spread * rng.normal(size=(3, d))[np.arange(n) % 3]


# ---- the fit ----------------------------------------------------------------------------------

NOTHING, ALL = [0.0] * 10, [1.0] * 10
PVCLUST = {  # frequencies; AU, BP and their standard errors of pvclust 2.2-0 for 1000 resamples
    "strong": (
        [0.6, 0.66, 0.72, 0.78, 0.84, 0.88, 0.91, 0.94, 0.96, 0.975],
        (0.999312891405593, 0.88649018629048, 0.000242715723642567, 0.00375477370740495),
    ),
    "weak": (
        [0.3, 0.33, 0.36, 0.39, 0.42, 0.45, 0.48, 0.51, 0.54, 0.57],
        (0.910147877915832, 0.461290817370459, 0.0127646374814312, 0.00519838746819662),
    ),
    "three scales": (
        [*NOTHING[:7], 0.3, 0.4, 0.6],
        (1.0, 0.067529781088095, 7.97532763974688e-24, 0.01325408633261),
    ),
    "some certain": (
        [0, 0.001, 0.01, 0.2, 0.5, 0.8, 0.95, 0.999, 1, 1],
        (1.0, 0.806461844769262, 8.3344467029905e-58, 0.00810084468958218),
    ),
    "two scales": ([*NOTHING[:8], 0.4, 0.6], (0.0, 0.0, 0.0, 0.0)),
    "never": (NOTHING, (0.0, 0.0, 0.0, 0.0)),
    "always": (ALL, (1.0, 1.0, 0.0, 0.0)),
    "all but always": ([0.9995] * 10, (1.0, 1.0, 0.0, 0.0)),
}


@pytest.mark.parametrize("name", PVCLUST)
def test_fit_is_that_of_pvclust(name):
    frequencies, expected = PVCLUST[name]
    found = _fit(np.array(frequencies), np.array(SCALES), np.full(10, 1000))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def fit_by_scipy(frequencies, scales, sizes):
    """The same fit by another road."""
    f, r, m = (np.asarray(x, float) for x in (frequencies, scales, sizes))
    used = (f > 0.001) & (f < 0.999)
    f, r, m = f[used], r[used], m[used]
    z = norm.isf(f)
    error = np.sqrt(f * (1 - f) / m) / norm.pdf(z)
    slopes = np.column_stack([np.sqrt(r), 1 / np.sqrt(r)])
    (v, c), cov = curve_fit(
        lambda r, v, c: slopes @ [v, c],
        r,
        z,
        sigma=error,
        absolute_sigma=True,
        jac=lambda r, v, c: slopes,  # differences fail where v = c = 0 is the best fit
    )
    au_error = norm.pdf(v - c) * math.sqrt(cov[0, 0] + cov[1, 1] - 2 * cov[0, 1])
    bp_error = norm.pdf(v + c) * math.sqrt(cov[0, 0] + cov[1, 1] + 2 * cov[0, 1])
    return norm.sf(v - c), norm.sf(v + c), au_error, bp_error


@settings(deadline=None, max_examples=30)
@example([0.5] * 4, 25)
@given(st.lists(st.floats(0.05, 0.95), min_size=4, max_size=10), st.integers(20, 5000))
def test_fit_against_scipy(frequencies, size):
    scales, sizes = np.array(SCALES[: len(frequencies)]), np.full(len(frequencies), size)
    found = _fit(np.array(frequencies), scales, sizes)
    np.testing.assert_allclose(
        found, fit_by_scipy(frequencies, scales, sizes), rtol=1e-4, atol=1e-7
    )


# ---- resamples --------------------------------------------------------------------------------


def by_hand(table, method, metric, n_resamples, seed):
    """How often each cluster of the table's tree is in the trees of resamples, by a plain loop."""

    def clusters(data):
        n, sets = len(data), [frozenset([i]) for i in range(len(data))]
        for left, right in linkage(pdist(data, metric), method)[:, :2].astype(int):
            sets.append(sets[left] | sets[right])
        return set(sets[n:-1])

    rng, d = np.random.default_rng(seed), table.shape[1]
    wanted = clusters(table)
    found = {cluster: [] for cluster in wanted}
    for scale in SCALES:
        size = math.floor(scale * d + 1e-9)
        trees = []
        for drawn in rng.multinomial(size, [1 / d] * d, n_resamples):
            trees.append(clusters(np.repeat(table, drawn, axis=1)))
        for cluster in wanted:
            found[cluster].append(np.mean([cluster in tree for tree in trees]))
    return found


@pytest.mark.parametrize(
    ("method", "metric"),
    [
        ("average", "euclidean"),
        ("ward", "euclidean"),
        ("single", "correlation"),
        ("complete", "cityblock"),
        ("average", "sqeuclidean"),
        ("average", "chebyshev"),
    ],
)
@pytest.mark.parametrize("chunk", [1 << 21, 100])
def test_against_a_plain_loop(method, metric, chunk, monkeypatch):
    monkeypatch.setattr(bootstrap, "CHUNK", chunk)
    table = groups(8, 20)
    found = bootstrap_support(table, method, metric, n_resamples=40, rng=5)
    expected = by_hand(table, method, metric, 40, seed=5)
    assert {row.cluster for row in found} == {frozenset(map(str, c)) for c in expected}
    for row, frequencies in zip(found, found.frequencies, strict=True):
        leaves = frozenset(int(name) for name in row.cluster)
        np.testing.assert_allclose(frequencies, expected[leaves])
    assert (found.n_resamples == 40).all()
    for row, frequencies in zip(found, found.frequencies, strict=True):
        sure = _fit(frequencies, found.scales, found.n_resamples)
        assert row[2:] == pytest.approx(sure)


@pytest.mark.filterwarnings("ignore:the table has .* with fewer than 10")
def test_sizes_of_resamples_are_whole():
    """As in pvclust: rounded down, each once."""
    found = bootstrap_support(groups(5, 7), n_resamples=2, rng=0)
    np.testing.assert_allclose(found.scales * 7, [3, 4, 5, 6, 7, 8, 9])
    ten = bootstrap_support(groups(5, 10), n_resamples=2, rng=0)
    np.testing.assert_allclose(ten.scales, SCALES)


# ---- what AU and BP are like ------------------------------------------------------------------


def test_strong_clusters_are_supported():
    found = bootstrap_support(groups(9, 60, spread=1.5), n_resamples=300, rng=1)
    values = {row.cluster: row for row in found}
    for start in range(3):
        row = values[frozenset(str(i) for i in range(start, 9, 3))]
        assert row.au > 0.95 and row.bp > 0.9


def test_noise_is_not():
    """Of clusters of pure noise few are called significant, though BP is small for most."""
    au, bp = [], []
    for seed in range(8):
        noise = np.random.default_rng(seed).normal(size=(8, 40))
        found = bootstrap_support(noise, n_resamples=200, rng=seed)
        au += [row.au for row in found]
        bp += [row.bp for row in found]
    assert np.mean(np.array(au) > 0.95) < 0.25
    assert np.mean(bp) < np.mean(au) < 0.9
    assert np.mean(bp) < 0.5


def test_duplicates():
    table = groups(6, 20)
    table[3] = table[0]
    found = bootstrap_support(table, n_resamples=50, rng=0)
    row = next(row for row in found if row.cluster == {"0", "3"})
    assert row[1:] == (2, 1.0, 1.0, 0.0, 0.0)
    same = bootstrap_support(np.ones((4, 12)), n_resamples=5, rng=0)
    assert {row.au for row in same} == {1.0}


def test_bp_agrees_with_the_frequency_at_scale_one():
    found = bootstrap_support(groups(8, 50), n_resamples=2000, rng=3)
    at_one = found.frequencies[:, list(SCALES).index(1.0)]
    for row, frequency in zip(found, at_one, strict=True):
        assert row.bp == pytest.approx(frequency, abs=0.05)


# ---- the table --------------------------------------------------------------------------------


def test_rows_and_support():
    table, names = groups(5, 15), list("abcde")
    found = bootstrap_support(table, labels=names, n_resamples=30, rng=0)
    assert len(found) == 3 and found[0] == next(iter(found)) == found[:1][0]
    assert [row.au for row in found] == sorted((row.au for row in found), reverse=True)
    assert all(row.size == len(row.cluster) for row in found)
    expected = hct.Tree.from_linkage(linkage(table, "average"), labels=names)
    assert found.tree == expected
    for kind in ("au", "bp"):
        support = found.support(kind)
        assert support.keys() == expected.cluster_labels() - {frozenset(names)}
        text = found.tree.to_newick(support=support)
        assert all(f"{value:.4g}" in text for value in support.values())
    with pytest.raises(ValueError, match='kind must be "au" or "bp"'):
        found.support("si")


def test_shown_as_text_and_tables():
    pytest.importorskip("pandas")
    found = bootstrap_support(groups(30, 12), n_resamples=5, rng=0)
    lines = repr(found).splitlines()
    assert lines[0].split() == ["AU", "+-", "BP", "+-", "size", "cluster"]
    assert len(lines) == 22 and lines[-1] == "... 8 more"
    frame = found.to_pandas()
    assert [*frame.columns] == ["cluster", "size", "au", "bp", "au_se", "bp_se"]
    assert frame["bp"].tolist() == [row.bp for row in found]
    named = bootstrap_support(groups(3, 12), labels=["<a>", "b", "c"], n_resamples=5, rng=0)
    assert named._repr_html_().count("<tr>") == 2
    assert "<a>" not in named._repr_html_()


def test_another_tree():
    """The clusters of any tree, in any order of its leaves."""
    table = groups(6, 20)
    tree = hct.Tree.from_newick("((((d,a),b),c),(e,f));")
    labels = list("abcdef")
    found = bootstrap_support(table, tree=tree, labels=labels, n_resamples=50, rng=0)
    assert {row.cluster for row in found} == tree.cluster_labels() - {frozenset(labels)}
    own = bootstrap_support(table, labels=labels, n_resamples=50, rng=0)
    assert own.support("bp")[frozenset("ad")] == found.support("bp")[frozenset("ad")]
    by_tree = bootstrap_support(table, tree=tree, n_resamples=5, rng=0)
    assert by_tree.tree.labels == tree.labels


def test_seeds_and_progress():
    table, calls = groups(5, 15), []
    first, again, other = (
        bootstrap_support(
            table, n_resamples=20, rng=seed, progress=lambda *call: calls.append(call)
        )
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.frequencies, again.frequencies)
    assert not np.array_equal(first.frequencies, other.frequencies)
    assert calls[:10] == [(20 * k, 200) for k in range(1, 11)]


# ---- odd tables -------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:the table has .* with fewer than 10")
def test_one_column():
    with pytest.warns(UserWarning, match="AU needs resamples of at least 3 sizes; 1 columns"):
        found = bootstrap_support([[0.0], [1.0], [5.0], [5.5]], n_resamples=10, rng=0)
    assert all(math.isnan(row.au) and row.bp == 1.0 and row.bp_se == 0.0 for row in found)


def test_few_leaves():
    assert len(bootstrap_support(groups(1, 12), n_resamples=2)) == 0
    assert len(bootstrap_support(groups(2, 12), n_resamples=2)) == 0
    assert len(bootstrap_support(groups(3, 12), n_resamples=2)) == 1


def test_undefined_resamples_are_left_out():
    """A row with one odd value is constant, hence without correlation, in some resamples."""
    table = groups(5, 12)
    table[0] = 0.0
    table[0, 3] = 1.0
    found = bootstrap_support(table, metric="correlation", n_resamples=200, rng=0)
    assert (found.n_resamples < 200).all()
    expected = 200 * (1 - (11 / 12) ** 12)
    assert found.n_resamples[list(SCALES).index(1.0)] == pytest.approx(expected, abs=25)
    table[0] = 4.0
    with pytest.raises(ValueError, match="distance between some rows is not defined"):
        bootstrap_support(table, metric="correlation")


def test_scale_and_shift_do_not_matter():
    table = groups(6, 15)
    one, other = (
        bootstrap_support(data, metric="correlation", n_resamples=30, rng=0)
        for data in (table, 1e6 + 100 * table)
    )
    np.testing.assert_array_equal(one.frequencies, other.frequencies)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"table": [1.0, 2.0]}, ValueError, "table must have a row for each leaf"),
        ({"table": [[1.0, math.nan]]}, ValueError, "not finite"),
        ({"method": "greedy"}, ValueError, "method must be one of single, complete"),
        ({"metric": "precomputed"}, ValueError, "columns of a table; distances have none"),
        ({"metric": "no such"}, ValueError, "[Mm]etric"),
        ({"n_resamples": 0}, ValueError, "n_resamples must be a whole number"),
        ({"scales": []}, ValueError, "scales must be positive numbers"),
        ({"scales": [1.0, -1.0]}, ValueError, "scales must be positive numbers"),
        ({"labels": ["a"]}, ValueError, "1 labels were given for 5 leaves"),
        ({"tree": "((a,b),c);"}, TypeError, "tree must be a Tree"),
        ({"tree": hct.Tree.from_newick("(a,b);")}, ValueError, "2 labels were given for 5"),
        ({"progress": 3}, TypeError, "progress must be True"),
    ],
)
def test_bad_input(changes, error, message):
    given = {"table": groups(5, 12), "n_resamples": 2} | changes
    with pytest.raises(error, match=message):
        bootstrap_support(**given)


def test_few_columns_are_told():
    with pytest.warns(UserWarning, match="4 columns; with fewer than 10, resampling them says"):
        bootstrap_support(np.random.default_rng(0).normal(size=(5, 4)), n_resamples=5, rng=0)
