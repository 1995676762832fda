"""The tokens of Newick and NEXUS: words, labels in quotes, punctuation; comments between them.

Positions in error messages count characters from 0, as Python indexes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from hctrellis.support.printable import printable

if TYPE_CHECKING:
    pass

_SPACES = re.compile(r"\s*")
_BRACKET = re.compile(r"[\[\]]")
NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

_WEIGHT = re.compile(r"\[\s*&\s*W(?![A-Z_])", re.IGNORECASE)


class Token(NamedTuple):
    """A word, a label in quotes, a punctuation mark, or the end of the text."""

    kind: str
    """'punctuation', 'word', 'quoted' or 'end'."""
    text: str
    position: int
    before: str = ""
    """Blanks and comments since the last one."""


def token_pattern(punctuation: str) -> re.Pattern[str]:
    """What tokens look like, where these characters are punctuation."""
    return re.compile(
        rf"(?P<punctuation>[{punctuation}])"
        r"|'(?P<quoted>[^']*+(?:''[^']*+)*+)'"
        rf"|(?P<word>[^\s'\[\]{punctuation}]+)"
    )


class Tokens:
    """The tokens of a text; `head` is the next one."""

    def __init__(self, text: str, pattern: re.Pattern[str]) -> None:
        if not isinstance(text, str):
            raise TypeError(f"trees are read from text; got {type(text).__name__}.")
        self._rest = _tokenize(text, pattern)
        self.head = next(self._rest)

    def take(self) -> Token:
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
            raise unexpected(self.head, repr(text))

    def label(self, expected: str) -> str:
        """Take the next token, which must be a label."""
        if self.head.kind not in ("word", "quoted"):
            raise unexpected(self.head, expected)
        return self.take().text


def _tokenize(text: str, pattern: re.Pattern[str]) -> Iterator[Token]:
    end, position = 0, _skip_blank(text, 0)
    while position < len(text):
        match = pattern.match(text, position)
        if match is None:
            problem = "']' without '['" if text[position] == "]" else "quote that is never closed"
            raise ValueError(f"there is a {problem} at position {position}; close or remove it.")
        kind = match.lastgroup or ""
        yield Token(kind, _unquote(kind, match[kind]), position, text[end:position])
        end = match.end()
        position = _skip_blank(text, end)
    yield Token("end", "", len(text), text[end:])


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


def unexpected(token: Token, expected: str) -> ValueError:
    """The error that says what was found in place of what was expected."""
    found = "the end of the text" if token.kind == "end" else f"{token.text!r:.80}"
    return ValueError(f"found {found} at position {token.position}; expected {expected}.")


# ---- weights of trees, in comments -----------------------------------------------------------


def tree_weight(heads: Iterable[Token]) -> float | None:
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


def _comments(token: Token) -> Iterator[tuple[int, str]]:
    """The comments before a token, each with its position."""
    text, shift = token.before, token.position - len(token.before)
    start = text.find("[")
    while start >= 0:
        end = _comment_end(text, start)
        yield shift + start, text[start:end]
        start = text.find("[", end)


def _weight(position: int, comment: str) -> float:
    parts = _WEIGHT.sub("", comment).removesuffix("]").strip().split("/")
    numbers = [float(part) for part in parts if NUMBER.fullmatch(part.strip())]
    value = math.nan
    if len(numbers) == len(parts) <= 2 and numbers[1:] != [0.0]:
        value = numbers[0] / numbers[-1] if len(numbers) == 2 else numbers[0]
    if not 0 <= value < math.inf:
        raise ValueError(
            f"{printable(comment)!r:.80} at position {position} is not the weight of a tree; "
            "expected a number that is not negative, such as [&W 0.9] or [&W 9/10]."
        )
    return value
