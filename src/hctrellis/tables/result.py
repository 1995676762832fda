"""What `cluster` and ``hctrellis infer`` find, all of it in one place."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hctrellis.posterior.base import BasePosterior
from hctrellis.posterior.lookup import Lookup
from hctrellis.posterior.partition import Partition
from hctrellis.posterior.placements import Placements, unsettled
from hctrellis.posterior.table import ClusterTable
from hctrellis.tables.cells import Items
from hctrellis.tables.flat import Cut, best_tree, flat_clusters
from hctrellis.tables.models import pairwise
from hctrellis.tree import Tree
from hctrellis.trust.beta import BetaChoice, Make, SensitivityRow, sensitivity
from hctrellis.trust.bootstrap import BootstrapSupport

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hctrellis.runs.enough import RunReport
    from hctrellis.support.types import IntArray
    from hctrellis.treefiles import TreeRuns

MOVED_LEAVES = 20  # up to which all trees are weighed at three betas
MAX_MOVED = 10  # clusters that are followed from beta to beta


@dataclass(frozen=True, eq=False, repr=False)
class Clustering:
    """A clustering with a probability for every cluster, and all that goes with it.

    Made by `hctrellis.cluster`. A notebook shows it as a small report.

    Attributes
    ----------
    posterior : Posterior
        For further questions.
    name : str
        Of the model, such as "average".
    items : Items or None
        The labelled numbers; None if trees were read.
    watched : list of int
        Masks of the clusters that were asked about.
    settings : list of (str, str)
        Names and values, for a report.
    notes : list of str
        What the user should know.
    beta_choice : BetaChoice or None
        How beta was chosen, if it was.
    bootstrap : BootstrapSupport or None
        AU and BP of the clusters of the best tree, if they were asked for.
    make : callable or None
        Gives the potential of a table at a beta; None if trees were read.
    metric : str
    seed : int
    model : str
        The model in words, with what was done to the table; empty if trees were read.
    runs : TreeRuns or None
        The trees, if trees were read.
    enough : RunReport or None
        Whether these are enough, if there are several runs.
    """

    posterior: BasePosterior
    name: str
    items: Items | None
    watched: list[int]
    settings: list[tuple[str, str]]
    notes: list[str] = field(default_factory=list)
    beta_choice: BetaChoice | None = None
    bootstrap: BootstrapSupport | None = None
    make: Make | None = None
    metric: str = "euclidean"
    seed: int = 0
    model: str = ""
    runs: TreeRuns | None = None
    enough: RunReport | None = None

    # ---- answers ------------------------------------------------------------------------------

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the items, in the order of the table."""
        return self.posterior.labels

    @property
    def groups(self) -> dict[str, str]:
        """The class of every item that has one, by label; empty if no column of classes is set."""
        if self.items is None or not self.items.groups:
            return {}
        pairs = zip(self.items.labels, self.items.groups, strict=True)
        return {label: group for label, group in pairs if group}

    @cached_property
    def tree(self) -> Tree:
        """The most probable tree, with the heights of its merges."""
        if self.items is None:
            return self.posterior.map_tree
        distances = pairwise(self.items.kind, self.items.used, self.metric)
        return best_tree(self.posterior, distances, self.name)

    @cached_property
    def support(self) -> dict[frozenset[str], float]:
        """The probability of every cluster of the tree."""
        return Lookup(self.posterior).support(self.tree)

    @cached_property
    def table(self) -> ClusterTable:
        """All clusters of probability 0.01 or more."""
        return self.posterior.cluster_probabilities()

    def flat(
        self, n_clusters: int | None = None, *, threshold: float | None = None, cut: Cut = "map"
    ) -> Partition:
        """Flat clusters: n_clusters of them, or the largest of probability above a threshold.

        Parameters
        ----------
        n_clusters : int, optional
        threshold : float, optional
            If no number is given; by default 1/2. Items in none of the clusters stay single.
        cut : {"map", "best"}
            The most probable tree cut where it is highest, or the most probable clusters.
        """
        return flat_clusters(self.posterior, self.tree, n_clusters, threshold, cut)

    def labels_at(self, n_clusters: int | None = None) -> IntArray:
        """The number of the flat cluster of each item, as scikit-learn has it."""
        return self.flat(n_clusters).assignment

    @cached_property
    def moves(self) -> list[SensitivityRow]:
        """The probabilities of clusters at half and twice beta; empty where that takes too long."""
        post = self.posterior
        if self.make is None or self.items is None or not self._has_moves():
            return []
        tree = post.map_tree
        inner = sorted(tree.masks[tree.n_leaves : -1], key=lambda m: -post.cluster_probability(m))
        clusters = dict.fromkeys([*self.watched, *inner[:MAX_MOVED]])
        table = self.items.used if self.items.kind == "features" else None
        with warnings.catch_warnings():  # what they say was said of the posterior itself
            warnings.simplefilter("ignore")
            return sensitivity(self.make, table, post.potential.beta, clusters, post.trellis)

    def _has_moves(self) -> bool:
        post = self.posterior
        if post.potential.beta <= 0 or post.method == "sampled":
            return False
        return post.method == "sparse" or post.n_leaves <= MOVED_LEAVES

    @cached_property
    def placements(self) -> Placements:
        """How settled each item is, and which items spoil the tree; see `hctrellis.unsettled`."""
        return unsettled(self.posterior, rng=self.seed)

    def sentence(self, cluster: Iterable[str] | None = None) -> str:
        """A sentence for a paper on a cluster: by default those asked about, or the best ones.

        Parameters
        ----------
        cluster : iterable of str, optional
            By its labels.
        """
        from hctrellis.report.paper import sentences

        masks = self.watched or list(self.table.masks)
        if cluster is not None:
            masks = [self.posterior.map_tree.mask([*cluster])]
        found = sentences(
            self.posterior, masks, self.model, self.beta_choice, self.moves, self.bootstrap
        )
        return " ".join(found)

    # ---- pictures and files -------------------------------------------------------------------

    def plot(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the most probable tree with support and classes; see `plotting.plot_dendrogram`."""
        from hctrellis.plotting import plot_dendrogram

        given = {"bootstrap": self.bootstrap, "colors": self.groups or None, **options}
        return plot_dendrogram(self.posterior, ax=ax, **given)

    def report(self, path: str | os.PathLike[str], title: str = "", **options: Any) -> Path:
        """Write a report to a file (.html) and return its path; see `hctrellis.write_report`."""
        from hctrellis.report import write_report

        return write_report(self.posterior, path, **{**self.report_options(title), **options})

    def report_options(self, title: str = "") -> dict[str, Any]:
        """What a report shows besides the posterior."""
        items = self.items
        return {
            "title": title or "How sure is the tree?",
            "watch": self.watched,
            "table": None if items is None else items.values,
            "columns": None if items is None else items.columns,
            "groups": self.groups or None,
            "beta": self.beta_choice,
            "sensitivity": self.moves,
            "bootstrap": self.bootstrap,
            "settings": self.settings,
            "model": self.model,
            "runs": self.enough,
            "rng": self.seed,
        }

    def save(self, path: str | os.PathLike[str]) -> list[Path]:
        """Write what was found: one file, by its ending, or all of them into a folder.

        Parameters
        ----------
        path : path
            A file ending in .html (report), .pdf, .svg or .png (figure), .nwk (the best tree with
            probabilities), .csv (clusters with their probabilities), .json (all numbers) or .npz
            (the posterior, for `hctrellis.load`); or else a folder, which is made.

        Returns
        -------
        list of Path
            What was written.
        """
        from hctrellis.tables.export import save

        return save(self, Path(path))

    # ---- words --------------------------------------------------------------------------------

    def __repr__(self) -> str:
        from hctrellis.report.words import listed_plainly

        return "\n".join([f"Clustering({self.posterior!r})", *listed_plainly(self.posterior)])

    def _repr_html_(self) -> str:
        from hctrellis.report.small import small_report

        return small_report(
            self.posterior,
            settings=self.settings,
            notes=self.notes,
            groups=self.groups,
            beta=self.beta_choice,
        )
