"""Pictures of trees and posteriors, with matplotlib (an extra: ``pip install "hctrellis[plot]"``).

A plot takes and returns matplotlib axes; without any, it makes a new figure of a fitting size: a
dendrogram is as wide as one or two columns of a journal. `save_figure` writes PDF, SVG or PNG. In
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
`plot_profile`      how the log likelihood falls around a fitted parameter
`plot_tanglegram`   two trees or posteriors face to face
=================== ==========================================================================

The most probable tree is blue throughout; orange is what departs from it, or the truth. Shades of
grey are probabilities, the darker the more probable.
"""

from hctrellis.plotting.clustermap import plot_clustermap
from hctrellis.plotting.coclustering import plot_coclustering
from hctrellis.plotting.dendrogram import figure_size, plot_dendrogram
from hctrellis.plotting.files import figure_axes, fitting_shape, save_figure
from hctrellis.plotting.logweights import plot_log_weights
from hctrellis.plotting.lund import plot_lund
from hctrellis.plotting.overlay import plot_samples
from hctrellis.plotting.profile import plot_profile
from hctrellis.plotting.style import require_matplotlib
from hctrellis.plotting.tanglegram import plot_tanglegram
from hctrellis.plotting.toptrees import plot_top_trees
from hctrellis.plotting.trellis import plot_trellis

__all__ = [
    "figure_axes",
    "figure_size",
    "fitting_shape",
    "plot_clustermap",
    "plot_coclustering",
    "plot_dendrogram",
    "plot_log_weights",
    "plot_lund",
    "plot_profile",
    "plot_samples",
    "plot_tanglegram",
    "plot_top_trees",
    "plot_trellis",
    "require_matplotlib",
    "save_figure",
]
