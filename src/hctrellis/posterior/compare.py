"""Two trees or posteriors over the same items, side by side."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from hctrellis.clusters import mask_labels, show_cluster
from hctrellis.posterior.posterior import Posterior
from hctrellis.posterior.summary import ConsensusTree
from hctrellis.support.checks import as_count
from hctrellis.tree import Tree

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray, Seed

FLOOR = 0.05  # clusters that reach this probability on neither side are left out
SIZE = 1000  # trees drawn from a posterior whose items are not all shared
_SHOWN_ROWS = 20


class ChangedRow(NamedTuple):
    """A cluster, its number of items, its probabilities on both sides and the change."""

    cluster: frozenset[str]
    size: int
    first: float
    second: float
    change: float


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Sequence[ChangedRow]):
    """Clusters and how their probabilities changed from one side to the other: the most first.

    A tree gives its own clusters the probability 1.

    Attributes
    ----------
    labels : tuple of str
        Of the items that both sides share; those of only one side are cut off.
    left_out : tuple of str
        The items of only one side.
    masks : tuple of int
        The clusters; item i is bit i.
    first, second : float64 arrays
        Their probabilities.
    trees : pair of Tree
        The tree of each side, for a posterior its MAP tree.
    robinson_foulds : int
        Number of clusters that only one of these trees has.
    cophenetic_correlation : float
        Correlation, over all pairs of items, of the heights at which the two trees join them
        (sizes of the smallest common cluster where a tree has no heights); NaN if constant.
    kl : pair of float or None
        The Kullback-Leibler divergences D(first || second) and D(second || first), in nats, where
        both sides are posteriors over the same trees.
    sampled : int
        Number of trees that were drawn from each posterior, if probabilities are frequencies.
    """

    labels: tuple[str, ...]
    left_out: tuple[str, ...]
    masks: tuple[int, ...]
    first: FloatArray
    second: FloatArray
    trees: tuple[Tree, Tree]
    robinson_foulds: int
    cophenetic_correlation: float
    kl: tuple[float, float] | None
    sampled: int = 0

    def __len__(self) -> int:
        return len(self.masks)

    @overload
    def __getitem__(self, index: int) -> ChangedRow: ...

    @overload
    def __getitem__(self, index: slice) -> list[ChangedRow]: ...

    def __getitem__(self, index: int | slice) -> ChangedRow | list[ChangedRow]:
        if isinstance(index, slice):
            return [self._row(k) for k in range(*index.indices(len(self)))]
        return self._row(range(len(self))[index])

    def __iter__(self) -> Iterator[ChangedRow]:
        return (self._row(k) for k in range(len(self)))

    def _row(self, k: int) -> ChangedRow:
        mask, one, other = self.masks[k], float(self.first[k]), float(self.second[k])
        names = frozenset(mask_labels(mask, self.labels))
        return ChangedRow(names, mask.bit_count(), one, other, other - one)

    def to_pandas(self) -> Any:
        """A pandas DataFrame with the fields of `ChangedRow` as columns."""
        import pandas as pd

        return pd.DataFrame(list(self), columns=list(ChangedRow._fields))

    def summary(self) -> list[str]:
        """What differs, in sentences."""
        n = len(self.labels)
        lines = [
            f"The two trees over {n} items differ in {self.robinson_foulds} of "
            f"{2 * max(0, n - 2)} clusters (Robinson-Foulds); their cophenetic correlation is "
            f"{self.cophenetic_correlation:.3f}."
        ]
        if self.kl is not None:
            lines.append(
                f"Kullback-Leibler divergence: {self.kl[0]:.4g} nats one way, {self.kl[1]:.4g} the "
                "other."
            )
        if self.left_out:
            lines.append(f"Cut off, as only one side has them: {', '.join(self.left_out[:10])}.")
        if self.sampled:
            lines.append(f"Probabilities are frequencies among {self.sampled} sampled trees.")
        return lines

    def __repr__(self) -> str:
        lines = [*self.summary(), f"{'first':>6}  {'second':>6}  {'change':>7}  cluster"]
        for k in range(min(len(self), _SHOWN_ROWS)):
            row = self._row(k)
            cluster = show_cluster(self.masks[k], self.labels)
            lines.append(f"{row.first:6.3f}  {row.second:6.3f}  {row.change:+7.3f}  {cluster}")
        if len(self) > _SHOWN_ROWS:
            lines.append(f"... {len(self) - _SHOWN_ROWS} more")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        said = "".join(f"<p>{html.escape(text)}</p>" for text in self.summary())
        head = "<tr><th>first</th><th>second</th><th>change</th><th>cluster</th></tr>"
        rows = "".join(
            f"<tr><td>{row.first:.3f}</td><td>{row.second:.3f}</td><td>{row.change:+.3f}</td>"
            f"<td>{html.escape(', '.join(sorted(row.cluster)))}</td></tr>"
            for row in self[:_SHOWN_ROWS]
        )
        return f"{said}<table><thead>{head}</thead><tbody>{rows}</tbody></table>"


def compare(
    first: object,
    second: object,
    min_probability: float = FLOOR,
    *,
    size: int = SIZE,
    rng: Seed = 0,
) -> Comparison:
    """Compare two trees or posteriors over the same items, in any order.

    Parameters
    ----------
    first, second : Tree, Posterior or Clustering
        SciPy's tree (`Tree.from_linkage`) and a posterior, say, or posteriors of two linkages or
        betas, or before and after an item was removed: items that only one side has are cut off.
    min_probability : float
        Clusters that reach this on neither side are left out.
    size : int
        Trees drawn from a posterior some of whose items are cut off; the probabilities of clusters
        are then frequencies among them.
    rng : None, int or numpy Generator

    Returns
    -------
    Comparison

    Examples
    --------
    >>> import hctrellis as hct
    >>> table = [[0.0], [1.0], [3.0], [7.0]]
    >>> sharp, blunt = (hct.infer(hct.Linkage(table, beta=b, labels="abcd")) for b in (2.0, 0.5))
    >>> found = compare(sharp, blunt)
    >>> sorted(found[0].cluster), found[0].change < 0, found.robinson_foulds
    (['a', 'b'], True, 0)
    """
    sides = [_Side(getattr(given, "posterior", given)) for given in (first, second)]
    one, other = sides
    shared = [label for label in one.labels if label in set(other.labels)]
    if len(shared) < 2:
        raise ValueError("the two have fewer than two items in common; compare needs the same ones")
    number = as_count(size, "size")
    known = [side.probabilities(shared, min_probability, number, rng) for side in sides]
    masks = {mask for table in known for mask, p in table.items() if p >= min_probability}
    pairs = {mask: [table(mask) for table in _lookups(sides, known, shared)] for mask in masks}
    order = sorted(masks, key=lambda m: (-abs(pairs[m][1] - pairs[m][0]), -max(pairs[m]), m))
    trees = (one.tree_over(shared), other.tree_over(shared))
    cut = any(side.is_cut(shared) and side.post is not None for side in sides)
    return Comparison(
        labels=tuple(shared),
        left_out=tuple(sorted({*one.labels} ^ {*other.labels})),
        masks=tuple(order),
        first=np.array([pairs[mask][0] for mask in order]),
        second=np.array([pairs[mask][1] for mask in order]),
        trees=trees,
        robinson_foulds=int(trees[0].robinson_foulds(trees[1])),
        cophenetic_correlation=_correlation(*map(_joins, trees)),
        kl=_divergences(one, other),
        sampled=number if cut else 0,
    )


# ---- inside -----------------------------------------------------------------------------------


class _Side:
    """One of the two things that are compared."""

    def __init__(self, given: Any) -> None:
        if isinstance(given, ConsensusTree):
            given = given.to_tree()
        tree = given if isinstance(given, Tree) else getattr(given, "map_tree", None)
        if not isinstance(tree, Tree):
            raise TypeError(f"expected a Tree or a Posterior; got {type(given).__name__}")
        self.tree: Tree = tree
        self.post: Any = None if isinstance(given, Tree) else given
        self.labels = self.tree.labels

    def is_cut(self, shared: Sequence[str]) -> bool:
        return len(shared) < len(self.labels)

    def tree_over(self, shared: Sequence[str]) -> Tree:
        return restricted(self.tree, shared)

    def probabilities(
        self, shared: Sequence[str], least: float, size: int, rng: Seed
    ) -> dict[int, float]:
        """The clusters of the shared items, and their probabilities."""
        if self.post is None:
            return dict.fromkeys(_inner(self.tree_over(shared)), 1.0)
        if self.is_cut(shared):
            counts: Counter[int] = Counter()
            for tree in self.post.sample(size, rng):
                counts.update(_inner(restricted(tree, shared)))
            return {mask: count / size for mask, count in counts.items()}
        table = self.post.cluster_probabilities(least)
        place = [shared.index(label) for label in table.labels]
        masks = [_permuted(mask, place) for mask in table.masks]
        return dict(zip(masks, table.probabilities.tolist(), strict=True))


def _lookups(
    sides: Sequence[_Side], known: Sequence[dict[int, float]], shared: Sequence[str]
) -> Any:
    """For each side, a function that gives the probability of any cluster."""

    def lookup(side: _Side, table: dict[int, float]) -> Callable[[int], float]:
        def find(mask: int) -> float:
            if mask in table or side.post is None or side.is_cut(shared):
                return table.get(mask, 0.0)
            return float(side.post.cluster_probability(mask_labels(mask, tuple(shared))))

        return find

    return [lookup(side, table) for side, table in zip(sides, known, strict=True)]


def restricted(tree: Tree, labels: Sequence[str]) -> Tree:
    """A tree over some of its leaves, in the order given, with the heights of its merges.

    Examples
    --------
    >>> restricted(Tree.from_newick("((a,b),(c,d));"), ["a", "c", "d"])
    Tree(3 leaves: (a,(c,d)))
    """
    place = {label: k for k, label in enumerate(labels)}
    n, k = tree.n_leaves, len(labels)
    known: list[int | None] = [place.get(label) for label in tree.labels]
    children: list[list[int | None]] = []
    heights: list[float] = []
    for node, (left, right) in enumerate(tree.children.tolist()):
        pair = [known[child] for child in (left, right)]
        if None in pair:
            known.append(pair[0] if pair[1] is None else pair[1])
            continue
        known.append(k + len(children))
        children.append(pair)
        heights.append(0.0 if tree.heights is None else float(tree.heights[node]))
    assert len(known) == 2 * n - 1
    return Tree(
        np.array(children, np.int64).reshape(-1, 2),
        labels=labels,
        heights=None if tree.heights is None else heights,
    )


def _inner(tree: Tree) -> tuple[int, ...]:
    return tree.masks[tree.n_leaves : -1]


def _permuted(mask: int, place: Sequence[int]) -> int:
    found = 0
    while mask:
        found |= 1 << place[(mask & -mask).bit_length() - 1]
        mask &= mask - 1
    return found


def _joins(tree: Tree) -> FloatArray:
    """The height at which every two leaves are joined, or the size of their common cluster."""
    n = tree.n_leaves
    levels = tree.sizes[n:] if tree.heights is None else tree.heights
    found = np.zeros((n, n))
    members = [[leaf] for leaf in range(n)]
    for (left, right), level in zip(tree.children.tolist(), levels.tolist(), strict=True):
        found[np.ix_(members[left], members[right])] = level
        found[np.ix_(members[right], members[left])] = level
        members.append(members[left] + members[right])
    return found[np.triu_indices(n, 1)]


def _correlation(one: FloatArray, other: FloatArray) -> float:
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return float("nan")
    return float(np.corrcoef(one, other)[0, 1])


def _divergences(one: _Side, other: _Side) -> tuple[float, float] | None:
    """Both divergences, where both sides are posteriors over the same trees."""
    if not (isinstance(one.post, Posterior) and isinstance(other.post, Posterior)):
        return None
    try:
        return one.post.kl_divergence(other.post), other.post.kl_divergence(one.post)
    except ValueError:  # not over the same trees, or leaves in another order
        return None
