"""The files that ``hctrellis infer`` writes: each is written completely, or not at all."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import hctrellis as hct
from hctrellis.cli.answers import Answers, Request
from hctrellis.clusters import mask_labels
from hctrellis.report.words import interval
from hctrellis.support.files import check_writable, write_bytes, write_text

LISTED = 0.01  # clusters from this probability on are in the JSON file
FORMAT = "hctrellis-inference"


def check_outputs(request: Request) -> None:
    """Raise an error before the work begins if a file cannot be written after it."""
    given = [path for path in _paths(request) if path is not None]
    for path in given:
        check_writable(path)
    read = {path.absolute() for path in (request.source, *request.more)}
    if len({*(path.absolute() for path in given), *read}) < len(given) + len(read):
        raise ValueError("two of the files have the same name; give each a name of its own")
    if request.report is not None and find_spec("plotly") is None:
        raise ImportError('a report needs plotly: pip install "hctrellis[report]"')


def _paths(request: Request) -> tuple[Path | None, ...]:
    return request.report, request.newick, request.linkage, request.samples, request.json


def write_outputs(request: Request, answers: Answers) -> Iterator[str]:
    """Write the files that were asked for, and say so line by line."""
    tree = answers.post.map_tree
    if request.newick is not None:
        if answers.runs is not None and answers.runs.n_leaves > 1:
            hct.summary_tree(answers.runs, post=answers.post).write(request.newick)
        else:
            write_text(request.newick, _newick(answers.post, tree) + "\n")
        yield f"best tree (with probabilities): {request.newick}"
    if request.linkage is not None:
        write_bytes(request.linkage, _linkage(request.linkage, tree))
        yield f"best tree (linkage matrix): {request.linkage}"
    if request.samples is not None:
        write_text(request.samples, _samples(request, answers.post))
        yield f"{request.n_samples:,} sampled trees: {request.samples}"
    if request.json is not None:
        write_text(request.json, json.dumps(_as_json(answers), indent=1, ensure_ascii=False) + "\n")
        yield f"all numbers (JSON): {request.json}"
    if request.report is not None:
        _write_report(request, answers)
        yield f"report (open it in a browser): {request.report}"


def _newick(post: hct.Posterior, tree: hct.Tree) -> str:
    """Newick text; with branch lengths if there are heights, raised where a child is higher."""
    if tree.heights is None:
        return tree.to_newick(support=post.support(tree))
    raised = hct.Tree.from_linkage(tree.to_linkage(), labels=tree.labels)
    return raised.to_newick(support=post.support(tree), lengths=True, length_format=".8g")


def _linkage(path: Path, tree: hct.Tree) -> bytes:
    """The linkage matrix as SciPy defines it: a NumPy file, or CSV."""
    matrix = tree.to_linkage()
    if path.suffix.lower() == ".npy":
        target = io.BytesIO()
        np.save(target, matrix)
        return target.getvalue()
    lines = [f"{a:.0f},{b:.0f},{height!r},{size:.0f}" for a, b, height, size in matrix.tolist()]
    return ("\n".join(["left,right,height,size", *lines]) + "\n").encode()


def _samples(request: Request, post: hct.Posterior) -> str:
    from hctrellis.treefiles import write_nexus

    assert request.samples is not None
    trees = post.sample(request.n_samples, rng=request.seed)
    if request.samples.suffix.lower() in (".nex", ".nexus", ".nxs"):
        return write_nexus(trees)
    return "".join(f"{tree.to_newick()}\n" for tree in trees)


def _as_json(answers: Answers) -> dict[str, Any]:
    post = answers.post
    choice = answers.choice
    return {
        "format": FORMAT,
        "version": hct.__version__,
        "settings": dict(answers.settings),
        "labels": list(post.labels),
        "beta": post.potential.beta if post.potential.has_energy else None,
        "beta_choice": choice and {"rule": choice.rule, "sentence": choice.sentence},
        "is_exact": post.is_exact or not post.potential.has_energy,
        "converged": None if post.growth is None else post.growth.converged,
        "n_trees": post.n_trees,
        "log_partition": post.log_partition,
        "map": {
            "log_weight": post.map_log_weight,
            "log_probability": post.map_log_probability,
            "newick": _newick(post, post.map_tree),
        },
        "asked": [_cluster(post, mask) for mask in answers.watched],
        "clusters": [
            _cluster(post, mask)
            for mask in post.cluster_probabilities(min_probability=LISTED).masks
        ],
        "sensitivity": [
            {
                "beta": row.beta,
                "clusters": [
                    {"members": sorted(names), "probability": p}
                    for names, p in row.probabilities.items()
                ],
            }
            for row in answers.moves
        ],
        "bootstrap": [
            {"members": sorted(row.cluster), "au": row.au, "bp": row.bp}
            for row in answers.bootstrap or ()
        ],
        "notes": answers.notes,
    }


def _cluster(post: hct.Posterior, mask: int) -> dict[str, Any]:
    names = mask_labels(mask, post.labels)
    found = {"members": names, "size": len(names), "probability": post.cluster_probability(mask)}
    known = interval(post, mask)
    return found if known is None else {**found, "interval": known}


def _write_report(request: Request, answers: Answers) -> None:
    from hctrellis.report import write_report

    assert request.report is not None
    items = answers.items
    write_report(
        answers.post,
        request.report,
        title=request.title or f"{request.source.stem}: how sure is the tree?",
        watch=answers.watched,
        table=None if items is None else items.values,
        columns=None if items is None else items.columns,
        groups=items.groups if items and items.groups else None,
        beta=answers.choice,
        sensitivity=answers.moves,
        bootstrap=answers.bootstrap,
        runs=answers.enough,
        settings=answers.settings,
        rng=request.seed,
    )
