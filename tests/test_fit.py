"""Maximum marginal likelihood: derivatives, estimates, intervals, selections, refusals."""

import json
import math
import warnings
from importlib.util import find_spec

import awkward as ak
import numpy as np
import pytest
from typer.testing import CliRunner

import gallery
import hctrellis as hct
from hctrellis.batch import lanes
from hctrellis.batch.slopes import DataSets, log_partitions
from hctrellis.cli import main
from hctrellis.cli.app import app
from hctrellis.fit.run import ONE_SIGMA
from hctrellis.kernels import bind

T_CUT = 64.0


@pytest.fixture(scope="module")
def jets():
    return hct.simulate.ginkgo(400, t_cut=T_CUT, rng=2)


@pytest.fixture(scope="module")
def found(jets):
    return hct.fit(hct.GinkgoDensity, jets, lam=1.0)


@pytest.fixture(scope="module")
def w_jets():
    return hct.simulate.ginkgo(300, "w", t_cut=300, rng=3)


@pytest.fixture(scope="module")
def two(w_jets):
    return hct.fit(hct.GinkgoDensity, w_jets, lam=1.0, lam_root=1.0)


# ---- the cost ---------------------------------------------------------------------------------


def test_the_cost_is_minus_the_sum_of_log_z_and_its_gradient_that_of_posteriors(w_jets):
    few = w_jets[:25]
    cost = hct.NegativeLogLikelihood(hct.GinkgoDensity, few, lam=1.4, lam_root=2.2, t_cut=300)
    posts = [hct.infer(hct.GinkgoDensity(jet.momenta, 1.4, 300, 2.2), threads=1) for jet in few]
    assert cost.names == ("lam", "lam_root") and cost.n_data_sets == 25
    assert cost(1.4, 2.2) == pytest.approx(-sum(post.log_partition for post in posts))
    each = cost.each(1.4, 2.2)
    np.testing.assert_allclose(each, [post.log_partition for post in posts], rtol=1e-12)
    slopes = [-sum(post.gradient()[name] for post in posts) for name in cost.names]
    np.testing.assert_allclose(cost.grad(1.4, 2.2), slopes, rtol=1e-9)


@pytest.mark.parametrize("threads", [1, 3])
def test_any_potentials_share_parameters(threads):
    """Lanes, one at a time (single linkage), and parts with parameters of their own."""
    n = 5
    models = [hct.Linkage(gallery.points(n, seed), "average", 1.3) for seed in range(9)]
    models += [hct.Linkage(gallery.points(n, seed), "single", 1.3) for seed in range(3)]
    sets = DataSets([model + hct.BetaSplitting(n, 0.4) for model in models], ["beta", "shape"])
    table = log_partitions(sets, {"beta": 0.8, "shape": 1.1}, threads)
    for model, row in zip(models, table, strict=True):
        post = hct.infer(model.with_parameters(beta=0.8) + hct.BetaSplitting(n, 1.1))
        gradient = post.gradient()
        np.testing.assert_allclose(
            row, [post.log_partition, gradient["beta"], gradient["shape"]], rtol=1e-9, atol=1e-9
        )


def plain(left, right, parent, params):
    return -params[0] * (left[0] - right[0]) ** 2 - params[1] * np.log(parent[1])


@pytest.mark.parametrize("compiled", [False, True], ids=["numpy", "numba"])
def test_functions_have_parameters(compiled):
    import numba

    function = numba.njit(plain) if compiled else plain
    three = np.arange(3)  # leaves, which need the kernel of small clusters alone
    tables = [np.column_stack([np.sin(three + k), 1.0 + three]) for k in range(4)]

    def make(table):
        return hct.FunctionPotential(function, table, params={"a": 0.5, "b": 0.2})

    model = make(tables[0])
    assert model.parameters() == {"a": 0.5, "b": 0.2}
    gradient = hct.infer(model).gradient()

    def at(**values):
        return hct.infer(model.with_parameters(**values)).log_partition

    step = 1e-4
    assert gradient["a"] == pytest.approx((at(a=0.5 + step) - at(a=0.5 - step)) / (2 * step), 1e-6)
    assert gradient["b"] == pytest.approx((at(b=0.2 + step) - at(b=0.2 - step)) / (2 * step), 1e-6)
    with pytest.warns(UserWarning, match="is not the log likelihood of data"):
        cost = hct.NegativeLogLikelihood(make, tables)
    moved = [hct.infer(make(table).with_parameters(a=0.7, b=0.1)) for table in tables]
    assert cost(0.7, 0.1) == pytest.approx(-sum(post.log_partition for post in moved))
    slopes = [-sum(post.gradient()[name] for post in moved) for name in ("a", "b")]
    np.testing.assert_allclose(cost.grad(0.7, 0.1), slopes, rtol=1e-7)
    with pytest.raises(ValueError, match="'c' is not a parameter"):
        model.with_parameters(c=1.0)
    with pytest.raises(ValueError, match="parameter a must be a finite number"):
        model.with_parameters(a=math.nan)


def test_functions_with_parameters_are_compiled_once():
    """Other values of parameters are no other function."""
    import numba

    model = hct.FunctionPotential(
        numba.njit(plain), np.arange(6.0).reshape(3, 2) + 1, params={"a": 0.5, "b": 0.2}
    )
    hct.infer(model)
    known = len(bind._load.table)
    for a in (0.1, 0.7):
        hct.infer(model.with_parameters(a=a))
    assert len(bind._load.table) == known


def test_four_parameters(monkeypatch):
    """Of contrasts; Z is a density of the table if all columns count.

    One table at a time: `interpreted.py` has them side by side, which takes long to compile.
    """
    monkeypatch.setattr(lanes, "MOST_LEAVES", 0)
    tables = [gallery.points(5, seed, 3) for seed in range(3)]
    given = {"sigma": 0.7, "tau": 1.1, "gamma": 0.9, "nu": 5.0}

    def make(table, columns=3.0):
        return hct.Contrasts(table, columns=columns, **given)

    cost = hct.NegativeLogLikelihood(make, tables)
    assert cost.is_density and cost.start == given
    posts = [hct.infer(make(table)) for table in tables]
    value, slopes = cost.with_grad(*given.values())
    assert value == pytest.approx(-sum(post.log_partition for post in posts))
    wanted = [-sum(post.gradient()[name] for post in posts) for name in given]
    np.testing.assert_allclose(slopes, wanted, rtol=1e-9, atol=1e-9)
    with pytest.warns(UserWarning, match="log Z of Contrasts is not the log likelihood"):
        hct.NegativeLogLikelihood(make, tables, columns=2.5)


# ---- estimates --------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:all .*jets have")
@pytest.mark.filterwarnings("ignore:the data tell little")
def test_copies_of_a_jet_tell_the_same_more_surely(jets):
    one, many = (
        hct.fit(hct.GinkgoDensity, [jets[4].momenta] * size, t_cut=T_CUT) for size in (1, 49)
    )
    assert many["lam"].value == pytest.approx(one["lam"].value, abs=0.01 * one["lam"].error)
    assert many["lam"].error == pytest.approx(one["lam"].error / 7, rel=0.01)


def test_what_data_do_not_tell_is_said():
    """One particle tells nothing about rates; a distribution over trees nothing about its shape."""
    single = [np.array([[5.0, 0.0, 0.0, 4.9]])]
    for name, ask in (
        ("lam", lambda: hct.fit(hct.GinkgoDensity, single, t_cut=T_CUT)),
        ("shape", lambda: hct.fit(hct.BetaSplitting(5), minimiser="scipy")),
    ):
        with pytest.warns(UserWarning, match=f"the data do not tell {name}: the likelihood is"):
            found = ask()
        assert f"{name} = " in repr(found) and "(not determined)" in repr(found)
        assert math.isnan(found[name].error)


def test_both_minimisers_find_the_same(jets, found):
    other = hct.fit("ginkgo-density", jets, lam=3.0, minimiser="scipy")
    assert found.minimiser == ("iminuit" if find_spec("iminuit") else "scipy")
    assert other.minimiser == "scipy"
    assert other["lam"].value == pytest.approx(found["lam"].value, abs=0.02 * found["lam"].error)
    assert other["lam"].error == pytest.approx(found["lam"].error, rel=1e-3)
    assert abs(found["lam"].value - 1.5) < 4 * found["lam"].error
    assert abs(found.gradient[0]) * found["lam"].error < 0.02


def test_errors_are_those_of_the_curvature(found):
    x, h = found["lam"].value, 0.01
    second = (found.cost(x + h) - 2 * found.cost(x) + found.cost(x - h)) / h**2
    assert found["lam"].error == pytest.approx(second**-0.5, rel=1e-3)
    assert found.covariance.shape == (1, 1)


def test_intervals_are_those_of_minos(two):
    iminuit = pytest.importorskip("iminuit", reason="needs iminuit")
    cost = two.cost
    minuit = iminuit.Minuit(cost, *cost.start.values(), name=cost.names)
    minuit.limits = (1e-3, None)
    minuit.migrad()
    minuit.minos()
    for name in cost.names:
        low, high, *bounds = two.interval(name)
        best, error = minuit.values[name], two[name].error
        assert bounds == [False, False]
        assert low == pytest.approx(best + minuit.merrors[name].lower, abs=0.02 * error)
        assert high == pytest.approx(best + minuit.merrors[name].upper, abs=0.02 * error)
    wide = two.interval("lam", 0.95)
    assert wide.low < two.interval("lam").low < two["lam"].value < wide.high


def test_rates_of_w_jets_together(two):
    for name, truth in (("lam", 1.5), ("lam_root", 3.0)):
        assert abs(two[name].value - truth) < 4 * two[name].error
    np.testing.assert_allclose(two.covariance, two.covariance.T)


def test_profiles_rise_from_the_estimate(two):
    profile = two.profile("lam", 9, 2.0)
    assert profile.drop.min() == pytest.approx(0, abs=1e-3) and profile.drop.argmin() == 4
    np.testing.assert_allclose(profile.drop[[0, -1]], 2.0, rtol=0.15)
    with pytest.raises(ValueError, match="'beta' was not fitted; the free parameters are lam, lam"):
        two.profile("beta")
    with pytest.raises(ValueError, match="level must be between 0 and 1"):
        two.interval("lam", 95)


def test_pulls_over_pseudo_experiments():
    """The long version, of 100 experiments of 300 jets, is benchmarks/fit.py."""
    pulls, covered = [], 0
    for seed in range(30):
        jets = hct.simulate.ginkgo(150, t_cut=T_CUT, rng=1000 + seed)
        found = hct.fit(hct.GinkgoDensity, jets, lam=1.0)
        pulls.append((found["lam"].value - 1.5) / found["lam"].error)
        low, high, *_ = found.interval("lam")
        covered += low < 1.5 < high
    assert abs(np.mean(pulls)) < 3 / math.sqrt(30)
    assert 0.65 < np.std(pulls, ddof=1) < 1.4
    assert 30 * ONE_SIGMA - 10 < covered <= 30


def test_bounds_and_fixed_parameters(jets, w_jets):
    at_bound = hct.fit(hct.GinkgoDensity, jets, lam=2.5, bounds={"lam": (2.0, None)})
    assert at_bound["lam"].at_bound and math.isnan(at_bound["lam"].error)
    assert at_bound.interval("lam").low_is_bound and "at its bound" in repr(at_bound)
    one = hct.fit(hct.GinkgoDensity, w_jets, free="lam", lam=1.0, lam_root=3.0)
    assert list(one) == ["lam"]
    for bounds, message in (({"beta": (0, 1)}, "not a free parameter"), ({"lam": (2, 1)}, "empty")):
        with pytest.raises(ValueError, match=message):
            hct.fit(hct.GinkgoDensity, jets, bounds=bounds)


def test_jets_come_in_many_forms(jets, found, tmp_path):
    few = jets[:40]
    path = tmp_path / "jets.parquet"
    few.to_parquet(path)
    cost = hct.NegativeLogLikelihood(hct.GinkgoDensity, few)
    for data in (few.to_awkward(), path, [jet.momenta for jet in few]):
        other = hct.NegativeLogLikelihood("ginkgo-density", data, t_cut=T_CUT)
        assert other(1.3) == pytest.approx(cost(1.3), rel=1e-12)
    one = hct.NegativeLogLikelihood(hct.GinkgoDensity, few[0].momenta, t_cut=T_CUT)
    assert one.n_data_sets == 1
    assert isinstance(few.to_awkward(), ak.Array)


# ---- selections and warnings ------------------------------------------------------------------


def test_a_selection_by_number_of_particles_is_corrected_for():
    jets = hct.simulate.ginkgo(3000, t_cut=T_CUT, rng=5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = hct.fit(hct.GinkgoDensity, jets, n_leaves=(3, 5))
    assert kept.n_data_sets == ((jets.n_leaves >= 3) & (jets.n_leaves <= 5)).sum()
    assert abs(kept["lam"].value - 1.5) < 4 * kept["lam"].error
    x, h = 1.3, 1e-3
    near = (kept.cost(x + h) - kept.cost(x - h)) / (2 * h)
    assert kept.cost.grad(x)[0] == pytest.approx(near, rel=1e-4)
    some = jets[(jets.n_leaves >= 3) & (jets.n_leaves <= 5)]
    with pytest.warns(UserWarning, match=r"all jets have from 3 to 5 particles.*n_leaves=\(3, 5\)"):
        wrong = hct.fit(hct.GinkgoDensity, some)
    assert wrong["lam"].value > 1.5 + 8 * wrong["lam"].error  # this is what the warning is about


def test_jets_of_one_size_warn():
    """Some rate fits any one size; with the selection known, little is left to tell the rate."""
    few = hct.simulate.ginkgo(12, n_leaves=2, t_cut=16.0, rng=1)
    with pytest.warns(UserWarning, match=r"all 12 jets have 2 particles.*n_leaves=\(2, 2\)"):
        wrong = hct.fit("ginkgo-density", few, free=["lam"], lam=1.0, t_cut=16.0)
    assert wrong["lam"].value > 20
    with pytest.warns(UserWarning, match="tell little about lam: its value, .* less than two stan"):
        found = hct.fit("ginkgo-density", few, free=["lam"], lam=1.0, t_cut=16.0, n_leaves=(2, 2))
    assert found["lam"].value < 2 * found["lam"].error


def test_what_is_no_density_warns(jets):
    """How wrong the estimates are then is in benchmarks/fit.py."""
    with pytest.warns(UserWarning, match="log Z of Ginkgo is not the log likelihood .* GinkgoDens"):
        cost = hct.NegativeLogLikelihood(hct.Ginkgo, jets)
    assert not cost.is_density
    with pytest.warns(UserWarning, match="log Z of Linkage is not the log likelihood of data"):
        hct.NegativeLogLikelihood(hct.Linkage, gallery.points(5), beta=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert hct.NegativeLogLikelihood(hct.BetaSplitting(6, 1.0)).is_density


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda jets: hct.fit("gingko", jets), "model must be one of ginkgo, ginkgo-density"),
        (lambda jets: hct.fit(hct.GinkgoDensity), "no data was given"),
        (lambda jets: hct.fit(hct.GinkgoDensity, [], t_cut=1.0), "there are no jets"),
        (lambda jets: hct.fit(hct.GinkgoDensity, jets, free="lam_root"), "give lam_root a value"),
        (
            lambda jets: hct.fit(hct.GinkgoDensity, jets, t_cut=2.0),
            "are impossible under",
        ),
        (lambda jets: hct.fit(hct.Ginkgo, jets, n_leaves=(2, 4)), "which is no density"),
        (lambda jets: hct.fit(hct.GinkgoDensity, jets, n_leaves=(50, 60)), "no jet has from 50"),
        (lambda jets: hct.fit(hct.GinkgoDensity, jets, n_leaves=(4, 2)), "must be a range"),
        (lambda jets: hct.fit(hct.GinkgoDensity, jets, minimiser="best"), "minimiser must be"),
        (lambda jets: hct.fit(3), "give potentials, or a model and data"),
        (lambda jets: hct.fit(hct.BetaSplitting(4), 3), "model must be a class or a function"),
        (lambda jets: hct.fit([hct.BetaSplitting(4)], lam=3.0), "have their parameters already"),
        (lambda jets: hct.fit([]), "there is no data"),
        (lambda jets: hct.fit(hct.Dasgupta, np.eye(3), n_leaves=(1, 2)), "got no jets"),
    ],
)
def test_wrong_requests_are_refused(jets, call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call(jets)


def test_large_jets_are_not_left_out_silently():
    jets = hct.simulate.ginkgo(3, t_cut=0.5, n_leaves=(23, 40), rng=1)
    with pytest.raises(ValueError, match=r"3 of 3 jets have more than 22 .* n_leaves=\(1, 22\)"):
        hct.fit(hct.GinkgoDensity, jets)


# ---- the command line -------------------------------------------------------------------------


def test_the_command(jets, found, tmp_path):
    path, picture, numbers = (tmp_path / name for name in ("jets.parquet", "p.png", "n.json"))
    jets.to_parquet(path)
    arguments = ["fit", str(path), "--free", "lam", "--t-cut", "64"]
    options = ["--potential", "ginkgo-density", "--plot", str(picture), "--json", str(numbers)]
    result = CliRunner().invoke(app, [*arguments, *options])
    assert result.exit_code == 0, result.output
    assert "lam " in result.output and "400 jets" in result.output
    read = json.loads(numbers.read_text())["parameters"]["lam"]
    assert read["value"] == pytest.approx(found["lam"].value, rel=1e-4)
    assert read["low"] < read["value"] < read["high"]
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert CliRunner().invoke(app, ["fit", str(path)]).exit_code == 2  # no threshold


@pytest.mark.parametrize(
    ("option", "name", "message"),
    [
        ("--json", "missing/n.json", "missing"),
        ("--plot", "missing/p.png", "missing"),
        ("--plot", "p.docx", "a figure ends in"),
    ],
)
def test_files_that_cannot_be_written_are_refused_first(
    option, name, message, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(hct, "fit", lambda *_, **__: pytest.fail("the fit has begun"))
    path = str(tmp_path / "jets.parquet")
    assert main(["fit", path, "--t-cut", "64", option, str(tmp_path / name)]) == 1
    assert message in capsys.readouterr().err
