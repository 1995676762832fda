"""Fits of shower rates: are they right, are their errors, how long do they take; gradients' cost.

python benchmarks/fit.py           writes the section "fit" of RESULTS.md
python benchmarks/fit.py --small   ten pseudo-experiments; writes nothing
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
GRADIENT_LEAVES = 18
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
        "Linkage, ward, beta": hct.Linkage(points, "ward", 2.0),
        "Linkage, single, beta": hct.Linkage(points, "single", 2.0),
        "Ginkgo, lam and lam_root": hct.Ginkgo(jet, 1.5, 4.0, 3.0),
        "GinkgoDensity, lam": hct.GinkgoDensity(jet, 1.5, 4.0),
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
            measured.append(np.diff([*clock, time.process_time()]))
        up, down, more = np.min(measured[1:], axis=0)
        log(f"{name}: {up:.3f} {down:.3f} {more:.3f}")
        rows.append(
            [
                name,
                f"{up:.3f}",
                f"{down:.3f}",
                f"{more:.3f}",
                f"{more / down:.2f}",
                f"{(up + down + more) / (up + down):.2f}",
            ]
        )
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="ten experiments; writes nothing")
    small = parser.parse_args(arguments).small
    warnings.simplefilter("ignore")  # of forms that are no densities
    number = SMALL_EXPERIMENTS if small else EXPERIMENTS
    found, seconds, cpu = timed_fit()
    log(f"{found}: {seconds:.1f} s, {cpu:.1f} s of CPU")
    pulls = experiments("QCD jets, t_cut 30", "qcd", 30.0, number)
    pulls += experiments("W jets, t_cut 150", "w", 150.0, number)
    pulls += experiments("QCD jets, t_cut 64, 3 to 5 kept", "qcd", 64.0, number, n_leaves=(3, 5))
    for each in pulls:
        log(f"{each.what}: {each.pulls.mean():.2f}, {each.pulls.std(ddof=1):.2f}, {each.covered}")
    costs = gradient_costs(14 if small else GRADIENT_LEAVES)
    text = show(found, (seconds, cpu), pulls, other_forms(), costs)
    if small:
        print(text)
    else:
        write_section("fit", text)
    return 0


def show(
    found: hct.Fit,
    seconds: tuple[float, float],
    pulls: Sequence[Pulls],
    forms: list[list[str]],
    costs: list[list[str]],
) -> str:
    targets = Targets()
    targets.at_most(
        f"estimate and interval of {MANY_JETS} jets, by the clock", 30, seconds[0], " s"
    )
    targets.at_most("the same, CPU seconds of two cores", 60, seconds[1], " s")
    for each in pulls:
        targets.at_most(f"{each.what}, size of the mean of pulls", 0.2, abs(each.pulls.mean()))
        width = float(each.pulls.std(ddof=1))
        targets.at_most(f"{each.what}, width of pulls less 1", 0.15, abs(width - 1))
    worst = max(float(row[-2]) for row in costs)
    targets.at_most("a gradient after the marginals, in units of these", 2, worst)
    worst = max(float(row[-1]) for row in costs)
    targets.at_most("all with a gradient, in units of all without", 2, worst)
    size = math.sqrt(len(pulls[0].pulls))
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
            "## fit",
            "",
            "`python benchmarks/fit.py`",
            "",
            *[f"- {fact}" for fact in machine()],
            "",
            targets.table(),
            f"The fit of {MANY_JETS} jets (lam = 1.5, t_cut = 16): `{found}`.",
            "",
            f"{len(pulls[0].pulls)} pseudo-experiments of {JETS} jets each: (estimate - truth) / "
            "error, and how often the profile interval of one standard deviation (68%) holds the "
            "truth.",
            "",
            table(["experiments", "mean of pulls", "width of pulls", "covered"], rows),
            f"What other forms say of {MANY_JETS} jets with lam = 1.5 (t_cut = 64): only the "
            "density is right, and only if selections are corrected for.",
            "",
            table(["form", "lam", "error", "errors away from 1.5"], forms),
            f"Gradients over {GRADIENT_LEAVES} leaves, seconds of CPU on one thread: upward pass, "
            "marginals, gradient after these; the gradient in units of the marginals, and all in "
            "units of upward pass and marginals.",
            "",
            table(["model", "up", "marginals", "gradient", "of marginals", "of both"], costs),
        ]
    )


if __name__ == "__main__":
    raise SystemExit(main())
