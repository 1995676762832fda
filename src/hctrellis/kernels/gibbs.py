"""Markov chains over trees: a random subtree is cut, and its new place is drawn.

A template (see `bind`) on top of `climb`. The subtree is at a node s: a leaf, uniform among all,
or what is reached from it by one or more steps up, each made with the probability CLIMB (if that
is the root, nothing is moved). Its new place is drawn from all places, in proportion to the weights
of the trees that they make. Neither the set of places nor the probability of s, which is that of
coming to s from its own leaves, depends on where s was, so each move draws from the posterior of a
tree given all but the place of one subtree: it is reversible, and leaves the posterior as it is.

With CLIMB = 1/2 all nodes would be as probable (the sum of 2^-depth over the leaves of a binary
tree is 1). Small subtrees are preferred since they have more to choose from.

Weights may be tempered: a tree weighs weight^heat, and each forbidden split multiplies it by
e^bar. With heat 1 and bar -inf this is the posterior.
"""

from __future__ import annotations

import numpy as np

from hctrellis.kernels.bound import inner, jit, lean
from hctrellis.kernels.climb import (
    insert,
    place,
    plant,
    totals,
    weigh_places,
    write_children,
)
from hctrellis.kernels.elementary import exp2
from hctrellis.support.arrays import LEFT, RIGHT, UP
from hctrellis.support.logs import LOG2E

CLIMB = 1 / 3  # the probability of a step up to a larger subtree
NEGLIGIBLE = -64.0  # log2 of a share that no sum of doubles notices


@lean
def draw_place(count, heat, bar, uniform, tree):
    """Draw a place for the subtree that was cut, by a number from 0 to 1."""
    gain, bars, shares = tree.gain[0], tree.bars[0], tree.shares
    places = tree.order[:count]
    if tree.barred[0]:
        least = bars[places[0]]
        for x in places:
            least = min(least, bars[x])
        for x in places:
            more = bars[x] - least
            gain[x] = heat * gain[x] + (bar * more if more > 0 else 0.0)
        heat = 1.0
    top = -np.inf
    for k in range(count):
        shares[k] = heat * gain[places[k]]
        top = max(top, shares[k])
    for k in range(count):
        share = (shares[k] - top) * LOG2E
        shares[k] = exp2(share) if share > NEGLIGIBLE else 0.0
    total = 0.0
    for k in range(count):
        total += shares[k]
    wanted = uniform * total
    total = 0.0
    for k in range(count):
        total += shares[k]
        if total > wanted:
            return places[k]
    return places[count - 1]


@lean
def draw_subtree(uniform, tree):
    """Draw a node by a number from 0 to 1; the root if there is nothing to be moved."""
    n_leaves = tree.codes.size // 2 + 1
    s = int(uniform * n_leaves)
    rest, least = uniform * n_leaves - s, CLIMB
    while rest < least and tree.nodes[s, UP] >= 0:
        s = tree.nodes[s, UP]
        least *= CLIMB
    return s


@lean
def move_subtree(heat, bar, uniforms, tree, table, model, splits):
    """One move, by two numbers from 0 to 1; False if a log psi is NaN or +inf."""
    s = draw_subtree(uniforms[0], tree)
    if tree.nodes[s, UP] < 0:
        return True
    old, count, fine = weigh_places(s, tree, table, model, splits)
    new = draw_place(count, heat, bar, uniforms[1], tree)
    if new == old:
        insert(s, old, tree.nodes)
        return fine
    place(s, new, old, tree, table)
    return fine


@inner
def read_children(children, nodes):
    """A tree as `Tree.children` has it, as nodes with parents and children."""
    n = children.shape[0] + 1
    for k in range(n - 1):
        left, right = children[k, 0], children[k, 1]
        nodes[n + k, LEFT] = left
        nodes[n + k, RIGHT] = right
        nodes[left, UP] = n + k
        nodes[right, UP] = n + k
    nodes[2 * n - 2, UP] = -1


@jit
def run_chains(starts, heats, bars, uniforms, arrays, children, log_weights, forbidden):
    """Run chains, one after the other, and write trees down after every so many moves.

    starts : int (m, n - 1, 2), the trees at which the chains begin, as in `Tree`
    heats, bars : float64 (m), how the weights of each chain are tempered
    uniforms : float64 (m, records, moves, 2), numbers from 0 to 1
    arrays : Climber, its table, model and list of splits, to work in
    children : int (m, records, n - 1, 2), the trees after each record's moves
    log_weights : float64 (m, records), their log weights, less forbidden splits
    forbidden : int64 (m, records), how many forbidden splits they have
    Returns whether all log psi are fine.
    """
    tree, table, model, splits = arrays
    nodes = np.full(tree.nodes.shape, -1)
    for i in range(starts.shape[0]):
        read_children(starts[i], nodes)
        if not plant(nodes, tree, table, model, splits):
            return False
        for k in range(uniforms.shape[1]):
            for step in range(uniforms.shape[2]):
                chosen = uniforms[i, k, step]
                if not move_subtree(heats[i], bars[i], chosen, tree, table, model, splits):
                    return False
            forbidden[i, k], log_weights[i, k], _scale = totals(tree)
            write_children(tree, children[i, k])
    return True
