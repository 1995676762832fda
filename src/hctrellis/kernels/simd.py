"""Four doubles at a time: a vector type for Numba and the elementary functions of the kernels.

In compiled code `load`, `store`, `splat`, `pack`, `lane` and the arithmetic operators work on
vectors of four doubles (LLVM's ``<4 x double>``, lowered to whatever the CPU has), and `maximum`,
`minimum`, `sqrt`, `exp2` and `expm1` take vectors or floats. Outside compiled code the same names
take NumPy arrays, so one source text of a split function serves the vector kernels, the scalar
kernels and NumPy; with the JIT disabled a vector is simply an array of four.

For the sake of users' functions, comparisons of vectors give masks (four booleans), which combine
with & and | and are what `hctrellis.where` chooses by; and max, min, abs, sqrt, exp, expm1, log,
log1p and powers of Python and NumPy take vectors.
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
from numba.core.typeconv.castgraph import Conversion
from numba.extending import (
    lower_builtin,
    lower_cast,
    overload,
    register_jitable,
    register_model,
    type_callable,
)

from hctrellis.branch import where
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

_LN2_HIGH = 0.6931471803691238  # its last 21 bits are 0: a product with an exponent is exact
_LN2_LOW = 1.9082149292705877e-10
# (e^r - 1 - r) / r^2 for |r| <= log(2) / 2, in powers of r; relative error of e^r - 1 below 5e-17
_EXP = (
    0.5000000000000001,
    0.16666666666666669,
    0.04166666666662413,
    0.008333333333330062,
    0.0013888888917213717,
    0.00019841269863053618,
    2.4801521295954376e-05,
    2.7557268459997064e-06,
    2.7620088445409746e-07,
    2.510038549551032e-08,
)
# (log(m) / s - 2) / s^2 for s = (m - 1) / (m + 1) and m from sqrt(1/2) to sqrt(2), in powers of
# s^2; relative error of log(m) below 5e-18
_LOG = (
    0.666666666666667,
    0.39999999999899444,
    0.2857142862600327,
    0.22222211130259878,
    0.18182889455674947,
    0.15331710618210773,
    0.14616585424888623,
)
_LEAST_NORMAL = 2.0**-1022
_ROOT_HALF = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)
_ONE = 1023 << 52  # the bits of 1
_TWO_52 = 1075 << 52  # the bits of 2^52, whose last bit counts units
_USUALLY = (1000, 1)  # odds that all four lanes go the way of the first branch


class _Vector(types.Type):
    def __init__(self) -> None:
        super().__init__(name="Vector4")

    def can_convert_from(self, typingctx: Any, other: Any) -> Any:
        """So that a variable may start as a number and become a vector in a loop."""
        return Conversion.safe if isinstance(other, types.Float | types.Integer) else None


class _Mask(types.Type):
    def __init__(self) -> None:
        super().__init__(name="Mask4")


VECTOR = _Vector()
MASK = _Mask()
_DOUBLES = ir.VectorType(ir.DoubleType(), LANES)
_INTEGERS = ir.VectorType(ir.IntType(64), LANES)
_BOOLEANS = ir.VectorType(ir.IntType(1), LANES)


@register_model(_Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, _DOUBLES)


@register_model(_Mask)
class _MaskModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, _BOOLEANS)


# -- the Python faces (used by NumPy and with the JIT disabled) --------------------------------


def load(array, index):
    """The vector array[index : index + 4] of a contiguous float64 array."""
    return array[index : index + LANES].copy()


def store(array, index, vector):
    """Write a vector to array[index : index + 4]."""
    array[index : index + LANES] = vector


def splat(value):
    """The vector of four copies of a float; a vector as it is."""
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


def _blend(mask, a, b):
    return np.where(mask, a, b)


def _mantissa_exponent(x):
    """m and k with x = m 2^k and m from sqrt(1/2) to sqrt(2), for normal x."""
    m, k = np.frexp(x)
    low = m < math.sqrt(0.5)
    return np.where(low, 2.0 * m, m), np.where(low, k - 1.0, k)


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
    undefined = ir.Constant(ir.VectorType(value.type, LANES), ir.Undefined)
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


@_compiled(splat, VECTOR, VECTOR)
def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return args[0]


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


def _as_vector(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if kind == VECTOR:
        return value
    return _broadcast(builder, context.cast(builder, value, kind, types.float64))


def _as_vectors(context: Any, builder: Any, kinds: Any, args: Any) -> list[Any]:
    pairs = zip(kinds, args, strict=True)
    return [_as_vector(context, builder, kind, value) for kind, value in pairs]


@lower_cast(types.Float, VECTOR)
@lower_cast(types.Integer, VECTOR)
def _(context: Any, builder: Any, given: Any, wanted: Any, value: Any) -> Any:
    return _as_vector(context, builder, given, value)


_NUMBERS = (VECTOR, types.Float, types.Integer)
_PAIRS = [pair for pair in itertools.product(_NUMBERS, repeat=2) if VECTOR in pair]


def _arithmetic(function: Callable[..., Any], instruction: str) -> None:
    """An operator on vectors, or on a vector and a number; a * b + c may be fused."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a, b = _as_vectors(context, builder, signature.args, args)
        return getattr(builder, instruction)(a, b, flags=("contract",))

    for pair in _PAIRS:
        _compiled(function, VECTOR, *pair)(codegen)


for _operators, _instruction in (
    ((operator.add, operator.iadd), "fadd"),
    ((operator.sub, operator.isub), "fsub"),
    ((operator.mul, operator.imul), "fmul"),
    ((operator.truediv, operator.itruediv), "fdiv"),
):
    for _operator in _operators:
        _arithmetic(_operator, _instruction)


@_compiled(operator.neg, VECTOR, VECTOR)
def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.fneg(args[0])


def _comparison(function: Callable[..., Any], sign: str) -> None:
    """A comparison of vectors, or of a vector and a number."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a, b = _as_vectors(context, builder, signature.args, args)
        compare = builder.fcmp_unordered if sign == "!=" else builder.fcmp_ordered
        return compare(sign, a, b)

    for pair in _PAIRS:
        _compiled(function, MASK, *pair)(codegen)


for _operator, _sign in (
    (operator.lt, "<"),
    (operator.le, "<="),
    (operator.gt, ">"),
    (operator.ge, ">="),
    (operator.eq, "=="),
    (operator.ne, "!="),
):
    _comparison(_operator, _sign)


def _logic(function: Callable[..., Any], instruction: str) -> None:
    """An operator on masks, or on a mask and a boolean."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pairs = zip(signature.args, args, strict=True)
        a, b = (value if kind == MASK else _broadcast(builder, value) for kind, value in pairs)
        return getattr(builder, instruction)(a, b)

    for pair in ((MASK, MASK), (MASK, types.Boolean), (types.Boolean, MASK)):
        _compiled(function, MASK, *pair)(codegen)


for _operators, _instruction in (
    ((operator.and_, operator.iand), "and_"),
    ((operator.or_, operator.ior), "or_"),
):
    for _operator in _operators:
        _logic(_operator, _instruction)


def _blended(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    a, b = _as_vectors(context, builder, signature.args[1:], args[1:])
    return builder.select(args[0], a, b)


def _chosen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """A branch: what only `b` needs is not computed if the mask holds in all four lanes.

    LLVM moves such computations into the second block, which is why it is there.
    """
    mask = args[0]
    a, _ = _as_vectors(context, builder, signature.args[1:], args[1:])
    before = builder.block
    mixed, after = builder.append_basic_block("mixed"), builder.append_basic_block("chosen")
    bits = builder.bitcast(mask, ir.IntType(LANES))
    every = builder.icmp_unsigned("==", bits, ir.Constant(bits.type, -1))
    builder.cbranch(every, after, mixed).set_weights(_USUALLY)
    builder.position_at_end(mixed)
    blended = _blended(context, builder, signature, args)
    builder.branch(after)
    builder.position_at_end(after)
    result = builder.phi(_DOUBLES)
    result.add_incoming(a, before)
    result.add_incoming(blended, mixed)
    return result


def _chosen_float(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    pairs = zip(signature.args[1:], args[1:], strict=True)
    a, b = (context.cast(builder, value, kind, types.float64) for kind, value in pairs)
    return builder.select(args[0], a, b)


for _types in itertools.product(_NUMBERS, repeat=2):
    _compiled(_blend, VECTOR, MASK, *_types)(_blended)
    _compiled(where, VECTOR, MASK, *_types)(_chosen)
    if VECTOR in _types:
        _compiled(where, VECTOR, types.Boolean, *_types)(_blended)
    else:
        _compiled(where, types.float64, types.Boolean, *_types)(_chosen_float)


def _choice(function: Callable[..., Any], comparison: str) -> None:
    """min or max: a compare and a select, which the CPU has as one instruction."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if VECTOR in signature.args:
            a, b = _as_vectors(context, builder, signature.args, args)
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
        args = _as_vectors(context, builder, signature.args, args)
    a, positive, other = args
    return builder.select(builder.fcmp_ordered(">", a, ir.Constant(a.type, None)), positive, other)


for _types in itertools.product((VECTOR, types.float64), repeat=3):
    _compiled(choose, VECTOR if VECTOR in _types else types.float64, *_types)(_choose)


def _llvm(name: str) -> Callable[..., Any]:
    """A code generator that calls one of LLVM's intrinsic functions."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if VECTOR in signature.args:
            args = _as_vectors(context, builder, signature.args, args)
        kind = args[0].type
        suffix = f"v{LANES}f64" if isinstance(kind, ir.VectorType) else "f64"
        function_type = ir.FunctionType(kind, [kind] * len(args))
        return builder.call(
            cgutils.get_or_insert_function(builder.module, function_type, f"{name}.{suffix}"), args
        )

    return codegen


for _root in (np.sqrt, math.sqrt):
    _compiled(_root, VECTOR, VECTOR)(_llvm("llvm.sqrt"))
for _absolute in (abs, np.abs, np.fabs, math.fabs):
    _compiled(_absolute, VECTOR, VECTOR)(_llvm("llvm.fabs"))
for _operator, _types in itertools.product((operator.pow, operator.ipow), _PAIRS):
    _compiled(_operator, VECTOR, *_types)(_llvm("llvm.pow"))  # a square becomes a product
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


@_compiled(_mantissa_exponent, types.UniTuple(VECTOR, 2), VECTOR)
def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    def constant(value: int) -> Any:
        return ir.Constant(_INTEGERS, [value] * LANES)

    bits = builder.bitcast(args[0], _INTEGERS)
    above = builder.sub(bits, constant(_ROOT_HALF - _ONE))
    fraction = builder.and_(above, constant((1 << 52) - 1))
    mantissa = builder.bitcast(builder.add(fraction, constant(_ROOT_HALF)), _DOUBLES)
    counted = builder.or_(builder.lshr(above, constant(52)), constant(_TWO_52))
    bias = ir.Constant(_DOUBLES, [2.0**52 + 1023.0] * LANES)
    exponent = builder.fsub(builder.bitcast(counted, _DOUBLES), bias, flags=("contract",))
    return context.make_tuple(builder, signature.return_type, [mantissa, exponent])


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


# -- functions of Python and NumPy on vectors, without branches, for users' functions -------------


@register_jitable
def _exp_parts(x):
    """e^x as (1 + p) 2^k with |p| < 1/2: p, and k shifted."""
    shifted = x * LOG2E + _SHIFTER
    k = shifted - _SHIFTER
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    r2 = r * r
    r4 = r2 * r2
    c = _EXP
    low = (c[0] + c[1] * r) + (c[2] + c[3] * r) * r2
    high = (c[4] + c[5] * r) + (c[6] + c[7] * r) * r2 + (c[8] + c[9] * r) * r4
    return (low + high * r4) * r2 + r, shifted


def _vector_exp(x):
    p, shifted = _exp_parts(minimum(710.0, maximum(-746.0, x)))  # in this order a NaN stays one
    half = (shifted - _SHIFTER) * 0.5 + _SHIFTER  # 2^k itself may be too small or too large
    scale = _power_of_two(half)
    return (scale * p + scale) * _power_of_two((shifted - half) + _SHIFTER)


def _vector_expm1(x):
    p, shifted = _exp_parts(minimum(710.0, maximum(-50.0, x)))
    scale = _power_of_two(shifted - 1.0)  # 2^k itself may be too large
    half = scale * p + (scale - 0.5)
    return _blend(abs(x) < _LEAST_NORMAL, x, half + half)


@register_jitable
def _vector_log(x):
    tiny = x < _LEAST_NORMAL
    m, k = _mantissa_exponent(_blend(tiny, x * 2.0**54, x))
    k = k + _blend(tiny, -54.0, 0.0)
    f = m - 1.0
    s = f / (f + 2.0)
    s2 = s * s
    s4 = s2 * s2
    c = _LOG
    low = (c[0] + c[1] * s2) + (c[2] + c[3] * s2) * s4
    high = (c[4] + c[5] * s2) + c[6] * s4
    rest = f - (low + high * (s4 * s4)) * s2  # log(m) = f - s rest
    log = k * _LN2_HIGH + (f + (k * _LN2_LOW - s * rest))
    log = _blend(x < math.inf, log, x)
    return _blend(x > 0.0, log, _blend(x == 0.0, -math.inf, math.nan))


def _vector_log1p(x):
    u = x + 1.0
    lost = (x - (u - 1.0)) / u  # by rounding u, to first order
    return _vector_log(u) + _blend((u > 0.0) & (u < math.inf), lost, 0.0)


def _extend(function: Callable[..., Any], on_vectors: Callable[..., Any]) -> None:
    """Let a function of Python or NumPy take vectors."""
    overload(function)(lambda x: on_vectors if x == VECTOR else None)


for _module in (math, np):
    _extend(_module.exp, _vector_exp)
    _extend(_module.expm1, _vector_expm1)
    _extend(_module.log, _vector_log)
    _extend(_module.log1p, _vector_log1p)
