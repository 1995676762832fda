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
_SHOWN_ROWS = 20


class ClusterRow(NamedTuple):
    """A cluster, its number of leaves and its probability."""

    cluster: frozenset[str]
    size: int
    probability: float


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
        Whether all trees were considered; if not, probabilities are conditional on those that were.
    """

    labels: tuple[str, ...]
    masks: tuple[int, ...]
    probabilities: FloatArray
    is_exact: bool = True

    def __init__(
        self,
        labels: tuple[str, ...],
        masks: Sequence[int],
        probabilities: FloatArray,
        is_exact: bool = True,
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
        return ClusterRow(names, mask.bit_count(), float(self.probabilities[k]))

    def to_pandas(self) -> Any:
        """A pandas DataFrame with columns cluster, size, probability."""
        import pandas as pd

        return pd.DataFrame(list(self), columns=list(ClusterRow._fields))

    def __repr__(self) -> str:
        lines = [f"{'probability':>11}  {'size':>4}  cluster"]
        for k in range(min(len(self), _SHOWN_ROWS)):
            mask = self.masks[k]
            cluster = show_cluster(mask, self.labels)
            lines.append(f"{self.probabilities[k]:11.4f}  {mask.bit_count():4d}  {cluster}")
        if len(self) > _SHOWN_ROWS:
            lines.append(f"... {len(self) - _SHOWN_ROWS} more")
        if not self.is_exact:
            lines.append(CONDITIONAL)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{row.probability:.4f}</td><td>{row.size}</td>"
            f"<td>{html.escape(', '.join(sorted(row.cluster)))}</td></tr>"
            for row in self
        )
        head = "<tr><th>probability</th><th>size</th><th>cluster</th></tr>"
        note = "" if self.is_exact else f"<caption>{CONDITIONAL}</caption>"
        return f"<table>{note}<thead>{head}</thead><tbody>{rows}</tbody></table>"
