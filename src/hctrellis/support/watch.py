"""Whether a function is still what it was: its code, and all that it refers to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from hctrellis.support.fingerprint import OpaqueError, Reader, own_parts, references
from hctrellis.support.glance import Glance


class Watch:
    """Tells whether a function is still what it was when the watch was made.

    Attributes
    ----------
    unknown : bool
        Whether it depends on something for which this cannot be told.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = getattr(function, "py_func", function)
        self._glance: Glance | None = None
        self._contents = self._read([], shallow=False)
        self._bindings = self._read([], shallow=True)
        self.unknown = None in self._contents.values()

    def changed(self) -> list[str]:
        """The names of what the function depends on that have changed."""
        if self._glance is not None and self._glance.same():
            return []
        found = self._read(things := [self._function], shallow=False)
        changed = _differing(self._contents, found)
        self._glance = None if changed or self.unknown else Glance(things)
        return changed

    def rebound(self) -> list[str]:
        """The same, except for what the function itself may change when it is called.

        These are the contents of arrays, lists, dictionaries and objects, and names that the
        function assigns to.
        """
        return _differing(self._bindings, self._read([], shallow=True))

    def _read(self, things: list[Any], shallow: bool) -> dict[str, bytes | None]:
        """Digests by name; adds what was read to `things`."""
        function = self._function
        if not isinstance(function, FunctionType):
            return {"its state": _mark(function, things, shallow)}
        found = {"its code": _mark(own_parts(function), things, shallow)}
        try:
            parts = references(function, shallow)
        except OpaqueError:
            return {"what it refers to": None, **found}
        return {name: _mark(value, things, shallow) for name, value in parts} | found

    def __getstate__(self) -> dict[str, Any]:
        """Without what refers to the globals of this process."""
        return self.__dict__ | {"_glance": None}


def _mark(value: object, things: list[Any], shallow: bool) -> bytes | None:
    reader = Reader(shallow)
    try:
        return reader.digest(value)
    except OpaqueError:
        return None
    finally:
        things += reader.seen


def _differing(old: Mapping[str, bytes | None], new: Mapping[str, bytes | None]) -> list[str]:
    return [name for name in dict.fromkeys([*old, *new]) if old.get(name) != new.get(name)]
