"""Summary trees and comparisons of runs, against their definitions on small samples."""

from __future__ import annotations

import math
from html import escape

import numpy as np
import pytest

import hctrellis as hct
import naive
from hctrellis.cli import main
from hctrellis.runs import standing
from hctrellis.runs.enough import ENOUGH, effective_size
from hctrellis.runs.summary import highest_density
from hctrellis.treefiles import TreeRuns, read_newicks

KINDS = ("map", "majority", "mcc", "hipstr", "expected")


def newick(n, rng, clock=True, center=None):
    """A tree near that of some points, with heights or with lengths of its own."""
    from scipy.cluster.hierarchy import linkage

    center = np.arange(n)[:, None] ** 1.3 if center is None else center
    names, heights = [f"t{i}" for i in range(n)], [0.0] * n
    for one, other, height, _ in linkage(center + rng.normal(size=center.shape), "average"):
        parts = []
        for k in map(int, (one, other)):
            length = float(height - heights[k]) * (1.0 if clock else rng.uniform(0.5, 1.5))
            parts.append(f"{names[k]}:{length!r}")
        names.append(f"({','.join(parts)})")
        heights.append(float(height))
    return names[-1] + ";"


def sample(n=7, size=60, seed=0, clock=True):
    rng = np.random.default_rng(seed)
    return list(read_newicks("".join(newick(n, rng, clock) for _ in range(size))))


def frequencies(trees):
    found = {}
    for tree in trees:
        for mask in tree.reorder(trees[0].labels).clusters():
            found[mask] = found.get(mask, 0) + 1 / len(trees)
    return found


def ancestor_height(tree, mask, labels):
    tree = tree.reorder(labels)
    inner = zip(tree.masks[tree.n_leaves :], tree.heights, strict=True)
    return min((m.bit_count(), h) for m, h in inner if m & mask == mask)[1]


# ---- which tree -------------------------------------------------------------------------------


def test_each_rule_takes_the_best_tree():
    trees = sample()
    often = frequencies(trees)
    product = lambda tree: sum(math.log(often[m]) for m in tree.clusters())  # noqa: E731
    aligned = [tree.reorder(trees[0].labels) for tree in trees]
    found = {kind: hct.summary_tree(trees, kind) for kind in KINDS}
    assert product(found["mcc"].to_tree()) == pytest.approx(max(map(product, aligned)))
    model = hct.CladeDistribution(trees)
    possible = list(hct.infer(model).top_trees(10**4))
    assert len(possible) == model.trellis.n_trees
    assert product(found["hipstr"].to_tree()) == pytest.approx(max(map(product, possible)))
    expected = lambda tree: sum(often[m] for m in tree.clusters())  # noqa: E731
    assert expected(found["expected"].to_tree()) == pytest.approx(max(map(expected, possible)))
    best = max(model.log_probabilities(possible))
    assert model.log_weight(found["map"].to_tree()) == pytest.approx(best)
    assert found["majority"].clusters() == {m for m, f in often.items() if f > 0.5 + 1e-9}
    for tree in found.values():
        for mask, probability in tree.support.items():
            assert probability == pytest.approx(often[mask])


def test_one_tree_is_its_own_summary():
    tree = hct.Tree.from_newick("(((a:1,b:1):1,c:2):2,(d:3,e:3):1);")
    for kind in KINDS:
        for heights in ("auto", "common", "mean", "lengths"):
            found = hct.summary_tree([tree] * 3, kind, heights=heights)
            again = hct.Tree.from_newick(found.to_newick())
            assert again == tree
            assert again.heights == pytest.approx(tree.heights)


# ---- lengths ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_whole_weights_are_repetitions(kind):
    """Of trees, lengths and intervals; and trees of weight 0 do not count."""
    trees = sample(6, 20)
    times = np.arange(1, 21) % 4
    found = hct.summary_tree(TreeRuns.from_trees(trees, times), kind)
    repeated = [tree for tree, k in zip(trees, times.tolist(), strict=True) for _ in range(k)]
    again = hct.summary_tree(repeated, kind)
    assert found.clusters() == again.clusters()
    assert found.lengths == pytest.approx(again.lengths)
    for mask in found.clusters():
        notes = found.notes[mask]
        assert notes["posterior"] == pytest.approx(again.notes[mask]["posterior"])
        assert notes["height_95%_HPD"] == pytest.approx(again.notes[mask]["height_95%_HPD"])


def test_common_ancestor_heights():
    trees = sample()
    labels = trees[0].labels
    for kind in ("majority", "mcc"):
        found = hct.summary_tree(trees, kind)
        for mask in found.clusters():
            values = [ancestor_height(tree, mask, labels) for tree in trees]
            assert found.heights[mask] == pytest.approx(np.mean(values))
            low, high = found.notes[mask]["height_95%_HPD"]
            assert sum(low <= v <= high for v in values) >= 0.95 * len(values)
        assert min(found.lengths.values()) >= 0


def test_mean_heights_and_lengths():
    weights = np.arange(1, 61.0)
    trees, clock = sample(clock=False), sample()
    labels = trees[0].labels
    runs = hct.TreeRuns.from_trees(clock, weights)
    found = hct.summary_tree(runs, "mcc", heights="mean")
    for mask in found.clusters():
        some = [
            (ancestor_height(t, mask, clock[0].labels), w)
            for t, w in zip(clock, weights, strict=True)
            if mask in t.reorder(clock[0].labels).clusters()
        ]
        values, shares = np.transpose(some)
        assert found.heights[mask] == pytest.approx(np.average(values, weights=shares))
    assert labels


def test_lengths_of_trees_without_a_clock(tmp_path):
    rng = np.random.default_rng(1)
    path = tmp_path / "run.t"
    path.write_text("".join(newick(6, rng, clock=False) for _ in range(40)))
    runs = hct.read_trees(path, 0)
    assert not runs.is_clock
    found = hct.summary_tree(runs, "mcc")
    for mask, length in found.lengths.items():
        values = []
        for k, tree in enumerate(runs):
            if mask in tree.masks:
                values.append(runs.lengths[k, tree.masks.index(mask)])
        assert length == pytest.approx(np.mean(values))
    assert found.heights is None
    assert hct.summary_tree(runs, heights=None).lengths is None
    path.write_text("((a:1,b),c:2);")
    with pytest.raises(ValueError, match="some branches have no length"):
        hct.summary_tree(hct.read_trees(path, 0), heights="common")
    assert hct.summary_tree(hct.read_trees(path, 0)).to_newick() == "((a:1,b)1,c:2);"


def test_highest_density_is_the_shortest_interval():
    rng = np.random.default_rng(0)
    for size in (1, 2, 19, 20, 21, 100):
        values, weights = rng.exponential(size=size), rng.integers(1, 4, size).astype(float)
        ranked = sorted(zip(values, weights, strict=True))
        best = min(
            ranked[j][0] - ranked[i][0]
            for i in range(size)
            for j in range(i, size)
            if sum(w for _, w in ranked[i : j + 1]) >= 0.95 * weights.sum() - 1e-9
        )
        low, high = highest_density(values, weights)
        assert high - low == pytest.approx(best, abs=1e-12)


def test_notes_are_kept(tmp_path):
    path = tmp_path / "run.trees"
    path.write_text(
        "((a[&rate=1]:1,b[&rate=3]:1)[&rate=5]:1,c:2);((a[&rate=2]:1,b:1)[&rate=7]:1,c:2);"
        "((a[&rate=3]:1,c:1)[&rate=100]:1,b:2);"
    )
    found = hct.summary_tree(hct.read_trees(path, 0), "mcc")
    assert found.notes[0b011]["rate"] == pytest.approx(6)
    assert found.notes[0b001]["rate"] == pytest.approx(2)
    assert found.notes[0b010]["rate"] == pytest.approx(3)
    assert "rate" not in found.notes[0b100]


# ---- what others read -------------------------------------------------------------------------


def odd_sample():
    names = {"t0": "a b", "t1": "it's", "t2": "x_y", "t3": "p[q]"}
    return [tree.relabel({**names}).with_heights(tree.heights) for tree in sample(6)]


@pytest.mark.parametrize("kind", ["map", "majority"])
def test_dendropy_reads_what_is_written(kind):
    dendropy = pytest.importorskip("dendropy")
    found = hct.summary_tree(odd_sample(), kind)
    tree = dendropy.Tree.get(data=found.to_nexus(), schema="nexus", preserve_underscores=True)
    nodes = 0
    for node in tree.preorder_node_iter():
        names = [leaf.taxon.label for leaf in node.leaf_iter()]
        mask = sum(1 << found.labels.index(name) for name in names)
        notes = node.annotations.values_as_dict()
        if len(names) > 1:
            assert float(notes["posterior"]) == pytest.approx(found.support[mask], abs=1e-5)
            low, high = map(float, notes["height_95%_HPD"])
            assert low <= float(notes["height"]) <= high or math.isclose(low, high)
        if mask != found.root:
            assert node.edge.length == pytest.approx(found.lengths[mask], rel=1e-5)
        nodes += len(names) > 1
    assert nodes == len(found.clusters())


def test_ete_reads_what_is_written():
    ete3 = pytest.importorskip("ete3")
    found = hct.summary_tree(sample(6), "majority")
    tree = ete3.Tree(found.to_newick(), format=0)
    clusters = {
        frozenset(n.get_leaf_names()): n.support for n in tree.traverse() if not n.is_leaf()
    }
    for mask, probability in found.support.items():
        names = frozenset(label for k, label in enumerate(found.labels) if mask >> k & 1)
        if mask != found.root:
            assert clusters[names] == pytest.approx(probability, abs=1e-5)


def test_what_is_written_comes_back(tmp_path):
    found = hct.summary_tree(odd_sample(), "map")
    for name in ("tree.nex", "tree.nwk"):
        found.write(tmp_path / name)
        again = hct.read_trees(tmp_path / name, 0)
        assert again[0] == found.to_tree()
        assert again[0].heights == pytest.approx(found.to_tree().heights, rel=1e-4)
    notes = hct.read_trees(tmp_path / "tree.nex", 0).notes["posterior"][0]
    masks = again[0].reorder(found.labels).masks
    ours = {m: p for m, p in zip(again[0].masks, notes, strict=True) if m.bit_count() > 1}
    assert len(masks) == len(notes)
    assert sorted(ours.values()) == pytest.approx(sorted(found.support.values()), abs=1e-5)


# ---- are the runs enough ----------------------------------------------------------------------


def two_runs(tmp_path, sizes=(400, 400), shift=0.0):
    paths = []
    for k, size in enumerate(sizes):
        rng = np.random.default_rng(k)
        center = np.arange(6)[:, None] ** 1.3 + shift * k * np.eye(6)[:, :1] * 9
        paths.append(tmp_path / f"run{k}.t")
        paths[-1].write_text("".join(newick(6, rng, center=center) for _ in range(size)))
    return hct.read_trees(paths, 0)


def test_runs_that_agree_and_runs_that_do_not(tmp_path):
    same = hct.compare_runs(two_runs(tmp_path, (4000, 4000)))
    assert same.enough
    assert same.verdict.startswith("Yes, these runs are enough. The 2 runs agree")
    apart = hct.compare_runs(two_runs(tmp_path, shift=1.0))
    assert not apart.enough
    assert "do not agree" in apart.verdict
    assert apart.divergence > 100 * same.divergence
    assert apart.largest.high - apart.largest.low > 0.5


def test_numbers_by_definition(tmp_path):
    runs = two_runs(tmp_path)
    report = hct.compare_runs(runs)
    one, two = (frequencies(list(runs.run(k))) for k in range(2))
    everything = (1 << 6) - 1
    masks = {m for f in (one, two) for m in f if m != everything}
    rows = {m: (one.get(m, 0.0), two.get(m, 0.0)) for m in masks}
    often = [row for row in rows.values() if max(row) >= 0.1]
    assert report.asdsf == pytest.approx(np.mean([np.std(row, ddof=1) for row in often]))
    assert report.largest.high - report.largest.low == pytest.approx(
        max(abs(a - b) for a, b in rows.values())
    )
    assert report.sizes == (400, 400)
    assert report.entropy == pytest.approx(hct.infer(hct.CladeDistribution(runs)).entropy)


def test_effective_sizes():
    rng = np.random.default_rng(0)
    n, phi = 20_000, 0.9
    noise = rng.normal(size=n)
    chain = np.empty(n)
    chain[0] = noise[0]
    for k in range(1, n):
        chain[k] = phi * chain[k - 1] + noise[k]
    assert effective_size(chain) == pytest.approx(n * (1 - phi) / (1 + phi), rel=0.2)
    assert effective_size(np.ones(10)) == 10


def test_runs_that_stand_still_are_not_enough(tmp_path):
    rng = np.random.default_rng(0)
    paths = []
    for k in range(2):
        paths.append(tmp_path / f"{k}.t")
        paths[-1].write_text("".join(newick(6, rng) * 100 for _ in range(10)))
    report = hct.compare_runs(hct.read_trees(paths, 0))
    assert min(report.ess) < ENOUGH / 4
    assert not report.enough


def test_trees_that_are_all_the_same_say_so(tmp_path):
    paths = [tmp_path / f"{k}.t" for k in range(2)]
    for path in paths:
        path.write_text("((a,b),(c,d));" * 300)
    report = hct.compare_runs(hct.read_trees(paths))
    assert report.enough
    assert "All trees are the same" in report.verdict
    assert "independent trees, enough" not in report.verdict


def test_a_rogue_leaf_is_found():
    rng = np.random.default_rng(0)
    trees = []
    for _ in range(200):
        names = ["a", "b", "c", "d", "e", "f"]
        k = rng.integers(7)
        if k < 6:
            names[k] = f"({names[k]},rogue)"
        text = "((({},{}),{}),(({},{}),{}));".format(*names)
        trees.append(text if k < 6 else text.replace("(a,b)", "((a,b),rogue)"))
    report = hct.compare_runs(list(read_newicks("".join(trees))))
    assert report.rogues[0].label == "rogue"
    assert "Without rogue the mean support" in report.verdict
    assert report.rogues[0].gain == pytest.approx(1 - _mean_support(trees), abs=1e-9)


def _mean_support(trees):
    often = frequencies(list(read_newicks("".join(trees))))
    full = max(often)
    return sum(f for m, f in often.items() if m != full and f > 0.5) / 5


def test_weighted_summaries_do_not_tell():
    runs = TreeRuns.from_trees(sample(size=5), [0.5, 0.2, 0.1, 0.1, 0.1])
    report = hct.compare_runs(runs)
    assert report.ess is None
    assert report.enough is None
    assert "does not tell" in report.verdict
    long = hct.compare_runs(sample(6, size=1000))
    assert long.enough is None
    assert min(long.ess) >= ENOUGH
    assert hct.compare_runs(sample(6, size=50)).enough is False


def test_standing():
    trees = sample(6)
    post = hct.infer(hct.CladeDistribution(trees))
    every = post.top_trees(10**4)
    for k in (0, 3, len(every) - 1):
        found = standing(post, every[k])
        better = sum(p for p in every.probabilities if p > every.probabilities[k] * (1 + 1e-9))
        assert found.level == pytest.approx(better + every.probabilities[k])
        ties = every.probabilities > every.probabilities[k] * (1 + 1e-9)
        assert found.rank == ties.sum() + 1
        assert found.is_exact
    other = next(t for t in naive.all_trees(6) if not _possible(post, t))
    absent = hct.Tree.from_clusters([sorted(a | b) for a, b in other], labels=post.labels)
    assert standing(post, absent).rank is None


def _possible(post, splits):
    clusters = [sorted(a | b) for a, b in splits]
    tree = hct.Tree.from_clusters(clusters, labels=post.labels)
    return post.log_probability(tree) > -math.inf


# ---- the command line -------------------------------------------------------------------------


def test_the_command_line_reads_as_read_trees(tmp_path, capsys):
    """A tenth is left out, which is said; bootstrap trees want a burn-in of 0."""
    path = tmp_path / "boot.ufboot"
    path.write_text("((a,c),b);\n" * 10 + "((a,b),c);\n" * 90)
    assert main(["infer", str(path)]) == 0
    out, err = capsys.readouterr()
    assert "boot.ufboot: 90 over 3 items, 1 of them different" in out
    assert "burn-in: 10 of 100 trees were left out" in err
    assert len(hct.read_trees(path)) == 90
    assert main(["infer", str(path), "--burn-in", "0"]) == 0
    out, err = capsys.readouterr()
    assert "boot.ufboot: 100 over 3 items, 2 of them different" in out
    assert "burn-in" not in err


def test_the_command_line_chooses_smoothing(tmp_path, capsys):
    path = tmp_path / "run.t"
    path.write_text("(((a,c),b),d);" * 20 + "(((a,b),c),d);" * 90 + "((a,b),(c,d));" * 40)
    assert main(["infer", str(path), "--smoothing", "auto"]) == 0
    expected = hct.CladeDistribution(hct.read_trees(path), smoothing="auto").smoothing
    out = capsys.readouterr().out
    assert f"Smoothing: {expected:.2g}, chosen by trees left out" in out
    assert f"a share of {expected:.2g} or more that goes to splits no tree has" in out
    weighed = tmp_path / "run.trprobs"
    weighed.write_text("[&W 0.9] ((a,b),c); [&W 0.1] ((a,c),b);")
    assert main(["infer", str(weighed), "--smoothing", "auto"]) == 0
    assert "Smoothing: 0.001, since" in capsys.readouterr().out
    assert main(["infer", str(path), "--smoothing", "2"]) != 0
    assert "from 0 to below 1, or auto" in capsys.readouterr().err


def test_the_report_has_the_verdict(tmp_path, capsys):
    two_runs(tmp_path)
    paths = [tmp_path / f"run{k}.t" for k in range(2)]
    target = tmp_path / "trees.html"
    assert main(["infer", *map(str, paths), "--report", str(target)]) == 0
    verdict = hct.compare_runs(hct.read_trees(paths)).verdict
    assert verdict in capsys.readouterr().out
    assert escape(verdict) in target.read_text("utf-8")


def test_a_single_tree_is_no_sample(tmp_path, capsys):
    path = tmp_path / "best.treefile"
    path.write_text("((a:1,b:1)98:1,(c:1,d:1)55:1);")
    assert main(["infer", str(path)]) == 0
    assert "There is one tree, so all of its clusters have probability 1" in capsys.readouterr().err
