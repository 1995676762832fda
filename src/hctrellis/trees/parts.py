"""What formats read: the parts that `Tree` takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy.typing as npt


class Parts(NamedTuple):
    """What `Tree` takes: children (k-th row: node n + k), labels, heights of internal nodes."""

    children: npt.ArrayLike
    labels: Sequence[str] | None = None
    heights: npt.ArrayLike | None = None


class Written(NamedTuple):
    """One of several trees of a text: its parts, its weight if it has one, and where it begins."""

    parts: Parts
    weight: float | None
    position: int


def number_joins(joins: list[tuple[int, int]], n_leaves: int) -> list[tuple[int, int]]:
    """Replace ~k by n + k."""
    return [
        (left if left >= 0 else n_leaves + ~left, right if right >= 0 else n_leaves + ~right)
        for left, right in joins
    ]
