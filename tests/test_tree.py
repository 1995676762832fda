"""The tree as a value: canonical form, equality, clusters, distance; held against plain sets."""

import copy
import pickle
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hctrellis.tree import Tree

N_DEEP = 5_000
"""Leaves of the chain that any recursion would trip over."""

relaxed = settings(deadline=None, max_examples=60)


@st.composite
def nested_trees(draw, labels=None, max_leaves=8):
    """Random nested pairs over random (or the given) labels."""
    if labels is None:
        labels = draw(st.lists(st.text(max_size=5), min_size=1, max_size=max_leaves, unique=True))
    parts = list(labels)
    while len(parts) > 1:
        left = parts.pop(draw(st.integers(0, len(parts) - 1)))
        right = parts.pop(draw(st.integers(0, len(parts) - 1)))
        parts.append((left, right))
    return parts[0]


@st.composite
def trees(draw, labels=None, max_leaves=8):
    """Random trees with their leaves in random order, some with heights."""
    tree = Tree.from_nested(draw(nested_trees(labels, max_leaves)))
    tree = tree.reorder(draw(st.permutations(tree.labels)))
    n_splits = tree.n_leaves - 1
    sizes = st.floats(-1e6, 1e6)
    heights = draw(st.none() | st.lists(sizes, min_size=n_splits, max_size=n_splits))
    return Tree(tree.children, labels=tree.labels, heights=heights)


def naive_clusters(nested):
    """The label sets of all internal nodes of nested pairs."""
    found = set()

    def leaves_below(part):
        if isinstance(part, str):
            return frozenset({part})
        leaves = leaves_below(part[0]) | leaves_below(part[1])
        found.add(leaves)
        return leaves

    leaves_below(nested)
    return found


def flipped(nested, random):
    """The same nested pairs, each turned round or not."""
    if isinstance(nested, str):
        return nested
    pair = [flipped(part, random) for part in nested]
    random.shuffle(pair)
    return pair


def in_other_order(tree, random):
    """The children of a tree with the rows in another order, children still before parents."""
    rows, n_leaves = tree.children.tolist(), tree.n_leaves
    number = {leaf: leaf for leaf in range(n_leaves)}
    children, waiting = [], list(range(n_leaves - 1))
    while waiting:
        ready = [row for row in waiting if all(child in number for child in rows[row])]
        row = random.choice(ready)
        waiting.remove(row)
        children.append([number[child] for child in rows[row]])
        number[n_leaves + row] = n_leaves + len(children) - 1
    return children


def all_nested(labels):
    """All binary trees over some labels, by adding one leaf on every branch."""
    if len(labels) == 1:
        return [labels[0]]
    return [grown for nested in all_nested(labels[:-1]) for grown in with_leaf(nested, labels[-1])]


def with_leaf(nested, label):
    grown = [(nested, label)]
    if not isinstance(nested, str):
        grown += [(left, nested[1]) for left in with_leaf(nested[0], label)]
        grown += [(nested[0], right) for right in with_leaf(nested[1], label)]
    return grown


def chain(n_leaves=N_DEEP):
    """(((0,1),2),3)... with heights 1, 2, 3, ..."""
    rows = np.arange(n_leaves - 1)
    left = np.where(rows == 0, 0, n_leaves + rows - 1)
    return Tree(np.column_stack([left, rows + 1]), heights=rows + 1.0)


# ---- construction and canonical form ----------------------------------------------------------


def test_children_are_canonical():
    tree = Tree([[3, 2], [1, 0], [4, 5]], labels="abcd", heights=[1, 2, 3])
    assert tree.children.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert tree.heights.tolist() == [2, 1, 3]
    assert tree.children.dtype == np.int64
    assert tree.leaf_order() == (0, 1, 2, 3)


def test_one_leaf():
    tree = Tree([], labels=["only"])
    assert tree.n_leaves == 1
    assert tree.children.shape == (0, 2)
    assert tree.masks == (1,)
    assert tree.clusters() == frozenset()
    assert tree.clusters(leaves=True) == {1}
    assert tree.splits() == []
    assert tree.leaf_order() == (0,)
    assert tree.robinson_foulds(tree, normalized=True) == 0
    assert tree.subtree("only") == tree
    assert repr(tree) == "Tree(1 leaf: only)"


def test_default_labels():
    assert Tree([[0, 1], [2, 3]]).labels == ("0", "1", "2")


@relaxed
@given(trees(), st.randoms(use_true_random=False))
def test_order_of_nodes_does_not_matter(tree, random):
    children = in_other_order(tree, random)
    again = Tree(children, labels=tree.labels)
    np.testing.assert_array_equal(again.children, tree.children)
    again.validate()


@relaxed
@given(nested_trees(), st.randoms(use_true_random=False))
def test_equality_and_hash_ignore_sides_and_label_order(nested, random):
    tree = Tree.from_nested(nested)
    other = Tree.from_nested(flipped(nested, random))
    labels = random.sample(tree.labels, tree.n_leaves)
    for same in (other, tree.reorder(labels), other.reorder(tree.labels)):
        assert same == tree
        assert hash(same) == hash(tree)
    np.testing.assert_array_equal(other.reorder(tree.labels).children, tree.children)
    assert tree.reorder(labels).labels == tuple(labels)


@relaxed
@given(nested_trees("abcde"), nested_trees("abcde"))
def test_equal_if_and_only_if_same_clusters(one, two):
    same = naive_clusters(one) == naive_clusters(two)
    assert (Tree.from_nested(one) == Tree.from_nested(two)) is same


def test_all_trees_of_four_and_five_leaves_are_distinct():
    assert len({Tree.from_nested(nested) for nested in all_nested("abcd")}) == 15
    assert len({Tree.from_nested(nested) for nested in all_nested("abcde")}) == 105


def test_not_equal_to_other_things():
    tree = Tree([[0, 1]])
    assert tree != Tree([[0, 1]], labels="ab")
    assert tree != Tree([[0, 1], [2, 3]])
    assert tree != "(0,1);"


def test_heights_do_not_enter_equality():
    assert Tree([[0, 1]], heights=[2]) == Tree([[0, 1]])


def test_tree_is_frozen():
    tree = Tree([[0, 1]], heights=[1])
    with pytest.raises(FrozenInstanceError):
        tree.labels = ("a", "b")
    for array in (tree.children, tree.heights, tree.sizes):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_construction_copies():
    children, heights = np.array([[0, 1]]), np.array([1.0])
    tree = Tree(children, heights=heights)
    children[:], heights[:] = 7, 7
    assert tree.children.tolist() == [[0, 1]]
    assert tree.heights.tolist() == [1]


@relaxed
@given(trees())
def test_pickle_copy_and_replace(tree):
    hash(tree)
    for again in (pickle.loads(pickle.dumps(tree)), copy.deepcopy(tree), replace(tree)):
        assert again == tree
        assert again.labels == tree.labels
        np.testing.assert_equal(again.heights, tree.heights)


def test_numpy_labels_become_plain():
    assert type(Tree([[0, 1]], labels=np.array(["a", "b"])).labels[0]) is str


def test_repr_is_short():
    assert repr(Tree([[0, 1], [2, 3]], labels="abc")) == "Tree(3 leaves: ((a,b),c))"
    assert repr(Tree([[0, 1]], labels=["a", "\n"])) == r"Tree(2 leaves: (a,'\n'))"
    assert len(repr(chain(200))) < 100


@pytest.mark.parametrize(
    ("children", "message"),
    [
        ([[0, 1, 2]], r"shape \(1, 3\).*expected integers of shape \(n_leaves - 1, 2\)"),
        ([0, 1], r"shape \(2,\)"),
        ([[0.0, 1.0]], "type float64"),
        ([["a", "b"]], "type <U1"),
        ([[0, 1], [2]], "different lengths"),
        ([[0, 2]], "row 0 of children joins nodes 0 and 2 into node 2.*before their parents"),
        ([[0, -1]], "joins nodes 0 and -1"),
        ([[0, 5], [1, 4], [2, 3]], "row 0 of children joins nodes 0 and 5 into node 4"),
        ([[0, 0]], "node 0 is joined 2 times"),
        ([[0, 1], [0, 2]], "node 0 is joined 2 times"),
    ],
)
def test_bad_children(children, message):
    with pytest.raises(ValueError, match=message):
        Tree(children)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a"], "1 labels for 2 leaves"),
        (["a", "a"], "label 'a' is given 2 times"),
        ([1, 2], "label 1 is not a string"),
    ],
)
def test_bad_labels(labels, message):
    with pytest.raises(ValueError, match=message):
        Tree([[0, 1]], labels=labels)


@pytest.mark.parametrize(
    ("heights", "message"),
    [
        ([1, 2], r"shape \(2,\); expected \(1,\)"),
        ([np.nan], "height 0 is nan"),
        (["high"], "not numbers"),
    ],
)
def test_bad_heights(heights, message):
    with pytest.raises(ValueError, match=message):
        Tree([[0, 1]], heights=heights)


def test_validate_finds_damage():
    tree = Tree([[0, 1], [2, 3]])
    damaged = copy.copy(tree)
    object.__setattr__(damaged, "children", np.array([[1, 0], [2, 3]]))
    tree.validate()
    with pytest.raises(ValueError, match="canonical"):
        damaged.validate()
    object.__setattr__(damaged, "children", np.array([[1, 1], [2, 3]]))
    with pytest.raises(ValueError, match="joined 2 times"):
        damaged.validate()


# ---- clusters ---------------------------------------------------------------------------------


@relaxed
@given(nested_trees())
def test_clusters_are_those_of_the_nested_pairs(nested):
    tree = Tree.from_nested(nested)
    expected = naive_clusters(nested)
    assert tree.cluster_labels() == expected
    assert tree.clusters() == {tree.mask(cluster) for cluster in expected}
    assert len(tree.clusters()) == tree.n_leaves - 1
    assert len(tree.clusters(leaves=True)) == 2 * tree.n_leaves - 1
    assert tree.cluster_labels(leaves=True) == expected | {frozenset({x}) for x in tree.labels}


@relaxed
@given(trees())
def test_splits_partition_their_parents(tree):
    for parent, left, right in tree.splits():
        assert left & right == 0
        assert left | right == parent
        assert left & -left == parent & -parent  # the smallest leaf is on the left
    assert [parent for parent, _, _ in tree.splits()] == list(tree.masks[tree.n_leaves :])
    assert tree.sizes.tolist() == [mask.bit_count() for mask in tree.masks]
    assert sorted(tree.leaf_order()) == list(range(tree.n_leaves))


@relaxed
@given(trees("abcdef"), st.integers(-1, 70))
def test_membership(tree, mask):
    assert (mask in tree) is (mask in tree.clusters(leaves=True))


def test_membership_by_label_and_index():
    tree = Tree.from_newick("((a,b),c);")
    assert {"a", "b"} in tree
    assert [0, 1] in tree
    assert ("a", 1) in tree
    assert "c" in tree
    assert ["a", "c"] not in tree
    assert "d" not in tree
    assert [3] not in tree
    assert [] not in tree


def test_mask_refuses_what_is_not_there():
    tree = Tree.from_newick("((a,b),c);")
    assert tree.mask("c") == tree.mask([2]) == tree.mask(4) == 4
    for items, message in [
        (["x"], "'x' is not a leaf"),
        ([3], "3 is not a leaf; expected a label of the tree or an index from 0 to 2"),
        ([], "empty"),
        (8, "8 is not the mask of a cluster of 3 leaves"),
        (0, "0 is not the mask"),
    ]:
        with pytest.raises(ValueError, match=message):
            tree.mask(items)


@relaxed
@given(trees())
def test_subtrees(tree):
    for mask in tree.clusters(leaves=True):
        below = tree.subtree(mask)
        below.validate()
        expected = {x for x in tree.cluster_labels() if x <= set(below.labels)}
        assert tree.mask(below.labels) == mask
        assert below.cluster_labels() == expected
        assert list(below.labels) == [x for x in tree.labels if x in below.labels]
        if tree.heights is not None and below.n_leaves > 1:
            assert below.heights[-1] == tree.heights[tree.masks.index(mask) - tree.n_leaves]


def test_subtree_of_no_cluster():
    with pytest.raises(ValueError, match=r"\{'a', 'c'\} is not a cluster of the tree"):
        Tree.from_newick("((a,b),c);").subtree(["a", "c"])
    with pytest.raises(ValueError, match=r"'5', ... \(8 leaves\)\} is not a cluster"):
        Tree.from_nested(((((((((0, 9), 1), 2), 3), 4), 5), 6), (7, 8))).subtree(range(8))


# ---- from clusters ----------------------------------------------------------------------------


@relaxed
@given(trees(), st.randoms(use_true_random=False))
def test_clusters_round_trip(tree, random):
    masks = list(tree.clusters(leaves=random.random() < 0.5))
    random.shuffle(masks)
    assert Tree.from_clusters(masks, labels=tree.labels) == tree
    proper = [mask for mask in masks if mask != tree.masks[-1]]
    assert Tree.from_clusters(proper, labels=tree.labels) == tree
    assert Tree.from_clusters(tree.cluster_labels(leaves=True)) == tree


def test_from_clusters_in_many_words():
    expected = Tree.from_nested(((0, 1), 2))
    assert Tree.from_clusters([[0, 1], [0, 1, 2]]) == expected
    assert Tree.from_clusters([np.int64(3), 7, 7, 1]) == expected
    assert Tree.from_clusters(["2", ("0", "1")]) == expected
    assert Tree.from_clusters([0b110, 0b111], labels=["2", "0", "1"]) == expected
    assert Tree.from_clusters([], labels=["a", "b"]) == Tree.from_nested(("a", "b"))
    assert Tree.from_clusters(["a"]) == Tree([], labels=["a"])


@pytest.mark.parametrize(
    ("clusters", "labels", "message"),
    [
        (["ab", "bc"], "abc", "'ab' is not a leaf"),
        ([["a", "b"], ["b", "c"]], "abc", r"\{'a', 'b'\} and \{'b', 'c'\} cross"),
        ([["a", "b"], ["b", "c", "d"]], None, r"\{'a', 'b'\} and \{'b', 'c', 'd'\} cross"),
        ([0b0011], "abcd", r"cluster \{'a', 'b', 'c', 'd'\} is made of 3 smaller ones"),
        ([0b0111], "abcd", r"cluster \{'a', 'b', 'c'\} is made of 3 smaller ones"),
        ([[]], "ab", "cluster is empty"),
        ([16], "abc", "16 is not the mask"),
        ([-1], None, "-1 is not the mask"),
        ([], None, "name no leaves; give labels="),
        ([["a", 1]], None, "mix labels and indices"),
    ],
)
def test_bad_clusters(clusters, labels, message):
    with pytest.raises(ValueError, match=message):
        Tree.from_clusters(clusters, labels=labels)


# ---- relabelling and distance -----------------------------------------------------------------


def test_relabel():
    tree = Tree.from_newick("((a,b),c);")
    assert tree.relabel("xyz") == Tree.from_newick("((x,y),z);")
    assert tree.relabel({"b": "B"}) == Tree.from_newick("((a,B),c);")
    with pytest.raises(ValueError, match="'c' is given 2 times"):
        tree.relabel({"b": "c"})


def test_reorder_needs_the_same_labels():
    tree = Tree.from_newick("((a,b),c);")
    with pytest.raises(ValueError, match="labels differ: 'd' is in only one"):
        tree.reorder("abcd")
    with pytest.raises(ValueError, match="4 labels for 3 leaves"):
        tree.reorder("abca")


@relaxed
@given(st.tuples(*[nested_trees("abcdef")] * 3))
def test_robinson_foulds_is_the_metric_of_clusters(nested):
    one, two, three = map(Tree.from_nested, nested)
    distance = one.robinson_foulds(two)
    assert distance == len(naive_clusters(nested[0]) ^ naive_clusters(nested[1]))
    assert distance == two.robinson_foulds(one)
    assert (distance == 0) is (one == two)
    assert distance <= one.robinson_foulds(three) + three.robinson_foulds(two)
    assert one.robinson_foulds(two, normalized=True) == distance / 8


def test_robinson_foulds_of_other_labels():
    tree = Tree.from_newick("((a,b),c);")
    for other in ("((a,b),d);", "(a,b);"):
        with pytest.raises(ValueError, match="labels differ"):
            tree.robinson_foulds(Tree.from_newick(other))


# ---- depth ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def deep():
    return chain()


def test_deep_value(deep):
    backwards = deep.reorder(deep.labels[::-1])
    assert backwards == deep
    assert hash(backwards) == hash(deep)
    assert pickle.loads(pickle.dumps(deep)) == deep
    assert repr(deep).startswith("Tree(5000 leaves: (((")
    assert deep.relabel(f"x{label}" for label in deep.labels) != deep
    deep.validate()


def test_deep_clusters(deep):
    assert len(deep.clusters()) == N_DEEP - 1
    assert len(deep.splits()) == N_DEEP - 1
    assert deep.sizes[-1] == N_DEEP
    assert deep.leaf_order() == tuple(range(N_DEEP))
    assert range(3_000) in deep
    assert deep.subtree(range(3_000)).n_leaves == 3_000
    assert Tree.from_clusters(deep.clusters()) == deep


def test_deep_cluster_labels():
    assert len(chain(1_500).cluster_labels()) == 1_499


def test_deep_robinson_foulds(deep):
    mirrored = deep.relabel(deep.labels[::-1])
    assert deep.robinson_foulds(deep) == 0
    assert deep.robinson_foulds(mirrored) == 2 * (N_DEEP - 2)
    assert deep.robinson_foulds(mirrored, normalized=True) == 1


@pytest.mark.parametrize(
    ("write", "read"),
    [
        (Tree.to_newick, Tree.from_newick),
        (Tree.to_nested, Tree.from_nested),
        (Tree.to_linkage, Tree.from_linkage),
        (Tree.to_json, Tree.from_json),
    ],
)
def test_deep_round_trips(deep, write, read):
    assert read(write(deep)) == deep


def test_deep_networkx(deep):
    pytest.importorskip("networkx")
    assert Tree.from_networkx(deep.to_networkx()) == deep
