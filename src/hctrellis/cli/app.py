"""The commands and their options."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from hctrellis._version import __version__
from hctrellis.cli.errors import INTERRUPTED, complain
from hctrellis.cli.fit import ABOUT_FIT, as_leaves, fit

ABOUT = (
    "Exact inference over hierarchical clusterings.\n\n"
    "Every binary tree over your items gets a probability: see the best tree, and how probable "
    "each cluster is over all trees. Start with [bold]hctrellis demo[/bold]."
)
ABOUT_DEMO = (
    "Answer a famous question about sixteen bacteria, exactly.\n\n"
    "Burtin's table of 1951: does Diplococcus pneumoniae belong with the streptococci, and "
    "Streptococcus fecalis not? All 6.19e15 trees are weighed. Prints the answer and writes a "
    "report and a figure."
)
ABOUT_INFER = (
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
ABOUT_SIMULATE = "Make up data whose truth is known."
ABOUT_JETS = (
    "Simulate jets with the toy shower Ginkgo and write them to a Parquet file.\n\n"
    "One row per jet: its particles (a list of E, px, py, pz), its true tree in Newick format and "
    "the log likelihood of that tree."
)
ABOUT_BATCH = (
    "Inference on every jet of some files, exact up to [bold]--max-leaves[/bold].\n\n"
    "The jets are lists of particles E, px, py, pz (or pt, eta, phi, mass): in one column of "
    "records, or in four columns; they may be nested in events. "
    "The answers (log Z, best tree, number of trees, ...) go to a folder of Parquet files, part "
    "by part; a run that was stopped or killed continues if the same command is given again.\n\n"
    "Exit code: 0 if all is well, 3 if some jets failed (their rows say why), 1 if the run failed, "
    "2 if the command is wrong, 130 after Ctrl-C."
)
ABOUT_REPRODUCE = (
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


class JetPreset(StrEnum):
    """The kinds of simulated jets."""

    qcd = "qcd"
    w = "w"


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
simulate = typer.Typer(context_settings=HELP)
app.add_typer(simulate, name="simulate")


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


def _positive(beta: float) -> float:
    if not 0 < beta < float("inf"):
        raise typer.BadParameter(f"beta must be a positive number; got {beta:g}")
    return beta


@app.command(help=ABOUT_DEMO)
def demo(
    output: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Folder for the report (report.html) and the figure."),
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


def _beta(text: str) -> float | None:
    if text == "auto":
        return None
    try:
        return _positive(float(text))
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


def _metric(name: str) -> str:
    if name not in METRICS:
        raise typer.BadParameter(f"there is no metric {name!r}; there are {', '.join(METRICS)}")
    return name


def _complete_metric(incomplete: str) -> list[str]:
    return [name for name in METRICS if name.startswith(incomplete)]


READING, MODEL, OUTPUT = "Reading the table", "Model", "Output"
TREES = "Reading files of trees"
MOST_RESAMPLES = 1_000_000
MOST_WORKERS = 1024


@app.command(help=ABOUT_INFER)
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


@simulate.callback(invoke_without_command=True, help=ABOUT_SIMULATE)
def about_simulate(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


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


@app.command(help=ABOUT_BATCH)
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


app.command(help=ABOUT_FIT)(fit)


@app.command(help=ABOUT_REPRODUCE)
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
