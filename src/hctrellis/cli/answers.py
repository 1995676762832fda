"""What ``hctrellis infer`` is asked, and how it finds the answers."""

from __future__ import annotations

import csv
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rich.console import Console

import hctrellis as hct
from hctrellis.clades.distribution import CladeDistribution
from hctrellis.cli.sources import Cells, read_source
from hctrellis.cli.tables import Items, Options, as_items
from hctrellis.infer import MAX_EXACT_LEAVES
from hctrellis.report.words import too_few
from hctrellis.support.progress import Progress, bar

if TYPE_CHECKING:
    from hctrellis.potentials.linkage import Method
    from hctrellis.support.types import FloatArray
    from hctrellis.treefiles.weighted import WeightedTrees
    from hctrellis.trust.beta import BetaChoice, Make, SensitivityRow
    from hctrellis.trust.bootstrap import BootstrapSupport

LINKAGES = ("average", "single", "complete", "ward", "centroid")
MOVED_LEAVES = 20  # up to which all trees are weighed at three betas
SLOW_LEAVES = 17  # from which progress is shown
MAX_MOVED = 10  # clusters that are followed from beta to beta


@dataclass(frozen=True)
class Request:
    """What a user asks for; see ``hctrellis infer --help``."""

    source: Path
    reading: Options = field(default_factory=Options)
    model: str | None = None
    metric: str = "euclidean"
    beta: float | None = None
    clusters: tuple[str, ...] = ()
    report: Path | None = None
    newick: Path | None = None
    linkage: Path | None = None
    samples: Path | None = None
    json: Path | None = None
    n_samples: int = 1000
    bootstrap: int | None = None
    seed: int = 0
    time_limit: float = 30.0
    certify: bool = False
    title: str | None = None
    quiet: bool = False


@dataclass(frozen=True, eq=False)
class Answers:
    """What was found.

    Attributes
    ----------
    post : Posterior
    items : Items or None
        The numbers; None if trees were read.
    watched : list of int
        Masks of the clusters that were asked about.
    settings : list of (str, str)
        Names and values.
    notes : list of str
        What the user should know.
    choice : BetaChoice or None
        How beta was chosen, if it was.
    moves : list of SensitivityRow
        How the answers move with beta; empty where that would take too long.
    bootstrap : BootstrapSupport or None
        Support of the clusters of the best tree by resampling columns, if it was asked for.
    """

    post: hct.Posterior
    items: Items | None
    watched: list[int]
    settings: list[tuple[str, str]]
    notes: list[str] = field(default_factory=list)
    choice: BetaChoice | None = None
    moves: list[SensitivityRow] = field(default_factory=list)
    bootstrap: BootstrapSupport | None = None


def find(request: Request, console: Console) -> Answers:
    """Read the file and infer; progress goes to the console."""
    start = time.perf_counter()
    source = read_source(request.source)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if isinstance(source, Cells):
            answers = _from_items(request, as_items(source, request.reading), console)
        else:
            answers = _from_trees(request, source)
    answers.notes.extend(dict.fromkeys(str(warning.message) for warning in caught))
    answers.settings.append(("Time", f"{time.perf_counter() - start:.1f} s"))
    return answers


def _from_trees(request: Request, trees: WeightedTrees) -> Answers:
    if request.model is not None or request.beta is not None:
        raise ValueError(f"{request.source.name} holds trees; leave out --potential and --beta")
    if request.bootstrap is not None:
        raise ValueError(f"--bootstrap resamples columns; {request.source.name} holds trees")
    model = CladeDistribution(trees)
    with warnings.catch_warnings():  # as is right if all trees that were read differ
        warnings.filterwarnings("ignore", message="every tree has the same weight")
        post = hct.infer(model, model.trellis)
    weights = "" if trees.weights is None else ", with weights"
    distinct = f"{len(set(trees)):,} of them different{weights}"
    read = (
        "Trees",
        f"{request.source.name}: {len(trees):,} over {post.n_leaves} items, {distinct}",
    )
    notes = [text for text in (too_few(post),) if text]
    return Answers(post, None, _watched(request, post), [read], notes)


def _from_items(request: Request, items: Items, console: Console) -> Answers:
    name = _model(request, items)
    if request.bootstrap is not None and items.kind != "features":
        raise ValueError(f"--bootstrap resamples columns of features; these are {items.kind}")
    make = _maker(name, items, request.metric)
    table = items.used if items.kind == "features" else None
    choice, beta = None, request.beta
    make(table, 1.0)  # so that errors in the data are reported first
    if beta is None:
        with bar("steps to choose beta", hidden=_hidden(request, console)) as progress:
            choice = _choose(make, table, request.seed, progress)
            beta = choice.beta
    post = _infer(make(table, beta), request, console)
    answers = Answers(
        post, items, _watched(request, post), _settings(request, items, name), items.notes, choice
    )
    if request.bootstrap is not None:
        with bar("resamples", hidden=_hidden(request, console)) as progress:
            answers = replace(answers, bootstrap=_resample(request, items, post, name, progress))
    if request.report is None:
        return answers
    if post.is_exact and post.n_leaves > MOVED_LEAVES:
        answers.notes.append(
            f"for more than {MOVED_LEAVES} items the report does not show how the answers move "
            "with beta, which would take three times as long; try other values of --beta"
        )
        return answers
    with _said(request, console, "Finding out how the answers move with beta ..."):
        return replace(answers, moves=_moves(make, table, answers))


def _model(request: Request, items: Items) -> str:
    """The model that was asked for, or what fits the data."""
    name = request.model or ("dasgupta" if items.kind == "similarities" else "average")
    if (name in LINKAGES) == (items.kind == "similarities"):
        needs = "features or --distances" if name in LINKAGES else "a matrix of --similarities"
        raise ValueError(f"--potential {name} needs {needs}; {items.name} was read as {items.kind}")
    if items.kind != "features" and request.metric != "euclidean":
        raise ValueError(f"--metric is for features; {items.name} was read as {items.kind}")
    return name


def _maker(name: str, items: Items, metric: str) -> Make:
    """A function of a table and beta that gives the potential."""
    labels, method = items.labels, cast("Method", name)

    def of_features(table: FloatArray | None, beta: float) -> hct.Potential:
        assert table is not None
        with warnings.catch_warnings():  # `as_items` has asked whether these are distances
            warnings.filterwarnings("ignore", message=".*looks like a matrix of distances")
            return hct.Linkage(
                table, method, beta, metric, labels=labels if len(table) == len(labels) else None
            )

    def of_matrix(table: FloatArray | None, beta: float) -> hct.Potential:
        if name == "dasgupta":
            return hct.Dasgupta(items.used, beta, labels=labels)
        if name == "correlation":
            return hct.CorrelationClustering(items.used, beta, labels=labels)
        return hct.Linkage(items.used, method, beta, "precomputed", labels=labels)

    return of_features if items.kind == "features" else of_matrix


def _choose(make: Make, table: FloatArray | None, seed: int, progress: Progress) -> BetaChoice:
    from hctrellis.trust.beta import choose_beta

    return choose_beta(make, table, rng=seed, progress=progress)


def _infer(potential: hct.Potential, request: Request, console: Console) -> hct.Posterior:
    """The posterior, over all trees or those of a grown trellis."""
    n = potential.n_leaves
    if n <= MAX_EXACT_LEAVES:
        with bar("splits", hidden=n < SLOW_LEAVES or _hidden(request, console)) as progress:
            post = hct.infer(potential, progress=progress)
        with _said(request, console, "Probabilities of the clusters ..."):
            post.cluster_probabilities()
        return post
    from hctrellis.build.grow import grow

    with bar("seconds to find promising trees", hidden=_hidden(request, console)) as progress:
        growth = grow(potential, time_limit=request.time_limit, rng=request.seed, progress=progress)
    return hct.infer(potential, growth)


def _hidden(request: Request, console: Console) -> bool:
    """Whether progress is not shown."""
    return request.quiet or not console.is_terminal


@contextmanager
def _said(request: Request, console: Console, text: str) -> Iterator[Any]:
    """A line that says what is going on."""
    shown = Console(stderr=True, quiet=True) if _hidden(request, console) else console
    with shown.status(text) as status:
        yield status


def _moves(make: Make, table: FloatArray | None, answers: Answers) -> list[SensitivityRow]:
    from hctrellis.trust.beta import sensitivity

    post = answers.post
    tree = post.map_tree
    inner = sorted(tree.masks[tree.n_leaves : -1], key=lambda m: -post.cluster_probability(m))
    clusters = dict.fromkeys([*answers.watched, *inner[:MAX_MOVED]])
    return sensitivity(make, table, post.potential.beta, clusters, post.trellis)


def _resample(
    request: Request, items: Items, post: hct.Posterior, name: str, progress: Progress
) -> BootstrapSupport:
    from hctrellis.trust.bootstrap import bootstrap_support

    assert request.bootstrap is not None
    return bootstrap_support(
        items.used,
        name,
        request.metric,
        request.bootstrap,
        tree=post.map_tree,
        rng=request.seed,
        progress=progress,
    )


def _watched(request: Request, post: hct.Posterior) -> list[int]:
    """The masks of the clusters that were asked about."""
    masks = []
    for text in request.clusters:
        names = [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]
        unknown = [name for name in names if name not in post.labels]
        if unknown or not names:
            example = ", ".join(post.labels[:2])
            raise ValueError(
                f"--cluster {text!r}: there is no item {''.join(unknown[:1])!r}; give labels "
                f'separated by commas, such as --cluster "{example}"'
            )
        masks.append(sum(1 << post.labels.index(name) for name in dict.fromkeys(names)))
    return masks


def _settings(request: Request, items: Items, name: str) -> list[tuple[str, str]]:
    n, d = items.values.shape
    if items.kind != "features":
        return [("Matrix", f"{items.name}: {items.kind} between {n} items"), ("Potential", name)]
    steps = [text for text, done in _steps(request.reading) if done]
    what = f"{items.name}: {n} items, {d} column{'' if d == 1 else 's'}"
    return [
        ("Table", ", ".join([what, *steps])),
        ("Potential", f"{name} linkage of {request.metric} distances"),
    ]


def _steps(reading: Options) -> list[tuple[str, bool]]:
    return [("log10", reading.log10), ("columns standardised", reading.standardize)]
