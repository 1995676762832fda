"""Pictures of trees and posteriors, with matplotlib (an extra: ``pip install "hctrellis[plot]"``).

A plot takes and returns matplotlib axes; without any, it makes a new figure of a fitting size. In
given axes, labels stay within the rectangle of the axes: text is made smaller, then cut, and the
data make room for it.

=================== ==========================================================================
`plot_dendrogram`   a tree, with the support of its clusters
`plot_clustermap`   a table as a heat map, its rows (and columns) in the order of a tree
`plot_coclustering` how probable it is that two leaves are close, for every two
`plot_samples`      many trees on top of each other
`plot_lund`         the splittings of a jet in the primary Lund plane
`plot_log_weights`  how the log weight is distributed; where the best and the true tree are
`plot_trellis`      the clusters and splits of a posterior, probable splits wide
`plot_top_trees`    the most probable trees side by side
=================== ==========================================================================

The most probable tree is blue throughout; orange is what departs from it, or the truth. Shades of
grey are probabilities, the darker the more probable.
"""

from hctrellis.plotting.clustermap import plot_clustermap
from hctrellis.plotting.coclustering import plot_coclustering
from hctrellis.plotting.dendrogram import figure_size, plot_dendrogram
from hctrellis.plotting.logweights import plot_log_weights
from hctrellis.plotting.lund import plot_lund
from hctrellis.plotting.overlay import plot_samples
from hctrellis.plotting.style import require_matplotlib
from hctrellis.plotting.toptrees import plot_top_trees
from hctrellis.plotting.trellis import plot_trellis

__all__ = [
    "figure_size",
    "plot_clustermap",
    "plot_coclustering",
    "plot_dendrogram",
    "plot_log_weights",
    "plot_lund",
    "plot_samples",
    "plot_top_trees",
    "plot_trellis",
    "require_matplotlib",
]
