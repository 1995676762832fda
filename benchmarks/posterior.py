"""Speed and memory of what follows the upward pass: marginals, samples, best trees.

    python benchmarks/posterior.py

Every time is given beside that of log Z and the MAP tree on the same potential in the same run.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import hctrellis as hct
from common import best_seconds, machine, run_python, table, verdict, write_section
from exact import JET, MODELS, momenta

MARGINALS_SIZE = 16
MARGINALS_RATIO = 3.0
MEMORY_SIZE, MEMORY_WARM_SIZE = 20, 12
MEMORY_BYTES = 24.0
SAMPLES_SIZE, SAMPLES = 15, 100_000
SAMPLES_SECONDS = 2.0
SMALL_SIZE, SMALL_SAMPLES = 5, 1_000_000
TOP_SIZE, TOP_TREES = 14, 1000
TOP_RATIO = 5.0

Row = list[str]


def solve(potential: hct.Potential) -> hct.Posterior:
    """log Z and the MAP tree on one thread."""
    post = hct.infer(potential, threads=1)
    assert post.map_tree is not None
    return post


def marginals() -> tuple[list[Row], list[Row]]:
    """All 2^n marginals beside log Z and MAP, for every model."""
    rows, ratios = [], {}
    for name, model in MODELS.items():
        potential = model(MARGINALS_SIZE)
        solution = solve(potential)._solution
        upward = best_seconds(lambda p=potential: solve(p))  # type: ignore[misc]
        downward = best_seconds(solution.around)
        ratios[name] = downward / upward
        rows.append([name, f"{1e3 * upward:.1f}", f"{1e3 * downward:.1f}", f"{ratios[name]:.2f}"])
    worst = max(ratios, key=lambda name: ratios[name])
    target = [
        f"all marginals at n = {MARGINALS_SIZE}: at most {MARGINALS_RATIO:g} x log Z + MAP",
        f"{ratios[worst]:.2f} ({worst})",
        verdict(ratios[worst] <= MARGINALS_RATIO),
    ]
    return rows, [target]


MEMORY_PROGRAM = """
import sys
sys.path.insert(0, {folder!r})
from exact import MODELS
import hctrellis as hct
def peak():  # of this process alone, which ru_maxrss is not
    lines = open("/proc/self/status").read().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
model = MODELS[{name!r}]
hct.infer(model({warm})).cluster_probability([0])
post = hct.infer(model({size}))
post.map_tree
before = peak()
post.cluster_probability([0])
print((peak() - before) / 2**{size})
"""


def memory() -> list[Row]:
    """Additional bytes per cluster that the marginals need at their peak."""
    further = {}
    for name in MODELS:
        program = MEMORY_PROGRAM.format(
            folder=str(Path(__file__).parent), name=name, warm=MEMORY_WARM_SIZE, size=MEMORY_SIZE
        )
        further[name] = float(run_python("-c", program))
    worst = max(further, key=lambda name: further[name])
    return [
        [
            f"marginals at n = {MEMORY_SIZE}: at most {MEMORY_BYTES:g} further bytes per cluster",
            f"{further[worst]:.1f} ({worst})",
            verdict(further[worst] <= MEMORY_BYTES),
        ]
    ]


def seconds(function: Callable[[], object]) -> float:
    """The time of one call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def samples() -> list[Row]:
    """Many samples of a larger jet, very many of a small one."""
    potential = hct.Ginkgo(momenta(SAMPLES_SIZE), **JET)
    post = solve(potential)
    post.sample(10, rng=0)
    upward = best_seconds(lambda: solve(potential))
    drawn = best_seconds(lambda: post.sample(SAMPLES, rng=1), repeats=2)
    small = solve(hct.Ginkgo(momenta(SMALL_SIZE), **JET))
    small.sample(10, rng=0)
    fast = seconds(lambda: small.sample(SMALL_SAMPLES, rng=1))
    counted = seconds(lambda: small.sample(SMALL_SAMPLES, rng=1).counts())
    limit = upward + SAMPLES_SECONDS
    return [
        [
            f"{SAMPLES:,} samples at n = {SAMPLES_SIZE} (Ginkgo): at most log Z + MAP "
            f"({upward:.3f} s) + {SAMPLES_SECONDS:g} s",
            f"{drawn:.3f} s",
            verdict(drawn <= limit),
        ],
        [
            f"{SMALL_SAMPLES:,} samples of a {SMALL_SIZE}-leaf jet: under {SAMPLES_SECONDS:g} s",
            f"{fast:.3f} s",
            verdict(fast < SAMPLES_SECONDS),
        ],
        [
            "the same with counts of distinct trees, no tree built",
            f"{counted:.3f} s",
            verdict(counted < SAMPLES_SECONDS),
        ],
    ]


def best_trees() -> list[Row]:
    """The k best trees beside the best one."""
    rows = []
    for name in ("Ginkgo", "Linkage average", "Dasgupta"):
        potential = MODELS[name](TOP_SIZE)
        post = solve(potential)
        upward = best_seconds(lambda p=potential: solve(p))  # type: ignore[misc]
        top = best_seconds(lambda p=post: p.top_trees(TOP_TREES))  # type: ignore[misc]
        rows.append(
            [
                f"top_trees({TOP_TREES}) at n = {TOP_SIZE} ({name}): under {TOP_RATIO:g} x the "
                f"MAP pass ({1e3 * upward:.1f} ms)",
                f"{1e3 * top:.1f} ms, {top / upward:.1f} x",
                verdict(top < TOP_RATIO * upward),
            ]
        )
    return rows


def main() -> int:
    rows, targets = marginals()
    for part in (memory, samples, best_trees):
        targets += part()
    text = "\n".join(
        [
            "## posterior",
            "",
            "`python benchmarks/posterior.py`",
            "",
            *[f"- {fact}" for fact in machine()],
            "",
            table(["target", "measured", ""], targets),
            f"All marginals at n = {MARGINALS_SIZE}, one thread, milliseconds:",
            "",
            table(["model", "log Z + MAP", "marginals", "ratio"], rows),
        ]
    )
    write_section("posterior", text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
