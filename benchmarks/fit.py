"""Fits of shower rates: are they right, are their errors, how long do they take; gradients' cost.

python benchmarks/fit.py           writes the section "fit" of RESULTS.md: times, and other forms
python benchmarks/fit.py --pulls   writes the section "pulls": pseudo-experiments
python benchmarks/fit.py --small   a few of each; writes nothing
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

import hctrellis as hct
from common import Targets, log, machine, table, write_section

EXPERIMENTS, SMALL_EXPERIMENTS = 100, 10
JETS = 300
MANY_JETS = 3000
GRADIENT_LEAVES, SMALL_LEAVES = 18, 14
STEP_LEAVES, STEP_MATRICES = 12, 32
ROUNDS = 3


class Pulls(NamedTuple):
    """Of many pseudo-experiments: (estimate - truth) / error, and how often intervals hold it."""

    what: str
    pulls: np.ndarray
    covered: float


def experiments(
    what: str, preset: str, t_cut: float, number: int, **options: object
) -> list[Pulls]:
    """Pseudo-experiments of `JETS` jets each."""
    truth = {"lam": 1.5} | ({"lam_root": 3.0} if preset == "w" else {})
    pulls: dict[str, list[float]] = {name: [] for name in truth}
    covered = dict.fromkeys(truth, 0)
    for seed in range(number):
        jets = hct.simulate.ginkgo(JETS, preset, t_cut=t_cut, rng=10_000 + seed)
        found = hct.fit(hct.GinkgoDensity, jets, **dict.fromkeys(truth, 1.0), **options)
        for name, value in truth.items():
            pulls[name].append((found[name].value - value) / found[name].error)
            low, high, *_ = found.interval(name)
            covered[name] += low < value < high
    return [
        Pulls(f"{what}: {name}", np.array(pulls[name]), covered[name] / number) for name in truth
    ]


def timed_fit() -> tuple[hct.Fit, float, float]:
    """A fit of many jets with its interval, compiled before; seconds by the clock and of CPU."""
    jets = hct.simulate.ginkgo(MANY_JETS, t_cut=16, rng=1)
    hct.NegativeLogLikelihood(hct.GinkgoDensity, jets)(1.0)
    start, cpu = time.perf_counter(), time.process_time()
    found = hct.fit(hct.GinkgoDensity, jets, lam=1.0)
    found.interval("lam")
    return found, time.perf_counter() - start, time.process_time() - cpu


def other_forms() -> list[list[str]]:
    """What forms that are no densities say of the same jets."""
    jets = hct.simulate.ginkgo(MANY_JETS, t_cut=64, rng=1)
    some = jets[(jets.n_leaves >= 3) & (jets.n_leaves <= 5)]
    fits: dict[str, Callable[[], hct.Fit]] = {
        "GinkgoDensity": lambda: hct.fit(hct.GinkgoDensity, jets),
        "GinkgoDensity, 3 to 5 particles, corrected": lambda: hct.fit(
            hct.GinkgoDensity, jets, n_leaves=(3, 5)
        ),
        "GinkgoDensity, 3 to 5 particles, not corrected": lambda: hct.fit(hct.GinkgoDensity, some),
        "Ginkgo": lambda: hct.fit(hct.Ginkgo, jets),
        "Ginkgo, non_stop": lambda: hct.fit(hct.Ginkgo, jets, non_stop=True),
        "JetMass": lambda: hct.fit(hct.JetMass, jets),
    }
    rows = []
    for name, make in fits.items():
        value, error, at_bound = make()["lam"]
        far = "at its bound" if at_bound else f"{abs(value - 1.5) / error:.1f}"
        rows.append([name, f"{value:.3f}", f"{error:.3f}", far])
    return rows


def training_steps() -> list[list[str]]:
    """A step of training: log Z of a stack of matrices and its derivatives, compiled before."""
    import torch

    from hctrellis.torch import log_partition

    rng = np.random.default_rng(1)
    rows = []
    for model in ("dasgupta", "average", "correlation"):
        shift = 1.0 if model == "correlation" else 0.0
        shape = (STEP_MATRICES, STEP_LEAVES, STEP_LEAVES)
        w = torch.tensor(2 * rng.random(shape) - shift, requires_grad=True)
        times = []
        for _ in range(2 + ROUNDS):
            clock = np.array([time.perf_counter(), time.process_time()])
            log_partition(w, model, 0.5).sum().backward()
            times.append(np.array([time.perf_counter(), time.process_time()]) - clock)
        wall, cpu = np.median(times[2:], axis=0)
        log(f"a step of training, {model}: {wall:.3f} s, {cpu:.3f} s of CPU")
        rows.append([model, f"{wall:.3f}", f"{cpu:.3f}"])
    return rows


def gradient_costs(n: int) -> list[list[str]]:
    """CPU time of upward pass, marginals and gradient of models over n leaves, one thread."""
    rng = np.random.default_rng(1)
    points, square = rng.normal(size=(n, 2)), np.abs(rng.normal(size=(n, n)))
    jet = hct.simulate.ginkgo(1, t_cut=4, n_leaves=n, rng=1)[0].momenta
    models = {
        "Dasgupta, beta and similarities": hct.Dasgupta(square + square.T, 0.02),
        "CorrelationClustering, beta and affinities": hct.CorrelationClustering(
            square + square.T - 2, 0.3
        ),
        "Linkage, average, beta and distances": hct.Linkage(points, "average", 2.0),
        "the same + BetaSplitting, and shape": hct.Linkage(points, "average", 2.0)
        + hct.BetaSplitting(n, 1.0),
        **{
            f"Linkage, {method}, beta": hct.Linkage(points, method, 2.0)
            for method in ("ward", "centroid", "single", "complete")
        },
        "Ginkgo, lam and lam_root": hct.Ginkgo(jet, 1.5, 4.0, 3.0),
        "Ginkgo, non-stop, lam": hct.Ginkgo(jet, 1.5, 4.0, non_stop=True),
        "GinkgoDensity, lam": hct.GinkgoDensity(jet, 1.5, 4.0),
        "JetMass, lam": hct.JetMass(jet, 1.5),
        "BetaSplitting, shape": hct.BetaSplitting(n, 1.0),
        "contrasts, sigma, tau, gamma and nu": hct.Contrasts(
            points, sigma=0.5, tau=1.0, gamma=1.0, nu=6.0, columns=2.0
        ),
    }
    rows = []
    for name, model in models.items():
        measured = []
        for _ in range(1 + ROUNDS):
            clock = [time.process_time()]
            post = hct.infer(model, threads=1)
            clock.append(time.process_time())
            post.cluster_probabilities()
            clock.append(time.process_time())
            post.gradient()
            clock.append(time.process_time())
            hct.infer(model, threads=1).gradient()
            measured.append(np.diff([*clock, time.process_time()]))
        up, down, more, fresh = np.min(measured[1:], axis=0)
        log(f"{name}: {up:.3f} {down:.3f} {more:.3f} {fresh:.3f}")
        rows.append(
            [
                name,
                *(f"{seconds:.3f}" for seconds in (up, down, more, fresh)),
                f"{fresh / (up + down):.2f}",
                f"{(up + down + more) / (up + down):.2f}",
            ]
        )
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pulls", action="store_true", help="pseudo-experiments instead of times")
    parser.add_argument("--small", action="store_true", help="a few of each; writes nothing")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")  # of forms that are no densities
    text = ""
    if options.pulls or options.small:
        text = show_pulls(SMALL_EXPERIMENTS if options.small else EXPERIMENTS)
        if not options.small:
            write_section("pulls", text)
            return 0
    times = show_times(SMALL_LEAVES if options.small else GRADIENT_LEAVES)
    if options.small:
        print(text + times)
    else:
        write_section("fit", times)
    return 0


def show_pulls(number: int) -> str:
    pulls = experiments("QCD jets, t_cut 30", "qcd", 30.0, number)
    pulls += experiments("W jets, t_cut 150", "w", 150.0, number)
    pulls += experiments("QCD jets, t_cut 64, 3 to 5 kept", "qcd", 64.0, number, n_leaves=(3, 5))
    targets = Targets()
    for each in pulls:
        targets.at_most(f"{each.what}, size of the mean of pulls", 0.2, abs(each.pulls.mean()))
        width = float(each.pulls.std(ddof=1))
        targets.at_most(f"{each.what}, width of pulls less 1", 0.15, abs(width - 1))
    size = math.sqrt(number)
    rows = [
        [
            each.what,
            f"{each.pulls.mean():+.2f} +- {1 / size:.2f}",
            f"{each.pulls.std(ddof=1):.2f} +- {1 / (math.sqrt(2) * size):.2f}",
            f"{each.covered:.0%}",
        ]
        for each in pulls
    ]
    return "\n".join(
        [
            "## Pulls of fitted rates",
            "",
            "`python benchmarks/fit.py --pulls`",
            "",
            *[f"- {fact}" for fact in machine()],
            "",
            targets.table(),
            f"{number} pseudo-experiments of {JETS} jets each, lam = 1.5 (and lam_root = 3 of W "
            "jets): (estimate - truth) / error, and how often the profile interval of one standard "
            "deviation (68%) holds the truth.",
            "",
            table(["experiments", "mean of pulls", "width of pulls", "covered"], rows),
        ]
    )


def show_times(leaves: int) -> str:
    found, seconds, cpu = timed_fit()
    log(f"{found}: {seconds:.1f} s, {cpu:.1f} s of CPU")
    steps, costs, forms = training_steps(), gradient_costs(leaves), other_forms()
    targets = Targets()
    targets.at_most(f"estimate and interval of {MANY_JETS} jets, by the clock", 30, seconds, " s")
    targets.at_most("the same, CPU seconds of two cores", 60, cpu, " s")
    worst = max(float(row[1]) for row in steps)
    targets.at_most("a step of training, slowest model, by the clock", 0.3, worst, " s")
    worst = max(float(row[-2]) for row in costs)
    targets.at_most("gradient of new data, in units of marginals of new data", 2, worst)
    worst = max(float(row[-1]) for row in costs)
    targets.at_most("marginals and then a gradient, in the same units", 2, worst)
    return "\n".join(
        [
            "## fit",
            "",
            "`python benchmarks/fit.py`",
            "",
            *[f"- {fact}" for fact in machine()],
            "",
            targets.table(),
            f"The fit of {MANY_JETS} jets (lam = 1.5, t_cut = 16): `{found}`, "
            f"{found.cost.n_evaluations} evaluations with those of the interval.",
            "",
            f"What other forms say of {MANY_JETS} jets with lam = 1.5 (t_cut = 64): only the "
            "density is right, and only if selections are corrected for.",
            "",
            table(["form", "lam", "error", "errors away from 1.5"], forms),
            f"A step of training with `hctrellis.torch`, {STEP_MATRICES} matrices of "
            f"{STEP_LEAVES} leaves: log Z and its derivatives, compiled before; seconds, median of "
            f"{ROUNDS}.",
            "",
            table(["model", "by the clock", "CPU"], steps),
            f"Gradients over {leaves} leaves, seconds of CPU on one thread: upward pass (log Z); "
            "marginals after it; gradient after both; and `infer(model).gradient()` of new data, "
            "which makes only the passes that it needs. The last two columns are in units of "
            "upward pass and marginals, which is what marginals of new data take: the gradient of "
            "new data; and all three, one after the other.",
            "",
            table(
                ["model", "up", "marginals", "gradient", "of new data", "ratio", "ratio, all"],
                costs,
            ),
        ]
    )


if __name__ == "__main__":
    raise SystemExit(main())
