"""Files of trees, and trees with weights."""

from hctrellis.treefiles.read import read_newicks, read_nexus, write_nexus
from hctrellis.treefiles.weighted import WeightedTrees

__all__ = ["WeightedTrees", "read_newicks", "read_nexus", "write_nexus"]
