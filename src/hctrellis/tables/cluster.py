"""`cluster`: from a table to a clustering with probabilities, in one call."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Literal

from hctrellis.sampling.run import PRECISION, TIME_LIMIT
from hctrellis.support.checks import as_count, as_positive
from hctrellis.support.progress import Progress, bar, followed
from hctrellis.tables.cells import Options
from hctrellis.tables.frames import as_cells
from hctrellis.tables.items import as_items
from hctrellis.tables.result import Clustering
from hctrellis.tables.speech import in_python
from hctrellis.tables.wish import Wish
from hctrellis.tables.work import work

Kind = Literal["features", "distances", "similarities"]


def cluster(
    data: Any,
    *,
    kind: Kind | None = None,
    potential: str | None = None,
    metric: str = "euclidean",
    beta: float | Literal["auto"] = "auto",
    standardize: bool = False,
    log10: bool = False,
    missing: str = "error",
    transpose: bool = False,
    labels: str | Iterable[object] | None = None,
    color: str | None = None,
    ignore: str | Sequence[str] = (),
    all_columns: bool = False,
    watch: Iterable[Iterable[str]] = (),
    bootstrap: int | None = None,
    second_opinion: bool | None = None,
    sensitivity: bool | None = None,
    certify: bool = False,
    precision: float = PRECISION,
    time_limit: float = TIME_LIMIT,
    seed: int = 0,
    progress: Progress | bool | None = None,
) -> Clustering:
    """Cluster the rows of a table, and say how sure the clusters are.

    The same as ``hctrellis infer`` with the same defaults: average linkage of Euclidean distances
    with beta chosen by `choose_beta`, or for a table of two to nine columns and up to 60 rows
    `Contrasts`, which need no beta; all trees weighed exactly for up to 22 items and sampled
    beyond, every probability with a standard error.

    Parameters
    ----------
    data : array_like or DataFrame
        A table with a row for each item, or a square matrix between items; DataFrames of pandas or
        Polars, and Arrow tables, too. The index of a DataFrame of pandas names the items, or else
        the first column of text; a column that only numbers the rows is no feature.
    kind : {"features", "distances", "similarities"}, optional
        What the numbers are: features, unless they look like a matrix, which is an error.
    potential : str, optional
        How a merge is weighed: "average", "single", "complete", "ward" or "centroid" linkage,
        "dasgupta" or "correlation-clustering"; or "contrasts", a model of tables that is fitted
        to the table and needs no beta (see `Contrasts`). By default "average"; for a table of two
        to nine columns and up to 60 rows "contrasts", unless beta, metric or bootstrap are given,
        which only linkages have; for similarities "dasgupta", or if some of them are negative
        "average" of 1 - similarity.
    metric : str
        Between rows, as SciPy names it.
    beta : float or "auto"
        How sharply trees are told apart.
    standardize, log10 : bool
        Take logarithms; then shift and scale columns to mean 0 and variance 1.
    missing : {"error", "mean", "zero", "drop-rows", "drop-columns"}
    transpose : bool
        The columns are the items.
    labels : str or iterable, optional
        The column that names the items, or the names.
    color : str, optional
        The column of classes, shown as colours; it is no feature.
    ignore : str or sequence of str
        Columns that are left out.
    all_columns : bool
        Columns that number the rows are features, too.
    watch : iterable of clusters
        Clusters to be asked about, each by its labels.
    bootstrap : int, optional
        Also resample the columns so often at each of ten scales: AU and BP values.
    second_opinion : bool, optional
        Ask another model of the table, too: contrasts beside a model with beta, average linkage
        beside contrasts. By default for up to 20 items.
    sensitivity : bool, optional
        Also find the probabilities at half and twice beta. By default for up to 20 items.
    certify : bool
        If trees are sampled: also search for a proof that the best tree is best, or how close to
        the best it is (see `solve_map`), for at most time_limit seconds.
    precision : float
        If there are more than 22 items, trees are sampled until every probability of 0.05 or more
        has a standard error of at most this,
    time_limit : float
        or this many seconds have passed.
    seed : int
        Of everything that is drawn at random.
    progress : bool or callable, optional
        True shows progress bars; a callable is called as progress(done, in all) by each stage.

    Returns
    -------
    Clustering
        With ``posterior``, ``tree``, ``support``, ``table``, ``labels_at(k)``, ``second_opinion``,
        ``plot()``, ``report(path)`` and ``save(path)``.

    Examples
    --------
    >>> import hctrellis as hct
    >>> table = [[1.0, 2.0], [2.0, 2.0], [8.0, 9.0], [9.0, 9.0], [30.0, 1.0]]
    >>> names = ["ape", "bat", "cat", "dog", "eel"]
    >>> result = hct.cluster(table, labels=names, potential="average")
    >>> result.tree
    Tree(5 leaves: (((ape,bat),(cat,dog)),eel))
    >>> result.labels_at(3).tolist()
    [0, 0, 1, 1, 2]
    """
    named = isinstance(labels, str) and hasattr(data, "columns")
    options = Options(
        kind=_one_of(kind, "kind", ("features", "distances", "similarities", None)),
        labels=str(labels) if named else None,
        color=color,
        ignore=(ignore,) if isinstance(ignore, str) else tuple(ignore),
        missing=_one_of(missing, "missing", ("error", "mean", "zero", "drop-rows", "drop-columns")),
        log10=log10,
        standardize=standardize,
        all_columns=all_columns or not hasattr(data, "columns"),
        transpose=transpose,
    )
    if beta != "auto":
        as_positive(beta, "beta")
    if bootstrap is not None:
        as_count(bootstrap, "bootstrap")
    wish = Wish(
        potential=potential,
        metric=metric,
        beta=None if beta == "auto" else float(beta),
        clusters=[[*map(str, names)] for names in watch],
        bootstrap=bootstrap,
        second_opinion=second_opinion,
        sensitivity=sensitivity,
        certify=certify,
        seed=seed,
        precision=precision,
        time_limit=as_positive(time_limit, "time_limit"),
        reading=options,
    )
    try:
        items = as_items(as_cells(data, None if named else labels), options)
        found = work(items, wish, partial(_bars, progress))
    except ValueError as error:
        raise type(error)(in_python(str(error))) from None
    found.notes[:] = [in_python(note) for note in found.notes]
    found.settings[:] = [(name, in_python(value)) for name, value in found.settings]
    for note in found.notes:
        warnings.warn(note, stacklevel=2)
    return found


def _bars(
    progress: Progress | bool | None, what: str, short: bool
) -> AbstractContextManager[Progress]:
    if short and progress is True:
        return bar(what, short=True)
    return followed(progress, what)


def _one_of(given: Any, what: str, known: Sequence[str | None]) -> Any:
    if given not in known:
        names = ", ".join(repr(name) for name in known if name is not None)
        raise ValueError(f"{what} must be one of {names}; got {given!r:.80}")
    return given
