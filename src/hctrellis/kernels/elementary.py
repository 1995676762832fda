"""Elementary functions of vectors: `exp2`, `expm1`, `log`, and those that users' functions call.

In compiled code they take vectors or floats, without branches; outside of it, NumPy arrays (see
`simd`). exp, expm1, log and log1p of Python and NumPy take vectors as well, for the sake of users'
functions: they are right for all numbers, those of the kernels only where the kernels need it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hctrellis.kernels.compile import INNER
from hctrellis.kernels.door import Flags, cgutils, ir, overload, register_jitable, types
from hctrellis.kernels.simd import VECTOR, blend, every, fma, lowered, maximum, minimum
from hctrellis.support.logs import LOG2E

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

_LN2 = math.log(2.0)
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
LEAST_NORMAL = 2.0**-1022
_ROOT_HALF = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)
_ONE = 1023 << 52  # the bits of 1
_TWO_52 = 1075 << 52  # the bits of 2^52, whose last bit counts units


def exp2(x):
    """2^x to about one unit in the last place; compiled: 2^-960 wherever x is below -960."""
    return np.exp2(x)


def expm1(x):
    """e^x - 1 without cancellation."""
    return np.expm1(x)


def log(x):
    """The natural logarithm of normal numbers above 0 (undefined for others if compiled)."""
    return np.log(x)


def log2_above(x):
    """A number above log2(x) by at most 0.09, for a normal x above 0."""
    return np.log2(x) + 0.08


def _in_exp2(x):
    """The constants of `exp2`, as numbers or vectors like x."""
    return _IN_EXP2


def _power_of_two(shifted):
    """2^k, where shifted = k + _SHIFTER."""
    return np.exp2(shifted - _SHIFTER)


def mantissa_exponent(x):
    """m and k with x = m 2^k and m from sqrt(1/2) to sqrt(2), for normal x."""
    m, k = np.frexp(x)
    low = m < math.sqrt(0.5)
    return np.where(low, 2.0 * m, m), np.where(low, k - 1.0, k)


# -- their compiled faces ----------------------------------------------------------------------


def _integers(kind: Any, value: int) -> Any:
    """An integer for each of the doubles of an LLVM type."""
    if isinstance(kind, ir.VectorType):
        return ir.Constant(ir.VectorType(ir.IntType(64), kind.count), [value] * kind.count)
    return ir.Constant(ir.IntType(64), value)


@lowered(_power_of_two, types.float64, types.float64)
@lowered(_power_of_two, VECTOR, VECTOR)
def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    kind = args[0].type
    shift, one = _integers(kind, 52), _integers(kind, _ONE)
    shifted = builder.shl(builder.bitcast(args[0], one.type), shift)
    return builder.bitcast(builder.add(shifted, one), kind)


@lowered(log2_above, types.float64, types.float64)
def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """The bits of a double, read as an integer, grow almost like its logarithm."""
    kind = ir.DoubleType()
    bits = builder.sitofp(builder.bitcast(args[0], ir.IntType(64)), kind)
    return builder.fadd(builder.fmul(bits, kind(2.0**-52)), kind(0.0861 - 1023.0))


@lowered(mantissa_exponent, types.UniTuple(VECTOR, 2), VECTOR)
def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
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


@lowered(_in_exp2, types.UniTuple(types.float64, len(_IN_EXP2)), types.float64)
def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    values = [ir.Constant(ir.DoubleType(), number) for number in _IN_EXP2]
    return context.make_tuple(builder, signature.return_type, values)


@lowered(_in_exp2, types.UniTuple(VECTOR, len(_IN_EXP2)), VECTOR)
def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Vectors that are read from memory where they are used.

    LLVM would read them before a loop and keep them in registers, of which there are too few; so it
    is hidden that the address is constant. (Elsewhere this gains nothing.)
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
        builder.load(builder.gep(address, [index(0), index(i)]), align=64) for i in range(len(rows))
    ]
    return context.make_tuple(builder, signature.return_type, values)


@register_jitable(**INNER)
def _parts(x, constants):
    """2^x as (s, p) with 2^x = s + s p, s a power of two and p = 2^f - 1 for |f| <= 1/2."""
    lowest, shifter, c = constants[0], constants[1], constants[2:]
    x = maximum(lowest, x)  # in this order NaN propagates
    shifted = x + shifter
    f = x - (shifted - shifter)
    f2 = f * f
    f4 = f2 * f2
    low = fma(fma(f, c[7], c[8]), f2, fma(f, c[9], c[10]))
    middle = fma(fma(f, c[3], c[4]), f2, fma(f, c[5], c[6]))
    high = fma(f2, c[0], fma(f, c[1], c[2]))
    q = fma(fma(high, f4, middle), f4, low)
    return _power_of_two(shifted), q * f


@overload(exp2, jit_options=INNER)
def _exp2(x):
    def of_any(x):
        scale, p = _parts(x, _in_exp2(x))
        return fma(scale, p, scale)

    return of_any


@overload(expm1, jit_options=INNER)
def _expm1(x):
    def of_any(x):
        scale, p = _parts(x * LOG2E, _in_exp2(x))
        return fma(scale, p, scale - 1.0)

    return of_any


# -- functions of Python and NumPy on vectors, without branches, for users' functions -------------


@register_jitable(**INNER)
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
    p, shifted = _exp_parts(minimum(710.0, maximum(-746.0, x)))  # in this order NaN propagates
    half = (shifted - _SHIFTER) * 0.5 + _SHIFTER  # 2^k itself may be too small or too large
    scale = _power_of_two(half)
    return (scale * p + scale) * _power_of_two((shifted - half) + _SHIFTER)


def _vector_expm1(x):
    p, shifted = _exp_parts(minimum(710.0, maximum(-50.0, x)))
    scale = _power_of_two(shifted - 1.0)  # 2^k itself may be too large
    half = scale * p + (scale - 0.5)
    return blend(abs(x) < LEAST_NORMAL, x, half + half)


@overload(log, jit_options=INNER)
def _log(x):
    if x == VECTOR:
        return lambda x: _log_of_parts(*mantissa_exponent(x))
    return lambda x: math.log(x)


@register_jitable(**INNER)
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


def apart(function: Callable[..., Any], result: Any) -> Callable[..., Any]:
    """A function of a vector that is called, instead of becoming a part of its caller.

    It has all registers to itself, and it may branch: a call, unlike a branch, is left out by
    `where` if its result is not needed.
    """

    def called(x):
        return function(x)

    name = f"hctrellis{function.__name__}"

    @lowered(called, result, VECTOR)
    def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        known = builder.module.globals.get(name)
        if known is None:
            kind = ir.FunctionType(context.get_value_type(result), [args[0].type])
            known = ir.Function(builder.module, kind, name)
            known.linkage = "internal"
            known.attributes.add("noinline")
            inside = ir.IRBuilder(known.append_basic_block())
            flags: Any = Flags()
            flags.error_model = "numpy"
            flags.forceinline = True
            body = context.compile_subroutine(inside, function, signature, flags=flags)
            _status, value = context.call_internal_no_propagate(
                inside, body.fndesc, signature, known.args
            )
            inside.ret(value)
        return builder.call(known, args)

    return called


def extend(function: Callable[..., Any], on_vectors: Callable[..., Any]) -> None:
    """Let a function of Python or NumPy take vectors."""
    overload(function, jit_options=INNER)(
        lambda x: (lambda x: on_vectors(x)) if x == VECTOR else None
    )


@register_jitable(**INNER)
def log_parts(v):
    """log(v) as x and m, x + log(m), with m from sqrt(1/2) to sqrt(2); for any numbers."""
    m, k = mantissa_exponent(v)
    if every(abs(k - 1.0) < 1022.5):  # neither tiny nor huge nor negative: the usual case
        return k * _LN2, m
    tiny = v < LEAST_NORMAL
    m, k = mantissa_exponent(blend(tiny, v * 2.0**54, v))
    x = (k + blend(tiny, -54.0, 0.0)) * _LN2
    x = blend(v < math.inf, x, v)
    x = blend(v > 0.0, x, blend(v == 0.0, -math.inf, math.nan))
    return x, blend((v > 0.0) & (v < math.inf), m, 1.0)


@register_jitable(**INNER)
def _vector_log(v):
    m, k = mantissa_exponent(v)
    if every(abs(k - 1.0) < 1022.5):
        return _log_of_parts(m, k)
    x, m = log_parts(v)
    return x + _log_of_parts(m, 0.0)


def _vector_log1p(v):
    u = v + 1.0
    lost = (v - (u - 1.0)) / u  # by rounding u, to first order
    return _vector_log(u) + blend((u > 0.0) & (u < math.inf), lost, 0.0)


for _name, _on_vectors in (
    ("exp", _vector_exp),
    ("expm1", _vector_expm1),
    ("log", _vector_log),
    ("log1p", _vector_log1p),
):
    _called = apart(_on_vectors, VECTOR)
    for _module in (math, np):
        extend(getattr(_module, _name), _called)
