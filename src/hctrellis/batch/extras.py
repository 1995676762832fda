"""Answers of a batch that take a posterior each: cluster probabilities and sampled trees.

They are lists of records, one list for each data set.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hctrellis.posterior.base import BasePosterior
from hctrellis.posterior.sample import TreeSample
from hctrellis.support.arrow import arrow
from hctrellis.support.checks import as_count

if TYPE_CHECKING:
    from collections.abc import Callable

Answers = dict[str, "list[dict[str, Any]] | None"]


@dataclass(frozen=True)
class Extras:
    """What is wanted.

    Attributes
    ----------
    clusters : float or None
        The least probability of the clusters to be listed.
    samples : int or None
        The number of trees to draw.
    seed : int
        Of the samples: those of a data set follow from it and from the number of its row.
    """

    clusters: float | None = None
    samples: int | None = None
    seed: int = 0

    @classmethod
    def of(cls, clusters: object, samples: object, seed: object) -> Extras:
        """Extras, checked."""
        number = None if samples is None else as_count(samples, "samples")
        if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or seed < 0:
            raise ValueError(f"seed must be a whole number, not negative; got {seed!r:.80}")
        if clusters is None:
            return cls(None, number, int(seed))
        if isinstance(clusters, bool) or not isinstance(clusters, float | int | np.number):
            raise TypeError(
                "clusters must be the least probability of the clusters that are listed; got "
                f"{clusters!r:.80}"
            )
        if not 0 <= clusters <= 1:
            raise ValueError(f"clusters must be a probability, from 0 to 1; got {clusters!r:.80}")
        return cls(float(clusters), number, int(seed))

    def __bool__(self) -> bool:
        return self.clusters is not None or self.samples is not None

    def fields(self) -> dict[str, Any]:
        """The columns, with their Arrow types."""
        pa = arrow()
        found = {}
        if self.clusters is not None:
            leaves = pa.list_(pa.int32())
            cluster = [("leaves", leaves), ("probability", pa.float64()), ("error", pa.float64())]
            found["clusters"] = pa.list_(pa.struct(cluster))
        if self.samples is not None:
            tree = [("tree", pa.string()), ("log_weight", pa.float64())]
            found["samples"] = pa.list_(pa.struct(tree))
        return found

    def settings(self) -> dict[str, Any]:
        """What the answers depend on."""
        drawn = {} if self.samples is None else {"samples": self.samples, "seed": self.seed}
        return {**({} if self.clusters is None else {"clusters": self.clusters}), **drawn}

    def ask(self, post: BasePosterior, row: int) -> Answers:
        """The answers for the data set in a row; None where they are not to be had."""
        asked: dict[str, Callable[[], list[dict[str, Any]]]] = {}
        if self.clusters is not None:
            asked["clusters"] = partial(_clusters, post, self.clusters)
        if self.samples is not None:
            rng = np.random.default_rng([self.seed, row])
            asked["samples"] = lambda: _samples(post.sample(self.samples or 0, rng))
        possible = post.is_reliable and post.log_partition_bound > -np.inf
        return {name: ask() if possible else None for name, ask in asked.items()}


def _clusters(post: BasePosterior, least: float) -> list[dict[str, Any]]:
    table = post.cluster_probabilities(least)
    errors = np.zeros(len(table)) if table.errors is None else table.errors
    numbers = zip(table.masks, table.probabilities.tolist(), errors.tolist(), strict=True)
    return [
        {"leaves": _leaves(mask), "probability": probability, "error": error}
        for mask, probability, error in numbers
    ]


def _leaves(mask: int) -> list[int]:
    return [leaf for leaf in range(mask.bit_length()) if mask >> leaf & 1]


def _samples(sample: TreeSample) -> list[dict[str, Any]]:
    first, which, _ = sample._distinct
    texts = [sample[int(row)].to_newick() for row in first]
    weights = sample.log_weights.tolist()
    return [
        {"tree": texts[k], "log_weight": weight}
        for k, weight in zip(which.tolist(), weights, strict=True)
    ]
