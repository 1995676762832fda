"""The profile likelihood of a fitted parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hctrellis.fit.run import Fit
from hctrellis.plotting.axes import new_axes
from hctrellis.plotting.style import GREY, INK, LABEL_SIZE, require_matplotlib
from hctrellis.support.colors import BLUE, ORANGE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEVELS = {0.5: "1 standard deviation", 2.0: "2 standard deviations"}


def plot_profile(
    fit: Fit,
    name: str | None = None,
    ax: Axes | None = None,
    *,
    truth: float | None = None,
    size: int = 21,
    width: float = 2.8,
) -> Axes:
    """Draw how far the log likelihood falls as a parameter departs from its estimate.

    At each value all other parameters are at their best (blue). The parabola of the curvature at
    the maximum (grey, dashed) is what a symmetric error stands for; the band is the profile
    interval of one standard deviation.

    Parameters
    ----------
    fit : Fit
    name : str, optional
        The parameter; the first by default.
    ax : matplotlib Axes, optional
        Where to draw: by default in a new figure.
    truth : float, optional
        The true value, for a line (orange, dashed).
    size : int
        Number of values of the parameter.
    width : float
        How far they go to either side, in standard errors.
    """
    require_matplotlib()
    if not isinstance(fit, Fit):
        raise TypeError(f"expected a Fit, as fit returns it; got {type(fit).__name__}")
    chosen = next(iter(fit)) if name is None else name
    found = fit.profile(chosen, size, width)
    value, error, _ = fit[chosen]
    low, high = fit.interval(chosen)[:2]
    ax = new_axes(5.2, 3.6) if ax is None else ax
    fine = np.linspace(found.x[0], found.x[-1], 200)
    ax.axvspan(low, high, color=BLUE, alpha=0.12, linewidth=0)
    ax.plot(fine, 0.5 * ((fine - value) / error) ** 2, "--", color=GREY, lw=1.0, label="parabola")
    ax.plot(found.x, found.drop, color=BLUE, lw=1.8, label="profile")
    for level, text in LEVELS.items():
        ax.axhline(level, color=GREY, lw=0.6, ls=":")
        ax.annotate(
            text,
            (1.0, level),  # beside the curve, where nothing crosses it
            xycoords=("axes fraction", "data"),
            xytext=(3, 0),
            textcoords="offset points",
            fontsize=LABEL_SIZE - 2,
            color=GREY,
            va="center",
        )
    if truth is not None:
        ax.axvline(truth, color=ORANGE, ls="--", lw=1.4, label="truth")
    ax.set_xlabel(chosen, fontsize=LABEL_SIZE)
    ax.set_ylabel("fall of the log likelihood", fontsize=LABEL_SIZE)
    text = f"{chosen} = {value:.4g} (+{high - value:.2g} / -{value - low:.2g})"
    ax.set_title(text, fontsize=LABEL_SIZE + 1, color=INK, loc="left")
    ax.set_ylim(0, max(2.6, float(np.nanmax(found.drop)) * 1.02))
    ax.set_xlim(found.x[0], found.x[-1])
    ax.tick_params(labelsize=LABEL_SIZE - 1)
    ax.legend(
        frameon=False,
        fontsize=LABEL_SIZE - 1.5,
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        borderaxespad=0.2,
    )
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax
