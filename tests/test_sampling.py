"""Markov chains over trees: their moves are reversible, and what they say is true."""

import sys
from collections import Counter

import numpy as np
import pytest

import hctrellis as hct
import naive
from gallery import _models, as_sets, as_tree, built_in
from hctrellis.chains.anneal import anneal
from hctrellis.chains.chains import Chains, Records
from hctrellis.chains.frequencies import cluster_codes, cluster_members, frequencies
from hctrellis.chains.temper import Ladders
from hctrellis.kernels.gibbs import CLIMB
from hctrellis.sampling.redraw import Redraws

GRID = 200  # values of the number that draws the place


def children(trees):
    return np.array([tree.children for tree in trees], np.int16)


def as_clusters(rows):
    return as_sets(hct.Tree(rows.astype(np.int64)))


# ---- one move ---------------------------------------------------------------------------------


def chance(s, tree):
    """The probability that a cluster is cut: to come to it from a leaf, by steps up."""
    above = [[c for c in tree if leaf in c and c < s] for leaf in s]
    steps = [len(clusters) + (len(s) > 1) for clusters in above]
    n = len(frozenset().union(*tree))
    return sum(CLIMB**k * (1 - CLIMB) for k in steps) / n


def cuts(n):
    """A number from 0 to 1 for each leaf and number of steps up, and its probability."""
    steps = range(n)  # one more than there are from a leaf to the root
    rest = [CLIMB**k * (1 + CLIMB) / 2 for k in steps[:-1]] + [CLIMB ** steps[-1] / 2]
    share = [CLIMB**k * (1 - CLIMB) for k in steps[:-1]] + [CLIMB ** steps[-1]]
    return [(leaf + u) / n for leaf in range(n) for u in rest], np.tile(share, n) / n


def moves(tree, weights):
    """What cutting a node of a tree may lead to: for each node, trees and chances.

    The last is to come to the root, which is not cut.

    By sets: cutting s leaves the other clusters less s; putting it back beside x adds s to all that
    hold x, and x + s.
    """
    everything = frozenset().union(*tree)
    nodes = [*tree, *(frozenset([leaf]) for leaf in everything)]
    for s in nodes:
        if s == everything:
            continue
        p = chance(s, tree)
        inside = {c for c in tree if c <= s}
        rest = {c - s for c in nodes if not c <= s}
        found = Counter()
        for x in rest:
            others = {c | s if c > x else c for c in rest}
            new = frozenset(c for c in {*others, *inside, x | s} if len(c) > 1)
            found[new] = np.exp(weights[new])
        own = found.pop(tree)
        total = own + sum(found.values())
        found = {
            new: weight / (total - own) * min(1, (total - own) / (total - weight))
            for new, weight in found.items()
            if weight > 0
        }
        found[tree] = 1 - sum(found.values())
        yield {new: p * share for new, share in found.items()}
    yield {tree: 1 - sum(chance(s, tree) for s in nodes if s != everything)}


def grid(n):
    """Pairs of numbers that draw a move, all over their square, and the share of each."""
    which, shares = cuts(n)
    places = (np.arange(GRID) + 0.5) / GRID
    chosen = np.stack(np.meshgrid(which, places, indexing="ij"), axis=-1)
    return chosen.reshape(-1, 1, 1, 2), np.repeat(shares / GRID, GRID)


SMALL = {problem.name: problem for problem in _models(5, 0)}
MOVED = ["average", "ginkgo"]


@pytest.mark.parametrize("name", MOVED)
def test_moves_are_those_of_the_definition(name):
    """Trees of five leaves, all subtrees: frequencies over a grid are the probabilities."""
    weights = dict(naive.listing(5, SMALL[name].psi))
    potential = SMALL[name].make()
    chains = Chains(potential, 1)
    n = potential.n_leaves
    possible = [tree for tree, weight in weights.items() if weight > -np.inf]
    starts = children([as_tree(tree, n).reorder(potential.labels) for tree in possible])
    chosen, chances = grid(n)
    for tree, start in list(zip(possible, starts, strict=True))[:: max(1, len(possible) // 12)]:
        found = chains.run_with(np.repeat(start[None], len(chosen), axis=0), 1.0, chosen)
        counts = Counter()
        for new, p in zip(map(as_clusters, found.children[:, 0]), chances, strict=True):
            counts[new] += p
        expected = Counter()
        for shares in moves(tree, weights):
            expected.update(shares)
        assert set(counts) <= {new for new, share in expected.items() if share > 0}
        for new, share in expected.items():
            assert counts[new] == pytest.approx(share, abs=2 / GRID)


def tree_keys(rows):
    """A number for each tree, the same for the same clusters."""
    return cluster_codes(np.ascontiguousarray(rows)).sum(axis=1)


@pytest.mark.parametrize("n", [5, 6])
def test_all_moves_between_all_trees(n):
    """The whole matrix of the compiled moves, from a grid: as defined, stationary, reversible."""
    problem = {problem.name: problem for problem in _models(n, 0)}["average"]
    weights = dict(naive.listing(n, problem.psi))
    potential = problem.make()
    trees = list(weights)
    starts = children([as_tree(tree, n).reorder(potential.labels) for tree in trees])
    keys = tree_keys(starts)
    order = np.argsort(keys)
    chosen, chances = grid(n)
    chains = Chains(potential, 1)
    by_leaf = np.zeros((n, len(trees), len(trees)))
    leaves = (chosen[:, 0, 0, 0] * n).astype(int)
    for k, start in enumerate(starts):
        found = chains.run_with(np.repeat(start[None], len(chosen), axis=0), 1.0, chosen)
        ends = order[np.searchsorted(keys[order], tree_keys(found.children[:, 0]))]
        np.add.at(by_leaf[:, k], (leaves, ends), chances)
    p = np.exp([weights[tree] for tree in trees])
    p /= p.sum()
    for flows in n * p[:, None] * by_leaf:  # of each leaf alone: they take turns
        np.testing.assert_allclose(flows.sum(axis=0), p, atol=3 / GRID * p.max())  # stationary
        np.testing.assert_allclose(flows, flows.T, atol=1 / GRID * p.max())  # reversible
    matrix = by_leaf.sum(axis=0)
    number = {tree: k for k, tree in enumerate(trees)}
    for k in range(0, len(trees), max(1, len(trees) // 50)):  # as defined
        expected = np.zeros(len(trees))
        for shares in moves(trees[k], weights):
            for new, share in shares.items():
                expected[number[new]] += share
        np.testing.assert_allclose(matrix[k], expected, atol=2 / GRID)
        assert set(np.flatnonzero(matrix[k])) <= set(np.flatnonzero(expected))


@pytest.mark.parametrize("name", MOVED)
def test_moves_of_the_definition_are_reversible(name):
    weights = dict(naive.listing(5, SMALL[name].psi))
    for tree, weight in weights.items():
        if weight == -np.inf:
            continue
        flows = Counter()
        for shares in moves(tree, weights):
            flows.update({new: np.exp(weight) * share for new, share in shares.items()})
        for new, flow in flows.items():
            back = sum(shares.get(tree, 0.0) for shares in moves(new, weights))
            assert np.exp(weights[new]) * back == pytest.approx(flow, rel=1e-9)


def plain_moves(potential, starts, chosen):
    """The trees after one plain move from each start, by given numbers from 0 to 1."""
    chains = Chains(potential, 1)
    kernel = chains._model.kernel("metropolis")
    found = np.empty((len(starts), 1, *starts.shape[1:]), np.int16)
    assert kernel.run_plain_chains(
        starts, chosen, chains._rooms[0], found, np.empty((len(starts), 1))
    )
    return found[:, 0]


def matrix_of(n, starts, trees, found):
    """How often each start has led to each tree; found : trees after a move, start by start."""
    order = np.argsort(trees)
    ends = order[np.searchsorted(trees[order], tree_keys(found))].reshape(len(starts), -1)
    return np.array([np.bincount(row, minlength=len(trees)) for row in ends]) / ends.shape[1]


@pytest.mark.parametrize("n", [5, 6])
def test_plain_moves_between_all_trees(n):
    """Proposals are as probable as their reverse, and accepted as Metropolis says.

    So the moves are reversible: p_i q_ij min(1, p_j / p_i) is the same with i and j interchanged.
    """
    problem = {problem.name: problem for problem in _models(n, 0)}["average"]
    weights = dict(naive.listing(n, problem.psi))
    potential = problem.make()
    starts = children([as_tree(tree, n).reorder(potential.labels) for tree in weights])
    keys, log_p = tree_keys(starts), np.array([*weights.values()])
    chances = (np.arange(5) + 0.5) / 5
    m = 2 * n - 1
    jump = [(0.75, (s + 0.5) / m, (x + 0.5) / m) for s in range(m) for x in range(m)]
    swap = [(0.25, (p + 0.5) / (n - 1), c) for p in range(n - 1) for c in (0.25, 0.75)]
    for kind in (jump, swap):

        def moved(accepted, kind=kind):
            grid = np.array([(*first, u) for first in kind for u in accepted])[:, None, None, :]
            chosen = np.tile(grid, (len(starts), 1, 1, 1))
            new = plain_moves(potential, np.repeat(starts, len(grid), axis=0), chosen)
            return matrix_of(n, starts, keys, new)

        proposed, found = moved([0.0]), moved(chances)  # the number 0 accepts everything
        np.testing.assert_array_equal(proposed, proposed.T)
        assert (np.count_nonzero(proposed, axis=1) > n - 2).all()
        accepted = np.exp(np.minimum(0.0, log_p[None, :] - log_p[:, None]))
        off = np.abs(found - proposed * accepted)
        np.fill_diagonal(off, 0.0)
        assert (off <= proposed / (2 * len(chances)) + 1e-12).all()
        assert (found < proposed).any() and found.sum(axis=1) == pytest.approx(1.0)


def test_redraws_from_a_trellis():
    """From each tree of a trellis of five leaves to each other, by its share; others stay."""
    weights = dict(naive.listing(5, SMALL["average"].psi))
    potential = SMALL["average"].make()
    starts = children([as_tree(tree, 5).reorder(potential.labels) for tree in weights])
    keys = tree_keys(starts)
    log_p = np.array([*weights.values()])
    best = [hct.Tree(starts[k].astype(int), labels=potential.labels) for k in np.argsort(-log_p)]
    trellis = hct.SparseTrellis.from_trees(best[:4], splits="all")
    redraws = Redraws(trellis.solve(potential), np.random.default_rng(0))
    held = redraws.hold(cluster_codes(starts))
    assert 4 <= held.sum() <= 60
    times = 1000
    found = redraws.renew(np.repeat(starts[held], times, axis=0))
    matrix = matrix_of(5, starts[held], keys, found)
    p = np.where(held, np.exp(log_p - log_p.max()), 0.0)
    p /= p.sum()
    spread = np.sqrt(p * (1 - p) / times)
    assert (np.abs(matrix - p) <= 5 * spread + 1 / times).all()
    np.testing.assert_array_equal(redraws.renew(starts[~held]), starts[~held])


class Fixed:
    """In place of random numbers, always the same."""

    def __init__(self, number):
        self._number = number

    def random(self, shape):
        return np.full(shape, self._number)


def test_swaps_of_tempering_are_reversible():
    """Every pair of trees of five leaves at two heats, some of them with forbidden splits."""
    low, high = 0.3, 0.8
    log_w = np.array([*dict(naive.listing(5, SMALL["average"].psi)).values()])
    n_forbidden = np.arange(len(log_w)) % 7 % 3
    here, there = map(np.ravel, np.meshgrid(*2 * [np.arange(len(log_w))], indexing="ij"))
    chains = Chains(SMALL["average"].make(), 1)
    pair = np.stack([here, there], axis=1)
    records = Records(np.zeros((*pair.shape, 4, 2), np.int16), log_w[pair], n_forbidden[pair])
    numbers = (np.arange(20) + 0.5) / 20
    accepted = np.zeros(len(pair))
    for number in numbers:
        ladders = Ladders(chains, np.array([low, high]), records.children, Fixed(number))
        accepted += (ladders._swap(records) == [1, 0]).all(axis=1) / len(numbers)
    log_t = [h * log_w - 10 * h / (1 - h) * n_forbidden for h in (low, high)]
    gain = log_t[0][there] + log_t[1][here] - log_t[0][here] - log_t[1][there]
    expected = np.exp(np.minimum(0.0, gain))
    np.testing.assert_allclose(accepted, expected, atol=0.5 / len(numbers) + 1e-9)
    joint = np.exp(log_t[0][here] - log_t[0].max() + log_t[1][there] - log_t[1].max())
    flows = (joint * accepted).reshape(len(log_w), -1)
    np.testing.assert_allclose(flows, flows.T, atol=joint.max() / len(numbers))


# ---- chains, annealing, tempering -------------------------------------------------------------


def marginals(potential, records):
    """Frequencies of clusters with errors, beside the exact probabilities."""
    flat = records.children.reshape(-1, *records.children.shape[2:])
    codes = cluster_codes(flat)[:, :-1].reshape(*records.children.shape[:2], -1)
    found = frequencies(codes, 0.02)
    members = cluster_members(flat[found.places[:, 0]], found.places[:, 1])
    masks = [sum(1 << int(i) for i in np.flatnonzero(row)) for row in members]
    post = hct.infer(potential)
    return found, np.array([post.cluster_probability(mask) for mask in masks])


@pytest.mark.parametrize("name", ["average", "ginkgo"])
def test_chains_have_the_right_marginals(name):
    potential = built_in(9)[name]
    chains = Chains(potential)
    rng = np.random.default_rng(1)
    starts = children([hct.greedy(potential)] * 8)
    warm = chains.run(starts, 1.0, rng, 1, 100).children[:, 0]
    found, exact = marginals(potential, chains.run(warm, 1.0, rng, 512, 5))
    probable = exact >= 0.05
    off = np.abs(found.means - exact)[probable] / found.errors[probable]
    assert off.max() < 5
    assert (off < 2).mean() > 0.85
    assert found.errors[probable].max() < 0.05


@pytest.mark.parametrize("name", ["average", "ginkgo"])
def test_annealing_estimates_log_z(name):
    potential = built_in(9)[name]
    chains, rng = Chains(potential), np.random.default_rng(2)
    pilot = anneal(chains, 16, 8, 5, rng)
    runs = [anneal(chains, 32, 16, 5, rng, pilot.heats) for _ in range(4)]
    estimates = np.array([run.log_partition for run in runs])
    assert np.abs(estimates.mean() - hct.infer(potential).log_partition) < 0.15
    assert all(run.n_ancestors >= 5 for run in runs)
    assert pilot.heats[0] == 0 and pilot.heats[-1] == 1 and list(pilot.heats) == sorted(pilot.heats)


def crossed(side):
    """Leaf = (row, column): rows and columns are equally probable, by symmetry."""
    row, column = np.divmod(np.arange(side**2), side)
    shared = (row[:, None] == row).astype(float) + (column[:, None] == column)
    return hct.Dasgupta(shared - np.diag(np.diag(shared)), beta=1.0), row, column


def test_one_kernel_for_heats_of_all_kinds():
    """One number for all chains, a list, and a part of an array; compiling takes seconds."""
    chains, rng = Chains(built_in(5)["average"]), np.random.default_rng(0)
    starts = chains.uniform(4, rng)
    for heats in (1.0, [0.0, 0.5, 1.0, 1.0], np.linspace(0.0, 1.0, 8)[::2]):
        chains.run(starts, heats, rng, 2, 3)
    assert len(chains._kernel.run_chains.signatures) == 1


def test_tempering_finds_both_modes_of_a_crossed_design():
    potential, row, column = crossed(4)
    chains, rng = Chains(potential), np.random.default_rng(3)
    heats = np.array(anneal(chains, 16, 8, 8, rng).heats)
    starts = chains.uniform(4 * len(heats), rng).reshape(4, len(heats), 15, 2)
    ladders = Ladders(chains, heats, starts, rng)
    trees = ladders.run(600, 8).children[:, 100:]
    codes = cluster_codes(trees.reshape(-1, 15, 2))
    shares = [np.isin(codes, group_codes(16, kind)).any(axis=1).mean() for kind in (row, column)]
    assert shares == pytest.approx([0.5, 0.5], abs=0.15)
    assert (ladders.round_trips >= 5).all()
    estimates = ladders.log_partitions(100)
    assert estimates.mean() == pytest.approx(hct.infer(potential).log_partition, abs=0.3)


def group_codes(n, kind):
    """The codes of the clusters of leaves of one kind."""
    from hctrellis.chains.frequencies import leaf_codes

    codes = leaf_codes(n)
    return [np.bitwise_xor.reduce(codes[kind == k]) for k in np.unique(kind)]


def test_leaves_take_turns():
    chains = Chains(built_in(9)["average"], 1)
    parts = [chains.numbers(3, 4, 5, np.random.default_rng(k)).reshape(3, 20, 2) for k in range(9)]
    found = np.concatenate(parts, axis=1) * 9
    leaves, sizes = found[..., 0].astype(int), found[..., 0] % 1
    for row in leaves.reshape(-1, 9):
        assert set(row) == set(range(9))
    assert found.max() < 9
    assert [sizes.mean(), sizes.std()] == pytest.approx([0.5, 12**-0.5], abs=0.05)
    assert len({*sizes[:, 0]}) == 3  # not the same for all chains


def test_threads_do_not_change_chains():
    potential = built_in(9)["average"]
    starts = children([hct.greedy(potential)] * 5)
    one, two = (
        Chains(potential, k).run(starts, 1.0, np.random.default_rng(1), 3, 4) for k in (1, 2)
    )
    np.testing.assert_array_equal(one.children, two.children)
    trees = [hct.Tree(rows.astype(int)) for rows in one.children[:, -1]]
    np.testing.assert_allclose(one.log_weights[:, -1], [*map(potential.log_weight, trees)])


def test_notes_go_to_functions_that_take_them():
    from hctrellis.support.progress import noted

    plain, full = [], []
    with noted(lambda done, total: plain.append((done, total)), "x") as tell:
        tell(1, 2, "a note")
    with noted(lambda done, total, note="": full.append((done, total, note)), "x") as tell:
        tell(1, 2, "a note")
    assert (plain, full) == ([(1, 2)], [(1, 2, "a note")])


@pytest.mark.parametrize("rich", [True, False])
@pytest.mark.parametrize("short", [True, False])
def test_bars_say_when_code_is_compiled(rich, short, capsys, monkeypatch):
    from hctrellis.support import compiling
    from hctrellis.support.progress import COMPILING, bar

    monkeypatch.setenv("FORCE_COLOR", "1")  # rich then takes any stream for a terminal
    monkeypatch.setenv("COLUMNS", "120")
    if not rich:
        monkeypatch.setitem(sys.modules, "rich.console", None)
    with bar("work", short=short) as update:
        update(1, 2)
        assert COMPILING not in capsys.readouterr().err
        compiling.begin()
        compiling.begin()
        compiling.end()
        compiling.end()
        assert COMPILING in capsys.readouterr().err
        update(2, 2)
    compiling.begin()
    compiling.end()
    assert COMPILING not in capsys.readouterr().err
