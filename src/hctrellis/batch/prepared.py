"""Jets that are ready to be solved: checked, and with repaired momenta.

A jet is refused if its model refuses it, and in the same words. Only jets that look suspicious are
given to the model, since that takes longer than solving many a jet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hctrellis.batch.lanes import JetPotential, with_parameters
from hctrellis.potentials.fourvectors import LARGEST_ENERGY, repair, space_like

if TYPE_CHECKING:
    from hctrellis.support.types import BoolArray, FloatArray, IntArray

LEAST_USUAL = 1e-100  # components below this may be too small for the model
PAIRS_AT_ONCE = 1 << 20  # of particles, when jets are repaired


@dataclass(frozen=True)
class Prepared:
    """Jets, one after the other.

    Attributes
    ----------
    momenta : float64 array, shape (number of particles, 4)
        After repairs.
    repaired : int64 array, shape (number of jets,)
        How many particles of each were put on their mass shells.
    errors : dict from int to str
        What is wrong with the jets that cannot be solved, by position.
    """

    momenta: FloatArray
    repaired: IntArray
    errors: dict[int, str]


def prepare(
    model: JetPotential,
    parameters: Mapping[str, Any],
    momenta: FloatArray,
    sizes: IntArray,
    errors: Mapping[int, str],
) -> Prepared:
    """Check and repair jets.

    Parameters
    ----------
    model, parameters
        `Ginkgo` or `JetMass`, and what it takes besides momenta.
    momenta : float64 array, shape (number of particles, 4)
    sizes : int64 array
        Numbers of particles of the jets.
    errors : mapping from int to str
        What is known to be wrong already; such a jet has no momenta.
    """
    starts = np.cumsum(sizes) - sizes
    jets = np.repeat(np.arange(len(sizes)), sizes)
    odd = _odd(momenta)
    suspects = [*jets[odd], *np.flatnonzero(sizes == 0)]
    fixed, repaired = momenta, np.zeros(len(sizes), np.int64)
    off_shell = np.setdiff1d(jets[space_like(momenta) & ~odd], suspects)
    if len(off_shell) > 0:
        fixed = momenta.copy()
        one = with_parameters(model, tuple(parameters.items()))
        for rows in _blocks(off_shell, sizes):
            places = starts[rows][:, None] + np.arange(sizes[rows[0]])
            found = repair(momenta[places], one.t_cut)
            accepted = found.accepted(one.on_shell)
            fixed[places[accepted]] = found.momenta[accepted]
            repaired[rows[accepted]] = found.moved[accepted].sum(axis=1)
            suspects += [*rows[~accepted]]
    known = dict(errors)
    for row in sorted({*map(int, suspects)} - known.keys()):
        try:
            model(momenta[starts[row] : starts[row] + sizes[row]], **parameters)
        except ValueError as error:
            known[row] = str(error)
    return Prepared(fixed, repaired, known)


def _odd(momenta: FloatArray) -> BoolArray:
    """Whether a model may refuse a momentum for other reasons than being off its mass shell."""
    odd: BoolArray = momenta[:, 0] < 0
    magnitudes = np.abs(momenta)
    usual = (magnitudes <= LARGEST_ENERGY) & ((magnitudes >= LEAST_USUAL) | (magnitudes == 0))
    if not usual.all():  # going row by row takes longer than all the rest
        odd |= ~usual.all(axis=1)
    return odd


def _blocks(rows: IntArray, sizes: IntArray) -> Iterator[IntArray]:
    """Jets of equal sizes, few enough at a time that all their pairs fit in memory."""
    for size in np.unique(sizes[rows]):
        alike = rows[sizes[rows] == size]
        step = int(max(1, PAIRS_AT_ONCE // size**2))
        for start in range(0, len(alike), step):
            yield alike[start : start + step]
