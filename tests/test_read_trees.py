"""Files of sampled trees: every format against the plain reader, rooting against its definition."""

from __future__ import annotations

import gzip
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hctrellis as hct
from hctrellis.treefiles import read_newicks, write_nexus
from hctrellis.treefiles.weighted import WeightedTrees


def random_newick(n, rng, lengths=True, unrooted=False):
    """A tree over t0 .. t(n-1) in a random order."""
    parts = [f"t{i}" for i in rng.permutation(n)]
    while len(parts) > (3 if unrooted else 1):
        some = [parts.pop(rng.integers(len(parts))) for _ in range(2)]
        written = [f"{part}:{rng.exponential():.17g}" if lengths else part for part in some]
        parts.append(f"({','.join(written)})")
    if not unrooted:
        return parts[0] + ";"
    written = [f"{part}:{rng.exponential():.17g}" if lengths else part for part in parts]
    return f"({','.join(written)});"


def write(folder, text, name="run.t"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def distances(runs, k):
    """The lengths of the paths between leaves."""
    n = runs.n_leaves
    depth, above = np.zeros(2 * n - 1), {}
    for row in reversed(range(n - 1)):
        for child in runs.children[k, row].tolist():
            above[child] = n + row
            depth[child] = depth[n + row] + runs.lengths[k, child]
    found = np.zeros((n, n))
    for i in range(n):
        ancestors, node = {i}, i
        while node in above:
            node = above[node]
            ancestors.add(node)
        for j in range(n):
            node = j
            while node not in ancestors:
                node = above[node]
            found[i, j] = depth[i] + depth[j] - 2 * depth[node]
    return found


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 12), st.integers(0, 10**6))
def test_the_plain_reader_agrees(tmp_path_factory, n, seed):
    rng = np.random.default_rng(seed)
    text = "\n".join(random_newick(n, rng) for _ in range(5))
    runs = hct.read_trees(write(tmp_path_factory.mktemp("t"), text), burn_in=0)
    assert list(runs) == list(read_newicks(text))
    assert [hct.Tree(row, labels=runs.labels) for row in runs.children] == list(runs)
    for tree in runs:
        tree.validate()


def test_numbers_are_read_as_python_reads_them(tmp_path):
    rng = np.random.default_rng(0)
    texts = [f"{x:.{d}g}" for d in (1, 6, 17) for x in 10 ** rng.uniform(-12, 9, 100)]
    texts += ["0", "0.0", ".5", "5.", "1e-05", "1E3", "123456789012345678901234567890", "1e-300"]
    path = write(tmp_path, "".join(f"(a:{x},b:1);" for x in texts))
    found = hct.read_trees(path, burn_in=0).lengths[:, 0]
    assert found.tolist() == pytest.approx([float(x) for x in texts], rel=1e-15)
    short = [k for k, x in enumerate(texts) if len(x) <= 20]
    assert [found[k] for k in short] == [float(texts[k]) for k in short]


MRBAYES = """#NEXUS
[ID: 1]
[Param: tree]
begin trees;
   translate
       1 Ape_one,
       2 'Bat two',
       3 Cat,
       4 Dog;
   tree gen.0 = [&U] (2:1.0e-01,3:2.0e-01,(4:3e-1,1:4e-1):0.5);
   tree gen.100 = [&U] (2:0.1,3:0.2,(4:0.3,1:0.4):0.5);
"""
BEAST = """#NEXUS
Begin taxa;
    Dimensions ntax=3;
    Taxlabels
        a
        b
        c
        ;
End;
Begin trees;
    Translate
        1 a, 2 b, 3 c
        ;
tree STATE_0 [&lnP=-34.5,posterior=-34.5] = [&R] ((1[&rate=0.5]:1.0,2:1.0)\
[&rate=1.5,x="q",h={1,2}]:1.0,3:[&rate=2]2.0)[&rate=9]:0.0;
tree STATE_1 [&lnP=-33.5] = [&R] ((1[&rate=0.7]:2.0,2:2.0)[&rate=2.5]:1.0,3:3.0);
End;
"""
TRPROBS = """#NEXUS
begin trees;
   translate 1 a, 2 b, 3 c;
   tree tree_1 [p = 0.750, P = 0.750] = [&W 0.75] (1,2,3);
   tree tree_2 [p = 0.250, P = 1.000] = [&W 1/4] (3,2,1);
end;
"""
REVBAYES = (
    "Iteration\tPosterior\tLikelihood\tPrior\tphylogeny\n"
    "0\t-1.5\t-1\t-0.5\t((a[&index=1]:1,b[&index=2]:1)[&index=4]:1,c[&index=3]:2)[&index=5]:0;\n"
    "10\t-1.5\t-1\t-0.5\t((a[&index=1]:1,c[&index=2]:1)[&index=4]:1,b[&index=3]:2)[&index=5]:0\n"
)


def test_mrbayes(tmp_path):
    runs = hct.read_trees(write(tmp_path, MRBAYES), burn_in=0, outgroup="Cat")
    assert runs.labels == ("Ape_one", "Bat two", "Cat", "Dog")
    assert runs[0] == runs[1] == hct.Tree.from_newick("(('Bat two',(Dog,Ape_one)),Cat);")
    assert runs.lengths[0, :4].tolist() == pytest.approx([0.4, 0.1, 0.1, 0.3])
    plain = hct.read_trees(write(tmp_path, MRBAYES), burn_in=0)
    assert "rooted on their first leaf, 'Ape_one'" in plain.remarks[0]
    assert plain[0] == hct.Tree.from_newick("((('Bat two',Cat),Dog),Ape_one);")
    with pytest.raises(ValueError, match="line 10, column 22: three branches"):
        hct.read_trees(write(tmp_path, MRBAYES), rooting="written")


def test_beast(tmp_path):
    runs = hct.read_trees(write(tmp_path, BEAST), burn_in=0)
    assert runs.is_clock
    assert runs.weights is None
    assert runs[0] == hct.Tree.from_newick("((a,b),c);")
    assert runs[1].heights.tolist() == [2.0, 3.0]
    expected = [[0.5, math.nan, 2, 1.5, 9], [0.7, math.nan, math.nan, 2.5, math.nan]]
    np.testing.assert_allclose(runs.notes["rate"], expected, rtol=1e-6)
    assert list(runs.notes) == ["rate"]
    assert hct.read_trees(write(tmp_path, BEAST), notes=False).notes == {}


def test_weights_and_probabilities(tmp_path):
    runs = hct.read_trees(write(tmp_path, TRPROBS), burn_in=0.5)
    assert runs.weights.tolist() == [0.75, 0.25]
    by_p = write(tmp_path, TRPROBS.replace("[&W 0.75]", "").replace("[&W 1/4]", ""))
    assert hct.read_trees(by_p).weights.tolist() == [0.75, 0.25]
    assert hct.read_trees(write(tmp_path, TRPROBS), 0, weights=None).weights is None
    with pytest.raises(ValueError, match=r"tree 1 of run.t has no weight"):
        text = TRPROBS.replace("[&W 0.75]", "").replace("[p = 0.750, P = 0.750]", "")
        hct.read_trees(write(tmp_path, text))
    with pytest.raises(ValueError, match=r"line 4, column 40: '\[&W x\]' is not the weight"):
        hct.read_trees(write(tmp_path, TRPROBS.replace("0.75]", "x]")))


def test_weights_behind_trees_and_other_notes(tmp_path):
    path = write(tmp_path, "((a,b),c)[&W 0.5]; (a,(b,c))[&Width=3][&W 1/2];")
    assert hct.read_trees(path).weights.tolist() == [0.5, 0.5]
    assert hct.read_trees(write(tmp_path, "[&Width=3] ((a,b),c);")).weights is None


def test_revbayes(tmp_path):
    runs = hct.read_trees(write(tmp_path, REVBAYES), burn_in=0)
    assert list(runs) == list(read_newicks("((a,b),c); ((a,c),b);"))
    assert runs.notes["index"][0].tolist() == [1, 2, 3, 4, 5]


def test_revbayes_tables_with_more_columns(tmp_path):
    """Comments before the header, numbers and another tree behind the tree."""
    text = "#RevBayes version (1.2)\n" + REVBAYES.replace("]:0", "]:0\t(x,y)\t0.5")
    runs = hct.read_trees(write(tmp_path, text.replace("phylogeny", "tree\tother\tx")), burn_in=0)
    assert list(runs) == list(read_newicks("((a,b),c); ((a,c),b);"))
    with pytest.raises(ValueError, match=r"run\.t, line 4: there is no tree in this row"):
        hct.read_trees(write(tmp_path, REVBAYES + "20\t-1.5\t-1\t-0.5\t\n"))


def test_some_unrooted_trees_are_counted(tmp_path):
    runs = hct.read_trees(write(tmp_path, "((a,b),(c,d)); (a,b,(c,d)); ((a,b),(c,d));"))
    assert runs.remarks[0].startswith("1 of 3 trees are unrooted and were rooted on their first")
    assert runs[0] != runs[1]
    assert hct.read_trees(tmp_path / "run.t", outgroup="a").remarks == (
        "trees were rooted on 'a', as asked",
    )


def test_compressed_and_several_runs(tmp_path):
    rng = np.random.default_rng(1)
    texts = ["\n".join(random_newick(6, rng) for _ in range(10)) for _ in range(2)]
    one = tmp_path / "one.t.gz"
    one.write_bytes(gzip.compress(texts[0].encode()))
    runs = hct.read_trees([one, write(tmp_path, texts[1])], burn_in=0.25)
    assert runs.names == ("one.t.gz", "run.t")
    assert [len(runs.run(k)) for k in range(2)] == [8, 8]
    assert list(runs.run(0)) == list(read_newicks(texts[0]))[2:]
    assert list(runs.run(1)) == list(read_newicks(texts[1]))[2:]
    thinned = hct.read_trees([one, write(tmp_path, texts[1])], burn_in=3, thin=2)
    assert list(thinned) == [
        *list(read_newicks(texts[0]))[::2][3:],
        *list(read_newicks(texts[1]))[::2][3:],
    ]
    one.write_bytes(gzip.compress(texts[0].encode())[:-20])
    with pytest.raises(ValueError, match=r"one.t.gz is damaged"):
        hct.read_trees(one)


def test_long_files_are_read_in_pieces(tmp_path, monkeypatch):
    from hctrellis.treefiles import statements

    rng = np.random.default_rng(2)
    text = "\n".join(random_newick(9, rng) for _ in range(20))
    monkeypatch.setattr(statements, "PIECE", 64)
    assert list(hct.read_trees(write(tmp_path, text), 0)) == list(read_newicks(text))
    with pytest.raises(ValueError, match="line 21, column 5: found 't1'; expected ','"):
        hct.read_trees(write(tmp_path, text + "\n(t0 t1"))


def test_round_trip(tmp_path):
    trees = WeightedTrees(read_newicks("((a:1,b:1):1,'c d':2); (a:3,('c d':1,b:1):2);"), [0.3, 0.7])
    runs = hct.read_trees(write(tmp_path, write_nexus(trees, lengths=True)))
    assert list(runs) == list(trees)
    assert runs.weights.tolist() == [0.3, 0.7]
    assert runs[1].heights.tolist() == [1.0, 3.0]


@settings(max_examples=25, deadline=None)
@given(st.integers(3, 10), st.booleans(), st.integers(0, 10**6))
def test_roots_move_nothing_else(tmp_path_factory, n, unrooted, seed):
    """Distances between leaves stay; the root is where it should be."""
    rng = np.random.default_rng(seed)
    text = "".join(random_newick(n, rng, unrooted=unrooted) for _ in range(3))
    path = write(tmp_path_factory.mktemp("t"), text)
    plain = hct.read_trees(path, 0)
    rooted = hct.read_trees(path, 0, outgroup="t1")
    middle = hct.read_trees(path, 0, rooting="midpoint")
    for k in range(3):
        for other in (rooted, middle):
            np.testing.assert_allclose(distances(other, k), distances(plain, k), atol=1e-12)
        one = rooted.labels.index("t1")
        sides = rooted.children[k, -1].tolist()
        assert one in sides
        assert rooted.lengths[k, sides[0]] == pytest.approx(rooted.lengths[k, sides[1]])
        depth = middle.some(np.array([k])).node_heights()[0]
        far = distances(middle, k).max()
        assert depth[-1] == pytest.approx(far / 2)


@pytest.mark.parametrize(
    "text",
    [
        "(a:1,b:-9);",
        "((a:-5,b:-6):-7,(c:-1,d:-2):-3);",
        "(a:-2,b:3,(c:-4,d:-1):2);",
        "((a:1,b:2):-3,(c:-1,d:4):1);",
    ],
)
def test_the_middle_of_negative_lengths(tmp_path, text):
    """The root is somewhere, and distances between leaves stay."""
    path = write(tmp_path, text)
    plain = hct.read_trees(path, 0, rooting="written", multifurcations="resolve")
    middle = hct.read_trees(path, 0, rooting="midpoint")
    np.testing.assert_allclose(distances(middle, 0), distances(plain, 0), atol=1e-12)


def test_outgroups_of_several_leaves(tmp_path):
    text = "((a:1,b:1):1,(c:1,(d:1,e:1):1):1); ((a:1,d:1):1,(c:1,(b:1,e:1):1):1);"
    runs = hct.read_trees(write(tmp_path, text), 0, outgroup=["d", "c", "e"])
    assert runs[0] == hct.Tree.from_newick("((a,b),(c,(d,e)));")
    assert runs[1].subtree(["a", "b", "c", "e"]) == hct.Tree.from_newick("(a,(c,(b,e)));")
    assert "in 1 of 2 trees no branch parts the outgroup" in runs.remarks[1]
    with pytest.raises(ValueError, match="the outgroup 'x' is not a leaf"):
        hct.read_trees(write(tmp_path, text), outgroup="x")


def test_multifurcations(tmp_path):
    path = write(tmp_path, "((a:1,b:1,c:1,d:1):1,e:2);")
    with pytest.raises(ValueError, match="line 1, column 2: this node has more than 2 children"):
        hct.read_trees(path)
    runs = hct.read_trees(path, 0, multifurcations="resolve")
    assert runs[0] == hct.Tree.from_newick("((((a,b),c),d),e);")
    assert "split arbitrarily" in runs.remarks[0]
    assert runs[0].heights.tolist() == [1.0, 1.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("((a,b),c);\n((a,b),d);", r"line 2, column 8: 'd' is not a leaf of the first tree"),
        ("((a,b),c);\n(a,b);", r"line 2, column 1: this tree has 2 leaves, where the first has 3"),
        ("((a,b),a);", r"column 8: the leaf 'a' is there twice"),
        ("((a,b),c;", r"column 9: found ';'; expected ',', '\)' or the end"),
        ("((a,b),(c));", r"column 8: this node has 1 child"),
        ("((a:x,b),c);", r"column 5: found 'x'; expected a branch length"),
        ("((a,b),c[x;", r"column 9: this comment is never closed"),
        ("((a,'b),c);", r"column 5: this quote is never closed"),
        ("((a,),c);", r"column 5: found '\)'; expected a label"),
        ("", "run.t is empty"),
        ("#NEXUS begin trees; end;", "run.t has no trees"),
        ("#NEXUS begin splits; end; [Splits]\n", "run.t has no trees"),
        ("#NEXUS begin trees; end; [x] y z", "column 30: found 'Y'; expected BEGIN"),
        ("#NEXUS begin trees; tree x (a,b); end;", "this tree has no '='"),
        ("#NEXUS begin trees; translate 1, 2 b; end;", "'1' is no entry to translate"),
        (
            "#NEXUS begin taxa; taxlabels x y; end; begin trees; tree t = (a,b); end;",
            "column 63: 'a' is not among the labels of TAXLABELS or TRANSLATE",
        ),
        ("#NEXUS tree x = (a,b);", "found 'TREE'; expected BEGIN"),
        ("\xff\xfe(", "is not text in UTF-8"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path, text, message):
    path = tmp_path / "run.t"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=message):
        hct.read_trees(path)


def test_options_are_checked(tmp_path):
    path = write(tmp_path, "((a,b),c);" * 4)
    for options, message in [
        ({"burn_in": -1}, "burn_in must be"),
        ({"burn_in": 4}, "leaves no tree of run.t, which has 4"),
        ({"weights": "x"}, "weights must be"),
        ({"rooting": "x"}, "rooting must be"),
        ({"multifurcations": "x"}, "multifurcations must be"),
        ({"thin": 0}, "thin"),
    ]:
        with pytest.raises((ValueError, TypeError), match=message):
            hct.read_trees(path, **options)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        hct.read_trees(tmp_path / "absent.t")
    with pytest.raises(ValueError, match="no files"):
        hct.read_trees([])
    with pytest.raises(ValueError, match="needs"):
        hct.read_trees(path, rooting="midpoint")


def test_dendropy_reads_the_same_trees(tmp_path):
    dendropy = pytest.importorskip("dendropy")
    rng = np.random.default_rng(3)
    text = "\n".join(random_newick(15, rng, unrooted=True) for _ in range(10))
    runs = hct.read_trees(write(tmp_path, text), 0, outgroup="t3")
    theirs = dendropy.TreeList.get(data=text, schema="newick", preserve_underscores=True)
    for ours, tree in zip(runs, theirs, strict=True):
        node = tree.find_node_with_taxon_label("t3")
        tree.reroot_at_edge(node.edge, update_bipartitions=False, suppress_unifurcations=True)
        clusters = {
            frozenset(leaf.taxon.label for leaf in inner.leaf_iter())
            for inner in tree.preorder_internal_node_iter()
        }
        assert ours.cluster_labels() == clusters
