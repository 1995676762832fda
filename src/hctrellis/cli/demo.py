"""``hctrellis demo``: Burtin's bacteria, from the table to an answer with a probability.

`find` does the inference, `show` prints what was found, `hctrellis.cli.demo_page` writes the
report.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

import hctrellis as hct
from hctrellis.clusters import split_members
from hctrellis.datasets import Burtin, burtin
from hctrellis.plotting import show_probability

QUESTION = (
    "Does Diplococcus pneumoniae belong with the streptococci, and Streptococcus fecalis not?"
)
STREPTOCOCCI = ("Streptococcus hemolyticus", "Streptococcus viridans")
NEWCOMER, OUTSIDER = "Diplococcus pneumoniae", "Streptococcus fecalis"
SHOWN = 0.2  # clusters below this probability are not listed
DIGITS = 3


@dataclass(frozen=True)
class Answer:
    """The probabilities of the two clusters of the question at one beta."""

    beta: float
    with_newcomer: float
    with_outsider: float


@dataclass(frozen=True)
class Findings:
    """What the demo found.

    Attributes
    ----------
    data : Burtin
    post : Posterior
    tree : Tree
        The MAP tree with the heights of its merges.
    answers : tuple of Answer
        At beta / 2, beta and 2 beta.
    first_seconds, seconds : float
        Time of the first inference, which also compiles or loads the kernels, and of the last.
    """

    data: Burtin
    post: hct.Posterior
    tree: hct.Tree
    answers: tuple[Answer, ...]
    first_seconds: float
    seconds: float

    @property
    def answer(self) -> Answer:
        """The answer at the beta asked for."""
        return self.answers[1]

    @property
    def beta(self) -> float:
        return self.answer.beta


def run_demo(output: Path, beta: float) -> None:
    """Find, print, and write ``report.html`` into the folder `output`."""
    from hctrellis.cli.demo_page import make_page
    from hctrellis.report.page import render

    console = Console()
    output.mkdir(parents=True, exist_ok=True)
    with console.status("Weighing all trees (the first run also compiles, for some seconds) ..."):
        findings = find(beta)
    show(findings, console)
    path = output / "report.html"
    path.write_text(render(make_page(findings)), encoding="utf-8")
    console.print(f"\nReport with the drawn tree: [bold]{path}[/bold] (open it in a browser)")


# ---- finding ----------------------------------------------------------------------------------


def find(beta: float) -> Findings:
    """Exact inference at beta / 2, beta and 2 beta."""
    data = burtin()
    table = data.log10_standardised()
    posteriors, answers, seconds = [], [], []
    for b in (beta / 2, beta, 2 * beta):
        start = time.perf_counter()
        post = hct.infer(hct.Linkage(table, "average", beta=b, labels=data.labels))
        answers.append(_answer(post, b))
        posteriors.append(post)
        seconds.append(time.perf_counter() - start)
    tree = _with_heights(posteriors[1].map_tree, hct.Linkage(table, "average", labels=data.labels))
    return Findings(data, posteriors[1], tree, tuple(answers), seconds[0], seconds[-1])


def _answer(post: hct.Posterior, beta: float) -> Answer:
    new, old = (post.cluster_probability([*STREPTOCOCCI, name]) for name in (NEWCOMER, OUTSIDER))
    return Answer(beta, new, old)


def _with_heights(tree: hct.Tree, model: hct.Linkage) -> hct.Tree:
    """The tree with the height of each merge, the energy of its split."""
    heights = -model.split_log_weights(*split_members(tree))
    return hct.Tree(tree.children, tree.labels, heights)


def dilution_step(data: Burtin) -> float:
    """How far a two-fold dilution of all three drugs moves a bacterium, standardised."""
    return float(np.linalg.norm(np.log10(2) / np.log10(data.values).std(axis=0)))


def trusted(post: hct.Posterior) -> list[tuple[str, int, float]]:
    """Members, size and probability of the clusters worth showing, without the set of all."""
    return [
        (_members(row.cluster, post.labels), row.size, row.probability)
        for row in post.cluster_probabilities(min_probability=SHOWN)
        if 1 < row.size < post.n_leaves
    ]


def _members(cluster: Iterable[str], labels: Sequence[str]) -> str:
    """A cluster in words: its members, or what it leaves out if that is less to read."""
    inside = set(cluster)
    members = [label for label in labels if label in inside]
    others = [label for label in labels if label not in inside]
    return f"all but {', '.join(others)}" if len(others) < len(members) else ", ".join(members)


# ---- words ------------------------------------------------------------------------------------


def shown(probability: float) -> str:
    """A probability as the demo prints it."""
    return show_probability(probability, DIGITS)


def verdict(answer: Answer) -> str:
    """The answer in one or two sentences."""
    both = " and ".join(STREPTOCOCCI)
    return (
        f"{_sureness(answer)}: {NEWCOMER} forms a cluster with {both} with a probability of "
        f"{_spoken(answer.with_newcomer)}. {OUTSIDER} forms one with the same two with a "
        f"probability of {_spoken(answer.with_outsider)}."
    )


def _spoken(probability: float) -> str:
    return shown(probability).replace("<", "less than ").replace(">", "more than ")


def _sureness(answer: Answer) -> str:
    if answer.with_newcomer >= 0.99:
        return "Yes"
    if answer.with_newcomer >= 0.95:
        return "Very probably"
    if answer.with_newcomer >= 0.8:
        return "Probably"
    if answer.with_newcomer >= 0.5:
        return "More likely than not"
    if answer.with_newcomer > 2 * answer.with_outsider:
        return f"Undecided at beta = {answer.beta:g}, though the data lean that way"
    return f"Undecided at beta = {answer.beta:g}"


# ---- printing ---------------------------------------------------------------------------------


def show(findings: Findings, console: Console) -> None:
    """Print what was found."""
    console.print(Panel(Text(QUESTION, style="bold"), title="Burtin's bacteria, 1951"))
    console.print(verdict(findings.answer), highlight=False)
    console.print("\n[bold]How the answer moves with beta[/bold]")
    console.print(_sensitivity(findings.answers))
    console.print("[bold]The most probable tree[/bold], with the probability of every cluster")
    console.print(_drawn(findings))
    console.print(f"\n[bold]Clusters of probability {SHOWN:g} or more[/bold], over all trees")
    console.print(_clusters(findings.post))
    for line in _facts(findings):
        console.print(line, highlight=False)


def _sensitivity(answers: Sequence[Answer]) -> Table:
    table = Table("beta", *(f"P(with {name})" for name in (NEWCOMER, OUTSIDER)), box=None)
    for answer in answers:
        row = (answer.with_newcomer, answer.with_outsider)
        table.add_row(f"{answer.beta:g}", *map(shown, row))
    return table


def _drawn(findings: Findings) -> Text:
    post = findings.post
    drawing = findings.tree.to_text(lambda mask: show_probability(post.cluster_probability(mask)))
    text = Text(drawing, no_wrap=True)
    text.highlight_words([*STREPTOCOCCI, NEWCOMER, OUTSIDER], style="bold")
    return text


def _clusters(post: hct.Posterior) -> Table:
    table = Table("probability", "size", "cluster", box=None)
    for members, size, probability in trusted(post):
        table.add_row(shown(probability), str(size), members)
    return table


def _facts(findings: Findings) -> list[str]:
    post = findings.post
    return [
        f"\nTrees weighed: {post.n_trees:,} (all there are)",
        f"log Z = {post.log_partition:.4f}; log probability of the best tree = "
        f"{post.map_log_probability:.4f}",
        f"Time: {findings.seconds:.2f} s for log Z, best tree and cluster probabilities "
        f"({findings.first_seconds:.1f} s for the first, with compiling or loading)",
    ]
