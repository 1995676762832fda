"""Averages over trees of sums over splits, for eight data sets at a time, on the way up.

A template (see `bind`), on top of `weights` and `batch`. Each value v (see `values`) has a vector
at the end of the cell of every cluster: its mean over the trees of the cluster P,

    mean(P) = sum over splits of q(split | P) (v(split) + mean(L) + mean(R)).

If the values are derivatives of log psi, the means over the trees of all leaves are those of log Z.
"""

from __future__ import annotations

import math

import numpy as np

from hctrellis.kernels.batch import (
    BLOCK,
    FEATURES,
    REST,
    TINY,
    add_up,
    count_leaves,
    describe_clusters,
    load_each,
    look_up,
    settle_block,
    weigh_block,
)
from hctrellis.kernels.bound import (
    CHECKED,
    N_VALUES,
    SCALED,
    inner,
    jit,
    leaf_values,
    load_row,
    store_each,
    values,
)
from hctrellis.kernels.common import room
from hctrellis.kernels.elementary import exp2
from hctrellis.kernels.simd import LANES, choose, load, maximum, splat, store
from hctrellis.support.logs import FORBIDDEN, LOG2E


@inner
def average_block(block, start, each, singles, lattice, table, width, node, prm, entries, work):
    """The means of all values over the trees of some parents of equal size (see `weigh_block`)."""
    parents, _levels, splits = lattice
    log_weights, factors, rests = entries
    now, sums = work
    means = width - N_VALUES * LANES
    entry = 0
    for p in range(block[0], block[1]):
        cell = parents[p] * width
        best = load(table, cell) - load(node, parents[p] * LANES)
        rest = load(table, cell + REST)
        parent = load_row(table, cell + FEATURES, LANES)
        for k in range(N_VALUES):
            store(sums, k * LANES, splat(0.0))
        for s in range(start, start + each):
            i = splits[s]
            j = cell - i
            left = load_row(table, i + FEATURES, LANES)
            right = load_row(table, j + FEATURES, LANES)
            if s < start + singles:
                store_each(now, leaf_values(left, right, parent, prm, 0.0))
            else:
                store_each(now, values(left, right, parent, prm, 0.0))
            w = load(log_weights, entry)
            e = exp2(w - best) * load(rests, entry)
            if SCALED:
                e = e * load(factors, entry)
            if CHECKED:
                e = choose(w - FORBIDDEN, e, 0.0)
            for k in range(N_VALUES):
                at = means + k * LANES
                value = load(now, k * LANES) + (load(table, i + at) + load(table, j + at))
                store(sums, k * LANES, load(sums, k * LANES) + e * value)
            entry += LANES
        for k in range(N_VALUES):
            mean = choose(rest, load(sums, k * LANES) / maximum(rest, TINY), 0.0)
            store(table, cell + means + k * LANES, mean)
        start += each


@inner
def climb(lattice, table, width, node, params, root_params, entries, work):
    """The recursion over all clusters, as `batch.go_up`, with the means of all values."""
    parents, levels, _splits = lattice
    n = levels.size - 2
    for i in range(n):
        cell = width << i
        store(table, cell, splat(0.0))
        store(table, cell + REST, splat(1.0))
        store(table, cell + 2 * LANES, splat(1.0))
        for k in range(N_VALUES):
            store(table, cell + width - (k + 1) * LANES, splat(0.0))
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
            average_block(
                block, start, each, singles, lattice, table, width, node, prm, entries, work
            )
            start += (block[1] - block[0]) * each


@jit
def solve_slopes(given, by_size, sums, params, root_params, lattice, width, answers):
    """Log Z and the means of all values, for m data sets of n leaves, eight at a time.

    given, by_size, sums, params, root_params, lattice : see `batch.solve`
    width : of a cell, with one vector more for each value
    answers : float64 (m, 1 + values): log partition (-inf if every tree is forbidden), and means
    """
    n = lattice[1].size - 2
    m = answers.shape[0]
    sizes = count_leaves(n)
    table = room(width << n)
    node = room(LANES << n)
    most = LANES * max(BLOCK, 1 << n >> 1)
    entries = (room(most), room(most), room(most))
    work = (room(N_VALUES * LANES), room(N_VALUES * LANES))
    root = ((1 << n) - 1) * width
    for first in range(0, m, LANES):
        for s in range(len(sums)):
            if by_size[s]:
                look_up(given[s], first, sizes, m, sums[s])
            else:
                add_up(given[s], first, n, m, sums[s])
        prm = load_each(params, first)
        root_prm = load_each(root_params, first)
        describe_clusters(sums, sizes, prm, root_prm, table, width, node)
        climb(lattice, table, width, node, prm, root_prm, entries, work)
        for at in range(LANES):
            rest = table[root + REST + at]
            possible = rest > 0.0
            log_rest = math.log(rest) if possible else -np.inf
            answers[first + at, 0] = table[root + at] / LOG2E + log_rest
            for k in range(N_VALUES):
                answers[first + at, 1 + k] = table[root + width - (N_VALUES - k) * LANES + at]
