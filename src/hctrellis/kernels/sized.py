"""The splits of a cluster below a budget of average heights, listed by the size of the left child.

Once the sizes of both children are known, each leaf has a least share of the energy: the nearest
leaves that can be on its side cost least (see `bounds.least_share`). The sum over all leaves,
assigned or not, bounds all splits that agree with what is assigned: O(n^2) per assignment.
"""

from __future__ import annotations

import numpy as np

from hctrellis.kernels.bounds import least_share, series
from hctrellis.kernels.common import bit_count
from hctrellis.kernels.compile import inner
from hctrellis.kernels.masks import lowest
from hctrellis.support.bounded import BOUND, COST, LOW_LEFT, LOW_RIGHT, MASK, UNKNOWN

LEFT, RIGHT, REST = 0, 1, 2


@inner
def begin_sized(cluster, tables, lister):
    """Put the leaf with the largest sum of distances to the left, as the only one."""
    first = lowest(cluster)
    most = np.int64(-1)
    leaves = cluster
    while leaves != 0:
        leaf = lowest(leaves)
        leaves &= leaves - 1
        total = np.int64(0)
        others = cluster
        while others != 0:
            total += tables.pairs[leaf, lowest(others)]
            others &= others - 1
        if total > most:
            first, most = leaf, total
    lister.size[0] = 1
    lister.size[1] = bit_count(cluster)
    bit = np.int64(1) << first
    lister.masks[1, LEFT] = bit
    lister.masks[1, RIGHT] = 0
    lister.masks[1, REST] = cluster ^ bit
    lister.branch[1, 0] = -1
    lister.level[0] = 1


@inner
def list_sized(budget, n_steps, tables, lister, splits, count):
    """Go on listing; the number of splits listed, and of steps left. See `lister.list_splits`."""
    branch, masks, costs = lister.branch, lister.masks, lister.costs
    while lister.level[0] > 0 and n_steps > 0 and count < splits.shape[0]:
        level = lister.level[0]
        if branch[level, 0] < 0:
            n_steps -= 1
            look = open_sized(level, tables, lister)
            if look >= budget:
                back(lister)
                continue
            if masks[level, REST] == 0:
                list_split(level, look, tables, lister, splits[count])
                count += 1
                back(lister)
                continue
        v = branch[level, 0]
        side = branch[level, 1]
        if side > 1:
            back(lister)
            continue
        branch[level, 1] += 1
        one, other = costs[level, side, v], costs[level, 1 - side, v]
        if one < UNKNOWN and branch[level, 2] + one - min(one, other) < budget:
            bit = np.int64(1) << v
            for k in range(3):
                masks[level + 1, k] = masks[level, k]
            masks[level + 1, side] |= bit
            masks[level + 1, REST] ^= bit
            branch[level + 1, 0] = -1
            lister.level[0] = level + 1
    return count, n_steps


@inner
def back(lister):
    """Go back to the level before; from the first one, to the next size of the left child."""
    if lister.level[0] > 1:
        lister.level[0] -= 1
    elif lister.size[0] + 1 < lister.size[1]:
        lister.size[0] += 1
        lister.branch[1, 0] = -1
    else:
        lister.level[0] = -1


@inner
def open_sized(level, tables, lister):
    """The bound of all splits that agree with what is assigned; choose the leaf to assign next."""
    masks, costs, whole = lister.masks[level], lister.costs[level], lister.size[1]
    rest = masks[REST]
    look = np.int64(0)
    most = np.int64(-1)
    chosen = -1
    for side in range(2):
        size = lister.size[0] if side == LEFT else whole - lister.size[0]
        sure, others = masks[side], masks[1 - side]
        leaves = sure
        while leaves != 0:
            look += least_share(lowest(leaves), sure, rest, others, size, whole, tables)
            leaves &= leaves - 1
        full = bit_count(sure) >= size
        leaves = rest
        while leaves != 0:
            v = lowest(leaves)
            leaves &= leaves - 1
            bit = np.int64(1) << v
            costs[side, v] = (
                UNKNOWN
                if full
                else least_share(v, sure | bit, rest ^ bit, others, size, whole, tables)
            )
    leaves = rest
    while leaves != 0:
        v = lowest(leaves)
        leaves &= leaves - 1
        look += min(costs[LEFT, v], costs[RIGHT, v])
        apart = abs(costs[LEFT, v] - costs[RIGHT, v])
        if apart > most:
            most, chosen = apart, v
    lister.branch[level, 0] = chosen
    lister.branch[level, 1] = 0
    lister.branch[level, 2] = look
    return look


@inner
def list_split(level, look, tables, lister, split):
    """Write down the split that has been reached."""
    left, right = lister.masks[level, LEFT], lister.masks[level, RIGHT]
    total = np.int64(0)
    rows = left
    while rows != 0:
        i = lowest(rows)
        rows &= rows - 1
        columns = right
        while columns != 0:
            total += tables.pairs[i, lowest(columns)]
            columns &= columns - 1
    split[MASK] = left
    split[COST] = total // (bit_count(left) * bit_count(right))
    split[LOW_LEFT] = series(left, tables)
    split[LOW_RIGHT] = series(right, tables)
    split[BOUND] = look
