"""What all benchmarks share: timing, facts about the machine, and the file of results.

Each benchmark writes one section of RESULTS.md and leaves the others as they are.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "RESULTS.md"
TITLE = "# Results\n\nWritten by the programs in this folder; each replaces its own section.\n"
EXPS = 100_000
DO_NOT_WRITE = "PYTHONDONTWRITEBYTECODE"  # else modules are compiled anew in every process
NUMPY_WITHOUT = "NPY_DISABLE_CPU_FEATURES"
AVX512 = "X86_V4 AVX512_ICL AVX512_SPR AVX512F AVX512CD AVX512_SKX"  # before and since NumPy 2.4
MIN_SECONDS = 0.2  # a measurement is repeated for at least so long ...
MIN_REPEATS = 3  # ... and so often
LOAD = os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def best_seconds(function: Callable[[], object], repeats: int = MIN_REPEATS) -> float:
    """The shortest time of several calls."""
    times: list[float] = []
    while len(times) < repeats or sum(times) < MIN_SECONDS:
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


@dataclass(frozen=True)
class Rounds:
    """Seconds of several functions, in rounds in which all were called.

    Other work on the machine, or a slower clock, so hits all of them; one after the other, it would
    spoil their ratios.
    """

    seconds: np.ndarray  # [round, function]

    def best(self, i: int) -> float:
        return float(self.seconds[:, i].min())

    def ratio(self, i: int, j: int) -> float:
        """The time of i over that of j: the median over all rounds."""
        return float(np.median(self.seconds[:, i] / self.seconds[:, j]))


def in_turn(functions: Sequence[Callable[[], object]], rounds: int) -> Rounds:
    return Rounds(np.array([[best_seconds(f, 1) for f in functions] for _ in range(rounds)]))


def fix_yardstick() -> None:
    """Start this program anew, unless NumPy's code for AVX-512 is turned off in it.

    So np.exp is the same yardstick on every machine: one call of the C library per element.
    """
    if NUMPY_WITHOUT not in os.environ:
        os.execve(sys.executable, sys.orig_argv, {**os.environ, NUMPY_WITHOUT: AVX512})


def exps() -> Callable[[], object]:
    """The yardstick: np.exp of an array of `EXPS` numbers."""
    values = np.linspace(-20.0, 0.0, EXPS)
    out = np.empty_like(values)
    return lambda: np.exp(values, out=out)


def yardstick_fact() -> str:
    """np.exp here, and as NumPy would compute it with all that the machine has."""
    here, whole = 1e9 * best_seconds(exps()) / EXPS, float(run_python(__file__))
    return (
        f"np.exp: {here:.2f} ns per element, NumPy's code for AVX-512 turned off ({whole:.2f} ns "
        "with all that this machine has)"
    )


def run_python(*arguments: str) -> str:
    """What a new Python process prints; it has all of NumPy."""
    command = [sys.executable, *arguments]
    left_out = (DO_NOT_WRITE, NUMPY_WITHOUT)
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=kept)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments)[:200]} failed:\n{done.stderr}")
    return done.stdout


def machine() -> list[str]:
    """Facts about the machine and the versions, without its name."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "numba"))
    return [
        f"{platform.machine()}, {_cores()} cores, {_vector_units()}{_load()}",
        f"{platform.system()}, Python {platform.python_version()}, {packages}",
    ]


def _cores() -> int:
    from hctrellis.trellis.blocks import default_threads

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
    return "with " + ", ".join(found) if found else "no avx2"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown; numbers to the right."""
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


if __name__ == "__main__":
    print(1e9 * best_seconds(exps()) / EXPS)
