"""Exact inference on many data sets of the same number of leaves.

In go potentials over n leaves each, or the momenta of jets with n particles each; out come columns
with one entry per data set. A data set that cannot be solved does not stop the others: its message
is in `Columns.errors`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from hctrellis.posterior import Posterior
from hctrellis.potentials.base import Potential
from hctrellis.potentials.jets import Ginkgo, JetMass
from hctrellis.tree import Tree
from hctrellis.trellis.full import FullTrellis

if TYPE_CHECKING:
    from hctrellis.tree import FloatArray, IntArray

Model: TypeAlias = type[Ginkgo] | type[JetMass]
"""A potential that is made of the momenta of a jet."""


@dataclass(frozen=True)
class Columns:
    """Answers for m data sets of n leaves.

    Attributes
    ----------
    log_partition, map_log_weight : float64 array, shape (m,)
        -inf where every tree is forbidden; NaN where there is an error.
    children : int64 array, shape (m, n - 1, 2)
        `Tree.children` of the MAP trees; of no meaning where there is none.
    n_trees : list of int
        Numbers of trees of non-zero weight.
    entropy : float64 array, shape (m,)
        NaN where it was not asked for, where every tree is forbidden, or where there is an error.
    errors : dict from int to str
        What went wrong, by position.
    """

    log_partition: FloatArray
    map_log_weight: FloatArray
    children: IntArray
    n_trees: list[int]
    entropy: FloatArray
    errors: dict[int, str]


def solve_group(potentials: Sequence[Potential], entropy: bool = False) -> Columns:
    """Exact inference on potentials of equal numbers of leaves.

    Parameters
    ----------
    potentials : sequence of Potential
        At least one.
    entropy : bool
        Whether the entropies of the posteriors are wanted.
    """
    return _solve(potentials, len(potentials), potentials[0].n_leaves, entropy)


def solve_jets(
    model: Model, momenta: FloatArray, parameters: Mapping[str, Any], entropy: bool = False
) -> Columns:
    """Exact inference on jets of equal numbers of particles.

    Parameters
    ----------
    model : type
        `Ginkgo` or `JetMass`.
    momenta : float64 array, shape (m, n, 4)
        Rows E, px, py, pz; checked before.
    parameters : mapping
        What the model takes besides momenta.
    entropy : bool
        Whether the entropies of the posteriors are wanted.
    """
    m, n, _ = momenta.shape
    return _solve((model(jet, **parameters) for jet in momenta), m, n, entropy)


def weigh_group(potentials: Sequence[Potential], children: IntArray) -> FloatArray:
    """The log weights of one tree for each potential, given by its `Tree.children`."""
    pairs = zip(potentials, children, strict=True)
    return np.array([model.log_weight(Tree(rows, model.labels)) for model, rows in pairs])


def weigh_jets(
    model: Model, momenta: FloatArray, children: IntArray, parameters: Mapping[str, Any]
) -> FloatArray:
    """The log weights of one tree for each jet, given by its `Tree.children`."""
    return weigh_group([model(jet, **parameters) for jet in momenta], children)


def explain(error: Exception) -> str:
    """An error in one line; its kind is named only if the message may not do."""
    name = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
    return name + " ".join(str(error).split())


def _solve(potentials: Iterable[Potential], m: int, n: int, entropy: bool) -> Columns:
    """One potential after the other."""
    columns = Columns(
        log_partition=np.full(m, np.nan),
        map_log_weight=np.full(m, np.nan),
        children=np.zeros((m, n - 1, 2), np.int64),
        n_trees=[0] * m,
        entropy=np.full(m, np.nan),
        errors={},
    )
    for i, potential in enumerate(potentials):
        try:
            _fill(columns, i, potential, entropy)
        except Exception as error:  # a user's function may raise anything
            columns.errors[i] = explain(error)
    return columns


def _fill(columns: Columns, i: int, potential: Potential, entropy: bool) -> None:
    trellis = FullTrellis(potential.n_leaves)
    post = Posterior(potential, trellis, trellis.solve(potential, threads=1), 1)
    log_partition, n_trees = post.log_partition, post.n_trees
    possible = log_partition > -math.inf
    if possible:
        columns.children[i] = post.map_tree.children
    if possible and entropy:
        columns.entropy[i] = post.entropy
    columns.map_log_weight[i] = post.map_log_weight if possible else -math.inf
    columns.log_partition[i] = log_partition
    columns.n_trees[i] = n_trees
