"""The arrays that the kernels of searches share, by name.

Searches describe clusters by the rows of a table, so that the union of two disjoint clusters is a
few additions: a sum over the pairs of leaves of a union is that of both parts plus what is between
them, their *link*; and the links of a union are the sums of those of its parts. An extreme distance
between clusters is a link too, with the smaller or larger one in place of the sum.

table : float64 (rows, 2 + s + f)
    A cluster in each row: its size, what it adds to log psi as a parent, its sums, its features.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray, IntArray

SIZE, OWN, SUMS = 0, 1, 2  # columns of a table; the sums begin at SUMS
BY_SIZE, BY_LEAF = -2, -1  # kinds of sums; 0, 1, ... is over pairs, with this link
EXTREME = 0  # the link that is an extreme distance, if the potential asks for it
UP, LEFT, RIGHT = 0, 1, 2  # columns of the nodes of a tree
ACROSS, WITHOUT, MOVED = 0, 1, 2  # rows of the joints of a tree
REST, PLACED, RAISED = 0, 1, 2  # rows of the parts of a tree
SPARE = 8  # numbers after the last of a list, of which kernels take eight at a time


class ModelArrays(NamedTuple):
    """What a potential says about clusters.

    Attributes
    ----------
    kinds : int64 (s)
        Of each sum: BY_SIZE, BY_LEAF, or the number of its link.
    by_size : float64 (s, n + 1)
        The number for each size, where the kind is BY_SIZE.
    params, root_params : tuples of float
    """

    kinds: IntArray
    by_size: FloatArray
    params: tuple[float, ...]
    root_params: tuple[float, ...]


class SplitBuffer(NamedTuple):
    """Splits to be weighed.

    Attributes
    ----------
    rows : int64 (m, 3)
        Rows of a table: left, right, parent.
    cross : float64 (m)
        The extreme distance between left and right, if the potential asks for it.
    log_psi : float64 (m + SPARE)
        What `weigh_list` fills.
    factors : float64 (m + SPARE)
        To work in: what psi has besides powers of e. (Logarithms are taken of eight at a time.)
    number : int64 (1)
        How many splits are listed.
    """

    rows: IntArray
    cross: FloatArray
    log_psi: FloatArray
    factors: FloatArray
    number: IntArray


class Forests(NamedTuple):
    """The states of a beam search: at most w partial clusterings of n leaves.

    A cluster is at the slot of its lowest leaf.

    Attributes
    ----------
    live : int64 (w)
        Where the current states are, the best first.
    active : int64 (w, n)
        The slots in use, in increasing order.
    links : float64 (w, l, n, n)
        Between slots.
    log_psi : float64 (w, n, n)
        Of joining slots i < j.
    codes : int64 (w, n)
        A number for the cluster at each slot, the same for the same set of leaves.
    keys : int64 (w)
        A number for the set of clusters formed.
    totals : float64 (w)
        Log weight so far.
    """

    live: IntArray
    active: IntArray
    links: FloatArray
    log_psi: FloatArray
    codes: IntArray
    keys: IntArray
    totals: FloatArray


class Joins(NamedTuple):
    """The best joins found for the next level of a beam search, and those of the levels before.

    Attributes
    ----------
    number : int64 (1)
        How many there are.
    rank : int64 (w)
        Where they are, the best first.
    totals, keys : float64, int64 (w)
        Of the states that they make.
    slots : int64 (w, 3)
        A state and two of its slots, which are joined.
    history : int64 (n - 1, w, 3)
        The same for the state in each place after each level.
    """

    number: IntArray
    rank: IntArray
    totals: FloatArray
    keys: IntArray
    slots: IntArray
    history: IntArray


class Climber(NamedTuple):
    """A tree over n leaves that is changed by moving subtrees; it has N = 2n - 1 nodes.

    Attributes
    ----------
    nodes : int64 (N, 3)
        The parent of each node (-1: the root) and its two children (-1: the leaves, 0 .. n-1).
    links : float64 (l, N, n)
        Between nodes and leaves (meaningless for the leaves of the node itself).
    joints : float64 (l, 3, N)
        Between the two children of a node: ACROSS, and WITHOUT the subtree that is moved (if it is
        below). MOVED: between that subtree and a node without it.
    log_psi : float64 (N)
        Of the split of each internal node.
    parts : float64 (3, N)
        Log psi of the split of each node without the subtree (REST); that of the union of a node
        and the subtree (PLACED); that of its parent with the subtree beside or below the node
        (RAISED).
    codes : int64 (N)
        A number for the cluster of each node, the same for the same set of leaves.
    rows : int64 (N)
        The row of the table that has a node without the subtree.
    above : bool (N)
        Whether a node is above the new place of the subtree.
    beside : int64 (N)
        What is beside the path from the old place of the subtree to the root, from there up.
    order : int64 (N + 2)
        Places for the subtree, parents first.
    leaves : int64 (n + 1)
        The leaves among them.
    joins : int64 (n)
        Those among them that are no leaves, parents first.
    gain : float64 (2, N)
        What is gained by putting the subtree there; the part of it that is above the place.
    bars : int64 (2, N)
        The same of the number of forbidden splits, which are left out of the gain.
    barred : bool (1)
        Whether there is any forbidden split.
    shares : float64 (N)
        The probabilities of places, in the order of these, but for a factor.
    bag : int64 (N + 1)
        Subtrees still to be tried, in no particular order; the last entry is their number.
    waiting : bool (N)
        Whether a subtree is in the bag.
    """

    nodes: IntArray
    links: FloatArray
    joints: FloatArray
    log_psi: FloatArray
    parts: FloatArray
    codes: IntArray
    rows: IntArray
    above: Any
    beside: IntArray
    order: IntArray
    leaves: IntArray
    joins: IntArray
    gain: FloatArray
    bars: IntArray
    barred: Any
    shares: FloatArray
    bag: IntArray
    waiting: Any


class Kept(NamedTuple):
    """What a local search remembers.

    Attributes
    ----------
    nodes : int64 (N, 3)
        The tree from which it goes on.
    value : float64 (1)
        Its log weight; NEVER times the number of its forbidden splits if there are any.
    children : int32 (k, n - 1, 2)
        The best different trees found, as in `Tree`, in no particular order.
    values, keys : float64, int64 (k)
        The value of each, and a number for its set of clusters.
    number : int64 (1)
        How many there are.
    """

    nodes: IntArray
    value: FloatArray
    children: Any
    values: FloatArray
    keys: IntArray
    number: IntArray
