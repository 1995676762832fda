"""Simulated jets: their particles, true trees and likelihoods; to and from files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

from hctrellis.potentials.jets import Ginkgo
from hctrellis.support.checks import as_finite, as_positive, default_labels
from hctrellis.support.files import replaced
from hctrellis.support.imports import ONE_AT_A_TIME
from hctrellis.tree import Tree
from hctrellis.trees.newick import newick_many

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray, IntArray

    Selection = Sequence[int] | Sequence[bool] | IntArray | npt.NDArray[np.bool_]

_COMPONENTS = ("E", "px", "py", "pz")
_RATES = ("lam", "lam_root", "t_cut")
_EXPECTED = "expected a file that Jets.to_parquet wrote"
_COLUMNS = ("particles", "tree", "t", "log_likelihood", "n_leaves", *_RATES)


@dataclass(frozen=True, eq=False, repr=False)
class Jet:
    """A simulated jet.

    Attributes
    ----------
    momenta : float64 array, shape (n, 4), read-only
        Rows E, px, py, pz of the particles, in the order of the leaves of the tree from left to
        right.
    children : int64 array, shape (n - 1, 2), read-only
        The true tree, as in `Tree`.
    t : float64 array, shape (2n - 1,), read-only
        The squared mass drawn for each node of the tree: the leaves first, the root last.
    log_likelihood : float
        Log weight of the true tree under `potential()`.
    lam, lam_root, t_cut : float
    """

    momenta: FloatArray
    children: IntArray
    t: FloatArray
    log_likelihood: float
    lam: float
    lam_root: float
    t_cut: float

    @property
    def n_leaves(self) -> int:
        """Number of particles."""
        return len(self.momenta)

    @cached_property
    def tree(self) -> Tree:
        """The true tree; leaf i is particle i."""
        return Tree(self.children)

    def potential(self) -> Ginkgo:
        """The model the jet was simulated from, bound to its particles."""
        return Ginkgo(self.momenta, self.lam, self.t_cut, self.lam_root)

    def __repr__(self) -> str:
        return f"Jet({self.n_leaves} leaves, log likelihood {self.log_likelihood:.6g})"


@dataclass(frozen=True, eq=False, repr=False)
class Jets(Sequence[Jet]):
    """Simulated jets, kept as flat arrays: a sequence of `Jet`, each made when it is asked for.

    A slice, a boolean mask or an array of indices selects jets: ``jets[jets.n_leaves == 9]``.

    Attributes
    ----------
    offsets : int64 array, shape (size + 1,), read-only
        The particles of jet i are the rows from offsets[i] to offsets[i + 1].
    momenta : float64 array, shape (particles, 4), read-only
        Rows E, px, py, pz.
    children : int64 array, shape (particles - size, 2), read-only
        The trees, one below the other; nodes are numbered within each jet.
    t : float64 array, shape (2 particles - size,), read-only
        The squared masses drawn for the nodes.
    log_likelihood : float64 array, shape (size,), read-only
        Log weight of each true tree.
    lam, lam_root, t_cut : float
    """

    offsets: IntArray
    momenta: FloatArray
    children: IntArray
    t: FloatArray
    log_likelihood: FloatArray
    lam: float
    lam_root: float
    t_cut: float

    def __post_init__(self) -> None:
        for array in (self.offsets, self.momenta, self.children, self.t, self.log_likelihood):
            array.flags.writeable = False

    @cached_property
    def n_leaves(self) -> IntArray:
        """Number of particles of each jet."""
        sizes: IntArray = np.diff(self.offsets)
        sizes.flags.writeable = False
        return sizes

    # ---- a sequence ---------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.log_likelihood)

    @overload
    def __getitem__(self, index: int) -> Jet: ...

    @overload
    def __getitem__(self, index: slice | Selection) -> Jets: ...

    def __getitem__(self, index: int | slice | Selection) -> Jet | Jets:
        chosen = np.arange(len(self))[index]
        return self._take(chosen) if isinstance(chosen, np.ndarray) else self._jet(int(chosen))

    def __iter__(self) -> Iterator[Jet]:
        return map(self._jet, range(len(self)))

    def _jet(self, i: int) -> Jet:
        start, stop = int(self.offsets[i]), int(self.offsets[i + 1])
        return Jet(
            self.momenta[start:stop],
            self.children[start - i : stop - i - 1],
            self.t[2 * start - i : 2 * stop - i - 1],
            float(self.log_likelihood[i]),
            self.lam,
            self.lam_root,
            self.t_cut,
        )

    def _take(self, rows: IntArray) -> Jets:
        starts, sizes = self.offsets[rows], self.n_leaves[rows]
        return Jets(
            as_offsets(sizes),
            self.momenta[_runs(starts, sizes)],
            self.children[_runs(starts - rows, sizes - 1)],
            self.t[_runs(2 * starts - rows, 2 * sizes - 1)],
            self.log_likelihood[rows],
            self.lam,
            self.lam_root,
            self.t_cut,
        )

    def __repr__(self) -> str:
        sizes = self.n_leaves
        leaves = f", {sizes.min()} to {sizes.max()} leaves" if len(self) else ""
        root = "" if self.lam_root == self.lam else f", lam_root={self.lam_root:g}"
        return f"Jets({len(self)} jets{leaves}, lam={self.lam:g}{root}, t_cut={self.t_cut:g})"

    # ---- other forms --------------------------------------------------------------------------

    def newicks(self) -> list[str]:
        """The true trees in Newick format; the leaves are called 0, 1, ...

        Examples
        --------
        >>> from hctrellis.simulate import ginkgo
        >>> ginkgo(1, n_leaves=2, rng=1).newicks()
        ['(0,1);']
        """
        found = np.empty(len(self), object)
        starts = self.offsets[:-1] - np.arange(len(self))
        for n in np.unique(self.n_leaves).tolist():
            rows = np.flatnonzero(self.n_leaves == n)
            children = self.children[starts[rows, None] + np.arange(n - 1)]
            texts, ends = newick_many(children)
            text = texts.tobytes().decode()
            found[rows] = [text[i:j] for i, j in pairwise(ends.tolist())]
        return found.tolist()

    def to_awkward(self) -> Any:
        """The particles as an Awkward Array: a list per jet of records E, px, py, pz.

        The records are called Momentum4D, so that `vector.register_awkward()` gives them masses,
        angles and boosts.
        """
        with ONE_AT_A_TIME:
            import awkward as ak

        columns = [ak.contents.NumpyArray(np.ascontiguousarray(c)) for c in self.momenta.T]
        records = ak.contents.RecordArray(
            columns, list(_COMPONENTS), parameters={"__record__": "Momentum4D"}
        )
        return ak.Array(ak.contents.ListOffsetArray(ak.index.Index64(self.offsets), records))

    def to_parquet(self, path: str | Path) -> None:
        """Write the jets to a Parquet file, one row per jet.

        The columns are ``particles`` (a list of records E, px, py, pz), ``tree`` (Newick, leaves
        called 0, 1, ...), ``t`` (the squared masses drawn, see `Jet`), ``log_likelihood``,
        ``n_leaves`` and, the same in each row, ``lam``, ``lam_root`` and ``t_cut``.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        records = pa.StructArray.from_arrays(list(self.momenta.T), names=list(_COMPONENTS))
        columns = {
            "particles": pa.LargeListArray.from_arrays(self.offsets, records),
            "tree": pa.array(self.newicks(), pa.string()),
            "t": pa.LargeListArray.from_arrays(as_offsets(2 * self.n_leaves - 1), self.t),
            "log_likelihood": self.log_likelihood,
            "n_leaves": self.n_leaves,
        }
        columns |= {name: np.full(len(self), getattr(self, name)) for name in _RATES}
        with replaced(Path(path)) as half:
            pq.write_table(pa.table(columns), half)

    @classmethod
    def from_parquet(cls, path: str | Path) -> Jets:
        """Read what `to_parquet` wrote.

        Raises
        ------
        ValueError
            If a column is missing, there is no jet, the jets differ in lam, lam_root or t_cut, or
            a tree does not fit its particles.
        """
        from hctrellis.support.arrow import texts

        table = _read_table(path)
        rates = [_the_value(table[name].to_numpy(), name, path) for name in _RATES]
        sizes, records = _unnest(table["particles"])
        counts, t = _unnest(table["t"])
        momenta = [records.field(name) for name in _COMPONENTS]
        columns = [*(table[name] for name in _COLUMNS), records, *momenta, t]
        if any(column.null_count for column in columns):
            raise ValueError(f"{path} has missing values; {_EXPECTED}")
        if not np.array_equal(counts, 2 * sizes - 1):
            raise ValueError(f"{path} does not have one t for each of the 2n - 1 nodes of a jet")
        trees = list(zip(texts(table["tree"]), sizes.tolist(), strict=True))
        children = {tree: _read_newick(*tree, path) for tree in set(trees)}
        return cls(
            as_offsets(sizes),
            as_finite(np.stack([np.asarray(part) for part in momenta], axis=1), "particles"),
            np.concatenate([children[tree] for tree in trees]),
            as_finite(t, "t"),
            table["log_likelihood"].to_numpy(),
            *rates,
        )


# ---- ragged arrays ----------------------------------------------------------------------------


def as_offsets(sizes: IntArray) -> IntArray:
    """Where lists of these sizes begin, one after the other, and where the last one ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])


def _runs(starts: IntArray, sizes: IntArray) -> IntArray:
    """The numbers starts[i] .. starts[i] + sizes[i] - 1, for one i after the other."""
    offsets = as_offsets(sizes)
    return np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1])


def _read_table(path: str | Path) -> Any:
    """The columns of a file, of the types that `Jets.to_parquet` writes."""
    import pyarrow as pa

    from hctrellis.support.arrow import open_parquet, read_columns, readable

    missing = set(_COLUMNS) - set(open_parquet(path).schema_arrow.names)
    if missing:
        raise ValueError(f"{path} has no column {min(missing)!r}; {_EXPECTED}")
    number, text = pa.float64(), pa.dictionary(pa.int32(), pa.string())
    record = pa.struct([(name, number) for name in _COMPONENTS])
    types = (pa.large_list(record), text, pa.large_list(number), number, pa.int64(), *[number] * 3)
    table = read_columns(open_parquet(path, read_dictionary=["tree"]), path, _COLUMNS)
    with readable(path):
        return table.select(_COLUMNS).cast(pa.schema(list(zip(_COLUMNS, types, strict=True))))


def _read_newick(text: str, n_leaves: int, path: str | Path) -> IntArray:
    try:
        return Tree.from_newick(text).reorder(default_labels(n_leaves)).children
    except ValueError as error:
        what = f"a tree of {path} does not fit its {n_leaves} particles"
        raise ValueError(f"{what}: {error}") from None


def _unnest(column: Any) -> tuple[IntArray, Any]:
    """The lengths of the lists of a column (0 where there is none), and their entries."""
    lists = column.combine_chunks()
    return np.diff(np.asarray(lists.offsets)), lists.flatten()


def _the_value(values: FloatArray, name: str, path: str | Path) -> float:
    different = np.unique(values)
    if len(different) == 0:
        raise ValueError(f"{path} has no jets")
    if len(different) > 1:
        raise ValueError(
            f"the jets of {path} differ in {name} ({different[0]:g} and {different[1]:g}); keep "
            "jets of one kind in a file"
        )
    return as_positive(different[0], name)
