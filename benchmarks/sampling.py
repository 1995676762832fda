"""Is what sampling says true, and how fast is it? Writes the section `sampling` of RESULTS.md.

python benchmarks/sampling.py [--data FOLDER] [--problems 200] [--seeds 20] [--exact]

--data: a folder with pam50_unc232.csv; without it those rows are left out.
--exact: also compare with all trees of 23 leaves, which takes minutes.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import hctrellis as hct
from common import Targets, log, machine, table, write_section
from hctrellis.chains.chains import Chains
from hctrellis.chains.frequencies import cluster_codes, frequencies
from hctrellis.sampling.run import sample_posterior

SIZES = (30, 50, 100, 200)
TIMED = {30: 5.0, 50: 10.0, 100: 40.0}
MOVES = 6  # plain moves in place of one that weighs all places: about as costly


# ---- models -----------------------------------------------------------------------------------


def pam50(folder: Path, n: int, seed: int = 0) -> np.ndarray:
    """Rows of the gene expression table, missing values replaced by means."""
    with (folder / "pam50_unc232.csv").open() as file:
        rows = [row[2:] for row in csv.reader(file)][1:]
    values = np.array([[float(x) if x not in ("", "NA") else np.nan for x in row] for row in rows])
    values = np.where(np.isnan(values), np.nanmean(values, axis=0), values)
    return values[np.random.default_rng(seed).permutation(len(values))[:n]]


def iris(n: int, seed: int = 0) -> np.ndarray:
    from sklearn.datasets import load_iris

    values = load_iris().data
    values = (values - values.mean(axis=0)) / values.std(axis=0)
    return values[np.random.default_rng(seed).permutation(len(values))[:n]]


def similar(x: np.ndarray) -> np.ndarray:
    """A Gaussian kernel of the width of the median distance."""
    squares = ((x[:, None] - x[None]) ** 2).sum(axis=-1)
    w = np.exp(-squares / np.median(squares[squares > 0]))
    np.fill_diagonal(w, 0.0)
    return w


def signs(n: int, seed: int) -> np.ndarray:
    """Affinities of three overlapping groups."""
    rng = np.random.default_rng(seed)
    group = rng.integers(3, size=n)
    w = np.where(group[:, None] == group, 0.5, -0.5) + rng.normal(scale=0.7, size=(n, n))
    return np.triu(w, 1) + np.triu(w, 1).T


def jet(n: int, seed: int) -> hct.Potential:
    """The first simulated jet of about n leaves."""
    t_cut = 16.0 if n < 12 else 1.21 if n < 27 else 0.1 if n < 62 else 0.01
    rng = np.random.default_rng(seed)
    while True:
        for one in hct.simulate.ginkgo(200, t_cut=t_cut, rng=rng):
            model = one.potential()
            if abs(model.n_leaves - n) <= n // 10:
                return model


def small_problems(count: int) -> Iterator[tuple[str, hct.Potential]]:
    """Problems of 16 to 20 leaves, sharp and diffuse, of every kind."""
    for k in range(count):
        n = 16 + k % 3 * 2
        rng = np.random.default_rng(1000 + k)
        x = rng.normal(size=(n, 4)) + rng.integers(3, size=(n, 1)) * rng.uniform(0, 2)
        sharp = k % 2
        kind = k // 2 % 5
        if kind == 0:
            yield "average heights", hct.Linkage(x, beta=(2.0, 8.0)[sharp])
        elif kind == 1:
            yield "Ward heights", hct.Linkage(x, method="ward", beta=(0.5, 2.0)[sharp])
        elif kind == 2:
            yield "Dasgupta", hct.Dasgupta(similar(x), beta=(0.05, 0.3)[sharp])
        elif kind == 3:
            yield (
                "correlation clustering",
                hct.CorrelationClustering(signs(n, k), beta=(0.2, 1.0)[sharp]),
            )
        else:
            yield "jets", jet(n, k)


# ---- truth ------------------------------------------------------------------------------------


def truth(count: int, targets: Targets) -> str:
    """Sampled against exact."""
    found: dict[str, list[tuple[int, int, float, float, bool]]] = {}
    for k, (name, model) in enumerate(small_problems(count)):
        log(f"truth {k + 1} of {count}: {name}, {model.n_leaves} leaves")
        post = sample_posterior(model, precision=0.02, rng=k, time_limit=120)
        exact = hct.infer(model, hct.FullTrellis(model.n_leaves))
        rows = found.setdefault(name, [])
        if not post.is_reliable:
            rows.append((0, 0, 0.0, np.nan, True))
            continue
        off = np.array(
            [
                abs(row.probability - exact.cluster_probability(row.cluster)) / row.error
                for row in post.cluster_probabilities(0.05)
            ]
        )
        error = np.nan
        if post.log_partition is not None and post.log_partition_error is not None:
            difference = abs(post.log_partition - exact.log_partition)
            error = max(0.0, difference - 1e-9) / max(post.log_partition_error, 1e-12)
        rows.append((len(off), int((off <= 2).sum()), float(off.max(initial=0)), error, False))
    lines = []
    everything = [row for rows in found.values() for row in rows]
    for name, rows in [*found.items(), ("all", everything)]:
        clusters, inside = sum(row[0] for row in rows), sum(row[1] for row in rows)
        given = [row[3] for row in rows if not np.isnan(row[3])]
        refused = sum(row[4] for row in rows)
        lines.append(
            [
                name,
                str(len(rows)),
                str(clusters),
                f"{100 * inside / max(1, clusters):.1f} %",
                f"{max(row[2] for row in rows):.2f}",
                str(len(given)),
                f"{100 * np.mean(np.array(given) <= 3):.1f} %" if given else "-",
                str(refused),
            ]
        )
    share = sum(row[1] for row in everything) / max(1, sum(row[0] for row in everything))
    given = np.array([row[3] for row in everything if not np.isnan(row[3])])
    targets.at_least("clusters within 2 standard errors", 93, 100 * share, " %")
    targets.at_most("clusters within 2 standard errors", 97, 100 * share, " %")
    targets.at_most("largest deviation, in errors", 5, max(row[2] for row in everything))
    targets.at_least("log Z within 3 errors", 99, 100 * float((given <= 3).mean()), " %")
    refused = 100 * sum(row[4] for row in everything) / len(everything)
    targets.at_most("problems refused", 2, refused, " %")
    return table(
        [
            "model, n = 16-20",
            "problems",
            "clusters",
            "within 2 errors",
            "farthest",
            "log Z given",
            "within 3",
            "refused",
        ],
        lines,
    )


# ---- speed ------------------------------------------------------------------------------------


def speed_problems(folder: Path | None, n: int) -> Iterator[tuple[str, hct.Potential]]:
    if n <= 150:
        yield "iris, average", hct.Linkage(iris(n), beta=n / 5)
    if folder is not None:
        yield "pam50, average", hct.Linkage(pam50(folder, n), beta=3.0)
        w = similar(pam50(folder, n))
        yield "pam50, Dasgupta, diffuse", hct.Dasgupta(w, beta=10 / n**1.5)
    yield "correlation clustering", hct.CorrelationClustering(signs(n, n), beta=n / 25)
    if n <= 100:
        yield "jet", jet(n, n)


def effective(children: np.ndarray, seconds: float) -> tuple[float, float] | None:
    """Effective trees per second: of the median open cluster, and of the worst, if there is one."""
    codes = cluster_codes(children.reshape(-1, *children.shape[2:]))[:, :-1]
    found = frequencies(codes.reshape(*children.shape[:2], -1), 0.05)
    p, errors = found.means, found.errors
    kept = (p >= 0.05) & (p <= 0.95) & (errors > 0)
    if not kept.any():
        return None
    sizes = p[kept] * (1 - p[kept]) / errors[kept] ** 2 / seconds
    return float(np.median(sizes)), float(sizes.min())


def plain_chains(chains: Chains, starts: np.ndarray, rng: np.random.Generator, shape) -> np.ndarray:
    kernel = chains._model.kernel("metropolis")
    found = np.empty((len(starts), shape[0], *starts.shape[1:]), np.int16)
    weights = np.empty((len(starts), shape[0]))
    uniforms = rng.random((len(starts), *shape, 4))
    assert kernel.run_plain_chains(starts, uniforms, chains._rooms[0], found, weights)
    return found


def moves(folder: Path | None, targets: Targets) -> str:
    """Moves that weigh all places against plain ones, in the same run, on one thread."""
    lines = []
    for n in SIZES:
        for name, model in speed_problems(folder, n):
            log(f"moves: {name}, {model.n_leaves} leaves")
            chains, rng = Chains(model, 1), np.random.default_rng(0)
            start = hct.local_search(model, n_restarts=20, rng=0).tree.children
            starts = np.array([start] * 4, np.int16)
            starts = chains.run(starts, 1.0, rng, 1, 40 * n).children[:, -1]
            plain_chains(chains, starts, rng, (1, 1))
            records, step = 40_000 // n, max(1, n // 4)
            begin = time.process_time()
            gibbs = chains.run(starts, 1.0, rng, records, step).children
            middle = time.process_time()
            plain = plain_chains(chains, starts, rng, (records, MOVES * step))
            end = time.process_time()
            ours, theirs = effective(gibbs, middle - begin), effective(plain, end - middle)
            if ours is None or theirs is None:
                log("no cluster is open")
                continue
            count = 4 * records * step
            lines.append(
                [
                    name,
                    str(model.n_leaves),
                    f"{1e6 * (middle - begin) / count:.2f}",
                    f"{1e6 * (end - middle) / count / MOVES:.2f}",
                    f"{ours[0]:,.0f} / {ours[1]:,.0f}",
                    f"{theirs[0]:,.0f} / {theirs[1]:,.0f}",
                    f"{ours[0] / theirs[0]:.2f}",
                    f"{ours[1] / theirs[1]:.2f}",
                ]
            )
            targets.at_least(f"{name}, {n}: median / plain", 1.0, ours[0] / theirs[0])
            if n >= 50:
                targets.at_least(f"{name}, {n}: worst / plain", 2.0, ours[1] / theirs[1])
    return table(
        [
            "model",
            "leaves",
            "us per move",
            "plain",
            "effective per CPU second, median / worst",
            "plain",
            "ratio of medians",
            "of worst",
        ],
        lines,
    )


def whole(folder: Path | None, targets: Targets) -> str:
    """From data to all probabilities of 0.05 or more with a standard error of at most 0.01."""
    lines = []
    for n, limit in TIMED.items():
        for name, model in speed_problems(folder, n):
            log(f"whole: {name}, {model.n_leaves} leaves")
            sample_posterior(model, precision=0.5, time_limit=1.0, rng=1)  # compiles
            began, cpu = time.perf_counter(), time.process_time()
            post = sample_posterior(model, time_limit=180, rng=0)
            seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
            found = post.diagnostics
            known = post.log_partition is not None
            lines.append(
                [
                    name,
                    str(model.n_leaves),
                    f"{seconds:.1f}",
                    f"{cpu:.1f}",
                    f"{found.worst_error:.4f}",
                    "yes" if post.is_reliable else "refused",
                    f"{post.log_partition:.2f} +- {post.log_partition_error:.2g}" if known else "-",
                    "-" if found.coverage is None else f"{found.coverage.value:.2g}",
                ]
            )
            targets.at_most(f"{name}, {n}: half the CPU time", limit, cpu / 2, " s")
    return table(
        ["model", "leaves", "seconds", "CPU", "worst error", "reliable", "log Z", "coverage"], lines
    )


# ---- refusal ----------------------------------------------------------------------------------


def designs(seeds: int, targets: Targets) -> str:
    """Crossed designs: rows and columns are equally probable by symmetry."""
    lines, wrong = [], 0
    for side in (4, 5, 6, 7):
        row, column = np.divmod(np.arange(side**2), side)
        w = (row[:, None] == row) * 1.0 + (column[:, None] == column)
        np.fill_diagonal(w, 0.0)
        model = hct.Dasgupta(w, beta=1.0)
        apart, refused = [], 0
        for seed in range(seeds):
            log(f"crossed design {side} x {side}, seed {seed}")
            post = sample_posterior(model, time_limit=20, rng=seed)
            if not post.is_reliable:
                refused += 1
                continue
            one, other = (
                np.mean(
                    [
                        post.cluster_probability(np.flatnonzero(kind == k).tolist())
                        for k in range(side)
                    ]
                )
                for kind in (row, column)
            )
            apart.append(abs(one - other))
        wrong += sum(a > 0.1 for a in apart)
        largest = f"{max(apart):.3f}" if apart else "-"
        lines.append([f"{side} x {side}", str(seeds), str(refused), largest])
    targets.at_most("crossed designs with rows and columns more than 0.1 apart", 0, wrong)
    return table(["crossed design, 20 s each", "seeds", "refused", "largest difference"], lines)


def sharp(folder: Path, targets: Targets) -> str:
    """Dasgupta on a Gaussian kernel of 100 rows at beta = 1: annealing fails here."""
    model = hct.Dasgupta(similar(pam50(folder, 100)), beta=1.0)
    log("sharp Dasgupta, 100 leaves")
    runs = [sample_posterior(model, time_limit=60, rng=seed) for seed in (0, 1)]
    lines = []
    for seed, post in enumerate(runs):
        found = post.diagnostics
        lines.append(
            [
                str(seed),
                "yes" if post.is_reliable else "refused",
                f"{found.worst_error:.3f}",
                str(found.n_ancestors),
                "-" if post.log_partition is None else f"{post.log_partition:.2f}",
                f"{post.log_partition_bound:.2f}",
            ]
        )
    if all(post.is_reliable for post in runs):
        one, other = (post.cluster_probabilities(0.05) for post in runs)
        values = zip(other.probabilities, other.errors, strict=True)
        known = dict(zip(other.masks, values, strict=True))
        off = [
            abs(p - known[mask][0]) / np.hypot(error, known[mask][1])
            for mask, p, error in zip(one.masks, one.probabilities, one.errors, strict=True)
            if mask in known
        ]
        targets.at_most("sharp Dasgupta, 100: two seeds differ, in errors", 5, max(off))
    return table(["seed", "reliable", "worst error", "ancestors", "log Z", "lower bound"], lines)


def exact(targets: Targets) -> str:
    """All trees of 23 leaves, weighed once."""
    model = hct.Linkage(np.random.default_rng(23).normal(size=(23, 4)), beta=4.0)
    log("all trees of 23 leaves")
    began = time.perf_counter()
    post = hct.infer(model, hct.FullTrellis(23))
    seconds = time.perf_counter() - began
    sampled = sample_posterior(model, rng=0)
    off = [
        abs(row.probability - post.cluster_probability(row.cluster)) / row.error
        for row in sampled.cluster_probabilities(0.05)
    ]
    targets.at_most("23 leaves: largest deviation, in errors", 5, max(off))
    difference = abs((sampled.log_partition or np.nan) - post.log_partition)
    allowed = 3 * (sampled.log_partition_error or 0) + 1e-6
    targets.at_most("23 leaves: log Z off, in 3 errors", 1, difference / allowed)
    return (
        f"23 leaves, average heights: exact log Z {post.log_partition:.4f} ({seconds:.0f} s), "
        f"sampled {sampled.log_partition} +- {sampled.log_partition_error}; {len(off)} clusters, "
        f"{100 * np.mean(np.array(off) <= 2):.0f} % within 2 errors, the farthest at "
        f"{max(off):.2f}.\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--problems", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--exact", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    targets = Targets()
    stages: list[Callable[[], str]] = [
        lambda: moves(given.data, targets),
        lambda: truth(given.problems, targets),
        lambda: designs(given.seeds, targets),
        lambda: whole(given.data, targets),
    ]
    if given.data is not None:
        stages.append(lambda: sharp(given.data, targets))
    if given.exact:
        stages.append(lambda: exact(targets))
    facts = "\n".join(f"- {fact}" for fact in machine())
    parts: list[str] = []
    for stage in stages:  # written after each: a run that is stopped has not been in vain
        parts.append(stage())
        write_section("sampling", "\n\n".join(["## Sampling", facts, *parts, targets.table()]))


if __name__ == "__main__":
    main()
