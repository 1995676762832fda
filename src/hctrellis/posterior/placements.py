"""Which items are unsettled: how far each moves over the trees of a posterior.

The place of an item in a tree is the smallest cluster that holds it: the items it is joined with
first. Over trees drawn from the posterior, the entropy of its place says between how many places it
moves. An item is a *rogue* if it spoils the tree for the others: without it, the clusters that most
trees agree on have more support, though there is one cluster less to support. (After the rogue taxa
of phylogenetics: A. J. Aberer, D. Krompass, A. Stamatakis, Systematic Biology 62, 2013.)
"""

from __future__ import annotations

import html
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from hctrellis.clusters import mask_labels
from hctrellis.posterior.summary import ConsensusTree
from hctrellis.support.checks import as_count
from hctrellis.tree import Tree

if TYPE_CHECKING:
    from hctrellis.posterior.base import BasePosterior
    from hctrellis.support.types import Seed

SIZE = 500  # trees that are drawn
MAJORITY = 0.5
LEAST_GAIN = 0.5  # of support, for an item to be a rogue
MOST_ROGUES = 5
_SHOWN_ROWS = 20

_Parts = list[tuple[int, tuple[int, ...]]]
"""The clusters of a tree, each with those of its children that are single leaves."""


class ItemRow(NamedTuple):
    """An item and how settled it is.

    Attributes
    ----------
    item : str
    places : float
        exp(entropy of its place): between how many places it moves, as if they were equally
        probable.
    neighbourhood, second : frozenset of str
        The most probable smallest clusters that hold it (the second is empty if there is none).
    probability, second_probability : float
    gain : float
        By how much the support of the majority clusters of the others rises without it.
    """

    item: str
    places: float
    neighbourhood: frozenset[str]
    probability: float
    second: frozenset[str]
    second_probability: float
    gain: float


@dataclass(frozen=True, eq=False, repr=False)
class Placements(Sequence[ItemRow]):
    """Items and how settled they are: the least settled first.

    Attributes
    ----------
    labels : tuple of str
    rows : tuple of ItemRow
    rogues : tuple of str
        The few items that spoil the tree for the others, the worst first.
    size : int
        Number of trees drawn; a probability near 1/2 is known to 0.5 / sqrt(size).
    trees : sequence of lists
        The clusters of each of these, with those of their children that are single leaves.
    """

    labels: tuple[str, ...]
    rows: tuple[ItemRow, ...]
    rogues: tuple[str, ...]
    size: int
    trees: Sequence[_Parts] = field(default_factory=list)

    def consensus_without(self, items: Iterable[str] | None = None) -> ConsensusTree:
        """The clusters that most trees have when some items are cut off: the rogues by default.

        Parameters
        ----------
        items : iterable of str, optional
        """
        dropped = [*self.rogues] if items is None else [str(item) for item in items]
        unknown = [name for name in dropped if name not in self.labels]
        if unknown:
            raise ValueError(f"there is no item {unknown[0]!r:.80}")
        kept = [k for k, name in enumerate(self.labels) if name not in dropped]
        mask = sum(1 << k for k in kept)
        counts = _count(self.trees, mask)
        place = {leaf: k for k, leaf in enumerate(kept)}
        support = {
            _moved(cluster, place): count / self.size
            for cluster, count in counts.items()
            if count > MAJORITY * self.size
        }
        if len(kept) > 1:
            support[(1 << len(kept)) - 1] = 1.0
        return ConsensusTree(tuple(self.labels[k] for k in kept), support)

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> ItemRow: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[ItemRow, ...]: ...

    def __getitem__(self, index: int | slice) -> ItemRow | tuple[ItemRow, ...]:
        return self.rows[index]

    def __iter__(self) -> Iterator[ItemRow]:
        return iter(self.rows)

    def to_pandas(self) -> Any:
        """A pandas DataFrame with the fields of `ItemRow` as columns."""
        import pandas as pd

        return pd.DataFrame(list(self), columns=list(ItemRow._fields))

    def __repr__(self) -> str:
        lines = [f"{'places':>6}  {'p':>4}  {'gain':>5}  item: with"]
        for row in self.rows[:_SHOWN_ROWS]:
            near = ", ".join(sorted(row.neighbourhood - {row.item}))
            lines.append(
                f"{row.places:6.1f}  {row.probability:4.2f}  {row.gain:5.2f}  {row.item}: {near}"
            )
        if len(self) > _SHOWN_ROWS:
            lines.append(f"... {len(self) - _SHOWN_ROWS} more")
        lines.append(f"from {self.size} sampled trees; rogues: {', '.join(self.rogues) or 'none'}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head = "<tr><th>item</th><th>places</th><th>most often with</th><th>probability</th></tr>"
        rows = "".join(
            f"<tr><td>{html.escape(row.item)}</td><td>{row.places:.1f}</td>"
            f"<td>{html.escape(', '.join(sorted(row.neighbourhood - {row.item})))}</td>"
            f"<td>{row.probability:.2f}</td></tr>"
            for row in self.rows
        )
        return f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>"


def unsettled(post: BasePosterior, size: int = SIZE, rng: Seed = 0) -> Placements:
    """How far each item moves over a posterior, and which items spoil the tree for the others.

    Parameters
    ----------
    post : Posterior
    size : int
        Number of trees that are drawn from it.
    rng : None, int or numpy Generator

    Returns
    -------
    Placements

    Examples
    --------
    An item halfway between two pairs moves between them.

    >>> import hctrellis as hct
    >>> table = [[0.0], [1.0], [10.0], [19.0], [20.0]]
    >>> post = hct.infer(hct.Linkage(table, beta=2.0, labels="abcde"))
    >>> found = unsettled(post, rng=1)
    >>> found[0].item, found[0].places > 1.9
    ('c', True)
    >>> sorted(found.consensus_without(["c"]).clusters())
    [3, 12, 15]
    """
    number = as_count(size, "size")
    if post.n_leaves < 2:
        return Placements(post.labels, (), (), number)
    trees = [_parts(tree) for tree in post.sample(number, rng)]
    labels, n = post.labels, post.n_leaves
    whole = (1 << n) - 1
    counts = _count(trees, whole)
    score = _score(counts, number)
    rows = []
    for leaf, places in enumerate(_places(trees, n)):
        rest = _without(counts, places, leaf, whole)
        rows.append(_row(labels, leaf, places, _score(rest, number) - score))
    rows.sort(key=lambda row: (-row.places, row.item))
    return Placements(labels, tuple(rows), _rogues(trees, labels, number), number, trees)


# ---- inside -----------------------------------------------------------------------------------


def _parts(tree: Tree) -> _Parts:
    n, masks = tree.n_leaves, tree.masks
    return [
        (masks[n + k], tuple(child for child in pair if child < n))
        for k, pair in enumerate(tree.children.tolist())
    ]


def _places(trees: list[_Parts], n_leaves: int) -> list[Counter[int]]:
    """For each leaf, how often each cluster is the smallest one that holds it."""
    places: list[Counter[int]] = [Counter() for _ in range(n_leaves)]
    for tree in trees:
        for mask, singles in tree:
            for leaf in singles:
                places[leaf][mask] += 1
    return places


def _row(labels: Sequence[str], leaf: int, places: Counter[int], gain: float) -> ItemRow:
    total = places.total()
    entropy = -sum(count / total * math.log(count / total) for count in places.values())
    (first, often), *others = [*places.most_common(2), (0, 0)]
    second, less = others[0]
    return ItemRow(
        labels[leaf],
        math.exp(entropy),
        frozenset(mask_labels(first, labels)),
        often / max(1, total),
        frozenset(mask_labels(second, labels)),
        less / max(1, total),
        gain,
    )


def _count(trees: Sequence[_Parts], kept: int) -> Counter[int]:
    """How often each cluster, other than leaves and root, occurs in the trees over some leaves."""
    counts: Counter[int] = Counter()
    for tree in trees:
        inner = {mask & kept for mask, _ in tree}
        counts.update(mask for mask in inner if mask != kept and mask & (mask - 1))
    return counts


def _without(counts: Counter[int], places: Counter[int], leaf: int, whole: int) -> Counter[int]:
    """How often each cluster occurs in the trees without a leaf, from how often with it.

    Where the leaf was joined to a cluster S, the trees had both S and S with the leaf; now these
    are one.
    """
    rest: Counter[int] = Counter()
    kept = whole & ~(1 << leaf)
    for mask, count in counts.items():
        rest[mask & kept] += count
    for mask, count in places.items():
        if mask != whole:
            rest[mask & kept] -= count
    return Counter({m: c for m, c in rest.items() if c > 0 and m != kept and m & (m - 1)})


def _score(counts: Counter[int], size: int) -> float:
    """The support of all clusters that most trees have."""
    return sum(count / size for count in counts.values() if count > MAJORITY * size)


def _rogues(trees: list[_Parts], labels: Sequence[str], size: int) -> tuple[str, ...]:
    """Leave out the worst item, again and again, as long as the support rises clearly."""
    found: list[int] = []
    kept = (1 << len(labels)) - 1
    while len(found) < min(MOST_ROGUES, len(labels) - 3):
        counts = _count(trees, kept)
        score = _score(counts, size)
        places = _reduced_places(trees, kept, len(labels))
        gains = {
            leaf: _score(_without(counts, spots, leaf, kept), size) - score
            for leaf, spots in places.items()
        }
        worst = max(gains, key=lambda leaf: (gains[leaf], -leaf))
        if gains[worst] < LEAST_GAIN:
            break
        found.append(worst)
        kept &= ~(1 << worst)
    return tuple(labels[leaf] for leaf in found)


def _reduced_places(trees: Sequence[_Parts], kept: int, n_leaves: int) -> dict[int, Counter[int]]:
    """The places of the leaves that are kept, in the trees over these."""
    places = {leaf: Counter[int]() for leaf in range(n_leaves) if kept >> leaf & 1}
    for tree in trees:
        inner = sorted({mask & kept for mask, _ in tree}, key=int.bit_count)
        free = kept
        for mask in inner:
            if not mask & (mask - 1):
                continue
            new = mask & free
            free &= ~mask
            while new:
                leaf = (new & -new).bit_length() - 1
                places[leaf][mask] += 1
                new &= new - 1
    return places


def _moved(mask: int, place: dict[int, int]) -> int:
    return sum(1 << k for leaf, k in place.items() if mask >> leaf & 1)
