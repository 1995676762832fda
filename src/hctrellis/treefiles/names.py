"""Tables of names for compiled readers: texts of bytes, and the number that each stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from hctrellis.support.types import IntArray
    from hctrellis.treefiles.statements import ByteArray


class NameTable(NamedTuple):
    """NameTable and their numbers; see `hctrellis.kernels.treetext` for the arrays.

    Examples
    --------
    >>> names = NameTable.make(2, 10)
    >>> names.add(b"ape", 7), names.add(b"bat", 8), names.add(b"ape", 9)
    (0, 1, 0)
    >>> names.texts(), names.ids[:2].tolist()
    ([b'ape', b'bat'], [7, 8])
    """

    names: ByteArray
    ends: IntArray
    ids: IntArray
    slots: IntArray
    sizes: IntArray

    @classmethod
    def make(cls, most: int, n_bytes: int) -> NameTable:
        """An empty table with room for some names of so many bytes together."""
        return cls(
            np.zeros(n_bytes, np.uint8),
            np.zeros(most + 2, np.int64),
            np.zeros(most + 1, np.int64),
            np.full(1 << max(3, (2 * most + 1).bit_length()), -1, np.int64),
            np.zeros(1, np.int64),
        )

    @classmethod
    def of(cls, pairs: dict[bytes, int]) -> NameTable:
        """A table of names with their numbers."""
        table = cls.make(len(pairs), sum(map(len, pairs)))
        for name, number in pairs.items():
            table.add(name, number)
        return table

    def add(self, name: bytes, number: int) -> int:
        """The entry that has a name, new or not."""
        from hctrellis.kernels.treetext import add_name

        word = np.frombuffer(name, np.uint8)
        return int(add_name(word, len(name), number, *self))

    def texts(self) -> list[bytes]:
        """The names, in order."""
        whole, ends = self.names.tobytes(), self.ends.tolist()
        return [whole[ends[k] : ends[k + 1]] for k in range(int(self.sizes[0]))]
