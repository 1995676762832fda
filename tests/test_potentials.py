"""Potentials: weights of trees and splits against the oracle, labels, sums, compiled faces."""

import math
from functools import cache

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster import hierarchy

import hctrellis as hct
import naive
from gallery import (
    BUILT_IN,
    FUNCTIONS,
    METHODS,
    PROBLEMS,
    affinities,
    as_tree,
    built_in,
    equal_distances,
    listing,
    momenta,
    plain_kernel,
    points,
    quiet,
    similarities,
    value_and_size,
)
from hctrellis.clusters import ClusterList, Lattice
from hctrellis.kernels.batch import load_each
from hctrellis.kernels.bind import bind
from hctrellis.kernels.simd import load, splat, store
from hctrellis.potentials.elementwise import is_elementwise
from hctrellis.trellis.listed import Fetched

relaxed = settings(deadline=None, max_examples=40)
seeds = st.integers(0, 10_000)
problems = pytest.mark.parametrize("name", PROBLEMS)


def rows_of(clusters, n):
    return np.array([[i in cluster for i in range(n)] for cluster in clusters], bool)


def all_splits(n):
    """Every split of every cluster of n leaves."""
    subsets = (frozenset(i for i in range(n) if m >> i & 1) for m in range(1, 1 << n))
    return [split for s in subsets if len(s) > 1 for split in naive.splits_of(s)]


def agree(found, expected, tolerance):
    """Equal, -inf included, to a tolerance relative to the larger of 1 and the value."""
    return found == expected or abs(found - expected) <= tolerance * max(1.0, abs(expected))


# ---- against the oracle -----------------------------------------------------------------------


@problems
def test_log_weights_of_trees(name):
    problem, trees = PROBLEMS[name], listing(name)
    potential = quiet(problem.make)
    for clusters, weight in trees[:: max(1, len(trees) // 50)]:
        tree = as_tree(clusters, problem.n)
        assert agree(potential.log_weight(tree), weight, problem.tolerance)


@problems
def test_log_weights_of_splits(name):
    problem = PROBLEMS[name]
    splits = all_splits(problem.n)
    if not splits:
        return
    left, right = (rows_of(side, problem.n) for side in zip(*splits, strict=True))
    potential = quiet(problem.make)
    expected = np.array([problem.psi(*split) for split in splits])
    scale = max(1.0, np.abs(expected[expected > -np.inf]).max(initial=0.0))
    for one, other in ((left, right), (right, left)):
        found = potential.split_log_weights(one, other)
        np.testing.assert_allclose(found, expected, rtol=0, atol=problem.tolerance * scale)


@pytest.mark.parametrize("name", BUILT_IN)
def test_energy_is_per_beta(name):
    problem = PROBLEMS[name]
    potential = problem.make()
    clusters, weight = listing(name)[17]
    expected = -weight / potential.beta
    assert potential.energy(as_tree(clusters, problem.n)) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("make", [hct.Dasgupta, hct.CorrelationClustering, hct.Linkage])
def test_energy_does_not_depend_on_beta(make):
    w = affinities(5, 1)
    tree = as_tree(listing("dasgupta, 5 leaves")[3][0], 5)
    energies = [make(w, beta=beta).energy(tree) for beta in (1e-3, 1.0, 1e3)]
    assert energies == pytest.approx([energies[1]] * 3, rel=1e-13)


def test_energies_by_hand():
    tree = hct.Tree.from_nested(((0, 1), 2))
    line = [[0.0], [1.0], [5.0]]
    heights = {"single": 4, "complete": 5, "average": 4.5, "centroid": 4.5}
    for method, last in heights.items():
        assert hct.Linkage(line, method).energy(tree) == pytest.approx(1 + last)
    ward = 1 + math.sqrt(2 * 2 / 3) * 4.5
    assert hct.Linkage(line, "ward").energy(tree) == pytest.approx(ward)
    w = [[0, 2, -1], [2, 0, -3], [-1, -3, 0]]
    assert hct.Dasgupta(w).energy(tree) == 2 * 2 + 3 * -4
    other = hct.Tree.from_nested(((1, 2), 0))
    assert hct.CorrelationClustering(w).energy(other) == 2 + 3
    assert hct.CorrelationClustering(w, ordered_pairs=True).energy(other) == 2 + 2 * 3


@pytest.mark.parametrize("n", range(1, 12))
def test_clique_costs_the_same_in_every_tree(n):
    tree = hct.Tree.from_linkage(hierarchy.linkage(points(n), "average")) if n > 1 else None
    if tree is not None:
        cost = hct.Dasgupta(equal_distances(n)).energy(tree)
        assert cost == pytest.approx((n**3 - n) / 3)


def test_one_leaf_weighs_nothing():
    for potential in built_in(1).values():
        assert potential.log_weight(hct.Tree.from_nested(0)) == 0


def test_forbidden_trees_have_infinite_energy():
    potential = PROBLEMS["ginkgo, all forbidden"].make()
    tree = as_tree(listing("ginkgo, all forbidden")[0][0], 6)
    assert potential.log_weight(tree) == -math.inf
    assert potential.energy(tree) == math.inf


# ---- SciPy ------------------------------------------------------------------------------------


@relaxed
@given(st.integers(2, 12), seeds, st.sampled_from(METHODS), st.integers(1, 4))
def test_heights_are_those_of_scipy(n, seed, method, dim):
    table = points(n, seed, dim)
    merges = hierarchy.linkage(table, method)
    energy = hct.Linkage(table, method, beta=2.5).energy(hct.Tree.from_linkage(merges))
    assert energy == pytest.approx(merges[:, 2].sum(), rel=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_forms_of_data(method):
    """A table, its condensed distances and their square matrix are the same problem."""
    table = points(6, 3)
    square = np.array(naive.distance_matrix(table))
    condensed = square[np.triu_indices(6, 1)]
    tree = as_tree(listing("single, 6 leaves")[5][0], 6)
    given_forms = (
        hct.Linkage(table, method),
        hct.Linkage(condensed, method),
        hct.Linkage(square, method, metric="precomputed"),
    )
    energies = [potential.energy(tree) for potential in given_forms]
    assert energies == pytest.approx([energies[0]] * 3, rel=1e-12)


def test_other_metrics():
    table = points(5, 3)
    cityblock = [[sum(abs(a - b)) for b in table] for a in table]
    tree = as_tree(listing("single, 5 leaves")[5][0], 5)
    found = hct.Linkage(table, "complete", metric="cityblock").energy(tree)
    assert found == pytest.approx(
        hct.Linkage(cityblock, "complete", metric="precomputed").energy(tree)
    )


# ---- labels -----------------------------------------------------------------------------------

LABELS = ("b", "a", "c d", "e'", "0", "1")

LABELLED = {
    "linkage": lambda labels: hct.Linkage(points(6), labels=labels),
    "dasgupta": lambda labels: hct.Dasgupta(similarities(6), labels=labels),
    "correlation": lambda labels: hct.CorrelationClustering(affinities(6), labels=labels),
    "ginkgo": lambda labels: hct.Ginkgo(momenta(6), 1.5, 0.1, labels=labels),
    "jet mass": lambda labels: hct.JetMass(momenta(6), 1.5, labels=labels),
    "prior": lambda labels: hct.BetaSplitting(6, 1.0, labels=labels),
    "function": lambda labels: hct.FunctionPotential(
        lambda l, r, p: -p[0] * p[0], np.arange(6.0), labels=labels
    ),
}


@pytest.mark.parametrize("name", LABELLED)
def test_labels_are_carried_through(name):
    potential = LABELLED[name](LABELS)
    assert (potential.labels, potential.n_leaves) == (LABELS, 6)
    assert hct.infer(potential).map_tree.labels == LABELS
    assert LABELLED[name](None).labels == tuple("012345")


@pytest.mark.parametrize("name", LABELLED)
def test_trees_are_read_by_their_labels(name):
    potential = LABELLED[name](LABELS)
    tree = hct.Tree.from_clusters(listing("single, 6 leaves")[200][0], labels=LABELS)
    expected = potential.log_weight(tree)
    for order in (LABELS[::-1], sorted(LABELS), (*LABELS[3:], *LABELS[:3])):
        assert potential.log_weight(tree.reorder(order)) == pytest.approx(expected, rel=1e-13)
    assert tree.reorder(LABELS[::-1]).labels != LABELS


def test_labels_may_be_anything_with_a_text():
    assert hct.Linkage(points(3), labels=np.array([1.5, 2, 3])).labels == ("1.5", "2.0", "3.0")
    assert hct.Linkage(points(3), labels=(c for c in "xyz")).labels == ("x", "y", "z")


# ---- sums -------------------------------------------------------------------------------------


def test_sums_add_log_weights():
    parts = [LABELLED[name](LABELS) for name in ("linkage", "dasgupta", "prior")]
    tree = hct.Tree.from_clusters(listing("single, 6 leaves")[77][0], labels=LABELS)
    expected = math.fsum(part.log_weight(tree) for part in parts)
    for total in (sum(parts), parts[0] + (parts[1] + parts[2]), (parts[2] + parts[1]) + parts[0]):
        assert total.log_weight(tree) == pytest.approx(expected, rel=1e-13)
        assert total.energy(tree) == pytest.approx(-expected, rel=1e-13)
        assert len(total.parts) == 3


def test_sums_take_the_labels_that_are_given():
    model, prior = hct.Linkage(points(4), labels="wxyz"), hct.BetaSplitting(4)
    assert (model + prior).labels == (prior + model).labels == tuple("wxyz")


def test_sum_repr():
    assert repr(hct.BetaSplitting(3) + hct.Linkage(points(3), "ward", 2.0)) == (
        "BetaSplitting(3 leaves, shape=0) + Linkage(3 leaves, ward, beta=2)"
    )


# ---- the two faces ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*BUILT_IN, *(f"function, {which}" for which in FUNCTIONS)])
def test_compiled_face_is_the_numpy_one(name):
    potential = PROBLEMS[name].make()
    code = potential.code()
    if code is None:
        return
    n = potential.n_leaves
    rows, own = potential.describe(Lattice(n))
    features = np.vstack([*rows, np.zeros(1 << n)])
    distances = np.empty((0, 0)) if code.cross is None else potential.distances
    split_log_weight = plain_kernel([code]).split_log_weight
    for left, right in all_splits(n)[::7]:
        masks = [sum(1 << i for i in side) for side in (left, right, left | right)]
        params = potential.params(root=len(left | right) == n)
        compiled = split_log_weight(*masks, features, params, distances)
        if own is not None:
            compiled += own[masks[2]]
        plain = potential.split_log_weights(rows_of([left], n), rows_of([right], n))[0]
        assert agree(compiled, plain, 1e-12)


def split_functions(code):
    """The split functions compiled for each mixture of vectors and floats that kernels use.

    Splits of one parent, as in `tiles`; of one left child, as in `outside`; and with vectors of
    parameters, as in `batch`, which describes clusters by vectors, too.
    """
    made = bind(("weights",), [code])
    pair, describe, take_row, load_row = (
        getattr(made, name) for name in ("pair", "describe", "take_row", "load_row")
    )
    leaf = pair if code.leaf is None else made.leaf

    @numba.njit(error_model="numpy")
    def weigh(left, right, parent, numbers, arrays, out):
        l, r, p = (
            load_row(left.ravel(), 0, 8),
            load_row(right.ravel(), 0, 8),
            load_row(parent.ravel(), 0, 8),
        )
        params = load_each(arrays, 0)
        found = (
            pair(l, r, take_row(parent, 0), numbers, 0.0),
            pair(take_row(left, 0), r, p, numbers, 0.0),
            pair(l, r, p, params, 0.0),
            leaf(l, r, p, numbers, 0.0),
            leaf(take_row(left, 0), r, p, numbers, 0.0),
            leaf(l, r, p, params, 0.0),
        )
        for k in range(len(found)):
            store(out[k, 0], 0, splat(found[k][0]))
            store(out[k, 1], 0, splat(found[k][1]))

    @numba.njit(error_model="numpy")
    def row(size, sums, arrays, out):
        found, own = describe(load(size, 0), load_each(sums, 0), load_each(arrays, 0))
        for k in range(len(found)):
            store(out[k], 0, splat(found[k]))
        store(out[len(found)], 0, splat(own))

    return weigh, row


CODES = {made.code(): name for name, made in built_in(3).items() if made.code().cross is None}


@pytest.mark.parametrize("name", CODES.values())
def test_split_functions_of_vectors(name):
    potential = built_in(9)[name]
    code, params = potential.code(), potential.params()
    weigh, row = split_functions(code)
    lattice = Lattice(9)
    features = np.array(potential.describe(lattice).features)
    arrays = tuple(np.full(8, p) for p in params)

    def check(forms, function, lefts, rights):
        sides = [features[:, masks] for masks in (lefts, rights, lefts | rights)]
        out = np.empty((6, 2, 8))
        weigh(*map(np.ascontiguousarray, sides), params, arrays, out)
        x, factor = function(*map(tuple, sides), params, 0.0)
        for form in forms:
            np.testing.assert_allclose(out[form, 0], x, rtol=1e-13)
            np.testing.assert_allclose(out[form, 1], factor, rtol=1e-13)

    several, leaves = np.arange(12, 44, 4), 1 << np.arange(8)
    check((0, 2), code.pair, several, 511 - several)
    check((1, 2), code.pair, np.full(8, 3), several)
    check((3, 5), code.leaf or code.pair, leaves, 511 - leaves)
    check((4, 5), code.leaf or code.pair, np.full(8, 2), several)
    sums = tuple(values[several] for values in potential.sums().of(lattice))
    out = np.empty((len(features) + 1, 8))
    row(lattice.sizes[several].astype(float), sums, arrays, out)
    expected, own = code.describe(lattice.sizes[several].astype(float), sums, params)
    for found, value in zip(out, (*expected, own), strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-13)


@pytest.mark.parametrize("name", BUILT_IN)
def test_features_of_lattice_and_list_agree(name):
    potential = PROBLEMS[name].make()
    n = potential.n_leaves
    lattice, clusters = Lattice(n), ClusterList(Lattice(n).members)
    one_by_one = zip(*(potential.describe(c).features for c in (lattice, clusters)), strict=True)
    for one, other in one_by_one:
        np.testing.assert_allclose(one[1:], other[1:], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", BUILT_IN)
def test_separable_sums_are_the_log_weight(name):
    """constant + own of inner clusters + gains times sibling sizes = the sum over splits."""
    problem = PROBLEMS[name]
    potential = problem.make()
    lattice = Lattice(problem.n)
    parts = potential.separable(lattice)
    if parts is None:
        return
    zeros = np.zeros(len(lattice))
    own, gain = (zeros if part is None else part for part in (parts.own, parts.gain))
    for clusters, weight in listing(name)[::500]:
        tree = as_tree(clusters, problem.n)
        root = len(lattice) - 1
        total = parts.constant + sum(own[mask] for mask in tree.clusters() if mask != root)
        for _, left, right in tree.splits():
            total += gain[left] * right.bit_count() + gain[right] * left.bit_count()
        assert agree(total, weight, 1e-11)


# ---- the model's own laws ---------------------------------------------------------------------


@pytest.mark.parametrize("shape", [-1.9, -1.5, -1.0, 0.0, 3.0, 100.0])
@pytest.mark.parametrize("n", range(2, 8))
def test_beta_splitting_is_normalised(n, shape):
    assert quiet(hct.infer, hct.BetaSplitting(n, shape)).log_partition == pytest.approx(
        0, abs=1e-11
    )


def test_uniform_and_yule():
    uniform, yule = hct.BetaSplitting(4, -1.5), hct.BetaSplitting(4, 0.0)
    chain, balanced = (hct.Tree.from_nested(t) for t in ((((0, 1), 2), 3), ((0, 1), (2, 3))))
    for tree in (chain, balanced):
        assert math.exp(uniform.log_weight(tree)) == pytest.approx(1 / 15)
    assert math.exp(yule.log_weight(chain)) == pytest.approx(1 / 18)
    assert math.exp(yule.log_weight(balanced)) == pytest.approx(1 / 9)


def test_no_negative_affinity_is_reported():
    with pytest.warns(UserWarning, match="no affinity is negative"):
        hct.CorrelationClustering(similarities(4))


def test_telescoping_function_is_reported():
    """Ward's increase of the sum of squares cancels in every tree."""
    table = points(6, 2)
    squares = np.array(naive.distance_matrix(table)) ** 2

    def features(clusters):
        return [clusters.pair_sums(squares) / np.maximum(clusters.sizes, 1)]

    increase = hct.FunctionPotential(
        lambda left, right, parent: -(parent[0] - left[0] - right[0]), features, n_leaves=6
    )
    with pytest.warns(UserWarning, match="flat and says nothing"):
        hct.infer(increase)


def test_table_that_looks_like_distances_is_reported():
    with pytest.warns(UserWarning, match='say metric="precomputed"'):
        hct.Linkage(equal_distances(4))


def test_root_rate_defaults_to_the_rate():
    jet, tree = momenta(5), as_tree(listing("single, 5 leaves")[50][0], 5)
    one, same = hct.Ginkgo(jet, 1.5, 0.1), hct.Ginkgo(jet, 1.5, 0.1, lam_root=1.5)
    assert one.log_weight(tree) == same.log_weight(tree)
    assert one.log_weight(tree) != hct.Ginkgo(jet, 1.5, 0.1, lam_root=3.0).log_weight(tree)


def test_soft_showers_do_not_cancel():
    """1 - exp(-x) for x of 1e-12: lam t_cut / t is tiny."""
    jet = momenta(4)
    tree = as_tree(listing_of(4)[3], 4)
    psi = naive.ginkgo(jet, 1.5, 1e-12)
    expected = sum(psi(*split) for split in naive.all_trees(4)[3])
    assert hct.Ginkgo(jet, 1.5, 1e-12).log_weight(tree) == pytest.approx(expected, rel=1e-13)


def listing_of(n):
    return [naive.clusters_of(tree) for tree in naive.all_trees(n)]


# ---- a user's function ------------------------------------------------------------------------


def test_function_features_in_all_forms():
    values = points(5, 1, 2)

    def weight(left, right, parent):
        return -np.abs(left[0] - right[0]) - parent[1] ** 2

    forms = [
        values,
        lambda clusters: [clusters.leaf_sums(column) for column in values.T],
        lambda clusters: tuple(clusters.leaf_sums(column) for column in values.T),
        lambda clusters: clusters.members @ values,
    ]
    found = [hct.infer(hct.FunctionPotential(weight, f, n_leaves=5)) for f in forms]
    expected = found[0].log_partition
    assert [post.log_partition for post in found] == pytest.approx([expected] * 4, rel=1e-12)


def test_function_may_return_one_number_for_all():
    potential = hct.FunctionPotential(lambda left, right, parent: -1.0, np.zeros(4))
    assert quiet(hct.infer, potential).log_partition == pytest.approx(math.log(15) - 3)


def test_function_without_numba_features():
    features = value_and_size(np.arange(4.0))
    potential = hct.FunctionPotential(FUNCTIONS["numpy"][0], features, labels="abcd")
    assert repr(potential) == "FunctionPotential(4 leaves, with_arrays)"
    assert potential.labels == tuple("abcd")


def test_features_are_fetched_when_asked_for():
    """Functions of NumPy arrays are given what behaves like a list, and pay for what they use."""
    asked = []

    def fetch(row):
        asked.append(row[0])
        return row * 10

    rows = Fetched([np.array([float(f)]) for f in range(4)], fetch)
    assert (len(rows), asked) == (4, [])
    assert (rows[1][0], rows[-1][0], rows[1][0], asked) == (10.0, 30.0, 10.0, [1.0, 3.0])
    assert [row[0] for row in rows[:2]] == [0.0, 10.0]
    first, *_others = rows
    assert (first[0], np.array(rows).ravel().tolist()) == (0.0, [0.0, 10.0, 20.0, 30.0])
    assert sorted(asked) == [0.0, 1.0, 2.0, 3.0]
    with pytest.raises(IndexError):
        rows[4]


def test_functions_of_arrays_unpack_their_features():
    n = 6
    matrix = similarities(n)

    def weigh(left, right, parent):
        (w_left, _), (w_right, _), (w, size) = left, right, parent
        return (w_left + w_right - w) * size

    own = hct.FunctionPotential(weigh, lambda c: [c.pair_sums(matrix), c.sizes], n_leaves=n)
    same = hct.Dasgupta(matrix, beta=1.0)
    assert hct.infer(own).log_partition == pytest.approx(hct.infer(same).log_partition, rel=1e-12)


def rule(forbid):
    """-0.1 |L| |R|, and -5 wherever a rule says so, in the words of `forbid`."""
    return lambda left, right, parent: forbid(
        -0.1 * left[0] * right[0], left[0], right[0], parent[0]
    )


def with_places(condition):
    def forbid(weights, *sizes):
        weights[np.where(condition(*sizes))] = -5.0
        return weights

    return rule(forbid)


def with_put(condition):
    def forbid(weights, *sizes):
        np.put(weights, np.flatnonzero(condition(*sizes)), -5.0)
        return weights

    return rule(forbid)


def with_mask(condition):
    def forbid(weights, *sizes):
        weights[condition(*sizes)] = -5.0
        return weights

    return rule(forbid)


def with_a_branch(condition):
    def forbid(weights, *sizes):
        return np.where(condition(*sizes), -5.0, weights) if weights.size else weights

    return rule(forbid)


def with_lists(condition):
    def forbid(weights, *sizes):
        rows = zip(weights, *sizes, strict=True)
        return [-5.0 if condition(*row) else weight for weight, *row in rows]

    return rule(forbid)


def by_where(condition):
    return rule(lambda weights, *sizes: np.where(condition(*sizes), -5.0, weights))


def by_our_where(condition):
    return rule(lambda weights, *sizes: hct.where(condition(*sizes), -5.0, weights))


def by_operators(condition):
    return rule(lambda weights, *sizes: weights + (-5.0 - weights) * condition(*sizes))


CONDITIONS = {
    "root": lambda left, right, parent: parent == 9,
    "small": lambda left, right, parent: parent <= 3,
    "single": lambda left, right, parent: (left == 1) ^ (right == 1),
}


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize(
    ("form", "in_rows"),
    [
        (by_where, True),
        (by_our_where, True),
        (by_operators, True),
        (with_places, False),
        (with_put, False),
        (with_mask, False),
        (with_a_branch, False),
        (with_lists, False),
    ],
)
def test_functions_of_arrays_are_given_parents_once_if_elementwise(form, in_rows, condition):
    """In rows, others would not raise an error but say something else."""
    condition, shapes = CONDITIONS[condition], set()
    function = form(condition)

    def watched(left, right, parent):
        shapes.add((left[0].ndim, left[0].shape == right[0].shape, parent[0].shape[1:]))
        return function(left, right, parent)

    own = hct.FunctionPotential(function, lambda clusters: [clusters.sizes], n_leaves=9)
    assert own.broadcasts == in_rows
    own.function = watched
    found = hct.infer(own).log_partition
    assert shapes == ({(2, True, (1,))} if in_rows else {(1, True, ())})

    @cache
    def log_z(n):
        weights = []
        for k in range(1, n):
            special = condition(k, n - k, n)
            ways = math.comb(n - 1, k - 1)
            weight = -5.0 if special else -0.1 * k * (n - k)
            weights.append(math.log(ways) + weight + log_z(k) + log_z(n - k))
        return float(np.logaddexp.reduce(weights)) if weights else 0.0

    assert found == pytest.approx(log_z(9), rel=1e-12)


def test_functions_of_arrays_may_depend_on_the_parent_alone():
    own = hct.FunctionPotential(lambda left, right, parent: -parent[0], np.arange(1.0, 8.0))
    same = hct.FunctionPotential(
        lambda left, right, parent: -(left[0] + right[0]), np.arange(1.0, 8.0)
    )
    assert own.broadcasts
    assert hct.infer(own).log_partition == pytest.approx(hct.infer(same).log_partition, rel=1e-12)


def test_functions_of_arrays_may_change_them():
    def weigh(left, right, parent):
        gap, total = left[0], parent[0]
        gap -= right[0]
        total *= -0.1
        return total - np.abs(gap)

    own = hct.FunctionPotential(weigh, np.arange(1.0, 8.0))
    same = hct.FunctionPotential(
        lambda left, right, parent: -0.1 * parent[0] - abs(left[0] - right[0]), np.arange(1.0, 8.0)
    )
    assert (own.broadcasts, same.broadcasts) == (False, True)
    assert hct.infer(own).log_partition == pytest.approx(hct.infer(same).log_partition, rel=1e-12)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda a: np.clip(a[0], 1.0, 2.0) + a[1] ** 2, True),
        (lambda a: np.frexp(a[0])[0] - np.minimum(a[0], a[1]), True),
        (lambda a: (~(a[0] > 0) | (a[1] < 1)) * -1.0, True),
        (lambda a: -1, True),
        (lambda a: a[0] * np.float64(2.0), True),
        (lambda a: a[0] * np.ones(5), False),
        (lambda a: a[0] @ a[1], False),
        (lambda a: np.add.reduce(a[0]), False),
        (lambda a: np.add(a[0], a[1], out=np.empty(5)), False),
        (lambda a: a[0].sum(), False),
        (lambda a: np.sum(a), False),
        (lambda a: np.array(a), False),
        (lambda a: a[0][0], False),
        (lambda a: len(a[0]), False),
        (lambda a: max(a[0], a[1]), False),
        (lambda a: [a[0]], False),
        (lambda a: None, False),
        (lambda a: 1 / 0, False),
    ],
)
def test_what_is_elementwise(function, expected):
    assert is_elementwise(function, [np.arange(5.0), np.arange(5.0)]) == expected


# ---- functions that change --------------------------------------------------------------------

SCALED = """
import numba
def helper(x):
    return SCALE * x
HELPER
def weigh(left, right, parent):
    return -helper(parent[0] * parent[0])
WEIGH
def sums(clusters):
    return [clusters.leaf_sums([0.1, 0.2, 0.4]) * UNIT]
"""


def scaled(compiled, scale=1.0):
    """A function of sums over three leaves, and the globals that it refers to."""
    scope = {"SCALE": scale, "UNIT": 1.0}
    text = SCALED.replace("HELPER", "helper = numba.njit(helper)" if compiled else "")
    exec(text.replace("WEIGH", "weigh = numba.njit(weigh)" if compiled else ""), scope)
    return scope


@pytest.mark.parametrize("compiled", [False, True])
def test_a_global_that_changes(compiled):
    """What is asked afterwards is refused; a new potential is of the new value throughout."""
    scope = scaled(compiled)
    before = hct.FunctionPotential(scope["weigh"], scope["sums"], 3)
    post = hct.infer(before)
    old = post.log_partition
    tree = post.map_tree
    scope["SCALE"] = 3.0
    refused = r"function has changed since this potential was made \(helper\); make a new"
    for call in (hct.infer, hct.greedy, lambda model: model.log_weight(tree)):
        with pytest.raises(ValueError, match=refused):
            call(before)
    with pytest.raises(ValueError, match=refused):
        raise ValueError(hct.infer_many([before]).to_arrow()["error"][0].as_py())
    after = hct.infer(hct.FunctionPotential(scope["weigh"], scope["sums"], 3))
    other = scaled(compiled, 3.0)
    wanted = hct.infer(hct.FunctionPotential(other["weigh"], other["sums"], 3))
    assert after.log_partition == wanted.log_partition != old
    assert after.map_log_weight == wanted.map_log_weight < after.log_partition
    scope["SCALE"] = 1.0  # back again
    assert hct.infer(before).log_partition == old
    scope["UNIT"] = 2.0
    with pytest.raises(ValueError, match=r"features has changed since .* \(UNIT\)"):
        post.log_probability(tree)


def test_a_function_that_keeps_notes():
    """Counts, and results in a dictionary, are no changes; what they do to log weights would be."""
    seen, calls, offset = {}, [], np.zeros(1)

    def weigh(left, right, parent):
        calls.append(len(parent[0]))
        return -parent[0] - offset[0]

    def sizes(clusters):
        return [seen.setdefault(len(clusters), clusters.sizes)]

    own = hct.FunctionPotential(weigh, sizes, 6)
    post = hct.infer(own)
    plain = hct.FunctionPotential(lambda l, r, p: -p[0], lambda c: [c.sizes], 6)
    assert post.log_partition == hct.infer(plain).log_partition
    assert len(calls) > 3
    offset[0] = 1.0
    with pytest.raises(ValueError, match=r"function has changed .*offset"):
        post.log_probability(post.map_tree)
