"""``hctrellis fit``: the rates of a shower from the jets of a Parquet file."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import typer

import hctrellis as hct
from hctrellis.cli.outputs import check_figure
from hctrellis.support.files import check_writable, replaced, write_text


def run_fit(
    jets: Path,
    potential: str,
    free: list[str],
    level: float | None,
    plot: Path | None,
    output: Path | None,
    quiet: bool,
    **options: Any,
) -> None:
    """Fit, print the estimates, and write the files that were asked for."""
    for path in (plot, output):
        if path is not None:
            check_writable(path)
    if plot is not None:
        check_figure(plot)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = hct.fit(potential, jets, free=free, progress=not quiet, **options)
    for each in dict.fromkeys(str(warning.message) for warning in caught):
        said = re.sub(r"n_leaves=\((\d+), (\d+)\)", r"--leaves \1:\2", each)
        typer.echo(f"warning: {said}", err=True)
    rows = _rows(found, level)
    if not quiet:
        typer.echo("\n".join(_lines(found, rows, level)))
    if output is not None:
        write_text(output, json.dumps(_numbers(found, rows), indent=1) + "\n")
    if plot is not None:
        _plot(found, plot)
        if not quiet:
            typer.echo(f"profile written to {plot}")


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
    from matplotlib.figure import Figure

    from hctrellis.plotting import plot_profile, save_figure

    figure = Figure(figsize=(5.2 * len(found), 3.6), layout="constrained")
    axes = figure.subplots(1, len(found), squeeze=False)[0]
    for name, ax in zip(found, axes, strict=True):
        plot_profile(found, name, ax)
    with replaced(path) as half:
        save_figure(axes[0], half, path.suffix.lower()[1:])
