"""Files of trees, and trees with weights."""

from hctrellis.treefiles.read import read_newicks, read_nexus, write_nexus
from hctrellis.treefiles.runs import TreeRuns
from hctrellis.treefiles.sample import read_trees
from hctrellis.treefiles.weighted import WeightedTrees

__all__ = ["TreeRuns", "WeightedTrees", "read_newicks", "read_nexus", "read_trees", "write_nexus"]
