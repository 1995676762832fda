"""Proven best trees beyond the full trellis: how many, in what time, and what others cost there.

python benchmarks/certified.py --data FOLDER   writes the section "certified" of RESULTS.md, anew
    after every family of problems
python benchmarks/certified.py --only mixtures --problems 2   a part of it; writes nothing

Times are CPU seconds of one core, local search and bounds included, compiling excluded. The data
folder holds aloi_cc.json and pam50_unc232.csv; without it their rows are left out.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import pdist, squareform
from sklearn.datasets import load_iris, load_wine

import hctrellis as hct
from common import Targets, log, machine, table, write_section
from hctrellis.certify import solve

LIMIT = 60.0  # CPU seconds
SHORT_LIMIT = 20.0  # where only a gap is expected
PROBLEMS = 10
ALOI_SIZES = (20, 30, 40, 50, 60)


class Family(NamedTuple):
    """Problems of one kind and size.

    Attributes
    ----------
    name : str
    n_leaves : int
    limit : float
        CPU seconds.
    potentials : iterator of Potential
    share, seconds : float or None
        What is aimed at: this share of problems, in this time at most.
    """

    name: str
    n_leaves: int
    limit: float
    potentials: Callable[[int], Iterator[hct.Potential]]
    share: float | None
    seconds: float | None


class Outcome(NamedTuple):
    """What came of one problem."""

    potential: hct.Potential
    result: hct.MapResult
    seconds: float


# ---- problems ----------------------------------------------------------------------------------


def gaussian(points: np.ndarray) -> hct.Dasgupta:
    """exp(-d^2 / median d^2), d the Euclidean distance."""
    squares = squareform(pdist(points, "sqeuclidean"))
    return hct.Dasgupta(np.exp(-squares / np.median(squareform(squares))))


def mixture(n: int, seed: int, spread: float = 1.5) -> np.ndarray:
    """Points of four normal distributions in the plane; they overlap if the spread is small."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(4, 2)) * spread
    return centres[rng.integers(4, size=n)] + rng.normal(size=(n, 2))


def subsamples(rows: np.ndarray, n: int) -> Callable[[int], Iterator[hct.Potential]]:
    def make(count: int) -> Iterator[hct.Potential]:
        for seed in range(count):
            chosen = np.random.default_rng(seed).choice(len(rows), n, replace=False)
            yield gaussian(rows[chosen])

    return make


def standardised(rows: np.ndarray) -> np.ndarray:
    return np.asarray((rows - rows.mean(axis=0)) / rows.std(axis=0))


def expression(folder: Path) -> np.ndarray:
    """232 samples of 50 genes; missing values are 0."""
    with (folder / "pam50_unc232.csv").open() as file:
        rows = [row[2:] for row in csv.reader(file)][1:]
    return np.array([[float(cell) if cell else 0.0 for cell in row] for row in rows])


def image_graphs(folder: Path, n: int) -> Iterator[hct.Potential]:
    for graph in json.loads((folder / "aloi_cc.json").read_text())["graphs"][str(n)]:
        yield hct.CorrelationClustering(squareform(np.array(graph["weights"], float)))


def sparse_graph(n: int, seed: int) -> hct.Dasgupta:
    """Each point and its four nearest neighbours."""
    distances = squareform(pdist(np.random.default_rng(seed).normal(size=(n, 2))))
    near = np.argsort(np.argsort(distances, axis=1), axis=1) <= 4
    return hct.Dasgupta(np.where(near | near.T, np.exp(-distances), 0.0))


def signs(n: int, seed: int) -> hct.CorrelationClustering:
    affinity = np.random.default_rng(seed).normal(size=(n, n))
    return hct.CorrelationClustering(np.tril(affinity, -1) + np.tril(affinity, -1).T)


def seeded(make: Callable[[int], hct.Potential]) -> Callable[[int], Iterator[hct.Potential]]:
    return lambda count: map(make, range(count))


def families(folder: Path | None) -> list[Family]:
    found = []
    tables = {"wine": standardised(load_wine().data), "iris": standardised(load_iris().data)}
    if folder is not None:
        for n in ALOI_SIZES:
            graphs = lambda count, n=n: image_graphs(folder, n)  # noqa: E731
            found.append(Family("correlation, image graphs", n, LIMIT, graphs, 1.0, 10.0))
        tables = {"gene expression": expression(folder), **tables}
    for name, rows in tables.items():
        found.append(Family(f"Dasgupta, {name}", 30, LIMIT, subsamples(rows, 30), 1.0, 5.0))
        found.append(Family(f"Dasgupta, {name}", 50, LIMIT, subsamples(rows, 50), 0.8, LIMIT))
    for n, share in ((30, 1.0), (40, 0.7)):
        make = seeded(lambda seed, n=n: gaussian(mixture(n, seed)))
        found.append(Family("Dasgupta, overlapping mixtures", n, LIMIT, make, share, LIMIT))
    uniform = seeded(lambda seed: gaussian(np.random.default_rng(seed).uniform(size=(28, 2))))
    found.append(Family("Dasgupta, structureless", 28, LIMIT, uniform, 1.0, LIMIT))
    knn = seeded(lambda seed: sparse_graph(30, seed))
    found.append(Family("Dasgupta, nearest neighbours", 30, LIMIT, knn, None, None))
    random = seeded(lambda seed: signs(30, seed))
    found.append(Family("correlation, random", 30, LIMIT, random, None, None))
    apart = seeded(lambda seed: hct.Linkage(mixture(25, seed, spread=8.0), "average"))
    found.append(Family("average heights, well separated", 25, LIMIT, apart, 1.0, LIMIT))
    for n, spread in ((25, 1.5), (40, 8.0)):
        make = seeded(lambda seed, n=n, s=spread: hct.Linkage(mixture(n, seed, s), "average"))
        kind = "overlapping" if spread < 2 else "well separated"
        found.append(Family(f"average heights, {kind}", n, SHORT_LIMIT, make, None, None))
    return found


# ---- measuring ---------------------------------------------------------------------------------


def solved(potential: hct.Potential, limit: float) -> Outcome:
    began = time.process_time()
    result = hct.solve_map(potential, time_limit=limit)
    return Outcome(potential, result, time.process_time() - began)


def run(family: Family, count: int) -> list[Outcome]:
    outcomes = []
    for potential in family.potentials(count):
        outcomes.append(solved(potential, family.limit))
        last = outcomes[-1]
        log(f"{family.name}, {family.n_leaves}: {last.result}, {last.seconds:.2f} s")
    return outcomes


def shown(family: Family, outcomes: list[Outcome]) -> list[str]:
    seconds = sorted(outcome.seconds for outcome in outcomes)
    proven = sum(outcome.result.status == "optimal" for outcome in outcomes)
    gaps = [100 * (outcome.result.gap or 0.0) for outcome in outcomes]
    return [
        family.name,
        str(family.n_leaves),
        f"{proven} of {len(outcomes)}",
        f"{np.median(seconds):.2f}",
        f"{seconds[-1]:.2f}",
        f"{max(gaps):.2f}%" if proven < len(outcomes) else "",
    ]


def check_targets(family: Family, outcomes: list[Outcome], targets: Targets) -> None:
    if family.share is None or family.seconds is None:
        return
    proven = [
        outcome.result.status == "optimal" and outcome.seconds <= family.seconds
        for outcome in outcomes
    ]
    what = f"{family.name}, {family.n_leaves} leaves: proven in {family.seconds:g} s"
    targets.at_least(what, 100 * family.share, 100 * sum(proven) / len(proven), "%")


# ---- what others cost --------------------------------------------------------------------------


def average_tree(potential: hct.Dasgupta) -> hct.Tree:
    """Average linkage of the largest similarity less the similarity."""
    distances = potential.similarity.max() - potential.similarity
    np.fill_diagonal(distances, 0.0)
    merges = linkage(squareform(distances, checks=False), "average")
    return hct.Tree.from_linkage(merges, labels=potential.labels)


def divided(potential: hct.Dasgupta, cut: Callable[[np.ndarray], np.ndarray]) -> hct.Tree:
    """Divide clusters again and again; cut(similarities) tells which leaves go to the left."""

    def nested(leaves: np.ndarray) -> object:
        if len(leaves) == 1:
            return int(leaves[0])
        left = cut(potential.similarity[np.ix_(leaves, leaves)])
        return nested(leaves[left]), nested(leaves[~left])

    pairs = nested(np.arange(potential.n_leaves))
    return hct.Tree.from_nested(pairs, labels=potential.labels)


def fiedler(similarity: np.ndarray) -> np.ndarray:
    """The leaves in the order of the second eigenvector of the normalised Laplacian."""
    degrees = np.maximum(similarity.sum(axis=1), 1e-12)
    scale = 1 / np.sqrt(degrees)
    laplacian = np.eye(len(similarity)) - scale[:, None] * similarity * scale
    return np.argsort(np.linalg.eigh(laplacian)[1][:, 1] * scale)


def sparsest(similarity: np.ndarray) -> np.ndarray:
    """The sparsest cut, w(L, R) / (|L| |R|), among those of the spectral order."""
    order, n = fiedler(similarity), len(similarity)
    sorted_pairs = similarity[np.ix_(order, order)]
    across = [sorted_pairs[:k, k:].sum() / (k * (n - k)) for k in range(1, n)]
    left = np.zeros(n, bool)
    left[order[: 1 + int(np.argmin(across))]] = True
    return left


def bisected(similarity: np.ndarray) -> np.ndarray:
    """Two halves of the spectral order."""
    left = np.zeros(len(similarity), bool)
    left[fiedler(similarity)[: len(similarity) // 2]] = True
    return left


OTHERS: dict[str, Callable[[hct.Dasgupta], hct.Tree]] = {
    "average linkage": average_tree,
    "recursive sparsest cut": lambda potential: divided(potential, sparsest),
    "recursive bisection": lambda potential: divided(potential, bisected),
    "greedy": hct.greedy,
    "local search": lambda potential: hct.local_search(potential, rng=0).tree,
}


def compared(family: Family, outcomes: list[Outcome]) -> list[str]:
    """Mean and greatest cost over the proven optimum, of each way."""
    proven = [outcome for outcome in outcomes if outcome.result.status == "optimal"]
    row = [family.name, str(family.n_leaves), str(len(proven))]
    for make in OTHERS.values():
        ratios = [
            each.potential.log_weight(make(each.potential)) / each.result.log_weight
            for each in proven
            if isinstance(each.potential, hct.Dasgupta)
        ]
        row.append(f"{np.mean(ratios):.4f} ({max(ratios):.4f})")
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="the folder of aloi_cc.json and pam50_unc232.csv")
    parser.add_argument("--problems", type=int, default=PROBLEMS, help="of each family")
    parser.add_argument("--limit", type=float, default=LIMIT, help="CPU seconds, at most")
    parser.add_argument("--only", help="only families with this in their names; writes nothing")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    solve.perf_counter = time.process_time  # one core's work, whatever else the machine does
    solved(gaussian(mixture(12, 0)), 1.0)
    chosen = [f for f in families(options.data) if (options.only or "") in f.name]
    rows, others, targets = [], [], Targets()
    for family in chosen:
        outcomes = run(family._replace(limit=min(family.limit, options.limit)), options.problems)
        rows.append(shown(family, outcomes))
        check_targets(family, outcomes, targets)
        if family.name.startswith("Dasgupta") and any(
            outcome.result.status == "optimal" for outcome in outcomes
        ):
            others.append(compared(family, outcomes))
        text = report(rows, others, targets, options)
        if options.only is None:
            write_section("certified", text)
    if options.only is not None:
        print(text)


def report(
    rows: list[list[str]], others: list[list[str]], targets: Targets, options: argparse.Namespace
) -> str:
    limit = options.limit
    columns = ["problems", "leaves", "proven", "median s", "longest s", "largest gap"]
    facts = "\n".join(f"- {fact}" for fact in machine())
    return "\n".join(
        [
            "## Proven best trees",
            "",
            f"`python benchmarks/certified.py --data FOLDER --problems {options.problems} "
            f"--limit {limit:g}`",
            "",
            facts,
            "",
            "CPU seconds of one core, local search and bounds included, compiling excluded; "
            f"{limit:g} s at most ({min(limit, SHORT_LIMIT):g} s where only a gap is expected).",
            "",
            table(columns, rows),
            "",
            targets.table(),
            "",
            "Dasgupta's cost of what people use, over the proven optimum of the same graphs: mean "
            "(greatest). Sparsest cuts and bisections are those of the spectral order. Integer "
            "programs have been published for some tens of leaves, with commercial solvers.",
            "",
            table(["problems", "leaves", "graphs", *OTHERS], others) if others else "",
        ]
    )


if __name__ == "__main__":
    main()
