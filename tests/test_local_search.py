"""Iterated local search: every gain against the weights of trees, the answer against the exact."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hctrellis as hct
from cases import IMPOSSIBLE, NAMES
from gallery import PROBLEMS, momenta, points, quiet, similarities
from hctrellis.search import SearchResult, greedy, local, local_search
from hctrellis.search.greedy import agglomerate
from hctrellis.search.local import _Chain
from hctrellis.search.model import PlainModel, search_model
from hctrellis.support.arrays import UP

COMPILED = ("dasgupta", "ginkgo, root rate", "average", "ginkgo, some forbidden")
MOVED = [name for name in (*NAMES, *IMPOSSIBLE) if PROBLEMS[name].n >= 5]
CASES = [("plain", name) for name in MOVED] + [("compiled", name) for name in COMPILED]
RANDOM = np.random.default_rng(7)


def make(name):
    return quiet(PROBLEMS[name].make)


def chain(kind, potential, seed=0):
    """A chain that is at the greedy tree."""
    model = PlainModel(potential) if kind == "plain" else search_model(potential)
    made = _Chain(model, agglomerate(model)[1], seed)
    assert made._kernel.plant(made.kept.nodes, *made._arrays)
    return made


def tree_of(made):
    children = np.zeros((made._model.potential.n_leaves - 1, 2), np.int64)
    made._kernel.write_children(made._tree, children)
    return hct.Tree(children, labels=made._model.potential.labels)


def log_weights(potential, tree):
    """The log weight of a tree without its forbidden splits, and their number."""
    from hctrellis.clusters import split_members

    weights = potential.split_log_weights(*split_members(tree))
    return weights[weights > -math.inf].sum(), int((weights == -math.inf).sum())


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_gains_are_differences_of_log_weights(kind, name):
    """Random moves; before each, all places for a subtree are weighed and tried out."""
    potential, tolerance = make(name), max(1e-11, PROBLEMS[name].tolerance)
    made = chain(kind, potential)
    tree, kernel = made._tree, made._kernel
    for s in RANDOM.integers(len(tree.codes), size=6):
        kernel.perturb(*made._arrays, made._rng)
        if tree.nodes[s, UP] < 0:
            continue
        before, bars = log_weights(potential, tree_of(made))
        old, count, fine = kernel.weigh_moves(s, *made._arrays)
        gains, places = tree.gain[0] - tree.gain[0, old], tree.order[:count].copy()
        more = tree.bars[0] - tree.bars[0, old]
        assert fine
        for x in places:
            kernel.insert(s, x, tree.nodes)
            after, new_bars = log_weights(potential, tree_of(made))
            assert kernel.cut(s, tree.nodes) == x
            assert more[x] == new_bars - bars
            allowed = tolerance * max(1.0, abs(before), abs(after))
            assert gains[x] == pytest.approx(after - before, abs=allowed)
        kernel.insert(s, old, tree.nodes)


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_what_is_kept_agrees_with_the_tree(kind, name):
    """After perturbing, climbing and going back, often."""
    potential, tolerance = make(name), max(1e-11, PROBLEMS[name].tolerance)
    made = chain(kind, potential)
    made.start()
    for _ in range(4 if kind == "plain" else 30):
        made.run(1)
        expected, bars = log_weights(potential, tree_of(made))
        found = made._kernel.totals(made._tree)
        assert found[0] == bars
        assert found[1] == pytest.approx(expected, abs=tolerance * max(1.0, abs(expected)))
        fresh = chain(kind, potential)
        fresh._kernel.plant(made._tree.nodes, *fresh._arrays)
        assert fresh._tree.codes.tolist() == made._tree.codes.tolist()


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_never_worse_than_the_start(kind, name, monkeypatch):
    potential = make(name)
    if kind == "plain":
        monkeypatch.setattr(local, "search_model", PlainModel)
    start = hct.Tree(agglomerate(local.search_model(potential))[1], labels=potential.labels)
    found = local_search(potential, start, restarts=2, rng=1)
    least = potential.log_weight(start)
    allowed = PROBLEMS[name].tolerance * max(1.0, abs(least)) if least > -math.inf else 0.0
    assert found.log_weight >= least - allowed
    assert found.log_weight == potential.log_weight(found.tree)


MODELS = {
    "dasgupta": lambda n, seed: hct.Dasgupta(similarities(n, seed)),
    "average": lambda n, seed: hct.Linkage(points(n, seed), "average"),
    "ginkgo": lambda n, seed: hct.Ginkgo(momenta(n, seed), 1.5, 1.0),
}


@pytest.mark.parametrize("model", MODELS)
@given(seed=st.integers(0, 10**6), n=st.integers(8, 10))
@settings(max_examples=8, deadline=None)
def test_finds_the_best_tree(model, seed, n):
    potential = MODELS[model](n, seed)
    exact = quiet(hct.infer, potential).map_log_weight
    found = local_search(potential, restarts=500, rng=seed)
    assert found.log_weight == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("name", ["ginkgo, some forbidden", "ginkgo, most forbidden"])
def test_finds_a_way_out_of_forbidden_trees(name):
    potential = make(name)
    labels = potential.labels
    caterpillars = [labels[0]]
    for label in labels[1:]:
        caterpillars = [caterpillars[0] if len(caterpillars) == 1 else caterpillars, label]
    starts = [hct.Tree.from_nested(caterpillars, labels=labels), greedy(potential)]
    for start in starts:
        found = local_search(potential, start, restarts=200, rng=0)
        assert found.log_weight == pytest.approx(hct.infer(potential).map_log_weight)


@pytest.mark.parametrize("name", ["ginkgo, all forbidden", "numpy, all forbidden"])
def test_says_when_all_is_forbidden(name):
    potential = make(name)
    found = local_search(potential, restarts=5, rng=0)
    assert found.log_weight == -math.inf
    assert found.log_weights.tolist() == [-math.inf]
    assert len(found.trees()) == 1


def test_the_answer_depends_on_the_seed_alone():
    potential = hct.Dasgupta(similarities(30, 2))
    one, other = (local_search(potential, restarts=51, rng=5, threads=k) for k in (1, 2))
    assert one.children.tolist() == other.children.tolist()
    assert one.log_weights.tolist() == other.log_weights.tolist()
    assert one.n_restarts == other.n_restarts == 51
    generator = np.random.default_rng(5)
    again = local_search(potential, restarts=51, rng=generator)
    assert again.children.tolist() == one.children.tolist()


def test_trees_are_different_and_best_first():
    potential = hct.Dasgupta(similarities(14, 4))
    found = local_search(potential, restarts=300, rng=0)
    trees = found.trees()
    assert len(set(trees)) == len(trees) == len(found.log_weights) > 3
    assert found.children.shape == (len(trees), 13, 2)
    assert (np.diff(found.log_weights) <= 0).all()
    assert trees[0] == found.tree
    assert found.trees(2) == trees[:2]
    expected = [potential.log_weight(tree) for tree in trees]
    np.testing.assert_allclose(found.log_weights, expected, rtol=1e-10)


def test_trace_and_repr():
    potential = hct.Dasgupta(similarities(40, 1))
    found = local_search(potential, restarts=200, rng=0)
    seconds, weights = zip(*found.trace, strict=True)
    assert list(seconds) == sorted(seconds)
    assert list(weights) == sorted(weights)
    assert weights[-1] == pytest.approx(found.log_weight, rel=1e-12)
    assert repr(found).startswith("SearchResult(40 leaves, log weight -")
    assert isinstance(found, SearchResult)


def test_start_may_have_its_labels_in_another_order():
    potential = hct.Dasgupta(similarities(6, 1), labels=list("abcdef"))
    start = hct.Tree.from_newick("(f,(e,(d,(c,(b,a)))));")
    found = local_search(potential, start, restarts=100, rng=0)
    assert found.tree.labels == potential.labels
    assert found.log_weight == pytest.approx(hct.infer(potential).map_log_weight)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_smallest(n):
    potential = hct.Dasgupta(similarities(n, 3))
    found = local_search(potential, restarts=10, rng=0)
    assert found.log_weight == pytest.approx(quiet(hct.infer, potential).map_log_weight)


def test_many_leaves():
    potential = hct.Linkage(points(300, 1), "average")
    start = greedy(potential)
    found = local_search(potential, start, restarts=10, rng=0)
    assert found.log_weight > potential.log_weight(start)


def test_a_sum_with_a_constraint():
    potential = hct.Dasgupta(similarities(6, 5))
    given = hct.infer(potential).given(contains=[["0", "5"]])
    found = local_search(given.potential, restarts=15, rng=0)
    assert ["0", "5"] in found.tree
    assert found.log_weight == pytest.approx(given.map_log_weight)


def test_time_limit():
    potential = hct.Dasgupta(similarities(60, 5))
    found = local_search(potential, time_limit=0.3, rng=0)
    assert found.n_restarts > 0
    assert found.log_weight >= potential.log_weight(greedy(potential))


def test_progress():
    seen = []
    potential = hct.Dasgupta(similarities(8, 5))
    local_search(potential, restarts=20, rng=0, progress=lambda *done: seen.append(done))
    assert seen[-1] == (20, 20)


def _nan_for_odd_pairs(left, right, parent):
    return np.where(parent[0] == 101.0, math.nan, -parent[0] * parent[1])


def test_a_log_weight_that_is_not_a_number_is_named():
    """The start does not have the split, but some move makes it."""
    values = np.array([[100.0, 1], [1.0, 1], [2.0, 1], [3.0, 1], [40.0, 1], [50.0, 1]])
    potential = hct.FunctionPotential(_nan_for_odd_pairs, values)
    start = hct.Tree.from_nested((((((1, 2), 3), 4), 5), 0))
    with pytest.raises(ValueError, match=r"the split \{'[01]'\} \| \{'[01]'\} is nan"):
        local_search(potential, start, restarts=50, rng=0)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"restarts": -1}, ValueError, "restarts must be a whole number, not negative; got -1"),
        ({"restarts": 2.5}, ValueError, "restarts must be a whole number"),
        ({"time_limit": 0}, ValueError, "time_limit must be a finite number and positive"),
        ({"threads": 0}, ValueError, "threads must be a whole number, at least 1"),
        ({"start": "((0,1),2);"}, TypeError, "expected a Tree, got str"),
        ({"start": hct.Tree.from_newick("(a,b);")}, ValueError, "the tree has 2 leaves"),
        ({"progress": 3}, TypeError, "progress must be True, False or a function"),
    ],
)
def test_bad_arguments(options, error, message):
    with pytest.raises(error, match=message):
        local_search(hct.Dasgupta(similarities(4)), **options)
