"""The paper made again: every experiment runs in small, and what it claims holds."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.cluster.hierarchy import linkage

import hctrellis as hct
from hctrellis import simulate
from hctrellis.cli import main
from hctrellis.cli.commands.reproduce import PaperPart
from hctrellis.reproduce import (
    EXPERIMENTS,
    chosen,
    dasgupta,
    expression,
    genomics,
    posterior,
    reproduce,
    runtime,
    sparse,
    table1,
)
from hctrellis.reproduce.agglomerate import average_linkage
from hctrellis.reproduce.page import ReproductionPage, to_html, write
from hctrellis.reproduce.record import Picture, Table, silent

DATA = Path(__file__).parents[2] / "shared" / "data"


@cache
def small(name):
    return reproduce(name, "small", seed=1)


# ---- every experiment -------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_claims_hold(name):
    done = small(name)
    assert done.name == name
    assert done.claims
    assert [claim for claim, holds in done.claims.items() if not holds] == []


def test_machines_of_the_paper_are_named():
    page = Path(__file__).parents[1] / "docs" / "reproduction.md"
    for processor in ("2.3 GHz Core i9", "2.5 GHz Core i5"):
        assert processor in runtime.PAPER_MACHINES
    assert runtime.PAPER_MACHINES in page.read_text(encoding="utf-8")
    assert any(runtime.PAPER_MACHINES in note for note in small("runtime").notes)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_records_are_complete(name):
    done = small(name)
    texts = (done.title, done.about, done.verdict, done.conclusion, *done.notes)
    assert all(text and not re.search(r"\bnan\b|\binf\b|None|[{}]", text) for text in texts)
    assert all(number.what and number.paper and number.ours for number in done.numbers)
    assert any(isinstance(part, Picture) for part in done.parts)
    for part in done.parts:
        assert part.caption
        if isinstance(part, Table):
            assert {len(row) for row in part.rows} == {len(part.columns)}


def test_seeds_are_kept():
    again = reproduce("posterior", "small", seed=1)
    assert again.numbers == small("posterior").numbers
    assert again.conclusion == small("posterior").conclusion
    other = reproduce("posterior", "small", seed=2)
    assert other.conclusion != again.conclusion


def test_chosen():
    assert chosen([]) == chosen(["all"]) == list(EXPERIMENTS)
    assert chosen(["runtime", "table1", "runtime"]) == ["table1", "runtime"]
    with pytest.raises(ValueError, match="no experiment 'table2'; choose all, table1"):
        chosen(["table2"])


# ---- one by one -------------------------------------------------------------------------------


def test_table1_order_on_every_jet():
    found = table1.find("small", 1, silent)
    slack = 1e-9 * np.abs(found.exact)
    assert (found.exact >= found.beam - slack).all()
    assert (found.beam >= found.greedy - slack).all()
    differences = found.differences()
    one, both, other = differences.values()
    np.testing.assert_allclose(both, one + other, atol=1e-9)
    assert differences["trellis − greedy"].mean() > differences["trellis − beam search"].mean() > 0


def test_table1_mixes():
    leaves, values = np.array([5, 5, 6]), np.array([1.0, 3.0, 8.0])
    assert table1._mixed(leaves, values, {5: 0.5, 6: 0.5}).split() == ["5.00", "±", "3.08"]


def test_possible_counts_are_those_of_jets():
    jets = simulate.ginkgo(300, leaves=5, rng=3)
    counts = {hct.infer(jet.potential()).n_trees for jet in jets}
    assert len(counts) > 4
    assert counts <= posterior.possible_counts()
    assert posterior.PAPER_ALLOWED not in posterior.possible_counts()
    assert {posterior.ALLOWED, posterior.ALL_TREES} <= posterior.possible_counts()


def test_sampled_histogram_within_errors():
    drawn = posterior.draw(20_000, seed=5)
    assert drawn.n_samples == 20_000
    assert len(drawn.counts) == posterior.ALLOWED
    assert drawn.probabilities.sum() == pytest.approx(1)
    assert (np.diff(drawn.probabilities) <= 0).all()
    common = 20_000 * drawn.probabilities >= 5
    assert np.abs(drawn.pulls[common]).max() < 4.5
    assert 0.6 < (np.abs(drawn.pulls[common]) < 1).mean() + 0.1 < 1.0
    assert drawn.fit()[2] > 1e-3


def test_fit_notices_a_wrong_posterior():
    drawn = posterior.draw(20_000, seed=5)
    wrong = np.roll(drawn.probabilities, 3)
    assert drawn._replace(probabilities=wrong).fit()[2] < 1e-6


def test_sparse_curves_rise():
    found = sparse.study_of_size("small", 1, silent)
    assert set(found.curves) == {(s, str(o)) for s in sparse.SOURCES for o in sparse.ORDERS}
    for points in found.curves.values():
        complete = [point.gain for point in points if point.found == 1]
        assert all(after >= before - 1e-9 for before, after in pairwise(complete))
        assert all(a.sparsity < b.sparsity for a, b in pairwise(points))
        assert max(complete, default=-np.inf) <= found.baselines.exact + 1e-9
    first, *_, last = found.curves["simulator", "norm"]
    assert last.gain > first.gain + 0.5


def test_crossing_is_interpolated():
    def point(sparsity, *gains):
        return sparse.SparsePoint(1, 9, sparsity, np.array(gains))

    curve = [point(1e-4, -np.inf, 5.0), point(1e-3, -1.0, 1.0), point(1e-1, 2.0, 2.0)]
    found = sparse.SparseStudy(np.ones(2), np.full(2, 3.0), {("simulator", "norm"): curve})
    assert found.crossing("simulator", "norm") == pytest.approx(1e-2)
    assert found.crossing("simulator", "norm", np.array([1, 1])) == pytest.approx(1e-4)
    low, high = found.crossing_range("simulator", "norm")
    assert low <= 1e-2 <= high
    assert (curve[0].found, curve[0].gain) == (0.5, 5.0)
    flat = sparse.SparseStudy(np.full(2, 9.0), np.full(2, 9.0), found.curves)
    assert flat.crossing("simulator", "norm") is None
    assert flat.crossing_range("simulator", "norm") is None


def test_ladder():
    model = hct.Dasgupta(dasgupta.ladder())
    assert hct.infer(model).map_log_weight == pytest.approx(-40.08)
    middle = average_linkage(dasgupta.ladder(dasgupta.MIDDLE_RAILS))
    assert model.energy(middle) == pytest.approx(44.08)


def test_average_linkage_joins_by_mean_similarity():
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(9, 3))
    apart = np.sqrt(((rows[:, None] - rows) ** 2).sum(axis=-1))
    assert average_linkage(-apart) == hct.Tree(
        hct.Tree.from_linkage(linkage(rows, "average")).children
    )


def test_operations_are_counted():
    from hctrellis.reproduce.complexity import measure

    assert [measure(n)[1:] for n in (3, 4, 5)] == [(6, 3), (25, 15), (90, 105)]


# ---- gene expression --------------------------------------------------------------------------


def test_goes_with():
    # leaves 0, 1 are of one subtype, 2, 3 of another, 4 is asked about
    trees = ["(((4,0),1),(2,3));", "((4,(0,1)),(2,3));", "(((0,2),4),(1,3));", "((0,1),((2,3),4));"]
    names = list("01234")
    masks = [sorted(hct.Tree.from_newick(t).reorder(names).clusters()) for t in trees]
    assert genomics.goes_with(np.array(masks), 4, 2).tolist() == [0.5, 0.25, 0.25]


def test_number_of_best_trees():
    data = expression.synthetic(3)
    rng = np.random.default_rng(1)
    for _ in range(3):
        drawn = genomics.draw(data, rng)
        best = drawn.n_best()
        assert best < 50_000
        energies = [drawn.model.energy(tree) for tree in drawn.post.top_trees(best + 1)]
        assert energies[-2] - energies[0] < 1e-9 < energies[-1] - energies[0]


def test_affinities_are_finite_and_centred():
    values = np.random.default_rng(1).normal(size=(6, 50))
    values[3] = 2 * values[2]
    values[5] = -values[4]
    w = expression.affinity(values)
    assert np.isfinite(w).all()
    assert np.array_equal(w, w.T)
    assert w[np.triu_indices(6, 1)].mean() == pytest.approx(0, abs=1e-9)
    assert (w[2, 3], w[4, 5]) == (w.max(), w.min())


def test_made_up_table():
    data = expression.synthetic(4)
    assert np.array_equal(data.values, expression.synthetic(4).values)
    assert data.names == list("ABCDE")
    within = np.corrcoef(data.values[:20])[np.triu_indices(20, 1)].mean()
    across = np.corrcoef(data.values[:40])[:20, 20:].mean()
    assert within > across + 0.1


def test_made_up_table_is_labelled_as_such():
    assert "made-up" in small("genomics").about


def table_text(*, cell="1.5", genes="a,b,c", subtypes="xxxyyy", more=""):
    rng = np.random.default_rng(0)
    lines = [f"sample,subtype,{genes}"]
    for k, subtype in enumerate([*subtypes, "", ""]):
        lines.append(f"s{k},{subtype},{cell},{rng.normal():.4f},{rng.normal():.4f}")
    return "\n".join(lines) + "\n" + more


def test_read_expression(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(table_text(cell="", more="same,x,7,8,9\ntoo,,7,8,9\n"))
    data = expression.read_expression(path)
    assert data.names == ["x", "y"]
    assert data.samples == (*(f"s{k}" for k in range(8)), "same")
    assert data.n_identical == 1
    assert data.missing == pytest.approx(8 / 30)
    assert (data.values[:8, 0] == 0).all()
    assert data.subtypes[6] == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must begin with a line of names: sample, subtype"),
        ("name,subtype,a,b\n", "must begin with a line of names"),
        (table_text(cell="many"), "has 'many' for sample 's0'; expected a number"),
        (table_text(cell="inf"), "has 'inf' for sample 's0'"),
        (table_text(more="s9,x,1\n"), "line 10 of .* has 3 cells, the first has 5"),
        (table_text(subtypes="xxx"), "has 1 subtypes; expected from 2"),
        (table_text(subtypes="xxxyy"), "has 2 different samples of subtype 'y'; expected 3"),
        (table_text(more="flat,x,2,2,2\n"), "'flat' of .* has the same value for all genes"),
    ],
)
def test_wrong_tables(text, message, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        expression.read_expression(path)


def test_published_table():
    path = DATA / "pam50_unc232.csv"
    if not path.exists():
        pytest.skip(f"no {path}")
    data = expression.read_expression(path)
    assert data.names == ["Basal", "Her2", "LumA", "LumB", "Normal"]
    assert (len(data.samples), data.values.shape[1], data.n_identical) == (231, 50, 1)
    assert data.missing == pytest.approx(0.0265, abs=1e-4)
    done = reproduce("genomics", "small", 1, silent, data)
    assert all(done.claims.values())
    assert "made-up" not in done.about


# ---- the page ---------------------------------------------------------------------------------


class Reader(HTMLParser):
    """Collects images, links and anchors, and checks that elements are closed."""

    EMPTY = ("meta", "link", "img", "br")

    def __init__(self):
        super().__init__()
        self.open, self.images, self.links, self.anchors = [], [], [], []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag == "img":
            self.images.append(given)
        if "href" in given:
            self.links.append(given["href"])
        if "id" in given:
            self.anchors.append(given["id"])
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def page_of(*names):
    done = [small(name) for name in names]
    return ReproductionPage(done, [1.0] * len(done), "small", "hctrellis reproduce")


@pytest.fixture(scope="module")
def page():
    return page_of("table1", "posterior", "dasgupta", "genomics")


@pytest.fixture(scope="module")
def drawn(page):
    """The page as HTML."""
    return to_html(page)


@pytest.fixture(scope="module")
def written(page, tmp_path_factory):
    """The files of the page."""
    return write(page, tmp_path_factory.mktemp("page"))


def test_html_is_one_file(page, drawn):
    reader = Reader()
    reader.feed(drawn)
    assert reader.open == []
    assert len(reader.anchors) == len(set(reader.anchors))
    assert {link[1:] for link in reader.links if link.startswith("#")} <= set(reader.anchors)
    assert [link for link in reader.links if not link.startswith(("#", "data:"))] == []
    figures = [p for one in page.experiments for p in one.parts if isinstance(p, Picture)]
    assert len(reader.images) == sum(len(part.figures) for part in figures)
    for image in reader.images:
        assert image["src"].startswith("data:image/svg+xml;base64,")
        assert image["alt"]


def test_written_files(page, drawn, written):
    markdown, html = written
    folder, text = markdown.parent, markdown.read_text("utf-8")
    # the pictures aside: early versions of Matplotlib name parts of them at random
    pages = (html.read_text("utf-8"), drawn)
    found, expected = (re.sub(r"base64,[^\"]*", "", text) for text in pages)
    assert found == expected
    named = set(re.findall(r"\]\((figures/[^)]+)\)", text))
    assert named == {f"figures/{path.name}" for path in (folder / "figures").iterdir()}
    assert all((folder / name).read_bytes().startswith(b"\x89PNG") for name in named)
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert headings[:-1] == [one.title for one in page.experiments]
    for rows in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows.splitlines()}) == 1


def test_without_html(tmp_path):
    files = write(page_of("dasgupta"), tmp_path, html=False)
    assert [path.name for path in files] == ["reproduction.md"]
    assert not (tmp_path / "index.html").exists()


def test_markdown_and_html_say_the_same(page, written):
    markdown, html = (path.read_text("utf-8") for path in written)
    for one in page.experiments:
        for number in one.numbers:
            assert number.ours.replace("|", "\\|") in markdown
            assert number.ours in html


# ---- the command ------------------------------------------------------------------------------


def test_parts_of_the_command():
    assert [part.value for part in PaperPart] == ["all", *EXPERIMENTS]


def test_command(tmp_path, capsys):
    folder = tmp_path / "out" / "page"
    assert main(["reproduce", "dasgupta", "complexity", "--small", "-o", str(folder)]) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines() == [
        str(folder / "reproduction.md"),
        str(folder / "index.html"),
    ]
    assert [line.split(":")[0] for line in captured.err.splitlines()] == [
        "[1/2] dasgupta",
        "[2/2] complexity",
    ]
    assert "--small" in (folder / "index.html").read_text("utf-8")


def test_quiet_command(tmp_path, capsys):
    assert main(["reproduce", "complexity", "--small", "-q", "-o", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["table2"], 2, "table2"),
        (["--seed", "-1"], 2, "--seed"),
        (["genomics", "--data", "nowhere.csv"], 1, "there is no file nowhere.csv"),
    ],
)
def test_wrong_commands(arguments, code, message, tmp_path, capsys):
    assert main(["reproduce", *arguments, "--small", "-o", str(tmp_path / "out")]) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C is another thing on Windows")
def test_interrupted(tmp_path):
    command = [sys.executable, "-m", "hctrellis", "reproduce", "dasgupta", "genomics"]
    with subprocess.Popen(
        [*command, "-o", str(tmp_path / "out")], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert first.startswith("[1/2] dasgupta")
    assert rest == "hctrellis: interrupted; no page was written\n"
    assert process.returncode == 130
    assert not (tmp_path / "out" / "index.html").exists()


def test_what_does_not_hold_is_named(tmp_path, capsys, monkeypatch):
    failed = replace(small("complexity"), claims={"water is dry": False, "water is wet": True})
    monkeypatch.setattr("hctrellis.cli.reproduce.reproduce", lambda *given: failed)
    assert main(["reproduce", "complexity", "-q", "-o", str(tmp_path)]) == 3
    assert capsys.readouterr().err == "hctrellis: did not hold: complexity: water is dry\n"
    assert "✗ water is dry" in (tmp_path / "index.html").read_text("utf-8")
