"""Speed of batches: jets per second, and what a second worker gains.

    python benchmarks/batch.py [--avx2] [--quick]

Kernels are compiled and workers are up before anything is timed, except when a whole process is
timed.
--avx2 measures all of it as on a CPU without AVX-512; --quick only shows that all of it runs, with
few jets and rounds, and records nothing.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np

import exact
import hctrellis as hct
from common import (
    EXPS,
    Targets,
    best_in_turn,
    best_seconds,
    choose_section,
    exps,
    log,
    machine,
    numpy_exps,
    run_python,
    table,
    write_section,
    yardstick_fact,
)
from exact import scalar_run, threads_fact
from hctrellis.batch.lanes import solve_jets
from hctrellis.clusters import n_splits
from hctrellis.simulate import Jets, ginkgo
from hctrellis.support.threads import default_threads

try:
    import fastjet
except ImportError:  # an extra, `jets`; its rows are then left out
    fastjet = None

RATES = {"lam": 1.5, "t_cut": 16.0}
SIZES = (5, 8, 10, 12)
BESIDE_SIZE = 10  # leaves of the jets on which other programs are timed
LOOP = 500  # of them go through slow loops
ONE_SIZE = 5000  # jets of equal size
MANY = 50_000  # jets of 5 to 10 leaves
FILE = 5000
WARM = 200
ROUNDS = 10


@dataclass(frozen=True)
class Gain:
    """Seconds of one worker and of two, for the same jets."""

    name: str
    n_jets: int
    one: float
    two: float

    @property
    def ratio(self) -> float:
        return self.one / self.two


def infer(jets: Jets, scheduler: object = "serial", workers: int | None = None) -> hct.BatchResult:
    return hct.infer_many(jets, scheduler=scheduler, workers=workers)


def rates() -> dict[int, float]:
    """Jets per second on one core, by the number of leaves."""
    found = {}
    for n in SIZES:
        jets = ginkgo(ONE_SIZE, n_leaves=n, rng=n)
        found[n] = ONE_SIZE / best_seconds(lambda jets=jets: infer(jets), ROUNDS)
        log(f"{n} leaves: {found[n]:,.0f} jets per second")
    return found


BESIDE = {
    "exp": "exp of as many numbers as there are pairs",
    "np.exp": "np.exp of as many, as it is here",
    "ours": "side by side: from momenta to log Z, MAP value and tree",
    "whole": "`infer_many`: from an Awkward array to its table",
    "kernel": "a scalar kernel, nothing else",
    "loop": "the same in a loop over jets, from momenta",
    "infer": "`infer` in a loop over jets",
    "fastjet": "fastjet: an Awkward array, all jets in one call",
    "fastjet_loop": "fastjet: a loop over jets, from momenta",
}


@dataclass(frozen=True)
class Beside:
    """What one jet of `BESIDE_SIZE` leaves costs, on one core: seconds of each of `BESIDE`."""

    seconds: dict[str, float]

    def ratio(self, one: str, other: str) -> float:
        return self.seconds[one] / self.seconds[other]

    def rows(self) -> list[list[str]]:
        return [
            [text, f"{1e6 * self.seconds[name]:.1f}", f"{self.ratio(name, 'ours'):.2f}"]
            for name, text in BESIDE.items()
            if name in self.seconds
        ]


def beside() -> Beside:
    """What one jet costs here and elsewhere; fastjet clusters it greedily."""
    jets = ginkgo(ONE_SIZE, n_leaves=BESIDE_SIZE, rng=BESIDE_SIZE)
    momenta = jets.momenta.reshape(ONE_SIZE, BESIDE_SIZE, 4)
    some = momenta[:LOOP]
    events = jets.to_awkward()

    def each(function: Callable[[np.ndarray], object]) -> Callable[[], object]:
        return lambda: [function(jet) for jet in some]

    runs: dict[str, tuple[Callable[[], object], float]] = {  # and of how many jets
        "exp": (exps(), EXPS / n_splits(BESIDE_SIZE)),
        "np.exp": (numpy_exps(), EXPS / n_splits(BESIDE_SIZE)),
        "ours": (lambda: solve_jets(hct.Ginkgo, momenta, RATES), ONE_SIZE),
        "whole": (lambda: hct.infer_many(events, "ginkgo", scheduler="serial", **RATES), ONE_SIZE),
        "kernel": (scalar_run(hct.Ginkgo(some[0], **RATES)), 1),
        "loop": (each(lambda jet: scalar_run(hct.Ginkgo(jet, **RATES))()), LOOP),
        "infer": (each(lambda jet: hct.infer(hct.Ginkgo(jet, **RATES)).map_tree), LOOP),
    }
    if fastjet is None:
        log("fastjet is not installed: its rows are left out")
    else:
        definition = fastjet.JetDefinition(fastjet.cambridge_algorithm, 1.0)

        def cluster(jet: np.ndarray) -> object:
            particles = [fastjet.PseudoJet(px, py, pz, e) for e, px, py, pz in jet.tolist()]
            return fastjet.ClusterSequence(particles, definition).inclusive_jets()

        whole = lambda: fastjet.ClusterSequence(events, definition).inclusive_jets()  # noqa: E731
        runs |= {"fastjet": (whole, ONE_SIZE), "fastjet_loop": (each(cluster), LOOP)}
    times = best_in_turn([run for run, _jets in runs.values()], ROUNDS)
    each_jet = zip(runs, times, (jets for _run, jets in runs.values()), strict=True)
    found = Beside({name: seconds / jets for name, seconds, jets in each_jet})
    log(f"{BESIDE_SIZE} leaves: {found}")
    return found


def beside_targets(targets: Targets, found: Beside) -> None:
    name = f"{BESIDE_SIZE}-leaf jets, one core"
    targets.at_most(f"{name}: log Z and MAP / exp per pair", 0.75, found.ratio("ours", "exp"))
    numpy = found.ratio("ours", "np.exp")
    targets.at_most("the same / np.exp as it is here", 0.75, numpy)
    gain = found.ratio("loop", "ours")
    targets.at_least(f"{name}: scalar kernel in a loop / side by side", 10, gain)
    if fastjet is not None:
        what = f"{name}: `infer_many` / fastjet from Python, jet by jet"
        targets.at_most(what, 2.5, found.ratio("whole", "fastjet_loop"))


def gain(name: str, one: Callable[[Jets], object], two: Callable[[Jets], object]) -> Gain:
    """The times of one worker and of two; both are warm before they are timed."""
    jets = ginkgo(MANY, n_leaves=(5, 10), rng=1)
    for run in (one, two):
        run(jets[:WARM])
    found = Gain(name, MANY, *best_in_turn([lambda: one(jets), lambda: two(jets)], ROUNDS))
    log(f"{name}: {found.two:.2f} s; one: {found.one:.2f} s")
    return found


def local_gain(scheduler: str) -> Gain:
    one, two = (lambda jets, w=workers: infer(jets, scheduler, w) for workers in (1, 2))
    return gain(f"two {scheduler}", one, two)


def cluster_gain() -> Gain:
    """A cluster of two workers, and the same while all work goes to one of them."""
    from distributed import Client, LocalCluster

    class OfOneWorker(Client):
        worker = ""

        def nthreads(self) -> dict[str, int]:
            return {self.worker: super().nthreads()[self.worker]}

        def submit(self, *arguments: object, **options: object) -> object:
            return super().submit(*arguments, workers=[self.worker], **options)

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(**options) as cluster, Client(cluster) as two, OfOneWorker(cluster) as one:
        two.wait_for_workers(2)
        one.worker, _other = two.run(infer, ginkgo(WARM, n_leaves=(5, 10), rng=1))
        runs = (lambda jets, c=client: infer(jets, c) for client in (one, two))
        return gain("Dask LocalCluster, two workers", *runs)


def from_file_to_parquet() -> float:
    """Seconds of the whole command line."""
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder, "jets.parquet"), Path(folder, "results")
        ginkgo(FILE, n_leaves=(5, 10), rng=1).to_parquet(path)
        options = ["--lam", str(RATES["lam"]), "--t-cut", str(RATES["t_cut"]), "--overwrite"]
        command = ["-m", "hctrellis", "batch", str(path), *options, "-o", str(out)]
        run_python(*command)
        return best_seconds(lambda: run_python(*command))


CLIFF_SIZES = (16, 18)  # leaves of the jet whose entropy is timed
TRUE_TREES = 20_000
W_JETS = 500


QUICK = {
    "ONE_SIZE": 100,
    "LOOP": 20,
    "MANY": 2000,
    "FILE": 100,
    "ROUNDS": 1,
    "CLIFF_SIZES": (8,),
    "TRUE_TREES": 200,
    "W_JETS": 20,
    "FEW_FUNCTIONS": 1,
    "MANY_FUNCTIONS": 2,
}


def cpu_seconds(function: Callable[[], object], rounds: int = 3) -> float:
    """The least CPU time of several calls, after one that compiles; or its own."""
    times = []
    for _ in range(1 + rounds):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def cliff_models(n: int) -> dict[str, hct.Potential]:
    """Every kind of model, over n leaves."""
    rng = np.random.default_rng(n)
    points, signed = rng.normal(size=(n, 3)), rng.normal(size=(n, n))
    linkages = ("average", "centroid", "ward", "single", "complete")
    jet = ginkgo(1, n_leaves=n, t_cut=4.0, rng=n)[0].momenta
    rates = {"lam": 1.5, "t_cut": 4.0}
    return {
        "Ginkgo": hct.Ginkgo(jet, **rates),
        "Ginkgo, non-stop": hct.Ginkgo(jet, non_stop=True, **rates),
        "GinkgoDensity": hct.GinkgoDensity(jet, **rates),
        "JetMass": hct.JetMass(jet, lam=1.5),
        "BetaSplitting": hct.BetaSplitting(n, 0.0),
        **{method: hct.Linkage(points, method) for method in linkages},
        "Dasgupta": hct.Dasgupta(np.abs(signed + signed.T)),
        "correlation clustering": hct.CorrelationClustering(signed + signed.T),
    }


def cliff_targets(targets: Targets) -> None:
    """What is asked for beside the inference costs no more than a few times as much."""
    for n in CLIFF_SIZES:
        for name, model in cliff_models(n).items():
            plain = cpu_seconds(lambda model=model: hct.infer(model, threads=1), 4)
            both = cpu_seconds(lambda model=model: hct.infer(model, threads=1).entropy, 3)
            ratio = (both - plain) / plain
            targets.at_most(f"{name}, {n} leaves: entropy / inference, CPU", 3, ratio)
            log(f"{name}, {n} leaves: entropy takes {ratio:.2f} of inference")
    jets = ginkgo(TRUE_TREES, n_leaves=(5, 10), rng=1)
    trees = jets.newicks()
    without = cpu_seconds(lambda: infer(jets))
    with_trees = cpu_seconds(lambda: hct.infer_many(jets, true_trees=trees, scheduler="serial"))
    name = f"{TRUE_TREES:,} jets: with the weights of true trees / without, CPU"
    targets.at_most(name, 2, with_trees / without)
    log(f"{name}: {with_trees:.2f} s / {without:.2f} s")
    some = ginkgo(W_JETS, "w", n_leaves=(2, 19), rng=1)

    def one_by_one(jets: Jets) -> object:
        return [hct.infer(jet.potential(), threads=1).map_tree for jet in jets]

    for run in (infer, one_by_one):
        run(some[:20])  # compiles
    batch, loop = (cpu_seconds(lambda f=f: f(some), 0) for f in (infer, one_by_one))
    name = f"{W_JETS} W jets of 2 to 19 leaves: `infer_many` / `infer` in a loop, CPU"
    targets.at_most(name, 1, batch / loop)
    log(f"{name}: {batch:.1f} s / {loop:.1f} s")


FUNCTIONS = """
import gc, sys
import numba, numpy as np
import hctrellis as hct

def make(i):
    slope = 0.1 + 0.01 * i
    @numba.njit
    def weigh(left, right, parent):
        return -slope * (left[0] - right[0]) ** 2 - np.log(parent[1])
    return weigh

def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024

few, many = int(sys.argv[1]), int(sys.argv[2])
leaves = np.random.default_rng(0).normal(size=(8, 2)) ** 2
for i in range(many):
    hct.infer(hct.FunctionPotential(make(i), leaves), threads=1).map_tree
    if i + 1 in (few, many):
        gc.collect()
        print(resident())
"""
FEW_FUNCTIONS, MANY_FUNCTIONS = 4, 14


def function_targets(targets: Targets) -> None:
    """What each of many compiled functions leaves in memory, when it was used and forgotten."""
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, NUMBA_CACHE_DIR=folder):
        for how in ("compiled", "taken from disk"):
            command = ["-c", FUNCTIONS, str(FEW_FUNCTIONS), str(MANY_FUNCTIONS)]
            few, many = map(float, run_python(*command).split())
            each = (many - few) / (MANY_FUNCTIONS - FEW_FUNCTIONS)
            name = f"functions {FEW_FUNCTIONS} to {MANY_FUNCTIONS}, {how}, used and forgotten"
            targets.at_most(f"{name}: memory that each leaves", 6, each, " MB")
            log(f"{name}: {each:.2f} MB each")


def gains() -> Iterator[Gain]:
    yield local_gain("threads")
    yield local_gain("processes")
    yield cluster_gain()


def measure() -> str:
    """Run everything and return the section of the results."""
    targets = Targets()
    others = beside()
    beside_targets(targets, others)
    cliff_targets(targets)
    speeds = rates()
    found = list(gains())
    if default_threads() >= 2:
        local = max(gain.ratio for gain in found[:2])
        targets.at_least("two processes or threads against one", 1.7, local)
        targets.at_least(f"two Dask workers against one, {MANY:,} jets", 1.5, found[2].ratio)
    command = from_file_to_parquet()
    targets.at_most(f"{FILE:,} jets of 5 to 10 leaves, from file to Parquet", 10, command, " s")
    function_targets(targets)
    return section(targets, others, speeds, found)


def section(targets: Targets, others: Beside, speeds: dict[int, float], found: list[Gain]) -> str:
    speed_rows = [[str(n), f"{speed:,.0f}", f"{1e6 / speed:.1f}"] for n, speed in speeds.items()]
    gain_rows = [
        [g.name, f"{g.n_jets:,}", f"{g.one:.2f}", f"{g.two:.2f}", f"{g.ratio:.2f}"] for g in found
    ]
    return "\n".join(
        [
            "`python benchmarks/batch.py` (`--avx2` as on a CPU without AVX-512): many jets "
            "(Ginkgo, lam 1.5, t_cut 16): log Z, MAP tree as Newick, number of trees. What is "
            "compared is timed in rounds; the best counts.\n",
            *(f"- {fact}" for fact in (*machine(), yardstick_fact(), threads_fact())),
            "\n### Targets\n",
            targets.table(),
            f"### One jet of {BESIDE_SIZE} leaves, one core\n",
            table(["", "microseconds", "/ side by side"], others.rows()),
            "### One core, `infer_many`\n",
            table(["leaves", "jets per second", "microseconds per jet"], speed_rows),
            "### Two workers, jets of 5 to 10 leaves\n",
            table(["workers", "jets", "one: seconds", "two: seconds", "ratio"], gain_rows),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--avx2", action="store_true", help="as on a CPU without AVX-512")
    parser.add_argument("--quick", action="store_true", help="see that it runs; record nothing")
    options = parser.parse_args()
    if options.quick:
        globals().update(QUICK)
        exact.ROUNDS = 1
        print(measure())
        return
    name = choose_section("batch", options.avx2)
    text = f"## {name}\n\n{measure()}"
    write_section(name, text)
    print(text)


if __name__ == "__main__":
    main()
