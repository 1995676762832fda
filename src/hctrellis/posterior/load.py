"""`load`: a posterior that was saved, ready to be asked again."""

from __future__ import annotations

import math
import os
from pathlib import Path

from hctrellis.build.grow import Growth, Step
from hctrellis.posterior.posterior import Posterior
from hctrellis.posterior.saved import read_posterior
from hctrellis.support.progress import Progress
from hctrellis.trellis.sparse import SparseTrellis

AGREEMENT = 1e-9  # relative, of log Z now and when the file was written


def load(
    path: str | os.PathLike[str],
    threads: int | None = None,
    progress: Progress | bool | None = None,
) -> Posterior:
    """Read a posterior that ``post.save(path)`` has written.

    The file holds the model and the trees that are considered. The pass over them is run again
    (seconds for 20 leaves), and log Z must be what it was. Nothing in the file is evaluated.

    Parameters
    ----------
    path : path
    threads : int, optional
        Number of threads.
    progress : bool or callable, optional
        As for `infer`.

    Returns
    -------
    Posterior

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
    saved = read_posterior(source)
    solution = saved.trellis.solve(saved.potential, threads, progress)
    growth = None
    if saved.growth is not None and isinstance(saved.trellis, SparseTrellis):
        trace = tuple(Step(*step) for step in saved.growth["trace"])
        growth = Growth(saved.trellis, trace, bool(saved.growth["converged"]))
    post = Posterior(solution, saved.trellis, threads=threads, growth=growth)
    if not math.isclose(post.log_partition, saved.log_partition, rel_tol=AGREEMENT, abs_tol=1e-12):
        raise ValueError(
            f"log Z of {source} is {post.log_partition:.10g} now, but was "
            f"{saved.log_partition:.10g} when it was saved; the file was changed, or written by "
            "another version"
        )
    return post
