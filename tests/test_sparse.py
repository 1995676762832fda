"""The sparse trellis: its structure against plain sets, its posterior against the trees it holds."""

import math
import pickle
import zipfile
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import gallery
import hctrellis as hct
import naive
from cases import EXACT, ROUNDING, all_near, leaves, mask_of, near, subsets
from gallery import PROBLEMS, as_sets, as_tree, listing, posterior, quiet, similarities
from hctrellis.trellis.sparse import SparseTrellis

relaxed = settings(deadline=None, max_examples=40)
seeds = st.integers(0, 10_000)
keeps = st.sampled_from(["observed", "all"])


# ---- the oracle: plain sets -------------------------------------------------------------------


def pick(n, count, seed):
    """Some random trees, each the tuple of its splits."""
    every = naive.all_trees(n)
    return [every[k] for k in np.random.default_rng(seed).integers(len(every), size=count)]


def clusters_in(n, trees):
    """All clusters of some trees, single leaves included."""
    return {frozenset([i]) for i in range(n)}.union(*map(naive.clusters_of, trees))


def splits_in(n, trees, keep):
    """The splits of a trellis built from some trees."""
    if keep == "observed":
        return {split for tree in trees for split in tree}
    clusters = clusters_in(n, trees)
    parents = [cluster for cluster in clusters if len(cluster) > 1]
    return {s for parent in parents for s in naive.splits_of(parent) if clusters.issuperset(s)}


def held(n, trees, keep, listed):
    """The part of a listing (or of all trees) that a trellis built from some trees holds."""
    known = splits_in(n, trees, keep)
    return [
        item
        for item, tree in zip(listed, naive.all_trees(n), strict=True)
        if known.issuperset(tree)
    ]


def as_trees(trees, n):
    return [as_tree(naive.clusters_of(tree), n) for tree in trees]


def sparse(n, trees, keep="observed"):
    return SparseTrellis.from_trees(as_trees(trees, n), keep)


def first_best(n, trees, keep, psi):
    """The best held tree; among splits that tie, that with the smallest mask of its first child."""
    known = splits_in(n, trees, keep)

    @cache
    def best(cluster):
        if len(cluster) == 1:
            return 0.0, frozenset()
        found = []
        for left, right in naive.splits_of(cluster):
            if (left, right) in known:
                (one, below), (other, beside) = best(left), best(right)
                weight = psi(left, right) + one + other
                found.append((-round(weight, 9), mask_of(left), weight, below | beside))
        _, _, weight, inside = min(found)
        return weight, inside | {cluster}

    return best(frozenset(range(n)))[1]


# ---- the oracle: many leaves ------------------------------------------------------------------


def random_children(n, rng, adjacent=False):
    """The children of a random tree; of neighbours only, so that trees share clusters."""
    nodes, children = list(range(n)), []
    for node in range(n, 2 * n - 1):
        i = int(rng.integers(len(nodes) - 1))
        j = i + 1 if adjacent else int(rng.integers(i + 1, len(nodes)))
        children.append((nodes[i], nodes.pop(j)))
        nodes[i] = node
    return np.array(children).reshape(n - 1, 2)


def shuffled(children, order):
    """The same trees with leaf order[k] in place of leaf k."""
    n = children.shape[-2] + 1
    return np.concatenate([order, np.arange(n, 2 * n - 1)])[children]


def many_children(n, count, seed):
    rng = np.random.default_rng(seed)
    trees = np.array([random_children(n, rng, adjacent=True) for _ in range(count)])
    return shuffled(trees, rng.permutation(n))


def splits_by_mask(trees):
    """The splits of trees given by their children: parent -> set of (left, right), as masks."""
    n = trees.shape[1] + 1
    found = {}
    for children in trees.tolist():
        masks = [1 << i for i in range(n)]
        for one, other in children:
            pair = sorted((masks[one], masks[other]), key=lambda mask: mask & -mask)
            masks.append(masks[one] | masks[other])
            found.setdefault(masks[-1], set()).add(tuple(pair))
    return found


def by_recursion(splits, values, beta=1.0):
    """Number of trees and log Z of Dasgupta's cost with similarities values[i] values[j]."""
    sums = {1 << i: value for i, value in enumerate(values.tolist())}
    count, log_z = dict.fromkeys(sums, 1), dict.fromkeys(sums, 0.0)
    for parent in sorted(splits, key=int.bit_count):
        left, right = next(iter(splits[parent]))
        sums[parent] = sums[left] + sums[right]
        count[parent] = sum(count[a] * count[b] for a, b in splits[parent])
        size = parent.bit_count()
        log_z[parent] = naive.log_sum(
            [log_z[a] + log_z[b] - beta * size * sums[a] * sums[b] for a, b in splits[parent]]
        )
    root = (1 << len(values)) - 1
    return count[root], log_z[root]


def products(values):
    matrix = np.outer(values, values)
    np.fill_diagonal(matrix, 0)
    return matrix


# ---- structure --------------------------------------------------------------------------------


def masks_of(trellis):
    return trellis.vertices.masks(np.arange(trellis.n_clusters))


def triples_of(trellis):
    """All splits as masks (parent, left, right)."""
    masks = masks_of(trellis)
    return {tuple(masks[i] for i in row) for row in trellis.vertices.triples().tolist()}


def arrays(trellis):
    v = trellis.vertices
    return [array.tolist() for array in (v.words, v.offsets, v.lefts, v.rights)]


def same(one, other):
    return (one.n_leaves, arrays(one)) == (other.n_leaves, arrays(other))


random_sets = st.tuples(st.integers(1, 6), st.integers(1, 12), seeds, keeps)


@relaxed
@given(random_sets)
def test_structure(drawn):
    n, count, seed, keep = drawn
    chosen = pick(n, count, seed)
    trellis = sparse(n, chosen, keep)
    trellis.validate()
    known, every = splits_in(n, chosen, keep), naive.all_trees(n)
    trees = held(n, chosen, keep, every)
    assert (trellis.n_leaves, trellis.keep) == (n, keep)
    assert sorted(masks_of(trellis)) == sorted(map(mask_of, clusters_in(n, chosen)))
    assert triples_of(trellis) == {(mask_of(l | r), mask_of(l), mask_of(r)) for l, r in known}
    assert trellis.n_clusters == len(clusters_in(n, chosen))
    assert trellis.n_splits == len(known)
    assert trellis.n_trees == len(trees)
    assert trellis.log_n_trees == pytest.approx(math.log(len(trees)), abs=1e-12)
    assert trellis.sparsity == float(Fraction(len(trees), len(every)))
    for tree in every[:: max(1, len(every) // 60)] + tuple(chosen):
        assert (as_tree(naive.clusters_of(tree), n) in trellis) == known.issuperset(tree)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_all_trees_are_the_full_trellis(n):
    trellis, full = sparse(n, naive.all_trees(n)), hct.FullTrellis(n)
    for name in ("n_leaves", "n_clusters", "n_splits", "n_trees", "sparsity"):
        assert getattr(trellis, name) == getattr(full, name)
    assert trellis.log_n_trees == pytest.approx(full.log_n_trees, abs=1e-12)


def test_order_of_clusters_and_splits():
    """Leaves, then by size and mask; the child with the lowest leaf first, by its mask."""
    trellis = sparse(5, naive.all_trees(5))
    masks = masks_of(trellis)
    assert masks == sorted(masks, key=lambda mask: (mask.bit_count(), mask))
    rows = [(p, masks[l], masks[r]) for p, l, r in trellis.vertices.triples().tolist()]
    assert rows == sorted(rows)
    assert all(left & -left < right & -right for _, left, right in rows)


@pytest.mark.parametrize("keep", ["observed", "all"])
@pytest.mark.parametrize(("n", "count"), [(40, 200), (100, 60), (300, 60)])
def test_exact_number_of_trees(n, count, keep):
    trellis = SparseTrellis.from_children(many_children(n, count, n), keep)
    trellis.validate()
    v = trellis.vertices
    trees = [1] * n
    for k in range(n, len(v)):
        some = range(v.offsets[k], v.offsets[k + 1])
        trees.append(sum(trees[v.lefts[i]] * trees[v.rights[i]] for i in some))
    assert trellis.n_trees == trees[-1] > 2**64
    assert type(trellis.n_trees) is int
    assert trellis.log_n_trees == pytest.approx(math.log(trees[-1]), rel=1e-13)
    assert trellis.sparsity == trees[-1] / math.prod(range(1, 2 * n - 2, 2))


@pytest.mark.parametrize("n", [63, 64, 65, 128, 130, 1000])
def test_clusters_of_several_words(n):
    rng, children = np.random.default_rng(n), many_children(n, 8, n)
    trees = [hct.Tree(rows) for rows in children]
    trellis = SparseTrellis.from_trees(trees)
    trellis.validate()
    v, masks = trellis.vertices, masks_of(trellis)
    assert v.words.shape == (len(v), -(-n // 64))
    assert masks == sorted({m for t in trees for m in t.masks}, key=lambda m: (m.bit_count(), m))
    assert triples_of(trellis) == {split for tree in trees for split in tree.splits()}
    assert [v.find(mask) for mask in masks[:: n // 50]] == [*range(0, len(masks), n // 50)]
    assert v.find(masks[-1] ^ 1 << n // 2) == -1
    assert v.find(masks[-2] | 1 << n - 1) in (-1, len(masks) - 1, len(masks) - 2)
    np.testing.assert_array_equal(v.sizes, [mask.bit_count() for mask in masks])
    assert all(tree in trellis for tree in trees)
    assert hct.Tree(random_children(n, rng)) not in trellis
    values = rng.uniform(0.01, 0.1, n)
    count, log_z = by_recursion(splits_by_mask(children), values)
    post = hct.infer(hct.Dasgupta(products(values)), trellis)
    assert trellis.n_trees == count
    assert post.log_partition == pytest.approx(log_z, rel=1e-12)
    cluster = masks[n + len(trees)]
    assert post.cluster_probability(cluster) == pytest.approx(post.probability([cluster]))


@pytest.mark.parametrize("keep", ["observed", "all"])
def test_trees_with_permuted_labels(keep):
    trees = as_trees(pick(6, 10, 3), 6)
    rng = np.random.default_rng(1)
    moved = [trees[0], *(tree.reorder(map(str, rng.permutation(6))) for tree in trees[1:])]
    assert any(tree.labels != trees[0].labels for tree in moved)
    trellis = SparseTrellis.from_trees(iter(moved), keep)
    assert same(trellis, SparseTrellis.from_trees(trees, keep))
    assert trees[1].relabel("abcdef") in trellis


@relaxed
@given(st.integers(1, 6), seeds, keeps, keeps)
def test_union(n, seed, keep, other_keep):
    some, more = pick(n, 4, seed), pick(n, 4, seed + 1)
    one, other = sparse(n, some, keep), sparse(n, more, other_keep)
    both = one | other
    both.validate()
    assert same(both, other.union(one))
    assert same(one | one, one)
    assert same(both | one, both)
    assert both.keep == max(keep, other_keep, key=lambda k: k == "all")
    known = splits_in(n, some, keep) | splits_in(n, more, other_keep)
    if both.keep == "all":
        known = splits_in(n, [*some, *more], "all")
    assert both.n_splits == len(known)
    added = one.add_trees(as_trees(more, n))
    assert same(added, sparse(n, [*some, *more], keep))
    assert added.keep == keep


def test_recombined_trees_add_nothing():
    trellis = sparse(6, pick(6, 30, 2))
    trees = [tree for tree in as_trees(naive.all_trees(6), 6) if tree in trellis]
    assert len(trees) == trellis.n_trees > 30
    assert same(trellis.add_trees(trees), trellis)


@pytest.mark.parametrize(("n", "keep"), [(1, "all"), (6, "observed"), (6, "all"), (130, "all")])
def test_reorder(n, keep):
    order = np.random.default_rng(n).permutation(n)
    children = many_children(n, 12, 7)
    trellis = SparseTrellis.from_children(children, keep).reorder(order.tolist())
    trellis.validate()
    assert same(trellis, SparseTrellis.from_children(shuffled(children, order), keep))
    assert trellis.keep == keep
    assert same(trellis.reorder(np.argsort(order)), SparseTrellis.from_children(children, keep))


def test_repr():
    assert (
        repr(sparse(4, pick(4, 1, 0))) == "SparseTrellis(4 leaves, 7 clusters, 3 splits, 1 trees)"
    )
    text = repr(SparseTrellis.from_children(many_children(100, 60, 100)))
    number = float(text.split()[-2])
    assert math.log(number) == pytest.approx(
        SparseTrellis.from_children(many_children(100, 60, 100)).log_n_trees, abs=0.01
    )


# ---- mistakes ---------------------------------------------------------------------------------

QUARTET = hct.Tree.from_newick("((a,b),(c,d));")
SMALL = SparseTrellis.from_trees([QUARTET, hct.Tree.from_newick("(((a,b),c),d);")])

MISTAKES = {
    "no trees": (lambda: SparseTrellis.from_trees([]), ValueError, "at least one tree; got none"),
    "no more trees": (lambda: SMALL.add_trees([]), ValueError, "at least one tree; got none"),
    "not trees": (lambda: SparseTrellis.from_trees([3]), TypeError, "expected trees, got int"),
    "text": (lambda: SparseTrellis.from_trees("ab"), TypeError, "expected trees, got str"),
    "other labels": (
        lambda: SparseTrellis.from_trees([QUARTET, hct.Tree.from_newick("(a,(x,(c,d)));")]),
        ValueError,
        "different labels, for instance 'b'",
    ),
    "other sizes": (
        lambda: SparseTrellis.from_trees([QUARTET, hct.Tree.from_newick("(a,b);")]),
        ValueError,
        "different labels, for instance 'c'",
    ),
    "splits": (
        lambda: SparseTrellis.from_trees([QUARTET], splits="some"),
        ValueError,
        'splits must be "observed" or "all"; got \'some\'',
    ),
    "shape": (
        lambda: SparseTrellis.from_children([[0, 1]]),
        ValueError,
        r"children must have the shape \(trees, n - 1, 2\); got \(1, 2\)",
    ),
    "a child too many": (lambda: SparseTrellis.from_children([[[0, 9]]]), ValueError, "9"),
    "a negative child": (lambda: SparseTrellis.from_children([[[0, -1]]]), ValueError, "-1"),
    "its own child": (lambda: SparseTrellis.from_children([[[0, 2]]]), ValueError, "2"),
    "a child twice": (
        lambda: SparseTrellis.from_children([[[0, 1], [0, 2]]]),
        ValueError,
        "child|parent|twice",
    ),
    "union of sizes": (
        lambda: SMALL | sparse(3, pick(3, 1, 0)),
        ValueError,
        "one trellis has 4 leaves, the other 3",
    ),
    "more leaves": (
        lambda: SMALL.add_trees(as_trees(pick(5, 1, 0), 5)),
        ValueError,
        "one trellis has 4 leaves, the other 5",
    ),
    "union with a tree": (lambda: SMALL.union(QUARTET), TypeError, "a SparseTrellis, got Tree"),
    "order too short": (lambda: SMALL.reorder([0, 1, 2]), ValueError, "order of 4 leaves has each"),
    "order twice": (lambda: SMALL.reorder([0, 1, 1, 3]), ValueError, "each of 0 .. 3 once; got"),
    "order of names": (lambda: SMALL.reorder("abcd"), ValueError, "each of 0 .. 3 once; got"),
    "data of other size": (
        lambda: hct.infer(hct.Dasgupta(similarities(5)), SMALL),
        ValueError,
        "the potential has 5 leaves, the trellis 4",
    ),
    "trellis": (
        lambda: hct.infer(hct.Dasgupta(similarities(5)), QUARTET),
        TypeError,
        "trellis must be a FullTrellis or a SparseTrellis; got Tree",
    ),
    "not a number": (
        lambda: hct.infer(broken_at_a_pair(4), SMALL),
        ValueError,
        r"the log weight of the split \{'0'\} | \{'1'\} is nan; it must be a finite number",
    ),
}


def broken_at_a_pair(n):
    """NaN for the split of the first two leaves alone, which few random splits are."""

    def function(left, right, parent):
        return np.where(parent[0] == 3.0, np.nan, 0.0)

    return hct.FunctionPotential(function, 2.0 ** np.arange(n))


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(mistake):
    make, kind, message = MISTAKES[mistake]
    with pytest.raises(kind, match=message) as error:
        make()
    assert "\n" not in str(error.value)


def test_what_is_no_tree_of_the_trellis():
    assert QUARTET in SMALL
    assert hct.Tree.from_newick("((a,c),(b,d));") not in SMALL
    assert hct.Tree.from_newick("((a,b),c);") not in SMALL
    assert "((a,b),(c,d));" not in SMALL


# ---- validate ---------------------------------------------------------------------------------

# the trellis of SMALL: clusters 0-3 the leaves, 4 = ab, 5 = cd, 6 = abc, 7 = abcd
# splits a|b of 4, c|d of 5, ab|c of 6, ab|cd and abc|d of 7


def put(array, at, value):
    changed = array.copy()
    changed[at] = value
    return changed


BROKEN = {
    "words too narrow": lambda v: {"words": v.words[:, :0]},
    "too few offsets": lambda v: {"offsets": v.offsets[:-1]},
    "more lefts than rights": lambda v: {"lefts": np.append(v.lefts, 0)},
    "fewer clusters than leaves": lambda v: {"n_leaves": 9},
    "fewer leaves": lambda v: {"n_leaves": 3},
    "offsets fall": lambda v: {"offsets": put(v.offsets, 6, 0)},
    "offsets start late": lambda v: {"offsets": put(v.offsets, 0, 1)},
    "offsets end early": lambda v: {"offsets": put(v.offsets, -1, 4)},
    "offsets beyond": lambda v: {"offsets": put(v.offsets, 6, 100)},
    "offsets wrap around": lambda v: {
        "offsets": np.array([0, 0, 0, 0, 0, 2**63 - 1, -(2**63), -1, 5])
    },
    "leaves swapped": lambda v: {"words": v.words[[1, 0, 2, 3, 4, 5, 6, 7]]},
    "root too small": lambda v: {"words": put(v.words, (7, 0), 0b0111)},
    "cluster without a split": lambda v: {"offsets": put(v.offsets, 5, 0)},
    "leaf with a split": lambda v: {"offsets": np.array([0, 0, 0, 0, 1, 1, 2, 3, 5])},
    "child above its parent": lambda v: {"lefts": put(v.lefts, 2, 7)},
    "child of itself": lambda v: {"lefts": put(v.lefts, 0, 4)},
    "negative child": lambda v: {"rights": put(v.rights, 0, -7)},
    "child that is not there": lambda v: {"rights": put(v.rights, 4, 10**6)},
    "children overlap": lambda v: {"rights": put(v.rights, 3, 6)},
    "children leave some out": lambda v: {"rights": put(v.rights, 3, 2)},
    "cluster twice": lambda v: {
        "words": v.words[[0, 1, 2, 3, 4, 4, 5, 6, 7]],
        "offsets": np.array([0, 0, 0, 0, 0, 1, 2, 3, 4, 6]),
        "lefts": np.array([0, 0, 2, 4, 4, 7]),
        "rights": np.array([1, 1, 3, 2, 6, 3]),
    },
    "clusters out of order": lambda v: {
        "words": v.words[[0, 1, 2, 3, 5, 4, 6, 7]],
        "lefts": np.array([2, 0, 5, 5, 6]),
        "rights": np.array([3, 1, 2, 4, 3]),
    },
    "split twice": lambda v: {
        "offsets": np.array([0, 0, 0, 0, 0, 2, 3, 4, 6]),
        "lefts": v.lefts[[0, 0, 1, 2, 3, 4]],
        "rights": v.rights[[0, 0, 1, 2, 3, 4]],
    },
    "splits out of order": lambda v: {
        "lefts": v.lefts[[0, 1, 2, 4, 3]],
        "rights": v.rights[[0, 1, 2, 4, 3]],
    },
    "lowest leaf on the right": lambda v: {
        "lefts": put(v.lefts, 3, 5),
        "rights": put(v.rights, 3, 4),
    },
}


@pytest.mark.parametrize("kind", BROKEN)
def test_validate(kind, tmp_path):
    SMALL.validate()
    broken = SparseTrellis(replace(SMALL.vertices, **BROKEN[kind](SMALL.vertices)))
    with pytest.raises(ValueError, match="not a sparse trellis: ") as error:
        broken.validate()
    assert "\n" not in str(error.value)
    broken.save(tmp_path / "broken")
    with pytest.raises(ValueError, match="not a sparse trellis: "):
        SparseTrellis.load(tmp_path / "broken")


# ---- files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", ["observed", "all"])
@pytest.mark.parametrize("n", [1, 2, 6, 64, 130])
def test_save_and_load(n, keep, tmp_path):
    trellis = SparseTrellis.from_children(many_children(n, 9, n), keep)
    for path in (tmp_path / "trellis", str(tmp_path / "trellis.npz")):
        trellis.save(path)
        assert Path(path).is_file()
        found = SparseTrellis.load(path)
        assert same(found, trellis)
        assert (found.keep, found.n_trees) == (keep, trellis.n_trees)
        assert [a.dtype for a in (found.vertices.words, found.vertices.lefts)] == ["u8", "i8"]
    assert same(
        found.add_trees([hct.Tree(many_children(n, 1, 3)[0])]).reorder(range(n)), found
    ) or (n > 2)


class Trap:
    """What a malicious file would run."""

    def __reduce__(self):
        return Path.touch, (Path("trapped"),)


def contents(trellis, **changes):
    v = trellis.vertices
    return {
        "format": np.array(["hctrellis sparse trellis 1", trellis.keep]),
        "n_leaves": np.array(v.n_leaves),
        **{name: getattr(v, name) for name in ("words", "offsets", "lefts", "rights")},
        **changes,
    }


CHANGES = {
    "format": np.array(["hctrellis sparse trellis 99", "all"]),
    "format of one": np.array(["hctrellis sparse trellis 1"]),
    "format as number": np.array(7),
    "format trapped": np.array([Trap(), Trap()], object),
    "format keeps what": np.array(["hctrellis sparse trellis 1", "most"]),
    "n_leaves is none": np.array(0),
    "n_leaves is negative": np.array(-4),
    "n_leaves is large": np.array(10**15),
    "n_leaves is 5": np.array(5),
    "n_leaves is text": np.array("four"),
    "n_leaves are two": np.array([4, 4]),
    "n_leaves trapped": np.array(Trap(), object),
    "words signed": SMALL.vertices.words.astype(np.int64),
    "words as numbers": SMALL.vertices.words.astype(float),
    "words flat": SMALL.vertices.words.ravel(),
    "words of none": np.zeros((0, 1), np.uint64),
    "words trapped": np.array([[Trap()]] * 8, object),
    "offsets short": SMALL.vertices.offsets.astype(np.int32),
    "offsets falling": SMALL.vertices.offsets[::-1],
    "offsets of none": np.zeros(0, np.int64),
    "lefts negative": -SMALL.vertices.lefts - 1,
    "lefts trapped": np.array([Trap()] * 5, object),
    "lefts as matrix": SMALL.vertices.lefts[:, None],
    "rights large": SMALL.vertices.rights + 2**40,
    "rights as one": np.array(3),
}


@pytest.fixture
def apart(tmp_path, monkeypatch):
    """A folder of its own, in which nothing may have been trapped."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    assert not (tmp_path / "trapped").exists()


def assert_not_loaded(path):
    with pytest.raises(ValueError, match="not a (saved )?sparse trellis|n_leaves must be") as error:
        SparseTrellis.load(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("change", CHANGES)
def test_files_with_a_wrong_array(change, apart):
    np.savez(apart / "file.npz", **contents(SMALL, **{change.split()[0]: CHANGES[change]}))
    assert_not_loaded(apart / "file.npz")


def test_contents_are_those_of_a_file(apart):
    np.savez(apart / "file.npz", **contents(SMALL))
    assert same(SparseTrellis.load(apart / "file.npz"), SMALL)


@pytest.mark.parametrize("missing", contents(SMALL))
def test_files_that_lack_an_array(missing, apart):
    arrays = contents(SMALL)
    del arrays[missing]
    np.savez(apart / "file.npz", **arrays)
    assert_not_loaded(apart / "file.npz")


def test_files_of_another_kind(apart):
    path = apart / "file.npz"
    for content in (b"", b"((a,b),(c,d));\n", b"PK\x03\x04", b"\x93NUMPY", pickle.dumps(Trap())):
        path.write_bytes(content)
        assert_not_loaded(path)
    np.save(path, np.array([Trap()], object))
    assert_not_loaded(path)
    np.save(apart / "file.npy", np.arange(3))
    assert_not_loaded(apart / "file.npy")
    with zipfile.ZipFile(path, "w") as file:
        for name in contents(SMALL):
            file.writestr(f"{name}.npy", pickle.dumps(Trap()))
    assert_not_loaded(path)
    for name in ("nowhere.npz", "."):
        with pytest.raises(OSError, match=r"nowhere|directory|Permission"):
            SparseTrellis.load(apart / name)


def test_files_with_wrong_bytes(apart):
    """Cut short anywhere, or with some bytes changed: a trellis that is valid, or one ValueError."""
    path, rng = apart / "file.npz", np.random.default_rng(0)
    SparseTrellis.from_children(many_children(6, 5, 1)).save(path)
    whole = np.frombuffer(path.read_bytes(), np.uint8)
    for length in range(0, len(whole), 41):
        path.write_bytes(whole[:length].tobytes())
        assert_not_loaded(path)
    for _ in range(400):
        at = rng.integers(len(whole), size=rng.integers(1, 4))
        path.write_bytes(put(whole, at, rng.integers(256, size=len(at))).tobytes())
        try:
            SparseTrellis.load(path).validate()
        except ValueError as error:
            assert "\n" not in str(error)


# ---- the posterior ----------------------------------------------------------------------------

NAMES = [
    "dasgupta, 6 leaves",
    "dasgupta, beta 1000",
    "dasgupta, symmetric",
    "single, 6 leaves",
    "complete, duplicates",
    "ward, 6 leaves",
    "correlation, 1e12",
    "ginkgo, 6 leaves",
    "ginkgo, most forbidden",
    "ginkgo, non-stop, root rate",
    "function, numpy, 6 leaves",
    "function, numpy, forbidding, 6 leaves",
    "function, numba, forbidding, 6 leaves",
    "dasgupta + prior",
    "single + ginkgo",
    "single + complete",
    "dasgupta, 1 leaves",
    "ginkgo, 2 leaves",
    "function, numpy, 3 leaves",
]
CASES = [(name, keep) for name in NAMES for keep in ("observed", "all")]
over = pytest.mark.parametrize(("name", "keep"), CASES, ids=[f"{n}: {k}" for n, k in CASES])
SIX = [case for case in CASES if PROBLEMS[case[0]].n <= 6]
over_small = pytest.mark.parametrize(("name", "keep"), SIX, ids=[f"{n}: {k}" for n, k in SIX])


def seed_trees(name):
    """Some random trees, and a best one."""
    n = PROBLEMS[name].n
    ((best, _),) = naive.top_trees(listing(name), 1)
    known = next(tree for tree in naive.all_trees(n) if naive.clusters_of(tree) == best)
    return [*pick(n, 25, n), known]


@cache
def solved(name, keep):
    """The posterior over a sparse trellis, and the listing of its trees."""
    n, trees = PROBLEMS[name].n, seed_trees(name)
    post = quiet(hct.infer, PROBLEMS[name].make(), trellis=sparse(n, trees, keep))
    return post, held(n, trees, keep, listing(name))


def allowed(name, trees):
    """How far a probability may be off, and a log weight."""
    size = abs(naive.max_log_weight(trees))
    rough = PROBLEMS[name].tolerance if PROBLEMS[name].tolerance > 1e-11 else EXACT
    return max(rough, 4 * ROUNDING * size), PROBLEMS[name].tolerance * max(1.0, size)


def assert_answers(post, trees, name):
    """log Z, the best tree, the number of trees and the marginals are those of a listing."""
    around, weight = allowed(name, trees)
    assert near(post.log_partition, naive.log_partition(trees), weight)
    assert near(post.map_log_weight, naive.max_log_weight(trees), weight)
    assert as_sets(post.map_tree) in naive.best_trees(trees, PROBLEMS[name].tolerance)
    assert post.n_trees == naive.n_trees(trees)
    expected = naive.cluster_marginals(trees)
    for cluster in subsets(post.n_leaves):
        exact = expected.get(cluster, 0.0) if len(cluster) > 1 else 1.0
        assert near(post.cluster_probability(cluster), exact, around), cluster


@over
def test_posterior(name, keep):
    post, trees = solved(name, keep)
    assert_answers(post, trees, name)
    full = listing(name)
    assert post.trellis.n_trees == len(trees) <= len(full)
    assert post.log_partition <= naive.log_partition(full) + allowed(name, full)[1]
    present = clusters_in(post.n_leaves, seed_trees(name))
    for cluster in set(subsets(post.n_leaves)) - present:
        assert post.cluster_probability(cluster) == 0.0


@over
def test_what_a_posterior_says_of_itself(name, keep):
    post, trees = solved(name, keep)
    assert not post.is_exact
    assert f"log Z >= {post.log_partition:.6g})" in repr(post)
    table = post.cluster_probabilities(0)
    assert not table.is_exact
    assert "given the trees of a sparse trellis" in repr(table)
    assert "given the trees of a sparse trellis" in table._repr_html_()
    n = post.n_leaves
    expected = {c for c, p in naive.cluster_marginals(trees).items() if p > 1e-200 and len(c) < n}
    assert {leaves(mask, n) for mask in table.masks} == expected


@over
def test_split_probability(name, keep):
    """Of all splits in either order, those included that the trellis does not have."""
    post, trees = solved(name, keep)
    expected = naive.split_marginals(trees)
    for parent in subsets(post.n_leaves):
        for left, right in naive.splits_of(parent) if len(parent) > 1 else ():
            exact = expected.get(frozenset([left, right]), 0.0)
            for pair in ((left, right), (right, left)):
                assert near(post.split_probability(*pair), exact, 10 * allowed(name, trees)[0]), (
                    pair
                )


@over_small
def test_subtree_probability(name, keep):
    post, trees = solved(name, keep)
    for leaf_set in subsets(post.n_leaves):
        labels = sorted(map(str, leaf_set))
        for splits in naive.trees_over(leaf_set)[::17]:
            clusters = naive.clusters_of(splits)
            names = [[str(i) for i in cluster] for cluster in clusters]
            found = post.subtree_probability(hct.Tree.from_clusters(names, labels=labels))
            exact = naive.subtree_probability(trees, clusters)
            assert near(found, exact, 10 * allowed(name, trees)[0])


@over_small
def test_log_probability_of_trees_held_and_not(name, keep):
    post, trees = solved(name, keep)
    known, log_z = dict(trees), naive.log_partition(trees)
    for clusters, _ in [*listing(name)[::9], *trees[:20]]:
        exact = known.get(clusters, -math.inf) - log_z
        tree = as_tree(clusters, post.n_leaves)
        assert near(post.log_probability(tree), exact, 2 * allowed(name, trees)[1])
        moved = tree.reorder(reversed(tree.labels))
        assert post.log_probability(moved) == post.log_probability(tree)
        support = post.support(tree)
        assert len(support) == len(clusters)
        for cluster in clusters:
            p = support[frozenset(map(str, cluster))]
            assert p == post.cluster_probability(cluster)


CONDITIONS = [
    ([], []),
    ([{0, 1}], []),
    ([{0, 1}, {2, 3}], []),
    ([{0, 1}, {1, 2}], []),
    ([], [{0, 1}]),
    ([], [{0, 1}, {1, 2, 3}]),
    ([{0, 1, 2}], [{0, 1}]),
    ([{1, 4}], [{0, 2}]),
]


@over
def test_conditions(name, keep):
    post, trees = solved(name, keep)
    around = 10 * allowed(name, trees)[0]
    tree = as_sets(post.map_tree)
    own = [([c], []) for c in tree] + [([], [c]) for c in tree if len(c) < post.n_leaves]
    for required, forbidden in CONDITIONS + own:
        if any(max(c) >= post.n_leaves or len(c) == post.n_leaves for c in required + forbidden):
            continue
        some = naive.given(trees, map(frozenset, required), map(frozenset, forbidden))
        exact = math.exp(naive.log_partition(some) - naive.log_partition(trees))
        assert near(post.probability(contains=required, lacks=forbidden), exact, around)
        restricted = post.given(required, forbidden=forbidden)
        assert restricted.n_trees == naive.n_trees(some)
        assert not restricted.is_exact
        if restricted.n_trees > 0:
            assert_answers(restricted, some, name)
        else:
            assert restricted.log_partition == -math.inf
    assert post.given([post.map_tree]).n_trees == 1


@over
def test_coclustering(name, keep):
    post, trees = solved(name, keep)
    n, around = post.n_leaves, 100 * allowed(name, trees)[0]
    sizes = {(i, j): naive.common_sizes(trees, i, j) for i in range(n) for j in range(i + 1)}
    for most in range(1, n + 1):
        found = post.coclustering(most)
        for (i, j), exact in sizes.items():
            p = math.fsum(p for size, p in exact.items() if size <= most)
            mean = math.fsum(size * p for size, p in exact.items())
            assert near(found.probability[i, j], p, around)
            assert near(found.probability[j, i], p, around)
            assert near(found.expected_size[i, j], mean, around)


@over
def test_sample(name, keep):
    post, trees = solved(name, keep)
    sample = post.sample(20_000, rng=11)
    exact = {tree: p for tree, p in naive.probabilities(trees).items() if p > 0}
    drawn, times = sample.counts()
    found = {as_sets(tree): int(k) for tree, k in zip(drawn, times, strict=True)}
    assert set(found) <= set(exact)
    expected = np.array([len(sample) * p for p in exact.values()])
    counts = np.array([found.get(tree, 0) for tree in exact])
    often = expected >= 10
    expected, counts = (np.append(a[often], a[~often].sum()) for a in (expected, counts))
    chi_square = ((counts - expected) ** 2 / np.maximum(expected, 1e-9)).sum()
    assert chi_square <= max(1e-3, stats.chi2.isf(1e-5, max(1, len(expected) - 1)))
    weights = dict(trees)
    sets = [as_sets(tree) for tree in sample[:50]]
    assert all_near(sample.log_weights[:50], [weights[s] for s in sets], allowed(name, trees)[1])
    table = sample.cluster_frequencies(0)
    for mask, frequency in zip(table.masks, table.probabilities, strict=True):
        cluster = leaves(mask, post.n_leaves)
        assert frequency * len(sample) == pytest.approx(
            sum(k for tree, k in found.items() if cluster in tree)
        )
    again = post.sample(30, rng=11)
    assert list(again) == list(post.sample(30, rng=np.random.default_rng(11)))


@over
def test_top_trees(name, keep):
    post, trees = solved(name, keep)
    weights, exact = dict(trees), naive.probabilities(trees)
    around, weight = allowed(name, trees)
    for k in (1, 7, len(trees) + 10):
        found = post.top_trees(k)
        best = naive.top_trees(trees, k)
        sets = [as_sets(tree) for tree in found]
        assert len(set(sets)) == len(found) == len(best)
        assert (np.diff(found.log_weights) <= 0).all()
        assert all_near(found.log_weights, [w for _, w in best], weight)
        assert all_near(found.log_weights, [weights[s] for s in sets], weight)
        assert all_near(found.probabilities, [exact[s] for s in sets], 10 * around)
    ranked = np.cumsum(sorted(exact.values(), reverse=True))
    for mass in (0.3, 0.95):
        credible = post.credible_set(mass)
        assert credible.complete
        assert ranked[len(credible) - 1] >= mass - 100 * around
        assert len(credible) == 1 or ranked[len(credible) - 2] < mass + 100 * around


@over
def test_summaries(name, keep):
    post, trees = solved(name, keep)
    consensus = post.consensus_tree()
    expected = naive.majority_clusters(trees, 0.5 + 1e-9)
    assert {leaves(mask, post.n_leaves) for mask in consensus.clusters()} == expected
    best = naive.expected_clusters_trees(trees, 1e-7)
    assert as_sets(post.expected_clusters_tree()) in best
    assert post.expected_clusters_tree() in post.trellis


@over
def test_information(name, keep):
    post, trees = solved(name, keep)
    around, weight = allowed(name, trees)
    mean, variance = naive.log_weight_moments(trees)
    possible = [w for _, w in trees if w > -math.inf]
    wide = max(1.0, max(possible) - min(possible))
    assert near(post.expected_log_weight, mean, max(weight, around * wide))
    assert near(post.log_weight_variance, variance, 10 * around * wide**2)
    assert near(post.entropy, naive.entropy(trees), 100 * around)
    beta = post.potential.beta
    expected = naive.expected_energy(trees, beta)
    assert near(post.expected_energy, expected, max(weight, around * wide) / beta)


@over_small
def test_kl_divergence(name, keep):
    post, trees = solved(name, keep)
    other = gallery.function("", "numpy", post.n_leaves, 3)
    beside = quiet(hct.infer, other.make(), post.trellis)
    chosen = seed_trees(name)
    n = post.n_leaves
    exact = naive.kl_divergence(trees, held(n, chosen, keep, naive.listing(n, other.psi)))
    assert post.kl_divergence(post) == 0
    assert near(post.kl_divergence(beside), exact, 10 * max(allowed(name, trees)))
    for trellis in (None, sparse(n, chosen[:1])):
        elsewhere = quiet(hct.infer, post.potential, trellis)
        for one, two in ((post, elsewhere), (elsewhere, post)):
            if trellis is None or n > 3:
                with pytest.raises(ValueError, match="must be over the same trellis"):
                    one.kl_divergence(two)


# ---- nothing possible -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["numpy, all forbidden", "ginkgo, all forbidden"])
def test_everything_forbidden(name):
    n = PROBLEMS[name].n
    assert_impossible(hct.infer(PROBLEMS[name].make(), sparse(n, pick(n, 9, 1))))


def test_all_held_trees_forbidden():
    """Some trees are possible, but none of the trellis."""
    name = "function, numpy, forbidding, 6 leaves"
    bad = [t for t, (_, w) in zip(naive.all_trees(6), listing(name), strict=True) if w == -math.inf]
    post = hct.infer(PROBLEMS[name].make(), sparse(6, bad[:1]))
    assert post.trellis.n_trees == 1
    assert_impossible(post)


def assert_impossible(post):
    assert post.log_partition == -math.inf
    assert post.n_trees == 0
    for ask in (
        lambda: post.map_tree,
        lambda: post.entropy,
        lambda: post.cluster_probability([0, 1]),
        lambda: post.sample(2),
        lambda: post.top_trees(2),
        lambda: post.log_probability(post.trellis),
    ):
        with pytest.raises(hct.NoTreeError, match="is forbidden"):
            ask()


# ---- the full trellis, and laws ---------------------------------------------------------------


def caterpillar(leaf_list):
    """The children of a chain, as masks."""
    return {mask_of(leaf_list[: k + 1]) for k in range(1, len(leaf_list))}


def every_cluster(n):
    """Trees that have all clusters between them: each set of leaves beside its complement."""
    whole = (1 << n) - 1
    for mask in range(1, whole, 2):
        sides = (sorted(leaves(side, n)) for side in (mask, whole ^ mask))
        clusters = set().union(*map(caterpillar, sides))
        yield hct.Tree.from_clusters(clusters, labels=[str(i) for i in range(n)])


@pytest.mark.parametrize(
    "name",
    [
        "dasgupta",
        "single",
        "ginkgo, root rate",
        "function, numba, forbidding",
        "average + prior",
        "ginkgo, some forbidden",
        "dasgupta, symmetric",
        "complete, duplicates",
        "function, numpy, 5 leaves",
        "ginkgo, 3 leaves",
        "yule, 2 leaves",
    ],
)
def test_all_trees_give_the_answers_of_the_full_trellis(name):
    full, n = posterior(name), PROBLEMS[name].n
    if n == 7:
        trellis = SparseTrellis.from_trees(every_cluster(n), "all")
    else:
        trellis = sparse(n, naive.all_trees(n))
    post = quiet(hct.infer, PROBLEMS[name].make(), trellis)
    assert trellis.n_splits == full.trellis.n_splits
    assert post.n_trees == full.n_trees
    assert post.map_tree == full.map_tree
    for value in ("log_partition", "expected_log_weight", "log_weight_variance", "entropy"):
        assert getattr(post, value) == pytest.approx(getattr(full, value), rel=1e-11, abs=1e-11)
    masks = range(1, 1 << n)
    one, other = ([p.cluster_probability(mask) for mask in masks] for p in (post, full))
    assert all_near(one, other, 1e-12)
    for left, right in naive.splits_of(frozenset(range(n))):
        assert near(post.split_probability(left, right), full.split_probability(left, right), 1e-12)
    for most in (2, n):
        assert all_near(post.coclustering(most)[0], full.coclustering(most)[0], 1e-11)
        assert all_near(post.coclustering(most)[1], full.coclustering(most)[1], 1e-11)
    ranked, exact = post.top_trees(300), full.top_trees(300)
    assert all_near(ranked.log_weights, exact.log_weights, 1e-11 * max(1, abs(post.map_log_weight)))
    assert all_near(ranked.probabilities, exact.probabilities, 1e-12)
    assert post.given([[0, 1]]).log_partition == pytest.approx(full.given([[0, 1]]).log_partition)
    assert post.consensus_tree().clusters() == full.consensus_tree().clusters()
    table, other = post.cluster_probabilities(0.1), full.cluster_probabilities(0.1)
    assert set(table.masks) == set(other.masks)
    assert len(post.credible_set(0.5)) == pytest.approx(len(full.credible_set(0.5)), abs=1)


def few_levels(n, seed):
    """Similarities in whole numbers, so that many trees weigh alike."""
    w = np.random.default_rng(seed).integers(0, 3, (n, n)).astype(float)
    return np.tril(w, -1) + np.tril(w, -1).T


@relaxed
@given(random_sets, st.booleans())
def test_answers_on_random_sets_of_trees(drawn, ties):
    n, count, seed, keep = drawn
    chosen = pick(n, count, seed)
    w = few_levels(n, seed) if ties else similarities(n, seed)
    psi = naive.dasgupta(w)
    trees = held(n, chosen, keep, naive.listing(n, psi))
    post = quiet(hct.infer, hct.Dasgupta(w), sparse(n, chosen, keep))
    assert_answers(post, trees, "dasgupta, 6 leaves")
    assert as_sets(post.map_tree) == first_best(n, chosen, keep, psi)
    assert post.map_tree in post.trellis
    assert post.entropy == pytest.approx(naive.entropy(trees), abs=1e-10)
    found = post.top_trees(50)
    assert all_near(found.log_weights, [x for _, x in naive.top_trees(trees, 50)], 1e-10)
    assert {as_sets(tree) for tree in post.sample(20, rng=seed)} <= {tree for tree, _ in trees}


@relaxed
@given(st.integers(2, 7), st.integers(1, 6), seeds, keeps)
def test_more_trees_never_lower_the_bounds(n, count, seed, keep):
    potential = hct.Dasgupta(similarities(n, seed)) + hct.BetaSplitting(n, 1.0)
    small = sparse(n, pick(n, count, seed), keep)
    large = small.add_trees(as_trees(pick(n, count, seed + 1), n))
    one, other, full = (quiet(hct.infer, potential, t) for t in (small, large, None))
    assert small.n_trees <= large.n_trees <= full.trellis.n_trees
    assert one.log_partition <= other.log_partition + 1e-12 <= full.log_partition + 2e-12
    assert one.map_log_weight <= other.map_log_weight + 1e-12 <= full.map_log_weight + 2e-12
    inside = [math.exp(other.log_probability(tree)) for tree in one.top_trees(2000)]
    exact = math.exp(one.log_partition - other.log_partition)
    assert math.fsum(inside) == pytest.approx(exact, rel=1e-10)


@relaxed
@given(st.integers(1, 7), seeds, keeps)
def test_data_in_another_order(n, seed, keep):
    """Leaf order[k] of the data takes the place of leaf k of the trellis."""
    rng = np.random.default_rng(seed)
    w, order = similarities(n, seed), rng.permutation(n)
    children = np.array([random_children(n, rng) for _ in range(5)])
    trellis = SparseTrellis.from_children(children, keep)
    post = quiet(hct.infer, hct.Dasgupta(w), trellis=trellis, order=order)
    moved = quiet(hct.infer, hct.Dasgupta(w[np.ix_(order, order)]), trellis=trellis)
    assert post.log_partition == pytest.approx(moved.log_partition, rel=1e-12)
    for mask in range(1, 1 << n):
        there = mask_of(int(order[i]) for i in leaves(mask, n))
        assert near(post.cluster_probability(there), moved.cluster_probability(mask), 1e-11)
    for rows in children:
        assert hct.Tree(shuffled(rows, order)) in post.trellis
        assert post.log_probability(hct.Tree(shuffled(rows, order))) == pytest.approx(
            moved.log_probability(hct.Tree(rows)), rel=1e-10
        )


def test_labels_are_those_of_the_data():
    post = hct.infer(hct.Dasgupta(similarities(4), labels="wxyz"), SMALL)
    assert set(post.map_tree.labels) == set("wxyz")
    assert post.cluster_probability(["w", "x"]) == pytest.approx(1)
    assert post.log_probability(QUARTET.relabel("wxyz")) > -math.inf


def test_progress():
    seen = []
    trellis = sparse(6, pick(6, 20, 1))
    hct.infer(
        hct.Dasgupta(similarities(6)),
        trellis,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen[-1] == (trellis.n_splits, trellis.n_splits)
    assert seen == sorted(seen)


# ---- large ------------------------------------------------------------------------------------


def test_a_thousand_leaves():
    """300 random trees share few clusters, so there are few more trees than these."""
    rng, n = np.random.default_rng(4), 1000
    children = np.array([random_children(n, rng) for _ in range(300)])
    values = rng.uniform(0.0, 0.01, n)
    trellis = SparseTrellis.from_children(children)
    post = hct.infer(hct.Dasgupta(products(values)), trellis)
    splits = splits_by_mask(children)
    count, log_z = by_recursion(splits, values)
    assert 300 <= post.n_trees == count < 1000
    assert trellis.n_clusters == n + len(splits) > 250_000
    assert post.log_partition == pytest.approx(log_z, rel=1e-12)
    trees = post.top_trees(count)
    assert naive.log_sum(trees.log_weights.tolist()) == pytest.approx(log_z, rel=1e-12)
    ones = [by_recursion(splits_by_mask(rows[None]), values)[1] for rows in children]
    assert post.map_log_weight >= max(ones) - 1e-9
    assert naive.log_sum(ones) <= post.log_partition
    assert post._probabilities[n:].sum() == pytest.approx(n - 1, rel=1e-11)


BLOCK, BLOCKS = 5, 200


@cache
def blocks():
    """A thousand leaves in blocks of five, each block split in any way: 105^200 trees."""
    n = BLOCK * BLOCKS
    trees = []
    for tree in as_trees(naive.all_trees(BLOCK), BLOCK):
        rows, tops = [], []
        for b in range(BLOCKS):
            at = np.concatenate(
                [BLOCK * b + np.arange(BLOCK), n + len(rows) + np.arange(BLOCK - 1)]
            )
            rows += at[tree.children].tolist()
            tops.append(n + len(rows) - 1)
        while len(tops) > 1:
            rows.append([tops.pop(), tops.pop()])
            tops.append(n + len(rows) - 1)
        trees.append(rows)
    return SparseTrellis.from_children(np.array(trees))


def test_very_many_trees():
    trellis = blocks()
    assert trellis.n_trees == 105**BLOCKS > 10**308
    assert trellis.log_n_trees == pytest.approx(BLOCKS * math.log(105), rel=1e-13)
    assert trellis.sparsity == 0.0
    zero = quiet(hct.infer, gallery.always("", 0.0, trellis.n_leaves).make(), trellis)
    assert zero.log_partition == pytest.approx(trellis.log_n_trees, rel=1e-13)
    assert zero.entropy == pytest.approx(trellis.log_n_trees, rel=1e-12)
    assert zero.n_trees == trellis.n_trees


def test_very_many_trees_of_known_blocks():
    """Similarities within blocks only: every answer follows from that of a block."""
    w = similarities(BLOCK, 8)
    psi = naive.dasgupta(w)
    block = naive.listing(BLOCK, psi)
    post = hct.infer(hct.Dasgupta(np.kron(np.eye(BLOCKS), w)), blocks())
    assert post.log_partition == pytest.approx(BLOCKS * naive.log_partition(block), rel=1e-12)
    assert post.map_log_weight == pytest.approx(BLOCKS * naive.max_log_weight(block), rel=1e-12)
    assert post.entropy == pytest.approx(BLOCKS * naive.entropy(block), rel=1e-9)
    mean, variance = naive.log_weight_moments(block)
    assert post.expected_log_weight == pytest.approx(BLOCKS * mean, rel=1e-12)
    assert post.log_weight_variance == pytest.approx(BLOCKS * variance, rel=1e-10)
    last = BLOCK * (BLOCKS - 1)
    for cluster, p in naive.cluster_marginals(block).items():
        found = post.cluster_probability([last + i for i in cluster])
        assert found == pytest.approx(p, abs=1e-12)
    nearness = post.coclustering(3).probability
    for i, j in ((0, 1), (2, 4)):
        exact = math.fsum(p for s, p in naive.common_sizes(block, i, j).items() if s <= 3)
        assert nearness[last + i, last + j] == pytest.approx(exact, abs=1e-11)
    sample = post.sample(300, rng=2)
    assert sample.log_weights.mean() == pytest.approx(
        BLOCKS * mean, abs=5 * math.sqrt(BLOCKS * variance / 300)
    )
