"""The primary Lund plane of a jet, averaged over its posterior."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hctrellis.lund import cambridge_tree, lund_coordinates, lund_plane, momenta_of
from hctrellis.plotting.axes import new_axes
from hctrellis.plotting.style import require_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hctrellis.posterior.base import BasePosterior
    from hctrellis.support.types import Seed

SIZE = 5.2, 4.2  # inches of a new figure
BINS = 24
AXES = ("ln_inverse_delta", "ln_kt")
MARGIN = 0.15  # of the range of the splittings, beyond them
BLUE, ORANGE = "#0072b2", "#d55e00"


def plot_lund(
    post: BasePosterior,
    ax: Axes | None = None,
    *,
    size: int = 1000,
    rng: Seed = None,
    cambridge: bool = False,
) -> Axes:
    """Draw the primary Lund plane: where the splittings of trees drawn from the posterior are.

    Shades of grey are the mean number of splittings of a tree in each cell; blue are those of the
    MAP tree, larger the more probable they are.

    Parameters
    ----------
    post : Posterior or SampledPosterior
        Of a model of jets.
    ax : matplotlib Axes, optional
        Where to draw: by default in a new figure. The colour scale is attached to them.
    size : int
        Number of trees to draw.
    rng : None, int or numpy Generator
    cambridge : bool
        Whether to show the splittings of the Cambridge/Aachen tree as well, in orange (needs
        fastjet).

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import hctrellis as hct
    >>> jet = hct.simulate.ginkgo(1, n_leaves=6, rng=1)[0]
    >>> ax = plot_lund(hct.infer(jet.potential()), size=100, rng=1)
    >>> ax.get_xlabel()
    'ln 1/Δ'
    """
    require_matplotlib()
    drawn, best = lund_plane(post, size, rng), lund_plane(post)
    planes = {"MAP tree": (best, BLUE, "o")}
    if cambridge:
        momenta = momenta_of(post.potential)
        plane = lund_coordinates([cambridge_tree(momenta)], momenta)[0]
        planes["Cambridge/Aachen"] = (plane, ORANGE, "D")
    x, y = _primary(drawn)
    if ax is None:
        ax = new_axes(*SIZE)
    ends = [_around(values) for values in _all(x, y, planes)]
    weights = np.full(len(x), 1 / size)
    *_edges, mesh = ax.hist2d(x, y, bins=BINS, range=ends, weights=weights, cmap="Greys")
    ax.figure.colorbar(mesh, ax=ax, label="splittings of a tree, on average")
    for name, (plane, color, mark) in planes.items():
        places = _primary(plane)
        primary = np.asarray(plane.level) == 0
        probable = np.asarray(plane.probability)[primary] if "probability" in plane.fields else 0.5
        area = 25 + 75 * np.broadcast_to(probable, places[0].shape)
        look: dict[str, Any] = {"facecolor": color, "edgecolor": "white"}
        if name != "MAP tree":  # hollow, so that both can be seen where they agree
            look, area = {"facecolor": "none", "edgecolor": color, "linewidth": 1.6}, area + 40
        ax.scatter(*places, area, marker=mark, label=name, **look)
    ax.set_xlabel("ln 1/Δ")
    ax.set_ylabel("ln kt")
    ax.legend(loc="best", fontsize="small")
    return ax


def _primary(plane: Any) -> tuple[Any, Any]:
    """The coordinates of the splittings of the primary plane."""
    import awkward as ak

    chosen = plane[plane.level == 0]
    return tuple(ak.to_numpy(ak.flatten(chosen[name], axis=None)) for name in AXES)


def _all(x: Any, y: Any, planes: dict[str, Any]) -> list[list[Any]]:
    """The values of all splittings along both axes."""
    others = [_primary(plane) for plane, *_ in planes.values()]
    return [[x, *(one for one, _ in others)], [y, *(other for _, other in others)]]


def _around(values: list[Any]) -> tuple[float, float]:
    """A range that holds all values, with a margin."""
    every = np.concatenate(values)
    low, high = float(every.min()), float(every.max())
    more = MARGIN * max(high - low, 1.0)
    return low - more, high + more
