"""Four doubles at a time: a vector type for Numba.

In compiled code `load`, `store`, `splat`, `pack`, `lane` and the arithmetic operators work on
vectors of four doubles (LLVM's ``<4 x double>``, lowered to whatever the CPU has), and `maximum`,
`minimum`, `choose` and `sqrt` take vectors or floats, as do the functions of `elementary`. Outside
compiled code the same names take NumPy arrays, so one source text of a split function serves the
vector kernels, the scalar kernels and NumPy; with the JIT disabled a vector is simply an array of
four.

`load_wide`, `splat_wide` and `pack_wide` make vectors of eight instead, on which all else works as
well: where a CPU has four, it computes two in turn, and need not wait for either.

For the sake of users' functions, comparisons of vectors give masks (of booleans), which combine
with & and | and are what `hctrellis.where` chooses by; and max, min, abs, sqrt and powers of Python
and NumPy take vectors.
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
    register_model,
    type_callable,
)

from hctrellis.branch import where

LANES = 4
WIDE_LANES = 8

_USUALLY = (1000, 1)  # odds that all four lanes go the way of the first branch


class Vector(types.Type):
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


VECTOR, WIDE = Vector(LANES), Vector(WIDE_LANES)
_MASKS = {VECTOR: _Mask(LANES), WIDE: _Mask(WIDE_LANES)}


def _doubles(lanes: int) -> Any:
    return ir.VectorType(ir.DoubleType(), lanes)


@register_model(Vector)
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


def fma(a, b, c):
    return a * b + c


def blend(mask, a, b):
    return np.where(mask, a, b)


# -- their compiled faces ----------------------------------------------------------------------


def compiled(function: Callable[..., Any], result: Any, *arguments: Any) -> Callable[..., Any]:
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


@compiled(store, types.none, types.Array, types.Integer, types.float64)
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
    compiled(_load, _vector, types.Array, types.Integer)(_loaded)
    compiled(store, types.none, types.Array, types.Integer, _vector)(_stored)
    compiled(_splat, _vector, types.float64)(_splatted)
    compiled(_splat, _vector, _vector)(_itself)
    compiled(_pack, _vector, *[types.float64] * _vector.lanes)(_packed)
    compiled(lane, types.float64, _vector, types.Integer)(_lane)


@compiled(lane, types.float64, types.float64, types.Integer)
def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return args[0]


def _shuffle(builder: Any, a: Any, b: Any, order: list[int]) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), LANES), order))


@compiled(transpose, types.UniTuple(VECTOR, LANES), *[VECTOR] * LANES)
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
    if isinstance(kind, Vector):
        return value
    return _broadcast(builder, context.cast(builder, value, kind, types.float64), lanes)


def _as_vectors(context: Any, builder: Any, kinds: Any, args: Any, lanes: int = 0) -> list[Any]:
    """Vectors and numbers as vectors of equal lengths."""
    lanes = lanes or next(kind.lanes for kind in kinds if isinstance(kind, Vector))
    pairs = zip(kinds, args, strict=True)
    return [_as_vector(context, builder, kind, value, lanes) for kind, value in pairs]


def _has_vector(kinds: Any) -> bool:
    return any(isinstance(kind, Vector) for kind in kinds)


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
            compiled(function, vector, *pair)(codegen)


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
    compiled(operator.neg, _vector, _vector)(_negated)


def _comparison(function: Callable[..., Any], sign: str) -> None:
    """A comparison of vectors, or of a vector and a number."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a, b = _as_vectors(context, builder, signature.args, args)
        compare = builder.fcmp_unordered if sign == "!=" else builder.fcmp_ordered
        return compare(sign, a, b)

    for vector, mask in _MASKS.items():
        for pair in _kinds(vector, 2):
            compiled(function, mask, *pair)(codegen)


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
            compiled(function, mask, *pair)(codegen)


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
    compiled(where, types.float64, types.Boolean, *_two)(_chosen_float)
for _vector, _mask in _MASKS.items():
    for _two in itertools.product((_vector, *_NUMBERS), repeat=2):
        compiled(blend, _vector, _mask, *_two)(_blended)
        compiled(where, _vector, _mask, *_two)(_chosen)
    for _two in _kinds(_vector, 2):
        compiled(where, _vector, types.Boolean, *_two)(_blended)


def _choice(function: Callable[..., Any], comparison: str) -> None:
    """min or max: a compare and a select, which the CPU has as one instruction."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a, b = args
        if _has_vector(signature.args):
            a, b = _as_vectors(context, builder, signature.args, args)
        return builder.select(builder.fcmp_ordered(comparison, a, b), a, b)

    for v in (VECTOR, WIDE):
        for a, b in ((v, v), (v, types.Float), (types.Float, v)):
            compiled(function, v, a, b)(codegen)
    if function in (maximum, minimum):  # others know floats already
        compiled(function, types.float64, types.float64, types.float64)(codegen)


for _larger in (maximum, np.maximum, max):
    _choice(_larger, ">")
for _smaller in (minimum, np.minimum, min):
    _choice(_smaller, "<")


def _choose(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    if _has_vector(signature.args):
        args = _as_vectors(context, builder, signature.args, args)
    a, positive, other = args
    return builder.select(builder.fcmp_ordered(">", a, ir.Constant(a.type, None)), positive, other)


compiled(choose, types.float64, *[types.float64] * 3)(_choose)
for _vector in (VECTOR, WIDE):
    for _kind in itertools.product((_vector, types.float64), repeat=3):
        if _vector in _kind:
            compiled(choose, _vector, *_kind)(_choose)


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
        compiled(_root, _vector, _vector)(_llvm("llvm.sqrt"))
    for _absolute in (abs, np.abs, np.fabs, math.fabs):
        compiled(_absolute, _vector, _vector)(_llvm("llvm.fabs"))
    for _operator, _types in itertools.product((operator.pow, operator.ipow), _kinds(_vector, 2)):
        compiled(_operator, _vector, *_types)(_llvm("llvm.pow"))  # a square becomes a product
for _type in (VECTOR, WIDE, types.float64):
    compiled(sqrt, _type, _type)(_llvm("llvm.sqrt"))
    compiled(fma, _type, _type, _type, _type)(_llvm("llvm.fmuladd"))


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
