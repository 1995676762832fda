"""Material for fuzzing: mutations of texts and bytes, odd words, numbers and values.

Everything is drawn from a `random.Random`, so a seed gives the same inputs again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeVar

Raw = TypeVar("Raw", str, bytes)

NUMBERS = (
    "0", "-0", "1", "-1", "2", "0.5", ".5", "5.", "+1", "1e308", "-1e308", "1e309", "1e-320",
    "1e400", "9" * 40, "1" * 5000, "nan", "NaN", "inf", "-inf", "infinity", "1_000", "0x10", "1,5",
    "²", "٣", "1e", "--1", "9223372036854775807", "9223372036854775808", "18446744073709551616",
    "-9223372036854775809", "2147483648", "true", "None", "1 2", "",
)  # fmt: skip

LABELS = (
    "a", "b", "c", "d", "e", "x", "1", "2", "", " ", "a b", "it's", "''", '"', '"q"', "a,b", "a;b",
    "line\nbreak", "\r", "\t", "tab\there", "\x00", "\x1b[31m", "é", "漢", "\U0001f600", "\u2028",
    "\u202e", "\ud800", "../../etc/passwd", "/etc/passwd", "C:\\x", "NUL",
    "<script>alert(1)</script>", "</script>", "{0}", "%s", "$x$", "#NEXUS", "END", "[x]", "(",
    ")", "na", "?", "nan", "L" * 3000,
)  # fmt: skip

TEXT_TOKENS = (*NUMBERS, *LABELS, "\n", "\r\n", "\ufeff", "\x85", "\x0b", "\x0c")

BYTE_TOKENS = (
    b"\x00", b"\xff", b"\xff" * 4, b"\xff" * 8, b"\x7f\xff\xff\xff", b"\x00" * 16, b"PAR1",
    b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"\x93NUMPY", b"\x80\x04", b"\x1f\x8b",
    b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\xc3", b"\xed\xa0\x80", b"\n", b"\r", b",",
    b'"', b"'", b"(", b"[", b"{",
)  # fmt: skip

_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")


# ---- mutation ---------------------------------------------------------------------------------


def mutate(rng: Random, raw: Raw, others: Sequence[Raw], tokens: Sequence[Raw]) -> Raw:
    """A text or bytes after one to four random changes."""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        change = rng.choice(_CHANGES)
        raw = change(rng, raw, others, tokens)
    return raw


def _ends(rng: Random, raw: Raw) -> tuple[int, int]:
    """A random stretch, more often a short one."""
    start = rng.randint(0, len(raw))
    longest = len(raw) - start
    return start, start + min(longest, rng.choice((1, 1, 2, 4, 8, 32, longest)))


def _flip(rng: Random, raw: Raw, others: Any, tokens: Any) -> Raw:
    """Another character or byte in one place."""
    if not raw:
        return raw
    at = rng.randrange(len(raw))
    if isinstance(raw, bytes):
        return raw[:at] + bytes([raw[at] ^ (1 << rng.randrange(8))]) + raw[at + 1 :]
    return raw[:at] + chr(ord(raw[at]) ^ (1 << rng.randrange(7))) + raw[at + 1 :]


def _cut(rng: Random, raw: Raw, others: Any, tokens: Any) -> Raw:
    start, stop = _ends(rng, raw)
    return raw[:start] + raw[stop:]


def _end_early(rng: Random, raw: Raw, others: Any, tokens: Any) -> Raw:
    return raw[: rng.randint(0, len(raw))]


def _repeat(rng: Random, raw: Raw, others: Any, tokens: Any) -> Raw:
    start, stop = _ends(rng, raw)
    return raw[:stop] + raw[start:stop] * rng.choice((1, 1, 2, 5, 50)) + raw[stop:]


def _splice(rng: Random, raw: Raw, others: Sequence[Raw], tokens: Any) -> Raw:
    """The start of one and the end of another."""
    other = rng.choice(others)
    return raw[: rng.randint(0, len(raw))] + other[rng.randint(0, len(other)) :]


def _insert(rng: Random, raw: Raw, others: Any, tokens: Sequence[Raw]) -> Raw:
    start, stop = _ends(rng, raw)
    return raw[:start] + rng.choice(tokens) + raw[stop if rng.random() < 0.5 else start :]


def _number(rng: Random, raw: Raw, others: Any, tokens: Any) -> Raw:
    """An extreme in place of a number."""
    if isinstance(raw, bytes):
        return _insert(rng, raw, others, BYTE_TOKENS)
    found = [*_NUMBER.finditer(raw)]
    if not found:
        return raw
    start, stop = rng.choice(found).span()
    return raw[:start] + rng.choice(NUMBERS) + raw[stop:]


_CHANGES: tuple[Callable[..., Any], ...] = (
    _flip,
    _flip,
    _cut,
    _end_early,
    _repeat,
    _splice,
    _insert,
    _insert,
    _number,
    _number,
)


# ---- values -----------------------------------------------------------------------------------

EXTREMES = (
    0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, 1e-320, 1e-300, 1e300, 1.7e308, -1.7e308, math.nan,
    math.inf, -math.inf,
)  # fmt: skip

ODD = (
    None, True, False, "", "a", "1", b"x", 1j, 10**400, -(10**30), 2**63, 2**64, (), [], {}, [[]],
    {"a": 1}, [1, [2]], object,
)  # fmt: skip


def plain_number(rng: Random) -> float:
    """A number as data have them."""
    return rng.choice((rng.random(), float(rng.randint(0, 9)), rng.gauss(0.0, 10.0)))


def odd_value(rng: Random) -> Any:
    """A number, an extreme one, or no number at all."""
    pick = rng.random()
    if pick < 0.6:
        return plain_number(rng)
    return rng.choice(EXTREMES) if pick < 0.85 else rng.choice(ODD)
