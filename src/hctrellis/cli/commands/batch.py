"""``hctrellis batch``: its options."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

ABOUT = (
    "Inference on every jet of some files, exact up to [bold]--max-leaves[/bold].\n\n"
    "The jets are lists of particles E, px, py, pz (or pt, eta, phi, mass): in one column of "
    "records, or in four columns; they may be nested in events. "
    "The answers (log Z, best tree, number of trees, ...) go to a folder of Parquet files, part "
    "by part; a run that was stopped or killed continues if the same command is given again.\n\n"
    "Exit code: 0 if all is well, 3 if some jets failed (their rows say why), 1 if the run failed, "
    "2 if the command is wrong, 130 after Ctrl-C."
)
MOST_WORKERS = 1024


class JetModel(StrEnum):
    """The models of jets."""

    ginkgo = "ginkgo"
    jetmass = "jetmass"


class Beyond(StrEnum):
    """What is done with jets that are too large to be solved exactly."""

    sparse = "sparse"
    sample = "sample"
    error = "error"


class OnShell(StrEnum):
    """Which space-like particles are put on their mass shells."""

    auto = "auto"
    always = "always"
    never = "never"


def batch(
    jets: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Parquet or ROOT files with jets (file.root:tree, if it has several trees), or a "
            "folder of them.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the answers.")
    ],
    lam: Annotated[
        str, typer.Option(metavar="X", help="Decay rate: a number, or a column with one per jet.")
    ],
    potential: Annotated[
        JetModel, typer.Option(case_sensitive=False, help="The model of a splitting.")
    ] = JetModel.ginkgo,
    t_cut: Annotated[
        float | None,
        typer.Option(metavar="T", help="Squared mass below which nothing splits (ginkgo)."),
    ] = None,
    lam_root: Annotated[
        str | None,
        typer.Option(metavar="X", help="That of the first splitting, likewise (ginkgo)."),
    ] = None,
    column: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The column with the momenta, if several have them."),
    ] = None,
    on_shell: Annotated[
        OnShell,
        typer.Option(
            case_sensitive=False,
            help="When to set E = |p| where E < |p|: if it cannot matter (auto), always or never; "
            "other such jets are refused.",
        ),
    ] = OnShell.auto,
    non_stop: Annotated[
        bool,
        typer.Option("--non-stop", help="The likelihood with factors for not stopping (ginkgo)."),
    ] = False,
    max_leaves: Annotated[
        int,
        typer.Option(metavar="N", min=1, max=28, help="The most leaves that are solved exactly."),
    ] = 20,
    beyond: Annotated[
        Beyond,
        typer.Option(
            case_sensitive=False,
            help="Larger jets: a lower bound by a sparse trellis, sampled trees, or an error.",
        ),
    ] = Beyond.sparse,
    entropy: Annotated[bool, typer.Option("--entropy", help="Also compute entropies.")] = False,
    heights: Annotated[
        bool, typer.Option("--heights", help="Also give the invariant masses in the best trees.")
    ] = False,
    count_trees: Annotated[
        bool,
        typer.Option("--count-trees", help="Count trees also of large jets, which takes longer."),
    ] = False,
    clusters: Annotated[
        float | None,
        typer.Option(
            metavar="P", min=0, max=1, help="Also list the clusters of at least this probability."
        ),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Also draw so many trees from each posterior."),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="S", min=0, help="Seed of these trees.")] = 0,
    true_trees: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Also compute the log weights of the trees (in Newick format) of this column.",
        ),
    ] = None,
    seconds: Annotated[
        bool, typer.Option("--seconds", help="Also show the time of each jet.")
    ] = False,
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
        typer.Option(
            metavar="N",
            min=1,
            max=MOST_WORKERS,
            help="Number of threads or processes; by default as many as cores.",
        ),
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
        raise typer.BadParameter("jetmass has no threshold and only one rate, --lam")
    if potential is JetModel.jetmass and non_stop:
        raise typer.BadParameter("jetmass has no threshold, hence no --non-stop")
    from hctrellis.cli.batch import as_rate, run_batch

    code = run_batch(
        jets,
        output,
        quiet,
        overwrite,
        potential=potential.value,
        lam=as_rate(lam),
        t_cut=t_cut,
        lam_root=None if lam_root is None else as_rate(lam_root),
        column=column,
        on_shell={"always": True, "never": False}.get(on_shell),
        non_stop=non_stop or None,
        max_leaves=max_leaves,
        beyond=beyond.value,
        entropy=entropy,
        heights=heights,
        count_trees=count_trees,
        clusters=clusters,
        samples=samples,
        seed=seed,
        true_trees=true_trees,
        seconds=seconds,
        scheduler=scheduler,
        workers=workers,
        chunk_size=chunk_size,
    )
    raise typer.Exit(code)
