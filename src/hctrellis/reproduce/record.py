"""What an experiment hands to the page: plain values, and figures of matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hctrellis.support.types import FloatArray

Size = Literal["small", "full"]
"""A run of seconds, to check that everything works, or one as large as in the paper."""

RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
Tell = Callable[[str], None]
"""A function that is called with a text that says what is going on."""


def silent(text: str) -> None:
    """Show nothing."""


class Number(NamedTuple):
    """A number of the paper beside ours."""

    what: str
    paper: str
    ours: str
    difference: str


@dataclass(frozen=True)
class Table:
    """A table: what it says, the names of its columns, and its cells."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Picture:
    """Figures that stand side by side where there is room.

    Attributes
    ----------
    name : str
        Of the files.
    figures : sequence of matplotlib Figure
    alt : str
        What can be seen in it, for those who cannot see it.
    caption : str
        How to read it, and what to conclude.
    """

    name: str
    figures: Sequence[Figure]
    alt: str
    caption: str


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper, made again.

    Attributes
    ----------
    name : str
    title : str
    about : str
        What the paper shows, and what was done here.
    verdict : str
        What came out, in one sentence.
    conclusion : str
        What to conclude.
    numbers : sequence of Number
    parts : sequence of Table or Picture
    notes : sequence of str
        Where the two differ, and what is not known.
    claims : mapping from str to bool
        What should hold, and whether it did.
    """

    name: str
    title: str
    about: str
    verdict: str
    conclusion: str
    numbers: Sequence[Number] = ()
    parts: Sequence[Table | Picture] = ()
    notes: Sequence[str] = ()
    claims: Mapping[str, bool] = field(default_factory=dict)


# ---- numbers as text --------------------------------------------------------------------------


def mean_std(values: FloatArray, digits: int = 2) -> str:
    """Mean and standard deviation.

    >>> import numpy as np
    >>> mean_std(np.array([1.0, 2.0, 3.0])).replace("\xa0", " ")
    '2.00 ± 0.82'
    """
    return plus_minus(values.mean(), values.std(), digits)


def plus_minus(value: float, error: float, digits: int = 2) -> str:
    """A value and its error, kept on one line."""
    return f"{value:.{digits}f}\xa0±\xa0{error:.{digits}f}"


def rounded(value: float, digits: int = 2) -> str:
    """A number to some digits; very large and very small ones with a power of ten.

    >>> rounded(1234.5), rounded(0.0123), rounded(3.4e7), rounded(9.1e-5), rounded(0)
    ('1,200', '0.012', '3.4·10⁷', '9.1·10⁻⁵', '0')
    """
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        return f"{float(f'{value:.{digits}g}'):,.10g}"
    front, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    return f"{front}·10{str(int(exponent)).translate(RAISED)}"


def signed(value: float, digits: int = 2) -> str:
    """A number with its sign.

    >>> signed(0.017), signed(-0.5, 1), signed(-0.001)
    ('+0.02', '−0.5', '0.00')
    """
    text = f"{value:+.{digits}f}"
    return text.replace("-", "−") if float(text) != 0 else text[1:]


def counted(number: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "jet"), counted(5000, "jet")
    ('1 jet', '5,000 jets')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def show_seconds(seconds: float) -> str:
    """A time with its unit.

    >>> show_seconds(0.00123), show_seconds(0.43), show_seconds(2.0), show_seconds(900)
    ('1.2 ms', '430 ms', '2.0 s', '15 min')
    """
    if seconds < 1:
        return f"{rounded(1000 * seconds)} ms"
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def show_factor(factor: float) -> str:
    """How many times faster or slower.

    >>> show_factor(1234.5), show_factor(0.5)
    ('1,200 times faster', '2 times slower')
    """
    times, how = (factor, "faster") if factor >= 1 else (1 / factor, "slower")
    return f"{rounded(times)} times {how}"
