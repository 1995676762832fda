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
    from hctrellis.support.types import BoolArray, FloatArray, IntArray, SmallArray

BATCHES = 16  # of each chain: their means are nearly independent
LEVELS = (1, 2, 4)  # batches that are put together, to see whether they are independent
MIXED = 4.0  # ratio of variances that chance hardly exceeds


def leaf_codes(n_leaves: int) -> IntArray:
    """A random number for each leaf, always the same."""
    bounds = np.iinfo(np.int64)
    rng = np.random.default_rng(0)
    return rng.integers(bounds.min, bounds.max, n_leaves, endpoint=True)


def cluster_codes(children: SmallArray | IntArray) -> IntArray:
    """The codes of the internal clusters of trees, shape (trees, n - 1), that of the root last."""
    from hctrellis.kernels.codes import fill_codes

    found = np.empty(children.shape[:2], np.int64)
    fill_codes(np.ascontiguousarray(children), leaf_codes(children.shape[1] + 1), found)
    return found


def inner_codes(children: SmallArray) -> IntArray:
    """The clusters of each tree, by code, but for that of all leaves."""
    codes = cluster_codes(children.reshape(-1, *children.shape[-2:]))[:, :-1]
    return codes.reshape(*children.shape[:-2], -1)


def split_codes(children: SmallArray | IntArray) -> IntArray:
    """Codes of the splits of trees, shape (trees, n - 1): the same for the same two clusters."""
    n = children.shape[1] + 1
    leaves = np.broadcast_to(leaf_codes(n), (len(children), n))
    nodes = np.concatenate([leaves, cluster_codes(children)], axis=1).view(np.uint64)
    sides = np.take_along_axis(
        nodes, children.reshape(len(children), -1).astype(np.int64), axis=1
    ).reshape(children.shape)
    sides = (sides ^ (sides >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
    sides ^= sides >> np.uint64(29)  # so that a sum tells {a, b} from {c, d} with a ^ b = c ^ d
    return np.asarray((sides[..., 0] + sides[..., 1]).view(np.int64))


def member_codes(members: BoolArray) -> IntArray:
    """The codes of clusters given as rows of a boolean matrix."""
    codes = np.where(members, leaf_codes(members.shape[1]), 0)
    return np.asarray(np.bitwise_xor.reduce(codes, axis=1))


def cluster_members(children: SmallArray, nodes: IntArray) -> BoolArray:
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
class Shares:
    """Means of quantities over the draws of some chains, and how well they are known.

    Attributes
    ----------
    batches : float64 array, shape (chains, BATCHES, k)
        The mean of each quantity in each batch of each chain.
    """

    batches: FloatArray

    @cached_property
    def means(self) -> FloatArray:
        """The mean of each quantity over all draws."""
        found: FloatArray = self.batches.mean(axis=(0, 1))
        return found

    @cached_property
    def by_chain(self) -> FloatArray:
        """The mean over each chain, shape (chains, k)."""
        found: FloatArray = self.batches.mean(axis=1)
        return found

    @cached_property
    def errors(self) -> FloatArray:
        """The standard error of each mean.

        From how far batches lie from the mean of all; batches are put together in twos and fours,
        and the largest error counts, so that draws which depend on each other over more than one
        batch are not taken for independent. Where chains differ by more than chance explains, it
        is taken from how far chains lie apart, if that is more.
        """
        n_chains, n_batches, k = self.batches.shape
        found = np.zeros(k)
        for level in LEVELS:
            count = n_batches // level
            joined = self.batches.reshape(n_chains, count, level, k).mean(axis=2)
            found = np.maximum(found, _standard_error(joined.reshape(n_chains * count, k)))
        if n_chains > 1:
            apart = np.maximum(found, _standard_error(self.by_chain))
            found = np.where(self.ratios > MIXED, apart, found)
        return found

    @cached_property
    def within(self) -> FloatArray:
        """The standard error of the mean of each chain, from its own batches, shape (chains, k)."""
        n_batches = self.batches.shape[1]
        found: FloatArray = self.batches.std(axis=1, ddof=1) / np.sqrt(n_batches)
        return found

    @cached_property
    def ratios(self) -> FloatArray:
        """The variance between chains over what batches within chains explain; 1 if they mix."""
        within = (self.within**2).mean(axis=0)
        between = self.by_chain.var(axis=0, ddof=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            found: FloatArray = np.nan_to_num(between / within, nan=1.0, posinf=np.inf)
        return found


@dataclass(frozen=True, eq=False)
class Frequencies(Shares):
    """How often clusters occur among the trees of some chains.

    Attributes
    ----------
    codes : int64 array, shape (k,)
        The clusters, by code, in increasing order.
    places : int64 array, shape (k, 2)
        A tree that has the cluster, and which of its internal nodes it is.
    """

    codes: IntArray
    places: IntArray

    def at(self, codes: IntArray) -> FloatArray:
        """The share of trees that have given clusters; 0 for those that were not counted."""
        where = np.minimum(np.searchsorted(self.codes, codes), max(0, len(self.codes) - 1))
        if len(self.codes) == 0:
            return np.zeros(len(codes))
        return np.where(self.codes[where] == codes, self.means[where], 0.0)


def _standard_error(values: FloatArray) -> FloatArray:
    found: FloatArray = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return found


def shares(values: FloatArray | BoolArray) -> Shares:
    """Means of one quantity per draw, or of k of them.

    values : (chains, draws) or (chains, draws, k), with BATCHES draws or more
    """
    table = values[:, :, None] if values.ndim == 2 else values
    ends = np.arange(BATCHES) * table.shape[1] // BATCHES
    sums = np.add.reduceat(table.astype(float), ends, axis=1)
    counts = np.diff([*ends.tolist(), table.shape[1]])
    return Shares(sums / counts[:, None])


def frequencies(codes: IntArray, least: float) -> Frequencies:
    """Count clusters of at least a given frequency.

    codes : int64 (chains, draws, m), of the clusters of each tree; BATCHES draws or more
    """
    n_chains, n_draws, m = codes.shape
    flat = codes.reshape(-1, m)
    found, first, numbers, counts = np.unique(
        flat, return_index=True, return_inverse=True, return_counts=True
    )
    kept = counts >= max(1, least * len(flat))
    rank, k = np.cumsum(kept) - 1, int(kept.sum())
    rows = _batch_numbers(n_chains, n_draws)
    numbers = numbers.reshape(flat.shape)
    entries = kept[numbers]
    where = np.broadcast_to(rows[:, None], flat.shape)[entries]
    table = np.bincount(where * k + rank[numbers[entries]], minlength=n_chains * BATCHES * k)
    n_batches = n_chains * BATCHES
    share = table.reshape(n_batches, k) / np.bincount(rows, minlength=n_batches)[:, None]
    places = np.column_stack(np.divmod(first[kept], max(1, m)))
    return Frequencies(share.reshape(n_chains, BATCHES, k), found[kept], places)


def _batch_numbers(n_chains: int, n_draws: int) -> IntArray:
    """The number of the batch of each draw, chain after chain."""
    ends = np.arange(BATCHES) * n_draws // BATCHES
    batch = np.searchsorted(ends, np.arange(n_draws), side="right") - 1
    return np.asarray((np.arange(n_chains)[:, None] * BATCHES + batch).ravel())
