"""The recursions of log Z, MAP and count, one split at a time in natural logarithms.

A template (see `bind`), on top of `weights`: the mathematics in plain form, against which the
vectorised pass is checked and timed, and the pass that counts trees.
"""

from __future__ import annotations

import math

import numpy as np

from hctrellis.kernels.bound import CHECKED, inner, jit
from hctrellis.kernels.weights import split_log_weight
from hctrellis.support.logs import FORBIDDEN, LOG2E

PRIME = 65521  # the largest below 2^16


@inner
def node_log_weight(parent, node):
    """What a cluster adds as a parent."""
    if node.size == 0:
        return 0.0
    return node[parent] / LOG2E if node[parent] > FORBIDDEN else -np.inf


@jit
def weigh_splits(
    parents, offsets, lefts, rights, features, node, params, root_params, distances, log_weights
):
    """Fill log psi of splits, listed one parent after the other (see `passes`), as masks."""
    root = features.shape[1] - 1
    for p in range(parents.size):
        parent = parents[p]
        own = node_log_weight(parent, node)
        prm = root_params if parent == root else params
        for k in range(offsets[p], offsets[p + 1]):
            log_weights[k] = own + split_log_weight(
                lefts[k], rights[k], parent, features, prm, distances
            )


@jit
def solve(features, node, params, root_params, distances, log_z, log_max):
    """Fill log Z and the log weight of the best tree of every cluster.

    log_z, log_max : float64 (2^n)
    node : float64 (2^n or 0), log2 of the cluster's own weight.
    """
    root = log_z.size - 1
    for parent in range(1, log_z.size):
        first = parent & -parent
        others = parent ^ first
        if others == 0:
            log_z[parent] = log_max[parent] = 0.0
            continue
        own = node_log_weight(parent, node)
        prm = root_params if parent == root else params
        peak = -np.inf
        total = 0.0
        best = -np.inf
        sub = others
        while sub > 0:
            sub = (sub - 1) & others
            left = first | sub
            right = others ^ sub
            x = own + split_log_weight(left, right, parent, features, prm, distances)
            best = max(best, x + log_max[left] + log_max[right])
            z = x + log_z[left] + log_z[right]
            if z == -np.inf:
                continue
            if z > peak:
                total = total * math.exp(peak - z) + 1.0
                peak = z
            else:
                total += math.exp(z - peak)
        log_max[parent] = best
        log_z[parent] = peak + math.log(total) if total > 0.0 else -np.inf


@jit
def count_trees(start, stop, features, node, params, root_params, distances, counts):
    """Fill the number of trees of non-zero weight of the clusters from start to stop.

    counts : float64 (2^n), rounded; uint64 (2^n), modulo 2^64; uint16 (2^n), modulo PRIME
    """
    count, modulo, modulo_prime = counts
    root = count.size - 1
    for parent in range(start, stop):
        first = parent & -parent
        others = parent ^ first
        if others == 0:
            count[parent] = 1.0
            modulo[parent] = 1
            modulo_prime[parent] = 1
            continue
        if node_log_weight(parent, node) == -np.inf:
            continue
        prm = root_params if parent == root else params
        trees = 0.0
        remainder = np.uint64(0)
        products = np.uint64(0)  # of numbers below 2^16: the sum over all splits fits
        sub = others
        while sub > 0:
            sub = (sub - 1) & others
            left = first | sub
            right = others ^ sub
            if CHECKED:
                x = split_log_weight(left, right, parent, features, prm, distances)
                if x == -np.inf:
                    continue
            trees += count[left] * count[right]
            remainder += modulo[left] * modulo[right]
            products += np.uint64(modulo_prime[left]) * np.uint64(modulo_prime[right])
        count[parent] = trees
        modulo[parent] = remainder
        modulo_prime[parent] = products % np.uint64(PRIME)
