"""Plots: what is drawn and where."""

from __future__ import annotations

import pickle
import subprocess
import sys
from functools import cache

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hctrellis as hct
from hctrellis import Tree
from hctrellis.datasets import burtin
from hctrellis.plotting import (
    plot_clustermap,
    plot_coclustering,
    plot_dendrogram,
    plot_log_weights,
    plot_samples,
    plot_top_trees,
    plot_trellis,
)
from hctrellis.support.printable import show_probability
from hctrellis.trellis.sparse import SparseTrellis

mpl.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

from matplotlib.cbook import is_math_text  # noqa: E402
from matplotlib.colors import to_hex, to_rgba  # noqa: E402
from matplotlib.text import Text  # noqa: E402

from hctrellis.plotting.hasse import _spread  # noqa: E402
from hctrellis.plotting.labels import shorten, shorten_all, text_width  # noqa: E402
from hctrellis.plotting.style import PALE, shade  # noqa: E402
from hctrellis.support.colors import BLUE, ORANGE  # noqa: E402

LABELS = ["a", "b", "c", "d"]
LINE = [[0.0], [1.0], [3.0], [7.0]]
ODD = [
    "a,b",
    'it\'s "quoted"',
    "<script>alert(1)</script>",
    "$x_1$ and $y^2$",
    "100 % & #1",
    "under_score_name",
    "Ωμέγα ñandú",
    "two\nlines",
    "a label of far more than sixty characters, which no reader needs in full, $1 or $2",
]
ENGINES = [None, "tight", "constrained", "afterwards"]


@pytest.fixture(autouse=True)
def _close_figures():
    plt.close("all")  # those of tests elsewhere
    yield
    plt.close("all")


@cache
def line_post(beta: float = 1.0):
    return hct.infer(hct.Linkage(LINE, beta=beta, labels=LABELS))


@cache
def random_post(n: int, beta: float = 2.0, labels: tuple[str, ...] | None = None):
    table = np.random.default_rng(n).normal(size=(n, 3))
    names = labels or [f"leaf {i}" for i in range(n)]
    return hct.infer(hct.Linkage(table, beta=beta, labels=names))


@cache
def sparse_post(n: int = 60):
    """A posterior over a sparse trellis, of labels that are long."""
    rng = np.random.default_rng(0)
    labels = [f"Sample number {i} of {n}" for i in range(n)]
    trees = [random_tree(n, rng).relabel(labels) for _ in range(20)]
    model = hct.Linkage(rng.normal(size=(n, 3)), labels=labels)
    return hct.infer(model, SparseTrellis.from_trees(trees, splits="all"))


@cache
def odd_post():
    return random_post(len(ODD), labels=tuple(ODD))


def random_tree(n: int, rng) -> Tree:
    children = []
    free = list(range(n))
    for k in range(n - 1):
        i, j = (free.pop(rng.integers(len(free))) for _ in range(2))
        children.append([i, j])
        free.append(n + k)
    return Tree(children)


def caterpillar(n: int) -> Tree:
    return Tree([[0, 1], *([n + k - 1, k + 1] for k in range(1, n - 1))])


def table_of(post) -> np.ndarray:
    return np.random.default_rng(5).normal(size=(post.n_leaves, 3))


PLOTS = {
    "dendrogram": lambda post, ax: plot_dendrogram(
        post.map_tree, post.support(post.map_tree), ax=ax
    ),
    "clustermap": lambda post, ax: plot_clustermap(
        table_of(post), post, ax, columns=["one", "two", "three"]
    ),
    "coclustering": lambda post, ax: plot_coclustering(post, ax=ax),
    "samples": lambda post, ax: plot_samples(post, 50, ax, rng=0),
    "log weights": lambda post, ax: plot_log_weights(post, 50, ax=ax, rng=0),
    "trellis": lambda post, ax: plot_trellis(post, ax),
    "top trees": lambda post, ax: plot_top_trees(post, 1, None if ax is None else [ax])[0],
}
with_labels = pytest.mark.parametrize("name", [name for name in PLOTS if name != "log weights"])
everything = pytest.mark.parametrize("name", PLOTS)


def rows_of(ax) -> list[str]:
    """The labels at the right, from the top."""
    texts = zip(ax.get_yticks(), ax.get_yticklabels(), strict=True)
    return [text.get_text() for _, text in sorted(texts, key=lambda pair: pair[0])]


def in_order(tree: Tree) -> list[str]:
    return [tree.labels[leaf] for leaf in tree.leaf_order()]


def outer(ax):
    """The rectangle of axes that the figure gives them."""
    return ax.get_position(original=True).transformed(ax.figure.transSubfigure)


# ---- all plots --------------------------------------------------------------------------------


@everything
def test_given_axes_are_used(name):
    figure, ax = plt.subplots()
    assert PLOTS[name](line_post(), ax) is ax
    assert plt.get_fignums() == [figure.number]
    assert ax.has_data()


@everything
def test_new_figures_hold_all_they_show(name):
    ax = PLOTS[name](random_post(9), None)
    ax.figure.canvas.draw()
    box = ax.get_tightbbox()
    frame = ax.figure.bbox
    assert box.x0 >= -1 and box.y0 >= -1 and box.x1 <= frame.x1 + 1 and box.y1 <= frame.y1 + 1


@with_labels
@pytest.mark.parametrize(
    ("make", "engine"),
    [*((odd_post, engine) for engine in ENGINES), (sparse_post, None)],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_labels_keep_off_the_neighbour(name, make, engine):
    layout = None if engine == "afterwards" else engine
    figure, (ax, neighbour) = plt.subplots(1, 2, figsize=(11, 9), layout=layout)
    neighbour.plot([0, 1])
    neighbour.set_ylabel("neighbour")
    PLOTS[name](make(), ax)
    if engine == "afterwards":
        figure.tight_layout()
    figure.canvas.draw()
    labels = [text.get_window_extent() for text in ax.get_yticklabels()]
    assert len(labels) == make().n_leaves
    heights = sorted((box.y0 + box.y1) / 2 for box in labels)
    assert min(np.diff(heights)) >= max(box.height for box in labels) - 2
    assert max(box.x1 for box in labels) <= outer(ax).x1 + 1
    assert max(box.x1 for box in labels) <= neighbour.get_tightbbox().x0
    assert ax.get_window_extent().width > 0.2 * outer(ax).width


@with_labels
def test_labels_are_no_mathematics(name):
    ax = PLOTS[name](odd_post(), None)
    ax.figure.canvas.draw()
    texts = [text for text in ax.figure.findobj(Text) if text.get_text()]
    assert not any(is_math_text(text.get_text()) for text in texts)
    shown = "\n".join(text.get_text().replace(r"\$", "$") for text in texts)
    for label in (*ODD[:7], r"two\nlines"):
        assert label in shown
    assert ODD[8] not in shown
    assert "a label of" in shown and "$2" in shown and "…" in shown


@with_labels
def test_text_too_small_to_read_is_left_out(name):
    _, ax = plt.subplots(figsize=(2, 1.2))
    PLOTS[name](sparse_post(), ax)
    assert ax.get_yticklabels() == []
    assert all(text.get_fontsize() >= 3 for text in ax.texts)


@everything
def test_one_leaf(name):
    post = hct.infer(hct.Linkage([[2.0, 1.0]], labels=["only"]))
    ax = PLOTS[name](post, None)
    ax.figure.canvas.draw()
    assert name == "log weights" or rows_of(ax) == ["only"]


@everything
def test_figures_can_be_pickled(name):
    ax = PLOTS[name](line_post(), None)
    figure = pickle.loads(pickle.dumps(ax.figure))
    figure.canvas.draw()
    assert rows_of(figure.axes[0]) == rows_of(ax)


@everything
def test_missing_matplotlib(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"hctrellis\[plot\]"):
        PLOTS[name](line_post(), None)


def test_matplotlib_is_imported_when_needed():
    code = "import sys, hctrellis.plotting; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    "plot", [plot_coclustering, plot_samples, plot_log_weights, plot_trellis, plot_top_trees]
)
def test_posteriors_are_expected(plot):
    with pytest.raises(TypeError, match=r"expected a Posterior.* Tree"):
        plot(Tree([[0, 1]]))


def test_impossible_posteriors_say_so():
    model = hct.FunctionPotential(
        lambda left, right, parent: -np.inf * parent[0], features=np.ones(3)
    )
    with pytest.raises(hct.NoTreeError, match="forbidden"):
        plot_trellis(hct.infer(model))


def test_sparse_posteriors_say_what_is_given():
    post = sparse_post()
    said = [
        plot_coclustering(post).child_axes[0].get_xlabel(),
        plot_trellis(post).get_legend().get_texts()[0].get_text(),
        plot_top_trees(post, 1)[0].get_title("left"),
        plot_log_weights(post, 10).get_xlabel(),
    ]
    assert all(text.endswith("given the trellis") for text in said)


@given(st.text("abWi…$ ", max_size=40), st.floats(0.01, 3.0))
@settings(max_examples=60, deadline=None)
def test_shortened_text_fits_and_keeps_both_ends(text, room):
    cut = shorten(text, 9.0, room)
    if text_width(text, 9.0) <= room:
        assert cut == text
        return
    assert cut == "…" or text_width(cut, 9.0) <= room
    ends = [(cut[:k], cut[k + 1 :]) for k, char in enumerate(cut) if char == "…"]
    assert any(text.startswith(head) and text.endswith(tail) for head, tail in ends)


def test_names_that_differ_in_the_middle_are_told_apart():
    names = [f"sample number {k:02d} from a long clinical name" for k in range(20)] + ["W1"]
    room = text_width("sample number …", 8.0)
    assert shorten(names[0], 8.0, room) == shorten(names[1], 8.0, room)
    cut = shorten_all(names, 8.0, room)
    assert len({*cut}) == len(names) and cut[-1] == "W1"
    assert all(text_width(text, 8.0) <= room for text in cut)
    assert all(f"{k:02d}" in text for k, text in enumerate(cut[:-1]))


# ---- dendrogram -------------------------------------------------------------------------------


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
    tree = random_tree(n, rng)
    if heights:
        tree = Tree(tree.children, heights=np.sort(rng.random(n - 1)))
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
    assert rows_of(ax) == ["a", "c", "b", "d"]
    assert [text.get_color() for text in ax.get_yticklabels()].count("red") == 1
    listed = plot_dendrogram(tree, colors=["red", "green", "blue", "black"])
    assert [text.get_color() for text in listed.get_yticklabels()][2] == "blue"


def test_reordered_trees_are_drawn_in_that_order():
    tree = Tree.from_newick("((a,c),(b,d));")
    assert rows_of(plot_dendrogram(tree.reorder(["d", "c", "b", "a"]))) == ["d", "b", "c", "a"]


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


def test_drawing_twice_takes_room_once():
    _, ax = plt.subplots()
    widths = []
    for _ in range(2):
        plot_dendrogram(caterpillar(12), ax=ax)
        ax.figure.canvas.draw()
        widths.append(ax.get_window_extent().width)
    assert widths[0] == pytest.approx(widths[1])


def test_no_height():
    flat = Tree([[0, 1], [2, 3]], heights=[0.0, 0.0])
    assert plot_dendrogram(flat, support=lambda mask: 1.0).texts[0].get_text() == "1.00"


def test_dollars_are_no_mathematics():
    ax = plot_dendrogram(Tree([[0, 1]], labels=["$x$", "100 $ and 200 $ & <b>"]))
    ax.figure.canvas.draw()
    assert ax.get_yticklabels()[0].get_text() == r"\$x\$"


def test_wrong_dendrograms():
    with pytest.raises(ValueError, match="1 colors for 2 leaves"):
        plot_dendrogram(Tree([[0, 1]]), colors=["red"])
    with pytest.raises(TypeError, match="expected a Posterior, a Tree or a ConsensusTree; got int"):
        plot_dendrogram(5)
    with pytest.raises(ValueError, match="boxes must be a probability"):
        plot_dendrogram(line_post(), boxes=95)
    with pytest.raises(ValueError, match="shape must be"):
        plot_dendrogram(line_post(), shape="round")


@pytest.mark.parametrize(
    ("probability", "digits", "text"),
    [(0.0, 2, "0.00"), (1.0, 3, "1.000"), (1e-9, 3, "<0.001"), (1 - 1e-9, 3, ">0.999")],
)
def test_probabilities_are_not_rounded_to_certainty(probability, digits, text):
    assert show_probability(probability, digits) == text


# ---- clustermap -------------------------------------------------------------------------------


def cells(ax) -> np.ma.MaskedArray:
    (image,) = ax.images
    return image.get_array()


def test_clustermap_follows_the_tree():
    data = burtin()
    tree = random_tree(16, np.random.default_rng(3)).relabel(data.labels)
    ax = plot_clustermap(data.values, tree, columns=data.columns, colors={data.labels[4]: "red"})
    assert rows_of(ax) == in_order(tree)
    np.testing.assert_array_equal(cells(ax), data.values[list(tree.leaf_order())])
    assert [text.get_text() for text in ax.get_xticklabels()] == list(data.columns)
    assert [t.get_text() for t in ax.get_yticklabels() if t.get_color() == "red"] == [
        data.labels[4]
    ]
    branches, scale = ax.child_axes
    assert len(branches.collections[0].get_segments()) == 3 * 15
    assert scale.get_xlim() == (0.001, 870)


def test_trees_stand_beside_their_rows_and_columns():
    tree = random_tree(7, np.random.default_rng(1))
    upper = random_tree(5, np.random.default_rng(2)).relabel("vwxyz")
    table = np.arange(35.0).reshape(7, 5)
    figure, (ax, other) = plt.subplots(1, 2)
    other.plot([1, 2])
    plot_clustermap(table, tree, ax, column_tree=upper)
    figure.canvas.draw()
    box = ax.get_window_extent()
    left, top, scale = (child.get_window_extent() for child in ax.child_axes)
    assert (left.y0, left.y1) == pytest.approx((box.y0, box.y1))
    assert (top.x0, top.x1) == pytest.approx((box.x0, box.x1))
    assert left.x1 < box.x0 and outer(ax).x0 <= left.x0 + 1
    assert box.y1 < top.y0 < top.y1 < scale.y0
    assert ax.get_ylim() == ax.child_axes[0].get_ylim()
    assert ax.get_xlim() == ax.child_axes[1].get_xlim()
    order = np.ix_(tree.leaf_order(), upper.leaf_order())
    np.testing.assert_array_equal(cells(ax), table[order])
    assert [text.get_text() for text in ax.get_xticklabels()] == in_order(upper)


def test_clustermap_of_a_posterior_shows_heights_and_support():
    post = line_post()
    ax = plot_clustermap(LINE, post)
    side = ax.child_axes[0]
    lines = side.collections[0]
    assert side.get_xlabel() == "distance at the merge"
    assert {text.get_text() for text in side.texts} == {
        show_probability(value) for value in post.support(post.map_tree).values() if value < 1
    }
    highest = max(segment[:, 0].max() for segment in lines.get_segments())
    assert highest == pytest.approx((7 + 6 + 4) / 3)  # of the merge of d with all others
    support = [post.cluster_probability(names) for names in (["a", "b"], ["a", "b", "c"])]
    shades = {to_hex(shade(value)) for value in (None, *support)}
    assert {to_hex(color) for color in lines.get_colors()} == shades


def test_data_frames_are_matched_by_name():
    pd = pytest.importorskip("pandas")
    values = np.arange(12.0).reshape(4, 3)
    frame = pd.DataFrame(values, index=list("dbca"), columns=list("xyz"))
    tree = Tree.from_newick("((a,c),(b,d));").reorder(LABELS)
    upper = Tree.from_newick("((x,z),y);").reorder(["z", "y", "x"])
    ax = plot_clustermap(frame, tree, column_tree=upper)
    np.testing.assert_array_equal(cells(ax), frame.loc[list("acbd"), list("zxy")])
    assert [text.get_text() for text in ax.get_xticklabels()] == ["z", "x", "y"]
    other = plot_clustermap(frame.reset_index(drop=True), tree)
    np.testing.assert_array_equal(cells(other), values[list(tree.leaf_order())])


@pytest.mark.parametrize(
    ("low", "high", "colors", "limits"),
    [
        (-2.0, 3.0, "RdBu_r", (-3.0, 3.0)),
        (0.0, 5.0, "Blues", (0.0, 5.0)),
        (-0.1, 5.0, "Blues", (-0.1, 5.0)),
        (-5.0, -1.0, "Blues", (-5.0, -1.0)),
    ],
)
def test_colours_of_the_table(low, high, colors, limits):
    ax = plot_clustermap([[low], [high]], Tree([[0, 1]]))
    (image,) = ax.images
    assert image.get_cmap().name == colors
    assert image.get_clim() == limits
    chosen = plot_clustermap([[low], [high]], Tree([[0, 1]]), cmap="cividis", title="$ per day")
    assert chosen.images[0].get_cmap().name == "cividis"
    assert chosen.child_axes[-1].get_xlabel() == r"\$ per day"


def test_missing_values_are_grey():
    ax = plot_clustermap([[1.0, np.nan], [2.0, 3.0]], Tree([[0, 1]]))
    (image,) = ax.images
    assert cells(ax).mask.tolist() == [[False, True], [False, False]]
    assert to_hex(image.get_cmap()(image.norm(cells(ax)))[0, 1]) == PALE


def test_constant_table():
    ax = plot_clustermap(np.ones((3, 2)), Tree([[0, 1], [2, 3]]))
    ax.figure.canvas.draw()
    assert cells(ax).min() == 1.0


def test_wrong_tables():
    tree = Tree([[0, 1], [2, 3]])
    with pytest.raises(ValueError, match="2 rows, but their tree has 3 leaves"):
        plot_clustermap(np.ones((2, 2)), tree)
    with pytest.raises(ValueError, match="2 columns, but their tree has 3 leaves"):
        plot_clustermap(np.ones((3, 2)), tree, column_tree=tree)
    with pytest.raises(ValueError, match="1 names for 2 columns"):
        plot_clustermap(np.ones((3, 2)), tree, columns=["x"])
    with pytest.raises(ValueError, match="no finite number"):
        plot_clustermap(np.full((3, 2), np.nan), tree)
    with pytest.raises(ValueError, match=r"rows and columns.*\(3,\)"):
        plot_clustermap([1.0, 2.0, 3.0], tree)
    with pytest.raises(TypeError, match="real numbers"):
        plot_clustermap([["x"], ["y"], ["z"]], tree)
    with pytest.raises(TypeError, match="a Posterior, a Tree or a ConsensusTree; got str"):
        plot_clustermap(np.ones((3, 2)), tree, column_tree="x")


# ---- co-clustering ----------------------------------------------------------------------------


def test_coclustering_is_that_of_the_posterior():
    post = random_post(7)
    ax = plot_coclustering(post, 3, colors={"leaf 2": "red"})
    order = list(post.map_tree.leaf_order())
    np.testing.assert_array_equal(cells(ax), post.coclustering(3).probability[np.ix_(order, order)])
    assert ax.images[0].get_clim() == (0.0, 1.0)
    columns = [text.get_text() for text in ax.get_xticklabels()]
    assert rows_of(ax) == columns == in_order(post.map_tree)
    for texts in (ax.get_xticklabels(), ax.get_yticklabels()):
        assert [t.get_text() for t in texts if t.get_color() == "red"] == ["leaf 2"]
    assert ax.child_axes[0].get_xlabel() == "P(common cluster of at most 3)"


def test_coclustering_in_the_order_of_another_tree():
    post = line_post()
    ax = plot_coclustering(post, tree=Tree.from_newick("((d,b),(a,c));"))
    assert rows_of(ax) == ["d", "b", "a", "c"]
    assert cells(ax)[1, 2] == post.coclustering(2).probability[0, 1]
    with pytest.raises(ValueError, match=r"labels of the tree differ.*'a'"):
        plot_coclustering(post, tree=Tree.from_newick("((x,b),(d,c));"))
    with pytest.raises(ValueError, match="size must be a whole number from 1 to 4; got 5"):
        plot_coclustering(post, 5)


# ---- samples ----------------------------------------------------------------------------------


def points(lines) -> set[tuple[float, float]]:
    return {tuple(point) for line in lines.get_segments() for point in line.round(9).tolist()}


def test_every_tree_has_its_lines():
    post = random_post(6)
    sample = post.sample(1, rng=0)
    ax = plot_samples(sample)
    lines, guide = ax.collections
    assert len(lines.get_segments()) == len(guide.get_segments()) == 2 * 6 - 2
    assert points(lines) == points(guide)
    assert rows_of(ax) == in_order(sample[0])
    assert {to_hex(color) for color in guide.get_colors()} == {BLUE}


def test_clusters_stand_at_the_mean_of_their_rows():
    post = hct.infer(hct.BetaSplitting(5))  # a model without heights
    sample = post.sample(300, rng=1)
    ax = plot_samples(post, 300, rng=1)
    rows = dict(zip(post.labels, ax.get_yticks(), strict=True))
    wanted = {
        (len(cluster) - 1, round(float(np.mean([rows[label] for label in cluster])), 9))
        for tree in sample
        for cluster in tree.cluster_labels(leaves=True)
    }
    assert points(ax.collections[0]) == wanted
    assert ax.get_xlabel() == ""


def test_opacity_is_frequency():
    post = line_post()
    sample = post.sample(400, rng=2)
    ax = plot_samples(sample)
    lines, _ = ax.collections
    together = np.mean([["a", "b"] in tree for tree in sample])
    above_a = {
        tuple(line.round(9)[1]): color[3]
        for line, color in zip(lines.get_segments(), lines.get_colors(), strict=True)
        if line[0].tolist() == [0.0, 0.0]
    }
    assert above_a[1.0, 0.5] == pytest.approx(together)  # a and b merge at their distance, 1
    assert min(above_a.values()) > 0 and max(above_a.values()) <= 1
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "400 sampled trees",
        "sampled tree of largest weight",
    ]


def test_children_are_never_higher_than_parents():
    lines, _ = plot_samples(random_post(8, beta=0.1), 200, rng=0).collections
    assert all(child[0] <= parent[0] for child, parent in lines.get_segments())


def test_samples_in_the_order_of_another_tree():
    post = line_post()
    tree = Tree.from_newick("((d,b),(c,a));")
    ax = plot_samples(post, 20, tree=tree, colors={"d": "red"}, rng=0)
    assert rows_of(ax) == ["d", "b", "c", "a"]
    assert [t.get_text() for t in ax.get_yticklabels() if t.get_color() == "red"] == ["d"]
    assert rows_of(plot_samples(post, 20, rng=0)) == in_order(post.map_tree)


def test_nothing_to_draw():
    post = line_post()
    for plot in (plot_samples, plot_log_weights):
        with pytest.raises(ValueError, match="no trees to draw; sample at least one"):
            plot(post, 0)
        with pytest.raises(ValueError, match="size must be a whole number"):
            plot(post, -1)


@pytest.mark.parametrize("beta", [0.0, 3.0])
def test_clusters_stand_at_the_heights_of_their_merges(beta):
    chain = Tree.from_newick("(((a,b),c),d);")
    ax = plot_samples(line_post(beta).given(contains=[chain]), 10, rng=0)
    lines, _ = ax.collections
    assert sorted({x for x, _ in points(lines)}) == pytest.approx([0, 1, 2.5, 17 / 3])
    assert ax.get_xlabel() == "distance at the merge"


# ---- log weights ------------------------------------------------------------------------------


def test_log_weights_and_their_marks():
    post = random_post(6)
    sample = post.sample(500, rng=0)
    ax = plot_log_weights(post, sample, truth=sample[3])
    assert sum(bar.get_height() for bar in ax.patches) == 500
    edges = [bar.get_x() for bar in ax.patches]
    assert min(edges) == pytest.approx(sample.log_weights.min())
    marks = [line.get_xdata()[0] for line in ax.lines]
    assert marks == [post.map_log_weight, post.potential.log_weight(sample[3]), marks[2]]
    assert marks[2] == pytest.approx(post.expected_log_weight)
    assert len({line.get_linestyle() for line in ax.lines}) == 3
    names = [text.get_text().split()[0] for text in ax.get_legend().get_texts()]
    assert names == ["MAP", "truth", "mean"]
    assert ax.get_ylabel() == "number of 500 sampled trees"


def test_truth_may_be_a_number():
    ax = plot_log_weights(line_post(), 100, truth=-25.0, rng=0)
    assert ax.lines[1].get_xdata()[0] == -25.0
    assert ax.get_xlim()[0] < -25.0
    assert len(plot_log_weights(line_post(), 100, rng=0).lines) == 2


def test_equal_log_weights_share_a_bar():
    post = hct.infer(hct.Linkage([[0.0], [1000.0]]))
    (bar,) = plot_log_weights(post, 30, rng=0).patches
    assert bar.get_height() == 30
    assert bar.get_x() < -1000.0 < bar.get_x() + bar.get_width()


def test_impossible_truth():
    post = line_post().given(contains=[["a", "b"]])
    with pytest.raises(ValueError, match="log weight of the truth is -inf"):
        plot_log_weights(post, truth=Tree.from_newick("((a,c),(b,d));"))


# ---- trellis ----------------------------------------------------------------------------------


def test_whole_trellis():
    post = line_post(beta=3.0)
    ax = plot_trellis(post)
    names = [text.get_text() for text in ax.texts]
    assert len(names) == 2**4 - 1 - 4
    assert {"{a,b,c,d}", "{a,b}", "{b,d}", "{b,c,d}"} < set(names)
    (lines,) = ax.collections
    assert len(lines.get_segments()) == 2 * 25
    drawn_widths = np.array(lines.get_linewidths())[::2] / 6.0
    assert drawn_widths.sum() == pytest.approx(3, abs=25 * 0.25 / 6)  # a tree has three splits
    blue = [to_rgba(color) == to_rgba(BLUE) for color in lines.get_colors()]
    assert sum(blue) == 2 * 3
    assert [text.get_text() for text in ax.get_xticklabels()] == ["4", "3", "2", "1"]


def test_width_is_the_probability_of_the_split():
    post = line_post()
    ax = plot_trellis(post)
    place = {text.get_text(): text.get_position() for text in ax.texts}
    place["c"] = (3.0, dict(zip(LABELS, ax.get_yticks(), strict=True))["c"])
    (lines,) = ax.collections
    width = {
        (tuple(start), tuple(end)): width
        for (start, end), width in zip(lines.get_segments(), lines.get_linewidths(), strict=True)
    }
    expected = 6 * post.split_probability(["a", "b"], ["c"])
    assert width[place["{a,b,c}"], place["{a,b}"]] == pytest.approx(expected)
    assert width[place["{a,b,c}"], place["c"]] == pytest.approx(expected)


def test_shade_is_the_probability_of_the_cluster():
    post = line_post()
    grey = {text.get_text(): float(text.get_color()) for text in plot_trellis(post).texts}
    ranked = sorted(grey, key=grey.get)
    probability = [post.cluster_probability(name.strip("{}").split(",")) for name in ranked]
    assert probability == sorted(probability, reverse=True)
    assert probability[0] == 1.0


def test_pruned_trellis():
    post = random_post(9)
    wanted = set(post.cluster_probabilities(0.2).masks) | post.map_tree.clusters()
    ax = plot_trellis(post, min_probability=0.2)
    assert len(ax.texts) == len(wanted) < 2**9 - 10
    (lines,) = ax.collections
    blue = [to_rgba(color) == to_rgba(BLUE) for color in lines.get_colors()]
    assert sum(blue) == 2 * 8
    few = plot_trellis(post, max_clusters=1)
    assert len(few.texts) == len({post.cluster_probabilities().masks[0], *post.map_tree.clusters()})
    assert len(plot_trellis(post).texts) <= 2 * 9 + 1 + 7


def test_small_trellises_are_pruned_when_asked():
    post = line_post()
    assert len(plot_trellis(post, max_clusters=2).texts) < len(plot_trellis(post).texts)


def test_leaves_are_numbered_where_labels_are_long():
    post = random_post(5, labels=tuple(f"a rather long label {i}" for i in range(5)))
    ax = plot_trellis(post)
    assert rows_of(ax) == [f"{k}  {name}" for k, name in enumerate(in_order(post.map_tree), 1)]
    names = {text.get_text() for text in ax.texts}
    assert {"{1–5}", "{1–4}", "{1,2}", "{1,2,4}"} < names


def test_dots_where_there_is_no_room_for_names():
    _, ax = plt.subplots(figsize=(2, 2))
    plot_trellis(random_post(9), ax)
    assert len(ax.texts) == 0
    dots = [line for line in ax.lines if line.get_marker() == "o"]
    assert len(dots) == len(plot_trellis(random_post(9)).texts)


@pytest.mark.parametrize("n", [3, 6, 9])
def test_boxes_do_not_overlap(n):
    ax = plot_trellis(random_post(n))
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.texts]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


@given(st.lists(st.floats(0, 9), min_size=1, max_size=25), st.integers(1, 10))
@settings(max_examples=100, deadline=None)
def test_spread_places(wanted, n_rows):
    wanted = np.sort(np.minimum(wanted, n_rows - 1))
    step = min(1.0, n_rows / len(wanted))
    places = _spread(wanted, n_rows)
    assert (np.diff(places) >= step - 1e-9).all()
    assert places[0] >= -0.5 and places[-1] <= n_rows - 0.5
    if (np.diff(wanted) >= 1).all():
        np.testing.assert_allclose(places, wanted, atol=1e-9)


def test_wrong_trellises():
    with pytest.raises(ValueError, match="max_clusters must be a whole number, at least 1; got 0"):
        plot_trellis(line_post(), max_clusters=0)
    with pytest.raises(ValueError, match="min_probability must be from 0 to 1; got 2"):
        plot_trellis(line_post(), min_probability=2)


# ---- top trees --------------------------------------------------------------------------------


def test_top_trees():
    post = random_post(6)
    ranked = post.top_trees(5)
    axes = plot_top_trees(post, 5)
    assert len(axes) == len(axes[0].figure.axes) == 5
    titles = [ax.get_title("left") for ax in axes]
    assert titles == [
        f"{k}: probability {show_probability(p, 3)}"
        for k, p in enumerate(ranked.probabilities.tolist(), 1)
    ]
    assert len({ax.get_xlim() for ax in axes}) == 1
    for ax, tree in zip(axes, ranked, strict=True):
        shown = sorted(text.get_text() for text in ax.texts)
        support = post.support(tree)
        assert shown == sorted(show_probability(p) for c, p in support.items() if len(c) < 6)
        (lines,) = ax.collections
        orange = [to_hex(color) == ORANGE for color in lines.get_colors()]
        new = len(tree.clusters() - ranked[0].clusters())
        assert sum(orange) == 2 * new
        assert orange == sorted(orange)  # on top of the others


def test_top_trees_keep_the_order_of_the_first():
    post = line_post()
    first, *others = plot_top_trees(post, 15)
    assert len(others) == 14
    names = rows_of(first)
    for ax, tree in zip(others, post.top_trees(15)[1:], strict=True):
        assert rows_of(ax) == in_order(tree.reorder(names))


def test_top_trees_in_given_axes():
    figure, grid = plt.subplots(2, 2)
    drawn_axes = plot_top_trees(line_post(), 3, grid)
    assert drawn_axes == list(grid.ravel()[:3])
    assert not grid[1, 1].has_data()
    assert plt.get_fignums() == [figure.number]
    with pytest.raises(ValueError, match="3 trees but only 2 axes"):
        plot_top_trees(line_post(), 3, grid[0])
    with pytest.raises(ValueError, match="k must be a whole number, at least 1; got 0"):
        plot_top_trees(line_post(), 0)


def test_fewer_trees_than_asked_for():
    assert len(plot_top_trees(hct.infer(hct.Linkage([[0.0], [1.0], [3.0]])), 10)) == 3


def test_small_probabilities_are_told_apart():
    post = random_post(9, beta=0.0)
    title = plot_top_trees(post, 1)[0].get_title("left")
    assert float(title.split()[-1]) == pytest.approx(np.exp(post.map_log_probability), rel=0.1)
