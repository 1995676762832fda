"""The density of the particles of a shower: against the oracle, its integrals and the simulator."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gallery
import hctrellis as hct
import naive
from gallery import LevelTrellis
from hctrellis.batch import lanes
from hctrellis.fit.selection import leaf_counts


def levels(model):
    trellis = LevelTrellis(model.n_leaves)
    return hct.Posterior(trellis.solve(model), trellis)


@pytest.fixture(scope="module")
def jets():
    return hct.simulate.ginkgo(60, t_cut=30, rng=3)


@pytest.mark.parametrize("solve", [hct.infer, levels], ids=["compiled", "levels"])
def test_sums_over_trees_are_those_of_the_formula(jets, solve):
    for jet in jets[:25]:
        if jet.n_leaves <= 6:
            model = hct.GinkgoDensity(jet.momenta, 1.3, 30.0, 2.1)
            trees = naive.listing(jet.n_leaves, naive.ginkgo_density(jet.momenta, 1.3, 30.0, 2.1))
            post = solve(model)
            assert post.log_partition == pytest.approx(naive.log_partition(trees), abs=1e-10)
            assert post.n_trees == naive.n_trees(trees)
            best = model.log_weight(post.map_tree)
            assert best == pytest.approx(naive.max_log_weight(trees), abs=1e-10)


def test_batches_and_sparse_trellises_take_it(jets, monkeypatch):
    """So do searches, and many jets side by side, which `interpreted.py` and `test_lanes.py` try:
    they would take long to compile."""
    monkeypatch.setattr(lanes, "MOST_LEAVES", 0)
    some = [jet for jet in jets if 5 <= jet.n_leaves <= 7][:3]
    table = hct.infer_many([j.momenta for j in some], "ginkgo-density", lam=1.5, t_cut=30)
    for jet, log_partition in zip(some, table.to_arrow()["log_partition"].to_pylist(), strict=True):
        model = hct.GinkgoDensity(jet.momenta, 1.5, 30)
        post = hct.infer(model)
        assert log_partition == pytest.approx(post.log_partition, abs=1e-10)
        trellis = hct.SparseTrellis.from_trees([jet.tree, post.map_tree], splits="all")
        part = hct.infer(model, trellis)
        assert part.map_log_weight == pytest.approx(post.map_log_weight)
        assert part.log_partition <= post.log_partition + 1e-12


def test_the_true_tree_is_possible_and_t_cut_is_a_threshold(jets):
    for jet in jets[:20]:
        assert hct.GinkgoDensity(jet.momenta, 1.5, 30).log_weight(jet.tree) > -math.inf
        largest = max(jet.t[: jet.n_leaves])  # of a particle, which must not exceed the threshold
        if largest > 1:
            assert hct.infer(hct.GinkgoDensity(jet.momenta, 1.5, 0.99 * largest)).n_trees == 0


def test_extreme_jets_have_finite_weights():
    """Where two stand still, K = 0 and the second ratio is 1, above all that are drawn."""
    still = np.array([[5.0, 0, 0, 0], [7.0, 0, 0, 0]])
    assert levels(hct.GinkgoDensity(still, 1.5, 100.0)).n_trees == 0
    still[0, 1] = 0.5
    assert math.isfinite(levels(hct.GinkgoDensity(still, 1.5, 100.0)).log_partition)
    collinear = gallery.COLLINEAR
    post = levels(hct.GinkgoDensity(collinear, 1.5, 5.0))
    assert math.isfinite(post.log_partition)
    for lam in (1e-6, 1.0, 500.0):
        post = levels(hct.GinkgoDensity(gallery.momenta(6, 2, mass=0.1), lam, 0.5))
        assert math.isfinite(post.log_partition) and math.isfinite(post.gradient()["lam"])


# ---- normalisation ----------------------------------------------------------------------------


def psi(model, left, right, parent, root):
    """psi of splits given by the masses of three clusters, and the volume of their directions.

    The measure of a splitting in d^4p is this volume times the squared masses of the children.
    """
    single = np.zeros((2, len(left)), bool)
    own = model.params(root)[2]
    with np.errstate(all="ignore"):
        x = model.evaluate([left], [right], [parent], root, single, None)
    k = (parent**2 - left**2 - right**2) ** 2 - 4 * left**2 * right**2
    inside = left + right < parent
    volume = 4 * math.pi * np.sqrt(np.where(inside, k, 0.0)) / (8 * parent**2)
    return np.where(inside, np.exp(x + own) * volume, 0.0)


@pytest.mark.parametrize(("lam", "lam_root"), [(1.5, None), (0.7, 3.0)])
def test_two_and_three_particles_integrate_to_their_probabilities(lam, lam_root):
    """By Monte Carlo, uniform in squared masses; the integral is n! times P(n)."""
    rng = np.random.default_rng(7)
    size, t_cut, square = 400_000, 60.0, 400.0
    table = leaf_counts(lam, lam_root or lam, t_cut, square * (1 + 1e-9), 3)[1][:, -1]
    model = hct.GinkgoDensity([[1.0, 0, 0, 0]], lam, t_cut, lam_root)
    one, other, last = np.sqrt(rng.uniform(0, t_cut, (3, size)))
    middle = np.sqrt(rng.uniform(t_cut, square, size))
    whole = np.full(size, math.sqrt(square))
    two = psi(model, one, other, whole, True) * t_cut**2
    three = psi(model, middle, last, whole, True) * psi(model, one, other, middle, False)
    three *= 3 * t_cut**3 * (square - t_cut)  # each of the three trees adds as much
    for n, values in ((2, two), (3, three)):
        mean, error = values.mean(), values.std() / math.sqrt(size)
        assert error < 0.02 * mean
        assert mean == pytest.approx(math.factorial(n) * table[n - 1], abs=4 * error)


def test_numbers_of_particles_are_those_of_the_simulator():
    size = 40_000
    for preset, t_cut, lam in (("qcd", 16.0, None), ("w", 150.0, None), ("qcd", 64.0, 0.5)):
        made = hct.simulate.ginkgo(size, preset, t_cut=t_cut, lam=lam, rng=1)
        square = {"qcd": 900.0, "w": 6400.0}[preset]
        table = leaf_counts(made.lam, made.lam_root, t_cut, square * (1 + 1e-9), 12)[1][:, -1]
        seen = np.bincount(made.n_leaves, minlength=13)[1:13] / size
        error = np.sqrt(np.maximum(table, 1 / size) / size)
        assert (np.abs(seen - table) < 4.5 * error + 1e-4).all()


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 1000), st.floats(0.1, 20))
def test_derivatives_by_rates(seed, lam):
    jet = hct.simulate.ginkgo(1, t_cut=60, n_leaves=(3, 6), rng=seed)[0]
    model = hct.GinkgoDensity(jet.momenta, lam, 60.0, 1.2)
    gradient = levels(model).gradient()
    for name in ("lam", "lam_root"):
        value, step = model.parameters()[name], 1e-4

        def at(x, name=name):
            return levels(model.with_parameters(**{name: x})).log_partition

        near = (at(value + step) - at(value - step)) / (2 * step)
        assert gradient[name] == pytest.approx(near, rel=1e-5, abs=1e-6)
