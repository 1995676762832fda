"""Sparse trellises: how much of the exact answer they hold, and how fast they are.

python benchmarks/sparse.py             writes the section "sparse" of RESULTS.md
python benchmarks/sparse.py --small     a few jets only, to try the program
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

import hctrellis as hct
from common import best_seconds, log, machine, table, verdict, write_section
from hctrellis import simulate
from hctrellis.build.grow import grow
from hctrellis.reproduce import sparse
from hctrellis.trellis.sparse import SparseTrellis

Row = list[str]

GROWN_SIZES = (12, 13, 14, 15, 16)
SHARE = 0.1  # of the clusters of the full trellis
TIE = 1e-9
LARGE = 100
LARGE_SECONDS = 60.0
BEAM_WIDTH = 100
SPEED = 20e6  # splits per second


# ---- trellises built on other jets ------------------------------------------------------------


def other_jets(small: bool) -> tuple[str, list[Row]]:
    sizes = (1, 10, 100) if small else (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000)
    found = sparse.study(10 if small else 100, sizes, tell=log)
    rows, crossings = [], []
    for (source, order), points in found.curves.items():
        for p in points:
            rows.append(
                [
                    f"{source}, {order}",
                    f"{p.n_jets}",
                    f"{p.n_clusters}",
                    f"{p.sparsity:.2g}",
                    f"{100 * p.found:.0f}%",
                    f"{p.gain:.2f} ± {p.error:.2f}",
                ]
            )
        at = found.crossing(source, order)
        shown = "not reached" if at is None else f"{100 * at:.2g}% of the trees"
        best = max(p.gain for p in points if p.found == points[-1].found)
        crossings.append([f"{source}, {order}", shown, f"{found.baselines.exact - best:.3f}"])
    text = "\n".join(
        [
            f"MAP relative to greedy, mean over {found.n_test} jets of {sparse.LEAVES} leaves, in "
            "trellises built on other jets. Beam search "
            f"{found.baselines.beam:.3f}, exact {found.baselines.exact:.3f}.",
            "",
            table(
                ["trees from, order of leaves", "passes beam search at", "short of exact at last"],
                crossings,
            ),
            table(
                [
                    "trees from, order",
                    "jets",
                    "clusters",
                    "sparsity",
                    "with a tree",
                    "MAP - greedy",
                ],
                rows,
            ),
        ]
    )
    return text, []


# ---- grown to fit one data set ----------------------------------------------------------------


class Problem(NamedTuple):
    kind: str
    make: Callable[[int, int], hct.Potential]
    """A potential over n leaves, for a seed."""
    target: float
    """Share of problems whose exact MAP is to be found."""


def _jet(n: int, seed: int) -> hct.Potential:
    return simulate.ginkgo(1, n_leaves=n, t_cut=1.21, rng=seed)[0].potential()


def _dasgupta(n: int, seed: int) -> hct.Potential:
    w = np.random.default_rng(seed).random((n, n))
    return hct.Dasgupta(w + w.T)


def _average(n: int, seed: int) -> hct.Potential:
    rows = np.random.default_rng(seed).normal(size=(n, 3))
    return hct.Linkage(rows, "average", beta=5.0)


PROBLEMS = (
    Problem("jets", _jet, 0.95),
    Problem("Dasgupta", _dasgupta, 0.98),
    Problem("average heights", _average, 0.98),
)


def grown(small: bool) -> tuple[str, list[Row]]:
    rows, targets = [], []
    for problem in PROBLEMS:
        found = better = total = 0
        for n in GROWN_SIZES[:2] if small else GROWN_SIZES:
            short, spread, seconds = [], [], []
            for k in range(2 if small else 10):
                potential = problem.make(n, 100 * n + k)
                exact = hct.infer(potential)
                start = time.perf_counter()
                growth = grow(potential, max_clusters=int(SHARE * 2**n), rng=k, time_limit=20.0)
                seconds.append(time.perf_counter() - start)
                post = hct.infer(potential, trellis=growth)
                beam = potential.log_weight(hct.beam_search(potential)[0])
                tolerance = TIE * abs(exact.map_log_weight)
                found += post.map_log_weight >= exact.map_log_weight - tolerance
                better += post.map_log_weight >= beam - tolerance
                total += 1
                short.append(exact.log_partition - post.log_partition)
                spread.append(exact.log_partition - exact.map_log_weight)
            log(f"{problem.kind}, n = {n}: exact MAP {found}/{total}")
            rows.append(
                [
                    problem.kind,
                    f"{n}",
                    f"{np.mean(spread):.1f}",
                    f"{np.mean(short):.2f}",
                    f"{np.max(short):.2f}",
                    f"{np.mean(seconds):.1f}",
                ]
            )
        targets.append(
            [
                f"{problem.kind}, n = 12-16, {100 * SHARE:.0f}% of the clusters: exact MAP in at "
                f"least {100 * problem.target:.0f}%",
                f"{found} of {total}",
                verdict(found >= problem.target * total),
            ]
        )
        targets.append(
            [
                f"{problem.kind}: never worse than beam search",
                f"{better} of {total}",
                verdict(better == total),
            ]
        )
    columns = ["problem", "n", "log Z - MAP", "log Z - bound, mean", "largest", "seconds"]
    text = "Grown with 10% of the clusters of the full trellis; the spread of the posterior, and "
    text += "how far the bound is from log Z:\n\n" + table(columns, rows)
    return text, targets


# ---- a hundred leaves -------------------------------------------------------------------------


def _large_jet(n: int, seed: int) -> hct.Potential:
    return simulate.ginkgo(1, n_leaves=n, t_cut=0.01, rng=seed)[0].potential()


def large(small: bool) -> tuple[str, list[Row]]:
    rows, targets = [], []
    for kind, make in (("jets, t_cut = 0.01", _large_jet), ("random similarities", _dasgupta)):
        gains, beams, seconds, bounds = [], [], [], []
        for seed in range(1 if small else 5):
            potential = make(LARGE, seed)
            start = time.perf_counter()
            growth = grow(potential, rng=seed, time_limit=35.0)
            post = hct.infer(potential, trellis=growth)
            post.cluster_probabilities()
            seconds.append(time.perf_counter() - start)
            greedy = potential.log_weight(hct.greedy(potential))
            beam = potential.log_weight(hct.beam_search(potential, width=BEAM_WIDTH)[0])
            gains.append(post.map_log_weight - greedy)
            beams.append(post.map_log_weight - beam)
            bounds.append(post.log_partition - post.map_log_weight)
            log(f"{kind}: + {gains[-1]:.1f} over greedy, + {beams[-1]:.1f} over beam search")
        rows.append(
            [
                kind,
                f"{np.mean(gains):.1f} (least {np.min(gains):.1f})",
                f"{np.mean(beams):.1f} (least {np.min(beams):.1f})",
                f"{np.mean(bounds):.1f}",
                f"{np.max(seconds):.1f}",
            ]
        )
        targets.append(
            [
                f"n = {LARGE}, {kind}: MAP, bound and marginals in under {LARGE_SECONDS:.0f} s",
                f"{np.max(seconds):.1f} s",
                verdict(np.max(seconds) < LARGE_SECONDS),
            ]
        )
        targets.append(
            [
                f"n = {LARGE}, {kind}: better than greedy and than beam search (width "
                f"{BEAM_WIDTH}) on average",
                f"by {np.mean(gains):.1f} and {np.mean(beams):.1f}",
                verdict(np.mean(gains) > 0 and np.mean(beams) > 0),
            ]
        )
    columns = [f"n = {LARGE}", "MAP - greedy", "MAP - beam", "bound - MAP", "seconds, most"]
    return table(columns, rows), targets


# ---- speed ------------------------------------------------------------------------------------


def speed(small: bool) -> tuple[str, list[Row]]:
    n, n_trees = 16, 1000 if small else 3000
    potential = _jet(n, 1)
    children = random_trees(n, n_trees, np.random.default_rng(0))
    trellis = SparseTrellis.from_children(children, "all")

    def passes() -> None:
        trellis.solve(potential).around()

    passes()
    rate = trellis.n_splits / best_seconds(passes)
    target = [
        f"inside and outside passes, Ginkgo, {trellis.n_splits} splits, one thread: at least "
        f"{SPEED / 1e6:.0f} million splits/s",
        f"{rate / 1e6:.1f} million/s",
        verdict(rate >= SPEED),
    ]
    return "", [target]


def random_trees(n: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Random trees, as arrays of children: any two clusters may be joined next."""
    found = np.empty((size, n - 1, 2), np.int64)
    for tree in found:
        nodes = list(range(n))
        for k in range(n - 1):
            one, other = (nodes.pop(int(rng.integers(len(nodes)))) for _ in range(2))
            tree[k] = one, other
            nodes.append(n + k)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a few jets only; writes nothing")
    small = parser.parse_args(arguments).small
    texts, targets = [], []
    for part in (speed, other_jets, grown, large):
        text, found = part(small)
        texts.append(text)
        targets += found
    whole = "\n".join(
        [
            "## sparse",
            "",
            "`python benchmarks/sparse.py`",
            "",
            *[f"- {fact}" for fact in machine()],
            "",
            table(["target", "measured", ""], targets),
            *texts,
        ]
    )
    if not small:
        write_section("sparse", whole)
    print(whole)
    return 0


if __name__ == "__main__":
    sys.exit(main())
