"""A table of splits with a probability each, for people and for pandas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from hctrellis.clusters import mask_labels, show_cluster
from hctrellis.posterior.table import CONDITIONAL, SAMPLED
from hctrellis.support.steps import check_stop

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray
    from hctrellis.trellis.solution import Solution

_SHOWN_ROWS = 20


class SplitRow(NamedTuple):
    """Two clusters that are siblings, the number of leaves of both, and how probable that is.

    The standard error is 0 where the probability was computed and not sampled.
    """

    left: frozenset[str]
    right: frozenset[str]
    size: int
    probability: float
    error: float = 0.0


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
        Whether all trees were considered, and nothing was sampled.
    errors : float64 array or None
        The standard errors of probabilities that were sampled; None if they were computed.
    """

    labels: tuple[str, ...]
    masks: tuple[tuple[int, int], ...]
    probabilities: FloatArray
    is_exact: bool = True
    errors: FloatArray | None = None

    @property
    def note(self) -> str:
        """What kind of probabilities these are; empty if they are exact."""
        if self.errors is not None:
            return SAMPLED
        return "" if self.is_exact else CONDITIONAL

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
        error = 0.0 if self.errors is None else float(self.errors[k])
        return SplitRow(left, right, len(left) + len(right), float(self.probabilities[k]), error)

    def to_pandas(self) -> Any:
        """A pandas DataFrame with columns left, right, size, probability, and error if sampled."""
        import pandas as pd

        table = pd.DataFrame(list(self), columns=list(SplitRow._fields))
        return table.drop(columns="error") if self.errors is None else table

    def __repr__(self) -> str:
        wide = "" if self.errors is None else f"{'+-':>7}"
        lines = [f"{'probability':>11}{wide}  {'size':>4}  split"]
        for k in range(min(len(self), _SHOWN_ROWS)):
            left, right = self.masks[k]
            both = " | ".join(show_cluster(mask, self.labels) for mask in (left, right))
            error = "" if self.errors is None else f"{self.errors[k]:7.4f}"
            size = (left | right).bit_count()
            lines.append(f"{self.probabilities[k]:11.4f}{error}  {size:4d}  {both}")
        if len(self) > _SHOWN_ROWS:
            lines.append(f"... {len(self) - _SHOWN_ROWS} more")
        return "\n".join([*lines, self.note] if self.note else lines)


def sorted_splits(
    labels: tuple[str, ...],
    found: Iterable[tuple[float, int, int, float]],
    is_exact: bool,
    sampled: bool = False,
) -> SplitTable:
    """A table of probabilities, two clusters each, and standard errors if they were sampled."""
    rows = sorted(found, key=lambda row: (-row[0], -(row[1] | row[2]).bit_count(), row[1]))
    return SplitTable(
        labels,
        tuple((left, right) for _, left, right, _ in rows),
        np.array([row[0] for row in rows]),
        is_exact,
        np.array([row[3] for row in rows]) if sampled else None,
    )


def solved_splits(
    solution: Solution, probabilities: FloatArray, min_probability: float, is_exact: bool
) -> SplitTable:
    """The splits of at least some probability, given the probabilities of clusters.

    A split is no more probable than any of its three clusters, so only the splits of probable
    clusters are looked at.
    """
    least = max(min_probability, np.finfo(float).tiny)
    vertices = solution.vertices
    found: list[tuple[float, int, int, float]] = []
    parents = np.flatnonzero(probabilities >= least)
    for parent in parents[~vertices.single(parents)].tolist():
        check_stop()
        splits = solution.splits(np.array([parent]))
        near = np.minimum(probabilities[splits.lefts], probabilities[splits.rights]) >= least
        given = np.where(near, solution.split_probabilities(splits), 0.0)
        p = probabilities[parent] * given
        kept = np.flatnonzero(p >= least)
        lefts, rights = (vertices.masks(side[kept]) for side in (splits.lefts, splits.rights))
        found += zip(p[kept].tolist(), lefts, rights, [0.0] * len(kept), strict=True)
    return sorted_splits(solution.potential.labels, found, is_exact)
