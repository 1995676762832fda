"""`sample_posterior`: probabilities of clusters beyond the exact limit, with error bars.

1. A sparse trellis is grown: the best tree, a lower bound of log Z, and starts for half the chains.
2. Trees are annealed from uniform ones: starts for the other half, and an estimate of log Z.
3. Chains run from all starts until every probability is known well enough.
4. If chains disagree, or too few lineages survived the annealing to show that they agree, parallel
   tempering takes their place.
5. Where a second estimate of log Z is missing, or the first ones are not precise enough, parallel
   tempering gives another.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hctrellis.build.grow import Growth, grow
from hctrellis.chains.anneal import Annealed, anneal
from hctrellis.chains.chains import Chains, LateError, Records
from hctrellis.chains.frequencies import (
    BATCHES,
    Frequencies,
    cluster_codes,
    frequencies,
    inner_codes,
    shares,
)
from hctrellis.chains.temper import Ladders
from hctrellis.clusters import show_cluster
from hctrellis.posterior.base import Estimate, NoTreeError
from hctrellis.potentials.base import Potential
from hctrellis.sampling.partition import (
    LEAST_ANCESTORS,
    LogPartition,
    agreed,
    of_coverage,
    of_runs,
    of_sweeps,
)
from hctrellis.sampling.posterior import SampledPosterior, place_masks
from hctrellis.sampling.redraw import Redraws
from hctrellis.sampling.trace import Trace
from hctrellis.sampling.verdict import (
    JUDGED,
    LEAST_EFFECTIVE,
    LEAST_LINEAGES,
    LEAST_ROUND_TRIPS,
    LEAST_VISITS,
    Diagnostics,
    Doubt,
    kept_elsewhere,
    strangers,
    uncertain,
    widened,
)
from hctrellis.search.local import local_search
from hctrellis.support.checks import as_count, as_positive
from hctrellis.support.keywords import renamed
from hctrellis.support.logs import FORBIDDEN
from hctrellis.support.progress import Noted, Progress, noted
from hctrellis.tree import Tree

if TYPE_CHECKING:
    from hctrellis.support.types import BoolArray, IntArray, Seed, SmallArray

TIME_LIMIT = 60.0
PRECISION = 0.01
N_CHAINS = 8
N_RUNS = 8  # annealings
POPULATION = (64, 4)  # chains of an annealing, and records of each
PILOT_PART = 4  # of the chains: a pilot, which only chooses the heats, takes one in so many
PLAIN_POPULATION = (8, 4)  # the same for potentials that only NumPy can evaluate
GROWTH_ROUNDS = 12
GROWTH_SHARE, ANNEAL_SHARE, WALK_SHARE = 0.1, 0.5, 0.85  # of the time, until the end of each stage
DOUBT_SHARE = 0.65  # of the time, after which chains that disagree give way to tempering
FIRST_RECORDS = 512  # of each chain, in the first round,
FEWEST_RECORDS = 24  # unless time is up: what makes BATCHES after the first are left out,
ENOUGH_RECORDS = 64  # and what can be judged
MORE = 1.5  # times as many records after each further round
PATIENCE = 3  # rounds in which chains may disagree before they give way, not counting those
STUCK = 0.9  # in which their disagreement shrinks to this part of what it was before
REDRAW_COVERAGE = 0.05  # of the posterior, by the trellis, from which chains are redrawn
REDRAW_RECORDS = 8
WATCHED = 64  # annealed trees from which chains are run apart, at the most,
WATCH = 8  # times the moves that make an independent tree, for the least certain cluster,
WATCH_PART = 1 / 16  # but no more than this part of the moves of the other chains,
WATCH_RECORDS = 32  # in so many records
N_LADDERS = 8
LOG_PRECISION = 10.0  # the error of log Z is brought to so many times that of probabilities,
LOG_MOVES = 8  # times the moves of all chains before, at the most,
LOG_SHARE, LOG_TIME = 1.2, 2.5  # in no more than these parts of the limit, and of the time before
FIRST_SWEEPS = 256


@renamed(chains="n_chains")
def sample_posterior(
    potential: Potential,
    precision: float = PRECISION,
    time_limit: float | None = TIME_LIMIT,
    *,
    max_moves: int | None = None,
    n_chains: int = N_CHAINS,
    rng: Seed = None,
    threads: int | None = None,
    progress: Progress | bool | None = None,
) -> SampledPosterior:
    """Sample the posterior over all trees, for any number of leaves.

    Chains move one subtree at a time: another place is drawn from all places, in proportion to the
    weight of the resulting tree. Half of them start from trees annealed from uniform ones, half
    from the trees of a grown trellis. If they disagree, parallel tempering takes their place.

    Parameters
    ----------
    potential : Potential
    precision : float
        Sampling ends when the standard error of every cluster of probability 0.05 or more is at
        most this. Then log Z is refined until its standard error is ten times this, for at
        most one and a half times as long again.
    time_limit : float, optional
        Seconds, roughly, after which it ends in any case; compiling is not counted. None means no
        limit.
    max_moves : int, optional
        The most moves of each chain. With this and no time limit, a seed gives the same answer on
        any machine.
    n_chains : int
        At least 4.
    rng : None, int or numpy Generator
    threads : int, optional
        As many as cores by default. Answers do not depend on it.
    progress : bool or callable, optional
        True shows a line with the worst standard error; a callable is called as progress(done,
        total), in thousandths of the independent trees that the precision asks for.

    Returns
    -------
    SampledPosterior
        Ctrl-C while chains run ends them early, with what they have found.

    Raises
    ------
    NoTreeError
        If only forbidden trees were found.

    Examples
    --------
    >>> import hctrellis as hct
    >>> model = hct.Linkage([[0.0], [1.0], [3.0], [7.0], [8.0]], method="average", beta=1.0)
    >>> post = hct.sample_posterior(model, precision=0.02, rng=0)
    >>> exact = hct.infer(model).cluster_probability(["3", "4"])
    >>> abs(post.cluster_probability(["3", "4"]) - exact) < 0.1
    True
    """
    if not isinstance(potential, Potential):
        raise TypeError(f"expected a Potential, got {type(potential).__name__}")
    if potential.n_leaves < 3:
        raise ValueError(
            f"there is nothing to sample over {potential.n_leaves} leaves; use infer(potential)"
        )
    if not 0 < precision < 1:
        raise ValueError(f"precision must be between 0 and 1; got {precision!r:.80}")
    if as_count(n_chains, "n_chains") < 4:
        raise ValueError(f"n_chains must be at least 4, to see whether they agree; got {n_chains}")
    limit = math.inf if time_limit is None else as_positive(time_limit, "time_limit")
    moves = math.inf if max_moves is None else as_count(max_moves, "max_moves")
    again = partial(
        sample_posterior,
        precision=precision,
        time_limit=time_limit,
        max_moves=max_moves,
        n_chains=n_chains,
        rng=0,
        threads=threads,
    )
    with noted(progress, "of the trees needed") as tell:
        sampler = _Sampler(potential, precision, limit, moves, n_chains, rng, threads, tell)
        return sampler.posterior(again)


class _Sampler:
    """One call of `sample_posterior`."""

    def __init__(
        self,
        potential: Potential,
        precision: float,
        limit: float,
        max_moves: float,
        n_chains: int,
        rng: Seed,
        threads: int | None,
        tell: Noted,
    ) -> None:
        self.potential = potential
        self.precision = precision
        self.limit = limit
        self.max_moves = max_moves
        self.n_chains = n_chains
        self.rng = np.random.default_rng(rng)
        self.threads = threads
        self.tell = tell
        self.chains = Chains(potential, threads)
        self.n_moves = max(2, potential.n_leaves // 2)  # between two records
        self.round_trips: tuple[int, ...] | None = None
        self.ladders: Ladders | None = None
        self.stopped = "precision"
        self.n_watched = 0
        self.chains.weigh(self.chains.uniform(1, np.random.default_rng(0)))  # compiles
        self.began = time.monotonic()

    def late(self, share: float = 1.0) -> bool:
        """Whether this share of the time has passed."""
        return time.monotonic() - self.began > share * self.limit

    def say(self, stage: str, share: float = 1.0) -> None:
        """Show what is being done, and how long that and all that follows may take."""
        left = math.inf if math.isinf(self.limit) else share * self.limit
        left -= time.monotonic() - self.began
        known = "" if math.isinf(left) else f", at most {max(1, math.ceil(left))} s left"
        self.tell(0, None, stage + known)

    # ---- stages -------------------------------------------------------------------------------

    def posterior(self, again: Callable[[Potential], SampledPosterior]) -> SampledPosterior:
        """Run all stages."""
        growth = self.grow()
        began = time.monotonic() - growth.trace[-1].seconds
        solution = growth.trellis.solve(self.potential)
        solved = time.monotonic() - began
        possible = bool(solution.best[-1] > FORBIDDEN)
        if possible:
            Redraws(solution, np.random.default_rng(0)).draw(1)  # compiles
        redraws = Redraws(solution, self.rng) if possible else None
        self.began = time.monotonic() - solved  # without compiling
        self.runs = self.anneal()
        starts, tempered = self.starts(redraws)
        draws = self.walk(starts, tempered, redraws)
        coverage = None if redraws is None else self.coverage(draws, redraws)
        found = self.count(draws)
        flagged = uncertain(found, tempered)
        if self.runs and self.doubtful(found, flagged, draws):
            draws = self.temper()
            found = self.count(draws)
            flagged = uncertain(found, np.ones(N_LADDERS, bool))
            coverage = None if redraws is None else self.coverage(draws, redraws)
        bound = growth.trace[-1].log_partition
        log_partition = self.log_partition(bound, None if flagged.any() else coverage)
        doubts = _doubts(draws, found, flagged)
        worst, effective = self.known(found, draws)
        diagnostics = Diagnostics(
            n_chains=len(draws.children),
            n_draws=draws.log_weights.size,
            n_moves=self.moved,
            precision=self.precision,
            worst_error=worst,
            effective_size=effective,
            n_runs=len(self.runs),
            n_ancestors=self.n_lineages,
            n_watched=self.n_watched,
            coverage=coverage,
            redrawn=self.redrawn,
            round_trips=self.round_trips,
            doubts=doubts,
            log_partition=log_partition,
            reasons=self.reasons(doubts, effective[0]),
            is_compiled=self.chains.is_compiled,
            stopped=self.stopped,
        )
        tree = self.best_tree(draws, solution.map_tree if possible else None)
        self.tell(1000, 1000, "")
        return SampledPosterior(self.potential, draws, tree, growth, diagnostics, again)

    def grow(self) -> Growth:
        """A sparse trellis."""
        seconds = None if math.isinf(self.limit) else GROWTH_SHARE * self.limit
        return grow(
            self.potential,
            time_limit=seconds,
            max_rounds=GROWTH_ROUNDS,
            rng=self.rng,
            threads=self.threads,
            progress=lambda *_: self.say("growing a trellis"),
        )

    def anneal(self) -> list[Annealed]:
        """Trees from uniform ones, by independent runs at the heats of a pilot."""
        size = POPULATION if self.chains.is_compiled else PLAIN_POPULATION
        self.say("annealing")
        few = max(4, size[0] // PILOT_PART), size[1]
        late = partial(self.late, ANNEAL_SHARE)
        runs: list[Annealed] = []
        with suppress(LateError):
            pilot = anneal(self.chains, *few, self.n_moves, self.rng, late=late)
            while len(runs) < N_RUNS:
                runs.append(anneal(self.chains, *size, self.n_moves, self.rng, pilot.heats, late))
                self.say(f"annealing, run {len(runs)} of {N_RUNS}")
        return runs

    @property
    def n_lineages(self) -> int:
        """How many trees of the start have descendants at the end, over all annealings."""
        return sum(run.n_ancestors for run in self.runs)

    def starts(self, redraws: Redraws | None) -> tuple[SmallArray, BoolArray]:
        """The trees at which chains start, and whether each was annealed."""
        finals = [run.final for run in self.runs if run.n_ancestors > 0]
        pools = [final.children[:, -1][final.forbidden[:, -1] == 0] for final in finals]
        pools = [pool for pool in pools if len(pool)]
        if redraws is None and not pools:
            raise NoTreeError(
                "every tree that was found is forbidden (has weight 0) under this potential"
            )
        half = 0 if not pools else self.n_chains if redraws is None else self.n_chains // 2
        trees = [
            pools[k % len(pools)][self.rng.integers(len(pools[k % len(pools)]))]
            for k in range(half)
        ]
        if redraws is not None:
            trees += list(redraws.draw(self.n_chains - half))
        return np.array(trees), np.arange(self.n_chains) < half

    def walk(self, starts: SmallArray, tempered: BoolArray, redraws: Redraws | None) -> Records:
        """Run chains until every probability is known well enough, or there is no more time."""
        trace = Trace(self.potential.n_leaves, self.n_moves)
        trees, wanted, patience, before = starts, FIRST_RECORDS, PATIENCE, math.inf
        self.redrawn = False
        self.moved = 0
        with suppress(KeyboardInterrupt):
            self.stopped = "interrupted"
            while True:
                while trace.n_records < wanted:
                    count = min(REDRAW_RECORDS, wanted - trace.n_records)
                    records = self.chains.run(trees, 1.0, self.rng, count, trace.n_moves)
                    trace.add(records)
                    trees = records.children[:, -1]
                    if self.redrawn and redraws is not None:
                        trees = redraws.renew(trees)
                    self.moved += count * trace.n_moves
                    if trace.n_records >= FEWEST_RECORDS and self.late(WALK_SHARE):
                        break
                found = self.count(trace.kept())
                worst, _ = self.known(found, trace.kept())
                self.report(worst)
                gaps = np.ptp(found.by_chain[:, uncertain(found, tempered)], axis=0)
                apart = float(gaps.max(initial=0))
                doubtful = apart > 0
                patience -= doubtful and apart > STUCK * before
                before = apart if doubtful else math.inf
                if doubtful and (patience < 0 or self.late(DOUBT_SHARE)):
                    self.stopped = "doubt"
                elif worst <= self.precision and not doubtful:
                    self.stopped = "precision"
                elif self.late(WALK_SHARE):
                    self.stopped = "time"
                elif self.moved >= self.max_moves:
                    self.stopped = "moves"
                else:
                    if redraws is not None and not self.redrawn:
                        share = self.coverage(trace.kept(), redraws).value
                        self.redrawn = share >= REDRAW_COVERAGE
                    wanted = int(MORE * trace.n_records)
                    wanted = min(wanted, self._affordable(trace.n_moves))
                    continue
                break
        if trace.n_records < FEWEST_RECORDS:
            raise KeyboardInterrupt
        self.n_records = trace.n_records
        return trace.kept()

    def _affordable(self, n_moves: int) -> int:
        if math.isinf(self.max_moves):
            return 1 << 62
        return max(FIRST_RECORDS, int(self.max_moves // n_moves))

    def doubtful(self, found: Frequencies, flagged: BoolArray, draws: Records) -> bool:
        """Whether the chains cannot be believed without parallel tempering."""
        if flagged.any() or self.n_lineages < LEAST_LINEAGES:
            return True
        codes = inner_codes(np.array([run.final.children for run in self.runs]))
        codes = codes.reshape(len(codes), -1, codes.shape[-1])
        if codes.shape[1] < BATCHES:
            return True
        if len(strangers(found, frequencies(codes, JUDGED / 2), self.n_lineages)) > 0:
            return True
        return len(self.watch(found, draws)) > 0

    def watch(self, found: Frequencies, draws: Records) -> IntArray:
        """Clusters of modes that all chains have missed, and that some annealed tree is in.

        A chain that starts there stays there, so one tree tells, where frequencies need several.
        """
        per_run = max(1, WATCHED // len(self.runs))
        pools = []
        for run in self.runs:
            final = run.final.children[:, -1][run.final.forbidden[:, -1] == 0]
            pools.append(final[:: max(1, math.ceil(len(final) / per_run))])
        starts = np.concatenate(pools)
        if len(starts) == 0:
            return np.empty(0, np.int64)
        self.say("watching annealed trees")
        _, (effective, _) = self.known(found, draws)
        moves = WATCH * self.moved * len(draws.children) / max(1.0, effective)
        moves = max(WATCH * self.n_moves, min(moves, WATCH_PART * self.moved))
        step = math.ceil(moves / WATCH_RECORDS)
        try:
            records = self.chains.run(starts, 1.0, self.rng, WATCH_RECORDS, step, self.late)
        except (LateError, KeyboardInterrupt):
            return np.empty(0, np.int64)
        self.n_watched = len(starts)
        return kept_elsewhere(found, inner_codes(records.children))

    def temper(self) -> Records:
        """Parallel tempering until it agrees with itself, or there is no more time."""
        ladders = self.make_ladders()
        trace = Trace(self.potential.n_leaves, max(2, self.n_moves // 2))
        wanted = FIRST_SWEEPS
        self.stopped = "interrupted"
        self.moved = 0
        with suppress(KeyboardInterrupt):
            while True:
                while trace.n_records < wanted:
                    trace.add(ladders.run(REDRAW_RECORDS, trace.n_moves))
                    self.moved += REDRAW_RECORDS * trace.n_moves
                    if trace.n_records >= FEWEST_RECORDS and self.late():
                        break
                self.round_trips = tuple(ladders.round_trips.tolist())
                found = self.count(trace.kept())
                worst, _ = self.known(found, trace.kept())
                self.report(worst)
                agree = not uncertain(found, np.ones(N_LADDERS, bool)).any()
                self.stopped = "precision"
                if worst <= self.precision and agree and not self.untravelled():
                    break
                if self.late() or self.moved >= self.max_moves:
                    self.stopped = "time" if self.late() else "moves"
                    break
                wanted = int(MORE * trace.n_records)
        self.round_trips = tuple(ladders.round_trips.tolist())
        self.n_records = trace.n_records
        return trace.kept()

    def untravelled(self) -> str:
        """Why round trips do not suffice; empty if they do, or none were asked for."""
        trips = self.round_trips
        if trips is None or (min(trips) >= LEAST_ROUND_TRIPS and sum(trips) >= LEAST_VISITS):
            return ""
        return (
            f"parallel tempering made {sum(trips)} round trips, at least {min(trips)} per ladder, "
            f"where {LEAST_VISITS} and {LEAST_ROUND_TRIPS} are asked for"
        )

    def make_ladders(self) -> Ladders:
        """Ladders of chains, each from the trees of one annealing."""
        trails = np.array([self.runs[k % len(self.runs)].trail for k in range(N_LADDERS)])
        self.ladders = Ladders(self.chains, np.array(self.runs[0].heats), trails, self.rng)
        return self.ladders

    def log_partition(self, bound: float, coverage: Estimate | None) -> LogPartition:
        """log Z by all ways that can be defended."""
        found: dict[str, Estimate] = {}
        if self.runs and self.n_lineages >= LEAST_ANCESTORS * len(self.runs):
            _put(found, "annealing", of_runs([run.log_partition for run in self.runs]))
        if coverage is not None:
            visits = self.n_lineages if self.round_trips is None else sum(self.round_trips)
            _put(found, "coverage", of_coverage(bound, coverage, 1 / max(1, visits)))
        if not self.runs or (self.is_enough(agreed(found, bound)) and self.ladders is None):
            return agreed(found, bound)
        alone = not found  # then more sweeps would not help
        for estimate in self.bridges():
            _put(found, "bridge", estimate)
            if alone or self.is_enough(agreed(found, bound)):
                break
        return agreed(found, bound)

    def is_enough(self, found: LogPartition) -> bool:
        """Whether log Z is known as well as it is asked for."""
        return found.error is not None and found.error <= LOG_PRECISION * self.precision

    def bridges(self) -> Iterator[Estimate | None]:
        """log Z from the heats of parallel tempering, by ever more sweeps if it was not run yet."""
        ladders = self.ladders
        if ladders is not None:
            yield of_runs(ladders.log_partitions().tolist())
            return
        passed = (time.monotonic() - self.began) / self.limit  # 0 without a limit
        share = min(LOG_SHARE, LOG_TIME * passed) if passed > 0 else LOG_SHARE
        self.say("log Z", LOG_SHARE)
        ladders = self.make_ladders()
        n_moves = max(2, self.n_moves // 2)
        before = sum(run.final.log_weights.size * len(run.heats) for run in self.runs)
        before = before * self.n_moves + self.moved * self.n_chains
        most = LOG_MOVES * before // (n_moves * N_LADDERS * len(ladders.heats))
        if self.stopped == "interrupted":
            most = 0
        yield from of_sweeps(
            ladders, n_moves, most, lambda first: self.late(LOG_SHARE if first else share)
        )

    # ---- what is known so far -----------------------------------------------------------------

    def count(self, draws: Records) -> Frequencies:
        """Frequencies of the clusters that matter."""
        return frequencies(inner_codes(draws.children), JUDGED / (2 * len(draws.children)))

    def coverage(self, draws: Records, redraws: Redraws) -> Estimate:
        """The share of sampled trees that the trellis has."""
        children = draws.children
        codes = cluster_codes(children.reshape(-1, *children.shape[2:]))
        held = redraws.hold(codes).reshape(children.shape[:2])
        found = shares(held)
        least = 1 / held.size  # if all trees were in it, or none, the next may not be
        return Estimate(float(found.means[0]), max(float(found.errors[0]), least))

    def known(self, found: Frequencies, draws: Records) -> tuple[float, tuple[float, float]]:
        """The largest error of a probability that matters; the least and median effective sizes."""
        p = found.means
        visits = None if self.round_trips is None else sum(self.round_trips)
        errors = widened(p, found.errors, visits)
        judged = p >= JUDGED
        worst = float(errors[judged].max()) if judged.any() else 0.0
        open_ones = judged & (p <= 1 - JUDGED) & (errors > 0)
        if not open_ones.any():
            all_of_them = float(draws.log_weights.size)
            return worst, (all_of_them, all_of_them)
        sizes = p[open_ones] * (1 - p[open_ones]) / errors[open_ones] ** 2
        return worst, (float(sizes.min()), float(np.median(sizes)))

    def report(self, worst: float) -> None:
        """Show how far it has come."""
        done = 1000 if worst <= self.precision else int(1000 * (self.precision / worst) ** 2)
        self.tell(min(done, 999), 1000, f"worst standard error {worst:.2g}")

    def reasons(self, doubts: tuple[Doubt, ...], effective: float) -> tuple[str, ...]:
        """Why there is no probability to quote."""
        found = []
        if doubts:
            worst = doubts[0]
            found.append(
                f"chains disagree about {len(doubts)} clusters, such as "
                f"{show_cluster(worst.mask, self.potential.labels)}, which has a frequency from "
                f"{worst.low:.2f} to {worst.high:.2f}"
            )
        if not self.runs:
            found.append(
                "annealing from uniform trees did not end in time, so nothing shows that chains "
                "which start elsewhere agree"
            )
        if travelled := self.untravelled():
            found.append(travelled)
        if self.n_records < ENOUGH_RECORDS:
            found.append(f"time was up after {self.moved:,} moves of each chain, too few to judge")
        elif effective < LEAST_EFFECTIVE:
            found.append(f"the trees sampled amount to only {effective:.0f} independent ones")
        if found:
            found.append("raise time_limit" + self.flatter())
        return tuple(found)

    def flatter(self) -> str:
        """What else brings the modes together, if the model has a beta."""
        has_beta = any("beta" in part.parameters() for part in self.potential.parts)
        return ", or lower beta, at which there are fewer separate modes" if has_beta else ""

    def best_tree(self, draws: Records, grown: Tree | None) -> Tree:
        """The best tree found by any means, after a climb."""
        row, column = np.unravel_index(int(draws.log_weights.argmax()), draws.log_weights.shape)
        sampled = Tree(draws.children[row, column].astype(np.int64), labels=self.potential.labels)
        trees = [sampled] if grown is None else [sampled, grown]
        start = max(trees, key=self.potential.log_weight)
        climbed = local_search(self.potential, start, 0, rng=0, threads=1)
        return self.potential.with_heights(climbed.tree)


def _put(estimates: dict[str, Estimate], name: str, found: Estimate | None) -> None:
    """Keep an estimate if there is one."""
    if found is not None:
        estimates[name] = found


def _doubts(draws: Records, found: Frequencies, flagged: BoolArray) -> tuple[Doubt, ...]:
    """The clusters about which chains disagree, the worst first."""
    numbers = np.flatnonzero(flagged)
    chains = found.by_chain[:, numbers]
    order = numbers[np.argsort(-np.ptp(chains, axis=0), kind="stable")] if len(numbers) else numbers
    masks = place_masks(draws.children, found.places[order])
    lows, highs = found.by_chain[:, order].min(axis=0), found.by_chain[:, order].max(axis=0)
    return tuple(
        Doubt(mask, low, high)
        for mask, low, high in zip(masks, lows.tolist(), highs.tolist(), strict=True)
    )
