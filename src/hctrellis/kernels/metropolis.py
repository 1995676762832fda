"""Markov chains over trees by plain moves: a subtree and a place are drawn, then accepted or not.

A template (see `bind`) on top of `gibbs`. Half of the moves put a random subtree beside a random
node (and leave the tree as it is if that node is in the subtree); the others interchange a child of
a node with its sibling. If the root was drawn, nothing is moved. Both proposals are as probable as
their reverse, so a move is accepted with the probability min(1, weight of the new tree / weight of
the old one). Such a move costs less than one of `gibbs`: only the nodes between the old place and
the new one are weighed. Most are rejected.
"""

from __future__ import annotations

import math

import numpy as np

from hctrellis.kernels.bound import CROSS, combine, jit, lean
from hctrellis.kernels.climb import (
    barred,
    cut,
    finite,
    insert,
    link_to,
    list_below,
    place,
    plant,
    sibling,
    totals,
    write_children,
)
from hctrellis.kernels.gibbs import read_children
from hctrellis.kernels.listing import list_split
from hctrellis.kernels.unions import linked, unite, weigh_list
from hctrellis.support.arrays import (
    ACROSS,
    EXTREME,
    LEFT,
    MOVED,
    PLACED,
    RAISED,
    REST,
    SIZE,
    UP,
    WITHOUT,
)


@lean
def is_below(x, s, nodes):
    """Whether a node is s or below it."""
    while x >= 0 and x != s:
        x = nodes[x, UP]
    return x == s


@lean
def reach_one(s, x, tree, table):
    """Fill the links between a subtree that was cut and a node that has never had it below."""
    if tree.links.shape[0] > 0:
        few, many = (s, x) if table[s, SIZE] < table[x, SIZE] else (x, s)
        found = list_below(few, 0, 0, tree)[1]
        for link in range(tree.links.shape[0]):
            tree.joints[link, MOVED, x] = link_to(link, many, 0, found, tree)


@lean
def reach_both(a, x, y, tree):
    """Fill the links between a subtree that was cut and a node from those of its two children."""
    for link in range(tree.links.shape[0]):
        to = tree.joints[link, MOVED]
        to[a] = linked(link, to[x], to[y])


@lean
def join_rest(a, depth, below, y, tree, table):
    """Fill the links between the children of a node, without the subtree that was cut."""
    if tree.links.shape[0] == 0:
        return
    rest = table[tree.rows[below], SIZE]
    if rest <= table[y, SIZE] * (depth + 1):
        found = list_below(below, 0, 0, tree)[1]
        for link in range(tree.links.shape[0]):
            tree.joints[link, WITHOUT, a] = link_to(link, y, 0, found, tree)
        return
    found = list_below(y, 0, 0, tree)[1]
    for link in range(tree.links.shape[0]):
        between = link_to(link, tree.beside[0], 0, found, tree)
        for k in range(1, depth + 1):
            between = linked(link, between, link_to(link, tree.beside[k], 0, found, tree))
        tree.joints[link, WITHOUT, a] = between


@lean
def list_losses(s, old, tree, table, model, splits):
    """List the splits of nodes that are above the old place of s, but not above the new one.

    Returns how many they are, and the node above them.
    """
    nodes, joints = tree.nodes, tree.joints
    n_nodes = tree.codes.size
    for link in range(joints.shape[0]):  # they were siblings
        joints[link, MOVED, old] = joints[link, ACROSS, nodes[s, UP]]
    tree.beside[0] = below = old
    depth = 0
    a = nodes[old, UP]
    while a >= 0:
        y = sibling(below, nodes)
        join_rest(a, depth, below, y, tree, table)
        reach_one(s, y, tree, table)
        if tree.above[a]:
            break
        reach_both(a, below, y, tree)
        row = tree.rows[below]
        unite(n_nodes + a, row, y, joints, WITHOUT, a, table, model)
        list_split(row, y, n_nodes + a, joints[EXTREME, WITHOUT, a] if CROSS else 0.0, splits)
        depth += 1
        tree.beside[depth] = y
        tree.rows[a] = n_nodes + a
        below = a
        a = nodes[a, UP]
    return depth, a


@lean
def list_gains(s, new, meet, tree, table, model, splits):
    """List the splits of the nodes above the new place of s, up to where the old path is met."""
    nodes, joints, rows = tree.nodes, tree.joints, tree.rows
    with_s = 2 * tree.codes.size
    if rows[new] == new and nodes[new, UP] != meet:  # else the losses have needed this link
        reach_one(s, new, tree, table)
    unite(with_s + new, rows[new], s, joints, MOVED, new, table, model)
    cross = joints[EXTREME, MOVED, new] if CROSS else 0.0
    list_split(rows[new], s, with_s + new, cross, splits)
    x = new
    a = nodes[x, UP]
    met = False
    while a >= 0 and not met:
        met = a == meet
        y = sibling(x, nodes)
        parent = a
        if not met:
            reach_one(s, y, tree, table)
            reach_both(a, x, y, tree)
            unite(with_s + a, a, s, joints, MOVED, a, table, model)
            parent = with_s + a
        cross = 0.0
        if CROSS:
            old = joints[EXTREME, WITHOUT if met else ACROSS, a]
            cross = combine(old, joints[EXTREME, MOVED, y])
        list_split(with_s + x, rows[y], parent, cross, splits)
        x = a
        a = nodes[a, UP]


@lean
def gather(s, old, new, depth, meet, tree, splits):
    """What a move gains, and the number of forbidden splits that it adds; what `place` needs."""
    nodes, parts = tree.nodes, tree.parts
    parent = nodes[s, UP]
    gain, bars = -finite(tree.log_psi[parent]), -barred(tree.log_psi[parent])
    a = nodes[old, UP]
    for k in range(depth):
        parts[REST, a] = splits.log_psi[k]
        tree.rows[a] = a
        gain += finite(splits.log_psi[k]) - finite(tree.log_psi[a])
        bars += barred(splits.log_psi[k]) - barred(tree.log_psi[a])
        a = nodes[a, UP]
    parts[PLACED, new] = splits.log_psi[depth]
    gain += finite(splits.log_psi[depth])
    bars += barred(splits.log_psi[depth])
    k = depth
    x = new
    a = nodes[x, UP]
    met = False
    while a >= 0:
        tree.above[a] = False
        if not met:
            met = a == meet
            k += 1
            parts[RAISED, x] = splits.log_psi[k]
            gain += finite(splits.log_psi[k]) - finite(tree.log_psi[a])
            bars += barred(splits.log_psi[k]) - barred(tree.log_psi[a])
        x = a
        a = nodes[a, UP]
    return gain, bars


@lean
def weigh_one(s, old, new, tree, table, model, splits):
    """What is gained by putting a subtree that was cut elsewhere, the bars that this adds, fine."""
    a = tree.nodes[new, UP]
    while a >= 0:
        tree.above[a] = True
        a = tree.nodes[a, UP]
    depth, meet = list_losses(s, old, tree, table, model, splits)
    list_gains(s, new, meet, tree, table, model, splits)
    fine = weigh_list(splits, table, model)
    gain, bars = gather(s, old, new, depth, meet, tree, splits)
    return gain, bars, fine


@lean
def try_move(uniforms, tree, table, model, splits):
    """One move, by four numbers from 0 to 1; False if a log psi is NaN or +inf."""
    nodes = tree.nodes
    n_nodes = tree.codes.size
    n_leaves = n_nodes // 2 + 1
    if uniforms[0] < 0.5:
        p = n_leaves + int(uniforms[1] * (n_leaves - 1))  # an internal node
        if nodes[p, UP] < 0:
            return True
        s = nodes[p, LEFT] if uniforms[2] < 0.5 else sibling(nodes[p, LEFT], nodes)
        new = sibling(p, nodes)
    else:
        s = int(uniforms[1] * n_nodes)
        new = int(uniforms[2] * n_nodes)
        if nodes[s, UP] < 0 or new == nodes[s, UP] or new == sibling(s, nodes):
            return True
        if is_below(new, s, nodes):
            return True
    old = cut(s, nodes)
    gain, bars, fine = weigh_one(s, old, new, tree, table, model, splits)
    if bars < 0 or (bars == 0 and uniforms[3] < math.exp(min(0.0, gain))):
        place(s, new, old, tree, table)
    else:
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
            _bars, log_weights[i, k], _scale = totals(tree)
            write_children(tree, children[i, k])
    return True
