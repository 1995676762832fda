"""A sparse trellis grown to fit one data set, for more leaves than the full one can hold.

It starts from the trees that searches find. Then, round by round: it is extended by the clusters of
all nearest-neighbour interchanges of its more probable trees, and by what local search finds from a
tree drawn from it; the upward and downward pass tell the probability of every cluster; the most
probable are kept, with all splits between them.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hctrellis.chains.anneal import anneal
from hctrellis.chains.chains import Chains
from hctrellis.chains.frequencies import cluster_codes, member_codes
from hctrellis.potentials.base import Potential
from hctrellis.support.checks import as_count, as_positive
from hctrellis.support.keywords import renamed
from hctrellis.support.logs import FORBIDDEN
from hctrellis.support.memory import TooLargeError, check_fits
from hctrellis.support.progress import Progress, followed
from hctrellis.trellis.sparse import SparseSolution, SparseTrellis
from hctrellis.trellis.vertices import complete

if TYPE_CHECKING:
    from hctrellis.support.types import IntArray

MAX_CLUSTERS = 20_000
TIME_LIMIT = 30.0
SETTLED = 1e-3  # smaller gains of log Z count as zero
LEAST_PROBABILITY = 1e-7  # of a cluster that is kept
EXTENSION = 8  # interchanges tried in a round, per cluster that may be kept
FIRST_MASS, LEAST_MASS = 1e-3, 1e-9  # of an interchange, at first and at last
STRANGERS = 32, 4  # chains from uniform trees, and trees of each, that a trellis must hold
PLAIN_STRANGERS = 8, 1  # the same for potentials that only NumPy can evaluate
STRANGERS_INSIDE = 0.9  # the share of them that must be inside for it to count as converged
BEAM_WIDTH = 100
BEAM_JOINS = 4_000_000  # width times leaves squared: a beam over 1,000 leaves would take minutes
SEARCH_SHARE = 0.4  # of the time, at most, before the first round
RESTARTS_PER_LEAF = 100  # of local search, at most


class Step(NamedTuple):
    """The state of a growing trellis: its size and its two lower bounds."""

    seconds: float
    n_clusters: int
    n_splits: int
    log_partition: float
    map_log_weight: float


@dataclass(frozen=True, repr=False)
class Growth:
    """A grown trellis, and how it came about.

    Attributes
    ----------
    trellis : SparseTrellis
    trace : tuple of Step
        At the start, and after each round.
    converged : bool
        Whether it stopped because another round would have added next to nothing, and not for
        lack of time or of room for more clusters, and holds nearly all trees that chains have
        reached from uniform ones, which owe nothing to it.
    """

    trellis: SparseTrellis
    trace: tuple[Step, ...]
    converged: bool

    def as_dict(self) -> dict[str, Any]:
        """What a file keeps of it beside the trellis; see `from_dict`."""
        return {"converged": self.converged, "trace": [list(step) for step in self.trace]}

    @classmethod
    def from_dict(cls, trellis: SparseTrellis, known: dict[str, Any]) -> Growth:
        """The growth of a trellis that was read from a file."""
        trace = tuple(Step(*step) for step in known["trace"])
        return cls(trellis, trace, bool(known["converged"]))

    def __repr__(self) -> str:
        last = self.trace[-1]
        end = "converged" if self.converged else "not converged"
        return (
            f"Growth({len(self.trace) - 1} rounds, {last.seconds:.1f} s, "
            f"{last.n_clusters} clusters, log Z >= {last.log_partition:.6g}, {end})"
        )


@renamed(restarts="n_restarts")
def grow(
    potential: Potential,
    max_clusters: int = MAX_CLUSTERS,
    time_limit: float | None = TIME_LIMIT,
    rng: int | np.random.Generator | None = None,
    n_restarts: int | None = None,
    max_rounds: int | None = None,
    threads: int | None = None,
    progress: Progress | bool | None = None,
) -> Growth:
    """Grow a sparse trellis that holds as much of the posterior of a potential as it can.

    Parameters
    ----------
    potential : Potential
    max_clusters : int
        The largest number of clusters that are kept.
    time_limit : float
        Seconds, roughly: a round that has begun is finished, and compiling is not counted. None
        means no limit: a seed then gives the same trellis on any machine.
    rng : None, int or numpy Generator
    n_restarts : int, optional
        The most restarts of local search before the first round; by default 100 times the number
        of leaves.
    max_rounds : int, optional
        By default as many as there is time for.
    threads : int, optional
        Number of threads for local search.
    progress : bool or callable, optional
        True shows a progress bar; a callable is called as progress(seconds passed, seconds at
        most), or as progress(rounds done, rounds at most) if there is no time limit.

    Examples
    --------
    >>> import hctrellis as hct
    >>> growth = grow(hct.Dasgupta([[0, 2, 1], [2, 0, 1], [1, 1, 0]]), rng=1)
    >>> growth.trellis
    SparseTrellis(3 leaves, 7 clusters, 6 splits, 3 trees)
    """
    most = max(as_count(max_clusters, "max_clusters"), 2 * potential.n_leaves - 1)
    seconds = None if time_limit is None else as_positive(time_limit, "time_limit")
    rounds = math.inf if max_rounds is None else as_count(max_rounds, "max_rounds")
    if n_restarts is None:
        n_restarts = RESTARTS_PER_LEAF * potential.n_leaves
    generator = np.random.default_rng(rng)
    trace: list[Step] = []
    with followed(progress, "rounds" if seconds is None else "seconds") as report:
        pace = _Pace(report, seconds, max_rounds)
        growing = _Growing(potential, most, seconds, n_restarts, generator, threads, pace)
        while True:
            trace.append(growing.step())
            pace.tell(trace[-1].seconds, len(trace) - 1)
            late = seconds is not None and trace[-1].seconds > seconds
            if growing.settled or late or len(trace) > rounds:
                break
            growing.advance()
        pace.finish()
    return Growth(growing.solution.trellis, tuple(trace), growing.converged)


class _Pace:
    """Reports how far a growth has come: in seconds if these are limited, else in rounds."""

    def __init__(self, report: Progress, seconds: float | None, max_rounds: int | None) -> None:
        self._report = report
        self._by_time = seconds is not None
        self._total = max_rounds if seconds is None else math.ceil(seconds)
        self._done = 0

    def tell(self, seconds: float, n_rounds: int) -> None:
        """Report how far it has come."""
        self._done = int(seconds) if self._by_time else n_rounds
        if self._total is not None:
            self._done = min(self._done, self._total)
        self._report(self._done, self._total)

    def finish(self) -> None:
        """Report that it is finished, often before the limit."""
        total = self._done if self._total is None else self._total
        self._report(total, total)


class _Growing:
    """A trellis that grows round by round."""

    def __init__(
        self,
        potential: Potential,
        most: int,
        seconds: float | None,
        n_restarts: int,
        rng: np.random.Generator,
        threads: int | None,
        pace: _Pace,
    ) -> None:
        self.potential = potential
        self.most = most
        self.rng = rng
        self.threads = threads
        self.pace = pace
        self.settled = self.converged = potential.n_leaves < 3  # nothing to interchange
        self.least = FIRST_MASS
        self.crowded = False  # whether clusters were left out for lack of room
        children = self._first_trees()
        if potential.n_leaves > 2:
            self._compile(children)
        self.start = time.monotonic()
        limit = None if seconds is None else seconds * SEARCH_SHARE
        children = np.concatenate([children, self._search(n_restarts, limit)])
        self.solution = self._narrow(SparseTrellis.from_children(children).solve(potential))

    def step(self) -> Step:
        """The current state."""
        solution = self.solution
        seconds = time.monotonic() - self.start
        size = solution.trellis.n_clusters, solution.trellis.n_splits
        best = float(solution.best[-1]) * np.log(2)
        best = best + solution.constant if solution.best[-1] > FORBIDDEN else -np.inf
        return Step(seconds, *size, solution.log_partition, float(best))

    def advance(self) -> None:
        """Run one round."""
        before = self.solution
        wide = self._widen(before)
        now = self._narrow(wide)
        if now.log_partition >= before.log_partition:
            self.solution = now
        gain = now.log_partition - before.log_partition
        self.settled = not gain > SETTLED
        self.converged = self.settled and not self.crowded and self._holds_other_trees()

    def _compile(self, children: IntArray) -> None:
        """Run a round on a small trellis, so that compiling is not counted as time to grow."""
        self._narrow(
            self._widen(self._narrow(SparseTrellis.from_children(children).solve(self.potential)))
        )
        self.least, self.crowded = FIRST_MASS, False

    def _holds_other_trees(self) -> bool:
        """Whether trees that chains have reached from uniform ones are those of the trellis."""
        chains = Chains(self.potential, self.threads)
        size = STRANGERS if chains.is_compiled else PLAIN_STRANGERS
        found = anneal(chains, *size, max(2, self.potential.n_leaves // 2), self.rng).final
        codes = cluster_codes(found.children.reshape(-1, *found.children.shape[2:]))
        known = member_codes(self.solution.vertices.members)
        inside = np.asarray(np.isin(codes, known).all(axis=1))[found.forbidden.ravel() == 0]
        return bool(len(inside) > 0 and inside.mean() >= STRANGERS_INSIDE)

    def _first_trees(self) -> IntArray:
        """The trees of quick searches, as children; kernels are compiled on the way."""
        from hctrellis.search import beam_search, greedy, local_search

        n = self.potential.n_leaves
        width = min(n, BEAM_WIDTH, max(1, BEAM_JOINS // n**2))
        trees = [greedy(self.potential)]
        with suppress(TooLargeError):  # a beam needs far more memory than all else here
            trees += beam_search(self.potential, width, width)
        climbed = local_search(self.potential, trees[0], 0, rng=self.rng, threads=self.threads)
        return np.array([tree.children for tree in [*trees, climbed.tree]])

    def _search(self, n_restarts: int, seconds: float | None) -> IntArray:
        """The trees that local search finds."""
        from hctrellis.search import local_search

        return local_search(
            self.potential,
            n_restarts=n_restarts,
            time_limit=seconds,
            rng=self.rng,
            threads=self.threads,
            progress=lambda *_: self.pace.tell(time.monotonic() - self.start, 0),
        ).children

    def _widen(self, solution: SparseSolution) -> SparseSolution:
        """The trellis extended by interchanges of its trees, the more probable ones first."""
        v = solution.vertices
        chances, masses = solution.split_probabilities(v.splits()), solution.probabilities
        capacity = EXTENSION * self.most
        check_fits(100 * capacity, f"{capacity} new clusters", "a smaller max_clusters")
        joins = np.empty((capacity, 4), np.int64)
        count = v.interchanges(chances, masses, self.least, joins)
        while count > capacity:
            self.least *= 4
            count = v.interchanges(chances, masses, self.least, joins)
        self.least = max(LEAST_MASS, self.least / 4)
        wide = SparseTrellis(v.extend(joins[:count]))
        return wide.solve(self.potential)

    def _narrow(self, solution: SparseSolution) -> SparseSolution:
        """The most probable clusters, including those of the best tree, and all their splits."""
        v = solution.vertices
        p = solution.probabilities.copy()
        possible = solution.best[-1] > FORBIDDEN
        if possible:
            p[v.find_all(list(solution.map_tree.clusters()))] = 1.0
        keep = p > LEAST_PROBABILITY
        self.crowded = not possible or int(keep.sum()) > self.most
        keep[np.argsort(-p, kind="stable")[self.most :]] = False
        kept = v.restrict(keep) if possible else v
        return SparseTrellis(complete(kept), "all").solve(self.potential)
