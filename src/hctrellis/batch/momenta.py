"""Jets out of columns: where the momenta are, and all particles one after the other.

Columns come as an Arrow table or record batch, as a Parquet file has them, or as an Awkward array.
The four components are looked for in the columns themselves (each a list of numbers per jet), or
inside one column (a list of records per jet), or inside a column of jets that have such a column,
under the names that `vector` knows: E, px, py, pz, or pt, phi, one of eta, rapidity, theta and pz,
and mass or E. With one more level of lists, rows are events, each with a list of jets.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hctrellis.support.arrow import arrow
from hctrellis.support.imports import ONE_AT_A_TIME
from hctrellis.support.printable import printable

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray, IntArray

Fields: TypeAlias = Mapping[tuple[str, ...], Sequence[str]]
COMPONENTS = ("E", "px", "py", "pz")
ENERGIES = ("e", "energy")  # the first one present counts; upper and lower case are alike
AXES, PLAIN_AXES, PLAIN_ENERGY = ("px", "py", "pz"), ("x", "y", "z"), "t"
ANGULAR = {"pt", "rho", "eta", "rapidity", "theta", "phi"}
"""Beside one of these, x, y, z and t are where a particle comes from, not its momentum."""

TRANSVERSE, MASSES = ("pt", "rho"), ("mass", "m", "tau")  # rho and tau: as `vector` stores them
ALONG = ("eta", "rapidity", "theta", "pz")  # any of them, beside pt and phi

EXPECTED = (
    "expected jets as lists of particles with E, px, py, pz (or energy, x, y, z, t; or pt, phi, "
    "one of eta, rapidity, theta, pz, and mass or E): one column with lists of such records, or "
    "four columns with lists of numbers"
)
MISSING = "the jet is missing (None); leave such jets out, as awkward.drop_none(jets, axis=0) does"
INSIDE = "."  # between a column and one of its records
_SHOWN_COLUMNS = 12


@dataclass(frozen=True)
class Place:
    """Where the momenta are.

    Attributes
    ----------
    path : tuple of str
        The column that holds the records; or a column of records, and that column of theirs; empty
        if the components are columns.
    names : tuple of str
        The names of the four components.
    system : tuple of str
        What these components are: E, px, py, pz, or mass or E, pt, phi, and one of `ALONG`.
    """

    path: tuple[str, ...]
    names: tuple[str, ...]
    system: tuple[str, ...] = COMPONENTS

    @property
    def shown(self) -> str:
        """Its columns, for messages."""
        return INSIDE.join(self.path) or ", ".join(self.names)

    @property
    def columns(self) -> list[str]:
        """The columns to read."""
        return [self.path[0]] if self.path else [*self.names]

    def is_called(self, column: str) -> bool:
        """Whether a user means this place by the name of a column."""
        if not self.path:
            return column in self.names
        return column in (self.path[-1], INSIDE.join(self.path))


@dataclass(frozen=True)
class Particles:
    """The particles of many jets.

    Attributes
    ----------
    momenta : float64 array, shape (number of particles, 4)
        Rows E, px, py, pz, one jet after the other.
    sizes : int64 array
        Numbers of particles of the jets.
    errors : dict from int to str
        What is known to be wrong with a jet, by position; such a jet has no momenta here.
    jets_per_event : int64 array or None
        Numbers of jets of the events that they were nested in, if they were.
    """

    momenta: FloatArray
    sizes: IntArray
    errors: dict[int, str]
    jets_per_event: IntArray | None = None

    def __len__(self) -> int:
        return len(self.sizes)

    def cut(self, start: int, stop: int) -> Particles:
        """The jets from start to stop."""
        first, last = self._ends[start], self._ends[stop]
        errors = {row - start: text for row, text in self.errors.items() if start <= row < stop}
        return Particles(self.momenta[first:last], self.sizes[start:stop], errors)

    def joined(self, other: Particles) -> Particles:
        """These jets, and then others."""
        errors = {len(self) + row: text for row, text in other.errors.items()}
        return Particles(
            np.concatenate([self.momenta, other.momenta]),
            np.concatenate([self.sizes, other.sizes]),
            {**self.errors, **errors},
        )

    @cached_property
    def _ends(self) -> IntArray:
        """Where the jets end in `momenta`, after a 0."""
        return np.concatenate([[0], np.cumsum(self.sizes)])


# ---- finding ----------------------------------------------------------------------------------


def find(
    fields: Fields,
    what: str,
    column: str | None = None,
    vectors: Sequence[tuple[str, ...]] = (),
    numbers: Collection[tuple[str, ...]] = (),
) -> Place:
    """Find the momenta among columns.

    Parameters
    ----------
    fields : mapping
        The names of the columns, under (), and of what is inside them, under their paths.
    what : str
        What has these columns, for messages.
    column : str, optional
        The column with the momenta, or one of the four.
    vectors : sequence of tuple of str
        The paths that are `vector` arrays with other components.
    numbers : collection of tuple of str
        The paths of numbers without any list around: the momentum of a jet, if there are others.
    """
    others = [path for path in fields if path not in vectors]
    places = [Place(path, *found) for path in others if (found := _components(fields[path]))]
    places += [Place(path, COMPONENTS) for path in vectors]
    if column is not None:
        places = [place for place in places if place.is_called(column)]
        if not places and column not in fields[()]:
            raise ValueError(f"{what} has no column {column!r:.80}; found {_show(fields)}")
    if len(places) > 1:
        places = [p for p in places if not all((*p.path, name) in numbers for name in p.names)]
    if len(places) > 1:
        shown = " or ".join(place.shown for place in places)
        one = INSIDE.join(places[-1].path) or places[-1].names[0]
        raise ValueError(
            f"{what} has momenta in several columns ({printable(shown):.200}); say which to "
            f"take, such as column={one!r:.80} (--column on the command line)"
        )
    if not places:
        looked = fields if column is None else {(): [column], (column,): fields.get((column,), ())}
        raise ValueError(f"{what} has no momenta: {EXPECTED}; found {_show(looked)}")
    _refuse_twins(fields[places[0].path], places[0], what)
    return places[0]


def _components(names: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The names of four components among these, and what they are."""
    cartesian = _cartesian(names)
    if cartesian is not None:
        return cartesian, COMPONENTS
    by_lower = {name.lower(): name for name in reversed(names)}
    times = [name for name in (*MASSES, *ENERGIES) if name in by_lower]
    across = [name for name in TRANSVERSE if name in by_lower]
    along = [name for name in ALONG if name in by_lower]
    if not (times and across and along and "phi" in by_lower):
        return None
    found = (times[0], across[0], "phi", along[0])
    what = ("mass" if times[0] in MASSES else "E", "pt", "phi", along[0])
    return tuple(by_lower[name] for name in found), what


def cartesian(values: Sequence[FloatArray], system: tuple[str, ...]) -> FloatArray:
    """Momenta, rows E, px, py, pz, from the four components of a system.

    >>> cartesian([np.array([0.0]), np.array([3.0]), np.array([0.0]), np.array([4.0])],
    ...           ("mass", "pt", "phi", "pz"))
    array([[5., 3., 0., 4.]])
    """
    if system == COMPONENTS:
        return np.column_stack(values)
    time, pt, phi, along = values
    with np.errstate(all="ignore"):  # what is odd here is refused later, jet by jet
        if system[3] == "pz":
            pz = along
        elif system[3] == "eta":
            pz = pt * np.sinh(along)
        elif system[3] == "theta":
            pz = pt / np.tan(along)
        elif system[0] == "E":
            pz = time * np.tanh(along)
        else:
            pz = np.hypot(time, pt) * np.sinh(along)
        energy = time if system[0] == "E" else np.sqrt(time * time + pt * pt + pz * pz)
        return np.column_stack([energy, pt * np.cos(phi), pt * np.sin(phi), pz])


def _cartesian(names: Sequence[str]) -> tuple[str, ...] | None:
    """The names of E, px, py, pz among these."""
    by_lower = {name.lower(): name for name in reversed(names)}
    axes = AXES
    if not by_lower.keys() >= {*AXES} and not by_lower.keys() & ANGULAR:
        axes = PLAIN_AXES
    plain = axes == PLAIN_AXES or not by_lower.keys() & {*PLAIN_AXES}
    energies = (*ENERGIES, PLAIN_ENERGY) if plain else ENERGIES
    energy = next((name for name in energies if name in by_lower), None)
    if energy is None or not by_lower.keys() >= {*axes}:
        return None
    return tuple(by_lower[name] for name in (energy, *axes))


def _refuse_twins(names: Sequence[str], place: Place, what: str) -> None:
    """Refuse a component that is there twice, or in two spellings."""
    where = f"{place.shown!r:.80} of {what}" if place.path else what
    for component in place.names:
        twins = [name for name in names if name.lower() == component.lower()]
        if len(twins) > 1:
            shown = f"{component!r:.80} twice" if twins[0] == twins[1] else " and ".join(twins)
            raise ValueError(f"{where} has {printable(shown):.200}; rename one")


def _show(fields: Fields) -> str:
    names = fields[()]
    if not names:
        return "no columns"
    shown = [
        f"{name}[{', '.join(inner)}]" if (inner := fields.get((name,), ())) else name
        for name in names[:_SHOWN_COLUMNS]
    ]
    more = ", ..." if len(names) > _SHOWN_COLUMNS else ""
    return f"the columns {printable(', '.join(shown)):.200}{more}"


def find_in_schema(schema: Any, what: str, column: str | None = None) -> Place:
    """Find the momenta in an Arrow schema."""
    kinds = {(field.name,): field.type for field in schema}
    for path, kind in [*kinds.items()]:
        kinds |= {(*path, field.name): field.type for field in _records(kind)}
    fields = {path: [field.name for field in _records(kind)] for path, kind in kinds.items()}
    known: dict[tuple[str, ...], list[str]] = {(): [field.name for field in schema]}
    known |= {path: names for path, names in fields.items() if names or len(path) == 1}
    alone = {path for path, kind in kinds.items() if not _is_list(kind)}
    numbers = {path for path in alone if path[:1] in alone}
    return find(known, what, column, (), numbers)


def _records(kind: Any) -> list[Any]:
    """The fields of an Arrow type: of records, or of lists of records."""
    while _is_list(kind):
        kind = kind.value_type
    return [*kind] if arrow().types.is_struct(kind) else []


def _is_list(kind: Any) -> bool:
    types = arrow().types
    return any(
        is_kind(kind) for is_kind in (types.is_list, types.is_large_list, types.is_fixed_size_list)
    )


# ---- reading ----------------------------------------------------------------------------------


def from_arrow(columns: Any, place: Place, what: str) -> Particles:
    """The particles of an Arrow table or record batch."""
    if not place.path:
        return _join([columns.column(name) for name in place.names], place, what)
    parts = [columns.column(place.path[0])] * len(place.names)
    for depth in range(1, len(place.path) + 1):
        inner = place.path[depth:]
        parts = [
            _inside(part, inner[0] if inner else name)
            for part, name in zip(parts, place.names, strict=True)
        ]
    return _join(parts, place, what)


def _inside(column: Any, name: str) -> Any:
    """A field of records, or of lists of records, as lists of the same lengths."""
    import pyarrow.compute as pc

    pa = arrow()
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks == 1:
            return _inside(column.chunk(0), name)
        parts = [_inside(chunk, name) for chunk in column.chunks]
        return pa.chunked_array(parts) if parts else _inside(pa.array([], column.type), name)
    if not _is_list(column.type):
        return pc.struct_field(column, name)
    inner = _inside(pc.list_flatten(column), name)
    ends = np.concatenate([[0], np.cumsum(_lengths(column))])
    gone = pc.is_null(column) if column.null_count else None
    return pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), inner, mask=gone)


def from_awkward(array: Any, column: str | None = None, what: str = "the array") -> Particles:
    """The particles of an Awkward array: records, or a `vector` array of momenta."""
    holders: dict[tuple[str, ...], Any] = {(): array}
    for path in [(name,) for name in array.fields]:
        holders[path] = array[path]
        holders |= {(*path, name): array[(*path, name)] for name in array[path].fields}
    fields = {path: holder.fields for path, holder in holders.items() if len(path) < 2}
    fields |= {path: holder.fields for path, holder in holders.items() if holder.fields}
    vectors = [path for path, holder in holders.items() if _is_vector(holder)]
    numbers = {path for path, holder in holders.items() if path and holder.ndim < 2}
    place = find(fields, what, column, vectors, numbers)
    holder = holders[place.path]
    parts = [
        holder[name] if name in holder.fields else getattr(holder, name) for name in place.names
    ]
    return from_lists(parts, place, what)


def from_lists(parts: Sequence[Any], place: Place, what: str) -> Particles:
    """The particles of Awkward arrays of the four components."""
    with ONE_AT_A_TIME:
        import awkward as ak

    lists = [ak.to_arrow(ak.to_packed(part), extensionarray=False) for part in parts]
    return _join(lists, place, what)


def _is_vector(holder: Any) -> bool:
    """Whether an Awkward array has E, px, py, pz only through the behaviour of `vector`."""
    return _cartesian(holder.fields) is None and all(hasattr(holder, c) for c in COMPONENTS)


def from_fields(jet: Any, what: str) -> FloatArray:
    """The momenta of one jet given as a NumPy array of records, as those of `vector` are."""
    place = find({(): jet.dtype.names}, what)
    return cartesian([np.asarray(jet[name], float) for name in place.names], place.system)


def _join(lists: Sequence[Any], place: Place, what: str) -> Particles:
    """The particles of four columns of lists, or of lists of lists: events with jets."""
    import pyarrow.compute as pc

    events = None
    if all(_is_list(part.type) and _is_list(part.type.value_type) for part in lists):
        lists, events = _unnested(lists, place, what)
    for part, name in zip(lists, place.names, strict=True):
        if not _is_list(part.type):
            raise ValueError(
                f"{name:.80} of {what} holds {printable(str(part.type)):.80} for a jet, not a "
                f"list of numbers; {EXPECTED}"
            )
    lengths = np.array([_lengths(part) for part in lists]).reshape(4, -1)
    equal = (lengths == lengths[0]).all(axis=0)
    errors = {
        int(row): "the jet has "
        + ", ".join(f"{n} {name}" for n, name in zip(lengths[:, row], place.names, strict=True))
        + "; expected one of each per particle"
        for row in np.flatnonzero(~equal)
    }
    gone = np.any([_filled(pc.is_null(part), 0) for part in lists], axis=0)
    errors |= {int(row): MISSING for row in np.flatnonzero(gone)}
    kept = lists if equal.all() else [pc.filter(part, arrow().array(equal)) for part in lists]
    values = [
        _numbers(pc.list_flatten(part), name, what)
        for part, name in zip(kept, place.names, strict=True)
    ]
    sizes = np.where(equal, lengths[0], 0)
    return Particles(cartesian(values, place.system), sizes, errors, events)


def _unnested(lists: Sequence[Any], place: Place, what: str) -> tuple[list[Any], IntArray]:
    """The jets of all events in four columns, and how many each event has."""
    import pyarrow.compute as pc

    counts = [_lengths(part) for part in lists]
    for other, name in zip(counts, place.names, strict=True):
        if (other != counts[0]).any():
            event = int(np.flatnonzero(other != counts[0])[0])
            raise ValueError(
                f"event {event} of {what} has {counts[0][event]} jets by {place.names[0]:.80} and "
                f"{other[event]} by {name:.80}; expected as many lists of each"
            )
    return [pc.list_flatten(part) for part in lists], counts[0]


def _lengths(lists: Any) -> IntArray:
    """Numbers of entries; 0 for a missing list."""
    import pyarrow.compute as pc

    return _filled(pc.list_value_length(lists), 0).astype(np.int64)


def _numbers(values: Any, name: str, what: str) -> FloatArray:
    """Numbers as float64, NaN where missing."""
    pa = arrow()
    if _is_list(values.type):
        raise ValueError(
            f"{what} has lists of lists of lists of {name}; expected a list of particles for each "
            "jet, or a list of jets for each event (awkward.flatten takes one level away)"
        )
    known = (pa.types.is_integer, pa.types.is_floating, pa.types.is_null)
    if not any(is_kind(values.type) for is_kind in known):
        raise ValueError(
            f"{name:.80} of {what} holds {printable(str(values.type)):.80}; expected numbers"
        )
    import pyarrow.compute as pc

    return _filled(pc.cast(values, pa.float64(), safe=False), np.nan)


def _filled(values: Any, missing: float) -> npt.NDArray[Any]:
    """An Arrow array as one of NumPy, with a number in place of what is missing."""
    import pyarrow.compute as pc

    return np.asarray(pc.fill_null(values, missing) if values.null_count > 0 else values)
