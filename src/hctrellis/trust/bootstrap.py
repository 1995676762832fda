"""Bootstrap support of clusters, AU and BP, as the R package pvclust defines them.

The columns of a table are resampled with replacement many times, and each resample is clustered;
the bootstrap probability (BP) of a cluster is the fraction of resamples whose tree has it. BP is
biased. The *multiscale* bootstrap draws r d columns of d for several scales r and follows how the
frequency changes with r: with z(r) = -Phi^-1(frequency) it fits

    z(r) = v sqrt(r) + c / sqrt(r)

by weighted least squares; v measures how far the data are from losing the cluster, c the curvature
of that border. Then BP = 1 - Phi(v + c), and the approximately unbiased AU = 1 - Phi(v - c): one
minus the p-value of the test that the cluster is not there.

References
----------
H. Shimodaira, An approximately unbiased test of phylogenetic tree selection, Systematic Biology 51
(2002); Approximately unbiased tests of regions using multistep-multiscale bootstrap resampling,
Annals of Statistics 32 (2004). R. Suzuki, H. Shimodaira, Pvclust: an R package for assessing the
uncertainty in hierarchical clustering, Bioinformatics 22 (2006).
"""

from __future__ import annotations

import html
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from hctrellis.clusters import mask_labels, show_cluster
from hctrellis.support.checks import as_count, as_finite, as_labels, frame_labels
from hctrellis.support.imports import ONE_AT_A_TIME
from hctrellis.support.memory import check_fits
from hctrellis.support.progress import Progress, followed
from hctrellis.support.types import Seed
from hctrellis.tree import Tree

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray, IntArray

SCALES = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4)
METHODS = ("single", "complete", "average", "weighted", "centroid", "median", "ward")
CERTAIN = 1e-3  # a frequency this near to 0 or 1 does not enter the fit, as in pvclust
LEAST_COLUMNS = 10  # of a table whose resamples say something
LEAST_SCALES = 3  # with frequencies that enter the fit
CHUNK = 1 << 21  # distances at a time
UNDEFINED = 1e-12  # a variance this small, relative to that of all columns, counts as zero
_SHOWN_ROWS = 20


class SupportRow(NamedTuple):
    """A cluster, its number of leaves, its AU and BP values and their standard errors."""

    cluster: frozenset[str]
    size: int
    au: float
    bp: float
    au_se: float
    bp_se: float


@dataclass(frozen=True, eq=False, repr=False)
class BootstrapSupport(Sequence[SupportRow]):
    """The support of the clusters of a tree, without leaves and root: greatest AU first.

    Attributes
    ----------
    tree : Tree
    masks : tuple of int
        The clusters; leaf i is bit i.
    values : float64 array, shape (clusters, 4)
        AU, BP, standard error of AU, standard error of BP.
    scales : float64 array
        Number of columns of a resample, divided by that of the table.
    n_resamples : int64 array
        How many resamples of each scale were used.
    frequencies : float64 array, shape (clusters, scales)
        How often each cluster came back.
    """

    tree: Tree
    masks: tuple[int, ...]
    values: FloatArray
    scales: FloatArray
    n_resamples: IntArray
    frequencies: FloatArray

    def support(self, kind: Literal["au", "bp"] = "au") -> dict[frozenset[str], float]:
        """AU or BP of every cluster, as `Tree.to_newick(support=...)` and plots take it."""
        if kind not in ("au", "bp"):
            raise ValueError(f'kind must be "au" or "bp"; got {kind!r:.80}')
        return {row.cluster: getattr(row, kind) for row in self}

    @cached_property
    def _rows(self) -> tuple[SupportRow, ...]:
        labels = self.tree.labels
        return tuple(
            SupportRow(
                frozenset(mask_labels(mask, labels)),
                mask.bit_count(),
                *row,
            )
            for mask, row in zip(self.masks, self.values.tolist(), strict=True)
        )

    def __len__(self) -> int:
        return len(self.masks)

    @overload
    def __getitem__(self, index: int) -> SupportRow: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[SupportRow, ...]: ...

    def __getitem__(self, index: int | slice) -> SupportRow | tuple[SupportRow, ...]:
        return self._rows[index]

    def __iter__(self) -> Iterator[SupportRow]:
        return iter(self._rows)

    def to_pandas(self) -> Any:
        """A pandas DataFrame with the fields of `SupportRow` as columns."""
        import pandas as pd

        return pd.DataFrame(list(self), columns=list(SupportRow._fields))

    def __repr__(self) -> str:
        lines = [f"{'AU':>6} {'+-':>7}  {'BP':>6} {'+-':>7}  {'size':>4}  cluster"]
        for mask, (au, bp, au_se, bp_se) in zip(self.masks, self.values, strict=True):
            numbers = f"{au:6.4f} {au_se:7.4f}  {bp:6.4f} {bp_se:7.4f}"
            cluster = show_cluster(mask, self.tree.labels)
            lines.append(f"{numbers}  {mask.bit_count():4d}  {cluster}")
        hidden = len(self) - _SHOWN_ROWS
        return "\n".join(lines[: _SHOWN_ROWS + 1] + [f"... {hidden} more"] * (hidden > 0))

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{row.au:.4f}</td><td>{row.bp:.4f}</td><td>{row.size}</td>"
            f"<td>{html.escape(', '.join(sorted(row.cluster)))}</td></tr>"
            for row in self
        )
        head = "<tr><th>AU</th><th>BP</th><th>size</th><th>cluster</th></tr>"
        return f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>"


def bootstrap_support(
    table: npt.ArrayLike,
    method: str = "average",
    metric: str = "euclidean",
    n_resamples: int = 1000,
    scales: Iterable[float] = SCALES,
    tree: Tree | None = None,
    *,
    labels: Iterable[object] | None = None,
    rng: Seed = None,
    progress: Progress | bool | None = None,
) -> BootstrapSupport:
    """AU and BP values of the clusters of a tree, by resampling the columns of its table.

    Parameters
    ----------
    table : array_like, shape (n, d)
        A row for each leaf. The columns should be independent observations, and many: with fewer
        than about ten, resampling says little.
    method : str
        How a resample is clustered: single, complete, average, weighted, centroid, median or ward,
        as in `scipy.cluster.hierarchy.linkage`.
    metric : str
        Any metric of `scipy.spatial.distance.pdist`; "correlation" is 1 - the correlation of two
        rows. Resamples in which a distance is not defined are left out. Euclidean, squared
        Euclidean, city block and correlation distances are computed for many resamples at once.
    n_resamples : int
        Number of resamples of each scale.
    scales : iterable of float
        Numbers of columns of resamples, as multiples of that of the table, rounded down to whole
        columns.
    tree : Tree, optional
        The clusters to support, for instance those of a MAP tree; by default those of the tree of
        the table itself by the same method.
    labels : iterable of str, optional
        Of the rows; by default the index of a DataFrame, else those of the tree, else "0", "1", ...
    rng : None, int or numpy Generator
    progress : bool or callable, optional
        True shows a progress bar; a callable is called as progress(resamples done, in all).

    Returns
    -------
    BootstrapSupport

    Notes
    -----
    As in pvclust, frequencies within 0.001 of 0 or 1 do not enter the fit; where fewer than three
    scales remain, AU and BP are 0 or 1, whichever the mean frequency is nearer to.

    Examples
    --------
    >>> import numpy as np
    >>> table = np.random.default_rng(1).normal(size=(4, 30)) + [[0], [0], [2], [2]]
    >>> found = bootstrap_support(table, labels="abcd", n_resamples=100, rng=1)
    >>> sorted(found[0].cluster), found[0].au > 0.95
    (['c', 'd'], True)
    """
    values = _as_table(table)
    n = len(values)
    if values.shape[1] < LEAST_COLUMNS:
        columns = f"{values.shape[1]} column{'' if values.shape[1] == 1 else 's'}"
        warnings.warn(
            f"the table has {columns}; with fewer than {LEAST_COLUMNS}, resampling "
            "them says little, and AU may be far from BP",
            stacklevel=2,
        )
    check_fits(20 * n * n, f"the distances between {n} rows", "fewer rows")
    distances = _distance_function(values, _as_metric(metric))
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}; got {method!r:.80}")
    if not (tree is None or isinstance(tree, Tree)):
        raise TypeError(f"tree must be a Tree; got {type(tree).__name__}")
    own = frame_labels(table) if labels is None else labels
    names = as_labels(tree.labels if own is None and tree is not None else labels, n, table)
    chosen = _tree_of(distances, values, method, names) if tree is None else tree.reorder(names)
    keys = _Keys(chosen)
    generator = np.random.default_rng(rng)
    sizes = _sizes(scales, values.shape[1])
    n_each = as_count(n_resamples, "n_resamples")
    counts, used = np.zeros((len(keys), len(sizes)), np.int64), np.zeros(len(sizes), np.int64)
    with followed(progress, "resamples") as report:
        done = 0
        for scale, size in enumerate(sizes):
            for chunk in _chunks(n_each, values.shape):
                drawn = distances(_draw(size, values.shape[1], chunk, generator))
                trees = _cluster(drawn, method)
                counts[:, scale] += keys.count(trees)
                used[scale] += len(trees)
                done += chunk
                report(done, n_each * len(sizes))
    return _summarise(chosen, np.array(sizes) / values.shape[1], counts, used)


# ---- resamples --------------------------------------------------------------------------------


def _sizes(scales: Iterable[float], n_columns: int) -> list[int]:
    """The different numbers of columns of resamples, at least one."""
    given = as_finite([*scales], "scales")
    if given.ndim != 1 or len(given) == 0 or (given <= 0).any():
        raise ValueError(f"scales must be positive numbers; got {given.tolist()!r:.80}")
    sizes = np.floor(given * n_columns + 1e-9).astype(int)
    found: list[int] = np.unique(np.maximum(sizes, 1)).tolist()
    if len(found) < LEAST_SCALES:
        warnings.warn(
            f"AU needs resamples of at least {LEAST_SCALES} sizes; {n_columns} columns at these "
            f"scales give {len(found)}, so AU is not a number and BP is the frequency itself",
            stacklevel=3,
        )
    return found


def _chunks(n_resamples: int, shape: tuple[int, ...]) -> Iterator[int]:
    """How many resamples of a table to take at a time."""
    n, d = shape
    most = max(1, CHUNK // max(n * (n - 1) // 2, d))
    for start in range(0, n_resamples, most):
        yield min(most, n_resamples - start)


def _draw(size: int, n_columns: int, n_resamples: int, rng: np.random.Generator) -> FloatArray:
    """How often each column is drawn, shape (resamples, columns)."""
    return rng.multinomial(size, np.full(n_columns, 1 / n_columns), n_resamples).astype(float)


Distances = Callable[["FloatArray"], "FloatArray"]
"""From how often each column is drawn to distances, shape (resamples, pairs); NaN: undefined."""


def _distance_function(table: FloatArray, metric: str) -> Distances:
    if metric == "correlation":
        return lambda drawn: _correlation_distances(table, drawn)
    if metric == "euclidean":
        return lambda drawn: np.sqrt(_pair_sums(table, drawn, lambda x, y: (x - y) ** 2))
    if metric == "sqeuclidean":
        return lambda drawn: _pair_sums(table, drawn, lambda x, y: (x - y) ** 2)
    if metric == "cityblock":
        return lambda drawn: _pair_sums(table, drawn, lambda x, y: np.abs(x - y))
    return lambda drawn: _any_distances(table, drawn, metric)


def _pair_sums(
    table: FloatArray,
    drawn: FloatArray,
    term: Callable[[FloatArray, FloatArray], FloatArray],
) -> FloatArray:
    """The sum over the columns drawn of a term of two rows, for all pairs of rows."""
    first, second = np.triu_indices(len(table), 1)
    sums = np.empty((len(drawn), len(first)))
    step = max(1, CHUNK // table.shape[1])
    for start in range(0, len(first), step):
        pairs = slice(start, start + step)
        sums[:, pairs] = drawn @ term(table[first[pairs]], table[second[pairs]]).T
    return sums


def _correlation_distances(table: FloatArray, drawn: FloatArray) -> FloatArray:
    """1 - the correlation of the columns drawn, for all pairs of rows."""
    centred = table - table.mean(axis=1, keepdims=True)
    first, second = np.triu_indices(len(table), 1)
    size = drawn.sum(axis=1, keepdims=True)
    sums, squares = drawn @ centred.T, drawn @ (centred**2).T
    variances = squares - sums**2 / size
    variances[variances <= UNDEFINED * squares] = np.nan
    products = _pair_sums(centred, drawn, np.multiply)
    products -= sums[:, first] * sums[:, second] / size
    scale = np.sqrt(variances[:, first] * variances[:, second])
    distances: FloatArray = np.maximum(1 - products / scale, 0.0)
    return distances


def _any_distances(table: FloatArray, drawn: FloatArray, metric: str) -> FloatArray:
    with ONE_AT_A_TIME:
        from scipy.spatial.distance import pdist

    columns = np.arange(table.shape[1])
    with np.errstate(all="ignore"):
        return np.array(
            [pdist(table[:, np.repeat(columns, row.astype(int))], metric) for row in drawn]
        )


def _cluster(distances: FloatArray, method: str) -> IntArray:
    """The children of the trees of those resamples whose distances are all defined."""
    with ONE_AT_A_TIME:
        from scipy.cluster.hierarchy import linkage

    defined = distances[np.isfinite(distances).all(axis=1)]
    if distances.shape[1] == 0:  # one leaf
        return np.empty((len(distances), 0, 2), np.int64)
    n_leaves = round((1 + (1 + 8 * distances.shape[1]) ** 0.5) / 2)
    children = np.empty((len(defined), n_leaves - 1, 2), np.int64)
    for row, tree in zip(defined, children, strict=True):
        tree[:] = linkage(row, method)[:, :2]
    return children


def _tree_of(distances: Distances, table: FloatArray, method: str, labels: tuple[str, ...]) -> Tree:
    with ONE_AT_A_TIME:
        from scipy.cluster.hierarchy import linkage

    (given,) = distances(np.ones((1, table.shape[1])))
    if not np.isfinite(given).all():
        raise ValueError(
            "the distance between some rows is not defined; leave out constant rows or choose "
            "another metric"
        )
    if given.size == 0:
        return Tree([], labels=labels)
    return Tree.from_linkage(linkage(given, method), labels=labels)


class _Keys:
    """The clusters of a tree, without leaves and root, as random 64-bit keys.

    The key of a cluster is the exclusive or of those of its leaves. Two different clusters share
    a key with a probability of about 1e-19.
    """

    def __init__(self, tree: Tree) -> None:
        rng = np.random.default_rng(0)
        self.leaves = rng.integers(np.iinfo(np.int64).max, size=tree.n_leaves)
        self.wanted = self.of(tree.children[None])[0, :-1]

    def __len__(self) -> int:
        return len(self.wanted)

    def of(self, children: IntArray) -> IntArray:
        """The keys of the internal nodes of trees, shape (trees, n - 1)."""
        n, rows = len(self.leaves), np.arange(len(children))
        keys = np.empty((len(children), 2 * n - 1), np.int64)
        keys[:, :n] = self.leaves
        for k in range(n - 1):
            left, right = children[:, k].T
            keys[:, n + k] = keys[rows, left] ^ keys[rows, right]
        return keys[:, n:]

    def count(self, children: IntArray) -> IntArray:
        """How many of the trees have each cluster."""
        order = np.argsort(self.wanted)
        found = self.of(children).ravel()
        places = np.searchsorted(self.wanted, found, sorter=order).clip(max=len(self) - 1)
        hits = order[places[self.wanted[order[places]] == found]] if len(self) > 0 else order
        return np.bincount(hits, minlength=len(self))


# ---- the fit ----------------------------------------------------------------------------------


def _summarise(
    tree: Tree, scales: FloatArray, counts: IntArray, n_resamples: IntArray
) -> BootstrapSupport:
    """AU and BP from counts, shape (clusters, scales)."""
    usable = n_resamples > 0
    if not usable.any():
        raise ValueError(
            "no resample has all distances defined; leave out rows that are nearly constant or "
            "choose another metric"
        )
    scales, n_resamples = scales[usable], n_resamples[usable]
    frequencies = counts[:, usable] / n_resamples
    values = np.array([_fit(row, scales, n_resamples) for row in frequencies]).reshape(-1, 4)
    masks = tree.masks[tree.n_leaves : -1]
    order = sorted(
        range(len(masks)), key=lambda k: (*-np.nan_to_num(values[k, :2]), -masks[k].bit_count())
    )
    return BootstrapSupport(
        tree,
        tuple(masks[k] for k in order),
        values[order],
        scales,
        n_resamples,
        frequencies[order],
    )


def _fit(
    frequencies: FloatArray, scales: FloatArray, n_resamples: IntArray
) -> tuple[float, float, float, float]:
    """AU, BP and their standard errors, by weighted least squares of z = v sqrt(r) + c / sqrt(r).

    The weight of a scale is one over the variance of z, f (1 - f) / (m phi(z)^2) for a frequency f
    of m resamples.
    """
    if len(scales) < LEAST_SCALES:
        here = np.abs(scales - 1).argmin()
        bp = float(frequencies[here])
        return math.nan, bp, math.nan, math.sqrt(bp * (1 - bp) / n_resamples[here])
    used = (frequencies > CERTAIN) & (frequencies < 1 - CERTAIN)
    if used.sum() < LEAST_SCALES:
        sure = float(frequencies.mean() >= 0.5)
        return sure, sure, 0.0, 0.0
    with ONE_AT_A_TIME:
        from scipy.special import ndtr, ndtri

    f, root = frequencies[used], np.sqrt(scales[used])
    z = -ndtri(f)
    precision = n_resamples[used] * _density(z) ** 2 / (f * (1 - f))
    design = np.array([root, 1 / root])
    covariance = np.linalg.inv((design * precision) @ design.T)
    v, c = covariance @ (design * precision @ z)
    values, errors = [], []
    for sign in (-1, 1):
        contrast = np.array([1, sign])
        values.append(float(ndtr(-(v + sign * c))))
        errors.append(float(_density(v + sign * c) * math.sqrt(contrast @ covariance @ contrast)))
    return values[0], values[1], errors[0], errors[1]


def _density(z: Any) -> Any:
    """The density of the normal distribution."""
    return np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)


# ---- checks -----------------------------------------------------------------------------------


def _as_table(table: npt.ArrayLike) -> FloatArray:
    values = as_finite(table, "table")
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError(
            "table must have a row for each leaf and a column for each observation; got shape "
            f"{values.shape}"
        )
    return values


def _as_metric(metric: str) -> str:
    if metric == "precomputed":
        raise ValueError("the bootstrap resamples the columns of a table; distances have none")
    return metric
