"""What the statements of a NEXUS or Newick file say, one by one: where each tree begins, and which
labels its tokens stand for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hctrellis.support.printable import printable
from hctrellis.treefiles.statements import Statement, Text, open_file, statements

_BLANK = re.compile(rb"(?:\s|\[[^\[\]]*\])*")
_WORD = re.compile(rb"[^\s\[\]();=,'\"*]+")
_TOKEN = re.compile(rb"'((?:[^']|'')*)'|([^\s\[\](),;='\"]+)|([,;=()])|\[[^\[\]]*\]|\s+|(.)", re.S)
_TABLE = re.compile(rb"(?:#[^\n]*\n)*[^\n(\[]*\t[^\n]*")


@dataclass
class TreeText:
    """A tree as it is written: `header` goes before it, and it begins at byte `start`."""

    statement: Statement
    start: int
    header: bytes


Labels = dict[bytes, bytes]
"""What tokens stand for: labels, in their order."""


def written_trees(path: Path) -> Iterator[TreeText | Labels]:
    """The trees of a file, and before them, where the file has one, the table of their labels."""
    with open_file(path) as file:
        source = statements(file, path.name)
        try:
            first = next(source)
        except StopIteration:
            raise ValueError(f"{path.name} is empty; expected trees in Newick or NEXUS") from None
        begin = _skip(first, first.start)
        if first.text.content[begin : begin + 6].upper() == b"#NEXUS":
            first = Statement(first.text, first.array, begin + 6, first.stop)
            yield from _nexus(first, source)
            return
        if _TABLE.match(first.text.content, begin):
            file.seek(0)
            yield from _table(iter(file.readline, b""), path.name)
            return
        yield from _newick(first)
        for statement in source:
            yield from _newick(statement)


def _skip(statement: Statement, start: int) -> int:
    """The position after blanks and comments that do not nest."""
    match = _BLANK.match(statement.text.content, start, statement.stop)
    return match.end() if match else start


def _newick(statement: Statement) -> Iterator[TreeText]:
    """One tree of a Newick file; its comments are its header."""
    from hctrellis.kernels.treetext import find_mark

    start = _skip(statement, statement.start)
    if start >= statement.stop or statement.content[start - statement.start :].strip() == b";":
        return
    body = int(find_mark(statement.array, statement.start, statement.stop, ord("(")))
    yield TreeText(statement, start, statement.text.content[statement.start : body])


def _table(lines: Iterator[bytes], name: str) -> Iterator[TreeText]:
    """The trees of a table with a tree in each row, as RevBayes writes it.

    Of several trees in a row the first is taken. Lines that begin with # are comments.
    """
    header = False
    for number, line in enumerate(lines, start=1):
        if line.startswith(b"#") or not line.strip():
            continue
        start = line.find(b"(")
        if start < 0:
            if header:
                raise ValueError(f"{name}, line {number}: there is no tree in this row")
            header = True
            continue
        end = line.find(b"\t", start)
        text = Text(name, line, number)
        stop = end if end >= 0 else len(line.rstrip())
        yield TreeText(Statement(text, text.array, 0, stop), start, b"")


def _nexus(first: Statement, rest: Iterator[Statement]) -> Iterator[TreeText | Labels]:
    """The trees of all TREES blocks; labels from TAXLABELS and TRANSLATE."""
    from hctrellis.kernels.treetext import find_mark

    block, taxa, statement = "", dict[bytes, bytes](), first
    while True:
        start = _skip(statement, statement.start)
        match = _WORD.match(statement.text.content, start, statement.stop)
        word = match[0].upper() if match else b""
        after = match.end() if match else start
        if block == "TREES" and word in (b"TREE", b"UTREE"):
            equals = int(find_mark(statement.array, after, statement.stop, ord("=")))
            if equals == statement.stop:
                raise statement.error(start, "this tree has no '=' after its name")
            body = int(find_mark(statement.array, equals, statement.stop, ord("(")))
            yield TreeText(statement, equals + 1, statement.text.content[after:body])
        elif word == b"BEGIN" and not block:
            named = _WORD.match(statement.text.content, _skip(statement, after), statement.stop)
            block = (named[0] if named else b"?").decode("latin-1").upper()
        elif word in (b"END", b"ENDBLOCK"):
            block = ""
        elif block == "TREES" and word == b"TRANSLATE":
            yield _translation(statement, after)
        elif block == "TAXA" and word == b"TAXLABELS":
            labels = [text for _, text in _tokens(statement, after) if text not in (b",", b";")]
            taxa = {str(k).encode(): label for k, label in enumerate(labels, start=1)}
            yield taxa
        elif not block and (
            odd := statement.text.content[start : statement.stop].strip(b"; \t\r\n")
        ):
            found = (word or odd)[:40].decode("utf-8", "replace")
            raise statement.error(start, f"found {found!r}; expected BEGIN and the name of a block")
        following = next(rest, None)
        if following is None:
            break
        statement = following
    if block not in ("", "TREES"):  # the file of a run that goes on has no END yet
        shown = printable(block)
        raise statement.error(statement.stop, f"the block {shown:.40} has no END;")


def _translation(statement: Statement, start: int) -> Labels:
    """The labels that the tokens of a TRANSLATE command stand for."""
    names: Labels = {}
    entry: list[bytes] = []
    for position, token in _tokens(statement, start):
        if token not in (b",", b";"):
            entry.append(token)
            continue
        if len(entry) == 2:
            names[entry[0]] = entry[1]
        elif entry or token == b",":
            shown = b" ".join(entry).decode("utf-8", "replace")
            raise statement.error(
                position, f"{shown!r:.80} is no entry to translate; expected a token and a label"
            )
        entry = []
    return names


def _tokens(statement: Statement, start: int) -> Iterator[tuple[int, bytes]]:
    """Words, labels without their quotes, and marks, each with its position."""
    for match in _TOKEN.finditer(statement.text.content, start, statement.stop):
        quoted, word, mark, odd = match.groups()
        if odd is not None:
            raise statement.error(match.start(), f"{odd.decode('latin-1')!r} is out of place")
        if quoted is not None:
            yield match.start(), quoted.replace(b"''", b"'")
        elif word is not None or mark is not None:
            yield match.start(), word or mark
