"""What the plots share: colours, sizes, and how probabilities are written and shaded.

Where two lines meet in one plot they differ in dashes as well as in colour.
"""

from __future__ import annotations

from hctrellis.posterior.base import BasePosterior

INK, GREY, PALE = "#222222", "#555555", "#c8c8c8"
DARKEST, FAINTEST = 0.13, 0.72  # greys of probability 1 and of 0
LABEL_SIZE, NUMBER_SIZE = 8.0, 6.5  # points; less where rows are narrow
ROW_HEIGHT = 0.165  # inches per leaf of a new figure
MARGIN_HEIGHT = 0.5  # inches for the axis of heights
LEGEND_HEIGHT = 0.17  # inches for a row of classes
COLUMN, TWO_COLUMNS, MOST_HEIGHT = 3.46, 7.2, 9.0  # inches: of a journal, and of its page
POINTS = 72  # per inch


def require_matplotlib() -> None:
    """Raise an error that says what to install, unless matplotlib is installed."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        raise ImportError('plots need matplotlib: pip install "hctrellis[plot]"') from None


def as_posterior(given: object) -> BasePosterior:
    """A posterior, or an error that says what was given."""
    if not isinstance(given, BasePosterior):
        raise TypeError(f"expected a Posterior, as infer returns it; got {type(given).__name__}")
    return given


def condition(post: BasePosterior) -> str:
    """What probabilities are conditional on, in words; nothing if all trees were considered."""
    return ", given the trellis" if post.method == "sparse" else ""


def shade(probability: float | None) -> str:
    """A shade of grey, in matplotlib's way of writing it."""
    doubt = 0.0 if probability is None else 1.0 - min(max(probability, 0.0), 1.0)
    return str(DARKEST + doubt * (FAINTEST - DARKEST))
