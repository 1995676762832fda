"""The commands and their options."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
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
ABOUT_SIMULATE = "Make up data of which the truth is known."
ABOUT_JETS = (
    "Simulate jets with the toy shower Ginkgo and write them to a Parquet file.\n\n"
    "One row per jet: its particles (a list of E, px, py, pz), its true tree in Newick format and "
    "the log likelihood of that tree."
)
ABOUT_BATCH = (
    "Exact inference on every jet of a Parquet file.\n\n"
    "The jets are lists of particles E, px, py, pz: in one column of records, or in four columns. "
    "The answers (log Z, best tree, number of trees, ...) go to a folder of Parquet files, part "
    "by part; a run that was stopped or killed continues if the same command is given again.\n\n"
    "Exit code: 0 if all is well, 3 if some jets failed (their rows say why), 1 if the run failed, "
    "2 if the command is wrong, 130 after Ctrl-C."
)


class JetModel(StrEnum):
    """The models of jets."""

    ginkgo = "ginkgo"
    jetmass = "jetmass"


class JetPreset(StrEnum):
    """The kinds of simulated jets."""

    qcd = "qcd"
    w = "w"


app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode="rich")
simulate = typer.Typer()
app.add_typer(simulate, name="simulate")


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


@simulate.callback(invoke_without_command=True, help=ABOUT_SIMULATE)
def about_simulate(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _leaves(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    low, _, high = text.partition(":")
    try:
        return int(low), int(high or low)
    except ValueError:
        raise typer.BadParameter(
            f"give a number of leaves or a range such as 5:10; got {text!r}"
        ) from None


@simulate.command(help=ABOUT_JETS)
def jets(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The Parquet file to write.")
    ],
    number: Annotated[int, typer.Option(metavar="N", min=0, help="Number of jets.")] = 1000,
    leaves: Annotated[
        str | None,
        typer.Option(
            metavar="LOW:HIGH",
            callback=_leaves,
            help="Keep jets with so many leaves, such as 5:10.",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="S", min=0, help="Seed: the same seed, the same jets.")
    ] = None,
    preset: Annotated[
        JetPreset,
        typer.Option(case_sensitive=False, help="Jets of a light quark or gluon, or of a W boson."),
    ] = JetPreset.qcd,
    lam: Annotated[float | None, typer.Option(metavar="X", help="Decay rate.")] = None,
    lam_root: Annotated[
        float | None, typer.Option(metavar="X", help="Decay rate of the first splitting.")
    ] = None,
    t_cut: Annotated[
        float, typer.Option(metavar="T", help="Squared mass up to which nothing splits.")
    ] = 16.0,
    mass: Annotated[float | None, typer.Option(metavar="M", help="Mass of the root.")] = None,
    momentum: Annotated[
        float, typer.Option(metavar="P", help="Size of the momentum of the root.")
    ] = 400.0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> None:
    from hctrellis.cli.simulate import run_simulate_jets

    run_simulate_jets(
        number,
        output,
        quiet,
        leaves=leaves,
        rng=seed,
        preset=preset.value,
        lam=lam,
        lam_root=lam_root,
        t_cut=t_cut,
        mass=mass,
        momentum=momentum,
    )


@app.command(help=ABOUT_BATCH)
def batch(
    jets: Annotated[Path, typer.Argument(metavar="FILE", help="A Parquet file with jets.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the answers.")
    ],
    lam: Annotated[float, typer.Option(metavar="X", help="Decay rate.")],
    potential: Annotated[
        JetModel, typer.Option(case_sensitive=False, help="The model of a splitting.")
    ] = JetModel.ginkgo,
    t_cut: Annotated[
        float | None,
        typer.Option(metavar="T", help="Squared mass below which nothing splits (ginkgo)."),
    ] = None,
    lam_root: Annotated[
        float | None, typer.Option(metavar="X", help="Decay rate of the first splitting (ginkgo).")
    ] = None,
    entropy: Annotated[bool, typer.Option("--entropy", help="Also the entropies.")] = False,
    true_trees: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Also the log weights of the trees (Newick) of this column."
        ),
    ] = None,
    seconds: Annotated[bool, typer.Option("--seconds", help="Also the time of each jet.")] = False,
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="WHO",
            help="serial, threads (default), processes, or the address of a Dask scheduler, "
            "tcp://...",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Threads or processes; by default all cores."),
    ] = None,
    chunk_size: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Jets per part of the answers.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Remove what an earlier run left in the folder.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress bar and no summary.")
    ] = False,
) -> None:
    if potential is JetModel.ginkgo and t_cut is None:
        raise typer.BadParameter("ginkgo needs the threshold --t-cut, such as --t-cut 16")
    if potential is JetModel.jetmass and (t_cut is not None or lam_root is not None):
        raise typer.BadParameter("jetmass has no threshold and one rate: only --lam")
    from hctrellis.cli.batch import run_batch

    code = run_batch(
        jets,
        output,
        quiet,
        overwrite,
        potential=potential.value,
        lam=lam,
        t_cut=t_cut,
        lam_root=lam_root,
        entropy=entropy,
        true_trees=true_trees,
        seconds=seconds,
        scheduler=scheduler,
        workers=workers,
        chunk_size=chunk_size,
    )
    raise typer.Exit(code)
