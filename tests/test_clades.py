"""Trees as data: the conditional clade distribution against its definition."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import hctrellis as hct
import naive
from hctrellis.clades.contexts import PSEUDO_TREES, tree_sums, with_contexts
from hctrellis.clades.distribution import CladeDistribution
from hctrellis.clades.graph import observed
from hctrellis.treefiles import read_nexus, write_nexus
from hctrellis.treefiles.weighted import WeightedTrees
from hctrellis.trellis.numbered import number_trees

pytestmark = pytest.mark.filterwarnings("ignore:every tree has the same weight")


def random_tree(n: int, rng: np.random.Generator) -> hct.Tree:
    children, free = [], list(range(n))
    for k in range(n - 1):
        pair = [free.pop(rng.integers(len(free))) for _ in range(2)]
        children.append(pair)
        free.append(n + k)
    return hct.Tree(children)


def log_probability(tree: hct.Tree, trees: list[hct.Tree]) -> float:
    """The product over splits of how often the parent is split so, among trees that have it."""
    splits = Counter(split for other in trees for split in other.splits())
    parents = Counter(parent for other in trees for parent, _, _ in other.splits())
    total = 0.0
    for split in tree.splits():
        if splits[split] == 0:
            return -math.inf
        total += math.log(splits[split] / parents[split[0]])
    return total


@settings(max_examples=15, deadline=None)
@given(st.integers(2, 7), st.integers(1, 12), st.integers(0, 10**6))
def test_probabilities_are_products_of_frequencies(n, size, seed):
    rng = np.random.default_rng(seed)
    trees = [random_tree(n, rng) for _ in range(size)]
    model = CladeDistribution(trees)
    post = hct.infer(model, model.trellis)
    assert post.log_partition == pytest.approx(0, abs=1e-9)
    for tree in (*trees[:3], *(random_tree(n, rng) for _ in range(3))):
        expected = log_probability(tree, trees)
        assert model.log_weight(tree) == pytest.approx(expected, abs=1e-9)
        assert post.log_probability(tree) == pytest.approx(expected, abs=1e-9)


def test_cluster_probabilities_of_one_tree():
    tree = hct.Tree.from_newick("(((a,b),c),(d,e));")
    model = CladeDistribution([tree, tree])
    post = hct.infer(model, model.trellis)
    assert post.map_tree == tree
    assert post.n_trees == 1
    assert [post.cluster_probability(mask) for mask in tree.clusters()] == [1.0] * 4


def test_labels_in_any_order():
    texts = ("((a,b),c);", "(c,(b,a));", "((c,a),b);")
    model = CladeDistribution([hct.Tree.from_newick(text) for text in texts])
    post = hct.infer(model, model.trellis)
    assert post.cluster_probability(["a", "b"]) == pytest.approx(2 / 3)


AB, AC = (hct.Tree.from_newick(text) for text in ("((a,b),c);", "((a,c),b);"))


def test_weights_of_files_are_honoured():
    found = read_nexus(write_nexus(WeightedTrees([AB, AC], [0.9, 0.1])))
    model = CladeDistribution(found)
    post = hct.infer(model, model.trellis)
    assert post.cluster_probability(["a", "b"]) == pytest.approx(0.9)
    assert [math.exp(post.log_probability(tree)) for tree in (AB, AC)] == pytest.approx([0.9, 0.1])
    assert model.n_draws is None
    assert model.interval(["a", "b"]) is None


@settings(max_examples=15, deadline=None)
@given(st.integers(2, 6), st.lists(st.integers(0, 4), min_size=1, max_size=8), st.integers(0, 99))
def test_whole_weights_are_repetitions(n, times, seed):
    assume(any(times))
    rng = np.random.default_rng(seed)
    trees = [random_tree(n, rng) for _ in times]
    model = CladeDistribution(trees, weights=times)
    again = CladeDistribution([t for t, k in zip(trees, times, strict=True) for _ in range(k)])
    assert model.trellis == again.trellis == hct.SparseTrellis.from_trees(trees, weights=times)
    assert model.n_draws == again.n_draws == sum(times)
    for tree in trees:
        assert model.log_weight(tree) == again.log_weight(tree)
        halves = CladeDistribution(trees, weights=np.divide(times, 2 * sum(times)))
        assert halves.log_weight(tree) == pytest.approx(model.log_weight(tree), abs=1e-12)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], "weights has shape \\(1,\\) for 2 trees"),
        ([1.0, -0.5], "weights\\[1\\] is -0.5"),
        ([1.0, math.nan], "not finite"),
        ([0.0, 0.0], "all weights are 0"),
    ],
)
def test_weights_that_are_none_are_refused(weights, message):
    for make in (CladeDistribution, hct.SparseTrellis.from_trees):
        with pytest.raises(ValueError, match=message):
            make([AB, AC], weights=weights)


def test_trees_with_and_without_weights_are_not_joined():
    with pytest.raises(ValueError, match="others have none"):
        WeightedTrees([AB]) + WeightedTrees([AC], [1.0])


@pytest.mark.parametrize("seed", [0, 3, 13, 17])
def test_a_cluster_of_all_trees_has_probability_one(seed):
    """Whatever the rounding, and 1 is said of no other cluster."""
    rng = np.random.default_rng(seed)
    above = [random_tree(7, rng).relabel("abcdefX").to_newick() for _ in range(200)]
    model = CladeDistribution([hct.Tree.from_newick(t.replace("X", "((g,h),i)")) for t in above])
    post = hct.infer(model, model.trellis)
    assert post.cluster_probability(["g", "h"]) == post.cluster_probability(list("ghi")) == 1.0
    assert (post.cluster_probabilities(0.0).probabilities == 1.0).sum() == 2
    assert model.interval(["g", "h"]) == pytest.approx((0.98754, 1.0), abs=1e-5)
    assert model.interval(["a", "g"]) == pytest.approx((0.0, 0.01246), abs=1e-5)


def test_different_labels_are_refused():
    trees = [hct.Tree.from_newick("((a,b),c);"), hct.Tree.from_newick("((a,b),d);")]
    with pytest.raises(ValueError, match="different labels, for instance 'c'"):
        CladeDistribution(trees)


def test_repr_says_how_many():
    assert repr(CladeDistribution([hct.Tree([[0, 1]])])) == "CladeDistribution(2 leaves, 1 trees)"


# ---- models, against listing all trees --------------------------------------------------------


def every_tree(n):
    return [hct.Tree.from_clusters([sorted(a | b) for a, b in t]) for t in naive.all_trees(n)]


def log_context_probability(tree, trees, length):
    """As for CCD1, with splits counted apart by the `length` nearest siblings above."""

    def contexts(one):
        return [(cluster, path[:length], left) for cluster, path, left in contexts_of(one)]

    splits = Counter(item for other in trees for item in contexts(other))
    parents = Counter(item[:2] for other in trees for item in contexts(other))
    total = 0.0
    for item in contexts(tree):
        if splits[item] == 0:
            return -math.inf
        total += math.log(splits[item] / parents[item[:2]])
    return total


@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_contexts_are_counted(length, seed):
    rng = np.random.default_rng(seed)
    trees = [random_tree(5, rng) for _ in range(30)]
    model = CladeDistribution(trees, model=f"ccd{length + 1}")
    every = every_tree(5)
    expected = [log_context_probability(tree, trees, length) for tree in every]
    assert model.log_probabilities(every) == pytest.approx(expected, abs=1e-9)
    assert model.log_probabilities(every).max() > -math.inf


def contexts_of(tree):
    """Each split of a tree: its cluster, the siblings above it, nearest first, its left child."""
    splits = {parent: (left, right) for parent, left, right in tree.splits()}
    todo = [((1 << tree.n_leaves) - 1, ())]
    while todo:
        cluster, path = todo.pop()
        left, right = splits[cluster]
        yield cluster, path, left
        for child, sibling in ((left, right), (right, left)):
            if child.bit_count() > 1:
                todo.append((child, (sibling, *path)))


@pytest.mark.parametrize("length", [1, 2, 3])
def test_contexts_lean_on_shorter_ones(length):
    """Own probabilities or those of the shorter context, by Bayes' rule."""
    rng = np.random.default_rng(5)
    trees, draws, n = [random_tree(6, rng) for _ in range(25)] * 2, 80.0, 6
    runs = hct.TreeRuns.from_trees(trees)
    numbered = number_trees(runs.children)
    graph = observed(numbered, runs.shares)
    trellis, chances = with_contexts(
        graph, numbered, runs.children, runs.shares / len(trees), length, draws
    )
    seen = {}  # (cluster, path): how many trees split it how
    for tree in trees:
        for cluster, path, left in contexts_of(tree):
            for k in range(min(length, len(path)) + 1):
                seen.setdefault((cluster, path[:k]), Counter())[left] += draws / len(trees)

    def chance(cluster, path, left):
        if not path:
            return seen[cluster, ()][left] / seen[cluster, ()].total()
        counts, rest = seen.get((cluster, path), Counter()), path[:-1]
        log_own = math.lgamma(PSEUDO_TREES) - math.lgamma(PSEUDO_TREES + counts.total())
        log_shorter = 0.0
        for split, times in counts.items():
            shorter = chance(cluster, rest, split)
            log_own += math.lgamma(times + PSEUDO_TREES * shorter)
            log_own -= math.lgamma(PSEUDO_TREES * shorter)
            log_shorter += times * math.log(shorter)
        shorter, w = chance(cluster, rest, left), 1 / (1 + math.exp(log_shorter - log_own))
        own = (counts[left] + PSEUDO_TREES * shorter) / (counts.total() + PSEUDO_TREES)
        return w * own + (1 - w) * shorter

    def log_chance(tree):
        total = 0.0
        for cluster, path, left in contexts_of(tree):
            found = chance(cluster, path[:length], left) if (cluster, ()) in seen else 0.0
            total += math.log(found) if found > 0 else -math.inf
        return total

    every = every_tree(n)
    with np.errstate(divide="ignore"):
        logs = np.log(chances)
    expected = [log_chance(tree) for tree in every]
    children = hct.TreeRuns.from_trees(every).children
    assert tree_sums(trellis.vertices, children, logs) == pytest.approx(expected, abs=1e-9)
    assert np.exp(expected).sum() == pytest.approx(1)


def test_rare_clusters_give_more_to_splits_that_no_tree_has():
    """s(f) / (1 - s(f)) is that of a cluster of all trees, divided by the root of f."""
    trees = [hct.Tree.from_newick(t) for t in ("(((a,b),c),d);", "(((a,b),d),c);")]
    model = CladeDistribution(trees, weights=[0.96, 0.04], smoothing=0.01)
    post = hct.infer(model)
    for outer, frequency in (("c", 0.96), ("d", 0.04)):
        found = 1 - post.given([["a", "b", outer]]).cluster_probability(["a", "b"])
        share = 0.01 / (0.01 + 0.99 * math.sqrt(frequency))
        least = math.sqrt(1e-4)  # for {a, outer} and {b, outer}, which no tree has
        assert found == pytest.approx(share * 2 * least / (1 + 2 * least))


def test_smoothing_is_chosen_by_trees_left_out():
    """Against trying every value; and the parts are those of the runs."""
    rng = np.random.default_rng(3)
    pool = [random_tree(6, rng) for _ in range(30)]
    some = [pool[k] for k in rng.integers(30, size=40)]
    runs = hct.TreeRuns.from_trees(some)
    tried = {}
    for power in range(-4, 5):
        smoothing, total = 1e-3 * 10 ** (power / 2), 0.0
        for part in np.array_split(np.arange(40), 5):
            rest = [tree for k, tree in enumerate(some) if k not in part]
            made = CladeDistribution(rest, model="ccd2", smoothing=smoothing)
            logs = made.log_probabilities([some[k] for k in part])
            total += np.maximum(logs, math.log(2.0**-52)).sum()
        tried[smoothing] = total
    found = CladeDistribution(runs, model="ccd2", smoothing="auto")
    assert found.smoothing == pytest.approx(max(tried, key=tried.get))
    assert found.smoothing > 1e-3
    same = hct.TreeRuns.from_trees([pool[0]] * 300)
    assert CladeDistribution(same, smoothing="auto").smoothing < 1e-3
    assert CladeDistribution(pool[:2], weights=[0.7, 0.3], smoothing="auto").smoothing == 1e-3


@pytest.mark.parametrize("seed", [0, 1])
def test_ccd0_is_the_product_of_frequencies(seed):
    rng = np.random.default_rng(seed)
    trees = [random_tree(5, rng) for _ in range(10)]
    often = Counter(mask for tree in trees for mask in tree.clusters())
    every = every_tree(5)
    products = np.array([math.prod(often[m] / 10 for m in tree.clusters()) for tree in every])
    model = CladeDistribution(trees, model="ccd0")
    found = np.exp(model.log_probabilities(every))
    assert found == pytest.approx(products / products.sum(), abs=1e-12)


@pytest.mark.parametrize("model", ["ccd0", "ccd1", "ccd2", "ccd3", "ccd5"])
@pytest.mark.parametrize("smoothing", [0.0, 0.01])
def test_every_question_against_all_trees(model, smoothing):
    """A posterior over clusters with contexts answers as if all trees had been listed."""
    rng = np.random.default_rng(1)
    trees = [random_tree(6, rng) for _ in range(12)]
    made = CladeDistribution(trees, model=model, smoothing=smoothing)
    post, every = hct.infer(made), every_tree(6)
    made.trellis.validate()
    logs = made.log_probabilities(every)
    p = np.exp(logs)
    assert p.sum() == pytest.approx(1, abs=1e-12)
    assert post.log_partition == pytest.approx(0, abs=1e-12)
    assert post.is_exact
    assert post.n_trees == (p > 0).sum()
    assert post.entropy == pytest.approx(-(p[p > 0] * logs[p > 0]).sum())
    assert [tree in made.trellis for tree in every] == (p > 0).tolist()
    masses = Counter()
    for tree, mass in zip(every, p.tolist(), strict=True):
        for mask in tree.clusters():
            masses[mask] += mass
    for mask in range(1, 64):
        if mask.bit_count() > 1:
            assert post.cluster_probability(mask) == pytest.approx(masses[mask], abs=1e-12)
    table = post.cluster_probabilities(1e-9)
    assert len(set(table.masks)) == len(table) == sum(x > 1e-9 for x in masses.values()) - 1
    inner = trees[0].subtree(trees[0].masks[-2])
    held = [inner.cluster_labels() <= tree.cluster_labels() for tree in every]
    assert post.subtree_probability(inner) == pytest.approx(p[held].sum(), abs=1e-12)
    parent, left, right = trees[0].splits()[-2]
    held = [(parent, left, right) in tree.splits() for tree in every]
    assert post.split_probability(left, right) == pytest.approx(p[held].sum(), abs=1e-12)
    given = post.given([parent])
    assert given.cluster_probability(trees[0].masks[6]) == pytest.approx(
        sum(m for t, m in zip(every, p, strict=True) if {parent, trees[0].masks[6]} <= t.clusters())
        / masses[parent]
    )
    top = post.top_trees(20)
    assert top.probabilities == pytest.approx(np.sort(p)[::-1][: len(top)])
    drawn = post.sample(300, 0)
    assert drawn.log_weights == pytest.approx(made.log_probabilities(drawn))
    sums = [
        sum(masses[m] for m in t.clusters()) if m > 0 else 0 for t, m in zip(every, p, strict=True)
    ]
    best = post.expected_clusters_tree()
    assert sum(masses[m] for m in best.clusters()) == pytest.approx(max(sums))
    shared = [min(m.bit_count() for m in t.clusters() if m & 3 == 3) <= 3 for t in every]
    assert post.coclustering(3).probability[0, 1] == pytest.approx(p[shared].sum())
    for other, smooth in (("ccd1", 0.0), ("ccd2", 0.02), ("ccd4", 0.02)):
        beside = CladeDistribution([*trees, random_tree(6, rng)], model=other, smoothing=smooth)
        logs_beside = beside.log_probabilities(every)
        with np.errstate(invalid="ignore"):
            expected = np.where(p > 0, p * (logs - logs_beside), 0).sum()
        assert post.kl_divergence(hct.infer(beside)) == pytest.approx(expected, abs=1e-9)


def test_more_context_is_closer_to_the_sample():
    """Two islands that differ in two places at once: CCD1 mixes them up, CCD2 does not."""
    one, other = "((((a,b),c),d),((e,f),g));", "(((a,(b,c)),d),((e,f),g));"
    third = "(((a,b),c),(d,((e,g),f)));"
    trees = [hct.Tree.from_newick(t) for t in (one, other, third) for _ in range(10)]
    share = [
        math.exp(CladeDistribution(trees, model=m).log_weight(trees[0])) for m in ("ccd1", "ccd3")
    ]
    assert abs(share[1] - 1 / 3) < abs(share[0] - 1 / 3)


def test_smoothing_reaches_what_was_not_seen():
    tree = hct.Tree.from_newick("((((a,b),c),d),e);")
    near = hct.Tree.from_newick("((((a,c),b),d),e);")
    far = hct.Tree.from_newick("((((a,e),b),d),c);")
    for model in ("ccd0", "ccd1", "ccd2", "ccd4"):
        plain = CladeDistribution([tree] * 9, model=model)
        smooth = CladeDistribution([tree] * 9, model=model, smoothing=0.01)
        assert plain.log_weight(near) == -math.inf
        assert -12 < smooth.log_weight(near) < 0
        assert smooth.log_weight(tree) > smooth.log_weight(near)
    assert CladeDistribution([tree], smoothing=0.01).log_weight(far) == -math.inf


def test_runs_and_trees_give_the_same(tmp_path):
    rng = np.random.default_rng(0)
    trees = [random_tree(9, rng) for _ in range(50)]
    path = tmp_path / "run.nex"
    path.write_text(write_nexus(WeightedTrees(trees, rng.random(50))))
    runs = hct.read_trees(path)
    for model in ("ccd0", "ccd1", "ccd3"):
        one = CladeDistribution(runs, model=model)
        two = CladeDistribution(list(runs), weights=runs.weights, model=model)
        assert one.log_probabilities(trees) == pytest.approx(two.log_probabilities(trees))
    for keep in ("observed", "all"):
        one, two = (hct.SparseTrellis.from_trees(t, keep) for t in (runs, list(runs)))
        assert one == two


def test_models_that_are_none():
    tree = hct.Tree.from_newick("((a,b),c);")
    for model in ("ccd", "ccd10", "sbn", 2):
        with pytest.raises(ValueError, match="model must be"):
            CladeDistribution([tree], model=model)
    for smoothing in (-0.1, 1.0, math.nan):
        with pytest.raises(ValueError, match="smoothing"):
            CladeDistribution([tree], smoothing=smoothing)
    deep = CladeDistribution([hct.Tree.from_newick("(((a,b),c),d);")], model="ccd2")
    with pytest.raises(ValueError, match="trellis of its own"):
        hct.infer(deep, hct.FullTrellis(4))
    with pytest.raises(ValueError, match="cannot be changed or saved"):
        deep.trellis.save("nowhere")
