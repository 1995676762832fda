"""Logarithms in users' functions, left undone: numbers x + log(factor).

A user's function says log psi, mostly a sum of logarithms and other terms, and the kernels take e
to the power of it. So log of a vector gives a number of this form, which stays in it while it is
added to others or chosen by `where`: the kernels want x and the factor. Anything else that is done
with it, such as a product, computes the logarithm first (`settled`).

The factor is between sqrt(1/2) and sqrt(2), and powers of two are in x: no sum of logarithms leaves
the range of floats.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.core.typeconv.castgraph import Conversion
from numba.extending import lower_cast, overload, register_jitable, register_model

from hctrellis.branch import where
from hctrellis.kernels import simd
from hctrellis.kernels.compile import INNER
from hctrellis.kernels.elementary import LEAST_NORMAL, apart, extend, log, mantissa_exponent
from hctrellis.kernels.simd import MASK, NUMBERS, VECTOR, blend, compiled, every

_LN2 = math.log(2.0)


def _plain(kind: Any) -> bool:
    return kind == VECTOR or isinstance(kind, NUMBERS)


class Logged(types.Type):
    def __init__(self) -> None:
        super().__init__(name=f"Logged{simd.LANES}")

    def can_convert_from(self, typingctx: Any, other: Any) -> Any:
        """So that a variable may start as a number and have a logarithm added in a loop."""
        return Conversion.safe if _plain(other) else None


LOGGED = Logged()


@register_model(Logged)
class _LoggedModel(models.StructModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, [("x", VECTOR), ("factor", VECTOR)])


def settled(a):
    """A number whose logarithm is computed; others as they are."""
    return a


def terms(a):
    """x and factor of a number x + log(factor)."""
    return 1.0 * a, 1.0  # it may be an integer


# -- taken apart and put together ----------------------------------------------------------------


def _logged(x, factor):
    """In compiled code: the number x + log(factor)."""
    raise NotImplementedError


def _parts(a):
    """In compiled code: the vectors x and factor of such a number."""
    raise NotImplementedError


def _read(context: Any, builder: Any, kind: Any, value: Any) -> tuple[Any, Any]:
    """x and factor of a number of any kind."""
    if kind == LOGGED:
        pair = cgutils.create_struct_proxy(LOGGED)(context, builder, value=value)
        return pair.x, pair.factor
    one = context.get_constant(types.float64, 1.0)
    return (
        simd.as_vector(context, builder, kind, value),
        simd.as_vector(context, builder, types.float64, one),
    )


def _write(context: Any, builder: Any, x: Any, factor: Any) -> Any:
    pair = cgutils.create_struct_proxy(LOGGED)(context, builder)
    pair.x, pair.factor = x, factor
    return pair._getvalue()


@compiled(_logged, LOGGED, VECTOR, VECTOR)
def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return _write(context, builder, *args)


@compiled(_parts, types.UniTuple(VECTOR, 2), LOGGED)
def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return context.make_tuple(
        builder, signature.return_type, _read(context, builder, LOGGED, args[0])
    )


@lower_cast(VECTOR, LOGGED)
@lower_cast(types.Float, LOGGED)
@lower_cast(types.Integer, LOGGED)
def _(context: Any, builder: Any, given: Any, wanted: Any, value: Any) -> Any:
    return _write(context, builder, *_read(context, builder, given, value))


@overload(terms, jit_options=INNER)
def _terms(a):
    if a == LOGGED:
        return lambda a: _parts(a)
    return lambda a: (1.0 * a, 1.0)


# -- logarithms --------------------------------------------------------------------------------


@register_jitable(**INNER)
def _undone_log(v):
    m, k = mantissa_exponent(v)
    if every(abs(k - 1.0) < 1022.5):  # neither tiny nor huge nor negative: the usual case
        return _logged(k * _LN2, m)
    tiny = v < LEAST_NORMAL
    m, k = mantissa_exponent(blend(tiny, v * 2.0**54, v))
    x = (k + blend(tiny, -54.0, 0.0)) * _LN2
    x = blend(v < math.inf, x, v)
    x = blend(v > 0.0, x, blend(v == 0.0, -math.inf, math.nan))
    return _logged(x, blend((v > 0.0) & (v < math.inf), m, 1.0))


def _log_of_factor(factor):
    return log(factor)


_log_called, _factor_called = apart(_undone_log, LOGGED), apart(_log_of_factor, VECTOR)


@overload(settled, jit_options=INNER)
def _settled(a):
    if a == LOGGED:

        def of_logged(a):
            x, factor = _parts(a)
            return x + _factor_called(factor)

        return of_logged
    return lambda a: a


def _vector_log1p(v):
    """At once: its precision, which is that of tiny numbers, would not survive a product."""
    u = v + 1.0
    lost = (v - (u - 1.0)) / u  # by rounding u, to first order
    return settled(_undone_log(u)) + blend((u > 0.0) & (u < math.inf), lost, 0.0)


_log1p_called = apart(_vector_log1p, VECTOR)
for _module in (math, np):
    extend(_module.log, _log_called)
    extend(_module.log1p, _log1p_called)


# -- sums, and choices, stay undone --------------------------------------------------------------


def _add(a, b):
    if a == LOGGED and b == LOGGED:

        def both(a, b):
            (ax, af), (bx, bf) = _parts(a), _parts(b)
            m, k = mantissa_exponent(af * bf)
            return _logged((ax + bx) + k * _LN2, m)

        return both
    if a == LOGGED and _plain(b):

        def first(a, b):
            x, factor = _parts(a)
            return _logged(x + b, factor)

        return first
    if _plain(a) and b == LOGGED:
        return lambda a, b: b + a
    return None


def _subtract(a, b):
    if a == LOGGED and _plain(b):  # not a + (-b): an unsigned integer has no negative

        def first(a, b):
            x, factor = _parts(a)
            return _logged(x - b, factor)

        return first
    if b == LOGGED and (a == LOGGED or _plain(a)):
        return lambda a, b: a + (-b)
    return None


@overload(operator.neg, jit_options=INNER)
def _negative(a):
    if a != LOGGED:
        return None

    def of_logged(a):
        x, factor = _parts(a)
        return _logged(-x, 1.0 / factor)

    return of_logged


for _operator, _made in (
    (operator.add, _add),
    (operator.iadd, _add),
    (operator.sub, _subtract),
    (operator.isub, _subtract),
):
    overload(_operator, jit_options=INNER)(_made)


def _chosen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    sides = zip(signature.args[1:], args[1:], strict=True)
    a, b = (_read(context, builder, kind, value) for kind, value in sides)
    if signature.args[0] == MASK:
        return _write(context, builder, *simd.branched(builder, args[0], a, b))
    chosen = (builder.select(args[0], *pair) for pair in zip(a, b, strict=True))
    return _write(context, builder, *chosen)


for _two in itertools.product((LOGGED, VECTOR, *NUMBERS), repeat=2):
    if LOGGED in _two:
        compiled(where, LOGGED, MASK, *_two)(_chosen)
        compiled(where, LOGGED, types.Boolean, *_two)(_chosen)


# -- all else settles them -----------------------------------------------------------------------


def _settle_first(function: Callable[..., Any], n_arguments: int) -> None:
    """Let a function of vectors take numbers with logarithms."""

    def of_one(a):
        return (lambda a: function(settled(a))) if a == LOGGED else None

    def of_two(a, b):
        if LOGGED in (a, b) and all(kind == LOGGED or _plain(kind) for kind in (a, b)):
            return lambda a, b: function(settled(a), settled(b))
        return None

    overload(function, jit_options=INNER)(of_one if n_arguments == 1 else of_two)


_OF_ONE: tuple[Callable[..., Any], ...] = (
    *(abs, np.abs, np.fabs, math.fabs, np.sqrt, math.sqrt),
    *(np.exp, math.exp, np.expm1, math.expm1, np.log, math.log, np.log1p, math.log1p),
)
_OF_TWO: tuple[Callable[..., Any], ...] = (
    *(
        operator.mul,
        operator.imul,
        operator.truediv,
        operator.itruediv,
        operator.pow,
        operator.ipow,
    ),
    *(operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne),
    *(max, min, np.maximum, np.minimum),
)
for _function in _OF_ONE:
    _settle_first(_function, 1)
for _function in _OF_TWO:
    _settle_first(_function, 2)
