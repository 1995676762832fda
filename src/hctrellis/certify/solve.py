"""`solve_map`: the best tree, proven if it can be, by the method that fits the potential."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import cache
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from hctrellis.certify.pieces import Piece, open_gap
from hctrellis.certify.problems import AverageProblem, Problem, problem_of
from hctrellis.certify.result import Ended, MapResult, judged
from hctrellis.infer import infer
from hctrellis.posterior.base import NoTreeError
from hctrellis.posterior.optimality import relative_gap
from hctrellis.potentials.base import Potential
from hctrellis.potentials.bounds import log_weight_bound
from hctrellis.potentials.dasgupta import Dasgupta
from hctrellis.potentials.linkage import Linkage
from hctrellis.search.local import default_restarts, local_search
from hctrellis.search.model import search_model
from hctrellis.support.checks import as_positive
from hctrellis.support.progress import Progress, followed
from hctrellis.tree import Tree

if TYPE_CHECKING:
    from hctrellis.support.types import Seed

T = TypeVar("T")

FULL_LEAVES = 20  # up to here the full trellis is summed over in seconds
EASY_LEAVES = 12  # up to here a certified search of average heights takes no longer
SEARCH_SHARE = 0.25  # of the time limit, at most, for the local search


def solve_map(
    potential: Potential,
    time_limit: float = 60.0,
    gap: float = 0.0,
    rng: Seed = 0,
    progress: Progress | bool | None = None,
) -> MapResult:
    """The best tree, with a proof that it is, or with how far from the best it can be.

    A local search finds a good tree. Then

    - `Dasgupta`, `CorrelationClustering`, `Linkage` with average heights, of up to 62 leaves (or
      more, if they fall apart into such pieces): a branch and bound over clusters looks for a
      better tree and raises the bound until both meet;
    - other potentials (and average heights of 13 to 20 leaves), up to 20 leaves: the full trellis;
    - everything else: ``potential.bound()`` is the bound, if there is one.

    Everything in the search is computed in whole numbers, without rounding errors; weights are
    rounded down to whole numbers first, so that the bound holds for the potential as given.

    Parameters
    ----------
    potential : Potential
    time_limit : float
        Seconds, without compiling. The full trellis and ``potential.bound()`` are not cut short.
    gap : float
        Stop as soon as the tree is within this of the bound, relative to it; 0.01 is 1%.
    rng : int or numpy.random.Generator, optional
        For the local search. The same seed gives the same answer, unless the clock ended the search
        (``result.ended`` says so).
    progress : bool or callable, optional
        True shows a progress bar; a callable is called as progress(percent of the gap closed, 100).

    Returns
    -------
    MapResult
        Ctrl-C ends the search as the time limit does: with the best tree and its bound.

    Raises
    ------
    ValueError
        If a log weight is NaN or +inf; the message names the split.

    Examples
    --------
    >>> import hctrellis as hct
    >>> found = hct.solve_map(hct.Linkage([[0.0], [1.0], [3.0], [7.0]], method="average"))
    >>> found
    MapResult(4 leaves, log weight -9.16667, proven optimal)
    >>> found.tree, found.status
    (Tree(4 leaves: (((0,1),2),3)), 'optimal')
    """
    if not isinstance(potential, Potential):
        raise TypeError(
            f"potential must be a Potential, such as Linkage(table); got {type(potential).__name__}"
        )
    limit = as_positive(time_limit, "time_limit")
    wanted = as_positive(gap, "gap", zero=True)
    if potential.n_leaves == 1:
        tree = potential.with_heights(Tree(np.empty((0, 2), np.int64), labels=potential.labels))
        return judged(potential, tree, 0.0, "full trellis", "solved", 0.0)
    with followed(progress, "% of the gap closed") as report:
        return _Solver(potential, limit, wanted, rng, report).solve()


class _Solver:
    """One call of `solve_map`."""

    def __init__(
        self, potential: Potential, limit: float, wanted: float, rng: Seed, report: Progress
    ) -> None:
        self.potential = potential
        self.limit = limit
        self.wanted = wanted
        self.report = report
        self._rng = np.random.default_rng(rng)
        self._interrupted = False
        self._began = perf_counter()

    def solve(self) -> MapResult:
        """Warm up, find a tree, then prove what can be proven."""
        problem = problem_of(self.potential)
        tree = local_search(self.potential, n_restarts=2, rng=0).tree  # compiles, too
        if problem is not None:
            _warm_up()
        self._began = perf_counter()
        tree = self._searched(tree)
        n = self.potential.n_leaves
        is_hard = isinstance(problem, AverageProblem) and n > EASY_LEAVES
        if n <= FULL_LEAVES and (problem is None or is_hard):
            found = self._guarded(self._by_trellis)
            if found is not None:
                return found
        if problem is not None and self.potential.beta > 0:
            return self._certified(problem, tree)
        bound = self._guarded(self.potential.bound)
        if bound is None or bound == math.inf:
            return self._judged(tree, None, "local search", "bounded")
        return self._judged(tree, bound, "bound", "bounded")

    # ---- the ways ------------------------------------------------------------------------------

    def _searched(self, tree: Tree) -> Tree:
        """A good tree by local search, from the greedy one."""
        found = self._guarded(
            lambda: (
                local_search(
                    self.potential,
                    tree,
                    default_restarts(search_model(self.potential)),
                    time_limit=SEARCH_SHARE * self.limit,
                    rng=self._rng,
                ).tree
            )
        )
        return tree if found is None else found

    def _by_trellis(self) -> MapResult | None:
        """The best tree by the full trellis; None if it does not fit."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # all trees may weigh the same
            try:
                post = infer(self.potential)
                best = post.map_tree
            except NoTreeError:
                if problem_of(self.potential) is None:
                    raise
                return None  # its energies are too large for the trellis
            except ValueError:  # too large for the memory, or for probabilities to mean anything
                return None
        return self._judged(best, post.optimality.bound, "full trellis", "solved")

    def _certified(self, problem: Problem, tree: Tree) -> MapResult:
        """Solve piece after piece, as long as there is time."""
        pieces = [Piece(problem, piece, tree) for piece in problem.pieces]
        self._guarded(lambda: self._run(problem, pieces))
        total = sum(piece.low for piece in pieces)
        bound = log_weight_bound(self.potential.beta, problem.energy(total))
        clusters = problem.assemble([piece.clusters() for piece in pieces])
        own = Tree.from_clusters(clusters, labels=self.potential.labels)
        if self.potential.log_weight(own) > self.potential.log_weight(tree):
            tree = self.potential.with_heights(own)
        ended: Ended = "interrupted" if self._interrupted else "time limit"
        return self._judged(tree, bound, "certified search", ended)

    def _run(self, problem: Problem, pieces: list[Piece]) -> None:
        """Search until all is solved, or close enough, or the time is up."""
        closed = 0
        whole = open_gap(pieces)
        for piece in sorted(pieces, key=lambda each: each.size):
            piece.prepare()
            whole = max(whole, open_gap(pieces))
            while not piece.done:
                if self._seconds() >= self.limit or self._is_close(problem, pieces):
                    return
                piece.step()
                closed = max(closed, round(100 * (1 - open_gap(pieces) / max(whole, 1))))
                self.report(min(closed, 99), 100)
        self.report(100, 100)

    def _is_close(self, problem: Problem, pieces: list[Piece]) -> bool:
        """Whether the trees of all pieces together are within the gap that is asked for."""
        low = float(problem.energy(sum(piece.low for piece in pieces)))
        high = float(problem.energy(sum(piece.high for piece in pieces)))
        return relative_gap(-high, -low) <= self.wanted

    # ---- what they share -----------------------------------------------------------------------

    def _guarded(self, work: Callable[[], T]) -> T | None:
        """What some work returns; None if Ctrl-C has ended it, or ends it now."""
        if self._interrupted:
            return None
        try:
            return work()
        except KeyboardInterrupt:
            self._interrupted = True
            return None

    def _seconds(self) -> float:
        return perf_counter() - self._began

    def _judged(self, tree: Tree, bound: float | None, method: str, ended: Ended) -> MapResult:
        if self._interrupted:
            ended = "interrupted"
        return judged(self.potential, tree, bound, method, ended, self._seconds(), self.wanted)


@cache
def _warm_up() -> None:
    """Compile the search, or load it from the cache, for all kinds of problems."""
    points = [[0.0], [1.0], [3.0], [7.0], [8.0]]
    model = Linkage(points, method="average")
    assert model.distances is not None
    for potential in (model, Dasgupta(1 / (1 + model.distances))):
        problem = problem_of(potential)
        assert problem is not None
        piece = Piece(problem, problem.pieces[0], local_search(model, n_restarts=0, rng=0).tree)
        piece.prepare()
        piece.step()
