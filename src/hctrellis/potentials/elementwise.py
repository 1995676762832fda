"""Arrays that allow only elementwise operations: a test of what a function does with arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray

_FUNCTIONS = (np.where, np.clip)


class Elementwise(NDArrayOperatorsMixin):
    """An array that takes operators, ufuncs, `numpy.where` and `numpy.clip`; nothing else.

    It has no length and no items, and no branch may depend on it. So a function that takes it does
    the same to all elements, whatever the values, and takes arrays of any shapes that broadcast.
    """

    def __init__(self, values: Any) -> None:
        self.values = values

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or ufunc.signature is not None or options:
            return NotImplemented
        return _applied(ufunc, inputs)

    def __array_function__(
        self, function: Any, types: Any, arguments: Sequence[Any], options: dict[str, Any]
    ) -> Any:
        if function not in _FUNCTIONS or options:
            return NotImplemented
        return _applied(function, arguments)

    def __getitem__(self, index: Any) -> Elementwise:
        if not isinstance(index, tuple) or index:
            raise TypeError("only the whole array may be asked for, by [()]")
        return self

    def __array__(self, *arguments: Any, **options: Any) -> Any:
        raise TypeError("only elementwise operations are allowed")

    def __bool__(self) -> bool:
        raise TypeError("no branch may depend on an array")


def _applied(function: Callable[..., Any], inputs: Sequence[Any]) -> Any:
    if any(np.ndim(item) > 0 for item in inputs if not isinstance(item, Elementwise)):
        return NotImplemented  # another array, with a shape of its own
    found = function(*(item.values if isinstance(item, Elementwise) else item for item in inputs))
    return tuple(map(Elementwise, found)) if isinstance(found, tuple) else Elementwise(found)


def is_elementwise(function: Callable[..., Any], *rows: Sequence[FloatArray]) -> bool:
    """Whether a function of sequences of arrays does nothing but compute elementwise."""
    try:
        found = function(*([Elementwise(row) for row in side] for side in rows))
    except Exception:  # whatever it raises where it needs more than that
        return False
    parts = found if isinstance(found, tuple) else (found,)
    return all(isinstance(part, Elementwise) or np.isscalar(part) for part in parts)
