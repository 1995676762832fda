"""Sparse trellises grown to fit, built on other data, and put in order."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

import hctrellis as hct
from hctrellis import build, orders, simulate
from hctrellis.build.grow import Step

N = 11


def jet(n, seed=1):
    return simulate.ginkgo(1, leaves=n, t_cut=1.21, rng=seed)[0].potential()


def dasgupta(n, seed=1):
    w = np.random.default_rng(seed).random((n, n))
    return hct.Dasgupta(w + w.T)


# ---- grown ------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [jet, dasgupta])
def test_finds_the_best_tree_with_a_tenth_of_the_clusters(make):
    for seed in range(2):
        potential = make(N, seed)
        exact = hct.infer(potential)
        growth = hct.grow(potential, max_clusters=2**N // 10, rng=seed, time_limit=20.0)
        post = hct.infer(potential, trellis=growth)
        assert growth.trellis.n_clusters <= 2**N // 10
        assert post.map_log_weight == pytest.approx(exact.map_log_weight, rel=1e-12)
        assert exact.map_log_weight < post.log_partition < exact.log_partition
        assert not growth.converged
        assert post.growth is growth and not post.is_exact


def test_grows_to_the_full_trellis_if_there_is_room():
    potential = jet(7)
    exact = hct.infer(potential)
    growth = hct.grow(potential, rng=1)
    assert growth.converged
    assert growth.trace[-1].log_partition == pytest.approx(exact.log_partition, abs=1e-3)


def test_without_memory_for_a_beam(monkeypatch):
    potential = dasgupta(200)
    monkeypatch.setattr("hctrellis.support.memory.available_memory", lambda: 20 << 20)
    with pytest.raises(hct.TooLargeError, match="a beam search over 200 leaves"):
        hct.beam_search(potential, width=100)
    growth = hct.grow(potential, 500, None, rng=1, restarts=1, max_rounds=1)
    assert growth.trace[-1].map_log_weight >= potential.log_weight(hct.greedy(potential))


def test_trace_rises():
    growth = hct.grow(dasgupta(10), max_clusters=200, rng=1)
    assert isinstance(growth.trace[0], Step)
    for before, after in pairwise(growth.trace):
        assert after.seconds >= before.seconds
        assert after.log_partition >= before.log_partition
        assert after.map_log_weight >= before.map_log_weight
        assert after.n_clusters <= 200
    assert f"({len(growth.trace) - 1} rounds" in repr(growth)


def followed_growth(**options):
    calls = []
    growth = hct.grow(
        dasgupta(10), 200, rng=1, progress=lambda *call: calls.append(call), **options
    )
    done, totals = zip(*calls, strict=True)
    assert list(done) == sorted(done) and calls[-1][0] == calls[-1][1]
    return growth, done, set(totals)


def test_progress_in_seconds_or_rounds():
    _, done, totals = followed_growth(time_limit=20.5)
    assert len(done) > 1 and totals == {21}
    growth, done, totals = followed_growth(time_limit=None, n_restarts=1, max_rounds=2)
    assert {*done} == {0, 1, 2} and totals == {2} and len(growth.trace) == 3
    growth, done, totals = followed_growth(time_limit=None, n_restarts=1)
    assert None in totals and done[-1] == len(growth.trace) - 1


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_leaves(n):
    potential = dasgupta(n)
    growth = hct.grow(potential, rng=1)
    assert growth.converged
    assert growth.trellis.n_trees == hct.FullTrellis(n).n_trees
    assert growth.trace[-1].log_partition == pytest.approx(hct.infer(potential).log_partition)


def test_every_tree_forbidden():
    momenta = simulate.ginkgo(1, leaves=6, rng=1)[0].momenta
    growth = hct.grow(hct.Ginkgo(momenta, 1.5, 1e9), rng=1, time_limit=5.0)
    assert growth.trace[-1].log_partition == -math.inf
    assert growth.trace[-1].map_log_weight == -math.inf
    assert not growth.converged


def test_the_same_seed_gives_the_same_trellis():
    potential = dasgupta(9)
    one, two = (hct.grow(potential, max_clusters=100, rng=4) for _ in range(2))
    assert one.trace[-1][1:] == two.trace[-1][1:]


def test_rounds_instead_of_time():
    options = {"max_clusters": 200, "time_limit": None, "rng": 4, "restarts": 1}
    growths = [hct.grow(dasgupta(10), max_rounds=k, **options) for k in (1, 2)]
    assert [len(growth.trace) for growth in growths] == [2, 3]
    assert growths[0].trace[-1][1:] == growths[1].trace[1][1:]
    assert not growths[0].converged


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_clusters": 0}, "max_clusters"),
        ({"max_clusters": 2.5}, "max_clusters"),
        ({"time_limit": -1.0}, "time_limit"),
        ({"time_limit": math.nan}, "time_limit"),
    ],
)
def test_bad_budgets(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        hct.grow(dasgupta(4), **options)


# ---- built on other data ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def jets():
    return simulate.ginkgo(60, leaves=6, rng=3)


@pytest.mark.parametrize("order", ["norm", "traversal", "random"])
def test_from_simulator_holds_the_true_trees(jets, order):
    trellis = build.from_simulator(jets, order=order, rng=1)
    trellis.validate()
    assert trellis.n_trees >= len(set(jets.newicks())) / 60
    if order == "norm":
        for one in jets[:10]:
            placed = trellis.reorder(orders.by_norm(one.momenta))
            assert one.tree in placed


def test_a_trellis_serves_other_jets(jets):
    trellis = build.from_simulator(jets, order="norm")
    for one in simulate.ginkgo(5, leaves=6, rng=9):
        model = one.potential()
        order = orders.by_norm(one.momenta)
        sparse, full = hct.infer(model, trellis=trellis, order=order), hct.infer(model)
        assert sparse.log_partition <= full.log_partition
        assert sparse.map_log_weight <= full.map_log_weight
        assert sparse.labels == full.labels
        again = hct.infer(model, trellis=trellis.reorder(order))
        assert again.log_partition == sparse.log_partition


def test_from_beam_search(jets):
    model = jets[0].potential()
    one = build.from_beam_search(model)
    assert hct.beam_search(model)[0] in one
    assert one.n_clusters > 2 * 6 - 1
    few = build.from_beam_search(model, n_best=1)
    assert few.n_trees == 1
    models = [jet.potential() for jet in jets[:5]]
    several = build.from_beam_search(models, order="norm")
    assert several.n_clusters >= build.from_beam_search(models[:2], order="norm").n_clusters
    with pytest.raises(ValueError, match="matched by an order"):
        build.from_beam_search(models)


def test_from_linkages_and_bootstrap():
    from scipy.cluster.hierarchy import linkage

    rows = np.random.default_rng(0).normal(size=(8, 5))
    trellis = build.from_linkages(rows, methods=("average", "ward"))
    for method in ("average", "ward"):
        assert hct.Tree.from_linkage(linkage(rows, method)) in trellis
    more = build.from_bootstrap(rows, size=20, methods=("average",), rng=1)
    assert more.n_clusters > build.from_linkages(rows, methods=("average",)).n_clusters
    assert more.n_trees == build.from_bootstrap(rows, 20, ("average",), rng=1).n_trees


def test_builders_refuse():
    with pytest.raises(ValueError, match="expected some jets to make a sparse trellis from"):
        build.from_simulator([])
    with pytest.raises(ValueError, match="same number of leaves; got 5, 6"):
        build.from_simulator(
            [*simulate.ginkgo(1, leaves=5, rng=1), *simulate.ginkgo(1, leaves=6, rng=1)]
        )
    with pytest.raises(ValueError, match='order must be "norm"'):
        build.from_simulator(simulate.ginkgo(1, leaves=5, rng=1), order="size")
    with pytest.raises(ValueError, match="needs momenta; Dasgupta has none"):
        build.from_beam_search([dasgupta(4), dasgupta(4)], order="norm")
    with pytest.raises(ValueError, match="at least two rows"):
        build.from_linkages([[1.0, 2.0]])


# ---- orders -----------------------------------------------------------------------------------


def test_orders():
    assert orders.by_key([1.0, 3.0, 2.0, 3.0]).tolist() == [1, 3, 2, 0]
    momenta = [[9, 1, 0, 0], [9, 0, 5, 0], [9, 0, 0, -3]]
    assert orders.by_norm(momenta).tolist() == [1, 2, 0]
    assert sorted(orders.at_random(7, rng=1).tolist()) == list(range(7))
    assert orders.at_random(7, rng=1).tolist() == orders.at_random(7, rng=1).tolist()
    caterpillar = hct.Tree.from_nested(((((3, 1), 0), 4), 2))
    assert orders.by_traversal(caterpillar).tolist() == [0, 1, 3, 4, 2]
    with pytest.raises(ValueError, match="one number per leaf"):
        orders.by_key([[1.0]])
    with pytest.raises(ValueError, match="rows"):
        orders.by_norm([1.0, 2.0])


@pytest.mark.parametrize("seed", range(5))
def test_place_and_reorder_are_inverse(seed):
    rng = np.random.default_rng(seed)
    tree = hct.infer(dasgupta(7, seed)).map_tree
    order = rng.permutation(7)
    trellis = hct.SparseTrellis.from_children([orders.place(tree, order)])
    assert tree in trellis.reorder(order)


def test_order_must_be_a_permutation():
    trellis = hct.SparseTrellis.from_trees([hct.Tree.from_nested(((0, 1), 2))])
    with pytest.raises(ValueError, match=r"has each of 0 \.\. 2 once"):
        hct.infer(dasgupta(3), trellis=trellis, order=[0, 0, 1])
