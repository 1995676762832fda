"""Inference: a potential and a trellis in, the posterior over trees out."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

from hctrellis.build.grow import Growth
from hctrellis.clades.contexts import ContextTrellis
from hctrellis.clades.distribution import CladeDistribution
from hctrellis.posterior.base import BasePosterior
from hctrellis.posterior.contexts import ContextPosterior
from hctrellis.posterior.posterior import Posterior
from hctrellis.potentials.base import Potential
from hctrellis.sampling.policy import Beyond, Policy
from hctrellis.sampling.posterior import SampledPosterior
from hctrellis.sampling.run import PRECISION, TIME_LIMIT
from hctrellis.support.checks import as_count
from hctrellis.support.progress import Progress
from hctrellis.trellis.full import FullTrellis
from hctrellis.trellis.sparse import SparseTrellis

if TYPE_CHECKING:
    from hctrellis.support.types import IntArray, Seed

FLAT_TOLERANCE = 1e-9
MAX_EXACT_LEAVES = 22  # by default: 1.6e10 splits, half a minute


@overload
def infer(
    potential: CladeDistribution,
    trellis: None = None,
    threads: int | None = None,
    progress: Progress | bool | None = None,
) -> Posterior: ...


@overload
def infer(
    potential: Potential,
    trellis: FullTrellis | SparseTrellis | Growth,
    threads: int | None = None,
    progress: Progress | bool | None = None,
    order: Sequence[int] | IntArray | None = None,
) -> Posterior: ...


@overload
def infer(
    potential: Potential,
    trellis: FullTrellis | SparseTrellis | Growth | None = None,
    threads: int | None = None,
    progress: Progress | bool | None = None,
    order: Sequence[int] | IntArray | None = None,
    *,
    max_leaves: int = MAX_EXACT_LEAVES,
    beyond: Beyond = "sample",
    precision: float = PRECISION,
    time_limit: float | None = TIME_LIMIT,
    rng: Seed = 0,
) -> BasePosterior: ...


def infer(
    potential: Potential,
    trellis: FullTrellis | SparseTrellis | Growth | None = None,
    threads: int | None = None,
    progress: Progress | bool | None = None,
    order: Sequence[int] | IntArray | None = None,
    *,
    max_leaves: int = MAX_EXACT_LEAVES,
    beyond: Beyond = "sample",
    precision: float = PRECISION,
    time_limit: float | None = TIME_LIMIT,
    rng: Seed = 0,
) -> BasePosterior:
    """Inference over all binary trees of a potential's leaves, or over those of a sparse trellis.

    Up to 22 leaves it is exact: Z(P) = sum over splits P = L + R of psi(L, R) Z(L) Z(R), and the
    same with max for the best tree, for all clusters P in O(3^n) time and O(2^n) memory. Beyond
    that trees are sampled (see `hctrellis.sample_posterior`), and every probability has a standard
    error.

    Parameters
    ----------
    potential : Potential
        The model bound to data.
    trellis : FullTrellis, SparseTrellis or Growth, optional
        Which trees are considered; all, by default. Over a sparse trellis log Z and the weight of
        the best tree are lower bounds, and probabilities are conditional on its trees (see
        `hctrellis.grow`). A `CladeDistribution` has a trellis of its own, which holds all trees of
        positive weight, so that answers are exact.
    threads : int, optional
        Number of threads; as many as cores by default. Answers do not depend on it.
    progress : bool or callable, optional
        True shows a progress bar; a callable is called as progress(splits done, splits in all), or
        as `hctrellis.sample_posterior` calls it where trees are sampled.
    order : sequence of int, optional
        Which leaf of the potential takes the place of leaf 0, 1, ... of a sparse trellis (see
        `hctrellis.trellis.orders`); by default leaf 0, 1, ...
    max_leaves : int
        The most leaves of all whose trees are considered, without a trellis; 22 take half a minute,
        and each further one three times as long.
    beyond : "sample", "sparse" or "error"
        What is done with more leaves: trees are sampled, or a sparse trellis is grown in a few
        rounds, or an error is raised.
    precision, time_limit, rng
        As in `hctrellis.sample_posterior`, where trees are sampled.

    Returns
    -------
    Posterior or SampledPosterior

    Raises
    ------
    TooLargeError
        If the tables would not fit in memory.
    ValueError
        If the potential gives a split a log weight that is NaN or +inf.

    Examples
    --------
    >>> import hctrellis as hct
    >>> post = hct.infer(hct.Linkage([[0.0], [1.0], [3.0], [7.0]], method="average", beta=1.0))
    >>> post.map_tree
    Tree(4 leaves: (((0,1),2),3))
    >>> post.n_trees
    15
    >>> round(post.cluster_probability(["0", "1"]), 4)
    0.5554
    """
    if not isinstance(potential, Potential):
        raise TypeError(
            f"potential must be a Potential, such as Linkage(table); got {type(potential).__name__}"
        )
    if threads is not None:
        as_count(threads, "threads")
    if trellis is None and isinstance(potential, CladeDistribution):
        trellis = potential.trellis
    policy = Policy.of(max_leaves, beyond, precision, time_limit, rng)
    if trellis is None and order is None:
        found = policy.solve(potential, threads, progress)
        _warn(found)
        return found
    trellis, growth = _as_trellis(trellis, potential)
    if order is not None:
        if not isinstance(trellis, SparseTrellis):
            raise ValueError(
                "order assigns leaves to the places of a sparse trellis; give one, or no order"
            )
        trellis = trellis.reorder(order)
    solution = trellis.solve(potential, threads, progress)
    kind = ContextPosterior if isinstance(trellis, ContextTrellis) else Posterior
    post = kind(solution, trellis, threads=threads, growth=growth)
    _warn(post)
    return post


def _warn(post: BasePosterior) -> None:
    """Warn of answers that are not to be relied on, or that say nothing."""
    if isinstance(post, SampledPosterior) and not post.is_reliable:
        warnings.warn(post.diagnostics.verdict, stacklevel=3)
    if isinstance(post, Posterior):
        _warn_if_flat(post)


def _as_trellis(
    given: object, potential: Potential
) -> tuple[FullTrellis | SparseTrellis, Growth | None]:
    if isinstance(given, Growth):
        return given.trellis, given
    if given is None:
        return FullTrellis(potential.n_leaves), None
    if not isinstance(given, FullTrellis | SparseTrellis):
        raise TypeError(f"trellis must be a FullTrellis or a SparseTrellis; got {given!r:.80}")
    return given, None


def _warn_if_flat(post: Posterior) -> None:
    """Warn of a potential under which all trees weigh the same, which is rarely intended."""
    model = post.potential
    if post.n_leaves < 4 or model.beta == 0 or not (model.has_energy and post.is_exact):
        return
    log_count = post.trellis.log_n_trees
    if log_count > 0 and abs(post._solution.log_spread - log_count) < FLAT_TOLERANCE:
        warnings.warn(
            "every tree has the same weight, so the posterior is flat and says nothing; a log "
            "weight of the form a(P) - a(L) - a(R) cancels in every tree",
            stacklevel=4,
        )
