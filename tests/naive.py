"""The oracle: all rooted binary trees over a few leaves, listed with plain sets and weighed apiece.

Nothing of the package is used here. A *psi* is a function psi(left, right) of two frozensets of
leaf numbers that returns the log weight of a split. A *listing* is the list of all trees of n
leaves with their log weights; a tree is the frozenset of its clusters of two or more leaves.
"""

import math
from collections import defaultdict
from fractions import Fraction
from functools import cache
from itertools import combinations

TIE = 1e-9  # log weights closer than this, relative to their size, are equal


# ---- trees ------------------------------------------------------------------------------------


def splits_of(cluster):
    """All unordered splits of a set of leaves: the first child has the smallest leaf."""
    first, *others = sorted(cluster)
    for size in range(len(others)):
        for some in combinations(others, size):
            left = frozenset((first, *some))
            yield left, cluster - left


@cache
def trees_over(cluster):
    """All trees over a set of leaves, each as the tuple of its splits."""
    if len(cluster) == 1:
        return ((),)
    return tuple(
        ((left, right), *lefts, *rights)
        for left, right in splits_of(cluster)
        for lefts in trees_over(left)
        for rights in trees_over(right)
    )


def all_trees(n):
    """All trees over the leaves 0 .. n-1."""
    return trees_over(frozenset(range(n)))


def clusters_of(splits):
    """The clusters of two or more leaves of a tree given by its splits."""
    return frozenset(left | right for left, right in splits)


def listing(n, psi):
    """Every tree (as a set of clusters) with its log weight."""
    known = {}

    def weight(split):
        if split not in known:
            known[split] = psi(*split)
        return known[split]

    return [(clusters_of(tree), math.fsum(map(weight, tree))) for tree in all_trees(n)]


# ---- questions about a listing ----------------------------------------------------------------


def log_sum(log_weights):
    """log of the sum of e^x."""
    top = max(log_weights, default=-math.inf)
    if top == -math.inf:
        return -math.inf
    return top + math.log(math.fsum(math.exp(x - top) for x in log_weights))


def log_partition(trees):
    return log_sum([weight for _, weight in trees])


def max_log_weight(trees):
    return max(weight for _, weight in trees)


def best_trees(trees, tie=TIE):
    """The trees of largest weight, ties included."""
    top = max_log_weight(trees)
    if top == -math.inf:
        return set()
    return {tree for tree, weight in trees if weight >= top - tie * max(1.0, abs(top))}


def n_trees(trees):
    """The number of trees of non-zero weight."""
    return sum(weight > -math.inf for _, weight in trees)


def probabilities(trees):
    """The probability of each tree."""
    log_z = log_partition(trees)
    return {tree: math.exp(weight - log_z) for tree, weight in trees}


def probability_that(trees, holds):
    """The probability of the trees for which holds(tree)."""
    return math.fsum(p for tree, p in probabilities(trees).items() if holds(tree))


def cluster_marginals(trees):
    """The probability of each cluster of two or more leaves."""
    parts = defaultdict(list)
    for tree, p in probabilities(trees).items():
        for cluster in tree:
            parts[cluster].append(p)
    return {cluster: math.fsum(ps) for cluster, ps in parts.items()}


def subtree_probability(trees, subtree):
    """The probability that a tree has all clusters of a subtree."""
    return probability_that(trees, lambda tree: subtree <= tree)


def given(trees, required=(), forbidden=()):
    """The listing of the trees with all required and no forbidden clusters."""
    return [
        (tree, weight)
        for tree, weight in trees
        if tree.issuperset(required) and tree.isdisjoint(forbidden)
    ]


def top_trees(trees, k):
    """The k trees of largest weight, heaviest first."""
    possible = [pair for pair in trees if pair[1] > -math.inf]
    return sorted(possible, key=lambda pair: -pair[1])[:k]


def entropy(trees):
    """Shannon entropy of the distribution over trees, in nats."""
    return -math.fsum(p * math.log(p) for p in probabilities(trees).values() if p > 0)


def expected_energy(trees, beta=1.0):
    """The mean of -log weight / beta."""
    ps = probabilities(trees)
    return math.fsum(-weight / beta * ps[tree] for tree, weight in trees if weight > -math.inf)


def expected_clusters(trees):
    """For each tree, the expected number of its clusters in a random tree."""
    marginals = cluster_marginals(trees)
    return {tree: math.fsum(marginals[cluster] for cluster in tree) for tree, _ in trees}


def expected_clusters_trees(trees, tie=TIE):
    """The tree or trees that share most clusters with a random tree, in expectation."""
    expected = expected_clusters(trees)
    top = max(expected.values())
    return {tree for tree, value in expected.items() if value >= top - tie}


def majority_clusters(trees, threshold=0.5):
    """The clusters with a probability above the threshold."""
    return {cluster for cluster, p in cluster_marginals(trees).items() if p > threshold}


# ---- the models, from their definitions -------------------------------------------------------


def added(*psis):
    """The sum of log weights."""
    return lambda left, right: math.fsum(psi(left, right) for psi in psis)


def constant(value):
    return lambda left, right: value


def across(matrix, left, right):
    """The entries of a matrix between two clusters."""
    return [float(matrix[i][j]) for i in left for j in right]


def inside(matrix, cluster):
    """The entries of a matrix in a cluster, each unordered pair once."""
    return [float(matrix[i][j]) for i, j in combinations(sorted(cluster), 2)]


def dasgupta(similarity, beta=1.0):
    def psi(left, right):
        return -beta * len(left | right) * math.fsum(across(similarity, left, right))

    return psi


def correlation_clustering(affinity, beta=1.0, ordered_pairs=False):
    times = 2 if ordered_pairs else 1

    def psi(left, right):
        cut = math.fsum(w for w in across(affinity, left, right) if w > 0)
        kept = [w for child in (left, right) for w in inside(affinity, child)]
        return -beta * (cut + times * math.fsum(-w for w in kept if w < 0))

    return psi


def squared_mass(momenta, cluster):
    """E^2 - |p|^2 of the sum of momenta, without rounding before the end; not below 0."""
    sums = [sum(Fraction(float(momenta[i][k])) for i in cluster) for k in range(4)]
    return max(0.0, float(sums[0] ** 2 - sums[1] ** 2 - sums[2] ** 2 - sums[3] ** 2))


def ginkgo(momenta, lam, t_cut, lam_root=None, non_stop=False):
    root = frozenset(range(len(momenta)))

    @cache
    def mass(cluster):
        return squared_mass(momenta, cluster) if len(cluster) > 1 else 0.0

    def g(t, T, rate):
        norm = -math.log(-math.expm1(-rate))
        if t > 0:
            return norm + math.log(rate) - math.log(T) - rate * t / T + goes_on(T, rate)
        stops_at = min(T, t_cut) if non_stop else t_cut
        return norm + math.log(-math.expm1(-rate * stops_at / T) if T > 0 else 1.0)

    def goes_on(T, rate):
        if not non_stop:
            return 0.0
        if t_cut >= T:
            return -math.inf
        above = math.log(-math.expm1(-rate * (T - t_cut) / T))
        return above - rate * t_cut / T - math.log(-math.expm1(-rate))

    def psi(left, right):
        rate = lam if lam_root is None or left | right != root else lam_root
        parent = mass(left | right)
        if parent < t_cut or (non_stop and parent == t_cut):
            return -math.inf
        first, second = max(mass(left), mass(right)), min(mass(left), mass(right))
        rest = (math.sqrt(parent) - math.sqrt(first)) ** 2
        return g(first, parent, rate) + g(second, rest, rate) - math.log(4 * math.pi)

    return psi


def ginkgo_density(momenta, lam, t_cut, lam_root=None, upper=0.999):
    """The density of the leaves: splittings in either order, over their phase space."""
    root = frozenset(range(len(momenta)))

    def f(r, rate):
        return rate * math.exp(-rate * r) / -math.expm1(-upper * rate) if r < upper else 0.0

    @cache
    def mass(cluster):
        return squared_mass(momenta, cluster)

    def psi(left, right):
        rate = lam if lam_root is None or left | right != root else lam_root
        parent, one, other = mass(left | right), mass(left), mass(right)
        stopped = [mass(child) for child in (left, right) if len(child) == 1]
        if parent <= t_cut or any(t > t_cut for t in stopped):
            return -math.inf

        def g(a, b):
            rest = (math.sqrt(parent) - math.sqrt(a)) ** 2
            return f(a / parent, rate) / parent * f(b / rest, rate) / rest if rest > 0 else 0.0

        both = g(one, other) + g(other, one)
        k = (parent - one - other) ** 2 - 4 * one * other
        if both == 0 or k <= 0:
            return -math.inf
        return math.log(both / (4 * math.pi) * 8 * parent / math.sqrt(k))

    return psi


def jet_mass(momenta, lam):
    def f(t, T):
        return math.log(lam) - math.log(T) - math.log(-math.expm1(-lam)) - lam * t / T

    @cache
    def mass(cluster):
        return squared_mass(momenta, cluster)

    def psi(left, right):
        parent = mass(left | right)
        if parent == 0:
            return -math.inf
        return f(mass(left), parent) + f(mass(right), parent)

    return psi


def distance_matrix(points):
    """Euclidean distances."""
    return [[math.dist(a, b) for b in points] for a in points]


def from_distances(extreme, distances, beta=1.0):
    """Single (min), complete (max) and average (mean) linkage."""
    return lambda left, right: -beta * extreme(across(distances, left, right))


def mean(values):
    return math.fsum(values) / len(values)


def centroid_distance(points, left, right):
    centres = [
        [mean([float(points[i][k]) for i in child]) for k in range(len(points[0]))]
        for child in (left, right)
    ]
    return math.dist(*centres)


def centroid(points, beta=1.0):
    return lambda left, right: -beta * centroid_distance(points, left, right)


def ward(points, beta=1.0):
    def psi(left, right):
        factor = 2 * len(left) * len(right) / (len(left) + len(right))
        return -beta * math.sqrt(factor) * centroid_distance(points, left, right)

    return psi


def linkage(points, method, beta=1.0):
    """The five linkages of a table of points."""
    if method == "centroid":
        return centroid(points, beta)
    if method == "ward":
        return ward(points, beta)
    extreme = {"single": min, "complete": max, "average": mean}[method]
    return from_distances(extreme, distance_matrix(points), beta)


def contrasts(points, sigma, tau, gamma, nu, columns):
    """Student's t of the contrast of two means, in `columns` dimensions; Yule trees.

    The probability of a Yule tree is 1 / n! times 2 / (|P| - 1) for each of its clusters.
    """
    n, d = len(points), len(points[0])

    def psi(left, right):
        a, b = len(left), len(right)
        q = a * b / (a + b)
        v = sigma**2 + tau**2 * q**gamma
        square = q * centroid_distance(points, left, right) ** 2 * columns / d
        density = math.lgamma((nu + columns) / 2) - math.lgamma(nu / 2)
        density -= columns / 2 * math.log(math.pi * nu * v)
        density -= (nu + columns) / 2 * math.log(1 + square / (nu * v))
        root = math.log(math.factorial(n)) if a + b == n else 0.0
        return density + math.log(2 / (a + b - 1)) - root

    return psi


def beta_splitting(shape):
    """The probability that a cluster is split into just these two, with fractions."""

    def factorials(i):
        """Gamma(shape + i + 1) / Gamma(shape + 2) / i!"""
        return math.prod((Fraction(shape) + k for k in range(2, i + 1)), start=Fraction(1)) / (
            math.factorial(i)
        )

    @cache
    def log_probability(i, m):
        norm = sum(factorials(j) * factorials(m - j) for j in range(1, m))
        left_has_i_leaves = factorials(i) * factorials(m - i) / norm
        return math.log(2 * left_has_i_leaves / math.comb(m, i))

    def psi(left, right):
        return log_probability(len(left), len(left) + len(right))

    return psi


# ---- more questions about a listing -----------------------------------------------------------


def children_of(tree, cluster):
    """The two children of a cluster of a tree, given as a set of clusters."""
    inside = [c for c in tree if c < cluster]
    large = [c for c in inside if not any(c < d for d in inside)]
    covered = frozenset().union(*large)
    return frozenset([*large, *(frozenset([i]) for i in cluster - covered)])


def split_marginals(trees):
    """The probability of each split, a split being the set of its two children."""
    parts = defaultdict(list)
    for tree, p in probabilities(trees).items():
        for cluster in tree:
            parts[children_of(tree, cluster)].append(p)
    return {split: math.fsum(ps) for split, ps in parts.items()}


def common_sizes(trees, i, j):
    """How the size of the smallest cluster with both leaves is distributed: size -> probability."""
    parts = defaultdict(list)
    for tree, p in probabilities(trees).items():
        size = 1 if i == j else min(len(c) for c in tree if i in c and j in c)
        parts[size].append(p)
    return {size: math.fsum(ps) for size, ps in parts.items()}


def log_weight_moments(trees):
    """Mean and variance of the log weight."""
    top = max_log_weight(trees)
    ps = probabilities(trees)
    possible = [(ps[tree], weight - top) for tree, weight in trees if weight > -math.inf]
    mean = math.fsum(p * below for p, below in possible)
    return top + mean, math.fsum(p * (below - mean) ** 2 for p, below in possible)


def kl_divergence(trees, others):
    """The sum of p log(p / q) over trees."""
    log_z, log_q = log_partition(trees), log_partition(others)
    terms = []
    for (_, one), (_, other) in zip(trees, others, strict=True):
        if one > -math.inf:
            terms.append(math.exp(one - log_z) * ((one - log_z) - (other - log_q)))
    return math.fsum(terms)


def clamped_probability(n, psi, cluster):
    """The probability of a cluster as the paper finds it, by a trellis of its own.

    The cluster is merged into one leaf that carries its partition function; the partition function
    of the merged data is divided by that of all.
    """
    known = {}

    def log_z(blocks):
        if len(blocks) == 1:
            (block,) = blocks
            return log_z(frozenset(frozenset([i]) for i in block)) if len(block) > 1 else 0.0
        if blocks not in known:
            known[blocks] = log_sum(
                [
                    psi(frozenset().union(*left), frozenset().union(*right))
                    + log_z(left)
                    + log_z(right)
                    for left, right in _block_splits(blocks)
                ]
            )
        return known[blocks]

    single = [frozenset([i]) for i in range(n)]
    merged = frozenset([cluster, *(leaf for leaf in single if not leaf <= cluster)])
    return math.exp(log_z(merged) - log_z(frozenset(single)))


def _block_splits(blocks):
    """All splits of a set of blocks of leaves."""
    first, *others = sorted(blocks, key=sorted)
    for size in range(len(others)):
        for some in combinations(others, size):
            left = frozenset([first, *some])
            yield left, blocks - left
