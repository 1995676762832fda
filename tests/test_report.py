"""The report: what it says, that all of it is escaped, and that it works in a real browser."""

from __future__ import annotations

import base64
import csv
import html
import json
import math
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pytest

import hctrellis as hct
from browser import browser
from hctrellis.build.grow import Growth, Step
from hctrellis.clades.distribution import CladeDistribution
from hctrellis.cli import main
from hctrellis.posterior.optimality import judge
from hctrellis.report import report_html, words, write_report
from hctrellis.report.findings import LISTED, RIVAL, below_root, collect
from hctrellis.report.notes import meaning
from hctrellis.tables.speech import on_command_line
from hctrellis.trellis.sparse import SparseTrellis
from hctrellis.trust.beta import choose_beta, sensitivity
from hctrellis.trust.bootstrap import bootstrap_support

pytest.importorskip("plotly")

SCRIPT = "<script>window.hacked = 1</script>"
IMAGE = "<img src=x onerror='window.hacked = 1'>"
ATTRIBUTE = '"><img src=x onerror="window.hacked = 1">'
ENDED = "</script></title></style><svg onload='window.hacked = 1'>"
NASTY = (
    SCRIPT,
    IMAGE,
    'a, "b"',
    "$x$ & </script>",
    "  two\u2028lines",
    "é" * 80,
    ATTRIBUTE,
    ENDED,
)
VOID = {"meta", "link", "br", "img", "hr", "input"}
TABLE = np.random.default_rng(3).normal(size=(8, 12)) + 1.5 * np.repeat([[0], [1], [3], [6]], 2, 0)
LABELS = tuple("abcdefgh")


def linkage(beta: float = 1.0, labels=LABELS) -> hct.Linkage:
    return hct.Linkage(TABLE[: len(labels)], beta=beta, labels=labels)


@pytest.fixture(scope="module")
def post() -> hct.Posterior:
    return hct.infer(linkage())


def sparse(converged: bool) -> hct.Posterior:
    model = linkage()
    trees = list(hct.infer(model).sample(50, rng=0))
    trellis = SparseTrellis.from_trees(trees, "all")
    growth = Growth(trellis, (Step(1.0, trellis.n_clusters, 1, -1.0, -2.0),), converged)
    return hct.infer(model, growth)


def clades() -> hct.Posterior:
    trees = ["((a,b),(c,d));", "((a,b),(c,d));", "(((a,b),c),d);"]
    model = CladeDistribution([hct.Tree.from_newick(text) for text in trees])
    return hct.infer(model, model.trellis)


class Reader(HTMLParser):
    """Fails where elements are not closed in order; keeps text, tags and the embedded numbers."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.data = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.inside = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("script", "style"):
            self.texts.append(data)
        elif self.inside.get("id") == "data":
            self.data += data

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    @property
    def numbers(self) -> dict:
        return json.loads(self.data)


# ---- what it says -----------------------------------------------------------------------------


def test_summary_in_words(post):
    text = Reader(report_html(post, title="Eight things")).text
    best = post.cluster_probabilities()[0]
    names = ", ".join(sorted(best.cluster))
    assert text.startswith("Eight things Eight things All 135,135 binary trees over the 8 items")
    assert f"{{{names}}} has posterior probability {words.spoken(best.probability)}" in text
    assert f"log probability {post.map_log_probability:.4f}" in text
    assert "arXiv:2002.11661" in text


def test_numbers_are_those_of_the_posterior(post):
    data = Reader(report_html(post, n_trees=5, n_samples=7)).numbers
    assert data["labels"] == list(LABELS)
    for cluster in data["clusters"]:
        assert cluster["p"] == post.cluster_probability(cluster["m"])
    best = data["trees"][0]
    inner = [data["clusters"][k]["m"] for k in best["nodes"] if k >= 0]
    assert {sum(1 << i for i in m) for m in inner} == set(below_root(post.map_tree))
    assert best["nodes"].count(-1) == 1
    assert sorted(best["order"]) == list(range(8))
    assert len(data["trees"]) == 5
    assert len(data["samples"]) == 7
    for pairs in data["pairs"]:
        expected = post.coclustering(pairs["size"]).probability
        np.testing.assert_allclose(np.array(pairs["p"]) / 1000, expected, atol=6e-4)


def test_rivals_are_the_most_probable_that_cross(post):
    found = collect(post)
    likely = post.cluster_probabilities(RIVAL)
    for mask, rivals in found.rivals.items():
        crossing = [
            other for other in likely.masks if other & mask and other & ~mask and mask & ~other
        ]
        assert [rival.mask for rival in rivals] == crossing[:5]
        exclusive = post.cluster_probability(mask) + sum(r.probability for r in rivals[:1])
        assert exclusive <= 1 + 1e-9


def test_listed_clusters(post):
    found = collect(post)
    masks = [cluster.mask for cluster in found.clusters]
    assert set(masks) == {*post.cluster_probabilities(LISTED).masks, *below_root(post.map_tree)}
    probabilities = [cluster.probability for cluster in found.clusters]
    assert probabilities == sorted(probabilities, reverse=True)


def test_what_was_asked_comes_first(post):
    text = report_html(
        post, watch=[["a", "h"]], question="Do a and h belong together?", answer=["No.", "Why?"]
    )
    reader = Reader(text)
    assert "Do a and h belong together? No. Why?" in reader.text
    rows = re.findall(r'<tr data-cluster="(\d+)"( class="watched")?>', text)
    assert rows[0][1]
    assert reader.numbers["clusters"][int(rows[0][0])]["m"] == [0, 7]
    assert reader.numbers["strong"] == [0, 7]


def test_table_groups_settings_and_sources(post):
    reader = Reader(
        report_html(
            post,
            table=TABLE,
            columns=[f"gene {k}" for k in range(12)],
            groups={"a": "red ones", "b": "red ones"},
            settings=[("Made", "by hand")],
            sources=["A. Nonymous, 1999"],
        )
    )
    for text in ("gene 7", f"{TABLE[2, 3]:.4g}", "red ones", "Made by hand", "A. Nonymous, 1999"):
        assert text in reader.text
    assert reader.numbers["groups"] == [0, 0, *[1] * 6]


def test_beta_and_bootstrap():
    def make(table, beta):
        return hct.Linkage(table, beta=beta, labels=LABELS if len(table) == 8 else None)

    choice = choose_beta(make, TABLE, n_resamples=20, rng=0)
    post = hct.infer(make(TABLE, choice.beta))
    support = bootstrap_support(TABLE, n_resamples=20, tree=post.map_tree, rng=0)
    rows = sensitivity(make, TABLE, choice.beta)
    reader = Reader(report_html(post, beta=choice, sensitivity=rows, bootstrap=support))
    assert choice.sentence in reader.text
    assert "AU BP cluster" in reader.text
    for row in rows:
        assert f"beta = {row.beta:.3g}" in reader.text
    tried, calibration = reader.numbers["curves"].values()
    assert tried["mark"] == choice.beta
    assert tried["lines"][0]["x"] == choice.curve.betas.tolist()
    bins = [each for each in choice.calibration if each.n_clusters > 0]
    assert calibration["lines"][0]["y"] == [each.frequency for each in bins]


@pytest.mark.parametrize("converged", [False, True])
def test_a_sparse_trellis_is_said_to_be_one(converged):
    reader = Reader(report_html(sparse(converged)))
    text = "log Z is a lower bound, and every probability below is conditional on these trees"
    assert text in reader.text
    assert "log Z at least" in reader.text
    assert ("ended before it had settled" in reader.text) is not converged


def test_trees_as_data():
    text = Reader(report_html(clades())).text
    assert "Trees read: 3, over 4 items." in text
    assert "There is no beta." in text
    assert "of the 2 clusters of the one shown, 2 are in fewer than 5 of the 3 trees" in text
    assert "If the 3 trees are independent draws" in text
    assert "lower bound" not in text


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (hct.Linkage([[0.0], [1.0], [3.0]]), "sum of its merge heights"),
        (hct.Dasgupta(np.ones((3, 3))), "Dasgupta's cost"),
        (hct.CorrelationClustering(-np.ones((3, 3))), "negative affinity"),
        (hct.BetaSplitting(3), "product of the weights"),
    ],
)
def test_what_the_weights_are(model, says):
    assert says in meaning(hct.infer(model)).texts[0]


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_leaves(n):
    post = hct.infer(hct.Linkage(np.arange(n)[:, None], labels=LABELS[:n]))
    assert "Only one tree is possible" in Reader(report_html(post)).text or n == 3


# ---- escaping and files -----------------------------------------------------------------------


def nasty_html() -> str:
    post = hct.infer(linkage(labels=NASTY))
    return report_html(
        post,
        title=SCRIPT,
        question=IMAGE,
        answer=[SCRIPT],
        groups=NASTY,
        table=TABLE,
        columns=[SCRIPT] * 12,
        settings=[(SCRIPT, IMAGE)],
        sources=[IMAGE],
        watch=[[SCRIPT, IMAGE]],
    )


def test_everything_is_escaped():
    html = nasty_html()
    reader = Reader(html)
    assert reader.tags.count("script") == 3
    assert "img" not in reader.tags
    assert reader.numbers["labels"] == list(NASTY)
    assert html.count("window.hacked") > 20


def test_no_network():
    html = nasty_html()
    assert "default-src 'none'" in html
    head = html[: html.index('<script type="application/json"')]
    assert not re.search(r"""(src|href)\s*=\s*["'](https?:)?//""", head)
    assert "@import" not in head
    assert "url(" not in head


def test_the_same_each_time(post):
    assert report_html(post) == report_html(post)


def test_write_report_replaces_whole_files(post, tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old", encoding="utf-8")
    with pytest.raises(ValueError, match="8 rows"):
        write_report(post, path, table=TABLE[:3])
    assert path.read_text(encoding="utf-8") == "old"
    assert write_report(post, str(path)) == path
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table": TABLE[:3]}, r"table must have 8 rows.*\(3, 12\)"),
        ({"table": TABLE, "columns": ["x"]}, "1 names were given for 12 columns"),
        ({"groups": ["x"]}, "1 groups were given for 8 leaves"),
        ({"watch": [["a", "z"]]}, "'z' is not a leaf"),
    ],
)
def test_wrong_options(options, message, post):
    with pytest.raises(ValueError, match=message):
        report_html(post, **options)


@pytest.mark.parametrize(
    ("path", "message"), [(".", "is a folder"), ("nowhere/x.html", "there is no folder")]
)
def test_places_where_no_file_can_be(path, message, post, tmp_path):
    with pytest.raises(OSError, match=message):
        write_report(post, tmp_path / path)


def test_without_plotly(post, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(ImportError, match=r'pip install "hctrellis\[report\]"'):
        report_html(post)


def test_importing_is_light():
    code = (
        "import sys, hctrellis, hctrellis.report\n"
        "print([name for name in ('plotly', 'numba', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("mask", "text"),
    [(0b00000011, "a, b"), (0b11111110, "all but a"), (0b11110000, "e, f, g, h")],
)
def test_clusters_in_words(mask, text):
    assert words.members(mask, LABELS) == text


def test_names_with_commas_are_told_apart():
    assert words.listed(["a, b", "c"]) == "“a, b”, c"


# ---- items, ties, papers, sampled trees -------------------------------------------------------


def test_unsettled_items_are_listed(post):
    page = report_html(post)
    found = hct.unsettled(post, rng=0)
    section = page[page.index('id="items"') : page.index('id="top"')]
    for row in found[:8]:
        assert f"<td>{row.item}</td><td>{row.places:.1f}</td>" in section


@pytest.mark.filterwarnings("ignore:every tree has the same weight")
def test_ties_are_told():
    tied = hct.infer(hct.Linkage([[0.0], [1.0], [2.0], [3.0]], "single"))
    assert f"{tied.n_map_trees} trees share the largest weight" in report_html(tied)
    assert "share the largest weight" not in report_html(hct.infer(linkage(1.0)))


def test_what_to_write_in_a_paper():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(5, 12)) + np.array([[0], [0], [3], [3], [9]])
    found = hct.cluster(
        table, labels=[*"abcde"], bootstrap=20, standardize=True, watch=[["c", "d"]]
    )
    p = found.posterior.cluster_probability(["c", "d"])
    row = next(row for row in found.bootstrap if row.cluster == frozenset("cd"))
    low, _, high = (row.probabilities[frozenset("cd")] for row in found.moves)
    other = found.second_opinion.posterior.cluster_probability(["c", "d"])
    show = words.show_probability
    assert found.sentence() == (
        "Under average linkage of Euclidean distances (columns standardised), with beta = "
        f"{found.beta_choice.beta:g} chosen by agreement with 100 column resamples, {{c, d}} has "
        f"posterior probability {show(p)} ({show(low)} to {show(high)} for half and twice beta), "
        f"AU {show(row.au)}, BP {show(row.bp)}; by contrasts it has {show(other)}."
    )
    assert html.escape(found.sentence()) in report_html(found.posterior, **found.report_options())


def test_equal_names_are_told_apart():
    """A cluster and its rival may have the same first members."""
    labels = [f"W{k:02d}" for k in range(12)]
    one, other = 0b000000011111, 0b000000101111
    assert words.difference([one], [other], labels) == (
        "{W00, W01, W02 and 2 more}, with W04, without W05"
    )


def test_sampled_trees_are_said_to_be_sampled():
    model = hct.Linkage(TABLE, beta=1.0, labels=LABELS)
    sampled = hct.sample_posterior(model, 0.03, None, max_moves=4000, rng=0)
    page = report_html(sampled)
    assert "too many to weigh every tree, so trees were sampled" in page
    assert "best tree found" in page
    assert "most probable tree" not in page  # which sampling does not know
    assert re.search(r"0\.\d+ ± 0\.0\d", page)
    assert "The best tree found" in page


def test_unreliable_samples_have_no_numbers(monkeypatch):
    monkeypatch.setattr("hctrellis.sampling.run.LEAST_EFFECTIVE", math.inf)
    model = hct.Linkage(TABLE, beta=1.0, labels=LABELS)
    post = hct.sample_posterior(model, 0.05, 0.3, rng=0)
    assert not post.is_reliable
    page = report_html(post)
    assert "No probability can be quoted" in page
    assert 'class="caution"' in page and "not known" in page
    assert '"p":null' in page
    assert "There are no numbers at the joins" in page and "The number at a join" not in page
    assert '<label class="slide" hidden>' in page and "Strong: 0.95" not in page
    assert "probability of a cluster is the weight" not in page
    assert "raise --time-limit" in report_html(post, speak=on_command_line)


def test_a_second_opinion_is_told_cluster_by_cluster(post):
    table = TABLE[:, :3]
    found = hct.cluster(table, labels=LABELS, watch=[LABELS[:2]])
    opinion = found.second_opinion
    reader = Reader(report_html(found.posterior, **found.report_options()))
    assert "A second opinion" in reader.text and opinion.told() in reader.text
    assert "by average linkage" in reader.text
    held = {opinion.names[each.first < each.second] for each in opinion.disputed}
    for name in held:
        assert f"disputed: likely only by {name}" in reader.text or name == opinion.names[1]
    assert "There is no beta." in reader.text and "this beta" not in reader.text
    plain = Reader(report_html(found.posterior, about_second="Nobody was asked."))
    assert "A second opinion Nobody was asked." in plain.text


def test_how_good_the_best_tree_is_is_told():
    found = hct.solve_map(hct.Linkage(TABLE, labels=LABELS))
    post = sparse(True)
    assert words.about_best(hct.infer(hct.Linkage(TABLE))) == ""
    for proven, says in [
        (judge(-10.0, -10.0), "It is proven optimal"),
        (judge(-10.131, -10.0), "It is within 1.4% of the optimum"),
        (judge(-10.0, None), "It is the best found"),
        (None, f"It is {post.optimality}"),
    ]:
        assert says in words.about_best(post, proven)
    assert "It is proven optimal" in report_html(post, optimality=found.optimality)


def test_small_probabilities_are_not_undecided():
    assert [words.grade(p) for p in (0.5, 0.05, 0.049, 0.001, None)] == [
        *("weak", "undecided", "unlikely", "unlikely", "")
    ]


# ---- in a browser -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("browser")) as page:
        yield page


@pytest.fixture(scope="module")
def page_file(tmp_path_factory, post) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    rows = sensitivity(lambda table, beta: linkage(beta), None, 1.0)
    choice = choose_beta(lambda table, beta: linkage(beta), None)
    groups = ["first"] * 4 + ["last"] * 4
    return write_report(
        post, path, groups=groups, table=TABLE, sensitivity=rows, beta=choice, n_samples=30
    )


@pytest.fixture
def shown(chromium, page_file):
    """The page, freshly loaded; whatever a test does, nothing may be wrong in the end."""
    chromium.problems.clear()
    chromium.requests.clear()
    chromium.open(page_file)
    yield chromium
    assert chromium.problems == []
    assert all(url.startswith(("file:", "data:")) for url in chromium.requests)


def chosen(page) -> int:
    return int(page.do("document.querySelector('.node.chosen')?.dataset.cluster ?? -1"))


def node(page, index: int) -> str:
    return f'#dendrogram .node[data-cluster="{index}"] circle:last-of-type'


def first_node(page) -> int:
    return int(page.do("document.querySelector('#dendrogram .node').dataset.cluster"))


def test_everything_is_drawn(shown):
    assert shown.count("#dendrogram .node") == 6
    assert shown.count("#dendrogram text.leaf") == 8
    assert shown.count("#pairs-plot svg") > 0
    assert shown.count(".plot .scatterlayer .trace") == 1
    assert shown.count("#detail") == 0


def test_pointing_shows_members_and_probability(shown, post):
    cluster = first_node(shown)
    shown.move_to(node(shown, cluster))
    shown_text = shown.text("#tip")
    members = shown.do(
        f"JSON.parse(document.getElementById('data').textContent).clusters[{cluster}].m"
    )
    probability = post.cluster_probability(members)
    assert f"Probability {words.shown(probability)}" in shown_text
    assert ", ".join(LABELS[i] for i in members) in shown_text
    shown.move_to("h1")
    assert shown.count("#tip") == 0


def test_click_shows_what_competes(shown, post):
    cluster = first_node(shown)
    shown.click(node(shown, cluster))
    assert chosen(shown) == cluster
    assert words.shown(
        float(
            shown.do(
                f"JSON.parse(document.getElementById('data').textContent).clusters[{cluster}].p"
            )
        )
    ) in shown.text("#detail")
    bands = shown.count("#dendrogram .band")
    assert bands >= 2
    assert shown.count("#detail li") > 0
    shown.move_to("#detail li button")
    assert shown.count("#dendrogram .band.rival") >= 2
    rival = int(shown.do("document.querySelector('#detail li button').dataset.rival"))
    shown.click("#detail li button")
    title = shown.text("#detail h3")
    data = shown.do("JSON.parse(document.getElementById('data').textContent)")
    assert title == "{" + ", ".join(LABELS[i] for i in data["clusters"][rival]["m"]) + "}"
    shown.press("Escape")
    assert shown.count("#detail") == 0


def test_keyboard(shown):
    shown.do("document.querySelector('#dendrogram .node').focus()")
    cluster = first_node(shown)
    shown.press("Enter")
    assert chosen(shown) == cluster


def test_slider_hides_clusters(shown, post):
    threshold = 0.6
    shown.do(
        "(e => { e.value = 0.6; e.dispatchEvent(new Event('input', {bubbles: true})); })"
        "(document.getElementById('threshold'))"
    )
    kept = [m for m in below_root(post.map_tree) if post.cluster_probability(m) >= threshold]
    assert 0 < len(kept) < 6
    assert shown.count("#dendrogram .node") == len(kept)
    assert shown.count("#clusters tbody tr") == len(post.cluster_probabilities(threshold))
    assert shown.text("#least") == "0.60"
    assert shown.count("#dendrogram text.leaf") == 8


def test_other_trees_and_samples(shown):
    before = shown.do("document.getElementById('dendrogram').innerHTML")
    shown.click('#top tr[data-tree="1"]')
    assert shown.do("document.getElementById('which').value") == "1"
    assert shown.do("document.getElementById('dendrogram').innerHTML") != before
    assert shown.text("#drawn") == "The most probable trees: number 2"
    assert shown.count("#dendrogram .sampled") == 0
    shown.click("#overlay")
    assert shown.count("#dendrogram .sampled") == 30


def saved(page, button: str) -> str:
    """What a button gives to save: a name, and an address with the content."""
    page.do(
        "window.addresses = []; HTMLAnchorElement.prototype.click = function () "
        "{ addresses.push(`${this.download} ${this.href}`); }; 0"
    )
    page.click(button)
    look = "const look = () => addresses.length ? done(addresses[0]) : setTimeout(look, 20);"
    return str(page.do(f"new Promise(done => {{ {look} look(); }})"))


def test_the_drawing_is_saved_as_svg(shown, tmp_path):
    name, address = saved(shown, "#save-svg").split(" ", 1)
    assert name.endswith(".svg") and address.startswith("data:image/svg+xml")
    text = unquote(address.partition(",")[2])
    drawing = ElementTree.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    texts = ["".join(element.itertext()) for element in drawing.iter(f"{space}text")]
    assert {*LABELS, "first", "last"} <= {*texts}
    assert "class=" not in text and "tabindex" not in text
    assert all(path.get("stroke") for path in drawing.iter(f"{space}path"))
    path = tmp_path / "tree.svg"
    path.write_text(text, encoding="utf-8")
    shown.open(path)  # stands alone


def test_the_drawing_is_saved_as_png(shown):
    name, address = saved(shown, "#save-png").split(" ", 1)
    assert name.endswith(".png")
    content = base64.b64decode(address.removeprefix("data:image/png;base64,"))
    assert content.startswith(b"\x89PNG")
    width = int.from_bytes(content[16:20], "big")
    assert width > 2000  # fine enough to print


def test_size_of_shared_clusters(shown):
    colors = "[...document.querySelectorAll('#pairs-plot image')].map(e => e.href.baseVal).join()"
    before = shown.do(colors)
    shown.do(
        "(e => { e.value = '0'; e.dispatchEvent(new Event('change')); })"
        "(document.getElementById('size'))"
    )
    assert before
    assert shown.do(colors) != before


def test_paper(shown, tmp_path):
    shown.pdf(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    shown.send("Emulation.setEmulatedMedia", media="print")
    assert shown.count(".controls") == 0
    assert shown.count(".screen") == 0
    assert shown.count("#dendrogram .node") == 6
    shown.send("Emulation.setEmulatedMedia", media="")


@pytest.mark.parametrize("width", [320, 390, 1400])
def test_nothing_sticks_out(width, chromium, page_file, tmp_path):
    nasty = tmp_path / "nasty.html"
    nasty.write_text(nasty_html(), encoding="utf-8")
    chromium.problems.clear()
    for path in (page_file, nasty):
        chromium.open(path, width, 800, phone=width < 500)
        assert chromium.do("document.documentElement.scrollWidth") <= width
        assert (
            chromium.do(
                "Math.max(...[...document.querySelectorAll('text.leaf')]"
                ".map(e => e.getBoundingClientRect().right))"
            )
            <= width
        )
    assert chromium.problems == []


def test_labels_are_text(chromium, tmp_path):
    path = tmp_path / "nasty.html"
    path.write_text(nasty_html(), encoding="utf-8")
    chromium.problems.clear()
    chromium.open(path)
    chromium.click("#clusters tbody tr")
    chromium.move_to("#dendrogram text.leaf")
    assert SCRIPT in chromium.text("#detail h3")
    assert chromium.text("#dendrogram text.leaf").startswith("<script>")
    assert_all_are_text(chromium)


def assert_all_are_text(chromium) -> None:
    """Nothing of the labels was run or made an element; all of them can be read."""
    for leaf in range(len(NASTY)):
        chromium.move_to(f"#dendrogram text.leaf:nth-of-type({leaf + 1})")
    chromium.move_to("#pairs-plot")
    assert chromium.do("window.hacked ?? null") is None
    assert chromium.count("img, svg[onload], title svg") == 0
    shown = chromium.do("document.body.textContent")
    for label in (SCRIPT, IMAGE, ATTRIBUTE, ENDED):
        assert label in shown
    assert chromium.problems == []


def test_labels_of_a_file_are_text(chromium, tmp_path, capsys):
    """The same on the way from a table to its report, with names of columns, groups, a title."""
    lines = [[label, label, *row] for label, row in zip(NASTY, TABLE[:, :3], strict=True)]
    with (tmp_path / "table.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["name", SCRIPT, "x", IMAGE, ENDED], *lines])
    report = tmp_path / "report.html"
    options = ["--color", SCRIPT, "--title", ENDED, "--beta", "1", "--report", str(report)]
    assert main(["infer", str(tmp_path / "table.csv"), *options]) == 0
    chromium.problems.clear()
    chromium.open(report)
    chromium.click("#clusters tbody tr")
    assert_all_are_text(chromium)


def test_resizing_draws_anew(shown):
    before = shown.do("document.querySelector('#dendrogram svg').getAttribute('viewBox')")
    shown.resize(500, 800)
    shown.do("new Promise(done => setTimeout(done, 200))")
    after = shown.do("document.querySelector('#dendrogram svg').getAttribute('viewBox')")
    assert float(after.split()[2]) < float(before.split()[2])
