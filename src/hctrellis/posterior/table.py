"""A table of clusters with a probability each, for people and for pandas."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from hctrellis.clusters import mask_labels, show_cluster

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray

CONDITIONAL = "probabilities given the trees of a sparse trellis, not over all trees"
SAMPLED = "sampled probabilities with their standard errors"
_SHOWN_ROWS = 20


class ClusterRow(NamedTuple):
    """A cluster, its number of leaves, its probability, and the standard error of that.

    The error is 0 where the probability was computed and not sampled.
    """

    cluster: frozenset[str]
    size: int
    probability: float
    error: float = 0.0


@dataclass(frozen=True, init=False, eq=False, repr=False)
class ClusterTable(Sequence[ClusterRow]):
    """Clusters and their probabilities: the most probable first, then the largest.

    Attributes
    ----------
    labels : tuple of str
    masks : tuple of int
        Leaf i is bit i.
    probabilities : float64 array
    is_exact : bool
        Whether all trees were considered, and nothing was sampled.
    errors : float64 array or None
        The standard errors of probabilities that were sampled; None if they were computed.
    """

    labels: tuple[str, ...]
    masks: tuple[int, ...]
    probabilities: FloatArray
    is_exact: bool = True
    errors: FloatArray | None = None

    def __init__(
        self,
        labels: tuple[str, ...],
        masks: Sequence[int],
        probabilities: FloatArray,
        is_exact: bool = True,
        errors: FloatArray | None = None,
    ) -> None:
        keys = [
            (-p, -mask.bit_count(), mask)
            for p, mask in zip(probabilities.tolist(), masks, strict=True)
        ]
        order = sorted(range(len(keys)), key=keys.__getitem__)
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "masks", tuple(masks[k] for k in order))
        object.__setattr__(self, "probabilities", probabilities[order])
        object.__setattr__(self, "is_exact", is_exact)
        object.__setattr__(self, "errors", None if errors is None else errors[order])

    @property
    def note(self) -> str:
        """What kind of probabilities these are; empty if they are exact."""
        if self.errors is not None:
            return SAMPLED
        return "" if self.is_exact else CONDITIONAL

    def __len__(self) -> int:
        return len(self.masks)

    @overload
    def __getitem__(self, index: int) -> ClusterRow: ...

    @overload
    def __getitem__(self, index: slice) -> list[ClusterRow]: ...

    def __getitem__(self, index: int | slice) -> ClusterRow | list[ClusterRow]:
        if isinstance(index, slice):
            return [self._row(k) for k in range(*index.indices(len(self)))]
        return self._row(range(len(self))[index])

    def __iter__(self) -> Iterator[ClusterRow]:
        return (self._row(k) for k in range(len(self)))

    def _row(self, k: int) -> ClusterRow:
        mask = self.masks[k]
        names = frozenset(mask_labels(mask, self.labels))
        error = 0.0 if self.errors is None else float(self.errors[k])
        return ClusterRow(names, mask.bit_count(), float(self.probabilities[k]), error)

    def to_pandas(self) -> Any:
        """A pandas DataFrame with columns cluster, size, probability, and error if sampled."""
        import pandas as pd

        table = pd.DataFrame(list(self), columns=list(ClusterRow._fields))
        return table.drop(columns="error") if self.errors is None else table

    def __repr__(self) -> str:
        wide = "" if self.errors is None else f"{'+-':>7}"
        lines = [f"{'probability':>11}{wide}  {'size':>4}  cluster"]
        for k in range(min(len(self), _SHOWN_ROWS)):
            mask = self.masks[k]
            cluster = show_cluster(mask, self.labels)
            error = "" if self.errors is None else f"{self.errors[k]:7.4f}"
            lines.append(f"{self.probabilities[k]:11.4f}{error}  {mask.bit_count():4d}  {cluster}")
        if len(self) > _SHOWN_ROWS:
            lines.append(f"... {len(self) - _SHOWN_ROWS} more")
        return "\n".join([*lines, self.note] if self.note else lines)

    def _repr_html_(self) -> str:
        sampled = self.errors is not None
        rows = "".join(
            f"<tr><td>{row.probability:.4f}</td>"
            + (f"<td>{row.error:.4f}</td>" if sampled else "")
            + f"<td>{row.size}</td><td>{html.escape(', '.join(sorted(row.cluster)))}</td></tr>"
            for row in self
        )
        error = "<th>standard error</th>" if sampled else ""
        head = f"<tr><th>probability</th>{error}<th>size</th><th>cluster</th></tr>"
        note = f"<caption>{self.note}</caption>" if self.note else ""
        return f"<table>{note}<thead>{head}</thead><tbody>{rows}</tbody></table>"
