"""The posterior of a model: exact, sampled, or over the trees of a sparse trellis."""

from __future__ import annotations

from hctrellis.build.grow import grow
from hctrellis.infer import MAX_EXACT_LEAVES, infer
from hctrellis.posterior.base import BasePosterior
from hctrellis.potentials.base import Potential
from hctrellis.support.steps import watched_by
from hctrellis.tables.wish import Bars, Wish

SLOW_LEAVES = 17  # from which all trees take long enough to show progress


def solve(potential: Potential, wish: Wish, bars: Bars) -> BasePosterior:
    """The posterior: exact, sampled, or over the trees of a sparse trellis if that is asked for."""
    n = potential.n_leaves
    if n <= MAX_EXACT_LEAVES:
        with bars("splits", n < SLOW_LEAVES) as progress:
            post = infer(potential, progress=progress)
        with bars("splits, for the clusters", n < SLOW_LEAVES) as told, watched_by(told):
            post.cluster_probabilities()
        return post
    if wish.max_clusters is not None:
        with bars("seconds to find promising trees", False) as progress:
            growth = grow(
                potential, wish.max_clusters, wish.time_limit, rng=wish.seed, progress=progress
            )
        return infer(potential, growth)
    with bars("thousandths of the sampling", False) as progress:
        return infer(
            potential,
            precision=wish.precision,
            time_limit=wish.time_limit,
            rng=wish.seed,
            progress=progress,
        )
