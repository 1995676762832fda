"""Two trees or posteriors side by side; unsettled items; ties; files of posteriors."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import cophenet, linkage
from scipy.spatial.distance import pdist

import hctrellis as hct
import naive
from hctrellis import Tree, compare, load, unsettled
from hctrellis.posterior.compare import restricted
from hctrellis.posterior.lookup import Lookup
from hctrellis.posterior.placements import _count, _parts, _places, _score, _without
from hctrellis.potentials.contrasts import StudentContrasts

LABELS = "abcdef"


def post_of(seed: int = 0, beta: float = 1.0, labels: str = LABELS, method: str = "average"):
    table = np.random.default_rng(seed).normal(size=(len(labels), 3))
    return hct.infer(hct.Linkage(table, method, beta, labels=labels))


def all_trees(labels: str) -> list[Tree]:
    listed = (naive.clusters_of(splits) for splits in naive.all_trees(len(labels)))
    return [Tree.from_clusters([*map(list, found)], labels=[*labels]) for found in listed]


# ---- comparisons ------------------------------------------------------------------------------


def test_probabilities_are_those_of_both_sides():
    one, other = post_of(beta=3.0), post_of(beta=0.5)
    found = compare(one, other, 0.0)
    assert len(found) == 2**6 - 2 - 6
    for row in found:
        assert row.first == one.cluster_probability(row.cluster)
        assert row.second == other.cluster_probability(row.cluster)
        assert row.change == row.second - row.first
    changes = [abs(row.change) for row in found]
    assert changes == sorted(changes, reverse=True)
    assert found.kl == (one.kl_divergence(other), other.kl_divergence(one))


def test_items_in_any_order():
    post = post_of()
    order = "fbdace"
    rows = [LABELS.index(name) for name in order]
    table = np.random.default_rng(0).normal(size=(6, 3))[rows]
    again = hct.infer(hct.Linkage(table, labels=order))
    found = compare(post, again)
    assert max(abs(row.change) for row in found) < 1e-12
    assert found.robinson_foulds == 0
    assert found.cophenetic_correlation == pytest.approx(1.0)


def test_a_tree_against_a_posterior():
    table = np.random.default_rng(0).normal(size=(6, 3))
    merges = linkage(table, "single")
    tree, post = Tree.from_linkage(merges, labels=[*LABELS]), post_of()
    found = compare(tree, post)
    clusters = {row.cluster: row for row in found}
    assert all(row.first == (1.0 if names in tree else 0.0) for names, row in clusters.items())
    assert found.robinson_foulds == tree.robinson_foulds(post.map_tree)
    assert found.kl is None
    average = Tree.from_linkage(linkage(table, "average"), labels=[*LABELS])
    expected = np.corrcoef(cophenet(merges), cophenet(linkage(table, "average")))[0, 1]
    assert compare(tree, average).cophenetic_correlation == pytest.approx(expected)
    assert pdist(table).shape == (15,)


def test_an_item_that_was_removed():
    """Frequencies among samples are near the exact sums over trees."""
    post, less = post_of(labels="abcde"), post_of(labels="abcd")
    found = compare(post, less, 0.0, size=4000, rng=1)
    assert (found.left_out, found.labels, found.sampled) == (("e",), tuple("abcd"), 4000)
    weights: dict[frozenset[str], float] = {}
    for tree in all_trees("abcde"):
        p = math.exp(post.log_probability(tree))
        for names in restricted(tree, "abcd").cluster_labels():
            weights[names] = weights.get(names, 0.0) + p
    for row in found:
        assert row.first == pytest.approx(weights.get(row.cluster, 0.0), abs=0.04)
        assert row.second == pytest.approx(less.cluster_probability(row.cluster))


def test_comparisons_are_shown():
    found = compare(post_of(beta=3.0), post_of(beta=0.5))
    assert "Robinson-Foulds" in repr(found) and "Kullback-Leibler" in found._repr_html_()
    pytest.importorskip("pandas")
    assert list(found.to_pandas().columns) == ["cluster", "size", "first", "second", "change"]


def test_what_cannot_be_compared():
    with pytest.raises(ValueError, match="fewer than two items in common"):
        compare(post_of(labels="abc"), post_of(labels="xyz"))
    with pytest.raises(TypeError, match="expected a Tree or a Posterior; got int"):
        compare(post_of(), 5)


@given(st.integers(2, 9), st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_restricted_trees_have_the_clusters_of_the_whole(n, seed):
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(n, 2))
    tree = Tree.from_linkage(linkage(table))
    kept = [tree.labels[k] for k in rng.permutation(n)[: rng.integers(2, n + 1)]]
    part = restricted(tree, kept)
    whole = {names & set(kept) for names in tree.cluster_labels()}
    assert {*part.cluster_labels()} == {names for names in whole if len(names) > 1}
    assert part.labels == tuple(kept)


def test_lookup_is_the_posterior():
    post = post_of(beta=3.0)
    known = Lookup(post)
    for mask in range(1, 64):
        assert known.probability(mask) == pytest.approx(post.cluster_probability(mask), abs=1e-15)
        assert known.error(mask) == 0.0
    assert known.support(post.map_tree) == pytest.approx(post.support(post.map_tree))


# ---- unsettled items --------------------------------------------------------------------------


def test_places_are_those_of_the_posterior():
    """The entropy of the smallest cluster that holds an item, against all trees."""
    post = post_of(3, beta=2.0, labels="abcde")
    found = unsettled(post, size=20_000, rng=0)
    for row in found:
        places: dict[frozenset[str], float] = {}
        for tree in all_trees("abcde"):
            smallest = min((c for c in tree.cluster_labels() if row.item in c), key=len)
            places[smallest] = places.get(smallest, 0.0) + math.exp(post.log_probability(tree))
        entropy = -sum(p * math.log(p) for p in places.values())
        assert row.places == pytest.approx(math.exp(entropy), rel=0.03)
        assert row.probability == pytest.approx(places[row.neighbourhood], abs=0.02)
    assert [row.places for row in found] == sorted((row.places for row in found), reverse=True)


def test_leaving_an_item_out_is_counted_right():
    """The quick way to count clusters without an item is the plain one."""
    trees = [_parts(tree) for tree in post_of(5, beta=0.5).sample(50, 0)]
    counts, places = _count(trees, 63), _places(trees, 6)
    for leaf in range(6):
        plain = _count(trees, 63 & ~(1 << leaf))
        assert _without(counts, places[leaf], leaf, 63) == plain
        assert _score(plain, 50) >= 0


def test_a_rogue_is_found():
    """Two tight groups of nested pairs, and an item that hovers over all of them."""
    groups = [0.0, 1.0, 4.0, 20.0, 21.0, 24.0]
    table = np.zeros((7, 3))
    table[:6, 0] = groups
    table[6] = [12.0, 1.0, 0.0]
    calm = hct.infer(hct.Linkage(table[:6], beta=2.0, labels="abcdef"))
    assert unsettled(calm).rogues == ()
    rng = np.random.default_rng(0)
    clear = Tree.from_newick("((a,(b,c)),(d,(e,f)));")
    trees = []
    for _ in range(200):  # x is grafted anywhere
        nested = clear.to_nested()
        trees.append(Tree.from_nested(_grafted(nested, rng)).reorder([*"abcdefx"]))
    model = hct.CladeDistribution(trees)
    found = unsettled(hct.infer(model, model.trellis), rng=0)
    assert found.rogues == ("x",)
    assert found[0].item == "x" and found[0].gain > 0.5
    kept = found.consensus_without()
    assert kept.labels == tuple("abcdef")
    assert len(kept.support) == 5 and min(kept.support.values()) > 0.9
    assert "rogues: x" in repr(found) and "<table>" in found._repr_html_()
    with pytest.raises(ValueError, match="there is no item 'q'"):
        found.consensus_without(["q"])


def _grafted(nested, rng):
    if isinstance(nested, str) or rng.random() < 0.3:
        return (nested, "x")
    left, right = nested
    return (_grafted(left, rng), right) if rng.random() < 0.5 else (left, _grafted(right, rng))


# ---- ties -------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["single", "average", "complete"])
@pytest.mark.filterwarnings("ignore:every tree has the same weight")
def test_ties_are_counted(method):
    for points in ([0, 1, 2, 3, 4], [0, 0, 0, 0, 0], [0, 1, 10, 11, 30], [0, 2, 3, 7, 8]):
        post = hct.infer(hct.Linkage([[float(x)] for x in points], method))
        weights = np.array(post.top_trees(200).log_weights)
        assert post.n_map_trees == int((weights >= weights[0] - 1e-9).sum())


def test_ties_on_a_sparse_trellis():
    model = hct.Linkage([[0.0], [1.0], [2.0], [3.0]], "single")
    trellis = hct.SparseTrellis.from_trees(all_trees("0123"))
    assert hct.infer(model, trellis).n_map_trees == hct.infer(model).n_map_trees


# ---- files ------------------------------------------------------------------------------------

ROWS = np.random.default_rng(1).normal(100.0, 3.0, size=(6, 2))
MODELS = {
    "average": lambda: hct.Linkage(np.random.default_rng(0).normal(size=(6, 2)), beta=1.3),
    "ward": lambda: hct.Linkage([[0.0], [1.0], [5.0]], "ward", 0.7, labels=["ä", "b c", "d"]),
    "dasgupta": lambda: hct.Dasgupta(np.arange(9.0).reshape(3, 3) + np.arange(9.0).reshape(3, 3).T),
    "affinities": lambda: hct.CorrelationClustering([[0, 1, -1], [1, 0, 2], [-1, 2, 0]], 0.5),
    "sum": lambda: hct.Linkage([[0.0], [1.0], [5.0]]) + hct.BetaSplitting(3, -1.0),
    "jet": lambda: hct.simulate.ginkgo(1, n_leaves=5, rng=0)[0].potential(),
    "density": lambda: hct.GinkgoDensity(
        hct.simulate.ginkgo(1, n_leaves=5, rng=0)[0].momenta, 2, 16
    ),
    "contrasts": lambda: StudentContrasts(ROWS, 0.5, 2.0, 0.7, 5.0, 1.5, prior="uniform"),
}


@pytest.mark.parametrize("name", MODELS)
def test_posteriors_come_back(name, tmp_path):
    post = hct.infer(MODELS[name]())
    again = load(post.save(tmp_path / "p.npz"))
    assert again.labels == post.labels
    assert again.log_partition == pytest.approx(post.log_partition, rel=1e-12)
    assert again.map_tree == post.map_tree
    assert repr(again.potential) == repr(post.potential)


def test_fitted_contrasts_come_back_as_they_were_fitted(tmp_path):
    post = hct.infer(hct.Contrasts(ROWS, labels="abcdef"))
    again = load(post.save(tmp_path / "p.npz"))
    assert again.potential.hyperparameters == post.potential.hyperparameters
    assert again.cluster_probability(["a", "b"]) == pytest.approx(
        post.cluster_probability(["a", "b"])
    )


def test_grown_trellises_come_back(tmp_path):
    model = hct.Linkage(np.random.default_rng(0).normal(size=(12, 3)))
    post = hct.infer(model, hct.grow(model, 200, None, rng=0, max_rounds=2, n_restarts=2))
    again = load(post.save(tmp_path / "p.npz"))
    assert again.trellis == post.trellis
    assert again.growth.trace == post.growth.trace
    assert again.log_partition == post.log_partition


def test_sampled_posteriors_come_back(tmp_path):
    model = hct.Linkage(np.random.default_rng(0).normal(size=(7, 3)), beta=2.0)
    post = hct.sample_posterior(model, 0.05, None, max_moves=4000, rng=0)
    path = post.save(tmp_path / "p.npz")
    again = load(path)
    assert again.diagnostics == post.diagnostics
    assert again.map_tree == post.map_tree
    one, other = post.cluster_probabilities(), again.cluster_probabilities()
    assert one.masks == other.masks
    np.testing.assert_array_equal(one.errors, other.errors)
    assert again.log_partition == post.log_partition
    arrays = dict(np.load(path))
    broken = arrays["children"].copy()
    broken[0, 0, 0] = broken[0, 0, 1]
    np.savez(tmp_path / "q.npz", **{**arrays, "children": broken})
    with pytest.raises(ValueError, match="no trees"):
        load(tmp_path / "q.npz")
    heavier = arrays["log_weights"] + 1.0
    np.savez(tmp_path / "q.npz", **{**arrays, "log_weights": heavier})
    with pytest.raises(ValueError, match="does not weigh"):
        load(tmp_path / "q.npz")


def test_files_that_are_no_posteriors(tmp_path):
    path = tmp_path / "p.npz"
    with pytest.raises(FileNotFoundError, match="there is no file"):
        load(path)
    path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match="is not a saved posterior"):
        load(path)
    post = hct.infer(hct.Linkage([[0.0], [1.0], [5.0]]))
    arrays = dict(np.load(post.save(path)))
    header = json.loads(bytes(arrays["header"]))
    for change in ({"format": "other"}, {"model": [{"model": "magic"}]}, {"log_partition": None}):
        text = json.dumps({**header, **change}).encode()
        np.savez(path, **{**arrays, "header": np.frombuffer(text, np.uint8)})
        with pytest.raises(ValueError, match="is not a saved posterior"):
            load(path)
    text = json.dumps({**header, "log_partition": 1.0}).encode()
    np.savez(path, **{**arrays, "header": np.frombuffer(text, np.uint8)})
    with pytest.raises(ValueError, match="but was 1 when it was saved"):
        load(path)
    np.savez(path, **{**arrays, "data_0": np.array([{"a": 1}], object)})
    with pytest.raises(ValueError, match="is not a saved posterior"):
        load(path)


def test_models_of_users_are_not_saved(tmp_path):
    model = hct.FunctionPotential(
        lambda left, right, parent: -left[0] * right[0], features=np.ones(3)
    )
    with pytest.raises(ValueError, match="FunctionPotential cannot be saved"):
        hct.infer(model).save(tmp_path / "p.npz")

    class Halved(hct.Linkage):
        pass

    with pytest.raises(ValueError, match="Halved cannot be saved"):
        hct.infer(Halved([[0.0], [1.0], [5.0]])).save(tmp_path / "p.npz")
