"""Markov chains over trees by plain moves: a subtree and a place are drawn, then accepted or not.

A template (see `bind`) on top of `gibbs`. Half of the moves put a random subtree beside a random
node of the rest of the tree; the others interchange a child of a node with its sibling. Both
proposals are as probable as their reverse, so a move is accepted with the probability
min(1, weight of the new tree / weight of the old one). Such a move costs less than one of `gibbs`,
since two places are weighed and not all of them, and most are rejected.
"""

from __future__ import annotations

import math

import numpy as np

from hctrellis.kernels.bound import inner, jit
from hctrellis.kernels.climb import (
    add_gains,
    cut,
    insert,
    list_places,
    place,
    plant,
    prune,
    sibling,
    totals,
    walk,
    write_children,
)
from hctrellis.kernels.gibbs import find_root, read_children
from hctrellis.kernels.unions import weigh_list
from hctrellis.support.arrays import LEFT, UP


@inner
def list_path(x, start, tree):
    """Put a node and those above it that are not yet listed into the order, from the root down."""
    order = tree.order
    count = start
    while x >= 0 and not tree.waiting[x]:
        tree.waiting[x] = True
        order[count] = x
        count += 1
        x = tree.nodes[x, UP]
    for k in range((count - start) // 2):
        a, b = start + k, count - 1 - k
        order[a], order[b] = order[b], order[a]
    return count


@inner
def copy_links(s, x, tree):
    """Copy the links from a subtree that was cut to x, to what is beside x, and so on upwards."""
    to_s = tree.codes.size
    while x >= 0:
        above = tree.nodes[x, UP]
        y = sibling(x, tree.nodes) if above >= 0 else x
        for link in range(tree.links.shape[0]):
            if tree.above[x] < 0:  # else it is known from what is below
                tree.links[link, to_s, x] = tree.links[link, s, x]
            if tree.above[y] < 0:
                tree.links[link, to_s, y] = tree.links[link, s, y]
        x = above


@inner
def weigh_two(s, old, new, tree, table, model, splits):
    """Weigh two places for a subtree that was cut: its old one and a new one."""
    copy_links(s, old, tree)
    depth = prune(old, tree, table, model, splits)
    count = list_path(new, list_path(old, 0, tree), tree)
    copy_links(s, new, tree)
    list_places(s, count, tree, table, model, splits)
    fine = weigh_list(splits, table, model)
    add_gains(depth, count, tree, splits)
    for x in tree.order[:count]:
        tree.waiting[x] = False
    x = tree.nodes[old, UP]
    while x >= 0:
        tree.above[x] = -1
        x = tree.nodes[x, UP]
    return fine


@inner
def try_move(uniforms, tree, table, model, splits):
    """One move, by four numbers from 0 to 1; False if a log psi is NaN or +inf."""
    nodes = tree.nodes
    n_nodes = tree.codes.size
    n_leaves = n_nodes // 2 + 1
    root = find_root(tree)
    if uniforms[0] < 0.5 and n_leaves > 2:
        p = n_leaves + int(uniforms[1] * (n_leaves - 2))  # an internal node other than the root
        if p >= root:
            p += 1
        s = nodes[p, LEFT] if uniforms[2] < 0.5 else sibling(nodes[p, LEFT], nodes)
        new = sibling(p, nodes)
        old = cut(s, nodes)
    else:
        s = int(uniforms[1] * (n_nodes - 1))
        if s >= root:
            s += 1
        old = cut(s, nodes)
        count = walk(old, nodes, tree.order)
        new = tree.order[int(uniforms[2] * count)]
    if new == old:
        insert(s, old, nodes)
        return True
    fine = weigh_two(s, old, new, tree, table, model, splits)
    fewer = tree.bars[0, new] - tree.bars[0, old]
    gain = tree.gain[0, new] - tree.gain[0, old]
    if fewer < 0 or (fewer == 0 and uniforms[3] < math.exp(min(0.0, gain))):
        return place(s, new, old, tree, table, model, splits) and fine
    insert(s, old, nodes)
    return fine


@jit
def run_plain_chains(starts, uniforms, arrays, children, log_weights):
    """Run chains at heat 1 from trees without forbidden splits; see `gibbs.run_chains`.

    uniforms : float64 (m, records, moves, 4)
    """
    tree, table, model, splits = arrays
    nodes = np.full(tree.nodes.shape, -1)
    for i in range(starts.shape[0]):
        read_children(starts[i], nodes)
        if not plant(nodes, tree, table, model, splits):
            return False
        for k in range(uniforms.shape[1]):
            for step in range(uniforms.shape[2]):
                if not try_move(uniforms[i, k, step], tree, table, model, splits):
                    return False
                for x in tree.bag[: tree.bag[-1]]:
                    tree.waiting[x] = False
                tree.bag[-1] = 0
            _bars, log_weights[i, k], _scale = totals(tree)
            write_children(tree, children[i, k])
    return True
