"""Trees and tables handed to other packages (skipped where one is not installed)."""

import numpy as np
import pytest

import hctrellis as hct

LABELS = ("plain", "two words", "it's, quoted", "semi;colon", "[square]", "x_1", "a:b", "(round)")


@pytest.fixture(scope="module")
def post():
    rows = np.random.default_rng(1).normal(size=(8, 3))
    return hct.infer(hct.Linkage(rows, "average", beta=3.0, labels=LABELS))


@pytest.fixture(scope="module")
def newick(post):
    return post.map_tree.to_newick(support=post.support(post.map_tree))


def assert_same(found, post):
    """`found`: cluster -> probability, as another package has read it (root and leaves apart)."""
    inner = {c for c in post.map_tree.cluster_labels() if 1 < len(c) < len(LABELS)}
    assert set(found) == inner
    for cluster, probability in found.items():
        assert probability == pytest.approx(post.cluster_probability(cluster), rel=1e-3)


def test_dendropy(post, newick):
    dendropy = pytest.importorskip("dendropy")
    read = dendropy.Tree.get(data=newick, schema="newick", preserve_underscores=True)
    nodes = [node for node in read.internal_nodes() if node is not read.seed_node]
    members = [frozenset(leaf.taxon.label for leaf in node.leaf_iter()) for node in nodes]
    found = [float(node.label) for node in nodes]
    assert_same(dict(zip(members, found, strict=True)), post)
    written = read.as_string(schema="newick", suppress_rooting=True, preserve_spaces=True)
    assert hct.Tree.from_newick(written) == post.map_tree


def test_ete(post, newick):
    ete = pytest.importorskip("ete4")
    nodes = [node for node in ete.Tree(newick, parser=0).traverse() if not node.is_leaf]
    assert_same({frozenset(n.leaf_names()): n.support for n in nodes if not n.is_root}, post)


def test_seaborn(post):
    seaborn, pandas = pytest.importorskip("seaborn"), pytest.importorskip("pandas")
    import matplotlib.pyplot as plt

    tree = post.map_tree
    frame = pandas.DataFrame(np.arange(24.0).reshape(8, 3), index=LABELS)
    grid = seaborn.clustermap(frame, row_linkage=tree.to_linkage(), col_cluster=False)
    shown = list(grid.data2d.index)
    plt.close(grid.figure)
    for cluster in tree.cluster_labels():  # the members of every cluster stand together
        places = sorted(shown.index(label) for label in cluster)
        assert places == list(range(places[0], places[0] + len(cluster)))


def test_pandas_in_and_out(post):
    pandas = pytest.importorskip("pandas")
    rows = np.random.default_rng(1).normal(size=(8, 3))
    frame = pandas.DataFrame(rows, index=LABELS, columns=list("xyz"))
    from_frame = hct.infer(hct.Linkage(frame, "average", beta=3.0, labels=frame.index))
    assert from_frame.log_partition == post.log_partition
    table = post.cluster_probabilities(min_probability=0.1).to_pandas()
    assert list(table.columns) == ["cluster", "size", "probability"]
    assert table.probability.is_monotonic_decreasing
    assert post.cluster_probability(table.cluster[0]) == table.probability[0]
