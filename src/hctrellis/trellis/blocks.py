"""The order in which the kernels visit the full lattice, and the threads that they run on.

The leaves of a mask are divided into low and high ones (see the kernels). A block is all clusters
with the same high part; blocks with equal numbers of high leaves, a level, are independent of each
other, so threads share them, and results do not depend on which thread takes which.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from itertools import chain
from threading import Event
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from hctrellis.clusters import FEW_LEAVES, Lattice
from hctrellis.support.steps import StoppedError, check_stop

if TYPE_CHECKING:
    from hctrellis.support.types import IntArray

Result = TypeVar("Result")

CHUNK_SPLITS = 6_000_000  # of one call of a kernel, which Ctrl-C has to wait for
CHUNKS_PER_THREAD = 16  # of a level, so that threads share it evenly,
SHARED_SPLITS = 100_000  # unless such a chunk would have fewer splits than this
GROUP = 8  # blocks that the kernels complete at a time


@dataclass(frozen=True)
class Blocks:
    """The blocks of the lattice of n leaves, `low_bits` of them low."""

    n_leaves: int
    low_bits: int

    @property
    def n_high(self) -> int:
        """Number of high leaves."""
        return self.n_leaves - self.low_bits

    def visit(
        self,
        kernel: Callable[[IntArray], int],
        done: Callable[[int, int], None],
        threads: int,
        downward: bool = False,
    ) -> None:
        """Call kernel(high parts) for all blocks, level after level.

        Upward, from one high leaf to all; downward, from all to none. After each call,
        done(its result, number of splits) is called in this thread.
        """
        levels = range(1, self.n_high + 1)
        order = [*reversed(levels), 0] if downward else levels
        work = (self._chunks(level, threads, downward) for level in order)
        if threads == 1:
            for chunk, cost in chain.from_iterable(work):
                check_stop()
                done(kernel(chunk), cost)
            return
        with ThreadPoolExecutor(threads - 1) as pool:
            for chunks in work:
                for result, cost in _share(kernel, chunks, pool, threads - 1):
                    done(result, cost)

    def parts(self, number: int) -> list[list[IntArray]]:
        """All blocks in some parts of equal work, for kernels to which their order is the same.

        Each part is a list of chunks of high parts with equal numbers of leaves.
        """
        parts: list[list[IntArray]] = [[] for _ in range(number)]
        for level in range(1, self.n_high + 1):
            highs = _level(self.n_high, level)
            size = max(1, CHUNK_SPLITS // max(1, self._cost(level)))
            for k, part in enumerate(parts):
                some = np.ascontiguousarray(highs[k::number])
                part += [some[i : i + size] for i in range(0, len(some), size)]
        return parts

    def _cost(self, level: int) -> int:
        """Splits of a block of which this many leaves may go either way."""
        return int(3**self.low_bits * 2**level - 2 * 2**self.low_bits) // 2

    def _chunks(self, level: int, threads: int, downward: bool) -> Iterator[tuple[IntArray, int]]:
        """The high parts with `level` leaves, cut into chunks with their numbers of splits."""
        highs = _level(self.n_high, level)
        others = self.n_high - level if downward else level  # leaves that may go either way
        each = self._cost(others)
        most = CHUNK_SPLITS // max(1, each)
        size = max(1, most)
        if threads > 1:
            even = len(highs) // (CHUNKS_PER_THREAD * threads)
            size = max(1, min(most, max(even, SHARED_SPLITS // max(1, each))))
        if most >= GROUP and 2 * GROUP * threads <= len(highs):
            size = max(GROUP, size - size % GROUP)
        for i in range(0, len(highs), size):
            chunk = highs[i : i + size]
            yield chunk, each * len(chunk)


def in_order(
    function: Callable[[list[IntArray], Callable[[], None]], Result],
    parts: list[list[IntArray]],
    threads: int,
) -> Iterator[Result]:
    """function(part, check) of each part, in order, by some threads; see `Blocks.parts`.

    The function calls check() between chunks, which raises an error if no more is wanted.
    """
    if threads == 1:
        yield from (function(part, check_stop) for part in parts)
        return
    enough = Event()

    def check() -> None:
        if enough.is_set():
            raise StoppedError

    with ThreadPoolExecutor(threads) as pool:
        try:
            for found in [pool.submit(function, part, check) for part in parts]:
                yield found.result()
        finally:
            enough.set()


def _level(n_leaves: int, size: int) -> IntArray:
    """The subsets of some leaves that have a given size."""
    return _small_level(n_leaves, size) if n_leaves <= FEW_LEAVES else _all_of(n_leaves, size)


def _all_of(n_leaves: int, size: int) -> IntArray:
    return np.flatnonzero(Lattice(n_leaves).sizes == size)


_small_level = cache(_all_of)


def _share(
    kernel: Callable[[IntArray], int],
    chunks: Iterable[tuple[IntArray, int]],
    pool: ThreadPoolExecutor,
    n_others: int,
) -> Iterator[tuple[int, int]]:
    """Call the kernel for all chunks, in this thread and in others; yields results and costs."""
    todo, results = deque(chunks), deque[tuple[int, int]]()

    def work() -> bool:
        """Take a chunk, if there is one."""
        try:
            chunk, cost = todo.popleft()
        except IndexError:
            return False
        results.append((kernel(chunk), cost))
        return True

    def work_on() -> None:
        while work():
            pass

    others = [pool.submit(work_on) for _ in range(n_others)]
    try:
        while work():
            check_stop()
            while results:
                yield results.popleft()
    finally:
        todo.clear()
        wait(others)
    for other in others:
        other.result()
    yield from results
