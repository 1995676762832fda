"""Jets out of columns: where the momenta are, and all particles one after the other.

Columns come as an Arrow table or record batch, as a Parquet file has them, or as an Awkward array.
The four components are looked for in the columns themselves (each a list of numbers per jet), or
inside one column (a list of records per jet), under the names that `vector` knows: E, px, py, pz,
or pt, phi, one of eta, rapidity, theta and pz, and mass or E.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hctrellis.support.arrow import arrow
from hctrellis.support.imports import ONE_AT_A_TIME
from hctrellis.support.printable import printable

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray, IntArray

COMPONENTS = ("E", "px", "py", "pz")
ENERGIES = ("e", "energy")  # the first one present counts; upper and lower case are alike
AXES, PLAIN_AXES, PLAIN_ENERGY = ("px", "py", "pz"), ("x", "y", "z"), "t"
ANGULAR = {"pt", "rho", "eta", "rapidity", "theta", "phi"}
"""Beside one of these, x, y, z and t are where a particle comes from, not its momentum."""

TRANSVERSE, MASSES = ("pt", "rho"), ("mass", "m")
ALONG = ("eta", "rapidity", "theta", "pz")  # any of them, beside pt and phi

EXPECTED = (
    "expected jets as lists of particles with E, px, py, pz (or energy, x, y, z, t; or pt, phi, "
    "one of eta, rapidity, theta, pz, and mass or E): one column with lists of such records, or "
    "four columns with lists of numbers"
)
_SHOWN_COLUMNS = 12


@dataclass(frozen=True)
class Place:
    """Where the momenta are.

    Attributes
    ----------
    column : str or None
        The column that holds the records; None if the components are columns.
    names : tuple of str
        The names of the four components.
    system : tuple of str
        What these components are: E, px, py, pz, or mass or E, pt, phi, and one of `ALONG`.
    """

    column: str | None
    names: tuple[str, ...]
    system: tuple[str, ...] = COMPONENTS

    @property
    def columns(self) -> list[str]:
        """The columns to read."""
        return [*self.names] if self.column is None else [self.column]


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
    """

    momenta: FloatArray
    sizes: IntArray
    errors: dict[int, str]

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
    fields: Mapping[str, Sequence[str]],
    what: str,
    column: str | None = None,
    vectors: Sequence[str | None] = (),
) -> Place:
    """Find the momenta among columns.

    Parameters
    ----------
    fields : mapping
        The names inside each column; none for a column of numbers or texts.
    what : str
        What has these columns, for messages.
    column : str, optional
        The column with the momenta, or one of the four.
    vectors : sequence of str or None
        The columns (None for the whole array) that are `vector` arrays with other components.
    """
    names: dict[str | None, Sequence[str]] = {None: [*fields], **dict(fields.items())}
    others = [name for name in names if name not in vectors]
    places = [Place(name, *found) for name in others if (found := _components(names[name]))]
    places += [Place(name, COMPONENTS) for name in vectors]
    if column is not None:
        places = [place for place in places if column in place.columns]
        if column not in fields:
            raise ValueError(f"{what} has no column {column!r:.80}; found {_show(fields)}")
    if len(places) > 1:
        shown = " or ".join(", ".join(place.columns) for place in places)
        raise ValueError(
            f"{what} has momenta in several columns ({printable(shown):.200}); say which to "
            f"take, such as column={places[-1].columns[0]!r:.80} (--column on the command line)"
        )
    if not places:
        looked = fields if column is None else {column: fields[column]}
        raise ValueError(f"{what} has no momenta: {EXPECTED}; found {_show(looked)}")
    _refuse_twins(names[places[0].column], places[0], what)
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
    where = what if place.column is None else f"{place.column!r:.80} of {what}"
    for component in place.names:
        twins = [name for name in names if name.lower() == component.lower()]
        if len(twins) > 1:
            shown = f"{component!r:.80} twice" if twins[0] == twins[1] else " and ".join(twins)
            raise ValueError(f"{where} has {printable(shown):.200}; rename one")


def _show(fields: Mapping[str, Sequence[str]]) -> str:
    if not fields:
        return "no columns"
    shown = [
        f"{name}[{', '.join(inner)}]" if inner else name
        for name, inner in [*fields.items()][:_SHOWN_COLUMNS]
    ]
    more = ", ..." if len(fields) > _SHOWN_COLUMNS else ""
    return f"the columns {printable(', '.join(shown)):.200}{more}"


def find_in_schema(schema: Any, what: str, column: str | None = None) -> Place:
    """Find the momenta in an Arrow schema."""
    return find({field.name: _inner(field.type) for field in schema}, what, column)


def _inner(kind: Any) -> list[str]:
    """The names inside an Arrow type: of a list of records, or of a record of lists."""
    if _is_list(kind):
        kind = kind.value_type
    return [field.name for field in kind] if arrow().types.is_struct(kind) else []


def _is_list(kind: Any) -> bool:
    types = arrow().types
    return any(
        is_kind(kind) for is_kind in (types.is_list, types.is_large_list, types.is_fixed_size_list)
    )


# ---- reading ----------------------------------------------------------------------------------


def from_arrow(columns: Any, place: Place, what: str) -> Particles:
    """The particles of an Arrow table or record batch."""
    if place.column is None:
        return _join([columns.column(name) for name in place.names], place, what)
    import pyarrow.compute as pc

    column = columns.column(place.column)
    if arrow().types.is_struct(column.type):
        return _join([pc.struct_field(column, name) for name in place.names], place, what)
    particles = pc.list_flatten(column)
    values = [_numbers(pc.struct_field(particles, name), name, what) for name in place.names]
    return Particles(cartesian(values, place.system), _lengths(column), {})


def from_awkward(array: Any, column: str | None = None, what: str = "the array") -> Particles:
    """The particles of an Awkward array: records, or a `vector` array of momenta."""
    with ONE_AT_A_TIME:
        import awkward as ak

    holders = {None: array, **{name: array[name] for name in array.fields}}
    fields = {name: array[name].fields for name in array.fields}
    place = find(fields, what, column, [name for name in holders if _is_vector(holders[name])])
    holder = holders[place.column]
    parts = [
        holder[name] if name in holder.fields else getattr(holder, name) for name in place.names
    ]
    lists = [ak.to_arrow(ak.to_packed(part), extensionarray=False) for part in parts]
    return _join(lists, Place(None, place.names, place.system), what)


def _is_vector(holder: Any) -> bool:
    """Whether an Awkward array has E, px, py, pz only through the behaviour of `vector`."""
    return _cartesian(holder.fields) is None and all(hasattr(holder, c) for c in COMPONENTS)


def from_fields(jet: Any, what: str) -> FloatArray:
    """The momenta of one jet given as a NumPy array of records, as those of `vector` are."""
    place = find(dict.fromkeys(jet.dtype.names, ()), what)
    return cartesian([np.asarray(jet[name], float) for name in place.names], place.system)


def _join(lists: Sequence[Any], place: Place, what: str) -> Particles:
    """The particles of four columns of lists."""
    import pyarrow.compute as pc

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
    kept = lists if equal.all() else [pc.filter(part, arrow().array(equal)) for part in lists]
    values = [
        _numbers(pc.list_flatten(part), name, what)
        for part, name in zip(kept, place.names, strict=True)
    ]
    return Particles(cartesian(values, place.system), np.where(equal, lengths[0], 0), errors)


def _lengths(lists: Any) -> IntArray:
    """Numbers of entries; 0 for a missing list."""
    import pyarrow.compute as pc

    return _filled(pc.list_value_length(lists), 0).astype(np.int64)


def _numbers(values: Any, name: str, what: str) -> FloatArray:
    """Numbers as float64, NaN where missing."""
    pa = arrow()
    if _is_list(values.type):
        raise ValueError(
            f"{what} has lists of lists of {name}; expected one list of particles per jet (flatten "
            "events into jets first, for instance with awkward.flatten)"
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
