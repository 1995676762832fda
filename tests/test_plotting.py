"""Dendrograms: what is drawn and where."""

from __future__ import annotations

import sys

import matplotlib as mpl
import numpy as np
import pytest

from hctrellis import Tree
from hctrellis.plotting import plot_dendrogram, show_probability

mpl.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

LABELS = ["a", "b", "c", "d"]


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def caterpillar(n: int) -> Tree:
    return Tree([[0, 1], *([n + k - 1, k + 1] for k in range(1, n - 1))])


def drawn(ax):
    """Draw the figure, and return the extents of its texts of support and of its lines."""
    ax.figure.canvas.draw()
    (lines,) = ax.collections
    segments = [ax.transData.transform(segment) for segment in lines.get_segments()]
    return [text.get_window_extent() for text in ax.texts], segments


def crosses(box, segment) -> bool:
    low, high = segment.min(axis=0), segment.max(axis=0)
    return bool((low < (box.x1, box.y1)).all() and (high > (box.x0, box.y0)).all())


@pytest.mark.parametrize("n", [2, 3, 16, 60])
@pytest.mark.parametrize("heights", [False, True])
def test_support_never_overlaps(n, heights):
    rng = np.random.default_rng(n)
    children = []
    free = list(range(n))
    for k in range(n - 1):
        i, j = (free.pop(rng.integers(len(free))) for _ in range(2))
        children.append([i, j])
        free.append(n + k)
    tree = Tree(children, heights=np.sort(rng.random(n - 1)) if heights else None)
    texts, lines = drawn(plot_dendrogram(tree, support=lambda mask: 0.5))
    assert len(texts) == n - 2
    assert not any(crosses(text, line) for text in texts for line in lines)
    assert not any(a.overlaps(b) for i, a in enumerate(texts) for b in texts[:i])


def test_long_labels_stay_in_the_figure():
    tree = Tree([[0, 1], [2, 3]], labels=["a" * 60, "x", "Salmonella (Eberthella) typhosa"])
    ax = plot_dendrogram(tree)
    ax.figure.canvas.draw()
    for text in ax.get_yticklabels():
        assert text.get_window_extent().x1 <= ax.figure.bbox.x1


def test_leaves_are_in_order_and_coloured():
    tree = Tree.from_newick("((a,c),(b,d));").reorder(LABELS)
    ax = plot_dendrogram(tree, colors={"c": "red"})
    rows = dict(zip(LABELS, ax.get_yticks(), strict=True))
    assert sorted(rows, key=rows.get) == ["a", "c", "b", "d"]
    assert [text.get_color() for text in ax.get_yticklabels()].count("red") == 1
    listed = plot_dendrogram(tree, colors=["red", "green", "blue", "black"])
    assert [text.get_color() for text in listed.get_yticklabels()][2] == "blue"


def test_support_by_mapping_and_callable():
    tree = Tree.from_newick("((a,b),(c,d));")
    by_set = plot_dendrogram(tree, support={frozenset("ab"): 0.25})
    assert [text.get_text() for text in by_set.texts] == ["0.25"]
    by_mask = plot_dendrogram(tree, support={0b1100: 0.999})
    assert [text.get_text() for text in by_mask.texts] == [">0.99"]
    by_call = plot_dendrogram(tree, support=lambda mask: 0.5 if mask == 0b0011 else None)
    assert [text.get_text() for text in by_call.texts] == ["0.50"]


def test_heights():
    tree = Tree([[0, 1], [2, 3]], heights=[2.0, 1.0])
    (lines,) = plot_dendrogram(tree).collections
    assert max(segment[:, 0].max() for segment in lines.get_segments()) == 2.0


def test_given_axes_are_used():
    figure, ax = plt.subplots()
    assert plot_dendrogram(caterpillar(12), support=lambda mask: 0.1, ax=ax) is ax
    assert plt.get_fignums() == [figure.number]


def test_one_leaf_and_no_height():
    assert len(plot_dendrogram(Tree([], labels=["only"])).get_yticklabels()) == 1
    flat = Tree([[0, 1], [2, 3]], heights=[0.0, 0.0])
    assert plot_dendrogram(flat, support=lambda mask: 1.0).texts[0].get_text() == "1.00"


def test_dollars_are_no_mathematics():
    ax = plot_dendrogram(Tree([[0, 1]], labels=["$x$", "100 $ and 200 $ & <b>"]))
    ax.figure.canvas.draw()
    assert ax.get_yticklabels()[0].get_text() == r"\$x\$"


def test_wrong_number_of_colors():
    with pytest.raises(ValueError, match="1 colors for 2 leaves"):
        plot_dendrogram(Tree([[0, 1]]), colors=["red"])


def test_missing_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"hctrellis\[plot\]"):
        plot_dendrogram(Tree([[0, 1]]))


@pytest.mark.parametrize(
    ("probability", "digits", "text"),
    [(0.0, 2, "0.00"), (1.0, 3, "1.000"), (1e-9, 3, "<0.001"), (1 - 1e-9, 3, ">0.999")],
)
def test_probabilities_are_not_rounded_to_certainty(probability, digits, text):
    assert show_probability(probability, digits) == text
