"""A second opinion: the clusters about which two models of the same leaves disagree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hctrellis.posterior.base import BasePosterior

LIKELY = 0.5  # clusters of at least this probability are held by a model
GAP = 0.25  # between two probabilities, from which on models disagree
SHOWN = 3  # clusters named in a sentence


class Opinion(NamedTuple):
    """What two models say about a cluster."""

    cluster: frozenset[str]
    first: float
    second: float


@dataclass(frozen=True)
class SecondOpinion:
    """Where two models agree and disagree.

    Attributes
    ----------
    names : tuple of str
        What the two models are called.
    agreed : list of Opinion
        Clusters that both hold likely (at least 0.5).
    disputed : list of Opinion
        Clusters that only one of them holds likely, and that the other gives a probability that is
        lower by a quarter or more; the greatest difference comes first.
    posterior : Posterior or SampledPosterior
        Of the second model.
    """

    names: tuple[str, str]
    agreed: Sequence[Opinion]
    disputed: Sequence[Opinion]
    posterior: BasePosterior

    @property
    def sentence(self) -> str:
        """Where the two disagree, in plain words."""
        return self.told(SHOWN)

    def told(self, shown: int = 0) -> str:
        """Where the two disagree, with so many of the disputed clusters named."""
        one, other = self.names
        if not self.agreed and not self.disputed:
            return f"Neither {one} nor {other} finds a cluster that is more likely than not."
        together = _counted(len(self.agreed), "cluster")
        if not self.disputed:
            return f"{_upper(one)} and {other} agree: both find {together} likely."
        named = "; ".join(self._told(opinion) for opinion in self.disputed[:shown])
        more = len(self.disputed) - shown
        rest = f"; and {_counted(more, 'other')}" if more > 0 else ""
        listed = f" ({named}{rest})" if named else ""
        both = (
            f"both find {together} likely" if self.agreed else "there is none that both find likely"
        )
        return (
            f"{_upper(one)} and {other} disagree about {_counted(len(self.disputed), 'cluster')}, "
            f"so be careful with {'these' if len(self.disputed) > 1 else 'it'}{listed}; "
            f"{both}."
        )

    def _told(self, opinion: Opinion) -> str:
        members = [name for name in self.posterior.labels if name in opinion.cluster]
        names = ", ".join(members[:4]) + (f" and {len(members) - 4} more" * (len(members) > 4))
        one, other = self.names
        return f"{{{names}}}: {opinion.first:.2f} by {one}, {opinion.second:.2f} by {other}"


def second_opinion(
    first: BasePosterior,
    second: BasePosterior,
    names: tuple[str, str] = ("the first model", "the second model"),
) -> SecondOpinion:
    """Where two posteriors over the same leaves agree and disagree.

    Parameters
    ----------
    first, second : Posterior or SampledPosterior
        For instance of `Linkage` with a chosen beta, and of `Contrasts`.
    names : tuple of str
        What to call the two models in sentences.

    Examples
    --------
    >>> import hctrellis as hct
    >>> table = [[0.0], [0.1], [0.9], [3.0]]
    >>> sure, unsure = (hct.infer(hct.Linkage(table, beta=beta)) for beta in (20.0, 0.2))
    >>> print(hct.second_opinion(sure, unsure, ("one", "another")).sentence)
    ... # doctest: +ELLIPSIS
    One and another disagree about 2 clusters, so be careful with these ({0, 1}: 1.00 by one, ...
    """
    for post in (first, second):
        if not isinstance(post, BasePosterior):
            raise TypeError(f"expected a Posterior, got {type(post).__name__}")
    if set(first.labels) != set(second.labels):
        odd = sorted(set(first.labels) ^ set(second.labels))[0]
        raise ValueError(f"the two posteriors must be over the same leaves; one has no {odd!r:.40}")
    held = {
        row.cluster: None for post in (first, second) for row in post.cluster_probabilities(LIKELY)
    }
    opinions = [
        Opinion(cluster, first.cluster_probability(cluster), second.cluster_probability(cluster))
        for cluster in held
    ]
    agreed = [opinion for opinion in opinions if min(opinion[1:]) >= LIKELY]
    disputed = [
        opinion
        for opinion in opinions
        if min(opinion[1:]) < LIKELY and abs(opinion.first - opinion.second) >= GAP
    ]
    disputed.sort(key=lambda opinion: -abs(opinion.first - opinion.second))
    return SecondOpinion(names, agreed, disputed, second)


def _counted(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'s' if number > 1 else ''}"


def _upper(name: str) -> str:
    return name[:1].upper() + name[1:]
