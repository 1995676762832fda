"""Exact and honest inference over hierarchical clusterings.

import hctrellis as hct

post = hct.infer(hct.Linkage(table, method="average", beta=2.0))
post.map_tree, post.map_log_probability, post.log_partition
"""

from typing import TYPE_CHECKING, Any

from hctrellis import build, simulate
from hctrellis._version import __version__
from hctrellis.batch import BatchResult, infer_many
from hctrellis.build.grow import Growth, grow
from hctrellis.certify import MapResult, solve_map
from hctrellis.clades.distribution import CladeDistribution
from hctrellis.fit import Fit, NegativeLogLikelihood, fit
from hctrellis.infer import infer
from hctrellis.lund import cambridge_tree, lund_coordinates, lund_plane
from hctrellis.posterior.base import BasePosterior, NoTreeError
from hctrellis.posterior.compare import Comparison, compare
from hctrellis.posterior.placements import Placements, unsettled
from hctrellis.posterior.posterior import Posterior
from hctrellis.potentials.base import Potential
from hctrellis.potentials.correlation import CorrelationClustering
from hctrellis.potentials.dasgupta import Dasgupta
from hctrellis.potentials.density import GinkgoDensity
from hctrellis.potentials.function import FunctionPotential
from hctrellis.potentials.jets import Ginkgo, JetMass
from hctrellis.potentials.linkage import Linkage
from hctrellis.potentials.prior import BetaSplitting
from hctrellis.report import report_html, write_report
from hctrellis.runs import AnnotatedTree, RunReport, compare_runs, summary_tree
from hctrellis.sampling.load import load
from hctrellis.sampling.posterior import SampledPosterior, UnreliableError
from hctrellis.sampling.run import sample_posterior
from hctrellis.search import SearchResult, beam_search, greedy, local_search
from hctrellis.support.branch import where
from hctrellis.support.memory import TooLargeError
from hctrellis.tables.cluster import cluster
from hctrellis.tables.result import Clustering
from hctrellis.tree import Tree
from hctrellis.treefiles import TreeRuns, read_trees
from hctrellis.trellis import orders
from hctrellis.trellis.full import FullTrellis
from hctrellis.trellis.sparse import SparseTrellis
from hctrellis.trust.beta import choose_beta, sensitivity
from hctrellis.trust.bootstrap import bootstrap_support
from hctrellis.trust.contrasts import Contrasts
from hctrellis.trust.opinions import second_opinion

if TYPE_CHECKING:
    from hctrellis import plotting as plotting
    from hctrellis.tables.estimator import TrellisClustering as TrellisClustering

__all__ = [
    "AnnotatedTree",
    "BasePosterior",
    "BatchResult",
    "BetaSplitting",
    "CladeDistribution",
    "Clustering",
    "Comparison",
    "Contrasts",
    "CorrelationClustering",
    "Dasgupta",
    "Fit",
    "FullTrellis",
    "FunctionPotential",
    "Ginkgo",
    "GinkgoDensity",
    "Growth",
    "JetMass",
    "Linkage",
    "MapResult",
    "NegativeLogLikelihood",
    "NoTreeError",
    "Placements",
    "Posterior",
    "Potential",
    "RunReport",
    "SampledPosterior",
    "SearchResult",
    "SparseTrellis",
    "TooLargeError",
    "Tree",
    "TreeRuns",
    "UnreliableError",
    "__version__",
    "beam_search",
    "bootstrap_support",
    "build",
    "cambridge_tree",
    "choose_beta",
    "cluster",
    "compare",
    "compare_runs",
    "fit",
    "greedy",
    "grow",
    "infer",
    "infer_many",
    "load",
    "local_search",
    "lund_coordinates",
    "lund_plane",
    "orders",
    "read_trees",
    "report_html",
    "sample_posterior",
    "second_opinion",
    "sensitivity",
    "simulate",
    "solve_map",
    "summary_tree",
    "unsettled",
    "where",
    "write_report",
]


def __getattr__(name: str) -> Any:
    """Import what needs optional packages when it is first asked for."""
    from importlib import import_module

    if name == "TrellisClustering":
        return import_module("hctrellis.tables.estimator").TrellisClustering
    if name == "plotting":
        return import_module("hctrellis.plotting")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
