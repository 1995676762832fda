"""The page: findings in, one self-contained HTML text out.

All texts are escaped. The numbers that the page draws are in it as JSON; the charts library and
the script that uses it are in it too, and a policy in its head forbids any request.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any

from hctrellis._version import __version__
from hctrellis.clusters import mask_leaves
from hctrellis.posterior.base import Estimate
from hctrellis.posterior.placements import ItemRow
from hctrellis.report import words
from hctrellis.report.findings import LISTED, MAX_PAIRED, RIVAL, Findings, Found, below_root
from hctrellis.support.colors import MISSING_COLOR, PALETTE
from hctrellis.tree import Tree

if TYPE_CHECKING:
    from hctrellis.posterior.optimality import Optimality
    from hctrellis.support.types import FloatArray

NO_GROUP = "none"  # of items without a group
ROOT = -1  # the cluster of all leaves, in the numbers of the page
SHOWN_ROWS, SHOWN_COLUMNS = 200, 12  # of the data
SHOWN_ITEMS = 8  # the least settled
KNOWN = ("How sure each cluster is", "What the probabilities mean")
UNKNOWN = ("The clusters of this tree", "How trees are weighed")  # without probabilities
SHOWN_CLUSTERS = 12  # the others are shown on a click


@dataclass(frozen=True)
class Chart:
    """A chart of lines.

    Attributes
    ----------
    x, y : str
        Names of the axes.
    lines : sequence of (name, colour, x values, y values)
    mark : float or None
        Where a vertical line stands.
    diagonal : bool
        Whether the line x = y is drawn.
    log : bool
        Whether the x axis is logarithmic.
    """

    x: str
    y: str
    lines: Sequence[tuple[str, str, Sequence[float], Sequence[float]]]
    mark: float | None = None
    diagonal: bool = False
    log: bool = False


@dataclass(frozen=True)
class Note:
    """A part of the section on what probabilities mean: a heading, sentences, a table, a chart."""

    texts: Sequence[str]
    heading: str = ""
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str | float]] = ()
    curve: Chart | None = None


@dataclass(frozen=True, eq=False)
class Page:
    """What a page shows besides its findings.

    Attributes
    ----------
    title : str
    question : str
        Shown large, with `answer` below, before anything else; none if empty.
    answer : sequence of str
        Paragraphs; the first is the answer in one sentence.
    notes : sequence of Note
        What the probabilities mean.
    settings : sequence of (str, str)
        Names and values.
    sources : sequence of str
    columns : sequence of str
        Names of the columns of `values`.
    values : float64 array, shape (n, d), or None
        The data, a row per leaf.
    groups : sequence of str
        A group for each leaf; empty if there are none.
    support : sequence of (str, dict)
        Names of further columns of the table of clusters, with their values by mask.
    sentences : sequence of str
        What to write in a paper.
    disputed : dict from int to str
        The clusters about which two models disagree, by mask: who holds them likely.
    proven : Optimality or None
        How good the best tree is, if a search with proofs was asked.
    opinion : str
        Where another model disagrees, in one sentence.
    speak : callable
        Says what to do in the words of the command line, or of Python.
    """

    title: str
    question: str = ""
    answer: Sequence[str] = ()
    notes: Sequence[Note] = ()
    settings: Sequence[tuple[str, str]] = ()
    sources: Sequence[str] = ()
    columns: Sequence[str] = ()
    values: FloatArray | None = None
    groups: Sequence[str] = ()
    support: Sequence[tuple[str, dict[int, float]]] = field(default=())
    sentences: Sequence[str] = ()
    disputed: Mapping[int, str] = field(default_factory=dict)
    proven: Optimality | None = None
    opinion: str = ""
    speak: Callable[[str], str] = str


def render(findings: Findings, page: Page) -> str:
    """The page as HTML."""
    template = Template(_file("page.html"))
    numbers = _numbers(findings)
    return template.substitute(
        title=escape(page.title),
        asked=' class="asked"' if page.question else "",
        question=_question(page),
        caution=_cautions(findings, page.speak),
        summary="\n".join(
            f"<p>{escape(text)}</p>"
            for text in (*words.summary(findings, page.proven), page.opinion)
            if text
        ),
        heading=escape(_heading(findings)),
        choices=_choices(findings),
        joins=_joins(findings),
        unknown="" if findings.post.is_reliable else " hidden",
        sureness=KNOWN[0] if findings.post.is_reliable else UNKNOWN[0],
        weighing=KNOWN[1] if findings.post.is_reliable else UNKNOWN[1],
        overlay=escape(f"overlay {words.counted(len(findings.samples), 'sampled tree')}"),
        legend=_legend(page.groups),
        scale=escape(_scale(findings)),
        text=escape(_drawn(findings)),
        listing=escape(_listing(findings)),
        clusters=_clusters(findings, page, numbers),
        grades=escape(_grades()) if findings.post.is_reliable else "",
        pairs=_pairs(findings),
        ranking=escape(_ranking(findings)),
        trees=_trees(findings),
        items=_items(findings),
        paper=_paper(page.sentences, findings.post.potential.has_energy),
        meaning="\n".join(_note(note, k) for k, note in enumerate(page.notes)),
        settings="\n".join(
            f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in page.settings
        ),
        data=_data(findings.labels, page),
        sources="\n".join(f"<p>{escape(text)}</p>" for text in page.sources),
        bibtex=escape(words.BIBTEX),
        version=escape(__version__),
        style=_file("page.css"),
        json=_as_json(_drawing(findings, page, numbers)),
        library=_library(),
        script=_file("page.js"),
    )


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _library() -> str:
    """The script of the charts library."""
    try:
        from plotly.offline import get_plotlyjs
    except ModuleNotFoundError:
        raise ImportError('a report needs plotly: pip install "hctrellis[report]"') from None
    return str(get_plotlyjs()).replace("</script", "<\\/script")


def _as_json(value: Any) -> str:
    """JSON that may stand inside a script element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


# ---- pieces of HTML ---------------------------------------------------------------------------


def _paragraph(text: str, kind: str) -> str:
    return f'<p class="{kind}">{escape(text)}</p>' if text else ""


def _cautions(findings: Findings, speak: Callable[[str], str]) -> str:
    said = (say(findings.post) for say in (words.not_converged, words.too_few))
    return "".join(_paragraph(speak(text), "caution") for text in said)


def _question(page: Page) -> str:
    if not page.question:
        return ""
    first, *others = page.answer
    more = "".join(f"<p>{escape(text)}</p>" for text in others)
    return _paragraph(page.question, "question") + _paragraph(first, "answer") + more


def _choices(findings: Findings) -> str:
    first = "the most probable" if findings.post.method != "sampled" else "the best found"
    names = [first, *(f"number {k}" for k in range(2, len(findings.trees) + 1))]
    return "".join(f'<option value="{k}">{name}</option>' for k, name in enumerate(names))


def _joins(findings: Findings) -> str:
    """What is to be seen at the joins of the tree."""
    if not findings.post.is_reliable:
        return (
            "There are no numbers at the joins, since no probability can be quoted. "
            '<span class="screen">Point at a join for its members.</span>'
        )
    return (
        "The number at a join is the probability of the cluster; faint branches lead to doubtful "
        'clusters. <span class="screen">Point at a join for its members, click it to see what '
        "competes with it.</span>"
    )


def _heading(findings: Findings) -> str:
    return f"The {findings.post.map_name}"


def _legend(groups: Sequence[str]) -> str:
    keys = "".join(
        f'<span class="key"><i style="background:{color}"></i>{escape(name)}</span>'
        for name, color in zip(_group_names(groups), _palette(groups), strict=True)
    )
    return f'<div class="keys">{keys}</div>' if keys else ""


def _group_names(groups: Sequence[str]) -> list[str]:
    return sorted(dict.fromkeys(groups), key=lambda name: (name == NO_GROUP, name))


def _palette(groups: Sequence[str]) -> list[str]:
    """A colour for each group; grey for items without one."""
    names = [name for name in _group_names(groups) if name != NO_GROUP]
    known = {name: PALETTE[k % len(PALETTE)] for k, name in enumerate(names)}
    return [known.get(name, MISSING_COLOR) for name in _group_names(groups)]


def _scale(findings: Findings) -> str:
    if findings.tree.heights is None:
        return "The more items are below a join, the further left it stands."
    return f"A join stands at its height: the {findings.post.potential.height_name}."


def _drawn(findings: Findings) -> str:
    if not findings.post.is_reliable:
        return findings.tree.to_text()
    return findings.tree.to_text(lambda mask: words.with_error(findings.known.estimate(mask)))


def _listing(findings: Findings) -> str:
    if not findings.post.is_reliable:
        return "The clusters of the best tree found, for which there is no probability to quote."
    return (
        f"All clusters of probability {LISTED:g} or more, and those of the "
        f"{findings.post.map_name}; below each stands its strongest rival, the most probable "
        "cluster that excludes it."
    )


def _grades() -> str:
    (strong, _), (good, _), (weak, _), (least, _), _ = words.GRADES
    return (
        f"Strong: {strong} or more. Good: {good} or more. Weak: {weak} or more; clusters above one "
        f"half never exclude each other. Undecided: {least} or more. Unlikely: less."
    )


def _clusters(findings: Findings, page: Page, numbers: dict[int, int]) -> str:
    watched = {found.mask for found in findings.watched}
    listed = [*findings.watched, *(f for f in findings.clusters if f.mask not in watched)]
    head = ["probability", *(name for name, _ in page.support), "cluster"]
    rows = []
    for found in listed:
        attributes = f' data-cluster="{numbers[found.mask]}"'
        attributes += ' class="watched"' if found.mask in watched else ""
        cells = [_bar(findings.known.estimate(found.mask))]
        cells += [_support(column, found) for column in page.support]
        cells.append(_cluster_cell(findings, found, page.disputed.get(found.mask, "")))
        rows.append(f"<tr{attributes}>{''.join(cells)}</tr>")
    if len(rows) <= SHOWN_CLUSTERS:
        return _table(head, rows)
    more = f"<details><summary>{len(rows) - SHOWN_CLUSTERS} more</summary>"
    rest = f"{more}{_table(head, rows[SHOWN_CLUSTERS:])}</details>"
    return _table(head, rows[:SHOWN_CLUSTERS]) + rest


def _cluster_cell(findings: Findings, found: Found, holder: str = "") -> str:
    labels = findings.labels
    rivals = findings.rivals[found.mask]
    size = found.mask.bit_count()
    text = words.members(found.mask, labels)
    note = f"{size} items, {words.grade(found.probability)}".removesuffix(", ")
    if rivals:
        best = rivals[0]
        rival = words.braced(best.mask, labels)
        if rival == words.braced(found.mask, labels):
            rival += f", {words.exchanged(best.mask, found.mask, labels)},"
        known = words.with_error(findings.known.estimate(best.mask))
        note += f"; strongest rival {rival} with {known}"
    if holder:
        note += f"; disputed: likely only by {holder}"
    return f"<td>{escape(text)}<small>{escape(note)}</small></td>"


def _support(column: tuple[str, dict[int, float]], found: Found) -> str:
    value = column[1].get(found.mask)
    return f"<td>{'' if value is None else escape(words.shown(value))}</td>"


def _bar(estimate: Estimate | None) -> str:
    width = 0.0 if estimate is None else 100 * estimate.value
    return (
        f'<td class="bar"><span>{escape(words.with_error(estimate))}</span>'
        f'<i style="--p:{width:.1f}%" aria-hidden="true"></i></td>'
    )


def _table(head: Iterable[str], body: Iterable[str]) -> str:
    names = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    rows = "\n".join(body)
    return (
        f'<div class="wide" tabindex="0"><table><thead><tr>{names}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _pairs(findings: Findings) -> str:
    if findings.post.n_leaves > MAX_PAIRED:
        note = f"Pairs of items are shown for up to {MAX_PAIRED} items."
        return f'<section id="pairs"><h2>Which items go together</h2><p>{note}</p></section>'
    if not findings.pairs:
        return ""
    middle = len(findings.pairs) // 2
    choices = "".join(
        f'<option value="{k}"{" selected" if k == middle else ""}>{pairs.size}</option>'
        for k, pairs in enumerate(findings.pairs)
    )
    return (
        '<section id="pairs"><h2>Which items go together</h2>'
        '<p class="note">The darker a cell, the more probable it is that its two items share a '
        'cluster of at most <label><select id="size" aria-label="Size">'
        f"{choices}</select></label> items; white is 0, the darkest is 1. Items stand in the order "
        f"of the {findings.post.map_name}.</p>"
        '<div id="pairs-plot" class="plot"></div></section>'
    )


def _items(findings: Findings) -> str:
    """Which items are unsettled."""
    placed = findings.placements
    if placed is None:
        return ""
    rows = [_item_row(row) for row in placed.rows[:SHOWN_ITEMS]]
    head = ("item", "places", "most often first joined with", "next")
    texts = [words.about_rogues(placed), words.about_places(placed)]
    said = "".join(f"<p>{escape(text)}</p>" for text in texts if text)
    title = '<section id="items"><h2>Which items are unsettled</h2>'
    return f"{title}{said}{_table(head, rows)}</section>"


def _item_row(row: ItemRow) -> str:
    def near(cluster: frozenset[str], probability: float) -> str:
        if not cluster:
            return ""
        names = words.listed(sorted(cluster - {row.item}), 3)
        return f"{names} ({words.shown(probability)})"

    first, second = (
        near(row.neighbourhood, row.probability),
        near(row.second, row.second_probability),
    )
    cells = (row.item, f"{row.places:.1f}", first, second)
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _paper(sentences: Sequence[str], has_beta: bool) -> str:
    """Sentences to copy into a paper."""
    if not sentences:
        return ""
    how = "how trees were weighed" + (", how beta was chosen" if has_beta else "")
    return (
        '<section id="paper"><h2>What to write in your paper</h2>'
        f'<p class="note">To copy, and to keep in this order: {how}, then what was found.</p>'
        f"<blockquote>{escape(' '.join(sentences))}</blockquote></section>"
    )


def _ranking(findings: Findings) -> str:
    if findings.post.method == "sampled":
        return (
            "Sampled trees do not tell which trees come second or third. The one drawn above is "
            "the best that was found."
        )
    total = words.tiny(float(findings.tree_probabilities.sum()))
    if len(findings.trees) == 1:
        return f"Only one tree is possible; its probability is {total}."
    return (
        f"Together, the {len(findings.trees)} most probable trees have {total} of all probability. "
        "A click draws one above."
    )


def _trees(findings: Findings) -> str:
    if findings.post.method == "sampled":
        return ""
    best = below_root(findings.tree)
    body = []
    known = [words.tiny(p) for p in findings.tree_probabilities.tolist()]
    for k, (tree, probability) in enumerate(zip(findings.trees, known, strict=True)):
        text = words.difference(below_root(tree), best, findings.labels)
        body.append(
            f'<tr data-tree="{k}"><td>{k + 1}</td><td>{probability}</td>'
            f"<td>{escape(text)}</td></tr>"
        )
    return _table(("", "probability", "what differs"), body)


def _note(note: Note, number: int) -> str:
    parts = [f"<h3>{escape(note.heading)}</h3>"] if note.heading else []
    parts += [f"<p>{escape(text)}</p>" for text in note.texts]
    if note.rows:
        body = (f"<tr>{''.join(map(_cell, row))}</tr>" for row in note.rows)
        parts.append(_table(note.columns, body))
    if note.curve:
        parts.append(f'<div id="curve-{number}" class="plot"></div>')
    return "\n".join(parts)


def _cell(value: str | float) -> str:
    return f"<td>{escape(value)}</td>" if isinstance(value, str) else _bar(Estimate(value, 0.0))


def _data(labels: Sequence[str], page: Page) -> str:
    if page.values is None:
        return ""
    values = page.values[:SHOWN_ROWS, :SHOWN_COLUMNS]
    body = (
        f"<tr><td>{escape(label)}</td>{''.join(f'<td>{value:.4g}</td>' for value in row)}</tr>"
        for label, row in zip(labels, values.tolist(), strict=False)
    )
    n, d = page.values.shape
    part = (
        ""
        if page.values.shape == values.shape
        else f", the first {len(values)} and {values.shape[1]} are shown"
    )
    title = f"The numbers ({n} rows, {d} columns{part})"
    head = ["", *page.columns[:SHOWN_COLUMNS]]
    return f'<details class="values"><summary>{title}</summary>{_table(head, body)}</details>'


# ---- what the script draws --------------------------------------------------------------------


def _numbers(findings: Findings) -> dict[int, int]:
    """The numbers of the clusters in the page."""
    return {mask: k for k, mask in enumerate(findings.rivals)}


def _drawing(findings: Findings, page: Page, numbers: dict[int, int]) -> dict[str, Any]:
    estimate = findings.known.estimate
    names = _group_names(page.groups)
    strong = {leaf for found in findings.watched for leaf in mask_leaves(found.mask)}
    return {
        "heading": _heading(findings),
        "headings": _heading(findings).replace("tree", "trees"),
        "labels": findings.labels,
        "groups": [names.index(group) for group in page.groups] or None,
        "group_names": names,
        "palette": _palette(page.groups),
        "strong": sorted(strong),
        "grades": words.GRADES,
        "rival": RIVAL,
        "axis": "" if findings.tree.heights is None else findings.post.potential.height_name,
        "clusters": [
            {
                "m": mask_leaves(mask),
                **_known(estimate(mask)),
                "rivals": [numbers[rival.mask] for rival in findings.rivals[mask]],
            }
            for mask in numbers
        ],
        "trees": [
            {
                **_shape(tree),
                "order": tree.leaf_order(),
                "nodes": [numbers.get(mask, ROOT) for mask in tree.masks[tree.n_leaves :]],
            }
            for tree in findings.trees
        ],
        "samples": [_shape(tree) for tree in findings.samples],
        "pairs": [
            {"size": pairs.size, "p": (1000 * pairs.probability).round().astype(int).tolist()}
            for pairs in findings.pairs
        ],
        "curves": {
            f"curve-{k}": _lines(note.curve) for k, note in enumerate(page.notes) if note.curve
        },
    }


def _known(estimate: Estimate | None) -> dict[str, float | None]:
    """A probability and its standard error; nulls if it cannot be quoted."""
    if estimate is None:
        return {"p": None, "e": 0.0}
    return {"p": float(estimate.value), "e": float(estimate.error)}


def _shape(tree: Tree) -> dict[str, Any]:
    heights = tree.sizes[tree.n_leaves :] if tree.heights is None else tree.heights
    return {
        "children": tree.children.tolist(),
        "heights": [float(f"{height:.6g}") for height in heights],
    }


def _lines(curve: Chart) -> dict[str, Any]:
    lines = [
        {"name": name, "color": color, "x": list(x), "y": list(y)}
        for name, color, x, y in curve.lines
    ]
    return {
        "x": curve.x,
        "y": curve.y,
        "lines": lines,
        "mark": curve.mark,
        "diagonal": curve.diagonal,
        "log": curve.log,
    }
