"""How the figures look: sizes, fonts, and colours that the colour-blind can tell apart."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

P = ParamSpec("P")
T = TypeVar("T")

INK, SOFT, PALE = "#222222", "#666666", "#c8c8c8"
BLUE, RED, GREEN, PINK = "#0072b2", "#d55e00", "#009e73", "#cc79a7"  # Okabe and Ito
SKY, GOLD = "#56b4e9", "#b8860b"
WIDTH, HEIGHT = 6.6, 4.2  # inches of a figure that stands alone
HALF = 4.6  # inches of one that stands beside another
PNG_DPI = 130
STYLE: dict[Any, Any] = {
    "font.size": 11,
    "axes.titlesize": 11.5,
    "axes.labelsize": 11,
    "legend.fontsize": 10,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e8e8e8",
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "svg.fonttype": "path",
    "svg.hashsalt": "hctrellis",
}


def styled(draw: Callable[P, T]) -> Callable[P, T]:
    """Give what a function draws the common style."""

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> T:
        from matplotlib import rc_context

        with rc_context(STYLE):
            return draw(*args, **kwargs)

    return drawn


def new_figure(width: float = WIDTH, height: float = HEIGHT, **grid: Any) -> tuple[Figure, Any]:
    """A figure and its axes, laid out so that nothing is cut off."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(**grid)


def shades(number: int) -> list[str]:
    """Colours from dark to light that also differ in print."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    ramp = colormaps["viridis"]
    return [to_hex(ramp(0.92 * k / max(1, number - 1))) for k in range(number)]


@styled
def svg(figure: Figure) -> str:
    """A figure as SVG text."""
    written = io.StringIO()
    figure.savefig(written, format="svg", metadata={"Date": None}, dpi=2 * PNG_DPI)
    text = written.getvalue()
    return text[text.index("<svg") :]


@styled
def png(figures: Sequence[Figure]) -> bytes:
    """Figures side by side, as PNG."""
    from matplotlib.image import imread, imsave

    images = []
    for figure in figures:
        written = io.BytesIO()
        figure.savefig(written, format="png", dpi=PNG_DPI)
        written.seek(0)
        images.append(imread(written))
    height = max(len(image) for image in images)
    padded = [
        np.pad(image, ((0, height - len(image)), (0, 0), (0, 0)), constant_values=1.0)
        for image in images
    ]
    whole = io.BytesIO()
    imsave(whole, np.hstack(padded), format="png", metadata={"Software": ""})
    return whole.getvalue()
