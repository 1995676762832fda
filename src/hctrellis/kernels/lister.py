"""The splits of a cluster below a budget, listed by assigning its leaves one by one to two sides.

The cost so far, plus for every leaf not yet assigned the lesser of what it would add on either
side, bounds all splits that agree with what is assigned. What a leaf adds is kept for every leaf
and either side, and updated when another leaf joins a side: O(n^2) per assignment.
"""

from __future__ import annotations

import numpy as np

from hctrellis.kernels.bounds import bound_of
from hctrellis.kernels.compile import inner
from hctrellis.kernels.masks import is_connected, lowest
from hctrellis.support.bounded import (
    BOUND,
    COST,
    LEAF,
    LEAF_BITS,
    LOW_LEFT,
    LOW_RIGHT,
    MASK,
    TRIANGLES,
    TRIPLES,
)

LEFT, RIGHT, REST = 0, 1, 2


@inner
def begin_listing(cluster, tables, lister):
    """Put the leaf with the largest sum of pairs to the left."""
    n = lister.sides.shape[1]
    first = lowest(cluster)
    weight = np.int64(-1)
    leaves = cluster
    while leaves != 0:
        leaf = lowest(leaves)
        leaves &= leaves - 1
        total = np.int64(0)
        others = cluster
        while others != 0:
            total += tables.pairs[leaf, lowest(others)]
            others &= others - 1
        if total > weight:
            first, weight = leaf, total
    for v in range(n):
        for side in range(2):
            lister.costs[0, side, v] = 0
            lister.gains[0, side, v] = 0
    own = bound_of(cluster, tables)  # triangles begin with it; quadruples may lose it again
    lister.sums[0, 0] = own if tables.kind[0] == TRIANGLES else 0
    lister.sums[0, 1] = 0
    lister.sums[0, 2] = 0
    lister.sums[0, 3] = own
    lister.masks[0, LEFT] = 0
    lister.masks[0, RIGHT] = 0
    lister.masks[0, REST] = cluster
    lister.counts[0] = 0
    lister.counts[1] = 0
    lister.branch[0, 0] = first
    lister.branch[0, 1] = 1  # the right side need not be tried
    lister.level[0] = 0
    assign(first, LEFT, tables, lister)


@inner
def assign(u, side, tables, lister):
    """Let a leaf join a side, on the next level."""
    level = lister.level[0]
    masks, costs, gains = lister.masks, lister.costs, lister.gains
    for k in range(3):
        masks[level + 1, k] = masks[level, k]
    for k in range(4):
        lister.sums[level + 1, k] = lister.sums[level, k]
    bit = np.int64(1) << u
    masks[level + 1, side] |= bit
    masks[level + 1, REST] ^= bit
    lister.sums[level + 1, 0] += costs[level, side, u]
    lister.sums[level + 1, 1 + side] += gains[level, side, u]
    rest = masks[level + 1, REST]
    while rest != 0:
        v = lowest(rest)
        rest &= rest - 1
        for k in range(2):
            costs[level + 1, k, v] = costs[level, k, v]
            gains[level + 1, k, v] = gains[level, k, v]
        if tables.kind[0] == TRIPLES:
            add_triples(u, v, side, costs[level + 1], tables, lister)
        else:
            add_triangles(u, v, side, costs[level + 1], gains[level + 1], tables, lister)
    if tables.kind[0] == TRIPLES:
        add_quadruples(u, side, gains[level + 1], tables, lister)
        lister.sums[level + 1, 3] -= no_longer_free(u, masks[level + 1, REST], tables, lister)
    else:
        lister.sums[level + 1, 3] -= triangles_with(u, masks[level + 1, REST], tables)
    lister.sides[side, lister.counts[side]] = u
    lister.counts[side] += 1
    lister.branch[level + 1, 0] = -1
    lister.level[0] = level + 1


@inner
def add_triples(u, v, side, costs, tables, lister):
    """What v pays, with u and a third leaf that is assigned, if it joins one side or the other."""
    keep = tables.keep[v, u]
    parted = tables.alone[v, u]
    lone = tables.alone[u, v]
    together = np.int64(0)
    apart = np.int64(0)
    for k in range(lister.counts[1 - side]):
        b = lister.sides[1 - side, k]
        together += keep[b]
        apart += lone[b]
    for k in range(lister.counts[side]):
        apart += parted[lister.sides[side, k]]
    costs[side, v] += together
    costs[1 - side, v] += apart


@inner
def add_quadruples(u, side, gains, tables, lister):
    """What leaves add to the bound of a side by quadruples with u and two leaves there."""
    n = tables.pairs.shape[0]
    mates = lister.sides[side]
    for i in range(lister.counts[side]):
        low, high = min(mates[i], u), max(mates[i], u)
        for j in range(i):
            third = mates[j]
            first, last = min(low, third), max(high, third)
            row = (first * n + low + high + third - first - last) * n + last
            for k in range(tables.starts[row], tables.starts[row + 1]):
                packed = tables.lows[k]
                gains[side, packed & LEAF] += packed >> LEAF_BITS


@inner
def no_longer_free(u, rest, tables, lister):
    """The bounds of quadruples with u, another assigned leaf, and two leaves not yet assigned."""
    n = tables.pairs.shape[0]
    total = np.int64(0)
    if rest & (rest - 1) == 0:
        return total
    for side in range(2):
        for i in range(lister.counts[side]):
            low, high = min(lister.sides[side, i], u), max(lister.sides[side, i], u)
            others = rest
            while others != 0:
                third = lowest(others)
                others &= others - 1
                first, last = min(low, third), max(high, third)
                row = (first * n + low + high + third - first - last) * n + last
                for k in range(tables.starts[row], tables.starts[row + 1]):
                    packed = tables.lows[k]
                    if others >> (packed & LEAF) & 1:
                        total += packed >> LEAF_BITS
    return total


@inner
def add_triangles(u, v, side, costs, gains, tables, lister):
    """What v pays if it joins the side of u: beyond the packed triangles (costs), or at all."""
    total = np.int64(0)
    keep = tables.keep[v, u]
    for k in range(lister.counts[side]):
        total += keep[lister.sides[side, k]]
    costs[side, v] += tables.rest[u, v] + 3 * total
    gains[side, v] += tables.pairs[u, v] + total


@inner
def triangles_with(u, rest, tables):
    """The packed triangles of a leaf and two leaves not yet assigned."""
    total = np.int64(0)
    while rest != 0:
        v = lowest(rest)
        rest &= rest - 1
        others = rest
        while others != 0:
            total += tables.keep[u, v, lowest(others)]
            others &= others - 1
    return total


@inner
def list_splits(budget, n_steps, tables, lister, splits, count):
    """Go on listing; the number of splits listed, and of steps left.

    Ends when all is listed (level -1), when no steps are left, or when there is no room.
    """
    branch, masks = lister.branch, lister.masks
    while lister.level[0] > 0 and n_steps > 0 and count < splits.shape[0]:
        level = lister.level[0]
        if branch[level, 0] < 0:
            n_steps -= 1
            look = open_level(level, tables, lister)
            if look >= budget or (tables.sparse[0] and not may_connect(level, tables, lister)):
                retreat(lister)
                continue
            if masks[level, REST] == 0:
                if masks[level, RIGHT] != 0:
                    splits[count, MASK] = masks[level, LEFT]
                    splits[count, COST] = split_cost(level, tables, lister)
                    splits[count, LOW_LEFT] = lister.sums[level, 1]
                    splits[count, LOW_RIGHT] = lister.sums[level, 2]
                    splits[count, BOUND] = look
                    count += 1
                retreat(lister)
                continue
        v = branch[level, 0]
        side = branch[level, 1]
        if side > 1:
            retreat(lister)
            continue
        branch[level, 1] += 1
        if is_below(v, side, level, budget, tables, lister):
            assign(v, side, tables, lister)
    if lister.level[0] == 0:
        lister.level[0] = -1
    return count, n_steps


@inner
def open_level(level, tables, lister):
    """The bound of all splits that agree with what is assigned; choose the leaf to assign next."""
    is_triples = tables.kind[0] == TRIPLES
    costs, gains, sums = lister.costs[level], lister.gains[level], lister.sums[level]
    most = np.int64(-1)
    chosen = -1
    look = sums[0]
    other_look = sums[1] + sums[2] + sums[3]
    rest = lister.masks[level, REST]
    while rest != 0:
        v = lowest(rest)
        rest &= rest - 1
        if is_triples:
            one, other = costs[0, v] + gains[0, v], costs[1, v] + gains[1, v]
        else:
            one, other = costs[0, v], costs[1, v]
            other_look += min(gains[0, v], gains[1, v])
        low, high = min(one, other), max(one, other)
        look += low
        score = low + high
        if score > most:
            most, chosen = score, v
    lister.branch[level, 0] = chosen
    lister.branch[level, 1] = 0
    if is_triples:
        look += other_look
        lister.branch[level, 2] = look
        return look
    lister.branch[level, 2] = look
    lister.branch[level, 3] = other_look
    return max(look, other_look)


@inner
def is_below(v, side, level, budget, tables, lister):
    """Whether splits in which a leaf joins a side can still be below the budget."""
    costs, gains, looks = lister.costs[level], lister.gains[level], lister.branch[level]
    one, other = costs[side, v], costs[1 - side, v]
    gain, other_gain = gains[side, v], gains[1 - side, v]
    if tables.kind[0] == TRIPLES:
        one, other = one + gain, other + other_gain
    elif looks[3] + gain - min(gain, other_gain) >= budget:
        return False
    return looks[2] + one - min(one, other) < budget


@inner
def may_connect(level, tables, lister):
    """Whether both sides can become connected."""
    masks = lister.masks[level]
    left, right, rest = masks[LEFT], masks[RIGHT], masks[REST]
    return is_connected(left, left | rest, tables.graph) and is_connected(
        right, right | rest, tables.graph
    )


@inner
def split_cost(level, tables, lister):
    """What the split alone costs."""
    if tables.kind[0] == TRIPLES:
        return lister.sums[level, 0]
    total = np.int64(0)
    for side in range(2):
        for i in range(lister.counts[side]):
            for j in range(i):
                total += tables.pairs[lister.sides[side, i], lister.sides[side, j]]
    return total


@inner
def retreat(lister):
    """Go back to the level before."""
    level = lister.level[0] - 1
    lister.level[0] = level
    if level >= 0:
        side = lister.branch[level, 1] - 1
        lister.counts[side] -= 1
