"""Contrasts: a normalised density, its evidence and gradient, the fit, and what is said of it."""

import json
import math
import pickle
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import multivariate_t

import hctrellis as hct
import naive
from gallery import points
from hctrellis.build import grow
from hctrellis.cli import main
from hctrellis.clusters import split_members
from hctrellis.potentials.contrasts import StudentContrasts, contrast_matrix
from hctrellis.search import beam, local
from hctrellis.search.model import PlainModel
from hctrellis.trust import hyperparameters as hyper
from hctrellis.trust.logpartition import START, ExactLogPartition, SampledLogPartition, at

relaxed = settings(deadline=None, max_examples=25)
seeds = st.integers(0, 10_000)
U = np.array([-0.5, 0.3, 0.7, 1.9])  # some hyperparameters
GIVEN = {"sigma": 0.7, "tau": 1.3, "gamma": 0.8, "nu": 5.0}


def random_tree(n, seed):
    children, roots = [], list(range(n))
    rng = np.random.default_rng(seed)
    for k in range(n - 1):
        pair = [roots.pop(rng.integers(len(roots))) for _ in range(2)]
        children.append(pair)
        roots.append(n + k)
    return hct.Tree(children)


def groups(n, d, seed, apart=3.0):
    """Three groups of rows."""
    rng = np.random.default_rng(seed)
    return apart * rng.normal(size=(3, d))[np.arange(n) % 3] + rng.normal(size=(n, d))


@cache
def fitted():
    return hct.Contrasts(groups(7, 5, 0))


# ---- the density ------------------------------------------------------------------------------


@relaxed
@given(st.integers(2, 12), seeds)
def test_contrasts_are_orthonormal(n, seed):
    left, right, _ = split_members(random_tree(n, seed))
    matrix = contrast_matrix(left, right)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(n - 1), atol=1e-12)
    np.testing.assert_allclose(matrix.sum(axis=1), 0, atol=1e-12)


@relaxed
@given(st.integers(2, 9), st.integers(1, 4), seeds)
def test_weight_is_density_times_yule_probability(n, d, seed):
    table, tree = 7 + 3 * points(n, seed, d), random_tree(n, seed)
    model = StudentContrasts(table, **GIVEN)
    left, right, _ = split_members(tree)
    a, b = left.sum(axis=1), right.sum(axis=1)
    v = GIVEN["sigma"] ** 2 + GIVEN["tau"] ** 2 * (a * b / (a + b)) ** GIVEN["gamma"]
    rows = contrast_matrix(left, right) @ table
    density = sum(
        multivariate_t(np.zeros(d), variance * np.eye(d), df=GIVEN["nu"]).logpdf(row)
        for row, variance in zip(rows, v, strict=True)
    )
    wanted = density + hct.BetaSplitting(n).log_weight(tree)
    assert model.log_weight(tree) == pytest.approx(wanted, abs=1e-9)


def test_uniform_prior():
    table, tree = points(6), random_tree(6, 1)
    by_yule, by_all = (StudentContrasts(table, **GIVEN, prior=p) for p in ("yule", "uniform"))
    wanted = -math.log(945) - hct.BetaSplitting(6).log_weight(tree)
    assert by_all.log_weight(tree) - by_yule.log_weight(tree) == pytest.approx(wanted)


def test_evidence_integrates_to_one():
    """Three rows of one column: Z as a density of the two coordinates of the centred rows."""
    given = (0.5, 1.0, 1.5, 6.0)
    edges = 40 * np.linspace(-1, 1, 121) ** 3
    places, widths = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    basis = contrast_matrix(*split_members(random_tree(3, 0))[:2])

    def evidence(x, y):
        rows = (np.array([x, y]) @ basis)[:, None].tolist()
        return math.exp(naive.log_partition(naive.listing(3, naive.contrasts(rows, *given, 1))))

    total = sum(
        evidence(x, y) * dx * dy
        for (x, dx), (y, dy) in product(zip(places, widths, strict=True), repeat=2)
    )
    assert total == pytest.approx(1, abs=0.005)
    for x, y in points(3):
        post = hct.infer(StudentContrasts((np.array([x, y]) @ basis)[:, None], *given))
        assert math.exp(post.log_partition) == pytest.approx(evidence(x, y), rel=1e-9)


@pytest.mark.parametrize("n", [2, 5, 8])
def test_without_structure_it_is_one_gaussian(n):
    """A constant variance makes all trees alike, and Z the density of one Gaussian."""
    table = 100 + 5 * points(n, n, 3)
    model = StudentContrasts(table, 4.0, 0.0, nu=1e9)
    squares = ((table - table.mean(axis=0)) ** 2).sum()
    wanted = -(n - 1) * 3 / 2 * math.log(2 * math.pi * 16) - squares / 32
    assert hct.infer(model).log_partition == pytest.approx(wanted, abs=1e-5)
    post = hct.infer(model)
    prior = hct.infer(hct.BetaSplitting(n))
    assert post.cluster_probability([0, 1]) == pytest.approx(
        prior.cluster_probability([0, 1]), abs=1e-6
    )


@pytest.mark.parametrize("factor", [1e-130, 1e-6, 1e6, 1e130])
def test_units_do_not_matter(factor):
    table = points(6, 3, 4)
    plain = hct.Contrasts(table, columns=3.0)
    scaled = hct.Contrasts(factor * (table + 2), columns=3.0)
    sigma = plain.hyperparameters.sigma
    assert scaled.hyperparameters.sigma / factor == pytest.approx(sigma, rel=1e-3)
    gap = hct.infer(plain).log_partition - hct.infer(scaled).log_partition
    assert gap == pytest.approx(5 * 3 * math.log(factor), rel=1e-6)
    factors = [model.evidence.log_bayes_factor for model in (plain, scaled)]
    assert factors[0] == pytest.approx(factors[1], abs=1e-3)


def test_over_a_sparse_trellis():
    """Alone, and over a sparse trellis; `test_lanes.py` has many side by side."""
    model = StudentContrasts(points(6, 0, 3), 0.5, 1.0, 0.25)
    alone = hct.infer(model)
    trellis = hct.SparseTrellis.from_trees(alone.sample(60, rng=0), splits="all")
    sparse = hct.infer(model, trellis)
    assert sparse.log_partition < alone.log_partition
    top = sparse.top_trees(3)[0]
    assert sparse.potential.log_weight(top) == pytest.approx(model.log_weight(top))


def test_heights_are_made_of_those_of_ward():
    model, tree = StudentContrasts(points(7), **GIVEN), random_tree(7, 2)
    squares = np.zeros(13)
    for k, ward in enumerate(hct.Linkage(points(7), "ward").heights(tree)):
        squares[7 + k] = ward**2 + squares[tree.children[k]].sum()
    np.testing.assert_allclose(model.heights(tree), np.sqrt(squares[7:]))


# ---- gradients and fits -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ExactLogPartition, SampledLogPartition])
def test_gradient(kind):
    model = StudentContrasts(points(6, 1, 4), **GIVEN)
    target = kind(model, np.random.default_rng(0))
    target.columns = 2.7
    objective, _ = target.around(U)
    _, slope = objective(U + 0.1)
    for i, step in enumerate(1e-4 * np.eye(4)):
        difference = (objective(U + 0.1 + step)[0] - objective(U + 0.1 - step)[0]) / 2e-4
        assert slope[i] == pytest.approx(difference, abs=1e-6)


def test_gradient_of_a_posterior():
    """Against differences and the fit's own; `interpreted.py` has the passes for more leaves."""
    model = StudentContrasts(groups(5, 3, 3), **GIVEN, columns=2.2)
    gradient = hct.infer(model).gradient()
    assert set(gradient) == {"sigma", "tau", "gamma", "nu"}
    for name, value in GIVEN.items():
        both = (hct.infer(model.with_parameters(**{name: value + h})) for h in (1e-4, -1e-4))
        above, below = (post.log_partition for post in both)
        assert gradient[name] == pytest.approx((above - below) / 2e-4, rel=1e-6, abs=1e-6)
    target = ExactLogPartition(model, np.random.default_rng(0))
    target.columns = 2.2
    scales = 2 * np.log(np.array([0.7, 1.3]) / model.unit)
    u = np.array([*scales, 0.8, math.log(5.0)])
    _, slope = target.around(u).objective(u)
    by_u = [gradient["sigma"] * 0.35, gradient["tau"] * 0.65, gradient["gamma"], gradient["nu"] * 5]
    np.testing.assert_allclose(slope, by_u, rtol=1e-9, atol=1e-9)


def test_log_partition_near_sampled_trees():
    """Sampled trees tell by how much log Z changes."""
    model = StudentContrasts(groups(7, 4, 3), **GIVEN)
    exact, sampled = (
        kind(model, np.random.default_rng(1)).around(U).objective
        for kind in (ExactLogPartition, SampledLogPartition)
    )
    for step in (np.array([0.3, 0, 0, 0]), np.array([0, -0.3, 0.2, 0.3])):
        change = exact(U + step)[0] - exact(U)[0]
        assert sampled(U + step)[0] == pytest.approx(change, abs=0.1)


def test_exact_objective_is_log_partition():
    model = StudentContrasts(points(6, 1, 4), **GIVEN)
    target = ExactLogPartition(model, np.random.default_rng(0))
    value, _ = target.around(U).objective(U)
    assert value == hct.infer(at(model, U, 4.0)).log_partition


def test_fit_is_a_maximum():
    model = fitted()
    target = ExactLogPartition(model, np.random.default_rng(0))
    target.columns = model.effective_columns
    best = model._fit.u
    low, high = np.array(hyper.BOUNDS).T

    def score(u):
        return target.around(u).objective(u)[0] + float(hyper.log_prior(u))

    assert hct.infer(model).log_partition + hyper.log_prior(best) == pytest.approx(score(best))
    for step in (*(0.2 * np.eye(4)), *(-0.2 * np.eye(4))):
        assert score(best) > score(np.clip(best + step, low, high)) - 1e-9


def test_a_fit_starts_from_two_places():
    """Two tight groups far apart: from the usual start, a climb ends at a lower maximum."""
    rng = np.random.default_rng(0)
    model = hct.Contrasts(np.concatenate([rng.normal(size=4), 50 + rng.normal(size=4)])[:, None])
    found = hct.infer(model).log_partition + float(hyper.log_prior(model._fit.u))
    assert found > -37.2  # and not -37.41


@pytest.mark.parametrize(("n", "d"), [(6, 3), (hyper.EXACT_LEAVES + 1, 1)])
def test_progress_of_a_fit(n, d):
    seen = []
    hct.Contrasts(groups(n, d, 2), progress=lambda *at: seen.append(at))
    done = [part for part, total in seen if total == hyper.PARTS]
    assert done == sorted(done) and len(done) == len(seen) >= 5
    assert (done[0], done[-1]) == (0, hyper.PARTS) and done[-2] < hyper.PARTS


def test_sampled_posterior_of_more_rows(monkeypatch):
    """Three of them far from all others; as many as can be solved exactly, too, to compare with.

    The chains are compiled; in the few searches beside them NumPy weighs the trees, since nothing
    else in the suite compiles these.
    """
    for module in (beam, local):
        monkeypatch.setattr(module, "search_model", PlainModel)
    monkeypatch.setattr(grow, "RESTARTS_PER_LEAF", 1)
    table = points(hyper.EXACT_LEAVES + 1, 5, 3)
    table[:3] += 40.0
    model = hct.Contrasts(table)
    post = hct.sample_posterior(model, 0.05, None, max_moves=20_000, rng=0)
    assert not model.is_exact_fit and not post.is_exact and post.is_reliable
    assert post.cluster_probability([0, 1, 2]) > 0.95
    assert post.cluster_probability([2, 3]) < 0.05
    exact = hct.infer(model)
    assert post.log_partition == pytest.approx(exact.log_partition, abs=0.05)
    for row in exact.cluster_probabilities(0.1):
        assert post.cluster_probability(row.cluster) == pytest.approx(row.probability, abs=0.1)


def test_sampled_fit_is_near_the_exact_one(monkeypatch):
    """Whatever the seed: the last step takes more trees than those before it."""
    table = groups(8, 5, 1)
    exact = hct.Contrasts(table)
    monkeypatch.setattr(hyper, "EXACT_LEAVES", 4)
    for seed in range(3):
        sampled = hct.Contrasts(table, rng=seed)
        np.testing.assert_allclose(sampled._fit.u, exact._fit.u, atol=0.02)
    assert exact.is_exact_fit
    assert not sampled.is_exact_fit
    assert sampled.evidence.structure == pytest.approx(exact.evidence.structure, abs=0.5)
    assert "sampled" in sampled.sentence


def test_given_hyperparameters_are_kept():
    model = hct.Contrasts(groups(6, 3, 2), sigma=0.9, nu=4.0, columns=2.5)
    assert (model.hyperparameters.sigma, model.hyperparameters.nu) == (0.9, 4.0)
    assert model.effective_columns == 2.5
    all_given = hct.Contrasts(groups(6, 3, 2), **GIVEN, columns=2.5)
    assert all_given.hyperparameters == tuple(GIVEN.values())
    assert math.isfinite(all_given.evidence.log_bayes_factor)


def test_mean_gradient_over_data_from_the_model_is_zero():
    """As it is for any normalised density, at the hyperparameters that made the data."""
    rng, slopes = np.random.default_rng(0), []
    sigma, tau, gamma, nu = 1.0, 2.0, 1.2, 5.0
    for seed in range(250):
        left, right, _ = split_members(random_tree(5, seed))
        q = left.sum(axis=1) * right.sum(axis=1) / (left | right).sum(axis=1)
        scale = np.sqrt((sigma**2 + tau**2 * q**gamma) * nu / rng.chisquare(nu, 4))
        table = contrast_matrix(left, right).T @ (scale[:, None] * rng.normal(size=(4, 2)))
        model = StudentContrasts(table, sigma, tau, gamma, nu)
        scales = 2 * np.log(np.array([sigma, tau]) / model.unit)
        u = np.array([*scales, gamma, math.log(nu)])
        slopes.append(ExactLogPartition(model, rng).around(u).objective(u)[1])
    error = np.std(slopes, axis=0) / math.sqrt(len(slopes))
    assert (np.abs(np.mean(slopes, axis=0)) < 3 * error).all()
    assert (error < 0.07).all()


def test_copied_columns_count_once():
    table = groups(9, 4, 5, apart=0.0)
    copies = np.repeat(table, 6, axis=1)
    once, six_times = hct.Contrasts(table), hct.Contrasts(copies)
    assert once.effective_columns > 3
    assert six_times.effective_columns == pytest.approx(once.effective_columns, abs=0.6)
    assert 3.5 < hct.Contrasts(np.repeat(table, 1, axis=1)).effective_columns + 0.5 <= 4.5


def test_rows_in_another_order():
    table = groups(6, 4, 7)
    order = np.random.default_rng(0).permutation(6)
    one, other = (hct.infer(hct.Contrasts(t, columns=3)) for t in (table, table[order]))
    assert one.log_partition == pytest.approx(other.log_partition, abs=1e-4)
    cluster = [0, 3]
    moved = [int(np.flatnonzero(order == leaf)[0]) for leaf in cluster]
    wanted = one.cluster_probability(cluster)
    assert other.cluster_probability(moved) == pytest.approx(wanted, abs=1e-3)


def test_same_seed_same_model():
    table = np.repeat(points(6, 2, 3), 2, axis=1)
    assert hct.Contrasts(table).hyperparameters == hct.Contrasts(table, rng=0).hyperparameters


def test_two_rows():
    model = hct.Contrasts([[0.0, 1.0], [2.0, 3.0]])
    post = hct.infer(model)
    assert post.n_trees == 1
    assert "does not tell" in model.evidence.sentence


def test_duplicated_rows_stay_finite():
    model = hct.Contrasts(np.repeat(points(4, 1, 3), 2, axis=0))
    assert model.hyperparameters.sigma >= 0.0999 * model.unit
    post = hct.infer(model)
    assert min(post.cluster_probability([2 * i, 2 * i + 1]) for i in range(4)) > 0.9


def test_models_can_be_pickled():
    again = pickle.loads(pickle.dumps(fitted()))
    assert again.hyperparameters == fitted().hyperparameters
    assert again.evidence == fitted().evidence


# ---- evidence and words -----------------------------------------------------------------------


def test_evidence_by_importance_sampling():
    model = hct.Contrasts(groups(6, 4, 1, apart=1.0))
    proposal = multivariate_t(model._fit.u, np.diag([0.8, 0.8, 0.4, 0.9]) ** 2, df=4)
    draws = proposal.rvs(700, random_state=0)
    low, high = np.array(hyper.BOUNDS).T
    trellis, logs = hct.FullTrellis(6), []
    for u in draws[((draws >= low) & (draws <= high)).all(axis=1)]:
        log_z = trellis.solve(at(model, u, model.effective_columns), 1).log_partition
        logs.append(log_z + float(hyper.log_prior(u)) - proposal.logpdf(u))
    wanted = logsumexp(logs) - math.log(len(draws))
    assert model.evidence.structure == pytest.approx(wanted, abs=0.3)


def test_evidence_of_one_gaussian():
    """The integral over the variance, by adding up draws from its prior."""
    model = fitted()
    low, high = hyper.BOUNDS[0]
    u = hyper.MEANS[0] + hyper.DEVIATIONS[0] * np.random.default_rng(0).normal(size=400_000)
    variance = model.unit**2 * np.exp(u[(u > low) & (u < high)])
    m = 6 * model.effective_columns
    logs = -m / 2 * (np.log(2 * np.pi * variance) + model.unit**2 / variance)
    wanted = logsumexp(logs) - math.log(len(logs))
    assert model.evidence.one_gaussian == pytest.approx(wanted, abs=0.05)


def test_what_is_said_of_structure():
    strong = hct.Contrasts(groups(9, 8, 1, apart=5.0))
    assert "strong evidence for structure" in strong.evidence.sentence
    assert "more than a million times" in strong.evidence.sentence
    rng = np.random.default_rng(0)
    noise = [hct.Contrasts(rng.normal(size=(9, 20))).evidence for _ in range(6)]
    assert max(evidence.log_bayes_factor for evidence in noise) < 3
    assert any("against any structure" in evidence.sentence for evidence in noise)
    assert "no beta was chosen" in strong.sentence
    copies = hct.Contrasts(np.repeat(groups(9, 3, 1, apart=0.0), 4, axis=1))
    assert f"12 columns count as {copies.effective_columns:.1f}" in copies.sentence


def test_second_opinion():
    table = groups(9, 6, 4, apart=1.2)
    bold = hct.infer(hct.Linkage(table, beta=50.0))
    shy = hct.infer(hct.Contrasts(table))
    opinion = hct.second_opinion(bold, shy, ("average linkage", "contrasts"))
    assert opinion.disputed
    for cluster, one, other in opinion.disputed:
        assert one == bold.cluster_probability(cluster)
        assert other == shy.cluster_probability(cluster)
        assert (one >= 0.5) != (other >= 0.5)
        assert abs(one - other) >= 0.25
    assert all(min(one, other) >= 0.5 for _, one, other in opinion.agreed)
    assert opinion.sentence.startswith("Average linkage and contrasts disagree about")
    same = hct.second_opinion(bold, bold)
    assert not same.disputed
    assert same.sentence.endswith("agree: both find 7 clusters likely.")


def test_second_opinion_refuses_other_leaves():
    one, other = (hct.infer(hct.Linkage(points(3), labels=labels)) for labels in ("abc", "abd"))
    with pytest.raises(ValueError, match="same leaves; one has no 'c'"):
        hct.second_opinion(one, other)


# ---- data frames and mistakes -----------------------------------------------------------------


def test_labels_of_data_frames():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(points(4), index=["ape", "bat", "cat", "dog"])
    assert hct.Contrasts(frame).labels == ("ape", "bat", "cat", "dog")
    assert hct.Contrasts(points(2), labels=["a", "b"]).labels == ("a", "b")


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        ([[1.0, math.nan], [2.0, 3.0]], {}, "fill in or leave out missing values"),
        ([[1.0, 2.0]], {}, "at least two rows"),
        ([1.0, 2.0, 3.0], {}, "at least two rows"),
        (np.ones((4, 2)), {}, "all rows of the table are the same"),
        (points(4), {"columns": 3}, "from 1 to the number of columns, 2"),
        (points(4), {"sigma": 0}, "sigma must be a finite number and positive"),
        (points(4), {"gamma": 11}, "gamma must be from -10 to 10"),
        (points(4), {"nu": math.inf}, "nu must be a finite number"),
        (points(4), {"prior": "flat"}, "prior must be yule or uniform"),
    ],
)
def test_mistakes(table, options, message):
    with pytest.raises(ValueError, match=message):
        hct.Contrasts(table, **options)


def test_start_is_inside_the_bounds():
    low, high = np.array(hyper.BOUNDS).T
    assert (low < START).all()
    assert (high > START).all()


# ---- the command line -------------------------------------------------------------------------


def test_on_the_command_line(tmp_path, capfd):
    table, path = groups(6, 3, 1), tmp_path / "table.csv"
    lines = [",".join(map(repr, map(float, row))) for row in table]
    path.write_text("\n".join(["a,b,c", *lines]) + "\n", "utf-8")
    found = tmp_path / "found.json"
    assert main(["infer", str(path), "-p", "contrasts", "--json", str(found)]) == 0
    post = hct.infer(hct.Contrasts(table))
    answers = json.loads(found.read_text("utf-8"))
    assert answers["log_partition"] == pytest.approx(post.log_partition, abs=1e-9)
    assert answers["beta"] is None
    assert "no beta was chosen" in " ".join("".join(capfd.readouterr()).split())
    assert main(["infer", str(path), "-p", "contrasts", "--beta", "2"]) != 0
    assert "has no beta" in "".join(capfd.readouterr())
