"""The table of clusters: its order, its rows, and how it is shown."""

import numpy as np
import pytest

import hctrellis as hct
from cases import everywhere, leaves, marginals, solved, tolerance
from gallery import PROBLEMS, posterior, similarities
from hctrellis.posterior.table import ClusterRow, ClusterTable

LABELS = tuple("abcde")


def table(*rows, labels=LABELS):
    """A table of (probability, leaves)."""
    masks = [sum(1 << labels.index(name) for name in names) for _, names in rows]
    return ClusterTable(labels, masks, np.array([p for p, _ in rows], float))


@everywhere
def test_cluster_probabilities(kind, name):
    post, n = solved(kind, name), PROBLEMS[name].n
    around = tolerance(name)
    for threshold in (0.0, 0.01, 0.3):
        found = post.cluster_probabilities(threshold)
        masks = found.masks
        assert len(set(masks)) == len(masks) == len(found)
        for mask, p in zip(masks, found.probabilities, strict=True):
            assert p > 0
            assert p >= threshold
            assert p == post.cluster_probability(mask)
            assert 1 < mask.bit_count() < n
        expected = {c for c, p in marginals(name).items() if p > threshold + around and len(c) < n}
        assert expected <= {leaves(mask, n) for mask in masks}


@everywhere
def test_order(kind, name):
    found = solved(kind, name).cluster_probabilities(0)
    keys = [(-row.probability, -row.size) for row in found]
    assert keys == sorted(keys)


def test_default_threshold():
    post = posterior("dasgupta, 6 leaves")
    everything = post.cluster_probabilities(0)
    expected = [row for row in everything if row.probability >= 0.01]
    assert 0 < len(expected) < len(everything)
    assert list(post.cluster_probabilities()) == expected
    assert len(post.cluster_probabilities(1.1)) == 0


def test_ties_are_sorted_by_size_then_leaves():
    found = table((0.25, "bc"), (0.5, "ab"), (0.25, "ab"), (0.5, "abc"), (0.25, "ac"))
    shown = ["".join(sorted(row.cluster)) for row in found]
    assert shown == ["abc", "ab", "ab", "ac", "bc"]


def test_rows():
    found = table((0.25, "bc"), (0.5, "abd"), (0.125, "de"))
    assert found[0] == ClusterRow(frozenset("abd"), 3, 0.5)
    assert found[-1] == found[2] == (frozenset("de"), 2, 0.125, 0.0)
    assert found[1:] == [found[1], found[2]]
    assert list(found) == found[:]
    assert found[0] in found
    with pytest.raises(IndexError):
        found[3]


def test_labels_of_a_posterior():
    post = hct.infer(hct.Dasgupta(similarities(4), labels=["w", "x", "y y", "z"]))
    for row in post.cluster_probabilities(0):
        assert row.cluster <= {"w", "x", "y y", "z"}
        assert row.size == len(row.cluster)
        assert post.cluster_probability(row.cluster) == row.probability


def test_to_pandas():
    pytest.importorskip("pandas")
    found = table((0.25, "bc"), (0.5, "abd"))
    frame = found.to_pandas()
    assert list(frame.columns) == ["cluster", "size", "probability"]
    assert frame["cluster"].tolist() == [frozenset("abd"), frozenset("bc")]
    assert frame["size"].tolist() == [3, 2]
    assert frame["probability"].tolist() == [0.5, 0.25]
    empty = table().to_pandas()
    assert (len(empty), list(empty.columns)) == (0, ["cluster", "size", "probability"])


def test_repr():
    text = repr(table((0.25, "bc"), (0.54321, "abd")))
    assert text.splitlines() == [
        "probability  size  cluster",
        "     0.5432     3  {'a', 'b', 'd'}",
        "     0.2500     2  {'b', 'c'}",
    ]
    assert repr(table()) == "probability  size  cluster"


def test_long_tables_are_cut():
    lines = repr(posterior("dasgupta, 6 leaves").cluster_probabilities(0)).splitlines()
    assert lines[-1] == "... 36 more"
    assert len(lines) == 22


def test_html():
    page = table((0.25, "bc"), (0.5, "abd"))._repr_html_()
    assert page.index("<td>0.5000</td><td>3</td><td>a, b, d</td>") < page.index("<td>b, c</td>")
    assert page.count("<tr>") == 3


def test_html_escapes_labels():
    labels = ("<b>bold</b>", "a & b", '"', "plain")
    page = table((0.5, labels[:3]), labels=labels)._repr_html_()
    assert "<b>" not in page
    assert "&lt;b&gt;bold&lt;/b&gt;" in page
    assert "a &amp; b" in page


def test_tables_are_frozen():
    found = table((0.25, "bc"))
    with pytest.raises(AttributeError):
        found.masks = None
