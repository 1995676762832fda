"""What ``hctrellis infer`` is asked, and how it finds the answers."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from rich.console import Console

import hctrellis as hct
from hctrellis.clades.distribution import CladeDistribution
from hctrellis.cli.sources import holds_trees, read_source
from hctrellis.report.words import too_few
from hctrellis.sampling.run import PRECISION, TIME_LIMIT
from hctrellis.support.progress import Progress, bar
from hctrellis.tables.cells import Cells, Options
from hctrellis.tables.items import as_items
from hctrellis.tables.result import Clustering
from hctrellis.tables.speech import on_command_line
from hctrellis.tables.wish import Wish
from hctrellis.tables.work import as_mask, as_names, work
from hctrellis.treefiles.sample import BURN_IN


@dataclass(frozen=True)
class Request:
    """What a user asks for; see ``hctrellis infer --help``."""

    source: Path
    more: tuple[Path, ...] = ()
    burn_in: float = BURN_IN
    outgroup: tuple[str, ...] = ()
    clades: str = "ccd1"
    smoothing: float | Literal["auto"] = 0.0
    reading: Options = field(default_factory=Options)
    model: str | None = None
    metric: str = "euclidean"
    beta: float | None = None
    clusters: tuple[str, ...] = ()
    report: Path | None = None
    figure: Path | None = None
    newick: Path | None = None
    linkage: Path | None = None
    samples: Path | None = None
    json: Path | None = None
    flat: Path | None = None
    save: Path | None = None
    n_clusters: int | None = None
    n_samples: int = 1000
    bootstrap: int | None = None
    seed: int = 0
    precision: float = PRECISION
    time_limit: float = TIME_LIMIT
    max_clusters: int | None = None
    certify: bool = False
    second_opinion: bool | None = None
    sensitivity: bool | None = None
    title: str | None = None
    quiet: bool = False


def find(request: Request, console: Console) -> Clustering:
    """Read the file and infer; progress goes to the console."""
    start = time.perf_counter()
    source = _read(request)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if isinstance(source, Cells):
            answers = _from_cells(request, source, console)
        else:
            answers = _from_trees(request, source)
    known = answers.posterior.diagnostics
    told = {known.verdict} if known is not None else set()
    said = dict.fromkeys(str(warning.message) for warning in caught)
    answers.notes.extend(on_command_line(text) for text in said if text not in told)
    answers.settings.append(("Time", f"{time.perf_counter() - start:.1f} s"))
    return answers


def _from_cells(request: Request, cells: Cells, console: Console) -> Clustering:
    items = as_items(cells, request.reading)
    wish = Wish(
        potential=request.model,
        metric=request.metric,
        beta=request.beta,
        clusters=_asked(request, items.labels),
        bootstrap=request.bootstrap,
        seed=request.seed,
        precision=request.precision,
        time_limit=request.time_limit,
        max_clusters=request.max_clusters,
        second_opinion=request.second_opinion,
        sensitivity=request.sensitivity,
        certify=request.certify,
        reading=request.reading,
    )
    hidden = request.quiet or not console.is_terminal
    return replace(work(items, wish, partial(_bars, hidden)), speak=on_command_line)


def _bars(hidden: bool, what: str, short: bool) -> AbstractContextManager[Progress]:
    return bar(what, hidden=hidden, short=short)


def _read(request: Request) -> hct.TreeRuns | Cells:
    """The trees of all files, or the cells of the one table."""
    files = (request.source, *request.more)
    kinds = [holds_trees(path) for path in files]
    if all(kinds):
        return hct.read_trees(files, request.burn_in, outgroup=request.outgroup or None)
    if len(files) > 1:
        name = files[kinds.index(False)].name
        raise ValueError(f"{name} does not hold trees; several files are runs of sampled trees")
    source = read_source(request.source)
    assert isinstance(source, Cells)
    return source


def _from_trees(request: Request, trees: hct.TreeRuns) -> Clustering:
    if request.model is not None or request.beta is not None:
        raise ValueError(f"{request.source.name} holds trees; leave out --potential and --beta")
    if request.save is not None:
        raise ValueError(
            f"--save keeps a posterior of a table; {request.source.name} holds trees, which are "
            "kept already: read them again, or give --json"
        )
    if request.bootstrap is not None:
        raise ValueError(f"--bootstrap resamples columns; {request.source.name} holds trees")
    model = CladeDistribution(trees, model=request.clades, smoothing=request.smoothing)
    post = hct.infer(model)
    weights = "" if trees.weights is None else ", with weights"
    distinct = len(np.unique(trees.children.reshape(len(trees), -1), axis=0))
    files = ", ".join(trees.names[:4]) + (", ..." if trees.n_runs > 4 else "")
    settings = [
        (
            "Trees",
            f"{files}: {len(trees):,} over {post.n_leaves} items, {distinct:,} of them different"
            f"{weights}",
        )
    ]
    if request.smoothing == "auto":
        known = trees.n_runs > 1 or trees.weights is None
        how = "chosen by trees left out" if known else "since one file with weights has no parts"
        settings.append(("Smoothing", f"{model.smoothing:.2g}, {how}"))
    enough = hct.compare_runs(trees) if trees.n_runs > 1 else None
    if enough is not None:
        settings.append(("Are these runs enough?", enough.verdict))
    notes = [text for text in (too_few(post), *trees.remarks) if text]
    return Clustering(
        post,
        "trees",
        None,
        [as_mask(names, post.labels) for names in _asked(request, post.labels)],
        settings,
        notes,
        seed=request.seed,
        runs=trees,
        enough=enough,
    )


def _asked(request: Request, labels: Sequence[str]) -> list[list[str]]:
    """The labels of the clusters that were asked about."""
    found = []
    for text in request.clusters:
        names = as_names(text, labels)
        try:
            as_mask(names, labels)
        except ValueError as error:
            raise ValueError(f"--cluster {text!r:.80}: {error}, separated by commas") from None
        found.append(names)
    return found
