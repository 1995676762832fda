"""Random problems whose best trees are known, for the certified search.

python tests/proofs.py --problems 500   compares that many problems of each kind with the full
trellis: up to 14 leaves; dense, sparse, tied, zero and disconnected; from random trees, so that the
search itself has to find the best tree and to prove it.
"""

import argparse
from fractions import Fraction
from itertools import combinations

import numpy as np

import hctrellis as hct
from gallery import affinities, quiet, similarities
from hctrellis.certify import blocks, pieces, problems


def sparsened(matrix, rng, share):
    kept = np.triu(rng.random(matrix.shape) < share, 1)
    return np.where(kept | kept.T, matrix, 0.0)


def in_two(matrix):
    """Without what is between the first half and the second."""
    half = len(matrix) // 2
    matrix = matrix.copy()
    matrix[:half, half:] = matrix[half:, :half] = 0.0
    return matrix


SHAPES = {
    "dense": lambda w, rng: w,
    "sparse": lambda w, rng: sparsened(w, rng, 0.4),
    "tied": lambda w, rng: np.round(2 * w) / 2,
    "zero": lambda w, rng: 0 * w,
    "disconnected": lambda w, rng: in_two(sparsened(w, rng, 0.7)),
}

KINDS = {
    "dasgupta": lambda n, seed, shape, rng: hct.Dasgupta(shape(similarities(n, seed), rng)),
    "dasgupta, negative": lambda n, seed, shape, rng: hct.Dasgupta(shape(affinities(n, seed), rng)),
    "correlation": lambda n, seed, shape, rng: hct.CorrelationClustering(
        shape(affinities(n, seed), rng), ordered_pairs=bool(seed % 2)
    ),
    "average": lambda n, seed, shape, rng: hct.Linkage(
        shape(similarities(n, seed), rng), "average", metric="precomputed"
    ),
}


def random_problem(kind, seed, most=10):
    rng = np.random.default_rng(seed)
    shape = [*SHAPES.values()][seed % len(SHAPES)]
    return quiet(KINDS[kind], int(rng.integers(3, most + 1)), seed, shape, rng)


def random_tree(potential, seed):
    rng = np.random.default_rng(seed)
    parts = [1 << leaf for leaf in range(potential.n_leaves)]
    made = []
    while len(parts) > 1:
        one, other = (parts.pop(int(rng.integers(len(parts)))) for _ in range(2))
        parts.append(one | other)
        made.append(parts[-1])
    return hct.Tree.from_clusters(made, labels=potential.labels)


def searched(potential, start):
    """The bound, and a tree, by the search alone from any start."""
    problem = problems.problem_of(potential)
    found = [pieces.Piece(problem, piece, start) for piece in problem.pieces]
    for piece in found:
        piece.prepare()
        while not piece.done:
            piece.step()
    low = problem.energy(sum(piece.low for piece in found))
    clusters = problem.assemble([piece.clusters() for piece in found])
    return low, hct.Tree.from_clusters(clusters, labels=potential.labels)


def exact_energy(potential, tree):
    """The energy of a tree in rational numbers, from its definition."""
    total = Fraction(0)
    for left, right in splits_of(tree):
        one, other = ([*blocks.leaves_of(side)] for side in (left, right))
        if isinstance(potential, hct.Dasgupta):
            size = len(one) + len(other)
            total += size * sum(Fraction(potential.similarity[i, j]) for i in one for j in other)
        elif isinstance(potential, hct.Linkage):
            across = sum(Fraction(potential.distances[i, j]) for i in one for j in other)
            total += across / (len(one) * len(other))
        else:
            factor = 2 if potential.ordered_pairs else 1
            for i in one:
                for j in other:
                    total += max(Fraction(potential.affinity[i, j]), Fraction(0))
            for side in (one, other):
                for i, j in combinations(side, 2):
                    total += factor * max(-Fraction(potential.affinity[i, j]), Fraction(0))
    return total


def splits_of(tree):
    n = tree.n_leaves
    masks = [1 << leaf for leaf in range(n)]
    for left, right in tree.children:
        yield masks[left], masks[right]
        masks.append(masks[left] | masks[right])


def check(kind, seed, most):
    """Solve a random problem from a random start, so that the search must find the best tree."""
    potential = random_problem(kind, seed, most)
    exact = quiet(hct.infer, potential).map_log_weight
    low, tree = searched(potential, random_tree(potential, seed))
    allowed = 1e-9 * max(1.0, abs(exact))
    assert abs(potential.log_weight(tree) - exact) <= allowed, (kind, seed)
    assert abs(-float(low) - exact) <= allowed, (kind, seed)
    assert low <= exact_energy(potential, tree), (kind, seed)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=500, help="of each kind")
    parser.add_argument("--leaves", type=int, default=14, help="at most")
    options = parser.parse_args()
    for kind in KINDS:
        for seed in range(options.problems):
            check(kind, seed, options.leaves)
        print(f"{kind}: {options.problems} of {options.problems} equal the full trellis")


if __name__ == "__main__":
    main()
