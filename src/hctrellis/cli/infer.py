"""``hctrellis infer``: from a table, a matrix or a file of trees to answers with probabilities.

`answers` finds them, this module shows them, `outputs` writes the files that were asked for.
"""

from __future__ import annotations

import math

from rich.console import Console
from rich.table import Table
from rich.text import Text

import hctrellis as hct
from hctrellis.cli.answers import Answers, Request, find
from hctrellis.cli.outputs import check_outputs, write_outputs
from hctrellis.report.words import (
    GRADES,
    grade,
    interval,
    members,
    not_converged,
    shown,
    tiny,
    weighed,
)

TRUSTED = GRADES[2][0]  # clusters from this probability on are listed
SHOWN_CLUSTERS = 30
LEAST_SHOWN = 5
DRAWN_LEAVES = 80  # up to which the tree is drawn in the terminal
PIPE_WIDTH = 1000  # of lines that do not go to a terminal


def run_infer(request: Request) -> None:
    """Find, show and write."""
    check_outputs(request)
    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    answers = find(request, errors)
    if not request.quiet:
        console = Console(highlight=False)
        if not console.is_terminal:
            console = Console(highlight=False, width=PIPE_WIDTH)
        show(answers, console)
        if request.certify:
            console.print(Text(certified(answers.post, request)))
        for note in answers.notes:
            errors.print(Text(f"note: {note}"))
    for line in write_outputs(request, answers):
        if not request.quiet:
            print(line)


def show(answers: Answers, console: Console) -> None:
    """Print what was found."""
    post = answers.post
    for name, value in answers.settings:
        console.print(Text(f"{name}: {value}"))
    console.print(Text(weighed(post)))
    if answers.choice is not None:
        console.print(Text(answers.choice.sentence))
    elif post.potential.has_energy:
        console.print(Text(f"beta = {post.potential.beta:g}, as given"))
    console.print("\n[bold]The most probable tree[/bold], with the probability of every cluster")
    console.print(drawn(post))
    if answers.watched:
        console.print("\n[bold]Clusters asked about[/bold]")
        console.print(clusters_table(post, answers.watched))
    _show_trusted(post, console)
    console.print(Text(_result(post)))
    warning = not_converged(post)
    if warning:
        console.print(Text(warning), style="bold")


def certified(post: hct.Posterior, request: Request) -> str:
    """How close the best tree that can be found is to the best there is."""
    found = hct.solve_map(post.potential, request.time_limit, rng=request.seed)
    line = f"The best of all trees: {found}, log weight {found.log_weight:z.4f}"
    if found.log_weight > post.map_log_weight and found.tree != post.map_tree:
        line += f"; it is not the tree above but {found.tree.to_newick()}"
    return line


def drawn(post: hct.Posterior) -> Text:
    """The best tree, with the probability of every cluster."""
    if post.n_leaves > DRAWN_LEAVES:
        return Text(f"({post.n_leaves} leaves are too many to draw here; see --report or --newick)")
    drawing = post.map_tree.to_text(lambda mask: _note(post, mask))
    return Text(drawing, no_wrap=True)


def _note(post: hct.Posterior, mask: int) -> str:
    return "" if mask == (1 << post.n_leaves) - 1 else shown(post.cluster_probability(mask))


def _show_trusted(post: hct.Posterior, console: Console) -> None:
    trusted = post.cluster_probabilities(min_probability=TRUSTED).masks
    if trusted:
        title = f"[bold]Clusters to trust[/bold] (probability {TRUSTED} or more)"
    else:
        title = f"[bold]No cluster has a probability of {TRUSTED} or more[/bold]; the best are"
        trusted = post.cluster_probabilities().masks[:LEAST_SHOWN]
    if not trusted:
        return
    console.print(f"\n{title}")
    console.print(clusters_table(post, trusted[:SHOWN_CLUSTERS]))
    if len(trusted) > SHOWN_CLUSTERS:
        console.print(f"... {len(trusted) - SHOWN_CLUSTERS} more, see --report or --json")


def clusters_table(post: hct.Posterior, masks: list[int] | tuple[int, ...]) -> Table:
    """Probability, size and members of clusters."""
    sampled = interval(post, (1 << post.n_leaves) - 1) is not None
    head = ["probability", *(["95 % interval"] if sampled else []), "", "size", "cluster"]
    table = Table(*head, box=None, pad_edge=False)
    for mask in masks:
        probability = post.cluster_probability(mask)
        known = interval(post, mask)
        between = [] if known is None else [f"{shown(known[0])} to {shown(known[1])}"]
        row = (shown(probability), *between, grade(probability), str(mask.bit_count()))
        table.add_row(*row, Text(members(mask, post.labels)))
    return table


def _result(post: hct.Posterior) -> str:
    bound = ">=" if not post.is_exact and post.potential.has_energy else "="
    best = math.exp(post.map_log_probability)
    return (
        f"\nlog Z {bound} {post.log_partition:z.4f}; the best tree has log probability "
        f"{post.map_log_probability:z.4f} ({tiny(best)})"
    )
