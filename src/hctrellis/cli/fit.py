"""``hctrellis fit``: the rates of a shower from the jets of a Parquet file."""

from __future__ import annotations

import json
import re
import warnings
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

ABOUT_FIT = (
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


def as_leaves(text: str | None) -> tuple[int, int] | None:
    """A range of numbers of leaves."""
    if text is None:
        return None
    low, _, high = text.partition(":")
    try:
        return int(low), int(high or low)
    except ValueError:
        raise typer.BadParameter(
            f"give a number of leaves or a range such as 5:10; got {text!r}"
        ) from None


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
    names = free or ["lam"]
    if "lam_root" in names and lam_root is None:
        lam_root = lam
    options = {"t_cut": t_cut, "lam_root": lam_root, "n_leaves": leaves, "column": column}
    given = {name: value for name, value in options.items() if value is not None}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = _fitted(jets, potential.value, names, lam=lam, progress=not quiet, **given)
    for each in dict.fromkeys(str(warning.message) for warning in caught):
        said = re.sub(r"n_leaves=\((\d+), (\d+)\)", r"--leaves \1:\2", each)
        typer.echo(f"warning: {said}", err=True)
    rows = _rows(found, level)
    if not quiet:
        typer.echo("\n".join(_lines(found, rows, level)))
    if output is not None:
        output.write_text(json.dumps(_numbers(found, rows), indent=1) + "\n")
    if plot is not None:
        _plot(found, plot)
        if not quiet:
            typer.echo(f"profile written to {plot}")


def _fitted(jets: Path, potential: str, names: list[str], **options: Any) -> Any:
    import hctrellis as hct

    return hct.fit(potential, jets, free=names, **options)


def _rows(found: Any, level: float | None) -> dict[str, tuple[float, float, float, float]]:
    """Value, error and the ends of the interval of each parameter."""
    chosen = () if level is None else (level,)
    return {
        name: (each.value, each.error, *found.interval(name, *chosen)[:2])
        for name, each in found.items()
    }


def _lines(found: Any, rows: Any, level: float | None) -> list[str]:
    share = "68.3%" if level is None else f"{level:.4g}"
    lines = [f"{'':10} {'estimate':>10} {'error':>9}   interval ({share}, profile likelihood)"]
    for name, (value, error, low, high) in rows.items():
        lines.append(f"{name:10} {value:10.5g} {error:9.3g}   {low:.5g} to {high:.5g}")
    lines.append(
        f"{found.n_data_sets:,} jets, log likelihood {found.log_likelihood:.6g}, "
        f"{found.minimiser}, {found.cost.n_evaluations} evaluations"
    )
    return lines


def _numbers(found: Any, rows: Any) -> dict[str, Any]:
    keys = ("value", "error", "low", "high")
    return {
        "parameters": {name: dict(zip(keys, row, strict=True)) for name, row in rows.items()},
        "covariance": found.covariance.tolist(),
        "log_likelihood": found.log_likelihood,
        "n_jets": found.n_data_sets,
        "is_density": found.cost.is_density,
    }


def _plot(found: Any, path: Path) -> None:
    from hctrellis.plotting import plot_profile, require_matplotlib

    require_matplotlib()
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        1, len(found), figsize=(5.2 * len(found), 3.6), layout="constrained", squeeze=False
    )
    for name, ax in zip(found, axes[0], strict=True):
        plot_profile(found, name, ax)
    figure.savefig(path, dpi=150)
    plt.close(figure)
