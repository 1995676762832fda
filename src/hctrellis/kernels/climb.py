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

from hctrellis.kernels.bound import CROSS, combine, fused, inner, jit, lean
from hctrellis.kernels.keys import mix
from hctrellis.kernels.listing import list_split
from hctrellis.kernels.unions import linked, unite, unite_places, weigh_list
from hctrellis.support.arrays import (
    ACROSS,
    EXTREME,
    LEFT,
    MOVED,
    PLACED,
    RAISED,
    REST,
    RIGHT,
    SIZE,
    UP,
    WITHOUT,
)
from hctrellis.support.logs import NEVER, TIE

FEWEST_MOVES = 2  # of a perturbation
MOST_MOVES = 5
MOST_TRIES = 200  # of each subtree in one climb: rounding must not make it endless


# -- the tree ----------------------------------------------------------------------------------


@fused
def sibling(x, nodes):
    """The other child of the parent of a node."""
    above = nodes[x, UP]
    return nodes[above, LEFT] + nodes[above, RIGHT] - x


@lean
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


@lean
def list_below(x, count, found, tree):
    """List a node and those below it, parents first, after `count` others; its leaves likewise.

    Returns how many are listed then. Without branches: half of the nodes are leaves, at random.
    """
    nodes, order, leaves, joins = tree.nodes, tree.order, tree.leaves, tree.joins
    order[count] = x
    k = count
    count += 1
    while k < count:
        x = order[k]
        left = nodes[x, LEFT]
        order[count] = left
        order[count + 1] = nodes[x, RIGHT]
        leaves[found] = x
        joins[k - found] = x
        count += 2 if left >= 0 else 0
        found += 0 if left >= 0 else 1
        k += 1
    return count, found


@jit
def walk(start, tree):
    """List the nodes of the tree that has a node, from the root down; returns how many."""
    while tree.nodes[start, UP] >= 0:
        start = tree.nodes[start, UP]
    return list_below(start, 0, 0, tree)[0]


@inner
def copy_nodes(source, target):
    """Copy a tree."""
    for x in range(source.shape[0]):
        for column in range(source.shape[1]):
            target[x, column] = source[x, column]


@lean
def copy_row(source, target, table):
    """Copy a row of a table."""
    for column in range(table.shape[1]):
        table[target, column] = table[source, column]


@lean
def add_links(x, tree):
    """Fill the links from an internal node to all leaves from those of its two children."""
    left, right = tree.nodes[x, LEFT], tree.nodes[x, RIGHT]
    for link in range(tree.links.shape[0]):
        a, b, both = tree.links[link, left], tree.links[link, right], tree.links[link, x]
        for leaf in range(both.size):
            both[leaf] = linked(link, a[leaf], b[leaf])


@lean
def link_to(link, x, start, stop, tree):
    """The link between a node and some of the listed leaves."""
    row, leaves = tree.links[link, x], tree.leaves
    found = row[leaves[start]]
    k = start + 1
    if stop - k >= 8:  # four side by side, none of which waits for another
        a, b, c, d = found, row[leaves[k]], row[leaves[k + 1]], row[leaves[k + 2]]
        k += 3
        while k + 4 <= stop:
            a = linked(link, a, row[leaves[k]])
            b = linked(link, b, row[leaves[k + 1]])
            c = linked(link, c, row[leaves[k + 2]])
            d = linked(link, d, row[leaves[k + 3]])
            k += 4
        found = linked(link, linked(link, a, b), linked(link, c, d))
    while k < stop:
        found = linked(link, found, row[leaves[k]])
        k += 1
    return found


@lean
def refresh(x, tree, table, model, splits):
    """Recompute what is kept about an internal node from its two children."""
    left, right = tree.nodes[x, LEFT], tree.nodes[x, RIGHT]
    add_links(x, tree)
    if tree.links.shape[0] > 0:
        few, many = (left, right) if table[left, SIZE] < table[right, SIZE] else (right, left)
        found = list_below(few, 0, 0, tree)[1]
        for link in range(tree.links.shape[0]):
            tree.joints[link, ACROSS, x] = link_to(link, many, 0, found, tree)
    tree.codes[x] = tree.codes[left] ^ tree.codes[right]
    unite(x, left, right, tree.joints, ACROSS, x, table, model)
    list_split(left, right, x, tree.joints[EXTREME, ACROSS, x] if CROSS else 0.0, splits)
    fine = weigh_list(splits, table, model)
    tree.log_psi[x] = splits.log_psi[0]
    return fine


@jit
def plant(nodes, tree, table, model, splits):
    """Make the tree the given one: nodes whose split has changed are recomputed."""
    fine = True
    old, codes = tree.nodes.copy(), tree.codes.copy()
    copy_nodes(nodes, tree.nodes)
    order = tree.order[: walk(0, tree)].copy()
    for x in order[::-1]:
        if nodes[x, LEFT] < 0:
            continue
        a, b = tree.codes[nodes[x, LEFT]], tree.codes[nodes[x, RIGHT]]
        c, d = codes[old[x, LEFT]], codes[old[x, RIGHT]]
        new = old[x, LEFT] < 0 or not ((a == c and b == d) or (a == d and b == c))
        if new and not refresh(x, tree, table, model, splits):
            fine = False
    return fine


# -- moves -------------------------------------------------------------------------------------


@lean
def link_rest(link, depth, y, before, found, tree):
    """The link between a node beside the path up from a subtree that was cut, and what is below.

    The listed leaves are those of what is below, then, from `before` on, those of y. What is below
    is made of `depth + 1` nodes that are beside the path.
    """
    if before <= (found - before) * (depth + 1):
        return link_to(link, y, 0, before, tree)
    between = link_to(link, tree.beside[0], before, found, tree)
    for k in range(1, depth + 1):
        between = linked(link, between, link_to(link, tree.beside[k], before, found, tree))
    return between


@lean
def prune(left_over, tree, table, model, splits):
    """Describe the nodes above a subtree that was cut, without its leaves.

    Returns how many they are, and how many nodes there are without the subtree: tree.order has
    them, parents first. The splits of the former are the first to be weighed.
    """
    nodes, joints, order = tree.nodes, tree.joints, tree.order
    n_nodes = tree.codes.size
    depth = 0
    x = nodes[left_over, UP]
    while x >= 0:
        depth += 1
        x = nodes[x, UP]
    count, found = list_below(left_over, depth, 0, tree)
    tree.beside[0] = below = row = left_over
    x = nodes[left_over, UP]
    for k in range(depth):
        order[depth - 1 - k] = tree.joins[depth - 1 - k] = x
        y = sibling(below, nodes)
        before = found
        count, found = list_below(y, count, found, tree)
        for link in range(joints.shape[0]):
            joints[link, WITHOUT, x] = link_rest(link, k, y, before, found, tree)
        unite(n_nodes + x, row, y, joints, WITHOUT, x, table, model)
        list_split(row, y, n_nodes + x, joints[EXTREME, WITHOUT, x] if CROSS else 0.0, splits)
        tree.beside[k + 1] = y
        below = x
        row = n_nodes + x
        tree.rows[x] = row
        x = nodes[x, UP]
    return depth, count


@lean
def reach(s, count, tree):
    """Fill the links between a subtree that was cut and all nodes without it, which are listed."""
    nodes = tree.nodes
    n_leaves = tree.links.shape[2]
    joins = tree.joins[: (count - 1) // 2]
    for link in range(tree.links.shape[0]):
        row, to = tree.links[link, s], tree.joints[link, MOVED]
        for leaf in range(n_leaves):
            to[leaf] = row[leaf]
        for x in joins[::-1]:
            to[x] = linked(link, to[nodes[x, LEFT]], to[nodes[x, RIGHT]])


@lean
def list_places(s, depth, count, tree, table, model, splits):
    """List the splits that putting s back makes: for each place but the first, that above it too.

    The first place is above the root.
    """
    joints, nodes, rows, listed = tree.joints, tree.nodes, tree.rows, splits.rows
    with_s = 2 * tree.codes.size
    unite_places(s, count, with_s, joints, tree.order, rows, table, model)
    for k in range(count):
        x = tree.order[k]
        at = depth + 2 * k
        listed[at, 0], listed[at, 1], listed[at, 2] = rows[x], s, with_s + x
        if CROSS:
            splits.cross[at] = joints[EXTREME, MOVED, x]
        if k > 0:
            a, y = nodes[x, UP], sibling(x, nodes)
            listed[at - 1, 0], listed[at - 1, 1] = with_s + x, rows[y]
            listed[at - 1, 2] = with_s + a
            if CROSS:
                old = joints[EXTREME, ACROSS if rows[a] == a else WITHOUT, a]
                splits.cross[at - 1] = combine(old, joints[EXTREME, MOVED, y])
    splits.number[0] = depth + 2 * count - 1


@fused
def barred(log_psi):
    """1 for a forbidden split, else 0."""
    return 1 if log_psi == -np.inf else 0


@fused
def finite(log_psi):
    """The log weight of a split, 0 if it is forbidden."""
    return 0.0 if log_psi == -np.inf else log_psi


@lean
def any_barred(depth, count, tree, splits):
    """Whether any split of the tree is forbidden, or any that is made by putting s back."""
    found = False
    for k in range(depth + 2 * count - 1):
        found |= splits.log_psi[k] == -np.inf
    for x in range(tree.log_psi.size):
        found |= tree.log_psi[x] == -np.inf
    return found


@lean
def add_gains(depth, count, tree, splits):
    """Fill gain and bars of all places from the weights of the listed splits."""
    gain, bars, parts, nodes = tree.gain, tree.bars, tree.parts, tree.nodes
    for x in range(tree.log_psi.size):
        parts[REST, x] = tree.log_psi[x]
    for k in range(depth):
        parts[REST, tree.order[depth - 1 - k]] = splits.log_psi[k]
    tree.barred[0] = any_barred(depth, count, tree, splits)
    x = tree.order[0]
    parts[PLACED, x] = splits.log_psi[depth]
    gain[0, x], gain[1, x] = finite(splits.log_psi[depth]), 0.0
    bars[0, x], bars[1, x] = barred(splits.log_psi[depth]), 0
    for k in range(1, count):
        x = tree.order[k]
        at = depth + 2 * k
        a = nodes[x, UP]
        new, placed = splits.log_psi[at - 1], splits.log_psi[at]
        old = parts[REST, a]
        parts[RAISED, x], parts[PLACED, x] = new, placed
        if tree.barred[0]:
            bars[1, x] = bars[1, a] + (barred(new) - barred(old))
            bars[0, x] = bars[1, x] + barred(placed)
            new, old, placed = finite(new), finite(old), finite(placed)
        above = gain[1, a] + (new - old)
        gain[1, x] = above
        gain[0, x] = above + placed
    if not tree.barred[0]:
        bars[0, :] = 0


@lean
def weigh_places(s, tree, table, model, splits):
    """Cut the subtree at s and weigh all places for it.

    Returns its old sibling, the number of places (tree.order) and whether all log psi are fine.
    The differences of gain and bars between two places are those between the trees.
    """
    left_over = cut(s, tree.nodes)
    depth, count = prune(left_over, tree, table, model, splits)
    reach(s, count, tree)
    list_places(s, depth, count, tree, table, model, splits)
    fine = weigh_list(splits, table, model)
    add_gains(depth, count, tree, splits)
    for x in tree.order[:depth]:
        tree.rows[x] = x
    return left_over, depth, count, fine


@jit
def weigh_moves(s, tree, table, model, splits):
    """The same, for Python."""
    old, _depth, count, fine = weigh_places(s, tree, table, model, splits)
    return old, count, fine


@lean
def best_place(count, tree):
    """The place with the fewest bars, and of these the one with the largest gain."""
    gain, bars = tree.gain[0], tree.bars[0]
    best = tree.order[0]
    for x in tree.order[1:count]:
        if bars[x] < bars[best] or (bars[x] == bars[best] and gain[x] > gain[best]):
            best = x
    return best


@lean
def try_later(x, tree):
    """Put a subtree into the bag."""
    if not tree.waiting[x]:
        tree.waiting[x] = True
        tree.bag[tree.bag[-1]] = x
        tree.bag[-1] += 1


@lean
def place(s, x, left_over, tree, table):
    """Put back a subtree that was cut and weighed, as the sibling of x.

    What changes is above its old and its new place, up to where the two paths meet. Returns how
    many nodes these are (tree.order).
    """
    nodes, joints, parts, codes = tree.nodes, tree.joints, tree.parts, tree.codes
    n_nodes = codes.size
    changed = tree.order
    a = nodes[x, UP]
    while a >= 0:
        tree.above[a] = True
        a = nodes[a, UP]
    count = 0
    meet = nodes[left_over, UP]
    while meet >= 0 and not tree.above[meet]:
        copy_row(n_nodes + meet, meet, table)
        tree.log_psi[meet] = parts[REST, meet]
        for link in range(joints.shape[0]):
            joints[link, ACROSS, meet] = joints[link, WITHOUT, meet]
        codes[meet] ^= codes[s]
        add_links(meet, tree)
        changed[count] = meet
        count += 1
        meet = nodes[meet, UP]
    insert(s, x, nodes)
    parent = nodes[s, UP]
    copy_row(2 * n_nodes + x, parent, table)
    tree.log_psi[parent] = parts[PLACED, x]
    for link in range(joints.shape[0]):
        joints[link, ACROSS, parent] = joints[link, MOVED, x]
    codes[parent] = codes[x] ^ codes[s]
    add_links(parent, tree)
    changed[count] = parent
    count += 1
    met = False
    below = parent
    a = nodes[parent, UP]
    while a >= 0:
        tree.above[a] = False
        if not met:
            met = a == meet
            y = sibling(below, nodes)
            tree.log_psi[a] = parts[RAISED, x]
            for link in range(joints.shape[0]):
                old = joints[link, WITHOUT if met else ACROSS, a]
                joints[link, ACROSS, a] = linked(link, old, joints[link, MOVED, y])
            if not met:  # where they meet, the cluster is the same as before
                copy_row(2 * n_nodes + a, a, table)
                codes[a] ^= codes[s]
                add_links(a, tree)
            changed[count] = a
            count += 1
        below = x = a
        a = nodes[a, UP]
    return count


@lean
def try_near(count, tree):
    """Put the first listed nodes, their children and parents into the bag."""
    for a in tree.order[:count]:
        for node in tree.nodes[a]:
            if node >= 0:
                try_later(node, tree)


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
        old, _depth, count, fine = weigh_places(s, tree, table, model, splits)
        new = best_place(count, tree)
        fewer = tree.bars[0, new] - tree.bars[0, old]
        gain = tree.gain[0, new] - tree.gain[0, old]
        if fewer < 0 or (fewer == 0 and gain > least):
            try_near(place(s, new, old, tree, table), tree)
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
        old, _depth, count, good = weigh_places(s, tree, table, model, splits)
        new = tree.order[draw(count, rng)]
        fine = fine and good
        if new == old:
            insert(s, old, tree.nodes)
        else:
            try_near(place(s, new, old, tree, table), tree)
    return fine


@jit
def write_children(tree, children):
    """Write the tree down as in `Tree`: children before parents, the root last."""
    n_leaves = children.shape[0] + 1
    number = np.arange(tree.codes.size)
    made = n_leaves
    for k in range(walk(0, tree) - 1, -1, -1):
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
