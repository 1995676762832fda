"""The page: experiments in, one self-contained HTML text and one Markdown text out."""

from __future__ import annotations

import base64
import os
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from string import Template

from hctrellis._version import __version__
from hctrellis.reproduce.figures import png, svg
from hctrellis.reproduce.record import Experiment, Number, Picture, Size, Table, show_seconds
from hctrellis.support.files import write_bytes, write_text

TITLE = "The cluster trellis paper, number by number"
INTRODUCTION = (
    "Every table and figure of “Cluster Trellis: Data Structures & Algorithms for Exact Inference "
    "in Hierarchical Clustering” (arXiv:2002.11661), made again with the engine and the simulator "
    "of hctrellis. The paper's numbers are quoted; every number called ours was computed in this "
    "run."
)
SMALL = "This is a small run, to check that everything works: its numbers are rough."
NUMBERS = ("quantity", "paper", "ours", "difference")
FIGURES = "figures"


@dataclass(frozen=True)
class ReproductionPage:
    """What is on the page.

    Attributes
    ----------
    experiments : sequence of Experiment
    seconds : sequence of float
        How long each took.
    size : "small" or "full"
    command : str
        The command that makes the page again.
    """

    experiments: Sequence[Experiment]
    seconds: Sequence[float]
    size: Size
    command: str

    @property
    def introduction(self) -> list[str]:
        return [INTRODUCTION, *([SMALL] if self.size == "small" else [])]

    @property
    def settings(self) -> list[tuple[str, str]]:
        """How the page was made."""
        times = zip(self.experiments, self.seconds, strict=True)
        return [
            ("Command", self.command),
            ("Machine", f"{_processor()}, {os.cpu_count()} cores, {platform.system()}"),
            (
                "Software",
                f"hctrellis {__version__}, Python {platform.python_version()}, "
                + ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba")),
            ),
            ("Time", ", ".join(f"{one.name} {show_seconds(seconds)}" for one, seconds in times)),
        ]


def _processor() -> str:
    """The name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def write(page: ReproductionPage, folder: Path, html: bool = True) -> list[Path]:
    """Write ``reproduction.md`` with its figures and, if wanted, ``index.html``."""
    (folder / FIGURES).mkdir(parents=True, exist_ok=True)
    for experiment in page.experiments:
        for part in experiment.parts:
            if isinstance(part, Picture):
                write_bytes(folder / FIGURES / f"{part.name}.png", png(part.figures))
    texts = {"reproduction.md": to_markdown(page)} | ({"index.html": to_html(page)} if html else {})
    for name, text in texts.items():
        write_text(folder / name, text)
    return [folder / name for name in texts]


def _glance(experiment: Experiment) -> str:
    """How many of the claims held."""
    return f"{sum(experiment.claims.values())} of {len(experiment.claims)}"


def _checked(claim: str, holds: bool) -> str:
    return f"{'✓' if holds else '✗'} {claim}"


# ---- HTML -------------------------------------------------------------------------------------


def to_html(page: ReproductionPage) -> str:
    """The page as HTML, figures included."""
    template = Template(files(__package__).joinpath("page.html").read_text(encoding="utf-8"))
    rows = "\n".join(
        f'<tr><td><a href="#{one.name}">{one.name}</a></td><td>{escape(one.verdict)}</td>'
        f"<td>{_glance(one)}</td></tr>"
        for one in page.experiments
    )
    settings = "\n".join(
        f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in page.settings
    )
    return template.substitute(
        title=escape(TITLE),
        introduction="\n".join(f"<p>{escape(text)}</p>" for text in page.introduction),
        glance=rows,
        sections="\n".join(map(_section, page.experiments)),
        settings=settings,
        version=escape(__version__),
    )


def _section(one: Experiment) -> str:
    numbers = _html_table(NUMBERS, one.numbers, "numbers") if one.numbers else ""
    claims = "".join(
        f'<li class="{"yes" if holds else "no"}">{escape(_checked(claim, holds))}</li>'
        for claim, holds in one.claims.items()
    )
    notes = "".join(f"<li>{escape(note)}</li>" for note in one.notes)
    return "\n".join(
        [
            f'<section id="{one.name}"><h2>{escape(one.title)}</h2>',
            f'<p class="verdict">{escape(one.verdict)}</p>',
            f"<p>{escape(one.about)}</p>",
            numbers,
            f"<h3>What to conclude</h3><p>{escape(one.conclusion)}</p>",
            *(_html_part(part) for part in one.parts),
            f"<h3>Differences and unknowns</h3><ul>{notes}</ul>" if notes else "",
            f'<h3>Checked in this run</h3><ul class="claims">{claims}</ul>' if claims else "",
            "</section>",
        ]
    )


def _html_part(part: Table | Picture) -> str:
    if isinstance(part, Table):
        caption = f"<figcaption>{escape(part.caption)}</figcaption>"
        return f"<figure>{caption}{_html_table(part.columns, part.rows)}</figure>"
    images = "".join(
        f'<img alt="{escape(part.alt)}" src="data:image/svg+xml;base64,'
        f'{base64.b64encode(svg(figure).encode()).decode()}">'
        for figure in part.figures
    )
    kind = "pair" if len(part.figures) > 1 else "single"
    return (
        f'<figure><div class="{kind}" tabindex="0">{images}</div>'
        f"<figcaption>{escape(part.caption)}</figcaption></figure>"
    )


def _html_table(
    columns: Sequence[str], rows: Sequence[Sequence[str] | Number], kind: str = ""
) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    body = "\n".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return (
        f'<div class="wide" tabindex="0"><table class="{kind}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


# ---- Markdown ---------------------------------------------------------------------------------


def to_markdown(page: ReproductionPage) -> str:
    """The page as Markdown; the figures are files."""
    glance = [
        (f"[{one.name}](#{_anchor(one.title)})", one.verdict, _glance(one))
        for one in page.experiments
    ]
    blocks = [
        f"# {TITLE}",
        *page.introduction,
        _markdown_table(("experiment", "what came out", "checks"), glance),
        *(block for one in page.experiments for block in _blocks(one)),
        "## How this page was made",
        "\n".join(f"- {name}: {value}" for name, value in page.settings),
    ]
    return "\n\n".join(blocks) + "\n"


def _anchor(title: str) -> str:
    """The anchor that is made of a heading.

    >>> _anchor("Table 1: greedy and beam search")
    'table-1-greedy-and-beam-search'
    """
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _blocks(one: Experiment) -> list[str]:
    notes = [f"- {note}" for note in one.notes]
    claims = [f"- {_checked(claim, holds)}" for claim, holds in one.claims.items()]
    return [
        f"## {one.title}",
        f"**{one.verdict}**",
        one.about,
        *([_markdown_table(NUMBERS, one.numbers)] if one.numbers else []),
        "### What to conclude",
        one.conclusion,
        *(block for part in one.parts for block in _markdown_part(part)),
        *(["### Differences and unknowns", "\n".join(notes)] if notes else []),
        *(["### Checked in this run", "\n".join(claims)] if claims else []),
    ]


def _markdown_part(part: Table | Picture) -> list[str]:
    if isinstance(part, Table):
        return [f"*{part.caption}*", _markdown_table(part.columns, part.rows)]
    return [f"![{part.alt}]({FIGURES}/{part.name}.png)", f"*{part.caption}*"]


def _markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str] | Number]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines
    )
