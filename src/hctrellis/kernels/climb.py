"""Local search over trees: subtrees are moved as long as that makes the tree better.

A template (see `bind`) on top of `unions`. A move takes the subtree at a node s out of the tree, so
that its sibling takes the place of their parent, and puts it back as the sibling of some node x.
With X the leaves of x other than those of s, and A and Y the same for its parent and its sibling,
the log weight of the new tree is, but for what is the same for all x,

    log psi(X, s | X+s) + sum over x and the nodes above it, but the root, of
                          log psi(X+s, Y | A+s) - log psi(X, Y | A).

One walk from the root down gives this for all x: about 4n evaluations of psi. All sums are made by
adding, never by subtracting, so nothing is lost to rounding, however many moves are made.

Forbidden splits are counted apart ("bars"): a tree with fewer of them is always better.

A table has three rows for each of the N nodes: node x is in row x, without s in row N + x (if x is
above s), and with s added in row 2N + x.
"""

from __future__ import annotations

import numpy as np

from hctrellis.kernels.bound import CROSS, combine, inner, jit
from hctrellis.kernels.keys import mix
from hctrellis.kernels.listing import list_split
from hctrellis.kernels.unions import linked, unite, weigh_list
from hctrellis.support.arrays import EXTREME, LEFT, RIGHT, UP
from hctrellis.support.logs import NEVER, TIE

FEWEST_MOVES = 2  # of a perturbation
MOST_MOVES = 5
MOST_TRIES = 200  # of each subtree in one climb: rounding must not make it endless


# -- the tree ----------------------------------------------------------------------------------


@inner
def sibling(x, nodes):
    """The other child of the parent of a node."""
    above = nodes[x, UP]
    return nodes[above, LEFT] + nodes[above, RIGHT] - x


@inner
def replace_child(parent, old, new, nodes):
    """Make a node the child of another (or the root: parent -1) in place of an old child."""
    nodes[new, UP] = parent
    if parent >= 0:
        nodes[parent, LEFT if nodes[parent, LEFT] == old else RIGHT] = new


@jit
def cut(s, nodes):
    """Take the subtree at s out of the tree, together with its parent; returns its sibling."""
    left_over = sibling(s, nodes)
    parent = nodes[s, UP]
    replace_child(nodes[parent, UP], parent, left_over, nodes)
    return left_over


@jit
def insert(s, x, nodes):
    """Put a subtree that was cut back into the tree, as the sibling of x."""
    parent = nodes[s, UP]
    replace_child(nodes[x, UP], x, parent, nodes)
    nodes[x, UP] = parent
    nodes[parent, LEFT] = x
    nodes[parent, RIGHT] = s


@jit
def walk(start, nodes, order):
    """List the nodes of the tree that has a node, from the root down; returns how many."""
    while nodes[start, UP] >= 0:
        start = nodes[start, UP]
    order[0] = start
    count = 1
    k = 0
    while k < count:
        x = order[k]
        if nodes[x, LEFT] >= 0:
            order[count] = nodes[x, LEFT]
            order[count + 1] = nodes[x, RIGHT]
            count += 2
        k += 1
    return count


@inner
def copy_nodes(source, target):
    """Copy a tree."""
    for x in range(source.shape[0]):
        for column in range(source.shape[1]):
            target[x, column] = source[x, column]


@inner
def refresh(x, tree, table, model, splits):
    """Recompute what is kept about an internal node from its two children."""
    left, right = tree.nodes[x, LEFT], tree.nodes[x, RIGHT]
    for link in range(tree.links.shape[0]):
        for y in range(tree.codes.size):
            both = linked(link, tree.links[link, left, y], tree.links[link, right, y])
            tree.links[link, x, y] = both
            tree.links[link, y, x] = both
    tree.codes[x] = tree.codes[left] ^ tree.codes[right]
    unite(x, left, right, tree.links, left, right, table, model)
    cross = tree.links[EXTREME, left, right] if CROSS else 0.0
    list_split(left, right, x, cross, splits)
    fine = weigh_list(splits, table, model)
    tree.log_psi[x] = splits.log_psi[0]
    return fine


@jit
def plant(nodes, tree, table, model, splits):
    """Make the tree the given one: nodes whose split has changed are recomputed."""
    fine = True
    old, codes = tree.nodes.copy(), tree.codes.copy()
    copy_nodes(nodes, tree.nodes)
    for k in range(walk(0, nodes, tree.order) - 1, -1, -1):
        x = tree.order[k]
        if nodes[x, LEFT] < 0:
            continue
        a, b = tree.codes[nodes[x, LEFT]], tree.codes[nodes[x, RIGHT]]
        c, d = codes[old[x, LEFT]], codes[old[x, RIGHT]]
        new = old[x, LEFT] < 0 or not ((a == c and b == d) or (a == d and b == c))
        if new and not refresh(x, tree, table, model, splits):
            fine = False
    return fine


# -- moves -------------------------------------------------------------------------------------


@inner
def prune(left_over, tree, table, model, splits):
    """Describe the nodes above a subtree that was cut, without its leaves; returns how many.

    Their splits are the first to be weighed.
    """
    nodes, links, path = tree.nodes, tree.links, tree.order
    n_nodes = tree.codes.size
    to_s, inside = n_nodes, n_nodes + 1
    path[0] = below = row = left_over
    x = nodes[left_over, UP]
    depth = 0
    while x >= 0:
        y = sibling(below, nodes)
        for link in range(links.shape[0]):
            between = links[link, left_over, y]
            for k in range(1, depth + 1):
                between = linked(link, between, links[link, path[k], y])
            links[link, inside, x] = between
            links[link, to_s, x] = linked(link, links[link, to_s, below], links[link, to_s, y])
        unite(n_nodes + x, row, y, links, inside, x, table, model)
        list_split(row, y, n_nodes + x, links[EXTREME, inside, x] if CROSS else 0.0, splits)
        tree.above[x] = depth
        depth += 1
        path[depth] = y
        below = x
        row = n_nodes + x
        x = nodes[x, UP]
    return depth


@inner
def list_places(s, count, tree, table, model, splits):
    """List the splits that putting s back makes, two for each place but one for the root."""
    links = tree.links
    n_nodes = tree.codes.size
    to_s, inside, with_s = n_nodes, n_nodes + 1, 2 * n_nodes
    for x in tree.order[:count]:
        row = x if tree.above[x] < 0 else n_nodes + x
        unite(with_s + x, row, s, links, to_s, x, table, model)
        list_split(row, s, with_s + x, links[EXTREME, to_s, x] if CROSS else 0.0, splits)
        a = tree.nodes[x, UP]
        if a >= 0:
            y = sibling(x, tree.nodes)
            cross = 0.0
            if CROSS:
                old = links[EXTREME, x, y] if tree.above[a] < 0 else links[EXTREME, inside, a]
                cross = combine(old, links[EXTREME, to_s, y])
            other = y if tree.above[y] < 0 else n_nodes + y
            list_split(with_s + x, other, with_s + a, cross, splits)


@inner
def barred(log_psi):
    """1 for a forbidden split, else 0."""
    return 1 if log_psi == -np.inf else 0


@inner
def finite(log_psi):
    """The log weight of a split, 0 if it is forbidden."""
    return 0.0 if log_psi == -np.inf else log_psi


@inner
def add_gains(depth, count, tree, splits):
    """Fill gain and bars of all places from the weights of the listed splits."""
    gain, bars = tree.gain, tree.bars
    k = depth
    for x in tree.order[:count]:
        place = splits.log_psi[k]
        a = tree.nodes[x, UP]
        gain[1, x] = 0.0
        bars[1, x] = 0
        if a >= 0:
            k += 1
            new = splits.log_psi[k]
            old = tree.log_psi[a] if tree.above[a] < 0 else splits.log_psi[tree.above[a]]
            gain[1, x] = gain[1, a] + (finite(new) - finite(old))
            bars[1, x] = bars[1, a] + (barred(new) - barred(old))
        gain[0, x] = gain[1, x] + finite(place)
        bars[0, x] = bars[1, x] + barred(place)
        k += 1


@jit
def weigh_moves(s, tree, table, model, splits):
    """Cut the subtree at s and weigh all places for it.

    Returns its old sibling, the number of places (tree.order) and whether all log psi are fine.
    The differences of gain and bars between two places are those between the trees.
    """
    n_nodes = tree.codes.size
    left_over = cut(s, tree.nodes)
    for link in range(tree.links.shape[0]):
        for x in range(n_nodes):
            tree.links[link, n_nodes, x] = tree.links[link, s, x]
    depth = prune(left_over, tree, table, model, splits)
    count = walk(left_over, tree.nodes, tree.order)
    list_places(s, count, tree, table, model, splits)
    fine = weigh_list(splits, table, model)
    add_gains(depth, count, tree, splits)
    x = tree.nodes[left_over, UP]
    while x >= 0:
        tree.above[x] = -1
        x = tree.nodes[x, UP]
    return left_over, count, fine


@inner
def best_place(count, tree):
    """The place with the fewest bars, and of these the one with the largest gain."""
    gain, bars = tree.gain[0], tree.bars[0]
    best = tree.order[0]
    for x in tree.order[1:count]:
        if bars[x] < bars[best] or (bars[x] == bars[best] and gain[x] > gain[best]):
            best = x
    return best


@inner
def try_later(x, tree):
    """Put a subtree into the bag."""
    if not tree.waiting[x]:
        tree.waiting[x] = True
        tree.bag[tree.bag[-1]] = x
        tree.bag[-1] += 1


@jit
def place(s, x, left_over, tree, table, model, splits):
    """Put back a subtree that was cut, as the sibling of x, and recompute what changes.

    That is what is above its old and its new place, up to where the two paths meet. These nodes and
    their children are to be tried next.
    """
    nodes = tree.nodes
    insert(s, x, nodes)
    parent = nodes[s, UP]
    a = parent
    while a >= 0:
        tree.above[a] = 0
        a = nodes[a, UP]
    changed = tree.order
    count = 0
    meet = nodes[left_over, UP]
    while meet >= 0 and tree.above[meet] < 0:
        changed[count] = meet
        count += 1
        meet = nodes[meet, UP]
    a = parent
    met = False
    while a >= 0:
        tree.above[a] = -1
        if not met:
            changed[count] = a
            count += 1
            met = a == meet
        a = nodes[a, UP]
    fine = True
    for a in changed[:count]:
        fine = refresh(a, tree, table, model, splits) and fine
        for node in nodes[a]:
            if node >= 0:
                try_later(node, tree)
    return fine


# -- the search --------------------------------------------------------------------------------


@jit
def totals(tree):
    """The number of forbidden splits, the log weight of all others, and the sum of their sizes."""
    bars, total, scale = 0, 0.0, 0.0
    for x in range(tree.log_psi.size // 2 + 1, tree.log_psi.size):
        bars += barred(tree.log_psi[x])
        total += finite(tree.log_psi[x])
        scale += abs(finite(tree.log_psi[x]))
    return bars, total, scale


@inner
def value_of(tree):
    """The log weight of the tree; NEVER times the number of forbidden splits if there are any."""
    bars, total, _scale = totals(tree)
    return total if bars == 0 else bars * NEVER


@jit
def try_all(tree):
    """Put all subtrees into the bag."""
    for x in range(tree.codes.size):
        try_later(x, tree)


@jit
def draw(n, rng):
    """A random whole number below n."""
    return int(rng.random() * n)


@jit
def climb(most, tree, table, model, splits, rng):
    """Move subtrees from the bag to their best places, where that makes the tree better.

    At most `most` are tried. False if a log psi is NaN or +inf.
    """
    least = TIE * totals(tree)[2]
    fine = True
    while tree.bag[-1] > 0 and most > 0 and fine:
        most -= 1
        at = draw(tree.bag[-1], rng)
        s = tree.bag[at]
        tree.bag[-1] -= 1
        tree.bag[at] = tree.bag[tree.bag[-1]]
        tree.waiting[s] = False
        if tree.nodes[s, UP] < 0:
            continue
        old, count, fine = weigh_moves(s, tree, table, model, splits)
        new = best_place(count, tree)
        fewer = tree.bars[0, new] - tree.bars[0, old]
        gain = tree.gain[0, new] - tree.gain[0, old]
        if fewer < 0 or (fewer == 0 and gain > least):
            fine = place(s, new, old, tree, table, model, splits) and fine
        else:
            insert(s, old, tree.nodes)
    return fine


@jit
def perturb(tree, table, model, splits, rng):
    """Move a few random subtrees to random places."""
    fine = True
    for _ in range(FEWEST_MOVES + draw(MOST_MOVES - FEWEST_MOVES + 1, rng)):
        s = draw(tree.codes.size, rng)
        if tree.nodes[s, UP] < 0:
            continue
        old = cut(s, tree.nodes)
        new = tree.order[draw(walk(old, tree.nodes, tree.order), rng)]
        if new == old:
            insert(s, old, tree.nodes)
        else:
            fine = place(s, new, old, tree, table, model, splits) and fine
    return fine


@jit
def write_children(tree, children):
    """Write the tree down as in `Tree`: children before parents, the root last."""
    n_leaves = children.shape[0] + 1
    number = np.arange(tree.codes.size)
    made = n_leaves
    for k in range(walk(0, tree.nodes, tree.order) - 1, -1, -1):
        x = tree.order[k]
        if x >= n_leaves:
            children[made - n_leaves, 0] = number[tree.nodes[x, LEFT]]
            children[made - n_leaves, 1] = number[tree.nodes[x, RIGHT]]
            number[x] = made
            made += 1


@inner
def remember(value, tree, kept):
    """Keep the tree if it is new and among the best."""
    key = 0
    for x in range(tree.codes.size // 2 + 1, tree.codes.size):
        key ^= mix(tree.codes[x])
    count = kept.number[0]
    at = 0
    for k in range(count):
        if kept.keys[k] == key:
            return
        if kept.values[k] < kept.values[at]:
            at = k
    if count < kept.keys.size:
        at = count
        kept.number[0] += 1
    elif value <= kept.values[at]:
        return
    kept.keys[at] = key
    kept.values[at] = value
    write_children(tree, kept.children[at])


@jit
def settle(tree, table, model, splits, kept):
    """Go on from this tree if it is not worse than the one before, else from that one."""
    value = value_of(tree)
    remember(value, tree, kept)
    if value >= kept.value[0] - TIE * abs(value):
        copy_nodes(tree.nodes, kept.nodes)
        kept.value[0] = value
        return True
    return plant(kept.nodes, tree, table, model, splits)


@jit
def search(n_rounds, tree, table, model, splits, kept, rng):
    """Perturb the tree and climb again, `n_rounds` times; False if a log psi is NaN or +inf.

    After a perturbation only what is near it is tried, and all else only if the tree has become
    better than the one before.
    """
    most = MOST_TRIES * tree.codes.size
    for _ in range(n_rounds):
        fine = perturb(tree, table, model, splits, rng)
        fine = climb(most, tree, table, model, splits, rng) and fine
        if fine and value_of(tree) > kept.value[0]:
            try_all(tree)
            fine = climb(most, tree, table, model, splits, rng)
        if not (fine and settle(tree, table, model, splits, kept)):
            return False
    return True
