"""Functions with branches, rewritten without: the same values, or not rewritten at all."""

import linecache
import math
from itertools import count, product

import numba
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hctrellis.kernels.branchless import branchless
from test_where import apply, on_vectors

VALUES = [-2.5, -1.0, -0.0, 0.0, 0.5, 1.0, 3.0, math.inf, -math.inf, math.nan]
GLOBAL = 1.5


def early(a, b):
    """Returns."""
    if a < b:
        return a
    if a > 2 * b:
        return -math.inf
    return a * b


def ladder(a, b):
    if a < 0.0:
        x = a
    elif a < 1.0:
        x = b
        x += 1.0
    else:
        x = a * b
    return x + GLOBAL


def kept(a, b):
    x = a
    if b > 0.0:
        x = x * 2.0
    return x


def nested(a, b):
    x, y = b, a
    if a > 0.0:
        if b > 0.0:
            return x
        y = x - 1.0
    else:
        pass
    x: float = y + 1.0
    return x - a


def expression(a, b):
    return (a if a > b else b) - (1.0 if a == b else 0.0)


def logic(a, b):
    if a > 0.0 and b > 0.0:
        return 1.0
    if not (a < 0.0 or b < 0.0) and a == a:
        return 2.0
    return 3.0 if -1.0 <= a < b != 3.0 else 4.0


def swap(a, b):
    if a > b:
        a, b = b, a
    return a - 2.0 * b


def named_test(a, b):
    larger = a > b
    if larger:
        return a
    return b


def loop(a, b):
    total = 0.0
    for x in (a, b):
        total += x if x > 0.0 else 1.0
    for k in range(3):
        if total > k:
            total -= 1.0
    return total


def return_from_loop(a, b):
    for x in (a, b, a + b):
        if x > 0.0:
            return x
    return 0.0


def reassigned_in_loop(a, b):
    for x in (a, b):
        b = x + 1.0
    return b


@numba.njit
def larger_of(a, b):
    if a > b:
        return a
    return b


def helper(a, b):
    if a == 0.0:
        return larger_of(b, 1.0)
    return larger_of(a, b) / 2.0


def guarded(a, b):
    if b == 0.0:
        return 0.0
    return a / b


def guarded_log(a, b):
    return np.log(a) if 0.0 < a < math.inf else b


def closing():
    shift = 0.25

    @numba.njit
    def inner(a, b):
        if a > b:
            return a + shift
        return b + shift

    return inner


FUNCTIONS = [
    early,
    ladder,
    kept,
    nested,
    expression,
    logic,
    swap,
    named_test,
    loop,
    return_from_loop,
    reassigned_in_loop,
    helper,
    guarded,
    guarded_log,
    closing().py_func,
]
functions = pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)


def values_of(function, a, b):
    with np.errstate(all="ignore"):
        return [float(function(np.float64(x), np.float64(y))) for x, y in zip(a, b, strict=True)]


@functions
def test_same_values(function):
    rewritten = branchless(numba.njit(function))
    a, b = zip(*product(VALUES, repeat=2), strict=True)
    expected = values_of(function, a, b)
    np.testing.assert_array_equal(values_of(rewritten, a, b), expected)
    np.testing.assert_allclose(apply(on_vectors, rewritten, a, b), expected, rtol=1e-15)


# ---- what is left as it is --------------------------------------------------------------------


def looping(a, b):
    while a < b:
        a += 1.0
    return a


def one_side_only(a, b):
    if a > b:
        x = a
    return x


def no_result(a, b):  # noqa: RET503
    if a > b:
        return a


def no_value(a, b):
    if a > b:
        return  # noqa: RET502
    return a


def with_default(a, b=1.0):
    return a if a > b else b


def leaving(a, b):
    for x in (a, b):
        if x > 0.0:
            break
    return x


def failing(a, b):
    if a > b:
        raise ValueError("a")
    return a


def changing(a, b):
    x = np.zeros(2)
    if a > b:
        x[0] = a
    return x[0]


def speaking(a, b):
    if a > b:
        print(a)
    return a


@numba.njit
def itself(a, b):
    if a < b:
        return itself(a + 1.0, b)
    return a


def about_objects(a, b):
    return a if a is b else b


def by_name(a, b):
    return max(*(a, b)) if a > b else round(a, ndigits=1)


def long_loop(a, b):
    for k in range(100_000):
        if a > k:
            a -= b
    return a


LEFT = [looping, one_side_only, no_result, no_value, with_default, leaving, failing, changing]
LEFT += [
    speaking,
    itself.py_func,
    about_objects,
    by_name,
    long_loop,
    lambda a, b: a if a > b else b,
]


@pytest.mark.parametrize("function", LEFT, ids=lambda f: f.__name__)
def test_left(function):
    assert branchless(numba.njit(function)) is None


def doubled(x):
    """Twice as many results with each line."""
    return "\n".join(f"    if x > {k}.0:\n        if x < {k}.5:\n            return x" for k in x)


def test_not_longer_and_longer():
    text = f"def made(x):\n{doubled(range(20))}\n    return 0.0\n"
    assert branchless(numba.njit(made_of(text))) is None
    short = f"def made(x):\n{doubled(range(3))}\n    return 0.0\n"
    assert branchless(numba.njit(made_of(short)))(1.25) == 1.25


# ---- texts ------------------------------------------------------------------------------------

number = count()


def made_of(text, shown=None):
    """The function `made` of a text; its file shows another text, if one is given."""
    file = f"<made {next(number)}>"
    scope = {"__name__": "made", "max": max}
    exec(compile(text, file, "exec"), scope)
    lines = (text if shown is None else shown).splitlines(keepends=True)
    linecache.cache[file] = (1, None, lines, file)
    return scope["made"]


TEXT = "def made(a, b):\n    if a > b:\n        return a\n    return b\n"


@pytest.mark.parametrize(
    "shown",
    [
        TEXT.replace(">", "<"),
        TEXT.replace("return b", "return 2"),
        TEXT.replace("b:", "a:"),
        "\n" + TEXT,
        "made = 1\n",
        "def made(a, b:\n",
        "",
    ],
)
def test_a_text_that_is_not_the_function(shown):
    assert branchless(numba.njit(made_of(TEXT))) is not None
    assert branchless(numba.njit(made_of(TEXT, shown))) is None


def test_no_text():
    scope = {}
    exec(TEXT, scope)
    assert branchless(numba.njit(scope["made"])) is None


def test_two_in_one_line():
    text = "made = (lambda f: f)(lambda a, b: a if a > b else b)\n"
    assert branchless(numba.njit(made_of(text))) is None


# ---- any program ------------------------------------------------------------------------------

names = st.sampled_from(["a", "b", "x", "y"])
atoms = names | st.sampled_from(["0.0", "1.0", "2.5", "-1.0"])


def formulas(inner):
    tests = conditions(inner)
    return (
        st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})")
        | st.tuples(inner, inner).map(lambda t: f"max({t[0]}, {t[1]})")
        | st.tuples(inner, tests, inner).map(lambda t: f"({t[0]} if {t[1]} else {t[2]})")
    )


def conditions(inner):
    signs = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])
    compare = st.tuples(inner, signs, inner).map(" ".join)
    joined = st.tuples(compare, st.sampled_from(["and", "or"]), compare).map(" ".join)
    return compare | joined | joined.map(lambda test: f"not ({test})")


expressions = st.recursive(atoms, formulas, max_leaves=4)
tests = conditions(expressions)


def indented(lines):
    return [f"    {line}" for line in lines]


def branches(blocks):
    return (
        st.tuples(tests, blocks).map(lambda t: [f"if {t[0]}:", *indented(t[1])])
        | st.tuples(tests, blocks, blocks).map(
            lambda t: [f"if {t[0]}:", *indented(t[1]), "else:", *indented(t[2])]
        )
        | st.tuples(names, expressions, expressions, blocks).map(
            lambda t: [f"for {t[0]} in ({t[1]}, {t[2]}):", *indented(t[3])]
        )
    )


lines = st.tuples(names, st.sampled_from(["=", "+=", "-="]), expressions).map(" ".join)
lines = (lines | expressions.map("return {}".format)).map(lambda line: [line])
blocks = st.recursive(
    lines,
    lambda inner: branches(inner) | st.tuples(inner, inner).map(lambda two: [*two[0], *two[1]]),
    max_leaves=8,
)


@settings(deadline=None, max_examples=300)
@given(blocks, expressions)
@example(["if a < b:", "    b = a", "else:", "    b = a"], "b")  # the same on both sides
def test_any_program(block, result):
    body = ["x, y = a, 1.0", *block, f"return {result}"]
    text = "\n".join(["def made(a, b):", *indented(body), ""])
    function = made_of(text)
    rewritten = branchless(numba.njit(function))
    assert rewritten is not None, text
    a, b = zip(*product(VALUES, repeat=2), strict=True)
    np.testing.assert_array_equal(values_of(rewritten, a, b), values_of(function, a, b), text)
