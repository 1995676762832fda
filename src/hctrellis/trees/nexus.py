"""NEXUS files: the trees of TREES blocks, with TRANSLATE tables and weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from hctrellis.trees.newick import newick_parts, read_tree
from hctrellis.trees.parts import Written
from hctrellis.trees.tokens import Tokens, token_pattern, unexpected

if TYPE_CHECKING:
    pass

_NEXUS_TOKEN = token_pattern("(),:;=")


def parse_nexus(text: str) -> Iterator[Written]:
    """Read the trees of all TREES blocks; see `hctrellis.treefiles.read_nexus`."""
    tokens = Tokens(text, _NEXUS_TOKEN)
    _expect_word(tokens, "#NEXUS")
    while tokens.head.kind != "end":
        _expect_word(tokens, "BEGIN")
        name = tokens.label("the name of a block")
        tokens.expect(";")
        yield from _read_block(tokens, name.upper() == "TREES")


def format_nexus(newicks: Iterable[str], weights: Iterable[float] | None = None) -> str:
    """Write trees as a NEXUS file with one TREES block; see `hctrellis.treefiles.write_nexus`."""
    texts = list(newicks)
    shares = [""] * len(texts) if weights is None else [f"[&W {float(w)!r}] " for w in weights]
    lines = [
        f"  TREE tree_{number} = [&R] {share}{text}"
        for number, (text, share) in enumerate(zip(texts, shares, strict=True), start=1)
    ]
    return "\n".join(["#NEXUS", "BEGIN TREES;", *lines, "END;", ""])


def _expect_word(tokens: Tokens, word: str) -> None:
    if tokens.head.kind != "word" or tokens.head.text.upper() != word:
        raise unexpected(tokens.head, word)
    tokens.take()


def _read_block(tokens: Tokens, with_trees: bool) -> Iterator[Written]:
    """Take the commands of a block up to its END;, and read its trees, if asked."""
    names: dict[str, str] = {}
    while (command := tokens.label("a command or END;").upper()) not in ("END", "ENDBLOCK"):
        if with_trees and command == "TRANSLATE":
            names |= _read_translation(tokens)
        elif with_trees and command in ("TREE", "UTREE"):
            yield _read_named_tree(tokens, names)
        else:
            _skip_command(tokens)
    tokens.expect(";")


def _skip_command(tokens: Tokens) -> None:
    while not tokens.accept(";"):
        if tokens.take().kind == "end":
            raise unexpected(tokens.head, "';'")


def _read_translation(tokens: Tokens) -> dict[str, str]:
    names: dict[str, str] = {}
    while not tokens.accept(";"):
        key = tokens.label("a key to translate or ';'")
        names[key] = tokens.label(f"the label that {key!r:.80} stands for")
        if not tokens.at(";"):
            tokens.expect(",")
    return names


def _read_named_tree(tokens: Tokens, names: Mapping[str, str]) -> Written:
    """Take 'name = tree;' (the name may have a star before it)."""
    heads = []
    while not tokens.at("="):
        heads.append(tokens.head)
        tokens.label("'=' after the name of the tree")
    heads.append(tokens.head)
    tokens.expect("=")
    parsed = read_tree(tokens, heads)
    parts = newick_parts(parsed)
    labels = [names.get(label, label) for label in parts.labels or ()]
    return Written(parts._replace(labels=labels), parsed.weight, heads[0].position)
