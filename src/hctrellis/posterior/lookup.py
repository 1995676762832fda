"""Probabilities of many clusters at once, with their standard errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hctrellis.posterior.base import BasePosterior, Estimate

if TYPE_CHECKING:
    from hctrellis.tree import Tree

FLOOR = 0.005  # clusters of less probability are asked for one by one


class Lookup:
    """The probabilities of clusters, by mask: most of them from one table.

    Where nothing can be quoted (`BasePosterior.is_reliable`), all of them are unknown.

    Parameters
    ----------
    post : BasePosterior
    """

    def __init__(self, post: BasePosterior) -> None:
        self._post = post
        self._known: dict[int, Estimate] = {}
        self._sampled = post.method == "sampled"
        if post.is_reliable:
            table = post.cluster_probabilities(FLOOR)
            errors = [0.0] * len(table) if table.errors is None else table.errors.tolist()
            pairs = zip(table.masks, table.probabilities.tolist(), errors, strict=True)
            self._known = {mask: Estimate(p, error) for mask, p, error in pairs}

    def estimate(self, mask: int) -> Estimate | None:
        """The probability of a cluster with its standard error; None if it cannot be quoted."""
        if mask not in self._known and self._post.is_reliable:
            self._known[mask] = self._asked(mask)
        return self._known.get(mask)

    def _asked(self, mask: int) -> Estimate:
        if self._sampled:
            return self._post.estimate([mask])
        return Estimate(self._post.cluster_probability(mask), 0.0)

    def probability(self, mask: int) -> float | None:
        """The probability alone."""
        found = self.estimate(mask)
        return None if found is None else found.value

    def error(self, mask: int) -> float:
        """The standard error alone; 0 where nothing was sampled."""
        found = self.estimate(mask)
        return 0.0 if found is None else found.error

    def support(self, tree: Tree) -> dict[frozenset[str], float]:
        """The probabilities of the clusters of a tree over the same leaves, where known."""
        found = {}
        aligned = self._post.potential.align(tree)
        names = [frozenset(aligned.labels[i] for i in _bits(m)) for m in aligned.masks]
        for mask, cluster in zip(aligned.masks, names, strict=True):
            value = self.probability(mask) if len(cluster) > 1 else None
            if value is not None:
                found[cluster] = value
        return found


def _bits(mask: int) -> list[int]:
    return [k for k in range(mask.bit_length()) if mask >> k & 1]
