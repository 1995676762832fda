"""How good a tree is among all trees: proven best, within a percentage, or the best found."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

Status = Literal["optimal", "gap", "heuristic"]
PROVEN = 1e-9  # a gap below it is that of rounding to whole numbers


class Optimality(NamedTuple):
    """How good a tree is among all trees; in print "proven optimal", and so on.

    Attributes
    ----------
    status : {"optimal", "gap", "heuristic"}
        "optimal" if the gap is at most 1e-9, "gap" if it is larger, "heuristic" without a bound.
    bound : float or None
        No tree has a larger log weight; None if no bound is known.
    gap : float or None
        (bound - log weight) / |bound|: for energies, at most how far above the least energy that of
        the tree is, relative to it. None without a bound.

    Examples
    --------
    >>> [str(judge(-11.0, bound)) for bound in (-11.0, -10.0, None)]
    ['proven optimal', 'within 10% of the optimum', 'best found']
    """

    status: Status
    bound: float | None
    gap: float | None

    def __str__(self) -> str:
        if self.status == "optimal":
            return "proven optimal"
        if self.gap is None or self.gap > 1:
            return "best found"
        return f"within {_percent(self.gap)}% of the optimum"


def judge(log_weight: float, bound: float | None) -> Optimality:
    """How good a tree is, from its log weight and a bound of the log weights of all trees."""
    if bound is None or log_weight == -math.inf or not math.isfinite(bound):
        return Optimality("heuristic", None, None)
    bound = max(bound, log_weight)  # which is rounded to the nearest
    gap = relative_gap(log_weight, bound)
    return Optimality("optimal" if gap <= PROVEN else "gap", bound, gap)


def relative_gap(log_weight: float, bound: float) -> float:
    """How far a log weight is below a bound, relative to the bound.

    >>> relative_gap(-11.0, -10.0), relative_gap(0.0, 0.0)
    (0.1, 0.0)
    """
    if log_weight >= bound:
        return 0.0
    return (bound - log_weight) / abs(bound) if bound != 0 else math.inf


def _percent(gap: float) -> str:
    """A gap in percent, with two digits, rounded up.

    >>> [_percent(gap) for gap in (0.0131, 0.5, 0.00002, 1.0, 1e-7)]
    ['1.4', '50', '0.002', '100', '0.00001']
    """
    percent = 100 * gap
    unit = 10.0 ** (math.floor(math.log10(percent)) - 1)
    text = f"{math.ceil(round(percent / unit, 6)) * unit:.10f}"
    return text.rstrip("0").rstrip(".")
