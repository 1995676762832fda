"""A scikit-learn estimator: a tree, flat clusters, and how far to trust both.

The work is done by `choose_beta`, `infer` and `posterior.partition`; this module checks what it is
given, hands it over, and names the results as scikit-learn does. It needs scikit-learn.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import numpy as np
import numpy.typing as npt

from hctrellis.build.grow import grow
from hctrellis.infer import MAX_EXACT_LEAVES, infer
from hctrellis.posterior.base import BasePosterior
from hctrellis.posterior.partition import Partition
from hctrellis.potentials.base import Potential
from hctrellis.sampling.run import PRECISION, TIME_LIMIT, sample_posterior
from hctrellis.support.checks import (
    as_count,
    as_floats,
    as_positive,
    as_symmetric,
    frame_labels,
)
from hctrellis.tables.flat import all_single, best_tree, flat_clusters
from hctrellis.tables.models import (
    CONTRASTS,
    FORMER_NAMES,
    LINKAGES,
    POTENTIALS,
    maker,
    model_name,
    pairwise,
)
from hctrellis.tables.second import ask, has_second
from hctrellis.tables.wish import Wish, unseen
from hctrellis.tree import Tree
from hctrellis.trellis.full import FullTrellis
from hctrellis.trust.beta import BetaChoice, Make, choose_beta
from hctrellis.trust.contrasts import Contrasts
from hctrellis.trust.opinions import SecondOpinion

try:
    from sklearn.base import BaseEstimator, ClusterMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import validate_data
except ImportError:
    raise ImportError(
        'TrellisClustering needs scikit-learn 1.6 or newer: pip install "hctrellis[sklearn]"'
    ) from None

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray

KNOWN = (*POTENTIALS, CONTRASTS)
ROUNDS = 30  # of its growth, at most
LEAVES_RESTARTS = 2000  # number of leaves times restarts of the local search before


class TrellisClustering(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Hierarchical clustering with a probability for every cluster.

    Up to `max_exact_leaves` samples all binary trees are weighed, exactly. For more samples, trees
    are sampled, and probabilities have standard errors (``posterior_.cluster_probabilities()``). If
    chains disagree there are no probabilities to quote: a ConvergenceWarning says why, and
    `cluster_probabilities_` are NaN. With `max_clusters`, only the trees of a sparse trellis of
    that many clusters are weighed instead: the tree is then the best of those, and probabilities
    are conditional on them; a ConvergenceWarning says so. For the same `random_state` the result is
    the same on every machine where all trees are weighed or `max_clusters` is given.

    Parameters
    ----------
    potential : str, optional
        What trees are weighed by: merge heights of the linkages "single", "complete", "average",
        "centroid" or "ward"; "dasgupta", Dasgupta's cost of the similarities exp(-distance /
        median distance); "correlation-clustering" of these minus their mean; or "contrasts", a
        model of tables that needs no beta (see `hctrellis.Contrasts`). By default "average", and
        for two to nine features and up to 60 samples "contrasts", unless beta or metric is given.
    beta : float or "auto"
        Inverse temperature: how sharply trees are told apart. "auto" is `choose_beta`.
    n_clusters : int, optional
        Number of flat clusters.
    probability_threshold : float, optional
        Instead of n_clusters: the flat clusters are the largest ones with a probability above
        this, which must be at least 1/2; samples in none of them stay single. If neither is given,
        1/2, with a warning if all samples stay single.
    cut : {"map", "best"}
        How n_clusters clusters are found: the MAP tree cut where it is highest; or those that are
        most probable, whatever the tree (see `hctrellis.posterior.partition.best_partition`).
    metric : str
        A metric of `scipy.spatial.distance.pdist`; or "precomputed": X is a square matrix of
        distances for the linkages, of similarities for "dasgupta", or of affinities of both signs
        for "correlation-clustering".
    max_exact_leaves : int
        By default 22, as for `infer`: half a minute on two cores. With each leaf less it takes a
        third of the time and half the memory.
    max_clusters : int, optional
        Of a sparse trellis whose trees are weighed instead of sampling.
    second_opinion : bool
        Whether another model is asked, too: contrasts beside a model with beta, average linkage
        beside contrasts.
    precision : float
        Sampling ends when every probability of 0.05 or more has a standard error of at most this,
    time_limit : float or None
        or after this many seconds.
    random_state : int, RandomState instance or None
        For the resampling by which beta="auto" is chosen, for sampling, and for local search.

    Attributes
    ----------
    labels_ : int64 array, shape (n_samples,)
        The flat cluster of each sample.
    n_clusters_ : int
    cluster_probabilities_ : float64 array, one per flat cluster
        The probability that a tree has each flat cluster; NaN where it cannot be quoted.
    posterior_ : Posterior or SampledPosterior
        For further questions, see `Posterior`.
    potential_ : str
        The model that was used.
    beta_ : float or None
        None for contrasts, which have none.
    beta_choice_ : BetaChoice or None
        How beta="auto" was chosen.
    second_opinion_ : SecondOpinion or None
        Where another model disagrees (``second_opinion_.sentence``), if it was asked and gives
        probabilities that can be quoted.
    optimality_ : Optimality
        How good the MAP tree is; in print "proven optimal", "within 1.3% of the optimum" or "best
        found".
    children_ : int64 array, shape (n_samples - 1, 2)
    distances_ : float64 array, shape (n_samples - 1,)
        The MAP tree as scikit-learn writes trees: which nodes are merged, and at which height (the
        average distance for "dasgupta" and "correlation-clustering", the spread for "contrasts"),
        raised where a child is higher.
    linkage_matrix_ : float64 array, shape (n_samples - 1, 4)
        The same tree as SciPy writes it.
    n_leaves_ : int
    n_features_in_ : int
    feature_names_in_ : array of str, if X has names

    Examples
    --------
    >>> from hctrellis.tables.estimator import TrellisClustering
    >>> model = TrellisClustering(beta=1.0, n_clusters=3).fit([[0], [1], [7], [8], [30]])
    >>> model.labels_.tolist(), model.cluster_probabilities_.round(3).tolist()
    ([0, 0, 1, 1, 2], [0.958, 0.958, 1.0])
    """

    def __init__(
        self,
        potential: str | None = None,
        *,
        beta: float | Literal["auto"] = "auto",
        n_clusters: int | None = None,
        probability_threshold: float | None = None,
        cut: Literal["map", "best"] = "map",
        metric: str = "euclidean",
        max_exact_leaves: int = MAX_EXACT_LEAVES,
        max_clusters: int | None = None,
        second_opinion: bool = False,
        precision: float = PRECISION,
        time_limit: float | None = TIME_LIMIT,
        random_state: Any = None,
    ) -> None:
        self.potential = potential
        self.beta = beta
        self.n_clusters = n_clusters
        self.probability_threshold = probability_threshold
        self.cut = cut
        self.metric = metric
        self.max_exact_leaves = max_exact_leaves
        self.max_clusters = max_clusters
        self.second_opinion = second_opinion
        self.precision = precision
        self.time_limit = time_limit
        self.random_state = random_state

    def fit(self, X: npt.ArrayLike, y: object = None) -> Self:
        """Weigh the trees over the rows of X.

        Parameters
        ----------
        X : array_like, shape (n_samples, n_features), or (n_samples, n_samples) if precomputed
            The index of a DataFrame names the leaves of `posterior_`, if its entries differ.
        y : ignored
        """
        self._check()
        names = _names(X, matrix=self.metric == "precomputed")
        data: FloatArray = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        if names is not None and self.metric == "precomputed":
            data = as_symmetric(X, "X")
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        self.potential_ = model_name(self.potential, self._kind(), data, self._with_beta())
        self.posterior_ = self._infer(self._model(data, names, seed), seed)
        self.second_opinion_ = self._ask_again(data, seed)
        self.optimality_ = self.posterior_.optimality
        tree = self._tree(data)
        part = self._partition(tree)
        self.labels_ = part.assignment
        self.n_clusters_ = len(part)
        self.cluster_probabilities_ = part.probabilities
        self.n_leaves_ = len(data)
        self.linkage_matrix_ = tree.to_linkage()
        self.children_ = self.linkage_matrix_[:, :2].astype(np.int64)
        self.distances_ = self.linkage_matrix_[:, 2].copy()
        return self

    # ---- steps of fit -------------------------------------------------------------------------

    def _check(self) -> None:
        if self.potential is not None and self._name() not in KNOWN:
            known = ", ".join(KNOWN)
            raise ValueError(f"potential must be one of {known}; got {self.potential!r:.80}")
        if self._name() == CONTRASTS and self._with_beta():
            raise ValueError(
                'potential="contrasts" has neither beta nor metric; leave out beta and metric'
            )
        if self.cut not in ("map", "best"):
            raise ValueError(f'cut must be "map" or "best"; got {self.cut!r:.80}')
        if self.n_clusters is not None and self.probability_threshold is not None:
            raise ValueError("give n_clusters or probability_threshold, not both")
        if not isinstance(self.beta, str):
            as_positive(self.beta, "beta", zero=True)
        elif self.beta != "auto":
            raise ValueError(f'beta must be a number or "auto"; got {self.beta!r:.80}')
        as_count(self.max_exact_leaves, "max_exact_leaves")
        if self.max_clusters is not None:
            as_count(self.max_clusters, "max_clusters")

    def _kind(self) -> str:
        if self.metric != "precomputed":
            return "features"
        return "distances" if self._name() in (None, *LINKAGES) else "similarities"

    def _name(self) -> str | None:
        given = self.potential
        return given if given is None else FORMER_NAMES.get(given, given)

    def _with_beta(self) -> bool:
        return self.beta != "auto" or self.metric != "euclidean"

    def _model(self, data: FloatArray, names: Sequence[str] | None, seed: int) -> Potential:
        """The potential of the data, with its beta if it has one."""
        self.beta_: float | None = None
        self.beta_choice_: BetaChoice | None = None
        if self.potential_ == CONTRASTS:
            return Contrasts(data, labels=names, rng=seed)
        make = maker(self.potential_, self._kind(), data, self.metric, names)
        beta = self._choose_beta(make, data, seed)
        self.beta_ = beta
        return make(None, beta)

    def _ask_again(self, data: FloatArray, seed: int) -> SecondOpinion | None:
        kind, name = self._kind(), self.potential_
        if not self.second_opinion or not has_second(name, kind, data, self.metric):
            return None
        limit = 1e9 if self.time_limit is None else self.time_limit
        wish = Wish(seed=seed, precision=self.precision, time_limit=limit)
        return ask(self.posterior_, name, data, wish, unseen)

    def _choose_beta(self, make: Make, data: FloatArray, seed: int) -> float:
        if self.beta != "auto":
            return float(self.beta)
        choice = choose_beta(make, None if self.metric == "precomputed" else data, rng=seed)
        self.beta_choice_ = choice
        return choice.beta

    def _infer(self, potential: Potential, seed: int) -> BasePosterior:
        n = potential.n_leaves
        if n <= self.max_exact_leaves:
            return infer(potential, FullTrellis(n))
        if self.max_clusters is None:
            return self._sample(potential, seed)
        n_restarts = max(1, LEAVES_RESTARTS // n)
        growth = grow(potential, self.max_clusters, None, seed, n_restarts, ROUNDS)
        if not growth.converged:
            warnings.warn(
                f"{n} samples are too many to weigh all trees; the sparse trellis of "
                f"{growth.trellis.n_clusters} clusters that was grown instead has not converged, "
                "and probabilities are conditional on its trees (raise max_clusters to have more)",
                ConvergenceWarning,
                stacklevel=3,
            )
        return infer(potential, growth.trellis)

    def _sample(self, potential: Potential, seed: int) -> BasePosterior:
        post = sample_posterior(potential, self.precision, self.time_limit, rng=seed)
        if not post.is_reliable:
            warnings.warn(
                f"{post.diagnostics.verdict} labels_ are those of the best tree found.",
                ConvergenceWarning,
                stacklevel=4,
            )
        return post

    def _tree(self, data: FloatArray) -> Tree:
        """The MAP tree with heights."""
        distances = pairwise(self._kind(), data, self.metric)
        return best_tree(self.posterior_, distances, self.potential_)

    def _partition(self, tree: Tree) -> Partition:
        threshold = self.probability_threshold
        part = flat_clusters(self.posterior_, tree, self.n_clusters, threshold, self.cut)
        alone = all_single(part)
        if alone and threshold is None and self.n_clusters is None:
            warnings.warn(alone, stacklevel=3)
        return part

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.metric == "precomputed"
        return tags


# ---- inside -----------------------------------------------------------------------------------


def _names(X: object, matrix: bool) -> Sequence[str] | None:
    """The index of a DataFrame of numbers, if its entries differ."""
    names = frame_labels(X, matrix=matrix)
    if hasattr(X, "columns"):
        as_floats(
            cast(npt.ArrayLike, X), "X"
        )  # its error names columns of text; scikit-learn's does not
    return names if names is not None and len({*names}) == len(names) else None
