"""What `cluster` and ``hctrellis infer`` find, all of it in one place."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hctrellis.certify.problems import problem_of
from hctrellis.certify.result import MapResult
from hctrellis.certify.solve import solve_map
from hctrellis.posterior.base import BasePosterior
from hctrellis.posterior.lookup import Lookup
from hctrellis.posterior.optimality import Optimality
from hctrellis.posterior.partition import Partition
from hctrellis.posterior.placements import Placements, unsettled
from hctrellis.posterior.table import ClusterTable
from hctrellis.support.steps import watched_by
from hctrellis.tables import moves, second
from hctrellis.tables.cells import Items
from hctrellis.tables.flat import Cut, best_tree, flat_clusters
from hctrellis.tables.models import pairwise
from hctrellis.tables.solve import SLOW_LEAVES
from hctrellis.tables.speech import in_python
from hctrellis.tables.wish import Bars, Wish, unseen
from hctrellis.tree import Tree
from hctrellis.trust.beta import BetaChoice, Make, SensitivityRow
from hctrellis.trust.bootstrap import BootstrapSupport
from hctrellis.trust.opinions import SecondOpinion

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hctrellis.runs.enough import RunReport
    from hctrellis.support.types import IntArray
    from hctrellis.treefiles import TreeRuns

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
    wish : Wish
        What was asked for.
    bars : callable
        Shows the progress of what is found when it is first asked for.
    speak : callable
        Names options as Python does, or as the command line does.
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
    wish: Wish = field(default_factory=Wish)
    bars: Bars = unseen
    speak: Callable[[str], str] = in_python

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
        """The most probable tree, or the best found, with the heights of its merges."""
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
            The tree cut where it is highest, or the most probable clusters.
        """
        return flat_clusters(self.posterior, self.tree, n_clusters, threshold, cut)

    def labels_at(self, n_clusters: int | None = None) -> IntArray:
        """The number of the flat cluster of each item, as scikit-learn has it."""
        return self.flat(n_clusters).assignment

    @cached_property
    def moves(self) -> list[SensitivityRow]:
        """The probabilities of clusters at half, once and twice beta.

        Empty without a beta, where sampling gives none that can be quoted, and where it would take
        long and was not asked for (``sensitivity=True``); `about_moves` says which.
        """
        post = self.posterior
        if self.make is None or self.items is None or not self._can_move() or self._waits():
            return []
        tree, known = post.map_tree, Lookup(post)
        inner = sorted(tree.masks[tree.n_leaves : -1], key=lambda m: -(known.probability(m) or 0.0))
        clusters = dict.fromkeys([*self.watched, *inner[:MAX_MOVED]])
        table = self.items.used if self.items.kind == "features" else None
        return moves.moves(self.make, table, post, clusters, self.wish, self.bars)

    def _can_move(self) -> bool:
        post = self.posterior
        return self.make is not None and post.is_reliable and post.potential.beta > 0

    def _waits(self) -> bool:
        """Whether probabilities at other betas would take long and were not asked for."""
        wanted = self.wish.sensitivity
        return wanted is False or (wanted is None and not moves.is_quick(self.posterior))

    @property
    def about_moves(self) -> str:
        """Why there are no probabilities at half and twice beta; empty if there are, or no beta."""
        if not self._can_move() or self.moves:
            return ""
        return moves.LATER if self._waits() else moves.NO_MOVES

    @cached_property
    def certificate(self) -> MapResult | None:
        """The best tree with a proof or a bound; None if all trees were weighed, or if not asked.

        It is asked for by ``certify=True``, and has the same time limit as the sampling.
        """
        post, wish = self.posterior, self.wish
        if not wish.certify or post.is_exact or self.items is None:
            return None
        with self.bars("seconds to prove the best tree", False) as progress:
            return solve_map(post.potential, wish.time_limit, rng=wish.seed, progress=progress)

    @property
    def is_provable(self) -> bool:
        """Whether `certify` would search for a proof, rather than repeat the bound of the model."""
        return self.items is not None and problem_of(self.posterior.potential) is not None

    @property
    def optimality(self) -> Optimality:
        """How good the tree is: "proven optimal", "within 1.3% of the optimum" or "best found"."""
        if self.certificate is None:
            return self.posterior.optimality
        return self.certificate.optimality_of(self.posterior.map_tree)

    @cached_property
    def second_opinion(self) -> SecondOpinion | None:
        """What another model says: contrasts beside a model with beta, or the reverse.

        None for matrices, and for more than 20 items unless it was asked for
        (``second_opinion=True``); `about_second` says why.
        """
        if not self._has_second() or self._second_waits():
            return None
        assert self.items is not None
        return second.ask(self.posterior, self.name, self.items.used, self.wish, self.bars)

    def _has_second(self) -> bool:
        if self.items is None or not self.posterior.is_reliable:
            return False
        return second.has_second(self.name, self.items.kind, self.items.used, self.metric)

    def _second_waits(self) -> bool:
        wanted = self.wish.second_opinion
        long = self.posterior.n_leaves > second.QUICK_LEAVES
        return wanted is False or (wanted is None and long)

    @property
    def about_second(self) -> str:
        """Where the two models disagree, or why only one was asked; empty if there is only one."""
        if not self._has_second():
            return ""
        if self.second_opinion is not None:
            return self.second_opinion.sentence
        return second.LATER if self._second_waits() else second.NO_SECOND

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
            self.posterior,
            masks,
            self.model,
            self.beta_choice,
            self.moves,
            self.bootstrap,
            self.second_opinion,
        )
        return " ".join(found)

    # ---- pictures and files -------------------------------------------------------------------

    def plot(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the tree with support and classes; see `plotting.plot_dendrogram`."""
        from hctrellis.plotting import plot_dendrogram

        given = {"bootstrap": self.bootstrap, "colors": self.groups or None, **options}
        return plot_dendrogram(self.posterior, ax=ax, **given)

    def report(self, path: str | os.PathLike[str], title: str = "", **options: Any) -> Path:
        """Write a report to a file (.html) and return its path; see `hctrellis.write_report`."""
        from hctrellis.report import write_report

        shown = {**self.report_options(title), **options}
        quick = not self.posterior.is_exact or self.posterior.n_leaves < SLOW_LEAVES
        with self.bars("splits, for the report", quick) as told, watched_by(told):
            return write_report(self.posterior, path, **shown)

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
            "about_sensitivity": self.speak(self.about_moves),
            "second_opinion": self.second_opinion,
            "about_second": self.speak(self.about_second),
            "optimality": None if self.certificate is None else self.optimality,
            "speak": self.speak,
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

        lines = [f"Clustering({self.posterior!r})", *listed_plainly(self.posterior)]
        if "second_opinion" in self.__dict__:  # not to let a line of text take seconds
            lines += filter(None, [self.speak(self.about_second)])
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from hctrellis.report.small import small_report

        return small_report(
            self.posterior,
            settings=self.settings,
            notes=self.notes,
            groups=self.groups,
            beta=self.beta_choice,
            second=self.second_opinion,
            remarks=[] if self.second_opinion else [self.speak(self.about_second)],
        )
