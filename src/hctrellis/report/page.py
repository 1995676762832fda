"""A page of a report: plain values in, one self-contained HTML text out.

All texts are escaped; pictures (SVG) are put in as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from string import Template

from hctrellis._version import __version__


@dataclass(frozen=True)
class Bar:
    """A probability in a table: its text, with a bar of that length."""

    probability: float
    text: str


Cell = str | Bar


@dataclass(frozen=True)
class Table:
    """A table: a heading, a sentence about it, names of the columns, and rows of cells."""

    heading: str
    note: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class Picture:
    """A picture: a heading, SVG, a sentence about it, and what its colours mean."""

    heading: str
    svg: str
    note: str
    legend: Sequence[tuple[str, str]] = ()
    """Pairs of a colour and what it stands for."""


@dataclass(frozen=True)
class Page:
    """The parts of a report, in the order in which they are shown."""

    title: str
    question: str
    answer: Sequence[str]
    """Paragraphs; the first is the answer in one sentence."""
    parts: Sequence[Picture | Table]
    meaning: str
    """What the probabilities mean."""
    settings: Sequence[tuple[str, str]] = field(default=())
    sources: Sequence[str] = field(default=())


def render(page: Page) -> str:
    """The page as HTML."""
    first, *others = page.answer
    template = Template(files(__package__).joinpath("page.html").read_text(encoding="utf-8"))
    return template.substitute(
        title=escape(page.title),
        question=escape(page.question),
        answer=escape(first),
        paragraphs="\n".join(f"<p>{escape(text)}</p>" for text in others),
        parts="\n".join(_part(part) for part in page.parts),
        meaning=escape(page.meaning),
        settings="\n".join(_setting(name, value) for name, value in page.settings),
        sources="\n".join(f"<li>{escape(source)}</li>" for source in page.sources),
        version=escape(__version__),
    )


def _part(part: Picture | Table) -> str:
    return _picture(part) if isinstance(part, Picture) else _table(part)


def _picture(picture: Picture) -> str:
    legend = "".join(
        f'<span class="key"><i style="background:{escape(color)}"></i>{escape(text)}</span>'
        for color, text in picture.legend
    )
    return (
        f"<section><h2>{escape(picture.heading)}</h2><figure>"
        f'<div class="wide" tabindex="0">{picture.svg}</div>'
        f'<figcaption><div class="keys">{legend}</div>{escape(picture.note)}</figcaption>'
        "</figure></section>"
    )


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.columns)
    body = "\n".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in table.rows)
    return (
        f"<section><h2>{escape(table.heading)}</h2><p>{escape(table.note)}</p>"
        f'<div class="wide" tabindex="0"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div></section>"
    )


def _cell(cell: Cell) -> str:
    if isinstance(cell, str):
        return f"<td>{escape(cell)}</td>"
    width = f"{100 * cell.probability:.1f}%"
    return (
        f'<td class="bar"><span>{escape(cell.text)}</span>'
        f'<i style="--p:{width}" aria-hidden="true"></i></td>'
    )


def _setting(name: str, value: str) -> str:
    return f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>"
