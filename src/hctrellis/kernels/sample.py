"""Trees drawn from the top down, all together: each cluster's splits are listed once."""

from __future__ import annotations

from hctrellis.kernels.compile import jit


@jit
def split_samples(
    most,
    parent,
    heads,
    links,
    owners,
    children,
    single,
    cumulative,
    uniforms,
    used,
    ends,
    out,
    out_l,
):
    """Draw a split of `parent` for the samples that have reached it, at most `most` of them.

    Those that are left are still linked to the parent.

    heads : int64 (clusters), the last entry that reached each cluster, -1 if none
    links, owners : int64 (entries), the entry before it and the sample of an entry
    children, single : int64 and bool (2, splits), the children of the parent's splits, and whether
        they are single leaves; cumulative : cumulative probabilities of the splits
    uniforms : float64 (entries), one per draw; used : number of draws so far
    ends : int64 (samples), number of clusters of a sample so far
    out, out_l : int64 (samples, n - 1), clusters and their left children
    Returns the number of draws so far.
    """
    entry = heads[parent]
    count = cumulative.size
    total = cumulative[count - 1]
    while entry >= 0 and most > 0:
        most -= 1
        sample = owners[entry]
        wanted = uniforms[used] * total
        used += 1
        low, high = 0, count - 1
        while low < high:
            middle = (low + high) >> 1
            if cumulative[middle] > wanted:
                high = middle
            else:
                low = middle + 1
        k = ends[sample]
        out[sample, k] = parent
        out_l[sample, k] = children[0, low]
        ends[sample] = k + 1
        for side in range(2):
            child = children[side, low]
            if not single[side, low]:
                fresh = links[links.size - 1]
                links[links.size - 1] = fresh + 1
                owners[fresh] = sample
                links[fresh] = heads[child]
                heads[child] = fresh
        entry = links[entry]
    heads[parent] = entry
    return used


@jit
def next_reached(heads, parent):
    """The largest cluster below `parent` that a sample has reached, or -1."""
    parent -= 1
    while parent >= 0 and heads[parent] < 0:
        parent -= 1
    return parent
