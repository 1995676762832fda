"""The recursion of log Z, MAP and count for eight data sets at a time, one in each vector lane.

A template (see `bind`), on top of `weights`, for potentials that state their sums. All data sets
have n leaves. A cluster P (a bit mask) has a cell in one table, which holds vectors, of which each
data set has one lane:

    best, rest   as in `full`: log2 of the largest weight of a tree over P, and Z(P) / 2^best
    count        the number of trees of non-zero weight
    features     from `describe`

Cells are named by their position in the table, a multiple of `width`. Those of two disjoint
clusters add up to that of their union, so a split takes one number in the list of all splits, which
is made once for each n. The list is sorted by the size of the parents; for each parent come first
the splits that cut off a single leaf, then all others, in increasing order of the child that holds
the lowest leaf.

One data set never sees another: whatever is in the other lanes, its results are the same.
"""

from __future__ import annotations

import math

import numpy as np

from hctrellis.kernels.bound import CHECKED, SCALED, describe, inner, jit, leaf, load_row, pair
from hctrellis.kernels.common import room
from hctrellis.kernels.door import overload
from hctrellis.kernels.elementary import exp2, log, log2_above
from hctrellis.kernels.simd import LANES, choose, load, maximum, minimum, splat, store
from hctrellis.kernels.weights import best_split, log2_weight, split_terms
from hctrellis.support.logs import FORBIDDEN, LOG2E, NEVER, TIE

REST, COUNT, FEATURES = LANES, 2 * LANES, 3 * LANES  # where they begin in a cell
BLOCK = 100  # splits weighed before their exponentials are taken: 19 kB of buffers
TINY = 1e-300  # its logarithm is finite


def load_each(arrays, at):
    """The vector at one position of each of some arrays."""
    return tuple([load(array, at) for array in arrays])


@overload(load_each)
def _load_each(arrays, at):
    """By halves, since a compiler that works through one after the other runs out of stack."""
    if len(arrays) < 2:
        return (
            (lambda arrays, at: (load(arrays[0], at),))
            if len(arrays) == 1
            else (lambda arrays, at: ())
        )
    half = len(arrays) // 2
    return lambda arrays, at: load_each(arrays[:half], at) + load_each(arrays[half:], at)


def take_each(arrays, at):
    """The number at one position of each of some arrays."""
    return tuple([array[at] for array in arrays])


@overload(take_each)
def _take_each(arrays, at):
    """By halves, since a compiler that works through one after the other runs out of stack."""
    if len(arrays) < 2:
        return (
            (lambda arrays, at: (arrays[0][at],)) if len(arrays) == 1 else (lambda arrays, at: ())
        )
    half = len(arrays) // 2
    return lambda arrays, at: take_each(arrays[:half], at) + take_each(arrays[half:], at)


# -- features ----------------------------------------------------------------------------------


@inner
def add_up(matrix, first, n, m, out):
    """The sum of a matrix over the pairs and single leaves of every cluster.

    matrix : float64 (n, n, m), flat, of m data sets; the lower triangle is used.
    """
    store(out, 0, splat(0.0))
    for i in range(n):
        half = LANES << i
        row = i * n * m + first
        store(out, half, load(matrix, row + i * m))
        for j in range(i):  # what leaf i adds, for all clusters of leaves before it
            more = load(matrix, row + j * m)
            part = LANES << j
            for k in range(half, half + part, LANES):
                store(out, k + part, load(out, k) + more)
        for k in range(half):
            out[half + k] += out[k]


@inner
def look_up(by_size, first, sizes, m, out):
    """A number for the size of every cluster; by_size : float64 (n + 1, m), flat."""
    for mask in range(sizes.size):
        store(out, mask * LANES, load(by_size, int(sizes[mask]) * m + first))


@inner
def count_leaves(n):
    """The number of leaves of every cluster."""
    sizes = np.zeros(1 << n)
    for mask in range(1, sizes.size):
        sizes[mask] = sizes[mask >> 1] + (mask & 1)
    return sizes


@inner
def describe_clusters(sums, sizes, params, root_params, table, width, node):
    """Fill in the features of every cluster, and log2 of what it weighs as a parent."""
    for mask in range(1, sizes.size):
        prm = root_params if mask == sizes.size - 1 else params
        row, own = describe(splat(sizes[mask]), load_each(sums, mask * LANES), prm)
        for f in range(len(row)):
            store(table, mask * width + FEATURES + f * LANES, splat(row[f]))
        own = splat(own * LOG2E)
        store(node, mask * LANES, maximum(NEVER, own))  # in this order NaN propagates


# -- the upward pass ---------------------------------------------------------------------------


@inner
def may_split(x):
    """Whether a split is allowed, as 1 or 0."""
    return choose(x - FORBIDDEN, 1.0, 0.0) if CHECKED else 1.0


@inner
def weigh_block(block, start, each, singles, lattice, table, width, prm, entries):
    """Write down log2 weight, factor and rest of each split of some parents of equal size.

    The largest log2 weight and the number of trees go to the cell of the parent.
    block : the first of the parents, and one after the last
    start, each, singles : where their splits begin, how many splits each has, and how many of them
        cut off a single leaf
    """
    parents, _levels, splits = lattice
    log_weights, factors, rests = entries
    entry = 0
    for p in range(block[0], block[1]):
        cell = parents[p] * width
        parent = load_row(table, cell + FEATURES, LANES)
        peak = splat(NEVER)
        trees = splat(0.0)
        for k in range(start, start + singles):
            i = splits[k]
            j = cell - i
            left = load_row(table, i + FEATURES, LANES)
            right = load_row(table, j + FEATURES, LANES)
            x, factor = leaf(left, right, parent, prm, 0.0)
            w = log2_weight(x, load(table, j))
            peak = maximum(peak, w)
            trees = trees + load(table, j + COUNT) * may_split(x)
            store(log_weights, entry, w)
            store(rests, entry, load(table, j + REST))
            if SCALED:
                store(factors, entry, factor)
            entry += LANES
        for k in range(start + singles, start + each):
            i = splits[k]
            j = cell - i
            left = load_row(table, i + FEATURES, LANES)
            right = load_row(table, j + FEATURES, LANES)
            x, factor = pair(left, right, parent, prm, 0.0)
            w = log2_weight(x, load(table, i) + load(table, j))
            peak = maximum(peak, w)
            trees = trees + load(table, i + COUNT) * (load(table, j + COUNT) * may_split(x))
            store(log_weights, entry, w)
            store(rests, entry, load(table, i + REST) * load(table, j + REST))
            if SCALED:
                store(factors, entry, factor)
            entry += LANES
        store(table, cell, peak)
        store(table, cell + COUNT, trees)
        start += each


@inner
def settle_block(block, each, parents, table, width, node, entries):
    """Add up the entries of some parents and complete their cells; NaN propagates."""
    log_weights, factors, rests = entries
    first = 0
    for p in range(block[0], block[1]):
        cell = parents[p] * width
        own = load(node, parents[p] * LANES)
        peak = load(table, cell)
        top = splat(0.0)
        acc = splat(0.0)
        for i in range(first, first + each * LANES, LANES):
            e = exp2(load(log_weights, i) - peak)
            if SCALED:
                e = e * load(factors, i)
                top = maximum(top, e)
            acc = acc + e * load(rests, i)
        first += each * LANES
        fine = minimum(minimum(own, peak) - FORBIDDEN, acc)
        best = own + peak
        rest = acc
        if SCALED:
            top = maximum(top, TINY)
            best = best + log(top) * LOG2E
            rest = acc / top
        store(table, cell, choose(fine, best, NEVER))
        store(table, cell + REST, choose(fine, rest, acc - acc))
        store(table, cell + COUNT, choose(own - FORBIDDEN, load(table, cell + COUNT), 0.0))


@inner
def spread_block(block, start, each, lattice, table, width, node, entries):
    """How far the log2 weight of a tree over each of some parents is below the best, on average.

    It is the last vector of a cell. All terms are positive: nothing cancels.
    """
    parents, _levels, splits = lattice
    log_weights, factors, rests = entries
    last = width - LANES
    entry = 0
    for p in range(block[0], block[1]):
        cell = parents[p] * width
        best = load(table, cell) - load(node, parents[p] * LANES)
        acc = splat(0.0)
        for k in range(start, start + each):
            w = load(log_weights, entry)
            e = exp2(w - best)
            missing = best - w
            if SCALED:
                factor = load(factors, entry)
                e = e * factor
                missing = missing - log(maximum(factor, TINY)) * LOG2E
            if CHECKED:
                e = choose(w - FORBIDDEN, e, 0.0)
            below = load(table, splits[k] + last) + load(table, cell - splits[k] + last)
            acc = acc + e * load(rests, entry) * (missing + below)
            entry += LANES
        rest = load(table, cell + REST)
        store(table, cell + last, choose(rest, acc / rest, 0.0))
        start += each


@inner
def go_up(lattice, table, width, node, params, root_params, entropy, entries):
    """The recursion over all clusters, in blocks of parents of equal size."""
    parents, levels, _splits = lattice
    n = levels.size - 2
    for i in range(n):
        cell = width << i
        store(table, cell, splat(0.0))
        store(table, cell + REST, splat(1.0))
        store(table, cell + COUNT, splat(1.0))
        if entropy:
            store(table, cell + width - LANES, splat(0.0))
    start = np.int64(0)
    for size in range(2, n + 1):
        prm = root_params if size == n else params
        each = (1 << (size - 1)) - 1
        singles = size if size > 2 else 1
        step = max(1, BLOCK // each)
        for first in range(levels[size], levels[size + 1], step):
            block = (first, min(first + step, levels[size + 1]))
            weigh_block(block, start, each, singles, lattice, table, width, prm, entries)
            settle_block(block, each, parents, table, width, node, entries)
            if entropy:
                spread_block(block, start, each, lattice, table, width, node, entries)
            start += (block[1] - block[0]) * each


# -- the best tree -----------------------------------------------------------------------------


@inner
def number_child(child, number, sizes):
    """The number of a node of a tree: leaves count from 0, others have the number given."""
    return number if child & (child - 1) else int(sizes[child - 1])


@inner
def split_root(at, top, lattice, width, entries):
    """As `best_split`, for all leaves: from the entries that were written down last."""
    log_weights, factors, _rests = entries
    _parents, levels, splits = lattice
    n = levels.size - 2
    root = (1 << n) - 1
    count = (1 << (n - 1)) - 1
    start = splits.size - count
    bar = top - TIE * max(1.0, abs(top))
    least = 0
    while least == 0:
        largest = NEVER
        for k in range(count):
            w = log_weights[k * LANES + at]
            if SCALED:  # as in `first_split`
                factor = factors[k * LANES + at]
                above = w + log2_above(factor)
                w = w + math.log2(factor) if above > min(largest, bar) else NEVER
            largest = max(largest, w)
            if w >= bar:
                child = splits[start + k] // width
                child = child if child & 1 else root ^ child
                least = child if least == 0 else min(least, child)
        bar = largest - TIE * max(1.0, abs(largest))  # rounding in the table: search again
    return least


@inner
def trace(left, tables, sizes, params, root_params, stack, children):
    """The best tree of a data set, as `Tree.children`; returns its log weight.

    left : the child with the lowest leaf of its first split
    tables : features, best, rest, node of every cluster, as in `full`, of this data set
    params, root_params : tuples of floats
    """
    features, _best, _rest, node = tables
    root = sizes.size - 1
    n = int(sizes[root])
    total = 0.0
    stack[0, 0] = root
    stack[0, 1] = 2 * n - 2
    height = 1 if n > 1 else 0
    while height > 0:
        height -= 1
        mask = stack[height, 0]
        number = stack[height, 1]
        prm = root_params if mask == root else params
        if mask != root:
            left = best_split(mask, tables, prm, 0, 0)
        right = mask ^ left
        x, factor = split_terms(left, right, mask, features, prm, 0.0)
        total += node[mask] / LOG2E + x
        if SCALED:
            total += math.log(factor)
        numbers = (number - int(sizes[right]), number - 1)
        for side, child in enumerate((left, right)):
            children[number - n, side] = number_child(child, numbers[side], sizes)
            if child & (child - 1):
                stack[height, 0] = child
                stack[height, 1] = numbers[side]
                height += 1
    return total


# -- all of it ---------------------------------------------------------------------------------


@inner
def answer(at, entropy, lattice, entries, cells, nodes, params, root_params, work, children):
    """The four answers for the data set in one lane.

    cells, nodes : the table and what clusters weigh as parents, a row for each cluster
    """
    sizes, stack = work
    root = sizes.size - 1
    rest = cells[root, REST + at]
    count = cells[root, COUNT + at]
    if rest == 0.0:
        return -np.inf, -np.inf, count, np.nan
    log_partition = cells[root, at] / LOG2E + math.log(rest)
    if not log_partition < np.inf:
        return np.nan, np.nan, count, np.nan
    features = cells[:, FEATURES + at :: LANES].T
    tables = (features, cells[:, at], cells[:, REST + at], nodes[:, at])
    top = cells[root, at] - nodes[root, at]
    left = split_root(at, top, lattice, cells.shape[1], entries) if root > 1 else 1
    log_weight = trace(left, tables, sizes, params, root_params, stack, children)
    missing = cells[root, cells.shape[1] - LANES + at] / LOG2E if entropy else np.nan
    return log_partition, log_weight, count, math.log(rest) + missing


@jit
def solve(given, by_size, sums, params, root_params, lattice, width, entropy, answers, children):
    """Solve m data sets of n leaves, eight at a time.

    given : tuple of float64 arrays, flat, one per sum: of shape (n, n, m), or (n + 1, m) where
        `by_size` says so
    sums : tuple of as many float64 (LANES 2^n), scratch space
    params, root_params : tuples of float64 (m)
    lattice : clusters by size, int64 (2^n); where each size begins, int64 (n + 2); the list of
        splits, int32
    width : of a cell, with one vector more if the entropy is asked for
    answers : float64 (m, 4): log partition (NaN if a weight is invalid), log weight of the best
        tree, number of trees, entropy or NaN
    children : int64 (m, n - 1, 2), `Tree.children` of the best trees
    """
    n = lattice[1].size - 2
    m = answers.shape[0]
    sizes = count_leaves(n)
    table = room(width << n)
    node = room(LANES << n)
    most = LANES * max(BLOCK, 1 << n >> 1)
    entries = (room(most), room(most), room(most))
    cells, nodes = table.reshape(-1, width), node.reshape(-1, LANES)
    work = (sizes, np.empty((n + 1, 2), np.int64))
    for first in range(0, m, LANES):
        for s in range(len(sums)):
            if by_size[s]:
                look_up(given[s], first, sizes, m, sums[s])
            else:
                add_up(given[s], first, n, m, sums[s])
        prm = load_each(params, first)
        root_prm = load_each(root_params, first)
        describe_clusters(sums, sizes, prm, root_prm, table, width, node)
        go_up(lattice, table, width, node, prm, root_prm, entropy, entries)
        for at in range(LANES):
            k = first + at
            one, root_one = take_each(params, k), take_each(root_params, k)
            answers[k] = answer(
                at, entropy, lattice, entries, cells, nodes, one, root_one, work, children[k]
            )
