"""`infer_many`: from data sets to a table."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hctrellis.batch.chunks import Wanted, longest_first, solve_chunk
from hctrellis.batch.engines import as_engine, workers_of
from hctrellis.batch.extras import Extras
from hctrellis.batch.inputs import as_source
from hctrellis.batch.lanes import COUNTABLE_LEAVES, EXACT_LEAVES
from hctrellis.batch.result import BatchResult
from hctrellis.batch.store import Folder, Memory, begun_size
from hctrellis.sampling.policy import Beyond, Policy
from hctrellis.sampling.run import PRECISION, TIME_LIMIT
from hctrellis.support.arrow import arrow
from hctrellis.support.checks import as_count
from hctrellis.support.progress import Progress, followed

if TYPE_CHECKING:
    from hctrellis.batch.inputs import Source
    from hctrellis.batch.store import Store
    from hctrellis.tree import Tree


def infer_many(
    data: Any,
    potential: object = None,
    *,
    column: str | None = None,
    out: str | PathLike[str] | None = None,
    overwrite: bool = False,
    entropy: bool = False,
    heights: bool = False,
    count_trees: bool = False,
    clusters: float | None = None,
    samples: int | None = None,
    seed: int = 0,
    true_trees: Iterable[Tree | str | None] | str | None = None,
    seconds: bool = False,
    max_leaves: int = EXACT_LEAVES,
    beyond: Beyond = "sparse",
    precision: float = PRECISION,
    time_limit: float | None = TIME_LIMIT,
    scheduler: Any = None,
    workers: int | None = None,
    chunk_size: int | None = None,
    progress: Progress | bool | None = None,
    **parameters: Any,
) -> BatchResult:
    """Inference on many data sets; each gets a row of a table, in the order of the input.

    It is exact up to `max_leaves` leaves; what is done beyond is said by `beyond`, and the columns
    say how each row was obtained. A data set that cannot be solved (a jet with a NaN, a negative
    energy) gets a row with an error message and does not stop the others. See `BatchResult` for
    the columns.

    Parameters
    ----------
    data : list or iterator of Potential, or jets
        Jets are an Awkward array (a list per jet of records E, px, py, pz, or a `vector` array of
        momenta), `hctrellis.simulate.Jets`, an Arrow table, a list of arrays of shape (n, 4), of
        NumPy arrays of records or of lists of `vector` objects, or the path of a Parquet or ROOT
        file (``file.root:tree``, if it has several trees), of several, or of a folder with some,
        which are read piece by piece. Momenta may also be given as pt, phi, one of eta, rapidity,
        theta and pz, and mass (which counts, if both are there) or E. With one more level of lists,
        jets are nested in events, and `BatchResult.to_awkward` nests the answers alike.
    potential : Ginkgo, JetMass, "ginkgo" or "jetmass", optional
        The model of the jets; simulated jets bring their own.
    column : str, optional
        Which column of a table, array or file to take the momenta from, if several have momenta:
        the column of records (such as "constituents", or "jets.constituents" if they are inside
        the records of another), or one of the four columns of components.
    out : path, optional
        A folder for Parquet files, written chunk by chunk; nothing is kept in memory. A run that
        was stopped, however it happened, continues where it stopped when it is called again with
        the same data sets; those that cannot be compared (whose functions call `eval`, hold a lock,
        ...) are computed again.
    overwrite : bool
        Remove what an earlier run left in that folder.
    entropy : bool
        Whether to compute the entropies of the posteriors, too.
    heights : bool
        Whether to give the heights of the MAP trees; of jets, the invariant masses of clusters.
    count_trees : bool
        Whether to count trees also where that takes as long as all the rest, with more than 13
        leaves; with fewer they are counted anyway.
    clusters : float, optional
        List the clusters of at least this probability, with their probabilities.
    samples : int, optional
        Number of trees to draw from each posterior. This and `clusters` take a posterior for each
        data set, one after the other, which takes longer than all the rest.
    seed : int
        Of these samples; the same seed gives the same trees, however the work is divided.
    true_trees : iterable of Tree, str or None, optional
        A tree for each data set (in Newick format, if not a `Tree`) whose log weight is wanted; for
        jets in a file the name of a column. Leaves of jets are called 0, 1, ...
    seconds : bool
        Whether to report the time that each data set took (the mean over those computed together).
    max_leaves : int
        The most leaves of a data set that is solved exactly; 20 take a second or so, and each
        further one three times as long.
    beyond : "sparse", "sample" or "error"
        What is done with more leaves, as in `infer`. A sparse trellis is grown, which gives a lower
        bound of log Z and a good tree within a second or so, the same in every run; or trees are
        sampled, which gives log Z with a standard error within `time_limit`; or the row has an
        error.
    precision, time_limit
        As in `sample_posterior`, where trees are sampled.
    scheduler : "serial", "threads", "processes", "joblib", Dask client or address, optional
        What computes: by default threads, or the backend of an enclosing
        ``joblib.parallel_config``. "joblib" is that backend; an address looks like
        "tcp://localhost:8786". Threads share one Python interpreter, so for potentials with plain
        Python functions processes are faster.
    workers : int, optional
        Number of threads or processes; as many as cores by default.
    chunk_size : int, optional
        Number of data sets computed and written together; by default from their number and sizes
        and the number of workers, or as the run did that is continued.
    progress : bool or callable, optional
        True shows a progress bar; a callable is called as progress(data sets done, in all).
    **parameters
        Those of the model of the jets: ``lam``, ``t_cut``, ..., and ``on_shell``, which says
        whether jets with space-like particles are repaired or refused (see `Ginkgo`). ``lam`` and
        ``lam_root`` may be the name of a column with a number for each jet, or an array of such
        numbers if the jets are in memory.

    Returns
    -------
    BatchResult

    Raises
    ------
    ValueError
        If jets are not found in the data, a parameter is out of range, or the folder holds results
        of another run.

    Examples
    --------
    >>> import hctrellis as hct
    >>> models = [hct.Linkage([[0.0], [1.0], [3.0]], beta=beta) for beta in (1.0, 2.0)]
    >>> result = hct.infer_many(models)
    >>> result
    BatchResult(2 data sets, 0 failed, 0 without any tree)
    >>> result.to_arrow()["map_tree"].to_pylist()
    ['((0,1),2);', '((0,1),2);']
    """
    arrow()
    engine = as_engine(scheduler, workers)
    source = as_source(data, potential, column, true_trees, parameters, lasting=out is not None)
    policy = Policy.of(max_leaves, beyond, precision, time_limit, 0)
    most = policy.max_leaves
    if chunk_size is not None:
        size = as_count(chunk_size, "chunk_size")
    else:  # whoever begins a folder decides, so that others can continue
        begun = None if out is None or overwrite else begun_size(Path(out))
        size = begun or source.chunk_size(most, workers_of(scheduler, workers))
    largest = source.largest(most)
    large = most > COUNTABLE_LEAVES and (largest is None or largest > COUNTABLE_LEAVES)
    wide = large and bool(count_trees)
    extras = Extras.of(clusters, samples, seed)
    nested = source.jets_per_event
    wanted = Wanted(
        entropy,
        true_trees is not None,
        seconds,
        wide,
        policy,
        source.jets,
        bool(heights),
        bool(count_trees),
        extras,
        nested is not None,
    )
    with (
        followed(progress, "data sets") as show,
        _as_store(out, source, wanted, size, overwrite) as store,
    ):
        show(0, source.rows)
        todo = longest_first(store.missing(source.chunks(size)), most)
        with closing(engine(partial(solve_chunk, wanted=wanted), todo)) as answers:
            for index, table in answers:
                store.add(index, table)
                show(store.n_rows, source.rows)
        show(store.n_rows, store.n_rows)
        return replace(store.result(), jets_per_event=nested)


def _as_store(
    out: str | PathLike[str] | None, source: Source, wanted: Wanted, size: int, overwrite: bool
) -> Store:
    if out is None:
        return Memory(size)
    settings = {**source.settings(), "data_sets": source.rows, **_limits(wanted.policy)}
    settings |= {**wanted.extras.settings(), **({"count_trees": True} if wanted.count else {})}
    return Folder(Path(out), settings, wanted.schema(), size, overwrite)


def _limits(policy: Policy) -> dict[str, Any]:
    """What the answers depend on, of a policy."""
    given: dict[str, Any] = {"max_leaves": policy.max_leaves, "beyond": policy.beyond}
    if policy.beyond == "sample":
        given |= {"precision": policy.precision, "time_limit": policy.time_limit}
    return given
