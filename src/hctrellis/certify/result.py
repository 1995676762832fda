"""What `solve_map` returns: a tree, how good it is, and how good any tree can be."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Literal

from hctrellis.posterior.optimality import PROVEN, Optimality, Status, judge
from hctrellis.potentials.base import Potential
from hctrellis.support.printable import printable
from hctrellis.tree import Tree

Ended = Literal["solved", "bounded", "time limit", "interrupted"]


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

    @property
    def optimality(self) -> Optimality:
        """How good the tree is, in print "proven optimal" or "within 1.3% of the optimum"."""
        return Optimality(self.status, self.bound, self.gap)

    def optimality_of(self, tree: Tree) -> Optimality:
        """How good another tree of the same leaves is, by the bound that was found.

        Examples
        --------
        >>> import hctrellis as hct
        >>> found = hct.solve_map(hct.Linkage([[0.0], [1.0], [3.0], [7.0]], method="average"))
        >>> print(found.optimality_of(hct.Tree.from_newick("((0,1),(2,3));")))
        within 3.7% of the optimum
        """
        return judge(self.potential.log_weight(tree), self.bound)

    def __str__(self) -> str:
        return str(self.optimality)

    def __repr__(self) -> str:
        return f"MapResult({self.tree.n_leaves} leaves, log weight {self.log_weight:.6g}, {self})"

    def _repr_html_(self) -> str:
        bound = "none known" if self.bound is None else f"{self.bound:.10g}"
        rows = {
            "tree": printable(str(self.tree)),
            "log weight": f"{self.log_weight:.10g}",
            "bound of all trees": bound,
            "status": str(self),
            "found by": f"{self.method}, {self.seconds:.2g} s ({self.ended})",
        }
        cells = (f"<tr><th>{key}</th><td>{escape(text)}</td></tr>" for key, text in rows.items())
        return f"<table>{''.join(cells)}</table>"


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
    status, bound, gap = judge(log_weight, bound)
    if gap is not None and gap <= max(wanted, PROVEN):
        ended = "solved"
    return MapResult(potential, tree, log_weight, bound, gap, status, method, ended, seconds)
