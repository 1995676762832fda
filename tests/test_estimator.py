"""The scikit-learn estimator: its checks, and that it says what `infer` says."""

import math
import subprocess
import sys
import warnings

import numpy as np
import pytest
from scipy.cluster.hierarchy import is_valid_linkage, linkage
from scipy.spatial.distance import pdist, squareform

import hctrellis as hct
from hctrellis.infer import MAX_EXACT_LEAVES
from hctrellis.posterior.partition import best_partition, cut_tree, probable_partition
from hctrellis.trust.beta import choose_beta

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from hctrellis.tables.estimator import POTENTIALS, TrellisClustering

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:no cluster has a probability"),  # of random numbers
]

LINKAGES = ("single", "complete", "average", "centroid", "ward")


def groups(n=9, d=3, seed=0, spread=6.0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) + spread * rng.normal(size=(3, d))[np.arange(n) % 3]


@parametrize_with_checks([TrellisClustering("average", max_exact_leaves=12, max_clusters=200)])
def test_scikit_learn(estimator, check):
    check(estimator)


# ---- what it finds ----------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["single", "complete", "average", "ward"])
def test_is_what_infer_says(method):
    table = groups()
    model = TrellisClustering(method, beta=1.3, n_clusters=3).fit(table)
    post = hct.infer(hct.Linkage(table, method, 1.3))
    assert model.posterior_.log_partition == pytest.approx(post.log_partition)
    assert model.posterior_.map_tree == post.map_tree
    assert (model.beta_, model.beta_choice_) == (1.3, None)
    assert (model.n_leaves_, model.n_features_in_, model.n_clusters_) == (9, 3, 3)
    assert is_valid_linkage(model.linkage_matrix_)
    tree = hct.Tree.from_linkage(model.linkage_matrix_)
    assert post.log_probability(tree) == pytest.approx(post.map_log_probability)
    np.testing.assert_array_equal(model.children_, model.linkage_matrix_[:, :2])
    np.testing.assert_array_equal(model.distances_, model.linkage_matrix_[:, 2])
    flat = [np.flatnonzero(model.labels_ == label) for label in range(3)]
    expected = [post.cluster_probability(cluster.tolist()) for cluster in flat]
    np.testing.assert_allclose(model.cluster_probabilities_, expected)


@pytest.mark.parametrize("method", ["single", "complete", "average"])
@pytest.mark.filterwarnings("ignore:no cluster has a probability above 0.5")
def test_clear_data_give_the_tree_of_scipy(method):
    """With its heights; single linkage too, though many trees tie there."""
    table = groups(seed=3, spread=30.0)
    model = TrellisClustering(method, beta=1.0).fit(table)
    expected = linkage(table, method)
    assert hct.Tree.from_linkage(model.linkage_matrix_) == hct.Tree.from_linkage(expected)
    np.testing.assert_allclose(model.distances_, expected[:, 2])


@pytest.mark.parametrize("potential", POTENTIALS)
def test_groups_are_found(potential):
    table, truth = groups(12, spread=12.0), np.arange(12) % 3
    model = TrellisClustering(potential, n_clusters=3, random_state=0)
    assert adjusted_rand_score(truth, model.fit_predict(table)) == 1.0
    assert model.set_params(cut="best").fit_predict(table).tolist() == model.labels_.tolist()


def test_auto_beta():
    narrow, wide = groups(6, 3), groups(6, 12)
    for table, rule in ((narrow, "heat capacity"), (wide, "bootstrap")):
        model = TrellisClustering("average", random_state=1).fit(table)
        assert model.beta_choice_.rule == rule
        assert model.beta_ == model.beta_choice_.beta
    matrix = squareform(pdist(wide))
    model = TrellisClustering(metric="precomputed").fit(matrix)
    alone = choose_beta(lambda _, beta: hct.Linkage(wide, beta=beta))
    assert (model.beta_choice_.rule, model.beta_) == ("heat capacity", alone.beta)


def test_few_features_need_no_beta():
    model = TrellisClustering(random_state=1, n_clusters=3).fit(groups())
    assert (model.potential_, model.beta_, model.beta_choice_) == ("contrasts", None, None)
    assert (model.second_opinion_, str(model.optimality_)) == (None, "proven optimal")
    np.testing.assert_array_equal(model.labels_, [0, 1, 2] * 3)
    assert is_valid_linkage(model.linkage_matrix_)
    assert TrellisClustering(beta=1.0).fit(groups()).potential_ == "average"
    with pytest.raises(ValueError, match="neither beta nor metric"):
        TrellisClustering("contrasts", beta=1.0).fit(groups())


def test_flat_clusters():
    table = groups(8, spread=2.0)
    post = hct.infer(hct.Linkage(table, beta=2.0))
    of = {
        "neither": ({}, probable_partition(post, 0.5)),
        "threshold": ({"probability_threshold": 0.8}, probable_partition(post, 0.8)),
        "best": ({"n_clusters": 3, "cut": "best"}, best_partition(post, 3)),
    }
    for changes, part in of.values():
        model = TrellisClustering(beta=2.0, **changes).fit(table)
        assert model.labels_.tolist() == part.assignment.tolist()
        assert model.n_clusters_ == len(part)
        np.testing.assert_allclose(model.cluster_probabilities_, part.probabilities)
    for k in range(1, 9):
        model = TrellisClustering(beta=2.0, n_clusters=k).fit(table)
        tree = hct.Tree.from_linkage(model.linkage_matrix_)
        assert model.labels_.tolist() == cut_tree(post, tree, k).assignment.tolist()


def test_precomputed():
    table = groups()
    for method in LINKAGES:
        given = TrellisClustering(method, beta=1.0, metric="precomputed", n_clusters=3)
        found = given.fit(squareform(pdist(table)))
        plain = TrellisClustering(method, beta=1.0, n_clusters=3).fit(table)
        assert found.posterior_.map_tree == plain.posterior_.map_tree
        np.testing.assert_allclose(found.distances_, plain.distances_)
        assert found.labels_.tolist() == plain.labels_.tolist()


def test_precomputed_similarities():
    """What the estimator makes of a table itself."""
    table = groups()
    distances = pdist(table)
    similarity = squareform(np.exp(-distances / np.median(distances))) + np.eye(9)
    affinity = similarity - similarity[~np.eye(9, dtype=bool)].mean()
    for name, matrix, model in (
        ("dasgupta", similarity, hct.Dasgupta(similarity, 2.0)),
        ("correlation", affinity, hct.CorrelationClustering(affinity, 2.0)),
    ):
        given = TrellisClustering(name, beta=2.0, metric="precomputed").fit(matrix)
        plain = TrellisClustering(name, beta=2.0).fit(table)
        log_z = hct.infer(model).log_partition
        assert given.posterior_.log_partition == pytest.approx(log_z)
        assert plain.posterior_.log_partition == pytest.approx(log_z)
        assert given.labels_.tolist() == plain.labels_.tolist()


def test_other_metric():
    table = groups()
    model = TrellisClustering("complete", beta=1.0, metric="cityblock").fit(table)
    post = hct.infer(hct.Linkage(table, "complete", 1.0, "cityblock"))
    assert model.posterior_.log_partition == pytest.approx(post.log_partition)


# ---- many samples -----------------------------------------------------------------------------


def test_many_samples():
    table, truth = groups(60, spread=10.0), np.arange(60) % 3
    model = TrellisClustering("average", n_clusters=3, max_clusters=500, random_state=0)
    with pytest.warns(ConvergenceWarning, match="60 samples are too many to weigh all trees"):
        model.fit(table)
    assert adjusted_rand_score(truth, model.labels_) == 1.0
    assert not model.posterior_.is_exact
    assert model.posterior_.trellis.n_clusters <= 500
    assert is_valid_linkage(model.linkage_matrix_)
    again = clone(model).fit(table)
    assert again.posterior_.log_partition == model.posterior_.log_partition
    np.testing.assert_array_equal(again.linkage_matrix_, model.linkage_matrix_)
    best = clone(model).set_params(cut="best").fit(table)
    assert best.n_clusters_ == 3


@pytest.mark.filterwarnings("ignore:no cluster has a probability above 0.5")
def test_as_many_samples_as_infer():
    """What `infer` weighs exactly by default, the estimator does as well."""
    assert TrellisClustering().max_exact_leaves == MAX_EXACT_LEAVES
    model = TrellisClustering("correlation", beta=3.0).fit(groups(20, spread=2.0))
    assert model.posterior_.is_exact
    assert hct.infer(model.posterior_.potential).log_partition == model.posterior_.log_partition


def test_sparse_is_near_exact():
    """Ten samples both ways: the same best tree, probabilities much the same."""
    table = groups(10, spread=2.0)
    exact = TrellisClustering(beta=3.0).fit(table).posterior_
    sparse = {"max_exact_leaves": 5, "max_clusters": 3000, "random_state": 0}
    grown = TrellisClustering(beta=3.0, **sparse).fit(table).posterior_
    assert grown.map_tree == exact.map_tree
    assert exact.log_partition - 0.01 < grown.log_partition <= exact.log_partition + 1e-9
    for row in exact.cluster_probabilities(0.2):
        assert grown.cluster_probability(row.cluster) == pytest.approx(row.probability, abs=0.01)


def test_sampled_is_near_exact():
    """Ten samples both ways: probabilities within their standard errors."""
    table = groups(10, spread=2.0)
    exact = TrellisClustering(beta=3.0).fit(table).posterior_
    options = {"max_exact_leaves": 5, "random_state": 0, "time_limit": 20.0}
    model = TrellisClustering(beta=3.0, n_clusters=3, **options).fit(table)
    assert model.posterior_.method == "sampled"
    assert model.posterior_.map_tree == exact.map_tree
    for row in model.posterior_.cluster_probabilities(0.2):
        near = exact.cluster_probability(row.cluster)
        assert row.probability == pytest.approx(near, abs=5 * row.error)
    assert np.isfinite(model.cluster_probabilities_).all()


def test_no_number_where_samples_do_not_suffice(monkeypatch):
    monkeypatch.setattr("hctrellis.sampling.run.LEAST_EFFECTIVE", math.inf)
    options = {"beta": 1.0, "max_exact_leaves": 12, "time_limit": 0.3, "random_state": 0}
    model = TrellisClustering("average", n_clusters=5, **options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(groups(25))
    assert any("No probability can be quoted" in str(each.message) for each in caught)
    assert np.isnan(model.cluster_probabilities_).all()
    assert model.n_clusters_ == 5


# ---- errors and imports -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"potential": "median"}, ValueError, "potential must be one of single, complete"),
        ({"beta": "hot"}, ValueError, 'beta must be a number or "auto"'),
        ({"beta": -1.0}, ValueError, "beta must be a finite number"),
        ({"beta": None}, TypeError, "beta must be a number"),
        ({"cut": "top"}, ValueError, 'cut must be "map" or "best"'),
        ({"n_clusters": 0}, ValueError, "n_clusters must be a whole number"),
        ({"n_clusters": 10}, ValueError, "n_clusters must be at most 9, the number of leaves"),
        ({"n_clusters": 2, "probability_threshold": 0.5}, ValueError, "not both"),
        ({"probability_threshold": 0.2}, ValueError, "threshold must be from 0.5 to 1"),
        ({"metric": "precomputed"}, ValueError, "must be a square matrix"),
        ({"potential": "ward", "metric": "cityblock"}, ValueError, "need Euclidean distances"),
        ({"max_exact_leaves": 0}, ValueError, "max_exact_leaves must be a whole number"),
        ({"max_clusters": 1.5}, ValueError, "max_clusters must be a whole number"),
    ],
)
def test_bad_parameters(changes, error, message):
    with pytest.raises(error, match=message):
        TrellisClustering(**({"beta": 1.0} | changes)).fit(groups())


def test_equal_rows():
    with pytest.warns(UserWarning, match="every tree has the same weight"):
        model = TrellisClustering(n_clusters=2).fit(np.ones((5, 2)))
    assert model.beta_ == 1.0
    assert model.n_clusters_ == 2


def test_scikit_learn_is_not_imported_unasked():
    code = "import hctrellis, sys; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
