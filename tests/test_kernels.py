"""Compiled code: elementary functions on vectors, caches that are never stale, lazy imports."""

import itertools
import math
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import numba
import numpy as np
import pytest

import hctrellis as hct
from hctrellis.kernels import elementary, simd
from hctrellis.kernels.compile import inner

SOURCE = Path(hct.__file__).parents[1]
ULPS = 2
LOWEST = elementary._LOWEST  # exp2 is this power of two below it


# ---- vectors ----------------------------------------------------------------------------------


def on_vectors(function):
    """A compiled function over arrays, eight values at a time."""
    load, store, lanes = simd.load, simd.store, simd.LANES

    @numba.njit
    def run(x, out):
        for i in range(0, x.size, lanes):
            store(out, i, function(load(x, i)))

    return run


def on_floats(function):
    """The same one value at a time."""

    @numba.njit
    def run(x, out):
        for i in range(x.size):
            out[i] = function(x[i])

    return run


FACES = [on_vectors, on_floats]


def apply(face, function, x):
    padded = np.resize(np.asarray(x, float), -(-len(x) // 8) * 8)
    out = np.empty_like(padded)
    face(function)(padded, out)
    return out[: len(x)]


def ulps(found, exact):
    """The distance to an extended-precision value, in units of the last place."""
    return np.abs((found - exact) / np.spacing(np.abs(exact.astype(float)))).astype(float)


def wide(x):
    return np.asarray(x).astype(np.longdouble)


@pytest.mark.parametrize("face", FACES)
def test_exp2(face):
    rng = np.random.default_rng(0)
    whole = np.arange(LOWEST, 1024.0)
    x = np.concatenate([whole, rng.uniform(LOWEST, 1023, 20_000), rng.uniform(-2, 2, 20_000)])
    found = apply(face, elementary.exp2, x)
    assert ulps(found, np.exp2(wide(x))).max() <= ULPS
    np.testing.assert_array_equal(found[: len(whole)], np.exp2(whole))


@pytest.mark.parametrize("face", FACES)
def test_exp2_of_very_negative_numbers(face):
    assert -1022 <= LOWEST <= -900
    x = [LOWEST, LOWEST - 0.5, -1022.5, -1100.0, -1e6, -1e300, -math.inf]
    assert apply(face, elementary.exp2, x).tolist() == [2.0**LOWEST] * len(x)


@pytest.mark.parametrize("face", FACES)
def test_exp2_keeps_nan(face):
    found = apply(face, elementary.exp2, [0.0, math.nan, 1.0, math.nan])
    np.testing.assert_array_equal(found, [1.0, math.nan, 2.0, math.nan])


@pytest.mark.parametrize("face", FACES)
def test_expm1(face):
    rng = np.random.default_rng(1)
    tiny = 10.0 ** rng.uniform(-300, 0, 10_000)
    x = np.concatenate([-tiny, tiny, rng.uniform(-700, 1, 10_000), [0.0, -700.0]])
    found = apply(face, elementary.expm1, x)
    assert ulps(found, np.expm1(wide(x))).max() <= 2 * ULPS
    assert found[-2] == 0


@pytest.mark.parametrize("face", FACES)
def test_sqrt(face):
    x = np.concatenate([[0.0], 10.0 ** np.random.default_rng(2).uniform(-300, 300, 999)])
    np.testing.assert_array_equal(apply(face, simd.sqrt, x), np.sqrt(x))


@pytest.mark.parametrize("face", FACES)
def test_log(face):
    rng = np.random.default_rng(3)
    x = np.concatenate([10.0 ** rng.uniform(-300, 300, 10_000), rng.uniform(0.5, 2, 10_000), [1.0]])
    found = apply(face, elementary.log, x)
    assert ulps(found[:-1], np.log(wide(x[:-1]))).max() <= ULPS
    assert found[-1] == 0


@pytest.mark.parametrize("face", [on_floats, None], ids=["compiled", "python"])
def test_log2_above(face):
    x = 2.0 ** np.random.default_rng(4).uniform(-1000, 1000, 20_000)
    found = elementary.log2_above(x) if face is None else apply(face, elementary.log2_above, x)
    excess = found - np.log2(x)
    assert excess.min() > 0 and excess.max() < 0.09


@cache
def all_forms(name):
    """An operation compiled in all forms: vectors, numbers, vectors and numbers."""
    load, store, splat, lane = simd.load, simd.store, simd.splat, simd.lane
    operation = OPERATIONS[name]

    @numba.njit
    def run(a, b, c, out):
        store(out[0], 0, operation(load(a, 0), load(b, 0), load(c, 0)))
        for i in range(simd.LANES):
            out[1, i] = operation(a[i], b[i], c[i])
            out[2, i] = lane(operation(load(a, 0), b[i], c[i]), i)
            out[3, i] = lane(operation(a[i], load(b, 0), splat(c[i])), i)

    return run


def run_operation(name, a, b, c):
    out = np.empty((4, simd.LANES))
    all_forms(name)(a, b, c, out)
    return out


@numba.njit
def _maximum(a, b, c):
    return simd.maximum(a, b)


@numba.njit
def _minimum(a, b, c):
    return simd.minimum(a, b)


@numba.njit
def _choose(a, b, c):
    return simd.choose(a, b, c)


@numba.njit
def _arithmetic(a, b, c):
    return (a + b) * c - a / b + 2 * a - b * 3.0 + -c


OPERATIONS = {
    "maximum": _maximum,
    "minimum": _minimum,
    "choose": _choose,
    "arithmetic": _arithmetic,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name):
    rng = np.random.default_rng(3)
    for _ in range(20):
        a, b, c = rng.normal(size=(3, simd.LANES))
        a[rng.integers(simd.LANES)] = 0.0
        expected = OPERATIONS[name].py_func(a, b, c)
        for found in run_operation(name, a, b, c):
            np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_extremes_of_infinities(name):
    values = [-math.inf, 0.0, math.inf]
    a, b = np.array(list(itertools.product(values, repeat=2))[: simd.LANES]).T.copy()
    expected = OPERATIONS[name].py_func(a, b, None)
    np.testing.assert_array_equal(run_operation(name, a, b, b)[0], expected)


@numba.njit
def moves(table, index, out):
    rows = simd.transpose(
        simd.load(table, 0),
        simd.load(table, 8),
        simd.load(table, 16),
        simd.load(table, 24),
        simd.load(table, 32),
        simd.load(table, 40),
        simd.load(table, 48),
        simd.load(table, 56),
    )
    for i in range(8):
        simd.store(out[i], 0, rows[i])
    simd.store(out[8], 0, simd.gather(table, index, 1))
    t = table
    simd.store(out[9], 0, simd.pack(t[7], t[6], t[5], t[4], t[3], t[2], t[1], t[0]))
    simd.store(out[10], 0, simd.splat(table[5]))
    simd.store(out[11], 0, table[7])
    vector = simd.load(table, 3)
    for i in range(8):
        out[12, 7 - i] = simd.lane(vector, i)
    changed = simd.with_lane(vector, 6, 0.5)
    simd.store(out[13], 0, changed)
    out[14, 0] = simd.highest(vector)
    out[14, 1] = simd.total(vector)


@pytest.mark.parametrize("function", [moves, moves.py_func], ids=["compiled", "python"])
def test_moves(function):
    table = np.random.default_rng(4).permutation(16.0 * np.arange(64))
    index = np.array([2, 8, 0, 12, 62, 32, 6, 20])
    out = np.zeros((15, 8))
    function(table, index, out)
    np.testing.assert_array_equal(out[:8], table.reshape(8, 8).T)
    np.testing.assert_array_equal(out[8], table[index | 1])
    np.testing.assert_array_equal(out[9], table[7::-1])
    np.testing.assert_array_equal(out[10], [table[5]] * 8)
    np.testing.assert_array_equal(out[11], [table[7]] * 8)
    np.testing.assert_array_equal(out[12], table[10:2:-1])
    np.testing.assert_array_equal(out[13], [*table[3:9], 0.5, table[10]])
    np.testing.assert_array_equal(out[14, :2], [table[3:11].max(), table[3:11].sum()])


def test_totals_are_summed_in_one_order():
    total = numba.njit(lambda x: simd.total(simd.load(x, 0)))
    for x in np.random.default_rng(5).normal(size=(20, simd.LANES)):
        assert total(x) == simd.total(x)


# ---- parts of kernels -------------------------------------------------------------------------


def test_what_only_kernels_call_has_no_machine_code_of_its_own():
    @inner
    def twice(x):
        return 2.0 * x

    @inner
    def four_times(x):
        return twice(twice(x))

    @numba.njit
    def kernel(x):
        return four_times(x) + twice(x)

    assert kernel(1.5) == 9.0
    for part in (twice, four_times):
        (made,) = part.overloads.values()
        names = [function.name for function in made.library.get_defined_functions()]
        assert made.fndesc.mangled_name in names
        assert made.library.get_pointer_to_function(made.fndesc.mangled_name) == 0
    (made,) = kernel.overloads.values()
    assert made.library.get_pointer_to_function(made.fndesc.mangled_name) != 0


# ---- one function, many constants -------------------------------------------------------------


def with_closure(value):
    @numba.njit
    def weight(left, right, parent):
        return value * parent[0]

    return hct.FunctionPotential(weight, lambda clusters: [clusters.sizes], n_leaves=2)


def test_closures_of_one_source_differ():
    found = [hct.infer(with_closure(value)).log_partition for value in (0.5, -3.0)]
    assert found == pytest.approx([1.0, -6.0])


PLACES = ("closure", "global", "array", "called", "inner", "module")
"""Where a function may have a constant from: see the names of the functions below."""

SCRIPT = """
import sys
import types

import numba
import numpy as np

import hctrellis as hct

VALUE = float(sys.argv[1])
TABLE = np.array([0.0, VALUE])
settings = types.ModuleType("settings")
settings.FACTOR = VALUE


def make(value):
    @numba.njit
    def closure(left, right, parent):
        return value * parent[0]

    return closure


@numba.njit
def from_global(left, right, parent):
    return VALUE * parent[0]


@numba.njit
def array(left, right, parent):
    return TABLE[1] * parent[0]


@numba.njit
def helper(x):
    return VALUE * x


@numba.njit
def called(left, right, parent):
    return helper(parent[0])


@numba.njit
def inner(left, right, parent):
    def times(x):
        return VALUE * x

    return times(parent[0])


@numba.njit
def module(left, right, parent):
    return settings.FACTOR * parent[0]


for function in (make(VALUE), from_global, array, called, inner, module):
    potential = hct.FunctionPotential(function, lambda clusters: [clusters.sizes], n_leaves=2)
    print(hct.infer(potential).log_partition)
"""


def run_python(*arguments, **environment):
    """Run Python in a new process; its standard output."""
    variables = os.environ | {"PYTHONPATH": str(SOURCE)} | environment
    command = [sys.executable, "-W", "error", *arguments]
    done = subprocess.run(command, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """What the script prints with two constants, one process after the other on one cache."""
    folder = tmp_path_factory.mktemp("cache")
    script = folder / "model.py"
    script.write_text(SCRIPT)
    shared = {"NUMBA_CACHE_DIR": str(folder / "cache")}
    lines = [run_python(str(script), value, **shared).splitlines() for value in ("0.5", "-3")]
    return dict(zip(PLACES, zip(*lines, strict=True), strict=True))


@pytest.mark.parametrize("place", PLACES)
def test_no_process_reads_a_stale_cache(place, answers):
    """The same file, another constant: the machine code on disk must not be taken."""
    assert [float(answer) for answer in answers[place]] == pytest.approx([1.0, -6.0])


@pytest.fixture
def package_copy(tmp_path):
    """A private copy of the package, without caches."""
    copy = tmp_path / "copy"
    shutil.copytree(
        SOURCE / "hctrellis", copy / "hctrellis", ignore=shutil.ignore_patterns("__py*")
    )
    return copy


def test_no_cache_folder_is_writable(package_copy, tmp_path):
    """A regular file stands wherever a cache folder would be made."""
    (package_copy / "hctrellis" / "kernels" / "__pycache__").write_text("")
    wall = tmp_path / "wall"
    wall.write_text("")
    blocked = str(wall / "folder")
    code = """
import hctrellis as hct
from hctrellis.kernels import passes
print(hct.infer(hct.BetaSplitting(2)).n_trees, type(passes.absorb._cache).__name__)
"""
    found = run_python(
        "-c",
        code,
        PYTHONPATH=str(package_copy),
        HOME=blocked,
        XDG_CACHE_HOME=blocked,
        NUMBA_CACHE_DIR=blocked,
    )
    assert found.split() == ["1", "NullCache"]


def test_second_process_finds_the_cache(package_copy):
    code = """
import hctrellis as hct
model = hct.Linkage([[0.0], [1.0]], "ward")
terms = hct.FullTrellis(2).solve(model).terms
print(sum(terms.kernel(*terms.upward).solve_low.stats.cache_hits.values()))
"""
    found = [run_python("-c", code, PYTHONPATH=str(package_copy)).strip() for _ in range(2)]
    assert found == ["0", "1"]


# ---- without the compiler ---------------------------------------------------------------------


INTERPRETED = (
    "interpreted.py",
    "test_lanes.py",
    "test_scales.py",
    "test_read_trees.py",
    "test_batch.py::test_trees_that_are_not_plain",
    "test_clades.py::test_contexts_are_counted",
    "test_clades.py::test_contexts_lean_on_shorter_ones",
    "test_clades.py::test_smoothing_reaches_what_was_not_seen",
    "test_grow.py::test_rounds_instead_of_time",
    "test_runs.py::test_common_ancestor_heights",
    "test_runs.py::test_each_rule_takes_the_best_tree",
    "test_sparse.py::test_structure",
    "test_sparse.py::test_validate",
)
"""Tests of kernels on small inputs; what else kernels need is in `interpreted.py`."""


def test_kernels_without_jit():
    """Kernels are plain Python, too, in which an index out of bounds is an error."""
    tests = [Path(__file__).with_name(name) for name in INTERPRETED]
    variables = os.environ | {"PYTHONPATH": str(SOURCE), "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
    command += ["-W", "ignore::RuntimeWarning"]  # of NumPy, about its floats
    done = subprocess.run([*command, *tests], env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:]


# ---- imports ----------------------------------------------------------------------------------


HEAVY = {"numba", "llvmlite", "matplotlib", "networkx", "pandas", "typer", "rich"}


def test_import_is_light():
    loaded = run_python("-c", "import sys, hctrellis; print(*sys.modules)").split()
    assert "hctrellis" in loaded
    assert HEAVY.isdisjoint(loaded)
