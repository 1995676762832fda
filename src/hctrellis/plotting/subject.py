"""What a dendrogram shows: a tree, and the support of its clusters, whatever was given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hctrellis.posterior.base import BasePosterior
from hctrellis.posterior.lookup import Lookup
from hctrellis.posterior.summary import ConsensusTree
from hctrellis.support.printable import show_probability
from hctrellis.tree import Tree

if TYPE_CHECKING:
    from hctrellis.trees.newick import Support
    from hctrellis.trust.bootstrap import BootstrapSupport

CERTAIN = 5e-4  # smaller standard errors are not shown


@dataclass(frozen=True, eq=False)
class Subject:
    """A tree to draw.

    Attributes
    ----------
    tree : Tree
    values : list of float or None
        The support of every node; None for leaves and the root, and where nothing is known.
    texts : list of str
        What is written at every node.
    hidden : frozenset of int
        Nodes that are not drawn: their children hang on their parent.
    height : str
        What the heights are; empty if there are none.
    explanation : str
        What the numbers are, if that has to be said.
    """

    tree: Tree
    values: Sequence[float | None]
    texts: Sequence[str]
    hidden: frozenset[int] = frozenset()
    height: str = "height"
    explanation: str = ""


def as_subject(
    given: object, support: Support | None = None, bootstrap: BootstrapSupport | None = None
) -> Subject:
    """What is drawn of a posterior, a consensus or a tree."""
    if isinstance(given, ConsensusTree):
        return _of_consensus(given, bootstrap)
    if isinstance(given, Tree):
        values = support_values(given, support)
        height = "height" if given.heights is not None else ""
        return _written(given, values, bootstrap, {}, height=height)
    if not isinstance(given, BasePosterior):
        raise TypeError(
            f"expected a Posterior, a Tree or a ConsensusTree; got {type(given).__name__}"
        )
    tree = given.map_tree
    height = "" if tree.heights is None else given.potential.height_name
    if support is not None:
        return _written(tree, support_values(tree, support), bootstrap, {}, height=height)
    known = Lookup(given)
    errors = {mask: known.error(mask) for mask in tree.masks[tree.n_leaves : -1]}
    values = support_values(tree, known.probability)
    found = _written(tree, values, bootstrap, errors, height=height)
    if given.is_reliable or found.explanation:
        return found
    return replace(found, explanation="no probability is known")


def support_values(tree: Tree, support: Support | None) -> list[float | None]:
    """The support of every node; None for leaves and the root, and where nothing is known."""
    values: list[float | None] = [None] * (2 * tree.n_leaves - 1)
    if support is None:
        return values
    lookup = support if callable(support) else _by_mask(tree, support)
    for node in range(tree.n_leaves, 2 * tree.n_leaves - 2):
        values[node] = lookup(tree.masks[node])
    return values


def _by_mask(tree: Tree, support: Mapping[Any, float | None]) -> Callable[[int], float | None]:
    return {tree.mask(cluster): value for cluster, value in support.items()}.get


def _of_consensus(consensus: ConsensusTree, bootstrap: BootstrapSupport | None) -> Subject:
    """A consensus as a binary tree some of whose nodes are hidden."""
    if consensus.is_binary:
        tree = consensus.to_tree()
        height = ""
        if tree.heights is not None and consensus.potential is not None:
            height = consensus.potential.height_name
        return _written(tree, _known(tree, consensus), bootstrap, {}, height=height)
    masks = set(consensus.support)
    for cluster, parts in consensus.children().items():
        joined = parts[0]
        for part in parts[1:]:
            joined |= part
            masks.add(joined)
        assert joined == cluster
    tree = Tree.from_clusters(masks, labels=consensus.labels)
    hidden = frozenset(k for k, mask in enumerate(tree.masks) if _hides(mask, consensus))
    return _written(tree, _known(tree, consensus), bootstrap, {}, height="", hidden=hidden)


def _hides(mask: int, consensus: ConsensusTree) -> bool:
    return mask.bit_count() > 1 and mask not in consensus.support


def _known(tree: Tree, consensus: ConsensusTree) -> list[float | None]:
    return support_values(tree, consensus.support.get)


def _written(
    tree: Tree,
    values: Sequence[float | None],
    bootstrap: BootstrapSupport | None,
    errors: Mapping[int, float],
    height: str,
    hidden: frozenset[int] = frozenset(),
) -> Subject:
    """A subject with what is written at its nodes."""
    beside = _resampled(tree, bootstrap)
    most = max(errors.values(), default=0.0)
    texts = []
    for node, value in enumerate(values):
        text = "" if value is None else show_probability(value)
        error = errors.get(tree.masks[node], 0.0)
        if text and error >= CERTAIN and not beside:
            text += f"±{max(error, 0.005):.2f}".replace("±0.", "±.")
        texts.append("/".join(part for part in (text, beside.get(node, "")) if part))
    explanation = ""
    if beside:
        known = f" (standard error {most:.1g} at most)" if most >= CERTAIN else ""
        explanation = f"probability{known} / AU / BP"
    elif any("±" in text for text in texts):
        explanation = "probability ± standard error"
    return Subject(tree, values, texts, hidden, height, explanation)


def _resampled(tree: Tree, bootstrap: BootstrapSupport | None) -> dict[int, str]:
    """AU and BP by node, as text."""
    if bootstrap is None:
        return {}
    known = {tree.mask(row.cluster): (row.au, row.bp) for row in bootstrap}
    return {
        node: "/".join("–" if v != v else show_probability(v) for v in known[mask])
        for node, mask in enumerate(tree.masks)
        if mask in known
    }
