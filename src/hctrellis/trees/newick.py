"""Newick: reading and writing.

As read here: labels are bare words or in single quotes (a quote inside is doubled); [comments] nest
and are skipped, except the weight of a tree, [&W 0.9] or [&W 9/10], before it or before its ';';
the final ';' may be missing; underscores stay underscores; every internal node must have two
children. Written labels are quoted where needed, so that any string comes back exactly. Nothing
here recurses, so depth is bounded by memory only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from hctrellis.support.memory import check_fits
from hctrellis.trees.parts import Parts, Written, number_joins
from hctrellis.trees.tokens import NUMBER, Token, Tokens, token_pattern, tree_weight, unexpected

if TYPE_CHECKING:
    from hctrellis.support.types import IntArray
    from hctrellis.tree import Tree

Support: TypeAlias = Mapping[Any, float | None] | Callable[[int], float | None]
"""Numbers for clusters: a mapping from sets of labels or masks, or a function of the mask."""

ULTRAMETRIC_TOLERANCE = 1e-6
"""Largest spread of the leaves' depths, relative to the depth, that still gives heights."""

BYTES_PER_MEMBER = 64
"""Bytes of memory that a set of labels takes for each label."""

_NEWICK_TOKEN = token_pattern("(),:;")
_NEEDS_QUOTES = re.compile(r"[\s()\[\]{},:;='\"]")


# ---- reading ----------------------------------------------------------------------------------


class ParsedNewick(NamedTuple):
    """One Newick tree as written, nodes in the order in which they end."""

    children: list[tuple[int, int]]
    """Row k: the children of node n + k."""
    labels: list[str]
    """Labels of the n leaves."""
    lengths: list[float]
    """Length of the branch above each of the 2n - 1 nodes, NaN where none is written."""
    node_labels: list[str | None]
    """Labels of the n - 1 internal nodes, None where none is written."""
    weight: float | None = None
    """How much the tree counts, if that is written."""


def parse_newick(text: str) -> ParsedNewick:
    """Read one Newick tree with all that is written in it.

    Raises
    ------
    ValueError
        If the text is malformed, has more than one tree, or a node without exactly two children;
        the message gives the position.

    Examples
    --------
    >>> parsed = parse_newick("((a:1,b:2)0.9:1,c);")
    >>> parsed.children, parsed.labels
    ([(0, 1), (3, 2)], ['a', 'b', 'c'])
    >>> parsed.lengths, parsed.node_labels
    ([1.0, 2.0, nan, 1.0, nan], ['0.9', None])
    """
    tokens = Tokens(text, _NEWICK_TOKEN)
    parsed = read_tree(tokens)
    if tokens.head.kind != "end":
        raise unexpected(tokens.head, "the end of the text (read_newicks reads many trees)")
    return parsed


def parse_newick_support(text: str) -> dict[frozenset[str], float]:
    """Read the support values of a Newick tree: the numbers written as labels of internal nodes.

    Internal labels that are not numbers are passed over.

    Examples
    --------
    >>> parse_newick_support("((a,b)0.93,c);") == {frozenset({"a", "b"}): 0.93}
    True
    """
    parsed = parse_newick(text)
    n_leaves = len(parsed.labels)
    ends = [(leaf, leaf + 1) for leaf in range(n_leaves)]
    for left, right in parsed.children:
        ends.append((ends[left][0], ends[right][1]))
    found = [
        (start, stop, float(value))
        for (start, stop), value in zip(ends[n_leaves:], parsed.node_labels, strict=True)
        if value is not None and NUMBER.fullmatch(value)
    ]
    members = sum(stop - start for start, stop, _ in found)
    check_fits(BYTES_PER_MEMBER * members, "the clusters with support", "a smaller tree")
    return {frozenset(parsed.labels[start:stop]): value for start, stop, value in found}


def newick_parts(parsed: ParsedNewick) -> Parts:
    """Return the parts of a tree, with heights if the branch lengths are ultrametric."""
    return Parts(parsed.children, parsed.labels, _ultrametric_heights(parsed))


def _ultrametric_heights(parsed: ParsedNewick) -> list[float] | None:
    n_leaves = len(parsed.labels)
    depth = [0.0] * (2 * n_leaves - 1)
    for row in reversed(range(n_leaves - 1)):
        for child in parsed.children[row]:
            depth[child] = depth[n_leaves + row] + parsed.lengths[child]
    deepest = max(depth[:n_leaves])
    spread = deepest - min(depth[:n_leaves])
    if all(map(math.isfinite, depth)) and spread <= ULTRAMETRIC_TOLERANCE * abs(deepest):
        return [deepest - below_root for below_root in depth[n_leaves:]] or None
    return None


class _Growing:
    """A tree being read: leaf i is i and the k-th join is ~k until n is known."""

    def __init__(self) -> None:
        self.labels: dict[str, int] = {}
        self.joins: list[tuple[int, int]] = []
        self.leaf_lengths: list[float] = []
        self.node_lengths: list[float] = []
        self.node_labels: list[str | None] = []
        self.open: list[tuple[int, list[int]]] = []
        """Position of each '(' still open, and the children found in it."""

    def hang(self, node: int) -> None:
        if self.open:
            self.open[-1][1].append(node)

    def add_leaf(self, label: str, position: int, length: float) -> None:
        if label in self.labels:
            raise ValueError(
                f"label {label!r:.80} at position {position} is already at position "
                f"{self.labels[label]}; labels must be different."
            )
        self.hang(len(self.labels))
        self.labels[label] = position
        self.leaf_lengths.append(length)

    def join(self, position: int) -> None:
        start, children = self.open.pop()
        if len(children) != 2:
            raise ValueError(
                f"the node from position {start} to {position} has {len(children)} "
                f"{'child' if len(children) == 1 else 'children'}; expected 2: "
                "remove or resolve such nodes first."
            )
        self.hang(~len(self.joins))
        self.joins.append((children[0], children[1]))

    def finish(self, weight: float | None) -> ParsedNewick:
        children = number_joins(self.joins, len(self.labels))
        lengths = self.leaf_lengths + self.node_lengths
        return ParsedNewick(children, list(self.labels), lengths, self.node_labels, weight)


def read_tree(tokens: Tokens, heads: Iterable[Token] = ()) -> ParsedNewick:
    """Take one tree and its ';'; the heads are tokens before it, whose comments belong to it."""
    tree, heads = _Growing(), [*heads, tokens.head]
    _read_leaf(tokens, tree)
    while tree.open:
        if tokens.at(")"):
            _read_join(tokens, tree)
        elif tokens.accept(","):
            _read_leaf(tokens, tree)
        else:
            raise unexpected(tokens.head, f"',' or ')' (open since position {tree.open[-1][0]})")
    heads.append(tokens.head)
    if tokens.head.kind != "end" and not tokens.accept(";"):
        raise unexpected(tokens.head, "';'")
    return tree.finish(tree_weight(heads))


def _read_leaf(tokens: Tokens, tree: _Growing) -> None:
    """Take any number of '(', then a leaf."""
    while tokens.at("("):
        tree.open.append((tokens.take().position, []))
    position = tokens.head.position
    label = tokens.label("a label or '('")
    tree.add_leaf(label, position, _read_length(tokens))


def _read_join(tokens: Tokens, tree: _Growing) -> None:
    """Take a ')' with its label and length."""
    tree.join(tokens.take().position)
    labelled = tokens.head.kind in ("word", "quoted")
    tree.node_labels.append(tokens.take().text if labelled else None)
    tree.node_lengths.append(_read_length(tokens))


def _read_length(tokens: Tokens) -> float:
    if not tokens.accept(":"):
        return math.nan
    token = tokens.take()
    length = float(token.text) if NUMBER.fullmatch(token.text) else math.nan
    if token.kind != "word" or not math.isfinite(length):
        raise unexpected(token, "a branch length")
    return length


def parse_newicks(text: str) -> Iterator[Written]:
    """Read all trees of a text in Newick format, each closed by ';'."""
    tokens = Tokens(text, _NEWICK_TOKEN)
    while tokens.head.kind != "end":
        position = tokens.head.position
        parsed = read_tree(tokens)
        yield Written(newick_parts(parsed), parsed.weight, position)


# ---- writing ----------------------------------------------------------------------------------


def format_newick(
    tree: Tree,
    support: Support | None = None,
    lengths: bool = False,
    support_format: str = ".4g",
    length_format: str = "",
) -> str:
    """Write a tree in Newick format; see `Tree.to_newick`."""
    names = [*map(quote_label, tree.labels), *_format_support(tree, support, support_format)]
    if lengths:
        branches = _branch_lengths(tree)
        names[:-1] = [
            f"{name}:{branch:{length_format}}"
            for name, branch in zip(names[:-1], branches, strict=True)
        ]
    rows = tree.children.tolist()
    n = tree.n_leaves
    return newick_text(2 * n - 2, lambda node: rows[node - n] if node >= n else (), names)


def read_plain(texts: Sequence[str], children: IntArray) -> npt.NDArray[np.bool_]:
    """Read trees over leaves 0, 1, ... that are written with brackets and commas only, quickly.

    Fills `Tree.children` of each tree, of shape (m, n - 1, 2). Returns which were read: others have
    more written in them, or are wrong.

    Examples
    --------
    >>> children = np.zeros((3, 2, 2), int)
    >>> read_plain(["((0,1),2);", "(2,(0,1))", "((0:1,1:1):1,2:2);"], children).tolist()
    [True, True, False]
    >>> children[1].tolist()
    [[0, 1], [2, 3]]
    """
    from hctrellis.kernels.newick import read_newick

    codes = [text.encode(errors="replace") for text in texts]
    ends = np.cumsum([0, *map(len, codes)])[1:]
    read = np.zeros(len(texts), bool)
    read_newick(np.frombuffer(b"".join(codes), np.uint8), ends, children, read)
    return read


def newick_many(
    children: IntArray, labels: Sequence[Sequence[str]] | None = None
) -> tuple[npt.NDArray[np.uint8], IntArray]:
    """Write many trees of equal numbers of leaves in Newick format.

    Parameters
    ----------
    children : int array, shape (m, n - 1, 2)
        `Tree.children` of each tree.
    labels : sequence of m sequences of n str, optional
        Labels of the leaves of each tree; "0", "1", ... if not given.

    Returns
    -------
    texts : uint8 array
        All texts, one after the other, in UTF-8.
    offsets : int array, shape (m + 1,)
        Where each begins, and where the last one ends.

    Examples
    --------
    >>> texts, offsets = newick_many(np.array([[[0, 1], [3, 2]], [[1, 2], [0, 3]]]))
    >>> texts.tobytes().decode(), offsets.tolist()
    ('((0,1),2);(0,(1,2));', [0, 10, 20])
    """
    from hctrellis.kernels.newick import write_newick

    m, n_leaves = len(children), children.shape[1] + 1
    if labels is None:
        names = [str(leaf).encode() for leaf in range(n_leaves)]
    else:
        names = [quote_label(label).encode() for row in labels for label in row]
    starts = np.cumsum([0, *map(len, names)])
    groups = starts[::n_leaves]  # where the labels of each tree begin and end
    lengths = np.broadcast_to(np.diff(groups), m) + 3 * (n_leaves - 1) + 1
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    texts = np.empty(int(offsets[-1]), np.uint8)
    write_newick(children, np.frombuffer(b"".join(names), np.uint8), starts, labels is None, texts)
    return texts, offsets


def quote_label(label: str) -> str:
    """Return a label as it is written in Newick and NEXUS, in quotes if it needs them.

    Examples
    --------
    >>> print(quote_label("plain_1"), quote_label("it's"))
    plain_1 'it''s'
    """
    if label and not _NEEDS_QUOTES.search(label):
        return label
    return "'" + label.replace("'", "''") + "'"


def newick_text(
    root: int, children: Callable[[int], Sequence[int]], names: Sequence[str] | Mapping[int, str]
) -> str:
    """Write a tree of any kind: the children of each node, none for a leaf, and its name."""
    return "".join(_newick_pieces(root, children, names)) + ";"


def _newick_pieces(
    root: int, children: Callable[[int], Sequence[int]], names: Sequence[str] | Mapping[int, str]
) -> Iterator[str]:
    stack: list[int | str] = [root]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif parts := children(item):
            yield "("
            stack.append(")" + names[item])
            for part in reversed(parts[1:]):
                stack += [part, ","]
            stack.append(parts[0])
        else:
            yield names[item]


def _format_support(tree: Tree, support: Support | None, spec: str) -> list[str]:
    if support is None:
        return [""] * (tree.n_leaves - 1)
    lookup = support if callable(support) else _by_mask(tree, support).get
    values = map(lookup, tree.masks[tree.n_leaves :])
    return ["" if value is None else quote_label(format(value, spec)) for value in values]


def _by_mask(tree: Tree, support: Mapping[Any, float | None]) -> dict[int, float | None]:
    return {tree.mask(cluster): value for cluster, value in support.items()}


def _branch_lengths(tree: Tree) -> list[float]:
    """Return the length of the branch above each node but the root."""
    if tree.heights is None:
        raise ValueError(
            "the tree has no heights to take branch lengths from; give heights to Tree(...) or "
            "leave out lengths=True."
        )
    heights = np.concatenate([np.zeros(tree.n_leaves), tree.heights])
    lengths = np.zeros(2 * tree.n_leaves - 1)
    lengths[tree.children] = tree.heights[:, np.newaxis] - heights[tree.children]
    branches: list[float] = lengths[:-1].tolist()
    return branches
