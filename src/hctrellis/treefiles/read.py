"""Reading and writing texts with many trees: Newick and NEXUS."""

from __future__ import annotations

from collections.abc import Iterable

from hctrellis.tree import Tree
from hctrellis.treefiles.weighted import WeightedTrees
from hctrellis.trees.newick import parse_newicks
from hctrellis.trees.nexus import format_nexus, parse_nexus
from hctrellis.trees.parts import Written


def read_newicks(text: str) -> WeightedTrees:
    """Read all trees of a text in Newick format, each closed by ';', with their weights, if any.

    Raises
    ------
    ValueError
        If the text is malformed, a tree is not binary, or some trees have weights and others have
        none; the message gives the position.

    Examples
    --------
    >>> list(read_newicks("((a,b),c); (a,(b,c));"))
    [Tree(3 leaves: ((a,b),c)), Tree(3 leaves: (a,(b,c)))]
    >>> read_newicks("[&W 0.9] ((a,b),c); [&W 0.1] (a,(b,c));").weights.tolist()
    [0.9, 0.1]
    """
    return _collect(parse_newicks(text))


def read_nexus(text: str) -> WeightedTrees:
    """Read the trees of all TREES blocks of a NEXUS file, with their weights, if any.

    TRANSLATE tables are applied; other blocks and commands are passed over, comments too, except
    weights such as [&W 0.9] or [&W 9/10]. Trees are rooted as they are written, whether they say
    [&R], [&U] or nothing. Numbers that stand for the taxa of a TAXA block are not looked up: they
    stay labels.

    Raises
    ------
    ValueError
        If the text is malformed, a tree is not binary, or some trees have weights and others have
        none; the message gives the position.

    Examples
    --------
    >>> trees = read_nexus('''#NEXUS
    ... begin trees;
    ...   translate 1 ape, 2 bat, 3 cat;
    ...   tree first [p = 0.9, P = 0.9] = [&W 0.9] ((1,2),3);
    ...   tree second [p = 0.1, P = 1.0] = [&W 0.1] (1,(2,3));
    ... end;''')
    >>> trees[0], trees.weights.tolist()
    (Tree(3 leaves: ((ape,bat),cat)), [0.9, 0.1])
    """
    return _collect(parse_nexus(text))


def write_nexus(trees: Iterable[Tree], lengths: bool = False) -> str:
    """Write trees as a NEXUS file with one TREES block, with weights if they have some.

    Examples
    --------
    >>> print(write_nexus([Tree.from_newick("((a,b),c);")]), end="")
    #NEXUS
    BEGIN TREES;
      TREE tree_1 = [&R] ((a,b),c);
    END;
    """
    given = WeightedTrees(trees)
    return format_nexus((tree.to_newick(lengths=lengths) for tree in given), given.weights)


def _collect(written: Iterable[Written]) -> WeightedTrees:
    """The trees of a text, all with weights or none."""
    trees: list[Tree] = []
    weights: list[float] = []
    for parts, weight, position in written:
        if trees and (weight is None) == bool(weights):
            has, have = ("no", "have one") if weight is None else ("a", "have none")
            raise ValueError(
                f"the tree at position {position} has {has} weight, but those before it {have}; "
                "expected weights [&W ...] for all trees or for none."
            )
        trees.append(Tree(**parts._asdict()))
        if weight is not None:
            weights.append(weight)
    return WeightedTrees(trees, weights or None)
