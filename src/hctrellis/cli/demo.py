"""``hctrellis demo``: Burtin's bacteria, from the table to an answer with a probability.

`find` does the inference, `show` prints what was found, `page_options` says what the report shows
besides.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

import hctrellis as hct
from hctrellis.cli.infer import clusters_table, drawn
from hctrellis.datasets import Burtin, burtin
from hctrellis.report.words import shown, spoken
from hctrellis.support.files import replaced

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray
    from hctrellis.trust.beta import SensitivityRow
    from hctrellis.trust.opinions import SecondOpinion

QUESTION = (
    "Does Diplococcus pneumoniae belong with the streptococci, and Streptococcus fecalis not?"
)
STREPTOCOCCI = ("Streptococcus hemolyticus", "Streptococcus viridans")
NEWCOMER, OUTSIDER = "Diplococcus pneumoniae", "Streptococcus fecalis"
WITH_NEWCOMER = frozenset((*STREPTOCOCCI, NEWCOMER))
WITH_OUTSIDER = frozenset((*STREPTOCOCCI, OUTSIDER))
FOLLOWED = 8  # clusters of the best tree that are also shown at other values of beta
BOXED = 0.8  # clusters from this probability on have a box in the figure
SHOWN = 0.2  # clusters below this probability are not listed

HISTORY = (
    "The names are those of 1951. Diplococcus pneumoniae became Streptococcus pneumoniae in 1974, "
    "and Streptococcus fecalis left the streptococci in 1984, as Enterococcus faecalis."
)
SOURCE = (
    "The data: W. Burtin, Scope, Fall 1951: minimum inhibitory concentrations of three antibiotics."
)


@dataclass(frozen=True, eq=False)
class DemoAnswers:
    """What the demo found.

    Attributes
    ----------
    data : Burtin
    post : Posterior
    moves : list of SensitivityRow
        The answers at beta / 2, beta and 2 beta.
    rule : float
        The beta that the rule of thumb for tables of few columns gives.
    opinion : SecondOpinion
        What contrasts say, a model that needs no beta.
    first_seconds, seconds : float
        Time of the first inference, which also compiles or loads the kernels, and of another.
    """

    data: Burtin
    post: hct.Posterior
    moves: list[SensitivityRow]
    rule: float
    opinion: SecondOpinion
    first_seconds: float
    seconds: float

    @property
    def beta(self) -> float:
        """The beta asked for."""
        return self.post.potential.beta


def run_demo(output: Path, beta: float) -> None:
    """Find, print, and write ``report.html`` and ``tree.pdf``, ``.svg``, ``.png`` into a folder."""
    from hctrellis.report import write_report

    console = Console()
    output.mkdir(parents=True, exist_ok=True)
    with console.status("Weighing all trees (the first run also compiles, for some seconds) ..."):
        findings = find(beta)
    show(findings, console)
    with console.status("Writing the report ..."):
        path = write_report(findings.post, output / "report.html", **page_options(findings))
    console.print("\nReport, to point at and click on (open it in a browser):")
    console.print(Text(str(path), style="bold"), soft_wrap=True)
    if find_spec("matplotlib") is not None:
        with console.status("Drawing the figure ..."):
            paths = draw(findings, output)
        console.print("Figure, for a paper or a slide:")
        console.print(Text(", ".join(map(str, paths)), style="bold"), soft_wrap=True)


def draw(findings: DemoAnswers, output: Path) -> list[Path]:
    """The most probable tree as a figure, in three formats."""
    from hctrellis.plotting import figure_axes, plot_dendrogram, save_figure

    post = findings.post
    classes = dict(zip(post.labels, page_options(findings)["groups"], strict=True))
    axes = figure_axes(post.map_tree, classes)
    plot_dendrogram(post, colors=classes, ax=axes, boxes=BOXED)
    paths = [output / f"tree.{ending}" for ending in ("pdf", "svg", "png")]
    for path in paths:
        with replaced(path) as half:
            save_figure(axes, half, path.suffix.removeprefix("."))
    return paths


# ---- finding ----------------------------------------------------------------------------------


def find(beta: float) -> DemoAnswers:
    """Exact inference at beta, beta / 2 and 2 beta."""
    from hctrellis.trust.beta import choose_beta, sensitivity

    data = burtin()
    table = data.log10_standardised()

    def make(values: FloatArray | None, beta: float) -> hct.Linkage:
        return hct.Linkage(table, "average", beta, labels=data.labels)

    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        model = make(table, beta)
        post = hct.infer(model, hct.FullTrellis(model.n_leaves))
        inner = post.map_tree.cluster_labels() - {frozenset(data.labels)}
        best = sorted(inner, key=post.cluster_probability, reverse=True)[:FOLLOWED]
        seconds.append(time.perf_counter() - start)
    clusters = dict.fromkeys((WITH_NEWCOMER, WITH_OUTSIDER, *best))
    moves = sensitivity(make, table, beta, clusters, post.trellis)
    rule = choose_beta(make, table, rng=0).beta
    other = hct.infer(hct.Contrasts(table, labels=data.labels))
    opinion = hct.second_opinion(post, other, ("average linkage", "contrasts"))
    return DemoAnswers(data, post, moves, rule, opinion, *seconds)


def by_hand(findings: DemoAnswers) -> str:
    """How beta was chosen."""
    return (
        f"beta = {findings.beta:g} was chosen by hand; the rule of thumb for tables of few columns "
        f"(the peak of the heat capacity) gives {findings.rule:g}."
    )


def without_beta(findings: DemoAnswers) -> str:
    """What a model without beta says of the question."""
    other = findings.opinion.posterior
    new, old = (
        spoken(other.cluster_probability(names)) for names in (WITH_NEWCOMER, WITH_OUTSIDER)
    )
    return (
        f"A model that needs no beta (contrasts, fitted to the table) gives {new} and {old}: it is "
        "what hctrellis infer shows first for a table of so few columns."
    )


def dilution_step(data: Burtin) -> float:
    """How far a two-fold dilution of all three drugs moves a bacterium, standardised."""
    return float(np.linalg.norm(np.log10(2) / np.log10(data.values).std(axis=0)))


# ---- words ------------------------------------------------------------------------------------


def verdict(post: hct.BasePosterior) -> str:
    """The answer in one or two sentences."""
    new, old = (post.cluster_probability(names) for names in (WITH_NEWCOMER, WITH_OUTSIDER))
    both = " and ".join(STREPTOCOCCI)
    return (
        f"{_sureness(new, old, post.potential.beta)}: {NEWCOMER} forms a cluster with {both} with "
        f"a probability of {spoken(new)}. {OUTSIDER} forms one with the same two with a "
        f"probability of {spoken(old)}."
    )


def _sureness(new: float, old: float, beta: float) -> str:
    for bound, text in ((0.99, "Yes"), (0.95, "Very probably"), (0.8, "Probably")):
        if new >= bound:
            return text
    if new >= 0.5:
        return "More likely than not"
    lean = ", though the data lean that way" if new > 2 * old else ""
    return f"Undecided at beta = {beta:g}{lean}"


def page_options(findings: DemoAnswers) -> dict[str, Any]:
    """What the report shows besides the posterior."""
    data, beta = findings.data, findings.beta
    scale = (
        f"{beta:g}: an increase of the total height by {1 / beta:.3g} makes a tree e times less "
        "probable. (A two-fold dilution of all three drugs is a distance of "
        f"{dilution_step(data):.2f}.) {by_hand(findings)}"
    )
    return {
        "title": "Sixteen bacteria, three antibiotics",
        "question": QUESTION,
        "answer": [verdict(findings.post), without_beta(findings), HISTORY],
        "watch": [WITH_NEWCOMER, WITH_OUTSIDER],
        "table": data.values,
        "columns": data.columns,
        "groups": [f"Gram-{stain}" for stain in data.gram],
        "sensitivity": findings.moves,
        "second_opinion": findings.opinion,
        "settings": [
            ("Table", "log10 of the concentrations, columns standardised"),
            ("Distance", "Euclidean; merge height = average linkage"),
            ("beta", scale),
            ("Time", f"{findings.seconds:.2f} s with compiled kernels"),
        ],
        "model": "average linkage of Euclidean distances (log10, columns standardised)",
        "sources": [SOURCE],
    }


# ---- printing ---------------------------------------------------------------------------------


def show(findings: DemoAnswers, console: Console) -> None:
    """Print what was found."""
    post = findings.post
    console.print(Panel(Text(QUESTION, style="bold"), title="Burtin's bacteria, 1951"))
    console.print(verdict(post), highlight=False)
    console.print("\n[bold]How the answer moves with beta[/bold]")
    console.print(_moves(findings.moves))
    console.print(by_hand(findings), highlight=False)
    console.print(without_beta(findings), highlight=False)
    console.print("[bold]The most probable tree[/bold], with the probability of every cluster")
    tree = drawn(post)
    tree.highlight_words([*STREPTOCOCCI, NEWCOMER, OUTSIDER], style="bold")
    console.print(tree)
    console.print(f"\n[bold]Clusters of probability {SHOWN:g} or more[/bold], over all trees")
    console.print(clusters_table(post, post.cluster_probabilities(SHOWN).masks))
    for line in _facts(findings):
        console.print(line, highlight=False)


def _moves(rows: Sequence[SensitivityRow]) -> Table:
    table = Table("beta", *(f"P(with {name})" for name in (NEWCOMER, OUTSIDER)), box=None)
    for row in rows:
        found = (row.probabilities[names] for names in (WITH_NEWCOMER, WITH_OUTSIDER))
        table.add_row(f"{row.beta:g}", *map(shown, found))
    return table


def _facts(findings: DemoAnswers) -> list[str]:
    post = findings.post
    return [
        f"\nTrees weighed: {post.n_trees:,} (all there are)",
        f"log Z = {post.log_partition:.4f}; log probability of the best tree = "
        f"{post.map_log_probability:.4f}",
        f"Time: {findings.seconds:.2f} s for log Z, best tree and cluster probabilities "
        f"({findings.first_seconds:.1f} s for the first, with compiling or loading)",
    ]
