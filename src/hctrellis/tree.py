"""The tree: an immutable rooted binary hierarchy over labelled leaves.

In comes any description of a hierarchy (an array of children, nested pairs, clusters, Newick, a
linkage matrix, a networkx graph, JSON); out goes one canonical value that can be compared, hashed
and written again. The formats are in `hctrellis.trees`.

A tree over n leaves has 2n - 1 nodes: the leaves 0 .. n-1 and the internal nodes n .. 2n-2, each
the union of two lower nodes, the root last. A cluster is written as a Python integer, its mask:
leaf i is bit i.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from hctrellis.clusters import Cluster, cluster_mask, show_cluster
from hctrellis.support.types import FloatArray, IntArray

if TYPE_CHECKING:
    from hctrellis.trees.nested import Nested
    from hctrellis.trees.newick import Support

Measure: TypeAlias = "Callable[[Tree], npt.ArrayLike | None]"
"""A function that gives the heights of a tree."""

_Scalar = TypeVar("_Scalar", bound=np.generic)

_SHOWN_CHARACTERS = 60


class _Heights:
    """The heights of a tree that are measured when they are first asked for, and kept."""

    def __get__(self, tree: Tree | None, owner: type | None = None) -> FloatArray | None:
        if tree is None:
            return None
        measure: Measure = tree.__dict__["_measure"]
        found = measure(tree)
        kept = None if found is None else _read_only(_as_heights(found, tree.n_leaves).copy())
        tree.__dict__["heights"] = kept
        return kept


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Tree:
    """A rooted binary hierarchy over n >= 1 labelled leaves.

    Trees are values: two trees are equal if they have the same labels and the same clusters,
    whatever the order of leaves, of nodes, or of the two children of a split. Heights are carried
    along but do not enter equality.

    Parameters
    ----------
    children : array_like of int, shape (n - 1, 2)
        Row k holds the two children of node n + k. Children come before parents, the root last.
    labels : sequence of str, optional
        Label of each leaf, all different; "0", "1", ... if not given.
    heights : array_like of float, shape (n - 1,), optional
        Height of each internal node, in the order of the rows of `children`.

    Attributes
    ----------
    labels : tuple of str
        Leaf i is called ``labels[i]``.
    children : ndarray of int64, shape (n - 1, 2), read-only
        Canonical: in a row the child with the smallest leaf index comes first, and nodes are
        numbered in the post-order that follows. Equal trees with equally ordered labels have
        identical `children`.
    heights : ndarray of float64, shape (n - 1,), read-only, or None
        In the order of the rows of `children`. A tree that was found for a potential has the
        heights of its merges if the potential has such (`Potential.heights`); they are computed
        when they are first asked for.

    Raises
    ------
    ValueError
        If the arrays do not describe such a hierarchy.

    Examples
    --------
    >>> tree = Tree([[2, 3], [0, 1], [5, 4]], labels=["a", "b", "c", "d"])
    >>> tree
    Tree(4 leaves: ((a,b),(c,d)))
    >>> tree.children.tolist()
    [[0, 1], [2, 3], [4, 5]]
    >>> tree == Tree.from_newick("((d,c),(b,a));")
    True
    """

    labels: tuple[str, ...]
    children: IntArray
    heights: _Heights = _Heights()

    def __init__(
        self,
        children: npt.ArrayLike,
        *,
        labels: Iterable[str] | None = None,
        heights: npt.ArrayLike | None = None,
    ) -> None:
        given = _as_children(children)
        _check_children(given)
        n_leaves = len(given) + 1
        canonical, order = _canonical(given)
        carried = None if heights is None else _read_only(_as_heights(heights, n_leaves)[order])
        object.__setattr__(self, "labels", _as_labels(labels, n_leaves))
        object.__setattr__(self, "children", _read_only(canonical))
        self.__dict__["heights"] = carried

    # ---- constructors from other descriptions ------------------------------------------------

    @classmethod
    def from_nested(cls, nested: Nested, *, labels: Sequence[str] | None = None) -> Self:
        """Make a tree of nested pairs whose leaves are labels or leaf indices.

        Parameters
        ----------
        nested : str, int or a tuple or list of two such
            Without `labels` the leaves are all strings (indexed from left to right) or all
            integers (0 .. n-1, labelled "0", "1", ...).
        labels : sequence of str, optional
            Fixes the index of each label.

        Examples
        --------
        >>> Tree.from_nested((("a", "b"), "c"))
        Tree(3 leaves: ((a,b),c))
        >>> Tree.from_nested([2, [0, 1]], labels=["x", "y", "z"])
        Tree(3 leaves: ((x,y),z))
        """
        from hctrellis.trees.nested import parse_nested

        return cls(**parse_nested(nested, labels)._asdict())

    @classmethod
    def from_clusters(
        cls, clusters: Iterable[Cluster], *, labels: Sequence[str] | None = None
    ) -> Self:
        """Make the tree that has the given clusters.

        Parameters
        ----------
        clusters : iterable of clusters
            Each a mask (leaf i = bit i), one label, or an iterable of labels or leaf indices.
            Single leaves and the set of all leaves may be left out or repeated.
        labels : sequence of str, optional
            Without it the leaves are those named in the clusters: the labels, sorted, or the
            indices from 0 to the largest.

        Raises
        ------
        ValueError
            If two clusters cross, or a cluster is not split in two; the message names them.

        Examples
        --------
        >>> Tree.from_clusters([{"a", "b"}, {"a", "b", "c"}])
        Tree(3 leaves: ((a,b),c))
        >>> Tree.from_clusters([0b0011, 0b1100])
        Tree(4 leaves: ((0,1),(2,3)))
        """
        from hctrellis.trees.nested import parse_clusters

        return cls(**parse_clusters(clusters, labels)._asdict())

    @classmethod
    def from_newick(cls, text: str) -> Self:
        """Read one tree in Newick format; the leaves are indexed from left to right.

        Heights are taken from the branch lengths if all are there and all leaves are equally
        far from the root (within 1e-6, relative). Underscores are kept. Labels of internal nodes
        are dropped: see `hctrellis.trees.newick.parse_newick_support` to read support values.

        Examples
        --------
        >>> Tree.from_newick("((a:1,b:1)0.93:2,'c d':3);").heights
        array([1., 3.])
        """
        from hctrellis.trees.newick import newick_parts, parse_newick

        return cls(**newick_parts(parse_newick(text))._asdict())

    @classmethod
    def from_linkage(cls, Z: npt.ArrayLike, *, labels: Sequence[str] | None = None) -> Self:
        """Make a tree of a scipy linkage matrix; its distances become the heights.

        The fourth column (cluster sizes) is not used.

        Examples
        --------
        >>> Tree.from_linkage([[0, 1, 0.5, 2], [2, 3, 2.0, 3]], labels=["a", "b", "c"])
        Tree(3 leaves: ((a,b),c))
        """
        from hctrellis.trees.linkage import parse_linkage

        return cls(**parse_linkage(Z, labels)._asdict())

    @classmethod
    def from_networkx(cls, graph: Any) -> Self:
        """Make a tree of a networkx DiGraph whose edges point from parent to child.

        A leaf's label is its attribute ``label``, else its node id as a string; leaves keep the
        order of the graph's nodes. Heights are read if every internal node has a ``height``.
        """
        from hctrellis.trees.networkx import parse_networkx

        return cls(**parse_networkx(graph)._asdict())

    @classmethod
    def from_json(cls, text: str | Mapping[str, Any]) -> Self:
        """Read what `to_json` writes, as text or already decoded.

        Examples
        --------
        >>> tree = Tree.from_newick("((a,b),c);")
        >>> Tree.from_json(tree.to_json()) == tree
        True
        """
        from hctrellis.trees.json import parse_json

        return cls(**parse_json(text)._asdict())

    # ---- exports ------------------------------------------------------------------------------

    def to_nested(self) -> Nested:
        """Return nested tuples with labels as leaves.

        Python itself cannot print, compare or hash tuples nested deeper than its recursion limit
        (about 1000); walk such a result with your own stack.

        Examples
        --------
        >>> Tree.from_newick("((a,b),c);").to_nested()
        (('a', 'b'), 'c')
        """
        from hctrellis.trees.nested import format_nested

        return format_nested(self)

    def to_newick(
        self,
        support: Support | None = None,
        lengths: bool = False,
        support_format: str = ".4g",
        length_format: str = "",
    ) -> str:
        """Write the tree in Newick format.

        Parameters
        ----------
        support : mapping or callable, optional
            A number for each internal node, written behind its closing parenthesis: a mapping
            from clusters (frozenset of labels, or mask), or a function of the mask. Nodes that
            are missing or have None are left bare; clusters not in the tree are ignored.
        lengths : bool
            Write branch lengths, the differences of the heights (leaves have height 0): negative
            where a child is higher than its parent.
        support_format, length_format : str
            Format specifications of the numbers; an empty one writes all digits.

        Raises
        ------
        ValueError
            If `lengths` is asked of a tree without heights.

        Examples
        --------
        >>> tree = Tree([[0, 1], [2, 3]], labels=["a", "b", "c"], heights=[1, 3])
        >>> tree.to_newick(support={frozenset("ab"): 0.93})
        '((a,b)0.93,c);'
        >>> tree.to_newick(lengths=True)
        '((a:1.0,b:1.0):2.0,c:3.0);'
        """
        from hctrellis.trees.newick import format_newick

        return format_newick(self, support, lengths, support_format, length_format)

    def to_linkage(self, heights: npt.ArrayLike | None = None) -> FloatArray:
        """Return a linkage matrix as in scipy, of shape (n - 1, 4).

        Rows are sorted by height, children before parents. Columns 0 and 1 are the two parts,
        column 3 is the number of leaves. Column 2 is the height of the merge: the given one, else
        that of the tree, raised to that of its highest child (leaves: 0) where it lies below, so
        that the matrix is always monotone. **If there are no heights** (``tree.heights`` is None),
        column 2 is the number of leaves less one: it puts the merges in a possible order but is not
        a distance, so do not cut the tree at one (``fcluster(Z, t, "distance")``).

        Parameters
        ----------
        heights : array_like of float, shape (n - 1,), optional
            In the order of the rows of `children`. Default: the heights of the tree.

        Examples
        --------
        >>> Tree.from_newick("((a,b),c);").to_linkage().tolist()
        [[0.0, 1.0, 1.0, 2.0], [2.0, 3.0, 2.0, 3.0]]
        """
        from hctrellis.trees.linkage import format_linkage

        return format_linkage(
            self, None if heights is None else _as_heights(heights, self.n_leaves)
        )

    def to_networkx(self) -> Any:
        """Return a networkx DiGraph with edges from parent to child (needs networkx).

        Node ids are the node numbers; every node has its ``size``, leaves their ``label``, and
        internal nodes their ``height`` if the tree has heights.
        """
        from hctrellis.trees.networkx import format_networkx

        return format_networkx(self)

    def to_json(self) -> str:
        """Write the tree as a JSON object.

        Examples
        --------
        >>> print(Tree.from_newick("(a,b);").to_json())  # doctest: +NORMALIZE_WHITESPACE
        {"format": "hctrellis-tree", "version": 1,
         "labels": ["a", "b"], "children": [[0, 1]], "heights": null}
        """
        from hctrellis.trees.json import format_json

        return format_json(self)

    def to_text(self, annotate: Callable[[int], str] | None = None) -> str:
        """Draw the tree for a terminal, a line per node.

        The drawing of a deep tree is wide: n leaves in a chain take of the order of n * n
        characters.

        Parameters
        ----------
        annotate : callable, optional
            A function that takes the mask of an internal node and returns the text to show there.

        Examples
        --------
        >>> print(Tree.from_newick("((a,b),c);").to_text(lambda mask: f"{mask:03b}"))
        ┐ 111
        ├─┐ 011
        │ ├─ a
        │ └─ b
        └─ c
        """
        from hctrellis.trees.text import format_text

        return format_text(self, annotate)

    # ---- nodes and clusters -------------------------------------------------------------------

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return len(self.labels)

    @cached_property
    def sizes(self) -> IntArray:
        """Number of leaves below each of the 2n - 1 nodes, a read-only array."""
        sizes = [1] * self.n_leaves
        for left, right in self.children.tolist():
            sizes.append(sizes[left] + sizes[right])
        return _read_only(np.array(sizes, dtype=np.int64))

    @cached_property
    def masks(self) -> tuple[int, ...]:
        """Mask of each of the 2n - 1 nodes (leaf i = bit i).

        Examples
        --------
        >>> Tree.from_newick("((a,b),c);").masks
        (1, 2, 4, 3, 7)
        """
        masks = [1 << leaf for leaf in range(self.n_leaves)]
        for left, right in self.children.tolist():
            masks.append(masks[left] | masks[right])
        return tuple(masks)

    def clusters(self, leaves: bool = False) -> frozenset[int]:
        """Return the masks of the n - 1 internal nodes, the root included.

        Parameters
        ----------
        leaves : bool
            Whether to include the masks of the n single leaves.

        Examples
        --------
        >>> sorted(Tree.from_newick("((a,b),c);").clusters())
        [3, 7]
        """
        return frozenset(self.masks[0 if leaves else self.n_leaves :])

    def cluster_labels(self, leaves: bool = False) -> frozenset[frozenset[str]]:
        """Return the clusters as sets of labels; see `clusters`.

        The sets hold as many labels as the clusters have leaves together: of the order of n * n
        for a chain of n leaves.

        Examples
        --------
        >>> sorted(sorted(cluster) for cluster in Tree.from_newick("((a,b),c);").cluster_labels())
        [['a', 'b'], ['a', 'b', 'c']]
        """
        sets = [frozenset((label,)) for label in self.labels]
        for left, right in self.children.tolist():
            sets.append(sets[left] | sets[right])
        return frozenset(sets[0 if leaves else self.n_leaves :])

    def splits(self) -> list[tuple[int, int, int]]:
        """Return the masks (parent, left, right) of the n - 1 splits, children before parents.

        Examples
        --------
        >>> Tree.from_newick("((a,b),c);").splits()
        [(3, 1, 2), (7, 3, 4)]
        """
        masks = self.masks
        pairs = zip(masks[self.n_leaves :], self.children.tolist(), strict=True)
        return [(parent, masks[left], masks[right]) for parent, (left, right) in pairs]

    def leaf_order(self) -> tuple[int, ...]:
        """Return the leaf indices from left to right, as they are written and drawn.

        Examples
        --------
        >>> Tree.from_newick("((a,c),b);").reorder(["a", "b", "c"]).leaf_order()
        (0, 2, 1)
        """
        n_leaves, rows = self.n_leaves, self.children.tolist()
        order, stack = [], [2 * n_leaves - 2]
        while stack:
            node = stack.pop()
            if node < n_leaves:
                order.append(node)
            else:
                stack += reversed(rows[node - n_leaves])
        return tuple(order)

    def mask(self, items: Cluster) -> int:
        """Return the mask of a set of leaves, whether or not it is a cluster of the tree.

        Parameters
        ----------
        items : int, str or iterable of str or int
            A mask (returned as it is), one label, or several labels or leaf indices.

        Raises
        ------
        ValueError
            If the set is empty or has a leaf that the tree does not have.

        Examples
        --------
        >>> Tree.from_newick("((a,b),c);").mask(["a", "c"])
        5
        """
        return cluster_mask(items, self._index_of, self.n_leaves)

    def __contains__(self, items: Cluster) -> bool:
        """Whether a set of leaves (a mask, a label, labels or indices) is a cluster of the tree.

        Examples
        --------
        >>> ["b", "a"] in Tree.from_newick("((a,b),c);")
        True
        """
        try:
            return self.mask(items) in self._node_of
        except ValueError:
            return False

    # ---- other trees from this one ------------------------------------------------------------

    def with_heights(self, heights: npt.ArrayLike | Measure | None) -> Self:
        """Return the same tree with other heights.

        Parameters
        ----------
        heights : array_like of float, shape (n - 1,), function, or None
            In the order of the rows of `children`; or a function of the tree that returns them (or
            None), called when they are first asked for; or None for no heights.

        Examples
        --------
        >>> tree = Tree.from_newick("((a,b),c);")
        >>> tree.with_heights([1.0, 3.0]).to_newick(lengths=True)
        '((a:1.0,b:1.0):2.0,c:3.0);'
        >>> tree.with_heights(lambda tree: tree.sizes[tree.n_leaves :]).heights
        array([2., 3.])
        """
        same = object.__new__(type(self))
        same.__dict__.update(self.__dict__)
        same.__dict__.pop("heights", None)
        measure = heights if callable(heights) else lambda tree: heights
        same.__dict__["_measure"] = measure
        if not callable(heights):
            _ = same.heights  # so that errors come at once
        return same

    def relabel(self, labels: Iterable[str] | Mapping[str, str]) -> Self:
        """Return the same hierarchy with other labels.

        Parameters
        ----------
        labels : iterable of str, or mapping
            A label for each leaf index; or old label to new label (labels not in it stay).

        Examples
        --------
        >>> Tree.from_newick("((a,b),c);").relabel({"a": "x"})
        Tree(3 leaves: ((x,b),c))
        """
        if isinstance(labels, Mapping):
            labels = [labels.get(label, label) for label in self.labels]
        return type(self)(self.children, labels=labels).with_heights(lambda tree: self.heights)

    def reorder(self, labels: Iterable[str]) -> Self:
        """Return the equal tree whose leaf i is ``labels[i]``, so that masks follow that order.

        Examples
        --------
        >>> Tree.from_newick("((a,b),c);").reorder(["c", "b", "a"]).masks
        (1, 2, 4, 6, 7)
        """
        names = tuple(labels)
        _check_same_labels(names, self.labels)
        wanted = _as_labels(names, self.n_leaves)
        index_of = {label: index for index, label in enumerate(wanted)}
        number = np.arange(2 * self.n_leaves - 1)
        number[: self.n_leaves] = [index_of[label] for label in self.labels]
        rows = number[self.children]
        tree = type(self)(rows, labels=wanted)
        return tree.with_heights(lambda tree: self._some(_canonical(rows)[1]))

    def subtree(self, items: Cluster) -> Self:
        """Return the tree below a cluster; its leaves keep their order.

        Raises
        ------
        ValueError
            If the set is not a cluster of the tree.

        Examples
        --------
        >>> Tree.from_newick("((a,b),(c,d));").subtree(["c", "d"])
        Tree(2 leaves: (c,d))
        """
        node = self._node_of.get(self.mask(items))
        if node is None:
            shown = show_cluster(self.mask(items), self.labels)
            raise ValueError(f"{shown} is not a cluster of the tree; see clusters() for those.")
        if node < self.n_leaves:
            return type(self)([], labels=self.labels[node : node + 1])
        return self._below(node)

    def robinson_foulds(self, other: Tree, normalized: bool = False) -> float:
        """Return the number of clusters that are in exactly one of the two trees.

        This is the Robinson-Foulds distance of rooted trees, found in O(n): with the leaves
        numbered as they stand in one tree, its clusters are runs of consecutive numbers, and a
        cluster of the other is among them if it is one of these runs (Day, J. Classif. 2, 1985).

        Parameters
        ----------
        other : Tree
            A tree with the same labels, in any order.
        normalized : bool
            Divide by the largest possible value, 2 (n - 2).

        Raises
        ------
        ValueError
            If the trees do not have the same labels.

        Examples
        --------
        >>> tree = Tree.from_newick("((a,b),(c,d));")
        >>> tree.robinson_foulds(Tree.from_newick("(((a,b),c),d);"))
        2
        """
        aligned = other.reorder(self.labels)
        position = np.argsort(self.leaf_order()).tolist()
        shared = self._runs(position) & aligned._runs(position)
        distance = 2 * (self.n_leaves - 1 - len(shared))
        return distance / max(1, 2 * (self.n_leaves - 2)) if normalized else distance

    def validate(self) -> None:
        """Check that this is a tree by definition, as construction always does.

        Raises
        ------
        ValueError
            If a node is joined twice or before it is made, a label repeats, a height is not
            finite, or the nodes are not in canonical order.
        """
        _check_children(_as_children(self.children))
        _as_labels(self.labels, self.n_leaves)
        if self.heights is not None:
            _as_heights(self.heights, len(self.children) + 1)
        if not np.array_equal(_canonical(self.children)[0], self.children):
            raise ValueError("the nodes are not in canonical order; build the tree with Tree(...).")

    # ---- value semantics ----------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tree):
            return NotImplemented
        if self.labels == other.labels:
            return np.array_equal(self.children, other.children)
        return self.n_leaves == other.n_leaves and self._key == other._key

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        from hctrellis.support.printable import printable
        from hctrellis.trees.newick import format_newick

        shape = printable(format_newick(self).removesuffix(";"))
        if len(shape) > _SHOWN_CHARACTERS:
            shape = shape[: _SHOWN_CHARACTERS - 3] + "..."
        return f"Tree({self.n_leaves} {'leaf' if self.n_leaves == 1 else 'leaves'}: {shape})"

    def _repr_svg_(self) -> str:
        """A drawing, for notebooks."""
        from hctrellis.trees.svg import format_svg

        return format_svg(self, axis="height" if self.heights is not None else "")

    def __reduce__(self) -> tuple[Any, ...]:
        make = partial(type(self), labels=self.labels, heights=self.heights)
        return make, (self.children,)

    @cached_property
    def _key(self) -> tuple[tuple[str, ...], bytes]:
        """Sorted labels and the children in that order: the same for equal trees."""
        labels = tuple(sorted(self.labels))
        tree = self if labels == self.labels else self.reorder(labels)
        return labels, tree.children.tobytes()

    @cached_property
    def _hash(self) -> int:
        return hash(self._key)

    @cached_property
    def _index_of(self) -> dict[str, int]:
        return {label: index for index, label in enumerate(self.labels)}

    @cached_property
    def _node_of(self) -> dict[int, int]:
        return {mask: node for node, mask in enumerate(self.masks)}

    def _below(self, node: int) -> Self:
        """Return the subtree of an internal node: in post-order, the last rows up to its own."""
        n_below = int(self.sizes[node])
        stop = node - self.n_leaves + 1
        start = stop - (n_below - 1)
        rows = self.children[start:stop]
        leaves = np.sort(rows[rows < self.n_leaves])
        shifted = rows - (self.n_leaves + start) + n_below
        children = np.where(rows < self.n_leaves, np.searchsorted(leaves, rows), shifted)
        below = type(self)(children, labels=[self.labels[leaf] for leaf in leaves])
        return below.with_heights(lambda tree: self._some(slice(start, stop)))

    def _some(self, rows: slice | list[int]) -> FloatArray | None:
        """The heights of some internal nodes."""
        return None if self.heights is None else self.heights[rows]

    def _runs(self, position: list[int]) -> set[tuple[int, int]]:
        """Return (first, last) of the clusters whose leaves have consecutive positions."""
        first, last = list(position), list(position)
        for left, right in self.children.tolist():
            first.append(min(first[left], first[right]))
            last.append(max(last[left], last[right]))
        nodes = zip(first, last, self.sizes.tolist(), strict=True)
        return {(low, high) for low, high, size in nodes if 1 < size == high - low + 1}


def _as_children(children: npt.ArrayLike) -> IntArray:
    try:
        array = np.asarray(children)
    except ValueError:
        raise ValueError("children has rows of different lengths; expected pairs.") from None
    if array.shape == (0,):
        array = np.empty((0, 2), dtype=np.int64)
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        raise ValueError(
            f"children has shape {array.shape} and type {array.dtype}; expected integers of shape "
            "(n_leaves - 1, 2), a row for each internal node."
        )
    return array.astype(np.int64, copy=False)


def _check_children(children: IntArray) -> None:
    """Check that row k joins two nodes below n + k and that every node is joined once.

    Then each node but the last has one parent, of a larger number: a tree with the root last.
    """
    n_leaves = len(children) + 1
    own = np.arange(n_leaves, 2 * n_leaves - 1)[:, np.newaxis]
    wrong = ((children < 0) | (children >= own)).any(axis=1)
    if wrong.any():
        row = int(wrong.argmax())
        left, right = children[row].tolist()
        raise ValueError(
            f"row {row} of children joins nodes {left} and {right} into node {n_leaves + row}; "
            f"expected nodes from 0 to {n_leaves + row - 1}: list children before their parents."
        )
    times = np.bincount(children.ravel(), minlength=2 * n_leaves - 2)
    if (times > 1).any():
        raise ValueError(
            f"node {int(times.argmax())} is joined {int(times.max())} times; expected every node "
            "but the root to be the child of one row."
        )


def _as_labels(labels: Iterable[str] | None, n_leaves: int) -> tuple[str, ...]:
    if labels is None:
        return tuple(map(str, range(n_leaves)))
    names = tuple(labels)
    if any(type(name) is not str for name in names):
        names = tuple(map(_plain_label, names))
    if len(names) != n_leaves:
        raise ValueError(f"there are {len(names)} labels for {n_leaves} leaves; give one for each.")
    if len(set(names)) < n_leaves:
        label, times = Counter(names).most_common(1)[0]
        raise ValueError(f"label {label!r:.80} is given {times} times; labels must be different.")
    return names


def _plain_label(label: object) -> str:
    if not isinstance(label, str):
        raise ValueError(f"label {label!r:.80} is not a string; convert labels with str first.")
    return str(label)


def _check_same_labels(labels: Iterable[str], others: Iterable[str]) -> None:
    different = set(labels) ^ set(others)
    if different:
        raise ValueError(
            f"the labels differ: {min(different, key=str)!r:.80} is in only one of the two; "
            "expected the same labels in any order (relabel changes them)."
        )


def _as_heights(heights: npt.ArrayLike, n_leaves: int) -> FloatArray:
    try:
        array = np.asarray(heights, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"heights are not numbers; expected {n_leaves - 1} floats.") from None
    if array.shape != (n_leaves - 1,):
        raise ValueError(
            f"heights has shape {array.shape}; expected ({n_leaves - 1},), one height for each "
            "internal node."
        )
    if not np.isfinite(array).all():
        row = int((~np.isfinite(array)).argmax())
        raise ValueError(f"height {row} is {array[row]}; expected finite heights or none at all.")
    return array


def _read_only(array: npt.NDArray[_Scalar]) -> npt.NDArray[_Scalar]:
    array.flags.writeable = False
    return array


def _canonical(children: IntArray) -> tuple[IntArray, list[int]]:
    """Return the canonical children, and for each row the row it was before.

    Upwards, each node learns its smallest leaf and its size. Downwards, each node hands its
    children their numbers: in post-order the block of the right child ends just before its
    parent, the block of the left child just before that of the right.
    """
    n_leaves, rows = len(children) + 1, children.tolist()
    first, size = list(range(n_leaves)), [1] * n_leaves
    for left, right in rows:
        first.append(min(first[left], first[right]))
        size.append(size[left] + size[right])
    number = list(range(2 * n_leaves - 1))
    canonical, order = [(0, 0)] * (n_leaves - 1), [0] * (n_leaves - 1)
    for row in reversed(range(n_leaves - 1)):
        left, right = sorted(rows[row], key=first.__getitem__)
        node = number[n_leaves + row]
        if right >= n_leaves:
            number[right] = node - 1
        if left >= n_leaves:
            number[left] = node - size[right]
        canonical[node - n_leaves] = (number[left], number[right])
        order[node - n_leaves] = row
    return np.array(canonical, dtype=np.int64).reshape(-1, 2), order
