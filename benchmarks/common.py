"""What all benchmarks share: timing, facts about the machine, and the file of results.

Each benchmark writes one section of RESULTS.md and leaves the others as they are.
"""

from __future__ import annotations

import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import numba
import numpy as np

RESULTS = Path(__file__).parent / "RESULTS.md"
TITLE = "# Results\n\nWritten by the programs in this folder; each replaces its own section.\n"
EXPS = 100_000
DO_NOT_WRITE = "PYTHONDONTWRITEBYTECODE"  # makes every process compile all modules again
MIN_SECONDS = 0.2  # a measurement is repeated for at least this long ...
MIN_REPEATS = 3  # ... and at least this often
AVX2 = {"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": ""}  # what to compile for
LOAD = os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def best_seconds(function: Callable[[], object], repeats: int = MIN_REPEATS) -> float:
    """The shortest time of several calls."""
    times: list[float] = []
    while len(times) < repeats or sum(times) < MIN_SECONDS:
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def best_in_turn(functions: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """The shortest time of each, in rounds in which all are called.

    So other work on the machine, or a slower clock, affects all of them; timed one after the other,
    it would spoil their ratios.
    """
    times = [[best_seconds(function, 1) for function in functions] for _ in range(rounds)]
    return [min(found) for found in zip(*times, strict=True)]


@numba.njit
def _exp_of_each(values: np.ndarray, out: np.ndarray) -> None:
    for i in range(values.size):
        out[i] = math.exp(values[i])


def exps() -> Callable[[], object]:
    """A yardstick: exp of the C library for each of `EXPS` numbers, the same on every machine.

    It is what np.exp does where it has no code for vectors of 512 bits.
    """
    values, out = _numbers()
    _exp_of_each(values, out)
    return lambda: _exp_of_each(values, out)


def numpy_exps() -> Callable[[], object]:
    """Another yardstick: np.exp as it is on this machine."""
    values, out = _numbers()
    return lambda: np.exp(values, out=out)


def _numbers() -> tuple[np.ndarray, np.ndarray]:
    values = np.linspace(-20.0, 0.0, EXPS)
    return values, np.empty_like(values)


def yardstick_fact() -> str:
    plain, whole = best_in_turn([exps(), numpy_exps()], MIN_REPEATS)
    return (
        f"exp: {1e9 * plain / EXPS:.2f} ns per number by the C library, which is np.exp without "
        f"AVX-512; np.exp as it is here: {1e9 * whole / EXPS:.2f} ns; targets are shown for both"
    )


def run_python(*arguments: str) -> str:
    """What a new Python process prints."""
    command = [sys.executable, *arguments]
    kept = {name: value for name, value in os.environ.items() if name != DO_NOT_WRITE}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=kept)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments)[:200]} failed:\n{done.stderr}")
    return done.stdout


def without_avx512() -> bool:
    """Whether this process computes as on a CPU without AVX-512."""
    return all(os.environ.get(name) == value for name, value in AVX2.items())


def choose_section(name: str, avx2: bool) -> str:
    """The section to write: that of a benchmark, or of the same without AVX-512.

    For the latter the program is restarted, since NumPy and the compiler look at the CPU only once.
    """
    if not avx2:
        return name
    if not without_avx512():
        from numpy._core._multiarray_umath import __cpu_dispatch__ as dispatched

        newer = [unit for unit in dispatched if unit == "X86_V4" or unit.startswith("AVX512")]
        os.environ.update(AVX2, NPY_DISABLE_CPU_FEATURES=" ".join(newer))
        os.execv(sys.executable, [sys.executable, *sys.argv])
    return f"{name} without AVX-512"


def machine() -> list[str]:
    """Facts about the machine and the versions, without its name."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "numba"))
    return [
        f"{platform.machine()}, {_cores()} cores, {_vector_units()}{_load()}",
        f"{platform.system()}, Python {platform.python_version()}, {packages}",
    ]


def _cores() -> int:
    from hctrellis.support.threads import default_threads

    return default_threads()


def _load() -> str:
    """How many processes were running when this one started; other work spoils the times."""
    return f"; load before the run {LOAD:.1f}" if LOAD is not None else ""


def _vector_units() -> str:
    try:
        flags = Path("/proc/cpuinfo").read_text().split()
    except OSError:
        return "vector units unknown"
    found = [name for name in ("avx2", "fma", "avx512f", "asimd") if name in flags]
    unused = " (which neither NumPy nor the kernels may use)" if without_avx512() else ""
    return "with " + ", ".join(found) + unused if found else "no avx2"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown, with numbers aligned to the right."""
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def verdict(met: bool) -> str:
    return "met" if met else "**missed**"


@dataclass
class Targets:
    """What was aimed at, what was measured, and whether it is enough."""

    rows: list[list[str]] = field(default_factory=list)

    def at_most(self, what: str, limit: float, measured: float, unit: str = "") -> None:
        self._add(what, f"at most {limit:g}{unit}", f"{measured:.3g}{unit}", measured <= limit)

    def at_least(self, what: str, limit: float, measured: float, unit: str = "") -> None:
        self._add(what, f"at least {limit:g}{unit}", f"{measured:.3g}{unit}", measured >= limit)

    def _add(self, what: str, target: str, measured: str, met: bool) -> None:
        self.rows.append([what, target, measured, verdict(met)])

    def table(self) -> str:
        return table(["target", "wanted", "measured", ""], self.rows)


def log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def write_section(name: str, text: str) -> None:
    """Replace the section `name` of RESULTS.md, or add it at the end."""
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    section = f"{begin}\n{text.strip()}\n{end}"
    old = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else TITLE
    if begin in old and end in old:
        before, after = old[: old.index(begin)], old[old.index(end) + len(end) :]
        new = before + section + after
    else:
        new = f"{old.rstrip()}\n\n{section}\n"
    RESULTS.write_text(new, encoding="utf-8")
