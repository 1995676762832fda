"""Whether chains agree, and what to say about it.

Chains start in two worlds: trees that annealing has brought from uniform ones, and trees drawn from
a grown trellis. Where a cluster is frequent in some chains and rare in others, by more than the
chains' own fluctuations explain, no frequency is worth quoting. Agreement is judged cluster by
cluster, in units of the Monte Carlo error and absolutely. It does not prove that nothing was
missed: no start may have found a mode.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hctrellis.posterior.base import Estimate
from hctrellis.sampling.partition import LogPartition

if TYPE_CHECKING:
    from hctrellis.chains.frequencies import Frequencies, Shares
    from hctrellis.support.types import BoolArray, FloatArray, IntArray

JUDGED = 0.05  # clusters of at least this probability, in any chain, are judged
APART = 0.05  # difference between worlds that matters
CHAINS_APART = 0.1  # between the extremes of all chains
RATIO = 6.0  # of variances, between chains and within: chance hardly exceeds it
STANDARD_ERRORS = 4.5  # of a difference between worlds
LEAST_ROUND_TRIPS = 5  # of each ladder of parallel tempering
LEAST_LINEAGES = 10  # of all annealings: fewer may all have ended in one of two modes
LEAST_EFFECTIVE = 100.0  # effective trees for the least certain cluster: fewer know no error
HANDFUL = 20  # trees that have a cluster, or lack it: fewer do not show how far they vary
MORE_THAN_FEW = 3  # by how many more the error of so few is taken
KEPT, HARDLY = 0.6, 0.02  # shares of trees: a chain keeps a cluster; others hardly ever have it
ENOUGH_LINEAGES = 9  # of a mode that five of them show, but once in twenty times
LEAST_VISITS = 2000  # round trips of all ladders, where chains at one temperature disagree
PER_TREE = 2.0  # round trips that tell as much as one independent tree: visits differ in length


def uncertain(found: Frequencies, tempered: BoolArray) -> BoolArray:
    """For each cluster, whether chains disagree about it.

    tempered : whether each chain started from an annealed tree
    """
    chains = found.by_chain
    matters = chains.max(axis=0) >= JUDGED
    wide = np.ptp(chains, axis=0) > CHAINS_APART
    flagged = matters & wide & (found.ratios > RATIO)
    if tempered.any() and not tempered.all():
        apart = np.abs(chains[tempered].mean(axis=0) - chains[~tempered].mean(axis=0))
        error = np.hypot(_error(found, tempered), _error(found, ~tempered))
        flagged |= matters & (apart > APART) & (apart > STANDARD_ERRORS * error)
    return np.asarray(flagged)


def _error(found: Shares, side: BoolArray) -> FloatArray:
    """The standard error of the mean of some chains, from their own fluctuations."""
    within = found.within[side]
    return np.asarray(np.sqrt((within**2).sum(axis=0)) / len(within))


def strangers(found: Frequencies, population: Frequencies, n_lineages: int) -> IntArray:
    """Clusters, by code, that annealed trees have far more or less often than the chains have.

    population : of the final trees of annealing, a chain for each run
    """
    codes = np.union1d(found.codes, population.codes)
    here, there = found.at(codes), population.at(codes)
    n = max(1, n_lineages)  # one lineage in n is the least that annealing can show: a rare mode
    spread = np.sqrt(np.maximum(here * (1 - here), 1 / n) / n)
    apart = np.abs(here - there)
    flagged = (np.maximum(here, there) >= JUDGED) & (apart > APART)
    return codes[flagged & (apart > STANDARD_ERRORS * spread)]


def kept_elsewhere(found: Frequencies, codes: IntArray) -> IntArray:
    """Clusters, by code, that a chain keeps which the others hardly ever have.

    codes : int64 (chains, records, m), of the trees of chains that were started elsewhere, and are
        long enough to forget where they began
    """
    n_records = codes.shape[1]
    kept = []
    for chain in codes.reshape(len(codes), -1):
        own, counts = np.unique(chain, return_counts=True)
        kept.append(own[counts >= KEPT * n_records])
    everywhere = np.unique(np.concatenate(kept)) if kept else np.empty(0, np.int64)
    return np.asarray(everywhere[found.at(everywhere) < HARDLY])


def widened(probabilities: FloatArray, errors: FloatArray, n_visits: int | None) -> FloatArray:
    """Standard errors of probabilities that are known from so many visits of separate modes.

    Between two round trips parallel tempering may show the same mode over and over, for a time that
    varies as much as its mean, so there are at most half as many independent trees as round trips.
    """
    if n_visits is None:
        return errors
    n_trees = max(1.0, n_visits / PER_TREE)
    spread = np.sqrt(np.maximum(probabilities * (1 - probabilities), 0) / n_trees)
    return np.maximum(np.maximum(errors, spread), rare_error(probabilities, n_trees))


def rare_error(probabilities: FloatArray, n_trees: float) -> FloatArray:
    """The least standard error of probabilities near 0 or 1, given that many independent trees.

    A handful of trees that have (or lack) a cluster do not show how far their own number varies: by
    chance there are few of them, and their spread is then small as well. It is taken from three
    more than there are.
    """
    n = max(1.0, n_trees)
    few = n * np.clip(np.minimum(probabilities, 1 - probabilities), 0.0, 1.0)
    return np.where(few <= HANDFUL, np.sqrt(few + MORE_THAN_FEW) / n, 0.0)


@dataclass(frozen=True)
class Doubt:
    """A cluster about which chains disagree: its least and largest frequency in a chain."""

    mask: int
    low: float
    high: float


@dataclass(frozen=True, repr=False)
class Diagnostics:
    """How sampling went.

    Attributes
    ----------
    n_chains, n_draws, n_moves : int
        Chains, trees that were kept of all chains, moves that each chain made in all.
    precision : float
        The standard error that was asked for.
    worst_error : float
        The largest standard error of a cluster of probability 0.05 or more.
    effective_size : (float, float)
        The number of independent trees that would tell as much: for the least certain of these
        clusters, and for the median one.
    n_runs, n_ancestors : int
        Annealings, and how many of their first trees have descendants among the last, in all.
    n_watched : int
        Annealed trees from which chains were run, apart from the others, to see whether they stay
        where the others never are; 0 if there was no time for that.
    coverage : Estimate or None
        The probability of the trees of the grown trellis.
    redrawn : bool
        Whether chains were given fresh draws from the trellis.
    round_trips : tuple of int or None
        Of each ladder, if parallel tempering was used.
    doubts : tuple of Doubt
        Clusters about which chains disagree, the worst first.
    log_partition : LogPartition
    reasons : tuple of str
        Why there is no probability to quote; empty if there is.
    is_compiled : bool
        Whether the potential runs in compiled kernels; if not, sampling is far slower.
    stopped : str
        Why it ended: "precision", "time", "moves" or "interrupted".
    """

    n_chains: int
    n_draws: int
    n_moves: int
    precision: float
    worst_error: float
    effective_size: tuple[float, float]
    n_runs: int
    n_ancestors: int
    n_watched: int
    coverage: Estimate | None
    redrawn: bool
    round_trips: tuple[int, ...] | None
    doubts: tuple[Doubt, ...]
    log_partition: LogPartition
    reasons: tuple[str, ...]
    is_compiled: bool
    stopped: str

    @property
    def is_reliable(self) -> bool:
        """Whether there are probabilities to quote."""
        return not self.reasons

    @property
    def n_visits(self) -> int | None:
        """The number of round trips of all ladders, where parallel tempering was used."""
        return None if self.round_trips is None else sum(self.round_trips)

    @property
    def unseen(self) -> float:
        """The probability of a separate mode that may have been missed by all starts.

        A mode of this probability would have escaped all lineages of annealing, or all round trips,
        once in twenty times. Where lineages were not watched, five of them are needed to tell.
        """
        if self.n_visits is not None:
            return min(1.0, 3 / max(1, self.n_visits))
        if self.n_watched == 0:
            return min(1.0, ENOUGH_LINEAGES / max(1, self.n_ancestors))
        return min(1.0, 3 / max(1, min(self.n_ancestors, self.n_watched)))

    @property
    def agree(self) -> bool:
        """Whether chains from all starts agree about every cluster."""
        return not self.doubts

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        if self.reasons:
            return "No probability can be quoted: " + "; ".join(self.reasons) + "."
        ways = (
            f"{self.n_chains} ladders of parallel tempering with {min(self.round_trips)} round "
            "trips or more each agree"
            if self.round_trips is not None
            else f"{self.n_chains} chains from independent starts agree"
        )
        short = (
            ""
            if self.worst_error <= self.precision
            else f" ({self.precision:g} was asked for; give it more time)"
        )
        missed = f"A separate mode of less than {self.unseen:.1g} of the probability may be missed."
        if self.worst_error == 0:
            return (
                f"{ways}; no probability of 0.05 or more has a standard error that shows. {missed}"
            )
        return (
            f"{ways}; the largest standard error of a probability of 0.05 or more is "
            f"{self.worst_error:.2g}{short}. {missed}"
        )

    def as_dict(self) -> dict[str, Any]:
        """The same as plain values, for a file; see `from_dict`."""
        return asdict(self)

    @classmethod
    def from_dict(cls, known: dict[str, Any]) -> Diagnostics:
        """What `as_dict` has written."""
        parts = known["log_partition"]
        estimates = {name: Estimate(*pair) for name, pair in parts["estimates"].items()}
        coverage, trips = known["coverage"], known["round_trips"]
        return cls(
            **{
                **known,
                "effective_size": tuple(known["effective_size"]),
                "coverage": None if coverage is None else Estimate(*coverage),
                "round_trips": None if trips is None else tuple(trips),
                "doubts": tuple(Doubt(**doubt) for doubt in known["doubts"]),
                "log_partition": LogPartition(**{**parts, "estimates": estimates}),
                "reasons": tuple(known["reasons"]),
            }
        )

    def __repr__(self) -> str:
        lines = [
            f"verdict           {self.verdict}",
            f"chains            {self.n_chains}, {self.n_moves:,} moves each",
            f"trees kept        {self.n_draws:,}; effective for the least certain cluster "
            f"{self.effective_size[0]:,.0f}, for the median one {self.effective_size[1]:,.0f}",
            f"annealing         {self.n_runs} runs, {self.n_ancestors} surviving ancestors, "
            f"{self.n_watched} trees watched",
        ]
        if self.coverage is not None:
            fresh = ", redrawn from it" if self.redrawn else ""
            lines.append(
                f"trellis covers    {self.coverage.value:.3g} +- {self.coverage.error:.2g}{fresh}"
            )
        if self.round_trips is not None:
            lines.append(f"round trips       {', '.join(map(str, self.round_trips))}")
        for name, (value, error) in self.log_partition.estimates.items():
            lines.append(f"{'log Z by ' + name:17} {value:.3f} +- {error:.2g}")
        if self.log_partition.reason:
            lines.append(f"log Z withheld    {self.log_partition.reason}")
        return "\n".join(lines)
