"""Bounds of Dasgupta's cost from quadruples of leaves: a dual problem, solved nearly to the end.

Each triple of leaves pays an excess that depends on which of its leaves parts first, and the least
of the three is 0. A tree of four leaves decides all four of its triples, and often no tree lets all
of them pay nothing: then the quadruple has an excess of its own. Every triple shares its excess
out to quadruples, none of it twice and none of it negative, so that the sum over the quadruples
inside any cluster bounds the excess of every tree of that cluster.

How to share out best is a linear program. Ascent in whole numbers comes to an end before its
optimum; mirror ascent in floating point goes on, and its shares are then rounded down, so that
nothing is handed out twice whatever the floating point did.
"""

from __future__ import annotations

import numpy as np

from hctrellis.kernels.compile import inner, jit


def _trees():
    """Of each of the 15 trees over leaves 0 to 3: which leaf parts first, of each triple.

    Triple t is without leaf t; its leaves are numbered 0, 1, 2 in increasing order.
    """
    pairs = [({0, k}, {1, 2, 3} - {k}) for k in (1, 2, 3)]  # two pairs
    ladders = [({a}, {b}) for a in range(4) for b in range(4) if a != b]  # a parts first, then b
    found = []
    for splits in pairs + ladders:
        for t in range(4):
            leaves = [leaf for leaf in range(4) if leaf != t]
            (lone,) = next(s & {*leaves} for s in splits if len(s & {*leaves}) == 1)
            found.append(leaves.index(lone))
    return np.array(found, np.int64).reshape(15, 4)


TREES = _trees()
NEGLIGIBLE = 20.0  # trees whose weight is below exp(-20) of the largest


@inner
def least(shares):
    """The least excess of a quadruple over its 15 trees, if its triples pay shares (4, 3)."""
    best = np.int64(1) << 62
    for tree in range(15):
        total = np.int64(0)
        for t in range(4):
            total += shares[t, TREES[tree, t]]
        best = min(best, total)
    return best


@inner
def place(leaves, t, r, n):
    """Which entry of the flat table of excesses is that of leaf r of triple t parting first."""
    a = leaves[0] if t > 0 else leaves[1]
    b = leaves[1] if t > 1 else leaves[2]
    c = leaves[2] if t > 2 else leaves[3]
    if r == 0:
        return (a * n + b) * n + c
    if r == 1:
        return (b * n + a) * n + c
    return (c * n + a) * n + b


@jit
def list_quadruples(n, excess, leaves, places):
    """List the quadruples of which no tree pays nothing; how many there are.

    excess : int64 (n^3), of leaf k parting first from i < j: (k n + i) n + j
    leaves : int64 (q, 4), filled as far as it goes
    places : int64 (q, 4, 3), where the excesses of the quadruple are, for each of its triples
    """
    count = 0
    one = np.zeros(4, np.int64)
    shares = np.zeros((4, 3), np.int64)
    where = np.zeros((4, 3), np.int64)
    for a in range(n):
        for b in range(a + 1, n):
            for c in range(b + 1, n):
                for d in range(c + 1, n):
                    one[0], one[1], one[2], one[3] = a, b, c, d
                    for t in range(4):
                        for r in range(3):
                            where[t, r] = place(one, t, r, n)
                            shares[t, r] = excess[where[t, r]]
                    if least(shares) > 0:
                        if count < leaves.shape[0]:
                            leaves[count] = one
                            places[count] = where
                        count += 1
    return count


@jit
def share_out(turn, parts, places, left, shares, lows):
    """One pass of the ascent over all quadruples.

    Each takes 1 / parts of what is left of the excesses of its triples, and gives back what its
    bound does not need, in an order that depends on the turn.

    left : int64 (n^3), as `excess`; what has not been shared out
    shares : int64 (q, 4, 3)
    lows : int64 (q), the bound of each quadruple
    """
    for q in range(lows.size):
        own, where = shares[q], places[q]
        for t in range(4):
            for r in range(3):
                taken = left[where[t, r]] // parts
                own[t, r] += taken
                left[where[t, r]] -= taken
        low = least(own)
        for s in range(12):
            entry = (s * 5 + turn) % 12
            t, r = entry // 3, entry % 3
            if own[t, r] > 0:
                given = min(own[t, r], least_with(t, r, own) - low)
                own[t, r] -= given
                left[where[t, r]] += given
        lows[q] = low


@inner
def least_with(t, r, shares):
    """The least excess of a quadruple over its trees in which leaf r of triple t parts first."""
    best = np.int64(1) << 62
    for tree in range(15):
        if TREES[tree, t] == r:
            total = np.int64(0)
            for u in range(4):
                total += shares[u, TREES[tree, u]]
            best = min(best, total)
    return best


@jit
def spread_left(counts, places, excess, left, shares, wishes):
    """Begin mirror ascent from whole shares: what is left is handed out evenly.

    counts : int64 (n^3), the number of quadruples of each entry
    wishes : float64 (q, 4, 3), written; a tenth of each excess is handed out evenly, since mirror
        ascent leaves alone what is 0
    """
    for q in range(shares.shape[0]):
        for t in range(4):
            for r in range(3):
                entry = places[q, t, r]
                even = 0.1 * excess[entry] + 0.9 * left[entry]
                wishes[q, t, r] = 0.9 * shares[q, t, r] + even / counts[entry]


@jit
def climb_mirror(step, warmth, places, excess, sums, wishes):
    """One pass of mirror ascent: quadruples ask for more where their best trees pay.

    Every quadruple weighs its 15 trees by exp(-(excess - least) / warmth); its wishes grow by
    exp(step x the weight of the trees that pay there), and are scaled back to what there is.

    sums : float64 (n^3), for the sums of all wishes
    """
    paid = np.empty(15)
    weight = np.empty((4, 3))
    sums[:] = 0.0
    for q in range(wishes.shape[0]):
        own = wishes[q]
        low = np.inf
        for tree in range(15):
            total = 0.0
            for t in range(4):
                total += own[t, TREES[tree, t]]
            paid[tree] = total
            low = min(low, total)
        weight[:] = 0.0
        whole = 0.0
        for tree in range(15):
            above = (paid[tree] - low) / warmth
            if above < NEGLIGIBLE:
                share = np.exp(-above)
                whole += share
                for t in range(4):
                    weight[t, TREES[tree, t]] += share
        for t in range(4):
            for r in range(3):
                if own[t, r] > 0:
                    own[t, r] *= np.exp(step * weight[t, r] / whole)
                    sums[places[q, t, r]] += own[t, r]
    for q in range(wishes.shape[0]):
        for t in range(4):
            for r in range(3):
                if wishes[q, t, r] > 0:
                    entry = places[q, t, r]
                    wishes[q, t, r] *= excess[entry] / sums[entry]


@jit
def grant(wishes, places, left, shares, lows):
    """Hand out wishes, rounded down, as far as there is something left.

    left : int64 (n^3), all excesses at first
    """
    for q in range(lows.size):
        for t in range(4):
            for r in range(3):
                entry = places[q, t, r]
                given = min(np.int64(wishes[q, t, r]), left[entry])
                shares[q, t, r] = given
                left[entry] -= given
        lows[q] = least(shares[q])
