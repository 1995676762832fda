"""What is done with how many leaves: one policy for one data set and for many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from hctrellis.build.grow import grow
from hctrellis.posterior.base import BasePosterior
from hctrellis.posterior.posterior import Posterior
from hctrellis.sampling.run import PRECISION, TIME_LIMIT, sample_posterior
from hctrellis.support.checks import as_count
from hctrellis.trellis.full import MAX_LEAVES, FullTrellis

if TYPE_CHECKING:
    from hctrellis.potentials.base import Potential
    from hctrellis.support.progress import Progress
    from hctrellis.support.types import Seed

Beyond: TypeAlias = Literal["sample", "sparse", "error"]
BEYOND = ("sample", "sparse", "error")
GROWTH_RESTARTS, GROWTH_ROUNDS = 100, 4  # they take half a second or so


class TooManyLeavesError(ValueError):
    """More leaves than may be solved exactly, and nothing else is wanted."""


@dataclass(frozen=True)
class Policy:
    """Exact inference up to some number of leaves, and what comes beyond.

    Attributes
    ----------
    max_leaves : int
        The most leaves that are solved exactly.
    beyond : "sample", "sparse" or "error"
        With more leaves: sample trees (see `sample_posterior`), grow a sparse trellis in a few
        rounds (the same trellis in every run), or raise an error.
    precision, time_limit, rng
        As in `sample_posterior`.
    """

    max_leaves: int
    beyond: Beyond = "sample"
    precision: float = PRECISION
    time_limit: float | None = TIME_LIMIT
    rng: Seed = 0

    @classmethod
    def of(
        cls,
        max_leaves: object,
        beyond: object,
        precision: float,
        time_limit: float | None,
        rng: Seed,
    ) -> Policy:
        """A policy, checked."""
        most = as_count(max_leaves, "max_leaves")
        if most > MAX_LEAVES:
            raise ValueError(
                f"max_leaves must be at most {MAX_LEAVES}, the most that can be solved exactly; "
                f"got {most}"
            )
        if beyond not in BEYOND:
            raise ValueError(
                f"beyond must be {', '.join(map(repr, BEYOND))}, what is done with more than "
                f"max_leaves leaves; got {beyond!r:.80}"
            )
        return cls(most, cast(Beyond, beyond), precision, time_limit, rng)

    def solve(
        self,
        potential: Potential,
        threads: int | None = None,
        progress: Progress | bool | None = None,
    ) -> BasePosterior:
        """The posterior of a potential."""
        n = potential.n_leaves
        if n <= self.max_leaves:
            trellis = FullTrellis(n)
            return Posterior(trellis.solve(potential, threads, progress), trellis, threads=threads)
        if self.beyond == "sample":
            return sample_posterior(
                potential,
                self.precision,
                self.time_limit,
                rng=self.rng,
                threads=threads,
                progress=progress,
            )
        if self.beyond == "sparse":
            growth = grow(
                potential,
                time_limit=None,
                rng=0,
                n_restarts=GROWTH_RESTARTS,
                max_rounds=GROWTH_ROUNDS,
                threads=threads,
                progress=progress,
            )
            solution = growth.trellis.solve(potential, threads)
            return Posterior(solution, growth.trellis, threads=threads, growth=growth)
        raise TooManyLeavesError(
            f"there are {n} leaves, and at most {self.max_leaves} are solved exactly here; raise "
            'max_leaves, or have others sampled (beyond="sample") or bounded (beyond="sparse")'
        )
