"""Markov chains over the trees of a potential, many side by side, at any temperature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hctrellis.potentials.base import Potential
from hctrellis.search.local import climber
from hctrellis.search.model import PlainModel, room_for, search_model
from hctrellis.support.threads import default_threads

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray, IntArray, SmallArray

PENALTY = 10.0  # of a forbidden split, times heat / (1 - heat)
LEAVES_MOVED = 2_000_000  # moves times leaves of one call, which Ctrl-C has to wait for
PLAIN_MOVED = 2_000  # the same for potentials that only NumPy can evaluate
GOLDEN = (5**0.5 - 1) / 2  # its multiples are spread evenly over the circle, however many
BELOW_1 = 1 - 2**-53


class LateError(Exception):
    """There was no time to end."""


class Records(NamedTuple):
    """Trees that chains have come through.

    Attributes
    ----------
    children : int16 array, shape (chains, records, n - 1, 2)
        As in `Tree`.
    log_weights : float64 array, shape (chains, records)
        Without their forbidden splits.
    forbidden : int64 array, shape (chains, records)
        How many forbidden splits they have.
    """

    children: SmallArray
    log_weights: FloatArray
    forbidden: IntArray

    def log_targets(self, heat: float) -> FloatArray:
        """The logarithm of what each tree weighs at a heat."""
        with np.errstate(invalid="ignore"):
            barred = np.where(self.forbidden > 0, bar(heat) * self.forbidden, 0.0)
        return heat * self.log_weights + barred

    def of(self, some: slice) -> Records:
        """Some of the records of each chain."""
        return Records(self.children[:, some], self.log_weights[:, some], self.forbidden[:, some])


def joined(records: Sequence[Records]) -> Records:
    """Records of the same chains, one after the other."""
    return Records(*(np.concatenate(parts, axis=1) for parts in zip(*records, strict=True)))


def bar(heat: float) -> float:
    """What a forbidden split adds to the log weight of a tree: nothing at heat 0, -inf at 1."""
    return -np.inf if heat >= 1 else -PENALTY * heat / (1 - heat)


class Chains:
    """What it takes to run chains: kernels for a potential, and room to work in for each thread."""

    def __init__(self, potential: Potential, threads: int | None = None) -> None:
        self.potential = potential
        self._model = search_model(potential)
        self._kernel = self._model.kernel("gibbs")
        self.is_compiled = not isinstance(self._model, PlainModel)
        workers = (threads or default_threads()) if self.is_compiled else 1
        self._rooms = [self._room() for _ in range(workers)]
        self._leaves = np.random.default_rng(0).permutation(potential.n_leaves)
        self._n_turns = 0
        self._pool = ThreadPoolExecutor(workers)

    def _room(self) -> tuple[object, ...]:
        n_nodes = 2 * self.potential.n_leaves - 1
        table = self._model.table(3 * n_nodes)
        return climber(self._model), table, self._model.arrays, room_for(3 * n_nodes)

    def uniform(self, size: int, rng: np.random.Generator) -> SmallArray:
        """Trees drawn uniformly, as children."""
        from hctrellis.kernels.uniform import uniform_trees

        n = self.potential.n_leaves
        children = np.empty((size, n - 1, 2), np.int16)
        uniform_trees(rng.random((size, n - 1)), children)
        return children

    def weigh(self, trees: SmallArray) -> Records:
        """The log weights of trees."""
        return self.run(trees, np.zeros(len(trees)), np.random.default_rng(0), 1, 0)

    def run(
        self,
        starts: SmallArray,
        heats: float | Sequence[float] | FloatArray,
        rng: np.random.Generator,
        n_records: int,
        n_moves: int,
        late: Callable[[], bool] = lambda: False,
    ) -> Records:
        """Run a chain from each start at its heat; every `n_moves` moves its tree is recorded.

        Raises `LateError` if it is late before the end.
        """
        most = LEAVES_MOVED if self.is_compiled else PLAIN_MOVED
        moved = max(1, len(starts) * n_moves * self.potential.n_leaves)
        at_once = max(1, most // moved)
        found = []
        for first in range(0, n_records, at_once):
            if first > 0 and late():
                raise LateError
            count = min(at_once, n_records - first)
            uniforms = self.numbers(len(starts), count, n_moves, rng)
            found.append(self.run_with(starts, heats, uniforms))
            starts = found[-1].children[:, -1]
        return joined(found)

    def numbers(
        self, n_chains: int, n_records: int, n_moves: int, rng: np.random.Generator
    ) -> FloatArray:
        """Numbers for `run_with`, where leaves take turns at saying which subtree is moved.

        So do the sizes of these subtrees, from one turn of a leaf to the next. Each leaf's moves
        leave the posterior as it is, so their order is free, and clusters that are renewed at
        regular intervals tell more than those renewed at random ones. Where a subtree goes to, and
        the size that the first turns begin with, are random.
        """
        n = len(self._leaves)
        found = rng.random((n_chains, n_records, n_moves, 2))
        turns = self._n_turns + np.arange(n_records * n_moves).reshape(n_records, n_moves)
        self._n_turns += turns.size
        leaves = self._leaves[turns % n]
        sizes = (found[:, :1, :1, 0] + GOLDEN * (leaves + turns // n)) % 1.0
        found[..., 0] = np.minimum((leaves + sizes) / n, BELOW_1)
        return found

    def run_with(
        self, starts: SmallArray, heats: float | Sequence[float] | FloatArray, uniforms: FloatArray
    ) -> Records:
        """The same with given numbers from 0 to 1: for each move, which subtree, and where to.

        uniforms : float64 (chains, records, moves, 2)
        """
        starts = np.ascontiguousarray(starts)  # one layout, as of heats: compiled once
        m, n_records = uniforms.shape[:2]
        found = Records(
            np.empty((m, n_records, *starts.shape[1:]), np.int16),
            np.empty((m, n_records)),
            np.empty((m, n_records), np.int64),
        )
        heat = np.full(m, np.asarray(heats, float))
        bars = np.array([bar(value) for value in heat.tolist()])

        def work(room: tuple[object, ...], start: int, stop: int) -> bool:
            rows = slice(start, stop)
            given = (starts[rows], heat[rows], bars[rows], uniforms[rows])
            fine: bool = self._kernel.run_chains(*given, room, *(part[rows] for part in found))
            return fine

        ends = np.linspace(0, m, len(self._rooms) + 1).astype(int)
        if not all(list(self._pool.map(work, self._rooms, ends[:-1], ends[1:]))):
            raise ValueError("the log weight of some split is not a number, or is +inf")
        return found
