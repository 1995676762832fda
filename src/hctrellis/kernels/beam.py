"""Beam search over partial clusterings. A template (see `bind`) on top of `unions` and `joins`."""

from __future__ import annotations

import numpy as np

from hctrellis.kernels.bound import inner, jit
from hctrellis.kernels.joins import join, weigh_joins, without
from hctrellis.kernels.keys import mix
from hctrellis.support.logs import NEVER, TIE


@inner
def known(total, key, place, joins, by_weight):
    """Whether an equal state is among the best joins: the same clusters, or the same weight.

    place : where in the ranking the total belongs.
    """
    count = joins.number[0]
    if by_weight:
        gap = TIE * abs(total)
        before = place > 0 and joins.totals[joins.rank[place - 1]] - total <= gap
        behind = place < count and total - joins.totals[joins.rank[place]] <= gap
        return before or behind
    found = False
    for k in range(count):
        found |= joins.keys[k] == key
    return found


@inner
def place_of(total, joins):
    """Where a total belongs in the ranking: behind those that are not smaller."""
    low, high = 0, joins.number[0]
    while low < high:
        middle = (low + high) // 2
        if joins.totals[joins.rank[middle]] >= total:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def propose(state, i, j, total, forests, joins, by_weight):
    """Rank a join among the best ones, in place of the last if there is no room."""
    key = forests.keys[state] ^ mix(forests.codes[state, i] ^ forests.codes[state, j])
    place = place_of(total, joins)
    if known(total, key, place, joins, by_weight):
        return
    if joins.number[0] < joins.rank.size:
        at = joins.number[0]
        joins.number[0] += 1
    else:
        at = joins.rank[-1]
    for k in range(joins.number[0] - 1, place, -1):
        joins.rank[k] = joins.rank[k - 1]
    joins.rank[place] = at
    joins.totals[at] = total
    joins.keys[at] = key
    joins.slots[at, 0] = state
    joins.slots[at, 1] = i
    joins.slots[at, 2] = j


@jit
def rank_joins(start, stop, n_clusters, forests, joins, by_weight):
    """Rank the joins of the states from start to stop, and keep the best; forbidden ones last."""
    for state in forests.live[start:stop]:
        active = forests.active[state, :n_clusters]
        for k in range(n_clusters):
            i = active[k]
            for j in active[k + 1 :]:
                total = forests.totals[state] + max(forests.log_psi[state, i, j], NEVER)
                full = joins.number[0] == joins.rank.size
                if not full or total > joins.totals[joins.rank[-1]]:
                    propose(state, i, j, total, forests, joins, by_weight)


@inner
def copy_state(source, target, n_clusters, forests, table):
    """Copy a state with its rows of the table."""
    n = forests.active.shape[1]
    for k in range(n_clusters):
        i = forests.active[source, k]
        forests.active[target, k] = i
        forests.codes[target, i] = forests.codes[source, i]
        for j in range(n):
            forests.log_psi[target, i, j] = forests.log_psi[source, i, j]
        for link in range(forests.links.shape[1]):
            for j in range(n):
                forests.links[target, link, i, j] = forests.links[source, link, i, j]
        for column in range(table.shape[1]):
            table[target * n + i, column] = table[source * n + i, column]


@inner
def join_in_state(state, i, j, n_clusters, forests, table, model, splits):
    """Join two clusters of a state; False if a new log psi is NaN or +inf."""
    n = forests.active.shape[1]
    base, spare = state * n, forests.active.size
    active = without(forests.active[state, :n_clusters], j)
    others = without(active.copy(), i)
    join(i, j, others, base, forests.links[state], table, model)
    forests.codes[state, i] ^= forests.codes[state, j]
    fine = weigh_joins(i, others, base, spare, forests.links[state], table, model, splits)
    for k in range(others.size):
        first, second = min(i, others[k]), max(i, others[k])
        forests.log_psi[state, first, second] = splits.log_psi[k]
    return fine


@jit
def advance(start, stop, level, uses, free, forests, table, model, splits, joins):
    """Make the states from start to stop of the next level.

    uses : int64 (w), how many joins are made in each state; the last changes it in place
    free : int64, the states without any; at the end, how many of them are taken
    """
    n = forests.active.shape[1]
    fine = True
    for k in range(start, stop):
        at = joins.rank[k]
        source, i, j = joins.slots[at, 0], joins.slots[at, 1], joins.slots[at, 2]
        target = source
        if uses[source] > 1:
            target = free[free[-1]]
            free[-1] += 1
            copy_state(source, target, n - level, forests, table)
        uses[source] -= 1
        if not join_in_state(target, i, j, n - level, forests, table, model, splits):
            fine = False
        forests.live[k] = target
        forests.totals[target] = joins.totals[at]
        forests.keys[target] = joins.keys[at]
        joins.history[level, target, 0] = source
        joins.history[level, target, 1] = i
        joins.history[level, target, 2] = j
    return fine


@inner
def trace(at, joins, children):
    """Write down the tree that the last join at a position completes, as in `Tree`."""
    n = children.shape[0] + 1
    pairs = np.empty((n - 1, 2), np.int64)
    state, pairs[n - 2, 0], pairs[n - 2, 1] = joins.slots[at]
    for level in range(n - 3, -1, -1):
        state, pairs[level, 0], pairs[level, 1] = joins.history[level, state]
    nodes = np.arange(n)
    for level in range(n - 1):
        children[level, 0] = nodes[pairs[level, 0]]
        children[level, 1] = nodes[pairs[level, 1]]
        nodes[pairs[level, 0]] = n + level


@jit
def begin(forests, table, model, splits):
    """Weigh all joins of the first state, the leaves; False if a log psi is NaN or +inf.

    table : width * n rows for the slots of the states, and n more.
    """
    n = forests.active.shape[1]
    base, spare = forests.live[0], forests.active.size
    links = forests.links[0]
    for i in range(n - 1):
        others = forests.active[0, i + 1 :]
        if not weigh_joins(i, others, base, spare, links, table, model, splits):
            return False
        for j in range(i + 1, n):
            forests.log_psi[0, i, j] = splits.log_psi[j - i - 1]
    return True


@jit
def trace_all(joins, children):
    """Fill the best trees, the best first; children : int64 (n_best, n - 1, 2)."""
    for k in range(min(joins.number[0], children.shape[0])):
        trace(joins.rank[k], joins, children[k])
