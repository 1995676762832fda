"""Branches in formulas for the weights of splits: one text for arrays, floats and vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def where(condition: npt.ArrayLike, a: npt.ArrayLike, b: npt.ArrayLike) -> Any:
    """`a` where the condition holds, `b` elsewhere, elementwise.

    For functions handed to `FunctionPotential`: the same text works on NumPy arrays, on floats, and
    in a Numba function, which is then computed for eight splits at a time. Conditions are
    comparisons, combined with ``&`` and ``|``. The usual case is best given as `a`: what only `b`
    needs is skipped if the condition holds in all eight.

    Do not rely on that, though: both `a` and `b` may be computed. If the one that is not taken may
    divide by zero, decorate the function with ``@numba.njit(error_model="numpy")``, which gives
    infinity or NaN where the default raises an error.

    Parameters
    ----------
    condition : bool or array of bool
    a, b : float or array of float

    Returns
    -------
    float or array of float

    Examples
    --------
    >>> import hctrellis as hct
    >>> float(hct.where(2.0 > 1.0, 0.5, -1.0))
    0.5
    """
    return np.where(condition, a, b)[()]
