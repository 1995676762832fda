"""A second opinion on a table: a model without beta beside one that has a beta, or the reverse.

Contrasts are asked beside every model with a beta, and average linkage with an automatic beta
beside contrasts. Where not all trees are weighed in a few seconds, only if that is asked for.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from hctrellis.posterior.base import BasePosterior
from hctrellis.tables.models import CONTRASTS, LEAST_CONTRASTS, LINKAGES, maker
from hctrellis.tables.solve import solve
from hctrellis.tables.wish import Bars, Wish
from hctrellis.trust.beta import choose_beta
from hctrellis.trust.contrasts import Contrasts
from hctrellis.trust.opinions import SecondOpinion, second_opinion

if TYPE_CHECKING:
    from hctrellis.potentials.base import Potential
    from hctrellis.support.types import FloatArray

QUICK_LEAVES = 20  # up to which a second opinion is asked for unless it is not wanted
OTHER = "average"  # the model that is asked beside contrasts
LATER = (
    f"For more than {QUICK_LEAVES} items no other model is asked for a second opinion, since that "
    "takes as long again; --second-opinion asks it."
)

NO_SECOND = (
    "Another model was asked for a second opinion, but the trees sampled for it gave no "
    "probability that can be quoted."
)


def called(name: str) -> str:
    """What a model is called in a sentence."""
    if name in LINKAGES:
        return f"{name} linkage"
    return {"dasgupta": "Dasgupta's cost", CONTRASTS: CONTRASTS}.get(name, name.replace("-", " "))


def has_second(name: str, kind: str, values: FloatArray, metric: str) -> bool:
    """Whether another model can be asked about the same numbers."""
    if kind != "features" or metric != "euclidean" or len(values) < 3:
        return False
    columns = LEAST_CONTRASTS if name != CONTRASTS else 1
    return values.shape[1] >= columns and bool((values != values[0]).any())


def ask(
    post: BasePosterior, name: str, values: FloatArray, wish: Wish, bars: Bars
) -> SecondOpinion | None:
    """What another model says; None if one of the two gives no probability that can be quoted."""
    if not post.is_reliable:
        return None
    other = OTHER if name == CONTRASTS else CONTRASTS
    with warnings.catch_warnings():  # what they say is about a model that was not chosen
        warnings.simplefilter("ignore")
        second = solve(_model(other, post, values, wish, bars), wish, bars)
    if not second.is_reliable:
        return None
    return second_opinion(post, second, (called(name), called(other)))


def _model(
    other: str, post: BasePosterior, values: FloatArray, wish: Wish, bars: Bars
) -> Potential:
    if other == CONTRASTS:
        with bars("fits, for a second opinion", False) as progress:
            return Contrasts(values, labels=post.labels, rng=wish.seed, progress=progress)
    make = maker(other, "features", values, labels=post.labels)
    with bars("steps to choose beta, for a second opinion", False) as progress:
        choice = choose_beta(make, values, rng=wish.seed, progress=progress)
    return make(values, choice.beta)
