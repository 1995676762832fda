"""The posterior: a potential on a trellis, after the passes; what users ask."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from hctrellis.potentials.base import Potential
from hctrellis.tree import Tree
from hctrellis.trellis.blocks import Progress
from hctrellis.trellis.full import FullTrellis

if TYPE_CHECKING:
    from hctrellis.trellis.solution import FullSolution

FLAT_TOLERANCE = 1e-9


class NoTreeError(ValueError):
    """Every tree is forbidden, so there is no best one."""


@dataclass(frozen=True, repr=False)
class Posterior:
    """The probability distribution over trees: P(tree) = weight(tree) / Z.

    Made by `infer`.

    Attributes
    ----------
    potential : Potential
    trellis : FullTrellis
    """

    potential: Potential
    trellis: FullTrellis
    _solution: FullSolution

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the leaves."""
        return self.potential.labels

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return self.potential.n_leaves

    @property
    def log_partition(self) -> float:
        """log Z, the log of the sum of the weights of all trees; -inf if all are forbidden."""
        return self._solution.log_partition

    @cached_property
    def map_tree(self) -> Tree:
        """The tree of largest weight.

        Ties are broken alike on every machine and for any number of threads: from the root
        down, among splits whose log weights agree to 1e-12 relative to their size, the one is taken
        in which the child that holds the first leaf of the cluster is the smallest number (leaf i
        counts 2^i).

        Raises
        ------
        NoTreeError
            If every tree is forbidden.
        """
        if self.log_partition == -math.inf:
            raise NoTreeError(
                f"there is no best tree: every tree over these {self.n_leaves} leaves is forbidden "
                "(has weight 0) under this potential"
            )
        return self._solution.map_tree

    @cached_property
    def map_log_weight(self) -> float:
        """Log weight of the MAP tree."""
        return self.potential.log_weight(self.map_tree)

    @property
    def map_log_probability(self) -> float:
        """Log of the posterior probability of the MAP tree."""
        return self.map_log_weight - self.log_partition

    @property
    def n_trees(self) -> int:
        """The exact number of trees of non-zero weight."""
        return self._solution.n_trees

    def log_probability(self, tree: Tree) -> float:
        """Log of the posterior probability of a tree."""
        weight = self.potential.log_weight(tree)
        return weight - self.log_partition if weight > -math.inf else -math.inf

    def __repr__(self) -> str:
        return f"Posterior({self.potential!r}, log Z = {self.log_partition:.6g})"


def infer(
    potential: Potential,
    trellis: FullTrellis | None = None,
    threads: int | None = None,
    progress: Progress | bool | None = None,
) -> Posterior:
    """Exact inference over all binary trees of a potential's leaves.

    Z(P) = sum over splits P = L + R of psi(L, R) Z(L) Z(R), and the same with max for the best
    tree, for all clusters P in O(3^n) time and O(2^n) memory.

    Parameters
    ----------
    potential : Potential
        The model bound to data.
    trellis : FullTrellis, optional
        Which trees are considered: all, by default.
    threads : int, optional
        Number of threads; as many as cores by default. Answers do not depend on it.
    progress : bool or callable, optional
        True shows a progress bar; a callable is called as progress(splits done, splits in all).

    Returns
    -------
    Posterior

    Raises
    ------
    TooLargeError
        If the tables would not fit in memory.
    ValueError
        If the potential gives a split a log weight that is NaN or +inf.

    Examples
    --------
    >>> import hctrellis as hct
    >>> post = hct.infer(hct.Linkage([[0.0], [1.0], [3.0], [7.0]], method="average", beta=1.0))
    >>> post.map_tree
    Tree(4 leaves: (((0,1),2),3))
    >>> post.n_trees
    15
    >>> round(post.map_log_probability, 4)
    -0.6259
    """
    if not isinstance(potential, Potential):
        raise TypeError(
            f"potential must be a Potential, such as Linkage(table); got {type(potential).__name__}"
        )
    if threads is not None and (not isinstance(threads, int) or threads < 1):
        raise ValueError(f"threads must be a whole number, at least 1; got {threads!r}")
    trellis = trellis or FullTrellis(potential.n_leaves)
    solution = trellis.solve(potential, threads, _as_progress(progress))
    post = Posterior(potential, trellis, solution)
    _warn_if_flat(post)
    return post


def _as_progress(progress: Progress | bool | None) -> Progress | None:
    if progress is True:
        from hctrellis.progress import bar

        return bar("splits")
    return progress or None


def _warn_if_flat(post: Posterior) -> None:
    """Warn of a potential under which all trees weigh the same, which is rarely meant."""
    if post.n_leaves < 3 or post.potential.beta == 0:
        return
    ratio = post._solution.rest[-1] / post.trellis.n_trees
    if abs(ratio - 1.0) < FLAT_TOLERANCE:
        warnings.warn(
            "every tree has the same weight, so the posterior is flat and says nothing; a log "
            "weight of the form a(P) - a(L) - a(R) cancels in every tree",
            stacklevel=3,
        )
