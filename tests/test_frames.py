"""DataFrames: their index names the leaves, and their columns the mistakes."""

import numpy as np
import pytest

import hctrellis as hct
from hctrellis.report import report_html
from hctrellis.support.checks import as_labels
from hctrellis.trust.bootstrap import bootstrap_support

pd = pytest.importorskip("pandas")

NAMES = ("ape", "bat", "cat", "dog")
ROWS = np.random.default_rng(0).normal(size=(4, 12))
SQUARE = np.abs(np.subtract.outer([0.0, 1, 4, 9], [0.0, 1, 4, 9]))
TABLE = pd.DataFrame(ROWS, index=NAMES, columns=[f"x{k}" for k in range(12)])
MATRIX = pd.DataFrame(SQUARE, index=NAMES, columns=NAMES)
MATRICES = {
    "distances": lambda data, **kwargs: hct.Linkage(data, metric="precomputed", **kwargs),
    "similarity": hct.Dasgupta,
    "affinity": lambda data, **kwargs: hct.CorrelationClustering(data - 3, **kwargs),
}


def estimate(data, **options):
    estimator = pytest.importorskip("hctrellis.tables.estimator")
    return estimator.TrellisClustering(beta=1.0, n_clusters=2, **options).fit(data).posterior_


MAKERS = {
    "Linkage": lambda frame: hct.Linkage(frame),
    "FunctionPotential": lambda frame: hct.FunctionPotential(lambda a, b, c: -c[0], frame),
    "bootstrap_support": lambda frame: bootstrap_support(frame, n_resamples=2, rng=0).tree,
    "TrellisClustering": estimate,
}


@pytest.mark.parametrize("name", MAKERS)
def test_the_index_names_the_leaves(name):
    make = MAKERS[name]
    assert make(TABLE).labels == NAMES
    assert make(TABLE.reset_index(drop=True)).labels == ("0", "1", "2", "3")
    assert make(TABLE.set_axis([7, 3, 5, 1])).labels == ("7", "3", "5", "1")
    assert make(ROWS).labels == ("0", "1", "2", "3")


@pytest.mark.parametrize("name", MATRICES)
def test_matrices(name):
    """Columns in another order are put into that of the rows; other names are refused."""
    make = MATRICES[name]
    plain = make(SQUARE, labels=NAMES)
    shuffled = MATRIX[["dog", "ape", "cat", "bat"]]
    only_columns = pd.DataFrame(SQUARE, columns=NAMES)
    only_rows = pd.DataFrame(SQUARE, index=NAMES)
    tree = hct.Tree.from_nested(((("ape", "dog"), "cat"), "bat")).reorder(NAMES)
    for frame in (MATRIX, shuffled, only_columns, only_rows):
        model = make(frame)
        assert model.labels == NAMES
        assert model.log_weight(tree) == plain.log_weight(tree)
    assert make(MATRIX, labels="abcd").labels == tuple("abcd")
    with pytest.raises(ValueError, match="have different names, for instance 'ape' and 'Ape'"):
        make(MATRIX.rename(columns={"ape": "Ape"}))


def test_matrices_of_the_estimator():
    shuffled = MATRIX[["dog", "ape", "cat", "bat"]]
    post = estimate(shuffled, metric="precomputed")
    assert post.labels == NAMES
    plain = hct.infer(hct.Linkage(SQUARE, metric="precomputed"))
    assert post.log_partition == plain.log_partition


def test_given_labels_win():
    assert hct.Linkage(TABLE, labels="abcd").labels == tuple("abcd")
    assert bootstrap_support(TABLE, labels="abcd", n_resamples=2, rng=0).tree.labels[0] == "a"


def test_a_tree_in_another_order():
    """The rows of the table are told by their names, not by their places in the tree."""
    tree = bootstrap_support(TABLE, n_resamples=5, rng=0).tree
    found = bootstrap_support(TABLE, tree=tree.reorder(NAMES[::-1]), n_resamples=5, rng=0)
    assert found.tree == tree


def test_an_index_that_repeats():
    twice = TABLE.set_axis(["ape", "ape", "cat", "dog"])
    with pytest.raises(ValueError, match=r"'ape' is given 2 times in the index; give labels="):
        hct.Linkage(twice)
    assert hct.Linkage(twice, labels=NAMES).labels == NAMES
    assert estimate(twice).labels == ("0", "1", "2", "3")  # as scikit-learn, which knows no index


@pytest.mark.parametrize("make", [hct.Linkage, estimate, bootstrap_support])
def test_columns_of_text_are_named(make):
    odd = TABLE.assign(species="setosa", day=pd.Timestamp("2020-01-01"), size=1.0)
    with pytest.raises(TypeError, match=r"column 'species' \('setosa'\), 'day' \('2020-01-01"):
        make(odd)


def test_dates_are_no_numbers():
    with pytest.raises(TypeError, match="must be an array of real numbers"):
        hct.Linkage(np.array([["2020-01-01"], ["2020-01-02"]], "datetime64[D]"))


def test_condensed_distances_have_no_names():
    """As many pairs as leaves, and an index of pairs."""
    series = pd.Series([1.0, 2.0, 3.0], index=["ab", "ac", "bc"])
    assert hct.Linkage(series).labels == ("0", "1", "2")
    assert as_labels(None, 3, [5, 6, 7]) == ("0", "1", "2")  # lists have an index, too


def test_reports_show_rows_by_name():
    post = hct.infer(hct.Linkage(TABLE))
    first = report_html(post, table=TABLE)
    assert report_html(post, table=TABLE.iloc[::-1]) == first
    assert "x11" in first


def arrow_table(frame):
    return pytest.importorskip("pyarrow").Table.from_pandas(frame, preserve_index=False)


def polars_frame(frame):
    return pytest.importorskip("polars").DataFrame(frame.to_dict("list"))


@pytest.mark.parametrize("kind", [arrow_table, polars_frame])
def test_tables_without_an_index(kind):
    """The first column of text names the items; the columns of a matrix name its rows."""
    other = kind(TABLE.reset_index(names="animal"))
    one, found = (hct.cluster(data, potential="average", beta=1.0) for data in (TABLE, other))
    assert found.labels == NAMES
    assert found.posterior.log_partition == one.posterior.log_partition
    assert hct.cluster(other, labels="animal", beta=1.0, color="x0").items.columns[0] == "x1"
    assert hct.Dasgupta(kind(MATRIX)).labels == NAMES
    assert hct.Linkage(kind(TABLE)).labels == ("0", "1", "2", "3")
    with pytest.raises(TypeError, match=r"other values are in column 'animal' \('ape'\)"):
        hct.Linkage(other)


def test_rows_are_counted_as_they_are_labelled():
    with pytest.raises(ValueError, match="'oops' in row 2"):
        hct.cluster(pd.DataFrame({"x": [1.0, 2.0, "oops", 4.0], "y": [1.0, 2.0, 3.0, 4.0]}))
    assert hct.cluster(ROWS, potential="average", beta=1.0).labels[2] == "2"
