"""`cluster`: from a table in memory to everything, by the ways of the command line."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

import hctrellis as hct
from hctrellis.cli import main
from hctrellis.tables.cells import Items
from hctrellis.tables.estimator import TrellisClustering
from hctrellis.tables.models import POTENTIALS, described, maker, model_name
from hctrellis.tables.sides import looks_transposed
from hctrellis.tables.speech import in_python
from hctrellis.tables.work import as_names

pd = pytest.importorskip("pandas")
pytest.importorskip("matplotlib").use("Agg")

LABELS = ["ape", "bat", "cat", "dog", "eel"]
POINTS = np.array([[1, 2], [2, 2], [8, 9], [9, 9], [30, 1.0]])


def frame() -> pd.DataFrame:
    table = pd.DataFrame(POINTS, columns=["x", "y"], index=LABELS)
    table["kind"] = ["fur", "fur", None, "fur", "scales"]
    return table


@pytest.fixture(scope="module")
def found():
    return hct.cluster(frame(), color="kind", beta=0.5, watch=[["ape", "bat"]])


# ---- one implementation -----------------------------------------------------------------------


def test_is_what_the_command_line_says(tmp_path, capsys):
    path, target = tmp_path / "t.csv", tmp_path / "a.json"
    frame().to_csv(path, index_label="name")
    assert main(["infer", str(path), "--color", "kind", "--json", str(target)]) == 0
    capsys.readouterr()
    told, result = json.loads(target.read_text()), hct.cluster(frame(), color="kind")
    assert told["beta"] == result.posterior.potential.beta
    assert told["log_partition"] == result.posterior.log_partition
    assert told["labels"] == list(result.labels) == LABELS
    rows = {frozenset(row["members"]): row["probability"] for row in told["clusters"]}
    assert rows == {row.cluster: row.probability for row in result.table}


@pytest.mark.parametrize("potential", ["average", "ward", "dasgupta", "correlation-clustering"])
def test_is_what_the_estimator_says(potential):
    result = hct.cluster(POINTS, potential=potential)
    model = TrellisClustering(potential, n_clusters=3).fit(POINTS)
    assert result.posterior.potential.beta == model.beta_
    assert result.posterior.log_partition == model.posterior_.log_partition
    np.testing.assert_array_equal(result.labels_at(3), model.labels_)
    np.testing.assert_array_equal(result.tree.to_linkage(), model.linkage_matrix_)


def test_old_words_still_work():
    old, new = (
        hct.cluster(POINTS, potential=name, beta=1.0).posterior.log_partition
        for name in ("correlation", "correlation-clustering")
    )
    assert old == new


def test_everything_is_there(found):
    p = found.posterior.cluster_probability(["ape", "bat"])
    assert p == found.support[frozenset(["ape", "bat"])]
    assert found.tree.heights is not None and found.tree == found.posterior.map_tree
    assert found.table.masks == found.posterior.cluster_probabilities().masks
    assert found.groups == {"ape": "fur", "bat": "fur", "dog": "fur", "eel": "scales"}
    assert found.labels_at(3).tolist() == [0, 0, 1, 1, 2]
    assert [row.beta for row in found.moves] == [0.25, 0.5, 1.0]
    assert "chosen by hand" in found.sentence()
    assert "{ape, bat} has posterior probability" in found.sentence()
    assert "for half and twice beta" in found.sentence()
    assert "cat, dog" in repr(found)


def test_notebooks_show_a_small_report(found):
    page = found._repr_html_()
    assert page.count("<svg") == 1 and "<script" not in page
    for text in (*LABELS, "fur", "scales", "probability", "beta = 0.5"):
        assert text in page
    assert "<svg" in found.posterior._repr_html_()
    assert found.tree._repr_svg_().startswith("<svg")


def test_names_are_escaped_in_notebooks():
    odd = ["<b>", "a&b", "x"]
    post = hct.infer(hct.Linkage([[0.0], [1.0], [3.0]], labels=odd))
    assert "<b>" not in post.map_tree._repr_svg_() and "&lt;b&gt;" in post._repr_html_()


def test_files_by_their_endings(found, tmp_path):
    for name in ("a.html", "a.pdf", "a.svg", "a.png", "a.nwk", "a.csv", "a.json", "a.npz"):
        (path,) = found.save(tmp_path / name)
        assert path.stat().st_size > 100 or name in ("a.nwk", "a.csv")
    names = {path.name for path in found.save(tmp_path / "folder")}
    assert names == {"report.html", "tree.pdf", "tree.svg", "tree.nwk", "clusters.csv", "all.json"}
    assert pd.read_csv(tmp_path / "a.csv").probability[0] == found.table[0].probability
    with pytest.raises(ValueError, match=r"a\.docx ends in none of"):
        found.save(tmp_path / "a.docx")


# ---- tables in memory -------------------------------------------------------------------------


def test_ways_to_give_a_table():
    expected = hct.cluster(POINTS, beta=1.0).posterior.log_partition
    named = frame().drop(columns="kind").reset_index(names="who")
    for table, options in [
        (POINTS.tolist(), {}),
        (frame().drop(columns="kind"), {}),
        (named, {}),
        (named, {"labels": "who"}),
        (frame(), {"ignore": "kind"}),
        (POINTS, {"labels": LABELS}),
        (POINTS.T, {"transpose": True}),
    ]:
        assert hct.cluster(table, beta=1.0, **options).posterior.log_partition == expected
    assert hct.cluster(named, beta=1.0).labels == tuple(LABELS)
    assert hct.cluster(POINTS, beta=1.0).labels == ("1", "2", "3", "4", "5")


def test_numbers_keep_all_digits():
    values = np.random.default_rng(0).normal(size=(5, 3)) / 3
    post = hct.cluster(pd.DataFrame(values), beta=1.0).posterior
    assert post.log_partition == hct.infer(hct.Linkage(values)).log_partition


def test_what_pandas_calls_missing():
    table = pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64"), "b": [1.0, 2.0, 3.0]})
    with pytest.raises(ValueError, match="1 missing value"):
        hct.cluster(table)
    twice = pd.DataFrame([[1.0], [2.0], [5.0]], index=["a", "a", "b"])
    with pytest.raises(ValueError, match="the index has 'a' 2 times"):
        hct.cluster(twice)


def test_an_array_has_no_ids():
    """Columns of an array are features, even if they count; those of a DataFrame need not be."""
    table = np.column_stack([np.arange(6.0), [0, 5, 1, 7, 2, 9]])
    assert hct.cluster(table, beta=1.0).items.values.shape == (6, 2)
    with pytest.warns(UserWarning, match="numbers the rows.*all_columns=True"):
        found = hct.cluster(pd.DataFrame(table, columns=["id", "x"]), beta=1.0)
    assert found.items.values.shape == (6, 1)


def test_matrices():
    distances = np.abs(np.subtract.outer(POINTS[:, 0], POINTS[:, 0]))
    post = hct.cluster(distances, kind="distances", beta=1.0).posterior
    assert post.log_partition == hct.infer(hct.Linkage(POINTS[:, :1])).log_partition
    with pytest.raises(ValueError, match='give kind="distances" or kind="similarities"'):
        hct.cluster(distances)


def test_correlations_are_never_silently_given_to_dasgupta():
    rng = np.random.default_rng(0)
    r = np.corrcoef(rng.normal(size=(6, 20)))
    assert (r < 0).any()
    found = hct.cluster(r, kind="similarities", beta=2.0)
    apart = np.maximum(1 - r, 0) * (1 - np.eye(6))
    expected = hct.infer(hct.Linkage(apart, metric="precomputed", beta=2.0))
    assert found.posterior.log_partition == pytest.approx(expected.log_partition)
    assert "average linkage of distances 1 - similarity" in dict(found.settings)["Potential"]
    with pytest.raises(ValueError, match=r'negative.*potential="correlation-clustering"'):
        hct.cluster(r, kind="similarities", potential="dasgupta")
    positive = hct.cluster(np.abs(r), kind="similarities", beta=1.0)
    assert isinstance(positive.posterior.potential, hct.Dasgupta)


def test_identical_rows_are_said_to_be_identical():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="all items are identical")
        found = hct.cluster(np.ones((5, 3)))
    assert any("identical" in note for note in found.notes)
    assert found.posterior.n_map_trees == 105


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (frame(), {}, r'color="kind".*ignore=\["kind"\]'),
        ([[1.0, np.nan], [2, 3], [4, 5]], {}, 'give missing="mean"'),
        ([1.0, 2.0], {}, r"got shape \(2,\)"),
        (POINTS, {"kind": "matrix"}, "kind must be one of 'features'"),
        (POINTS, {"missing": "maybe"}, "missing must be one of"),
        (POINTS, {"potential": "magic"}, "potential must be one of average|single"),
        (POINTS, {"labels": ["a"]}, "1 labels were given for 5 rows"),
        (POINTS, {"watch": [["x"]]}, "there is no item 'x'"),
        (POINTS, {"log10": True, "kind": "distances"}, "as many columns as rows"),
        (POINTS[:1], {}, "only one item"),
        (POINTS - 5, {"log10": True}, "log10=True needs positive numbers"),
    ],
)
def test_mistakes_are_told_in_the_words_of_python(data, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        hct.cluster(data, **options)
    assert "--" not in str(caught.value)


def test_numbers_that_are_not_beta():
    with pytest.raises((TypeError, ValueError), match="beta must be a"):
        hct.cluster(POINTS, beta="much")
    with pytest.raises(ValueError, match="beta must be"):
        hct.cluster(POINTS, beta=-1.0)


# ---- pieces -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["features", "distances", "similarities"])
@pytest.mark.parametrize("name", POTENTIALS)
def test_every_model_of_every_kind(name, kind):
    rng = np.random.default_rng(1)
    values = rng.random((5, 5))
    if kind != "features":
        shift = 1.5 * (name == "correlation-clustering" and kind == "similarities")
        values = (values + values.T - shift) * (1 - np.eye(5))
    potential = maker(name, kind, values, labels=LABELS)(None, 2.0)
    assert (potential.labels, potential.beta) == (tuple(LABELS), 2.0)
    assert np.isfinite(hct.infer(potential).log_partition)
    assert model_name(name, kind, values) == name
    assert described(name, kind, values)


def test_commas_in_names():
    names = ["Smith, J.", "Doe, A.", "Poe"]
    assert as_names("Smith, J., Poe", names) == ["Smith, J.", "Poe"]
    assert as_names('"Smith, J.",Poe', names) == ["Smith, J.", "Poe"]
    assert as_names("Poe, nobody", names) == ["Poe", "nobody"]


@pytest.mark.parametrize(
    ("shape", "columns", "head", "expected"),
    [
        ((50, 14), [f"S{k}" for k in range(14)], "name", True),
        ((50, 14), [*"abcdefghijklmn"], "gene", True),
        ((50, 14), [*"abcdefghijklmn"], "name", False),
        ((50, 14), [f"gene{k}" for k in range(14)], "name", False),
        ((14, 50), [f"S{k}" for k in range(50)], "gene", False),
        ((150, 4), ["S1", "S2", "S3", "S4"], "gene", False),
    ],
)
def test_a_table_that_lies_on_its_side(shape, columns, head, expected):
    values = np.random.default_rng(0).normal(size=shape)
    labels = [f"r{k}" for k in range(shape[0])]
    items = Items("t", "features", labels, values, columns, [], values)
    assert looks_transposed(items, head) is expected


def test_levels_of_genes_differ_more_than_samples():
    values = np.random.default_rng(0).normal(size=(60, 8)) + 5 * np.arange(60)[:, None] % 17
    items = Items("t", "features", [""] * 60, values, [*"abcdefgh"], [], values)
    assert looks_transposed(items, "")


def test_words_of_the_command_line():
    assert in_python("--n-clusters") == "n_clusters="
