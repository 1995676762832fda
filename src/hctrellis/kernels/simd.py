"""Eight doubles at a time: a vector type for Numba.

In compiled code `load`, `store`, `splat`, `pack`, `lane` and the arithmetic operators work on
vectors of eight doubles (LLVM's ``<8 x double>``, lowered to whatever the CPU has: where that is
four, it computes two in turn that need not wait for each other); `maximum`, `minimum`, `choose` and
`sqrt` take vectors or floats, as do the functions of `elementary`. Outside compiled code the same
names take NumPy arrays, so one source text of a split function serves the vector kernels, the
scalar kernels and NumPy; with the JIT disabled a vector is simply an array of eight.

For the sake of users' functions, comparisons of vectors give masks (of booleans), which combine
with & and | and are what `hctrellis.where` chooses by; and max, min, abs, sqrt and powers of Python
and NumPy take vectors.
"""

from __future__ import annotations

import inspect
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from hctrellis.kernels.compile import INNER
from hctrellis.kernels.door import (
    Conversion,
    cgutils,
    ir,
    lower_builtin,
    lower_cast,
    models,
    overload,
    register_model,
    type_callable,
    types,
)
from hctrellis.support.branch import where

LANES = 8

_USUALLY = (1000, 1)  # odds that all lanes go the way of the first branch


class Vector(types.Type):
    def __init__(self) -> None:
        super().__init__(name=f"Vector{LANES}")

    def can_convert_from(self, typingctx: Any, other: Any) -> Any:
        """Allow a variable to start as a number and become a vector in a loop."""
        return Conversion.safe if isinstance(other, types.Float | types.Integer) else None


class _Mask(types.Type):
    def __init__(self) -> None:
        super().__init__(name=f"Mask{LANES}")


VECTOR, MASK = Vector(), _Mask()
_DOUBLES = ir.VectorType(ir.DoubleType(), LANES)


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    """In memory, as in a list of vectors, it is an array: vectors would have to be aligned."""

    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, _DOUBLES)

    def get_data_type(self) -> Any:
        return ir.ArrayType(ir.DoubleType(), LANES)

    def as_data(self, builder: Any, value: Any) -> Any:
        array = ir.Constant(self.get_data_type(), ir.Undefined)
        for i in range(LANES):
            number = builder.extract_element(value, ir.IntType(32)(i))
            array = builder.insert_value(array, number, i)
        return array

    def from_data(self, builder: Any, value: Any) -> Any:
        return _joined(builder, [builder.extract_value(value, i) for i in range(LANES)])


@register_model(_Mask)
class _MaskModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, ir.VectorType(ir.IntType(1), LANES))


# -- the Python faces (used by NumPy and with the JIT disabled) --------------------------------


def load(array, index):
    """The vector array[index : index + 8] of a contiguous float64 array."""
    return array[index : index + LANES].copy()


def store(array, index, vector):
    """Write a vector, or a float as one, to an array, from an index on."""
    array[index : index + LANES] = vector


def splat(value):
    """The vector of eight copies of a float; a vector as it is."""
    return np.full(LANES, value)


def pack(a, b, c, d, e, f, g, h):
    """The vector of eight floats."""
    return np.array([a, b, c, d, e, f, g, h])


def lane(vector, index):
    """One of the values of a vector."""
    return vector[index]


def with_lane(vector, index, value):
    """A vector with another value in one place."""
    changed = vector.copy()
    changed[index] = value
    return changed


def gather(table, index, offset):
    """The vector of table[index[i] | offset] for eight indices."""
    return np.array([table[i | offset] for i in index])


def transpose(a, b, c, d, e, f, g, h):
    """Eight vectors read as rows, returned as columns."""
    return tuple(np.array([a, b, c, d, e, f, g, h]).T)


def highest(vector):
    """The largest of the eight values."""
    return vector.max()


def total(vector):
    """The sum of the eight values, always in the same order."""
    while len(vector) > 1:
        vector = vector[::2] + vector[1::2]
    return vector[0]


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


def every(mask):
    """Whether a mask holds in all lanes."""
    return np.all(mask)


# -- their compiled faces ----------------------------------------------------------------------


def lowered(function: Callable[..., Any], result: Any, *arguments: Any) -> Callable[..., Any]:
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


def _shuffle(builder: Any, a: Any, b: Any, order: list[int]) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), LANES), order))


def _broadcast(builder: Any, value: Any) -> Any:
    undefined = ir.Constant(ir.VectorType(value.type, LANES), ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
    return _shuffle(builder, first, undefined, [0] * LANES)


def as_vector(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if kind == VECTOR:
        return value
    return _broadcast(builder, context.cast(builder, value, kind, types.float64))


@lowered(load, VECTOR, types.Array, types.Integer)
def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    array, index = args
    pointer = _pointer(context, builder, signature.args[0], array, index)
    return builder.load(pointer, align=8)


@lowered(store, types.none, types.Array, types.Integer, VECTOR)
@lowered(store, types.none, types.Array, types.Integer, types.float64)
def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    array, index, value = args
    vector = as_vector(context, builder, signature.args[2], value)
    pointer = _pointer(context, builder, signature.args[0], array, index)
    builder.store(vector, pointer, align=8)
    return context.get_dummy_value()


@lowered(splat, VECTOR, VECTOR)
@lowered(splat, VECTOR, types.float64)
def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return as_vector(context, builder, signature.args[0], args[0])


def _joined(builder: Any, values: Any) -> Any:
    vector = ir.Constant(_DOUBLES, ir.Undefined)
    for i, value in enumerate(values):
        vector = builder.insert_element(vector, value, ir.Constant(ir.IntType(32), i))
    return vector


@lowered(pack, VECTOR, *[types.float64] * LANES)
def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return _joined(builder, args)


@lowered(lane, types.float64, VECTOR, types.Integer)
def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.extract_element(*args)


@lowered(with_lane, VECTOR, VECTOR, types.Integer, types.float64)
def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    vector, index, value = args
    return builder.insert_element(vector, value, index)


@lowered(lane, types.float64, types.float64, types.Integer)
def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return args[0]


@lowered(transpose, types.UniTuple(VECTOR, LANES), *[VECTOR] * LANES)
def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Exchange ever larger parts of two vectors: single numbers, pairs, halves."""
    rows = list(args)
    for part in (1, 2, 4):
        from_first = [i if not i & part else i - part + LANES for i in range(LANES)]
        from_second = [i + part if not i & part else i + LANES for i in range(LANES)]
        for i in range(LANES):
            if not i & part:
                a, b = rows[i], rows[i + part]
                rows[i] = _shuffle(builder, a, b, from_first)
                rows[i + part] = _shuffle(builder, a, b, from_second)
    return context.make_tuple(builder, signature.return_type, rows)


def _as_vectors(context: Any, builder: Any, kinds: Any, args: Any) -> list[Any]:
    """Vectors and numbers as vectors."""
    pairs = zip(kinds, args, strict=True)
    return [as_vector(context, builder, kind, value) for kind, value in pairs]


@lower_cast(types.Float, VECTOR)
@lower_cast(types.Integer, VECTOR)
def _(context: Any, builder: Any, given: Any, wanted: Any, value: Any) -> Any:
    return as_vector(context, builder, given, value)


NUMBERS: tuple[Any, ...] = (types.Float, types.Integer)
_VECTOR_PAIRS = [  # all ways to give two vectors or numbers, at least one a vector
    pair for pair in itertools.product((VECTOR, *NUMBERS), repeat=2) if VECTOR in pair
]


def _arithmetic(function: Callable[..., Any], instruction: str) -> None:
    """An operator on vectors, or on a vector and a number; a * b + c may be fused."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a, b = _as_vectors(context, builder, signature.args, args)
        return getattr(builder, instruction)(a, b, flags=("contract",))

    for pair in _VECTOR_PAIRS:
        lowered(function, VECTOR, *pair)(codegen)


for _operators, _instruction in (
    ((operator.add, operator.iadd), "fadd"),
    ((operator.sub, operator.isub), "fsub"),
    ((operator.mul, operator.imul), "fmul"),
    ((operator.truediv, operator.itruediv), "fdiv"),
):
    for _operator in _operators:
        _arithmetic(_operator, _instruction)


@lowered(operator.neg, VECTOR, VECTOR)
def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.fneg(args[0])


def _comparison(function: Callable[..., Any], sign: str) -> None:
    """A comparison of vectors, or of a vector and a number."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a, b = _as_vectors(context, builder, signature.args, args)
        compare = builder.fcmp_unordered if sign == "!=" else builder.fcmp_ordered
        return compare(sign, a, b)

    for pair in _VECTOR_PAIRS:
        lowered(function, MASK, *pair)(codegen)


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
        lowered(function, MASK, *pair)(codegen)


for _operators, _instruction in (
    ((operator.and_, operator.iand), "and_"),
    ((operator.or_, operator.ior), "or_"),
):
    for _operator in _operators:
        _logic(_operator, _instruction)


def _in_all(builder: Any, mask: Any) -> Any:
    bits = builder.bitcast(mask, ir.IntType(LANES))
    return builder.icmp_unsigned("==", bits, ir.Constant(bits.type, -1))


@lowered(every, types.boolean, MASK)
def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return _in_all(builder, args[0])


def _blended(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    a, b = _as_vectors(context, builder, signature.args[1:], args[1:])
    return builder.select(args[0], a, b)


def branched(builder: Any, mask: Any, a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
    """Vectors of `a` where the mask holds, of `b` elsewhere.

    By a branch: what only `b` needs is not computed if the mask holds in all lanes. LLVM moves such
    computations into the second block, which is why it is there.
    """
    before = builder.block
    mixed, after = builder.append_basic_block("mixed"), builder.append_basic_block("chosen")
    builder.cbranch(_in_all(builder, mask), after, mixed).set_weights(_USUALLY)
    builder.position_at_end(mixed)
    blended = [builder.select(mask, *pair) for pair in zip(a, b, strict=True)]
    builder.branch(after)
    builder.position_at_end(after)
    results = [builder.phi(vector.type) for vector in a]
    for result, vector, other in zip(results, a, blended, strict=True):
        result.add_incoming(vector, before)
        result.add_incoming(other, mixed)
    return results


def _chosen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    a, b = _as_vectors(context, builder, signature.args[1:], args[1:])
    return branched(builder, args[0], [a], [b])[0]


def _chosen_float(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    pairs = zip(signature.args[1:], args[1:], strict=True)
    a, b = (context.cast(builder, value, kind, types.float64) for kind, value in pairs)
    return builder.select(args[0], a, b)


for _two in itertools.product(NUMBERS, repeat=2):
    lowered(where, types.float64, types.Boolean, *_two)(_chosen_float)
for _two in itertools.product((VECTOR, *NUMBERS), repeat=2):
    lowered(blend, VECTOR, MASK, *_two)(_blended)
    lowered(where, VECTOR, MASK, *_two)(_chosen)
for _two in _VECTOR_PAIRS:
    lowered(where, VECTOR, types.Boolean, *_two)(_blended)


@overload(where, jit_options=INNER)
def _where_of_pairs(condition, a, b):
    """For x and factor: each of the two is chosen."""
    if not all(isinstance(kind, types.BaseTuple) and len(kind) == 2 for kind in (a, b)):
        return None
    return lambda condition, a, b: (where(condition, a[0], b[0]), where(condition, a[1], b[1]))


def _better(comparison: str, builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(comparison, a, b), a, b)


def _choice(function: Callable[..., Any], comparison: str) -> None:
    """min or max: a compare and a select, which the CPU has as one instruction."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a, b = args
        if VECTOR in signature.args:
            a, b = _as_vectors(context, builder, signature.args, args)
        return _better(comparison, builder, a, b)

    for pair in ((VECTOR, VECTOR), (VECTOR, types.Float), (types.Float, VECTOR)):
        lowered(function, VECTOR, *pair)(codegen)
    if function in (maximum, minimum):  # the others take floats already
        lowered(function, types.float64, types.float64, types.float64)(codegen)


for _larger in (maximum, np.maximum, max):
    _choice(_larger, ">")
for _smaller in (minimum, np.minimum, min):
    _choice(_smaller, "<")


def _choose(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    if VECTOR in signature.args:
        args = _as_vectors(context, builder, signature.args, args)
    a, positive, other = args
    return builder.select(builder.fcmp_ordered(">", a, ir.Constant(a.type, None)), positive, other)


for _three in itertools.product((VECTOR, types.float64), repeat=3):
    lowered(choose, VECTOR if VECTOR in _three else types.float64, *_three)(_choose)


def _llvm(name: str) -> Callable[..., Any]:
    """A code generator that calls one of LLVM's intrinsic functions."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if VECTOR in signature.args:
            args = _as_vectors(context, builder, signature.args, args)
        kind = args[0].type
        suffix = f"v{kind.count}f64" if isinstance(kind, ir.VectorType) else "f64"
        function_type = ir.FunctionType(kind, [kind] * len(args))
        return builder.call(
            cgutils.get_or_insert_function(builder.module, function_type, f"{name}.{suffix}"), args
        )

    return codegen


for _root in (np.sqrt, math.sqrt):
    lowered(_root, VECTOR, VECTOR)(_llvm("llvm.sqrt"))
for _absolute in (abs, np.abs, np.fabs, math.fabs):
    lowered(_absolute, VECTOR, VECTOR)(_llvm("llvm.fabs"))
for _operator, _two in itertools.product((operator.pow, operator.ipow), _VECTOR_PAIRS):
    lowered(_operator, VECTOR, *_two)(_llvm("llvm.pow"))  # a square becomes a product
for _kind in (VECTOR, types.float64):
    lowered(sqrt, _kind, _kind)(_llvm("llvm.sqrt"))
    lowered(fma, _kind, _kind, _kind, _kind)(_llvm("llvm.fmuladd"))


@lowered(gather, VECTOR, types.Array, types.Array, types.int64)
def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    kinds = signature.args[:2]
    table, index = (
        context.make_array(kind)(context, builder, array).data
        for kind, array in zip(kinds, args[:2], strict=True)
    )
    values = []
    for i in range(LANES):
        number = builder.load(builder.gep(index, [ir.Constant(ir.IntType(64), i)]))
        values.append(builder.load(builder.gep(table, [builder.or_(number, args[2])])))
    return _joined(builder, values)


def _folded(join: Callable[..., Any]) -> Callable[..., Any]:
    """A code generator that joins neighbours, then neighbours of these, until one is left."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        values = [builder.extract_element(args[0], ir.IntType(32)(i)) for i in range(LANES)]
        while len(values) > 1:
            values = [join(builder, a, b) for a, b in zip(values[::2], values[1::2], strict=True)]
        return values[0]

    return codegen


lowered(highest, types.float64, VECTOR)(_folded(partial(_better, ">")))
lowered(total, types.float64, VECTOR)(_folded(lambda builder, a, b: builder.fadd(a, b)))
