"""Log Z and MAP of hard problems, beside an evaluation with 200 bits.

A problem is a potential, and psi as the oracle has it: with sums that are not rounded. The same
recursion is done with arbitrary precision (python-flint), from the log weights of the oracle.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

import hctrellis as hct
import naive

BETAS = (1e-6, 1e-3, 1.0, 1e3, 1e6)
METHODS = ("single", "complete", "average", "centroid", "ward")
PRECISION = 200  # bits


class Problem(NamedTuple):
    model: str
    data: str
    beta: float
    potential: hct.Potential
    psi: Callable[[frozenset[int], frozenset[int]], float]


class Found(NamedTuple):
    """Errors, relative to the size of log Z (at least 1)."""

    log_partition: float
    map_log_weight: float
    """How far the log weight of the tree that was found is below the best."""


def matrices(n: int, rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray]]:
    """Symmetric matrices of positive numbers, hard in one way or another."""

    def symmetric(values: np.ndarray) -> np.ndarray:
        upper = np.triu(values, 1)
        return upper + upper.T

    yield "uniform", symmetric(rng.random((n, n)))
    yield "24 orders of magnitude", symmetric(10.0 ** rng.uniform(-21, 3, (n, n)))
    yield "near ties", symmetric(1.0 + 1e-13 * rng.random((n, n)))
    yield "ties", symmetric(rng.integers(1, 3, (n, n)).astype(float))


def jets(n: int, rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray, float]]:
    """Momenta, and a threshold."""

    def massless(momenta: np.ndarray) -> np.ndarray:
        return np.column_stack([np.sqrt((momenta**2).sum(axis=1)), momenta])

    generic = rng.normal(size=(n, 3))
    yield "massless", massless(generic), 0.1
    yield "some forbidden", massless(generic), 3.0
    yield "24 orders of magnitude", massless(generic * 10.0 ** rng.uniform(-6, 6, (n, 1))), 1e-9
    along = np.outer(rng.uniform(1, 10, n), [1.0, 2.0, 3.0])
    yield "nearly collinear", massless(along + 1e-3 * rng.normal(size=(n, 3))), 1e-12
    grid = np.outer(rng.integers(1, 9, n), [2.0, 3.0, 6.0])  # |p| is a whole number: t = 0
    grid[: n // 2] = grid[: n // 2, ::-1]
    yield "collinear", massless(grid), 1e-3


def problems(n: int, seed: int) -> Iterator[Problem]:
    """Every model on every kind of data, at every beta."""
    rng = np.random.default_rng([n, seed])
    for data, w in matrices(n, rng):
        signed = w * np.where(np.triu(rng.random((n, n)) < 0.5, 1), -1, 1)
        signed = np.triu(signed, 1) + np.triu(signed, 1).T
        points = rng.normal(size=(n, 3)) * (
            10.0 ** rng.uniform(-6, 6, (n, 1)) if "24" in data else 1
        )
        for beta in BETAS:
            yield Problem(
                "Dasgupta", data, beta, hct.Dasgupta(w, beta), naive.dasgupta(w.tolist(), beta)
            )
            if (signed < 0).any():
                yield Problem(
                    "CorrelationClustering",
                    data,
                    beta,
                    hct.CorrelationClustering(signed, beta),
                    naive.correlation_clustering(signed.tolist(), beta),
                )
            for method in METHODS:
                yield Problem(
                    f"Linkage, {method}",
                    data,
                    beta,
                    hct.Linkage(points, method, beta),
                    naive.linkage(points.tolist(), method, beta),
                )
    for beta in (*BETAS, -1.5, -2 + 1e-9):
        prior, psi = hct.BetaSplitting(n, beta), naive.beta_splitting(beta)
        yield Problem("BetaSplitting", "sizes alone", beta, prior, psi)
    for data, momenta, t_cut in jets(n, rng):
        for lam in BETAS:
            yield Problem(
                "Ginkgo",
                data,
                lam,
                hct.Ginkgo(momenta, lam, t_cut, lam_root=2 * lam),
                naive.ginkgo(momenta.tolist(), lam, t_cut, 2 * lam),
            )
            yield Problem(
                "Ginkgo, non-stop",
                data,
                lam,
                hct.Ginkgo(momenta, lam, t_cut, lam_root=2 * lam, non_stop=True),
                naive.ginkgo(momenta.tolist(), lam, t_cut, 2 * lam, non_stop=True),
            )
            yield Problem(
                "JetMass",
                data,
                lam,
                hct.JetMass(momenta, lam),
                naive.jet_mass(momenta.tolist(), lam),
            )


def precise(n: int, psi: Callable[..., float]) -> tuple[float, float]:
    """Log Z and the largest log weight of a tree, by the recursion over clusters, precisely."""
    import flint

    flint.ctx.prec = PRECISION
    zero, one = flint.arb(0), flint.arb(1)
    z = {frozenset([i]): one for i in range(n)}
    best = {frozenset([i]): zero for i in range(n)}
    clusters = [frozenset(i for i in range(n) if mask >> i & 1) for mask in range(1, 1 << n)]
    for cluster in sorted(clusters, key=len)[n:]:
        total, top = zero, None
        for left, right in naive.splits_of(cluster):
            log_psi = psi(left, right)
            if log_psi == -math.inf or best[left] is None or best[right] is None:
                continue
            x = flint.arb(log_psi)
            total += x.exp() * z[left] * z[right]
            weight = x + best[left] + best[right]
            top = weight if top is None or weight > top else top
        z[cluster], best[cluster] = total, top
    whole = frozenset(range(n))
    if best[whole] is None:
        return -math.inf, -math.inf
    return float(z[whole].log()), float(best[whole])


def errors(problem: Problem) -> Found:
    """How far the package is from the precise answers."""
    n = problem.potential.n_leaves
    log_z, top = precise(n, problem.psi)
    post = hct.infer(problem.potential)
    if log_z == -math.inf:
        same = 0.0 if post.log_partition == -math.inf else math.inf
        return Found(same, same)
    scale = max(1.0, abs(log_z))
    tree = frozenset(
        frozenset(i for i in range(n) if mask >> i & 1) for mask in post.map_tree.clusters()
    )
    weight = math.fsum(problem.psi(*naive.children_of(tree, cluster)) for cluster in tree)
    return Found(abs(post.log_partition - log_z) / scale, max(0.0, top - weight) / scale)
