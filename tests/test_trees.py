"""Formats: what is written comes back, what is malformed is refused in a clear sentence."""

import json
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster import hierarchy

from hctrellis.tree import Tree
from hctrellis.treefiles import read_newicks, read_nexus, write_nexus
from hctrellis.trees.newick import parse_newick, parse_newick_support, quote_label
from test_tree import chain, relaxed, trees

AWKWARD_LABELS = [
    "",
    "'",
    "''",
    "it's",
    '"',
    " ",
    "a b",
    "line\nbreak",
    "_under_score",
    "0",
    "1e-5",
    "[x]",
    "(",
    ")",
    ",",
    ":",
    ";",
    "=",
    "{}",
    "#NEXUS",
    "END",
    "é漢😀",
    "\u2028",
    "\x00",
]


def awkward_tree():
    tree = chain(len(AWKWARD_LABELS))
    return tree.relabel(AWKWARD_LABELS)


# ---- Newick -----------------------------------------------------------------------------------


@relaxed
@given(trees())
def test_newick_round_trip(tree):
    again = Tree.from_newick(tree.to_newick())
    assert again == tree
    assert again.labels == tuple(tree.labels[leaf] for leaf in tree.leaf_order())
    assert again.heights is None


@relaxed
@given(trees(max_leaves=6), st.randoms(use_true_random=False))
def test_newick_heights_round_trip(tree, random):
    heights = np.cumsum([random.uniform(0.5, 2) for _ in range(tree.n_leaves - 1)])
    tree = Tree(tree.children, labels=tree.labels, heights=heights)
    again = Tree.from_newick(tree.to_newick(lengths=True))
    if tree.n_leaves > 1:
        np.testing.assert_allclose(again.reorder(tree.labels).heights, heights, rtol=1e-12)


def test_awkward_labels():
    tree = awkward_tree()
    assert Tree.from_newick(tree.to_newick()) == tree
    assert read_nexus(write_nexus([tree])) == [tree]
    assert Tree.from_json(tree.to_json()) == tree


@relaxed
@given(st.text())
def test_any_label_comes_back(label):
    tree = Tree([[0, 1]], labels=[label, label + "'"])
    assert Tree.from_newick(tree.to_newick()).labels == tree.labels
    assert Tree([], labels=[label]) == Tree.from_newick(quote_label(label))


def test_newick_is_read_in_full():
    text = " [start] ( (a :1.5, 'b ''c' : 2 [in [nest]ed 'it] )0.93:+1e-1, 'x' )root : .5 ; [end] "
    parsed = parse_newick(text)
    assert parsed.children == [(0, 1), (3, 2)]
    assert parsed.labels == ["a", "b 'c", "x"]
    assert parsed.lengths == pytest.approx([1.5, 2, np.nan, 0.1, 0.5], nan_ok=True)
    assert parsed.node_labels == ["0.93", "root"]


@pytest.mark.parametrize("text", ["a", "a;", "'a';", "a:3;", "[c]a;"])
def test_newick_of_one_leaf(text):
    assert Tree.from_newick(text) == Tree([], labels=["a"])


def test_newick_without_semicolon_and_with_odd_words():
    tree = Tree.from_newick('((a_1,b=2),{c}"d)')
    assert tree.labels == ("a_1", "b=2", '{c}"d')


@pytest.mark.parametrize(
    ("text", "heights"),
    [
        ("((a:1,b:1):2,c:3);", [1, 3]),
        ("((a:1,b:1.0000001):2,c:3);", [1, 3]),
        ("((a:1,b:1):2,c:3):7;", [1, 3]),
        ("((a:0,b:0):0,c:0);", [0, 0]),
        ("((a:1,b:1):2,c:3.1);", None),
        ("((a:1,b:1),c:3);", None),
        ("((a:1,b:1):2,c);", None),
        ("((a:9e307,b:9e307):9e307,c:9e307);", None),
        ("((a,b),c);", None),
        ("a;", None),
    ],
)
def test_heights_need_ultrametric_lengths(text, heights):
    found = Tree.from_newick(text).heights
    assert found is None if heights is None else found == pytest.approx(heights, rel=1e-6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "found the end of the text at position 0; expected a label or '\\('"),
        (";", "found ';' at position 0; expected a label"),
        ("()", "found '\\)' at position 1; expected a label"),
        ("(a,);", "found '\\)' at position 3; expected a label"),
        ("(,a);", "found ',' at position 1; expected a label"),
        ("(a,b", "found the end of the text at position 4; expected ',' or '\\)'.*position 0"),
        ("(a,b;", "found ';' at position 4"),
        ("(a,b));", "found '\\)' at position 5; expected ';'"),
        ("a,b;", "found ',' at position 1; expected ';'"),
        ("(a);", "from position 0 to 2 has 1 child; expected 2"),
        ("((a,b,c),d);", "from position 1 to 7 has 3 children; expected 2"),
        ("(a b,c);", "found 'b' at position 3"),
        ("(a,b)c d;", "found 'd' at position 7"),
        ("(a:x,b);", "found 'x' at position 3; expected a branch length"),
        ("(a:'1',b);", "found '1' at position 3; expected a branch length"),
        ("(a:,b);", "found ',' at position 3; expected a branch length"),
        ("(a:nan,b);", "found 'nan' at position 3"),
        ("(a:1e999,b);", "found '1e999' at position 3"),
        ("(a:1_0,b);", "found '1_0' at position 3"),
        ("(a,b):", "found the end of the text at position 6; expected a branch length"),
        ("(a,'b);", "quote that is never closed at position 3"),
        ("(a,b''');", "quote that is never closed at position 4"),
        ("(a,[b);", "comment that starts at position 3 is never closed"),
        ("(a,[[b]);", "comment that starts at position 3"),
        ("(a],b);", "']' without '\\[' at position 2"),
        ("(a,b);c", "found 'c' at position 6; expected the end of the text"),
        ("(a,a);", "label 'a' at position 3 is already at position 1"),
        ("(" * 100_000, "found the end of the text at position 100000"),
    ],
)
def test_malformed_newick(text, message):
    with pytest.raises(ValueError, match=message):
        Tree.from_newick(text)


@relaxed
@given(st.text(alphabet="(),:;'[]ab1 ."))
def test_any_text_is_a_tree_or_a_value_error(text):
    try:
        tree = Tree.from_newick(text)
    except ValueError:
        return
    assert Tree.from_newick(tree.to_newick()) == tree


def test_support_by_labels_masks_and_function():
    tree = Tree.from_newick("((a,b),(c,d));")
    by_labels = {frozenset("ab"): 0.93, frozenset("bc"): 0.5, frozenset("cd"): None}
    assert tree.to_newick(support=by_labels) == "((a,b)0.93,(c,d));"
    assert tree.to_newick(support={0b0011: 1, 0b1111: 1.0}) == "((a,b)1,(c,d))1;"
    assert tree.to_newick(support=lambda mask: mask / 3, support_format=".2f") == (
        "((a,b)1.00,(c,d)4.00)5.00;"
    )
    with pytest.raises(ValueError, match="'x' is not a leaf"):
        tree.to_newick(support={frozenset("ax"): 1})


def test_lengths_and_support_together():
    tree = Tree([[0, 1], [2, 3]], labels="abc", heights=[1, 2.5])
    text = tree.to_newick(support={0b011: 0.5}, lengths=True, length_format=".1f")
    assert text == "((a:1.0,b:1.0)0.5:1.5,c:2.5);"
    assert Tree([], labels="a", heights=[]).to_newick(lengths=True) == "a;"


def test_lengths_need_heights():
    with pytest.raises(ValueError, match="no heights to take branch lengths from"):
        Tree([[0, 1]]).to_newick(lengths=True)


@relaxed
@given(trees())
def test_support_round_trip(tree):
    values = {mask: mask / 7 for mask in tree.clusters()}
    found = parse_newick_support(tree.to_newick(support=values, support_format=""))
    assert {tree.mask(cluster): value for cluster, value in found.items()} == values


def test_support_passes_over_names():
    assert parse_newick_support("((a,b)clade,(c,d)98)root;") == {frozenset("cd"): 98}


def test_many_newicks():
    text = "(a,b);\n[two] ((a,b),c);\n\nd"
    assert read_newicks(text) == [Tree.from_newick(part) for part in text.split(";")]
    assert read_newicks(" [none] ") == []
    with pytest.raises(ValueError, match="position 6"):
        read_newicks("(a,b)\n(c,d)")


# ---- NEXUS ------------------------------------------------------------------------------------

NEXUS = """#nexus
[a comment]
Begin taxa; dimensions ntax=3; taxlabels ape 'bat''s' cat; end;
BEGIN TREES;
  Title 'some; trees';
  TRANSLATE
    1 ape, 2 'bat''s',
    3 cat,
  ;
  TREE * first = [&R] ((1:1,2:1):1,3:2);
  utree 'second one' = [&U] (1,(2,[x]3)0.9);
  tree third = (dog,1)
  ;
endblock;
begin trees; tree x = (1,2); end;
"""


def test_nexus_is_read():
    trees_read = read_nexus(NEXUS)
    newicks = ["((ape,'bat''s'),cat)", "(ape,('bat''s',cat))", "(dog,ape)", "(1,2)"]
    assert trees_read == [Tree.from_newick(text) for text in newicks]
    assert trees_read[0].heights.tolist() == [1, 2]


@relaxed
@given(st.lists(trees(max_leaves=5), max_size=4))
def test_nexus_round_trip(some):
    assert read_nexus(write_nexus(some)) == some


WEIGHTED = """#NEXUS
begin trees;
  tree tree_1 [p = 0.9, P = 0.9] = [&W 0.9] ((a,b),c);
  tree tree_2 [&lnP=-3.5] = [&R] [&W 1/8] (a,(b,c)[&w=2]);
  tree tree_3 = [&w 2e-1][&U] ((a,c),b);
  tree tree_4 [&W 3] = [&weight=7] ((a,c),b);
  tree tree_5 = ((a,c),b) [& W 0];
end;
"""


def test_weights_are_read_and_written():
    found = read_nexus(WEIGHTED)
    assert found.weights.tolist() == [0.9, 0.125, 0.2, 3, 0]
    newicks = ["((a,b),c)", "(a,(b,c))", *["((a,c),b)"] * 3]
    assert list(found) == [Tree.from_newick(text) for text in newicks]
    assert read_nexus(write_nexus(found)) == found
    assert found[1:3].weights.tolist() == [0.125, 0.2]
    assert (found[:2] + found[2:]) == found
    assert read_newicks("[&W 2] (a,b); [a [&W 5] b] [&W 3] (b,a);").weights.tolist() == [2, 3]
    assert read_newicks("[a [&W 5] b] (a,b);").weights is None
    assert Tree.from_newick("[&W 0.5] (a,b);") == Tree.from_newick("(a,b);")


@pytest.mark.parametrize(
    ("comments", "message"),
    [
        ("[&W]", "'\\[&W\\]' at position 31 is not the weight of a tree; expected a number"),
        ("[&W x]", "'\\[&W x\\]' at position 31"),
        ("[&W -1]", "position 31"),
        ("[&W nan]", "position 31"),
        ("[&W 1e999]", "position 31"),
        ("[&W 1/0]", "position 31"),
        ("[&W 1/2/3]", "position 31"),
        ("[&W=0.5]", "position 31"),
        ("[&W 0,5]", "position 31"),
        ("[&W 0.5 [x]]", "position 31"),
        ("[&W 1] [&W 2]", "two weights, at positions 31 and 38"),
        ("[&W 0]", "all weights are 0"),
        ("[&W 1] (a,b); tree y = ", "the tree at position 50 has no weight, but those before it"),
        ("(a,b); tree y = [&W 1]", "the tree at position 43 has a weight, but those before it"),
    ],
)
def test_weights_that_are_not_understood_are_refused(comments, message):
    with pytest.raises(ValueError, match=message):
        read_nexus(f"#NEXUS begin trees; tree xxx = {comments}(a,b); end;")


def test_nexus_with_lengths():
    tree = Tree([[0, 1], [2, 3]], labels="abc", heights=[1, 3])
    assert read_nexus(write_nexus([tree], lengths=True))[0].heights.tolist() == [1, 3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "found the end of the text at position 0; expected #NEXUS"),
        ("(a,b);", "found '\\(' at position 0; expected #NEXUS"),
        ("#NEXUS tree x = (a,b);", "found 'tree' at position 7; expected BEGIN"),
        ("#NEXUS begin;", "found ';' at position 12; expected the name of a block"),
        ("#NEXUS begin trees tree", "found 'tree' at position 19; expected ';'"),
        ("#NEXUS begin trees; tree x = (a,b);", "found the end.* expected a command or END;"),
        ("#NEXUS begin trees; tree (a,b);", "found '\\(' at position 25; expected '='"),
        ("#NEXUS begin trees; tree x = (a,b,c); end;", "has 3 children"),
        ("#NEXUS begin trees; translate 1; end;", "the label that '1' stands for"),
        ("#NEXUS begin trees; translate 1 a 2 b; end;", "found '2' at position 34; expected ','"),
        ("#NEXUS begin trees; translate 1 a, 2 a; tree x = (1,2); end;", "'a' is given 2 times"),
        ("#NEXUS begin data; matrix a 01", "found the end of the text at position 30"),
    ],
)
def test_malformed_nexus(text, message):
    with pytest.raises(ValueError, match=message):
        read_nexus(text)


# ---- nested pairs -----------------------------------------------------------------------------


@relaxed
@given(trees())
def test_nested_round_trip(tree):
    assert Tree.from_nested(tree.to_nested()) == tree
    assert Tree.from_nested(tree.to_nested(), labels=tree.labels).labels == tree.labels


def test_nested_of_indices():
    tree = Tree.from_nested([2, (np.int64(0), 1)])
    assert tree.labels == ("0", "1", "2")
    assert tree.clusters() == {0b011, 0b111}
    assert Tree.from_nested(("z", 0), labels=["y", "z"]).to_nested() == ("y", "z")


@pytest.mark.parametrize(
    ("nested", "labels", "message"),
    [
        (("a", "b", "c"), None, "tuple of 3 in the nested tree; expected pairs"),
        ((["a"], "b"), None, "list of 1"),
        (("a", None), None, "found a NoneType in the nested tree"),
        (("a", 1), None, "mixes labels and indices"),
        (("a", "a"), None, "label 'a' is given 2 times"),
        ((0, 2), None, "2 is not a leaf.*from 0 to 1"),
        ((0, 0), None, "leaf 0 is repeated"),
        (("a", 0), ["a", "b"], "leaf 0 is repeated"),
        (("a", "x"), ["a", "b"], "'x' is not a leaf"),
        (("a", "b"), ["a", "b", "c"], "3 labels for 2 leaves"),
    ],
)
def test_bad_nested(nested, labels, message):
    with pytest.raises(ValueError, match=message):
        Tree.from_nested(nested, labels=labels)


# ---- linkage ----------------------------------------------------------------------------------


def assert_scipy_accepts(Z):
    assert hierarchy.is_valid_linkage(Z)
    assert hierarchy.is_monotonic(Z)


@relaxed
@given(trees())
def test_linkage_round_trip(tree):
    Z = tree.to_linkage()
    assert Z.shape == (tree.n_leaves - 1, 4)
    assert Tree.from_linkage(Z, labels=tree.labels) == tree
    if tree.n_leaves > 1:
        assert_scipy_accepts(Z)


@pytest.mark.parametrize("method", ["single", "average", "ward"])
def test_linkage_of_scipy_comes_back(method):
    Z = hierarchy.linkage(np.random.default_rng(3).normal(size=(30, 2)), method)
    np.testing.assert_array_equal(Tree.from_linkage(Z).to_linkage(), Z)


def test_linkage_heights():
    tree = Tree([[0, 1], [2, 3], [4, 5]], labels="abcd", heights=[5, 1, 3])
    assert tree.to_linkage().tolist() == [[2, 3, 1, 2], [0, 1, 5, 2], [4, 5, 5, 4]]
    assert tree.to_linkage([1, 2, 4])[:, 2].tolist() == [1, 2, 4]
    assert tree.to_linkage([-1, -2, -4])[:, 2].tolist() == [0, 0, 0]
    assert Tree(tree.children).to_linkage()[:, 2].tolist() == [1, 1, 3]
    with pytest.raises(ValueError, match=r"heights has shape \(2,\); expected \(3,\)"):
        tree.to_linkage([1, 2])


@pytest.mark.parametrize(
    ("Z", "message"),
    [
        ([[0, 1, 1]], r"shape \(1, 3\); expected \(n_leaves - 1, 4\)"),
        ([0, 1, 1, 2], r"shape \(4,\)"),
        ([["a", "b", "c", "d"]], "not an array of numbers"),
        ([[0, 1, np.nan, 2]], "row 0 of the linkage matrix is .*expected finite"),
        ([[0, 0.5, 1, 2]], "row 0 of the linkage matrix joins 0 and 0.5; expected whole"),
        ([[0, 1e300, 1, 2]], "joins 0 and 1e\\+300"),
        ([[0, -1, 1, 2]], "joins 0 and -1"),
        ([[0, 3, 1, 2], [1, 2, 2, 3]], "row 0 of children joins nodes 0 and 3 into node 3"),
        ([[0, 1, 1, 2], [0, 2, 2, 3]], "node 0 is joined 2 times"),
    ],
)
def test_bad_linkage(Z, message):
    with pytest.raises(ValueError, match=message):
        Tree.from_linkage(Z)


# ---- networkx ---------------------------------------------------------------------------------


@relaxed
@given(trees())
def test_networkx_round_trip(tree):
    nx = pytest.importorskip("networkx")
    graph = tree.to_networkx()
    assert nx.is_arborescence(graph)
    again = Tree.from_networkx(graph)
    assert again == tree
    assert again.labels == tree.labels
    if tree.n_leaves > 1:
        np.testing.assert_equal(again.heights, tree.heights)


def test_networkx_attributes():
    pytest.importorskip("networkx")
    graph = Tree([[0, 1]], labels="ab", heights=[2]).to_networkx()
    assert dict(graph.nodes(data=True)) == {
        0: {"size": 1, "label": "a"},
        1: {"size": 1, "label": "b"},
        2: {"size": 2, "height": 2.0},
    }
    assert set(graph.edges) == {(2, 0), (2, 1)}


def test_networkx_node_ids_become_labels():
    nx = pytest.importorskip("networkx")
    graph = nx.DiGraph([("root", "ab"), ("root", 3), ("ab", "a"), ("ab", "b")])
    assert Tree.from_networkx(graph) == Tree.from_newick("((a,b),3);")


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([], "0 nodes without a parent; expected one root"),
        ([(0, 1), (0, 2), (3, 4), (3, 5)], "2 nodes without a parent"),
        ([(0, 1), (0, 2), (1, 3), (1, 4), (2, 4), (2, 5)], "node 4 has 2 parents"),
        ([(0, 1)], "node 0 has 1 children"),
        ([(0, 1), (0, 2), (0, 3)], "node 0 has 3 children"),
        ([(0, 1), (0, 2), (3, 4), (3, 5), (4, 3), (4, 6)], "only 3 of 7 nodes hang from the root"),
    ],
)
def test_bad_graphs(edges, message):
    nx = pytest.importorskip("networkx")
    with pytest.raises(ValueError, match=message):
        Tree.from_networkx(nx.DiGraph(edges))


def test_undirected_graph():
    nx = pytest.importorskip("networkx")
    with pytest.raises(ValueError, match="undirected; expected a DiGraph"):
        Tree.from_networkx(nx.Graph([(0, 1), (0, 2)]))


def test_networkx_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(ImportError, match="pip install"):
        Tree([[0, 1]]).to_networkx()


# ---- JSON -------------------------------------------------------------------------------------


@relaxed
@given(trees())
def test_json_round_trip(tree):
    for again in (Tree.from_json(tree.to_json()), Tree.from_json(json.loads(tree.to_json()))):
        assert again == tree
        assert again.labels == tree.labels
        np.testing.assert_equal(again.heights, tree.heights)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, 'not an object with "format": "hctrellis-tree"'),
        ({"version": 2}, "version 2 of the format; this release reads version 1"),
        ({"labels": "ab"}, 'no list "labels"'),
        ({"children": None}, 'no list "children"'),
        ({"children": [[0, 1], [2]]}, "different lengths"),
        ({"children": [[0, 10**30]]}, "type object"),
        ({"heights": ["x"]}, "heights are not numbers"),
        ({"labels": ["a", 1]}, "label 1 is not a string"),
    ],
)
def test_bad_json(change, message):
    record = json.loads(Tree([[0, 1]]).to_json())
    with pytest.raises(ValueError, match=message):
        Tree.from_json(json.dumps(record | change))


@pytest.mark.parametrize("text", ["", "{", "[" * 200_000])
def test_text_that_is_not_json(text):
    with pytest.raises(ValueError, match="not JSON"):
        Tree.from_json(text)


def test_json_that_is_not_an_object():
    with pytest.raises(ValueError, match="not an object"):
        Tree.from_json("[1]")


# ---- text -------------------------------------------------------------------------------------


def test_text():
    tree = Tree.from_newick("((a,(b,'c\n')),(d,e));")
    assert tree.to_text().splitlines() == [
        "┐",
        "├─┐",
        "│ ├─ a",
        "│ └─┐",
        "│   ├─ b",
        r"│   └─ c\n",
        "└─┐",
        "  ├─ d",
        "  └─ e",
    ]
    assert Tree([], labels=["a"]).to_text() == "a"


def test_text_with_notes():
    tree = Tree.from_newick("((a,b),c);")
    assert tree.to_text(lambda mask: f"{mask.bit_count()} leaves").splitlines() == [
        "┐ 3 leaves",
        "├─┐ 2 leaves",
        "│ ├─ a",
        "│ └─ b",
        "└─ c",
    ]


# ---- depth ------------------------------------------------------------------------------------


def test_deep_formats():
    tree = chain()
    assert read_nexus(write_nexus([tree, tree])) == [tree, tree]
    assert read_newicks(tree.to_newick() * 2) == [tree, tree]
    assert Tree.from_newick(tree.to_newick(lengths=True)).heights == pytest.approx(tree.heights)
    assert_scipy_accepts(tree.to_linkage())
    assert parse_newick_support(tree.to_newick(support={tree.masks[-2]: 0.5})).popitem()[1] == 0.5


def test_deep_drawing():
    assert chain(1_500).to_text().count("\n") == 2 * 1_500 - 2
