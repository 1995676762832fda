"""Markov chains over trees: a subtree is cut, and another place for it is drawn.

A template (see `bind`) on top of `climb`. The subtree is at a node s: a leaf, or what is reached
from it by one or more steps up, each made with the probability CLIMB (if that is the root, nothing
is moved). Another place for it is drawn from all places but its own, in proportion to the weights
of the trees that they make, and taken with the probability

    min(1, (sum of all weights but the old one) / (sum of all weights but the new one)).

Neither the set of places nor the probability of s depends on where s was, so for each leaf this is
a move between the places of one subtree, and nothing else. It is reversible, leaves the posterior
as it is, and changes the tree more often than a draw from all places would.

Reference: J. S. Liu, Peskun's theorem and a modified discrete-state Gibbs sampler, Biometrika 83
(1996) 681.

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

CLIMB = 1 / 4  # the probability of a step up to a larger subtree
NEGLIGIBLE = -64.0  # log2 of a share that no sum of doubles notices


@lean
def draw_place(old, count, heat, bar, uniform, tree):
    """Draw a place for the subtree that was cut, by a number from 0 to 1; order[old] was its own.

    Another one is proposed, in proportion to the weights of all others, and taken with the
    probability that leaves the distribution as it is.
    """
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
    own, shares[old] = shares[old], 0.0
    others = 0.0
    for k in range(count):
        others += shares[k]
    wanted = uniform * others
    total = 0.0
    for k in range(count):
        before = total
        total += shares[k]
        if total > wanted:
            again = (wanted - before) / shares[k]  # a number from 0 to 1 as well
            taken = again * (others - shares[k] + own) < others
            return places[k] if taken else places[old]
    return places[old]


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
    old, depth, count, fine = weigh_places(s, tree, table, model, splits)
    new = draw_place(depth, count, heat, bar, uniforms[1], tree)
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
