"""Numbers that stand for sets: of leaves (codes), and of clusters (keys)."""

from __future__ import annotations

from hctrellis.kernels.compile import jit

_HALF = 0x7FFFFFFF  # 31 bits: the product of two such numbers does not overflow


@jit
def mix(code):
    """Spread the code of a cluster over all bits: the key of a set is the exclusive or of these."""
    code ^= (code & _HALF) * ((code >> 32) & _HALF)
    return code ^ (((code >> 16) & _HALF) * ((code >> 33) & _HALF))
