"""The clusters of many trees: which there are, how often, and how well that is known.

Trees come as children (see `Tree`), chain by chain in the order in which they were drawn. A cluster
is known by its code, the exclusive or of a random 64-bit number for each of its leaves; that two of
a million clusters share a code has a probability of 3e-8.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from hctrellis.support.types import BoolArray, FloatArray, IntArray

BATCHES = 16  # of each chain: their means are nearly independent


def leaf_codes(n_leaves: int) -> IntArray:
    """A random number for each leaf, always the same."""
    bounds = np.iinfo(np.int64)
    rng = np.random.default_rng(0)
    return rng.integers(bounds.min, bounds.max, n_leaves, endpoint=True)


def cluster_codes(children: IntArray) -> IntArray:
    """The codes of the internal clusters of trees, shape (trees, n - 1), that of the root last."""
    n_trees, n = len(children), children.shape[1] + 1
    codes = np.empty((2 * n - 1, n_trees), np.int64)
    codes[:n] = leaf_codes(n)[:, None]
    rows = np.arange(n_trees)
    for k in range(n - 1):
        left, right = children[:, k].T.astype(np.int64)
        codes[n + k] = codes[left, rows] ^ codes[right, rows]
    return codes[n:].T


def cluster_members(children: IntArray, nodes: IntArray) -> BoolArray:
    """The leaves of one internal node of each of some trees, shape (trees, n)."""
    n_trees, n = len(children), children.shape[1] + 1
    inside = np.zeros((2 * n - 1, n_trees), bool)
    rows = np.arange(n_trees)
    inside[n + nodes, rows] = True
    for k in range(n - 2, -1, -1):
        for side in range(2):
            inside[children[:, k, side].astype(np.int64), rows] |= inside[n + k]
    return inside[:n].T


@dataclass(frozen=True, eq=False)
class Frequencies:
    """How often clusters occur among the trees of some chains.

    Attributes
    ----------
    codes : int64 array, shape (k,)
        The clusters, by code, in increasing order.
    batches : float64 array, shape (chains, BATCHES, k)
        The share of trees that have each cluster, in each batch of each chain.
    places : int64 array, shape (k, 2)
        A tree that has the cluster, and which of its internal nodes it is.
    """

    codes: IntArray
    batches: FloatArray
    places: IntArray

    @cached_property
    def means(self) -> FloatArray:
        """The share of all trees that have each cluster."""
        found: FloatArray = self.batches.mean(axis=(0, 1))
        return found

    @cached_property
    def errors(self) -> FloatArray:
        """The standard error of each mean.

        From how far batches lie from the mean of all, or, where that says more than chance
        explains, from how far chains do.
        """
        by_batch = _standard_error(self.batches.reshape(-1, len(self.codes)))
        found: FloatArray = np.where(
            self.ratios > MIXED, np.maximum(by_batch, self.by_chain), by_batch
        )
        return found

    @cached_property
    def by_chain(self) -> FloatArray:
        """The standard error of each mean, from the means of chains alone."""
        return _standard_error(self.batches.mean(axis=1))

    @cached_property
    def ratios(self) -> FloatArray:
        """The variance between chains over what batches within chains explain; 1 if they mix."""
        within = self.batches.var(axis=1, ddof=1).mean(axis=0) / self.batches.shape[1]
        between = self.batches.mean(axis=1).var(axis=0, ddof=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            found: FloatArray = np.nan_to_num(between / within, nan=1.0, posinf=np.inf)
        return found

    def some(self, chains: BoolArray | slice) -> Frequencies:
        """The same of some of the chains."""
        return Frequencies(self.codes, self.batches[chains], self.places)


MIXED = 4.0  # ratio of variances that chance hardly exceeds


def _standard_error(values: FloatArray) -> FloatArray:
    found: FloatArray = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return found


def frequencies(children: IntArray, least: float) -> Frequencies:
    """Count clusters of at least a given frequency, the root apart.

    children : int (chains, draws, n - 1, 2), with BATCHES draws or more
    """
    n_chains, n_draws, n_inner = children.shape[:3]
    codes = cluster_codes(children.reshape(-1, n_inner, 2))[:, :-1]
    found, first, numbers, counts = np.unique(
        codes, return_index=True, return_inverse=True, return_counts=True
    )
    kept = counts >= least * len(codes)
    rank, k = np.cumsum(kept) - 1, int(kept.sum())
    rows = _batch_numbers(n_chains, n_draws)
    numbers = numbers.reshape(codes.shape)
    entries = kept[numbers]
    where = np.broadcast_to(rows[:, None], codes.shape)[entries]
    table = np.bincount(where * k + rank[numbers[entries]], minlength=n_chains * BATCHES * k)
    shares = table.reshape(-1, k) / np.bincount(rows, minlength=n_chains * BATCHES)[:, None]
    places = np.column_stack(np.divmod(first[kept], max(1, n_inner - 1)))
    return Frequencies(found[kept], shares.reshape(n_chains, BATCHES, k), places)


def _batch_numbers(n_chains: int, n_draws: int) -> IntArray:
    """The number of the batch of each draw, chain after chain."""
    batch = np.arange(n_draws) * BATCHES // n_draws
    return np.asarray((np.arange(n_chains)[:, None] * BATCHES + batch).ravel())
