"""The files that ``hctrellis infer`` writes: each is written completely, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import hctrellis as hct
from hctrellis.cli.answers import Request
from hctrellis.support.files import check_writable, write_text
from hctrellis.tables.export import FIGURES, flat_csv, save, write_figure, write_linkage
from hctrellis.tables.result import Clustering

PAGES = (".html", ".htm", "")


def check_outputs(request: Request) -> None:
    """Raise an error before the work begins if a file cannot be written after it."""
    given = [path for path in _paths(request) if path is not None]
    for path in given:
        check_writable(path)
    read = {path.absolute() for path in (request.source, *request.more)}
    if len({*(path.absolute() for path in given), *read}) < len(given) + len(read):
        raise ValueError("two of the files have the same name; give each a name of its own")
    if request.report is not None:
        _check_report(request.report)
    if request.figure is not None:
        check_figure(request.figure)
    if request.n_clusters is not None and request.flat is None:
        raise ValueError("--n-clusters needs --clusters FILE, where the flat clusters are written")


def _check_report(path: Path) -> None:
    suffix = path.suffix.lower()
    if suffix in FIGURES:
        raise ValueError(f"a report is a page (.html); for a {suffix} give --figure {path}")
    if suffix not in PAGES:
        raise ValueError(f"a report is a page for the browser; {path.name} should end in .html")
    if find_spec("plotly") is None:
        raise ImportError('a report needs plotly: pip install "hctrellis[report]"')


def check_figure(path: Path) -> None:
    """Raise an error if no figure can be written to a path."""
    if path.suffix.lower() not in FIGURES:
        raise ValueError(f"a figure ends in {', '.join(FIGURES)}; got {path.name}")
    if find_spec("matplotlib") is None:
        raise ImportError('a figure needs matplotlib: pip install "hctrellis[plot]"')


def _paths(request: Request) -> tuple[Path | None, ...]:
    return (
        request.report,
        request.figure,
        request.newick,
        request.linkage,
        request.samples,
        request.json,
        request.flat,
        request.save,
    )


def write_outputs(request: Request, answers: Clustering) -> Iterator[str]:
    """Write the files that were asked for, and say so line by line.

    First what took long to find, last what sampled trees may be unable to tell.
    """
    post = answers.posterior
    if request.save is not None:
        save(answers, request.save, ".npz")
        yield f"posterior (for hctrellis.load): {request.save}"
    if request.newick is not None:
        save(answers, request.newick, ".nwk")
        known = " (with probabilities)" if post.is_reliable else ""
        yield f"{post.map_name}{known}: {request.newick}"
    if request.linkage is not None:
        write_linkage(request.linkage, post.map_tree)
        yield f"{post.map_name} (linkage matrix): {request.linkage}"
    if request.json is not None:
        save(answers, request.json, ".json")
        yield f"all numbers (JSON): {request.json}"
    if request.figure is not None:
        write_figure(answers, request.figure)
        yield f"figure: {request.figure}"
    if request.report is not None:
        title = request.title or f"{request.source.stem}: how sure is the tree?"
        answers.report(request.report, title)
        yield f"report (open it in a browser): {request.report}"
    if request.flat is not None:
        write_text(request.flat, flat_csv(answers.flat(request.n_clusters)))
        yield f"flat clusters (CSV): {request.flat}"
    if request.samples is not None:
        write_text(request.samples, _samples(request, post))
        yield f"{request.n_samples:,} sampled trees: {request.samples}"


def _samples(request: Request, post: hct.BasePosterior) -> str:
    from hctrellis.treefiles import write_nexus

    assert request.samples is not None
    trees = post.sample(request.n_samples, rng=request.seed)
    if request.samples.suffix.lower() in (".nex", ".nexus", ".nxs"):
        return write_nexus(trees)
    return "".join(f"{tree.to_newick()}\n" for tree in trees)
