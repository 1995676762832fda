"""A quick look at things that were read before: whether they still consist of the same objects.

To read a function and all that it refers to takes a millisecond; to see that nothing in it was
replaced, some microseconds. A `Glance` is made of everything that a `fingerprint.Reader` has read.
What cannot change, or is known by its name, needs no look. Lists, dictionaries, functions, classes
and ordinary objects are what they were if they hold the very same objects, at which one looks in
their turn. Arrays, and all other things, are read again.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Mapping
from operator import is_
from sys import intern
from types import BuiltinFunctionType, CodeType, FunctionType, MappingProxyType
from typing import Any

import numpy as np

from hctrellis.support.fingerprint import (
    OpaqueError,
    Reader,
    analysed,
    content,
    has_attributes_only,
    is_open,
    name_of,
    names_of_slots,
    references,
)

_NOTHING = object()
_FIXED = (tuple, frozenset, CodeType, BuiltinFunctionType)  # these hold the same for ever


_Look = tuple[Callable[..., list[Any]], tuple[Any, ...], list[Any]]
"""A function that lists the parts of something, what it is called with, and what it listed."""


class Glance:
    """What some things consisted of, for a later look at them."""

    def __init__(self, things: Iterable[Any]) -> None:
        self._looks: list[_Look] = []
        self._readings: list[tuple[Any, bytes]] = []
        for thing in things:
            if _changes(thing):
                self._add(thing)

    def same(self) -> bool:
        """Whether they are as they were; if this is False, they may be, and must be read."""
        try:
            return self._look_same() and self._read_same()
        except OpaqueError:
            return False

    def _look_same(self) -> bool:
        for parts, given, before in self._looks:
            now = parts(*given)
            if len(now) != len(before) or not all(map(is_, now, before)):
                return False
        return True

    def _read_same(self) -> bool:
        return all(Reader().digest(thing) == before for thing, before in self._readings)

    def _add(self, thing: Any) -> None:
        kind = type(thing)
        if kind in (list, set):
            self._look(list, thing)
        elif kind in (dict, MappingProxyType):
            self._look(_inside, thing)
        elif isinstance(getattr(thing, "py_func", None), FunctionType):  # a function of Numba
            self._look(_of_compiled, thing)
        elif kind is FunctionType:
            self._look(_of_function, thing, _reaches_open_modules(thing))
        elif isinstance(thing, type):
            self._look(_of_class, thing)
        elif has_attributes_only(thing):
            self._look(_of_object, thing, *names_of_slots(kind))
        else:
            self._readings.append((thing, Reader().digest(thing)))

    def _look(self, parts: Callable[..., list[Any]], *given: Any) -> None:
        self._looks.append((parts, given, parts(*given)))


def _changes(thing: Any) -> bool:
    """Whether something may come to consist of other objects."""
    kind = type(thing)
    fixed = kind in _FIXED or (isinstance(thing, np.generic) and kind is not np.void)
    return not fixed and name_of(thing) is None


def _inside(mapping: Mapping[Any, Any]) -> list[Any]:
    return [*mapping, *mapping.values()]


def _of_compiled(function: Any) -> list[Any]:
    return [function.py_func, getattr(function, "targetoptions", None)]


def _of_function(function: FunctionType, in_open_modules: bool) -> list[Any]:
    """Its code, defaults and attributes, and what the names mean that it refers to."""
    own: list[Any] = [function.__code__, function.__defaults__, function.__kwdefaults__]
    if in_open_modules:
        own += [part for name, value in references(function) for part in (intern(name), value)]
    return [*own, *_inside(vars(function)), *_meanings(function)]


def _meanings(function: FunctionType) -> list[Any]:
    scope, otherwise = function.__globals__, vars(builtins)
    names = analysed(function.__code__).loaded
    cells = map(content, function.__closure__ or ())
    return [*(scope.get(name, otherwise.get(name, _NOTHING)) for name in names), *cells]


def _reaches_open_modules(function: FunctionType) -> bool:
    """Whether a function refers to modules in which users may set something."""
    imports = analysed(function.__code__).imported
    return bool(imports) or any(map(is_open, _meanings(function)))


def _of_class(kind: type) -> list[Any]:
    return [*kind.__bases__, *_inside(vars(kind))]


def _of_object(thing: Any, *slots: str) -> list[Any]:
    """Its class, attributes and slots."""
    held = [getattr(thing, name, _NOTHING) for name in slots]
    return [type(thing), *held, *_inside(getattr(thing, "__dict__", {}))]
