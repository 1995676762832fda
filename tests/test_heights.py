"""Heights of merges: every tree that is found for a potential carries those of its potential."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, is_monotonic, is_valid_linkage, linkage

import hctrellis as hct
from hctrellis.clades.distribution import CladeDistribution
from hctrellis.tree import Tree

ROWS = np.random.default_rng(0).normal(size=(6, 3)) * [10, 5, 1]
LABELS = "cfabed"
METHODS = ("single", "complete", "average", "centroid", "ward")


def random_tree(n: int, rng: np.random.Generator, labels: str | None = None) -> Tree:
    children, free = [], list(range(n))
    for k in range(n - 1):
        children.append([free.pop(rng.integers(len(free))) for _ in range(2)])
        free.append(n + k)
    return Tree(children, labels=labels)


def mass(momenta) -> float:
    energy, *p = np.sum(momenta, axis=0)
    return np.sqrt(max(0.0, energy**2 - np.dot(p, p)))


# ---- what the heights are ---------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("beta", [0.0, 3.0])
def test_linkages_have_the_heights_of_scipy(method, beta):
    tree = Tree.from_linkage(linkage(ROWS, method), labels=LABELS)
    model = hct.Linkage(ROWS, method, beta, labels=LABELS)
    np.testing.assert_allclose(model.heights(tree), tree.heights, rtol=1e-12)
    turned = tree.reorder(sorted(LABELS))
    np.testing.assert_allclose(model.heights(turned), turned.heights, rtol=1e-12)


def test_energy_is_the_sum_of_heights():
    model = hct.Linkage(ROWS, "centroid", 0.5)
    tree = random_tree(6, np.random.default_rng(1))
    assert model.with_heights(tree).heights.sum() == pytest.approx(model.energy(tree))


@pytest.mark.parametrize("kind", [hct.Dasgupta, hct.CorrelationClustering])
def test_similarities_have_the_missing_mean_similarity(kind):
    rng = np.random.default_rng(2)
    w = rng.normal(size=(6, 6))
    w += w.T
    model = kind(w, labels=LABELS)
    top = w[~np.eye(6, dtype=bool)].max()
    for _ in range(20):
        tree = random_tree(6, rng, "abcdef")
        level = {}
        for parent, left, right in tree.splits():
            two = [
                [LABELS.index("abcdef"[i]) for i in range(6) if mask >> i & 1]
                for mask in (left, right)
            ]
            height = top - w[np.ix_(*two)].mean()
            level[parent] = max(0.0, height, level.get(left, 0.0), level.get(right, 0.0))
        found = dict(zip(tree.masks[6:], model.heights(tree), strict=True))
        assert found == pytest.approx(level, abs=1e-12)


def test_jets_have_the_invariant_mass():
    jet = hct.simulate.ginkgo(1, leaves=8, rng=1)[0]
    for model in (jet.potential(), hct.JetMass(jet.momenta, 1.5)):
        heights = model.heights(jet.tree)
        masks = jet.tree.masks[8:]
        wanted = [mass(jet.momenta[[mask >> i & 1 == 1 for i in range(8)]]) for mask in masks]
        np.testing.assert_allclose(heights, wanted, rtol=1e-9)
        assert is_monotonic(model.with_heights(jet.tree).to_linkage())


def test_no_heights_where_there_are_none():
    tree = Tree.from_newick("((a,b),c);")
    own = hct.FunctionPotential(lambda left, right, parent: -parent[0], features=[1.0, 2.0, 4.0])
    prior, average = hct.BetaSplitting(3), hct.Linkage([[0.0], [1.0], [5.0]], labels="abc")
    for model in (own, prior, CladeDistribution([tree]), prior + own, average + average):
        names = model.labels
        assert model.heights(tree.relabel(names)) is None
    assert hct.greedy(prior).to_linkage()[:, 2].tolist() == [1, 2]
    both = average + prior + own
    assert both.height_name == average.height_name
    assert both.heights(tree).tolist() == [1, 4.5]


@pytest.mark.parametrize(
    "model", [hct.Linkage([[1.0]]), hct.Dasgupta([[1.0]]), hct.JetMass([[1.0, 0, 0, 0]], 1.0)]
)
def test_one_leaf(model):
    assert len(hct.infer(model).map_tree.heights) == 0


# ---- which trees carry them -------------------------------------------------------------------


def test_trees_that_are_found_carry_them():
    model = hct.Linkage(ROWS, "average", 0.3, labels=LABELS)
    post = hct.infer(model)
    consensus = hct.infer(hct.Linkage(ROWS, beta=50.0, labels=LABELS)).consensus_tree()
    search = hct.local_search(model, restarts=2, rng=0)
    found = [
        post.map_tree,
        post.top_trees(3)[2],
        *post.sample(2, rng=0),
        post.sample(5, rng=0).counts()[0][0],
        post.given(contains=[["a", "c"]]).map_tree,
        post.expected_clusters_tree(),
        consensus.to_tree(),
        hct.greedy(model),
        *hct.beam_search(model, n_best=2),
        search.tree,
        *search.trees(2),
    ]
    for tree in found:
        np.testing.assert_array_equal(tree.heights, model.heights(tree))


def test_matrices_and_files_have_them():
    model = hct.Linkage(ROWS, "average", 0.1, labels=LABELS)
    tree = hct.infer(model).map_tree
    matrix = tree.to_linkage()
    assert is_valid_linkage(matrix)
    assert sorted(matrix[:, 2]) == pytest.approx(sorted(tree.heights))
    cut = float(np.median(tree.heights))
    groups = fcluster(matrix, cut, "distance")
    below = {mask for mask, h in zip(tree.masks[6:], tree.heights, strict=True) if h <= cut}
    for i in range(6):
        for j in range(i):
            together = any(mask >> i & mask >> j & 1 for mask in below)
            assert (groups[i] == groups[j]) == together
    again = Tree.from_newick(tree.to_newick(lengths=True))
    np.testing.assert_allclose(again.reorder(tree.labels).heights, tree.heights)
    assert Tree.from_json(tree.to_json()).heights.tolist() == tree.heights.tolist()


def test_inversions_stay_in_the_tree_and_are_raised_in_the_matrix():
    triangle = [[0.0, 0.0], [1.0, 0.0], [0.5, 0.8]]
    tree = hct.infer(hct.Linkage(triangle, "centroid", 9.0)).map_tree
    assert tree.heights[1] < tree.heights[0]
    assert is_monotonic(tree.to_linkage())


@pytest.mark.filterwarnings("ignore:the table has .* with fewer than 10")
def test_bootstrap_trees_have_those_of_scipy():
    support = hct.bootstrap_support(ROWS, "weighted", n_resamples=10, rng=0)
    np.testing.assert_allclose(support.tree.to_linkage(), linkage(ROWS, "weighted"))


# ---- when they are found ----------------------------------------------------------------------


class Counting(hct.Linkage):
    """Counts how often it is asked for heights."""

    asked = 0

    def heights(self, tree):
        type(self).asked += 1
        return super().heights(tree)


def test_heights_are_found_when_they_are_asked_for():
    model = Counting(ROWS, beta=0.3, labels=LABELS)
    post = hct.infer(model)
    trees = [*post.sample(20, rng=0), *post.top_trees(5), post.map_tree]
    assert len({*trees}) <= len(trees)
    assert post.map_tree == trees[-1].reorder("abcdef")
    derived = trees[0].reorder("abcdef").relabel("ABCDEF").subtree(range(6))
    assert repr(derived) != "" and Counting.asked == 0
    assert derived.heights is derived.heights
    assert Counting.asked == 1
    assert sorted(derived.heights) == sorted(trees[0].heights)
    assert Counting.asked == 1


def test_other_trees_keep_them():
    tree = hct.infer(hct.Linkage(ROWS, beta=0.3, labels=LABELS)).map_tree
    by_labels = dict(zip(map(tree.mask, tree.masks[6:]), tree.heights.tolist(), strict=True))
    pair = next(mask for mask in tree.masks[6:] if mask.bit_count() == 2)
    assert tree.subtree(pair).heights.tolist() == [by_labels[pair]]
    for again in (copy.deepcopy(tree), pickle.loads(pickle.dumps(tree))):
        assert again.heights.tolist() == tree.heights.tolist()
    bare = tree.with_heights(None)
    assert bare.heights is None and bare == tree and hash(bare) == hash(tree)
    with pytest.raises(ValueError, match=r"heights has shape \(1,\); expected \(5,\)"):
        tree.with_heights([1.0])
    with pytest.raises(ValueError, match="read-only"):
        tree.heights[0] = 1.0


def test_plots_show_an_axis_of_heights_or_none():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    for model, axis in ((hct.Linkage(ROWS, beta=0.3), "height"), (hct.BetaSplitting(6), "")):
        tree = hct.infer(model).map_tree
        ax = hct.plotting.plot_dendrogram(tree)
        assert ax.get_xlabel() == axis
        assert bool(len(ax.get_xticks())) == bool(axis)
        ends = {x for segment in ax.collections[0].get_segments() for x, _ in segment}
        assert max(ends) == pytest.approx(tree.to_linkage()[-1, 2])
    pyplot.close("all")
