"""Reading and writing trees: Newick, NEXUS, linkage matrices, networkx, JSON, nested pairs, text.

`Tree.from_*` and `Tree.to_*` call the `parse_*` and `format_*` functions here; files with many
trees (`read_newicks`, `read_nexus`, `write_nexus`) and support values (`parse_newick_support`) are
asked for directly. Nothing here recurses, so depth is bounded by memory only. Positions in error
messages count characters from 0, as Python indexes.

Newick as read here: labels are bare words or in single quotes (a quote inside is doubled);
[comments] nest and are skipped, but for the weight of a tree, [&W 0.9] or [&W 9/10], before it or
before its ';'; the final ';' may be missing; underscores stay underscores; every internal node must
have two children. Written labels are quoted where needed, so that any string comes back exactly.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from operator import index
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from hctrellis.memory import check_fits
from hctrellis.tree import (
    Cluster,
    FloatArray,
    IntArray,
    Tree,
    cluster_mask,
    leaf_index,
    raised,
    show_cluster,
)
from hctrellis.weighted import WeightedTrees

Nested: TypeAlias = "str | int | Sequence[Nested]"
"""A leaf (label or index) or a pair of such."""

Support: TypeAlias = Mapping[Any, float | None] | Callable[[int], float | None]
"""Numbers for clusters: a mapping from sets of labels or masks, or a function of the mask."""

ULTRAMETRIC_TOLERANCE = 1e-6
"""Largest spread of the leaves' depths, relative to the depth, that still gives heights."""

BYTES_PER_MEMBER = 64
"""Memory that a set of labels takes for each."""

JSON_FORMAT = "hctrellis-tree"
JSON_VERSION = 1


class Parts(NamedTuple):
    """What `Tree` takes: children (k-th row: node n + k), labels, heights of internal nodes."""

    children: npt.ArrayLike
    labels: Sequence[str] | None = None
    heights: npt.ArrayLike | None = None


# ---- Newick: reading --------------------------------------------------------------------------


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
    tokens = _Tokens(text, _NEWICK_TOKEN)
    parsed = _read_tree(tokens)
    if tokens.head.kind != "end":
        raise _unexpected(tokens.head, "the end of the text (read_newicks reads many trees)")
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
        if value is not None and _NUMBER.fullmatch(value)
    ]
    members = sum(stop - start for start, stop, _ in found)
    check_fits(BYTES_PER_MEMBER * members, "the clusters with support", "a smaller tree")
    return {frozenset(parsed.labels[start:stop]): value for start, stop, value in found}


def read_newicks(text: str) -> WeightedTrees:
    """Read all trees of a text in Newick format, each closed by ';', with the weights they have.

    Raises
    ------
    ValueError
        If the text is malformed, a tree is not binary, or some trees have weights and others have
        none; the message gives the position.

    Examples
    --------
    >>> list(read_newicks("((a,b),c); (a,(b,c));"))
    [Tree(3 leaves: ((a,b),c)), Tree(3 leaves: (a,(b,c)))]
    >>> read_newicks("[&W 0.9] ((a,b),c); [&W 0.1] (a,(b,c));").weights.tolist()
    [0.9, 0.1]
    """
    tokens = _Tokens(text, _NEWICK_TOKEN)
    found = _Found()
    while tokens.head.kind != "end":
        position = tokens.head.position
        parsed = _read_tree(tokens)
        found.add(Tree(*newick_parts(parsed)), parsed.weight, position)
    return found.trees()


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


class _Token(NamedTuple):
    kind: str
    """'punctuation', 'word', 'quoted' or 'end'."""
    text: str
    position: int
    before: str = ""
    """Blanks and comments since the last one."""


def _token_pattern(punctuation: str) -> re.Pattern[str]:
    return re.compile(
        rf"(?P<punctuation>[{punctuation}])"
        r"|'(?P<quoted>[^']*+(?:''[^']*+)*+)'"
        rf"|(?P<word>[^\s'\[\]{punctuation}]+)"
    )


_NEWICK_TOKEN = _token_pattern("(),:;")
_NEXUS_TOKEN = _token_pattern("(),:;=")
_SPACES = re.compile(r"\s*")
_BRACKET = re.compile(r"[\[\]]")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NEEDS_QUOTES = re.compile(r"[\s()\[\]{},:;='\"]")


class _Tokens:
    """The tokens of a text; `head` is the next one."""

    def __init__(self, text: str, pattern: re.Pattern[str]) -> None:
        if not isinstance(text, str):
            raise TypeError(f"trees are read from text; got {type(text).__name__}.")
        self._rest = _tokenize(text, pattern)
        self.head = next(self._rest)

    def take(self) -> _Token:
        """Return the next token and move on (the end repeats)."""
        token = self.head
        self.head = next(self._rest, token)
        return token

    def at(self, text: str) -> bool:
        """Whether the next token is this punctuation."""
        return self.head.kind == "punctuation" and self.head.text == text

    def accept(self, text: str) -> bool:
        """Take the next token if it is this punctuation."""
        found = self.at(text)
        if found:
            self.take()
        return found

    def expect(self, text: str) -> None:
        """Take the next token, which must be this punctuation."""
        if not self.accept(text):
            raise _unexpected(self.head, repr(text))

    def label(self, expected: str) -> str:
        """Take the next token, which must be a label."""
        if self.head.kind not in ("word", "quoted"):
            raise _unexpected(self.head, expected)
        return self.take().text


def _tokenize(text: str, pattern: re.Pattern[str]) -> Iterator[_Token]:
    end, position = 0, _skip_blank(text, 0)
    while position < len(text):
        match = pattern.match(text, position)
        if match is None:
            problem = "']' without '['" if text[position] == "]" else "quote that is never closed"
            raise ValueError(f"there is a {problem} at position {position}; close or remove it.")
        kind = match.lastgroup or ""
        yield _Token(kind, _unquote(kind, match[kind]), position, text[end:position])
        end = match.end()
        position = _skip_blank(text, end)
    yield _Token("end", "", len(text), text[end:])


def _unquote(kind: str, text: str) -> str:
    return text.replace("''", "'") if kind == "quoted" else text


def _skip_blank(text: str, position: int) -> int:
    """Return the position after white space and comments."""
    while True:
        match = _SPACES.match(text, position)
        position = match.end() if match else position
        if not text.startswith("[", position):
            return position
        position = _comment_end(text, position)


def _comment_end(text: str, start: int) -> int:
    depth = 0
    for bracket in _BRACKET.finditer(text, start):
        depth += 1 if bracket[0] == "[" else -1
        if depth == 0:
            return bracket.end()
    raise ValueError(f"the comment that starts at position {start} is never closed by ']'.")


def _comments(token: _Token) -> Iterator[tuple[int, str]]:
    """The comments before a token, each with its position."""
    text, shift = token.before, token.position - len(token.before)
    start = text.find("[")
    while start >= 0:
        end = _comment_end(text, start)
        yield shift + start, text[start:end]
        start = text.find("[", end)


def _unexpected(token: _Token, expected: str) -> ValueError:
    found = "the end of the text" if token.kind == "end" else f"{token.text!r:.80}"
    return ValueError(f"found {found} at position {token.position}; expected {expected}.")


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
        children = _number_joins(self.joins, len(self.labels))
        lengths = self.leaf_lengths + self.node_lengths
        return ParsedNewick(children, list(self.labels), lengths, self.node_labels, weight)


def _number_joins(joins: list[tuple[int, int]], n_leaves: int) -> list[tuple[int, int]]:
    """Replace ~k by n + k."""
    return [
        (left if left >= 0 else n_leaves + ~left, right if right >= 0 else n_leaves + ~right)
        for left, right in joins
    ]


def _read_tree(tokens: _Tokens, heads: Iterable[_Token] = ()) -> ParsedNewick:
    """Take one tree and its ';'; the heads are tokens before it, whose comments belong to it."""
    tree, heads = _Growing(), [*heads, tokens.head]
    _read_leaf(tokens, tree)
    while tree.open:
        if tokens.at(")"):
            _read_join(tokens, tree)
        elif tokens.accept(","):
            _read_leaf(tokens, tree)
        else:
            raise _unexpected(tokens.head, f"',' or ')' (open since position {tree.open[-1][0]})")
    heads.append(tokens.head)
    if tokens.head.kind != "end" and not tokens.accept(";"):
        raise _unexpected(tokens.head, "';'")
    return tree.finish(_read_weight(heads))


def _read_leaf(tokens: _Tokens, tree: _Growing) -> None:
    """Take any number of '(', then a leaf."""
    while tokens.at("("):
        tree.open.append((tokens.take().position, []))
    position = tokens.head.position
    label = tokens.label("a label or '('")
    tree.add_leaf(label, position, _read_length(tokens))


def _read_join(tokens: _Tokens, tree: _Growing) -> None:
    """Take a ')' with its label and length."""
    tree.join(tokens.take().position)
    labelled = tokens.head.kind in ("word", "quoted")
    tree.node_labels.append(tokens.take().text if labelled else None)
    tree.node_lengths.append(_read_length(tokens))


def _read_length(tokens: _Tokens) -> float:
    if not tokens.accept(":"):
        return math.nan
    token = tokens.take()
    length = float(token.text) if _NUMBER.fullmatch(token.text) else math.nan
    if token.kind != "word" or not math.isfinite(length):
        raise _unexpected(token, "a branch length")
    return length


# ---- weights of trees -------------------------------------------------------------------------

_WEIGHT = re.compile(r"\[\s*&\s*W(?![A-Z_])", re.IGNORECASE)


def _read_weight(heads: Iterable[_Token]) -> float | None:
    """The weight of a tree, from the comments before these tokens: [&W 0.9] or [&W 9/10]."""
    found = [
        (position, comment)
        for token in heads
        for position, comment in _comments(token)
        if _WEIGHT.match(comment)
    ]
    if len(found) > 1:
        raise ValueError(f"the tree has two weights, at positions {found[0][0]} and {found[1][0]}.")
    return _weight(*found[0]) if found else None


def _weight(position: int, comment: str) -> float:
    parts = _WEIGHT.sub("", comment).removesuffix("]").strip().split("/")
    numbers = [float(part) for part in parts if _NUMBER.fullmatch(part.strip())]
    value = math.nan
    if len(numbers) == len(parts) <= 2 and numbers[1:] != [0.0]:
        value = numbers[0] / numbers[-1] if len(numbers) == 2 else numbers[0]
    if not 0 <= value < math.inf:
        raise ValueError(
            f"{printable(comment)!r:.80} at position {position} is no weight of a tree; expected a "
            "number that is not negative, such as [&W 0.9] or [&W 9/10]."
        )
    return value


class _Found:
    """The trees that were found so far, all with weights or none."""

    def __init__(self) -> None:
        self._trees: list[Tree] = []
        self._weights: list[float] = []

    def add(self, tree: Tree, weight: float | None, position: int) -> None:
        if self._trees and (weight is None) == bool(self._weights):
            has, have = ("no", "have one") if weight is None else ("a", "have none")
            raise ValueError(
                f"the tree at position {position} has {has} weight, but those before it {have}; "
                "expected weights [&W ...] for all trees or for none."
            )
        self._trees.append(tree)
        if weight is not None:
            self._weights.append(weight)

    def trees(self) -> WeightedTrees:
        return WeightedTrees(self._trees, self._weights or None)


# ---- Newick: writing --------------------------------------------------------------------------


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
    return "".join(_newick_pieces(tree, names)) + ";"


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


def _newick_pieces(tree: Tree, names: list[str]) -> Iterator[str]:
    n_leaves, rows = tree.n_leaves, tree.children.tolist()
    stack: list[int | str] = [2 * n_leaves - 2]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif item < n_leaves:
            yield names[item]
        else:
            left, right = rows[item - n_leaves]
            yield "("
            stack += [")" + names[item], right, ",", left]


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


# ---- NEXUS ------------------------------------------------------------------------------------


def read_nexus(text: str) -> WeightedTrees:
    """Read the trees of all TREES blocks of a NEXUS file, with the weights they have.

    TRANSLATE tables are applied; other blocks and commands are passed over, comments too, but for
    weights such as [&W 0.9] or [&W 9/10]. Trees are rooted as they are written, whether they say
    [&R], [&U] or nothing. Numbers that stand for the taxa of a TAXA block are not looked up: they
    stay labels.

    Raises
    ------
    ValueError
        If the text is malformed, a tree is not binary, or some trees have weights and others have
        none; the message gives the position.

    Examples
    --------
    >>> trees = read_nexus('''#NEXUS
    ... begin trees;
    ...   translate 1 ape, 2 bat, 3 cat;
    ...   tree first [p = 0.9, P = 0.9] = [&W 0.9] ((1,2),3);
    ...   tree second [p = 0.1, P = 1.0] = [&W 0.1] (1,(2,3));
    ... end;''')
    >>> trees[0], trees.weights.tolist()
    (Tree(3 leaves: ((ape,bat),cat)), [0.9, 0.1])
    """
    tokens = _Tokens(text, _NEXUS_TOKEN)
    _expect_word(tokens, "#NEXUS")
    found = _Found()
    while tokens.head.kind != "end":
        _expect_word(tokens, "BEGIN")
        name = tokens.label("the name of a block")
        tokens.expect(";")
        _read_block(tokens, found if name.upper() == "TREES" else None)
    return found.trees()


def write_nexus(trees: Iterable[Tree], lengths: bool = False) -> str:
    """Write trees as a NEXUS file with one TREES block, with weights if they have some.

    Examples
    --------
    >>> print(write_nexus([Tree.from_newick("((a,b),c);")]), end="")
    #NEXUS
    BEGIN TREES;
      TREE tree_1 = [&R] ((a,b),c);
    END;
    """
    given = WeightedTrees(trees)
    weights = [""] * len(given) if given.weights is None else map(_format_weight, given.weights)
    lines = [
        f"  TREE tree_{number} = [&R] {weight}{format_newick(tree, lengths=lengths)}"
        for number, (tree, weight) in enumerate(zip(given, weights, strict=True), start=1)
    ]
    return "\n".join(["#NEXUS", "BEGIN TREES;", *lines, "END;", ""])


def _format_weight(weight: float) -> str:
    return f"[&W {float(weight)!r}] "


def _expect_word(tokens: _Tokens, word: str) -> None:
    if tokens.head.kind != "word" or tokens.head.text.upper() != word:
        raise _unexpected(tokens.head, word)
    tokens.take()


def _read_block(tokens: _Tokens, found: _Found | None) -> None:
    """Take the commands of a block up to its END;, and add its trees to those found, if asked."""
    names: dict[str, str] = {}
    while (command := tokens.label("a command or END;").upper()) not in ("END", "ENDBLOCK"):
        if found is not None and command == "TRANSLATE":
            names |= _read_translation(tokens)
        elif found is not None and command in ("TREE", "UTREE"):
            _read_named_tree(tokens, names, found)
        else:
            _skip_command(tokens)
    tokens.expect(";")


def _skip_command(tokens: _Tokens) -> None:
    while not tokens.accept(";"):
        if tokens.take().kind == "end":
            raise _unexpected(tokens.head, "';'")


def _read_translation(tokens: _Tokens) -> dict[str, str]:
    names: dict[str, str] = {}
    while not tokens.accept(";"):
        key = tokens.label("a key to translate or ';'")
        names[key] = tokens.label(f"the label that {key!r:.80} stands for")
        if not tokens.at(";"):
            tokens.expect(",")
    return names


def _read_named_tree(tokens: _Tokens, names: Mapping[str, str], found: _Found) -> None:
    """Take 'name = tree;' (the name may have a star before it)."""
    heads = []
    while not tokens.at("="):
        heads.append(tokens.head)
        tokens.label("'=' after the name of the tree")
    heads.append(tokens.head)
    tokens.expect("=")
    parsed = _read_tree(tokens, heads)
    parts = newick_parts(parsed)
    labels = [names.get(label, label) for label in parts.labels or ()]
    found.add(Tree(parts.children, labels, parts.heights), parsed.weight, heads[0].position)


# ---- nested pairs and clusters ----------------------------------------------------------------


def parse_nested(nested: Nested, labels: Sequence[str] | None = None) -> Parts:
    """Read nested pairs; see `Tree.from_nested`."""
    leaves, joins = _flatten(nested)
    places, names = _index_leaves(leaves, labels)
    children = [
        tuple(places[child] if child < len(leaves) else child for child in pair)
        for pair in _number_joins(joins, len(leaves))
    ]
    return Parts(children, names)


def format_nested(tree: Tree) -> Nested:
    """Return nested tuples of labels; see `Tree.to_nested`."""
    nodes: list[Nested] = list(tree.labels)
    for left, right in tree.children.tolist():
        nodes.append((nodes[left], nodes[right]))
    return nodes[-1]


_JOIN = object()


def _flatten(nested: Nested) -> tuple[list[str | int], list[tuple[int, int]]]:
    """Return the leaves from left to right and the joins (leaf i is i, join k is ~k)."""
    leaves: list[str | int] = []
    joins: list[tuple[int, int]] = []
    done: list[int] = []
    stack: list[Any] = [nested]
    inside: dict[int, None] = {}  # the pairs that are being read, the innermost last
    while stack:
        item = stack.pop()
        if item is _JOIN:
            inside.popitem()
            right, left = done.pop(), done.pop()
            done.append(~len(joins))
            joins.append((left, right))
        elif isinstance(item, str | int | np.integer):
            done.append(len(leaves))
            leaves.append(item if isinstance(item, str) else int(item))
        else:
            if id(item) in inside:
                raise ValueError("the nested tree contains itself; expected pairs down to leaves.")
            left, right = _pair(item)
            inside[id(item)] = None
            stack += [_JOIN, right, left]
    return leaves, joins


def _pair(item: Any) -> tuple[Any, Any]:
    if not isinstance(item, tuple | list):
        raise ValueError(
            f"found a {type(item).__name__} in the nested tree; expected a label, a leaf index, "
            "or a tuple or list of two."
        )
    if len(item) != 2:
        raise ValueError(
            f"found a {type(item).__name__} of {len(item)} in the nested tree; expected pairs: "
            "every internal node has two children."
        )
    return item[0], item[1]


def _index_leaves(
    leaves: list[str | int], labels: Sequence[str] | None
) -> tuple[list[int], Sequence[str] | None]:
    """Return the index of each leaf and the labels in that order (None: the default)."""
    named = [leaf for leaf in leaves if isinstance(leaf, str)]
    if labels is None and 0 < len(named) < len(leaves):
        raise ValueError("the nested tree mixes labels and indices; give labels= to order them.")
    if labels is None and named:
        return list(range(len(leaves))), named
    index_of = {label: place for place, label in enumerate(labels or ())}
    places = [leaf_index(leaf, index_of, len(leaves)) for leaf in leaves]
    twice = [leaf for leaf, times in Counter(places).items() if times > 1]
    if twice:
        raise ValueError(f"leaf {twice[0]} is repeated in the nested tree; give each leaf once.")
    return places, labels


def parse_clusters(clusters: Iterable[Cluster], labels: Sequence[str] | None = None) -> Parts:
    """Find the tree that has the given clusters; see `Tree.from_clusters`."""
    given = [_as_cluster(cluster) for cluster in clusters]
    names = _cluster_leaves(given) if labels is None else tuple(labels)
    index_of = {label: place for place, label in enumerate(names)}
    masks = {cluster_mask(cluster, index_of, len(names)) for cluster in given}
    masks.add((1 << len(names)) - 1)
    inner = sorted((mask for mask in masks if mask & (mask - 1)), key=int.bit_count)
    return Parts(_join_clusters(inner, names), names)


def _as_cluster(cluster: Cluster) -> int | list[str | int]:
    if isinstance(cluster, int | np.integer):
        return int(cluster)
    return [cluster] if isinstance(cluster, str) else list(cluster)


def _cluster_leaves(clusters: list[int | list[str | int]]) -> tuple[str, ...]:
    """Return the labels that the clusters speak of: those named, or "0" to the largest index."""
    n_leaves, named = 0, set()
    for cluster in clusters:
        if isinstance(cluster, int):
            n_leaves = max(n_leaves, cluster.bit_length())
            continue
        named |= {item for item in cluster if isinstance(item, str)}
        indices = (index(item) for item in cluster if not isinstance(item, str))
        n_leaves = max(n_leaves, 1 + max(indices, default=-1))
    if bool(n_leaves) == bool(named):
        given = "mix labels and indices" if named else "name no leaves"
        raise ValueError(f"the clusters {given}; give labels= to say what the leaves are.")
    if n_leaves > len(clusters) + 2:
        raise ValueError(
            f"{len(clusters)} clusters speak of leaves up to {n_leaves - 1}; a binary tree over so "
            "many has more: give all but single leaves and the set of all."
        )
    return tuple(sorted(named)) if named else tuple(map(str, range(n_leaves)))


def _join_clusters(clusters: list[int], labels: Sequence[str]) -> list[tuple[int, int]]:
    """Return the children of each cluster, in the given order: by size, the full set last.

    Every leaf points towards the largest cluster made so far that contains it; a cluster joins
    those of its leaves.
    """
    masks = [1 << leaf for leaf in range(len(labels))]
    parent = list(range(len(labels)))
    children = []
    for cluster in clusters:
        left, right = _parts_of(cluster, masks, parent, labels)
        parent[left] = parent[right] = len(parent)
        parent.append(len(parent))
        masks.append(cluster)
        children.append((left, right))
    return children


def _parts_of(
    cluster: int, masks: list[int], parent: list[int], labels: Sequence[str]
) -> tuple[int, int]:
    """Return the two nodes made so far that make up a cluster."""
    parts, rest = [], cluster
    while rest:
        part = _top((rest & -rest).bit_length() - 1, parent)
        if masks[part] & ~cluster:
            shown = show_cluster(masks[part], labels), show_cluster(cluster, labels)
            raise ValueError(
                f"clusters {shown[0]} and {shown[1]} cross; expected each pair to be nested or "
                "disjoint."
            )
        parts.append(part)
        rest &= ~masks[part]
    if len(parts) != 2:
        raise ValueError(
            f"cluster {show_cluster(cluster, labels)} is made of {len(parts)} smaller ones; "
            "expected 2: give all clusters of a binary tree."
        )
    return parts[0], parts[1]


def _top(node: int, parent: list[int]) -> int:
    """Return the root of a node, halving the path on the way."""
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


# ---- linkage matrices -------------------------------------------------------------------------


def parse_linkage(Z: npt.ArrayLike, labels: Sequence[str] | None = None) -> Parts:
    """Read a scipy linkage matrix; see `Tree.from_linkage`."""
    matrix = _as_linkage(Z)
    pairs = matrix[:, :2]
    wrong = ((pairs != np.floor(pairs)) | (pairs < 0) | (pairs >= 2 * len(matrix))).any(axis=1)
    if wrong.any():
        row = int(wrong.argmax())
        left, right = pairs[row].tolist()
        raise ValueError(
            f"row {row} of the linkage matrix joins {left:g} and {right:g}; expected whole numbers "
            f"from 0 to {2 * len(matrix) - 1}."
        )
    return Parts(pairs.astype(np.int64), labels, matrix[:, 2])


def format_linkage(tree: Tree, heights: FloatArray | None = None) -> FloatArray:
    """Return a scipy linkage matrix; see `Tree.to_linkage`."""
    level = raised(tree, heights)
    order = np.argsort(level, kind="stable")
    number = np.arange(2 * tree.n_leaves - 1)
    number[tree.n_leaves + order] = np.arange(tree.n_leaves, 2 * tree.n_leaves - 1)
    pairs = np.sort(number[tree.children[order]], axis=1)
    sizes: IntArray = tree.sizes[tree.n_leaves :][order]
    return np.column_stack([pairs, level[order], sizes]).astype(np.float64)


def _as_linkage(Z: npt.ArrayLike) -> FloatArray:
    try:
        given = np.asarray(Z)
        if np.iscomplexobj(given):
            raise TypeError
        matrix = given.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            "the linkage matrix is not an array of numbers; expected (n, 4)."
        ) from None
    if matrix.ndim != 2 or matrix.shape[1] != 4:
        raise ValueError(
            f"the linkage matrix has shape {matrix.shape}; expected (n_leaves - 1, 4) as "
            "scipy.cluster.hierarchy.linkage returns it."
        )
    finite = np.isfinite(matrix).all(axis=1)
    if not finite.all():
        row = int(finite.argmin())
        raise ValueError(
            f"row {row} of the linkage matrix is {matrix[row].tolist()}; expected finite numbers."
        )
    return matrix


# ---- networkx ---------------------------------------------------------------------------------


def parse_networkx(graph: Any) -> Parts:
    """Read a networkx DiGraph; see `Tree.from_networkx`."""
    order = _from_root(graph)
    leaves = [node for node in graph if not graph.out_degree(node)]
    number = {leaf: place for place, leaf in enumerate(leaves)}
    inner = [node for node in reversed(order) if node not in number]
    number |= {node: len(leaves) + row for row, node in enumerate(inner)}
    children = [[number[child] for child in graph.successors(node)] for node in inner]
    labels = [str(graph.nodes[leaf].get("label", leaf)) for leaf in leaves]
    heights = [graph.nodes[node].get("height") for node in inner]
    return Parts(children, labels, heights if heights and None not in heights else None)


def format_networkx(tree: Tree) -> Any:
    """Return a networkx DiGraph; see `Tree.to_networkx`."""
    graph = _import_networkx().DiGraph()
    for node, size in enumerate(tree.sizes.tolist()):
        graph.add_node(node, size=size)
    for leaf, label in enumerate(tree.labels):
        graph.nodes[leaf]["label"] = label
    for parent, pair in enumerate(tree.children.tolist(), start=tree.n_leaves):
        graph.add_edges_from((parent, child) for child in pair)
    for node, height in enumerate([] if tree.heights is None else tree.heights.tolist()):
        graph.nodes[tree.n_leaves + node]["height"] = height
    return graph


def _import_networkx() -> Any:
    try:
        return import_module("networkx")
    except ImportError:
        raise ImportError(
            "to_networkx needs networkx, which is not installed; "
            "run: pip install 'hctrellis[networkx]'."
        ) from None


def _from_root(graph: Any) -> list[Any]:
    """Return the nodes of a binary arborescence, parents before children, or say why not."""
    if not graph.is_directed():
        raise ValueError("the graph is undirected; expected a DiGraph with edges to the children.")
    roots = [node for node in graph if graph.in_degree(node) == 0]
    if len(roots) != 1:
        raise ValueError(f"the graph has {len(roots)} nodes without a parent; expected one root.")
    for node in graph:
        if graph.in_degree(node) > 1:
            raise ValueError(
                f"node {node!r:.80} has {graph.in_degree(node)} parents; expected one."
            )
        n_children = len(list(graph.successors(node)))
        if n_children not in (0, 2):
            raise ValueError(
                f"node {node!r:.80} has {n_children} children; expected 2, or 0 (a leaf)."
            )
    order = list(roots)
    for node in order:
        order += graph.successors(node)
    if len(order) < len(graph):
        raise ValueError(
            f"only {len(order)} of {len(graph)} nodes hang from the root; expected one tree."
        )
    return order


# ---- JSON -------------------------------------------------------------------------------------


def parse_json(text: str | Mapping[str, Any]) -> Parts:
    """Read the JSON object written by `format_json`, as text or decoded."""
    record = _decode_json(text) if isinstance(text, str) else text
    if not isinstance(record, Mapping) or record.get("format") != JSON_FORMAT:
        raise ValueError(f'the JSON is not an object with "format": "{JSON_FORMAT}".')
    if record.get("version") != JSON_VERSION:
        raise ValueError(
            f"the tree is written in version {record.get('version')!r:.80} of the format; this "
            f"release reads version {JSON_VERSION}."
        )
    for field in ("labels", "children"):
        if not isinstance(record.get(field), list | tuple):
            raise ValueError(
                f'the JSON tree has no list "{field}"; see format_json for the fields.'
            )
    return Parts(record["children"], record["labels"], record.get("heights"))


def format_json(tree: Tree) -> str:
    """Write a tree as a JSON object with five fields.

    ``format`` is "hctrellis-tree", ``version`` is 1, ``labels`` lists the n labels, ``children``
    the n - 1 pairs of node numbers (k-th pair: the children of node n + k), ``heights`` the n - 1
    heights, or null.
    """
    return json.dumps(
        {
            "format": JSON_FORMAT,
            "version": JSON_VERSION,
            "labels": tree.labels,
            "children": tree.children.tolist(),
            "heights": None if tree.heights is None else tree.heights.tolist(),
        }
    )


def _decode_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"the text is not JSON ({error!s:.200}); expected what to_json writes."
        ) from None


# ---- text -------------------------------------------------------------------------------------


def format_text(tree: Tree, annotate: Callable[[int], str] | None = None) -> str:
    """Draw a tree with a line per node; see `Tree.to_text`."""
    notes = _notes(tree, annotate)
    lines = []
    stack = [(2 * tree.n_leaves - 2, "", "")]
    while stack:
        node, head, margin = stack.pop()
        if node < tree.n_leaves:
            lines.append(f"{head} {notes[node]}" if head else notes[node])
            continue
        lines.append(f"{head}┐ {notes[node]}".rstrip())
        left, right = tree.children[node - tree.n_leaves].tolist()
        stack.append((right, margin + "└─", margin + "  "))
        stack.append((left, margin + "├─", margin + "│ "))
    return "\n".join(lines)


def printable(text: str) -> str:
    """Return text with control characters escaped, so that it stays on its line.

    Examples
    --------
    >>> print(printable("two\\nlines"))
    two\\nlines
    """
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _notes(tree: Tree, annotate: Callable[[int], str] | None) -> list[str]:
    """Return what is shown at each node: labels, and annotations of internal nodes."""
    inner = [""] * (tree.n_leaves - 1)
    if annotate is not None:
        inner = [annotate(mask) for mask in tree.masks[tree.n_leaves :]]
    return [printable(text) for text in (*tree.labels, *inner)]
