"""Joins of the clusters of a forest, for greedy agglomeration and beam search.

A template (see `bind`) on top of `unions`.
"""

from __future__ import annotations

from hctrellis.kernels.bound import CROSS, inner, jit
from hctrellis.kernels.listing import list_split
from hctrellis.kernels.unions import linked, unite, weigh_list
from hctrellis.support.arrays import EXTREME


@jit
def weigh_joins(slot, others, base, spare, links, table, model, splits):
    """Fill log psi of joining the cluster at a slot with each of some others.

    Slot i is row base + i of the table; rows from `spare` on hold the unions. links : (l, n, n).
    False if one of them is NaN or +inf.
    """
    for k in range(others.size):
        i, j = min(slot, others[k]), max(slot, others[k])
        unite(spare + k, base + i, base + j, links, i, j, table, model)
        cross = links[EXTREME, i, j] if CROSS else 0.0
        list_split(base + i, base + j, spare + k, cross, splits)
    return weigh_list(splits, table, model)


@jit
def join(i, j, others, base, links, table, model):
    """Join the clusters at slots i and j, at slot i; others are the slots that remain."""
    unite(base + i, base + i, base + j, links, i, j, table, model)
    for link in range(links.shape[0]):
        for k in others:
            both = linked(link, links[link, i, k], links[link, j, k])
            links[link, i, k] = both
            links[link, k, i] = both


@inner
def without(slots, slot):
    """The slots without one of them, in the same order; changed in place."""
    at = 0
    for k in range(slots.size):
        if slots[k] != slot:
            slots[at] = slots[k]
            at += 1
    return slots[:at]
