"""A table of splits with a probability each, for people and for pandas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from hctrellis.clusters import mask_labels, show_cluster
from hctrellis.posterior.table import CONDITIONAL
from hctrellis.support.steps import check_stop

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray
    from hctrellis.trellis.solution import Solution

_SHOWN_ROWS = 20


class SplitRow(NamedTuple):
    """Two clusters that are siblings, the number of leaves of both, and how probable that is."""

    left: frozenset[str]
    right: frozenset[str]
    size: int
    probability: float


@dataclass(frozen=True, eq=False, repr=False)
class SplitTable(Sequence[SplitRow]):
    """Splits and their probabilities: the most probable first, then the largest.

    Attributes
    ----------
    labels : tuple of str
    masks : tuple of pairs of int
        The two clusters, the one with the lowest leaf first; leaf i is bit i.
    probabilities : float64 array
    is_exact : bool
        Whether all trees were considered; if not, probabilities are conditional on those that were.
    """

    labels: tuple[str, ...]
    masks: tuple[tuple[int, int], ...]
    probabilities: FloatArray
    is_exact: bool = True

    def __len__(self) -> int:
        return len(self.masks)

    @overload
    def __getitem__(self, index: int) -> SplitRow: ...

    @overload
    def __getitem__(self, index: slice) -> list[SplitRow]: ...

    def __getitem__(self, index: int | slice) -> SplitRow | list[SplitRow]:
        if isinstance(index, slice):
            return [self._row(k) for k in range(*index.indices(len(self)))]
        return self._row(range(len(self))[index])

    def __iter__(self) -> Iterator[SplitRow]:
        return (self._row(k) for k in range(len(self)))

    def _row(self, k: int) -> SplitRow:
        left, right = (frozenset(mask_labels(mask, self.labels)) for mask in self.masks[k])
        return SplitRow(left, right, len(left) + len(right), float(self.probabilities[k]))

    def to_pandas(self) -> Any:
        """A pandas DataFrame with columns left, right, size, probability."""
        import pandas as pd

        return pd.DataFrame(list(self), columns=list(SplitRow._fields))

    def __repr__(self) -> str:
        lines = [f"{'probability':>11}  {'size':>4}  split"]
        for k in range(min(len(self), _SHOWN_ROWS)):
            left, right = self.masks[k]
            both = " | ".join(show_cluster(mask, self.labels) for mask in (left, right))
            lines.append(f"{self.probabilities[k]:11.4f}  {(left | right).bit_count():4d}  {both}")
        if len(self) > _SHOWN_ROWS:
            lines.append(f"... {len(self) - _SHOWN_ROWS} more")
        if not self.is_exact:
            lines.append(CONDITIONAL)
        return "\n".join(lines)


def solved_splits(
    solution: Solution, probabilities: FloatArray, min_probability: float, is_exact: bool
) -> SplitTable:
    """The splits of at least some probability, given the probabilities of clusters.

    A split is no more probable than any of its three clusters, so only the splits of probable
    clusters are looked at.
    """
    least = max(min_probability, np.finfo(float).tiny)
    vertices = solution.vertices
    found: list[tuple[float, int, int]] = []
    parents = np.flatnonzero(probabilities >= least)
    for parent in parents[~vertices.single(parents)].tolist():
        check_stop()
        splits = solution.splits(np.array([parent]))
        near = np.minimum(probabilities[splits.lefts], probabilities[splits.rights]) >= least
        given = np.where(near, solution.split_probabilities(splits), 0.0)
        p = probabilities[parent] * given
        kept = np.flatnonzero(p >= least)
        lefts, rights = (vertices.masks(side[kept]) for side in (splits.lefts, splits.rights))
        found += zip(p[kept].tolist(), lefts, rights, strict=True)
    found.sort(key=lambda row: (-row[0], -(row[1] | row[2]).bit_count(), row[1]))
    return SplitTable(
        solution.potential.labels,
        tuple((left, right) for _, left, right in found),
        np.array([p for p, _, _ in found]),
        is_exact,
    )
