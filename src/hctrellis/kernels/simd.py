"""Four doubles at a time: a vector type for Numba and the elementary functions of the kernels.

In compiled code `load`, `store`, `splat`, `pack`, `lane` and the arithmetic operators work on
vectors of four doubles (LLVM's ``<4 x double>``, lowered to whatever the CPU has), and `maximum`,
`minimum`, `sqrt`, `exp2` and `expm1` take vectors or floats. Of Python's and NumPy's own functions
max, min, abs and sqrt take vectors too, for the sake of users' functions. Outside compiled code
the same names take NumPy arrays, so one source text of a split function serves the vector kernels,
the scalar kernels and NumPy; with the JIT disabled a vector is simply an array of four.
"""

from __future__ import annotations

import inspect
import itertools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.extending import (
    lower_builtin,
    overload,
    register_jitable,
    register_model,
    type_callable,
)

from hctrellis.logs import LOG2E

LANES = 4

_SHIFTER = 1.5 * 2.0**52  # adding it rounds to an integer, held in the low bits
_LOWEST = -960.0  # below, 2^x is as good as 0; products with it stay clear of slow subnormals
# (2^f - 1) / f for |f| <= 1/2 by Chebyshev interpolation; relative error below 6e-17
_C0 = 0.6931471805599453
_C1 = 0.24022650695910097
_C2 = 0.0555041086648216
_C3 = 0.009618129107606888
_C4 = 0.0013333558146416936
_C5 = 0.0001540353044173605
_C6 = 1.525273382983612e-05
_C7 = 1.321544258792169e-06
_C8 = 1.0178062445845774e-07
_C9 = 7.072585949269223e-09
_C10 = 4.4549605981865186e-10


class _Vector(types.Type):
    def __init__(self) -> None:
        super().__init__(name="Vector4")


VECTOR = _Vector()
_DOUBLES = ir.VectorType(ir.DoubleType(), LANES)
_INTEGERS = ir.VectorType(ir.IntType(64), LANES)


@register_model(_Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, _DOUBLES)


# -- the Python faces (used by NumPy and with the JIT disabled) --------------------------------


def load(array, index):
    """The vector array[index : index + 4] of a contiguous float64 array."""
    return array[index : index + LANES].copy()


def store(array, index, vector):
    """Write a vector to array[index : index + 4]."""
    array[index : index + LANES] = vector


def splat(value):
    """The vector of four copies of a float."""
    return np.full(LANES, value)


def pack(a, b, c, d):
    """The vector of four floats."""
    return np.array([a, b, c, d])


def lane(vector, index):
    """One of the four values of a vector."""
    return vector[index]


def gather(table, index, offset):
    """The vector of table[index[i] | offset] for four indices."""
    return np.array([table[i | offset] for i in index])


def transpose(a, b, c, d):
    """Four vectors read as rows, given back as columns."""
    return tuple(np.array([a, b, c, d]).T)


def highest(vector):
    """The largest of the four values."""
    return vector.max()


def total(vector):
    """The sum of the four values, always in the same order."""
    return (vector[0] + vector[1]) + (vector[2] + vector[3])


def maximum(a, b):
    """The larger one, elementwise (not defined for NaN)."""
    return np.maximum(a, b)


def minimum(a, b):
    """The smaller one, elementwise (not defined for NaN)."""
    return np.minimum(a, b)


def choose(a, positive, other):
    """`positive` where a > 0, `other` elsewhere."""
    return np.where(a > 0, positive, other)


def sqrt(a):
    """The square root, elementwise."""
    return np.sqrt(a)


def exp2(x):
    """2^x to about one unit in the last place; compiled: 2^-960 wherever x is below -960."""
    return np.exp2(x)


def expm1(x):
    """e^x - 1 without cancellation."""
    return np.expm1(x)


def _fma(a, b, c):
    return a * b + c


def _power_of_two(shifted):
    """2^k, where shifted = k + _SHIFTER."""
    return np.exp2(shifted - _SHIFTER)


# -- their compiled faces ----------------------------------------------------------------------


def _compiled(function: Callable[..., Any], result: Any, *arguments: Any) -> Callable[..., Any]:
    """Give a Python function a compiled face: `result` and `arguments` are Numba types."""

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter(f"a{i}", kind) for i in range(len(arguments))])

    def register(codegen: Callable[..., Any]) -> Callable[..., Any]:
        def typer(context: Any) -> Callable[..., Any]:
            def check(*given: Any) -> Any:
                fits = len(given) == len(arguments) and all(
                    isinstance(g, a) if isinstance(a, type) else g == a
                    for g, a in zip(given, arguments, strict=True)
                )
                return result if fits else None

            setattr(check, "__signature__", signature)  # noqa: B010
            return check

        type_callable(function)(typer)
        lower_builtin(function, *arguments)(codegen)
        return codegen

    return register


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), _DOUBLES.as_pointer())


def _broadcast(builder: Any, value: Any) -> Any:
    undefined = ir.Constant(_DOUBLES, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(first, undefined, zeros)


@_compiled(load, VECTOR, types.Array, types.Integer)
def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.load(_pointer(context, builder, signature.args[0], *args), align=8)


@_compiled(store, types.none, types.Array, types.Integer, VECTOR)
def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    array, index, vector = args
    builder.store(vector, _pointer(context, builder, signature.args[0], array, index), align=8)
    return context.get_dummy_value()


@_compiled(store, types.none, types.Array, types.Integer, types.float64)
def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    array, index, value = args
    vector = _broadcast(builder, value)
    builder.store(vector, _pointer(context, builder, signature.args[0], array, index), align=8)
    return context.get_dummy_value()


@_compiled(splat, VECTOR, types.float64)
def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return _broadcast(builder, args[0])


@_compiled(pack, VECTOR, *[types.float64] * LANES)
def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    vector = ir.Constant(_DOUBLES, ir.Undefined)
    for i, value in enumerate(args):
        vector = builder.insert_element(vector, value, ir.Constant(ir.IntType(32), i))
    return vector


@_compiled(lane, types.float64, VECTOR, types.Integer)
def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.extract_element(*args)


@_compiled(lane, types.float64, types.float64, types.Integer)
def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return args[0]


def _shuffle(builder: Any, a: Any, b: Any, order: list[int]) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), LANES), order))


@_compiled(transpose, types.UniTuple(VECTOR, LANES), *[VECTOR] * LANES)
def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    a, b, c, d = args
    low_ab, high_ab = _shuffle(builder, a, b, [0, 4, 2, 6]), _shuffle(builder, a, b, [1, 5, 3, 7])
    low_cd, high_cd = _shuffle(builder, c, d, [0, 4, 2, 6]), _shuffle(builder, c, d, [1, 5, 3, 7])
    columns = [
        _shuffle(builder, low_ab, low_cd, [0, 1, 4, 5]),
        _shuffle(builder, high_ab, high_cd, [0, 1, 4, 5]),
        _shuffle(builder, low_ab, low_cd, [2, 3, 6, 7]),
        _shuffle(builder, high_ab, high_cd, [2, 3, 6, 7]),
    ]
    return context.make_tuple(builder, signature.return_type, columns)


def _as_vectors(context: Any, builder: Any, signature: Any, args: Any) -> list[Any]:
    vectors = []
    for t, value in zip(signature.args, args, strict=True):
        if t != VECTOR:
            value = _broadcast(builder, context.cast(builder, value, t, types.float64))
        vectors.append(value)
    return vectors


def _arithmetic(function: Callable[..., Any], instruction: str) -> None:
    """An operator on vectors, or on a vector and a number; a * b + c may be fused."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a, b = _as_vectors(context, builder, signature, args)
        return getattr(builder, instruction)(a, b, flags=("contract",))

    for a, b in (
        (VECTOR, VECTOR),
        (VECTOR, types.Float),
        (types.Float, VECTOR),
        (VECTOR, types.Integer),
        (types.Integer, VECTOR),
    ):
        _compiled(function, VECTOR, a, b)(codegen)


_arithmetic(operator.add, "fadd")
_arithmetic(operator.sub, "fsub")
_arithmetic(operator.mul, "fmul")
_arithmetic(operator.truediv, "fdiv")


@_compiled(operator.neg, VECTOR, VECTOR)
def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.fneg(args[0])


def _choice(function: Callable[..., Any], comparison: str) -> None:
    """min or max: a compare and a select, which the CPU has as one instruction."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if VECTOR in signature.args:
            a, b = _as_vectors(context, builder, signature, args)
        else:
            a, b = args
        return builder.select(builder.fcmp_ordered(comparison, a, b), a, b)

    for a, b in ((VECTOR, VECTOR), (VECTOR, types.Float), (types.Float, VECTOR)):
        _compiled(function, VECTOR, a, b)(codegen)
    if function in (maximum, minimum):  # others know floats already
        _compiled(function, types.float64, types.float64, types.float64)(codegen)


for _larger in (maximum, np.maximum, max):
    _choice(_larger, ">")
for _smaller in (minimum, np.minimum, min):
    _choice(_smaller, "<")


def _choose(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    if VECTOR in signature.args:
        args = _as_vectors(context, builder, signature, args)
    a, positive, other = args
    return builder.select(builder.fcmp_ordered(">", a, ir.Constant(a.type, None)), positive, other)


for _types in itertools.product((VECTOR, types.float64), repeat=3):
    _compiled(choose, VECTOR if VECTOR in _types else types.float64, *_types)(_choose)


def _llvm(name: str) -> Callable[..., Any]:
    """A code generator that calls one of LLVM's intrinsic functions."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if VECTOR in signature.args:
            args = _as_vectors(context, builder, signature, args)
        kind = args[0].type
        suffix = f"v{LANES}f64" if isinstance(kind, ir.VectorType) else "f64"
        function_type = ir.FunctionType(kind, [kind] * len(args))
        return builder.call(
            cgutils.get_or_insert_function(builder.module, function_type, f"{name}.{suffix}"), args
        )

    return codegen


for _root in (np.sqrt, math.sqrt):
    _compiled(_root, VECTOR, VECTOR)(_llvm("llvm.sqrt"))
for _absolute in (abs, np.abs):
    _compiled(_absolute, VECTOR, VECTOR)(_llvm("llvm.fabs"))
for _type in (VECTOR, types.float64):
    _compiled(sqrt, _type, _type)(_llvm("llvm.sqrt"))
    _compiled(_fma, _type, _type, _type, _type)(_llvm("llvm.fmuladd"))
    _compiled(_fma, _type, _type, types.float64, types.float64)(_llvm("llvm.fmuladd"))
    _compiled(_fma, _type, _type, _type, types.float64)(_llvm("llvm.fmuladd"))


def _shift_exponent(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    bits = _INTEGERS if signature.args[0] == VECTOR else ir.IntType(64)
    constant = [52] * LANES, [1023 << 52] * LANES
    shift, one = (ir.Constant(bits, c if bits is _INTEGERS else c[0]) for c in constant)
    shifted = builder.shl(builder.bitcast(args[0], bits), shift)
    return builder.bitcast(builder.add(shifted, one), args[0].type)


for _type in (VECTOR, types.float64):
    _compiled(_power_of_two, _type, _type)(_shift_exponent)


@overload(gather)
def _gather(table, index, offset):
    return lambda table, index, offset: pack(
        table[index[0] | offset],
        table[index[1] | offset],
        table[index[2] | offset],
        table[index[3] | offset],
    )


@overload(highest)
def _highest(vector):
    return lambda vector: maximum(
        maximum(lane(vector, 0), lane(vector, 1)), maximum(lane(vector, 2), lane(vector, 3))
    )


@overload(total)
def _total(vector):
    return lambda vector: (lane(vector, 0) + lane(vector, 1)) + (lane(vector, 2) + lane(vector, 3))


@register_jitable
def _parts(x):
    """2^x as (s, p) with 2^x = s + s p, s a power of two and p = 2^f - 1 for |f| <= 1/2."""
    x = maximum(_LOWEST, x)  # in this order a NaN stays one
    shifted = x + _SHIFTER
    f = x - (shifted - _SHIFTER)
    q = _fma(f, _C10, _C9)
    q = _fma(q, f, _C8)
    q = _fma(q, f, _C7)
    q = _fma(q, f, _C6)
    q = _fma(q, f, _C5)
    q = _fma(q, f, _C4)
    q = _fma(q, f, _C3)
    q = _fma(q, f, _C2)
    q = _fma(q, f, _C1)
    q = _fma(q, f, _C0)
    return _power_of_two(shifted), q * f


@overload(exp2)
def _exp2(x):
    def compiled(x):
        scale, p = _parts(x)
        return _fma(scale, p, scale)

    return compiled


@overload(expm1)
def _expm1(x):
    def compiled(x):
        scale, p = _parts(x * LOG2E)
        return _fma(scale, p, scale - 1.0)

    return compiled
