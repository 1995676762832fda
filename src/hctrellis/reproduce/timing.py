"""How long inference takes."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from hctrellis.infer import infer
from hctrellis.potentials.base import Potential

LEAST_RUNS, LEAST_SECONDS = 3, 0.3


def best_tree_seconds(model: Potential) -> float:
    """The median time of log Z and the best tree, with compiled kernels."""

    def solve() -> None:
        _ = infer(model).map_tree

    solve()
    return median_seconds(solve)


def median_seconds(work: Callable[[], None]) -> float:
    """The median time of some runs."""
    times: list[float] = []
    while len(times) < LEAST_RUNS or sum(times) < LEAST_SECONDS:
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return float(np.median(times))
