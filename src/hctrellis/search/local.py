"""Iterated local search: move subtrees as long as that helps, perturb the tree, repeat."""

from __future__ import annotations

import math
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hctrellis.potentials.base import Potential
from hctrellis.search.greedy import agglomerate
from hctrellis.search.model import PlainModel, SearchModel, room_for, search_model
from hctrellis.support.arrays import LEFT, RIGHT, UP, Climber, Kept
from hctrellis.support.checks import as_count, as_positive
from hctrellis.support.keywords import renamed
from hctrellis.support.logs import FORBIDDEN
from hctrellis.support.progress import Progress, followed
from hctrellis.support.threads import default_threads
from hctrellis.support.types import FloatArray, IntArray
from hctrellis.tree import Tree

if TYPE_CHECKING:
    from hctrellis.support.types import Seed

CHAINS = 2  # independent searches; the same number whatever the number of threads
KEPT = 200  # trees that a search remembers
RESTARTS = 1000  # by default, for up to 100 leaves;
LEAVES_RESTARTS = 100_000  # for more, restarts times leaves
PLAIN_RESTARTS = 20  # for potentials that only NumPy can evaluate
BATCH_SECONDS = 0.1  # of one call of a kernel, which Ctrl-C has to wait for


@dataclass(frozen=True, eq=False, repr=False)
class SearchResult:
    """What a local search has found.

    Attributes
    ----------
    potential : Potential
    tree : Tree
        The best tree.
    log_weight : float
        Its log weight; -inf if only forbidden trees were found.
    children : int32 array, shape (k, n - 1, 2)
        The best different trees at which climbs have ended, the best first, as in `Tree`.
    log_weights : float64 array, shape (k,)
        Their log weights.
    n_restarts : int
        How often the tree was perturbed.
    trace : tuple of (float, float)
        When the best tree was improved: seconds since the start, its log weight then.
    """

    potential: Potential
    tree: Tree
    log_weight: float
    children: IntArray
    log_weights: FloatArray
    n_restarts: int
    trace: tuple[tuple[float, float], ...]

    def trees(self, k: int | None = None) -> list[Tree]:
        """The best k different trees (all that were kept if None), the best first."""
        rows = self.children if k is None else self.children[: as_count(k, "k")]
        trees = (Tree(children, labels=self.tree.labels) for children in rows)
        return [self.potential.with_heights(tree) for tree in trees]

    def __repr__(self) -> str:
        return (
            f"SearchResult({self.tree.n_leaves} leaves, log weight {self.log_weight:.6g}, "
            f"{self.n_restarts} restarts, {len(self.children)} trees)"
        )


@renamed(restarts="n_restarts")
def local_search(
    potential: Potential,
    start: Tree | None = None,
    n_restarts: int | None = None,
    *,
    time_limit: float | None = None,
    rng: Seed = None,
    threads: int | None = None,
    progress: Progress | bool | None = None,
) -> SearchResult:
    """Search for the best tree by moving subtrees.

    A climb moves one subtree after the other to the place where the tree becomes best, until no
    such move helps. Then the tree is perturbed by a few random moves, and a new climb begins; the
    search goes on from the better one of the two trees. Two such searches run independently.

    Trees with fewer forbidden splits are better than others, so a search finds its way out of a
    start of weight 0. The answer is never worse than the start.

    Parameters
    ----------
    potential : Potential
    start : Tree, optional
        Where to begin; the tree of `greedy` if not given.
    n_restarts : int, optional
        Number of perturbations. If neither it nor `time_limit` is given: 1,000 for up to 100
        leaves, fewer for more (and 20 for a potential that only NumPy can evaluate).
    time_limit : float, optional
        Seconds after which to stop, but not before the first climb has ended.
    rng : int or numpy.random.Generator, optional
        The same seed gives the same answer, whatever the number of threads, if there is no time
        limit.
    threads : int, optional
        One or two; as many as there are cores if not given.
    progress : bool or callable, optional
        True shows a progress bar; a callable is called as progress(restarts done, restarts in all),
        in seconds if there is only a time limit.

    Returns
    -------
    SearchResult

    Raises
    ------
    ValueError
        If a log weight is NaN or +inf; the message names the split.

    Examples
    --------
    The greedy tree of this ladder costs more than the best one.

    >>> import numpy as np
    >>> from hctrellis import Dasgupta
    >>> w = np.zeros((8, 8))
    >>> for i, j in ((0, 2), (2, 4), (4, 6), (1, 3), (3, 5), (5, 7)):
    ...     w[i, j] = w[j, i] = 1.0
    >>> for i in range(0, 8, 2):
    ...     w[i, i + 1] = w[i + 1, i] = 1.01
    >>> found = local_search(Dasgupta(w), n_restarts=20, rng=0)
    >>> round(-found.log_weight, 6)
    40.08
    """
    model = search_model(potential)
    watch = _Watch(_n_restarts(model, n_restarts, time_limit), time_limit)
    workers = min(CHAINS, default_threads() if threads is None else as_count(threads, "threads"))
    children = agglomerate(model)[1] if start is None else potential.align(start).children
    seeds = np.random.default_rng(rng).integers(1 << 62, size=CHAINS).tolist()
    chains = [_Chain(model, children, seed) for seed in seeds]
    with followed(progress, watch.unit) as report, ThreadPoolExecutor(workers) as pool:
        list(pool.map(_Chain.start, chains))
        while (batch := watch.next_batch(chains)) is not None:
            list(pool.map(_Chain.run, chains, batch))
            report(*watch.passed(chains))
    return _result(potential, chains, watch)


def _n_restarts(model: SearchModel, given: int | None, time_limit: float | None) -> int | None:
    """How often to perturb; None for as long as there is time."""
    if given is not None:
        if not isinstance(given, int | np.integer) or isinstance(given, bool) or given < 0:
            raise ValueError(f"n_restarts must be a whole number, not negative; got {given!r:.80}")
        return int(given)
    if time_limit is not None:
        return None
    return default_restarts(model)


def default_restarts(model: SearchModel) -> int:
    """How often to perturb by default."""
    if isinstance(model, PlainModel):
        return PLAIN_RESTARTS
    return min(RESTARTS, -(-LEAVES_RESTARTS // model.potential.n_leaves))


class _Watch:
    """Tells when a search is to end, and keeps when it became better."""

    def __init__(self, n_restarts: int | None, time_limit: float | None) -> None:
        self.began = time.perf_counter()
        self.n_restarts = n_restarts
        self.limit = math.inf if time_limit is None else as_positive(time_limit, "time_limit")
        self.trace: list[tuple[float, float]] = []
        self._batch = 0
        self._last = self.began

    @property
    def unit(self) -> str:
        """The unit in which progress is counted."""
        return "seconds" if self.n_restarts is None else "restarts"

    def passed(self, chains: list[_Chain]) -> tuple[int, int]:
        """How much of the search is done, and how much there is in all."""
        if self.n_restarts is None:
            total = math.ceil(self.limit)
            return min(total, round(time.perf_counter() - self.began)), total
        return sum(chain.done for chain in chains), self.n_restarts

    def next_batch(self, chains: list[_Chain]) -> list[int] | None:
        """How often each chain is to perturb next; None at the end."""
        now = time.perf_counter()
        best, done = max(chain.value for chain in chains), sum(chain.done for chain in chains)
        if not self.trace or best > self.trace[-1][1]:
            self.trace.append((now - self.began, best))
        if done == self.n_restarts or now - self.began >= self.limit:
            return None
        fitting = int(self._batch * BATCH_SECONDS / (now - self._last))
        self._batch = max(1, min(4 * self._batch, fitting))
        self._last = now
        return [min(self._batch, self._share(k) - chain.done) for k, chain in enumerate(chains)]

    def _share(self, k: int) -> int:
        """How often chain k perturbs in all."""
        if self.n_restarts is None:
            return 1 << 62
        return (self.n_restarts + CHAINS - 1 - k) // CHAINS


class _Chain:
    """One search: a tree that is perturbed and climbs, and what it remembers."""

    def __init__(self, model: SearchModel, children: IntArray, seed: int) -> None:
        n_nodes = 2 * model.potential.n_leaves - 1
        self.done = 0
        self._model = model
        self._kernel = model.kernel("climb")
        self._tree = climber(model)
        self._arrays = (self._tree, model.table(3 * n_nodes), model.arrays, room_for(3 * n_nodes))
        self._rng = np.random.default_rng(seed)
        self.kept = Kept(
            nodes=_nodes(children),
            value=np.full(1, -np.inf),
            children=np.zeros((KEPT, len(children), 2), np.int32),
            values=np.zeros(KEPT),
            keys=np.zeros(KEPT, np.int64),
            number=np.zeros(1, np.int64),
        )

    @property
    def value(self) -> float:
        """The log weight of the best tree so far; -inf if it is forbidden."""
        best = float(self.kept.values[: self.kept.number[0]].max())
        return best if best > FORBIDDEN else -math.inf

    def start(self) -> None:
        """Make the first climb."""
        self._check(self._kernel.plant(self.kept.nodes, *self._arrays))
        self._kernel.try_all(self._tree)
        for _ in range(self._kernel.MOST_TRIES):
            if self._tree.bag[-1] > 0:
                self._check(self._kernel.climb(len(self._tree.codes), *self._arrays, self._rng))
        self._check(self._kernel.settle(*self._arrays, self.kept))

    def run(self, n_rounds: int) -> None:
        """Perturb and climb `n_rounds` times."""
        self._check(self._kernel.search(n_rounds, *self._arrays, self.kept, self._rng))
        self.done += n_rounds

    def _check(self, fine: bool) -> None:
        """Name a split whose log weight is NaN or +inf: a plain climb from here finds it again."""
        if not fine:
            children = np.zeros((self._model.potential.n_leaves - 1, 2), np.int64)
            self._kernel.write_children(self._tree, children)
            _Chain(PlainModel(self._model.potential), children, 0).start()
            raise ValueError("the log weight of some split is not a number, or is +inf")


def climber(model: SearchModel) -> Climber:
    """Room for a tree, in which only the leaves are filled in."""
    n = model.potential.n_leaves
    n_nodes = 2 * n - 1
    links = np.zeros((len(model.links), n_nodes, n))
    links[:, :n] = model.links
    codes = np.zeros(n_nodes, np.int64)
    codes[:n] = model.codes()
    return Climber(
        nodes=np.full((n_nodes, 3), -1),
        links=links,
        joints=np.zeros((len(links), 3, n_nodes)),
        log_psi=np.zeros(n_nodes),
        parts=np.zeros((3, n_nodes)),
        codes=codes,
        rows=np.arange(n_nodes),
        above=np.zeros(n_nodes, bool),
        beside=np.zeros(n_nodes, np.int64),
        order=np.zeros(n_nodes + 2, np.int64),
        leaves=np.zeros(n + 1, np.int64),
        joins=np.zeros(n, np.int64),
        gain=np.zeros((2, n_nodes)),
        bars=np.zeros((2, n_nodes), np.int64),
        barred=np.zeros(1, bool),
        shares=np.zeros(n_nodes),
        bag=np.zeros(n_nodes + 1, np.int64),
        waiting=np.zeros(n_nodes, bool),
    )


def _nodes(children: IntArray) -> IntArray:
    """Parent and children of each node of a tree."""
    n = len(children) + 1
    nodes = np.full((2 * n - 1, 3), -1)
    nodes[n:, [LEFT, RIGHT]] = children
    nodes[children, UP] = np.arange(n, 2 * n - 1)[:, None]
    return nodes


def _result(potential: Potential, chains: list[_Chain], watch: _Watch) -> SearchResult:
    """The trees of all chains together."""
    kept = [(chain.kept, int(chain.kept.number[0])) for chain in chains]
    keys, values, children = (
        np.concatenate([getattr(trees, name)[:count] for trees, count in kept])
        for name in ("keys", "values", "children")
    )
    order = np.argsort(-values, kind="stable")
    _, first = np.unique(keys[order], return_index=True)
    best = order[np.sort(first)][:KEPT]
    possible = best[values[best] > FORBIDDEN]
    if len(possible) == 0:
        possible = best[:1]
    tree = potential.with_heights(Tree(children[possible[0]], labels=potential.labels))
    return SearchResult(
        potential=potential,
        tree=tree,
        log_weight=potential.log_weight(tree),
        children=children[possible],
        log_weights=np.where(values[possible] > FORBIDDEN, values[possible], -np.inf),
        n_restarts=sum(chain.done for chain in chains),
        trace=tuple(watch.trace),
    )
