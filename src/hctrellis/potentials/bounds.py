"""Bounds of the energies of all trees, in polynomial time and without rounding errors.

Energies are computed in whole numbers: pairs are multiplied by a power of two and rounded *down*,
so that no tree has less energy than in whole numbers, and everything after that is exact. The
mathematics, with proofs, is in docs/certified.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hctrellis.support.memory import check_fits

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray, IntArray

LARGEST = 55  # bits of sums: products with small numbers still fit into 64 bits
QUADRUPLE_LEAVES = 80  # up to here quadruples improve the bound of triples: a million or two
PASSES = (8,) * 4 + (6,) * 4 + (4,) * 4 + (2,) * 4 + (1,) * 4  # of the ascent over quadruples
LAST_PASSES = (4, 2, 1)  # after mirror ascent
MIRROR_PASSES = 120
MIRROR_WORK = 10_000_000  # quadruples times passes, at most, unless 20 passes are more
PACKINGS = (32,) * 24 + (8,) * 8 + (2,) * 2 + (1,)  # of triangles
DOUBLED = 2  # distances are even, so that both leaves of a pair can pay one half


class Whole(NamedTuple):
    """Numbers times 2^exponent, rounded down.

    Attributes
    ----------
    values : int64 array, shape (n, n)
    exponent : int
    """

    values: IntArray
    exponent: int

    def energy(self, total: int) -> Fraction:
        """What a sum of such numbers stands for."""
        return Fraction(total) / Fraction(2) ** self.exponent


def as_whole(matrix: FloatArray, most: float | None = None) -> Whole:
    """A symmetric matrix in whole numbers, as large as 64 bits allow.

    most : the largest sum that will be made of its entries; n times all of them if not given

    >>> as_whole(np.array([[0.0, 0.1], [0.1, 0.0]])).energy(1) < Fraction(1, 10**15)
    True
    """
    total = len(matrix) * float(np.abs(matrix).sum()) if most is None else most
    exponent = LARGEST - math.frexp(total)[1]
    values = np.floor(np.ldexp(matrix, exponent)).astype(np.int64)
    values[(matrix < 0) & (values == 0)] = -1  # too small for a float
    return Whole(values, exponent)


def above(log_weight: Fraction) -> float:
    """The least float that is not below a number.

    >>> above(Fraction(1, 10)) >= Fraction(1, 10)
    True
    """
    nearest = float(log_weight)
    return nearest if Fraction(nearest) >= log_weight else math.nextafter(nearest, math.inf)


def log_weight_bound(beta: float, energy: Fraction) -> float:
    """An upper bound of log weights from a lower bound of energies."""
    return above(-Fraction(beta) * energy)


# ---- Dasgupta's cost ---------------------------------------------------------------------------


class Quadruples(NamedTuple):
    """Quadruples of leaves that no tree resolves without excess, and the bound of each.

    Attributes
    ----------
    leaves : int64 array, shape (q, 4)
        In increasing order.
    lows : int64 array, shape (q,)
    """

    leaves: IntArray
    lows: IntArray


def triples_low(weights: IntArray) -> int:
    """2 W + the sum over triples of the two smaller weights: no tree costs less."""
    from hctrellis.kernels.triangles import largest_sums

    total = int(np.tril(weights, -1).sum())
    return len(weights) * total - int(largest_sums(weights))


def excesses(weights: IntArray) -> IntArray:
    """What a triple pays beyond its least if leaf k parts first from i and j: [k, i, j]."""
    one, two, three = weights[:, :, None], weights[:, None, :], weights[None, :, :]
    table: IntArray = np.maximum(np.maximum(one, two), three) - three
    every = np.arange(len(weights))
    table[every, every, :] = table[every, :, every] = table[:, every, every] = 0
    return table


def quadruples(excess: IntArray) -> Quadruples:
    """Share the excesses of triples out to quadruples, by dual ascent."""
    from hctrellis.kernels.quadruples import grant, list_quadruples, share_out

    flat = np.ascontiguousarray(excess).ravel()
    n, none = len(excess), np.empty((0, 4), np.int64)
    count = int(list_quadruples(n, flat, none, np.empty((0, 4, 3), np.int64)))
    check_fits(250 * count, f"the {count} quadruples of {n} leaves", "fewer leaves")
    leaves, places = np.empty((count, 4), np.int64), np.empty((count, 4, 3), np.int64)
    list_quadruples(n, flat, leaves, places)
    shares, lows, left = np.zeros((count, 4, 3), np.int64), np.zeros(count, np.int64), flat.copy()
    for turn, parts in enumerate(PASSES):
        share_out(turn, parts, places, left, shares, lows)
    if lows.any():
        wishes = _mirrored(flat, places, left, shares, lows)
        left[:] = flat
        grant(wishes, places, left, shares, lows)
        for turn, parts in enumerate(LAST_PASSES):
            share_out(turn, parts, places, left, shares, lows)
    return Quadruples(leaves, lows)


def _mirrored(
    excess: IntArray, places: IntArray, left: IntArray, shares: IntArray, lows: IntArray
) -> FloatArray:
    """Better shares, as floats, by mirror ascent with steps that become smaller."""
    from hctrellis.kernels.quadruples import climb_mirror, spread_left

    wishes = np.empty(places.shape)
    counts = np.bincount(places.ravel(), minlength=len(excess))
    spread_left(counts, places, excess, left, shares, wishes)
    sums, mean = np.empty(len(excess)), float(lows.mean())
    passes = min(MIRROR_PASSES, max(20, MIRROR_WORK // len(lows)))
    for k in range(passes):
        done = k / passes
        climb_mirror(1.5 * 0.05**done, 0.2 * mean * 0.02**done, places, excess, sums, wishes)
    return wishes


def dasgupta_energy(similarity: FloatArray) -> Fraction:
    """A lower bound of Dasgupta's cost of any tree: triples, and quadruples if not too many."""
    weights, _ = whole = as_whole(similarity)
    low = triples_low(weights)
    if 4 <= len(weights) <= QUADRUPLE_LEAVES:
        low += int(quadruples(excesses(weights)).lows.sum())
    return whole.energy(low)


# ---- correlation clustering --------------------------------------------------------------------


def packed_triangles(negative: IntArray, packed: IntArray) -> tuple[int, IntArray]:
    """The sum of a fractional packing of triangles, and what it leaves of the edges."""
    from hctrellis.kernels.triangles import pack_triangles

    rest = negative.copy()
    total = sum(int(pack_triangles(parts, rest, packed)) for parts in PACKINGS)
    return total, rest


def correlation_energy(positive: FloatArray, negative: FloatArray) -> Fraction:
    """A lower bound of the energy of correlation clustering: positive pairs, negative triangles."""
    whole, plus = as_whole(negative), as_whole(positive)
    total, _ = packed_triangles(whole.values, np.empty((0, 0, 0), np.int64))
    return whole.energy(total) + plus.energy(int(np.tril(plus.values, -1).sum()))


# ---- heights -----------------------------------------------------------------------------------


def average_energy(distances: FloatArray) -> Fraction:
    """A lower bound of the sum of average-linkage heights: each leaf and its neighbours by rank."""
    n = len(distances)
    whole = as_whole(distances, n * float(distances.max()))
    ranks = np.arange(1, n)
    shares = np.sort(DOUBLED * whole.values, axis=1)[:, 1:] // (ranks * (ranks + 1))
    return whole.energy(int(shares.sum())) / DOUBLED


def single_energy(distances: FloatArray) -> Fraction:
    """The least sum of single-linkage heights: the least spanning tree, found by Prim's way."""
    whole = as_whole(distances, len(distances) * float(distances.max()))
    nearest = whole.values[0].copy()
    outside = np.arange(1, len(nearest))
    total = 0
    while len(outside) > 0:
        at = int(np.argmin(nearest[outside]))
        leaf = outside[at]
        total += int(nearest[leaf])
        outside = np.delete(outside, at)
        nearest = np.minimum(nearest, whole.values[leaf])
    return whole.energy(total)
