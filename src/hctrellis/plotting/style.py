"""What the plots share: colours, sizes, and how probabilities are written and shaded.

The colours are two of Okabe and Ito's, which people who see colours differently tell apart; where
two lines meet in one plot they differ in dashes too.
"""

from __future__ import annotations

from hctrellis.posterior import Posterior

INK, GREY, PALE = "#222222", "#555555", "#c8c8c8"
BLUE, ORANGE = "#0072b2", "#d55e00"
DARKEST, FAINTEST = 0.13, 0.72  # grey of what has probability 1, and 0
LABEL_SIZE, NUMBER_SIZE = 9.5, 7.5  # points; less where rows are narrow
ROW_HEIGHT = 0.27  # inches per leaf of a new figure
POINTS = 72  # per inch


def require_matplotlib() -> None:
    """Raise an error that says what to install, unless matplotlib is there."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        raise ImportError('plots need matplotlib: pip install "hctrellis[plot]"') from None


def as_posterior(given: object) -> Posterior:
    """A posterior, or an error that says what was given."""
    if not isinstance(given, Posterior):
        raise TypeError(f"expected a Posterior, as infer gives it; got {type(given).__name__}")
    return given


# ---- probabilities ----------------------------------------------------------------------------


def show_probability(probability: float, digits: int = 2) -> str:
    """A probability as text that says 0 or 1 only if it is.

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


def condition(post: Posterior) -> str:
    """What probabilities are conditional on, in words; nothing if all trees were considered."""
    return "" if post.is_exact else ", given the trellis"


def shade(probability: float | None) -> str:
    """A shade of grey, in matplotlib's way of writing it."""
    doubt = 0.0 if probability is None else 1.0 - min(max(probability, 0.0), 1.0)
    return str(DARKEST + doubt * (FAINTEST - DARKEST))
