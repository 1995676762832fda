"""From a potential to the arrays and functions that the kernels of the full lattice take.

The parts of a sum are sorted: what depends on one cluster only is added up into one array (`node`),
and costs nothing in the loop over splits; what remains is a list of split functions with their
features. Sums of separable potentials need no split function of their own at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hctrellis.clusters import Lattice
from hctrellis.potentials.base import Potential, Separable, extremes
from hctrellis.support.logs import LOG2E, NEVER

if TYPE_CHECKING:
    from hctrellis.kernels.bind import SplitCode
    from hctrellis.support.types import FloatArray

STEEPEST = 1e15  # that the largest gain times the number of leaves may be


@dataclass(frozen=True)
class Terms:
    """A potential over all clusters of n leaves, ready for the kernels.

    Attributes
    ----------
    codes : tuple of SplitCode
        Split functions, each with its slice of `features` and `params`.
    features : float64 array, shape (k, 2^n)
    node : float64 array, shape (2^n,) or (0,)
        log2 of the weight that a cluster adds as a parent; NEVER if it is forbidden.
    params, root_params : tuple of float
    distances : float64 array, shape (n, n) or (0, 0)
        Between leaves, for split functions that ask for the extreme distance between clusters.
    constant : float
        Added to the log weight of every tree.
    linear : bool
        Whether features[0] are gains (or there are no features), for the multiply-add kernel.
    low_bits : int
        Number of low leaves (see the kernels).
    cross : three float64 arrays
        `distances`, and the extreme distances between high leaves and high parts and between low
        parts; those between the high and the low part of each cluster are the last feature.
    """

    codes: tuple[SplitCode, ...]
    features: FloatArray
    node: FloatArray
    params: tuple[float, ...]
    root_params: tuple[float, ...]
    distances: FloatArray
    constant: float
    linear: bool
    low_bits: int
    cross: tuple[FloatArray, FloatArray, FloatArray]

    @property
    def upward(self) -> tuple[str, ...]:
        """The chain of kernels of the upward pass."""
        return ("weights", "linear" if self.linear else "tiles", "full")

    def kernel(self, *chain: str) -> Any:
        """A chain of kernels with the split functions of this potential in it."""
        from hctrellis.kernels.bind import bind

        return bind(chain, self.codes)

    @property
    def forbids_clusters(self) -> bool:
        return bool(self.node.size > 0 and self.node[1:].min() <= NEVER)

    @property
    def forbids_splits(self) -> bool:
        return any(code.users or code.forbids for code in self.codes)


def assemble(potential: Potential, choose_low_bits: Callable[[int, bool], int]) -> Terms:
    """The terms of a potential over the full lattice of its leaves.

    choose_low_bits(n_leaves, linear) says how many leaves are low.
    """
    from hctrellis.kernels.splits import GAINS

    lattice = Lattice(potential.n_leaves)
    node = _Node()
    constant = 0.0
    gain: FloatArray | None = None
    others = []
    for part, separable in _sorted(potential, lattice):
        if separable is None:
            others.append(part)
            continue
        constant += separable.constant
        node.add(separable.own, root=False)
        if separable.gain is not None:
            gain = separable.gain if gain is None else gain + separable.gain
    if others:
        rows = []
        for part in others:
            features, own = part.describe(lattice)
            node.add(own, root=True)
            rows += features
        codes = [part.code() for part in others]
    else:
        rows = [] if gain is None else [gain, lattice.sizes]
        codes = [] if gain is None else [GAINS]
    linear = not others
    low_bits = choose_low_bits(potential.n_leaves, linear)
    distances = _distances(others)
    near, low, between = cross_tables(codes, distances, low_bits)
    return Terms(
        codes=tuple(code for code in codes if code is not None),
        features=_stack([*rows, *between], len(lattice)),
        node=node.values,
        params=tuple(p for part in others for p in part.params()),
        root_params=tuple(p for part in others for p in part.params(root=True)),
        distances=distances,
        constant=constant,
        linear=linear,
        low_bits=low_bits,
        cross=(distances, near, low),
    )


def _sorted(potential: Potential, lattice: Lattice) -> list[tuple[Potential, Separable | None]]:
    """The parts, each with its sum over clusters if that can be used.

    Gains are used only if nothing else needs a loop over splits: otherwise one more split function
    costs less than keeping both. Nor are they used if they are so steep that their multiples, of
    which the kernel takes differences, are rounded by more than 1.
    """
    found = [(part, part.separable(lattice)) for part in potential.parts]
    if any(separable is None or _steep(separable, lattice) for _, separable in found):
        found = [(p, None if s is not None and s.gain is not None else s) for p, s in found]
    return found


def _steep(separable: Separable, lattice: Lattice) -> bool:
    gain = separable.gain
    return gain is not None and bool(np.abs(gain).max() * lattice.n_leaves > STEEPEST)


class _Node:
    """The sum of all terms of one cluster, in log2; no array until there are some."""

    def __init__(self) -> None:
        self.values = np.empty(0)

    def add(self, own: FloatArray | None, root: bool) -> None:
        if own is None:
            return
        own *= LOG2E
        if not root:
            own[-1] = 0.0
        if self.values.size == 0:
            self.values = own
        else:
            self.values += own
        np.maximum(self.values, NEVER, out=self.values)


def _stack(rows: list[FloatArray], size: int) -> FloatArray:
    """The rows as one array; each is freed as soon as it is copied."""
    features = np.empty((len(rows), size))
    for f in range(len(rows)):
        features[f] = rows[f]
        rows[f] = np.empty(0)
    return features


def _distances(parts: list[Potential]) -> FloatArray:
    for part in parts:
        code = part.code()
        if code is not None and code.cross is not None:
            assert part.distances is not None
            return part.distances
    return np.empty((0, 0))


def cross_tables(
    codes: Sequence[SplitCode | None], distances: FloatArray, low_bits: int
) -> tuple[FloatArray, FloatArray, list[FloatArray]]:
    """Extreme distances between parts of clusters, if a split function asks for them.

    Row i, column S: between high leaf i and the high part S; row S, column T: between two low
    parts; and for every mask, between its own high and low part.
    """
    for code in codes:
        if code is not None and code.cross is not None:
            extreme, nothing = extremes(code)
            to_low = _reach(distances[:low_bits, :low_bits], extreme, nothing)
            to_high = _reach(distances[:low_bits, low_bits:], extreme, nothing)
            return (
                _reach(distances[low_bits:, low_bits:], extreme, nothing),
                _either(to_low, extreme, nothing),
                [_either(to_high, extreme, nothing).ravel()],
            )
    return np.empty((0, 0)), np.empty((0, 0)), []


def _reach(distances: FloatArray, extreme: np.ufunc, nothing: float) -> FloatArray:
    """Row i, column S: the extreme of distances[i, j] over j in S."""
    rows, columns = distances.shape
    reach = np.full((rows, 1 << columns), nothing)
    for j in range(columns):
        half = 1 << j
        reach[:, half : 2 * half] = extreme(reach[:, :half], distances[:, j : j + 1])
    return reach


def _either(reach: FloatArray, extreme: np.ufunc, nothing: float) -> FloatArray:
    """Row S, column T: the extreme of reach[i, S] over i in T."""
    rows, sets = reach.shape
    either = np.full((sets, 1 << rows), nothing)
    for i in range(rows):
        half = 1 << i
        extreme(either[:, :half], reach[i][:, None], out=either[:, half : 2 * half])
    return either
