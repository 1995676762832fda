"""Reports: what a posterior says, as one HTML page that needs nothing but a browser.

`report_html` and `write_report` are what to call. `findings` asks the posterior, `words` says it
in sentences, `notes` explains what the probabilities mean, and `page` writes the HTML, with
`page.css` for its looks and `page.js` for what moves.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from hctrellis.support.keywords import renamed

if TYPE_CHECKING:
    from hctrellis.clusters import Cluster
    from hctrellis.posterior.base import BasePosterior
    from hctrellis.posterior.optimality import Optimality
    from hctrellis.report.findings import Findings
    from hctrellis.runs.enough import RunReport
    from hctrellis.support.types import FloatArray
    from hctrellis.trust.beta import BetaChoice, SensitivityRow
    from hctrellis.trust.bootstrap import BootstrapSupport
    from hctrellis.trust.opinions import SecondOpinion

__all__ = ["report_html", "write_report"]


def write_report(post: BasePosterior, path: str | os.PathLike[str], **options: Any) -> Path:
    """Write the report of a posterior to a file and return its path; see `report_html`."""
    from hctrellis.support.files import check_writable, write_text

    target = Path(path)
    check_writable(target)
    return write_text(target, report_html(post, **options))


@renamed(n_trees="k", n_samples="size")
def report_html(
    post: BasePosterior,
    *,
    title: str = "How sure is the tree?",
    question: str = "",
    answer: Sequence[str] = (),
    watch: Iterable[Cluster] = (),
    table: npt.ArrayLike | None = None,
    columns: Sequence[str] | None = None,
    groups: Sequence[str] | Mapping[str, str] | None = None,
    beta: BetaChoice | None = None,
    sensitivity: Sequence[SensitivityRow] = (),
    about_sensitivity: str = "",
    second_opinion: SecondOpinion | None = None,
    about_second: str = "",
    bootstrap: BootstrapSupport | None = None,
    optimality: Optimality | None = None,
    runs: RunReport | None = None,
    settings: Sequence[tuple[str, str]] = (),
    model: str = "",
    sources: Sequence[str] = (),
    k: int = 10,
    size: int = 100,
    rng: int | None = 0,
    speak: Callable[[str], str] = str,
) -> str:
    """The report of a posterior: one HTML page that loads nothing from the network.

    It holds a summary in words, the most probable tree to point at and click on, the clusters to
    trust, how probable it is that two items go together, the best trees, what the probabilities
    mean, data and settings, and how to cite. Needs plotly (``pip install "hctrellis[report]"``).

    Parameters
    ----------
    post : Posterior
    title : str
    question : str
        Shown large at the top, with `answer` (paragraphs) below.
    answer : sequence of str
    watch : iterable of clusters
        Clusters to show first, whatever their probability; their members are in bold.
    table : array_like, shape (n, d), optional
        The data, a row per leaf, to be shown in the page.
    columns : sequence of str, optional
        Names of its columns.
    groups : sequence of str, or mapping from label to str, optional
        A group for each leaf, shown as a colour.
    beta : BetaChoice, optional
        How beta was chosen, see `hctrellis.trust.beta.choose_beta`.
    sensitivity : sequence of SensitivityRow
        How the answers move with beta, see `hctrellis.sensitivity`.
    about_sensitivity : str
        What to say instead, if that is not known.
    second_opinion : SecondOpinion, optional
        What another model says of the same leaves, see `hctrellis.second_opinion`.
    about_second : str
        What to say instead, if no other model was asked.
    bootstrap : BootstrapSupport, optional
        Support of clusters by resampling columns, see `hctrellis.bootstrap_support`.
    optimality : Optimality, optional
        How good the best tree is, from ``solve_map(...).optimality_of(tree)``; by default what the
        posterior itself knows.
    runs : RunReport, optional
        Whether the runs that trees were read from are enough, see `hctrellis.compare_runs`.
    settings : sequence of (str, str)
        Names and values to list, before those that the posterior itself gives.
    model : str
        The model in words, for a sentence to copy into a paper; none is given without it.
    sources : sequence of str
        To be cited, besides the method.
    k : int
        How many of the best trees are listed.
    size : int
        How many sampled trees can be laid over the best one.
    rng : int or None
        Seed of the samples.
    speak : callable
        Applied to what is advised, to name options as the command line does.

    Examples
    --------
    >>> import hctrellis as hct
    >>> post = hct.infer(hct.Linkage([[0.0], [1.0], [3.0], [7.0]], labels="abcd"))
    >>> report_html(post)[:15]
    '<!doctype html>'
    """
    from hctrellis.report import notes, words
    from hctrellis.report.compared import compared
    from hctrellis.report.findings import collect
    from hctrellis.report.page import Note, Page, render

    findings = collect(post, watch, k, size, rng)
    means = [notes.meaning(post)]
    if beta is not None:
        means += notes.chosen(beta)
    if sensitivity:
        means.append(notes.moves(findings, sensitivity))
    elif about_sensitivity:
        means.append(Note([about_sensitivity], heading=notes.MOVES))
    if second_opinion is not None:
        means.append(notes.second(findings, second_opinion))
    elif about_second:
        means.append(Note([about_second], heading=notes.SECOND))
    if bootstrap is not None:
        means.append(notes.resampled(bootstrap))
    if runs is not None:
        means += compared(runs)
    values = _as_table(table, post.labels)
    page = Page(
        title=title,
        question=question,
        answer=answer,
        notes=means,
        settings=[*settings, *words.numbers(post)],
        sources=[words.PAPER, *sources],
        columns=_as_columns(columns or _column_names(table), values),
        values=values,
        groups=_as_groups(groups, post.labels),
        support=[
            *_as_opinion(second_opinion, findings),
            *_as_support(bootstrap, post.labels),
        ],
        disputed=_disputed(second_opinion, post.labels),
        proven=optimality,
        opinion="" if second_opinion is None else second_opinion.told(),
        speak=speak,
        sentences=_sentences(findings, model, beta, sensitivity, bootstrap, second_opinion),
    )
    return render(findings, page)


def _sentences(
    findings: Findings,
    model: str,
    beta: BetaChoice | None,
    moves: Sequence[SensitivityRow],
    bootstrap: BootstrapSupport | None,
    opinion: SecondOpinion | None,
) -> list[str]:
    """What to write in a paper about the clusters asked about, or the most probable ones."""
    from hctrellis.report.paper import sentences

    if not model:
        return []
    masks = [found.mask for found in findings.watched or findings.clusters]
    return sentences(findings.post, masks, model, beta, moves, bootstrap, opinion)


def _as_table(table: npt.ArrayLike | None, labels: Sequence[str]) -> FloatArray | None:
    """The table, its rows in the order of the labels if it is a DataFrame that names them."""
    from hctrellis.support.checks import as_floats, frame_labels

    if table is None:
        return None
    values = as_floats(table, "table")
    if values.ndim != 2 or len(values) != len(labels):
        raise ValueError(
            f"table must have {len(labels)} rows, one for each leaf; got shape {values.shape}"
        )
    names = frame_labels(table)
    if names is not None and {*names} == {*labels}:
        values = values[[names.index(label) for label in labels]]
    return values


def _column_names(table: object) -> Sequence[str] | None:
    """The names of the columns of a DataFrame."""
    return [*map(str, table.columns)] if hasattr(table, "columns") else None


def _as_columns(columns: Sequence[str] | None, values: FloatArray | None) -> tuple[str, ...]:
    width = 0 if values is None else values.shape[1]
    if columns is None:
        return tuple(f"column {k + 1}" for k in range(width))
    if len(columns) != width:
        raise ValueError(f"{len(columns)} names were given for {width} columns; give one for each")
    return tuple(map(str, columns))


def _as_groups(
    groups: Sequence[str] | Mapping[str, str] | None, labels: Sequence[str]
) -> tuple[str, ...]:
    if groups is None:
        return ()
    if isinstance(groups, Mapping):
        return tuple(str(groups.get(label) or "none") for label in labels)
    if len(groups) != len(labels):
        raise ValueError(
            f"{len(groups)} groups were given for {len(labels)} leaves; give one for each"
        )
    return tuple(map(str, groups))


def _as_opinion(
    opinion: SecondOpinion | None, findings: Findings
) -> list[tuple[str, dict[int, float]]]:
    """The column that a second opinion adds to the table of clusters, by mask."""
    if opinion is None:
        return []
    from hctrellis.posterior.lookup import Lookup

    known = Lookup(opinion.posterior)
    masks = [found.mask for found in (*findings.clusters, *findings.watched)]
    values = {mask: known.probability(mask) for mask in masks}
    return [(f"by {opinion.names[1]}", {m: p for m, p in values.items() if p is not None})]


def _disputed(opinion: SecondOpinion | None, labels: Sequence[str]) -> dict[int, str]:
    """By whom the clusters about which two models disagree are held likely, by mask."""
    if opinion is None:
        return {}
    number = {label: i for i, label in enumerate(labels)}
    return {
        sum(1 << number[name] for name in each.cluster): opinion.names[each.first < each.second]
        for each in opinion.disputed
    }


def _as_support(
    bootstrap: BootstrapSupport | None, labels: Sequence[str]
) -> list[tuple[str, dict[int, float]]]:
    """The columns that a bootstrap adds to the table of clusters: AU and BP, by mask."""
    if bootstrap is None:
        return []
    number = {label: i for i, label in enumerate(labels)}
    masks = [sum(1 << number[name] for name in row.cluster) for row in bootstrap]
    return [
        ("AU", {mask: row.au for mask, row in zip(masks, bootstrap, strict=True)}),
        ("BP", {mask: row.bp for mask, row in zip(masks, bootstrap, strict=True)}),
    ]
