"""Users' functions in the kernels: what they return, and in which form they are compiled.

A user's function returns log psi of one split, or x and factor, for the weight factor * e^x. It is
computed for eight splits at a time if it takes vectors, as it stands or without its branches (see
`branchless`); if not, it is called for one split after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hctrellis.kernels import elementary, simd
from hctrellis.kernels.branchless import branchless
from hctrellis.kernels.compile import INNER
from hctrellis.kernels.door import IS_COMPILING, NumbaError, numba, overload
from hctrellis.kernels.door import types as nt
from hctrellis.kernels.lifetime import forget_failures, kept_for, let_go

if TYPE_CHECKING:
    from hctrellis.kernels.bind import SplitCode

_LN2 = math.log(2.0)
NEAR = 2.0**64  # factors up to this, and down to its inverse, are taken as they are


def inlined(function: Any) -> Callable[..., Any]:
    """A user's function, compiled into the loops however long it is."""
    options = {name: value for name, value in function.targetoptions.items() if name != "nopython"}
    compiled: Callable[..., Any] = numba.njit(**options | INNER | {"forceinline": True})(
        function.py_func
    )
    return compiled


@dataclass(frozen=True)
class Form:
    """In which form a user's function is compiled.

    vectors : the function, or its form without branches, if it can be computed with vectors
    scaled : whether the factor of a split is anything but 1
    """

    vectors: Callable[..., Any] | None
    scaled: bool


def of_vectors(code: SplitCode) -> Callable[..., Any] | None:
    """A user's function, or its form without branches, if it can be computed with vectors."""
    return _form(code).vectors


def is_scaled(code: SplitCode) -> bool:
    """Whether the factor of a split is anything but 1."""
    return _form(code).scaled if code.users else code.scaled


@kept_for(lambda code: [code.pair], lambda form: [form.vectors])
def _form(code: SplitCode) -> Form:
    function: Any = code.pair
    result = _result(function, simd.VECTOR, code)
    if result is not None:
        return Form(inlined(function), isinstance(result, nt.BaseTuple))
    other = branchless(function)
    result = None if other is None else _result(other, simd.VECTOR, code)
    if result is not None:
        compiled = numba.njit(error_model="numpy", forceinline=True, **INNER)(other)
        return Form(compiled, isinstance(result, nt.BaseTuple))
    return Form(None, isinstance(_result(function, nt.float64, code), nt.BaseTuple))


def _result(function: Any, kind: Any, code: SplitCode) -> Any:
    """What a function of rows of vectors or floats returns, as a type of Numba.

    None if it takes no such rows.
    """
    if not IS_COMPILING:
        return None
    tried = numba.njit(**INNER)(getattr(function, "py_func", function))
    try:
        tried.compile(signature(kind, code.n_features, code.n_params))
        return tried.nopython_signatures[0].return_type
    except (NumbaError, AssertionError):
        forget_failures(tried)
        return None
    finally:
        let_go([tried])


def signature(kind: Any, n_features: int, n_params: int) -> tuple[Any, ...]:
    """The types of the arguments of a user's function: three rows, and parameters if it has any."""
    row = nt.UniTuple(kind, n_features)
    return (row, row, row, nt.UniTuple(kind, n_params)) if n_params else (row, row, row)


def lane_of(value, index):
    """One of the values of a vector; a number as it is."""
    return value[index] if np.ndim(value) else value


@overload(lane_of, jit_options=INNER)
def _lane_of(value, index):
    if value == simd.VECTOR:
        return lambda value, index: simd.lane(value, index)
    return lambda value, index: value


# -- what users' functions return ----------------------------------------------------------------


def as_terms(value):
    """In compiled code: x and factor of what a user's function returned, log psi or the two.

    The factor comes out near 1: powers of two go to x where it is not, so that any will do.
    """
    raise NotImplementedError


@overload(as_terms, jit_options=INNER)
def _as_terms_of(value):
    if not isinstance(value, nt.BaseTuple):
        return lambda value: (1.0 * value, 1.0)  # it may be an integer
    return lambda value: _with_factor(value[0], value[1])


def _with_factor(x, factor):
    """x and a factor of any size as x and a factor that is not far from 1."""
    raise NotImplementedError


@overload(_with_factor, jit_options=INNER)
def _with_factor_of(x, factor):
    if factor == simd.VECTOR:

        def of_vectors(x, factor):
            x = simd.splat(1.0 * x)
            if simd.every((factor > 1 / NEAR) & (factor < NEAR)):
                return x, factor
            more, rest = elementary.log_parts(factor)
            return x + more, rest

        return of_vectors

    def of_floats(x, factor):
        if 1 / NEAR < factor < NEAR:
            return 1.0 * x, 1.0 * factor
        if 0.0 < factor < math.inf:
            rest, exponent = math.frexp(factor)
            return x + exponent * _LN2, rest
        return x + math.log(factor), 1.0

    return of_floats


def pack_terms(*terms):
    """In compiled code: the terms of eight splits as vectors."""
    raise NotImplementedError


@overload(pack_terms, jit_options=INNER)
def _pack_terms(*terms):
    def of_all(*terms):
        (a, b, c, d, e, f, g, h) = terms
        return (
            simd.pack(a[0], b[0], c[0], d[0], e[0], f[0], g[0], h[0]),
            simd.pack(a[1], b[1], c[1], d[1], e[1], f[1], g[1], h[1]),
        )

    return of_all
