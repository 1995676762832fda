"""What is fuzzed: for each target, how inputs are made, and what is done with one.

`call` raises what the package raises; after a success it asserts what must then hold.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import math
import os
import struct
import warnings
import zipfile
from abc import ABC, abstractmethod
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import numpy as np
import typer.main

import hctrellis as hct
from fuzz_inputs import (
    BYTE_TOKENS,
    EXTREMES,
    LABELS,
    NUMBERS,
    ODD,
    TEXT_TOKENS,
    mutate,
    odd_value,
    plain_number,
)
from hctrellis.cli import main as command_line
from hctrellis.cli.sources import Cells, read_source
from hctrellis.reproduce.expression import read_expression
from hctrellis.simulate import Jets, ginkgo
from hctrellis.tables.cells import Options
from hctrellis.tables.items import as_items
from hctrellis.treefiles import read_newicks, read_nexus, read_trees, write_nexus
from hctrellis.trees.newick import parse_newick_support
from hctrellis.trellis.sparse import SparseTrellis


class Refused(Exception):
    """The command line refused, in one line and with an exit code, as it should."""


class Target(ABC):
    """Something that reads.

    Parameters
    ----------
    folder : Path
        An empty folder for files.
    """

    name: ClassVar[str]
    seconds: ClassVar[float] = 2.0
    """Of processor time, that an input may take."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.prepare()

    def prepare(self) -> None:
        """Make what all inputs need, and compile what is compiled at the first call."""
        self.path = self.folder / "file"

    @abstractmethod
    def make(self, rng: Random) -> Any:
        """An input."""

    @abstractmethod
    def call(self, given: Any) -> None:
        """Read an input."""


def check_tree(tree: hct.Tree) -> None:
    """A tree that was read is valid, and comes back from what is written."""
    tree.validate()
    assert hct.Tree.from_newick(tree.to_newick()) == tree
    assert hct.Tree.from_json(tree.to_json()) == tree
    assert repr(tree).isprintable()


# ---- Newick and NEXUS -------------------------------------------------------------------------


def quoted(label: str) -> str:
    """A label in quotes."""
    return "'" + label.replace("'", "''") + "'"


def newick_label(rng: Random) -> str:
    """A label as it may be written, well or badly."""
    pick = rng.random()
    if pick < 0.5:
        return f"t{rng.randrange(1000)}"
    return quoted(rng.choice(LABELS)) if pick < 0.9 else rng.choice(LABELS)


def newick_node(rng: Random, leaves: int) -> str:
    """A subtree; its nodes have mostly two children."""
    if leaves <= 1:
        text = newick_label(rng)
    else:
        left = rng.randint(1, leaves - 1)
        parts = [newick_node(rng, left), newick_node(rng, leaves - left)]
        if rng.random() < 0.01:
            parts = parts[: rng.randrange(2)] or [*parts, newick_label(rng)]
        inner = rng.choice(("", "", "0.93", "1", "x", newick_label(rng)))
        text = f"({rng.choice((',', ' , ', ',[c]')).join(parts)}){inner}"
    if rng.random() < 0.3:
        text += ":" + (rng.choice(NUMBERS) if rng.random() < 0.05 else f"{rng.random():.3g}")
    return text


def newick_text(rng: Random) -> str:
    """A tree of up to 40 leaves."""
    end = rng.choice((";", ";", ";", "", ";;", " ; "))
    return newick_node(rng, rng.choice((1, 2, 3, 5, 8, 13, 40))) + end


NEWICKS = (
    "((a:1,b:2)0.93:1e-1,'c d':.5)root:3;",
    "((a:1,b:1):2,c:3);",
    "a;",
    "'it''s';",
    ' [start [nested]] ( (a_1, b=2), {c}"d ) ; [end] ',
    "(((((((a,b),c),d),e),f),g),h);",
    "((a,b),(c,d));\n((a,c),(b,d));\n",
)
NEWICK_TOKENS = (*TEXT_TOKENS, *"(),:;'[]", "((", "))", "(a,b)", "(" * 500, "[" * 500, "''", ":1e9")


class Newick(Target):
    """Trees in Newick format, one or many, and their support values."""

    name = "newick"

    def make(self, rng: Random) -> str:
        text = rng.choice(NEWICKS) if rng.random() < 0.4 else newick_text(rng)
        return text if rng.random() < 0.3 else mutate(rng, text, NEWICKS, NEWICK_TOKENS)

    def call(self, given: str) -> None:
        trees = read_newicks(given)
        for tree in trees:
            check_tree(tree)
        if len(trees) == 1:
            tree = hct.Tree.from_newick(given)
            assert tree == trees[0]
            assert all(cluster in tree for cluster in parse_newick_support(given))
            if tree.heights is not None:
                hct.Tree.from_newick(tree.to_newick(lengths=True))


NEXUS = (
    "#NEXUS\nbegin trees;\n  translate 1 ape, 2 bat, 3 'c d';\n"
    "  tree first = [&R] ((1,2),3);\n  utree * second = (1,(2,3));\nend;\n",
    "#nexus [c] BEGIN TAXA; dimensions ntax=3; taxlabels a b c; END;\nBEGIN TREES; END;",
    "#NEXUS BEGIN TREES; TREE t = (a:1,b:1); ENDBLOCK;",
    "#NEXUS BEGIN DATA; matrix a 0101 b 1100; END; BEGIN TREES; TREE x=((a,b),c); END;",
)
NEXUS_TOKENS = (
    *NEWICK_TOKENS, "=", "*", "begin", "BEGIN TREES;", "end;", "END", "endblock;", "tree", "utree",
    "translate", "translate 1 a, 1 b;", "translate a b, b a;", "#NEXUS", "[&R]", "tree t = a;",
    "[&W 0.5]", "[&W 1/3]", "[&W",
)  # fmt: skip


class Nexus(Target):
    """NEXUS files."""

    name = "nexus"

    def make(self, rng: Random) -> str:
        text = rng.choice(NEXUS) if rng.random() < 0.5 else self._text(rng)
        return text if rng.random() < 0.3 else mutate(rng, text, NEXUS, NEXUS_TOKENS)

    def _text(self, rng: Random) -> str:
        commands = [self._command(rng) for _ in range(rng.randrange(5))]
        block = rng.choice(("TREES", "TREES", "trees", "TAXA", newick_label(rng)))
        return f"#NEXUS\nBEGIN {block};\n" + "\n".join(commands) + "\nEND;\n"

    def _command(self, rng: Random) -> str:
        if rng.random() < 0.3:
            pairs = [f"{newick_label(rng)} {newick_label(rng)}" for _ in range(rng.randrange(4))]
            return f"TRANSLATE {', '.join(pairs)};"
        if rng.random() < 0.1:
            return f"{newick_label(rng)} {rng.choice(NUMBERS)};"
        return f"TREE {newick_label(rng)} = {newick_text(rng)}"

    def call(self, given: str) -> None:
        trees = read_nexus(given)
        for tree in trees:
            check_tree(tree)
        assert read_nexus(write_nexus(trees)) == trees


class Runs(Nexus):
    """Files of trees, read into arrays."""

    name = "runs"

    def prepare(self) -> None:
        super().prepare()
        self.path.write_text("(a:1,b:2,(c,d)[&x=1]);")
        read_trees(self.path, rooting="auto")

    def make(self, rng: Random) -> Any:
        text = super().make(rng) if rng.random() < 0.5 else Newick.make(self, rng)  # type: ignore[arg-type]
        if rng.random() < 0.2:
            text = text.replace("(", "(x,(", 1).replace(")", "),y)", 1)
        notes = ("[&rate=1]", "[&", "[&W 1/2]", "[&R]", "[&a={1,2},b=3]", "[p = 0.5]", "[&U]")
        if rng.random() < 0.4:
            text = mutate(rng, text, (text,), notes)
        if rng.random() < 0.1:
            rows = ("Iteration\ttree", *(f"{k}\t{row}" for k, row in enumerate(text.splitlines())))
            text = "\n".join(rng.choice(((), ("#RevBayes",))) + rows)
        content = text.encode("utf-8", "surrogatepass")
        if rng.random() < 0.1:
            content = gzip.compress(content)[: rng.choice((None, -4, 20))]
        options = {
            "outgroup": rng.choice((None, None, "a", ["a", "b"], "t1")),
            "rooting": rng.choice(("auto", "midpoint", "written")),
            "multifurcations": rng.choice(("refuse", "resolve")),
            "weights": rng.choice(("auto", None)),
            "burn_in": rng.choice((0, 0.1, 1, 0.9)),
            "thin": rng.choice((1, 2)),
        }
        return content, options

    def call(self, given: Any) -> None:
        content, options = given
        self.path.write_bytes(content)
        runs = read_trees(self.path, **options)
        for tree in runs:
            check_tree(tree)
        if runs.lengths is not None:
            assert runs.lengths.shape == (len(runs), 2 * runs.n_leaves - 1)
        if runs.n_leaves > 1:
            for options in ({}, {"model": "ccd3", "smoothing": "auto"}):
                model = hct.CladeDistribution(runs, **options)
                assert np.isfinite(model.log_probabilities(runs.counted())).all()


# ---- JSON -------------------------------------------------------------------------------------


class Json(Target):
    """Trees in JSON, as text or decoded, and the manifest of a folder of results."""

    name = "json"

    def prepare(self) -> None:
        trees = [hct.Tree.from_newick(text) for text in ("((a:1,b:1):2,c:3);", "a;", "((a,b),c);")]
        self.texts = [tree.to_json() for tree in trees]
        jets = ginkgo(2, leaves=3, rng=1)
        self.jets = [jet.potential() for jet in jets]
        self.store = self.folder / "results"
        hct.infer_many(self.jets, out=self.store, workers=1)
        self.manifest = self.store / "_manifest.json"
        self.valid = self.manifest.read_text(encoding="utf-8")

    def make(self, rng: Random) -> Any:
        pick = rng.random()
        if pick < 0.1:
            tokens = (*TEXT_TOKENS, *"[]{}:,", "[" * 3000, '{"a":' * 3000, "null")
            return "manifest", mutate(rng, self.valid, [self.valid], tokens)
        if pick < 0.5:
            tokens = (*TEXT_TOKENS, *'[]{}:,"', "[" * 100_000, "null", "true", "1e999", "NaN")
            return "text", mutate(rng, rng.choice(self.texts), self.texts, tokens)
        record = json.loads(rng.choice(self.texts))
        for _ in range(rng.choice((0, 1, 1, 2, 3))):
            self._change(rng, record)
        return "record", record

    def _change(self, rng: Random, record: dict[str, Any]) -> None:
        key = rng.choice([*record, "labels", "children", "heights", "new"])
        value = record.get(key)
        if rng.random() < 0.2:
            record.pop(key, None)
        elif isinstance(value, list) and value and rng.random() < 0.8:
            at = rng.randrange(len(value))
            inner = value[at]
            if isinstance(inner, list) and inner and rng.random() < 0.7:
                inner[rng.randrange(len(inner))] = self._value(rng)
            else:
                value[at] = self._value(rng)
        else:
            record[key] = self._value(rng)

    def _value(self, rng: Random) -> Any:
        return rng.choice((rng.randint(-2, 6), rng.choice(LABELS), odd_value(rng)))

    def call(self, given: Any) -> None:
        kind, value = given
        if kind == "manifest":
            self.manifest.write_bytes(value.encode("utf-8", "surrogatepass"))
            hct.infer_many(self.jets, out=self.store, workers=1)
        else:
            check_tree(hct.Tree.from_json(value))


# ---- tables and matrices ----------------------------------------------------------------------

TABLES = (
    "name,x,y\nape,1,2\nbat,2,2\ncat,8,9\ndog,9,9\neel,30,1\n",
    "name;x;y\r\nape;1,5;2\r\nbat;2,5;2\r\ncat;8;9\r\n",
    "a\tb\n1\t2\n3\t4\n5\t6\n",
    '"na me","x ""q""",y\n"a,b",1,2\n"c\nd",3,4\n"",,5\n',
    "1 2 3\n4 5 6\n7 8 10\n",
    ",x,y\n1,1,NA\n2,2,3\n3,4,5\n",
    ",a,b,c\na,0,1,2\nb,1,0,3\nc,2,3,0\n",
    "0\n1,0\n2,3,0\n",
    "x,group,y\n1,red,2\n2,blue,3\n4,red,1\n",
    "sample,subtype,g1,g2\ns1,A,1,2\ns2,B,2,3\ns3,,1,5\n",
)
TABLE_TOKENS = (*TEXT_TOKENS, *',;|\t" ', '""', ",,", "\n\n", "," * 300, "\n" * 300, "1,2\n" * 300)
SUFFIXES = (".csv", ".csv", ".csv", ".tsv", ".txt", "", ".nwk", ".nex")


class Table(Target):
    """Tables of features (CSV and TSV), and of gene expression, read from files."""

    name = "table"

    def prepare(self) -> None:
        import pyarrow.parquet  # noqa: F401

        for text in TABLES:
            with contextlib.suppress(ValueError):
                self.call((Options(), ".csv", text.encode()))

    def make(self, rng: Random) -> Any:
        text = rng.choice(TABLES) if rng.random() < 0.5 else self._text(rng)
        if rng.random() < 0.6:
            text = mutate(rng, text, TABLES, TABLE_TOKENS)
        raw = self._encode(rng, text)
        if rng.random() < 0.15:
            raw = mutate(rng, raw, [raw], BYTE_TOKENS)
        return self._options(rng), rng.choice(SUFFIXES), raw

    def _encode(self, rng: Random, text: str) -> bytes:
        code = rng.choice(("utf-8",) * 8 + ("utf-8-sig", "utf-16"))
        return text.encode(code, "surrogatepass")

    def _text(self, rng: Random) -> str:
        width, between = rng.randrange(1, 6), rng.choice(",,,;\t| ")
        rows = [[self._cell(rng) for _ in range(width)] for _ in range(rng.randrange(1, 8))]
        names = [rng.choice((*"abcdxyz", rng.choice(LABELS))) for _ in range(width)]
        return rng.choice(("\n", "\r\n")).join(between.join(row) for row in [names, *rows])

    def _cell(self, rng: Random) -> str:
        pick = rng.random()
        if pick < 0.97:
            return f"{plain_number(rng):.6g}"
        return rng.choice(NUMBERS) if pick < 0.99 else rng.choice(LABELS)

    def _options(self, rng: Random) -> Options:
        def column() -> str:
            return rng.choice(("1", "2", "9", "x", "name", "group", *LABELS, *NUMBERS))

        def sometimes(value: Any, otherwise: Any) -> Any:
            return value if rng.random() < 0.06 else otherwise

        return Options(
            kind=sometimes(rng.choice(("features", "distances", "similarities")), None),
            labels=sometimes(column(), None),
            color=sometimes(column(), None),
            ignore=sometimes((column(), column()), ()),
            missing=rng.choice(("error", "error", "mean", "zero", "drop-rows", "drop-columns")),
            log10=sometimes(True, False),
            standardize=sometimes(True, False),
            decimal_comma=sometimes(True, False),
            header=sometimes(rng.choice((True, False)), None),
        )

    def call(self, given: Any) -> None:
        options, suffix, raw = given
        path = self.folder / f"table{suffix}"
        path.write_bytes(raw)
        if options.header is False:
            read_expression(path)
            return
        found = read_source(path)
        if isinstance(found, Cells):
            check_items(as_items(found, options))


def check_items(items: Any) -> None:
    """Items are numbers with as many different labels of one line."""
    assert np.isfinite(items.used).all()
    assert len(set(items.labels)) == len(items.labels) == len(items.used) >= 2
    assert all(label.isprintable() for label in items.labels)
    assert len(items.columns) == items.values.shape[1]


MODELS = (
    lambda w: hct.Linkage(w, metric="precomputed"),
    lambda w: hct.Linkage(w, "ward"),
    lambda w: hct.Linkage(w, "single", metric="cityblock"),
    hct.Dasgupta,
    hct.CorrelationClustering,
    lambda w: hct.Ginkgo(w, 1.5, 1.0),
    lambda w: hct.JetMass(w, 1.5),
)


class Matrix(Target):
    """Arrays: distances, similarities, tables, momenta, linkage matrices, children of trees."""

    name = "matrix"

    def prepare(self) -> None:
        rng = Random(3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for k in range(len(MODELS)):
                with contextlib.suppress(ValueError):
                    self.call((k, self._square(rng, 4, k), True))

    def make(self, rng: Random) -> Any:
        kind = rng.randrange(len(MODELS) + 2)
        n = rng.choice((1, 2, 3, 4, 5, 6))
        values = self._linkage(rng, n) if kind >= len(MODELS) else self._square(rng, n, kind)
        for _ in range(rng.choice((0, 0, 1, 1, 2, 4))):
            values = self._change(rng, values)
        return kind, values, rng.random() < 0.02

    def _square(self, rng: Random, n: int, kind: int) -> list[list[Any]]:
        if kind >= len(MODELS) - 2:
            parts = [[rng.gauss(0, 5) for _ in range(3)] for _ in range(n)]
            return [[math.hypot(rng.random(), *p), *p] for p in parts]
        values = [[abs(plain_number(rng)) for _ in range(n)] for _ in range(n)]
        scale = rng.choice((1.0, 1.0, 1.0, 1e-310, 1e-160, 1e160, 1e307))
        return [
            [scale * values[min(i, j)][max(i, j)] * (i != j) for j in range(n)] for i in range(n)
        ]

    def _linkage(self, rng: Random, n: int) -> list[list[Any]]:
        free, rows = list(range(n)), []
        for k in range(n - 1):
            rng.shuffle(free)
            rows.append([free.pop(), free.pop(), float(k), 2])
            free.append(n + k)
        return rows

    def _change(self, rng: Random, values: Any) -> Any:
        pick = rng.random()
        if pick < 0.7 and isinstance(values, list) and values:
            row = rng.choice(values)
            if isinstance(row, list) and row:
                row[rng.randrange(len(row))] = odd_value(rng)
                return values
        if pick < 0.8:
            return rng.choice(([values], np.array([0.0] * 4), np.zeros((2, 3)), *ODD))
        if pick < 0.9 and isinstance(values, list):
            return values[:-1] if rng.random() < 0.5 else [*values, [1.0]]
        with contextlib.suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.array(values, rng.choice((float, np.float32, int, object, complex, str)))
        return values

    def call(self, given: Any) -> None:
        kind, values, whole = given
        if kind == len(MODELS):
            check_tree(hct.Tree.from_linkage(values))
        elif kind > len(MODELS):
            rows = values if not isinstance(values, list) else [_start(row) for row in values]
            check_tree(hct.Tree(rows))
        else:
            self._weigh(MODELS[kind](values), whole)

    def _weigh(self, model: hct.Potential, whole: bool) -> None:
        tree = hct.Tree.from_nested(_chain(model.n_leaves))
        assert not math.isnan(model.log_weight(tree))
        if whole and model.n_leaves <= 6:
            post = hct.infer(model)
            assert not math.isnan(post.log_partition)


def _start(row: Any) -> Any:
    return row[:2] if isinstance(row, list) else row


def _chain(n: int) -> Any:
    nested: Any = 0
    for leaf in range(1, n):
        nested = (nested, leaf)
    return nested


# ---- Parquet ----------------------------------------------------------------------------------


class Parquet(Target):
    """Jets and tables in Parquet files: bytes changed, or columns of other kinds."""

    name = "parquet"

    def prepare(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.pa, self.pq = pa, pq
        self.path = self.folder / "file.parquet"
        self.jets = ginkgo(4, leaves=(3, 5), rng=1)
        self.jets.to_parquet(self.path)
        self.table = pq.read_table(self.path)
        plain = pa.table({"name": ["a", "b", "c"], "x": [1.0, 2.0, None], "y": [3, 4, 5]})
        columns = {c: [[1.0, 2.0], [3.0], []] for c in ("px", "py", "pz")}
        columns["E"] = [[4.0, 5.0], [9.0], []]
        self.tables = (self.table, plain, pa.table(columns))
        self.valid = [self._bytes(table, {}) for table in self.tables]
        for raw in self.valid:
            for way in range(3):
                with contextlib.suppress(ValueError, OSError):
                    self.call((way, raw))

    def _bytes(self, table: Any, options: dict[str, Any]) -> bytes:
        target = io.BytesIO()
        with contextlib.suppress(self.pa.ArrowNotImplementedError):  # early versions: lists, nulls
            self.pq.write_table(table, target, **options)
        return target.getvalue()

    def make(self, rng: Random) -> Any:
        if rng.random() < 0.6:
            raw = mutate(rng, rng.choice(self.valid), self.valid, BYTE_TOKENS)
            return rng.randrange(3), self._closed(rng, raw)
        table = rng.choice(self.tables)
        for _ in range(rng.choice((1, 1, 2, 3))):
            table = self._change(rng, table)
        options: dict[str, Any] = rng.choice(
            ({}, {"compression": "zstd"}, {"use_dictionary": False}, {"row_group_size": 1})
        )
        return rng.randrange(3), self._bytes(table, options)

    def _closed(self, rng: Random, raw: bytes) -> bytes:
        """Often with a footer that fits, so that the reader goes on."""
        if rng.random() < 0.5 or len(raw) < 12:
            return raw
        length = rng.choice((struct.unpack("<I", self.valid[0][-8:-4])[0], len(raw), 1 << 31))
        return b"PAR1" + raw[4:-8] + struct.pack("<I", length & 0xFFFFFFFF) + b"PAR1"

    def _change(self, rng: Random, table: Any) -> Any:
        at = rng.randrange(max(1, table.num_columns))
        pick = rng.random()
        if pick < 0.1 or table.num_columns == 0:
            return table.slice(rng.randrange(3), rng.randrange(3))
        if pick < 0.2:
            return table.remove_column(at)
        names = table.column_names
        if pick < 0.4:
            names[at] = rng.choice(("E", "px", "t", "tree", "particles", "x", *LABELS[:40], *names))
            names[at] = names[at].encode("utf-8", "replace").decode()
            return table.rename_columns(names)
        return table.set_column(at, names[at], self._column(rng, table.num_rows))

    def _column(self, rng: Random, n: int) -> Any:
        pa = self.pa
        number = rng.choice((pa.float64(), pa.int64(), pa.float32(), pa.uint8(), pa.bool_()))
        kind = rng.choice(
            (
                number,
                pa.string(),
                pa.binary(),
                pa.timestamp("us"),
                pa.decimal128(10, 2),
                pa.date32(),
                pa.null(),
                pa.list_(number),
                pa.large_list(number),
                pa.list_(number, 2),
                pa.list_(pa.list_(number)),
                pa.list_(pa.string()),
                pa.struct({"E": number, "px": number, "py": number, "pz": number}),
                pa.list_(pa.struct(dict.fromkeys(("E", "px", "py", "pz"), number))),
                pa.list_(pa.struct({name: pa.list_(number) for name in ("E", "px", "py", "pz")})),
                pa.struct({name: pa.list_(number) for name in ("E", "px", "py", "pz")}),
                pa.map_(pa.string(), number),
            )
        )
        return pa.array([self._value(rng, kind) for _ in range(n)], kind)

    def _value(self, rng: Random, kind: Any) -> Any:
        types = self.pa.types
        if rng.random() < 0.1 or types.is_null(kind):
            return None
        if types.is_struct(kind):
            return {field.name: self._value(rng, field.type) for field in kind}
        if types.is_map(kind):
            return [("a", self._value(rng, kind.item_type))]
        if types.is_fixed_size_list(kind):
            return [self._value(rng, kind.value_type) for _ in range(2)]
        if types.is_list(kind) or types.is_large_list(kind):
            return [self._value(rng, kind.value_type) for _ in range(rng.randrange(4))]
        if types.is_boolean(kind):
            return rng.random() < 0.5
        if types.is_floating(kind):
            return rng.choice(EXTREMES)
        if types.is_string(kind):
            return rng.choice(LABELS).encode("utf-8", "replace").decode()
        return b"\xff" if types.is_binary(kind) else rng.randrange(2)

    def call(self, given: Any) -> None:
        way, raw = given
        self.path.write_bytes(raw)
        if way == 0:
            self._check_jets(Jets.from_parquet(self.path))
        elif way == 1:
            result = hct.infer_many(self.path, "ginkgo", lam=1.5, t_cut=16.0, scheduler="serial")
            assert len(result.to_arrow()) == result.n_rows
        else:
            found = read_source(self.path)
            if isinstance(found, Cells):
                check_items(as_items(found, Options()))

    def _check_jets(self, jets: Jets) -> None:
        for jet in jets:
            jet.tree.validate()
            assert jet.tree.n_leaves == len(jet.momenta)
        again = self.folder / "again.parquet"
        jets.to_parquet(again)
        assert Jets.from_parquet(again).newicks() == jets.newicks()


# ---- saved trellises --------------------------------------------------------------------------

TYPES = (np.uint64, np.int64, np.float64, np.int8, np.bool_, ">u8", "U3", "O", "M8[s]", "V4")
HEADERS = (
    b"'shape': (1000000000000,)", b"'shape': (-1,)", b"'shape': ()", b"'shape': (3, 99999999)",
    b"'shape': (18446744073709551616,)", b"'shape': [8]", b"'descr': '|O'", b"'descr': '<f8'",
    b"'descr': 'x'", b"'descr': [('a', '<u8')]", b"'fortran_order': True", b"'fortran_order': 3",
    b"__import__('os').system('false')",
)  # fmt: skip


class Trellis(Target):
    """Saved sparse trellises: bytes of the archive, of its members, and its arrays changed."""

    name = "trellis"

    def prepare(self) -> None:
        newicks = ("((a,b),(c,d));", "(((a,b),c),d);", "((a,c),(b,d));")
        self.path = self.folder / "file.npz"
        trellis = SparseTrellis.from_trees(map(hct.Tree.from_newick, newicks))
        trellis.save(self.path)
        self.valid = self.path.read_bytes()
        with np.load(self.path, allow_pickle=False) as file:
            self.arrays = dict(file)
        self.members = {name: _as_npy(array) for name, array in self.arrays.items()}
        self.call(self.valid)

    def make(self, rng: Random) -> bytes:
        pick = rng.random()
        if pick < 0.25:
            return mutate(rng, self.valid, [self.valid], BYTE_TOKENS)
        members = dict(self.members)
        for _ in range(rng.choice((1, 1, 2, 3))):
            name = rng.choice([*members])
            if pick < 0.6:
                members[name] = _as_npy(self._array(rng, self.arrays[name].copy()))
            else:
                members[name] = self._member(rng, members[name])
        return self._archive(rng, members)

    def _array(self, rng: Random, array: Any) -> Any:
        pick = rng.random()
        if pick < 0.5 and array.size and array.dtype.kind in "iu":
            array.flat[rng.randrange(array.size)] = rng.choice((0, 1, 2, 3, 7, 9, 15, 100, 2**62))
            return array
        if pick < 0.7:
            kind = np.dtype(rng.choice(TYPES))
            odd = kind.kind in "VM" or array.dtype.kind == "U"
            return np.zeros(array.shape, kind) if odd else array.astype(kind)
        if pick < 0.85:
            return array.ravel()[: rng.randrange(array.size + 1)]
        return rng.choice((np.zeros(()), array[..., None], np.repeat(array, 2), np.zeros((0, 3))))

    def _member(self, rng: Random, raw: bytes) -> bytes:
        if rng.random() < 0.5:
            return mutate(rng, raw, [*self.members.values()], BYTE_TOKENS)
        odd = rng.choice(HEADERS)
        key = odd.split(b":")[0]
        start = raw.find(key)
        stop = raw.find(b", '", start) if start >= 0 else -1
        if stop < 0:
            return raw.replace(b"}", b", " + odd + b"}", 1)
        changed = raw[:start] + odd + raw[stop:]
        length = changed.find(b"\n") - 9
        return changed[:8] + struct.pack("<H", max(0, length)) + changed[10:]

    def _archive(self, rng: Random, members: dict[str, bytes]) -> bytes:
        target = io.BytesIO()
        way = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) * 9 + (zipfile.ZIP_BZIP2,))
        with zipfile.ZipFile(target, "w", way) as archive:
            for name, raw in members.items():
                if rng.random() < 0.02:
                    name = rng.choice(("../../x", "/etc/passwd", "", "extra", name.upper()))
                if rng.random() > 0.01 and f"{name}.npy" not in archive.namelist():
                    archive.writestr(f"{name}.npy", raw)
        raw = target.getvalue()
        return mutate(rng, raw, [self.valid], BYTE_TOKENS) if rng.random() < 0.1 else raw

    def call(self, given: bytes) -> None:
        self.path.write_bytes(given)
        trellis = SparseTrellis.load(self.path)
        trellis.validate()
        again = self.folder / "again.npz"
        trellis.save(again)
        assert SparseTrellis.load(again) == trellis
        assert trellis.n_trees >= 1


def _as_npy(array: Any) -> bytes:
    target = io.BytesIO()
    np.save(target, array, allow_pickle=array.dtype.kind == "O")
    return target.getvalue()


# ---- the command line -------------------------------------------------------------------------

FILES = {
    "table.csv": TABLES[0],
    "holes.csv": ",x,y\na,1,NA\nb,2,3\nc,4,5\nd,,1\n",
    "colors.csv": "name,group,x\na,r,1\nb,r,2\nc,g,7\n",
    "square.csv": TABLES[6],
    "trees.nwk": "((a,b),(c,d));\n((a,c),(b,d));\n",
    "trees.nex": NEXUS[0],
    "empty.csv": "",
    "odd.csv": "name,x\n<b>,1\n../y,2\n[red]z,3\n",
}
VALUES = (
    "0", "1", "2", "-1", "0.5", "10", "3:5", "5:3", "auto", "1e308", "1e-320", "nan", "inf", "x",
    "name", "group", "a,b", "ape, bat", '"a', "", " ", "out.html", "out.nwk", "out.npy", "out.csv",
    "no/such/out.html", ".", "..", "/", "\0", "\udcff", "é", "a" * 300, "-", "--", "=", "[/red]",
    "[bold]", "{x}", "%d", "9" * 30, "²", *FILES, "jets.parquet", "results", "serial", "threads",
    "average", "ward", "single", "complete", "centroid", "dasgupta", "correlation", "euclidean",
    "cosine", "mahalanobis", "jaccard", "mean", "zero", "drop-rows", "drop-columns", "qcd", "w",
    "ginkgo", "jetmass", "tree", "0:0", ":", "1:", "AVERAGE", "--help",
)  # fmt: skip
OPTIONS = {
    "infer": (
        "--potential", "-p", "--metric", "--beta", "--cluster", "-c", "--bootstrap", "--distances",
        "--similarities", "--features", "--labels", "--color", "--ignore", "--missing",
        "--standardize", "--no-standardize", "--log10", "--header", "--no-header",
        "--decimal-comma", "--report", "-r", "--newick", "--linkage", "--samples", "--n-samples",
        "--json", "--title", "--seed", "--time-limit", "--quiet", "-q",
    ),
    "batch": (
        "--output", "-o", "--lam", "--potential", "--t-cut", "--lam-root", "--entropy",
        "--true-trees", "--seconds", "--workers", "--chunk-size", "--overwrite", "--quiet",
    ),
    "simulate jets": (
        "--output", "-o", "--number", "--leaves", "--seed", "--preset", "--lam", "--lam-root",
        "--t-cut", "--mass", "--momentum", "--quiet",
    ),
    "demo": ("--output", "--beta"),
    "reproduce": ("--output", "--small", "--data", "--seed", "--html", "--quiet"),
}  # fmt: skip
FLAGS = (
    "--distances", "--similarities", "--features", "--standardize", "--no-standardize", "--log10",
    "--header", "--no-header", "--decimal-comma", "--quiet", "-q", "--entropy", "--seconds",
    "--overwrite", "--small", "--html",
)  # fmt: skip
STARTS = (
    ("infer", "table.csv", "--beta", "1"),
    ("infer", "table.csv", "--beta", "1", "--newick", "out.nwk"),
    ("infer", "holes.csv", "--beta", "1", "--missing", "mean", "--json", "out.json"),
    ("infer", "square.csv", "--beta", "1", "--distances", "--linkage", "out.csv"),
    ("infer", "trees.nwk", "--samples", "out.nex", "--n-samples", "3"),
    ("infer", "colors.csv", "--beta", "1", "--color", "group", "-p", "ward"),
    ("infer", "odd.csv", "--beta", "1", "-q"),
    ("batch", "jets.parquet", "-o", "results", "--lam", "1.5", "--t-cut", "16", "--workers", "1"),
    ("simulate", "jets", "-o", "new.parquet", "--number", "3", "--leaves", "3:4", "--seed", "1"),
)


class CommandLine(Target):
    """Arguments of the command line, in this process."""

    name = "cli"
    seconds = 60.0  # the first use of a model compiles

    def prepare(self) -> None:
        self.inner = self.folder / "inner"
        self.inner.mkdir()
        for name, text in FILES.items():
            (self.inner / name).write_text(text, encoding="utf-8")
        ginkgo(3, leaves=(3, 4), rng=1).to_parquet(self.inner / "jets.parquet")
        typer.main.get_command = cache(typer.main.get_command)  # slow, and always the same
        for start in STARTS:
            self.call(list(start))

    def make(self, rng: Random) -> list[str]:
        if rng.random() < 0.6:
            given = list(rng.choice(STARTS))
        else:
            command = rng.choice(("infer", "infer", "infer", "batch", "simulate jets", *OPTIONS))
            given = [*command.split(), *(rng.choice(VALUES) for _ in range(rng.randrange(3)))]
        name = " ".join(given[:2]) if given[0] == "simulate" else given[0]
        for _ in range(rng.choice((0, 1, 1, 2, 3))):
            self._change(rng, given, OPTIONS.get(name, ("--help",)))
        if given and given[0] in ("demo", "reproduce"):  # which take seconds if nothing is wrong
            given.insert(1, "--no-such-option")
        return given

    def _change(self, rng: Random, given: list[str], options: tuple[str, ...]) -> None:
        pick = rng.random()
        at = rng.randint(1, max(1, len(given)))
        if pick < 0.6:
            option = rng.choice(options)
            value = [] if option in FLAGS else [rng.choice(VALUES)]
            given[at:at] = [option, *value] if rng.random() < 0.8 else ["=".join([option, *value])]
        elif pick < 0.75 and len(given) > 1:
            del given[rng.randrange(len(given))]
        elif given:
            at = rng.randrange(len(given))
            other = rng.choice((*VALUES, *options))
            changed = mutate(rng, given[at], VALUES, VALUES)
            given[at] = other if pick < 0.9 else changed

    def call(self, given: list[str]) -> None:
        out, err = io.StringIO(), io.StringIO()
        before = Path.cwd()
        os.chdir(self.inner)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = command_line(given)
        finally:
            os.chdir(before)
            self._clean()
        lines = [line for line in err.getvalue().splitlines() if not line.startswith("note: ")]
        if code == 0:
            assert lines == [], lines
            return
        assert code in (1, 2, 3), (code, lines)
        (line,) = lines
        assert line.startswith("hctrellis: "), line
        start = line.removeprefix("hctrellis: ").split(":")[0]
        assert not start.endswith(("Error", "Exception")), line
        raise Refused(line)

    def _clean(self) -> None:
        """Remove what was written."""
        kept = {*FILES, "jets.parquet"}
        for path in self.inner.iterdir():
            if path.name not in kept and path.is_file():
                path.unlink()
        results = self.inner / "results"
        if results.is_dir():
            for path in results.iterdir():
                path.unlink()
        for name in kept & set(FILES):  # an option may name an input as output
            path = self.inner / name
            if path.stat().st_size != len(FILES[name].encode()):
                path.write_text(FILES[name], encoding="utf-8")


TARGETS: dict[str, type[Target]] = {
    target.name: target
    for target in (Newick, Nexus, Runs, Json, Table, Matrix, Parquet, Trellis, CommandLine)
}
