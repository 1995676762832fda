"""Hostile input: a slice of the fuzzing, and the special cases by name.

The long runs are made with the program `fuzz.py`; what it tries is in `fuzz_targets.py`.
"""

from __future__ import annotations

import ast
import io
import json
import pickle
import resource
import time
import zipfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import fuzz
import hctrellis as hct
from fuzz_targets import TARGETS
from hctrellis.cli import main
from hctrellis.cli.sources import Cells, read_source
from hctrellis.kernels import bind
from hctrellis.simulate import Jets, ginkgo
from hctrellis.support import textfiles
from hctrellis.tables.cells import Options
from hctrellis.tables.items import as_items
from hctrellis.treefiles import read_nexus, write_nexus
from hctrellis.trees.newick import parse_newick_support
from hctrellis.trellis.sparse import SparseTrellis

pytest.importorskip("typer")
pytest.importorskip("pyarrow")

SOURCE = Path(hct.__file__).parent
SLICE = {
    "newick": 300,
    "nexus": 300,
    "runs": 300,
    "json": 500,
    "table": 300,
    "matrix": 500,
    "parquet": 150,
    "trellis": 400,
    "cli": 60,
}


@contextmanager
def bounded(seconds: float = 5.0, megabytes: int = 300):
    """What is done within takes neither long nor much memory."""
    start = time.process_time()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 1024 * megabytes
    assert time.process_time() - start < seconds


@contextmanager
def refused(*errors):
    """What is done within is refused in one line of sensible length."""
    with pytest.raises(errors or ValueError) as raised:
        yield
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < fuzz.LONGEST


@pytest.mark.parametrize("name", SLICE)
def test_slice(name, tmp_path):
    assert set(SLICE) == set(TARGETS)
    tally = fuzz.run(TARGETS[name](tmp_path), SLICE[name], seed=2)
    assert tally.failures == []
    assert tally.accepted > SLICE[name] / 100
    assert tally.refused > SLICE[name] / 100


def test_failures_are_found_and_saved(tmp_path, capsys, monkeypatch):
    class Broken(TARGETS["newick"]):
        def call(self, given):
            raise KeyError("a") if "(" in given else ValueError("two\nlines")

    monkeypatch.setitem(TARGETS, "newick", Broken)
    monkeypatch.setattr(fuzz, "_limit_memory", lambda: None)
    arguments = ["newick", "--number", "50", "--failures", "50", "--save", str(tmp_path)]
    assert fuzz.main(arguments) == 1
    out = capsys.readouterr().out
    assert "KeyError" in out
    assert "lines" in out
    assert len([*tmp_path.glob("newick-1-*")]) == 50


# ---- deep and long ----------------------------------------------------------------------------

DEEP = 100_000
LONG = "x" * 1_000_000


def deep_newick(inner: str = "") -> str:
    return "(" * DEEP + "a" + "".join(f",{k}){inner}" for k in range(DEEP)) + ";"


def test_deep_newick():
    with bounded(20.0, 500):
        tree = hct.Tree.from_newick(deep_newick())
        assert tree.n_leaves == DEEP + 1
        assert len(tree.to_newick()) == len(deep_newick())
        assert hct.Tree.from_json(tree.to_json()) == tree


def test_deep_support_does_not_fit(monkeypatch):
    monkeypatch.setattr("hctrellis.support.memory.available_memory", lambda: 1 << 30)
    with bounded(10.0), refused(MemoryError):
        parse_newick_support(deep_newick("0.9"))


def test_long_numbers(tmp_path):
    """Time grows with the length of a number, not with its square."""
    path = tmp_path / "table.csv"
    for text in ("1" * 10**5 + "x", "1" * 10**5 + "." + "1" * 10**5 + "x", "1" * 10**5 + ","):
        path.write_text(f"name x\na {text}\nb 2\n")
        with bounded(2.0), refused():
            as_items(read_source(path), Options(labels="1"))
        with bounded(2.0), refused():
            hct.Tree.from_newick(f"(a:{text}:,b);")


@pytest.mark.parametrize("text", ["(" * DEEP, "[" * 10**6, ")" * DEEP, "(a," * DEEP, "'" * 999])
def test_what_is_never_closed(text):
    with bounded():
        with refused():
            hct.Tree.from_newick(text)
        with refused():
            read_nexus("#NEXUS begin trees; tree x = " + text)


def test_deep_json():
    for text in ("[" * 10**6, '{"a":' * 10**6, '{"format": ' + "[" * 10**5 + "]" * 10**5 + "}"):
        with bounded(), refused():
            hct.Tree.from_json(text)


def test_objects_without_end():
    endless: list[object] = []
    endless += [endless, "x"]
    with bounded(), refused():
        hct.Tree.from_nested(endless)
    twice = ["a", "b"]
    with refused():
        hct.Tree.from_nested([twice, twice])
    for clusters in ([1 << 10**7], [[10**12]], [[0, 1], [5 * 10**8]]):
        with bounded(), refused():
            hct.Tree.from_clusters(clusters)
    for given in (None, b"(a,b);", 3, ["(a,b);"]):
        with refused(TypeError):
            hct.Tree.from_newick(given)


def test_long_labels(tmp_path):
    with bounded(10.0):
        tree = hct.Tree.from_newick(f"(({LONG},'{LONG} b'),c);")
        assert tree.labels == (LONG, f"{LONG} b", "c")
        assert hct.Tree.from_json(tree.to_json()) == tree
        assert read_nexus(write_nexus([tree])) == [tree]
        assert len(repr(tree)) < 200
        for text in (
            f"({LONG},{LONG});",
            f"{LONG} {LONG}",
            f"(a:{LONG},b);",
            f"(a:1{'0' * 10**6},b);",
        ):
            with refused():
                hct.Tree.from_newick(text)
        with refused():
            tree.reorder(["a", "b", "c"])
        path = tmp_path / "table.csv"
        path.write_text(f"name,x\n{LONG},1\nb,2\n")
        with refused():
            read_source(path)
        path.write_text(f"name {LONG}\na 1\nb 2\n")
        cells = read_source(path)
        assert isinstance(cells, Cells)
        with refused():
            as_items(cells, Options(labels="no such"))


# ---- files that lie ---------------------------------------------------------------------------

TREES = [hct.Tree.from_newick(text) for text in ("((a,b),(c,d));", "(((a,b),c),d);")]


def saved(tmp_path) -> dict[str, bytes]:
    """The members of a saved trellis."""
    path = tmp_path / "saved.npz"
    SparseTrellis.from_trees(TREES).save(path)
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(path: Path, content: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, raw in content.items():
            archive.writestr(name, raw)
    return path


def array_of(shape: object, kind: str = "<u8") -> bytes:
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


@pytest.mark.parametrize("shape", [(10**12, 1), (10**18, 10**18), (2**30, 1), (2**63,), (0, 10**9)])
def test_trellis_that_states_a_huge_array(shape, tmp_path):
    for name in ("words", "lefts"):
        content = saved(tmp_path) | {f"{name}.npy": array_of(shape)}
        with bounded(megabytes=50), refused():
            SparseTrellis.load(packed(tmp_path / "huge.npz", content))


def test_trellis_with_a_tricky_header(tmp_path):
    for shape in ("1" * 60_000, "1, " * 20_000, "(" * 60_000, "1," * 30_000 + "x"):
        content = saved(tmp_path) | {"words.npy": array_of(shape)}
        with bounded(), refused():
            SparseTrellis.load(packed(tmp_path / "tricky.npz", content))


def test_trellis_that_states_a_huge_member(tmp_path):
    """The directory of the archive, too, speaks of four gigabytes."""
    path = packed(tmp_path / "huge.npz", saved(tmp_path) | {"words.npy": array_of((2**28, 2))})
    raw = path.read_bytes()
    size = len(array_of((2**28, 2)))
    stated = (size + 2**32 - 2**10).to_bytes(8, "little")[:4]
    path.write_bytes(raw.replace(size.to_bytes(4, "little"), stated))
    with bounded(megabytes=50), refused():
        SparseTrellis.load(path)


def test_trellis_that_unpacks_to_much(tmp_path, monkeypatch):
    zeros = array_of((2**23, 1)) + bytes(2**26)
    path = packed(tmp_path / "bomb.npz", saved(tmp_path) | {"words.npy": zeros})
    assert path.stat().st_size < 2**18
    with bounded(), refused():
        SparseTrellis.load(path)
    monkeypatch.setattr("hctrellis.support.memory.available_memory", lambda: 2**26)
    with bounded(megabytes=50), refused(MemoryError):
        SparseTrellis.load(path)


def parquet_bomb(path: Path) -> Path:
    """A small file of many equal numbers, in a column that every reader looks at."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    jets = ginkgo(2, leaves=3, rng=1)
    jets.to_parquet(path)
    zeros = pa.array(np.zeros(4 * 10**6))
    record = pa.StructArray.from_arrays([zeros] * 4, names=["E", "px", "py", "pz"])
    ends = pa.array([0, *[len(zeros)] * 2], pa.int64())
    table = pq.read_table(path)
    table = table.set_column(0, "particles", pa.LargeListArray.from_arrays(ends, record))
    pq.write_table(table, path)
    return path


def test_parquet_that_unpacks_to_much(tmp_path, monkeypatch):
    path = parquet_bomb(tmp_path / "bomb.parquet")
    assert path.stat().st_size < 2**20
    monkeypatch.setattr("hctrellis.support.memory.available_memory", lambda: 2**26)
    with bounded(megabytes=100):
        with refused(MemoryError):
            Jets.from_parquet(path)
        with refused(MemoryError):
            hct.infer_many(path, "ginkgo", lam=1.5, t_cut=16.0)
        with refused():
            read_source(path)


def test_tables_with_too_many_rows_are_not_read(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "long.parquet"
    pq.write_table(pa.table({"x": np.zeros(2 * 10**7)}), path)
    with bounded(megabytes=50), refused():
        read_source(path)


def test_files_cut_short(tmp_path):
    path = tmp_path / "jets.parquet"
    ginkgo(3, leaves=3, rng=1).to_parquet(path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 101):
        path.write_bytes(whole[:length])
        with refused():
            Jets.from_parquet(path)
        with refused():
            hct.infer_many(path, "ginkgo", lam=1.5, t_cut=16.0)
        with refused():
            read_source(path)


@pytest.mark.parametrize("way", [1, 2])
def test_every_byte_of_a_footer(way, tmp_path):
    """Among these are files at whose sizes of columns pyarrow itself would abort."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    target = TARGETS["parquet"](tmp_path)
    path, tally = tmp_path / "footer.parquet", fuzz.Tally()
    columns = {name: pa.array([[1.0, None], None, []]) for name in ("px", "py", "pz", "E")}
    pq.write_table(pa.table(columns), path)
    raw = path.read_bytes()
    start = len(raw) - 8 - int.from_bytes(raw[-8:-4], "little")
    for at in range(start, start + 150):
        fuzz.attempt(target, (way, raw[:at] + bytes([raw[at] ^ 2]) + raw[at + 1 :]), tally)
    assert tally.refused > 30


def test_files_without_end(monkeypatch):
    if not Path("/dev/zero").exists():
        pytest.skip("there is no such file here")
    monkeypatch.setattr(textfiles, "MAX_BYTES", 2**23)
    with bounded(), refused():
        read_source(Path("/dev/zero"))


# ---- nothing is run ---------------------------------------------------------------------------


class Trap:
    """What a malicious file would run."""

    def __reduce__(self):
        return Path.touch, (Path("trapped"),)


def test_pickles_are_not_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    raw = pickle.dumps(Trap())
    objects = io.BytesIO()
    np.save(objects, np.array([Trap()], object), allow_pickle=True)
    for content in (raw, objects.getvalue()):
        path = tmp_path / "file.npz"
        path.write_bytes(content)
        for read in (SparseTrellis.load, Jets.from_parquet, read_source):
            with refused():
                read(path)
        for name in saved(tmp_path):
            packed(path, saved(tmp_path) | {name: content})
            with refused():
                SparseTrellis.load(path)
    assert not (tmp_path / "trapped").exists()


FORBIDDEN = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "yaml", "subprocess"}
OWN_CODE = [SOURCE / "kernels" / name for name in ("bind.py", "branchless.py")]


def calls(tree: ast.AST):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: path.name)
def test_source_unpickles_and_evaluates_nothing(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert not FORBIDDEN & {name.split(".")[0] for name in names}
    for name, node in calls(tree):
        assert name not in ("eval", "__import__", "os.system", "os.popen")
        assert name not in ("exec", "compile") or path in OWN_CODE
        pickles = [k.value for k in node.keywords if k.arg == "allow_pickle"]
        assert all(isinstance(value, ast.Constant) and not value.value for value in pickles)
        assert name not in ("np.load", "numpy.load", "joblib.load")


def test_code_is_made_of_the_package_only():
    """What is executed are files of the package, and text that no data enter.

    (And users' own functions: see `test_branchless.py`.)
    """
    assert bind._FOLDER == SOURCE / "kernels"
    nasty = ["__import__('os').system('false')", "a\n    raise SystemExit", '"""', "d"]
    for labels in (nasty, None):
        model = hct.Linkage(np.arange(8.0).reshape(4, 2), labels=labels)
        texts = {bind._adaptor([part.code()]) for part in (model + model).parts}
        assert len(texts) == 1
        assert not any(label in text for text in texts for label in nasty[:3])
        assert hct.infer(model).n_trees == 15


# ---- names ------------------------------------------------------------------------------------

NASTY = ("../../escaped", "/tmp/escaped", "two\nlines", "<script>alert(1)</script>")


def test_labels_are_never_names_of_files(tmp_path, monkeypatch, capsys):
    inner = tmp_path / "a" / "b" / "inner"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    lines = [f'"{label}","{label}",{k},{k * k}' for k, label in enumerate(NASTY)]
    (inner / "t.csv").write_text("\n".join(['"../x","../group",x,"../../y"', *lines]))
    outputs = {"--newick": "t.nwk", "--json": "t.json", "--samples": "s.nex", "--linkage": "z.npy"}
    pairs = [part for pair in outputs.items() for part in pair]
    titled = ["--title", "../../x", "--report", "r.html", "--color", "../group"]
    assert main(["infer", "t.csv", "--n-samples", "3", *pairs, *titled]) == 0
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {
        "t.csv",
        "r.html",
        *outputs.values(),
    }
    found = json.loads((inner / "t.json").read_text(encoding="utf-8"))
    assert "../../escaped" in json.dumps(found)
    assert read_nexus((inner / "s.nex").read_text(encoding="utf-8"))[0].n_leaves == 4
    assert "\\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ("infer", "t.csv", "--beta", "1", "--bootstrap", "9" * 30),
        ("infer", "t.csv", "--beta", "1", "--samples", "s.nwk", "--n-samples", "9" * 30),
        ("simulate", "jets", "-o", "j.parquet", "--number", "9" * 30),
        ("simulate", "jets", "-o", "j.parquet", "--mass", "1e200"),
        ("batch", "j.parquet", "-o", "out", "--lam", "1", "--t-cut", "1", "--workers", "9" * 30),
        ("infer", "t.csv", "--time-limit", "nan"),
    ],
)
def test_numbers_beyond_reason(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("name,x\na,1\nb,2\nc,4\n")
    assert main(list(arguments)) in (1, 2)
    (line,) = capsys.readouterr().err.splitlines()
    assert "Error:" not in line


def test_tables_in_notebooks_are_escaped():
    post = hct.infer(hct.Linkage(np.arange(4.0)[:, None], labels=NASTY))
    html = post.cluster_probabilities()._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
