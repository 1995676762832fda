"""What a batch gives back: a table, in memory or in a folder, and a count of what went wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hctrellis.support.arrow import arrow, parquet
from hctrellis.support.files import replaced
from hctrellis.support.imports import ONE_AT_A_TIME

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hctrellis.support.types import IntArray

REASONS = 3  # error messages that a summary keeps
COUNTED = {
    "log_partition",
    "repaired",
    "error",
}  # the columns that a summary looks at, if they exist


@dataclass
class Summary:
    """Counts of rows, added up over the parts of the table in any order."""

    n_rows: int = 0
    n_failed: int = 0
    n_without_tree: int = 0
    n_repaired: int = 0
    reasons: dict[int, str] = field(default_factory=dict)

    def add(self, start: int, columns: Mapping[str, Any]) -> None:
        """Count a part of the table that begins at row `start`, given some of its columns."""
        import pyarrow.compute as pc

        log_partition, error = columns["log_partition"], columns["error"]
        self.n_rows += len(error)
        self.n_failed += len(error) - error.null_count
        self.n_without_tree += pc.sum(pc.equal(log_partition, -float("inf"))).as_py() or 0
        if "repaired" in columns:
            self.n_repaired += pc.sum(pc.greater(columns["repaired"], 0)).as_py() or 0
        failed = pc.indices_nonzero(error.is_valid())[:REASONS].to_pylist()
        self.reasons |= {start + row: error[row].as_py() for row in failed}
        self.reasons = dict(sorted(self.reasons.items())[:REASONS])


@dataclass(frozen=True, repr=False)
class BatchResult:
    """The answers of `infer_many`, one row per data set, in the order of the input.

    The columns are

    - ``event``: the number of its event, of jets that are nested in events;
    - ``n_leaves``: number of leaves;
    - ``log_partition``, ``map_log_weight``: log Z and the log weight of the MAP tree; -inf if every
      tree is forbidden. Beyond ``max_leaves`` the tree is the best that was found, and log Z is
      null where only a bound is known;
    - ``map_tree``: the MAP tree in Newick format; null if every tree is forbidden;
    - ``n_trees``: the exact number of trees of non-zero weight: 64-bit integers, or decimals of 38
      digits if a data set has more than 18 leaves; null where not all trees were considered, and
      where they were not counted (see ``count_trees``);
    - ``method``: "exact", "sparse" (over the trees of a grown trellis) or "sampled";
    - ``log_partition_error``: the standard error of log Z: 0 where it is exact, null where it is
      not known;
    - ``bound``: log Z is not below it;
    - ``entropy``, ``true_log_weight``, ``seconds``: if they were asked for;
    - ``map_heights``, if asked for: the heights of the MAP tree, in the order of
      ``Tree.children`` (the root last); null if the model has none;
    - ``clusters``, if asked for: a list of records, the most probable first, with the ``leaves`` of
      a cluster (counted from 0), its ``probability`` and the standard ``error`` of that, 0 where it
      was computed; where the method is "sparse", probabilities are those among the trees of the
      grown trellis. Null where no probabilities can be given;
    - ``samples``, if asked for: a list of records with a ``tree`` in Newick format and its
      ``log_weight``; where the method is "sampled", trees of a chain are not independent;
    - ``repaired``, of jets: how many space-like particles were put on their mass shells (see
      ``on_shell`` of `Ginkgo`);
    - ``error``: what was wrong with a data set, null if nothing. With an error, all columns that
      could not be computed are null.

    Attributes
    ----------
    n_rows : int
        Number of data sets.
    n_failed : int
        How many have an error.
    n_without_tree : int
        For how many every tree is forbidden.
    n_repaired : int
        How many are jets with particles that were put on their mass shells.
    reasons : dict from int to str
        The errors of the first rows that have one.
    folder : Path or None
        Where the table is, if it is not in memory.
    parts : tuple
        Arrow tables, or the paths of the Parquet files in that folder, in order.
    jets_per_event : int64 array or None
        Numbers of jets of the events that they were nested in, if they were.
    """

    n_rows: int
    n_failed: int
    n_without_tree: int
    n_repaired: int
    reasons: dict[int, str]
    folder: Path | None
    parts: tuple[Any, ...]
    jets_per_event: IntArray | None = None

    @classmethod
    def from_parts(
        cls, summary: Summary, parts: Iterable[Any], folder: Path | None = None
    ) -> BatchResult:
        """A result of tables or files in order."""
        return cls(**vars(summary), folder=folder, parts=tuple(parts))

    def __len__(self) -> int:
        return self.n_rows

    def to_arrow(self) -> Any:
        """The table as a pyarrow Table."""
        if self.folder is None:
            return arrow().concat_tables(self.parts)
        return arrow().concat_tables(parquet().read_table(path) for path in self.parts)

    def to_awkward(self) -> Any:
        """The table as an Awkward array of records; a list of them for each event, if jets had one.

        Numbers of trees beyond 64 bits become floating-point numbers, since Awkward has no such
        integers.
        """
        with ONE_AT_A_TIME:
            import awkward as ak

        table = self.to_arrow()
        pa = arrow()
        if pa.types.is_decimal(table.schema.field("n_trees").type):
            place = table.schema.get_field_index("n_trees")
            table = table.set_column(place, "n_trees", table["n_trees"].cast(pa.float64()))
        flat = ak.from_arrow(table)
        return flat if self.jets_per_event is None else ak.unflatten(flat, self.jets_per_event)

    def to_pandas(self) -> Any:
        """The table as a pandas DataFrame; numbers of trees beyond 64 bits are Python integers."""
        table = self.to_arrow()
        frame = table.to_pandas()
        if arrow().types.is_decimal(table.schema.field("n_trees").type):
            frame["n_trees"] = frame["n_trees"].map(int, na_action="ignore")
        return frame

    def write_parquet(self, path: str | Path) -> None:
        """Write the table as one Parquet file."""
        with replaced(Path(path)) as half:
            parquet().write_table(self.to_arrow(), half)

    def __repr__(self) -> str:
        counts = [
            f"{self.n_rows} data sets",
            f"{self.n_failed} failed",
            f"{self.n_without_tree} without any tree",
            *([f"{self.n_repaired} repaired"] if self.n_repaired > 0 else []),
            *([] if self.folder is None else [f"in {self.folder}"]),
        ]
        return f"BatchResult({', '.join(counts)})"
