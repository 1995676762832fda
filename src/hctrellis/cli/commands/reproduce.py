"""``hctrellis reproduce``: its options."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

ABOUT = (
    "Make the tables and figures of the paper (arXiv:2002.11661) again, number by number.\n\n"
    "Writes one page, as HTML (index.html) and as Markdown (reproduction.md with its figures): the "
    "paper's numbers, ours, the difference, and what to conclude. The full size takes minutes, "
    "[bold]--small[/bold] seconds.\n\n"
    "Exit code: 0 if all that is claimed holds, 3 if something does not, 1 if the run failed, 2 if "
    "the command is wrong, 130 after Ctrl-C."
)


class PaperPart(StrEnum):
    """The tables and figures of the paper."""

    all = "all"
    table1 = "table1"
    zmap = "zmap"
    posterior = "posterior"
    sparse = "sparse"
    vertices = "vertices"
    dasgupta = "dasgupta"
    genomics = "genomics"
    complexity = "complexity"
    runtime = "runtime"
    w_jets = "w-jets"


def reproduce(
    parts: Annotated[
        list[PaperPart] | None,
        typer.Argument(metavar="PART", help=f"Which parts to make: {', '.join(PaperPart)}."),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the page.")
    ] = Path("reproduction"),
    small: Annotated[
        bool, typer.Option("--small", help="A small run, to check that everything works.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Gene expression for genomics: CSV with columns sample, subtype (may be empty), "
            "genes. Without it a made-up table is used.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="S", min=0, help="Seed of random numbers.")] = 1,
    html: Annotated[bool, typer.Option(help="Also write index.html.")] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> None:
    from hctrellis.cli.reproduce import run_reproduce

    names = [part.value for part in parts or ()]
    raise typer.Exit(run_reproduce(names, output, small, seed, data, html, quiet))
