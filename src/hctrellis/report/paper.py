"""Sentences for a paper, filled in with what was found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from hctrellis.clusters import mask_labels
from hctrellis.posterior.base import BasePosterior, Estimate
from hctrellis.posterior.lookup import Lookup
from hctrellis.report.words import braced, capitalised
from hctrellis.support.printable import show_probability

if TYPE_CHECKING:
    from hctrellis.trust.beta import BetaChoice, SensitivityRow
    from hctrellis.trust.bootstrap import BootstrapSupport
    from hctrellis.trust.opinions import SecondOpinion

MOST_SENTENCES = 3
WELL_KNOWN = 5e-4  # standard errors below this are not given


def sentences(
    post: BasePosterior,
    masks: Iterable[int],
    model: str,
    beta: BetaChoice | None = None,
    moves: Sequence[SensitivityRow] = (),
    bootstrap: BootstrapSupport | None = None,
    opinion: SecondOpinion | None = None,
) -> list[str]:
    """What can be said of clusters, one sentence each, the circumstances in the first."""
    if not post.is_reliable:
        return []
    known = Lookup(post)
    resampled = {row.cluster: (row.au, row.bp) for row in bootstrap or ()}
    found = []
    for mask in [*masks][:MOST_SENTENCES]:
        names = frozenset(mask_labels(mask, post.labels))
        estimate = known.estimate(mask) or Estimate(0.0, 0.0)
        p, error = show_probability(estimate.value), estimate.error
        value = f"{p} ± {error:.1g} (standard error of sampling)" if error >= WELL_KNOWN else p
        text = f"{braced(mask, post.labels)} has posterior probability {value}"
        text += f"{_range(names, moves)}{_resampled(names, resampled)}{_second(mask, opinion)}."
        found.append(capitalised(text))
    if found:
        found[0] = f"Under {model}{_beta(post, beta)}, {found[0][:1].lower()}{found[0][1:]}"
    return found


def _beta(post: BasePosterior, choice: BetaChoice | None) -> str:
    if not post.potential.has_energy:
        return ""
    value = f", with beta = {post.potential.beta:g}"
    if choice is None:
        return f"{value} chosen by hand"
    if choice.rule == "bootstrap":
        return f"{value} chosen by agreement with {choice.n_resamples} column resamples"
    return f"{value} chosen by a rule of thumb (the peak of the heat capacity)"


def _range(names: frozenset[str], moves: Sequence[SensitivityRow]) -> str:
    """The probabilities at half and twice beta."""
    known = [row.probabilities.get(names) for row in (*moves[:1], *moves[-1:])]
    if len(known) < 2 or None in known:
        return ""
    low, high = (show_probability(float(p)) for p in known if p is not None)
    return f" ({low} to {high} for half and twice beta)"


def _second(mask: int, opinion: SecondOpinion | None) -> str:
    """What another model says."""
    if opinion is None:
        return ""
    post = opinion.posterior
    p = show_probability(Lookup(post).probability(mask) or 0.0)
    with_beta = f" with beta = {post.potential.beta:g}" if post.potential.has_energy else ""
    return f"; by {opinion.names[1]}{with_beta} it has {p}"


def _resampled(names: frozenset[str], known: Mapping[frozenset[str], tuple[float, float]]) -> str:
    if names not in known:
        return ""
    au, bp = known[names]
    both = [f"AU {show_probability(au)}"] if au == au else []
    return ", " + ", ".join([*both, f"BP {show_probability(bp)}"])
