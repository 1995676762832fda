"""Greedy agglomeration and beam search, held against plain sets and against the exact answer."""

import math
import sys
from itertools import combinations

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hctrellis as hct
import naive
from cases import IMPOSSIBLE, NAMES
from gallery import (
    BUILT_IN,
    PROBLEMS,
    as_sets,
    built_in,
    ladder,
    listing,
    points,
    quiet,
    similarities,
)
from hctrellis.search import beam_search, greedy
from hctrellis.search.greedy import agglomerate
from hctrellis.search.model import CompiledModel, PlainModel, room_for, search_model
from hctrellis.support.arrays import SIZE, SUMS

COMPILED = ("single, 6 leaves", "dasgupta, 6 leaves", "ginkgo, 6 leaves", "average, 6 leaves")
PLAIN = [*NAMES, *IMPOSSIBLE]


def tolerance(name, weight=0.0):
    return PROBLEMS[name].tolerance * max(1.0, abs(weight) if math.isfinite(weight) else 1.0)


def make(name):
    return quiet(PROBLEMS[name].make)


def cases(names):
    """Problems searched by plain Python, and some by compiled kernels."""
    plain = [("plain", name) for name in names]
    return pytest.mark.parametrize(
        ("kind", "name"), plain + [("compiled", name) for name in COMPILED]
    )


@pytest.fixture
def search_as(monkeypatch):
    """A function that makes a problem to be searched in one of the two ways."""

    def prepare(kind, name):
        if kind == "plain":
            for module in ("greedy", "beam"):
                module = sys.modules[f"hctrellis.search.{module}"]
                monkeypatch.setattr(module, "search_model", PlainModel)
        return make(name)

    return prepare


# ---- the models --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMPILED)
def test_unions_weigh_as_the_potential_does(name):
    assert_unions_weigh(make(name), np.random.default_rng(0))


def assert_unions_weigh(potential, rng):
    """Random splits, their clusters made leaf by leaf in random order."""
    n = potential.n_leaves
    model = search_model(potential)
    assert isinstance(model, CompiledModel)
    kernel, splits = model.kernel("greedy"), room_for(1)
    for side in rng.integers(0, 3, (20, n)):
        left, right = (np.flatnonzero(side == k) for k in (0, 1))
        if len(left) == 0 or len(right) == 0:
            continue
        table, links = model.table(2 * n), model.links.copy()
        for leaves in (left, right):
            for leaf in rng.permutation(leaves[1:]):
                others = np.setdiff1d(np.arange(n), [leaves[0], leaf])
                kernel.join(leaves[0], leaf, others, 0, links, table, model.arrays)
        first, second = left[:1], right[:1]
        kernel.weigh_joins(first[0], second, 0, n, links, table, model.arrays, splits)
        members = [np.isin(np.arange(n), leaves)[None] for leaves in (left, right)]
        expected = potential.split_log_weights(*members)
        np.testing.assert_allclose(splits.log_psi[:1], expected, rtol=1e-12, atol=1e-12)


def test_what_is_compiled():
    names = {name for name in PROBLEMS if isinstance(search_model(make(name)), CompiledModel)}
    assert set(BUILT_IN) <= names
    assert "dasgupta + ginkgo + prior" in names
    assert "single + complete" not in names  # two extreme distances
    assert "function, numpy" not in names


def test_table_of_leaves():
    model = search_model(make("dasgupta + prior"))
    table = model.table(20)
    assert table[:7, SIZE].tolist() == [1.0] * 7
    assert table[:7, SUMS].tolist() == [0.0] * 7
    assert PlainModel(model.potential).table(9)[:7, SUMS:].tolist() == np.eye(7).tolist()


def test_codes_tell_leaves_apart():
    codes = search_model(hct.BetaSplitting(500)).codes()
    assert len(set(codes.tolist())) == 500


# ---- greedy ------------------------------------------------------------------------------------


def is_greedy(tree, n, psi, allowed):
    """Whether a tree (a set of clusters) results from always joining a pair of largest psi."""
    current = [frozenset([i]) for i in range(n)]
    while len(current) > 1:
        weights = {pair: psi(*pair) for pair in combinations(current, 2)}
        top = max(weights.values())
        best = [p for p, w in weights.items() if w >= top - allowed and p[0] | p[1] in tree]
        if not best:
            return False
        a, b = max(best, key=weights.__getitem__)
        current = [c for c in current if c not in (a, b)] + [a | b]
    return True


@cases(PLAIN)
def test_greedy_joins_the_best_pair(kind, name, search_as):
    problem, potential = PROBLEMS[name], search_as(kind, name)
    tree = greedy(potential)
    assert tree.labels == potential.labels
    allowed = tolerance(name, naive.max_log_weight(listing(name)))
    assert is_greedy(as_sets(tree), problem.n, problem.psi, allowed)


@pytest.mark.parametrize("name", [*PLAIN, *BUILT_IN])
def test_greedy_knows_its_log_weight(name):
    potential = make(name)
    log_weight, children = agglomerate(PlainModel(potential))
    expected = potential.log_weight(hct.Tree(children, labels=potential.labels))
    assert log_weight == pytest.approx(expected, abs=tolerance(name, expected))


@pytest.mark.parametrize("name", COMPILED)
def test_greedy_is_the_same_compiled_and_plain(name):
    potential = make(name)
    (one, children), (other, same) = (
        agglomerate(search_model(potential)),
        agglomerate(PlainModel(potential)),
    )
    assert one == pytest.approx(other, rel=1e-12)
    assert children.tolist() == same.tolist()


@pytest.mark.parametrize("method", ["single", "average"])
def test_greedy_finds_the_linkages_of_scipy(method):
    from scipy.cluster.hierarchy import linkage

    table = points(60, 5)
    tree = greedy(hct.Linkage(table, method))
    assert tree == hct.Tree.from_linkage(linkage(table, method))


def test_ties_go_to_the_lowest_leaves():
    equal = hct.Dasgupta(np.ones((4, 4)))
    assert greedy(equal) == hct.Tree.from_nested(((0, 1), (2, 3)))
    assert greedy(hct.Linkage(np.zeros((5, 1)), "single")) == hct.Tree.from_nested(
        ((((0, 1), 2), 3), 4)
    )


def test_greedy_joins_what_costs_least_first():
    """Dasgupta's cost is least for leaves that have nothing to do with each other."""
    similarity = ladder()
    potential = hct.Dasgupta(similarity)
    assert similarity[0, 3] == 0 and [0, 3] in greedy(potential)
    assert potential.energy(greedy(potential)) > 40.08


def test_greedy_of_forbidden_joins_is_a_tree_of_weight_zero():
    potential = make("ginkgo, all forbidden")
    tree = greedy(potential)
    tree.validate()
    assert potential.log_weight(tree) == -math.inf


def test_greedy_of_many_leaves():
    table = points(700, 1, dim=3)
    potential = hct.Linkage(table, "average")
    log_weight, children = agglomerate(search_model(potential))
    tree = hct.Tree(children)
    assert potential.log_weight(tree) == pytest.approx(log_weight, rel=1e-10)


def test_greedy_keeps_labels():
    potential = hct.Linkage([[0.0], [1.0], [5.0]], labels=["x", "y", "z"])
    assert greedy(potential) == hct.Tree.from_newick("((x,y),z);")


@numba.njit
def _falls(left, right, parent):
    return math.nan if parent[0] > 1000.0 else -(parent[0] ** 2)


def test_compiled_function_of_leaf_sums():
    values = np.random.default_rng(0).normal(size=6)
    potential = hct.FunctionPotential(_falls, values)
    assert isinstance(search_model(potential), CompiledModel)

    def psi(left, right):
        return -(math.fsum(values[i] for i in left | right) ** 2)

    assert is_greedy(as_sets(greedy(potential)), 6, psi, 1e-12)


# ---- beam search -------------------------------------------------------------------------------


@cases(PLAIN)
def test_a_wide_beam_finds_the_best_trees(kind, name, search_as):
    """Wide enough to hold all states: the answer is the list of all trees."""
    potential, trees = search_as(kind, name), listing(name)
    found = beam_search(potential, width=3000, n_best=5)
    expected = [weight for _, weight in naive.top_trees(trees, 5)]
    weights = [potential.log_weight(tree) for tree in found]
    if not expected:
        assert weights == [-math.inf]
        return
    assert weights == pytest.approx(expected, abs=tolerance(name, expected[0]))
    assert len(set(found)) == len(found)


@cases(NAMES)
def test_beams_are_never_worse_than_greedy(kind, name, search_as):
    potential = search_as(kind, name)
    least = potential.log_weight(greedy(potential))
    for width in (1, 2, 5):
        (tree,) = beam_search(potential, width)
        assert potential.log_weight(tree) >= least - tolerance(name, least)


@given(seed=st.integers(0, 10**6), n=st.integers(3, 9), width=st.integers(1, 40))
@settings(max_examples=30, deadline=None)
def test_laws_of_beam_search(seed, n, width):
    potential = hct.Dasgupta(similarities(n, seed))
    found = beam_search(potential, width, n_best=10)
    weights = [potential.log_weight(tree) for tree in found]
    assert 1 <= len(found) <= min(10, width + 1)
    assert (np.diff(weights) <= 1e-9).all()
    assert len(set(found)) == len(found)
    assert weights[0] >= potential.log_weight(greedy(potential)) - 1e-9
    assert weights[0] <= hct.infer(potential).map_log_weight + 1e-9
    by_weight = beam_search(potential, width, duplicates="weight")[0]
    assert potential.log_weight(by_weight) >= potential.log_weight(greedy(potential)) - 1e-9


def naive_beam(n, psi, width):
    """Beam search over sets of clusters, written plainly."""
    states = {frozenset(): 0.0}
    for _ in range(n - 1):
        proposals = {}
        for formed, total in states.items():
            current = _roots(formed, n)
            for a, b in combinations(current, 2):
                proposals[formed | {a | b}] = total + psi(a, b)
        best = sorted(proposals, key=proposals.__getitem__, reverse=True)[:width]
        states = {state: proposals[state] for state in best}
    return max(states.values())


def _roots(formed, n):
    covered = [c for c in formed if not any(c < d for d in formed)]
    inside = frozenset().union(*covered)
    return covered + [frozenset([i]) for i in range(n) if i not in inside]


@pytest.mark.parametrize("width", [1, 3, 10])
@pytest.mark.parametrize("name", ["dasgupta", "ginkgo, root rate", "average", "correlation"])
def test_beam_search_as_it_is_defined(name, width, search_as):
    problem, potential = PROBLEMS[name], search_as("plain", name)
    expected = naive_beam(problem.n, problem.psi, width)
    least = potential.log_weight(greedy(potential))
    found = potential.log_weight(beam_search(potential, width)[0])
    assert found == pytest.approx(max(expected, least), rel=1e-10)


def test_default_width():
    potential = built_in(9, 3)["ginkgo"]
    assert beam_search(potential) == beam_search(potential, width=36)


@pytest.mark.parametrize("kind", ["clusters", "weight"])
def test_equal_states_are_kept_once(kind):
    """All trees of a clique weigh alike."""
    potential = hct.Dasgupta(1.0 - np.eye(5))
    found = beam_search(potential, width=200, n_best=200, duplicates=kind)
    assert len(found) == (105 if kind == "clusters" else 1)


def test_dead_ends_are_left_out():
    name = "ginkgo, most forbidden"
    potential, possible = make(name), naive.n_trees(listing(name))
    found = beam_search(potential, width=3000, n_best=3000)
    assert len(found) == possible
    assert all(potential.log_weight(tree) > -math.inf for tree in found)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_smallest(n):
    potential = hct.Dasgupta(similarities(n))
    assert greedy(potential).n_leaves == n
    assert len(beam_search(potential, n_best=9)) == (1, 1, 3)[n - 1]


def test_beam_search_of_many_leaves():
    potential = hct.Dasgupta(similarities(80, 1))
    found = beam_search(potential, 20, n_best=3)
    assert len(found) == 3
    assert potential.log_weight(found[0]) >= potential.log_weight(greedy(potential))


# ---- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("search", [greedy, beam_search])
def test_a_log_weight_that_is_not_a_number_is_named(search):
    potential = hct.FunctionPotential(_falls, np.full(4, 400.0))
    with pytest.raises(ValueError, match=r"the split .* is nan"):
        search(potential)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0}, "width must be a whole number, at least 1; got 0"),
        ({"width": 2.5}, "width must be a whole number"),
        ({"n_best": 0}, "n_best must be a whole number, at least 1"),
        ({"duplicates": "no"}, 'duplicates must be "clusters" or "weight"; got'),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        beam_search(hct.BetaSplitting(4), **options)


@pytest.mark.parametrize("search", [greedy, beam_search])
def test_not_a_potential(search):
    with pytest.raises(TypeError, match="expected a Potential, got list"):
        search([1, 2])


def test_too_wide_a_beam(monkeypatch):
    monkeypatch.setattr("hctrellis.support.memory.available_memory", lambda: 1 << 30)
    with pytest.raises(hct.TooLargeError, match="use a smaller width"):
        beam_search(hct.BetaSplitting(200), width=10_000)
