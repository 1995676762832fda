"""The tree of a jet as physicists use it: its splittings in the Lund plane.

A splitting has two branches, of which the one with the larger transverse momentum is the harder.
With Delta the distance of the branches in rapidity and azimuth, and pt the transverse momentum of
the softer one, the coordinates are ln(1 / Delta) and ln(kt) with kt = pt Delta. Splittings of what
is reached from the root by harder branches only make up the primary plane (level 0); each softer
branch on the way adds 1 to the level.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hctrellis.posterior.base import BasePosterior
from hctrellis.potentials.base import Potential
from hctrellis.support.checks import as_count, as_finite, default_labels
from hctrellis.support.imports import ONE_AT_A_TIME
from hctrellis.tree import Tree

if TYPE_CHECKING:
    import numpy.typing as npt

    from hctrellis.support.types import FloatArray, IntArray, Seed

LEAST = 1e-300  # of what a logarithm is taken: branches may coincide
LARGEST_RADIUS = 999.0  # that fastjet allows: no particle is left out


def lund_plane(posterior: BasePosterior, size: int | None = None, rng: Seed = None) -> Any:
    """The splittings of the MAP tree of a jet, or of trees drawn from its posterior.

    Parameters
    ----------
    posterior : Posterior or SampledPosterior
        Of a model of jets.
    size : int, optional
        Number of trees to draw; without it, the MAP tree is taken.
    rng : None, int or numpy Generator

    Returns
    -------
    awkward.Array
        Records with ``ln_inverse_delta``, ``ln_kt``, ``z`` (the share of the softer branch in the
        sum of transverse momenta), ``level`` and ``probability``, the posterior probability of the
        splitting; one for each splitting of the MAP tree, or a list of them for each tree.

    Examples
    --------
    >>> import hctrellis as hct
    >>> jet = hct.simulate.ginkgo(1, n_leaves=5, rng=1)[0]
    >>> plane = lund_plane(hct.infer(jet.potential()))
    >>> len(plane), plane.level.tolist().count(0) > 0
    (4, True)
    """
    if not isinstance(posterior, BasePosterior):
        raise TypeError(f"expected a posterior, as from infer; got {type(posterior).__name__}")
    momenta = momenta_of(posterior.potential)
    if size is None:
        return lund_coordinates([posterior.map_tree], momenta, posterior)[0]
    trees = posterior.sample(as_count(size, "size"), rng)
    return lund_coordinates([*trees], momenta, posterior)


def lund_coordinates(
    trees: Sequence[Tree], momenta: npt.ArrayLike, posterior: BasePosterior | None = None
) -> Any:
    """The splittings of some trees of one jet, as in `lund_plane`, a list for each tree.

    Parameters
    ----------
    trees : sequence of Tree
        Over the particles of the jet, in their order.
    momenta : array_like, shape (n, 4)
        Rows E, px, py, pz.
    posterior : Posterior or SampledPosterior, optional
        Without it, there are no probabilities.

    Examples
    --------
    >>> tree = Tree.from_newick("((0,1),2);")
    >>> momenta = [[5.0, 3.0, 0.0, 4.0], [5.0, 3.0, 0.1, 3.9], [1.0, 0.0, 1.0, 0.0]]
    >>> lund_coordinates([tree], momenta).level.tolist()
    [[0, 0]]
    """
    with ONE_AT_A_TIME:
        import awkward as ak

    rows = as_finite(momenta, "momenta")
    if rows.ndim != 2 or rows.shape[1] != 4 or len(rows) == 0:
        raise ValueError(
            f"momenta must have one row (E, px, py, pz) per particle; got shape {rows.shape}"
        )
    wrong = [tree.n_leaves for tree in trees if tree.n_leaves != len(rows)]
    if wrong:
        raise ValueError(f"a tree has {wrong[0]} leaves, and there are {len(rows)} particles")
    shape = (len(trees), len(rows) - 1, 2)
    children = np.array([tree.children for tree in trees], np.int64).reshape(shape)
    fields: dict[str, Any] = _coordinates(children, rows)
    if posterior is not None:
        fields["probability"] = _probabilities(children, posterior)
    return ak.zip({name: ak.from_regular(ak.from_numpy(v)) for name, v in fields.items()})


def cambridge_tree(momenta: npt.ArrayLike) -> Tree:
    """The tree of a jet by the Cambridge/Aachen algorithm (needs fastjet).

    Parameters
    ----------
    momenta : array_like, shape (n, 4)
        Rows E, px, py, pz.
    """
    try:
        import fastjet
    except ImportError:
        raise ImportError(
            'Cambridge/Aachen trees need fastjet: pip install "hctrellis[jets]"'
        ) from None
    rows = as_finite(momenta, "momenta")
    particles = []
    for i, (energy, px, py, pz) in enumerate(rows.tolist()):
        particles.append(fastjet.PseudoJet(px, py, pz, energy))
        particles[-1].set_user_index(i)
    whole = fastjet.JetDefinition(fastjet.cambridge_algorithm, LARGEST_RADIUS)
    sequence = fastjet.ClusterSequence(particles, whole)
    masks = []
    todo = list(sequence.exclusive_jets(1))
    while todo:
        jet = todo.pop()
        members = [particle.user_index() for particle in jet.constituents()]
        if len(members) > 1:
            masks.append(sum(1 << i for i in members))
            parents = (fastjet.PseudoJet(), fastjet.PseudoJet())
            jet.has_parents(*parents)
            todo += parents
    return Tree.from_clusters(masks, labels=default_labels(len(rows)))


def momenta_of(potential: Potential) -> FloatArray:
    """The momenta of the particles of a model of jets."""
    momenta = getattr(potential, "momenta", None)
    if momenta is None:
        raise TypeError(
            f"a Lund plane needs a model of jets, such as Ginkgo, which has momenta; got "
            f"{type(potential).__name__}"
        )
    found: FloatArray = np.asarray(momenta)
    return found


def _coordinates(children: IntArray, momenta: FloatArray) -> dict[str, Any]:
    """Coordinates of all splittings, each of shape (trees, splits)."""
    m, splits, _ = children.shape
    n = splits + 1
    trees = np.arange(m)
    nodes = np.empty((m, 2 * n - 1, 4))
    nodes[:, :n] = momenta
    for k in range(splits):
        nodes[:, n + k] = nodes[trees, children[:, k, 0]] + nodes[trees, children[:, k, 1]]
    energy, px, py, pz = np.moveaxis(nodes, 2, 0)
    pt, phi = np.hypot(px, py), np.arctan2(py, px)
    mass = np.sqrt(np.maximum(energy**2 - px**2 - py**2 - pz**2, 0.0))
    rapidity = np.arcsinh(pz / np.maximum(np.hypot(mass, pt), LEAST))
    one, other = children[..., 0], children[..., 1]

    def of(values: FloatArray, side: IntArray) -> FloatArray:
        taken: FloatArray = np.take_along_axis(values, side, axis=1)
        return taken

    swapped = of(pt, one) < of(pt, other)
    harder, softer = np.where(swapped, other, one), np.where(swapped, one, other)
    turn = np.abs(of(phi, harder) - of(phi, softer))
    turn = np.minimum(turn, 2 * np.pi - turn)
    delta = np.maximum(np.hypot(of(rapidity, harder) - of(rapidity, softer), turn), LEAST)
    soft = np.maximum(of(pt, softer), LEAST)
    level = np.zeros((m, 2 * n - 1), np.int64)
    for k in reversed(range(splits)):  # the root is the last
        level[trees, harder[:, k]] = level[:, n + k]
        level[trees, softer[:, k]] = level[:, n + k] + 1
    return {
        "ln_inverse_delta": -np.log(delta),
        "ln_kt": np.log(soft) + np.log(delta),
        "z": soft / (soft + np.maximum(of(pt, harder), LEAST)),
        "level": level[:, n:],
    }


def _probabilities(children: IntArray, posterior: BasePosterior) -> FloatArray:
    """The posterior probability of each splitting."""
    n = children.shape[1] + 1
    known: dict[tuple[int, int], float] = {}
    found = np.empty(children.shape[:2])
    for t, rows in enumerate(children.tolist()):
        masks = [1 << i for i in range(n)]
        for k, (one, other) in enumerate(rows):
            pair = (masks[one], masks[other])
            if pair not in known:
                known[pair] = posterior.split_probability(*pair)
            found[t, k] = known[pair]
            masks.append(masks[one] | masks[other])
    return found
