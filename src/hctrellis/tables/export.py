"""Files of a clustering: the tree, its clusters, all numbers, figures; each whole or not at all."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hctrellis._version import __version__
from hctrellis.clusters import mask_labels
from hctrellis.posterior.base import BasePosterior
from hctrellis.posterior.lookup import Lookup
from hctrellis.posterior.partition import Partition
from hctrellis.posterior.posterior import Posterior
from hctrellis.report.words import interval
from hctrellis.support.files import check_writable, replaced, write_bytes, write_text
from hctrellis.tree import Tree

if TYPE_CHECKING:
    from hctrellis.tables.result import Clustering

LISTED = 0.01  # clusters from this probability on are listed
FORMAT = "hctrellis-inference"
FIGURES = (".pdf", ".svg", ".png", ".eps")
NEWICKS = (".nwk", ".newick", ".tre")
FOLDER = ("report.html", "tree.pdf", "tree.svg", "tree.nwk", "clusters.csv", "all.json")


def save(found: Clustering, path: Path, ending: str | None = None) -> list[Path]:
    """Write one file, by its ending or as another one, or a folder of all."""
    if ending is None and (path.suffix == "" or path.is_dir()):
        path.mkdir(parents=True, exist_ok=True)
        return [save(found, path / name)[0] for name in FOLDER]
    check_writable(path)
    suffix = ending or path.suffix.lower()
    if suffix in (".html", ".htm"):
        return [found.report(path)]
    if suffix in FIGURES:
        return [write_figure(found, path)]
    if suffix in NEWICKS:
        return [_write_tree(found, path)]
    if suffix == ".csv":
        return [write_text(path, clusters_csv(found))]
    if suffix == ".json":
        return [write_text(path, json.dumps(as_json(found), indent=1, ensure_ascii=False) + "\n")]
    if suffix == ".npz":
        found.posterior.save(path)
        return [path]
    known = ", ".join((".html", *FIGURES, ".nwk", ".csv", ".json", ".npz"))
    raise ValueError(f"{path.name} ends in none of {known}; give one of these, or a folder")


def _write_tree(found: Clustering, path: Path) -> Path:
    """The MAP tree; with the lengths of the trees that were read, if trees were."""
    post = found.posterior
    if found.runs is not None and post.n_leaves > 1 and isinstance(post, Posterior):
        from hctrellis.runs import summary_tree

        summary_tree(found.runs, post=post).write(path)
        return path
    return write_text(path, as_newick(post, post.map_tree) + "\n")


def write_figure(found: Clustering, path: Path) -> Path:
    """The MAP tree as a figure for a paper."""
    from hctrellis.plotting import figure_axes, fitting_shape, save_figure

    tree = found.posterior.map_tree
    shape, numbers = fitting_shape(tree), 3 if found.bootstrap else 1
    axes = found.plot(figure_axes(tree, found.groups or None, shape, numbers), shape=shape)
    with replaced(path) as half:
        save_figure(axes, half, path.suffix.lower().removeprefix("."))
    return path


def as_newick(post: BasePosterior, tree: Tree) -> str:
    """Newick text; with branch lengths if there are heights, raised where a child is higher."""
    support = Lookup(post).support(tree)
    if tree.heights is None:
        return tree.to_newick(support=support)
    raised = Tree.from_linkage(tree.to_linkage(), labels=tree.labels)
    return raised.to_newick(support=support, lengths=True, length_format=".8g")


def write_linkage(path: Path, tree: Tree) -> Path:
    """The linkage matrix as SciPy defines it: a NumPy file, or CSV."""
    matrix = tree.to_linkage()
    if path.suffix.lower() == ".npy":
        target = io.BytesIO()
        np.save(target, matrix)
        return write_bytes(path, target.getvalue())
    lines = [f"{a:.0f},{b:.0f},{height!r},{size:.0f}" for a, b, height, size in matrix.tolist()]
    return write_text(path, "\n".join(["left,right,height,size", *lines]) + "\n")


def clusters_csv(found: Clustering) -> str:
    """All clusters of some probability, as CSV."""
    table = found.table if found.posterior.is_reliable else ()
    rows = [[r.probability, r.error, r.size, "; ".join(sorted(r.cluster))] for r in table]
    head, opinion = ["probability", "error", "size", "members"], found.second_opinion
    if opinion is not None and found.posterior.is_reliable:
        known = Lookup(opinion.posterior)
        head.append(f"by_{opinion.names[1]}".replace(" ", "_"))
        for row, mask in zip(rows, found.table.masks, strict=True):
            row.append(known.probability(mask))
    return _csv([head, *rows])


def flat_csv(part: Partition) -> str:
    """Flat clusters, as CSV: a row for each item."""
    numbers = part.assignment.tolist()
    rows = [
        [label, number, _number(float(part.probabilities[number]))]
        for label, number in zip(part.labels, numbers, strict=True)
    ]
    return _csv([["item", "cluster", "probability"], *rows])


def _csv(rows: list[list[Any]]) -> str:
    target = io.StringIO()
    csv.writer(target, lineterminator="\n").writerows(rows)
    return target.getvalue()


def as_json(found: Clustering) -> dict[str, Any]:
    """All numbers, for programs."""
    post, choice, known = found.posterior, found.beta_choice, Lookup(found.posterior)
    listed = post.cluster_probabilities(LISTED).masks if post.is_reliable else ()
    return {
        "format": FORMAT,
        "version": __version__,
        "settings": dict(found.settings),
        "labels": list(post.labels),
        "beta": post.potential.beta if post.potential.has_energy else None,
        "beta_choice": choice and {"rule": choice.rule, "sentence": choice.sentence},
        "method": post.method,
        "how": post.how,
        "is_exact": post.is_exact or not post.potential.has_energy,
        "is_reliable": post.is_reliable,
        "converged": None if post.growth is None else post.growth.converged,
        "n_trees": getattr(post, "n_trees", None),
        "n_best_trees": getattr(post, "n_map_trees", None),
        "log_partition": post.log_partition,
        "log_partition_error": post.log_partition_error,
        "log_partition_bound": post.log_partition_bound,
        "map": {
            "log_weight": post.map_log_weight,
            "log_probability": post.map_log_probability if post.is_reliable else None,
            "newick": as_newick(post, post.map_tree),
        },
        "asked": [_cluster(post, known, mask) for mask in found.watched],
        "clusters": [_cluster(post, known, mask) for mask in listed],
        "unreliable": [
            {"members": mask_labels(doubt.mask, post.labels), "low": doubt.low, "high": doubt.high}
            for doubt in (post.diagnostics.doubts if post.diagnostics else ())
        ],
        "sensitivity": [
            {
                "beta": row.beta,
                "clusters": [
                    {"members": sorted(names), "probability": p}
                    for names, p in row.probabilities.items()
                ],
            }
            for row in found.moves
        ],
        "second_opinion": _opinion(found),
        "optimality": str(found.optimality) if found.items is not None else None,
        "bootstrap": [
            {"members": sorted(row.cluster), "au": _number(row.au), "bp": row.bp}
            for row in found.bootstrap or ()
        ],
        "notes": found.notes,
    }


def _opinion(found: Clustering) -> dict[str, Any] | None:
    """What another model says, cluster by cluster."""
    opinion = found.second_opinion
    if opinion is None:
        return None
    model = opinion.posterior.potential
    return {
        "models": list(opinion.names),
        "sentence": opinion.sentence,
        "beta": model.beta if model.has_energy else None,
        **{
            kind: [
                {"members": sorted(each.cluster), "probabilities": [each.first, each.second]}
                for each in listed
            ]
            for kind, listed in (("agreed", opinion.agreed), ("disputed", opinion.disputed))
        },
    }


def _number(value: float) -> float | None:
    return value if value == value else None  # NaN is no JSON


def _cluster(post: BasePosterior, known: Lookup, mask: int) -> dict[str, Any]:
    names = mask_labels(mask, post.labels)
    p = known.probability(mask)
    found = {
        "members": names,
        "size": len(names),
        "probability": p,
        "error": None if p is None else known.error(mask),
    }
    between = interval(post, mask)
    return found if between is None else {**found, "interval": between}
