"""Speed and memory of exact inference (log Z and MAP tree together).

    python benchmarks/exact.py [--large] [--avx2]

A pair is one (cluster, split of it): (3^n - 2^(n+1) + 1) / 2 of them. Times per pair are given
beside yardsticks of the same run: exp per number (of the C library, and np.exp as it is here), and
a plain scalar kernel. --avx2 measures all of it as on a CPU without AVX-512.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

import numba
import numpy as np

import hctrellis as hct
from common import (
    EXPS,
    Targets,
    best_in_turn,
    best_seconds,
    choose_section,
    exps,
    log,
    machine,
    numpy_exps,
    run_python,
    table,
    write_section,
    yardstick_fact,
)
from hctrellis.clusters import Lattice, n_splits
from hctrellis.kernels.bind import bind
from hctrellis.support.threads import default_threads

SIZES = (12, 14, 16, 18)
LARGE_SIZE = 20
SCALAR_SIZES = (12, 14, 16)
SCALAR_CROSS_SIZES = (12, 14)  # slow: it looks for the extreme distance among all pairs of leaves
FUNCTION_SIZE = 14
MEMORY_SIZE, MEMORY_WARM_SIZE = 20, 12
HUGE_SIZE = 22
JET = {"lam": 1.5, "t_cut": 1.0}
ROUNDS = 9  # of comparisons ...
THREADS_SIZE, MANY_ROUNDS = 18, 25  # ... and of those that noise would decide: threads, functions
START_REPEATS = 5
SMALL_SIZE, SMALL_REPEATS = 10, 300  # an inference whose fixed cost counts
SHORT, REPEATED = 2000, 2_000_000  # numbers that fit in the nearest cache; how often they are read

Model = Callable[[int], hct.Potential]


# ---- the models -------------------------------------------------------------------------------


def points(n: int) -> np.ndarray:
    return np.random.default_rng(n).normal(size=(n, 5))


def symmetric(n: int) -> np.ndarray:
    matrix = np.random.default_rng(n).normal(size=(n, n))
    return (matrix + matrix.T) / 2


def momenta(n: int) -> np.ndarray:
    spatial = np.random.default_rng(n).normal(size=(n, 3)) * 5 + 10
    return np.column_stack([np.linalg.norm(spatial, axis=1), spatial])


def linkage(method: str) -> Model:
    return lambda n: hct.Linkage(points(n), method, beta=1.0)


MODELS: dict[str, Model] = {
    "Ginkgo": lambda n: hct.Ginkgo(momenta(n), **JET),
    "JetMass": lambda n: hct.JetMass(momenta(n), lam=JET["lam"]),
    "Linkage average": linkage("average"),
    "Linkage centroid": linkage("centroid"),
    "Linkage ward": linkage("ward"),
    "Linkage single": linkage("single"),
    "Linkage complete": linkage("complete"),
    "Dasgupta": lambda n: hct.Dasgupta(abs(symmetric(n)), beta=0.1),
    "CorrelationClustering": lambda n: hct.CorrelationClustering(symmetric(n), beta=0.5),
    "BetaSplitting": lambda n: hct.BetaSplitting(n, shape=0.0),
}
SEPARABLE = ("Dasgupta", "CorrelationClustering")
HEIGHTS = ("Linkage average", "Linkage centroid", "Linkage ward")
CROSS = ("Linkage single", "Linkage complete")


# ---- speed ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Speed:
    """Nanoseconds per pair of one model at one size, and per number of exp and np.exp."""

    name: str
    n: int
    exp: float
    numpy: float
    one: float
    all: float
    scalar: float | None

    @property
    def ratio(self) -> float:
        return self.one / self.exp

    @property
    def numpy_ratio(self) -> float:
        return self.one / self.numpy

    @property
    def threads(self) -> float:
        return self.one / self.all

    @property
    def gain(self) -> float | None:
        return None if self.scalar is None else self.scalar / self.one


def solve(potential: hct.Potential, threads: int | None = None) -> hct.Tree:
    """log Z and the MAP tree."""
    return hct.infer(potential, threads=threads).map_tree


def measure_speeds(n: int) -> list[Speed]:
    """All models at one size, in rounds over all of them, so that a noisy minute affects all."""
    runs: list[list[Callable[[], object]]] = []
    for name, model in MODELS.items():
        potential = model(n)
        runs.append([partial(solve, potential, threads=1), partial(solve, potential)])
        if n in (SCALAR_CROSS_SIZES if name in CROSS else SCALAR_SIZES):
            runs[-1].append(scalar_run(potential))
            runs[-1][-1]()
    rounds = {THREADS_SIZE: MANY_ROUNDS, LARGE_SIZE: 2}.get(n, ROUNDS)
    times = iter(best_in_turn([exps(), numpy_exps(), *chain(*runs)], rounds))
    exp, numpy = (1e9 * next(times) / EXPS for _ in range(2))
    found = []
    for name, its_runs in zip(MODELS, runs, strict=True):
        one, every, *scalar = (1e9 * next(times) / n_splits(n) for _ in its_runs)
        found.append(Speed(name, n, exp, numpy, one, every, scalar[0] if scalar else None))
        log(f"{name}, n = {n}: {one:.2f} ns per pair, exp {exp:.2f} ns")
    return found


def scalar_run(potential: hct.Potential) -> Callable[[], object]:
    """The plain kernel with all that it needs; features and its compilation are not timed."""
    lattice = Lattice(potential.n_leaves)
    rows, own = potential.describe(lattice)
    features = np.array(rows) if rows else np.empty((0, len(lattice)))
    node = np.empty(0) if own is None else np.maximum(own / math.log(2), -1e300)
    distances = np.empty((0, 0)) if potential.distances is None else potential.distances
    params = (potential.params(), potential.params(root=True))
    log_z, log_max = np.zeros(len(lattice)), np.zeros(len(lattice))
    kernel = bind(("weights", "scalar"), [potential.code()])
    return lambda: kernel.solve(features, node, *params, distances, log_z, log_max)


def speeds(sizes: tuple[int, ...]) -> list[Speed]:
    for model in MODELS.values():
        solve(model(SIZES[0]), threads=1)  # compiles, or loads what is compiled
    found = [speed for n in sizes for speed in measure_speeds(n)]
    return sorted(found, key=lambda s: list(MODELS).index(s.name))


@numba.njit(nogil=True, fastmath=True)
def add_squares(values, times):
    total = 0.0
    for k in range(times):
        for x in values:
            total += x * x + k
    return total


def threads_of_machine() -> float:
    """How much faster two threads that share nothing are than one: the machine's own limit."""

    def run(threads: int) -> None:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(add_squares, values[:threads], [REPEATED // threads] * threads))

    values = [np.linspace(0.0, 1.0, SHORT) for _ in range(2)]
    add_squares(values[0], 1)
    one, two = best_in_turn([lambda: run(1), lambda: run(2)], ROUNDS)
    return one / two


def threads_fact() -> str:
    return f"two threads that share nothing are {threads_of_machine():.2f} x as fast as one"


def speed_table(found: list[Speed]) -> str:
    columns = ["potential", "n", "exp", "np.exp", "one thread", "all threads", "scalar kernel"]
    columns += ["one thread / exp", "/ np.exp", "scalar / one thread", "one thread / all threads"]
    return table(columns, [speed_row(s) for s in found])


def seconds_table(found: list[Speed]) -> str:
    """Seconds for one data set, by model and size."""
    sizes = sorted({s.n for s in found})
    seconds = {(s.name, s.n): 1e-9 * s.all * n_splits(s.n) for s in found}
    rows = [[name, *(f"{seconds[name, n]:.2g}" for n in sizes)] for name in MODELS]
    return table(["potential", *(f"n = {n}" for n in sizes)], rows)


def speed_row(s: Speed) -> list[str]:
    numbers = [f"{x:.2f}" for x in (s.exp, s.numpy, s.one, s.all)]
    slow = ("", "") if s.scalar is None else (f"{s.scalar:.1f}", f"{s.gain:.1f}")
    ratios = [f"{s.ratio:.2f}", f"{s.numpy_ratio:.2f}", slow[1], f"{s.threads:.2f}"]
    return [s.name, str(s.n), *numbers, slow[0], *ratios]


# ---- a user's own functions -------------------------------------------------------------------


def average_formula(left, right, parent):
    return (left[0] + right[0] - parent[0]) / (left[1] * right[1])


def average_branching(left, right, parent):
    across = parent[0] - left[0] - right[0]
    if across < 0.0:
        return -math.inf
    return -across / (left[1] * right[1])


def dasgupta_formula(left, right, parent):
    return (left[0] + right[0] - parent[0]) * parent[1] * 0.1


def dasgupta_branching(left, right, parent):
    across = parent[0] - left[0] - right[0]
    if across < 0.0:
        return -math.inf
    return -across * parent[1] * 0.1


LAM, T_CUT = JET["lam"], JET["t_cut"]
LOG_NORM = 2 * math.log(-math.expm1(-LAM)) + math.log(4 * math.pi)


def ginkgo_where(left, right, parent):
    """Feature: the mass, 0 for a leaf."""
    first, second = np.maximum(left[0], right[0]), np.minimum(left[0], right[0])
    rate, rest = LAM / parent[0] ** 2, LAM / (parent[0] - first) ** 2
    heavy = hct.where(first > 0, np.log(rate) - rate * first**2, np.log(-np.expm1(-rate * T_CUT)))
    light = hct.where(second > 0, np.log(rest) - rest * second**2, np.log(-np.expm1(-rest * T_CUT)))
    return hct.where(parent[0] ** 2 >= T_CUT, heavy + light - LOG_NORM, -np.inf)


def ginkgo_arrays(left, right, parent):
    """The same, with all that depends only on the parent as features, as the documentation advises.

    Features: the mass; as a parent, lam / t, and the log weight of a child with mass, without what
    its mass takes away, and of a leaf. (A compiled function gains nothing by this: what is the same
    for all splits of a parent is computed once in any case.)
    """
    first, second = np.maximum(left[0], right[0]), np.minimum(left[0], right[0])
    rest = LAM / (parent[0] - first) ** 2
    heavy = np.where(first > 0, parent[2] - parent[1] * first**2, parent[3])
    return heavy + np.where(
        second > 0, np.log(rest) - rest * second**2, np.log(-np.expm1(-rest * T_CUT))
    )


@numba.njit
def ginkgo_term(t, rate):
    if t > 0:
        return math.log(rate) - rate * t
    return math.log(-math.expm1(-rate * T_CUT))


@numba.njit
def ginkgo_branching(left, right, parent):
    if parent[0] ** 2 < T_CUT:
        return -math.inf
    first, second = max(left[0], right[0]), min(left[0], right[0])
    heavy = ginkgo_term(first**2, LAM / parent[0] ** 2)
    light = ginkgo_term(second**2, LAM / (parent[0] - first) ** 2)
    return heavy + light - LOG_NORM


NORM = math.exp(-LOG_NORM)


def ginkgo_factors(left, right, parent):
    """The same as x and factor."""
    first, second = np.maximum(left[0], right[0]), np.minimum(left[0], right[0])
    rate, rest = LAM / parent[0] ** 2, LAM / (parent[0] - first) ** 2
    heavy = hct.where(first > 0, rate, -np.expm1(-rate * T_CUT))
    light = hct.where(second > 0, rest, -np.expm1(-rest * T_CUT))
    norm = hct.where(parent[0] ** 2 >= T_CUT, NORM, 0.0)
    return -rate * first**2 - rest * second**2, heavy * light * norm


@numba.njit
def ginkgo_factor(t, rate):
    if t > 0:
        return rate
    return -math.expm1(-rate * T_CUT)


@numba.njit
def ginkgo_branching_factors(left, right, parent):
    first, second = max(left[0], right[0]), min(left[0], right[0])
    rate, rest = LAM / parent[0] ** 2, LAM / (parent[0] - first) ** 2
    x = -rate * first**2 - rest * second**2
    if parent[0] ** 2 < T_CUT:
        return x, 0.0
    return x, ginkgo_factor(first, rate) * ginkgo_factor(second, rest) * NORM


@dataclass(frozen=True)
class Formula:
    """One formula in several forms, all of the same weights."""

    builtin: str
    features: Callable[[hct.Potential, object], list[np.ndarray]]
    forms: dict[str, Callable[..., object]]


def pair_features(matrix: str) -> Callable[[hct.Potential, object], list[np.ndarray]]:
    return lambda model, c: [c.pair_sums(getattr(model, matrix)), np.maximum(c.sizes, 1.0)]


def mass_features(model: hct.Potential, clusters: object) -> list[np.ndarray]:
    return model.describe(clusters).features


def parent_features(model: hct.Potential, clusters: object) -> list[np.ndarray]:
    (mass,) = mass_features(model, clusters)
    t = np.maximum(mass**2, np.finfo(float).tiny)  # a leaf is never a parent
    own = np.where(t >= T_CUT, -LOG_NORM, -np.inf)
    return [mass, LAM / t, own + np.log(LAM / t), own + np.log(-np.expm1(-LAM / t * T_CUT))]


FORMULAS = [
    Formula(
        "Linkage average",
        pair_features("distances"),
        {
            "NumPy": average_formula,
            "Numba, arithmetic": numba.njit(average_formula),
            "Numba, branching": numba.njit(average_branching),
        },
    ),
    Formula(
        "Dasgupta",
        pair_features("similarity"),
        {
            "NumPy": dasgupta_formula,
            "Numba, arithmetic": numba.njit(dasgupta_formula),
            "Numba, branching": numba.njit(dasgupta_branching),
        },
    ),
    Formula(
        "Ginkgo",
        parent_features,
        {"NumPy, parent's terms as features": ginkgo_arrays},
    ),
    Formula(
        "Ginkgo",
        mass_features,
        {
            "NumPy": ginkgo_where,
            "NumPy, x and factor": ginkgo_factors,
            "Numba, where, logarithms": numba.njit(error_model="numpy")(ginkgo_where),
            "Numba, branching, logarithms": ginkgo_branching,
            "Numba, where": numba.njit(error_model="numpy")(ginkgo_factors),
            "Numba, branching": ginkgo_branching_factors,
        },
    ),
]


@dataclass(frozen=True)
class FunctionSpeed:
    """Nanoseconds per pair of a user's function and of the built-in model."""

    builtin: str
    form: str
    own: float
    fast: float

    @property
    def ratio(self) -> float:
        return self.own / self.fast


def function_speeds() -> Iterator[FunctionSpeed]:
    n = FUNCTION_SIZE
    for formula in FORMULAS:
        model = MODELS[formula.builtin](n)
        expected = hct.infer(model).log_partition
        for form, function in formula.forms.items():
            own = hct.FunctionPotential(
                function, lambda c, f=formula, m=model: f.features(m, c), n_leaves=n
            )
            assert math.isclose(hct.infer(own).log_partition, expected, rel_tol=1e-12)
            runs = [partial(solve, p, threads=1) for p in (own, model)]
            times = best_in_turn(runs, MANY_ROUNDS)
            speed, fast = (1e9 * seconds / n_splits(n) for seconds in times)
            log(f"{formula.builtin} by {form}: {speed:.2f} ns, built-in {fast:.2f} ns")
            yield FunctionSpeed(formula.builtin, form, speed, fast)


def function_table(found: list[FunctionSpeed]) -> str:
    columns = ["formula", "form", "ns per pair", "built-in", "ratio"]
    rows = [[f.builtin, f.form, f"{f.own:.2f}", f"{f.fast:.2f}", f"{f.ratio:.1f}"] for f in found]
    return table(columns, rows)


# ---- memory and start -------------------------------------------------------------------------


def status_bytes(field_name: str) -> int:
    """A size of this process as the kernel counts it, such as VmHWM, its peak."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field_name}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"no {field_name} in /proc/self/status")


def print_peak(name: str, n: int) -> None:
    """In a process of its own: print the peak memory, in all and beyond what it takes to start."""
    solve(MODELS[name](MEMORY_WARM_SIZE))
    ready = status_bytes("VmRSS")
    solve(MODELS[name](n))
    peak = status_bytes("VmHWM")
    print(peak, peak - ready)


def peak_memory(name: str, n: int) -> tuple[int, int]:
    total, beyond = run_python(__file__, "--peak", name, str(n)).split()
    return int(total), int(beyond)


def memories() -> dict[str, float]:
    """Bytes per cluster at the peak, by model."""
    found = {}
    for name in MODELS:
        found[name] = peak_memory(name, MEMORY_SIZE)[1] / 2**MEMORY_SIZE
        log(f"{name}, n = {MEMORY_SIZE}: {found[name]:.1f} bytes per cluster")
    return found


FIRST_ANSWER = """
import numpy as np, hctrellis as hct
print(hct.infer(hct.Linkage(np.random.default_rng(0).normal(size=(10, 3)))).map_tree)
"""


def start_times() -> dict[str, float]:
    """Seconds of whole processes, with kernels that were compiled before."""
    runs = {
        "python -c pass": ("-c", "pass"),
        "import numba": ("-c", "import numba"),
        "import hctrellis": ("-c", "import hctrellis"),
        "import and infer, n = 10": ("-c", FIRST_ANSWER),
        "hctrellis --help": ("-m", "hctrellis", "--help"),
    }
    for arguments in runs.values():
        run_python(*arguments)
    return {
        name: best_seconds(lambda a=arguments: run_python(*a), START_REPEATS)
        for name, arguments in runs.items()
    }


# ---- targets ----------------------------------------------------------------------------------


def speed_targets(targets: Targets, found: list[Speed]) -> None:
    def large(name: str) -> list[Speed]:
        return [s for s in found if s.name == name and 16 <= s.n <= 18]

    def ratios(name: str, limit: float, aim: float | None = None) -> None:
        ratio = max(s.ratio for s in large(name))
        targets.at_most(f"{name}, n = 16-18, one thread, per pair / exp", limit, ratio)
        if aim is not None:
            targets.at_most("the same, aim", aim, ratio)
        numpy = max(s.numpy_ratio for s in large(name))
        targets.at_most("the same / np.exp as it is here", limit, numpy)

    ratios("Ginkgo", 0.75, aim=0.45)
    gain = min(s.gain for s in large("Ginkgo") if s.gain is not None)
    targets.at_least("Ginkgo, n = 16, scalar kernel / one thread", 8, gain)
    for name in HEIGHTS:
        ratios(name, 0.9)
    for name in SEPARABLE:
        ratios(name, 0.35, aim=0.15)
    if default_threads() == 2:
        for s in found:
            if s.n == THREADS_SIZE:
                targets.at_least(f"{s.name}, n = {s.n}, one thread / two", 1.7, s.threads)


def function_targets(targets: Targets, found: list[FunctionSpeed]) -> None:
    for f in found:
        limit = 15 if f.form.startswith("NumPy") else 2.5 if "logarithms" in f.form else 1.3
        targets.at_most(f"{f.builtin} by {f.form}, n = 14, / built-in", limit, f.ratio)


def start_targets(targets: Targets, seconds: dict[str, float]) -> None:
    targets.at_most("import hctrellis", 0.5, seconds["import hctrellis"], " s")
    targets.at_most("hctrellis --help", 0.5, seconds["hctrellis --help"], " s")
    name = "import and infer, n = 10"
    targets.at_most(f"{name}, kernels on disk", 1.5, seconds[name], " s")
    targets.at_most("the same / import numba", 2.5, seconds[name] / seconds["import numba"])


def small_seconds() -> float:
    """Seconds of `infer` on 10 leaves."""
    model = hct.Linkage(np.random.default_rng(0).normal(size=(SMALL_SIZE, 3)))
    return best_seconds(lambda: hct.infer(model), SMALL_REPEATS)


# ---- all of it --------------------------------------------------------------------------------


def measure(large: bool) -> str:
    """Run everything and return the section of the results."""
    targets = Targets()
    found = speeds((*SIZES, LARGE_SIZE) if large else SIZES)
    speed_targets(targets, found)
    functions = list(function_speeds())
    function_targets(targets, functions)
    memory = memories()
    for name, value in memory.items():
        targets.at_most(f"{name}, n = {MEMORY_SIZE}, bytes per cluster", 40, value)
    if large:
        total = peak_memory("Dasgupta", HUGE_SIZE)[0] / 1e6
        targets.at_most(f"Dasgupta, n = {HUGE_SIZE}, whole process", 500, total, " MB")
    seconds = start_times()
    start_targets(targets, seconds)
    small = small_seconds()
    targets.at_most(f"infer, n = {SMALL_SIZE}", 0.5, 1e3 * small, " ms")
    return section(targets, found, functions, memory, seconds)


def section(
    targets: Targets,
    found: list[Speed],
    functions: list[FunctionSpeed],
    memory: dict[str, float],
    seconds: dict[str, float],
) -> str:
    memory_rows = [[name, f"{value:.1f}"] for name, value in memory.items()]
    start_rows = [[name, f"{value:.2f}"] for name, value in seconds.items()]
    parts = [
        "`python benchmarks/exact.py` (`--large` for more, `--avx2` as on a CPU without AVX-512): "
        "log Z and MAP tree over all trees.\n",
        *(f"- {fact}" for fact in (*machine(), yardstick_fact(), threads_fact())),
        "\n### Targets\n",
        targets.table(),
        "### Nanoseconds per pair\n",
        "A pair is a cluster and one split of it. exp and np.exp: per number, in the same run. The "
        "scalar kernel takes one split at a time, in logarithms. All are the best of several "
        "rounds.\n",
        speed_table(found),
        "### Seconds for one data set, all threads\n",
        seconds_table(found),
        f"### A user's own function, n = {FUNCTION_SIZE}, one thread\n",
        function_table(functions),
        f"### Memory at the peak, n = {MEMORY_SIZE}\n",
        table(["potential", "bytes per cluster"], memory_rows),
        "### Start of a process\n",
        table(["process", "seconds"], start_rows),
    ]
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true", help="also n = 20, and Dasgupta at n = 22")
    parser.add_argument("--avx2", action="store_true", help="as on a CPU without AVX-512")
    parser.add_argument("--peak", nargs=2, metavar=("MODEL", "N"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peak:
        print_peak(arguments.peak[0], int(arguments.peak[1]))
        return
    name = choose_section("exact", arguments.avx2)
    text = f"## {name}\n\n{measure(arguments.large)}"
    write_section(name, text)
    print(text)


if __name__ == "__main__":
    main()
