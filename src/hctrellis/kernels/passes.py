"""The recursions over listed splits, whose log weights are given as an array.

Splits are listed one parent after the other: those of parents[k] are offsets[k] .. offsets[k + 1]
of the arrays `lefts` and `rights`. Clusters are numbers, children before parents.
"""

from __future__ import annotations

import math

import numpy as np

from hctrellis.kernels.compile import jit
from hctrellis.kernels.elementary import exp2
from hctrellis.kernels.simd import LANES, choose, highest, load, maximum, splat, store, total
from hctrellis.support.logs import FORBIDDEN, LARGEST, LOG2E, NEVER

LARGE = 1e100  # its square is still finite


@jit
def list_splits(parents, lefts, rights):
    """The children of every split of every parent, given as masks of equal size.

    The left child has the lowest leaf; its masks increase.
    parents : int64 (p); lefts, rights : int64 (p * (2^(m-1) - 1)) for parents of m leaves.
    """
    k = 0
    for parent in parents:
        first = parent & -parent
        others = parent ^ first
        sub = 0
        while sub != others:
            lefts[k] = first | sub
            rights[k] = others ^ sub
            k += 1
            sub = (sub - others) & others


@jit
def absorb(parents, offsets, lefts, rights, log_weights, best, scale, rest, shares):
    """Fill the tables for some parents from log psi of their splits.

    best : float64 per cluster, log2 of the best tree's weight
    scale, rest : float64 per cluster, Z = rest * 2^scale
    shares : float64 per split, what it adds to `rest` of its parent
    Returns the index of a split whose log weight is NaN, +inf or out of range, or -1.
    """
    widest = 0
    for p in range(parents.size):
        widest = max(widest, offsets[p + 1] - offsets[p])
    tops, powers, rests = np.empty((3, widest + LANES))
    for p in range(parents.size):
        parent = parents[p]
        start = offsets[p]
        count = offsets[p + 1] - start
        for i in range(count):
            if not abs(log_weights[start + i]) <= LARGEST and log_weights[start + i] != -np.inf:
                return start + i
            left, right = np.uint64(lefts[start + i]), np.uint64(rights[start + i])
            x = log_weights[start + i] * LOG2E
            tops[i] = x + (best[left] + best[right])
            powers[i] = x + (scale[left] + scale[right])
            rests[i] = rest[left] * rest[right]
        for i in range(count, count + LANES):
            tops[i] = powers[i] = NEVER
            rests[i] = 0.0
        top_v = peak_v = splat(NEVER)
        for i in range(0, count, LANES):
            top_v = maximum(top_v, load(tops, i))
            peak_v = maximum(peak_v, load(powers, i))
        top, peak = highest(top_v), highest(peak_v)
        acc = splat(0.0)
        for i in range(0, count, LANES):
            power = load(powers, i)
            terms = exp2(power - peak) * choose(power - FORBIDDEN, load(rests, i), 0.0)
            store(rests, i, terms)
            acc = acc + terms
        possible = top > FORBIDDEN
        z = total(acc)
        factor = 1.0
        if z > LARGE:
            z, digits = math.frexp(z)
            peak += digits
            factor = 2.0**-digits
        best[parent] = top if possible else NEVER
        scale[parent] = peak if possible else NEVER
        rest[parent] = z if possible else 0.0
        for i in range(count):
            shares[start + i] = rests[i] * factor if possible else 0.0
    return -1


@jit
def to_probabilities(parents, offsets, rest, shares, out):
    """The probabilities of splits given their parents, from their shares."""
    for p in range(parents.size):
        whole = rest[parents[p]]
        inverse = 1.0 / whole if whole > 0.0 else 0.0
        for k in range(offsets[p], offsets[p + 1]):
            out[k] = shares[k] * inverse


@jit
def split_probabilities(parents, offsets, lefts, rights, log_weights, scale, rest, out):
    """The probabilities of splits given their parents, from log psi."""
    for p in range(parents.size):
        parent = parents[p]
        for k in range(offsets[p], offsets[p + 1]):
            left, right = lefts[k], rights[k]
            w = log_weights[k] * LOG2E + scale[left] + scale[right] - scale[parent]
            if rest[parent] > 0.0 and w > FORBIDDEN:
                out[k] = np.exp2(w) * rest[left] * rest[right] / rest[parent]
            else:
                out[k] = 0.0


@jit
def spread(parents, offsets, lefts, rights, probabilities, amounts, target):
    """Add amounts[parent] times the probability of each split to both its children in target.

    Parents are visited in decreasing order, so that amounts may be the target.
    """
    for p in range(parents.size - 1, -1, -1):
        amount = amounts[parents[p]]
        for k in range(offsets[p], offsets[p + 1]):
            part = amount * probabilities[k]
            target[lefts[k]] += part
            target[rights[k]] += part


@jit
def moments(parents, offsets, lefts, rights, probabilities, values, mean, variance):
    """Mean and variance of a sum over splits, over the trees of each parent, from its children."""
    for p in range(parents.size):
        parent = parents[p]
        first = second = total = 0.0
        for k in range(offsets[p], offsets[p + 1]):
            if probabilities[k] > 0.0:
                total += probabilities[k]
                first += probabilities[k] * (values[k] + mean[lefts[k]] + mean[rights[k]])
        if total == 0.0:
            continue
        first /= total  # probabilities add up to 1 only up to rounding
        for k in range(offsets[p], offsets[p + 1]):
            if probabilities[k] > 0.0:
                left, right = lefts[k], rights[k]
                gap = values[k] + mean[left] + mean[right] - first
                second += probabilities[k] * (gap * gap + variance[left] + variance[right])
        mean[parent] = first
        variance[parent] = second / total


@jit
def count(parents, offsets, lefts, rights, log_weights, primes, remainders):
    """The number of trees of non-zero weight of some parents, modulo each of some primes < 2^31.

    remainders : int64 (primes, clusters).
    """
    for q in range(primes.size):
        prime = primes[q]
        row = remainders[q]
        for p in range(parents.size):
            trees = 0
            for k in range(offsets[p], offsets[p + 1]):
                if log_weights[k] > -np.inf:
                    trees = (trees + row[lefts[k]] * row[rights[k]]) % prime
            row[parents[p]] = trees
