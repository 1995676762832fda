"""The splits on which a user's function is tried when it is given."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hctrellis.clusters import Lattice, n_splits
from hctrellis.support.types import BoolArray

if TYPE_CHECKING:
    from hctrellis.support.types import IntArray

ALL = 300_000  # if there are no more splits than this (12 leaves), all of them are tried,
MOST = 4_000  # else about as many as this,
MOST_LEAVES = 200_000  # or fewer, so that their clusters have not many more leaves in all than this
LEAST = 64  # but not fewer than this


class Trial(NamedTuple):
    """Different clusters of n leaves, and splits given by the numbers of three of them.

    Attributes
    ----------
    clusters : bool array, shape (k, n)
    left, right, parent : int arrays, shape (m,)
    """

    clusters: BoolArray
    left: IntArray
    right: IntArray
    parent: IntArray


@lru_cache(maxsize=16)
def trial(n_leaves: int) -> Trial:
    """All splits of n leaves if these are few; else pairs, splits of the root and of other sizes.

    >>> len(trial(4).left), len(trial(20).left) > 3000
    (25, True)
    """
    return _all_splits(n_leaves) if n_splits(n_leaves) <= ALL else _some_splits(n_leaves)


def _all_splits(n_leaves: int) -> Trial:
    """Every cluster, and every split once: the first leaf is in the left child."""
    left = np.zeros(1, np.int64)
    right = left
    for leaf in range(n_leaves):  # it is in the left child, in the right one, or in none
        sets = (left | 1 << leaf, left, left), (right, right | 1 << leaf, right)
        left, right = map(np.concatenate, sets)
    kept = (right > 0) & ((left & -left) < (right & -right)) & (left > 0)
    numbers = np.array([left, right, left | right])[:, kept] - 1  # without the empty cluster
    return Trial(Lattice(n_leaves).members[1:], *numbers)


def _some_splits(n_leaves: int) -> Trial:
    """A quarter are pairs of leaves, a quarter splits of the root, the others of any sizes."""
    rng = np.random.default_rng(0)
    quarter = max(LEAST, min(MOST, MOST_LEAVES // n_leaves)) // 4
    sizes = [(1, n_leaves - 1), *combinations(range(1, n_leaves + 1), 2)]  # of left, of parent
    drawn = [
        *((1, 2) for _ in range(quarter)),
        *((1 + i % (n_leaves - 1), n_leaves) for i in range(quarter)),
        *(sizes[i] for i in rng.integers(len(sizes), size=2 * quarter)),
    ]
    lefts, parents = np.array(drawn).T[:, :, None]
    ranks = rng.random((len(drawn), n_leaves)).argsort(axis=1)
    pairs = np.triu_indices(n_leaves, 1)
    if len(pairs[0]) <= quarter:
        ranks[: len(pairs[0])] = 2
        for rank, leaves in enumerate(pairs):
            ranks[np.arange(len(leaves)), leaves] = rank
    left, right = ranks < lefts, (ranks >= lefts) & (ranks < parents)
    members = np.concatenate([left, right, left | right])
    packed = np.packbits(members, axis=1)
    rows = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
    _, first, numbers = np.unique(rows, return_index=True, return_inverse=True)
    return Trial(members[first], *numbers.reshape(3, -1))
