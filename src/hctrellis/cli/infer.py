"""``hctrellis infer``: from a table, a matrix or a file of trees to answers with probabilities.

`answers` finds them, this module shows them, `outputs` writes the files that were asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

import hctrellis as hct
from hctrellis.cli.answers import Request, find
from hctrellis.cli.outputs import check_outputs, write_outputs
from hctrellis.posterior.lookup import Lookup
from hctrellis.report.words import (
    GRADES,
    about_best,
    grade,
    interval,
    log_z,
    members,
    not_converged,
    shown,
    ties,
    tiny,
    weighed,
    with_error,
)
from hctrellis.support.printable import show_probability
from hctrellis.tables.flat import all_single
from hctrellis.tables.result import Clustering
from hctrellis.tables.speech import on_command_line

PROBABLE = GRADES[2][0]  # clusters from this probability on are listed
SHOWN_CLUSTERS = 30
LEAST_SHOWN = 5
DRAWN_LEAVES = 80  # up to which the tree is drawn in the terminal
CERTIFY = " (--certify searches for a proof, for --time-limit seconds)"
PIPE_WIDTH = 1000  # of lines that do not go to a terminal


def run_infer(request: Request) -> None:
    """Find, show and write."""
    check_outputs(request)
    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    answers = find(request, errors)
    if request.flat is not None and request.n_clusters is None and answers.posterior.is_reliable:
        alone = all_single(answers.flat())
        answers.notes.extend([on_command_line(alone)] if alone else [])
    if not request.quiet:
        console = Console(highlight=False)
        if not console.is_terminal:
            console = Console(highlight=False, width=PIPE_WIDTH)
        show(answers, console)
        for note in dict.fromkeys(answers.notes):
            errors.print(Text(f"note: {note}"))
    for line in write_outputs(request, answers):
        if not request.quiet:
            print(line)


def show(answers: Clustering, console: Console) -> None:
    """Print what was found."""
    post = answers.posterior
    for name, value in answers.settings:
        console.print(Text(f"{name}: {value}"))
    console.print(Text(weighed(post)))
    if answers.beta_choice is not None:
        console.print(Text(answers.beta_choice.sentence))
    elif post.potential.has_energy:
        console.print(Text(f"beta = {post.potential.beta:g}, as given"))
    console.print(f"\n[bold]The {post.map_name}[/bold]{_with(post)}")
    console.print(drawn(post))
    if answers.watched:
        console.print("\n[bold]Clusters asked about[/bold]")
        console.print(clusters_table(post, answers.watched, answers))
    if post.is_reliable:
        _show_probable(answers, console)
    for text in (answers.about_second, answers.about_moves):
        if text:
            console.print(Text(on_command_line(text)))
    console.print(Text(_result(post)))
    for text in (_optimality(answers), ties(post), on_command_line(not_converged(post))):
        if text:
            console.print(Text(text), style="bold")


def _with(post: hct.BasePosterior) -> str:
    return ", with the probability of every cluster" if post.is_reliable else ""


def _optimality(answers: Clustering) -> str:
    """How good the tree above is, and what to do to know more."""
    post, found = answers.posterior, answers.certificate
    if found is None:
        known = about_best(post)
        proven = post.optimality.status == "optimal"
        more = CERTIFY if known and not proven and answers.is_provable else ""
        exact = answers.wish.certify and post.is_exact and answers.items is not None
        if exact:
            return "The tree above is proven optimal: all trees were weighed."
        return f"{_the_tree(post, known)}{more}" if known else ""
    line = _the_tree(post, about_best(post, answers.optimality))
    if found.log_weight > post.map_log_weight and found.tree != post.map_tree:
        line += (
            f" A better one, {found}, was found on the way (log weight "
            f"{found.log_weight:z.4f}): {found.tree.to_newick()}"
        )
    return line


def _the_tree(post: hct.BasePosterior, known: str) -> str:
    """What is known of it, with what it is in place of "It"."""
    above = " above" if post.n_leaves <= DRAWN_LEAVES else ""
    return f"The tree{above} {known.removeprefix('It ')}"


def drawn(post: hct.BasePosterior) -> Text:
    """The best tree, with the probability of every cluster."""
    if post.n_leaves > DRAWN_LEAVES:
        return Text(f"({post.n_leaves} leaves are too many to draw here; see --report or --figure)")
    known, everything = Lookup(post), (1 << post.n_leaves) - 1

    def note(mask: int) -> str:
        estimate = None if mask == everything else known.estimate(mask)
        return "" if estimate is None else with_error(estimate)

    return Text(post.map_tree.to_text(note), no_wrap=True)


def _show_probable(answers: Clustering, console: Console) -> None:
    post = answers.posterior
    masks = post.cluster_probabilities(min_probability=PROBABLE).masks
    if masks:
        title = f"[bold]Clusters of probability {PROBABLE} or more[/bold]"
    else:
        title = f"[bold]No cluster has a probability of {PROBABLE} or more[/bold]; the best are"
        masks = post.cluster_probabilities().masks[:LEAST_SHOWN]
    if not masks:
        return
    console.print(f"\n{title}{_about_range(answers)}")
    console.print(clusters_table(post, masks[:SHOWN_CLUSTERS], answers))
    if len(masks) > SHOWN_CLUSTERS:
        console.print(f"... {len(masks) - SHOWN_CLUSTERS} more, see --report or --json")


def _about_range(answers: Clustering) -> str:
    if not _ranges(answers):
        return ""
    rule = answers.beta_choice is not None and answers.beta_choice.rule != "bootstrap"
    return ", and at half and twice beta" + ", a rule of thumb" * rule


def _ranges(answers: Clustering | None) -> dict[frozenset[str], str]:
    """The probabilities at half and twice beta, if it is a rule of thumb or they are asked for."""
    if answers is None:
        return {}
    choice = answers.beta_choice
    rule = choice is not None and choice.rule != "bootstrap"
    if not (rule or answers.wish.sensitivity) or not answers.moves:
        return {}
    first, *_, last = answers.moves
    return {
        names: f"{show_probability(p)} to {show_probability(last.probabilities[names])}"
        for names, p in first.probabilities.items()
    }


def clusters_table(
    post: hct.BasePosterior, masks: Sequence[int], answers: Clustering | None = None
) -> Table:
    """Probability, size and members of clusters; intervals, ranges, AU and BP where known."""
    known, ranges = Lookup(post), _ranges(answers)
    resampled = {row.cluster: row for row in (answers.bootstrap if answers else None) or ()}
    drawn_trees = interval(post, (1 << post.n_leaves) - 1) is not None
    head = ["probability"]
    opinion = None if answers is None else answers.second_opinion
    other = None if opinion is None else Lookup(opinion.posterior)
    disputed = set() if opinion is None else {each.cluster for each in opinion.disputed}
    head += ["95 % interval"] * drawn_trees + ["half to twice beta"] * bool(ranges)
    head += [] if opinion is None else [f"by {opinion.names[1]}"]
    head += ["AU", "BP"] * bool(resampled) + ["", "size", "cluster"]
    table = Table(*head, box=None, pad_edge=False)
    for mask in masks:
        names = frozenset(post.labels[k] for k in range(post.n_leaves) if mask >> k & 1)
        row = [with_error(known.estimate(mask))]
        between = interval(post, mask)
        if drawn_trees:
            row.append("" if between is None else f"{shown(between[0])} to {shown(between[1])}")
        if ranges:
            row.append(ranges.get(names, ""))
        if other is not None:
            row.append(with_error(other.estimate(mask)) + ", disputed" * (names in disputed))
        if resampled:
            support = resampled.get(names)
            row += ["", ""] if support is None else [_support(support.au), _support(support.bp)]
        row += [grade(known.probability(mask)), str(mask.bit_count())]
        table.add_row(*row, Text(members(mask, post.labels)))
    return table


def _support(value: float) -> str:
    return "–" if value != value else show_probability(value)


def _result(post: hct.BasePosterior) -> str:
    log_p = post.map_log_probability
    known = f"log weight {post.map_log_weight:z.4f}"
    if log_p is not None and post.is_reliable:
        known = f"log probability {log_p:z.4f} ({tiny(math.exp(log_p))})"
    value = log_z(post)
    sign = ">= " if value.startswith("at least ") else "= "
    return f"\nlog Z {sign}{value.removeprefix('at least ')}; the {post.map_name} has {known}"
