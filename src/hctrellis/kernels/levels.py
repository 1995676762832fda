"""The recursion over splits whose log weights are given as an array (see `trellis.levels`)."""

# mypy: ignore-errors
from __future__ import annotations

import math

import numpy as np

from hctrellis.kernels.compile import jit
from hctrellis.logs import FORBIDDEN, LOG2E, NEVER


@jit
def list_splits(parents, lefts):
    """The child with the lowest leaf of every split of every parent, in increasing order.

    parents : int64 (p); lefts : int64 (p * (2^(m-1) - 1)) for parents of m leaves.
    """
    k = 0
    for parent in parents:
        first = parent & -parent
        others = parent ^ first
        sub = 0
        while sub != others:
            lefts[k] = first | sub
            k += 1
            sub = (sub - others) & others


@jit
def absorb(parents, lefts, log_weights, best, rest, count, modulo):
    """Fill the tables for parents of equal size from log psi of their splits.

    best, rest : as in `full`; count, modulo : number of trees, rounded and modulo 2^64.
    Returns the index of a split whose log weight is NaN or +inf, or -1.
    """
    each = lefts.size // parents.size
    for p in range(parents.size):
        parent = parents[p]
        top = NEVER
        for k in range(p * each, (p + 1) * each):
            if not log_weights[k] < np.inf:
                return k
            w = log_weights[k] * LOG2E + best[lefts[k]] + best[parent ^ lefts[k]]
            log_weights[k] = w
            top = max(top, w)
        best[parent] = NEVER
        if top < FORBIDDEN:
            continue
        acc = trees = 0.0
        remainder = np.uint64(0)
        for k in range(p * each, (p + 1) * each):
            left, right = lefts[k], parent ^ lefts[k]
            if log_weights[k] > FORBIDDEN:
                acc += math.exp2(log_weights[k] - top) * rest[left] * rest[right]
                trees += count[left] * count[right]
                remainder += modulo[left] * modulo[right]
        best[parent] = top
        rest[parent] = acc
        count[parent] = trees
        modulo[parent] = remainder
    return -1


@jit
def split_probabilities(parents, lefts, log_weights, best, rest):
    """Turn log psi of all splits of parents of equal size into probabilities given the parent."""
    each = lefts.size // parents.size
    for p in range(parents.size):
        parent = parents[p]
        for k in range(p * each, (p + 1) * each):
            left, right = lefts[k], parent ^ lefts[k]
            w = log_weights[k] * LOG2E + best[left] + best[right] - best[parent]
            if rest[parent] > 0.0 and w > FORBIDDEN:
                log_weights[k] = math.exp2(w) * rest[left] * rest[right] / rest[parent]
            else:
                log_weights[k] = 0.0


@jit
def spread(parents, lefts, probabilities, amounts, target):
    """Add amounts[parent] times the probability of each split to both its children in target."""
    each = lefts.size // parents.size
    for p in range(parents.size):
        parent = parents[p]
        for k in range(p * each, (p + 1) * each):
            part = amounts[parent] * probabilities[k]
            target[lefts[k]] += part
            target[parent ^ lefts[k]] += part


@jit
def moments(parents, lefts, probabilities, values, mean, variance):
    """Mean and variance of a sum over splits, over the trees of each parent, from its children."""
    each = lefts.size // parents.size
    for p in range(parents.size):
        parent = parents[p]
        first = second = total = 0.0
        for k in range(p * each, (p + 1) * each):
            if probabilities[k] > 0.0:
                left, right = lefts[k], parent ^ lefts[k]
                total += probabilities[k]
                first += probabilities[k] * (values[k] + mean[left] + mean[right])
        if total == 0.0:
            continue
        first /= total  # probabilities add up to 1 only up to rounding
        for k in range(p * each, (p + 1) * each):
            if probabilities[k] > 0.0:
                left, right = lefts[k], parent ^ lefts[k]
                gap = values[k] + mean[left] + mean[right] - first
                second += probabilities[k] * (gap * gap + variance[left] + variance[right])
        mean[parent] = first
        variance[parent] = second / total
