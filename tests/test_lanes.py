"""Side by side: every data set gets what `infer` says, whatever is in the other lanes.

With compiled kernels for some models, and in a process without the compiler for all of them (see
`test_kernels.py`).
"""

import json
import math
from functools import cache
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hctrellis as hct
from gallery import (
    COLLINEAR,
    DUPLICATES,
    INTERPRETED,
    SQUARE,
    affinities,
    arithmetic,
    built_in,
    equal_distances,
    is_batched,
    ladder,
    momenta,
    points,
    quiet,
    similarities,
)
from hctrellis.batch import lanes
from hctrellis.clusters import n_splits, n_trees
from hctrellis.kernels.products import minkowski_products
from hctrellis.potentials import fourvectors
from hctrellis.potentials.constraint import Constraint

SOURCE = Path(hct.__file__).parents[1]
DATA = Path(__file__).parents[2] / "shared" / "data"
EXACT = 1e-12
SERVED = [name for name, p in built_in(3).items() if p.code().cross is None and is_batched(p)]


def tried(potentials):
    return list(filter(is_batched, potentials))


@pytest.fixture
def together(monkeypatch):
    """Nothing may be solved one at a time."""

    def refuse(*arguments):
        raise AssertionError("solved apart")

    monkeypatch.setattr(lanes, "_fill", refuse)


@pytest.fixture
def apart(monkeypatch):
    """Notes which rows are solved one at a time."""
    rows = []
    fill = lanes._fill

    def note(columns, row, *others):
        rows.append(row)
        fill(columns, row, *others)

    monkeypatch.setattr(lanes, "_fill", note)
    return rows


def close(value, expected, tolerance=EXACT):
    return value == expected or abs(value - expected) <= tolerance * max(1.0, abs(expected))


def assert_like_infer(columns, potentials):
    """All columns, the entropy included, are those of `infer`."""
    assert columns.errors == {}
    for i, potential in enumerate(potentials):
        post = quiet(hct.infer, potential, threads=1)
        assert close(columns.log_partition[i], post.log_partition), i
        assert columns.n_trees[i] == post.n_trees, i
        if post.log_partition == -math.inf:
            assert columns.map_log_weight[i] == -math.inf
            assert math.isnan(columns.entropy[i])
            continue
        np.testing.assert_array_equal(columns.children[i], post.map_tree.children)
        assert close(columns.map_log_weight[i], post.map_log_weight), i
        rounding = 1e-15 * abs(post.log_partition)  # that of `infer`, a difference
        assert close(columns.entropy[i], post.entropy, max(EXACT, 10 * rounding)), i


def assert_identical(some, others, rows):
    """Bit for bit: columns of `some` are the rows of `others`."""
    for name in ("log_partition", "map_log_weight", "children", "entropy"):
        np.testing.assert_array_equal(getattr(some, name), getattr(others, name)[rows])
    assert some.n_trees.tolist() == [others.n_trees[row] for row in rows]


# ---- against infer ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", SERVED)
def test_like_infer(together, name):
    for n in (1, 2, 3, 5, 6) if INTERPRETED else (1, 2, 3, 5, 8, 10):
        if name not in built_in(n):  # a table of one row has no contrasts
            continue
        potentials = [built_in(n, seed)[name] for seed in range(2 if n in (6, 10) else 5)]
        assert_like_infer(lanes.solve_group(potentials, entropy=True), potentials)


def test_kinds_are_sorted_out(together):
    potentials = [built_in(5, seed)[name] for seed in range(3) for name in SERVED]
    assert_like_infer(lanes.solve_group(potentials, entropy=True), potentials)


def test_parameters_may_differ(together):
    jets = [momenta(6, seed, mass=0.5) for seed in range(6)]
    potentials = [
        hct.Ginkgo(jet, 1.0 + i, 0.3 + i, lam_root=None if i % 2 else 5.0 / (1 + i))
        for i, jet in enumerate(jets)
    ]
    potentials += [hct.Dasgupta(similarities(6, i), 0.2 * i) for i in range(5)]
    potentials += tried([hct.BetaSplitting(6, i - 1.5) for i in range(5)])
    assert_like_infer(lanes.solve_group(potentials, entropy=True), potentials)


def test_some_trees_forbidden(together):
    n = 5 if INTERPRETED else 7
    jets = [momenta(n, seed) for seed in range(3 if INTERPRETED else 8)]
    for non_stop in (False, True) if INTERPRETED else (False,):
        potentials = [
            hct.Ginkgo(jet, 1.5, t_cut, non_stop=non_stop)
            for jet in jets
            for t_cut in (0.5, 10.0, 30.0, 80.0, 1e9)
        ]
        columns = lanes.solve_group(potentials, entropy=True)
        assert_like_infer(columns, potentials)
        assert {0, n_trees(n)} < set(columns.n_trees)
    potentials = [hct.JetMass(COLLINEAR[rows], 1.5) for rows in ([0, 1], [0, 1, 2], [2, 3, 4])]
    for potential in tried(potentials):
        assert_like_infer(lanes.solve_group([potential], entropy=True), [potential])


def test_every_tree_forbidden(together):
    columns = lanes.solve_group([hct.Ginkgo(momenta(5, 1), 1.5, 1e9)], entropy=True)
    assert columns.log_partition == columns.map_log_weight == [-math.inf]
    assert columns.n_trees.tolist() == [0]
    assert math.isnan(columns.entropy[0])


def tied():
    yield [hct.Dasgupta(w) for w in (equal_distances(6), ladder()[:6, :6], np.zeros((6, 6)))]
    yield [hct.Dasgupta(ladder())]
    yield [quiet(hct.CorrelationClustering, s * equal_distances(7)) for s in (-1.0, -0.1, 1.0)]
    for method in ("average", "centroid", "ward"):
        yield [hct.Linkage(SQUARE, method, 2.0)]
        yield [hct.Linkage(DUPLICATES, method)]
    yield [hct.Linkage(equal_distances(5), "average", metric="precomputed")]
    yield [hct.BetaSplitting(6, -1.5), hct.BetaSplitting(6, 0.0), hct.BetaSplitting(6, 3.0)]
    jet = np.repeat(COLLINEAR[2:4], 3, axis=0)
    yield [hct.Ginkgo(jet, 1.5, 1.0), hct.Ginkgo(jet, 0.1, 1e-3)]


def test_ties_are_broken_as_by_infer(together):
    for potentials in filter(None, map(tried, tied())):
        columns = lanes.solve_group(potentials)
        for i, potential in enumerate(potentials):
            tree = quiet(hct.infer, potential).map_tree
            np.testing.assert_array_equal(columns.children[i], tree.children)


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e3, 1e6])
def test_extreme_rates(together, scale):
    n = 5 if INTERPRETED else 7
    jet = momenta(n, 3, mass=0.5)
    groups = [
        [hct.Dasgupta(similarities(n, 1), scale), hct.Dasgupta(similarities(n, 2))],
        [hct.CorrelationClustering(affinities(n, 1), scale)],
        [hct.Linkage(points(n, 1), "average", scale)],
        [hct.Linkage(points(n, 1), "ward", scale)],
        [hct.Ginkgo(jet, scale, 1.0), hct.Ginkgo(jet, 1.5, 1.0), hct.Ginkgo(jet, 1.5, scale)],
        [hct.Ginkgo(jet, scale, 1.0, non_stop=True), hct.Ginkgo(jet, 1.5, scale, non_stop=True)],
        [hct.JetMass(jet, scale)],
    ]
    for potentials in filter(None, map(tried, groups)):
        assert_like_infer(lanes.solve_group(potentials, entropy=True), potentials)


@pytest.mark.skipif(INTERPRETED, reason="nine leaves take long")
def test_published_jets(together):
    path = DATA / "ginkgo_jets.json"
    if not path.exists():
        pytest.skip(f"{path} is absent")
    jets = [jet for jet in json.loads(path.read_text())["jets"] if jet["n"] == 9]
    columns = lanes.solve_group([hct.Ginkgo(j["leaves"], j["lam"], j["t_cut"]) for j in jets])
    for i, jet in enumerate(jets):
        assert columns.log_partition[i] == pytest.approx(jet["log_Z"], abs=1e-9)
        assert columns.map_log_weight[i] == pytest.approx(jet["map_log_likelihood"], abs=1e-9)
        assert columns.n_trees[i] == jet["n_trees_nonzero"]


# ---- laws -------------------------------------------------------------------------------------


def test_flat_posterior_has_the_entropy_of_all_trees(together):
    for n in range(1, 8 if INTERPRETED else 10):
        columns = lanes.solve_group([hct.Dasgupta(similarities(n), beta=0.0)], entropy=True)
        assert columns.n_trees.tolist() == [n_trees(n)]
        assert close(columns.log_partition[0], math.log(n_trees(n)))
        assert close(columns.entropy[0], math.log(n_trees(n)))


def test_steep_posterior_has_no_entropy(together):
    columns = lanes.solve_group([hct.Dasgupta(similarities(8), beta=1e9)], entropy=True)
    assert 0.0 <= columns.entropy[0] < 1e-200
    assert columns.log_partition[0] == pytest.approx(columns.map_log_weight[0], rel=1e-14)


def test_entropy_only_if_asked_for(together):
    assert np.isnan(lanes.solve_group([hct.Dasgupta(similarities(4))]).entropy).all()


@cache
def company():
    """Data sets of one kind that could disturb each other, and their columns."""
    jets = [momenta(6, seed) for seed in range(4)]
    cuts = (0.5, 20.0, 1e9)
    potentials = [hct.Ginkgo(jet, lam, cut) for jet in jets for lam in (1e-3, 1e4) for cut in cuts]
    return potentials, lanes.solve_group(potentials, entropy=True)


@given(st.lists(st.integers(0, 23), min_size=1, max_size=9))
@settings(deadline=None, max_examples=10 if INTERPRETED else 60)
def test_one_data_set_never_sees_another(rows):
    potentials, columns = company()
    some = lanes.solve_group([potentials[row] for row in rows], entropy=True)
    assert_identical(some, columns, rows)


# ---- jets -------------------------------------------------------------------------------------


def awkward_jets(n):
    """Massive, massless, soft, nearly parallel particles."""
    jets = [momenta(n, seed, mass) for seed, mass in enumerate((0.0, 0.3, 5.0))]
    narrow = jets[0].copy()
    narrow[:, 1:] = narrow[:, :1] * (np.ones(3) / math.sqrt(3) + 1e-9 * points(n, 1, dim=3))
    return np.array([*jets, jets[0] * np.logspace(-9, 5, n)[:, None], narrow])


@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_products_of_many_jets(n):
    jets = awkward_jets(n)
    found = np.moveaxis(minkowski_products(np.ascontiguousarray(jets.T)), -1, 0)
    for products, jet in zip(found, jets, strict=True):
        np.testing.assert_array_equal(
            np.tril(products), np.tril(fourvectors.minkowski_products(jet))
        )


JET_MODELS = [
    (hct.Ginkgo, {"lam": 1.5, "t_cut": 5.0, "lam_root": 3.0}),
    (hct.Ginkgo, {"lam": 1.5, "t_cut": 5.0, "lam_root": 3.0, "non_stop": True}),
    (hct.JetMass, {"lam": 2.0}),
][: 3 if INTERPRETED else 1]


@pytest.mark.parametrize(("model", "parameters"), JET_MODELS)
def test_jets_are_potentials(together, model, parameters):
    for n in (1, 2, 6):
        jets = np.array([momenta(n, seed, mass=0.2) for seed in range(6)])
        potentials = [model(jet, **parameters) for jet in jets]
        columns = lanes.solve_jets(model, jets, parameters, entropy=True)
        assert_identical(columns, lanes.solve_group(potentials, entropy=True), list(range(6)))
        assert_like_infer(columns, potentials)


def test_no_jets():
    columns = lanes.solve_jets(hct.JetMass, np.empty((0, 5, 4)), {"lam": 1.0})
    assert columns.children.shape == (0, 4, 2)
    assert columns.n_trees.tolist() == []


# ---- one at a time ----------------------------------------------------------------------------


def test_what_is_solved_apart(apart):
    n = 5
    table = points(n)
    cost = hct.Dasgupta(similarities(n))
    potentials = [
        cost,
        hct.Linkage(table, "single"),
        hct.Linkage(table, "average"),
        hct.FunctionPotential(lambda l, r, p: -p[0], features=lambda c: [c.sizes], n_leaves=n),
        cost + Constraint(cost.labels, contains=[0b11]),
        hct.Linkage(table, "single") + hct.BetaSplitting(n),
    ]
    assert_like_infer(lanes.solve_group(potentials, entropy=True), potentials)
    assert sorted(apart) == [1, 3, 4, 5]


def test_more_leaves_are_solved_apart(apart, monkeypatch):
    monkeypatch.setattr(lanes, "MOST_LEAVES", 4)
    jets = np.array([momenta(5, seed) for seed in range(3)])
    lanes.solve_jets(hct.JetMass, jets, {"lam": 1.0})
    lanes.solve_group([hct.BetaSplitting(5)])
    assert apart == [0, 1, 2, 0]


# ---- a user's function ------------------------------------------------------------------------


@numba.njit
def bad(left, right, parent):
    """Forbids some splits, and has no weight for others."""
    if parent[0] == 7.0:
        return math.nan
    if parent[0] == 7.5:
        raise ArithmeticError
    if abs(left[1] - right[1]) > 2:
        return -np.inf
    return 0.1 * left[0] * right[0] - parent[0]


def with_function(function, values):
    return hct.FunctionPotential(function, np.column_stack([values, np.ones(len(values))]))


users = pytest.mark.skipif(INTERPRETED, reason="a user's function is then one of arrays")


@users
def test_functions(together):
    """Against the same with arrays, which needs no kernels."""

    def forbidding(left, right, parent):
        weights = 0.1 * left[0] * right[0] - parent[0]
        return np.where(abs(left[1] - right[1]) > 2, -np.inf, weights)

    values = np.random.default_rng(3).normal(size=(5, 7))
    columns = lanes.solve_group([with_function(bad, each) for each in values], entropy=True)
    assert_like_infer(columns, [with_function(forbidding, each) for each in values])
    assert 0 < max(columns.n_trees) < n_trees(7)


@users
@pytest.mark.parametrize(("first", "message"), [(0.0, "is nan; it must be"), (0.5, "Arithmetic")])
def test_a_bad_function_spoils_no_other_data_set(first, message):
    values = [np.array([1, 2, 4 + first + shift]) for shift in (0.0, 0.1, 0.2, 0.3, 0.4)]
    potentials = [with_function(arithmetic, v) for v in values]
    for potential in potentials:
        potential.function = bad  # would be found out by the constructor
    columns = lanes.solve_group(potentials)
    assert list(columns.errors) == [0]
    assert message in columns.errors[0]
    assert math.isnan(columns.log_partition[0])
    assert np.isfinite(columns.log_partition[1:]).all()


# ---- the list of splits -----------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 4, 6])
def test_every_split_is_listed_once(n):
    width = 20
    masks, levels, splits = lanes.lattice_of(n, width)
    lefts = (splits // width).tolist()
    parents = masks[levels[2] :].tolist()
    assert (splits % width == 0).all()
    assert len(splits) == n_splits(n)
    for parent in parents:
        each = 2 ** (parent.bit_count() - 1) - 1
        found, lefts = lefts[:each], lefts[each:]
        assert all(left & parent == left for left in found)
        assert len({frozenset((left, parent ^ left)) for left in found}) == each
        leaves = [left for left in found if left & (left - 1) == 0]
        assert leaves == found[: len(leaves)]
        assert all((parent ^ left).bit_count() > 1 for left in found[len(leaves) :])
    assert sorted(parents) == [m for m in range(1, 1 << n) if m.bit_count() > 1]
    assert [m.bit_count() for m in parents] == sorted(m.bit_count() for m in parents)
