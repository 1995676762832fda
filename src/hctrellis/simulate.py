r"""Simulated jets: the toy shower Ginkgo, with the history of every jet known.

A node of squared mass t > t_cut splits. With r_1, r_2 exponential of rate lam (lam_root at the
root) and below 0.999,

t_a = t r_1, t_b = (sqrt(t) - sqrt(t_a))^2 r_2,

and the two children fly apart in a direction uniform on the sphere in the rest frame of their
parent; the two are swapped with probability 1/2. A node with t <= t_cut is a leaf, a particle.

`ginkgo` makes `Jets`, a sequence of `Jet`: the particles, the true tree and its log likelihood.

References
----------
K. Cranmer, S. Macaluso, D. Pappadopulo, Toy generative model for jets, 2019.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from hctrellis.files import replaced
from hctrellis.imports import ONE_AT_A_TIME
from hctrellis.memory import check_fits
from hctrellis.potentials.checks import (
    as_between,
    as_count,
    as_finite,
    as_positive,
    default_labels,
)
from hctrellis.potentials.fourvectors import LARGEST_ENERGY, LEAST_SQUARE
from hctrellis.potentials.jets import RATES, Ginkgo
from hctrellis.progress import Progress, followed
from hctrellis.tree import Tree

if TYPE_CHECKING:
    from hctrellis.sample import Seed
    from hctrellis.tree import FloatArray, IntArray

    Selection = Sequence[int] | Sequence[bool] | IntArray | npt.NDArray[np.bool_]

MOMENTUM = 400.0  # of the root
MOST_LEAVES = 1_000_000  # of one jet
MASSES = (math.sqrt(LEAST_SQUARE), LARGEST_ENERGY)  # between which those of the root must be
MOST_JETS = 10**12
HOPELESS = 100_000  # jets, none with a wanted number of leaves, after which we give up
_EFFORT = 200_000  # nodes simulated between two looks at Ctrl-C: some 50 ms
_COMPONENTS = ("E", "px", "py", "pz")
_RATES = ("lam", "lam_root", "t_cut")
_EXPECTED = "expected a file that Jets.to_parquet wrote"
_COLUMNS = ("particles", "tree", "t", "log_likelihood", "n_leaves", *_RATES)


class Preset(NamedTuple):
    """A kind of jet: the mass of its root and its rates (lam_root None: the same as lam)."""

    mass: float
    lam: float
    lam_root: float | None


PRESETS = {"qcd": Preset(30.0, 1.5, None), "w": Preset(80.0, 1.5, 3.0)}


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
            _offsets(sizes),
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
        >>> ginkgo(1, leaves=2, rng=1).newicks()
        ['(0,1);']
        """
        rows = self.children.tolist()
        ends = (self.offsets - np.arange(len(self) + 1)).tolist()
        return [_newick(rows[i:j]) for i, j in pairwise(ends)]

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
        """Write the jets to a Parquet file, one row a jet.

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
            "t": pa.LargeListArray.from_arrays(_offsets(2 * self.n_leaves - 1), self.t),
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
        from hctrellis.batch.tables import texts

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
            _offsets(sizes),
            as_finite(np.stack([np.asarray(part) for part in momenta], axis=1), "particles"),
            np.concatenate([children[tree] for tree in trees]),
            as_finite(t, "t"),
            table["log_likelihood"].to_numpy(),
            *rates,
        )


def ginkgo(
    size: int,
    preset: str = "qcd",
    *,
    lam: float | None = None,
    lam_root: float | None = None,
    t_cut: float = 16.0,
    mass: float | None = None,
    momentum: npt.ArrayLike | None = None,
    leaves: int | tuple[int, int] | None = None,
    rng: Seed = None,
    progress: Progress | bool | None = None,
) -> Jets:
    """Simulate jets with the toy shower Ginkgo.

    The log likelihood of a jet is that of its true tree under the model `Ginkgo`, which knows
    neither the masses of leaves nor which child was drawn first: of the two children of a split
    the heavier counts as the first, a leaf has t = 0 and the probability of stopping at t_cut. It
    is computed from the squared masses that were drawn. Those that follow from the momenta of the
    particles of a cluster of energy E agree with them to about 1e-16 E^2 / t (relative), the
    rounding of the momenta; energy and momentum are conserved to 1e-14.

    Parameters
    ----------
    size : int
        Number of jets.
    preset : "qcd" or "w"
        What is used for `mass`, `lam` and `lam_root` if they are not given: mass 30 and both rates
        1.5 for a jet of a light quark or gluon, mass 80, lam 1.5 and lam_root 3 for a W boson.
    lam : float, optional
        Decay rate.
    lam_root : float, optional
        Decay rate of the first splitting; in a QCD jet the same as `lam`.
    t_cut : float
        Squared mass up to which nothing splits.
    mass : float, optional
        Mass of the root.
    momentum : float or array_like, shape (3,), optional
        Momentum of the root: its size (400 by default), in the direction (1, 1, 1), or its three
        components.
    leaves : int or (int, int), optional
        Keep only jets with this number of leaves, or from the first to the second of two numbers.
    rng : int, numpy Generator or None
        Seed of the random numbers.
    progress : bool or callable, optional
        True shows a progress bar; a callable is called as progress(jets made, jets in all).

    Returns
    -------
    Jets

    Raises
    ------
    ValueError
        If a parameter is out of range, or (almost) no jet has the wanted number of leaves.

    Examples
    --------
    >>> jets = ginkgo(1000, leaves=(5, 10), rng=1)
    >>> jets
    Jets(1000 jets, 5 to 10 leaves, lam=1.5, t_cut=16)
    >>> jet = jets[0]
    >>> bool(np.isclose(jet.potential().log_weight(jet.tree), jet.log_likelihood))
    True
    """
    if not isinstance(size, int | np.integer) or isinstance(size, bool) or size < 0:
        raise ValueError(f"size must be a whole number, not negative; got {size!r:.80}")
    if size > MOST_JETS:
        raise ValueError(f"size must not exceed {MOST_JETS:,} jets at a time; got {size!r:.80}")
    if str(preset).lower() not in PRESETS:
        raise ValueError(f"preset must be 'qcd' or 'w'; got {preset!r:.80}")
    usual = PRESETS[str(preset).lower()]
    mass = as_between(usual.mass if mass is None else mass, "mass", *MASSES)
    lam = as_between(usual.lam if lam is None else lam, "lam", *RATES)
    if lam_root is None:
        lam_root = usual.lam_root or lam
    shower = _Shower(
        _root_momentum(mass, MOMENTUM if momentum is None else momentum),
        mass**2,
        as_between(t_cut, "t_cut", LEAST_SQUARE),
        lam,
        as_between(lam_root, "lam_root", *RATES),
    )
    window = _as_window(leaves)
    with followed(progress, "jets") as report, ThreadPoolExecutor(1) as pool:
        return _simulate(int(size), shower, window, np.random.default_rng(rng), report, pool)


class _Shower(NamedTuple):
    root: FloatArray
    t_root: float
    t_cut: float
    lam: float
    lam_root: float


def _simulate(
    size: int,
    shower: _Shower,
    window: tuple[int, int] | None,
    rng: np.random.Generator,
    progress: Progress,
    pool: ThreadPoolExecutor,
) -> Jets:
    """Jets from the kernel, in batches that do not change the stream of random numbers."""
    from hctrellis.kernels.shower import showers

    low, high = window or (1, MOST_LEAVES)
    batches: list[list[npt.NDArray[Any]]] = []
    made = fewer = more = 0
    check_fits(32 * low * size, f"{size} jets", "fewer jets at a time")  # their momenta, at least
    while made < size or not batches:
        # in another thread, since Ctrl-C while Numba hands out arrays is a SystemError
        call = pool.submit(showers, rng, *shower, low, high, size - made, _EFFORT)
        *arrays, n_fewer, n_more = call.result()
        batches.append(arrays)
        made, fewer, more = made + len(arrays[0]), fewer + n_fewer, more + n_more
        needed = 2 * size * sum(array.nbytes for array in arrays) // max(1, len(arrays[0]))
        check_fits(needed, f"{size} jets", "fewer jets at a time")
        if more > 0 and window is None:
            raise ValueError(
                f"a jet grew beyond {MOST_LEAVES:,} leaves; raise t_cut ({shower.t_cut:g} now) or "
                "say how many leaves are wanted, leaves=(low, high)"
            )
        if made == 0 and fewer + more >= HOPELESS:
            raise ValueError(
                f"none of {fewer + more:,} jets had {_show_window(low, high)} leaves ({fewer:,} "
                f"had fewer, {more:,} more); ask for other leaves, or change t_cut or mass"
            )
        progress(made, size)
    sizes, momenta, children, t, likelihoods = map(np.concatenate, zip(*batches, strict=True))
    return Jets(
        _offsets(sizes),
        momenta,
        children,
        t,
        likelihoods,
        shower.lam,
        shower.lam_root,
        shower.t_cut,
    )


# ---- what was asked for -----------------------------------------------------------------------


def _root_momentum(mass: float, momentum: npt.ArrayLike) -> FloatArray:
    vector = as_finite(momentum, "momentum")
    if vector.ndim == 0:
        vector = np.full(3, as_positive(float(vector), "momentum", zero=True) / math.sqrt(3.0))
    if vector.shape != (3,):
        raise ValueError(
            f"momentum must be a number, or three components px, py, pz; got shape {vector.shape}"
        )
    energy = as_between(math.hypot(mass, *vector), "the energy of the root", *MASSES)
    return np.array([energy, *vector])


def _as_window(leaves: int | tuple[int, int] | None) -> tuple[int, int] | None:
    if leaves is None:
        return None
    ends = leaves if isinstance(leaves, tuple | list) else (leaves, leaves)
    if len(ends) != 2:
        raise ValueError(f"leaves must be a number or a pair (low, high); got {leaves!r:.80}")
    low, high = (as_count(end, "each number of leaves") for end in ends)
    if low > high:
        raise ValueError(f"leaves=({low}, {high}) is empty; put the smaller number first")
    if high > MOST_LEAVES:
        raise ValueError(f"leaves must not exceed {MOST_LEAVES:,} per jet; got {high:,}")
    return low, high


def _show_window(low: int, high: int) -> str:
    return f"{low}" if low == high else f"{low} to {high}"


# ---- ragged arrays ----------------------------------------------------------------------------


def _offsets(sizes: IntArray) -> IntArray:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])


def _runs(starts: IntArray, sizes: IntArray) -> IntArray:
    """The numbers starts[i] .. starts[i] + sizes[i] - 1, for one i after the other."""
    offsets = _offsets(sizes)
    return np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1])


def _newick(rows: list[list[int]]) -> str:
    texts = list(default_labels(len(rows) + 1))
    for left, right in rows:
        texts.append(f"({texts[left]},{texts[right]})")
    return texts[-1] + ";"


def _read_table(path: str | Path) -> Any:
    """The columns of a file, of the types that `Jets.to_parquet` writes."""
    import pyarrow as pa

    from hctrellis.batch.tables import open_parquet, read_columns, readable

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
