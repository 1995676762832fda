"""Text for people: on one line, without control characters; probabilities."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return text with control characters escaped, so that it stays on its line.

    Examples
    --------
    >>> print(printable("two\\nlines"))
    two\\nlines
    """
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def show_probability(probability: float, digits: int = 2) -> str:
    """A probability as text that says 0 or 1 only if it is exactly that.

    Examples
    --------
    >>> [show_probability(p) for p in (0.0, 0.001, 0.126, 0.9999, 1.0)]
    ['0.00', '<0.01', '0.13', '>0.99', '1.00']
    """
    least = 10.0**-digits
    text = f"{probability:.{digits}f}"
    if probability > 0 and float(text) == 0:
        return f"<{least:.{digits}f}"
    if probability < 1 and float(text) >= 1:
        return f">{1 - least:.{digits}f}"
    return text
