"""``hctrellis infer``: what files it reads, what it answers, what it writes."""

from __future__ import annotations

import csv
import gzip
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.cluster.hierarchy import is_valid_linkage

import hctrellis as hct
from hctrellis.cli import main
from hctrellis.cli.commands.infer import ABOUT as ABOUT_INFER
from hctrellis.cli.sources import MAX_ROWS, Cells, read_source
from hctrellis.infer import MAX_EXACT_LEAVES
from hctrellis.plotting.subject import as_subject
from hctrellis.tables.cells import Items, Options
from hctrellis.tables.items import as_items
from hctrellis.treefiles import read_newicks, read_nexus
from hctrellis.trees.newick import parse_newick_support

ANIMALS = "name,x,y\nape,1,2\nbat,2,2\ncat,8,9\ndog,9,9\neel,30,1\n"
LABELS = ["ape", "bat", "cat", "dog", "eel"]
POINTS = np.array([[1, 2], [2, 2], [8, 9], [9, 9], [30, 1.0]])
DISTANCES = np.abs(np.subtract.outer([0.0, 1, 4, 9], [0.0, 1, 4, 9]))
TREES = "((a,b),(c,d));\n((a,b),(c,d));\n(((a,b),c),d);\n((a,c),(b,d));\n"


@pytest.fixture
def write(tmp_path):
    def write(content: str | bytes, name: str = "table.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def read(path: Path, **options) -> Items:
    cells = read_source(path)
    assert isinstance(cells, Cells)
    return as_items(cells, Options(**options))


def matrix_text(values, labels="abcd", corner="") -> str:
    rows = [
        ",".join([label, *("" if np.isnan(x) else repr(float(x)) for x in row)])
        for label, row in zip(labels, values, strict=True)
    ]
    return "\n".join([",".join([corner, *labels]), *rows]) + "\n"


def only_line(text: str) -> str:
    (line,) = text.splitlines()
    return line


# ---- tables -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        ANIMALS,
        ANIMALS.replace("\n", "\r\n"),
        "\ufeff" + ANIMALS,
        ANIMALS.replace(",", "\t"),
        ANIMALS.replace(",", ";"),
        ANIMALS.replace(",", " , "),
        ANIMALS.replace(",", "  "),
        ANIMALS.replace("\n", ",\n"),
        ANIMALS.replace("\n", "\n\n"),
        ANIMALS.removeprefix("name,x,y\n"),
        ANIMALS.replace("ape", '"ape"'),
        ANIMALS.replace("name,", ","),
    ],
)
def test_ways_to_write_a_table(text, write):
    items = read(write(text))
    assert items.labels == LABELS
    np.testing.assert_array_equal(items.values, POINTS)
    assert items.kind == "features"


def test_utf16(write):
    assert read(write(ANIMALS.encode("utf-16"))).labels == LABELS


def test_labels_are_kept_as_they_are(write):
    items = read(write('who,x\n"Smith, ""Joe""",1\n"it\'s <b>",2\n"two\nlines",3\n'))
    assert items.labels == ['Smith, "Joe"', "it's <b>", "two\\nlines"]


def test_windows_letters(write):
    items = read(write(ANIMALS.replace("eel", "Käfer").encode("cp1252")))
    assert items.labels[-1] == "Käfer"
    assert "was read as Windows-1252" in items.notes[0]


def test_packed_tables(write):
    items = read(write(gzip.compress(ANIMALS.encode()), "table.csv.gz"))
    assert items.labels == LABELS
    np.testing.assert_array_equal(items.values, POINTS)


def test_workbooks(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["name", "x", "y"])
    for name, row in zip(LABELS, POINTS.tolist(), strict=True):
        book.active.append([name, *row])
    book.create_sheet("more")
    path = tmp_path / "table.xlsx"
    book.save(path)
    items = read(path)
    assert items.labels == LABELS
    np.testing.assert_array_equal(items.values, POINTS)
    assert "only the first sheet" in items.notes[0]


def test_transposed(write):
    cells = [line.split(",") for line in ANIMALS.splitlines()]
    text = "\n".join(",".join(row) for row in zip(*cells, strict=True))
    items = read(write(text), transpose=True)
    assert items.labels == LABELS
    np.testing.assert_array_equal(items.values, POINTS)


def test_a_hint_at_transposing(write, capsys):
    rng = np.random.default_rng(0)
    head = ",".join(["gene", *(f"S{k}" for k in range(7))])
    rows = [",".join([f"g{k}", *map(str, rng.normal(size=7))]) for k in range(50)]
    path = write("\n".join([head, *rows]))
    assert "give --transpose" in read(path).notes[0]
    assert read(path, transpose=True).notes == []
    assert "7 items, 50 columns, transposed" in run(capsys, path, "--transpose", "--beta", "1")


def test_decimal_comma(write):
    items = read(write("a;1,5;2\nb;-2,5;3\nc;4;5,5\n"), decimal_comma=True)
    assert items.values.tolist() == [[1.5, 2.0], [-2.5, 3.0], [4.0, 5.5]]


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("x,y\n1,2\n3,4\n5,6\n", ["1", "2", "3"]),  # no labels: rows are counted
        ("1,2\n3,4\n5,6\n", ["1", "2", "3"]),
        ("id,x\n0,5\n1,6\n2,9\n", ["0", "1", "2"]),  # a column that counts the rows
        (",x\n7,5\n9,6\n2,9\n", ["7", "9", "2"]),  # row names of pandas
    ],
)
def test_labels_that_are_not_given(text, labels, write):
    assert read(write(text)).labels == labels


COUNTED = "it,id,x,y\na,100,1,5\nb,103,2.5,6\nc,107,2,9\nd,108,1,1\ne,110,7,2\n"
POINTS_ON_A_LINE = np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0)))


@pytest.mark.parametrize(
    ("text", "labels", "columns"),
    [
        (COUNTED, ["a", "b", "c", "d", "e"], ["x", "y"]),  # increasing ids beside labels
        (COUNTED.replace("it,", ",").replace("id", "SampleID"), list("abcde"), ["x", "y"]),
        (",id,x\n0,8,5\n1,4,6\n2,6,9\n", ["0", "1", "2"], ["x"]),  # an index, and ids
        (",Unnamed: 0,x\n3,0,5\n1,1,6\n2,2,9\n", ["3", "1", "2"], ["x"]),  # written twice
        (",who,x\n0,ape,5\n1,bat,6\n2,cat,9\n", ["ape", "bat", "cat"], ["x"]),
        ("x,t\n5,7\n6,8\n9,9\n1,10\n2,11\n", ["7", "8", "9", "10", "11"], ["x"]),
        ("id,dose\n4,1\n5,2\n6,3\n7,4\n8,5\n", ["4", "5", "6", "7", "8"], ["dose"]),
        ("who,dose\na,1\nb,2\nc,3\nd,4\ne,5\n", list("abcde"), ["dose"]),  # all there is
        ("who,a,b\na,1,3\nb,2,2\nc,3,7\n", list("abc"), ["a", "b"]),  # by chance
    ],
)
def test_numbers_of_rows_are_no_features(text, labels, columns, write):
    items = read(write(text))
    assert (items.labels, items.columns) == (labels, columns)
    everything = read(write(text), all_columns=True)
    assert len(everything.columns) >= len(columns)
    assert not any("numbers the rows" in note for note in everything.notes)


def test_what_was_left_out_is_said(write, capsys):
    items = read(write(COUNTED))
    said = "column 'id' numbers the rows and was left out; --all-columns makes it a feature"
    assert items.notes == [said]
    named = read(write(COUNTED), labels="it")
    assert (named.columns, named.notes) == (["x", "y"], [said])
    assert read(write(COUNTED), labels="id", ignore=("it",)).notes == []
    assert main(["infer", str(write(COUNTED)), "--beta", "1", "--id-column", "it"]) == 0
    assert f"note: {said}" in capsys.readouterr().err
    path = str(write(COUNTED))
    assert main(["infer", path, "--beta", "1", "--all-columns", "--id-column", "it"]) == 0
    captured = capsys.readouterr()
    assert "3 columns" in captured.out and "left out" not in captured.err


def test_ids_are_not_to_be_standardised(write):
    """An id that repeats is a feature, alas; scaling it would not make it a better one."""
    text = "id,x,y\n1000,1,2\n1000,2,2\n5000,3,1\n5000,2,1\n"
    (note,) = read(write(text)).notes
    assert "dominates the distances; if it holds ids, leave it out: --ignore id" in note


@pytest.mark.parametrize("options", [{"kind": "distances"}, {"kind": "distances", "header": False}])
@pytest.mark.parametrize("indexed", [False, True])
def test_distances_that_count(options, indexed, write):
    """From the first of points on a line, distances are row numbers."""
    rows = [[*([k] * indexed), *row] for k, row in enumerate(POINTS_ON_A_LINE.astype(int))]
    text = "\n".join(",".join(map(str, row)) for row in rows)
    items = read(write(text), **options)
    np.testing.assert_array_equal(items.values, POINTS_ON_A_LINE)
    assert items.labels == [str(k + 1 - indexed) for k in range(5)]
    with pytest.raises(ValueError, match="looks like a matrix between 5 items"):
        read(write(text), header=False)


def test_columns_by_name_and_number(write):
    path = write("kind,x,who,y\np,1,a,2\nq,2,b,3\np,4,c,4\n")
    items = read(path, labels="who", color="kind")
    assert items.labels == ["a", "b", "c"]
    assert items.groups == ["p", "q", "p"]
    assert items.columns == ["x", "y"]
    items = read(path, labels="3", ignore=("1", "y"))
    assert items.columns == ["x"]
    assert items.groups == []


def test_a_header_of_numbers(write):
    text = "species,1990,1991\na,1,2\nb,2,4\nc,5,6\n"
    assert read(write(text)).labels == ["species", "a", "b", "c"]
    assert read(write(text), header=True).labels == ["a", "b", "c"]


def test_parquet(tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    path = tmp_path / "table.parquet"
    frame = pd.DataFrame(POINTS.copy(), index=LABELS, columns=["x", "y"])
    frame.to_parquet(path)
    assert read(path).labels == LABELS
    np.testing.assert_array_equal(read(path).values, POINTS)
    frame.iloc[1, 0] = np.nan
    frame.to_parquet(path)
    with pytest.raises(ValueError, match="1 missing value, the first in row 'bat', column 'x'"):
        read(path)


@pytest.mark.parametrize(
    ("policy", "labels", "values"),
    [
        ("mean", ["a", "b", "c"], [[1, 2], [2, 3], [3, 4]]),
        ("zero", ["a", "b", "c"], [[1, 2], [0, 3], [3, 4]]),
        ("drop-rows", ["a", "c"], [[1, 2], [3, 4]]),
        ("drop-columns", ["a", "b", "c"], [[2], [3], [4]]),
    ],
)
@pytest.mark.parametrize("hole", ["", "NA", "nan", "?"])
def test_missing_values(policy, labels, values, hole, write):
    items = read(write(f"name,x,y\na,1,2\nb,{hole},3\nc,3,4\n"), missing=policy)
    assert items.labels == labels
    assert items.values.tolist() == values
    assert len(items.notes) == 1


def test_scales(write):
    items = read(write("a,1,10\nb,10,1000\nc,100,10\n"), log10=True)
    np.testing.assert_allclose(items.used, [[0, 1], [1, 3], [2, 1]])
    np.testing.assert_allclose(items.values[0], [1, 10])
    items = read(write("a,1,5\nb,2,5\nc,3,5\n"), standardize=True)
    np.testing.assert_allclose(items.used.std(axis=0), [1, 0])
    np.testing.assert_allclose(items.used.mean(axis=0), 0, atol=1e-12)


def test_a_column_that_rules_is_noted(write):
    text = "a,1,1,10000\nb,2,1,50000\nc,3,2,90000\n"
    assert "column 'column 4' varies far more" in read(write(text)).notes[0]
    assert read(write(text), standardize=True).notes == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "table.csv is empty"),
        (" \n\r\n", "table.csv is empty"),
        ("a,b,c\n", "names of columns but no rows"),
        ("name,x\na,1\n", "only one item"),
        ("name\na\nb\nc\n", "no column of numbers left"),
        ("name,x,y\na,1,2\nb,1\n", "line 3 of table.csv has 2 cells where the first line has 3"),
        ('name,x\n"a,1\nb,2\n', "check its quotes"),
        ("name,x\na,1\nb,inf\nc,2\n", "'inf' in row 2, which is not finite"),
        ("name,x\na,1\nb,1e999\nc,2\n", "'1e999' in row 2, which is not finite"),
        ("name,x\na,1\nb,two\nc,3\n", "'two' in row 2, which is not a number.*--ignore x"),
        ("name;x\na;1,5\nb;2\nc;3\n", "decimal comma, as in '1,5'; give --decimal-comma"),
        ("name,x,kind\na,1,p\nb,2,q\nc,3,p\n", "--color kind.*--ignore kind"),
        ("name,x,my kind\na,1,p\nb,2,q\nc,3,p\n", '--ignore "my kind"'),
        ("name,x\na,1\na,2\nb,3\n", "'a' 2 times.*--labels.*--color name"),
        ("name,x\na,1\n,2\nb,3\n", "row 2 of table.csv has no label"),
        ("name,x,y\na,1,\nb,2,\nc,,3\n", "3 missing values.*--missing"),
        (matrix_text(DISTANCES), "looks like a matrix between 4 items; give --distances"),
        (b"PK\x03\x04rest", "no Excel workbook"),
        (b"\xd0\xcf\x11\xe0rest", "old Excel workbook"),
        (b"\x1f\x8brest", "compressed"),
        (b"\x93NUMPY", "NumPy array"),
        ("näme,x\na,1\n".encode("cp1252") + b"\x81", "not text in UTF-8"),
        (bytes(range(200)), "not text in UTF-8"),
        ("\n".join(f"{k}x,{k}" for k in range(MAX_ROWS + 5)), "more than 1,000 rows.*scipy"),
    ],
)
def test_tables_that_cannot_be_read(content, message, write):
    with pytest.raises(ValueError, match=message):
        read(write(content))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": "who"}, "no column 'who'; it has 'name', 'x', 'y'"),
        ({"ignore": ("9",)}, "no column '9'"),
        ({"kind": "distances"}, "as many columns as rows; table.csv has 5 rows and 2 columns"),
        ({"ignore": ("x", "y")}, "no column of numbers left"),
    ],
)
def test_wrong_options(options, message, write):
    with pytest.raises(ValueError, match=message):
        read(write(ANIMALS), **options)


def test_missing_values_that_cannot_be_filled(write):
    with pytest.raises(ValueError, match=r"column 'x' of table\.csv has no value at all"):
        read(write("name,x,y\na,,1\nb,,2\nc,,3\n"), missing="mean")
    with pytest.raises(ValueError, match=r"nothing is left of table\.csv"):
        read(write("name,x\na,\nb,\nc,\n"), missing="drop-rows")
    with pytest.raises(ValueError, match=r"--log10 needs positive numbers.*row 'b', column 'x'"):
        read(write("name,x\na,1\nb,0\nc,3\n"), log10=True)


# ---- matrices ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["distances", "similarities"])
@pytest.mark.parametrize("corner", ["", "name"])
def test_matrix(kind, corner, write):
    items = read(write(matrix_text(DISTANCES, corner=corner)), kind=kind)
    assert items.labels == list("abcd")
    np.testing.assert_array_equal(items.used, DISTANCES)


def test_matrix_without_names(write):
    text = "\n".join(" ".join(map(str, row)) for row in DISTANCES)
    items = read(write(text, "d.txt"), kind="distances")
    assert items.labels == ["1", "2", "3", "4"]
    named = "a,b,c,d\n" + text.replace(" ", ",")
    assert read(write(named), kind="distances").labels == list("abcd")


def test_half_a_matrix(write):
    half = np.where(np.tril(np.ones((4, 4), bool), -1), DISTANCES, np.nan)
    for values in (half, half.T):
        items = read(write(matrix_text(values)), kind="distances")
        np.testing.assert_array_equal(items.used, DISTANCES)


def test_columns_in_another_order(write):
    order = [2, 0, 3, 1]
    lines = matrix_text(DISTANCES[:, order]).splitlines()
    lines[0] = "," + ",".join("abcd"[k] for k in order)
    items = read(write("\n".join(lines)), kind="distances")
    np.testing.assert_array_equal(items.used, DISTANCES)


def test_holes_in_a_matrix(write):
    holes = DISTANCES.copy()
    holes[1, 3] = holes[3, 1] = np.nan
    path = write(matrix_text(holes))
    with pytest.raises(ValueError, match=r"no value between 'b' and 'd'.*--missing drop-rows"):
        read(path, kind="distances")
    items = read(path, kind="distances", missing="drop-rows")
    assert items.labels == ["a", "c", "d"]
    np.testing.assert_array_equal(items.used, DISTANCES[np.ix_([0, 2, 3], [0, 2, 3])])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((1, 3, 99.0), "not symmetric: 'b' to 'd' is 99, but the reverse is 8"),
        ((2, 2, 1.0), "1 between 'c' and 'c'.*--similarities"),
    ],
)
def test_wrong_distances(change, message, write):
    i, j, value = change
    values = DISTANCES.copy()
    values[i, j] = value
    with pytest.raises(ValueError, match=message):
        read(write(matrix_text(values)), kind="distances")
    with pytest.raises(ValueError, match="-1 between 'a' and 'b'; distances are not negative"):
        read(write(matrix_text(-DISTANCES)), kind="distances")


# ---- trees ------------------------------------------------------------------------------------


def test_files_of_trees(write):
    nexus = "#NEXUS\nbegin trees;\ntree x = ((a,b),c);\nend;\n"
    for name in ("t.nwk", "t.txt"):
        assert len(read_source(write(TREES, name))) == 4
    for name in ("t.nex", "t.txt"):
        assert read_source(write(nexus, name)) == [hct.Tree.from_newick("((a,b),c);")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(a,b,c);", "t.nwk: .* 3 children"),
        ("((a,b);", "t.nwk: "),
        ("#NEXUS\nbegin trees;\nend;\n", "t.nwk has no trees"),
    ],
)
def test_wrong_trees(text, message, write):
    with pytest.raises(ValueError, match=message):
        read_source(write(text, "t.nwk"))


# ---- the command ------------------------------------------------------------------------------


def run(capsys, *arguments) -> str:
    """What is printed, when all is well."""
    code = main(["infer", *map(str, arguments)])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return captured.out


def infer_json(capsys, path: Path, *options: str) -> dict:
    """All numbers that are found."""
    target = path.with_suffix(".json")
    run(capsys, path, "-q", "--json", target, *options)
    return json.loads(target.read_text(encoding="utf-8"))


def complaint(capsys, *arguments) -> str:
    code = main(["infer", *map(str, arguments)])
    captured = capsys.readouterr()
    assert code in (1, 2)
    assert captured.out == ""
    return only_line(captured.err)


def test_answers(write, capsys):
    out = run(capsys, write(ANIMALS), "--beta", "0.5", "--cluster", "bat, cat")
    post = hct.infer(hct.Linkage(POINTS, beta=0.5, labels=LABELS))
    assert post.map_tree.to_text(
        lambda mask: "" if mask == 31 else f"{post.cluster_probability(mask):.3f}"
    ) in out.replace(" \n", "\n")
    assert "All 105 binary trees over the 5 items" in out
    assert f"log Z = {post.log_partition:.4f}" in out
    assert "beta = 0.5, as given" in out
    asked = out[out.index("Clusters asked about") :]
    assert f"{post.cluster_probability(['bat', 'cat']):.3f}" in asked
    trusted = out[out.index("Clusters of probability 0.5 or more") :]
    for row in post.cluster_probabilities(0.5):
        assert f"{row.probability:.3f}" in trusted


def test_beta_is_chosen_and_explained(write, capsys):
    out = run(capsys, write(ANIMALS), "-p", "average")
    assert "is where the heat capacity peaks" in out


def test_few_columns_need_no_beta(write, capsys):
    out = run(capsys, write(ANIMALS))
    assert "Why this model: with fewer than 10 columns no beta can be calibrated" in out
    assert "--potential average takes average linkage" in out
    assert "Contrasts and average linkage disagree about" in out
    assert re.search(r"probability +by average linkage", out)
    assert ", disputed" in run(capsys, write(ANIMALS), "-p", "average")
    assert "by average" not in run(capsys, write(ANIMALS), "--no-second-opinion")


@pytest.mark.parametrize(
    ("arguments", "model"),
    [
        (["-p", "ward"], hct.Linkage(POINTS, "ward")),
        (["--metric", "cityblock"], hct.Linkage(POINTS, metric="cityblock")),
        (["--log10"], hct.Linkage(np.log10(POINTS))),
        (["--ignore", "y"], hct.Linkage(POINTS[:, :1])),
    ],
)
def test_models_of_tables(arguments, model, write, capsys):
    out = run(capsys, write(ANIMALS), "--beta", "1", *arguments)
    assert f"log Z = {hct.infer(model).log_partition:.4f}" in out


@pytest.mark.parametrize(
    ("arguments", "model"),
    [
        (["--distances"], hct.Linkage(DISTANCES, metric="precomputed")),
        (["--similarities"], hct.Dasgupta(DISTANCES)),
        (["--similarities", "-p", "correlation"], hct.CorrelationClustering(DISTANCES - 3)),
        (["--features"], hct.Linkage(DISTANCES[:, ::-1])),
    ],
)
def test_models_of_matrices(arguments, model, write, capsys):
    values = DISTANCES - 3 if "correlation" in arguments else DISTANCES
    out = run(capsys, write(matrix_text(values)), "--beta", "1", *arguments)
    assert f"log Z = {hct.infer(model).log_partition:.4f}" in out


def test_trees_are_data_too(write, capsys):
    out = run(capsys, write(TREES, "t.nwk"), "--cluster", "a,b")
    assert "Trees read: 4" in out
    assert "0.750" in out
    assert "log Z = 0.0000" in out


def test_trees_with_weights(write, capsys):
    lines = [
        f"tree tree_{k} [p = {p}] = [&W {p}] {newick};"
        for k, p, newick in ((1, 0.1, "((a,c),b)"), (2, 0.9, "((a,b),c)"))
    ]
    path = write("#NEXUS\nbegin trees;\n" + "\n".join(lines) + "\nend;\n", "t.trprobs")
    found = infer_json(capsys, path)
    assert found["map"]["newick"] == "((a,b)0.9,c)1;"
    assert found["notes"] == []
    out = run(capsys, path)
    assert "2 of them different, with weights" in out
    assert "which count by their weights" in out
    assert "interval" not in out


def test_a_sample_of_trees_that_is_too_small(write, capsys):
    """200 trees that all differ do not tell the most probable one; those of a sharp model do."""
    rows = np.random.default_rng(0).normal(size=(12, 5)) + np.repeat(np.eye(4, 5) * 2, 3, axis=0)
    for beta, size, enough in ((0.5, 200, False), (10.0, 200, True)):
        post = hct.infer(hct.Linkage(rows, beta=beta)).given(contains=[[0, 1, 2]])
        sample = "".join(tree.to_newick() for tree in post.sample(size, rng=0))
        path = write(sample, "t.nwk")
        found = infer_json(capsys, path, "--burn-in", "0")
        said = [] if enough else ["The sample is too small"]
        assert [note[:23] for note in found["notes"]] == said
        assert found["clusters"][0]["probability"] == 1.0
        assert found["clusters"][0]["interval"] == pytest.approx([0.98754, 1.0], abs=1e-5)
    out = run(capsys, path, "--burn-in", "0")
    assert re.search(r"1\.000 +0\.988 to 1\.000 +strong +3 +0, 1, 2", out)


def test_files(write, tmp_path, capsys):
    pytest.importorskip("plotly")
    names = ["r.html", "t.nwk", "z.csv", "s.nwk", "a.json"]
    report, newick, linkage, samples, numbers = (tmp_path / name for name in names)
    out = run(
        capsys,
        write(ANIMALS.replace("name", "wer")),
        *("--beta", "0.5", "--seed", "7", "--n-samples", "20", "--cluster", "ape,eel"),
        *("--report", report, "--newick", newick, "--linkage", linkage),
        *("--samples", samples, "--json", numbers),
    )
    for path in (report, newick, linkage, samples, numbers):
        assert str(path) in out
    post = hct.infer(hct.Linkage(POINTS, beta=0.5, labels=LABELS))
    text = newick.read_text(encoding="utf-8")
    assert hct.Tree.from_newick(text) == post.map_tree
    for names_, value in parse_newick_support(text).items():
        assert value == pytest.approx(post.cluster_probability(names_), abs=1e-4)
    matrix = np.loadtxt(linkage, delimiter=",", skiprows=1)
    assert is_valid_linkage(matrix)
    assert hct.Tree.from_linkage(matrix, labels=LABELS) == post.map_tree
    assert list(read_newicks(samples.read_text())) == list(post.sample(20, rng=7))
    found = json.loads(numbers.read_text(encoding="utf-8"))
    assert found["log_partition"] == post.log_partition
    assert found["n_trees"] == 105
    assert found["is_exact"] is True
    assert found["asked"][0]["probability"] == post.cluster_probability(["ape", "eel"])
    assert len(found["clusters"]) == len(post.cluster_probabilities())
    assert len(found["sensitivity"]) == 3
    assert "table: how sure is the tree?" in report.read_text(encoding="utf-8")


def test_other_formats(write, tmp_path, capsys):
    table = write(ANIMALS)
    run(capsys, table, "--beta", "1", "--linkage", tmp_path / "z.npy", "-q")
    assert is_valid_linkage(np.load(tmp_path / "z.npy"))
    run(capsys, table, "--beta", "1", "--samples", tmp_path / "s.nex", "--n-samples", "3")
    assert len(read_nexus((tmp_path / "s.nex").read_text())) == 3


def test_files_are_replaced(write, tmp_path, capsys):
    newick = tmp_path / "t.nwk"
    newick.write_text("old")
    run(capsys, write(ANIMALS), "--beta", "1", "--newick", newick)
    assert newick.read_text().startswith("(")


def test_quiet(write, tmp_path, capsys):
    assert run(capsys, write(ANIMALS), "--beta", "1", "-q", "--json", tmp_path / "a.json") == ""
    assert (tmp_path / "a.json").exists()


def test_bootstrap(write, tmp_path, capsys):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(5, 12)) + np.array([[0], [0], [3], [3], [9]])
    text = "\n".join(
        ",".join([label, *map(str, row)]) for label, row in zip(LABELS, rows, strict=True)
    )
    path = tmp_path / "a.json"
    out = run(capsys, write(text), "--bootstrap", "20", "--json", path)
    assert "agree best with how often" in out
    found = json.loads(path.read_text())
    assert found["beta_choice"]["rule"] == "bootstrap"
    assert {frozenset(row["members"]) for row in found["bootstrap"]} >= {frozenset(("cat", "dog"))}


def test_bootstrap_is_printed(write, capsys):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(5, 12)) + np.array([[0], [0], [3], [3], [9]])
    text = "\n".join(f"{k}," + ",".join(map(str, row)) for k, row in zip(LABELS, rows, strict=True))
    out = run(capsys, write(text), "--bootstrap", "20")
    assert re.search(r"probability +by contrasts +AU +BP", out)


def test_few_columns_are_told(write, capsys):
    out = run(capsys, write(ANIMALS), "-p", "average")
    assert "half to twice beta" in out and "rule of thumb" in out
    assert main(["infer", str(write(ANIMALS)), "--bootstrap", "10"]) == 0
    assert "2 columns; with fewer than 10, resampling them says little" in capsys.readouterr().err


def test_identical_items_are_told(write, capsys):
    assert main(["infer", str(write("n,x,y\na,1,2\nb,1,2\nc,1,2\nd,1,2\n"))]) == 0
    captured = capsys.readouterr()
    assert "all items are identical" in captured.err and "a(P)" not in captured.err
    assert "15 trees share the largest weight" in captured.out


def test_flat_clusters(write, tmp_path, capsys):
    path = tmp_path / "flat.csv"
    run(capsys, write(ANIMALS), "--beta", "1", "--n-clusters", "3", "--clusters", path)
    post = hct.infer(hct.Linkage(POINTS, labels=LABELS))
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["item"] for row in rows] == LABELS
    assert [row["cluster"] for row in rows] == ["0", "0", "1", "1", "2"]
    assert float(rows[0]["probability"]) == post.cluster_probability(["ape", "bat"])
    assert main(["infer", str(write(ANIMALS)), "--beta", "0.01", "--clusters", str(path)]) == 0
    assert "every item is a flat cluster of its own; give --n-clusters" in capsys.readouterr().err


def test_figures(write, tmp_path, capsys):
    for ending, magic in ((".pdf", b"%PDF"), (".svg", b"<?xml"), (".png", b"\x89PNG")):
        path = tmp_path / f"tree{ending}"
        assert str(path) in run(capsys, write(ANIMALS), "--beta", "1", "--figure", path)
        assert path.read_bytes().startswith(magic)


def test_a_saved_posterior(write, tmp_path, capsys):
    path = tmp_path / "p.npz"
    run(capsys, write(ANIMALS), "--beta", "1", "--save", path)
    post = hct.infer(hct.Linkage(POINTS, labels=LABELS))
    assert hct.load(path).log_partition == post.log_partition


def test_trees_that_were_read_are_not_saved_again(write, tmp_path, capsys):
    source = write("((a,b),(c,d));\n((a,b),(c,d));\n(((a,b),c),d);\n", "trees.nwk")
    path = tmp_path / "p.npz"
    assert "holds trees" in complaint(capsys, source, "--save", path)


def test_what_cannot_be_quoted_costs_no_other_file(write, tmp_path, capsys):
    row, column = np.divmod(np.arange(25), 5)
    crossed = np.equal.outer(row, row) + 1.0 * np.equal.outer(column, column)
    source = write(matrix_text(crossed, [f"i{k}" for k in range(25)]))
    paths = {name: tmp_path / f"a.{name}" for name in ("npz", "json", "nwk")}
    options = ["--similarities", "--beta", "1", "--time-limit", "1", "--cluster", "i0, i1"]
    options += ["--save", paths["npz"], "--json", paths["json"], "--newick", paths["nwk"]]
    options += ["--clusters", tmp_path / "flat.csv", "--samples", tmp_path / "some.nwk"]
    said = complaint(capsys, source, *options, "--quiet")
    assert "No probability can be quoted" in said
    assert not hct.load(paths["npz"]).is_reliable
    assert paths["nwk"].exists()
    assert "no probability is known" in as_subject(hct.load(paths["npz"])).explanation
    found = json.loads(paths["json"].read_text())
    assert found["map"]["log_probability"] is None
    assert [(row["probability"], row["error"]) for row in found["asked"]] == [(None, None)]


def test_names_with_commas(write, capsys):
    text = 'name,x\n"Smith, J.",1\n"Doe, A.",2\nPoe,9\n'
    out = run(capsys, write(text), "--beta", "1", "--cluster", "Smith, J., Doe, A.")
    assert "“Smith, J.”, “Doe, A.”" in out[out.index("asked about") :]


def test_short_help_and_other_names(write, capsys):
    assert "--figure" in run(capsys, "-h")
    assert "ward linkage" in run(capsys, write(ANIMALS), "--beta", "1", "--method", "ward")


def test_correlations(write, capsys):
    r = np.corrcoef(np.random.default_rng(0).normal(size=(4, 9)))
    path = write(matrix_text(r))
    out = run(capsys, path, "--similarities", "--beta", "1")
    assert "average linkage of distances 1 - similarity" in out
    assert "are negative" in complaint(capsys, path, "--similarities", "-p", "dasgupta")


def test_notes_go_to_standard_error(write, capsys):
    assert main(["infer", str(write("id,x\n1,5\n2,6\n3,9\n")), "--beta", "1"]) == 0
    captured = capsys.readouterr()
    assert "note: the first column (id) numbers the rows" in captured.err
    assert "note:" not in captured.out


def test_more_items_than_all_trees_allow(write, tmp_path, capsys):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(30, 3)) + 6 * rng.integers(0, 4, size=(30, 1))
    text = "\n".join(f"p{k}," + ",".join(map(str, row)) for k, row in enumerate(rows))
    path = tmp_path / "a.json"
    out = run(capsys, write(text), "--beta", "3", "--time-limit", "2", "--json", path)
    assert "30 items are too many to weigh every tree" in out
    found = json.loads(path.read_text())
    assert (found["method"], found["is_exact"]) == ("sampled", False)
    assert math.isfinite(found["log_partition_bound"])
    if found["is_reliable"]:
        assert all(row["error"] > 0 for row in found["clusters"])
        assert re.search(r"0\.\d+ ± 0\.0", out)
    sparse = run(capsys, write(text), "--beta", "3", "--time-limit", "2", "--max-clusters", "500")
    assert "conditional on these trees" in sparse
    assert "log Z >= " in sparse


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no file nothing.csv"),
        (["--beta", "x"], "beta is a positive number, or auto; got 'x'"),
        (["--beta", "0"], "positive number"),
        (["--beta", "-1"], "positive number"),
        (["--metric", "furlong"], "there is no metric 'furlong'"),
        (["--potential", "magic"], "magic"),
        (["--missing", "maybe"], "maybe"),
        (["--distances", "--similarities"], "exclude each other"),
        (["--bootstrap", "1"], "--bootstrap"),
        (["--report", "nowhere/r.html"], "there is no folder nowhere"),
        (["--newick", "."], "is a folder"),
        (["--newick", "x", "--json", "x"], "same name"),
    ],
)
def test_wrong_commands(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert message in complaint(capsys, "nothing.csv", *arguments)


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        (ANIMALS, ["--cluster", "ape,ant"], "there is no item 'ant'"),
        (ANIMALS, ["--cluster", ""], "there is no item ''"),
        (matrix_text(DISTANCES - 3), ["--similarities", "-p", "dasgupta"], "are negative"),
        (ANIMALS, ["--n-clusters", "2"], "needs --clusters"),
        (ANIMALS, ["--report", "x.pdf"], "give --figure x.pdf"),
        (ANIMALS, ["--figure", "x.html"], "a figure ends in .pdf, .svg"),
        (ANIMALS, ["-p", "dasgupta", "--bootstrap", "20"], "by a linkage"),
        (matrix_text(DISTANCES), ["--distances", "--metric", "cosine"], "--metric is for features"),
        (matrix_text(DISTANCES), ["--distances", "--bootstrap", "20"], "resamples columns"),
        (matrix_text(DISTANCES), ["--distances", "--log10"], "are for features"),
        (TREES, ["--beta", "1"], "holds trees"),
        (TREES, ["--bootstrap", "20"], "holds trees"),
        ("((a,b),c);((a,b),d);", [], "'d' is not a leaf of the first tree"),
        ("name,x,y\na,0,0\nb,1,0\nc,2,2\n", ["--metric", "cosine", "--beta", "1"], "cosine"),
    ],
)
def test_wrong_combinations(content, arguments, message, write, capsys):
    assert message in complaint(capsys, write(content, "t"), *arguments)


def test_the_table_is_never_overwritten(write, capsys):
    path = write(ANIMALS)
    assert "same name" in complaint(capsys, path, "--report", path)
    assert path.read_text() == ANIMALS


def test_help_teaches(capsys):
    assert f"Up to {MAX_EXACT_LEAVES} items every binary tree" in ABOUT_INFER
    out = run(capsys, "--help")
    for text in ("Examples", "--distances", "--beta", "--report", "Newick"):
        assert text in out


def test_runs_of_sampled_trees(tmp_path, capsys):
    """Several files are runs; the tree that is written has their lengths."""
    trees = ["((a:1,b:2):1,c:1,d:2);"] * 30 + ["((a:1,c:2):1,b:1,d:2);"] * 10
    paths = [tmp_path / f"run{k}.t" for k in range(2)]
    for path in paths:
        path.write_text("#NEXUS\nbegin trees;\n" + "".join(f"tree x = [&U] {t}\n" for t in trees))
    target = tmp_path / "best.nex"
    options = ["--burn-in", "0.25", "--outgroup", "d", "--newick", str(target)]
    assert main(["infer", *map(str, paths), *options]) == 0
    out, err = capsys.readouterr()
    assert "run0.t, run1.t: 60 over 4 items, 2 of them different" in out
    assert "The 2 runs agree" in out
    assert "burn-in: 10 of 40, 10 of 40 trees were left out" in err
    assert "rooted on 'd'" in err
    found = hct.read_trees(target, 0)
    assert found[0] == hct.Tree.from_newick("(((a,b),c),d);")
    assert found.notes["posterior"][0, 4] == pytest.approx(2 / 3, abs=1e-5)
    assert found.lengths[0, 1] == pytest.approx(5 / 3, rel=1e-5)
    (tmp_path / "table.csv").write_text("a,b\n1,2\n3,4\n")
    assert main(["infer", str(paths[0]), str(tmp_path / "table.csv")]) != 0
    assert "table.csv does not hold trees" in capsys.readouterr().err


def test_what_is_asked_for_is_shown(write, capfd):
    """Half and twice beta, of a beta that is given; one possible tree, which is certain."""
    path = write(ANIMALS)
    assert main(["infer", str(path), "-p", "average", "--beta", "1", "--sensitivity"]) == 0
    assert "half to twice beta" in capfd.readouterr().out
    assert main(["infer", str(path), "-p", "average", "--beta", "1"]) == 0
    assert "half to twice beta" not in capfd.readouterr().out
    two = write("name,a,b,c\nx,1,2,3\ny,2,4,1\n", "two.csv")
    assert main(["infer", str(two)]) == 0
    assert "log probability 0.0000 (1.000)" in capfd.readouterr().out
