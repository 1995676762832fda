"""Simulated jets: kinematics, the densities of the model, the true tree and its log likelihood.

The oracle is the same shower written slowly: with redrawn exponentials and matrices for boosts.
"""

import math
import os
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import hctrellis as hct
import naive
from hctrellis.simulate import Jets, ginkgo

SOURCE = Path(__file__).parents[1] / "src"
LIKELY = 1e-3  # a p-value below is a failure; seeds are fixed
ARRAYS = ("offsets", "momenta", "children", "t", "log_likelihood")

SETTINGS = {
    "qcd": {},
    "w": {"preset": "w"},
    "qcd, t_cut 1.21": {"t_cut": 1.21},
    "qcd, t_cut 0.01": {"t_cut": 0.01, "size": 100},
    "w, t_cut 0.01": {"preset": "w", "t_cut": 0.01, "size": 50},
    "steep": {"lam": 8.0, "t_cut": 0.1},
    "gentle": {"lam": 0.05, "lam_root": 0.5},
    "at rest": {"momentum": 0.0, "t_cut": 0.1},
    "other direction": {"momentum": (0.0, -70.0, 20.0), "mass": 12.0, "t_cut": 0.5},
    "window": {"leaves": (5, 10)},
}


@cache
def jets_of(name):
    return ginkgo(**({"size": 400, "rng": 11} | SETTINGS[name]))


@cache
def many():
    return ginkgo(20_000, rng=3)


over_settings = pytest.mark.parametrize("name", SETTINGS)


def root_momentum(name):
    """What was asked for, from the settings."""
    options = SETTINGS[name]
    mass = options.get("mass", 80.0 if options.get("preset") == "w" else 30.0)
    momentum = np.asarray(options.get("momentum", 400.0), float)
    if momentum.ndim == 0:
        momentum = momentum / math.sqrt(3) * np.ones(3)
    return np.array([math.sqrt(mass**2 + momentum @ momentum), *momentum])


def node_momenta(jet):
    """The momentum of each node of the tree, summed over its leaves in extended precision."""
    sums = [row.astype(np.longdouble) for row in jet.momenta]
    for left, right in jet.tree.children:
        sums.append(sums[left] + sums[right])
    return np.array(sums)


def squared_masses(momenta):
    return momenta[..., 0] ** 2 - (momenta[..., 1:] ** 2).sum(axis=-1)


def assert_same(a, b):
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    assert (a.lam, a.lam_root, a.t_cut) == (b.lam, b.lam_root, b.t_cut)


# ---- kinematics -------------------------------------------------------------------------------


@over_settings
def test_momentum_is_conserved(name):
    root = root_momentum(name)
    for jet in jets_of(name):
        assert np.abs(jet.momenta.sum(axis=0) - root).max() < 1e-13 * root[0]


@over_settings
def test_masses(name):
    """The squared mass of every node is the one drawn, up to the rounding of its energy."""
    for jet in jets_of(name):
        momenta = node_momenta(jet)
        rounding = 20 * np.finfo(float).eps * momenta[:, 0] ** 2
        assert (np.abs(squared_masses(momenta) - jet.t) <= rounding).all()
        assert (jet.t[: jet.n_leaves] <= jet.t_cut).all()
        assert (jet.t[jet.n_leaves :] > jet.t_cut).all()
        assert (jet.momenta[:, 0] > 0).all()


def test_relative_error_of_masses():
    for name in ("qcd", "w", "qcd, t_cut 1.21", "at rest"):
        for jet in jets_of(name):
            inner = slice(jet.n_leaves, None)
            masses = squared_masses(node_momenta(jet)[inner])
            np.testing.assert_allclose(np.asarray(masses, float), jet.t[inner], rtol=1e-9)


@over_settings
def test_masses_of_children_leave_room(name):
    for jet in jets_of(name):
        mass = np.sqrt(jet.t)
        left, right = jet.children.T
        assert (mass[left] + mass[right] < mass[jet.n_leaves :]).all()


def boosted_to_rest(momentum, frame):
    """The spatial part of a momentum in the rest frame of another, by a matrix."""
    return (boost(-frame[1:] / frame[0]) @ momentum)[1:]


def boost(velocity):
    """The 4 x 4 matrix that gives a body at rest this velocity."""
    square = velocity @ velocity
    gamma = 1 / math.sqrt(1 - square)
    matrix = np.eye(4)
    matrix[0, 0] = gamma
    matrix[0, 1:] = matrix[1:, 0] = gamma * velocity
    if square > 0:
        matrix[1:, 1:] += (gamma - 1) * np.outer(velocity, velocity) / square
    return matrix


def decay_directions(jets, all_nodes):
    """Unit vectors of the left child in the rest frame of its parent, and the parent's flight."""
    directions, flights = [], []
    for jet in jets:
        momenta = node_momenta(jet).astype(float)
        rows = jet.children if all_nodes else jet.children[-1:]
        first = 2 * jet.n_leaves - 1 - len(rows)
        for node, (left, _) in enumerate(rows, start=first):
            inside = boosted_to_rest(momenta[left], momenta[node])
            directions.append(inside / np.linalg.norm(inside))
            flights.append(momenta[node, 1:] / np.linalg.norm(momenta[node, 1:]))
    return np.array(directions), np.array(flights)


@pytest.mark.parametrize(("preset", "all_nodes"), [("qcd", True), ("w", False)])
def test_decays_are_isotropic(preset, all_nodes):
    jets = ginkgo(1500, preset, rng=21)
    directions, flights = decay_directions(jets, all_nodes)
    for cosine in (*directions.T, (directions * flights).sum(axis=1)):
        assert stats.kstest(cosine, stats.uniform(-1, 2).cdf).pvalue > LIKELY
    angle = np.arctan2(directions[:, 1], directions[:, 0])
    assert stats.kstest(angle, stats.uniform(-math.pi, 2 * math.pi).cdf).pvalue > LIKELY


# ---- the densities of the model ---------------------------------------------------------------


def ratio_cdf(lam):
    """The distribution function of an exponential variable below 0.999."""
    return lambda r: np.clip(np.expm1(-lam * np.clip(r, 0, 1)) / np.expm1(-0.999 * lam), 0, 1)


def child_cdf(lam):
    """The distribution function of t_L / t_P: the left child was drawn first or second.

    The second is (1 - sqrt(r_1))^2 r_2; the mean over r_1 is taken over its quantiles.
    """
    first = ratio_cdf(lam)
    levels = (np.arange(5000) + 0.5) / 5000
    limits = (1 - np.sqrt(-np.log1p(levels * np.expm1(-0.999 * lam)) / lam)) ** 2
    grid = np.concatenate([[0.0], np.geomspace(1e-9, 1.0, 400)])
    values = [0.5 * first(x) + 0.5 * first(x / limits).mean() for x in grid]
    return lambda x: np.interp(x, grid, values)


def ratios(jets):
    """t_L / t_P and t_R / t_P of the splits at the roots, and of all the others."""
    roots, others = [], []
    for jet in jets:
        pairs = jet.t[jet.children] / jet.t[jet.n_leaves :, None]
        roots.append(pairs[-1])
        others.extend(pairs[:-1])
    return np.array(roots), np.array(others)


@pytest.mark.parametrize("lam", [0.01, 1.5, 30.0])
def test_drawn_ratios(lam):
    from hctrellis.kernels.shower import draw_ratio

    rng = np.random.default_rng(8)
    drawn = np.array([draw_ratio(lam, rng) for _ in range(20_000)])
    assert drawn.min() >= 0
    assert drawn.max() < 0.999
    assert stats.kstest(drawn, ratio_cdf(lam)).pvalue > LIKELY


@pytest.mark.parametrize("which", ["root", "others"])
def test_masses_of_children_follow_the_model(which):
    """A W jet: rate 3 at the root, 1.5 elsewhere; left and right alike."""
    jets = ginkgo(4000, "w", rng=12)
    pairs, lam = (ratios(jets)[0], 3.0) if which == "root" else (ratios(jets)[1], 1.5)
    cdf = child_cdf(lam)
    for side in pairs.T:
        assert stats.kstest(side, cdf).pvalue > LIKELY
    rng = np.random.default_rng(40)
    drawn = np.array([slow_masses(1.0, lam, rng) for _ in range(len(pairs))])
    for pick in (np.max, np.min):
        assert stats.ks_2samp(pick(pairs, axis=1), pick(drawn, axis=1)).pvalue > LIKELY
    heavier_left = (pairs[:, 0] > pairs[:, 1]).sum()
    assert stats.binomtest(int(heavier_left), len(pairs)).pvalue > LIKELY


def slow_ratio(lam, rng):
    while True:
        r = rng.exponential(1 / lam)
        if r < 0.999:
            return r


def slow_masses(t, lam, rng):
    first = t * slow_ratio(lam, rng)
    return first, (math.sqrt(t) - math.sqrt(first)) ** 2 * slow_ratio(lam, rng)


def slow_jet(mass, lam, t_cut, rng, lam_root=None):
    """The leaves of one jet, by the book."""
    root = np.array([math.hypot(mass, 400.0), *np.full(3, 400.0 / math.sqrt(3))])
    todo, leaves = [(root, mass**2, lam_root or lam)], []
    while todo:
        momentum, t, rate = todo.pop()
        if t <= t_cut:
            leaves.append(momentum)
            continue
        t_a, t_b = slow_masses(t, rate, rng)
        energies = [0.5 * math.sqrt(t) * (1 + s * (t_a - t_b) / t) for s in (1, -1)]
        direction = rng.normal(size=3)
        push = math.sqrt(energies[0] ** 2 - t_a) * direction / np.linalg.norm(direction)
        to_lab = boost(momentum[1:] / momentum[0])
        todo.append((to_lab @ [energies[0], *push], t_a, lam))
        todo.append((to_lab @ [energies[1], *-push], t_b, lam))
    return np.array(leaves)


@pytest.mark.parametrize(("preset", "mass", "lam_root"), [("qcd", 30.0, 1.5), ("w", 80.0, 3.0)])
def test_against_the_slow_shower(preset, mass, lam_root):
    """Numbers of leaves, and the hardest and widest leaves, are distributed alike."""
    rng = np.random.default_rng(5)
    slow = [slow_jet(mass, 1.5, 16.0, rng, lam_root) for _ in range(700)]
    fast = [jet.momenta for jet in ginkgo(4000, preset, rng=6)]

    def angle(jet):
        axis = jet[:, 1:].sum(axis=0)
        flights = jet[:, 1:] / np.linalg.norm(jet[:, 1:], axis=1)[:, None]
        return np.arccos(np.clip(flights @ axis / np.linalg.norm(axis), -1, 1)).max()

    for number in (len, lambda jet: jet[:, 0].max(), lambda jet: jet[:, 0].min(), angle):
        found = stats.ks_2samp([number(jet) for jet in fast], [number(jet) for jet in slow])
        assert found.pvalue > LIKELY


def slow_count(t, t_cut, rng):
    todo, count = [t], 0
    while todo:
        t = todo.pop()
        if t <= t_cut:
            count += 1
        else:
            todo += slow_masses(t, 1.5, rng)
    return count


def test_numbers_of_leaves():
    """A chi-square test against the slow shower, all large numbers of leaves together."""
    rng = np.random.default_rng(9)
    slow = np.bincount([min(slow_count(900.0, 16.0, rng), 13) for _ in range(5000)], minlength=14)
    fast = np.bincount(np.minimum(many().n_leaves, 13), minlength=14)
    assert slow[:2].sum() == fast[:2].sum() == 0
    assert stats.chi2_contingency([slow[2:], fast[2:]]).pvalue > LIKELY


@pytest.mark.parametrize(
    ("t_cut", "low", "high"), [(16.0, 5, 11), (1.21, 11, 26), (0.1, 28, 61), (0.01, 65, 140)]
)
def test_published_ranges(t_cut, low, high):
    """Between 5% and 95% of QCD jets, about."""
    found = np.percentile(ginkgo(3000, t_cut=t_cut, rng=1).n_leaves, [5, 95])
    np.testing.assert_allclose(found, [low, high], rtol=0.1)


def test_usual_range_at_the_usual_threshold():
    sizes = many().n_leaves
    assert sizes.min() == 2
    assert 7 <= np.median(sizes) <= 8
    assert np.mean(sizes <= 14) > 0.998


def test_window_selects_and_does_nothing_else():
    """Jets that are cut short when they grow too large leave the others as they are."""
    inside = many().n_leaves[(many().n_leaves >= 5) & (many().n_leaves <= 10)]
    chosen = ginkgo(10_000, leaves=(5, 10), rng=2)
    assert chosen.n_leaves.min() == 5
    assert chosen.n_leaves.max() == 10
    table = [np.bincount(sizes)[5:11] for sizes in (inside, chosen.n_leaves)]
    assert stats.chi2_contingency(table).pvalue > LIKELY
    nines = ginkgo(1000, leaves=9, rng=2)
    assert (nines.n_leaves == 9).all()
    others = many()[many().n_leaves == 9]
    assert stats.ks_2samp(nines.log_likelihood, others.log_likelihood).pvalue > LIKELY


# ---- the true tree ----------------------------------------------------------------------------


@over_settings
def test_log_likelihood_of_the_true_tree(name):
    for jet in jets_of(name):
        assert jet.potential().log_weight(jet.tree) == pytest.approx(jet.log_likelihood, rel=1e-9)


@pytest.mark.parametrize("name", ["qcd", "w", "gentle"])
def test_log_likelihood_is_the_sum_over_splits(name):
    """By the formula, from the momenta alone."""
    for jet in jets_of(name)[:100]:
        psi = naive.ginkgo(jet.momenta, jet.lam, jet.t_cut, jet.lam_root)
        sets = [frozenset((leaf,)) for leaf in range(jet.n_leaves)]
        total = 0.0
        for left, right in jet.children:
            total += psi(sets[left], sets[right])
            sets.append(sets[left] | sets[right])
        assert total == pytest.approx(jet.log_likelihood, rel=1e-9)


@over_settings
def test_trees(name):
    for jet in jets_of(name)[:50]:
        jet.tree.validate()
        np.testing.assert_array_equal(jet.tree.children, jet.children)
        assert jet.tree.leaf_order() == tuple(range(jet.n_leaves))
        assert jet.tree.labels == jet.potential().labels


def test_newicks():
    jets = jets_of("qcd")
    assert jets.newicks() == [jet.tree.to_newick() for jet in jets]


def test_one_leaf():
    """A root of squared mass t_cut does not split."""
    jets = ginkgo(3, mass=4.0, rng=1)
    assert jets.n_leaves.tolist() == [1, 1, 1]
    assert jets.newicks() == ["0;"] * 3
    np.testing.assert_allclose(jets[0].momenta[0, 1:], 400.0 / math.sqrt(3))
    assert jets[1].t.tolist() == [16.0]
    assert jets[2].log_likelihood == jets[2].potential().log_weight(jets[2].tree) == 0.0


# ---- random numbers ---------------------------------------------------------------------------


def test_a_seed_gives_the_same_jets():
    assert_same(ginkgo(50, rng=7), ginkgo(50, rng=np.random.default_rng(7)))
    assert not np.array_equal(ginkgo(50, rng=7).n_leaves, ginkgo(50, rng=8).n_leaves)


def test_more_jets_begin_with_fewer():
    assert_same(ginkgo(80, leaves=(5, 10), rng=7)[:30], ginkgo(30, leaves=(5, 10), rng=7))


def test_a_generator_goes_on():
    rng = np.random.default_rng(7)
    parts = [ginkgo(size, rng=rng) for size in (20, 30)]
    whole = ginkgo(50, rng=7)
    assert_same(parts[0], whole[:20])
    assert_same(parts[1], whole[20:])


@pytest.mark.parametrize("effort", [1, 100, 10_000_000])
def test_batches_do_not_matter(monkeypatch, effort):
    expected = ginkgo(200, leaves=(5, 10), rng=7)
    monkeypatch.setattr("hctrellis.simulate.shower._EFFORT", effort)
    assert_same(ginkgo(200, leaves=(5, 10), rng=7), expected)


@pytest.mark.parametrize("bits", [np.random.MT19937, np.random.Philox, np.random.SFC64])
def test_any_bit_generator(bits):
    first, second = (ginkgo(20, rng=np.random.Generator(bits(1))) for _ in range(2))
    assert_same(first, second)


def run_python(code, **environment):
    variables = os.environ | {"PYTHONPATH": str(SOURCE)} | environment
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_jit():
    code = """
from hctrellis.simulate import ginkgo
for jet in ginkgo(20, "w", leaves=(3, 70), t_cut=4.0, rng=7):
    print(jet.n_leaves, jet.log_likelihood, *jet.momenta.ravel())
"""
    lines = run_python(code, NUMBA_DISABLE_JIT="1").splitlines()
    for jet, line in zip(ginkgo(20, "w", leaves=(3, 70), t_cut=4.0, rng=7), lines, strict=True):
        size, log_likelihood, *momenta = map(float, line.split())
        assert size == jet.n_leaves
        assert log_likelihood == pytest.approx(jet.log_likelihood, rel=1e-12)
        np.testing.assert_allclose(momenta, jet.momenta.ravel(), rtol=1e-9, atol=1e-9)


def test_import_is_light():
    loaded = run_python("import sys, hctrellis.simulate; print(*sys.modules)").split()
    assert {"numba", "awkward", "pyarrow", "pandas"}.isdisjoint(loaded)


def test_speed():
    """At least 20,000 jets a second in the setting of the paper (best of three)."""
    ginkgo(1, leaves=(5, 10), rng=0)
    times = []
    for seed in range(3):
        start = time.perf_counter()
        ginkgo(10_000, leaves=(5, 10), rng=seed)
        times.append(time.perf_counter() - start)
    assert 10_000 / min(times) > 20_000


# ---- the sequence -----------------------------------------------------------------------------


def test_sequence():
    jets = jets_of("qcd")
    assert len(jets) == 400
    assert [jet.n_leaves for jet in jets] == jets.n_leaves.tolist()
    np.testing.assert_array_equal(jets[-1].momenta, list(jets)[-1].momenta)
    np.testing.assert_array_equal(np.concatenate([jet.momenta for jet in jets]), jets.momenta)
    np.testing.assert_array_equal(np.concatenate([jet.children for jet in jets]), jets.children)
    np.testing.assert_array_equal(np.concatenate([jet.t for jet in jets]), jets.t)
    with pytest.raises(IndexError):
        jets[400]


def assert_chosen(chosen, jets):
    assert len(chosen) == len(jets)
    for a, b in zip(chosen, jets, strict=True):
        np.testing.assert_array_equal(a.momenta, b.momenta)
        np.testing.assert_array_equal(a.children, b.children)
        np.testing.assert_array_equal(a.t, b.t)
        assert a.log_likelihood == b.log_likelihood


@given(st.slices(40))
@settings(max_examples=60, deadline=None)
def test_slices(index):
    jets = jets_of("w")[:40]
    assert_chosen(jets[index], list(jets)[index])


def test_selections():
    jets = jets_of("qcd")[:40]
    assert_chosen(jets[[5, 2, 2]], [jets[5], jets[2], jets[2]])
    assert_chosen(jets[jets.n_leaves == 7], [jet for jet in jets if jet.n_leaves == 7])
    assert_chosen(jets[[]], [])


def test_nothing_can_be_changed():
    jets = jets_of("qcd")
    for array in (*(getattr(jets, name) for name in ARRAYS), jets.n_leaves, jets[0].momenta):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(AttributeError):
        jets.lam = 2.0


def test_repr():
    assert repr(jets_of("window")) == "Jets(400 jets, 5 to 10 leaves, lam=1.5, t_cut=16)"
    assert repr(ginkgo(0, "w")) == "Jets(0 jets, lam=1.5, lam_root=3, t_cut=16)"
    jet = jets_of("window")[0]
    assert repr(jet).startswith(f"Jet({jet.n_leaves} leaves, log likelihood -")


def test_no_jets():
    jets = ginkgo(0)
    assert len(jets) == len(jets.momenta) == len(jets.t) == 0
    assert list(jets) == jets.newicks() == []


# ---- other forms ------------------------------------------------------------------------------


def test_awkward():
    ak, vector = pytest.importorskip("awkward"), pytest.importorskip("vector")
    vector.register_awkward()
    jets = jets_of("qcd")
    array = jets.to_awkward()
    assert array.fields == ["E", "px", "py", "pz"]
    assert ak.num(array).to_list() == jets.n_leaves.tolist()
    assert array.px[3].to_list() == jets[3].momenta[:, 1].tolist()
    masses = [jet.t[: jet.n_leaves] for jet in jets]
    np.testing.assert_allclose(ak.flatten(array.mass2), np.concatenate(masses), atol=1e-9)
    np.testing.assert_allclose(ak.sum(array, axis=1).mass, 30.0)
    assert ak.num(ginkgo(0).to_awkward(), axis=0) == 0


@pytest.fixture
def stored(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "jets.parquet"
    jets_of("w").to_parquet(path)
    return path


def test_parquet_round_trip(stored):
    read = Jets.from_parquet(str(stored))
    assert_same(read, jets_of("w"))
    assert_chosen(read[:5], jets_of("w")[:5])


def test_parquet_of_jets_of_one_leaf(tmp_path):
    pytest.importorskip("pyarrow")
    jets = ginkgo(2, mass=1.0)
    jets.to_parquet(tmp_path / "jets.parquet")
    assert_same(Jets.from_parquet(tmp_path / "jets.parquet"), jets)


def test_parquet_columns(stored):
    table = parquet(stored)
    jets = jets_of("w")
    assert table["tree"].to_pylist() == jets.newicks()
    assert table["n_leaves"].to_pylist() == jets.n_leaves.tolist()
    assert table["log_likelihood"].to_pylist() == jets.log_likelihood.tolist()
    assert set(table["lam_root"].to_pylist()) == {3.0}
    row = table["particles"][0].as_py()
    assert [list(p.values()) for p in row] == jets[0].momenta.tolist()
    assert list(row[0]) == ["E", "px", "py", "pz"]


def parquet(path):
    import pyarrow.parquet as pq

    return pq.read_table(path)


def write(table, path):
    import pyarrow.parquet as pq

    pq.write_table(table, path)


def test_parquet_written_in_parts(stored):
    """Row groups, and leaves written in another order."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = parquet(stored)
    turned = [hct.Tree.from_newick(text) for text in table["tree"].to_pylist()]
    texts = [turn(tree.to_nested()) + ";" for tree in turned]
    index = table.schema.get_field_index("tree")
    table = table.set_column(index, "tree", pa.array(texts))
    pq.write_table(table, stored, row_group_size=17)
    assert_same(Jets.from_parquet(stored), jets_of("w"))


def turn(nested):
    if isinstance(nested, str):
        return nested
    left, right = nested
    return f"({turn(right)},{turn(left)})"


def test_bad_parquet(stored, tmp_path):
    table, path = parquet(stored), tmp_path / "bad.parquet"
    write(table.drop_columns(["tree"]), path)
    with pytest.raises(ValueError, match="has no column 'tree'; expected a file that Jets"):
        Jets.from_parquet(path)
    ginkgo(0).to_parquet(path)
    with pytest.raises(ValueError, match="has no jets"):
        Jets.from_parquet(path)
    index = table.schema.get_field_index("lam")
    write(table.set_column(index, "lam", [[*range(1, len(table) + 1)]]), path)
    with pytest.raises(ValueError, match=r"differ in lam \(1 and 2\)"):
        Jets.from_parquet(path)
    index = table.schema.get_field_index("tree")
    write(table.set_column(index, "tree", [["(0,1);"] * len(table)]), path)
    with pytest.raises(ValueError, match="labels differ"):
        Jets.from_parquet(path)
    index = table.schema.get_field_index("t")
    write(table.set_column(index, "t", [[[1.0]] * len(table)]), path)
    with pytest.raises(ValueError, match="one t for each of the 2n - 1 nodes"):
        Jets.from_parquet(path)


# ---- what is asked for ------------------------------------------------------------------------


def test_presets():
    w, qcd = ginkgo(1, "W"), ginkgo(1, "QCD", lam=2.0)
    assert (w.lam, w.lam_root, w.t_cut) == (1.5, 3.0, 16.0)
    assert (qcd.lam, qcd.lam_root) == (2.0, 2.0)
    assert (ginkgo(1, "w", lam=2.0).lam_root, ginkgo(1, lam_root=2.0).lam) == (3.0, 1.5)
    assert w[0].t[-1] == 6400.0
    assert qcd[0].t[-1] == 900.0


BAD = [
    ({"size": -1}, ValueError, "size must be a whole number, not negative; got -1"),
    ({"size": 2.5}, ValueError, "size must be a whole number, not negative; got 2.5"),
    ({"size": True}, ValueError, "size must be a whole number"),
    ({"preset": "top"}, ValueError, "preset must be 'qcd' or 'w'; got 'top'"),
    ({"lam": 0.0}, ValueError, "lam must be a finite number and positive; got 0"),
    ({"lam_root": -1.0}, ValueError, "lam_root must be a finite number and positive; got -1"),
    ({"t_cut": 0.0}, ValueError, "t_cut must be a finite number and positive; got 0"),
    ({"t_cut": "low"}, TypeError, "t_cut must be a number; got 'low'"),
    ({"mass": math.nan}, ValueError, "mass must be a finite number and positive; got nan"),
    ({"momentum": -1.0}, ValueError, "momentum must be a finite number and not negative; got -1"),
    ({"momentum": [1.0, 2.0]}, ValueError, r"three components px, py, pz; got shape \(2,\)"),
    ({"momentum": [1.0, 2.0, math.inf]}, ValueError, "momentum has 1 entries that are not finite"),
    ({"leaves": 0}, ValueError, "number of leaves must be a whole number, at least 1; got 0"),
    ({"leaves": (5, 10, 15)}, ValueError, r"a number or a pair \(low, high\); got \(5, 10, 15\)"),
    ({"leaves": (10, 5)}, ValueError, r"leaves=\(10, 5\) is empty; put the smaller number first"),
    ({"leaves": (2, 10**9)}, ValueError, "must not exceed 1,000,000 per jet; got 1,000,000,000"),
    ({"progress": "yes"}, TypeError, "progress must be True, False or a function; got 'yes'"),
]


@pytest.mark.parametrize(("options", "error", "match"), BAD)
def test_bad_input(options, error, match):
    with pytest.raises(error, match=match) as raised:
        ginkgo(**({"size": 1} | options))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"leaves": (60, 70)}, r"had 60 to 70 leaves \(\d+,\d+ had fewer, 0 more\); ask for other"),
        ({"leaves": 2, "t_cut": 1e-3}, r"had 2 leaves \(0 had fewer, \d+,\d+ more\)"),
        ({"leaves": (2, 10), "mass": 4.0}, "had 2 to 10 leaves"),
        ({"t_cut": 1e-30}, r"grew beyond 1,000,000 leaves; raise t_cut \(1e-30 now\)"),
    ],
)
def test_hopeless(options, match):
    with pytest.raises(ValueError, match=match):
        ginkgo(10, rng=1, **options)


def test_rare_jets_are_found():
    assert (ginkgo(3, leaves=15, rng=1).n_leaves == 15).all()


def test_progress(capsys):
    seen = []
    ginkgo(40_000, rng=1, progress=lambda done, total: seen.append((done, total)))
    assert len(seen) > 1
    assert seen == sorted(set(seen))
    assert seen[-1] == (40_000, 40_000)
    assert len(ginkgo(10, rng=1, progress=True)) == 10


def test_interrupt():
    """The kernel comes back every now and then, so that Ctrl-C is heard."""

    def press(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ginkgo(10_000_000, rng=1, progress=press)
