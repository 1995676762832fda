"""`read_trees`: the files of MrBayes, BEAST, RevBayes and others, straight into arrays.

Texts are read piece by piece and parsed by compiled code: a tree becomes rows of arrays, not
objects, and is rooted on the way if it needs to be.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from hctrellis.support.checks import as_count
from hctrellis.support.memory import check_fits
from hctrellis.support.progress import Progress, followed
from hctrellis.support.steps import check_stop
from hctrellis.treefiles.names import NameTable
from hctrellis.treefiles.nexus_blocks import TreeText, written_trees
from hctrellis.treefiles.runs import TreeRuns

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray

Rooting = Literal["auto", "midpoint", "written"]
BURN_IN = 0.1  # the share of the first trees that is left out unless told otherwise
FEW = 512  # trees whose rows are kept together at first, or if they have notes
CHUNK_BYTES = 40 << 20  # of later rows: such arrays go back to the system as soon as they are freed
MOST_NOTES = 32  # kinds of numbers that are kept with nodes
_WEIGHT = re.compile(rb"\[\s*&\s*W(?![A-Z_])\s*([^\]]*)\]", re.IGNORECASE)
_PROBABILITY = re.compile(rb"\[\s*p\s*=\s*([0-9.eE+-]+)")
_ROOTED = re.compile(rb"\[\s*&\s*R\s*\]", re.IGNORECASE)


def read_trees(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    burn_in: float = BURN_IN,
    weights: Literal["auto"] | None = "auto",
    outgroup: str | Sequence[str] | None = None,
    thin: int = 1,
    *,
    rooting: Rooting = "auto",
    multifurcations: Literal["refuse", "resolve"] = "refuse",
    notes: bool = True,
    progress: Progress | bool | None = None,
) -> TreeRuns:
    """Read the trees that programs for Bayesian phylogenetics write, from one or several runs.

    NEXUS (MrBayes' ``.t`` and ``.trprobs``, BEAST's ``.trees``), Newick, and RevBayes' tables, also
    compressed with gzip. The files are read piece by piece: memory holds the arrays of the trees,
    about 20 bytes per node, and not their texts.

    Parameters
    ----------
    paths : path or iterable of paths
        Each file is one run.
    burn_in : float
        The share of the first trees of each run to leave out, from 0 to below 1; or, from 1 on,
        their number. Nothing is left out of files whose trees have weights: such files are
        summaries, sorted by probability. Give 0 for trees that are no chain, such as bootstrap
        trees.
    weights : "auto" or None
        "auto" takes the weights that all trees of a file have, [&W 0.9] or [p = 0.9]; None counts
        every tree once.
    outgroup : str or sequence of str, optional
        Roots every tree on the branch between these leaves and all others, in its middle. In a
        tree in which no branch parts them, the branch of the first of them is taken.
    thin : int
        Keep every `thin`-th tree only.
    rooting : {"auto", "midpoint", "written"}
        Without an outgroup: "auto" leaves trees rooted where they are written, and those with three
        branches at the root, which are unrooted, are rooted on the first leaf; "midpoint" roots
        every tree in the middle of its longest path; "written" refuses unrooted trees.
    multifurcations : {"refuse", "resolve"}
        What to do with nodes of more than two children: refuse them, or split off one child at a
        time, by branches of length 0. That invents clusters: resolve them with care.
    notes : bool
        Whether numbers in notes such as [&rate=0.5] are kept.
    progress : bool or callable, optional
        True shows a progress bar; a callable is called as progress(bytes read, bytes in all).

    Returns
    -------
    TreeRuns
        Its `remarks` say how trees were rooted and what was left out.

    Raises
    ------
    ValueError
        If a file is malformed; the message gives line and column.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "run1.t"
    ...     _ = path.write_text("(a:1,b:2,(c:1,d:1):1);" * 10)
    ...     trees = read_trees(path, outgroup="b")
    >>> trees
    TreeRuns(9 trees of 4 leaves, with lengths)
    >>> trees[0]
    Tree(4 leaves: ((a,(c,d)),b))
    """
    files = [Path(p) for p in ([paths] if isinstance(paths, str | os.PathLike) else paths)]
    if not files:
        raise ValueError("there are no files to read; give at least one")
    _check_options(burn_in, weights, rooting, multifurcations)
    reader = _Reader(
        outgroup=(outgroup,) if isinstance(outgroup, str) else tuple(outgroup or ()),
        rooting=rooting,
        resolve=multifurcations == "resolve",
        weighted=weights == "auto",
        with_notes=notes,
    )
    thinned = as_count(thin, "thin")
    sizes = [path.stat().st_size if path.exists() else 0 for path in files]
    check_fits(sum(sizes) // 2, "the trees of these files", "thin=10, or fewer files")
    with followed(progress, "bytes") as report:
        done = 0
        for path, size in zip(files, sizes, strict=True):
            reader.read(path, thinned, burn_in)
            done += size
            report(done, sum(sizes))
    return reader.finish(tuple(path.name for path in files))


def _check_options(burn_in: float, weights: object, rooting: object, many: object) -> None:
    if not isinstance(burn_in, int | float) or not 0 <= burn_in < math.inf:
        raise ValueError(f"burn_in must be a share from 0 to 1, or a number; got {burn_in!r:.80}")
    if weights not in ("auto", None):
        raise ValueError(f'weights must be "auto" or None; got {weights!r:.80}')
    if rooting not in get_args(Rooting):
        raise ValueError(f"rooting must be one of {get_args(Rooting)}; got {rooting!r:.80}")
    if many not in ("refuse", "resolve"):
        raise ValueError(f'multifurcations must be "refuse" or "resolve"; got {many!r:.80}')


@dataclass
class _Chunk:
    """Rows of some trees."""

    children: Any
    lengths: FloatArray
    notes: FloatArray | None
    weights: list[float | None]


@dataclass
class _Room:
    """Arrays that a tree is read into, for up to so many nodes."""

    size: int

    def __post_init__(self) -> None:
        room = 2 * self.size + 2
        self.parents, self.leaves = np.empty((2, room), np.int64)
        self.lengths, self.depths = np.empty((2, room))
        self.places = np.empty((room, 3), np.int64)
        self.work = np.empty((7, room), np.int64)
        self.values = np.empty((room, MOST_NOTES))


@dataclass
class _Reader:
    """Reads files into arrays, one after the other."""

    outgroup: tuple[str, ...]
    rooting: Rooting
    resolve: bool
    weighted: bool
    with_notes: bool
    labels: list[bytes] = field(default_factory=list)
    n_trees: int = 0
    rerooted: int = 0
    scattered: int = 0
    resolved: bool = False
    left_out: list[str] = field(default_factory=list)
    full_notes: bool = False

    def __post_init__(self) -> None:
        self.room = _Room(8)
        self.word = np.empty(1024, np.uint8)
        self.outside = np.zeros(0, np.int64)
        self.keys = NameTable.make(MOST_NOTES, 1 << 14)
        self.runs: list[list[_Chunk]] = []

    # ---- files --------------------------------------------------------------------------------

    def read(self, path: Path, thin: int, burn_in: float) -> None:
        """Read one file as one run."""
        chunks: list[_Chunk] = []
        translated: dict[bytes, bytes] = {}
        table = self._table(translated) if self.labels else None
        count = k = 0
        for item in written_trees(path):
            if isinstance(item, dict):
                translated = item
                table = self._table(translated)
                continue
            count += 1
            if (count - 1) % thin:
                continue
            if table is None:
                table = NameTable.make(
                    item.statement.stop - item.start, len(item.statement.content)
                )
            if not self.labels:
                self._meet(item, table, translated)
                table = self._table(translated)
            if count % FEW == 0:
                check_stop()
            if not chunks or k == len(chunks[-1].children):
                chunks.append(self._chunk(first=not chunks))
                k = 0
            self._read_tree(item, table, chunks[-1], k)
            k += 1
        if not chunks:
            raise ValueError(f"{path.name} has no trees")
        self.runs.append(self._trimmed(path.name, chunks, k, burn_in))

    def _table(self, translated: dict[bytes, bytes]) -> NameTable:
        """What the tokens of a file stand for, as numbers of leaves."""
        if not self.labels:
            order = {label: k for k, label in enumerate(dict.fromkeys(translated.values()))}
        else:
            order = {label: k for k, label in enumerate(self.labels)}
        pairs = {token: order[label] for token, label in translated.items() if label in order}
        return NameTable.of(pairs | {label: k for label, k in order.items() if label not in pairs})

    def _chunk(self, first: bool) -> _Chunk:
        """Room for more trees."""
        n = len(self.labels)
        small = first or self.keys.sizes[0] > 0
        size = FEW if small else max(FEW, CHUNK_BYTES // (16 * n))
        kind = np.int16 if n < 1 << 14 else np.int32
        return _Chunk(np.empty((size, n - 1, 2), kind), np.empty((size, 2 * n - 1)), None, [])

    def _trimmed(self, name: str, chunks: list[_Chunk], last: int, burn_in: float) -> list[_Chunk]:
        """The chunks of a run without its first trees."""
        chunks[-1].children = chunks[-1].children[:last]
        chunks[-1].lengths = chunks[-1].lengths[:last]
        if chunks[-1].notes is not None:
            chunks[-1].notes = chunks[-1].notes[:last]
        found = [weight for chunk in chunks for weight in chunk.weights]
        if self.weighted and None not in found:
            return chunks
        if self.weighted and any(weight is not None for weight in found):
            at = found.index(None)
            raise ValueError(
                f"tree {at + 1} of {name} has no weight, but others have; expected weights for all "
                "trees or for none (weights=None leaves them out of account)"
            )
        for chunk in chunks:
            chunk.weights = []
        drop = int(burn_in) if burn_in >= 1 else int(burn_in * len(found))
        if drop >= len(found):
            raise ValueError(
                f"burn_in={burn_in:g} leaves no tree of {name}, which has {len(found):,}"
            )
        self.left_out.append(f"{drop:,} of {len(found):,}")
        while drop > 0:
            some = min(drop, len(chunks[0].children))
            chunk = chunks[0]
            chunk.children, chunk.lengths = chunk.children[some:], chunk.lengths[some:]
            chunk.notes = None if chunk.notes is None else chunk.notes[some:]
            if len(chunk.children) == 0:
                del chunks[0]
            drop -= some
        return chunks

    # ---- trees --------------------------------------------------------------------------------

    def _meet(self, tree: TreeText, table: NameTable, translated: dict[bytes, bytes]) -> None:
        """Learn the leaves from the first tree."""
        count = self._parse(tree, table, grow=not translated)
        found = self.room.leaves[:count]
        used = np.sort(found[found >= 0])
        if translated:
            names = list(dict.fromkeys(translated.values()))
            self.labels = [names[k] for k in used]
        else:
            self.labels = table.texts()
        try:
            texts = [label.decode() for label in self.labels]
        except UnicodeDecodeError:
            raise ValueError(
                f"{tree.statement.text.name} is not text in UTF-8; save it with that encoding"
            ) from None
        self.outside = np.zeros(len(texts), np.int64)
        self.outside[0] = 1
        for k, label in enumerate(self.outgroup):
            if label not in texts:
                some = ", ".join(f"{text!r:.40}" for text in sorted(texts)[:5])
                raise ValueError(
                    f"the outgroup {label!r:.80} is not a leaf of the trees; these are {some}, ..."
                )
            if k == 0:
                self.outside[:] = 0
            self.outside[texts.index(label)] = 1 if k == 0 else 2
        if (self.outside > 0).all() and len(texts) > 1:
            raise ValueError("the outgroup holds all leaves; give some of them")

    def _parse(self, tree: TreeText, table: NameTable, grow: bool) -> int:
        """Read the nodes of a tree; their number."""
        from hctrellis.kernels import treetext

        statement = tree.statement
        most = 2 * len(self.labels) if self.labels else len(statement.content)
        if self.resolve or most > self.room.size:
            most = max(most, 2 * statement.content.count(b",") + 2)
        if most > self.room.size:
            self.room = _Room(most)
        if statement.stop - tree.start > len(self.word):
            self.word = np.empty(2 * (statement.stop - tree.start), np.uint8)
        room = self.room
        count, end, code, where = treetext.read_nodes(
            statement.array,
            tree.start,
            statement.stop,
            *table,
            grow,
            self.word,
            room.parents[: room.size],
            room.leaves,
            room.lengths,
            room.places,
        )
        if code != treetext.DONE:
            first = not self.labels
            raise statement.error(where, _problem(code, statement.text.content, where, first))
        if statement.text.content[end : statement.stop].strip():
            raise statement.error(end, "this is more than a tree; expected ';'")
        return int(count)

    def _read_tree(self, tree: TreeText, table: NameTable, chunk: _Chunk, k: int) -> None:
        """Read a tree into row k of a chunk."""
        from hctrellis.kernels import rooting, treetext

        count = self._parse(tree, table, grow=False)
        room, n = self.room, len(self.labels)
        mode = self._mode(tree)
        children, lengths = np.empty((n - 1, 2), np.int64), chunk.lengths[k]
        sources = np.empty(2 * n - 1, np.int64)
        unrooted = count > 3 and bool((room.parents[1:count] == 0).sum() == 3)
        code, where, whole = rooting.arrange(
            count,
            room.parents,
            room.leaves,
            room.lengths,
            n,
            mode,
            self.outside,
            int((self.outside > 0).sum()),
            self.resolve,
            room.work,
            room.depths,
            children,
            lengths,
            sources,
        )
        if code != rooting.DONE:
            raise self._misshapen(tree, code, int(where), unrooted)
        chunk.children[k] = children
        self.scattered += not whole
        self.rerooted += unrooted and mode == rooting.LOOSE
        self.resolved |= bool((sources[n:-1] < 0).any())
        self.n_trees += 1
        chunk.weights.append(_weight(tree) if self.weighted else None)
        if self.with_notes and (room.places[:count, 1] >= 0).any():
            known = treetext.read_notes(
                tree.statement.array, room.places, count, *self.keys, True, self.word, room.values
            )
            self.full_notes |= not known
            if chunk.notes is None:
                chunk.notes = np.full(
                    (len(chunk.lengths), 2 * n - 1, MOST_NOTES), np.nan, np.float32
                )
            inside = sources >= 0
            chunk.notes[k, inside] = room.values[sources[inside]]

    def _mode(self, tree: TreeText) -> int:
        """Where the root of a tree goes."""
        from hctrellis.kernels import rooting

        if self.outgroup:
            return rooting.OUTGROUP
        if self.rooting == "midpoint":
            return rooting.MIDPOINT
        if self.rooting == "written" or _ROOTED.search(tree.header):
            return rooting.WRITTEN
        return rooting.LOOSE

    def _misshapen(self, tree: TreeText, code: int, where: int, unrooted: bool) -> ValueError:
        from hctrellis.kernels import rooting

        statement, n = tree.statement, len(self.labels)
        if code == rooting.FEW_LEAVES:
            return statement.error(
                tree.start, f"this tree has {where} leaves, where the first has {n}"
            )
        place = int(self.room.places[where, 0]) if where < len(self.room.places) else tree.start
        if code == rooting.NO_LENGTHS:
            return statement.error(
                place, 'this node has no branch length, which rooting="midpoint" needs'
            )
        if code == rooting.ONE_CHILD:
            return statement.error(place, "this node has 1 child; expected 2")
        if where == 0 and unrooted:
            return statement.error(
                place,
                "three branches meet at the root of this tree, which is how unrooted trees are "
                'written; give an outgroup, or rooting="midpoint"',
            )
        return statement.error(
            place,
            "this node has more than 2 children; give binary trees, or "
            'multifurcations="resolve" to split them arbitrarily',
        )

    # ---- the end ------------------------------------------------------------------------------

    def finish(self, names: tuple[str, ...]) -> TreeRuns:
        """All trees that were read."""
        chunks = [chunk for run in self.runs for chunk in run]
        sizes = [sum(len(chunk.children) for chunk in run) for run in self.runs]
        weights = self._weights(names)
        notes = self._notes(chunks)
        bare = all(np.isnan(chunk.lengths[:, :-1]).all() for chunk in chunks)
        children = _joined([chunk.children for chunk in chunks], chunks, "children")
        lengths = None if bare else _joined([chunk.lengths for chunk in chunks], chunks, "lengths")
        return TreeRuns(
            tuple(label.decode() for label in self.labels),
            children,
            lengths,
            weights,
            np.repeat(np.arange(len(names)), sizes),
            names,
            notes,
            tuple(self._remarks()),
        )

    def _weights(self, names: tuple[str, ...]) -> FloatArray | None:
        """The weights of all trees; every run counts as it says."""
        weighted = [bool(run[0].weights) for run in self.runs]
        if not any(weighted):
            return None
        if not all(weighted):
            one, other = names[weighted.index(True)], names[weighted.index(False)]
            raise ValueError(
                f"the trees of {one} have weights and those of {other} have none; read them apart, "
                "or with weights=None"
            )
        found = [w for run in self.runs for chunk in run for w in chunk.weights]
        array = np.array(found, float)
        if not array.any():
            raise ValueError("all weights are 0, so no tree counts; expected one above 0")
        return array

    def _notes(self, chunks: list[_Chunk]) -> dict[str, FloatArray]:
        keys = [key.decode("utf-8", "replace") for key in self.keys.texts()]
        n = len(self.labels)
        empty = np.full((1, 2 * n - 1), np.nan)
        found = {}
        for k, key in enumerate(keys):
            rows: list[FloatArray] = [
                np.repeat(empty, len(chunk.children), axis=0)
                if chunk.notes is None
                else chunk.notes[:, :, k].astype(float)
                for chunk in chunks
            ]
            found[key] = np.concatenate(rows)
        return found

    def _remarks(self) -> Iterator[str]:
        if self.left_out and not all(text.startswith("0 ") for text in self.left_out):
            yield f"burn-in: {', '.join(self.left_out)} trees were left out"
        first = self.labels[int(np.argmax(self.outside == 1))].decode()
        if self.outgroup:
            among = "" if len(self.outgroup) == 1 else f" and {len(self.outgroup) - 1} more"
            yield f"trees were rooted on {first!r:.80}{among}, as asked"
            if self.scattered:
                yield (
                    f"in {self.scattered:,} of {self.n_trees:,} trees no branch parts the outgroup "
                    f"from the rest; these were rooted on {first!r:.80} alone"
                )
        elif self.rooting == "midpoint":
            yield "trees were rooted in the middle of their longest path, as asked"
        elif 0 < self.rerooted < self.n_trees:
            yield (
                f"{self.rerooted:,} of {self.n_trees:,} trees are unrooted and were rooted on "
                f"their first leaf, {first!r:.80}; the others are rooted as they are written: "
                "give an outgroup, which roots all alike"
            )
        elif self.rerooted:
            yield (
                f"the trees are unrooted; they were rooted on their first leaf, {first!r:.80}, "
                "which says nothing about where the root is: give an outgroup"
            )
        if self.resolved and self.resolve:
            yield "nodes of more than two children were split arbitrarily, by branches of length 0"
        if self.full_notes:
            yield f"only the first {MOST_NOTES} kinds of numbers in notes were kept"


def _joined(arrays: list[Any], chunks: list[_Chunk], name: str) -> Any:
    """The arrays of all chunks as one; each is freed as soon as it is copied."""
    whole = np.empty((sum(map(len, arrays)), *arrays[0].shape[1:]), arrays[0].dtype)
    start = 0
    for k, chunk in enumerate(chunks):
        whole[start : start + len(arrays[k])] = arrays[k]
        start += len(arrays[k])
        arrays[k] = None
        setattr(chunk, name, None)
    return whole


def _weight(tree: TreeText) -> float | None:
    """The weight of a tree, from its header or from what follows it."""
    content, stop = tree.statement.text.content, tree.statement.stop
    after = content[max(tree.start, content.rfind(b")", tree.start, stop)) : stop]
    if b"[" not in tree.header and b"[" not in after:
        return None
    match = _WEIGHT.search(tree.header) or _PROBABILITY.search(tree.header) or _WEIGHT.search(after)
    if match is None:
        return None
    parts = match[1].split(b"/")
    try:
        numbers = [float(part) for part in parts]
        value = numbers[0] / numbers[1] if len(numbers) == 2 else numbers[0]
    except (ValueError, ZeroDivisionError):
        value = math.nan
    if len(parts) > 2 or not 0 <= value < math.inf:
        shown = match[0].decode("utf-8", "replace")
        raise tree.statement.error(
            tree.start,
            f"{shown!r:.80} is not the weight of this tree; expected a number that is not "
            "negative, such as [&W 0.9] or [&W 9/10]",
        )
    return value


def _problem(code: int, content: bytes, where: int, first: bool) -> str:
    """What is wrong with a tree, which may be the first one, in words."""
    from hctrellis.kernels import treetext

    match = re.match(rb"'(?:[^']|'')*'|[^\s\[\](),:;']+|.", content[where : where + 200], re.S)
    found = repr(match[0].decode("utf-8", "replace")) if match else "the end of the file"
    known = "a leaf of the first tree; expected the same leaves"
    if first:
        known = "among the labels of TAXLABELS or TRANSLATE; expected one of them"
    return {
        treetext.UNEXPECTED: f"found {found:.80}; expected ',', ')' or the end of the tree",
        treetext.LABEL: f"found {found:.80}; expected a label or '('",
        treetext.UNCLOSED: "this comment or quote is never closed",
        treetext.UNKNOWN: f"{found:.80} is not {known}",
        treetext.REPEATED: f"the leaf {found:.80} is there twice; labels must be different",
        treetext.LENGTH: f"found {found:.80}; expected a branch length",
        treetext.TOO_MANY: "this tree has more nodes than its leaves allow",
    }[code]
