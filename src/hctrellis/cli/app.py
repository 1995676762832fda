"""The commands, put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
import typer.core

from hctrellis._version import __version__
from hctrellis.cli.commands import batch, demo, fit, infer, reproduce, simulate
from hctrellis.cli.errors import INTERRUPTED, complain

ABOUT = (
    "Exact inference over hierarchical clusterings.\n\n"
    "Every binary tree over your items gets a probability: see the best tree, and how probable "
    "each cluster is over all trees. Start with [bold]hctrellis demo[/bold]."
)


class _Interruptible(typer.core.TyperGroup):
    """Commands that say so when they are interrupted."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Exit(complain("interrupted", INTERRUPTED)) from None


HELP = {"help_option_names": ["-h", "--help"]}
app = typer.Typer(
    cls=_Interruptible,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings=HELP,
)
simulations = typer.Typer(context_settings=HELP)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command; errors are raised, not shown."""
    command = typer.main.get_command(app)
    given = None if arguments is None else list(arguments)
    return command.main(given, prog_name="hctrellis", standalone_mode=False) or 0


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


@simulations.callback(invoke_without_command=True, help=simulate.ABOUT)
def about_simulate(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


simulations.command(help=simulate.ABOUT_JETS)(simulate.jets)
app.command(help=demo.ABOUT)(demo.demo)
app.command(help=infer.ABOUT)(infer.infer)
app.command(help=batch.ABOUT)(batch.batch)
app.command(help=fit.ABOUT)(fit.fit)
app.command(help=reproduce.ABOUT)(reproduce.reproduce)
app.add_typer(simulations, name="simulate")
