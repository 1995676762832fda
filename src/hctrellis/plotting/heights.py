"""Heights for trees that have none: those of the model's merges, if the model has any."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from hctrellis.clusters import split_members
from hctrellis.potentials.linkage import Linkage
from hctrellis.tree import Tree

if TYPE_CHECKING:
    from hctrellis.potentials.base import Potential


def linkage_of(potential: Potential) -> Linkage | None:
    """The part of a potential that says at which height clusters merge, at beta = 1."""
    for part in potential.parts:
        if isinstance(part, Linkage):
            model = copy(part)
            model.beta = 1.0
            return model
    return None


def with_heights(tree: Tree, potential: Potential) -> Tree:
    """The tree over the leaves of the potential, with the height of each merge (`Linkage`)."""
    aligned = potential.align(tree)
    model = linkage_of(potential)
    if model is None or aligned.heights is not None:
        return aligned
    heights = -model.split_log_weights(*split_members(aligned))
    return Tree(aligned.children, aligned.labels, heights)
