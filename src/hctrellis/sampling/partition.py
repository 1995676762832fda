"""log Z with an error bar, from estimates that have nothing in common but the model.

- *annealing*: from uniform trees, whose number is known, to the posterior (see `chains.anneal`);
- *coverage*: the trees of a sparse trellis have a known sum of weights, and the share of sampled
  trees that are among them is its ratio to Z;
- *bridge*: the ratios of sums between the heats of parallel tempering (see `chains.temper`).

Each can fail without a sign of its own. So log Z is given only where two of them agree.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from hctrellis.posterior.base import Estimate
from hctrellis.support.imports import ONE_AT_A_TIME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hctrellis.chains.temper import Ladders

LEAST_ANCESTORS = 5  # of an annealing, per run, on average
LEAST_COVERAGE = 0.01
LARGEST_RELATIVE_ERROR = 0.3  # of a coverage whose logarithm is taken
AGREEMENT = 3.0  # standard errors of a difference that chance hardly exceeds
FIRST_SWEEPS = 512  # of parallel tempering, for the first estimate,
FEWEST_SWEEPS = 256  # or no fewer than these, if time is up,
AT_ONCE = 8  # between two looks at the clock,
MORE = 1.5  # times as many for each further estimate,
SKIPPED = 1 / 8  # of which are not counted
WIDEST = 4.0  # a variance of log Z beyond which its bias is not estimated
SLACK = 0.02  # differences below this do not count


@dataclass(frozen=True)
class LogPartition:
    """log Z, or why it is not given.

    Attributes
    ----------
    value, error : float or None
        log Z and its standard error; None if it is withheld.
    reason : str
        Why it is withheld; empty if it is not.
    estimates : mapping from str to Estimate
        What each way has found: "annealing", "coverage", "bridge".
    """

    value: float | None
    error: float | None
    reason: str
    estimates: Mapping[str, Estimate] = field(default_factory=dict)


def of_runs(log_partitions: Sequence[float]) -> Estimate | None:
    """The estimate of independent runs whose exponentials have the mean Z; None if one failed.

    The standard error is enlarged, since so few runs know their spread only roughly: three of it
    are exceeded as rarely as with a normal distribution. It counts the bias of the logarithm of a
    mean, too, which is that of normal deviates.
    """
    with ONE_AT_A_TIME:
        from scipy.stats import norm, t

    values = np.asarray(log_partitions, float)
    if len(values) < 3 or not np.isfinite(values).all():
        return None
    top = float(values.max())
    mean = top + math.log(np.exp(values - top).mean())
    wider = float(t.ppf(0.995, len(values) - 1) / norm.ppf(0.995))
    variance = float(values.var(ddof=1))
    bias = math.expm1(min(variance, WIDEST)) / (2 * len(values))
    return Estimate(mean, math.hypot(wider * math.sqrt(variance / len(values)), bias))


def of_sweeps(
    ladders: Ladders, n_moves: int, most: int, late: Callable[[bool], bool]
) -> Iterator[Estimate]:
    """Estimates by parallel tempering, of ever more sweeps, until someone is content with one.

    most : sweeps after which there is no other estimate
    late : whether time is up, for the first estimate (True) and for all others
    Ctrl-C ends it early. An error counts what was found before as well: whoever waits for a small
    one would otherwise be given those that are small by chance.
    """
    wanted, first = FIRST_SWEEPS, True
    spread = 0.0  # the error times the root of the sweeps, so far
    while True:
        with suppress(KeyboardInterrupt):
            while ladders.n_sweeps < wanted and not late(first):
                ladders.run(AT_ONCE, n_moves)
        if ladders.n_sweeps < FEWEST_SWEEPS:
            return
        skipped = int(SKIPPED * ladders.n_sweeps)
        found = of_runs(ladders.log_partitions(skipped).tolist())
        if found is None:
            return
        root = math.sqrt(ladders.n_sweeps)
        now = root * found.error
        spread = now if first else math.hypot(spread, now) / math.sqrt(2)
        yield Estimate(found.value, spread / root)
        if ladders.n_sweeps < wanted or wanted >= most:
            return
        wanted, first = min(int(MORE * wanted), most), False


def of_coverage(log_partition: float, coverage: Estimate, unseen: float = 0.0) -> Estimate | None:
    """log Z from that of a trellis and the probability of its trees; None if that is too small.

    A separate mode of the probability `unseen`, if all chains have missed it, changes log Z by as
    much, so the error is no less.
    """
    if coverage.value < LEAST_COVERAGE:
        return None
    relative = coverage.error / coverage.value
    if relative > LARGEST_RELATIVE_ERROR:
        return None
    return Estimate(log_partition - math.log(coverage.value), math.hypot(relative, unseen))


def agreed(estimates: Mapping[str, Estimate], bound: float) -> LogPartition:
    """log Z from all estimates, if there are two, all agree, and none is below the lower bound."""
    for name, (value, error) in estimates.items():
        if value < bound - AGREEMENT * error - SLACK:
            return _withheld(
                f"the estimate by {name}, {value:.2f}, is below the lower bound {bound:.2f}",
                estimates,
            )
    if len(estimates) < 2:
        only = f"only {next(iter(estimates))} gave an estimate" if estimates else "there is none"
        return _withheld(f"{only}, and two that agree are asked for", estimates)
    for (one, a), (two, b) in combinations(estimates.items(), 2):
        if abs(a.value - b.value) > AGREEMENT * math.hypot(a.error, b.error) + SLACK:
            return _withheld(
                f"{one} gives {a.value:.2f} +- {a.error:.2f}, {two} {b.value:.2f} +- {b.error:.2f}",
                estimates,
            )
    values, errors = np.array([*estimates.values()]).T
    errors = np.maximum(errors, 1e-9 * np.maximum(1.0, np.abs(values)))
    weights = errors**-2 / (errors**-2).sum()
    mean = float(weights @ values)
    spread = math.sqrt(float((((values - mean) / errors) ** 2).sum()) / (len(values) - 1))
    error = max(1.0, spread) / math.sqrt(float((errors**-2).sum()))
    return LogPartition(max(mean, bound), error, "", estimates)


def _withheld(reason: str, estimates: Mapping[str, Estimate]) -> LogPartition:
    return LogPartition(None, None, reason, estimates)
