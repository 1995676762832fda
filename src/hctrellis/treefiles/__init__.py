"""Files of trees, and trees that count more or less."""

from hctrellis.treefiles.read import read_newicks, read_nexus, write_nexus
from hctrellis.treefiles.weighted import WeightedTrees

__all__ = ["WeightedTrees", "read_newicks", "read_nexus", "write_nexus"]
