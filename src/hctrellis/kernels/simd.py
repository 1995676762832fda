"""Four doubles at a time: a vector type for Numba and the elementary functions of the kernels.

In compiled code `load`, `store`, `splat`, `pack`, `lane` and the arithmetic operators work on
vectors of four doubles (LLVM's ``<4 x double>``, lowered to whatever the CPU has), and `maximum`,
`minimum`, `sqrt`, `exp2` and `expm1` take vectors or floats. Outside compiled code the same names
take NumPy arrays, so one source text of a split function serves the vector kernels, the scalar
kernels and NumPy; with the JIT disabled a vector is simply an array of four.

`load_wide`, `splat_wide` and `pack_wide` make vectors of eight instead, on which all else works as
well: where a CPU has four, it computes two in turn, and need not wait for either.

For the sake of users' functions, comparisons of vectors give masks (of booleans), which combine
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
WIDE_LANES = 8

_SHIFTER = 1.5 * 2.0**52  # adding it rounds to an integer, held in the low bits
_LOWEST = -960.0  # below, 2^x is as good as 0; products with it stay clear of slow subnormals
# (2^f - 1) / f for |f| <= 1/2 by Chebyshev interpolation, from the highest power of f down;
# relative error below 6e-17
_EXP2 = (
    4.4549605981865186e-10,
    7.072585949269223e-09,
    1.0178062445845774e-07,
    1.321544258792169e-06,
    1.525273382983612e-05,
    0.0001540353044173605,
    0.0013333558146416936,
    0.009618129107606888,
    0.0555041086648216,
    0.24022650695910097,
    0.6931471805599453,
)

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
_IN_EXP2 = (_LOWEST, _SHIFTER, *_EXP2)
_LEAST_NORMAL = 2.0**-1022
_ROOT_HALF = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)
_ONE = 1023 << 52  # the bits of 1
_TWO_52 = 1075 << 52  # the bits of 2^52, whose last bit counts units
_USUALLY = (1000, 1)  # odds that all four lanes go the way of the first branch


class _Vector(types.Type):
    def __init__(self, lanes: int) -> None:
        super().__init__(name=f"Vector{lanes}")
        self.lanes = lanes

    def can_convert_from(self, typingctx: Any, other: Any) -> Any:
        """So that a variable may start as a number and become a vector in a loop."""
        return Conversion.safe if isinstance(other, types.Float | types.Integer) else None


class _Mask(types.Type):
    def __init__(self, lanes: int) -> None:
        super().__init__(name=f"Mask{lanes}")
        self.lanes = lanes


VECTOR, WIDE = _Vector(LANES), _Vector(WIDE_LANES)
_MASKS = {VECTOR: _Mask(LANES), WIDE: _Mask(WIDE_LANES)}


def _doubles(lanes: int) -> Any:
    return ir.VectorType(ir.DoubleType(), lanes)


@register_model(_Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, _doubles(fe_type.lanes))


@register_model(_Mask)
class _MaskModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, ir.VectorType(ir.IntType(1), fe_type.lanes))


# -- the Python faces (used by NumPy and with the JIT disabled) --------------------------------


def load(array, index):
    """The vector array[index : index + 4] of a contiguous float64 array."""
    return array[index : index + LANES].copy()


def load_wide(array, index):
    """The vector array[index : index + 8]."""
    return array[index : index + WIDE_LANES].copy()


def store(array, index, vector):
    """Write a vector to an array, from an index on; a float as a vector of four."""
    array[index : index + max(LANES, np.size(vector))] = vector


def splat(value):
    """The vector of four copies of a float; a vector as it is."""
    return np.full(LANES, value)


def splat_wide(value):
    """The vector of eight copies of a float; a vector as it is."""
    return np.full(WIDE_LANES, value)


def pack(a, b, c, d):
    """The vector of four floats."""
    return np.array([a, b, c, d])


def pack_wide(a, b, c, d, e, f, g, h):
    """The vector of eight floats."""
    return np.array([a, b, c, d, e, f, g, h])


def lane(vector, index):
    """One of the values of a vector."""
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


def log(x):
    """The natural logarithm of normal numbers above 0 (of others compiled vectors know none)."""
    return np.log(x)


def log2_above(x):
    """A number above log2(x) by at most 0.09, for a normal x above 0."""
    return np.log2(x) + 0.08


def _fma(a, b, c):
    return a * b + c


def _in_exp2(x):
    """The constants of `exp2`, as numbers or vectors like x."""
    return _IN_EXP2


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


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any, kind: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), kind.as_pointer())


def _broadcast(builder: Any, value: Any, lanes: int) -> Any:
    undefined = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
    return builder.shuffle_vector(first, undefined, zeros)


def _loaded(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    array, index = args
    kind = _doubles(signature.return_type.lanes)
    return builder.load(_pointer(context, builder, signature.args[0], array, index, kind), align=8)


def _stored(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    array, index, vector = args
    pointer = _pointer(context, builder, signature.args[0], array, index, vector.type)
    builder.store(vector, pointer, align=8)
    return context.get_dummy_value()


@_compiled(store, types.none, types.Array, types.Integer, types.float64)
def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    array, index, value = args
    vector = _broadcast(builder, value, LANES)
    return _stored(context, builder, signature, (array, index, vector))


def _splatted(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return _broadcast(builder, args[0], signature.return_type.lanes)


def _itself(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return args[0]


def _packed(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    vector = ir.Constant(_doubles(len(args)), ir.Undefined)
    for i, value in enumerate(args):
        vector = builder.insert_element(vector, value, ir.Constant(ir.IntType(32), i))
    return vector


def _lane(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.extract_element(*args)


for _vector, _load, _splat, _pack in (
    (VECTOR, load, splat, pack),
    (WIDE, load_wide, splat_wide, pack_wide),
):
    _compiled(_load, _vector, types.Array, types.Integer)(_loaded)
    _compiled(store, types.none, types.Array, types.Integer, _vector)(_stored)
    _compiled(_splat, _vector, types.float64)(_splatted)
    _compiled(_splat, _vector, _vector)(_itself)
    _compiled(_pack, _vector, *[types.float64] * _vector.lanes)(_packed)
    _compiled(lane, types.float64, _vector, types.Integer)(_lane)


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


def _as_vector(context: Any, builder: Any, kind: Any, value: Any, lanes: int) -> Any:
    if isinstance(kind, _Vector):
        return value
    return _broadcast(builder, context.cast(builder, value, kind, types.float64), lanes)


def _as_vectors(context: Any, builder: Any, kinds: Any, args: Any, lanes: int = 0) -> list[Any]:
    """Vectors and numbers as vectors of equal lengths."""
    lanes = lanes or next(kind.lanes for kind in kinds if isinstance(kind, _Vector))
    pairs = zip(kinds, args, strict=True)
    return [_as_vector(context, builder, kind, value, lanes) for kind, value in pairs]


def _has_vector(kinds: Any) -> bool:
    return any(isinstance(kind, _Vector) for kind in kinds)


def _cast(context: Any, builder: Any, given: Any, wanted: Any, value: Any) -> Any:
    return _as_vector(context, builder, given, value, wanted.lanes)


for _vector, _number in itertools.product((VECTOR, WIDE), (types.Float, types.Integer)):
    lower_cast(_number, _vector)(_cast)


def _kinds(vector: Any, count: int) -> list[Any]:
    """All ways to give `count` arguments that are vectors or numbers, at least one a vector."""
    ways = itertools.product((vector, types.Float, types.Integer), repeat=count)
    return [way for way in ways if vector in way]


def _arithmetic(function: Callable[..., Any], instruction: str) -> None:
    """An operator on vectors, or on a vector and a number; a * b + c may be fused."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a, b = _as_vectors(context, builder, signature.args, args)
        return getattr(builder, instruction)(a, b, flags=("contract",))

    for vector in (VECTOR, WIDE):
        for pair in _kinds(vector, 2):
            _compiled(function, vector, *pair)(codegen)


for _operators, _instruction in (
    ((operator.add, operator.iadd), "fadd"),
    ((operator.sub, operator.isub), "fsub"),
    ((operator.mul, operator.imul), "fmul"),
    ((operator.truediv, operator.itruediv), "fdiv"),
):
    for _operator in _operators:
        _arithmetic(_operator, _instruction)


def _negated(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.fneg(args[0])


for _vector in (VECTOR, WIDE):
    _compiled(operator.neg, _vector, _vector)(_negated)


def _comparison(function: Callable[..., Any], sign: str) -> None:
    """A comparison of vectors, or of a vector and a number."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a, b = _as_vectors(context, builder, signature.args, args)
        compare = builder.fcmp_unordered if sign == "!=" else builder.fcmp_ordered
        return compare(sign, a, b)

    for vector, mask in _MASKS.items():
        for pair in _kinds(vector, 2):
            _compiled(function, mask, *pair)(codegen)


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
        lanes = signature.return_type.lanes
        pairs = zip(signature.args, args, strict=True)
        a, b = (
            value if isinstance(kind, _Mask) else _broadcast(builder, value, lanes)
            for kind, value in pairs
        )
        return getattr(builder, instruction)(a, b)

    for mask in _MASKS.values():
        for pair in ((mask, mask), (mask, types.Boolean), (types.Boolean, mask)):
            _compiled(function, mask, *pair)(codegen)


for _operators, _instruction in (
    ((operator.and_, operator.iand), "and_"),
    ((operator.or_, operator.ior), "or_"),
):
    for _operator in _operators:
        _logic(_operator, _instruction)


def _blended(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    lanes = signature.return_type.lanes
    a, b = _as_vectors(context, builder, signature.args[1:], args[1:], lanes)
    return builder.select(args[0], a, b)


def _chosen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """A branch: what only `b` needs is not computed if the mask holds in all lanes.

    LLVM moves such computations into the second block, which is why it is there.
    """
    mask, lanes = args[0], signature.return_type.lanes
    a, _ = _as_vectors(context, builder, signature.args[1:], args[1:], lanes)
    before = builder.block
    mixed, after = builder.append_basic_block("mixed"), builder.append_basic_block("chosen")
    bits = builder.bitcast(mask, ir.IntType(lanes))
    every = builder.icmp_unsigned("==", bits, ir.Constant(bits.type, -1))
    builder.cbranch(every, after, mixed).set_weights(_USUALLY)
    builder.position_at_end(mixed)
    blended = _blended(context, builder, signature, args)
    builder.branch(after)
    builder.position_at_end(after)
    result = builder.phi(a.type)
    result.add_incoming(a, before)
    result.add_incoming(blended, mixed)
    return result


def _chosen_float(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    pairs = zip(signature.args[1:], args[1:], strict=True)
    a, b = (context.cast(builder, value, kind, types.float64) for kind, value in pairs)
    return builder.select(args[0], a, b)


_NUMBERS: tuple[Any, ...] = (types.Float, types.Integer)
for _two in itertools.product(_NUMBERS, repeat=2):
    _compiled(where, types.float64, types.Boolean, *_two)(_chosen_float)
for _vector, _mask in _MASKS.items():
    for _two in itertools.product((_vector, *_NUMBERS), repeat=2):
        _compiled(_blend, _vector, _mask, *_two)(_blended)
        _compiled(where, _vector, _mask, *_two)(_chosen)
    for _two in _kinds(_vector, 2):
        _compiled(where, _vector, types.Boolean, *_two)(_blended)


def _choice(function: Callable[..., Any], comparison: str) -> None:
    """min or max: a compare and a select, which the CPU has as one instruction."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a, b = args
        if _has_vector(signature.args):
            a, b = _as_vectors(context, builder, signature.args, args)
        return builder.select(builder.fcmp_ordered(comparison, a, b), a, b)

    for v in (VECTOR, WIDE):
        for a, b in ((v, v), (v, types.Float), (types.Float, v)):
            _compiled(function, v, a, b)(codegen)
    if function in (maximum, minimum):  # others know floats already
        _compiled(function, types.float64, types.float64, types.float64)(codegen)


for _larger in (maximum, np.maximum, max):
    _choice(_larger, ">")
for _smaller in (minimum, np.minimum, min):
    _choice(_smaller, "<")


def _choose(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    if _has_vector(signature.args):
        args = _as_vectors(context, builder, signature.args, args)
    a, positive, other = args
    return builder.select(builder.fcmp_ordered(">", a, ir.Constant(a.type, None)), positive, other)


_compiled(choose, types.float64, *[types.float64] * 3)(_choose)
for _vector in (VECTOR, WIDE):
    for _kind in itertools.product((_vector, types.float64), repeat=3):
        if _vector in _kind:
            _compiled(choose, _vector, *_kind)(_choose)


def _llvm(name: str) -> Callable[..., Any]:
    """A code generator that calls one of LLVM's intrinsic functions."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if _has_vector(signature.args):
            args = _as_vectors(context, builder, signature.args, args)
        kind = args[0].type
        suffix = f"v{kind.count}f64" if isinstance(kind, ir.VectorType) else "f64"
        function_type = ir.FunctionType(kind, [kind] * len(args))
        return builder.call(
            cgutils.get_or_insert_function(builder.module, function_type, f"{name}.{suffix}"), args
        )

    return codegen


for _vector in (VECTOR, WIDE):
    for _root in (np.sqrt, math.sqrt):
        _compiled(_root, _vector, _vector)(_llvm("llvm.sqrt"))
    for _absolute in (abs, np.abs, np.fabs, math.fabs):
        _compiled(_absolute, _vector, _vector)(_llvm("llvm.fabs"))
    for _operator, _types in itertools.product((operator.pow, operator.ipow), _kinds(_vector, 2)):
        _compiled(_operator, _vector, *_types)(_llvm("llvm.pow"))  # a square becomes a product
for _type in (VECTOR, WIDE, types.float64):
    _compiled(sqrt, _type, _type)(_llvm("llvm.sqrt"))
    _compiled(_fma, _type, _type, _type, _type)(_llvm("llvm.fmuladd"))


def _integers(kind: Any, value: int) -> Any:
    """An integer for each of the doubles of an LLVM type."""
    if isinstance(kind, ir.VectorType):
        return ir.Constant(ir.VectorType(ir.IntType(64), kind.count), [value] * kind.count)
    return ir.Constant(ir.IntType(64), value)


def _shift_exponent(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    kind = args[0].type
    shift, one = _integers(kind, 52), _integers(kind, _ONE)
    shifted = builder.shl(builder.bitcast(args[0], one.type), shift)
    return builder.bitcast(builder.add(shifted, one), kind)


for _type in (VECTOR, WIDE, types.float64):
    _compiled(_power_of_two, _type, _type)(_shift_exponent)


@_compiled(log2_above, types.float64, types.float64)
def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """The bits of a double, read as an integer, grow almost like its logarithm."""
    kind = ir.DoubleType()
    bits = builder.sitofp(builder.bitcast(args[0], ir.IntType(64)), kind)
    return builder.fadd(builder.fmul(bits, kind(2.0**-52)), kind(0.0861 - 1023.0))


def _mantissa_and_exponent(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    kind = args[0].type
    above = builder.sub(
        builder.bitcast(args[0], _integers(kind, 0).type), _integers(kind, _ROOT_HALF - _ONE)
    )
    fraction = builder.and_(above, _integers(kind, (1 << 52) - 1))
    mantissa = builder.bitcast(builder.add(fraction, _integers(kind, _ROOT_HALF)), kind)
    counted = builder.or_(builder.lshr(above, _integers(kind, 52)), _integers(kind, _TWO_52))
    bias = ir.Constant(kind, [2.0**52 + 1023.0] * kind.count)
    exponent = builder.fsub(builder.bitcast(counted, kind), bias, flags=("contract",))
    return context.make_tuple(builder, signature.return_type, [mantissa, exponent])


for _vector in (VECTOR, WIDE):
    _pair = types.UniTuple(_vector, 2)
    _compiled(_mantissa_exponent, _pair, _vector)(_mantissa_and_exponent)


@_compiled(_in_exp2, types.UniTuple(types.float64, len(_IN_EXP2)), types.float64)
def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    values = [ir.Constant(ir.DoubleType(), number) for number in _IN_EXP2]
    return context.make_tuple(builder, signature.return_type, values)


def _vectors_in_exp2(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Vectors that are read from memory where they are used.

    LLVM would read them before a loop and keep them in registers, of which there are too few; so it
    is not shown that the address is constant. (Elsewhere this is no gain.)
    """
    kind = args[0].type
    rows = [ir.Constant(kind, [number] * kind.count) for number in _IN_EXP2]
    table = ir.Constant(ir.ArrayType(kind, len(rows)), rows)
    place = cgutils.global_constant(builder, "hctrellis_in_exp2", table)
    place.align = 64
    hidden = ir.FunctionType(place.type, [place.type])
    address = builder.asm(hidden, "", "=r,0", [place], side_effect=True)
    index = ir.IntType(32)
    values = [
        builder.load(builder.gep(address, [index(0), index(i)]), align=32) for i in range(len(rows))
    ]
    return context.make_tuple(builder, signature.return_type, values)


for _vector in (VECTOR, WIDE):
    _compiled(_in_exp2, types.UniTuple(_vector, len(_IN_EXP2)), _vector)(_vectors_in_exp2)


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
def _parts(x, constants):
    """2^x as (s, p) with 2^x = s + s p, s a power of two and p = 2^f - 1 for |f| <= 1/2."""
    lowest, shifter, c = constants[0], constants[1], constants[2:]
    x = maximum(lowest, x)  # in this order a NaN stays one
    shifted = x + shifter
    f = x - (shifted - shifter)
    f2 = f * f
    f4 = f2 * f2
    low = _fma(_fma(f, c[7], c[8]), f2, _fma(f, c[9], c[10]))
    middle = _fma(_fma(f, c[3], c[4]), f2, _fma(f, c[5], c[6]))
    high = _fma(f2, c[0], _fma(f, c[1], c[2]))
    q = _fma(_fma(high, f4, middle), f4, low)
    return _power_of_two(shifted), q * f


@overload(exp2)
def _exp2(x):
    def compiled(x):
        scale, p = _parts(x, _in_exp2(x))
        return _fma(scale, p, scale)

    return compiled


@overload(expm1)
def _expm1(x):
    def compiled(x):
        scale, p = _parts(x * LOG2E, _in_exp2(x))
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


@overload(log)
def _log(x):
    if isinstance(x, _Vector):
        return lambda x: _log_of_parts(*_mantissa_exponent(x))
    return lambda x: math.log(x)


@register_jitable
def _vector_log(x):
    tiny = x < _LEAST_NORMAL
    m, k = _mantissa_exponent(_blend(tiny, x * 2.0**54, x))
    log = _log_of_parts(m, k + _blend(tiny, -54.0, 0.0))
    log = _blend(x < math.inf, log, x)
    return _blend(x > 0.0, log, _blend(x == 0.0, -math.inf, math.nan))


@register_jitable
def _log_of_parts(m, k):
    """log(m 2^k) for m from sqrt(1/2) to sqrt(2)."""
    f = m - 1.0
    s = f / (f + 2.0)
    s2 = s * s
    s4 = s2 * s2
    c = _LOG
    low = (c[0] + c[1] * s2) + (c[2] + c[3] * s2) * s4
    high = (c[4] + c[5] * s2) + c[6] * s4
    rest = f - (low + high * (s4 * s4)) * s2  # log(m) = f - s rest
    return k * _LN2_HIGH + (f + (k * _LN2_LOW - s * rest))


def _vector_log1p(x):
    u = x + 1.0
    lost = (x - (u - 1.0)) / u  # by rounding u, to first order
    return _vector_log(u) + _blend((u > 0.0) & (u < math.inf), lost, 0.0)


def _extend(function: Callable[..., Any], on_vectors: Callable[..., Any]) -> None:
    """Let a function of Python or NumPy take vectors."""
    overload(function)(lambda x: on_vectors if isinstance(x, _Vector) else None)


for _module in (math, np):
    _extend(_module.exp, _vector_exp)
    _extend(_module.expm1, _vector_expm1)
    _extend(_module.log, _vector_log)
    _extend(_module.log1p, _vector_log1p)
