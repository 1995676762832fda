"""The sparse trellis: its structure against plain sets, its answers against the trees it holds."""

import math
import pickle
import zipfile
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
from hctrellis.trellis.vertices import SparseVertices

KEEPS = ("observed", "all")
relaxed = settings(deadline=None, max_examples=40)
seeds, keeps = st.integers(0, 10_000), st.sampled_from(KEEPS)
random_sets = st.tuples(st.integers(1, 6), st.integers(1, 12), seeds, keeps)
from_trees, from_children = SparseTrellis.from_trees, SparseTrellis.from_children


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


def held(n, known, listed):
    """The part of a listing (or of all trees) that is made of known splits."""
    pairs = zip(listed, naive.all_trees(n), strict=True)
    return [item for item, tree in pairs if known.issuperset(tree)]


def as_trees(trees, n):
    return [as_tree(naive.clusters_of(tree), n) for tree in trees]


def sparse(n, trees, keep="observed"):
    return from_trees(as_trees(trees, n), keep)


def first_best(n, known, psi):
    """The best tree of known splits; in ties, the least mask of the child with the first leaf."""

    @cache
    def best(cluster):
        found = [(0.0, 0, frozenset())] if len(cluster) == 1 else []
        for left, right in naive.splits_of(cluster) if len(cluster) > 1 else ():
            if (left, right) in known:
                (one, _, below), (other, _, beside) = best(left), best(right)
                weight = round(psi(left, right) + one + other, 9)
                found.append((weight, -mask_of(left), below | beside | {cluster}))
        return max(found, key=lambda choice: choice[:2])

    return best(frozenset(range(n)))[2]


# ---- the oracle: many leaves ------------------------------------------------------------------


def random_children(n, rng, adjacent=False):
    """The children of a random tree; of neighbours only, so that trees share clusters."""
    nodes, children = list(range(n)), []
    for node, (u, v) in enumerate(rng.random((n - 1, 2)).tolist(), n):
        i = int(u * (len(nodes) - 1))
        j = i + 1 + int(v * (0 if adjacent else len(nodes) - i - 1))
        children.append((nodes[i], nodes.pop(j)))
        nodes[i] = node
    return np.array(children, int).reshape(n - 1, 2)


def shuffled(children, order):
    """The same trees with leaf order[k] in place of leaf k."""
    n = children.shape[-2] + 1
    return np.concatenate([order, np.arange(n, 2 * n - 1)])[children]


def many_children(n, count, seed):
    rng = np.random.default_rng(seed)
    trees = np.array([random_children(n, rng, adjacent=True) for _ in range(count)])
    return shuffled(trees, rng.permutation(n))


def by_recursion(trees, values):
    """Number of clusters, splits and trees, and log Z of `products`, by masks in a dictionary."""
    masks, sums, splits = [1 << i for i in range(len(values))], values.tolist(), []
    number = {mask: k for k, mask in enumerate(masks)}
    for children in trees.tolist():
        nodes = list(range(len(values)))
        for pair in children:
            a, b = sorted(nodes[child] for child in pair)
            nodes.append(number.setdefault(masks[a] | masks[b], len(masks)))
            if nodes[-1] == len(masks):
                masks.append(masks[a] | masks[b])
                sums.append(sums[a] + sums[b])
                splits.append(set())
            splits[nodes[-1] - len(values)].add((a, b))
    trees, log_z, sizes = [1] * len(masks), [0.0] * len(masks), [*map(int.bit_count, masks)]
    for k in sorted(range(len(values), len(masks)), key=sizes.__getitem__):
        some = splits[k - len(values)]
        trees[k] = sum(trees[a] * trees[b] for a, b in some)
        terms = [log_z[a] + log_z[b] - sizes[k] * sums[a] * sums[b] for a, b in some]
        log_z[k] = naive.log_sum(terms) if len(terms) > 1 else terms[0]
    root = sizes.index(len(values))
    return len(masks), sum(map(len, splits)), trees[root], log_z[root]


def products(values):
    """Dasgupta's cost of the similarities values[i] values[j]."""
    return hct.Dasgupta(np.outer(values, values) * (1 - np.eye(len(values))))


# ---- structure --------------------------------------------------------------------------------


def masks_of(trellis):
    return trellis.vertices.masks(np.arange(trellis.n_clusters))


def triples_of(trellis):
    """All splits as masks (parent, left, right), in order."""
    masks = masks_of(trellis)
    return [tuple(masks[i] for i in row) for row in trellis.vertices.triples().tolist()]


def arrays(trellis):
    v = trellis.vertices
    return {"words": v.words, "offsets": v.offsets, "lefts": v.lefts, "rights": v.rights}


def same(one, other):
    pairs = zip(arrays(one).values(), arrays(other).values(), strict=True)
    return one.n_leaves == other.n_leaves and all(np.array_equal(a, b) for a, b in pairs)


@relaxed
@given(random_sets)
def test_structure(drawn):
    n, count, seed, keep = drawn
    chosen, every = pick(n, count, seed), naive.all_trees(n)
    trellis, known = sparse(n, chosen, keep), splits_in(n, chosen, keep)
    trees, clusters = held(n, known, every), clusters_in(n, chosen)
    trellis.validate()
    assert (trellis.n_leaves, trellis.keep) == (n, keep)
    assert (trellis.n_clusters, trellis.n_splits) == (len(clusters), len(known))
    assert set(masks_of(trellis)) == set(map(mask_of, clusters))
    assert set(triples_of(trellis)) == {(mask_of(l | r), mask_of(l), mask_of(r)) for l, r in known}
    assert trellis.n_trees == len(trees)
    assert trellis.log_n_trees == pytest.approx(math.log(len(trees)), abs=1e-12)
    assert trellis.sparsity == float(Fraction(len(trees), len(every)))
    for tree in [*every[:: max(1, len(every) // 50)], *chosen]:
        assert (as_tree(naive.clusters_of(tree), n) in trellis) == known.issuperset(tree)
    assert same(trellis.add_trees(as_trees(trees[:15], n)), trellis)


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize(("n", "count"), [(40, 400), (100, 80), (300, 60)])
def test_exact_number_of_trees(n, count, keep):
    trellis = from_children(many_children(n, count, n), keep)
    v, trees = trellis.vertices, [1] * n
    for k in range(n, len(v)):
        some = range(v.offsets[k], v.offsets[k + 1])
        trees.append(sum(trees[v.lefts[i]] * trees[v.rights[i]] for i in some))
    trellis.validate()
    assert trellis.n_trees == trees[-1] > 10**15
    assert type(trellis.n_trees) is int
    assert trellis.log_n_trees == pytest.approx(math.log(trees[-1]), rel=1e-13)
    assert trellis.sparsity == trees[-1] / math.prod(range(1, 2 * n - 2, 2))


@pytest.mark.parametrize("n", [63, 64, 65, 128, 130, 1000])
def test_clusters_of_several_words(n):
    rng, children = np.random.default_rng(n), many_children(n, 6, n)
    trees = [hct.Tree(rows) for rows in children]
    trellis, values = from_trees(trees), rng.uniform(0.01, 0.1, n)
    v, masks = trellis.vertices, masks_of(trellis)
    trellis.validate()
    assert v.words.shape == (len(v), -(-n // 64))
    assert masks == sorted({m for t in trees for m in t.masks}, key=lambda m: (m.bit_count(), m))
    splits = {split for tree in trees for split in tree.splits()}
    assert triples_of(trellis) == sorted(splits, key=lambda s: (s[0].bit_count(), s))
    assert v.find_all(masks).tolist() == [*range(len(masks))]
    absent = {masks[-1] ^ 1 << i for i in range(n)} - set(masks)
    assert set(v.find_all(list(absent)).tolist()) == {-1}
    assert all(tree in trellis for tree in trees)
    assert hct.Tree(random_children(n, rng)) not in trellis
    *_, count, log_z = by_recursion(children, values)
    post = hct.infer(products(values), trellis)
    assert trellis.n_trees == count
    assert post.log_partition == pytest.approx(log_z, rel=1e-12)
    assert post.map_tree in trellis
    assert post.cluster_probability(masks[-2]) == pytest.approx(post.probability([masks[-2]]))


@relaxed
@given(st.integers(1, 6), seeds, keeps, keeps)
def test_union(n, seed, keep, other_keep):
    some, more = pick(n, 4, seed), pick(n, 4, seed + 1)
    one, other = sparse(n, some, keep), sparse(n, more, other_keep)
    both, added = one | other, one.add_trees(as_trees(more, n))
    assert (both.keep, added.keep) == ("all" if "all" in (keep, other_keep) else "observed", keep)
    assert same(both, sparse(n, [*some, *more], both.keep))
    assert same(added, sparse(n, [*some, *more], keep))
    assert same(both, other.union(one))
    assert same(both, both | one)
    assert same(one, one | one)


@pytest.mark.parametrize(("n", "keep"), [(1, "all"), (6, "observed"), (6, "all"), (130, "all")])
def test_reorder(n, keep):
    children, order = many_children(n, 12, 7), np.random.default_rng(n).permutation(n)
    trellis = from_children(children, keep)
    moved = trellis.reorder(order.tolist())
    assert same(moved, from_children(shuffled(children, order), keep))
    assert same(moved.reorder(np.argsort(order)), trellis)
    assert moved.keep == keep
    trees = [hct.Tree(rows) for rows in children]
    named = (tree.reorder(map(str, order)) if k else tree for k, tree in enumerate(trees))
    assert same(from_trees(named, keep), trellis)
    assert trees[1].relabel(f"leaf {i}" for i in range(n)) in trellis


# ---- mistakes ---------------------------------------------------------------------------------


def at_a_bad_pair():
    """NaN for the split of the first two leaves alone, on which functions are rarely tried."""
    values = 2.0 ** np.arange(12)
    function = hct.FunctionPotential(lambda l, r, p: np.where(p[0] == 3, np.nan, -p[0]), values)
    return hct.infer(function, from_children([[[0, 1], *([12 + k, 2 + k] for k in range(10))]]))


def between_trellises(*trellises):
    one, other = (hct.infer(FOUR, trellis) for trellis in trellises)
    return one.kl_divergence(other)


ONE, PAIRS = hct.Tree([[0, 1]]), hct.Tree([[0, 1], [2, 3], [4, 5]], labels="abcd")
SMALL = from_trees([PAIRS, hct.Tree([[0, 1], [4, 2], [5, 3]], labels="abcd")])
FOUR, FIVE = (hct.Dasgupta(similarities(n)) for n in (4, 5))

MISTAKES = {
    "no trees": (lambda: from_trees([]), ValueError, "at least one tree; got none"),
    "no more trees": (lambda: SMALL.add_trees([]), ValueError, "at least one tree; got none"),
    "numbers": (lambda: from_trees([3]), TypeError, "expected trees, got int"),
    "text": (lambda: from_trees("ab"), TypeError, "expected trees, got str"),
    "labels": (lambda: from_trees([PAIRS, PAIRS.relabel("axcd")]), ValueError, "instance 'b'"),
    "sizes": (lambda: from_trees([PAIRS, PAIRS.subtree([2, 3])]), ValueError, "instance 'a'"),
    "splits": (lambda: from_trees([PAIRS], "some"), ValueError, "must be .*; got 'some'"),
    "shape": (lambda: from_children([[0, 1]]), ValueError, r"trees, n - 1, 2\); got \(1, 2\)"),
    "no such child": (lambda: from_children([[[0, 9]]]), ValueError, "child"),
    "negative child": (lambda: from_children([[[0, -1]]]), ValueError, "child"),
    "its own child": (lambda: from_children([[[0, 2]]]), ValueError, "child"),
    "child twice": (lambda: from_children([[[0, 1], [0, 3]]]), ValueError, "child"),
    "union": (lambda: SMALL | from_trees([ONE]), ValueError, "has 4 leaves, the other 2"),
    "more trees": (lambda: SMALL.add_trees([ONE]), ValueError, "has 4 leaves, the other 2"),
    "union with": (lambda: SMALL.union(PAIRS), TypeError, "a SparseTrellis, got Tree"),
    "short order": (lambda: SMALL.reorder([0, 1, 2]), ValueError, r"4 leaves has each of 0 \.\. 3"),
    "order twice": (lambda: SMALL.reorder([0, 1, 1, 3]), ValueError, r"each of 0 \.\. 3 once; got"),
    "names": (lambda: SMALL.reorder("abcd"), ValueError, r"each of 0 \.\. 3 once; got 'abcd'"),
    "order": (lambda: hct.infer(FOUR, SMALL, order=[1, 2, 3, 4]), ValueError, "once; got"),
    "order of all": (lambda: hct.infer(FOUR, order=[3, 2, 1, 0]), ValueError, "order"),
    "data": (lambda: hct.infer(FIVE, SMALL), ValueError, "has 5 leaves, the trellis 4"),
    "trellis": (lambda: hct.infer(FOUR, PAIRS), TypeError, "trellis must be a .*; got Tree"),
    "from all": (lambda: between_trellises(SMALL, None), ValueError, "over the same trellis"),
    "to all": (lambda: between_trellises(None, SMALL), ValueError, "over the same trellis"),
    "nan": (at_a_bad_pair, ValueError, r"split \{'0'\} \| \{'1'\} is nan; it must be a number"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(mistake):
    make, kind, message = MISTAKES[mistake]
    with pytest.raises(kind, match=message) as error:
        make()
    assert "\n" not in str(error.value)


def test_what_is_no_tree_of_the_trellis():
    assert PAIRS in SMALL
    for other in (PAIRS.reorder("acbd"), PAIRS.subtree([0, 1]), ONE, PAIRS.to_newick(), None):
        assert other not in SMALL


# ---- validate ---------------------------------------------------------------------------------

# masks of clusters / offsets / lefts / rights
VALID = "1 2 4 8 3 12 7 15 / 0 0 0 0 0 1 2 3 5 / 0 2 4 4 6 / 1 3 2 5 3"
BROKEN = {
    "few offsets": "1 2 4 8 3 12 7 15 / 0 0 0 0 0 1 2 3 / 0 2 4 4 6 / 1 3 2 5 3",
    "many lefts": "1 2 4 8 3 12 7 15 / 0 0 0 0 0 1 2 3 5 / 0 2 4 4 6 6 / 1 3 2 5 3",
    "few clusters": "1 2 / 0 0 0 / 0 / 1",
    "falling offsets": "1 2 4 8 3 12 7 15 / 0 0 0 0 0 1 0 3 5 / 0 2 4 4 6 / 1 3 2 5 3",
    "late offsets": "1 2 4 8 3 12 7 15 / 1 1 1 1 1 2 3 4 5 / 0 2 4 4 6 / 1 3 2 5 3",
    "early end": "1 2 4 8 3 12 7 15 / 0 0 0 0 0 1 2 3 4 / 0 2 4 4 6 / 1 3 2 5 3",
    "large offset": "1 2 4 8 3 12 7 15 / 0 0 0 0 0 1 100 3 5 / 0 2 4 4 6 / 1 3 2 5 3",
    "huge": f"1 2 4 8 3 12 7 15 / 0 0 0 0 0 {2**63 - 1} {-(2**63)} -1 5 / 0 2 4 4 6 / 1 3 2 5 3",
    "leaves swapped": "2 1 4 8 3 12 7 15 / 0 0 0 0 0 1 2 3 5 / 0 2 4 4 6 / 1 3 2 5 3",
    "small root": "1 2 4 8 3 12 7 7 / 0 0 0 0 0 1 2 3 5 / 0 2 4 4 6 / 1 3 2 5 3",
    "no split": "1 2 4 8 3 12 7 15 / 0 0 0 0 0 0 2 3 5 / 0 2 4 4 6 / 1 3 2 5 3",
    "split leaf": "1 2 4 8 3 12 7 15 / 0 0 0 0 1 1 2 3 5 / 0 2 4 4 6 / 1 3 2 5 3",
    "child above": "1 2 4 8 3 12 7 15 / 0 0 0 0 0 1 2 3 5 / 0 2 7 4 6 / 1 3 2 5 3",
    "own child": "1 2 4 8 3 12 7 15 / 0 0 0 0 0 1 2 3 5 / 4 2 4 4 6 / 1 3 2 5 3",
    "negative child": "1 2 4 8 3 12 7 15 / 0 0 0 0 0 1 2 3 5 / 0 2 4 4 6 / -7 3 2 5 3",
    "no such child": "1 2 4 8 3 12 7 15 / 0 0 0 0 0 1 2 3 5 / 0 2 4 4 6 / 1 3 2 5 1000000",
    "overlap": "1 2 4 8 3 12 7 15 / 0 0 0 0 0 1 2 3 5 / 0 2 4 4 6 / 1 3 2 6 3",
    "leaf left out": "1 2 4 8 3 12 7 15 / 0 0 0 0 0 1 2 3 5 / 0 2 4 4 6 / 1 3 2 2 3",
    "first leaf right": "1 2 4 8 3 12 7 15 / 0 0 0 0 0 1 2 3 5 / 0 2 4 5 6 / 1 3 2 4 3",
    "splits out of order": "1 2 4 8 3 12 7 15 / 0 0 0 0 0 1 2 3 5 / 0 2 4 6 4 / 1 3 2 3 5",
    "split twice": "1 2 4 8 3 12 7 15 / 0 0 0 0 0 2 3 4 6 / 0 0 2 4 4 6 / 1 1 3 2 5 3",
    "clusters out of order": "1 2 4 8 12 3 7 15 / 0 0 0 0 0 1 2 3 5 / 2 0 5 5 6 / 3 1 2 4 3",
    "cluster twice": "1 2 4 8 3 3 12 7 15 / 0 0 0 0 0 1 2 3 4 6 / 0 0 2 4 4 7 / 1 1 3 2 6 3",
}


def unchecked(text):
    """The trellis of four leaves that is written so."""
    masks, *others = ([int(x) for x in part.split()] for part in text.split("/"))
    return SparseTrellis(SparseVertices(4, np.array(masks, "u8")[:, None], *map(np.array, others)))


@pytest.mark.parametrize("kind", BROKEN)
def test_validate(kind, tmp_path):
    assert same(unchecked(VALID), SMALL)
    broken = unchecked(BROKEN[kind])
    broken.save(tmp_path / "broken")
    for check in (broken.validate, lambda: SparseTrellis.load(tmp_path / "broken")):
        with pytest.raises(ValueError, match="not a sparse trellis: ") as error:
            check()
        assert "\n" not in str(error.value)


# ---- files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("n", [1, 2, 6, 64, 130])
def test_save_and_load(n, keep, tmp_path):
    trellis = from_children(many_children(n, 9, n), keep)
    for path in (tmp_path / "trellis", str(tmp_path / "trellis.npz")):
        trellis.save(path)
        assert Path(path).is_file()
        found = SparseTrellis.load(path)
        assert same(found, trellis)
        assert (found.keep, found.n_trees) == (keep, trellis.n_trees)


class Trap:
    """What a malicious file would run."""

    def __reduce__(self):
        return Path.touch, (Path("trapped"),)


def contents(**changes):
    """The arrays of a file."""
    name = np.array(["hctrellis sparse trellis 1", "observed"])
    return {"format": name, "n_leaves": np.array(4), **arrays(SMALL), **changes}


CHANGES = {
    "format of later": np.array(["hctrellis sparse trellis 99", "all"]),
    "format of one": np.array(["hctrellis sparse trellis 1"]),
    "format keeps what": np.array(["hctrellis sparse trellis 1", "most"]),
    "format trapped": np.array([Trap(), Trap()], object),
    **{f"n_leaves is {value}": np.array(value) for value in (0, -4, 3, 9, 70, 10**15, "four")},
    "n_leaves are two": np.array([4, 4]),
    "words signed": SMALL.vertices.words.astype(np.int64),
    "words flat": SMALL.vertices.words.ravel(),
    "words of none": np.zeros((0, 1), np.uint64),
    "words trapped": np.array([[Trap()]] * 8, object),
    "offsets narrow": SMALL.vertices.offsets.astype(np.int32),
    "lefts as numbers": SMALL.vertices.lefts.astype(float),
    "rights as matrix": SMALL.vertices.rights[:, None],
}


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A file in a folder of its own, in which nothing may have been trapped."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path / "file.npz"
    assert not (tmp_path / "trapped").exists()


def assert_not_loaded(path):
    message = r"not a (saved )?sparse trellis|n_leaves must be"
    with pytest.raises(ValueError, match=message) as error:
        SparseTrellis.load(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("change", CHANGES)
def test_files_with_a_wrong_array(change, file):
    np.savez(file, **contents())
    assert same(SparseTrellis.load(file), SMALL)
    name = change.split()[0]
    np.savez(file, **contents(**{name: CHANGES[change]}))
    assert_not_loaded(file)
    np.savez(file, **{key: array for key, array in contents().items() if key != name})
    assert_not_loaded(file)


def test_files_of_another_kind(file):
    for content in (b"", b"((a,b),(c,d));\n", b"PK\x03\x04", b"\x93NUMPY", pickle.dumps(Trap())):
        file.write_bytes(content)
        assert_not_loaded(file)
    for array in (np.array([Trap()], object), np.arange(3)):
        np.save(file.with_suffix(".npy"), array)
        assert_not_loaded(file.with_suffix(".npy"))
    header = b"{'descr': '<u8', 'fortran_order': False, 'shape': (10000000000000, 1)}\n"
    huge = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    for member in (pickle.dumps(Trap()), huge):
        with zipfile.ZipFile(file, "w") as archive:
            for name in contents():
                archive.writestr(f"{name}.npy", member)
        assert_not_loaded(file)
    for path in (file.parent, file.parent / "nowhere.npz"):
        with pytest.raises(OSError, match=path.name):
            SparseTrellis.load(path)


def test_files_with_wrong_bytes(file):
    """Cut short anywhere: an error. With some bytes changed: an error, or the same trellis."""
    rng, trellis = np.random.default_rng(0), from_children(many_children(6, 5, 1))
    trellis.save(file)
    whole = file.read_bytes()
    for length in range(0, len(whole), 41):
        file.write_bytes(whole[:length])
        assert_not_loaded(file)
    for _ in range(500):
        some = bytearray(whole)
        for at in rng.integers(len(whole), size=rng.integers(1, 4)):
            some[at] = rng.integers(256)
        file.write_bytes(some)
        try:
            assert same(SparseTrellis.load(file), trellis)
        except ValueError as error:
            assert "not a saved sparse trellis" in str(error)


# ---- the posterior ----------------------------------------------------------------------------

NAMES = [
    "dasgupta, 6 leaves",
    "dasgupta, beta 1000",
    "dasgupta, symmetric",
    "single, 6 leaves",
    "single, duplicates",
    "ginkgo, 6 leaves",
    "ginkgo, most forbidden",
    "function, numpy, forbidding, 6 leaves",
    "function, numba, forbidding, 6 leaves",
    "dasgupta + average",
    "single + complete",
    "dasgupta, 1 leaves",
    "ginkgo, 2 leaves",
]


def over(names):
    cases = [(name, keep) for name in names for keep in KEEPS]
    return pytest.mark.parametrize(("name", "keep"), cases, ids=[f"{n}: {k}" for n, k in cases])


everywhere = over(NAMES)
up_to_six = over([name for name in NAMES if PROBLEMS[name].n <= 6])
a_few = over([n for n in NAMES if n.startswith(("dasgupta,", "ginkgo,", "function, numpy"))])


@cache
def seed_trees(name):
    """Some random trees, and a best one."""
    n = PROBLEMS[name].n
    ((best, _),) = naive.top_trees(listing(name), 1)
    return [*pick(n, 25, n), *(t for t in naive.all_trees(n) if naive.clusters_of(t) == best)]


@cache
def solved(name, keep):
    """The posterior over a sparse trellis, and the listing of its trees."""
    n, trees = PROBLEMS[name].n, seed_trees(name)
    post = quiet(hct.infer, PROBLEMS[name].make(), trellis=sparse(n, trees, keep))
    return post, held(n, splits_in(n, trees, keep), listing(name))


def allowed(name, trees):
    """How far a probability may be off, and a log weight."""
    size, rough = abs(naive.max_log_weight(trees)), PROBLEMS[name].tolerance
    return max(rough if rough > 1e-11 else EXACT, 4 * ROUNDING * size), rough * max(1.0, size)


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


@everywhere
def test_posterior(name, keep):
    post, trees = solved(name, keep)
    n, full = post.n_leaves, listing(name)
    assert_answers(post, trees, name)
    assert post.trellis.n_trees == len(trees) <= len(full)
    assert post.log_partition <= naive.log_partition(full) + allowed(name, full)[1]
    for cluster in set(subsets(n)) - clusters_in(n, seed_trees(name)):
        assert post.cluster_probability(cluster) == 0.0
    assert not post.is_exact
    assert f"log Z >= {post.log_partition:.6g})" in repr(post)
    table = post.cluster_probabilities(1e-100)
    expected = {c for c, p in naive.cluster_marginals(trees).items() if p > 1e-100 and len(c) < n}
    assert {leaves(mask, n) for mask in table.masks} == expected
    assert not table.is_exact
    for text in (repr(table), table._repr_html_()):
        assert "given the trees of a sparse trellis" in text


@up_to_six
def test_split_probability(name, keep):
    """Of all splits in either order, those included that the trellis does not have."""
    post, trees = solved(name, keep)
    expected, around = naive.split_marginals(trees), 10 * allowed(name, trees)[0]
    for parent in subsets(post.n_leaves):
        for left, right in naive.splits_of(parent) if len(parent) > 1 else ():
            exact = expected.get(frozenset([left, right]), 0.0)
            assert near(post.split_probability(left, right), exact, around), (left, right)
            assert near(post.split_probability(right, left), exact, around), (right, left)


@up_to_six
def test_trees_held_and_not(name, keep):
    post, trees = solved(name, keep)
    known, log_z, (around, weight) = dict(trees), naive.log_partition(trees), allowed(name, trees)
    chances = naive.probabilities(trees)
    for clusters, _ in [*listing(name)[::67], *trees[:6]]:
        tree, exact = as_tree(clusters, post.n_leaves), known.get(clusters, -math.inf) - log_z
        assert near(post.log_probability(tree), exact, 2 * weight)
        moved = tree.reorder(reversed(tree.labels))
        assert post.log_probability(moved) == post.log_probability(tree)
        named = {frozenset(map(str, c)): post.cluster_probability(c) for c in clusters}
        assert post.support(tree) == named
        for cluster in clusters:
            below = frozenset(c for c in clusters if c <= cluster)
            exact = math.fsum(p for tree, p in chances.items() if below <= tree)
            assert near(post.subtree_probability(tree.subtree(cluster)), exact, 10 * around)


CONDITIONS = [
    *[([], []), ([{0, 1}, {2, 3}], []), ([{0, 1}, {1, 2}], [])],
    *[([], [{0, 1}, {1, 2, 3}]), ([{0, 1, 2}], [{0, 1}])],
]


@a_few
def test_conditions(name, keep):
    post, trees = solved(name, keep)
    n, tree = post.n_leaves, as_sets(post.map_tree)
    own = [([c], []) for c in tree] + [([], [c]) for c in tree]
    for required, forbidden in CONDITIONS + own:
        if any(max(c) >= n for c in required + forbidden) or {*range(n)} in forbidden:
            continue
        some = naive.given(trees, [*map(frozenset, required)], [*map(frozenset, forbidden)])
        exact = math.exp(naive.log_partition(some) - naive.log_partition(trees))
        found = post.probability(contains=required, lacks=forbidden)
        assert near(found, exact, 10 * allowed(name, trees)[0]), (required, forbidden)
        restricted = post.given(required, lacks=forbidden)
        assert restricted.n_trees == naive.n_trees(some)
        if restricted.n_trees > 0:
            assert_answers(restricted, some, name)
    assert post.given([post.map_tree]).n_trees == 1


@everywhere
def test_coclustering(name, keep):
    post, trees = solved(name, keep)
    n, around = post.n_leaves, 100 * allowed(name, trees)[0]
    sizes = {(i, j): naive.common_sizes(trees, i, j) for i in range(n) for j in range(i + 1)}
    for most in range(1, n + 1):
        found = post.coclustering(most)
        for (i, j), exact in sizes.items():
            p = math.fsum(p for size, p in exact.items() if size <= most)
            mean = math.fsum(size * p for size, p in exact.items())
            assert all_near(found.probability[[i, j], [j, i]], p, around)
            assert all_near(found.expected_size[[i, j], [j, i]], mean, around)


@everywhere
def test_sample(name, keep):
    post, trees = solved(name, keep)
    sample, weights = post.sample(20_000, rng=11), dict(trees)
    exact = {tree: p for tree, p in naive.probabilities(trees).items() if p > 0}
    drawn, times = sample.counts()
    found = {as_sets(tree): int(k) for tree, k in zip(drawn, times, strict=True)}
    assert set(found) <= set(exact)
    expected = np.array([len(sample) * p for p in exact.values()])
    counts = np.array([found.get(tree, 0) for tree in exact])
    often = expected >= 10
    expected, counts = (np.append(a[often], a[~often].sum()) for a in (expected, counts))
    chi_square = ((counts - expected) ** 2 / np.maximum(expected, 1.0)).sum()
    assert chi_square <= stats.chi2.isf(1e-5, len(expected))
    some = [weights[as_sets(tree)] for tree in sample[:50]]
    assert all_near(sample.log_weights[:50], some, allowed(name, trees)[1])
    table = sample.cluster_frequencies(0)
    for mask, frequency in zip(table.masks, table.probabilities, strict=True):
        times = sum(k for tree, k in found.items() if leaves(mask, post.n_leaves) in tree)
        assert frequency * len(sample) == pytest.approx(times)


@everywhere
def test_top_trees_and_summaries(name, keep):
    post, trees = solved(name, keep)
    weights, exact = dict(trees), naive.probabilities(trees)
    around, weight = allowed(name, trees)
    for k in (1, 7, len(trees) + 10):
        found, best = post.top_trees(k), naive.top_trees(trees, k)
        sets = [as_sets(tree) for tree in found]
        assert len(set(sets)) == len(found) == len(best)
        assert (np.diff(found.log_weights) <= 0).all()
        assert all_near(found.log_weights, [w for _, w in best], weight)
        assert all_near(found.log_weights, [weights[s] for s in sets], weight)
        assert all_near(found.probabilities, [exact[s] for s in sets], 10 * around)
    ranked = np.cumsum([0, *sorted(exact.values(), reverse=True)])
    for mass in (0.3, 0.95):
        credible = post.credible_set(mass)
        before, after = ranked[len(credible) - 1 : len(credible) + 1]
        assert before - 100 * around < mass <= after + 100 * around
        assert credible.complete
    consensus = {leaves(mask, post.n_leaves) for mask in post.consensus_tree().clusters()}
    assert consensus == naive.majority_clusters(trees, 0.5 + 1e-9)
    assert as_sets(post.expected_clusters_tree()) in naive.expected_clusters_trees(trees)


@cache
def another(n):
    """A potential to compare with, and its listing."""
    problem = gallery.function("", "numpy", n, 3)
    return problem.make(), naive.listing(n, problem.psi)


@everywhere
def test_information(name, keep):
    post, trees = solved(name, keep)
    n, (around, weight) = post.n_leaves, allowed(name, trees)
    mean, variance = naive.log_weight_moments(trees)
    possible = [w for _, w in trees if w > -math.inf]
    wide, beta = max(1.0, max(possible) - min(possible)), post.potential.beta
    assert near(post.expected_log_weight, mean, max(weight, around * wide))
    assert near(post.expected_energy, -mean / beta, max(weight, around * wide) / beta)
    assert near(post.log_weight_variance, variance, 10 * around * wide**2)
    assert near(post.entropy, naive.entropy(trees), 100 * around)
    other, listed = another(n)
    beside = held(n, splits_in(n, seed_trees(name), keep), listed)
    divergence = post.kl_divergence(quiet(hct.infer, other, post.trellis))
    assert near(divergence, naive.kl_divergence(trees, beside), 10 * max(weight, around))
    assert post.kl_divergence(post) == 0


def test_every_held_tree_is_forbidden():
    """Though others are not."""
    name, n = "function, numpy, forbidding, 6 leaves", 6
    pairs = zip(naive.all_trees(n), listing(name), strict=True)
    tree = next(tree for tree, (_, weight) in pairs if weight == -math.inf)
    post = hct.infer(PROBLEMS[name].make(), sparse(n, [tree]))
    assert (post.log_partition, post.n_trees) == (-math.inf, 0)
    for ask in (
        *(lambda: post.map_tree, lambda: post.entropy, lambda: post.sample(2)),
        *(lambda: post.top_trees(2), lambda: post.split_probability([1], [3])),
        *(lambda i=i: post.cluster_probability([0, i]) for i in range(1, n)),
        *(lambda: post.log_probability(as_trees([tree], n)[0]), lambda: post.given([[0, 1]])),
    ):
        with pytest.raises(hct.NoTreeError, match="is forbidden"):
            ask()


@pytest.mark.parametrize("name", ["numpy, all forbidden", "ginkgo, all forbidden"])
def test_every_tree_is_forbidden(name):
    post = hct.infer(PROBLEMS[name].make(), sparse(PROBLEMS[name].n, pick(PROBLEMS[name].n, 9, 1)))
    assert (post.log_partition, post.n_trees) == (-math.inf, 0)


# ---- the full trellis, and laws ---------------------------------------------------------------


def every_cluster(n):
    """Trees that have all clusters between them: each set of leaves beside its complement."""
    whole = (1 << n) - 1
    for mask in range(1, whole, 2):
        sides = (sorted(leaves(side, n)) for side in (mask, whole ^ mask))
        yield as_tree({frozenset(s[:k]) for s in sides for k in range(1, len(s) + 1)}, n)


FULL = ["dasgupta", "single", "ginkgo, some forbidden", "function, numpy", "dasgupta, symmetric"]
FULL += ["function, numpy, 3 leaves", "dasgupta, 2 leaves", "dasgupta, 1 leaves"]
COUNTS = ("n_leaves", "n_clusters", "n_splits", "n_trees", "sparsity")
VALUES = ("log_partition", "expected_log_weight", "log_weight_variance", "entropy")


@pytest.mark.parametrize("name", FULL)
def test_all_trees_give_the_answers_of_the_full_trellis(name):
    full, n = posterior(name), PROBLEMS[name].n
    trellis = sparse(n, naive.all_trees(n)) if n < 7 else from_trees(every_cluster(n), "all")
    assert [getattr(trellis, s) for s in COUNTS] == [getattr(full.trellis, s) for s in COUNTS]
    post = quiet(hct.infer, PROBLEMS[name].make(), trellis)
    assert (post.n_trees, post.map_tree) == (full.n_trees, full.map_tree)
    for value in VALUES:
        assert getattr(post, value) == pytest.approx(getattr(full, value), rel=1e-11, abs=1e-11)
    one, other = ([p.cluster_probability(m) for m in range(1, 1 << n)] for p in (post, full))
    assert all_near(one, other, 1e-12)
    for left, right in naive.splits_of(frozenset(range(n))) if n > 1 else ():
        assert near(post.split_probability(left, right), full.split_probability(left, right), 1e-12)
    assert all_near(post.coclustering(min(3, n)), full.coclustering(min(3, n)), 1e-11)
    ranked, exact = post.top_trees(200), full.top_trees(200)
    assert all_near(ranked.log_weights, exact.log_weights, 1e-11 * max(1, abs(post.map_log_weight)))
    assert all_near(ranked.probabilities, exact.probabilities, 1e-12)
    assert post.consensus_tree().clusters() == full.consensus_tree().clusters()
    found, best = (full.support(p.expected_clusters_tree()) for p in (post, full))
    assert sum(found.values()) == pytest.approx(sum(best.values()), abs=1e-10)


def few_levels(n, seed):
    """Similarities in whole numbers, so that many trees weigh alike."""
    w = np.tril(np.random.default_rng(seed).integers(0, 3, (n, n)), -1).astype(float)
    return w + w.T


@relaxed
@given(random_sets, st.booleans())
def test_answers_on_random_sets_of_trees(drawn, ties):
    n, count, seed, keep = drawn
    chosen, w = pick(n, count, seed), few_levels(n, seed) if ties else similarities(n, seed)
    known, psi = splits_in(n, chosen, keep), naive.dasgupta(w)
    trees = held(n, known, naive.listing(n, psi))
    post = quiet(hct.infer, hct.Dasgupta(w), sparse(n, chosen, keep))
    assert_answers(post, trees, "dasgupta, 6 leaves")
    assert as_sets(post.map_tree) == first_best(n, known, psi)
    assert post.entropy == pytest.approx(naive.entropy(trees), abs=1e-10)
    best = [x for _, x in naive.top_trees(trees, 50)]
    assert all_near(post.top_trees(50).log_weights, best, 1e-10)
    assert {as_sets(tree) for tree in post.sample(20, rng=seed)} <= {tree for tree, _ in trees}


@relaxed
@given(st.integers(2, 6), st.integers(1, 6), seeds, keeps)
def test_more_trees_never_lower_the_bounds(n, count, seed, keep):
    potential, small = hct.Dasgupta(similarities(n, seed)), sparse(n, pick(n, count, seed), keep)
    large = small.add_trees(as_trees(pick(n, count, seed + 1), n))
    one, other, full = (quiet(hct.infer, potential, trellis) for trellis in (small, large, None))
    assert small.n_trees <= large.n_trees <= full.trellis.n_trees
    assert one.log_partition <= other.log_partition + 1e-12 <= full.log_partition + 2e-12
    assert one.map_log_weight <= other.map_log_weight + 1e-12 <= full.map_log_weight + 2e-12
    inside = [math.exp(other.log_probability(tree)) for tree in one.top_trees(1000)]
    exact = math.exp(one.log_partition - other.log_partition)
    assert math.fsum(inside) == pytest.approx(exact, rel=1e-10)


@relaxed
@given(st.integers(1, 7), seeds, keeps)
def test_data_in_another_order(n, seed, keep):
    """Leaf order[k] of the data takes the place of leaf k of the trellis."""
    rng, w = np.random.default_rng(seed), similarities(n, seed)
    order, children = rng.permutation(n), np.array([random_children(n, rng) for _ in range(5)])
    trellis = from_children(children, keep)
    names = [f"leaf {i}" for i in range(n)]
    post = quiet(hct.infer, hct.Dasgupta(w, labels=names), trellis=trellis, order=order)
    moved = quiet(hct.infer, hct.Dasgupta(w[np.ix_(order, order)]), trellis=trellis)
    assert post.log_partition == pytest.approx(moved.log_partition, rel=1e-12)
    for mask in range(1, 1 << n):
        there = mask_of(int(order[i]) for i in leaves(mask, n))
        assert near(post.cluster_probability(there), moved.cluster_probability(mask), 1e-11)
    for here, there in zip(children, shuffled(children, order), strict=True):
        found, exact = post.log_probability(hct.Tree(there, labels=names)), hct.Tree(here)
        assert found == pytest.approx(moved.log_probability(exact), rel=1e-9, abs=1e-11)
    assert post.map_tree.labels == tuple(names)


# ---- large ------------------------------------------------------------------------------------


def test_a_thousand_leaves():
    """300 random trees share few clusters, so there are few more trees than these."""
    rng, n = np.random.default_rng(4), 1000
    values, children = rng.uniform(0, 0.01, n), [random_children(n, rng) for _ in range(300)]
    trellis = from_children(children)
    post = hct.infer(products(values), trellis)
    *numbers, log_z = by_recursion(np.array(children), values)
    assert [trellis.n_clusters, trellis.n_splits, post.n_trees] == numbers
    assert 300 <= post.n_trees < 1000
    assert post.log_partition == pytest.approx(log_z, rel=1e-12)
    few = from_children(children[:20])
    each = [by_recursion(c[None], values)[3] for c in children[:20]]
    assert few.n_trees == 20
    log_z = hct.infer(products(values), few).log_partition
    assert log_z == pytest.approx(naive.log_sum(each), rel=1e-12)


BLOCK, BLOCKS = 5, 200


@cache
def blocks():
    """A thousand leaves in blocks of five, each block split in any way: 105^200 trees."""
    n, trees = BLOCK * BLOCKS, []
    for tree in as_trees(naive.all_trees(BLOCK), BLOCK):
        rows, tops = [], []
        for first in range(0, n, BLOCK):
            inner = n + len(rows) + np.arange(BLOCK - 1)
            rows += np.concatenate([first + np.arange(BLOCK), inner])[tree.children].tolist()
            tops.append(int(inner[-1]))
        while len(tops) > 1:
            rows.append([tops.pop(), tops.pop()])
            tops.append(n + len(rows) - 1)
        trees.append(rows)
    return from_children(trees)


def test_very_many_trees():
    trellis = blocks()
    assert trellis.n_trees == 105**BLOCKS > 10**400
    assert trellis.log_n_trees == pytest.approx(BLOCKS * math.log(105), rel=1e-13)
    assert trellis.sparsity == 0.0
    assert repr(trellis).endswith(", 1.73e404 trees)")
    zero = quiet(hct.infer, gallery.always("", 0.0, trellis.n_leaves).make(), trellis)
    assert zero.log_partition == pytest.approx(trellis.log_n_trees, rel=1e-13)
    assert zero.entropy == pytest.approx(trellis.log_n_trees, rel=1e-12)
    assert zero.n_trees == trellis.n_trees


def test_very_many_trees_of_known_blocks():
    """Similarities within blocks only: every answer follows from that of a block."""
    w = similarities(BLOCK, 8)
    block = naive.listing(BLOCK, naive.dasgupta(w))
    post = hct.infer(hct.Dasgupta(np.kron(np.eye(BLOCKS), w)), blocks())
    mean, variance = naive.log_weight_moments(block)
    assert post.log_partition == pytest.approx(BLOCKS * naive.log_partition(block), rel=1e-12)
    assert post.map_log_weight == pytest.approx(BLOCKS * naive.max_log_weight(block), rel=1e-12)
    assert post.entropy == pytest.approx(BLOCKS * naive.entropy(block), rel=1e-9)
    assert post.expected_log_weight == pytest.approx(BLOCKS * mean, rel=1e-12)
    assert post.log_weight_variance == pytest.approx(BLOCKS * variance, rel=1e-10)
    last, nearness = BLOCK * (BLOCKS - 1), post.coclustering(3).probability
    table = post.sample(200, rng=2).cluster_frequencies(0)
    drawn = dict(zip(table.masks, table.probabilities, strict=True))
    for cluster, p in naive.cluster_marginals(block).items():
        assert near(post.cluster_probability([last + i for i in cluster]), p, 1e-12)
        often = np.mean([drawn.get(mask_of(cluster) << BLOCK * b, 0) for b in range(BLOCKS)])
        assert abs(often - p) <= 5 * math.sqrt(max(0, p * (1 - p)) / (200 * BLOCKS)) + 1e-12
    for i, j in ((0, 1), (2, 4)):
        exact = math.fsum(p for s, p in naive.common_sizes(block, i, j).items() if s <= 3)
        assert near(nearness[last + i, last + j], exact, 1e-11)
