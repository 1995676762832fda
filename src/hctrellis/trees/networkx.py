"""Directed graphs of networkx."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hctrellis.trees.parts import Parts

if TYPE_CHECKING:
    from hctrellis.tree import Tree


def parse_networkx(graph: Any) -> Parts:
    """Read a networkx DiGraph; see `Tree.from_networkx`."""
    order = _from_root(graph)
    leaves = [node for node in graph if not graph.out_degree(node)]
    number = {leaf: place for place, leaf in enumerate(leaves)}
    inner = [node for node in reversed(order) if node not in number]
    number |= {node: len(leaves) + row for row, node in enumerate(inner)}
    children = [[number[child] for child in graph.successors(node)] for node in inner]
    labels = [str(graph.nodes[leaf].get("label", leaf)) for leaf in leaves]
    heights = [graph.nodes[node].get("height") for node in inner]
    return Parts(children, labels, heights if heights and None not in heights else None)


def format_networkx(tree: Tree) -> Any:
    """Return a networkx DiGraph; see `Tree.to_networkx`."""
    graph = _import_networkx().DiGraph()
    for node, size in enumerate(tree.sizes.tolist()):
        graph.add_node(node, size=size)
    for leaf, label in enumerate(tree.labels):
        graph.nodes[leaf]["label"] = label
    for parent, pair in enumerate(tree.children.tolist(), start=tree.n_leaves):
        graph.add_edges_from((parent, child) for child in pair)
    for node, height in enumerate([] if tree.heights is None else tree.heights.tolist()):
        graph.nodes[tree.n_leaves + node]["height"] = height
    return graph


def _import_networkx() -> Any:
    try:
        return import_module("networkx")
    except ImportError:
        raise ImportError(
            "to_networkx needs networkx, which is not installed; "
            "run: pip install 'hctrellis[networkx]'."
        ) from None


def _from_root(graph: Any) -> list[Any]:
    """Return the nodes of a binary arborescence, parents before children, or say why not."""
    if not graph.is_directed():
        raise ValueError("the graph is undirected; expected a DiGraph with edges to the children.")
    roots = [node for node in graph if graph.in_degree(node) == 0]
    if len(roots) != 1:
        raise ValueError(f"the graph has {len(roots)} nodes without a parent; expected one root.")
    for node in graph:
        if graph.in_degree(node) > 1:
            raise ValueError(
                f"node {node!r:.80} has {graph.in_degree(node)} parents; expected one."
            )
        n_children = len(list(graph.successors(node)))
        if n_children not in (0, 2):
            raise ValueError(
                f"node {node!r:.80} has {n_children} children; expected 2, or 0 (a leaf)."
            )
    order = list(roots)
    for node in order:
        order += graph.successors(node)
    if len(order) < len(graph):
        raise ValueError(
            f"only {len(order)} of {len(graph)} nodes hang from the root; expected one tree."
        )
    return order
