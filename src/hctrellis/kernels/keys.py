"""Small things that all searches share: numbers that stand for sets, and lists of splits."""

# mypy: ignore-errors
from __future__ import annotations

from hctrellis.kernels.compile import jit


@jit
def mix(code):
    """Spread the code of a cluster over all bits: the key of a set is the exclusive or of these."""
    code = (code ^ (code >> 30)) * 0x3F58476D1CE4E5B9
    code = (code ^ (code >> 27)) * 0x14D049BB133111EB
    return code ^ (code >> 31)
