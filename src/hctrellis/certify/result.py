"""What `solve_map` returns: a tree, how good it is, and how good any tree can be."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import Literal

from hctrellis.potentials.base import Potential
from hctrellis.support.printable import printable
from hctrellis.tree import Tree

Status = Literal["optimal", "gap", "heuristic"]
Ended = Literal["solved", "bounded", "time limit", "interrupted"]
PROVEN = 1e-9  # a gap below it is that of rounding to whole numbers


@dataclass(frozen=True, eq=False, repr=False)
class MapResult:
    """The best tree that was found, and a bound of the log weight of every tree.

    Attributes
    ----------
    potential : Potential
    tree : Tree
    log_weight : float
        Its log weight.
    bound : float or None
        No tree has a larger log weight; None if no bound is known.
    gap : float or None
        (bound - log_weight) / |bound|: for energies, at most how far above the least energy that of
        the tree is, relative to it. None without a bound.
    status : {"optimal", "gap", "heuristic"}
        "optimal" if the gap is at most 1e-9, "gap" if it is larger, "heuristic" without a bound.
    method : str
        "full trellis", "certified search", "bound" (for a tree of local search) or "local search".
    ended : {"solved", "bounded", "time limit", "interrupted"}
        Why the work ended: the tree was proven best or as close to it as asked for; nothing more is
        known about this potential; or the clock or Ctrl-C ended it, so that another run may answer
        differently.
    seconds : float
        How long it took, without compiling.
    """

    potential: Potential
    tree: Tree
    log_weight: float
    bound: float | None
    gap: float | None
    status: Status
    method: str
    ended: Ended
    seconds: float

    def __str__(self) -> str:
        return in_words(self)

    def __repr__(self) -> str:
        return (
            f"MapResult({self.tree.n_leaves} leaves, log weight {self.log_weight:.6g}, "
            f"{in_words(self)})"
        )

    def _repr_html_(self) -> str:
        bound = "none known" if self.bound is None else f"{self.bound:.10g}"
        rows = {
            "tree": printable(str(self.tree)),
            "log weight": f"{self.log_weight:.10g}",
            "bound of all trees": bound,
            "status": in_words(self),
            "found by": f"{self.method}, {self.seconds:.2g} s ({self.ended})",
        }
        cells = (f"<tr><th>{key}</th><td>{escape(text)}</td></tr>" for key, text in rows.items())
        return f"<table>{''.join(cells)}</table>"


def in_words(result: MapResult) -> str:
    """What is known about a tree: "proven optimal", "within 1.3% of the optimum", "best found".

    Examples
    --------
    >>> from hctrellis import Dasgupta, solve_map
    >>> in_words(solve_map(Dasgupta([[0, 1, 2], [1, 0, 1], [2, 1, 0]])))
    'proven optimal'
    """
    if result.status == "optimal":
        return "proven optimal"
    if result.gap is None or result.gap > 1:
        return "best found"
    return f"within {_percent(result.gap)}% of the optimum"


def _percent(gap: float) -> str:
    """A gap in percent, with two digits, rounded up.

    >>> [_percent(gap) for gap in (0.0131, 0.5, 0.00002, 1.0, 1e-7)]
    ['1.4', '50', '0.002', '100', '0.00001']
    """
    percent = 100 * gap
    unit = 10.0 ** (math.floor(math.log10(percent)) - 1)
    text = f"{math.ceil(round(percent / unit, 6)) * unit:.10f}"
    return text.rstrip("0").rstrip(".")


def relative_gap(log_weight: float, bound: float) -> float:
    """How far a log weight is below a bound, relative to the bound.

    >>> relative_gap(-11.0, -10.0), relative_gap(0.0, 0.0)
    (0.1, 0.0)
    """
    if log_weight >= bound:
        return 0.0
    return (bound - log_weight) / abs(bound) if bound != 0 else math.inf


def judged(
    potential: Potential,
    tree: Tree,
    bound: float | None,
    method: str,
    ended: Ended,
    seconds: float,
    wanted: float = 0.0,
) -> MapResult:
    """The result for a tree, its status found from its gap."""
    log_weight = potential.log_weight(tree)
    if bound is None or log_weight == -math.inf:
        return MapResult(
            potential, tree, log_weight, None, None, "heuristic", method, ended, seconds
        )
    bound = max(bound, log_weight)  # which is rounded to the nearest
    gap = relative_gap(log_weight, bound)
    status: Status = "optimal" if gap <= PROVEN else "gap"
    if gap <= max(wanted, PROVEN):
        ended = "solved"
    return MapResult(potential, tree, log_weight, bound, gap, status, method, ended, seconds)
