"""Figures for papers: sizes, classes, boxes, what is written at the joins, and files."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from functools import cache

import numpy as np
import pytest

import hctrellis as hct
from hctrellis import Tree
from hctrellis.posterior.summary import ConsensusTree
from hctrellis.support.colors import BLUE, MISSING_COLOR, PALETTE
from hctrellis.support.printable import show_probability

mpl = pytest.importorskip("matplotlib")
mpl.use("Agg")

from matplotlib import pyplot as plt  # noqa: E402
from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: E402
from matplotlib.colors import to_hex  # noqa: E402
from matplotlib.legend import Legend  # noqa: E402
from matplotlib.patches import Circle  # noqa: E402

from hctrellis.plotting import (  # noqa: E402
    figure_axes,
    figure_size,
    fitting_shape,
    plot_clustermap,
    plot_dendrogram,
    plot_tanglegram,
    plot_trellis,
    save_figure,
)
from hctrellis.plotting.classes import as_classes  # noqa: E402
from hctrellis.plotting.style import COLUMN, MOST_HEIGHT, TWO_COLUMNS  # noqa: E402

SIZES = [5, 16, 30, 60, 150]


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@cache
def post(n: int = 7, beta: float = 2.0):
    table = np.random.default_rng(n).normal(size=(n, 3))
    return hct.infer(hct.Linkage(table, beta=beta, labels=[f"W{k}" for k in range(n)]))


@cache
def tree(n: int, long: bool = False) -> Tree:
    from scipy.cluster.hierarchy import linkage

    name = "Streptococcus hemolyticus strain " if long else "W"
    table = np.random.default_rng(n).normal(size=(n, 3))
    return Tree.from_linkage(linkage(table, "average"), labels=[f"{name}{k}" for k in range(n)])


# ---- sizes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("n", SIZES)
def test_a_figure_fits_on_a_page_of_a_journal(n, long):
    drawn = tree(n, long)
    width, height = figure_size(drawn, 5)
    assert width in (COLUMN, TWO_COLUMNS)
    assert height <= MOST_HEIGHT + 0.5
    shape = fitting_shape(drawn)
    classes = [["A", "B", None][k % 3] for k in range(n)]
    ax = figure_axes(drawn, classes, shape)
    plot_dendrogram(drawn, lambda mask: 0.87, classes, ax, shape=shape, boxes=0.5)
    FigureCanvasAgg(ax.figure).draw()
    frame = ax.figure.bbox
    texts = [*ax.get_yticklabels(), *ax.texts, *ax.get_legend().get_texts()]
    shown = [text for text in texts if text.get_text()]
    assert len(shown) >= n
    for text in shown:
        box = text.get_window_extent()
        assert box.x0 >= -2 and box.x1 <= frame.x1 + 2 and box.y0 >= -2 and box.y1 <= frame.y1 + 2
    names = [text for text in shown if text.get_text().startswith(("W", "S"))]
    assert min(text.get_fontsize() for text in names) >= 5.5
    assert max(text.get_fontsize() for text in names) <= 8.0


# ---- what is drawn ----------------------------------------------------------------------------


def written(ax) -> list[str]:
    return [text.get_text() for text in ax.texts]


def test_a_posterior_is_drawn_with_its_probabilities_and_heights():
    found = post()
    ax = plot_dendrogram(found)
    inner = found.map_tree.masks[7:-1]
    assert written(ax) == [show_probability(found.cluster_probability(mask)) for mask in inner]
    assert ax.get_xlabel() == "distance at the merge"
    assert ax.get_xlim()[0] == pytest.approx(1.03 * found.map_tree.heights.max())


def test_a_consensus_is_drawn_with_all_its_parts():
    support = {0b11111: 1.0, 0b00111: 0.75}
    ax = plot_dendrogram(ConsensusTree(tuple("abcde"), support))
    assert written(ax) == ["0.75"]
    (lines,) = ax.collections
    assert len(lines.get_segments()) == 2 + 3 + 3  # two joins, three branches each
    binary = post().consensus_tree(0.5)
    assert len(written(plot_dendrogram(binary))) == len(binary.support) - 1


def test_sampled_probabilities_have_errors():
    model = hct.Linkage(np.random.default_rng(0).normal(size=(6, 2)), beta=1.0)
    sampled = hct.sample_posterior(model, 0.05, None, max_moves=3000, rng=0)
    ax = plot_dendrogram(sampled)
    assert all("±" in text for text in written(ax))
    assert "standard error" in ax.get_xlabel()


def test_au_and_bp_stand_beside():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(5, 20)) + np.array([[0], [0], [3], [3], [9]])
    found = hct.cluster(table, bootstrap=20, labels=[*"abcde"])
    ax = found.plot()
    rows = {row.cluster: row for row in found.bootstrap}
    inner = found.posterior.map_tree
    for text, mask in zip(written(ax), inner.masks[5:-1], strict=True):
        row = rows[frozenset("abcde"[k] for k in range(5) if mask >> k & 1)]
        p = found.posterior.cluster_probability(mask)
        assert text == "/".join(map(show_probability, (p, row.au, row.bp)))
    assert "probability / AU / BP" in ax.get_xlabel()


def test_boxes_hold_the_largest_supported_clusters():
    drawn = Tree.from_newick("(((a,b),c),((d,e),f));")
    support = {
        frozenset("ab"): 0.99,
        frozenset("abc"): 0.96,
        frozenset("de"): 0.97,
        frozenset("def"): 0.4,
    }
    ax = plot_dendrogram(drawn, support, boxes=0.95)
    edges = [patch for patch in ax.patches if not patch.get_fill()]
    rows = sorted((patch.get_y() + 0.45, patch.get_height() - 0.9) for patch in edges)
    assert rows == [pytest.approx((0, 2)), pytest.approx((3, 1))]
    assert {to_hex(patch.get_edgecolor()) for patch in edges} == {BLUE}
    assert not plot_dendrogram(drawn, support, boxes=1.0).patches


# ---- classes ----------------------------------------------------------------------------------


def test_classes_have_colours_and_a_legend():
    classes = {"W0": "fur", "W1": "scales", "W2": "fur", "W3": float("nan")}
    ax = plot_dendrogram(post(), colors=classes)
    marks = [c for c in ax.collections if len(c.get_offsets()) == 7 and len(c.get_sizes())]
    (strip,) = marks
    colors = [to_hex(color) for color in strip.get_facecolors()]
    assert colors == [PALETTE[0], PALETTE[1], PALETTE[0], *[MISSING_COLOR] * 4]
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["fur", "scales", "missing"]


@pytest.mark.parametrize(
    ("given", "is_key"),
    [
        (["red", "#00ff00", (0, 0, 1)], False),
        (["C1", "C2", "C1"], True),
        (["r", "g", "b"], True),
        ([1, 2, 1], True),
        (["0.5", "0.7", "0.5"], True),
        (["red", "tall", "red"], True),
    ],
)
def test_classes_are_told_from_colours(given, is_key):
    assert bool(as_classes("abc", given).key) is is_key


def test_many_classes_share_a_colour():
    found = as_classes([str(k) for k in range(30)], [f"class {k % 15}" for k in range(30)])
    assert len(found.key) == len(PALETTE) and "other" in found.key
    assert len(set(found.colors)) == len(PALETTE)


def test_columns_of_pandas():
    pd = pytest.importorskip("pandas")
    by_name = pd.Series(["x", "y", None], index=["c", "a", "b"])
    assert as_classes("abc", by_name).colors == [PALETTE[1], MISSING_COLOR, PALETTE[0]]
    in_order = pd.Series(["x", "y", "x"])
    assert as_classes("abc", in_order).colors == [PALETTE[0], PALETTE[1], PALETTE[0]]


# ---- circles and tanglegrams ------------------------------------------------------------------


def test_dots_of_a_circle_are_supported_clusters():
    found = post()
    ax = plot_dendrogram(found, shape="circular")
    dots = [line for line in ax.lines if line.get_marker() == "o"]
    inner = found.map_tree.masks[7:-1]
    assert len(dots) == sum(found.cluster_probability(mask) >= 0.5 for mask in inner)
    names = [t.get_text() for t in ax.texts if t.get_text().startswith("W")]
    assert sorted(names) == sorted(found.labels)


def test_rings_of_a_circle_are_a_scale_of_heights():
    found = post()
    ax = plot_dendrogram(found, shape="circular")
    rings = [patch.radius for patch in ax.patches if isinstance(patch, Circle)]
    values = [float(t.get_text()) for t in ax.texts if not t.get_text().startswith("W")]
    assert len(rings) == len(values) >= 3
    by_radius = [np.array(side)[np.argsort(rings)] for side in (rings, values)]
    dots = [line for line in ax.lines if line.get_marker() == "o"]
    seen = [np.interp(np.hypot(*line.get_xydata()[0]), *by_radius) for line in dots]
    heights = [
        float(height)
        for mask, height in zip(found.map_tree.masks[7:-1], found.map_tree.heights, strict=False)
        if found.cluster_probability(mask) >= 0.5
    ]
    assert sorted(seen) == pytest.approx(sorted(heights))
    (title,) = [t for t in legend_texts(ax) if t.startswith("rings")]
    assert title == f"rings: {found.potential.height_name}"
    assert not plot_dendrogram(Tree.from_newick("((a,b),c);"), shape="circular").patches


def legend_texts(ax):
    return [
        t.get_text()
        for child in ax.get_children()
        if isinstance(child, Legend)
        for t in child.get_texts()
    ]


def test_classes_of_a_clustermap_have_a_legend():
    found = post()
    ax = plot_clustermap(np.ones((7, 2)), found, colors=["x", "y", None, "x", "y", "x", "x"])
    (child,) = [child for child in ax.child_axes if child.get_legend()]
    legend = child.get_legend()
    assert [t.get_text() for t in legend.get_texts()] == ["x", "y", "missing"]
    colors = [to_hex(line.get_color()) for line in legend.get_lines()]
    assert colors == [PALETTE[0], PALETTE[1], MISSING_COLOR]
    ax.figure.draw_without_rendering()
    others = [other.get_window_extent() for other in (ax, *ax.child_axes) if other is not child]
    assert not any(legend.get_window_extent().overlaps(box) for box in others)
    assert ax.figure.bbox.fully_containsy(legend.get_window_extent().y1)


@pytest.mark.parametrize("n", [5, 9])
def test_a_trellis_is_no_wider_than_a_page(n):
    found = post(n)
    labels = [f"a long name of the item with the number {k}" for k in range(n)]
    named = hct.infer(hct.Linkage(np.random.default_rng(n).normal(size=(n, 3)), labels=labels))
    for drawn in (found, named):
        assert plot_trellis(drawn).figure.get_figwidth() <= TWO_COLUMNS


def test_lines_of_a_tanglegram_join_equal_leaves():
    one, other = Tree.from_newick("((a,b),(c,d));"), Tree.from_newick("((a,c),(b,d));")
    ax = plot_tanglegram(one, other)
    names = [text for text in ax.texts if text.get_text() in "abcd"]
    rows = [{t.get_text(): t.get_position()[1] for t in names[k : k + 4]} for k in (0, 4)]
    ends = sorted(tuple(line.get_ydata()) for line in ax.lines)
    assert ends == sorted((rows[0][name], rows[1][name]) for name in "abcd")
    same = plot_tanglegram(one, one.reorder([*"dcba"]))
    assert all(line.get_ydata()[0] == line.get_ydata()[1] for line in same.lines)


def test_tanglegrams_show_probabilities_of_both_sides():
    ax = plot_tanglegram(post(beta=2.0), post(beta=0.5), titles=("sharp", "blunt"))
    texts = [text.get_text() for text in ax.texts]
    assert {"sharp", "blunt"} <= set(texts)
    for found in (post(beta=2.0), post(beta=0.5)):
        for mask in found.map_tree.masks[7:-1]:
            assert show_probability(found.cluster_probability(mask)) in texts


# ---- files ------------------------------------------------------------------------------------


def test_text_in_svg_can_be_edited(tmp_path):
    ax = figure_axes(post().map_tree)
    plot_dendrogram(post(), ax=ax)
    path = tmp_path / "tree.svg"
    save_figure(ax, path, "svg")
    texts = {"".join(e.itertext()) for e in ET.parse(path).iter("{http://www.w3.org/2000/svg}text")}
    assert {*post().labels} <= texts
    first = path.read_bytes()
    again = figure_axes(post().map_tree)
    plot_dendrogram(post(), ax=again)
    save_figure(again, path, "svg")
    assert path.read_bytes() == first


@pytest.mark.parametrize(("ending", "magic"), [("pdf", b"%PDF"), ("png", b"\x89PNG")])
def test_other_formats(ending, magic, tmp_path):
    ax = figure_axes(post().map_tree)
    plot_dendrogram(post(), ax=ax)
    save_figure(ax, tmp_path / "f", ending)
    assert (tmp_path / "f").read_bytes().startswith(magic)
    assert plt.get_fignums() == []  # no window was opened
