"""``hctrellis fit``: its options."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hctrellis.cli.commands.checks import as_leaves

ABOUT = (
    "Fit the rates of a shower to the jets of a Parquet file, by maximum likelihood.\n\n"
    "The likelihood of a jet is summed over all trees, exactly. Prints each estimate with its "
    "standard error and its profile-likelihood interval.\n\n"
    "Examples:\n\n"
    "hctrellis fit jets.parquet --potential ginkgo-density --free lam --t-cut 16\n\n"
    "hctrellis fit w.parquet --free lam --free lam_root --t-cut 150 --plot profile.png\n\n"
    "hctrellis fit jets.parquet --t-cut 16 --leaves 5:10"
)


class FitModel(StrEnum):
    """The models of jets that can be fitted."""

    density = "ginkgo-density"
    ginkgo = "ginkgo"
    jetmass = "jetmass"


def fit(
    jets: Annotated[Path, typer.Argument(metavar="FILE", help="A Parquet file with jets.")],
    potential: Annotated[
        FitModel,
        typer.Option(
            "--potential",
            "-p",
            case_sensitive=False,
            help="The model; only the first is a density.",
        ),
    ] = FitModel.density,
    free: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A parameter to fit, lam or lam_root; may be repeated."),
    ] = None,
    t_cut: Annotated[
        float | None, typer.Option(metavar="T", help="Squared mass up to which nothing splits.")
    ] = None,
    lam: Annotated[
        float, typer.Option(metavar="X", help="Decay rate: where to start, or its fixed value.")
    ] = 1.0,
    lam_root: Annotated[
        float | None,
        typer.Option(metavar="X", help="The same of the first splitting, if it differs."),
    ] = None,
    leaves: Annotated[
        str | None,
        typer.Option(
            metavar="LOW:HIGH",
            callback=as_leaves,
            help="Use only jets with a number of particles in a range such as 5:10, and correct "
            "for it.",
        ),
    ] = None,
    level: Annotated[
        float | None,
        typer.Option(metavar="P", help="Probability of the intervals; 0.683 by default."),
    ] = None,
    column: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The column with the momenta, if several have them."),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the profile of each parameter as a picture."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the numbers as JSON.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> None:
    if potential is not FitModel.jetmass and t_cut is None:
        raise typer.BadParameter(f"{potential.value} needs the threshold --t-cut: --t-cut 16")
    from hctrellis.cli.fit import run_fit

    names = free or ["lam"]
    if "lam_root" in names and lam_root is None:
        lam_root = lam
    options = {"t_cut": t_cut, "lam_root": lam_root, "n_leaves": leaves, "column": column}
    given = {name: value for name, value in options.items() if value is not None}
    run_fit(jets, potential.value, names, level, plot, output, quiet, lam=lam, **given)
