"""The HTML page: complete, escaped, and self-contained."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from hctrellis import Tree
from hctrellis.report.figures import dendrogram_svg
from hctrellis.report.page import Bar, Page, Picture, Table, render

NASTY = """<script>alert("1")</script> & 'two' $three"""
VOID = {"meta", "link", "br", "img", "hr"}


class Nesting(HTMLParser):
    """Fails where elements are not closed in order; collects the text."""

    def __init__(self):
        super().__init__()
        self.open, self.text = [], []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def read(html: str) -> str:
    parser = Nesting()
    parser.feed(html)
    parser.close()
    assert parser.open == []
    return "".join(parser.text)


def page(text: str = "plain", svg: str = "<svg></svg>") -> Page:
    return Page(
        title=text,
        question=text,
        answer=[text, text],
        parts=[
            Picture(text, svg, text, legend=[("red", text)]),
            Table(text, text, [text, "p"], [[text, Bar(0.25, text)]]),
        ],
        meaning=text,
        settings=[(text, text)],
        sources=[text],
    )


def test_everything_is_there_and_escaped():
    html = render(page(NASTY))
    assert "<script" not in html
    assert read(html).count(NASTY) == 17


def test_bars():
    assert "--p:25.0%" in render(page())


@pytest.mark.parametrize("text", ["plain", NASTY])
def test_no_network(text):
    html = render(page(text, dendrogram_svg(Tree([[0, 1]], labels=[text, "b"]))))
    assert not re.search(r"""(src|href)\s*=\s*["'](https?:)?//""", html)
    assert "@import" not in html
    assert "url(http" not in html


def test_svg_keeps_labels_as_text():
    svg = dendrogram_svg(
        Tree([[0, 1], [2, 3]], labels=[NASTY, "long label", "c"]),
        support=lambda mask: 0.5,
        colors={"c": "#ff0000"},
        strong=["c"],
    )
    text = read(svg)
    assert NASTY in text
    assert "0.50" in text
    assert "#ff0000" in svg
    assert "bold" in svg or "700" in svg


def test_svg_is_the_same_each_time():
    tree = Tree([[0, 1], [2, 3]])
    assert dendrogram_svg(tree) == dendrogram_svg(tree)
