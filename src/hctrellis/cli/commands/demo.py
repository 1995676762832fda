"""``hctrellis demo``: its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hctrellis.cli.commands.checks import as_positive

ABOUT = (
    "Answer a famous question about sixteen bacteria, exactly.\n\n"
    "Burtin's table of 1951: does Diplococcus pneumoniae belong with the streptococci, and "
    "Streptococcus fecalis not? All 6.19e15 trees are weighed. Prints the answer and writes a "
    "report and a figure."
)


def demo(
    output: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Folder for the report (report.html) and the figure."),
    ] = Path("demo"),
    beta: Annotated[
        float,
        typer.Option(
            metavar="B",
            callback=as_positive,
            help="How sharply trees are told apart: a tree is weighed by exp(-B x total height).",
        ),
    ] = 2.0,
) -> None:
    from hctrellis.cli.demo import run_demo

    run_demo(output, beta)
