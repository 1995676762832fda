"""Runs of sampled trees: summary trees with lengths, and whether the runs are enough."""

from hctrellis.runs.annotated import AnnotatedTree
from hctrellis.runs.enough import RunReport, Standing, compare_runs, standing
from hctrellis.runs.summary import summary_tree

__all__ = ["AnnotatedTree", "RunReport", "Standing", "compare_runs", "standing", "summary_tree"]
