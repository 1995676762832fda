"""The arrays of a certified search, by name; all numbers of energies in them are whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hctrellis.support.types import IntArray

MOST_LEAVES = 62  # of a certified search: a cluster is a whole number of 64 bits
TRIPLES, TRIANGLES, SERIES = 0, 1, 2  # which bounds a problem has
RUNNING, DONE, SPLITS_FULL, MEMO_FULL = 0, 1, 2, 3  # what a call of the search may return
UNKNOWN = 1 << 62  # an energy above all others

LEAF_BITS = 6
LEAF = (1 << LEAF_BITS) - 1  # the bits of a packed number that are a leaf
MASK, COST, LOW_LEFT, LOW_RIGHT, BOUND, SURE, ACROSS = range(7)  # columns of listed splits
KEY, LOW, HIGH, BEST = range(4)  # columns of the memo of `branch`
LISTED, BEGIN, END = range(2, 5)  # of that of `rotations`: splits below LISTED are in these rows
CLUSTER, BUDGET, TOP, SPLIT, FIRST, LAST, AT, PART, SIBLING, WIDE = range(10)  # of frames


class Tables(NamedTuple):
    """A problem of n leaves: what splits cost, beyond a bound that all trees share, and bounds.

    Attributes
    ----------
    kind : int64 (1)
        TRIPLES, TRIANGLES or SERIES.
    pairs : int64 (n, n)
        TRIANGLES: |negative| affinities; SERIES: distances.
    rest : int64 (n, n)
        TRIANGLES: what the triangles leave of the affinities.
    keep : int64 (n, n, n)
        TRIPLES: the excess of a triple, [i, j, k] if i and j stay together and k parts.
        TRIANGLES: the weight of each triangle.
    alone : int64 (n, n, n)
        TRIPLES: the same excess, [k, i, j].
    near : int64 (n, n)
        SERIES: all leaves by their distance from a leaf, itself first. TRIPLES: all leaves by their
        similarity to a leaf, largest first; empty if a similarity is negative.
    graph : int64 (n)
        The neighbours of each leaf, as masks, for clusters that must be connected (TRIPLES) or can
        be taken apart (TRIANGLES).
    sparse : int64 (1)
        TRIPLES: whether only connected clusters are to be considered.
    starts : int64 (n^3 + 1)
        TRIPLES: where the quadruples with the leaves i < j < k, number (i n + j) n + k, begin.
    lows : int64 (4 q)
        The fourth leaf of each quadruple (its lowest LEAF_BITS bits) and its least excess (above).
    """

    kind: IntArray
    pairs: IntArray
    rest: IntArray
    keep: IntArray
    alone: IntArray
    near: IntArray
    graph: IntArray
    sparse: IntArray
    starts: IntArray
    lows: IntArray


class Lister(NamedTuple):
    """The splits of one cluster, listed by assigning its leaves one by one; level by level.

    Attributes
    ----------
    level : int64 (1)
        How many leaves have been assigned since the beginning; -1 if nothing is being listed.
    size : int64 (2)
        SERIES: the number of leaves of the left child that is being listed, and of the cluster.
    masks : int64 (n + 2, 3)
        The left child, the right child, the leaves not yet assigned.
    sums : int64 (n + 2, 4)
        The cost so far, the bounds of the left and of the right child, and the bound of what has
        not been assigned.
    costs, gains : int64 (n + 2, 2, n)
        What a leaf would add if it joined a side: TRIPLES: to the cost, and to the bound of the
        side; TRIANGLES: to the cost beyond the packed triangles, and to the cost itself with the
        bound of the side; SERIES: the least share of the leaf, not used.
    branch : int64 (n + 2, 4)
        The leaf that is assigned next, how many of its two sides have been tried, and bounds
        of all splits that agree with what is assigned (TRIANGLES: two of them).
    sides : int64 (2, n)
        The leaves of each side, in the order in which they joined.
    counts : int64 (2)
        How many there are.
    """

    level: IntArray
    size: IntArray
    masks: IntArray
    sums: IntArray
    costs: IntArray
    gains: IntArray
    branch: IntArray
    sides: IntArray
    counts: IntArray


class SearchStack(NamedTuple):
    """The clusters that are being solved, each a part of a split of the one before it.

    Attributes
    ----------
    depth : int64 (1)
        How many there are.
    frames : int64 (n + 1, 10)
        CLUSTER; BUDGET: only trees below it are of interest; TOP: the energy of the best tree found
        or the budget; SPLIT: the left child of that tree; FIRST, LAST: its listed splits, as rows
        of `splits` (`branch`) or of `order` (`rotations`); AT: the one that is being tried; PART:
        the part of that which is being solved. `rotations`: SIBLING: the cluster beside it; WIDE:
        the budget below which its splits are listed.
    parts : int64 (n + 1, 6 n + 1)
        `branch`: the parts of the split that is being tried; the last entry is their number.
    splits : int64 (s, 7)
        Listed splits: MASK of the left child, COST, bounds of both children, BOUND of the whole.
        `rotations`: SURE: of which children the bound is attained, as bits; ACROSS: the sum of the
        pairs between the children. Splits are kept here to the end, those of a cluster together.
    order : int64 (s, 2)
        `rotations`: the splits of all frames that are to be tried, and their bounds at first.
    counts : int64 (5)
        Splits listed, clusters in the memo, partial splits looked at, clusters solved, budgets.
    """

    depth: IntArray
    frames: IntArray
    parts: IntArray
    splits: IntArray
    order: IntArray
    counts: IntArray
