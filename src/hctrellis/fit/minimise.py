"""Minimisers of the field, given a cost function with exact derivatives."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from hctrellis.support.imports import ONE_AT_A_TIME

if TYPE_CHECKING:
    from hctrellis.fit.cost import NegativeLogLikelihood
    from hctrellis.support.types import FloatArray

Bounds: TypeAlias = Mapping[str, tuple[float | None, float | None]]
NEAR = 1e-3  # standard errors between the last point and the minimum, estimated, that are accepted


class Minimum(NamedTuple):
    """Where a cost is least."""

    x: FloatArray
    cost: float
    gradient: FloatArray
    minimiser: str


def minimise(
    cost: NegativeLogLikelihood, bounds: Mapping[str, tuple[float, float]], minimiser: str
) -> Minimum:
    """Find the minimum within bounds, from where the cost says."""
    if minimiser not in ("auto", "iminuit", "scipy"):
        raise ValueError(f"minimiser must be 'auto', 'iminuit' or 'scipy'; got {minimiser!r:.80}")
    if minimiser == "auto":
        minimiser = "iminuit" if find_spec("iminuit") else "scipy"
    start = np.array([np.clip(value, *bounds[name]) for name, value in cost.start.items()])
    if minimiser == "iminuit":
        x, sound = _with_iminuit(cost, bounds, start)
    else:
        x, sound = _with_scipy(cost, bounds, start)
    if not sound:
        warnings.warn(
            "the minimiser did not converge: start elsewhere, or look at the profile of each "
            "parameter",
            stacklevel=3,
        )
    value, gradient = cost.with_grad(*x)
    return Minimum(x, value, gradient, minimiser)


def _with_iminuit(
    cost: NegativeLogLikelihood, bounds: Mapping[str, tuple[float, float]], start: FloatArray
) -> tuple[FloatArray, bool]:
    try:
        from iminuit import Minuit
    except ImportError:
        raise ImportError('this minimiser needs iminuit: pip install "hctrellis[fit]"') from None
    minuit = Minuit(cost, *start, name=cost.names, grad=cost.grad)
    minuit.limits = [bounds[name] for name in cost.names]
    minuit.strategy = 0
    minuit.migrad()
    return np.array(minuit.values), bool(minuit.valid)


def _with_scipy(
    cost: NegativeLogLikelihood, bounds: Mapping[str, tuple[float, float]], start: FloatArray
) -> tuple[FloatArray, bool]:
    with ONE_AT_A_TIME:
        from scipy.optimize import minimize

    size = np.maximum(np.abs(start), 0.1)

    def scaled(u: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = cost.with_grad(*(u * size))
        return value, gradient * size

    limits = [
        tuple(end / s for end in bounds[name]) for name, s in zip(cost.names, size, strict=True)
    ]
    found: Any = minimize(
        scaled,
        start / size,
        jac=True,
        bounds=limits,
        method="L-BFGS-B",
        options={"ftol": 1e-12, "gtol": 1e-5 * max(1, cost.n_data_sets) ** 0.5},
    )
    return np.clip(found.x * size, *np.array([bounds[name] for name in cost.names]).T), bool(
        found.success
    )
