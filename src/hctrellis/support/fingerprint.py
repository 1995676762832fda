"""Fingerprints of inputs, by which a resumed run knows that its input is still the same."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from types import CodeType
from typing import Any

import numpy as np


def fingerprint(*values: object) -> str:
    """A short text that is the same for equal values, in any process.

    Arrays, numbers, texts and containers count with what they hold, functions with their code and
    what it refers to, other objects with their attributes.

    Examples
    --------
    >>> fingerprint([1.0, "a"]) == fingerprint([1.0, "a"])
    True
    >>> fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 2)
    False
    """
    digest = blake2b(digest_size=16)
    _add(digest, values, set())
    return digest.hexdigest()


def _add(digest: Any, value: Any, above: set[int]) -> None:
    if isinstance(value, str | bytes | int | float | bool | None):
        digest.update(f"{type(value).__name__} {value!r};".encode())
    elif isinstance(value, np.ndarray) and value.dtype != object:
        digest.update(f"{value.dtype.str} {value.shape};".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    elif id(value) in above:  # it refers to itself
        digest.update(b"above;")
    else:
        digest.update(f"{type(value).__qualname__}(".encode())
        for part in _parts(value):
            _add(digest, part, above | {id(value)})
        digest.update(b")")


def _parts(value: Any) -> list[Any]:
    """What an object consists of."""
    if isinstance(value, tuple | list | np.ndarray):
        return list(value)
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    if isinstance(value, Mapping):
        return [*value.items()]
    if isinstance(value, CodeType):
        return [value.co_code, value.co_names, value.co_consts]
    function = getattr(value, "py_func", value)  # of Numba
    if hasattr(function, "__code__"):
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        return [function.__code__, function.__defaults__, *cells]
    return sorted(getattr(value, "__dict__", {}).items())
