"""Exact inference: against the oracle, the laws of the model, published numbers, plain kernels."""

import csv
import json
import math
import threading
from functools import cache
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hctrellis as hct
import naive
from gallery import (
    BUILT_IN,
    PROBLEMS,
    arithmetic,
    as_sets,
    as_tree,
    built_in,
    equal_distances,
    ladder,
    listing,
    momenta,
    plain_kernel,
    points,
    posterior,
    quiet,
    similarities,
    value_and_size,
)
from hctrellis.clusters import n_splits
from hctrellis.trellis.full import MAX_LEAVES
from hctrellis.trellis.solution import exact_count

DATA = Path(__file__).parents[2] / "shared" / "data"
PUBLISHED = 1e-9
KERNELS_AGREE = 1e-12

relaxed = settings(deadline=None, max_examples=30)
seeds = st.integers(0, 10_000)
problems = pytest.mark.parametrize("name", PROBLEMS)
possible = pytest.mark.parametrize(
    "name", [name for name in PROBLEMS if "all forbidden" not in name]
)


def close(value, expected, tolerance):
    return value == expected or abs(value - expected) <= tolerance * max(1.0, abs(expected))


def data_file(name):
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{path} is absent")
    return path


# ---- the oracle -------------------------------------------------------------------------------


@problems
def test_log_partition(name):
    expected = naive.log_partition(listing(name))
    assert close(posterior(name).log_partition, expected, PROBLEMS[name].tolerance)


@problems
def test_n_trees(name):
    found = posterior(name).n_trees
    assert found == naive.n_trees(listing(name))
    assert type(found) is int


@possible
def test_map_tree_is_a_best_tree(name):
    post, problem = posterior(name), PROBLEMS[name]
    assert as_sets(post.map_tree) in naive.best_trees(listing(name), problem.tolerance)
    best = naive.max_log_weight(listing(name))
    assert close(post.map_log_weight, best, problem.tolerance)
    share = post.map_log_weight - post.log_partition
    assert post.map_log_probability == pytest.approx(share, rel=0, abs=1e-12 * max(1, abs(best)))


@possible
def test_log_probability(name):
    post, problem = posterior(name), PROBLEMS[name]
    trees = listing(name)
    scale = max(1.0, abs(naive.max_log_weight(trees)))
    for clusters, weight in trees[:: max(1, len(trees) // 25)]:
        expected = weight - naive.log_partition(trees)
        found = post.log_probability(as_tree(clusters, problem.n))
        assert found == expected or abs(found - expected) <= problem.tolerance * max(
            scale, abs(expected)
        )


@pytest.mark.parametrize("name", ["dasgupta", "ginkgo", "function, numpy", "single"])
def test_probabilities_sum_to_one(name):
    name += ", 6 leaves"
    post = posterior(name)
    total = math.fsum(math.exp(post.log_probability(as_tree(tree, 6))) for tree, _ in listing(name))
    assert total == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("name", [name for name in PROBLEMS if "all forbidden" in name])
def test_every_tree_forbidden(name):
    post = posterior(name)
    assert post.log_partition == -math.inf
    assert post.n_trees == 0
    for ask in ("map_tree", "map_log_weight", "map_log_probability"):
        with pytest.raises(hct.NoTreeError, match=r"every tree over these \d leaves is forbidden"):
            getattr(post, ask)
    tree = as_tree(listing(name)[0][0], PROBLEMS[name].n)
    with pytest.raises(hct.NoTreeError, match="forbidden"):
        post.log_probability(tree)


def test_one_leaf():
    for potential in built_in(1).values():
        post = hct.infer(potential)
        assert (post.log_partition, post.n_trees, post.map_log_weight) == (0, 1, 0)
        assert post.map_tree.n_leaves == 1


def test_flat_posteriors_are_reported():
    for name, problem in PROBLEMS.items():
        if problem.flat:
            with pytest.warns(UserWarning, match="every tree has the same weight"):
                hct.infer(problem.make())
            weights = [weight for _, weight in listing(name)]
            assert max(weights) - min(weights) <= 1e-9 * max(1.0, abs(max(weights)))


def test_no_warning_at_beta_zero():
    post = hct.infer(hct.Linkage(points(5), "ward", beta=0.0))
    assert post.log_partition == pytest.approx(math.log(105), rel=1e-13)


@relaxed
@given(seeds, st.integers(2, 6), st.sampled_from(BUILT_IN))
def test_random_data(seed, n, name):
    potential = built_in(n, seed)[name]
    post = quiet(hct.infer, potential)
    trees = [as_tree(naive.clusters_of(tree), n) for tree in naive.all_trees(n)]
    weights = [potential.log_weight(tree) for tree in trees]
    assert close(post.log_partition, naive.log_sum(weights), 1e-10)
    if post.n_trees > 0:
        assert close(post.map_log_weight, max(weights), 1e-10)
    assert post.n_trees == sum(weight > -math.inf for weight in weights)


def noise(l, r, seed):
    """A number in [0, 1) that looks random, symmetric in two masks."""
    x = 100.0 * math.sin(12.9898 * (l + r) + 0.78233 * (l * r) + seed)
    return x - math.floor(x)


fast_noise = numba.njit(noise)


@numba.njit
def noisy(left, right, parent):
    """Features: the mask; and for all clusters alike seed, fraction forbidden, levels, scale."""
    x = fast_noise(left[0], right[0], parent[1])
    if x < parent[2]:
        return -np.inf
    return -parent[4] * math.floor(x * parent[3]) / parent[3]


def noisy_arrays(*rows):
    splits = zip(*(zip(*row, strict=True) for row in rows), strict=True)
    return np.array([noisy.py_func(*split) for split in splits])


@settings(relaxed, max_examples=50)
@given(
    st.sampled_from([noisy, noisy_arrays]),
    st.integers(2, 7),
    st.integers(0, 1000),
    st.sampled_from([0.0, 0.2, 0.5, 0.8, 1.0]),
    st.sampled_from([2, 10, 2**40]),
    st.sampled_from([1.0, 100.0, 1e6]),
)
def test_random_splits(function, n, seed, forbidden, levels, scale):
    """Any weights at all: forbidden splits, ties (few levels), energies of 1e6."""

    def features(clusters):
        same = [np.full(len(clusters), float(x)) for x in (seed, forbidden, levels, scale)]
        return [clusters.leaf_sums(2.0 ** np.arange(n)), *same]

    def psi(left, right):
        x = noise(float(mask_of(left)), float(mask_of(right)), float(seed))
        return -math.inf if x < forbidden else -scale * math.floor(x * levels) / levels

    trees = naive.listing(n, psi)
    post = quiet(hct.infer, hct.FunctionPotential(function, features, n_leaves=n))
    assert close(post.log_partition, naive.log_partition(trees), 1e-10)
    assert post.n_trees == naive.n_trees(trees)
    if post.n_trees > 0:
        assert as_sets(post.map_tree) in naive.best_trees(trees, 1e-10)


# ---- laws -------------------------------------------------------------------------------------


def constant(value, n):
    return hct.FunctionPotential(
        lambda left, right, parent: np.full(len(parent[0]), value), np.zeros(n)
    )


@pytest.mark.parametrize("n", range(1, 13))
def test_zero_potential_counts_trees(n):
    expected = math.prod(range(1, 2 * n - 2, 2))
    for potential in (constant(0.0, n), hct.Dasgupta(np.zeros((n, n)), beta=0.0)):
        post = quiet(hct.infer, potential)
        assert post.n_trees == expected
        assert post.log_partition == pytest.approx(math.log(expected), abs=1e-12)


@relaxed
@given(st.floats(-1e3, 1e3), st.integers(1, 9), seeds)
def test_a_constant_shifts_log_partition(c, n, seed):
    model = hct.Linkage(points(n, seed), "average")
    base = hct.infer(model).log_partition
    shifted = hct.infer(model + constant(c, n)).log_partition
    assert shifted == pytest.approx(base + (n - 1) * c, rel=1e-12, abs=1e-10)


@relaxed
@given(st.integers(2, 9), seeds, st.sampled_from(["average", "ward", "single", "complete"]))
def test_relabelling_permutes_answers(n, seed, method):
    order = np.random.default_rng(seed).permutation(n)
    table, labels = points(n, seed), np.array([f"item {i}" for i in range(n)])
    one = quiet(hct.infer, hct.Linkage(table, method, 2.0, labels=labels))
    other = quiet(hct.infer, hct.Linkage(table[order], method, 2.0, labels=labels[order]))
    assert one.log_partition == pytest.approx(other.log_partition, rel=1e-12)
    assert one.map_log_weight == pytest.approx(other.map_log_weight, rel=1e-12)
    assert one.log_probability(other.map_tree) == pytest.approx(
        other.map_log_probability, rel=1e-10, abs=1e-10
    )


@relaxed
@given(st.integers(2, 9), seeds)
def test_jets_do_not_depend_on_the_order_of_particles(n, seed):
    jet = momenta(n, seed)
    order = np.random.default_rng(seed).permutation(n)
    one, other = (hct.infer(hct.Ginkgo(p, 1.5, 2.0, 3.0)) for p in (jet, jet[order]))
    assert one.n_trees == other.n_trees
    assert close(one.log_partition, other.log_partition, 1e-11)


@relaxed
@given(st.integers(2, 10), seeds, st.sampled_from(BUILT_IN))
def test_map_is_at_most_log_partition(n, seed, name):
    post = quiet(hct.infer, built_in(n, seed)[name])
    if post.n_trees > 0:
        assert post.map_log_weight <= post.log_partition + 1e-10 * abs(post.log_partition)
        most = post.map_log_weight + math.log(post.n_trees)
        assert post.log_partition <= most + 1e-10 * max(1, abs(most))


@pytest.mark.parametrize("make", [hct.Dasgupta, hct.CorrelationClustering])
def test_large_beta_leaves_the_best_tree(make):
    w = similarities(9, 4) - 0.5
    ratios = [
        (post := hct.infer(make(w, beta))).log_partition / post.map_log_weight
        for beta in (1.0, 1e2, 1e4, 1e6)
    ]
    assert abs(ratios[-1] - 1) < 1e-6
    assert abs(ratios[-1] - 1) < abs(ratios[1] - 1) < abs(ratios[0] - 1)


def test_answers_add_over_independent_priors():
    """A prior with Z = 1 alone; together with a flat model it is unchanged up to a constant."""
    prior = hct.BetaSplitting(8, 0.7)
    flat = quiet(hct.Dasgupta, equal_distances(8), 0.5)
    both = hct.infer(prior + flat)
    assert hct.infer(prior).log_partition == pytest.approx(0, abs=1e-12)
    assert both.log_partition == pytest.approx(-0.5 * (8**3 - 8) / 3, rel=1e-12)


# ---- published numbers ------------------------------------------------------------------------


@cache
def jets():
    return json.loads(data_file("ginkgo_jets.json").read_text())["jets"]


def test_published_jets():
    for jet in jets():
        post = hct.infer(hct.Ginkgo(jet["leaves"], jet["lam"], jet["t_cut"]))
        assert post.log_partition == pytest.approx(jet["log_Z"], abs=PUBLISHED), jet["id"]
        assert post.map_log_weight == pytest.approx(jet["map_log_likelihood"], abs=PUBLISHED)
        assert post.n_trees == jet["n_trees_nonzero"], jet["id"]
    assert len(jets()) == 30


def test_values_printed_in_facts():
    expected = {
        "9-0": (-45.193592069411736, -54.32581855184802, 1_507_275),
        "9-1": (-45.598147459324494, -53.45407081511547, 661_500),
    }
    chosen = [jet for jet in jets() if jet["id"] in expected]
    assert len(chosen) == len(expected)
    for jet in chosen:
        post = hct.infer(hct.Ginkgo(jet["leaves"], 1.5, 16.0))
        log_z, best, count = expected[jet["id"]]
        assert post.log_partition == pytest.approx(log_z, abs=PUBLISHED)
        assert post.map_log_weight == pytest.approx(best, abs=PUBLISHED)
        assert post.n_trees == count


def burtin():
    with data_file("burtin_antibiotics.csv").open() as file:
        rows = list(csv.DictReader(file))
    drugs = ("Penicillin", "Streptomycin", "Neomycin")
    table = np.log10([[float(row[drug]) for drug in drugs] for row in rows])
    return (table - table.mean(axis=0)) / table.std(axis=0), [row["Bacteria"] for row in rows]


@pytest.mark.parametrize(("beta", "expected"), [(5.0, -8.84), (2.0, -14.79)])
def test_burtin(beta, expected):
    table, names = burtin()
    post = hct.infer(hct.Linkage(table, "average", beta, labels=names))
    assert post.map_log_probability == pytest.approx(expected, abs=0.005)
    cluster = ("Diplococcus pneumoniae", "Streptococcus hemolyticus", "Streptococcus viridans")
    assert cluster in post.map_tree


def test_dasgupta_ladder():
    post = hct.infer(hct.Dasgupta(ladder(), beta=50.0))
    assert post.potential.energy(post.map_tree) == pytest.approx(40.08, abs=1e-9)
    assert post.map_log_probability == pytest.approx(0, abs=0.4)


# ---- fast kernels and plain ones --------------------------------------------------------------


def scalar_tables(terms):
    """log Z and log max of every cluster by the plain kernel."""
    log_z, log_max = np.zeros((2, terms.features.shape[1]))
    plain_kernel(terms.codes).solve(
        terms.features,
        terms.node,
        terms.params,
        terms.root_params,
        terms.distances,
        log_z,
        log_max,
    )
    return log_z[1:], log_max[1:]


def fast_tables(solution):
    """The same from the tables of the fast pass."""
    with np.errstate(divide="ignore"):
        rest = np.log(solution.rest[1:])
    log_max = np.where(solution.rest[1:] > 0, solution.best[1:] * math.log(2), -np.inf)
    return log_max + rest, log_max


def assert_same_tables(potential, threads=1, cancels=False):
    """cancels: terms of both signs cancel, so errors are relative to the largest number."""
    solution = hct.FullTrellis(potential.n_leaves).solve(potential, threads)
    for fast, plain in zip(fast_tables(solution), scalar_tables(solution.terms), strict=True):
        possible = np.isfinite(plain)
        np.testing.assert_array_equal(np.isfinite(fast), possible)
        gap = np.abs(fast[possible] - plain[possible])
        size = np.abs(plain[possible])
        assert (gap <= KERNELS_AGREE * np.maximum(1, size.max() if cancels else size)).all()
    return solution


@pytest.mark.parametrize("name", BUILT_IN)
def test_fast_kernel_is_the_plain_one(name):
    potential = built_in(14)[name]
    one = assert_same_tables(potential, threads=1)
    for threads in (2, 3):
        other = hct.FullTrellis(14).solve(potential, threads)
        np.testing.assert_array_equal(one.best, other.best)
        np.testing.assert_array_equal(one.rest, other.rest)
        assert one.map_tree == other.map_tree


@pytest.mark.parametrize("n", range(2, 13))
@pytest.mark.parametrize("name", ["single", "ward", "dasgupta", "ginkgo, root rate", "correlation"])
def test_every_size(name, n):
    assert_same_tables(built_in(n, seed=n)[name])


@pytest.mark.parametrize("n", [6, 9, 11])
@pytest.mark.parametrize("name", ["dasgupta + average", "function"])
def test_every_size_of_sums(name, n):
    table = points(n, n)
    potential = {
        "dasgupta + average": hct.Dasgupta(similarities(n)) + hct.Linkage(table, "average"),
        "function": hct.FunctionPotential(arithmetic, value_and_size(table[:, 0]), n_leaves=n),
    }[name]
    assert_same_tables(potential)


@pytest.mark.parametrize("scale", [1e6, 1e9])
def test_rescaling(scale):
    """Running maxima move by far more than a double's exponent holds."""
    table, w = points(11, 5), similarities(11, 5) - 0.5
    assert_same_tables(hct.Linkage(scale * table, "average"))
    assert_same_tables(hct.Linkage(table, "single", scale))
    assert_same_tables(hct.Dasgupta(scale * w))
    assert_same_tables(hct.CorrelationClustering(w, scale))
    assert_same_tables(hct.Ginkgo(momenta(11, 5), scale / 1e3, 1e-3))


def heavy_tails(n, seed, spread):
    """A symmetric matrix whose entries differ by many orders of magnitude."""
    rng = np.random.default_rng(seed)
    matrix = np.tril(rng.normal(size=(n, n)) * 10.0 ** (spread * rng.normal(size=(n, n))), -1)
    return matrix + matrix.T


MODELS_OF_MATRICES = {
    "dasgupta": hct.Dasgupta,
    "correlation": hct.CorrelationClustering,
    "both": lambda w, beta: hct.Dasgupta(w, beta) + hct.CorrelationClustering(w.T, 3 * beta),
    "average": lambda w, beta: hct.Linkage(np.abs(w), "average", beta, metric="precomputed"),
    "single": lambda w, beta: hct.Linkage(np.abs(w), "single", beta, metric="precomputed"),
}


@settings(relaxed, max_examples=60)
@given(
    st.sampled_from(list(MODELS_OF_MATRICES)),
    st.integers(6, 11),
    seeds,
    st.sampled_from([0.0, 1.0, 2.0, 4.0]),
    st.floats(-3, 6),
)
def test_heavy_tails(name, n, seed, spread, log_beta):
    w = heavy_tails(n, seed, spread)
    potential = quiet(MODELS_OF_MATRICES[name], w, 10.0**log_beta)
    assert_same_tables(potential, cancels=name in ("dasgupta", "correlation", "both"))


@relaxed
@given(st.integers(6, 11), seeds, st.floats(-3, 5), st.floats(-5, 2))
def test_steep_and_gentle_showers(n, seed, log_lam, log_t_cut):
    scale = 10.0 ** np.random.default_rng(seed).normal(size=(n, 1))
    jet = momenta(n, seed) * scale
    assert_same_tables(hct.Ginkgo(jet, 10.0**log_lam, 10.0**log_t_cut))
    assert_same_tables(hct.JetMass(jet, 10.0**log_lam))


def test_compiled_function_is_the_numpy_one():
    values = points(11, 6)[:, 0]
    features = value_and_size(values)
    compiled = hct.infer(hct.FunctionPotential(arithmetic, features, n_leaves=11))
    plain = hct.infer(hct.FunctionPotential(arithmetic.py_func, features, n_leaves=11))
    assert compiled.log_partition == pytest.approx(plain.log_partition, rel=1e-13)
    assert compiled.map_tree == plain.map_tree
    assert compiled.n_trees == plain.n_trees


# ---- ties -------------------------------------------------------------------------------------


def first_best_tree(potential):
    """The documented rule, on plain sets: from the root down, the smallest child with the first
    leaf among the splits of largest weight."""
    n = potential.n_leaves
    weights = {
        naive.clusters_of(tree): potential.log_weight(as_tree(naive.clusters_of(tree), n))
        for tree in naive.all_trees(n)
    }
    remaining = naive.best_trees(list(weights.items()))
    waiting = [frozenset(range(n))]
    chosen = set()
    while waiting:
        cluster = waiting.pop()
        chosen.add(cluster)
        for left, right in sorted(naive.splits_of(cluster), key=lambda split: mask_of(split[0])):
            both = {child for child in (left, right) if len(child) > 1}
            fitting = {tree for tree in remaining if both <= tree}
            if fitting:
                remaining = fitting
                waiting += both
                break
    return frozenset(chosen)


def mask_of(cluster):
    return sum(1 << i for i in cluster)


TIED = {
    "single": lambda n: hct.Linkage(equal_distances(n), "single", metric="precomputed"),
    "average": lambda n: hct.Linkage(equal_distances(n), "average", metric="precomputed"),
    "dasgupta": lambda n: hct.Dasgupta(equal_distances(n)),
    "correlation": lambda n: hct.CorrelationClustering(-equal_distances(n)),
    "ring": lambda n: hct.Dasgupta(np.roll(np.eye(n), 1, 0) + np.roll(np.eye(n), -1, 0)),
    "numpy": lambda n: constant(0.0, n),
    "ward": lambda n: hct.Linkage(np.eye(n), "ward", metric="euclidean"),
}


@pytest.mark.parametrize("name", TIED)
def test_tie_rule(name):
    potential = TIED[name](6)
    assert as_sets(quiet(hct.infer, potential).map_tree) == first_best_tree(potential)


@pytest.mark.parametrize("name", TIED)
def test_ties_do_not_depend_on_threads(name):
    potential = TIED[name](11)
    trees = {quiet(hct.infer, potential, threads=threads).map_tree for threads in (1, 2, 4)}
    assert len(trees) == 1


# ---- weights that are not numbers -------------------------------------------------------------


@numba.njit
def bad_at_one_split(left, right, parent):
    """Features: the mask, the masks of the two children of the bad split, its value."""
    if (left[0] == parent[1] and right[0] == parent[2]) or (
        left[0] == parent[2] and right[0] == parent[1]
    ):
        return parent[3]
    return -0.01 * parent[0]


def bad_at_one_split_arrays(left, right, parent):
    one = (left[0] == parent[1]) & (right[0] == parent[2])
    other = (left[0] == parent[2]) & (right[0] == parent[1])
    return np.where(one | other, parent[3], -0.01 * parent[0])


def with_bad_split(function, n, left, right, value):
    bits = 2.0 ** np.arange(n)

    def features(clusters):
        constants = (mask_of(left), mask_of(right), value)
        return [clusters.leaf_sums(bits), *(np.full(len(clusters), float(c)) for c in constants)]

    return hct.FunctionPotential(function, features, labels=[f"x{i}" for i in range(n)])


def named_split(left, right):
    """The text by which a split is named: the child with the first leaf comes first."""
    return " | ".join(
        "{" + ", ".join(f"'x{i}'" for i in sorted(child)) + "}" for child in (left, right)
    )


def all_splits(n):
    leaves = range(n)
    for mask in range(1, 1 << n):
        cluster = frozenset(i for i in leaves if mask >> i & 1)
        if len(cluster) > 1:
            yield from naive.splits_of(cluster)


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("function", [bad_at_one_split, bad_at_one_split_arrays])
@pytest.mark.parametrize("n", [2, 3, 6])
def test_bad_log_weights_are_named(n, function, value):
    for left, right in all_splits(n):
        potential = with_bad_split(function, n, left, right, value)
        with pytest.raises(ValueError, match=r"must be a number from .*, or -inf") as error:
            hct.infer(potential, threads=1)
        assert f"{named_split(left, right)} is {value}" in str(error.value)


def test_bad_log_weights_are_named_in_large_problems():
    rng = np.random.default_rng(0)
    for _ in range(20):
        leaves, cuts = rng.permutation(11).tolist(), rng.integers(1, 6, 2)
        children = frozenset(leaves[: cuts[0]]), frozenset(leaves[-cuts[1] :])
        left, right = sorted(children, key=min)
        potential = with_bad_split(bad_at_one_split, 11, left, right, math.nan)
        with pytest.raises(ValueError, match="is nan; it must be") as error:
            hct.infer(potential, threads=2)
        assert named_split(left, right) in str(error.value)


@pytest.mark.parametrize("value", [math.inf, 1e290, -1e290])
def test_log_weights_out_of_range_are_named_in_large_problems(value):
    """The two children have leaves in both parts of a mask (see the kernels)."""
    left, right = frozenset({0, 3, 9}), frozenset({1, 2, 7, 10})
    potential = with_bad_split(bad_at_one_split, 11, left, right, value)
    with pytest.raises(ValueError, match=r"must be a number from -1e\+280 to 1e\+280") as error:
        hct.infer(potential, threads=1)
    assert f"{named_split(left, right)} is {value}" in str(error.value)


@pytest.mark.parametrize("value", [-math.inf, -1e279, 1e5])
def test_extreme_log_weights_beside_others(value):
    """One split of a large problem: a check is left to the exceptional rows of splits."""
    left, right = frozenset({0, 3, 9}), frozenset({1, 2, 7, 10})
    posts = [
        hct.infer(with_bad_split(function, 11, left, right, value), threads=1)
        for function in (bad_at_one_split, bad_at_one_split_arrays)
    ]
    assert posts[0].log_partition == pytest.approx(posts[1].log_partition, rel=1e-12)
    assert posts[0].n_trees == posts[1].n_trees
    assert (posts[0].n_trees == posts[0].trellis.n_trees) == (value > -math.inf)
    union = left | right
    found = [post.cluster_probability(mask_of(union)) for post in posts]
    assert found[0] == pytest.approx(found[1], abs=1e-12)


# ---- memory, progress, threads ----------------------------------------------------------------


def test_memory_is_refused_up_front(monkeypatch):
    monkeypatch.setattr("hctrellis.trellis.full.available_memory", lambda: 30_000_000)
    with pytest.raises(hct.TooLargeError, match=r"20 leaves needs about .* 30 MB are available"):
        hct.infer(hct.BetaSplitting(20))
    assert hct.infer(hct.BetaSplitting(10)).n_trees == 34_459_425
    assert issubclass(hct.TooLargeError, ValueError)
    assert issubclass(hct.TooLargeError, MemoryError)


@pytest.mark.parametrize("n", [29, 60, 2000])
def test_too_many_leaves(n):
    with pytest.raises(hct.TooLargeError, match=f"inference over {n} leaves needs about .*fewer"):
        hct.infer(hct.CorrelationClustering(-equal_distances(n)), trellis=hct.FullTrellis(n))


def progress_of(potential, threads):
    calls = []
    quiet(hct.infer, potential, threads=threads, progress=lambda *call: calls.append(call))
    return calls


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("n", [1, 2, 7, 12])
@pytest.mark.parametrize("make", [hct.Dasgupta, None])
def test_progress_ends_at_the_total(n, threads, make):
    potential = hct.Dasgupta(similarities(n)) if make else constant(0.0, n)
    calls = progress_of(potential, threads)
    done = [call[0] for call in calls]
    assert {call[1] for call in calls} <= {n_splits(n)}
    assert done == sorted(done)
    assert not done or done[-1] == n_splits(n)


def test_progress_bar(capsys):
    hct.infer(hct.Dasgupta(similarities(8)), progress=True)
    hct.infer(hct.Dasgupta(similarities(8)), progress=False)


@pytest.mark.parametrize("threads", [1, 2])
def test_interrupt(threads):
    def interrupt(done, total):
        if done > total // 2:
            raise KeyboardInterrupt

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        hct.infer(hct.Dasgupta(similarities(14)), threads=threads, progress=interrupt)
    assert threading.active_count() == before


def test_posterior_is_a_readable_record():
    post = hct.infer(hct.Dasgupta(similarities(4), labels="abcd"))
    assert repr(post).startswith("Posterior(Dasgupta(4 leaves, beta=1), log Z = ")
    assert (post.labels, post.n_leaves) == (tuple("abcd"), 4)
    assert post.map_tree.labels == tuple("abcd")
    with pytest.raises(AttributeError):
        post.potential = None


def test_given_trellis():
    potential = hct.Dasgupta(similarities(5))
    post = hct.infer(potential, trellis=hct.FullTrellis(5))
    assert post.log_partition == hct.infer(potential).log_partition


def test_trellis_counts():
    trellis = hct.FullTrellis(20)
    assert trellis.n_trees == 8_200_794_532_637_891_559_375
    assert (trellis.n_clusters, trellis.sparsity) == (2**20 - 1, 1.0)
    assert trellis.n_splits == (3**20 - 2**21 + 1) // 2
    assert trellis.log_n_trees == pytest.approx(math.log(trellis.n_trees))


def test_counts_beyond_int64_are_exact():
    """Two parallel massless particles cannot be a cluster: subtract the trees that have it."""
    n = 19
    jet = momenta(n)
    jet[1] = 2 * jet[0]
    post = hct.infer(hct.Ginkgo(jet, 1.5, 1e-6))
    assert post.n_trees == math.prod(range(1, 2 * n - 2, 2)) - math.prod(range(1, 2 * n - 4, 2))
    assert post.n_trees > 2**63


@relaxed
@given(st.integers(0, math.prod(range(1, 2 * MAX_LEAVES - 2, 2))), st.floats(-1e-12, 1e-12))
def test_exact_count(count, error):
    remainders = {modulus: count % modulus for modulus in (2**64, 65521)}
    assert exact_count(count * (1 + error), remainders) == count


@pytest.mark.parametrize("n", [14, 17])
def test_two_ways_of_counting(n):
    """By subset convolution beyond what floating-point numbers hold, and split by split."""
    jet = hct.simulate.ginkgo(1, n_leaves=n, t_cut=4.0, rng=n).momenta
    solution = hct.FullTrellis(n).solve(hct.Ginkgo(jet, lam=1.5, t_cut=4.0))
    assert solution.n_trees == solution._count_one_by_one() < hct.FullTrellis(n).n_trees


def test_entropy_by_two_passes():
    """Down, from the probabilities of splits, and up, from the mean log weight."""
    jet = hct.simulate.ginkgo(1, n_leaves=13, t_cut=4.0, rng=1).momenta
    alike = np.abs(jet @ jet.T)
    signed = np.sin(alike)
    for model in (
        hct.Ginkgo(jet, lam=1.5, t_cut=4.0),
        hct.Dasgupta(alike, 1e-5),
        hct.Dasgupta(signed, 0.05),
        hct.Dasgupta(signed, 50.0),  # too steep to be multiplied up
        hct.CorrelationClustering(signed, 0.5),
        hct.CorrelationClustering(signed) + hct.Dasgupta(alike, 1e-6),
    ):
        for threads in (1, 2):
            solution = hct.FullTrellis(13).solve(model, threads)
            mean, _variance = solution.log_weight_moments()
            wanted = pytest.approx(solution.log_partition - mean, rel=1e-11, abs=1e-8)
            assert solution.entropy == wanted


def test_little_entropy_of_sums_over_clusters():
    """What all likely trees have in common cancels: nothing is lost beside a large log Z."""
    points = np.array([0.0, 1.0, 10.0, 12.0])
    near = np.exp(-np.abs(points[:, None] - points))
    for beta in (1.0, 20.0, 40.0):
        wanted = naive.entropy(naive.listing(4, naive.dasgupta(near, beta)))
        found = hct.infer(hct.Dasgupta(near, beta)).entropy
        assert found == pytest.approx(wanted, rel=1e-9, abs=1e-13)
