"""A user's Numba function, compiled anew, so that it follows its text and its globals of now.

Numba compiles a function when it is first called, and globals are constants from then on, in
each version for a kind of arguments. A copy of the function, and of the Numba functions it calls,
starts afresh.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable
from types import CellType, CodeType, FunctionType
from typing import Any

from hctrellis.kernels.compile import INNER
from hctrellis.kernels.door import Dispatcher, numba, to_fixed_tuple
from hctrellis.kernels.door import types as nt
from hctrellis.kernels.lifetime import end_with, kept_for, sweep
from hctrellis.kernels.users import as_terms, signature

Weigh = Callable[..., None]


_copies: weakref.WeakKeyDictionary[Any, dict[object, Any]] = weakref.WeakKeyDictionary()
_copying = threading.Lock()


def renewed(function: Any, mark: object) -> Any:
    """A copy of a Numba function, to be called by compiled code; the same one for the same mark."""
    with _copying:
        copies = _copies.setdefault(function, {})
        if mark not in copies:
            sweep()
            made: dict[Any, Any] = {}
            copies[mark] = _copy(function, made)
            end_with(function, copies[mark], [*made.values()])
        return copies[mark]


def _copy(value: Any, made: dict[Any, Any]) -> Any:
    """A copy of a Numba function and of those it calls; anything else as it is."""
    if not isinstance(value, Dispatcher):
        return value
    if value not in made:
        old: Any = value.py_func
        names = _names(old.__code__) | {"__builtins__", "__name__", "__file__"}
        scope = {name: old.__globals__[name] for name in names & {*old.__globals__}}
        cells = tuple(CellType() for _ in old.__closure__ or ())
        new = FunctionType(old.__code__, scope, old.__name__, old.__defaults__, cells)
        new.__kwdefaults__, new.__qualname__ = old.__kwdefaults__, old.__qualname__
        options = {name: kept for name, kept in value.targetoptions.items() if name != "nopython"}
        made[value] = numba.njit(**options | INNER)(new)  # known by now: it may call itself
        scope.update({name: _copy(kept, made) for name, kept in scope.items()})
        for cell, former in zip(cells, old.__closure__ or (), strict=True):
            cell.cell_contents = _copy(former.cell_contents, made)
    return made[value]


def _names(code: CodeType) -> set[str]:
    """The names that a piece of code refers to, and those of the functions inside it."""
    inner = [_names(item) for item in code.co_consts if isinstance(item, CodeType)]
    return {*code.co_names}.union(*inner)


@kept_for(lambda function, *_: [function], lambda weigh: [weigh])
def weigher(function: Any, n_features: int, n_params: int = 0) -> Weigh:
    """A loop over splits: ``weigh(left, right, parent, params, out)``.

    left, right, parent : float64 (m, features); params : tuple of float; out : float64 (m)

    Raises
    ------
    TypeError
        If the function returns anything but a real number, or two.
    """
    function.compile(signature(nt.float64, n_features, n_params))
    (found,) = [kind.return_type for kind in function.nopython_signatures]
    if not _is_weight(found):
        raise TypeError(
            "function must return a real number, the log weight of a split, or two, x and factor; "
            f"it returns {found}"
        )

    if n_params:
        call = function
    else:

        @numba.njit
        def call(left, right, parent, params):
            return function(left, right, parent)

    @numba.njit(nogil=True, error_model="numpy")
    def weigh(left, right, parent, params, out):
        for i in range(out.size):
            x, factor = as_terms(
                call(
                    to_fixed_tuple(left[i], n_features),
                    to_fixed_tuple(right[i], n_features),
                    to_fixed_tuple(parent[i], n_features),
                    params,
                )
            )
            out[i] = x + math.log(factor)

    return weigh


def _is_weight(kind: Any) -> bool:
    """Whether a type is that of a log weight, or of x and factor."""
    is_pair = isinstance(kind, nt.BaseTuple) and len(kind) == 2
    parts = (kind[0], kind[1]) if is_pair else (kind,)
    return all(isinstance(part, nt.Integer | nt.Float | nt.Boolean) for part in parts)
