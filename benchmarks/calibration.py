"""Are probabilities of clusters right? Contrasts against the automatic beta, BP and AU.

python benchmarks/calibration.py                   writes the section "calibration" of RESULTS.md
python benchmarks/calibration.py --data FOLDER     with the file pam50_unc232.csv from a folder, too
python benchmarks/calibration.py --sets 4          a few sets of each scenario; writes nothing

Every method gives a probability to clusters of small tables: simulated ones, in which the clusters
are known, and random rows of real ones, in which classes are. A cluster is true if it is in the
tree that made the table, or if it is a class. In simulated tables all others are false; in real
ones those that cross a class, since nothing is known of what is inside a class.

The tables at the edges of what contrasts are the default for (one column, two, few rows, many rows)
have tables of results of their own, with the time of the fit.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn import datasets

import hctrellis as hct
from common import log, machine, table, write_section
from hctrellis.clusters import split_members
from hctrellis.potentials.contrasts import contrast_matrix

SETS, REAL_SETS = 120, 40
EDGE_SETS, LARGE_SETS = 80, 6
LEAVES, REAL_LEAVES, LARGE_LEAVES = 9, 12, 40
TIMED_LEAVES = (40, 60, 100)
FAR = 8.0  # standard deviations of noise between any two groups that are far apart
PRECISION = 0.05  # of the probabilities of sampled trees
RESAMPLES = 400
CLIP = 1e-3  # probabilities are kept away from 0 and 1 by this in the log score
EDGES = (0.5, 0.8, 0.95, 1.0 + 1e-9)
SURE = 0.95
METHODS = ("contrasts", "automatic beta", "BP", "AU")
SEED = 20_261_118

Probabilities = dict[frozenset[int], float]


class Problem(NamedTuple):
    """A table, its true clusters, and whether clusters that are only compatible with them count."""

    rows: np.ndarray
    true: frozenset[frozenset[int]]
    all_known: bool = True


@dataclass
class Score:
    """What one method said about the clusters of one table."""

    brier: float = 0.0
    outer: float = 0.0  # the same without false clusters that are compatible with all true ones
    log_score: float = 0.0
    false_sure: int = 0
    true_sure: int = 0
    said: list[tuple[float, bool]] = field(default_factory=list)
    seconds: float = 0.0


# ---- simulated tables ----------------------------------------------------------------------------


SIZES: dict[int, list[tuple[int, ...]]] = {  # of groups, by the number of rows
    3: [(1, 2)],
    4: [(2, 2)],
    5: [(2, 3)],
    6: [(3, 3), (2, 2, 2)],
    7: [(3, 4), (2, 2, 3)],
    8: [(4, 4), (2, 3, 3), (2, 2, 2, 2)],
    LEAVES: [(4, 5), (3, 3, 3), (2, 3, 4), (2, 2, 2, 3)],
    LARGE_LEAVES: [(20, 20), (10, 10, 20), (5, 10, 10, 15)],
}
FEW = (3, 4, 5, 6, 7, 8)


def _labels(rng: np.random.Generator, n: int = LEAVES) -> np.ndarray:
    """Rows in two, three or four groups."""
    sizes = SIZES[n][rng.integers(len(SIZES[n]))]
    return rng.permutation(np.repeat(np.arange(len(sizes)), sizes))


def far(columns: int, rows: tuple[int, ...], rng: np.random.Generator) -> Problem:
    """Groups that anyone would see: no two centres are nearer than FAR."""
    labels = _labels(rng, int(rng.choice(rows)))
    n_groups = labels.max() + 1
    centres = np.zeros((n_groups, columns))
    while _nearest(centres) < FAR:
        centres = 2 * FAR * rng.normal(size=centres.shape)
    return Problem(centres[labels] + rng.normal(size=(len(labels), columns)), _groups(labels))


def _nearest(centres: np.ndarray) -> float:
    gaps = np.linalg.norm(centres[:, None] - centres, axis=2)
    return float(gaps[~np.eye(len(centres), dtype=bool)].min())


def near(columns: int, rows: tuple[int, ...], rng: np.random.Generator) -> Problem:
    """Groups that overlap, or nearly so: the distances of `grouped`."""
    labels = _labels(rng, int(rng.choice(rows)))
    apart = np.exp(rng.uniform(np.log(0.7), np.log(4.0))) / columns**0.25
    centres = apart * rng.normal(size=(labels.max() + 1, columns))
    return Problem(centres[labels] + rng.normal(size=(len(labels), columns)), _groups(labels))


def _groups(labels: np.ndarray) -> frozenset[frozenset[int]]:
    members = [np.flatnonzero(labels == group).tolist() for group in np.unique(labels)]
    return frozenset(frozenset(found) for found in members if len(found) > 1)


def cloud(columns: int, rows: tuple[int, ...], rng: np.random.Generator) -> Problem:
    """No groups at all."""
    return Problem(rng.normal(size=(int(rng.choice(rows)), columns)), frozenset())


def grouped(columns: int, noise: Callable[..., np.ndarray], rng: np.random.Generator) -> Problem:
    """Groups of rows; of three or more groups, two are often nearer to each other."""
    labels = _labels(rng)
    n_groups = labels.max() + 1
    apart = np.exp(rng.uniform(np.log(0.7), np.log(4.0))) / columns**0.25
    centres = rng.normal(size=(n_groups, columns))
    true = {frozenset(np.flatnonzero(labels == group).tolist()) for group in range(n_groups)}
    if n_groups > 2 and rng.random() < 0.5:
        centres[1] = centres[0] + 0.6 * rng.normal(size=columns)
        true.add(frozenset(np.flatnonzero(labels < 2).tolist()))
    return Problem(apart * centres[labels] + noise(rng, LEAVES, columns), frozenset(true))


def independent(rng: np.random.Generator, n: int, columns: int) -> np.ndarray:
    return rng.normal(size=(n, columns))


def blocks(rng: np.random.Generator, n: int, columns: int) -> np.ndarray:
    """Columns in blocks of five, with correlations of 0.8."""
    shared = np.repeat(rng.normal(size=(n, columns // 5)), 5, axis=1)
    found: np.ndarray = np.sqrt(0.8) * shared + np.sqrt(0.2) * rng.normal(size=(n, columns))
    return found


def only(columns: int, noise: Callable[..., np.ndarray], rng: np.random.Generator) -> Problem:
    return Problem(noise(rng, LEAVES, columns), frozenset())


def from_model(columns: int, rng: np.random.Generator) -> Problem:
    """Drawn from the model of contrasts itself, with hyperparameters from a range."""
    tree = hct.infer(hct.BetaSplitting(LEAVES)).sample(1, rng)[0]
    left, right, _ = split_members(tree)
    q = left.sum(axis=1) * right.sum(axis=1) / (left | right).sum(axis=1)
    nu = rng.uniform(4, 30)
    v = 1.0 + rng.uniform(0.3, 3.0) ** 2 * q ** rng.uniform(0.5, 1.5)
    scale = np.sqrt(v * nu / rng.chisquare(nu, LEAVES - 1))
    rows = contrast_matrix(left, right).T @ (scale[:, None] * rng.normal(size=(len(v), columns)))
    inner = (frozenset(map(int, names)) for names in tree.cluster_labels())
    return Problem(rows, frozenset(c for c in inner if len(c) < LEAVES))


# ---- real tables ---------------------------------------------------------------------------------


def subset(rows: np.ndarray, classes: np.ndarray, rng: np.random.Generator) -> Problem:
    """Equally many random rows of each class, columns standardised."""
    names = np.unique(classes)
    each = REAL_LEAVES // len(names)
    chosen = np.concatenate(
        [rng.choice(np.flatnonzero(classes == name), each, replace=False) for name in names]
    )
    part = rows[chosen]
    spread = part.std(axis=0)
    part = (part - part.mean(axis=0))[:, spread > 0] / spread[spread > 0]
    true = {frozenset(range(k * each, (k + 1) * each)) for k in range(len(names))}
    return Problem(part, frozenset(true), all_known=False)


def real(folder: Path | None) -> dict[str, Callable[[np.random.Generator], Problem]]:
    found = {}
    for name, load in (
        ("iris", datasets.load_iris),
        ("wine", datasets.load_wine),
        ("breast cancer", datasets.load_breast_cancer),
    ):
        data = load()
        found[f"{name}, {data.data.shape[1]} columns"] = partial(subset, data.data, data.target)
    if folder is not None:
        rows, classes = _pam50(folder / "pam50_unc232.csv")
        found[f"pam50, {rows.shape[1]} columns"] = partial(subset, rows, classes)
    return found


def _pam50(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Samples of four subtypes of tumours, missing values as 0."""
    with path.open(newline="", encoding="utf-8") as file:
        _head, *lines = list(csv.reader(file))
    kept = [line for line in lines if line[1] in ("LumA", "LumB", "Basal", "Her2")]
    rows = np.array([[0.0 if x in ("", "NA") else float(x) for x in line[2:]] for line in kept])
    return rows, np.array([line[1] for line in kept])


# ---- the methods ---------------------------------------------------------------------------------


def _of_posterior(potential: hct.Potential, seed: int) -> Probabilities:
    post = hct.infer(potential, threads=1, precision=PRECISION, rng=seed)
    return {
        frozenset(map(int, row.cluster)): row.probability
        for row in post.cluster_probabilities(1e-6)
    }


def by_contrasts(rows: np.ndarray, seed: int) -> dict[str, Probabilities]:
    return {"contrasts": _of_posterior(hct.Contrasts(rows, rng=seed), seed)}


def by_beta(rows: np.ndarray, seed: int) -> dict[str, Probabilities]:
    def make(data: np.ndarray, beta: float) -> hct.Potential:
        return hct.Linkage(data, "average", beta)

    beta = hct.choose_beta(make, rows, rng=seed).beta
    return {"automatic beta": _of_posterior(make(rows, beta), seed)}


def by_bootstrap(rows: np.ndarray, seed: int) -> dict[str, Probabilities]:
    support = hct.bootstrap_support(rows, n_resamples=RESAMPLES, rng=seed)
    return {
        name: {
            frozenset(map(int, names)): 0.0 if np.isnan(p) else p  # two columns are too few for AU
            for names, p in support.support(kind).items()
        }
        for name, kind in (("BP", "bp"), ("AU", "au"))
    }


# ---- scores --------------------------------------------------------------------------------------


def judge(problem: Problem, said: Probabilities) -> Score:
    score = Score()
    for cluster in {*said, *problem.true}:
        p, true = said.get(cluster, 0.0), cluster in problem.true
        if true or _crosses(cluster, problem.true):
            score.outer += (p - true) ** 2
        elif not problem.all_known:
            continue
        score.brier += (p - true) ** 2
        kept = min(max(p, CLIP), 1 - CLIP)
        score.log_score -= np.log(kept if true else 1 - kept) if true or p > CLIP else 0.0
        score.true_sure += true and p >= SURE
        score.false_sure += p >= SURE and not true
        if p >= EDGES[0]:
            score.said.append((p, true))
    return score


def _crosses(cluster: frozenset[int], true: frozenset[frozenset[int]]) -> bool:
    return any(cluster & other and cluster - other and other - cluster for other in true)


def one_set(make: Callable[[np.random.Generator], Problem], seed: int) -> dict[str, Score]:
    """All methods on one table."""
    problem = make(np.random.default_rng(seed))
    scores = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for method in (by_contrasts, by_beta, by_bootstrap):
            began = time.process_time()
            found = method(problem.rows, seed)
            took = time.process_time() - began
            for name, said in found.items():
                scores[name] = judge(problem, said)
                scores[name].seconds = took
    for score in scores.values():
        per = max(1, len(problem.true))
        score.brier, score.outer = score.brier / per, score.outer / per
        score.log_score /= per
    return scores


Scenario = tuple[str, Callable[[np.random.Generator], Problem], int]


def scenarios(n_sets: int, n_real: int, folder: Path | None) -> list[Scenario]:
    simulated: list[Scenario] = [
        (f"groups, {d} columns", partial(grouped, d, independent), n_sets)
        for d in (2, 4, 8, 10, 50)
    ]
    simulated.append(("groups, 40 columns in blocks", partial(grouped, 40, blocks), n_sets))
    simulated += [
        (f"noise, {d} columns", partial(only, d, independent), n_sets) for d in (4, 8, 50)
    ]
    simulated.append(("noise, 40 columns in blocks", partial(only, 40, blocks), n_sets))
    simulated.append(("drawn from the model, 20 columns", partial(from_model, 20), n_sets))
    return simulated + [(name, make, n_real) for name, make in real(folder).items()]


def edges(n_sets: int, n_large: int) -> list[Scenario]:
    """Tables at the edges of what contrasts are the default for."""
    found: list[Scenario] = []
    for columns, rows, size in (
        (1, (LEAVES,), n_sets),
        (2, (LEAVES,), n_sets),
        (4, FEW, n_sets),
        (4, (LARGE_LEAVES,), n_large),
    ):
        many = f"{rows[0]} to {rows[-1]}" if len(rows) > 1 else f"{rows[0]}"
        shape = f"{columns} column{'s' if columns > 1 else ''}, {many} rows"
        for what, make in (("far groups", far), ("near groups", near), ("noise", cloud)):
            found.append((f"{what}, {shape}", partial(make, columns, rows), size))
    return found


def fit_seconds(n: int, apart: float) -> float:
    """CPU time of one fit of contrasts to a table of four columns and four groups."""
    rng = np.random.default_rng([SEED, n])
    rows = rng.normal(size=(n, 4)) + apart * rng.normal(size=(4, 4))[np.arange(n) % 4]
    hct.Contrasts(rows[: min(n, 16)], rng=0)  # so that nothing is left to compile
    began = time.process_time()
    hct.Contrasts(rows, rng=0)
    return time.process_time() - began


# ---- words and tables ----------------------------------------------------------------------------


def _mean_and_error(values: list[float]) -> str:
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return f"{np.mean(values):.2f} ± {error:.2f}"


def _scores(found: dict[str, list[dict[str, Score]]], what: str) -> str:
    rows = [
        [name, *(_mean_and_error([getattr(s[m], what) for s in sets]) for m in METHODS)]
        for name, sets in found.items()
    ]
    return table(["", *METHODS], rows)


def _reliability(found: dict[str, list[dict[str, Score]]]) -> str:
    rows = []
    for low, high in pairwise(EDGES):
        cells = []
        for method in METHODS:
            said = [pair for sets in found.values() for s in sets for pair in s[method].said]
            inside = np.array([pair for pair in said if low <= pair[0] < high]).reshape(-1, 2)
            p, true = inside.mean(axis=0) if len(inside) else (np.nan, np.nan)
            cells.append(f"{p:.2f}, {true:.2f} ({len(inside)})")
        rows.append([f"{low:g} to {min(high, 1):g}", *cells])
    return table(["said", *METHODS], rows)


def _narrow(found: dict[str, list[dict[str, Score]]]) -> str:
    """All tables of fewer than ten columns together."""
    names = [name for name in found if any(f" {d} columns" in name for d in range(1, 10))]
    rows = []
    for what, title in (
        ("brier", "Brier score"),
        ("outer", "Brier score without clusters inside groups, or of whole groups"),
        ("log_score", "log score"),
        ("false_sure", "false clusters at 0.95 per table"),
        ("true_sure", "true clusters at 0.95 per table"),
    ):
        values = {m: [getattr(s[m], what) for n in names for s in found[n]] for m in METHODS}
        rows.append([title, *(_mean_and_error(values[m]) for m in METHODS)])
    gaps = [s["contrasts"].brier - s["automatic beta"].brier for n in names for s in found[n]]
    gap = _mean_and_error(gaps)
    text = f"Brier score of contrasts less that of the automatic beta, table by table: {gap}.\n"
    return table(["", *METHODS], rows) + "\n" + text


def _edges(
    found: dict[str, list[dict[str, Score]]], seconds: dict[tuple[int, float], float]
) -> str:
    """Tables of one and two columns, few rows and many, and how long the fit takes."""
    gaps = []
    for name, sets in found.items():
        cells = [
            _mean_and_error(
                [getattr(s["contrasts"], w) - getattr(s["automatic beta"], w) for s in sets]
            )
            for w in ("brier", "outer", "log_score")
        ]
        gaps.append([name, str(len(sets)), *cells])
    times = [[str(n), *(f"{seconds[n, a]:.1f} s" for a in (0.0, 2.0))] for n in TIMED_LEAVES]
    titles = ["", "tables", "Brier score", "without clusters inside groups", "log score"]
    return f"""**At the edges of the default.** Far groups are at least {FAR:g} standard deviations
of the noise apart, near ones as in the scenarios above. Trees over
{LARGE_LEAVES} rows are sampled, to a precision of {PRECISION:g}. Contrasts less the automatic beta,
table by table (negative: contrasts are better):

{table(titles, gaps)}
Brier score:

{_scores(found, "brier")}
Brier score without clusters inside groups, or of whole groups:

{_scores(found, "outer")}
Log score:

{_scores(found, "log_score")}
False clusters at {SURE:g} per table:

{_scores(found, "false_sure")}
True clusters at {SURE:g} per table:

{_scores(found, "true_sure")}
Seconds of CPU per table, the choice of beta or the fit included:

{_scores(found, "seconds")}
CPU time of one fit of contrasts alone, four columns:

{table(["rows", "noise", "four groups"], times)}"""


def report(
    found: dict[str, list[dict[str, Score]]],
    at_edges: dict[str, list[dict[str, Score]]],
    fits: dict[tuple[int, float], float],
) -> str:
    seconds = {m: np.mean([s[m].seconds for sets in found.values() for s in sets]) for m in METHODS}
    taken = ", ".join(f"{m} {seconds[m]:.2f} s" for m in METHODS[:3])
    simulated = {name: sets for name, sets in found.items() if "," in name and _known(name)}
    reals = {name: sets for name, sets in found.items() if not _known(name)}
    n_sets, n_real = (len(next(iter(part.values()))) for part in (simulated, reals))
    return f"""## Calibration of cluster probabilities

{"; ".join(machine())}

{n_sets} tables of {LEAVES} rows for each simulated scenario, {n_real} of {REAL_LEAVES} rows for
each real one (equally many of each class, columns standardised), seed {SEED}.
BP and AU: average linkage, {RESAMPLES} resamples at each of ten scales;
clusters that are not in the tree have probability 0, and so has AU where it is not defined (two
columns). Mean CPU time per table: {taken} (BP and AU together). Errors are standard errors over
tables.

**Brier score**: the sum over clusters of (probability - truth)^2, divided by the number of true
clusters (in noise, where there are none, the sum itself). Less is better.

{_scores(found, "brier")}
**Log score**: the same with -log of the probability of what is true, probabilities kept within
{CLIP:g} and {1 - CLIP:g}. In noise a posterior over trees of {LEAVES} rows cannot do better than
about {LEAVES - 2}, since every tree has {LEAVES - 2} clusters; BP and AU leave most clusters out.

{_scores(found, "log_score")}
**False clusters at {SURE:g}** per table.

{_scores(found, "false_sure")}
**True clusters at {SURE:g}** per table.

{_scores(found, "true_sure")}
**Reliability**, simulated tables: mean probability, share of true clusters (number of clusters).

{_reliability(simulated)}
**Reliability**, real tables, for clusters that are a class or cross one.

{_reliability(reals)}
**Tables of fewer than ten columns** together.

{_narrow(found)}
{_edges(at_edges, fits)}"""


def _known(name: str) -> bool:
    return name.startswith(("groups", "noise", "drawn"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", type=int)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    n_sets, n_real = (options.sets or SETS), (options.sets or REAL_SETS)
    n_edge, n_large = (options.sets or EDGE_SETS), (min(options.sets or LARGE_SETS, LARGE_SETS))
    with ProcessPoolExecutor(options.workers) as pool:
        found = _run(pool, scenarios(n_sets, n_real, options.data), SEED)
        at_edges = _run(pool, edges(n_edge, n_large), SEED + 1_000_000)
        kinds = [(n, apart) for n in TIMED_LEAVES for apart in (0.0, 2.0)]
        fits = dict(zip(kinds, pool.map(fit_seconds, *zip(*kinds, strict=True)), strict=True))
    text = report(found, at_edges, fits)
    if options.sets is None:
        write_section("calibration", text)
    else:
        print(text)


def _run(
    pool: ProcessPoolExecutor, todo: list[Scenario], seed: int
) -> dict[str, list[dict[str, Score]]]:
    found = {}
    for k, (name, make, size) in enumerate(todo):
        began = time.perf_counter()
        seeds = [seed + 10_000 * k + i for i in range(size)]
        found[name] = list(pool.map(partial(one_set, make), seeds))
        means = ", ".join(f"{m} {np.mean([s[m].brier for s in found[name]]):.2f}" for m in METHODS)
        log(f"{name}: {means} ({time.perf_counter() - began:.0f} s)")
    return found


if __name__ == "__main__":
    main()
