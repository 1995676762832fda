"""Which model weighs the trees over a table or matrix: one place for all ways of asking.

============= ======================= ================================ ========================
what is given a linkage               dasgupta                         correlation-clustering
============= ======================= ================================ ========================
features      distances between rows  exp(-distance / median distance) the same, less its mean
distances     as they are             exp(-distance / median distance) the same, less its mean
similarities  1 - similarity          as they are, none negative       as they are
============= ======================= ================================ ========================
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast, get_args

import numpy as np

from hctrellis.potentials.base import Potential
from hctrellis.potentials.correlation import CorrelationClustering
from hctrellis.potentials.dasgupta import Dasgupta
from hctrellis.potentials.linkage import Linkage, Method
from hctrellis.trust.beta import LEAST_COLUMNS

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray
    from hctrellis.trust.beta import Make

LINKAGES: tuple[str, ...] = get_args(Method)
POTENTIALS = (*LINKAGES, "dasgupta", "correlation-clustering")
CONTRASTS = "contrasts"  # a model of tables that is fitted to the table and has no beta
LEAST_CONTRASTS = 2  # columns from which contrasts are the default,
MOST_CONTRASTS = 60  # and rows up to which they are: for more, fitting them takes long
FORMER_NAMES = {"correlation": "correlation-clustering"}
LARGEST_CORRELATION = 1 + 1e-9
WHY_NOT_CONTRASTS = (
    f"contrasts, whose probabilities are closer to the truth for fewer than {LEAST_COLUMNS} "
    f"columns, take long to fit to more than {MOST_CONTRASTS} rows; --potential contrasts takes "
    "them nonetheless"
)
WHY_CONTRASTS = (
    f"with fewer than {LEAST_COLUMNS} columns no beta can be calibrated, and the probabilities of "
    "this model, which needs none, were closer to the truth in tables where that is known; "
    "--potential average takes average linkage with a beta instead"
)


def model_name(given: str | None, kind: str, values: FloatArray, with_beta: bool = False) -> str:
    """The model that was asked for, or what fits the data.

    Parameters
    ----------
    given : str or None
    kind : {"features", "distances", "similarities"}
    values : array
    with_beta : bool
        Whether something is asked for that only models with a beta have, so that contrasts are
        no choice.
    """
    if given is None and kind == "features":
        return "average" if with_beta or not for_contrasts(values) else CONTRASTS
    if given is None:
        return "average" if kind != "similarities" or _signed(values) else "dasgupta"
    name = FORMER_NAMES.get(given, given)
    if name == CONTRASTS and kind != "features":
        raise ValueError(f"--potential contrasts needs features; these are {kind}")
    if name not in (*POTENTIALS, CONTRASTS):
        known = ", ".join((*POTENTIALS, CONTRASTS))
        raise ValueError(f"potential must be one of {known}; got {given!r:.80}")
    if name == "dasgupta" and kind == "similarities" and _signed(values):
        raise ValueError(
            "some similarities are negative, and Dasgupta's cost would reward trees that keep "
            "such items together; use a linkage of 1 - similarity (--potential average) or "
            "correlation clustering (--potential correlation-clustering)"
        )
    return name


def for_contrasts(values: FloatArray) -> bool:
    """Whether a table has too few columns to calibrate beta, but enough for contrasts.

    One column says almost nothing to contrasts, even where groups are far apart, and rows that are
    all alike nothing at all. To many rows contrasts take long to fit.
    """
    differ = bool((values != values[0]).any())
    return narrow(values) and 2 < len(values) <= MOST_CONTRASTS and differ


def narrow(values: FloatArray) -> bool:
    """Whether a table has too few columns to calibrate beta, but more than one."""
    columns: int = values.shape[1]
    return LEAST_CONTRASTS <= columns < LEAST_COLUMNS


def maker(
    name: str,
    kind: str,
    values: FloatArray,
    metric: str = "euclidean",
    labels: Sequence[str] | None = None,
) -> Make:
    """A function that gives the potential of a table, or of None for a matrix, at a beta.

    The table may be a resample of `values`, and have fewer rows; labels are then left out.
    """

    def make(table: FloatArray | None, beta: float) -> Potential:
        data = values if table is None else table
        named = labels if len(data) == len(values) else None
        if name in LINKAGES and kind == "features":
            return _linkage(data, name, beta, metric, named)
        if name in LINKAGES:
            return _linkage(pairwise(kind, data, metric), name, beta, "precomputed", named)
        links = data if kind == "similarities" else _similarities(pairwise(kind, data, metric))
        if name == "dasgupta":
            return Dasgupta(links, beta, labels=named)
        if kind != "similarities":
            links = links - links[~np.eye(len(links), dtype=bool)].mean()
        return CorrelationClustering(links, beta, labels=named)

    return make


def described(name: str, kind: str, values: FloatArray, metric: str = "euclidean") -> str:
    """The model in words."""
    if name == CONTRASTS:
        return "a model of contrasts between clusters, fitted to the table without beta"
    links = {
        "features": f"{'Euclidean' if metric == 'euclidean' else metric} distances",
        "distances": "the distances",
        "similarities": f"distances {_ceiling_text(values)} - similarity",
    }[kind]
    if name in LINKAGES:
        return f"{name} linkage of {links}"
    what = {"dasgupta": "Dasgupta's cost", "correlation-clustering": "correlation clustering"}[name]
    if kind == "similarities":
        return f"{what} of the similarities"
    less = "" if name == "dasgupta" else " less their mean"
    return (
        f"{what} of the similarities exp(-d / median d){less}, d the {links.removeprefix('the ')}"
    )


def pairwise(kind: str, values: FloatArray, metric: str = "euclidean") -> FloatArray:
    """How far apart items are: for similarities, how far below 1 (or the greatest) they are."""
    if kind == "distances":
        return values
    if kind == "features":
        distances = _linkage(values, "average", 1.0, metric, None).distances
        assert distances is not None
        return distances
    apart: FloatArray = np.maximum(_ceiling(values) - values, 0.0)
    np.fill_diagonal(apart, 0.0)
    return apart


# ---- inside -----------------------------------------------------------------------------------


def _linkage(
    data: FloatArray, name: str, beta: float, metric: str, labels: Sequence[str] | None
) -> Linkage:
    with warnings.catch_warnings():  # the user has said what the numbers are
        warnings.filterwarnings("ignore", message=".*looks like a matrix of distances")
        return Linkage(data, cast(Method, name), beta, metric, labels=labels)


def _signed(values: FloatArray) -> bool:
    """Whether some similarity between two different items is negative."""
    return bool((values[~np.eye(len(values), dtype=bool)] < 0).any())


def _ceiling(values: FloatArray) -> float:
    """The similarity of equal items: 1 for what may be correlations, else the greatest."""
    largest = float(values.max(initial=0.0))
    return 1.0 if largest <= LARGEST_CORRELATION else largest


def _ceiling_text(values: FloatArray) -> str:
    return f"{_ceiling(values):g}"


def _similarities(distances: FloatArray) -> FloatArray:
    """exp(-distance / median distance)."""
    positive = distances[distances > 0]
    scale = float(np.median(positive)) if len(positive) > 0 else 1.0
    similarities: FloatArray = np.exp(-distances / scale)
    return similarities
