"""``hctrellis simulate``: its options."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hctrellis.cli.commands.checks import as_leaves

ABOUT = "Make up data whose truth is known."
ABOUT_JETS = (
    "Simulate jets with the toy shower Ginkgo and write them to a Parquet file.\n\n"
    "One row per jet: its particles (a list of E, px, py, pz), its true tree in Newick format and "
    "the log likelihood of that tree."
)


class JetPreset(StrEnum):
    """The kinds of simulated jets."""

    qcd = "qcd"
    w = "w"


def jets(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The Parquet file to write.")
    ],
    number: Annotated[int, typer.Option(metavar="N", min=0, help="Number of jets.")] = 1000,
    leaves: Annotated[
        str | None,
        typer.Option(
            metavar="LOW:HIGH",
            callback=as_leaves,
            help="Keep jets with this number of leaves, or in a range such as 5:10.",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="S", min=0, help="The same seed gives the same jets.")
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
        n_leaves=leaves,
        rng=seed,
        preset=preset.value,
        lam=lam,
        lam_root=lam_root,
        t_cut=t_cut,
        mass=mass,
        momentum=momentum,
    )
