"""`cluster`: from a table in memory to everything, by the ways of the command line."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest

import hctrellis as hct
from hctrellis.cli import main
from hctrellis.tables import second
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


@pytest.mark.parametrize("potential", [None, "average"])
def test_is_what_the_command_line_says(potential, tmp_path, capsys):
    path, target = tmp_path / "t.csv", tmp_path / "a.json"
    frame().to_csv(path, index_label="name")
    given = [] if potential is None else ["-p", potential]
    assert main(["infer", str(path), "--color", "kind", "--json", str(target), *given]) == 0
    capsys.readouterr()
    told = json.loads(target.read_text())
    result = hct.cluster(frame(), color="kind", potential=potential)
    assert told["beta"] == (result.posterior.potential.beta if potential else None)
    assert told["second_opinion"]["sentence"] == result.second_opinion.sentence
    assert told["optimality"] == str(result.optimality) == "proven optimal"
    assert told["log_partition"] == result.posterior.log_partition
    assert told["labels"] == list(result.labels) == LABELS
    rows = {frozenset(row["members"]): row["probability"] for row in told["clusters"]}
    assert rows == {row.cluster: row.probability for row in result.table}


@pytest.mark.parametrize(
    "potential", ["average", "ward", "dasgupta", "correlation-clustering", "contrasts", None]
)
def test_is_what_the_estimator_says(potential):
    options = {"n_clusters": 3, "second_opinion": True, "random_state": 7}
    model = TrellisClustering(potential, **options).fit(POINTS)
    seed = np.random.RandomState(7).randint(np.iinfo(np.int32).max)  # as the estimator takes it
    result = hct.cluster(POINTS, potential=potential, seed=int(seed))
    has_beta = result.posterior.potential.has_energy
    assert (result.posterior.potential.beta if has_beta else None) == model.beta_
    assert result.name == model.potential_
    log_z = model.posterior_.log_partition
    assert result.posterior.log_partition == pytest.approx(log_z, rel=1e-12)
    np.testing.assert_array_equal(result.labels_at(3), model.labels_)
    np.testing.assert_array_equal(result.tree.to_linkage(), model.linkage_matrix_)
    assert len(result.second_opinion.disputed) == len(model.second_opinion_.disputed)
    assert result.optimality.status == model.optimality_.status == "optimal"


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
    assert hct.cluster(POINTS, beta=1.0).labels == ("0", "1", "2", "3", "4")


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


# ---- contrasts, and second opinions -----------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "d", "options", "name"),
    [
        (4, 2, {}, "contrasts"),
        (4, 9, {}, "contrasts"),
        (4, 10, {}, "average"),
        (4, 1, {}, "average"),  # of one column contrasts say almost nothing
        (2, 3, {}, "average"),
        (4, 3, {"beta": 1.0}, "average"),
        (4, 3, {"metric": "cityblock"}, "average"),
        (4, 3, {"potential": "ward"}, "ward"),
    ],
)
def test_few_columns_are_clustered_without_beta(n, d, options, name):
    table = np.random.default_rng(d).normal(size=(n, d))
    result = hct.cluster(table, **options)
    assert result.name == name
    why = dict(result.settings).get("Why this model", "")
    assert ('potential="average" takes average linkage' in why) is (name == "contrasts")
    assert not [note for note in result.notes if "contrasts" in note]  # a choice is no warning


def test_which_tables_are_for_contrasts():
    many = np.random.default_rng(0).normal(size=(61, 3))
    assert model_name(None, "features", many) == "average"
    assert model_name(None, "features", many[:60]) == "contrasts"
    assert model_name(None, "features", np.ones((5, 3))) == "average"
    assert model_name(None, "distances", np.ones((3, 3))) == "average"


def test_a_second_opinion_goes_both_ways():
    one = hct.cluster(POINTS)
    other = hct.cluster(POINTS, potential="average")
    first, second = one.second_opinion, other.second_opinion
    assert first.names == ("contrasts", "average linkage") == second.names[::-1]
    assert first.posterior.log_partition == other.posterior.log_partition
    assert second.posterior.log_partition == one.posterior.log_partition
    gaps = {each.cluster: each.first - each.second for each in first.disputed}
    assert gaps and gaps == {each.cluster: each.second - each.first for each in second.disputed}
    assert first.sentence in one._repr_html_() and "by average linkage" in one._repr_html_()
    assert first.sentence in repr(one)
    assert "by average linkage with beta = " in one.sentence(["1", "2"])


def test_where_there_is_no_second_opinion():
    for data, options in [
        (POINTS, {"second_opinion": False}),
        (POINTS, {"metric": "cityblock"}),
        (POINTS[:, :1], {}),
        (np.abs(np.subtract.outer(POINTS[:, 0], POINTS[:, 0])), {"kind": "distances"}),
    ]:
        assert hct.cluster(data, **options).second_opinion is None
    wide = hct.cluster(POINTS[:, :1], second_opinion=True)
    assert (wide.second_opinion, wide.about_second) == (None, "")


@pytest.fixture(scope="module")
def sampled():
    """As if eight items were too many to weigh all trees."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(8, 12)) + 2 * rng.normal(size=(3, 12))[np.arange(8) % 3]
    found = hct.cluster(table, beta=2.0)
    post = hct.sample_posterior(found.posterior.potential, 0.03, None, max_moves=4000, rng=0)
    assert post.is_reliable
    return replace(found, posterior=post)


def test_what_takes_long_is_not_done_unasked(sampled, monkeypatch):
    monkeypatch.setattr(second, "QUICK_LEAVES", 7)
    assert sampled.second_opinion is None
    assert "second_opinion=True asks it" in sampled.speak(sampled.about_second)
    asked = replace(sampled, wish=replace(sampled.wish, second_opinion=True))
    assert asked.second_opinion.names == ("average linkage", "contrasts")
    assert sampled.moves == []
    assert "sensitivity=True asks for them" in sampled.speak(sampled.about_moves)


def test_half_and_twice_beta_of_sampled_trees(sampled):
    asked = replace(sampled, wish=replace(sampled.wish, sensitivity=True))
    assert [row.beta for row in asked.moves] == [1.0, 2.0, 4.0] and asked.about_moves == ""
    low, own, high = (row.probabilities for row in asked.moves)
    for cluster, p in own.items():
        assert p == pytest.approx(sampled.posterior.cluster_probability(cluster))
    for beta, row in ((1.0, low), (4.0, high)):
        exact = hct.infer(hct.Linkage(sampled.items.used, beta=beta, labels=sampled.labels))
        assert row == pytest.approx(
            {cluster: exact.cluster_probability(cluster) for cluster in row}
        )


def test_the_best_tree_of_sampled_trees_is_judged(sampled, tmp_path):
    assert sampled.certificate is None and sampled.optimality == sampled.posterior.optimality
    certain = replace(sampled, wish=replace(sampled.wish, certify=True))
    assert certain.optimality == certain.certificate.optimality_of(sampled.tree)
    assert certain.optimality.status == "optimal"
    for each in (certain, sampled):
        (path,) = each.save(tmp_path / "a.html")
        assert f"It is {each.optimality}" in path.read_text(encoding="utf-8")


def test_proofs_are_offered_where_they_are_searched_for(sampled):
    assert sampled.is_provable
    assert not hct.cluster(POINTS, labels=LABELS).is_provable  # contrasts
    assert not hct.cluster(POINTS, labels=LABELS, potential="ward", beta=1.0).is_provable


def test_opinions_are_in_files(tmp_path):
    result = hct.cluster(POINTS, labels=LABELS)
    (path,) = result.save(tmp_path / "a.csv")
    table = pd.read_csv(path)
    other = result.second_opinion.posterior
    for _, row in table.iterrows():
        p = other.cluster_probability(row.members.split("; "))
        assert row.by_average_linkage == pytest.approx(p, rel=1e-14)


def test_the_spread_never_falls():
    result = hct.cluster(np.random.default_rng(3).normal(size=(9, 3)))
    matrix = result.tree.to_linkage()
    np.testing.assert_allclose(sorted(result.tree.heights), matrix[:, 2])
    values = result.items.used
    for mask, height in zip(result.tree.masks[9:], result.tree.heights, strict=True):
        rows = values[[k for k in range(9) if mask >> k & 1]]
        assert height == pytest.approx(np.sqrt(2 * ((rows - rows.mean(0)) ** 2).sum()))
