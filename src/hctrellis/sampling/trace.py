"""What chains have come through so far."""

from __future__ import annotations

from hctrellis.chains.chains import Records, joined

BURN_IN = 1 / 8  # of each chain
MOST_ENTRIES = 40_000_000  # clusters of all trees that are kept; beyond it every second tree goes


class Trace:
    """Trees of chains, in the order in which they came; of too many every second is left out."""

    def __init__(self, n_leaves: int, n_moves: int) -> None:
        self.n_moves = n_moves
        self.n_records = 0
        self._n_leaves = n_leaves
        self._parts: list[Records] = []

    def add(self, records: Records) -> None:
        self._parts.append(records)
        self.n_records += records.log_weights.shape[1]
        if self.n_records * len(records.children) * self._n_leaves > MOST_ENTRIES:
            self._parts = [joined(self._parts).of(slice(1, None, 2))]
            self.n_records = self._parts[0].log_weights.shape[1]
            self.n_moves *= 2

    def kept(self) -> Records:
        """All but the first trees of each chain."""
        self._parts = [joined(self._parts)]
        return self._parts[0].of(slice(int(BURN_IN * self.n_records), None))
