"""Jets of the toy shower Ginkgo, simulated one after the other from a random generator.

While a jet grows, its nodes are numbered as they are made: the root is 0, children come after
their parents. In what is handed out, leaves are 0 .. n-1 from left to right and the other nodes
n .. 2n-2 in post-order, as in `hctrellis.Tree`.
"""

from __future__ import annotations

import math

import numpy as np

from hctrellis.kernels.compile import jit

LARGEST_RATIO = 0.999  # of the t of a child to the largest t it may have
LEAF = -1
_FIRST_ROOM = 64


@jit
def enlarged(array, length):
    """The array, copied to twice as many rows if it has fewer than `length`."""
    if length <= array.shape[0]:
        return array
    larger = np.empty((2 * length, *array.shape[1:]), array.dtype)
    old, new = array.ravel(), larger.ravel()
    for i in range(old.size):
        new[i] = old[i]
    return larger


@jit
def copy_momentum(source, target):
    """Write four numbers over four others."""
    for i in range(4):
        target[i] = source[i]


@jit
def draw_ratio(rate, rng):
    """An exponential variable below LARGEST_RATIO, by inversion (as if redrawn until it is)."""
    return -math.log1p(rng.random() * math.expm1(-LARGEST_RATIO * rate)) / rate


@jit
def put_on_shell(momentum, t):
    """Set the energy that goes with the momentum of a particle of squared mass t."""
    square = momentum[1] ** 2 + momentum[2] ** 2 + momentum[3] ** 2
    momentum[0] = math.sqrt(t + square)


@jit
def decay(parent, t, t_a, t_b, rng, a, b):
    """Two-body decay, isotropic in the rest frame of the parent.

    parent : float64 (4), its momentum; t, t_a, t_b : squared masses of parent and children
    a, b : float64 (4), the momenta of the children (written)

    The three-momentum of b is what a leaves, and both are put on their mass shells: momentum is
    conserved and masses are right up to rounding, hence energy too.
    """
    mass, m_a, m_b = math.sqrt(t), math.sqrt(t_a), math.sqrt(t_b)
    energy = 0.5 * mass * (1.0 + t_a / t - t_b / t)
    area = (mass + m_a + m_b) * (mass - m_a - m_b) * (mass - m_a + m_b) * (mass + m_a - m_b)
    size = 0.5 * math.sqrt(max(area, 0.0)) / mass
    cosine = 2.0 * rng.random() - 1.0
    angle = 2.0 * math.pi * rng.random()
    across = size * math.sqrt((1.0 - cosine) * (1.0 + cosine))
    x, y, z = across * math.cos(angle), across * math.sin(angle), size * cosine
    along = parent[1] * x + parent[2] * y + parent[3] * z
    boost = (along / (parent[0] + mass) + energy) / mass
    a[1] = x + boost * parent[1]
    a[2] = y + boost * parent[2]
    a[3] = z + boost * parent[3]
    for i in range(1, 4):
        b[i] = parent[i] - a[i]
    put_on_shell(a, t_a)
    put_on_shell(b, t_b)


@jit
def grow(rng, root, t_root, t_cut, lam, lam_root, high, nodes):
    """Simulate one jet; stop as soon as it is sure to have more than `high` leaves.

    nodes : momenta float64 (room, 4), t float64 (room), children int64 (room, 2) with LEAF in the
        first column of a leaf, waiting int64 (room), the nodes still to be looked at
    Returns the number of leaves (more than `high` if it stopped), of nodes, and the arrays, which
    are larger ones if there was no room.
    """
    momenta, t, children, waiting = nodes
    copy_momentum(root, momenta[0])
    t[0] = t_root
    waiting[0] = 0
    n_nodes, n_waiting, n_leaves = 1, 1, 0
    while n_waiting > 0 and n_leaves + n_waiting <= high:
        n_waiting -= 1
        node = waiting[n_waiting]
        if t[node] <= t_cut:
            children[node, 0] = LEAF
            n_leaves += 1
            continue
        if n_nodes + 2 > t.size:
            momenta, t = enlarged(momenta, n_nodes + 2), enlarged(t, n_nodes + 2)
            children, waiting = enlarged(children, n_nodes + 2), enlarged(waiting, n_nodes + 2)
        rate = lam_root if node == 0 else lam
        t_a = t[node] * draw_ratio(rate, rng)
        t_b = (math.sqrt(t[node]) - math.sqrt(t_a)) ** 2 * draw_ratio(rate, rng)
        swap = 1 if rng.random() < 0.5 else 0
        a, b = n_nodes + swap, n_nodes + 1 - swap
        t[a], t[b] = t_a, t_b
        decay(momenta[node], t[node], t_a, t_b, rng, momenta[a], momenta[b])
        children[node, 0], children[node, 1] = n_nodes, n_nodes + 1
        waiting[n_waiting], waiting[n_waiting + 1] = n_nodes + 1, n_nodes
        n_waiting += 2
        n_nodes += 2
    return n_leaves + n_waiting, n_nodes, (momenta, t, children, waiting)


@jit
def log_density(t, limit, lam, t_cut):
    """g(t | T) of the model: a density for t > 0, the probability of stopping for a leaf (0)."""
    if t > 0.0:
        log_g = math.log(lam) - math.log(limit) - lam * t / limit
    else:
        log_g = math.log(-math.expm1(-lam * t_cut / limit))
    return log_g - math.log(-math.expm1(-lam))


@jit
def split_log_likelihood(parent, left, right, lam, t_cut):
    """log psi of a split from the t of its clusters, 0 for a leaf."""
    first, second = max(left, right), min(left, right)
    limit = (math.sqrt(parent) - math.sqrt(first)) ** 2
    return (
        log_density(first, parent, lam, t_cut)
        + log_density(second, limit, lam, t_cut)
        - math.log(4.0 * math.pi)
    )


@jit
def hand_out(nodes, n_nodes, n_leaves, lam, lam_root, t_cut, out_momenta, out_children, out_t):
    """Write a jet with its nodes renumbered; returns the log likelihood of its tree.

    Upwards, each node learns its number of leaves; downwards, the number of its first leaf and
    its own.
    """
    momenta, t, children, _waiting = nodes
    sizes = np.ones(n_nodes, np.int64)
    for node in range(n_nodes - 1, -1, -1):
        if children[node, 0] != LEAF:
            sizes[node] = sizes[children[node, 0]] + sizes[children[node, 1]]
    firsts = np.zeros(n_nodes, np.int64)
    numbers = np.full(n_nodes, 2 * n_leaves - 2, np.int64)
    total = 0.0
    for node in range(n_nodes):
        own, left, right = numbers[node], children[node, 0], children[node, 1]
        out_t[own] = t[node]
        if left == LEAF:
            copy_momentum(momenta[node], out_momenta[own])
            continue
        firsts[left] = firsts[node]
        firsts[right] = firsts[node] + sizes[left]
        numbers[left] = firsts[left] if sizes[left] == 1 else own - sizes[right]
        numbers[right] = firsts[right] if sizes[right] == 1 else own - 1
        out_children[own - n_leaves, 0] = numbers[left]
        out_children[own - n_leaves, 1] = numbers[right]
        t_left = t[left] if sizes[left] > 1 else 0.0
        t_right = t[right] if sizes[right] > 1 else 0.0
        rate = lam_root if node == 0 else lam
        total += split_log_likelihood(t[node], t_left, t_right, rate, t_cut)
    return total


@jit
def showers(rng, root, t_root, t_cut, lam, lam_root, low, high, size, effort):
    """Simulate jets until `size` have `low` to `high` leaves, or `effort` nodes were made.

    Returns, for the m jets that have, with N leaves in all: their numbers of leaves int64 (m),
    momenta float64 (N, 4), children int64 (N - m, 2), t of all nodes float64 (2N - m), log
    likelihoods float64 (m); and how many of the others had fewer and more leaves.
    """
    nodes = (
        np.empty((_FIRST_ROOM, 4)),
        np.empty(_FIRST_ROOM),
        np.empty((_FIRST_ROOM, 2), np.int64),
        np.empty(_FIRST_ROOM, np.int64),
    )
    counts, likelihoods = np.empty(_FIRST_ROOM, np.int64), np.empty(_FIRST_ROOM)
    momenta, t = np.empty((_FIRST_ROOM, 4)), np.empty(_FIRST_ROOM)
    children = np.empty((_FIRST_ROOM, 2), np.int64)
    made, end, fewer, more = 0, 0, 0, 0
    while made < size and effort > 0:
        n_leaves, n_nodes, nodes = grow(rng, root, t_root, t_cut, lam, lam_root, high, nodes)
        effort -= n_nodes
        if n_leaves < low:
            fewer += 1
            continue
        if n_leaves > high:
            more += 1
            continue
        counts, likelihoods = enlarged(counts, made + 1), enlarged(likelihoods, made + 1)
        momenta, children = enlarged(momenta, end + n_leaves), enlarged(children, end + n_leaves)
        t = enlarged(t, 2 * (end + n_leaves))
        counts[made] = n_leaves
        likelihoods[made] = hand_out(
            nodes,
            n_nodes,
            n_leaves,
            lam,
            lam_root,
            t_cut,
            momenta[end:],
            children[end - made :],
            t[2 * end - made :],
        )
        made += 1
        end += n_leaves
    return (
        counts[:made],
        momenta[:end],
        children[: end - made],
        t[: 2 * end - made],
        likelihoods[:made],
        fewer,
        more,
    )
