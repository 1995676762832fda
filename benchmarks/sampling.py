"""Is what sampling says true, and how fast is it? Writes sections of RESULTS.md, one per part.

python benchmarks/sampling.py [--data FOLDER] [--parts moves ...] [--problems 200] [--seeds 20]

--data: a folder with pam50_unc232.csv; without it those rows are left out.
--parts: by default all but `exact`. Each is written when it is done, to a section of its own, so
    that a run that was stopped goes on with the parts that are missing:
    moves    moves that weigh all places against plain ones: effective trees per CPU second
    truth    sampled against exact answers, n = 16-20
    designs  crossed designs, whose answers are known by symmetry
    whole    from data to standard errors of 0.01, and log Z
    sharp    sharp kernels of 100 leaves, on which annealing fails
    exact    all trees of 23 leaves (3 GB or so)
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

import hctrellis as hct
from common import (
    Targets,
    best_seconds,
    exps,
    log,
    machine,
    table,
    write_section,
    yardstick_fact,
)
from hctrellis.chains.chains import Chains
from hctrellis.chains.frequencies import Frequencies, cluster_codes, frequencies
from hctrellis.sampling.run import sample_posterior

SIZES = (30, 50, 100, 200)
TIMED = {30: 5.0, 50: 10.0, 100: 40.0}
KINDS = 8  # of small problems
CHAINS = 32  # of each side
JOINED = (1, 4, 16)  # batches of a chain that are put together, until they are long enough
PER_BATCH = 8  # effective trees in a batch that is long enough
WANTED = 5000  # effective trees for the least certain cluster, on both sides
TRUTH_LIMIT = 15.0  # seconds for a small problem; a tenth goes into a trellis
FEWEST = 100  # fewer make no ratio
SECONDS = 16.0  # of CPU time, the most for one side
WHOLE_LIMIT = {30: 12.0, 50: 25.0, 100: 60.0}
DASGUPTA_BETA = {30: 0.06, 50: 0.04, 100: 0.02, 200: 0.01}
SHARP_LIMIT = 60.0
EXACT_LEAVES = 23
LIMITS = {4: 20.0, 5: 4.0, 6: 4.0, 7: 4.0}  # seconds for a crossed design of each side


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
        n = 16 + k % 5
        rng = np.random.default_rng(1000 + k)
        x = rng.normal(size=(n, 4)) + rng.integers(3, size=(n, 1)) * rng.uniform(0, 2)
        sharp = k % 2
        kind = k // 2 % KINDS
        if kind < 5:
            method = ("average", "ward", "single", "complete", "centroid")[kind]
            beta = (0.5, 2.0) if method == "ward" else (2.0, 8.0)
            yield f"{method} heights", hct.Linkage(x, method=method, beta=beta[sharp])
        elif kind == 5:
            yield "Dasgupta", hct.Dasgupta(similar(x), beta=(0.05, 0.3)[sharp])
        elif kind == 6:
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
        rows = found.setdefault(name, [])
        if not rows:
            sample_posterior(model, precision=0.5, time_limit=1.0, rng=1)  # compiles
        post = sample_posterior(model, precision=0.02, rng=k, time_limit=TRUTH_LIMIT)
        exact = hct.infer(model, hct.FullTrellis(model.n_leaves))
        if not post.is_reliable:
            log(post.diagnostics.verdict)
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
    """Betas at which clusters are open and chains at one temperature get through."""
    if n <= 150:
        yield "iris, average", hct.Linkage(iris(n), beta=n / 5)
    if folder is not None:
        yield "pam50, average", hct.Linkage(pam50(folder, n), beta=3.0)
        w = similar(pam50(folder, n))
        yield "pam50, Dasgupta", hct.Dasgupta(w, beta=DASGUPTA_BETA[n])
    yield "correlation clustering", hct.CorrelationClustering(signs(n, n), beta=1.0)
    if n <= 100:
        yield "jet", jet(n, n)


def run_chains(
    chains: Chains, rng: np.random.Generator, step: int, starts: np.ndarray, records: int
) -> np.ndarray:
    return chains.run(starts, 1.0, rng, records, step).children


def plain_chains(
    chains: Chains, rng: np.random.Generator, step: int, starts: np.ndarray, records: int
) -> np.ndarray:
    kernel = chains._model.kernel("metropolis")
    found = np.empty((len(starts), records, *starts.shape[1:]), np.int16)
    weights = np.empty((len(starts), records))
    uniforms = rng.random((len(starts), records, step, 4))
    assert kernel.run_plain_chains(starts, uniforms, chains._rooms[0], found, weights)
    return found


class Side:
    """Chains of one kind, run until the least certain cluster is known well enough."""

    def __init__(self, run: Callable[[np.ndarray, int], np.ndarray], starts: np.ndarray) -> None:
        self._run, self._trees = run, starts
        self._parts: list[np.ndarray] = []
        self.seconds, self.n_records = 0.0, 0

    def go_on(self, records: int) -> None:
        began = time.process_time()
        found = self._run(self._trees, records)
        self.seconds += time.process_time() - began
        self._trees = np.ascontiguousarray(found[:, -1])
        self._parts.append(cluster_codes(found.reshape(-1, *found.shape[2:]))[:, :-1])
        self._parts[-1] = self._parts[-1].reshape(*found.shape[:2], -1)
        self.n_records += records

    def count(self) -> Frequencies:
        self._parts = [np.concatenate(self._parts, axis=1)]
        return frequencies(self._parts[0], 0.01)


def sizes(sides: list[Side]) -> np.ndarray | None:
    """Effective trees of each side, for the same open clusters; None if there is none."""
    found = [side.count() for side in sides]
    codes = np.intersect1d(found[0].codes, found[1].codes)
    places = [np.searchsorted(one.codes, codes) for one in found]
    p = np.mean([one.means[where] for one, where in zip(found, places, strict=True)], axis=0)
    kept = (p >= 0.05) & (p <= 0.95)
    if not kept.any():
        return None
    return np.array(
        [
            effective(p[kept], one.batches[:, :, where[kept]])
            for one, where in zip(found, places, strict=True)
        ]
    )


def effective(p: np.ndarray, batches: np.ndarray) -> np.ndarray:
    """Effective trees for clusters of given probabilities, from all batches alike.

    The errors of a posterior are the largest of several, which is safe, and says little about
    speed: the worst of hundreds of clusters would be the most unlucky one.
    """
    n_chains, n_batches, k = batches.shape
    for joined in JOINED:
        means = batches.reshape(n_chains * n_batches // joined, joined, k).mean(axis=1)
        found = p * (1 - p) * len(means) / np.maximum(means.var(axis=0, ddof=1), 1e-30)
        if found.min() >= PER_BATCH * len(means):
            break
    return found


def moves(folder: Path | None, targets: Targets) -> str:
    """Moves that weigh all places against plain ones, in the same run, on one thread."""
    lines = []
    for n in SIZES:
        for name, model in speed_problems(folder, n):
            log(f"moves: {name}, {model.n_leaves} leaves")
            chains, rng = Chains(model, 1), np.random.default_rng(0)
            start = hct.local_search(model, n_restarts=20, rng=0).tree.children
            starts = np.array([start] * CHAINS, np.int16)
            starts = chains.run(starts, 1.0, rng, 1, 60 * n).children[:, -1]
            plain_chains(chains, rng, 1, starts, 1)  # compiles
            step = (max(1, n // 4), n)
            sides = [
                Side(partial(run_chains, chains, rng, step[0]), starts),
                Side(partial(plain_chains, chains, rng, step[1]), starts),
            ]
            known = None
            while True:
                for side in sides:
                    if side.seconds < SECONDS:
                        side.go_on(max(64, side.n_records // 2))
                known = sizes(sides)
                if all(side.seconds >= SECONDS for side in sides):
                    break
                if known is not None and known.min() >= WANTED:
                    break
            if known is None:
                log("no cluster is open")
                continue
            speeds = known / np.array([side.seconds for side in sides])[:, None]
            median, worst = np.median(speeds, axis=1), speeds.min(axis=1)
            costs = [
                1e6 * side.seconds / (CHAINS * side.n_records * k)
                for side, k in zip(sides, step, strict=True)
            ]
            fewest = known.min(axis=1)
            enough = fewest.min() >= FEWEST
            lines.append(
                [
                    name,
                    str(model.n_leaves),
                    f"{costs[0]:.2f}",
                    f"{costs[1]:.2f}",
                    str(known.shape[1]),
                    f"{median[0]:,.0f} / {worst[0]:,.1f}",
                    f"{median[1]:,.0f} / {worst[1]:,.1f}",
                    f"{fewest[0]:,.0f}, {fewest[1]:,.0f}",
                    f"{median[0] / median[1]:.2f}",
                    f"{worst[0] / worst[1]:.2f}" if enough else "too few",
                ]
            )
            targets.at_least(f"{name}, {n}: median / plain", 1.0, median[0] / median[1])
            if n >= 50 and enough:
                targets.at_least(f"{name}, {n}: worst / plain", 2.0, worst[0] / worst[1])
    return table(
        [
            "model",
            "leaves",
            "us per move",
            "plain",
            "open clusters",
            "effective per CPU second, median / worst",
            "plain",
            "effective in all, for the worst",
            "ratio of medians",
            "of worst",
        ],
        lines,
    )


def timed_problems(folder: Path | None, n: int) -> Iterator[tuple[str, hct.Potential]]:
    yield from speed_problems(folder, n)
    from sklearn.datasets import load_wine

    values = load_wine().data
    values = (values - values.mean(axis=0)) / values.std(axis=0)
    rows = values[np.random.default_rng(0).permutation(len(values))[:n]]
    yield "wine, average", hct.Linkage(rows, beta=n / 10)


def whole(folder: Path | None, targets: Targets) -> str:
    """From data to all probabilities of 0.05 or more with a standard error of at most 0.01."""
    lines = []
    unit = best_seconds(exps())  # the C library's exp, as often as `exps` says
    for n, limit in TIMED.items():
        for name, model in timed_problems(folder, n):
            log(f"whole: {name}, {model.n_leaves} leaves")
            sample_posterior(model, precision=0.5, time_limit=1.0, rng=1)  # compiles
            began, cpu = time.perf_counter(), time.process_time()
            post = sample_posterior(model, time_limit=WHOLE_LIMIT[n], rng=0)
            seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
            found = post.diagnostics
            known = post.log_partition is not None
            lines.append(
                [
                    name,
                    str(model.n_leaves),
                    f"{seconds:.1f}",
                    f"{cpu:.1f}",
                    f"{cpu / unit:,.0f}",
                    f"{found.worst_error:.4f}",
                    "yes" if post.is_reliable else "refused",
                    f"{post.log_partition:.2f} +- {post.log_partition_error:.2g}" if known else "-",
                    "-" if found.coverage is None else f"{found.coverage.value:.2g}",
                ]
            )
            targets.at_most(f"{name}, {n}: half the CPU time", limit, cpu / 2, " s")
            if n == 50 and known:
                targets.at_most(f"{name}, 50: error of log Z", 0.1, post.log_partition_error)
    return f"{yardstick_fact()}\n\n" + table(
        [
            "model",
            "leaves",
            "seconds",
            "CPU",
            "CPU / yardstick",
            "worst error",
            "reliable",
            "log Z",
            "coverage",
        ],
        lines,
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
            post = sample_posterior(model, time_limit=LIMITS[side], rng=seed)
            if not post.is_reliable:
                log(post.diagnostics.verdict)
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
        lines.append([f"{side} x {side}", f"{LIMITS[side]:.0f}", str(seeds), str(refused), largest])
    targets.at_most("crossed designs with rows and columns more than 0.1 apart", 0, wrong)
    return table(["crossed design", "seconds", "seeds", "refused", "largest difference"], lines)


def sharp(folder: Path, targets: Targets) -> str:
    """Dasgupta on a Gaussian kernel of 100 rows at beta = 1: annealing fails here."""
    model = hct.Dasgupta(similar(pam50(folder, 100)), beta=1.0)
    log("sharp Dasgupta, 100 leaves")
    runs = [sample_posterior(model, time_limit=SHARP_LIMIT, rng=seed) for seed in (0, 1)]
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
    """All trees of some leaves more than are solved by default, weighed once."""
    n = EXACT_LEAVES
    model = hct.Linkage(np.random.default_rng(n).normal(size=(n, 4)), beta=4.0)
    log(f"all trees of {n} leaves")
    began = time.perf_counter()
    post = hct.infer(model, hct.FullTrellis(n))
    seconds = time.perf_counter() - began
    sampled = sample_posterior(model, rng=0)
    off = [
        abs(row.probability - post.cluster_probability(row.cluster)) / row.error
        for row in sampled.cluster_probabilities(0.05)
    ]
    targets.at_most(f"{n} leaves: largest deviation, in errors", 5, max(off))
    difference = abs((sampled.log_partition or np.nan) - post.log_partition)
    allowed = 3 * (sampled.log_partition_error or 0) + 1e-6
    known = "withheld"
    if sampled.log_partition is not None:
        known = f"{sampled.log_partition:.4f} +- {sampled.log_partition_error:.2g}"
    targets.at_most(f"{n} leaves: log Z off, in 3 errors", 1, difference / allowed)
    return (
        f"{n} leaves, average heights: exact log Z {post.log_partition:.4f} ({seconds:.0f} s), "
        f"sampled {known}; {len(off)} clusters, "
        f"{100 * np.mean(np.array(off) <= 2):.0f} % within 2 errors, the farthest at "
        f"{max(off):.2f}.\n"
    )


TITLES = {
    "moves": "effective trees per CPU second",
    "truth": "sampled against exact",
    "designs": "crossed designs",
    "whole": "from data to standard errors of 0.01",
    "sharp": "sharp kernels",
    "exact": "23 leaves",
}


def measured(part: str, given: argparse.Namespace, targets: Targets) -> str:
    """The tables of a part."""
    if part == "truth":
        return truth(given.problems, targets)
    if part == "designs":
        return designs(given.seeds, targets)
    if part == "exact":
        return exact(targets)
    return {"moves": moves, "whole": whole, "sharp": sharp}[part](given.data, targets)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path)
    parser.add_argument("--parts", nargs="+", choices=TITLES, default=list(TITLES)[:-1])
    parser.add_argument("--problems", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=20)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for part in given.parts:
        if part == "sharp" and given.data is None:
            continue
        targets, began = Targets(), time.perf_counter()
        facts = "\n".join(f"- {fact}" for fact in machine())
        found = measured(part, given, targets)
        minutes = f"- `--parts {part}`: {(time.perf_counter() - began) / 60:.1f} minutes"
        title = f"## Sampling: {TITLES[part]}"
        aims = [targets.table()] if targets.rows else []
        text = "\n\n".join([title, f"{facts}\n{minutes}", found, *aims])
        write_section(f"sampling {part}", text)


if __name__ == "__main__":
    main()
