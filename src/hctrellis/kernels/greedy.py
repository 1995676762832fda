"""Greedy agglomeration. A template (see `bind`) on top of `unions` and `joins`."""

# mypy: ignore-errors
from __future__ import annotations

import numpy as np


@jit
def scan(i, active, log_psi, partner, top):
    """Find the best partner of slot i among the active slots behind it, the first of equals."""
    partner[i] = -1
    for j in active:
        if j > i and (partner[i] < 0 or log_psi[i, j] > top[i]):
            partner[i] = j
            top[i] = log_psi[i, j]


@jit
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
def agglomerate(links, table, model, splits, children):
    """Join the pair with the largest psi until one cluster is left; among equals, the first slots.

    O(n^2) evaluations of psi.

    links : float64 (l, n, n), is changed; table : 2n rows, the first n of them the leaves.
    children : int64 (n - 1, 2), filled as in `Tree`.
    Returns the log weight of the tree, or NaN if a log psi is NaN or +inf.
    """
    n = children.shape[0] + 1
    active = np.arange(n)
    nodes = np.arange(n)
    partner = np.full(n, -1)
    top = np.zeros(n)
    log_psi = np.empty((n, n))
    for i in range(n - 1):
        if not weigh_joins(i, active[i + 1 :], 0, n, links, table, model, splits):
            return np.nan
        for j in range(i + 1, n):
            log_psi[i, j] = splits.log_psi[j - i - 1]
        scan(i, active, log_psi, partner, top)
    total = 0.0
    for step in range(n - 1):
        a = active[0]
        for i in active[:-1]:
            if top[i] > top[a]:
                a = i
        b = partner[a]
        total += top[a]
        children[step, 0] = nodes[a]
        children[step, 1] = nodes[b]
        nodes[a] = n + step
        active = without(active, b)
        others = without(active.copy(), a)
        join(a, b, others, 0, links, table, model)
        if not weigh_joins(a, others, 0, n, links, table, model, splits):
            return np.nan
        for k in range(others.size):
            i = others[k]
            log_psi[min(a, i), max(a, i)] = splits.log_psi[k]
        scan(a, active, log_psi, partner, top)
        for i in others:
            if i < b:
                update(i, a, b, active, log_psi, partner, top)
    return total
