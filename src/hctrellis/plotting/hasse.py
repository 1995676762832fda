"""What a diagram of the trellis shows, and where: clusters in columns, and the splits between."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hctrellis.clusters import mask_leaves
from hctrellis.support.checks import as_count

if TYPE_CHECKING:
    from hctrellis.posterior.base import BasePosterior
    from hctrellis.support.types import FloatArray

WHOLE = 6  # leaves up to which all clusters are drawn
MIN_PROBABILITY = 0.05  # of the clusters that are drawn if there are more leaves

Place = tuple[float, float]
"""Column and row of a cluster."""


def choose_clusters(post: BasePosterior, most: int | None, least: float | None) -> dict[int, float]:
    """The clusters (masks) that are drawn, the largest first, and their probabilities."""
    n = post.n_leaves
    whole = n <= WHOLE and most is None and least is None
    if least is not None and not 0 <= least <= 1:
        raise ValueError(f"min_probability must be from 0 to 1; got {least!r:.80}")
    if whole and post.is_exact:
        masks = {*range(1, 1 << n)}
    else:
        count = 2 * n if most is None else as_count(most, "max_clusters")
        bound = MIN_PROBABILITY if least is None else least
        table = post.cluster_probabilities(0.0 if whole else bound)
        masks = {*table.masks[: None if whole else count], *post.map_tree.clusters(leaves=True)}
    order = sorted(masks, key=lambda mask: (-mask.bit_count(), mask))
    return {mask: post.cluster_probability(mask) for mask in order}


class Split(NamedTuple):
    """A cluster, its two parts, and the probability that a tree splits it this way."""

    parent: int
    left: int
    right: int
    probability: float


def list_splits(post: BasePosterior, clusters: Mapping[int, float]) -> list[Split]:
    """All splits between clusters, the least probable first."""
    found = []
    for parent in clusters:
        first = parent & -parent
        for left in clusters:
            right = parent ^ left
            if first & left and left & parent == left and right in clusters:
                found.append(Split(parent, left, right, post.split_probability(left, right)))
    return sorted(found, key=lambda split: split.probability)


def place_clusters(clusters: Iterable[int], rows: FloatArray) -> dict[int, Place]:
    """Where clusters stand: in columns of equal size, near the mean of the rows of their leaves."""
    columns: dict[int, list[tuple[float, int]]] = {}
    for mask in clusters:
        centre = float(np.mean([rows[leaf] for leaf in mask_leaves(mask)]))
        columns.setdefault(mask.bit_count(), []).append((centre, mask))
    places = {}
    for x, size in enumerate(sorted(columns, reverse=True)):
        centres, masks = zip(*sorted(columns[size]), strict=True)
        for mask, y in zip(masks, _spread(np.array(centres), len(rows)), strict=True):
            places[mask] = (float(x), float(y))
    return places


def _spread(wanted: FloatArray, n_rows: int) -> FloatArray:
    """Places at least one step apart, as near as possible to those wanted, which are in order.

    After taking off one step for each place before it, the places are the isotonic regression of
    those wanted: neighbours in the wrong order both take their mean.
    """
    step = min(1.0, n_rows / len(wanted))
    steps = step * np.arange(len(wanted))
    blocks: list[tuple[float, int]] = []
    for value in (wanted - steps).tolist():
        blocks.append((value, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (one, many), (other, more) = blocks.pop(), blocks.pop()
            blocks.append(((one * many + other * more) / (many + more), many + more))
    means, counts = zip(*blocks, strict=True)
    edge = (step - 1) / 2
    last = n_rows - 1 - edge - float(steps[-1])
    return np.asarray(np.clip(np.repeat(means, counts), edge, last) + steps)


def by_label(mask: int, labels: Sequence[str]) -> str:
    """A cluster by the labels of its leaves."""
    return "{" + ",".join(labels[leaf] for leaf in mask_leaves(mask)) + "}"


def by_row(mask: int, rows: FloatArray, brief: bool = False) -> str:
    """A cluster by the rows of its leaves, counted from 1; in brief, by the first and the last.

    >>> by_row(0b1011101, np.arange(7.0)), by_row(0b1011101, np.arange(7.0), brief=True)
    ('{1,3–5,7}', '{1…7}')
    """
    runs: list[list[int]] = []
    for row in sorted(int(rows[leaf]) + 1 for leaf in mask_leaves(mask)):
        if runs and row == runs[-1][-1] + 1:
            runs[-1].append(row)
        else:
            runs.append([row])
    if brief and len(runs) > 1:
        return f"{{{runs[0][0]}…{runs[-1][-1]}}}"
    texts = [f"{r[0]}–{r[-1]}" if len(r) > 2 else ",".join(map(str, r)) for r in runs]
    return "{" + ",".join(texts) + "}"
