"""Whether a function is still what it was: its code, and all that it refers to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import CellType, FunctionType
from typing import Any

import numpy as np

from hctrellis.support.fingerprint import (
    PLAIN,
    OpaqueError,
    Reader,
    analysed,
    name_of,
    own_parts,
    references,
)


class Watch:
    """Tells whether a function is still what it was when the watch was made.

    Attributes
    ----------
    unknown : bool
        Whether it depends on something for which this cannot be told.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._contents = self._read(shallow=False)
        self._bindings = self._read(shallow=True)
        self._constants = _constants(function)
        self.unknown = None in self._contents.values()

    def changed(self) -> list[str]:
        """The names of what the function depends on that have changed."""
        if self._constants is not None and self._constants.hold():
            return []
        return _differing(self._contents, self._read(shallow=False))

    def rebound(self) -> list[str]:
        """The same, except for what the function itself may change when it is called.

        These are the contents of arrays, lists, dictionaries and objects, and names that the
        function assigns to.
        """
        return _differing(self._bindings, self._read(shallow=True))

    def _read(self, shallow: bool) -> dict[str, bytes | None]:
        function = getattr(self._function, "py_func", self._function)
        if not isinstance(function, FunctionType):
            return {"its state": _mark(function, shallow)}
        try:
            found = {name: _mark(value, shallow) for name, value in references(function, shallow)}
        except OpaqueError:
            found = {"what it refers to": None}
        return {**found, "its code": _mark(own_parts(function), shallow)}

    def __getstate__(self) -> dict[str, Any]:
        """Without what refers to the globals of this process."""
        return self.__dict__ | {"_constants": None}


def _mark(value: object, shallow: bool) -> bytes | None:
    try:
        return Reader(shallow).digest(value)
    except OpaqueError:
        return None


def _differing(old: Mapping[str, bytes | None], new: Mapping[str, bytes | None]) -> list[str]:
    return [name for name in dict.fromkeys([*old, *new]) if old.get(name) != new.get(name)]


# ---- a quick look -----------------------------------------------------------------------------


class _Constants:
    """Where a function, and those it calls, find what they refer to, and what they found."""

    def __init__(self) -> None:
        self.names: list[tuple[dict[str, Any], str, Any]] = []
        self.cells: list[tuple[CellType, Any]] = []
        self.functions: dict[FunctionType, tuple[Any, ...]] = {}

    def hold(self) -> bool:
        """Whether the same things are still found there."""
        return (
            all(scope.get(name, _constants) is value for scope, name, value in self.names)
            and all(cell.cell_contents is value for cell, value in self.cells)
            and all(_versions(each) == was for each, was in self.functions.items())
        )


def _constants(function: Any) -> _Constants | None:
    """What a function refers to, if all of it is constants and functions; None if not.

    A glance then shows whether these are still the same; otherwise all must be read again.
    """
    found = _Constants()
    todo = [getattr(function, "py_func", function)]
    while todo:
        each = todo.pop()
        if not isinstance(each, FunctionType) or vars(each):
            return None
        if each in found.functions:
            continue
        found.functions[each] = _versions(each)
        names = analysed(each.__code__)
        if names.imported or names.stored:
            return None
        scope = each.__globals__
        here = [(scope, name, scope.get(name, _constants)) for name in names.loaded]
        cells = [(cell, cell.cell_contents) for cell in each.__closure__ or ()]
        found.names += here
        found.cells += cells
        values = [*(value for *_, value in here), *(value for _, value in cells)]
        todo += [getattr(v, "py_func", v) for v in values if not _is_constant(v)]
        if not _is_constant((each.__defaults__, tuple((each.__kwdefaults__ or {}).values()))):
            return None
    return found


def _versions(function: FunctionType) -> tuple[Any, ...]:
    return function.__code__, function.__defaults__, function.__kwdefaults__


def _is_constant(value: Any) -> bool:
    """Whether this cannot change as long as it is the same object."""
    if type(value) is tuple:
        return all(map(_is_constant, value))
    plain = type(value) in (int, *PLAIN) or isinstance(value, np.generic)
    return plain or value is _constants or name_of(value) is not None
