"""How probabilities move with beta: the same clusters at half, once and twice beta."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from hctrellis.clusters import mask_labels
from hctrellis.posterior.base import BasePosterior
from hctrellis.posterior.lookup import Lookup
from hctrellis.tables.solve import SLOW_LEAVES, solve
from hctrellis.tables.wish import Bars, Wish
from hctrellis.trust.beta import Make, SensitivityRow, sensitivity

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray

MOVED_LEAVES = 20  # up to which all trees are weighed at three betas unless it is not wanted
LATER = (
    "The probabilities at half and twice beta are not given unasked here, since that takes three "
    "times as long; --sensitivity asks for them."
)
NO_MOVES = (
    "The probabilities at half and twice beta are not given, since the trees sampled there gave no "
    "probability that can be quoted."
)


def is_quick(post: BasePosterior) -> bool:
    """Whether the probabilities at other betas take little time."""
    if post.method == "sampled":
        return False
    return post.method == "sparse" or post.n_leaves <= MOVED_LEAVES


def moves(
    make: Make,
    table: FloatArray | None,
    post: BasePosterior,
    masks: Iterable[int],
    wish: Wish,
    bars: Bars,
) -> list[SensitivityRow]:
    """The probabilities of clusters at half, once and twice beta; empty if some are not known."""
    beta, clusters = post.potential.beta, [*masks]
    with warnings.catch_warnings():  # what they say was said of the posterior itself
        warnings.simplefilter("ignore")
        if post.method != "sampled":
            what = "thousandths of the answers at half and twice beta"
            with bars(what, post.n_leaves < SLOW_LEAVES) as progress:
                return sensitivity(make, table, beta, clusters, post.trellis, progress)
        again = replace(wish, max_clusters=None)
        low, high = (solve(make(table, factor * beta), again, bars) for factor in (0.5, 2.0))
    posts = {beta / 2: low, beta: post, 2 * beta: high}
    if not all(each.is_reliable for each in posts.values()):
        return []
    return [_row(each, b, clusters) for b, each in posts.items()]


def _row(post: BasePosterior, beta: float, masks: Iterable[int]) -> SensitivityRow:
    known = Lookup(post)
    found = {
        frozenset(mask_labels(mask, post.labels)): known.probability(mask) or 0.0 for mask in masks
    }
    log_p = post.map_log_probability
    return SensitivityRow(beta, float("nan") if log_p is None else log_p, found)
