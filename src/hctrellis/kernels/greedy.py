"""Greedy agglomeration. A template (see `bind`) on top of `unions` and `joins`."""

from __future__ import annotations

from hctrellis.kernels.bound import inner, jit
from hctrellis.kernels.joins import join, weigh_joins, without


@inner
def scan(i, active, log_psi, partner, top):
    """Find the best partner of slot i among the later active slots, the first of equals."""
    partner[i] = -1
    for j in active:
        if j > i and (partner[i] < 0 or log_psi[i, j] > top[i]):
            partner[i] = j
            top[i] = log_psi[i, j]


@inner
def update(i, a, b, active, log_psi, partner, top):
    """Find the best partner of slot i after b was joined to a.

    All slots are looked at only if the best partner was one of the two and has become worse.
    """
    lost = partner[i] == a or partner[i] == b
    if i < a and (log_psi[i, a] > top[i] or (log_psi[i, a] == top[i] and a <= partner[i])):
        partner[i] = a
        top[i] = log_psi[i, a]
    elif lost:
        scan(i, active, log_psi, partner, top)


@jit
def compare(start, stop, state, links, table, model, splits):
    """Weigh the joins of the leaves from start to stop with all later ones.

    False if a log psi is NaN or +inf.
    """
    active, _nodes, partner, top, log_psi, _total = state
    n = active.size
    for i in range(start, stop):
        if not weigh_joins(i, active[i + 1 :], 0, n, links, table, model, splits):
            return False
        for j in range(i + 1, n):
            log_psi[i, j] = splits.log_psi[j - i - 1]
        scan(i, active, log_psi, partner, top)
    return True


@jit
def agglomerate(start, stop, state, links, table, model, splits, children):
    """Join the pair with the largest psi, from step start to stop; among equals, the first slots.

    O(n^2) evaluations of psi in all.

    state : slots in use and the node at each, int64 (n); the best partner of each behind it, int64
        (n), its log psi, float64 (n), and those of all pairs, float64 (n, n); the log weight of
        the joins so far, float64 (1)
    links : float64 (l, n, n), is changed; table : 2n rows, the first n of them the leaves.
    children : int64 (n - 1, 2), filled as in `Tree`.
    False if a log psi is NaN or +inf.
    """
    slots, nodes, partner, top, log_psi, total = state
    n = children.shape[0] + 1
    for step in range(start, stop):
        active = slots[: n - step]
        a = active[0]
        for i in active[:-1]:
            if top[i] > top[a]:
                a = i
        b = partner[a]
        total[0] += top[a]
        children[step, 0] = nodes[a]
        children[step, 1] = nodes[b]
        nodes[a] = n + step
        active = without(active, b)
        others = without(active.copy(), a)
        join(a, b, others, 0, links, table, model)
        if not weigh_joins(a, others, 0, n, links, table, model, splits):
            return False
        for k in range(others.size):
            i = others[k]
            log_psi[min(a, i), max(a, i)] = splits.log_psi[k]
        scan(a, active, log_psi, partner, top)
        for i in others:
            if i < b:
                update(i, a, b, active, log_psi, partner, top)
    return True
