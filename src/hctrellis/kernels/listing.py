"""Lists of splits to be weighed. A template (see `bind`) that all searches start with."""

from __future__ import annotations

from hctrellis.kernels.bound import inner


@inner
def list_split(left, right, parent, cross, splits):
    """List the split of one row of the table into two others, to be weighed."""
    k = splits.number[0]
    splits.rows[k, 0] = left
    splits.rows[k, 1] = right
    splits.rows[k, 2] = parent
    splits.cross[k] = cross
    splits.number[0] += 1
