"""The number of vertices (clusters) of a sparse trellis against its sparsity."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from hctrellis.reproduce.figures import INK, new_figure, styled
from hctrellis.reproduce.record import Experiment, Number, Picture, Size, Tell, rounded, silent
from hctrellis.reproduce.sparse import LEAVES, ORDERS, SOURCES, SparseStudy, study_of_size
from hctrellis.reproduce.sparse_map import MARKS, ORDER_NAMES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hctrellis.reproduce.sparse import SparsePoint

ALL_CLUSTERS = 2**LEAVES - 1
PAPER_FULL, PAPER_SPARSITY = "below about 0.1", 0.1


def run(size: Size = "full", seed: int = 1, tell: Tell = silent) -> Experiment:
    """Count the clusters of the sparse trellises."""
    found = study_of_size(size, seed, tell)
    points = found.curves["simulator", "norm"]
    full = next((p for p in points if p.n_clusters == ALL_CLUSTERS), None)
    before = [p for p in points if p.n_clusters < ALL_CLUSTERS][-1]
    reached = f"{before.n_clusters} at {rounded(before.sparsity)}" + (
        "" if full is None else f", all at {rounded(full.sparsity)}"
    )
    last, last_beam = points[-1], found.curves[SOURCES[1], "norm"][-1]
    growth = (
        f"the simulator trellis (leaves by |p|) has all {ALL_CLUSTERS} clusters from a sparsity of "
        f"{rounded(full.sparsity)} on"
        if full is not None
        else f"the simulator trellis (leaves by |p|) has {last.n_clusters} of {ALL_CLUSTERS} "
        f"clusters at a sparsity of {rounded(last.sparsity)}"
    )
    return Experiment(
        name="vertices",
        title="Sparse trellises: vertices against sparsity",
        about=f"The same trellises: how many of the {ALL_CLUSTERS} clusters of {LEAVES} leaves do "
        "they hold? In the paper the simulator trellis has all of them while it still holds "
        "less than about a tenth of the trees; what it gains later are new splits between them.",
        verdict=f"As in the paper, the vertices are complete long before the trees are: {growth}."
        if full is not None
        else f"{growth[0].upper()}{growth[1:]}.",
        conclusion="The clusters are soon all there, but a tree needs its splits, too: the "
        f"sparsity rises further, to {rounded(last.sparsity)} after {last.n_jets:,} jets, with "
        "splits that join known clusters in new ways. A trellis that kept all splits between its "
        "clusters would be full long before, and no longer sparse.",
        numbers=[
            Number(
                "simulator trellis, leaves by |p|: all vertices at a sparsity of",
                PAPER_FULL,
                reached,
                _comparison(before, full),
            )
        ],
        parts=[
            Picture(
                "vertices",
                [_curves(found)],
                "Number of clusters against sparsity for two sources of trees and three orders.",
                f"Filled, solid: trees of the simulator; hollow, dashed: trees of beam search. The "
                f"line at the top is all {ALL_CLUSTERS} clusters.",
            )
        ],
        notes=[
            "Clusters are counted with the leaves and the root.",
            f"The trellis of {last_beam.n_jets:,} beam-search trees (leaves by |p|) ends with "
            f"{last_beam.n_clusters} clusters.",
        ],
        claims={
            "no trellis has more vertices than there are": all(
                p.n_clusters <= ALL_CLUSTERS for curve in found.curves.values() for p in curve
            ),
            "vertices and sparsity never fall as a trellis grows": all(
                a.n_clusters <= b.n_clusters and a.sparsity <= b.sparsity
                for curve in found.curves.values()
                for a, b in pairwise(curve)
            ),
        },
    )


def _comparison(before: SparsePoint, full: SparsePoint | None) -> str:
    if full is None:
        return ""
    if full.sparsity <= PAPER_SPARSITY:
        return "agrees"
    return "agrees within our steps" if before.sparsity < PAPER_SPARSITY else "later"


@styled
def _curves(found: SparseStudy) -> Figure:
    figure, ax = new_figure()
    for source in SOURCES:
        dashes, face = ("-", None) if source == SOURCES[0] else ("--", "white")
        for order in map(str, ORDERS):
            mark, color = MARKS[order]
            points = found.curves[source, order]
            ax.plot(
                [p.sparsity for p in points],
                [p.n_clusters for p in points],
                mark + dashes,
                color=color,
                ms=5.5,
                mfc=face or color,
                label=f"{source}, {ORDER_NAMES[order]}",
            )
    ax.axhline(ALL_CLUSTERS, color=INK, lw=1.2)
    ax.set_xscale("log")
    ax.set_ylim(0, 1.06 * ALL_CLUSTERS)
    ax.set_xlabel("sparsity (trees in the trellis / all trees)")
    ax.set_ylabel("clusters in the trellis")
    ax.legend(loc="lower right", fontsize=9)
    return figure
