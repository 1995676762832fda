"""`load`: a posterior that was saved, ready to be asked again."""

from __future__ import annotations

import math
import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hctrellis.build.grow import Growth
from hctrellis.chains.chains import Records
from hctrellis.posterior.base import BasePosterior
from hctrellis.posterior.posterior import Posterior
from hctrellis.posterior.saved import Saved, read_posterior
from hctrellis.sampling.posterior import SampledPosterior
from hctrellis.sampling.run import sample_posterior
from hctrellis.sampling.verdict import Diagnostics
from hctrellis.support.progress import Progress
from hctrellis.tree import Tree
from hctrellis.trellis.sparse import SparseTrellis

AGREEMENT = 1e-9  # relative, of log Z now and when the file was written


def load(
    path: str | os.PathLike[str],
    threads: int | None = None,
    progress: Progress | bool | None = None,
) -> BasePosterior:
    """Read a posterior that ``post.save(path)`` has written.

    The file holds the model and the trees that are considered, or those that were sampled. The pass
    over the former is run again (seconds for 20 leaves), and log Z must be what it was. Nothing in
    the file is evaluated.

    Parameters
    ----------
    path : path
    threads : int, optional
        Number of threads.
    progress : bool or callable, optional
        As for `infer`.

    Returns
    -------
    Posterior or SampledPosterior

    Raises
    ------
    ValueError
        If the file is not a saved posterior, or log Z is not what it was.

    Examples
    --------
    >>> import tempfile, hctrellis as hct
    >>> post = hct.infer(hct.Linkage([[0.0], [1.0], [3.0]], labels="abc"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = load(post.save(f"{folder}/post.npz"))
    >>> again
    Posterior(Linkage(3 leaves, average, beta=1), log Z = -2.81973)
    """
    source = Path(path)
    if not source.exists():
        raise FileNotFoundError(f"there is no file {source}")
    if source.is_dir():
        raise IsADirectoryError(f"{source} is a folder; give the file that was saved")
    saved = read_posterior(source)
    try:
        growth = _growth(saved)
        if saved.said is not None:
            return _sampled(saved, growth, threads)
    except (ValueError, LookupError, TypeError) as error:
        raise ValueError(f"{source} is not a saved posterior: {error}") from None
    solution = saved.trellis.solve(saved.potential, threads, progress)
    post = Posterior(solution, saved.trellis, threads=threads, growth=growth)
    if not math.isclose(post.log_partition, saved.log_partition, rel_tol=AGREEMENT, abs_tol=1e-12):
        raise ValueError(
            f"log Z of {source} is {post.log_partition:.10g} now, but was "
            f"{saved.log_partition:.10g} when it was saved; the file was changed, or written by "
            "another version"
        )
    return post


def _growth(saved: Saved) -> Growth | None:
    if saved.growth is None or not isinstance(saved.trellis, SparseTrellis):
        return None
    return Growth.from_dict(saved.trellis, saved.growth)


def _sampled(saved: Saved, growth: Growth | None, threads: int | None) -> SampledPosterior:
    """Sampled trees, after checking that they are trees and weigh what they are said to weigh."""
    potential, more = saved.potential, saved.more
    if growth is None or saved.said is None:
        raise ValueError("it lacks the trellis beside the sampled trees")
    diagnostics = Diagnostics.from_dict(saved.said)
    children = more["children"]
    _check_trees(children, potential.n_leaves)
    draws = Records(children, more["log_weights"], more["forbidden"])
    if draws.log_weights.shape != children.shape[:2] or draws.forbidden.shape != children.shape[:2]:
        raise ValueError("its trees and their weights differ in number")
    best = potential.with_heights(Tree(more["best"], labels=potential.labels))
    first = Tree(children[0, 0].astype(np.int64), labels=potential.labels)
    weight = float(draws.log_weights[0, 0])
    if draws.forbidden[0, 0] == 0 and not math.isclose(
        potential.log_weight(first), weight, rel_tol=AGREEMENT, abs_tol=AGREEMENT
    ):
        raise ValueError(f"its first tree does not weigh {weight:.10g}")
    again = partial(sample_posterior, precision=diagnostics.precision, rng=0, threads=threads)
    return SampledPosterior(potential, draws, best, growth, diagnostics, again)


def _check_trees(children: npt.NDArray[Any], n: int) -> None:
    """Raise an error unless these are trees: children before parents, each node in one place."""
    if children.dtype != np.int16 or children.ndim != 4 or children.shape[2:] != (n - 1, 2):
        raise ValueError(f"its trees are no array of trees over {n} leaves")
    if 0 in children.shape:
        raise ValueError("it has no trees")
    limits = np.arange(n, 2 * n - 1)[:, None]
    nodes = np.sort(children.reshape(-1, 2 * n - 2), axis=1)
    if not (children < limits).all() or not (nodes == np.arange(2 * n - 2)).all():
        raise ValueError("some of its trees are no trees")
