"""`where`, comparisons, elementary functions: one text for arrays, floats and vectors."""

import math
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hctrellis as hct
from gallery import momenta, value_and_size
from hctrellis.clusters import Lattice
from hctrellis.kernels import simd
from hctrellis.kernels.compile import INNER
from hctrellis.kernels.users import NEAR, as_terms, is_scaled, of_vectors

SOURCE = Path(hct.__file__).parents[1]
ULPS = 3
SPECIAL = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 5e-324, -5e-324, 2.2e-308]
EXTREME = [1.7976931348623157e308, -1e300, 709.782712893384, 709.7827128933841, -745.2, -746.0]
relaxed = settings(deadline=None, max_examples=100)
eights = st.lists(st.floats(allow_subnormal=True), min_size=8, max_size=8).map(np.array)


# ---- the modes --------------------------------------------------------------------------------


@cache
def on_vectors(function):
    """A function of floats as one of arrays, compiled, eight values at a time."""
    compiled, load, store = numba.njit(**INNER)(function), simd.load, simd.store

    @numba.njit(error_model="numpy")
    def run(a, b, out):
        for i in range(0, out.size, 8):
            store(out, i, compiled(load(a, i), load(b, i)))

    return run


@cache
def on_floats(function):
    """The same one value at a time."""
    compiled = numba.njit(error_model="numpy", **INNER)(function)

    @numba.njit(error_model="numpy")
    def run(a, b, out):
        for i in range(out.size):
            out[i] = compiled(a[i], b[i])

    return run


@cache
def on_both(function):
    """The same of a vector and a float, lane by lane."""
    compiled, load, lane = numba.njit(**INNER)(function), simd.load, simd.lane

    @numba.njit(error_model="numpy")
    def run(a, b, out):
        for i in range(out.size):
            out[i] = lane(compiled(load(a, i - i % 8), b[i]), i % 8)

    return run


def on_arrays(function):
    def run(a, b, out):
        with np.errstate(all="ignore"):
            out[:] = function(a, b)

    return run


MODES = [on_vectors, on_floats, on_both, on_arrays]
modes = pytest.mark.parametrize("mode", MODES)


def apply(mode, function, a, b=None):
    a = np.asarray(a, float)
    b = a if b is None else np.asarray(b, float)
    size = -(-len(a) // 8) * 8
    out = np.empty(size)
    mode(function)(np.resize(a, size), np.resize(b, size), out)
    return out[: len(a)]


# ---- elementary functions ---------------------------------------------------------------------

FUNCTIONS = {
    "np.exp": lambda x, _: np.exp(x),
    "np.expm1": lambda x, _: np.expm1(x),
    "np.log": lambda x, _: np.log(x),
    "np.log1p": lambda x, _: np.log1p(x),
    "math.exp": lambda x, _: math.exp(x),
    "math.expm1": lambda x, _: math.expm1(x),
    "math.log": lambda x, _: math.log(x),
    "math.log1p": lambda x, _: math.log1p(x),
}
functions = pytest.mark.parametrize("name", FUNCTIONS)


def exact(name, x):
    with np.errstate(all="ignore"):
        return getattr(np, name.split(".")[1])(np.asarray(x).astype(np.longdouble))


def assert_accurate(name, x):
    x = np.asarray(x, float)
    found, expected = apply(on_vectors, FUNCTIONS[name], x), exact(name, x)
    with np.errstate(all="ignore"):
        rounded = expected.astype(float)
        off = np.abs((found - expected) / np.spacing(np.abs(rounded))).astype(float)
    plain = np.isfinite(rounded)
    assert (off[plain] <= ULPS).all(), x[plain][np.argmax(off[plain])]
    np.testing.assert_array_equal(found[~plain], rounded[~plain])


@functions
def test_functions_are_accurate(name):
    rng = np.random.default_rng(0)
    signs = rng.choice([-1.0, 1.0], 5000)
    assert_accurate(name, rng.uniform(-745, 709.7, 5000))
    assert_accurate(name, rng.uniform(-2, 2, 5000))
    assert_accurate(name, 1 + rng.uniform(-1e-6, 1e-6, 5000))
    assert_accurate(name, signs * 10.0 ** rng.uniform(-323, 308, 5000))
    assert_accurate(name, 2.0 ** rng.integers(-1074, 1023, 1000))


@functions
def test_functions_at_special_values(name):
    assert_accurate(name, SPECIAL + EXTREME)


@functions
@relaxed
@given(eights)
def test_functions_of_anything(name, x):
    assert_accurate(name, x)


ARITHMETIC = {
    "powers": lambda a, b: a**2 + b**0.5 - 2.0**a + a**3,
    "absolute": lambda a, b: abs(a) + np.fabs(b) - np.abs(a - b),
    "numbers": lambda a, b: 1 + a * 2 - b / 4 + (3 - a) * 0.5,
    "roots": lambda a, b: np.sqrt(abs(a)) - np.sqrt(b),
}


def in_place(a, b):
    total = 0.0
    for k in range(3):
        total += k * a
    total -= b
    total *= 2
    total /= 3.0
    total **= 2
    return total


@modes
@pytest.mark.parametrize(
    "function", [*ARITHMETIC.values(), in_place], ids=[*ARITHMETIC, "in place"]
)
def test_arithmetic(mode, function):
    a, b = np.random.default_rng(1).normal(size=(2, 40))
    b = abs(b)
    np.testing.assert_allclose(apply(mode, function, a, b), function(a, b), rtol=1e-14, atol=1e-14)


# ---- logarithms, and weights as x and factor ----------------------------------------------------


def in_a_loop(a, b):
    total = 0.0
    for k in range(3):
        total += np.log(a + k)
    total -= np.log(b)
    return total


LOGARITHMS = {
    "sums": lambda a, b: 2 + np.log(a) + np.log(b) - 0.5,
    "chosen": lambda a, b: hct.where(a < b, np.log(a), -np.log(b)),
    "chosen, or a number": lambda a, b: hct.where(a < b, np.log(a), -3),
    "by a boolean": lambda a, b: hct.where(2.0 > 1.0, np.log(a), b) + 0.0 * b,
    "special": lambda a, b: np.log(a - a) + np.log(b),
    "in a loop": in_a_loop,
    "products": lambda a, b: np.log(a) * b - 2 * np.log(b) + np.log(a) * np.log(b),
    "quotients": lambda a, b: np.log(a) / b + b / (4.0 + np.log1p(b)),
    "tiny": lambda a, b: 1e9 * (np.log1p(1e-9 * a) - np.log1p(1e-9 * b)),
    "exponentials": lambda a, b: np.exp(np.log(a)) + np.expm1(np.log(b)),
    "compared": lambda a, b: hct.where((np.log(a) > np.log(b)) & (np.log(a) != b), a, b),
}


@modes
@pytest.mark.parametrize("name", LOGARITHMS)
def test_logarithms(mode, name):
    function = LOGARITHMS[name]
    a, b = 10.0 ** np.random.default_rng(3).uniform(-1, 1, (2, 40))
    a[:8] = b[:8] / 2  # all lanes alike
    with np.errstate(all="ignore"):
        expected = np.array([function(*pair) for pair in zip(a, b, strict=True)])
    found = apply(mode, function, a, b)
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)


@numba.njit
def terms_of_vectors(x, factor, out):
    for i in range(0, x.size, 8):
        found = as_terms((simd.load(x, i), simd.load(factor, i)))
        simd.store(out[0], i, found[0])
        simd.store(out[1], i, found[1])


@numba.njit
def terms_of_floats(x, factor, out):
    for i in range(x.size):
        out[0, i], out[1, i] = as_terms((x[i], factor[i]))


@pytest.mark.parametrize("split", [terms_of_vectors, terms_of_floats])
@relaxed
@given(eights)
def test_any_factor_comes_near_one(split, factor):
    """Powers of two go to x, if the factor is far from 1; 0 is forbidden."""
    x = np.linspace(-3.0, 4.0, 8)
    y, rest = out = np.empty((2, 8))
    split(x, factor, out)
    with np.errstate(all="ignore"):
        expected = x + np.log(factor)
        np.testing.assert_allclose(y + np.log(rest), expected, rtol=1e-13, atol=1e-13)
    assert ((rest > 1 / NEAR) & (rest < NEAR)).all()


# ---- comparisons and choices ------------------------------------------------------------------

CHOICES = {
    "less": lambda a, b: hct.where(a < b, a, b),
    "at most": lambda a, b: hct.where(a <= b, 1.0, b),
    "more": lambda a, b: hct.where(a > b, a, 2.0),
    "at least": lambda a, b: hct.where(a >= b, 1, 2),
    "equal": lambda a, b: hct.where(a == b, a, -1),
    "other": lambda a, b: hct.where(a != b, a, 7.0),
    "numbers first": lambda a, b: hct.where(hct.where(a > 0, 1, 2) != b, a, 3),
    "numbers last": lambda a, b: hct.where(a >= 0, b, hct.where(b <= 1.0, a, 3)),
    "and": lambda a, b: hct.where((a > 0) & (b > 0), a, b),
    "or": lambda a, b: hct.where((a > 0) | (b > 0), a, b),
    "both": lambda a, b: hct.where((a > 0) & (b > 0) | (a == b), 1.0, -1.0),
    "with a boolean": lambda a, b: hct.where((a > 0) & (1.0 < 2.0), a, b),
    "forbidden": lambda a, b: hct.where(a > b, -math.inf, a),
    "not computed in vain": lambda a, b: hct.where(a > 0, np.log(a), np.log1p(-a) + 1 / b),
}
choices = pytest.mark.parametrize("name", CHOICES)
LANES = [[1.0, 2.0, 3.0, 4.0] * 2, [-1.0, -2.0, -3.0, -4.0] * 2, [1.0, -2.0, 0.0, -0.0] * 2]


@modes
@choices
def test_choices(mode, name):
    """All lanes alike, and not alike."""
    a, b = np.meshgrid(np.concatenate(LANES), [1.0, -1.0, 2.0])
    expected = np.empty(a.size)
    on_arrays(CHOICES[name])(a.ravel(), b.ravel(), expected)
    found = apply(mode, CHOICES[name], a.ravel(), b.ravel())
    np.testing.assert_allclose(found, expected, rtol=1e-15, atol=1e-15)  # log(3) - 1 cancels


@pytest.mark.parametrize("name", [name for name in CHOICES if name != "not computed in vain"])
@relaxed
@given(eights, eights)
def test_choices_of_anything(name, a, b):
    expected = np.empty(8)
    on_arrays(CHOICES[name])(a, b, expected)
    np.testing.assert_array_equal(apply(on_vectors, CHOICES[name], a, b), expected)


def test_where_of_numbers_is_a_number():
    for condition, expected in ((True, 1.5), (False, -math.inf), (np.bool_(True), 1.5)):
        found = hct.where(condition, 1.5, -math.inf)
        assert isinstance(found, float)
        assert found == expected


def test_where_of_arrays():
    a = np.array([1.0, -2.0, math.nan])
    np.testing.assert_array_equal(hct.where(a > 0, a, 0.0), [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(hct.where(True, a, 0.0), a)
    assert hct.where(a[:0] > 0, a[:0], 1.0).shape == (0,)


# ---- users' functions -------------------------------------------------------------------------

LAM, T_CUT = 1.5, 20.0
NORM = 2 * math.log(-math.expm1(-LAM)) + math.log(4 * math.pi)


def ginkgo(left, right, parent):
    """Feature: the mass, 0 for a leaf."""
    first, second = np.maximum(left[0], right[0]), np.minimum(left[0], right[0])
    rate, rest = LAM / parent[0] ** 2, LAM / (parent[0] - first) ** 2
    heavy = hct.where(first > 0, np.log(rate) - rate * first**2, np.log(-np.expm1(-rate * T_CUT)))
    light = hct.where(second > 0, np.log(rest) - rest * second**2, np.log(-np.expm1(-rest * T_CUT)))
    return hct.where(parent[0] ** 2 < T_CUT, -np.inf, heavy + light - NORM)


def ginkgo_branching(left, right, parent):
    if parent[0] ** 2 < T_CUT:
        return -np.inf
    total = -NORM
    rate = LAM / parent[0] ** 2
    for t in (max(left[0], right[0]) ** 2, min(left[0], right[0]) ** 2):
        total += np.log(rate) - rate * t if t > 0 else np.log(-np.expm1(-rate * T_CUT))
        rate = LAM / (parent[0] - np.sqrt(t)) ** 2
    return total


def ginkgo_factors(left, right, parent):
    """The same as x and factor."""
    first, second = np.maximum(left[0], right[0]), np.minimum(left[0], right[0])
    rate, rest = LAM / parent[0] ** 2, LAM / (parent[0] - first) ** 2
    heavy = hct.where(first > 0, rate, -np.expm1(-rate * T_CUT))
    light = hct.where(second > 0, rest, -np.expm1(-rest * T_CUT))
    possible = hct.where(parent[0] ** 2 < T_CUT, 0.0, 1.0)
    return -rate * first**2 - rest * second**2 - NORM, heavy * light * possible


def ginkgo_branching_factors(left, right, parent):
    if parent[0] ** 2 < T_CUT:
        return 0.0, 0.0
    x, factor = -NORM, 1.0
    rate = LAM / parent[0] ** 2
    for t in (max(left[0], right[0]) ** 2, min(left[0], right[0]) ** 2):
        x -= rate * t
        factor *= rate if t > 0 else -np.expm1(-rate * T_CUT)
        rate = LAM / (parent[0] - np.sqrt(t)) ** 2
    return x, factor


FORMS = {
    "numpy": ginkgo,
    "numpy, factors": ginkgo_factors,
    "numba": numba.njit(error_model="numpy")(ginkgo),
    "branching": numba.njit(ginkgo_branching),
    "numba, factors": numba.njit(error_model="numpy")(ginkgo_factors),
    "branching, factors": numba.njit(ginkgo_branching_factors),
}
COMPILED = [form for form in FORMS if not form.startswith("numpy")]


def by_function(function, jet):
    """The built-in model, and the same by a function."""
    model = hct.Ginkgo(jet, LAM, T_CUT)
    return model, hct.FunctionPotential(
        function, lambda clusters: model.describe(clusters).features, n_leaves=len(jet)
    )


@pytest.mark.parametrize(
    ("form", "n"),
    [("numpy", 10), ("numpy, factors", 10), ("branching", 4), ("branching, factors", 10)],
)
def test_a_function_with_branches(form, n):
    """A formula of the jet model, with forbidden splits, against the built-in.

    Without branches the compiled functions are those of `test_eight_at_a_time`; four leaves are the
    least for which splits are weighed eight at a time.
    """
    model, own = by_function(FORMS[form], momenta(n, 3))
    expected, found = hct.infer(model), hct.infer(own)
    assert 0 < found.n_trees == expected.n_trees < hct.FullTrellis(n).n_trees
    assert found.log_partition == pytest.approx(expected.log_partition, rel=1e-12)
    assert found.map_log_weight == pytest.approx(expected.map_log_weight, rel=1e-12)
    assert found.map_tree == expected.map_tree


def test_eight_at_a_time():
    """Whether a function is computed with vectors, and that all forms have the same weights."""
    owns = {form: by_function(FORMS[form], momenta(5, 3))[1] for form in COMPILED}
    assert all(of_vectors(own.code()) is not None for own in owns.values())
    assert all(is_scaled(own.code()) == ("factors" in form) for form, own in owns.items())
    sides = np.random.default_rng(2).integers(0, 3, (50, 5))
    sides = sides[(sides == 0).any(axis=1) & (sides == 1).any(axis=1)]
    first, *others = (own.split_log_weights(sides == 0, sides == 1) for own in owns.values())
    assert np.isneginf(first).any()
    for other in others:
        np.testing.assert_allclose(first, other, rtol=1e-13)
    for own in owns.values():
        masks = np.array([3, 5, 6, 9, 10, 12, 17, 1])
        members = (masks[:, None] >> np.arange(5) & 1).astype(bool)
        expected = own.split_log_weights(members, ~members)
        np.testing.assert_allclose(weigh_eight(own, masks), expected, rtol=1e-13)


def weigh_eight(own, masks):
    """Log weights of eight splits of the root, from one call with vectors."""
    function, load, store, splat = of_vectors(own.code()), simd.load, simd.store, simd.splat

    @numba.njit(error_model="numpy")
    def run(left, right, parent, out):
        x, factor = as_terms(function((load(left, 0),), (load(right, 0),), (splat(parent),)))
        store(out[0], 0, splat(x))
        store(out[1], 0, splat(factor))

    (masses,), _ = own.describe(Lattice(own.n_leaves))
    out = np.empty((2, 8))
    run(masses[masks], masses[len(masses) - 1 - masks], masses[-1], out)
    return out[0] + np.log(out[1])


# ---- without the compiler, and before it is loaded --------------------------------------------


def run_python(code, **environment):
    """What a new process prints."""
    variables = os.environ | {"PYTHONPATH": str(SOURCE)} | environment
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


FRESH = """
import sys
import numpy as np
import hctrellis as hct
first = hct.where(np.array([1.0, 2.0]) > 1.5, -np.inf, 0.0).tolist(), "numba" in sys.modules
import numba

@numba.njit
def weigh(left, right, parent):
    small = (left[0] < 3) & (right[0] < 3)
    return hct.where(small, -np.log(parent[0]), -np.inf)

own = hct.FunctionPotential(weigh, lambda clusters: [clusters.sizes], n_leaves=4)
left = np.array([[True, False, False, False], [True, True, False, False]])
print(*first, *own.split_log_weights(left, ~left).tolist())
"""


@pytest.mark.parametrize("disabled", ["0", "1"])
def test_a_fresh_process(disabled):
    """`where` is there without Numba, and Numba knows it when a function is given."""
    found = run_python(FRESH, NUMBA_DISABLE_JIT=disabled)
    assert found == f"[0.0, -inf] False -inf {-np.log(4.0)}\n"


def test_a_function_without_jit():
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from gallery import momenta
import hctrellis as hct
import test_where
post = hct.infer(test_where.by_function(test_where.FORMS["numba"], momenta(5, 3))[1])
print(float(post.log_partition).hex(), post.n_trees, post.map_tree.to_newick())
"""
    log_partition, n_trees, newick = run_python(code, NUMBA_DISABLE_JIT="1").split()
    post = hct.infer(hct.Ginkgo(momenta(5, 3), LAM, T_CUT))
    assert float.fromhex(log_partition) == pytest.approx(post.log_partition, rel=1e-12)
    assert int(n_trees) == post.n_trees
    assert hct.Tree.from_newick(newick) == post.map_tree


SIGNATURE = "float64(UniTuple(float64, 2), UniTuple(float64, 2), UniTuple(float64, 2))"


def product(left, right, parent):
    return -0.1 * (left[0] * right[0]) ** 2


def whole(left, right, parent):
    return -1 if left[0] == right[0] else -2


def halved(left, right, parent):
    """In a form that is not rewritten."""
    weight = left[0] * right[0] + parent[1]
    while weight > 1.0:
        weight /= 2.0
    return weight


OTHERS = {
    numba.njit(SIGNATURE)(product): True,
    numba.njit(whole): True,
    numba.njit(halved): False,
}


@pytest.mark.parametrize("n", [4, 9])
def test_functions_with_a_signature_of_integers_or_one_after_the_other(n):
    """All in one sum: one kernel is compiled."""

    def of_sizes(function):
        features = value_and_size(0.3 * np.arange(n))
        return hct.FunctionPotential(
            function, lambda clusters: features(clusters)[::-1], n_leaves=n
        )

    def plain(left, right, parent):
        splits = zip(*(zip(*rows, strict=True) for rows in (left, right, parent)), strict=True)
        return [sum(function.py_func(*split) for function in OTHERS) for split in splits]

    own = [of_sizes(function) for function in OTHERS]
    assert [of_vectors(part.code()) is not None for part in own] == list(OTHERS.values())
    found, expected = hct.infer(own[0] + own[1] + own[2]), hct.infer(of_sizes(plain))
    assert found.log_partition == pytest.approx(expected.log_partition, rel=1e-12)
    assert found.map_log_weight == pytest.approx(expected.map_log_weight, rel=1e-12)
