"""The commands and their options."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from hctrellis._version import __version__

ABOUT = (
    "Exact inference over hierarchical clusterings.\n\n"
    "Every binary tree over your items gets a probability: see the best tree, and how probable "
    "each cluster is over all trees. Start with [bold]hctrellis demo[/bold]."
)
ABOUT_DEMO = (
    "Answer a famous question about sixteen bacteria, exactly.\n\n"
    "Burtin's table of 1951: does Diplococcus pneumoniae belong with the streptococci, and "
    "Streptococcus fecalis not? All 6.19e15 trees are weighed. Prints the answer and writes a "
    "report."
)

app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode="rich")


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command; errors are raised, not shown."""
    command = typer.main.get_command(app)
    given = None if arguments is None else list(arguments)
    try:
        return command.main(given, prog_name="hctrellis", standalone_mode=False) or 0
    except typer.Abort:
        raise KeyboardInterrupt from None


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hctrellis {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True, help=ABOUT)
def hctrellis(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _positive(beta: float) -> float:
    if not 0 < beta < float("inf"):
        raise typer.BadParameter(f"beta must be a positive number; got {beta:g}")
    return beta


@app.command(help=ABOUT_DEMO)
def demo(
    output: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for the report (report.html).")
    ] = Path("demo"),
    beta: Annotated[
        float,
        typer.Option(
            metavar="B",
            callback=_positive,
            help="How sharply trees are told apart: a tree is weighed by exp(-B x total height).",
        ),
    ] = 2.0,
) -> None:
    from hctrellis.cli.demo import run_demo

    run_demo(output, beta)
