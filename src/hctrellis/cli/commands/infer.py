"""``hctrellis infer``: its options."""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hctrellis.cli.commands.checks import as_positive

ABOUT = (
    "Cluster the items of a table, and say how sure the clusters are.\n\n"
    "TABLE is a CSV, TSV, Excel or Parquet file (.csv.gz, too) with one row per item and columns "
    "of numbers; a square "
    "matrix between items (say [bold]--distances[/bold] or [bold]--similarities[/bold]); or a "
    "Newick or NEXUS file of many trees over the same items. The first column of text names the "
    "items; a column that only numbers the rows is not a feature. Up to 22 items every binary tree "
    "is weighed; for more, up to 1,000, trees are sampled, and every probability has a standard "
    "error.\n\n"
    "Prints the most probable tree with the probability of every cluster, the probable clusters, "
    "and log Z. Output files that exist are replaced.\n\n"
    "Examples:\n\n"
    "hctrellis infer animals.csv --report animals.html --figure animals.pdf\n\n"
    "hctrellis infer genes.tsv --standardize --color tissue --missing mean\n\n"
    'hctrellis infer bacteria.csv --log10 --potential ward --cluster "E. coli, S. typhosa"\n\n'
    "hctrellis infer distances.csv --distances --newick tree.nwk --samples trees.nwk\n\n"
    "hctrellis infer run1.t run2.t --burn-in 0.25 --outgroup X --newick tree.nex"
)
READING, MODEL, OUTPUT = "Reading the table", "Model", "Output"
TREES = "Reading files of trees"
MOST_RESAMPLES = 1_000_000
METRICS = (
    "euclidean",
    "sqeuclidean",
    "cityblock",
    "correlation",
    "cosine",
    "chebyshev",
    "canberra",
    "braycurtis",
    "minkowski",
    "seuclidean",
    "mahalanobis",
    "jensenshannon",
    "hamming",
    "jaccard",
    "dice",
    "yule",
    "rogerstanimoto",
    "russellrao",
    "sokalsneath",
)


class TableModel(StrEnum):
    """The models of tables and matrices."""

    average = "average"
    single = "single"
    complete = "complete"
    ward = "ward"
    centroid = "centroid"
    dasgupta = "dasgupta"
    correlation_clustering = "correlation-clustering"
    correlation = "correlation"  # its former name
    contrasts = "contrasts"


class Missing(StrEnum):
    """What to do about missing values."""

    error = "error"
    mean = "mean"
    zero = "zero"
    drop_rows = "drop-rows"
    drop_columns = "drop-columns"


def _beta(text: str) -> float | None:
    if text == "auto":
        return None
    try:
        return as_positive(float(text))
    except ValueError:
        raise typer.BadParameter(f"beta is a positive number, or auto; got {text!r}") from None


def _smoothing(text: str) -> float | str:
    try:
        share = text if text == "auto" else float(text)
    except ValueError:
        share = -1.0
    if isinstance(share, float) and not 0 <= share < 1:
        raise typer.BadParameter(
            f"smoothing is a share, from 0 to below 1, or auto; got {text!r:.80}"
        )
    return share


def _metric(name: str) -> str:
    if name not in METRICS:
        raise typer.BadParameter(f"there is no metric {name!r}; there are {', '.join(METRICS)}")
    return name


def _complete_metric(incomplete: str) -> list[str]:
    return [name for name in METRICS if name.startswith(incomplete)]


def infer(
    table: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="The table; or files of trees, one for each run.",
            show_default=False,
        ),
    ],
    burn_in: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            min=0.0,
            rich_help_panel=TREES,
            help="Leave out this share of the first trees of each run; from 1 on, their number. "
            "Give 0 for trees that are no chain, such as bootstrap trees.",
        ),
    ] = 0.1,  # as read_trees
    outgroup: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=TREES,
            help="Root every tree next to this item. May be given several times.",
        ),
    ] = None,
    clades: Annotated[
        str,
        typer.Option(
            metavar="MODEL",
            rich_help_panel=TREES,
            help="What trees are put together from: ccd0 (clusters), ccd1 (splits), ccd2, ... "
            "(splits next to the same siblings).",
        ),
    ] = "ccd1",
    smoothing: Annotated[
        str,
        typer.Option(
            metavar="SHARE",
            callback=_smoothing,
            rich_help_panel=TREES,
            help="The share of each split that goes to splits that no tree has, such as 0.001. "
            "auto chooses it by trees that are left out.",
        ),
    ] = "0",
    potential: Annotated[
        TableModel | None,
        typer.Option(
            "--potential",
            "--method",
            "-p",
            metavar="NAME",
            case_sensitive=False,
            rich_help_panel=MODEL,
            help="How a merge is weighed: the height of a linkage (average, the default, single, "
            "complete, ward or centroid), dasgupta for Dasgupta's cost (the default for "
            "--similarities, unless some are negative) or correlation-clustering; contrasts: a "
            "model of tables that is fitted to the table and needs no beta (the default for two "
            "to nine columns and up to 60 rows). Linkages of similarities take 1 - similarity.",
        ),
    ] = None,
    metric: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            callback=_metric,
            autocompletion=_complete_metric,
            rich_help_panel=MODEL,
            help="Distance between rows: euclidean, cityblock, correlation, cosine, ... (as SciPy "
            "names them).",
        ),
    ] = "euclidean",
    beta: Annotated[
        str,
        typer.Option(
            metavar="B",
            callback=_beta,
            rich_help_panel=MODEL,
            help="How sharply trees are told apart: a tree is weighed by exp(-B x its cost). auto "
            "chooses it, and says how.",
        ),
    ] = "auto",
    cluster: Annotated[
        list[str] | None,
        typer.Option(
            "--cluster",
            "-c",
            metavar="A,B,...",
            rich_help_panel=MODEL,
            help="Also say how probable this cluster is. May be given several times.",
        ),
    ] = None,
    bootstrap: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=10,
            max=MOST_RESAMPLES,
            rich_help_panel=MODEL,
            help="Also resample the columns N times at each of ten scales: AU and BP values, as "
            "pvclust gives them.",
        ),
    ] = None,
    distances: Annotated[
        bool,
        typer.Option(
            "--distances", rich_help_panel=READING, help="The table is a matrix of distances."
        ),
    ] = False,
    similarities: Annotated[
        bool,
        typer.Option(
            "--similarities", rich_help_panel=READING, help="The table is a matrix of similarities."
        ),
    ] = False,
    features: Annotated[
        bool,
        typer.Option(
            "--features", rich_help_panel=READING, help="The table is neither, though it is square."
        ),
    ] = False,
    labels: Annotated[
        str | None,
        typer.Option(
            "--labels",
            "--id-column",
            metavar="COLUMN",
            rich_help_panel=READING,
            help="The column that names the items, by its name or number.",
            show_default="the first column of text",
        ),
    ] = None,
    color: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            rich_help_panel=READING,
            help="The column of classes to show as colours in report and figure; it is not a "
            "feature.",
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            rich_help_panel=READING,
            help="Leave this column out. May be given several times.",
        ),
    ] = None,
    all_columns: Annotated[
        bool,
        typer.Option(
            "--all-columns",
            rich_help_panel=READING,
            help="Compare items by all columns of numbers, including those that number the rows.",
        ),
    ] = False,
    missing: Annotated[
        Missing,
        typer.Option(
            case_sensitive=False,
            rich_help_panel=READING,
            help="What to do about missing values: stop, fill in, or leave out.",
        ),
    ] = Missing.error,
    standardize: Annotated[
        bool,
        typer.Option(
            "--standardize/--no-standardize",
            rich_help_panel=READING,
            help="Shift and scale every column to mean 0 and variance 1.",
        ),
    ] = False,
    log10: Annotated[
        bool,
        typer.Option("--log10", rich_help_panel=READING, help="Take logarithms first."),
    ] = False,
    transpose: Annotated[
        bool,
        typer.Option(
            "--transpose", rich_help_panel=READING, help="The columns are the items, not the rows."
        ),
    ] = False,
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header",
            rich_help_panel=READING,
            help="Whether the first line names the columns.",
            show_default="found out",
        ),
    ] = None,
    decimal_comma: Annotated[
        bool,
        typer.Option(
            "--decimal-comma", rich_help_panel=READING, help="Numbers are written like 1,5."
        ),
    ] = False,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            "-r",
            metavar="FILE",
            rich_help_panel=OUTPUT,
            help="A page for the browser (.html) with everything, to point at and click on.",
        ),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(
            "--figure",
            "-f",
            metavar="FILE",
            rich_help_panel=OUTPUT,
            help="The most probable tree as a figure for a paper (.pdf, .svg or .png).",
        ),
    ] = None,
    n_clusters: Annotated[
        int | None,
        typer.Option(
            "--n-clusters",
            "-k",
            metavar="K",
            min=1,
            rich_help_panel=OUTPUT,
            help="How many flat clusters --clusters has; without it, the largest of probability "
            "above 1/2.",
        ),
    ] = None,
    clusters: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=OUTPUT,
            help="Flat clusters (.csv): item, cluster, probability of the cluster.",
        ),
    ] = None,
    newick: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=OUTPUT,
            help="The best tree with the probabilities of its clusters, in Newick format; of "
            "trees with lengths, also as annotated NEXUS (.nex, .tre).",
        ),
    ] = None,
    linkage: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=OUTPUT,
            help="The best tree as a linkage matrix of SciPy (.csv or .npy).",
        ),
    ] = None,
    samples: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=OUTPUT,
            help="Trees drawn from the posterior, in Newick (or .nex) format.",
        ),
    ] = None,
    n_samples: Annotated[
        int,
        typer.Option(metavar="N", min=1, rich_help_panel=OUTPUT, help="How many trees to draw."),
    ] = 1000,
    json: Annotated[
        Path | None,
        typer.Option(metavar="FILE", rich_help_panel=OUTPUT, help="All numbers, for programs."),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=OUTPUT,
            help="The posterior itself (.npz), to be asked again in Python by hctrellis.load.",
        ),
    ] = None,
    title: Annotated[
        str | None,
        typer.Option(metavar="TEXT", rich_help_panel=OUTPUT, help="Title of the report."),
    ] = None,
    seed: Annotated[
        int, typer.Option(metavar="S", min=0, help="Seed of everything that is drawn at random.")
    ] = 0,
    precision: Annotated[
        float,
        typer.Option(
            metavar="E",
            min=1e-4,
            max=0.5,
            help="For more than 22 items: sample until every probability of 0.05 or more has a "
            "standard error of at most this.",
        ),
    ] = 0.01,
    time_limit: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0.1, help="When sampling ends in any case."),
    ] = 60.0,
    max_clusters: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="For more than 22 items: do not sample, but weigh the trees that can be made of "
            "at most N promising clusters. Probabilities are then conditional on these trees.",
        ),
    ] = None,
    certify: Annotated[
        bool,
        typer.Option(
            "--certify",
            help="Prove that the best tree is best, or how close it is, in --time-limit seconds.",
        ),
    ] = False,
    second_opinion: Annotated[
        bool | None,
        typer.Option(
            "--second-opinion/--no-second-opinion",
            rich_help_panel=MODEL,
            help="Ask another model of the table, too: contrasts beside a model with beta, average "
            "linkage beside contrasts.",
            show_default="for up to 20 items",
        ),
    ] = None,
    sensitivity: Annotated[
        bool | None,
        typer.Option(
            "--sensitivity/--no-sensitivity",
            rich_help_panel=MODEL,
            help="Also give the probabilities at half and twice beta.",
            show_default="for up to 20 items",
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> None:
    if math.isnan(time_limit):
        raise typer.BadParameter("nan is not a number of seconds", param_hint="--time-limit")
    kinds = {"distances": distances, "similarities": similarities, "features": features}
    asked = [kind for kind, wanted in kinds.items() if wanted]
    if len(asked) > 1:
        raise typer.BadParameter(f"--{asked[0]} and --{asked[1]} exclude each other")
    from hctrellis.cli.answers import Request
    from hctrellis.cli.infer import run_infer
    from hctrellis.tables.cells import Options

    reading = Options(
        kind=asked[0] if asked else None,
        labels=labels,
        color=color,
        ignore=tuple(ignore or ()),
        all_columns=all_columns,
        missing=missing.value,
        log10=log10,
        standardize=standardize,
        decimal_comma=decimal_comma,
        header=header,
        transpose=transpose,
    )
    run_infer(
        Request(
            table[0],
            tuple(table[1:]),
            burn_in=burn_in,
            outgroup=tuple(outgroup or ()),
            clades=clades,
            smoothing=smoothing,  # type: ignore[arg-type]  # a number or auto, from the callback
            reading=reading,
            model=potential and potential.value,
            metric=metric,
            beta=beta,  # type: ignore[arg-type]  # a number or None, from the callback
            clusters=tuple(cluster or ()),
            report=report,
            figure=figure,
            n_clusters=n_clusters,
            flat=clusters,
            save=save,
            newick=newick,
            linkage=linkage,
            samples=samples,
            json=json,
            n_samples=n_samples,
            bootstrap=bootstrap,
            seed=seed,
            precision=precision,
            time_limit=time_limit,
            max_clusters=max_clusters,
            certify=certify,
            second_opinion=second_opinion,
            sensitivity=sensitivity,
            title=title,
            quiet=quiet,
        )
    )
