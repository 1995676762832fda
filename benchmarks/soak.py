"""An hour of random calls: does memory stay flat?

    python benchmarks/soak.py [--seconds 3600]

Calls of all kinds on data of random kinds and sizes, one after the other, in one process. The
memory of the process is read after every call; the table shows it period by period.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

import hctrellis as hct
from common import Targets, log, machine, table, write_section

PERIODS = 12
WARM = 2  # periods until everything was called, compiled and allocated once
FLAT = 0.05  # relative growth of the median after that

Rng = np.random.Generator


def symmetric(n: int, rng: Rng) -> np.ndarray:
    matrix = rng.normal(size=(n, n))
    return (matrix + matrix.T) / 2


def massless(n: int, rng: Rng) -> np.ndarray:
    directions = rng.normal(size=(n, 3))
    return np.column_stack([np.linalg.norm(directions, axis=1), directions])


def quadratic(left: np.ndarray, right: np.ndarray, parent: np.ndarray) -> np.ndarray:
    return -np.abs(left[0] - right[0])


def random_potential(n: int, rng: Rng) -> hct.Potential:
    beta = float(10.0 ** rng.uniform(-2, 2))
    methods = ("single", "complete", "average", "centroid", "ward")
    makers: list[Callable[[], hct.Potential]] = [
        lambda: hct.Linkage(rng.normal(size=(n, 4)), methods[rng.integers(5)], beta=beta),
        lambda: hct.Dasgupta(np.abs(symmetric(n, rng)), beta=beta),
        lambda: hct.CorrelationClustering(symmetric(n, rng), beta=beta),
        lambda: hct.BetaSplitting(n, shape=float(rng.uniform(-1.5, 3))),
        lambda: hct.Ginkgo(massless(n, rng), lam=1.5, t_cut=1e-9),
        lambda: hct.FunctionPotential(quadratic, features=rng.random(n)),
        lambda: hct.Dasgupta(np.abs(symmetric(n, rng))) + hct.BetaSplitting(n, shape=0.0),
    ]
    return makers[rng.integers(len(makers))]()


# ---- the calls --------------------------------------------------------------------------------


def exact(rng: Rng) -> None:
    post = hct.infer(random_potential(int(rng.integers(2, 17)), rng))
    post.map_tree.to_newick(support=post.support(post.map_tree))
    post.cluster_probabilities()


def questions(rng: Rng) -> None:
    post = hct.infer(random_potential(int(rng.integers(4, 12)), rng))
    post.sample(1000, rng=rng).cluster_frequencies()
    post.top_trees(20)
    post.consensus_tree(0.5)
    post.coclustering(3)
    assert post.entropy >= 0.0
    hct.infer(post.potential).given(contains=[post.labels[:2]])


def batch(rng: Rng) -> None:
    jets = hct.simulate.ginkgo(int(rng.integers(1, 300)), n_leaves=(1, 11), rng=rng)
    hct.infer_many(jets.to_awkward(), "ginkgo", lam=1.5, t_cut=16.0, entropy=True)


def sparse(rng: Rng) -> None:
    n = int(rng.integers(5, 40))
    model = hct.Linkage(rng.normal(size=(n, 3)), "average", beta=3.0)
    growth = hct.grow(model, 300, None, rng, n_restarts=5, max_rounds=3)
    post = hct.infer(model, trellis=growth)
    post.sample(50, rng=rng)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trellis.npz")
        growth.trellis.save(path)
        assert hct.SparseTrellis.load(path).n_trees == growth.trellis.n_trees


def searches(rng: Rng) -> None:
    model = hct.Dasgupta(np.abs(symmetric(int(rng.integers(3, 40)), rng)))
    hct.greedy(model)
    hct.beam_search(model, width=10)
    hct.local_search(model, n_restarts=5, rng=rng)


def trees(rng: Rng) -> None:
    n = int(rng.integers(2, 300))
    tree = hct.greedy(hct.Linkage(rng.normal(size=(n, 2)), "average"))
    assert hct.Tree.from_newick(tree.to_newick()) == tree
    assert hct.Tree.from_linkage(tree.to_linkage(), labels=tree.labels) == tree


CALLS = (exact, exact, questions, batch, sparse, searches, trees)


# ---- the hour ---------------------------------------------------------------------------------


def resident() -> float:
    """Megabytes of memory that this process has now."""
    import psutil

    return float(psutil.Process().memory_info().rss / 1e6)


def soak(seconds: float, rng: Rng) -> tuple[list[np.ndarray], Counter[str]]:
    """Memory after each call, by period, and how often each kind was called."""
    found: list[list[float]] = [[] for _ in range(PERIODS)]
    counts: Counter[str] = Counter()
    start = time.monotonic()
    while (passed := time.monotonic() - start) < seconds:
        call = CALLS[rng.integers(len(CALLS))]
        call(rng)
        counts[call.__name__] += 1
        period = found[int(passed / seconds * PERIODS)]
        if not period:
            log(f"{passed:.0f} s: {resident():.0f} MB after {counts.total()} calls")
        period.append(resident())
    return [np.array(period) for period in found if period], counts


def section(seconds: float, found: list[np.ndarray], counts: Counter[str]) -> str:
    first, last = (float(np.median(period)) for period in (found[WARM], found[-1]))
    targets = Targets()
    what = f"median memory of the last period against that of period {WARM + 1}, growth"
    targets.at_most(what, FLAT, last / first - 1.0)
    rows = [
        [f"{(k + 1) * seconds / PERIODS / 60:.0f}", str(len(period))]
        + [f"{value:.0f}" for value in (period.min(), np.median(period), period.max())]
        for k, period in enumerate(found)
    ]
    calls = ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items()))
    return "\n".join(
        [
            "## soak\n",
            f"`python benchmarks/soak.py --seconds {seconds:.0f}`: {counts.total():,} random calls "
            f"({calls}) in one process.\n",
            *(f"- {fact}" for fact in machine()),
            "\n### Targets\n",
            targets.table(),
            "### Memory of the process, MB\n",
            table(["until minute", "calls", "least", "median", "most"], rows),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    found, counts = soak(arguments.seconds, np.random.default_rng(arguments.seed))
    text = section(arguments.seconds, found, counts)
    write_section("soak", text)
    print(text)


if __name__ == "__main__":
    main()
