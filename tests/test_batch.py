"""Batches: every row is what `infer` says, whoever computes it, and a stopped run resumes."""

from __future__ import annotations

import asyncio
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path

import awkward as ak
import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
import vector
from hypothesis import given, settings
from hypothesis import strategies as st

import hctrellis as hct
from children import die_once
from gallery import momenta, points, similarities
from hctrellis.batch import engines, inputs, lanes, run, store
from hctrellis.batch.chunks import PotentialChunk, longest_first
from hctrellis.clusters import n_trees
from hctrellis.simulate import ginkgo
from hctrellis.support.fingerprint import fingerprint
from hctrellis.trees.newick import newick_many, read_plain

SIZES = (5, 1, 2, 7, 3, 2, 5, 8, 1, 4, 6, 5)
JETS = [momenta(n, seed) for seed, n in enumerate(SIZES)]
DATA = Path(__file__).parents[2] / "shared" / "data"
GINKGO = {"lam": 1.5, "t_cut": 0.5}
NAMES = ("E", "px", "py", "pz")
ALWAYS = ["n_leaves", "log_partition", "map_log_weight", "map_tree", "n_trees"]
ALWAYS += ["method", "log_partition_error", "bound", "repaired", "error"]


def records(jets=JETS, names=NAMES):
    """Jets as Awkward records."""
    return ak.Array([[dict(zip(names, map(float, p), strict=True)) for p in jet] for jet in jets])


def table(jets=JETS):
    """Jets as an Arrow table with one column of records, among others."""
    kind = pa.list_(pa.struct([(name, pa.float64()) for name in NAMES]))
    particles = [[dict(zip(NAMES, p, strict=True)) for p in jet.tolist()] for jet in jets]
    return pa.table({"event": range(len(jets)), "particles": pa.array(particles, kind)})


def four_columns(jets=JETS):
    return pa.table({name: [jet[:, i].tolist() for jet in jets] for i, name in enumerate(NAMES)})


def batch(data=JETS, potential="ginkgo", scheduler="serial", **options):
    parameters = GINKGO if potential == "ginkgo" else {}
    return hct.infer_many(data, potential, scheduler=scheduler, **{**parameters, **options})


def rows(result):
    return result.to_arrow().to_pylist()


def expected(potential):
    """The row of a potential, from `infer`."""
    post = hct.infer(potential, threads=1)
    possible = post.log_partition > -math.inf
    return {
        "n_leaves": potential.n_leaves,
        "log_partition": post.log_partition,
        "log_partition_error": 0.0,
        "bound": post.log_partition,
        "method": "exact",
        "map_log_weight": post.map_log_weight if possible else -math.inf,
        "map_tree": post.map_tree.to_newick() if possible else None,
        "n_trees": post.n_trees,
        "repaired": len(getattr(potential, "repaired", ())),
        "error": None,
        "entropy": post.entropy if possible else None,
    }


def assert_same(row, wanted):
    for name, value in row.items():
        if isinstance(value, float) and math.isfinite(value):
            assert value == pytest.approx(wanted[name], rel=1e-12, abs=1e-12), name
        else:
            assert value == wanted[name], name


@pytest.fixture(scope="module")
def answers():
    """The serial answers for JETS."""
    return batch().to_arrow()


# ---- the answers ------------------------------------------------------------------------------


@pytest.mark.parametrize("t_cut", [0.5, 5.0, 40.0, 1e9])
def test_every_jet_as_infer(t_cut):
    result = batch(t_cut=t_cut, entropy=True, chunk_size=5)
    for row, jet in zip(rows(result), JETS, strict=True):
        assert_same(row, expected(hct.Ginkgo(jet, 1.5, t_cut)))
    forbidden = [row for row in rows(result) if row["log_partition"] == -math.inf]
    assert result.n_without_tree == len(forbidden)
    assert result.n_failed == 0
    if t_cut == 1e9:
        assert len(forbidden) == sum(n > 1 for n in SIZES)
        assert {row["n_trees"] for row in forbidden} == {0}


def test_published_jets():
    path = DATA / "ginkgo_jets.json"
    if not path.exists():
        pytest.skip(f"no {path}")
    jets = json.loads(path.read_text())["jets"]
    found = rows(batch([jet["leaves"] for jet in jets], t_cut=16.0))
    for row, jet in zip(found, jets, strict=True):
        assert row["log_partition"] == pytest.approx(jet["log_Z"], rel=1e-12)
        assert row["map_log_weight"] == pytest.approx(jet["map_log_likelihood"], rel=1e-12)
        assert row["n_trees"] == jet["n_trees_nonzero"]


def test_rate_of_the_root():
    for row, jet in zip(rows(batch(lam_root=3.0)), JETS, strict=True):
        assert_same(row, expected(hct.Ginkgo(jet, 1.5, 0.5, 3.0)))


@pytest.mark.parametrize("model", ["jetmass", "JetMass", hct.JetMass])
def test_other_model(model, monkeypatch):
    monkeypatch.setattr(lanes, "MOST_LEAVES", 0)  # `test_lanes.py` solves them side by side
    for row, jet in zip(rows(batch(potential=model, lam=2.0, count_trees=True)), JETS, strict=True):
        assert_same(row, expected(hct.JetMass(jet, 2.0)))


def falling(left, right, parent):
    return -parent[0]


def test_potentials_of_all_kinds():
    """Side by side, and one by one; `interpreted.py` has sums side by side."""
    models = [
        hct.Linkage(points(5)),
        hct.Dasgupta(similarities(4)),
        hct.Linkage(points(5), "single"),
        hct.FunctionPotential(falling, points(4, dim=1)),
        hct.Dasgupta(similarities(4)) + hct.FunctionPotential(falling, points(4, dim=1)),
        hct.Linkage(points(1)),
    ]
    result = hct.infer_many(models, scheduler="serial", entropy=True)
    for row, model in zip(rows(result), models, strict=True):
        assert_same(row, expected(model))


def test_labels():
    labels = ["it's", "b c", "d", ""]
    model = hct.Linkage(points(4), labels=labels)
    (row,) = rows(hct.infer_many([model]))
    assert row["map_tree"] == hct.infer(model).map_tree.to_newick()
    assert set(hct.Tree.from_newick(row["map_tree"]).labels) == set(labels)


def test_columns():
    assert batch().to_arrow().column_names == ALWAYS
    more = batch(entropy=True, seconds=True, true_trees=[None] * len(JETS)).to_arrow()
    assert more.column_names == [
        *ALWAYS[:-2],
        "entropy",
        "true_log_weight",
        "seconds",
        *ALWAYS[-2:],
    ]
    assert all(second > 0 for second in more["seconds"].to_pylist())
    assert more["true_log_weight"].null_count == len(JETS)
    assert more.select(ALWAYS) == batch().to_arrow()


def test_a_label_that_cannot_be_written():
    """It ends its own row, not the others."""
    labels = ["a", "\ud800", "c"]
    models = [hct.Linkage(points(3)), hct.Linkage(points(3), labels=labels)]
    fine, odd = rows(hct.infer_many(models))
    assert fine["error"] is None and fine["map_tree"] is not None
    assert odd["map_tree"] is None and "cannot be written in UTF-8" in odd["error"]
    assert odd["log_partition"] == fine["log_partition"]


def test_a_killed_process_is_replaced(tmp_path):
    solve = partial(die_once, flag=tmp_path / "flag")
    with pytest.warns(UserWarning, match="a worker process ended"):
        found = dict(engines.joblib(solve, enumerate("abcdefgh"), 2, "loky"))
    assert found == dict(enumerate("abcdefgh"))


class Unfinished:
    def done(self):
        return False


class Cluster:
    """A Dask client whose cluster has no workers, or whose scheduler is gone."""

    def __init__(self, error=None):
        self.error = error

    def nthreads(self):
        return {}

    def submit(self, *arguments, **options):
        if self.error:
            raise self.error
        return Unfinished()

    def cancel(self, futures):
        if self.error:
            raise self.error


def test_dask_without_workers(monkeypatch):
    monkeypatch.setattr(engines, "WORKERLESS_SECONDS", 0.3)
    monkeypatch.setattr(engines, "LOOK_FOR_WORKERS_SECONDS", 0.1)
    with (
        pytest.warns(UserWarning, match="has no workers; waiting"),
        pytest.raises(TimeoutError, match="start some, and"),
    ):
        list(engines.dask(None, enumerate("ab"), Cluster()))


@pytest.mark.parametrize("error", [OSError("closed"), asyncio.CancelledError()])
def test_dask_without_scheduler(error):
    with pytest.raises(ConnectionError, match="same call with a running scheduler continues"):
        list(engines.dask(None, enumerate("ab"), Cluster(error)))


def test_flat_potentials_do_not_warn():
    assert batch(potential=None, data=[hct.Dasgupta(np.zeros((4, 4)))] * 3).n_failed == 0


@pytest.mark.parametrize("n", [18, 19])
def test_large_numbers_of_trees(n):
    models = [hct.Dasgupta(similarities(n)), hct.Dasgupta(similarities(3))]
    assert batch(models, None).to_arrow()["n_trees"].to_pylist() == [None, 3]  # if asked for
    result = batch(models, None, count_trees=True)
    kind = result.to_arrow().schema.field("n_trees").type
    assert kind == (pa.int64() if n == 18 else pa.decimal128(38, 0))
    assert [int(x) for x in result.to_arrow()["n_trees"].to_pylist()] == [n_trees(n), 3]
    assert result.to_pandas()["n_trees"].tolist() == [n_trees(n), 3]
    assert result.to_awkward()["n_trees"].tolist() == pytest.approx([n_trees(n), 3], rel=1e-15)


@settings(deadline=None)  # the first example may compile
@given(st.data())
def test_newick_of_many_trees(data):
    n, m = data.draw(st.integers(1, 12)), data.draw(st.integers(0, 4))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    trees = []
    for _ in range(m):
        nodes, children = list(range(n)), []
        while len(nodes) > 1:
            pair = rng.choice(nodes, 2, replace=False).tolist()
            nodes = [node for node in nodes if node not in pair] + [n + len(children)]
            children.append(pair)
        trees.append(hct.Tree(children))
    stacked = np.array([tree.children for tree in trees], np.int64).reshape(m, n - 1, 2)
    texts, offsets = newick_many(stacked)
    found = [texts[i:j].tobytes().decode() for i, j in pairwise(offsets)]
    assert found == [tree.to_newick() for tree in trees]


# ---- other components -------------------------------------------------------------------------


def angular(along="eta", time="mass"):
    """The jets as columns of other components."""
    columns = {"pt": [], "phi": [], along: [], time: []}
    for jet in JETS:
        e, px, py, pz = jet.T
        mass = np.sqrt(np.maximum(0, e**2 - px**2 - py**2 - pz**2))
        values = {
            "pt": np.hypot(px, py),
            "phi": np.arctan2(py, px),
            "eta": np.arcsinh(pz / np.hypot(px, py)),
            "theta": np.arctan2(np.hypot(px, py), pz),
            "rapidity": np.arctanh(pz / e),
            "pz": pz,
            "mass": mass,
            "E": e,
        }
        for name, lists in columns.items():
            lists.append(values[name].tolist())
    return columns


@pytest.mark.parametrize("time", ["mass", "E"])
@pytest.mark.parametrize("along", ["eta", "rapidity", "theta", "pz"])
def test_other_components(along, time, tmp_path):
    """In Arrow tables, Parquet files, Awkward arrays and records of NumPy."""
    columns = angular(along, time)
    pq.write_table(pa.table(columns), tmp_path / "jets.parquet")
    zipped = ak.zip({name: ak.Array(lists) for name, lists in columns.items()})
    records_of = [
        np.rec.fromarrays([lists[i] for lists in columns.values()], names=[*columns])
        for i in range(len(JETS))
    ]
    wanted = batch().to_arrow()["log_partition"].to_pylist()
    for data in (pa.table(columns), tmp_path / "jets.parquet", zipped, records_of):
        found = batch(data).to_arrow()
        assert found["error"].null_count == len(JETS)
        assert found["log_partition"].to_pylist() == pytest.approx(wanted, rel=1e-7)


@pytest.mark.parametrize("chunk_size", [None, 5])
def test_each_jet_has_its_own_rate(chunk_size):
    lams = np.linspace(0.5, 3.0, len(JETS)).round(1)
    lams[4] = lams[3]
    trees = [hct.infer(hct.Ginkgo(jet, **GINKGO)).map_tree for jet in JETS]
    found = batch(
        lam=lams, lam_root=2 * lams, chunk_size=chunk_size, true_trees=trees, entropy=True
    )
    for row, jet, lam, tree in zip(rows(found), JETS, lams, trees, strict=True):
        model = hct.Ginkgo(jet, lam, 0.5, 2 * lam)
        truth = row.pop("true_log_weight")
        assert_same(row, expected(model))
        assert truth == pytest.approx(model.log_weight(tree), rel=1e-12)
    assert batch(lam=[1.5] * len(JETS)).to_arrow() == batch().to_arrow()


@pytest.mark.parametrize(
    ("lam", "error", "message"),
    [
        ([1.0, 2.0], ValueError, "one number for all, or one for each jet"),
        ([1.0] * 11 + [-1.0], ValueError, "lam must be"),
        ([1.0] * 11 + [math.nan], ValueError, "lam"),
    ],
)
def test_wrong_rates(lam, error, message):
    with pytest.raises(error, match=message):
        batch(lam=lam)


@pytest.mark.parametrize("chunk_size", [None, 1, 5])
def test_several_files(chunk_size, tmp_path, answers):
    """As if they were one: in a folder, in the order of their names, or as a list."""
    for i, (start, stop) in enumerate(pairwise([0, 3, 3, 4, len(JETS)])):
        pq.write_table(table().slice(start, stop - start), tmp_path / f"part{i}.parquet")
    (tmp_path / "notes.txt").write_text("not a part")
    parts = sorted(tmp_path.glob("*.parquet"))
    for data in (tmp_path, parts, [str(part) for part in parts]):
        assert batch(data, chunk_size=chunk_size).to_arrow() == answers
    out = batch(tmp_path, chunk_size=chunk_size, out=tmp_path / "out")
    assert out.to_arrow() == answers


def test_a_folder_without_files(tmp_path):
    with pytest.raises(ValueError, match="is a folder without Parquet or ROOT files"):
        batch(tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        batch([tmp_path / "none.parquet", tmp_path / "neither.parquet"])


def test_extension_types(answers, tmp_path):
    """Tables and files of Awkward may have types of its own, nested."""
    jets = ak.Array([[dict(zip(NAMES, row, strict=True)) for row in jet.tolist()] for jet in JETS])
    table = ak.to_arrow_table(ak.zip({"jet": jets}, depth_limit=1), extensionarray=True)
    assert isinstance(table.schema.field("jet").type, pa.BaseExtensionType)
    assert batch(table).to_arrow() == answers
    events = ak.to_arrow_table(ak.zip({"jet": ak.Array([jets])}, depth_limit=1))
    found = batch(events).to_arrow()
    assert found.select(answers.column_names) == answers and set(found["event"].to_pylist()) == {0}
    pq.write_table(table, tmp_path / "jets.parquet")
    assert batch(tmp_path / "jets.parquet").to_arrow() == answers


def test_frames_of_polars(answers):
    polars = pytest.importorskip("polars")
    rates = np.linspace(1, 2, 12)
    columns = {name: [jet[:, i].tolist() for jet in JETS] for i, name in enumerate(NAMES)}
    frame = polars.DataFrame({**columns, "rate": rates})
    assert batch(frame).to_arrow() == answers
    assert batch(frame, lam="rate").to_arrow() == batch(lam=rates).to_arrow()


@pytest.mark.filterwarnings("ignore:Setting the dtype on a NumPy array")  # by vector itself
def test_objects_of_vector(answers):
    jets = [[vector.obj(E=e, px=x, py=y, pz=z) for e, x, y, z in jet] for jet in JETS]
    assert batch(jets).to_arrow() == answers
    arrays = [vector.array({name: jet[:, i] for i, name in enumerate(NAMES)}) for jet in JETS]
    assert batch(arrays).to_arrow() == answers


@pytest.mark.parametrize("make", [dict, pd.DataFrame])
def test_tables_without_lists_are_refused(make):
    with pytest.raises(TypeError, match="give an Awkward array, an Arrow table"):
        batch(make({name: [1.0, 2.0] for name in NAMES}))


# ---- true trees -------------------------------------------------------------------------------


def test_true_trees(tmp_path):
    jets = ginkgo(20, leaves=(2, 6), rng=3)
    weights = [jet.potential().log_weight(jet.tree) for jet in jets]
    jets.to_parquet(tmp_path / "jets.parquet")
    ways = [
        hct.infer_many(jets, true_trees=jets.newicks()),
        hct.infer_many(jets, true_trees=(jet.tree for jet in jets)),
        hct.infer_many([jet.potential() for jet in jets], true_trees=jets.newicks()),
        batch(tmp_path / "jets.parquet", t_cut=16, true_trees="tree"),
    ]
    for result in ways:
        found = result.to_arrow()["true_log_weight"].to_pylist()
        assert found == pytest.approx(weights, rel=1e-12)


def test_true_trees_that_do_not_fit():
    trees = ["((0,1),(2,3));", "((1,0),2);", "(0,1", None, "((0,1),2);"]
    result = batch([momenta(3, seed) for seed in range(5)], true_trees=trees)
    found = rows(result)
    assert [row["true_log_weight"] is None for row in found] == [True, False, True, True, False]
    assert (
        "the true tree cannot be weighed: it has 4 leaves, the data set has 3" in found[0]["error"]
    )
    assert "the true tree cannot be weighed: found the end" in found[2]["error"]
    assert result.n_failed == 2
    assert all(math.isfinite(row["log_partition"]) for row in found)


def test_forbidden_true_tree():
    (row,) = rows(batch([momenta(3)], t_cut=1e9, true_trees=["((0,1),2);"]))
    assert row["true_log_weight"] == -math.inf
    assert row["error"] is None


# ---- malformed jets ---------------------------------------------------------------------------


def spoilt(value, place=(1, 0), n=3):
    jet = momenta(n)
    jet[place] = value
    return jet


BAD = {
    1: spoilt(math.nan),
    2: spoilt(-5.0),
    4: spoilt(1e-3),
    5: np.empty((0, 4)),
    7: spoilt(math.inf, (0, 2)),
}


@pytest.mark.parametrize("scheduler", ["serial", "threads"])
def test_malformed_jets_are_rows(scheduler):
    jets = [BAD.get(i, momenta(4, i)) for i in range(10)]
    result = batch(jets, scheduler=scheduler, chunk_size=3, entropy=True)
    for i, row in enumerate(rows(result)):
        if i in BAD:
            with pytest.raises(ValueError) as raised:
                model = hct.Ginkgo(jets[i], **GINKGO)
                hct.FullTrellis(model.n_leaves).solve(model)
            assert row["error"] == str(raised.value)
            assert row["n_leaves"] == len(jets[i])
            assert {row[name] for name in ("log_partition", "map_tree", "n_trees")} == {None}
        else:
            assert_same(row, expected(hct.Ginkgo(jets[i], **GINKGO)))
    assert result.to_arrow().schema.field("n_trees").type == pa.int64()
    assert (result.n_rows, result.n_failed, result.n_without_tree) == (10, len(BAD), 0)
    assert list(result.reasons) == [1, 2, 4]
    assert "negative energy" in result.reasons[2]


@given(st.integers(0, 10_000))
def test_momenta_at_the_limit_of_space_like(seed):
    """The check of all particles at once agrees with that of the model."""
    rng = np.random.default_rng(seed)
    jets = [momenta(2, int(seed) + k) for k in range(8)]
    for jet in jets:
        jet[0, 0] *= 1 - 0.5e-5 * (1 + 1e-3 * rng.normal())
    for jet, row in zip(jets, rows(batch(jets)), strict=True):
        try:
            hct.Ginkgo(jet, **GINKGO)
        except ValueError as error:
            assert row["error"] == str(error)
        else:
            assert row["error"] is None


def test_missing_particles_are_rows():
    lists = {name: [[1.0, 2.0], None, [1.0]] for name in NAMES}
    lists["px"] = [[0.0], None, [None]]
    found = rows(batch(pa.table(lists)))
    assert "2 E, 1 px, 2 py, 2 pz" in found[0]["error"]
    assert "the jet is missing (None)" in found[1]["error"]
    assert "not finite" in found[2]["error"]


@pytest.mark.parametrize("form", ["records", "columns", "events", "table", "list"])
def test_missing_and_empty_jets(form, tmp_path):
    """Are said to be that, and do not shift other jets."""
    particles = [{"E": 3.0, "px": 1.0, "py": i, "pz": 0.0} for i in (0.0, 1.0)]
    jets = ak.Array([particles, None, [], particles[:1]])
    if form == "columns":
        jets = ak.zip({name: jets[name] for name in NAMES}, depth_limit=1)
    elif form == "events":
        jets = jets[np.newaxis]
    elif form == "table":
        ak.to_parquet(ak.zip({"jet": jets}, depth_limit=1), tmp_path / "jets.parquet")
        jets = tmp_path / "jets.parquet"
    elif form == "list":
        arrays = [[[row[name] for name in NAMES] for row in jet or []] for jet in jets.to_list()]
        jets = [np.array(arrays[0]), None, np.empty((0, 4)), np.array(arrays[3])]
    found = batch(jets).to_awkward()
    found = found[0] if form == "events" else found
    assert found["n_leaves"].to_list() == [2, 0, 0, 1]
    errors = found["error"].to_list()
    assert "the jet is missing (None)" in errors[1]
    assert "the jet has no particles" in errors[2]
    assert errors[0] is None
    assert errors[3] is None


def test_jets_of_dicts():
    with pytest.raises(TypeError, match=r"jet 0 is a list of dicts; give awkward\.Array\(jets\)"):
        batch([[{"E": 3.0, "px": 1.0, "py": 0.0, "pz": 0.0}]])


def test_errors_of_users_functions_are_rows():
    def broken(left, right, parent):
        if 1 < left[0].size < 900:  # not when it is tried out
            raise ZeroDivisionError("two\nlines")
        return np.where(parent[0] == 3, np.nan, 0.0)

    def model(n):
        return hct.FunctionPotential(broken, lambda clusters: [clusters.sizes], n_leaves=n)

    found = rows(hct.infer_many([model(2), model(7), hct.Dasgupta(similarities(3))]))
    assert [row["error"] for row in found] == [None, "ZeroDivisionError: two lines", None]


# ---- ways to give jets ------------------------------------------------------------------------


def as_vectors():
    """The same jets in other coordinates."""
    array = vector.zip({name: records()[name] for name in NAMES})
    return vector.zip({name: getattr(array, name) for name in ("pt", "phi", "eta", "mass")})


@pytest.mark.parametrize(
    "data",
    [
        records(),
        records(names=("energy", "Px", "PY", "pz")),
        records(names=("t", "x", "y", "z")),
        ak.zip({name: records()[name] for name in NAMES}, depth_limit=1),
        ak.Array({"jet": range(len(JETS)), "constituents": records()}),
        vector.zip({name: records()[name] for name in NAMES}),
        table(),
        four_columns(),
        ak.Array({"particles": ak.from_arrow(table())["particles"]}),
        [jet.tolist() for jet in JETS],
        iter(JETS),
    ],
    ids=str.split("records names t,x,y,z columns event vector table four option lists iterator"),
)
def test_inputs(data, answers):
    assert batch(data).to_arrow() == answers


def test_vectors_in_other_coordinates(answers):
    for row, wanted in zip(rows(batch(as_vectors())), answers.to_pylist(), strict=True):
        assert row["map_tree"] == wanted["map_tree"]
        assert row["log_partition"] == pytest.approx(wanted["log_partition"], rel=1e-9)


def test_equal_sizes():
    jets = np.array([momenta(4, seed) for seed in range(5)])
    wanted = batch(list(jets)).to_arrow()
    assert batch(jets).to_arrow() == wanted
    assert batch(ak.zip({name: jets[:, :, i] for i, name in enumerate(NAMES)})).to_arrow() == wanted


def test_single_precision():
    jets = [jet.astype(np.float32) for jet in JETS]
    array = ak.values_astype(records(jets), np.float32)
    assert batch(array).to_arrow() == batch(jets).to_arrow()
    assert batch(array).n_failed == 0


def test_simulated_jets_bring_their_model():
    jets = ginkgo(10, "w", leaves=(2, 7), rng=1)
    found = hct.infer_many(jets).to_arrow()
    for row, jet in zip(found.to_pylist(), jets, strict=True):
        assert_same(row, expected(jet.potential()))
    array = jets.to_awkward()
    assert batch(array, lam_root=3.0, t_cut=16.0).to_arrow() == found


@pytest.mark.parametrize("make", [table, four_columns])
@pytest.mark.parametrize("row_group", [1, 5, 100])
def test_file(make, row_group, tmp_path, answers):
    path = tmp_path / "jets.parquet"
    pq.write_table(make(), path, row_group_size=row_group)
    for chunk_size in (1, 4, 100):
        assert batch(str(path), chunk_size=chunk_size).to_arrow() == answers


def test_file_read_in_pieces(tmp_path, monkeypatch, answers):
    path = tmp_path / "jets.parquet"
    pq.write_table(table(), path, row_group_size=5)
    monkeypatch.setattr(inputs, "READ_ROWS", 7)
    assert batch(path, chunk_size=3).to_arrow() == answers


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"a": [1], "b": [[{"E": 1.0, "px": 2.0}]]},
            r"no momenta: .* found the columns a, b\[E, p",
        ),
        ({name: [1.0] for name in NAMES}, "E of .* holds double for a jet, not a list"),
        ({name: [["a"]] for name in NAMES}, "E of .* holds string; expected numbers"),
        ({name: [[[[1.0]]]] for name in NAMES}, "lists of lists of lists of E; .*awkward.flatten"),
        (
            {name: [[dict.fromkeys(NAMES, 1.0)]] for name in ("one", "two")},
            r"momenta in several columns \(one or two\); .* column=\'two\'",
        ),
    ],
)
def test_wrong_columns(columns, message, tmp_path):
    wrong = pa.table(columns)
    pq.write_table(wrong, tmp_path / "jets.parquet")
    for data in (wrong, tmp_path / "jets.parquet"):
        with pytest.raises(ValueError, match=message) as raised:
            batch(data)
        assert "\n" not in str(raised.value)


# ---- events, and jets with momenta of their own -----------------------------------------------

JETS_PER_EVENT = [3, 0, 4, 5, 0]


def nested(array=None):
    """The jets in events, two of them without any."""
    return ak.unflatten(records() if array is None else array, JETS_PER_EVENT)


def in_file(array, path):
    ak.to_parquet(array, path)
    return path


@pytest.mark.parametrize("chunk_size", [None, 2, 5])
def test_events(chunk_size, tmp_path, answers):
    """Answers are nested as the jets are."""
    columns = ak.Array({name: nested()[name] for name in NAMES})
    path = tmp_path / "events.parquet"
    inputs = [nested(), ak.Array({"jets": nested()}), columns, in_file(columns, path)]
    inputs += [ak.to_arrow_table(columns, extensionarray=False)]
    for data in inputs:
        result = batch(data, chunk_size=chunk_size)
        flat = result.to_arrow()
        assert flat["event"].to_pylist() == np.repeat(range(5), JETS_PER_EVENT).tolist()
        assert flat.drop_columns("event") == answers
        found = result.to_awkward()
        assert ak.num(found).tolist() == JETS_PER_EVENT
        assert ak.flatten(found).map_tree.tolist() == answers["map_tree"].to_pylist()
    twice = batch([path, path], chunk_size=chunk_size, out=tmp_path / "out")
    assert ak.num(twice.to_awkward()).tolist() == JETS_PER_EVENT * 2
    assert twice.to_arrow()["event"].to_pylist()[-1] == 8


def test_events_with_trees_and_rates(tmp_path, answers):
    trees, rates = answers["map_tree"].to_pylist(), np.linspace(1, 2, 12)
    each = [batch([jet], lam=rate).to_arrow() for jet, rate in zip(JETS, rates, strict=True)]
    wanted = [table["log_partition"][0].as_py() for table in each]
    others = {"tree": ak.unflatten(trees, JETS_PER_EVENT)}
    others["rate"] = ak.unflatten(rates, JETS_PER_EVENT)
    path = in_file(ak.Array({"jets": nested(), **others}), tmp_path / "a.parquet")
    result = batch(path, lam="rate", true_trees="tree").to_arrow()
    assert result["log_partition"].to_pylist() == pytest.approx(wanted, rel=1e-12)
    assert result["true_log_weight"].null_count == 0
    options = {"true_trees": others["tree"].to_list(), "lam": others["rate"].to_list()}
    assert batch(nested(), **options).to_arrow() == result
    with pytest.raises(ValueError, match="true_trees is not nested as the jets are"):
        batch(nested(), true_trees=[trees[:1], trees[1:], [], [], []])


def test_events_that_do_not_fit(tmp_path):
    uneven = {name: [[[1.0]], []] for name in NAMES} | {"pz": [[], [[1.0]]]}
    with pytest.raises(ValueError, match="event 0 of the table has 1 jets by E and 0 by pz"):
        batch(pa.table(uneven))
    paths = [in_file(a, tmp_path / name) for a, name in ((nested(), "a"), (records(), "b"))]
    with pytest.raises(ValueError, match="some files have events"):
        batch(paths)


def test_jets_with_momenta_of_their_own(tmp_path, answers):
    """Those of the jets are not taken for those of particles."""
    own = {name: np.ones(12) for name in ("pt", "eta", "phi", "mass")}
    jets = ak.Array({**own, "constituents": records()})
    as_records = ak.Array({"p4": ak.zip(own), "constituents": records()})
    for data in (jets, as_records, ak.to_arrow_table(jets, extensionarray=False)):
        for column in (None, "constituents"):
            assert batch(data, column=column).to_arrow() == answers
    events = ak.Array({"jets": nested(jets)})
    path = in_file(events, tmp_path / "events.parquet")
    for data in (events, path):
        with pytest.raises(ValueError, match=r"\(jets or jets.constituents\); say which"):
            batch(data)
        for column in ("constituents", "jets.constituents"):
            found = batch(data, column=column)
            assert found.to_arrow()["map_tree"] == answers["map_tree"]
            assert ak.num(found.to_awkward()).tolist() == JETS_PER_EVENT


def test_rates_of_a_column(tmp_path):
    """Rates that the model refuses are errors of their rows alone."""
    rates = [1.0, 2.0, None, math.nan, -1.0, *np.linspace(1, 2, 7)]
    jets = table().append_column("rate", pa.array(rates, pa.float64()))
    path = tmp_path / "jets.parquet"
    pq.write_table(jets, path)
    array = ak.Array({"particles": records(), "rate": rates})
    for data in (jets, path, array):
        found = rows(batch(data, lam="rate", lam_root="rate"))
        for row, jet, rate in zip(found, JETS, rates, strict=True):
            if rate is not None and rate > 0:
                wanted = hct.infer(hct.Ginkgo(jet, rate, GINKGO["t_cut"], rate)).log_partition
                assert row["log_partition"] == pytest.approx(wanted, rel=1e-12)
            else:
                assert "must be a finite number and positive" in row["error"]
    with pytest.raises(ValueError, match="no column 'no' with lam; it has event, particles, rate"):
        batch(path, lam="no")
    with pytest.raises(ValueError, match="lam must be a number, or the name of a column"):
        batch(lam="no")
    other = tmp_path / "other.parquet"
    pq.write_table(jets.append_column("text", pa.array(["a"] * 12)), other)
    with pytest.raises(ValueError, match=r"'text' .* expected a number for each jet, its lam"):
        batch(other, lam="text")


# ---- ROOT -------------------------------------------------------------------------------------


def test_root_files(tmp_path, answers):
    uproot = pytest.importorskip("uproot")
    path = tmp_path / "jets.root"
    kinds = dict.fromkeys(NAMES, "var * float64")
    with uproot.recreate(path) as file:
        file.mktree("records", {"jet": "var * {E: float64, px: float64, py: float64, pz: float64}"})
        file["records"].extend({"jet": records()})
        file.mktree("columns", {**kinds, "rate": "float64"})
        columns = {name: records()[name] for name in NAMES}
        file["columns"].extend({**columns, "rate": np.linspace(1, 2, 12)})
        if hasattr(file, "mkrntuple"):
            file.mkrntuple("fields", columns)
            file.mkrntuple("inside", {"jet": records()})
            per_event = [2, 0, 10]
            file.mkrntuple("events", {n: ak.unflatten(c, per_event) for n, c in columns.items()})
    trees = uproot.open(path).keys(cycle=False)
    whole = tuple(map(int, uproot.__version__.split(".")[:2])) >= (5, 7)  # reads records, too
    for tree in set(trees) - ({"events"} if whole else {"events", "inside"}):
        assert batch(f"{path}:{tree}", chunk_size=5).to_arrow() == answers
    if not whole and "inside" in trees:
        with pytest.raises(ImportError, match="install a newer one"):
            batch(f"{path}:inside")
    rates = batch(f"{path}:columns", lam="rate").to_arrow()
    assert rates == batch(lam=np.linspace(1, 2, 12)).to_arrow()
    if "events" in trees:
        nested = batch(f"{path}:events")
        assert nested.to_arrow().drop_columns("event") == answers
        assert ak.num(nested.to_awkward()).tolist() == per_event
    with pytest.raises(ValueError, match=r"has the trees records, columns.*; say .* jets.root:"):
        batch(path)
    with pytest.raises(ValueError, match="has no column 'no' with lam"):
        batch(f"{path}:columns", lam="no")
    with pytest.raises(FileNotFoundError, match=r"there is no file .*none.root"):
        batch(tmp_path / "none.root")
    with uproot.recreate(tmp_path / "other.root") as file:
        file["histogram"] = np.histogram([1.0, 2.0])
    with pytest.raises(ValueError, match=r"other.root has no tree \(TTree or RNTuple\)"):
        batch(tmp_path / "other.root")
    spoiled = tmp_path / "spoiled.root"
    spoiled.write_bytes(path.read_bytes()[:300])
    with pytest.raises(ValueError, match="is not a ROOT file that can be read"):
        batch(spoiled)


def test_without_uproot(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "uproot", None)
    with pytest.raises(ImportError, match=r"hctrellis\[root\]"):
        batch(tmp_path / "jets.root")


# ---- more answers -----------------------------------------------------------------------------


def test_more_answers(tmp_path):
    """Clusters and heights as from `infer`, samples from the same trees; however it is cut."""
    options = {"clusters": 0.1, "samples": 40, "heights": True, "seed": 3}
    result = batch(**options)
    for row, jet in zip(rows(result), JETS, strict=True):
        post = hct.infer(hct.Ginkgo(jet, **GINKGO), threads=1)
        table = post.cluster_probabilities(0.1)
        assert [{str(i) for i in c["leaves"]} for c in row["clusters"]] == [
            c.cluster for c in table
        ]
        found = [c["probability"] for c in row["clusters"]]
        assert found == pytest.approx([c.probability for c in table])
        assert {c["error"] for c in row["clusters"]} <= {0.0}
        heights = post.map_tree.heights
        assert row["map_heights"] == pytest.approx([] if heights is None else heights.tolist())
        trees = {s["tree"]: s["log_weight"] for s in row["samples"]}
        assert len(row["samples"]) == 40
        for text, weight in trees.items():
            assert weight == pytest.approx(post.potential.log_weight(hct.Tree.from_newick(text)))
    assert batch(chunk_size=5, out=tmp_path / "out", **options).to_arrow() == result.to_arrow()
    assert batch(out=tmp_path / "out", **options).to_arrow() == result.to_arrow()
    with pytest.raises(ValueError, match="seed was 3, now 4"):
        batch(out=tmp_path / "out", **{**options, "seed": 4})
    assert batch(**{**options, "seed": 4}).to_arrow()["samples"] != result.to_arrow()["samples"]


def test_more_answers_of_samples_follow_the_posterior():
    model = hct.Linkage([[0.0], [1.0], [1.5]])
    (row,) = rows(hct.infer_many([model], samples=20_000, clusters=0.0))
    trees = [sample["tree"] for sample in row["samples"]]
    post = hct.infer(model)
    for text in {*trees}:
        wanted = math.exp(post.log_probability(hct.Tree.from_newick(text)))
        assert trees.count(text) / len(trees) == pytest.approx(wanted, abs=0.015)
    assert sum(cluster["probability"] for cluster in row["clusters"]) == pytest.approx(1.0)


def test_more_answers_where_there_are_none():
    """Every tree is forbidden, or the jet is wrong."""
    options = {"clusters": 0.1, "samples": 2, "heights": True}
    forbidden, wrong = rows(batch([JETS[0], spoilt(math.nan)], t_cut=1e9, **options))
    for row in (forbidden, wrong):
        assert row["clusters"] is row["samples"] is row["map_heights"] is None


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"clusters": 1.5}, ValueError, "clusters must be a probability, from 0 to 1"),
        ({"clusters": True}, TypeError, "clusters must be the least probability"),
        ({"samples": 0}, ValueError, "samples must be a whole number"),
        ({"seed": -1}, ValueError, "seed must be a whole number, not negative"),
    ],
)
def test_wrong_wishes(options, error, message):
    with pytest.raises(error, match=message):
        batch(**options)


# ---- where the momenta are --------------------------------------------------------------------


def in_other_coordinates(*others):
    """A column of `vector` momenta as pt, eta, phi, mass, and other columns."""
    return ak.Array({"first": as_vectors(), **{name: as_vectors()[::-1] for name in others}})


def test_masked_jets_are_refused():
    jet = np.ma.masked_array(momenta(4), mask=[[True, False, False, False]] + [[False] * 4] * 3)
    with pytest.raises(TypeError, match="jet 0 must be an array of real numbers"):
        hct.infer_many([jet], "ginkgo", lam=1.5, t_cut=1.0)


def test_two_collections(answers, tmp_path):
    """Which has the momenta is never guessed."""
    both = in_other_coordinates("second")
    with pytest.raises(ValueError, match=r"columns \(first or second\); .* column='second'"):
        batch(both)
    trees = answers["map_tree"].to_pylist()
    for column, wanted in (("first", trees), ("second", trees[::-1])):
        assert batch(both, column=column).to_arrow()["map_tree"].to_pylist() == wanted
    four = four_columns().append_column("particles", table()["particles"])
    path = tmp_path / "jets.parquet"
    pq.write_table(four, path)
    for data in (four, path):
        with pytest.raises(ValueError, match=r"several columns \(E, px, py, pz or particles\)"):
            batch(data)
        for column in ("px", "particles"):
            assert batch(data, column=column).to_arrow() == answers


def test_names_under_which_vector_stores(answers):
    """Its arrays, once written, may be plain records of rho, phi, eta, tau: tau is the mass."""
    momenta = as_vectors()
    names = {"rho": "pt", "phi": "phi", "eta": "eta", "tau": "mass"}
    plain = ak.zip({name: getattr(momenta, known) for name, known in names.items()})
    assert batch(plain).to_arrow()["map_tree"] == answers["map_tree"]


TRACK = ("PT", "Eta", "Phi", "Mass", "T", "X", "Y", "Z")


def test_vertices_are_no_momenta(answers):
    """x, y, z, t beside pt, eta, phi or px, py, pz are where a particle comes from."""
    tracks = ak.Array([[dict.fromkeys(TRACK, 1.0)] * 3])
    for data in (tracks, ak.Array({"Track": tracks})):
        (row,) = rows(batch(data))
        energy = math.sqrt(1 + math.cosh(1) ** 2)
        particle = [energy, math.cos(1), math.sin(1), math.sinh(1)]
        assert_same(row, expected(hct.Ginkgo([particle] * 3, **GINKGO)))
    with pytest.raises(ValueError, match="no momenta"):
        batch(ak.Array([[dict.fromkeys(("px", "py", "pz", "x", "y", "z", "t"), 1.0)]]))
    vertex = {name: 7.0 * records()["E"] for name in ("X", "Y", "Z", "T")}
    same = {name: getattr(as_vectors(), name) for name in ("pt", "phi", "eta", "mass")}
    tracks = ak.zip(
        {**same, **vertex}, with_name="Momentum4D", behavior=vector.backends.awkward.behavior
    )
    assert batch(tracks).to_arrow()["map_tree"] == answers["map_tree"]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: batch(table(), column="jets"),
            ValueError,
            "no column 'jets'; .* event, ",
        ),
        (lambda: batch(table(), column="event"), ValueError, "no momenta: .* the columns event"),
        (lambda: batch(column="event"), TypeError, "jets as list have no columns"),
        (lambda: batch(table(), column=1), TypeError, "column must be the name of a column; got 1"),
        (lambda: hct.infer_many([], column="a"), TypeError, "column was given without a potential"),
        (lambda: batch(records(names=("E", "px", "py", "PY"))), ValueError, "no momenta"),
        (
            lambda: batch(pa.table({n: [[1.0]] for n in (*NAMES, "e")})),
            ValueError,
            "has E and e; re",
        ),
        (lambda: batch(ak.Array([1.0, 2.0])), ValueError, "found no columns"),
        (lambda: batch(5), TypeError, "jets must be an Awkward array, .* got int"),
        (lambda: batch([np.ones((2, 3))]), ValueError, r"jet 0 has shape \(2, 3\)"),
        (lambda: batch(lam=-1.0), ValueError, "lam must be a finite number and positive"),
        (lambda: hct.infer_many(JETS, "ginkgo"), TypeError, "Ginkgo are wrong: missing 2 req"),
        (lambda: batch(beta=1.0), TypeError, "wrong: got an unexpected keyword .*'beta'"),
        (lambda: batch(labels=["a"]), TypeError, "leave out labels"),
        (
            lambda: batch(potential="dasgupta"),
            ValueError,
            "jetmass .* got 'dasgupta'",
        ),
        (lambda: batch(potential=hct.Linkage), ValueError, "ginkgo-density, jetmass"),
        (lambda: hct.infer_many(JETS), TypeError, "data set 0 is not a Potential but ndarray"),
        (lambda: hct.infer_many(3), TypeError, "must be a list of potentials.* got int"),
        (lambda: hct.infer_many([], lam=1.0), TypeError, "lam was given without a potential"),
        (lambda: batch(chunk_size=0), ValueError, "chunk_size must be a whole number"),
        (lambda: batch(workers=0), ValueError, "workers must be a whole number"),
        (lambda: batch(scheduler="slurm"), ValueError, "scheduler must be .* got 'slurm'"),
        (lambda: batch(scheduler=3), TypeError, "scheduler must be .* got int"),
        (lambda: batch(scheduler=ThreadPoolExecutor()), TypeError, "got ThreadPoolExecutor"),
        (lambda: batch(scheduler="tcp://a:1", workers=2), ValueError, "workers cannot be given"),
        (lambda: batch(progress=3), TypeError, "progress must be True, False or a function"),
        (lambda: batch(true_trees=["(0,1);"]), ValueError, "1 true trees were given for 12"),
        (lambda: batch(true_trees=[1] * 12), TypeError, "a true tree must be a Tree or Newick"),
        (lambda: batch(true_trees="tree"), TypeError, "only when the jets are in a file"),
        (lambda: batch("no.parquet"), FileNotFoundError, "there is no file no.parquet"),
        (lambda: batch(__file__), ValueError, "is not a Parquet file"),
        (lambda: batch(Path(__file__).parent), ValueError, "is a folder"),
    ],
)
def test_wrong_calls(call, error, message):
    with pytest.raises(error, match=message) as raised:
        call()
    assert "\n" not in str(raised.value)


# ---- chunks and order -------------------------------------------------------------------------


@pytest.mark.parametrize("chunk_size", [None, 1, 5, 12, 1000])
@pytest.mark.parametrize("scheduler", ["serial", "threads"])
def test_chunks(chunk_size, scheduler, answers):
    assert batch(chunk_size=chunk_size, scheduler=scheduler).to_arrow() == answers


@pytest.mark.parametrize("n_jets", [0, 1])
@pytest.mark.parametrize("lasting", [False, True])
def test_few(n_jets, lasting, tmp_path, answers):
    out = tmp_path / "out" if lasting else None
    path = tmp_path / "jets.parquet"
    pq.write_table(table().slice(0, n_jets), path)
    for data in (records(JETS)[:n_jets], path):
        result = batch(data, out=out)
        assert len(result) == n_jets
        assert result.to_arrow() == answers.slice(0, n_jets)
    assert hct.infer_many([], out=tmp_path / "none").n_rows == 0


def test_size_of_chunks():
    def size(rows, n, workers=1):
        particles = inputs.Particles(np.empty((0, 4)), np.full(rows, n), {})
        return inputs.JetArrays(hct.Ginkgo, {}, inputs.JetRows(particles)).chunk_size(20, workers)

    assert size(10, 8) == 512
    assert size(50_000, 10) == size(50_000, 10, 8) == 50_000 // 64
    assert size(50_000, 12, 100) == 512
    assert size(500_000, 12, 100) == 500_000 // 800 < size(500_000, 12)
    assert size(10_000_000, 5) == 4000
    assert size(10, 20) == 1


SPARSE = [5, 7, 12, 40]


@pytest.fixture(scope="module")
def mixed():
    """Jets of which the largest are not solved exactly here, and their rows."""
    jets = [momenta(n, n) for n in SPARSE]
    return jets, rows(batch(jets, max_leaves=7, entropy=True))


def test_beyond_the_exact_limit(mixed):
    """Exact up to max_leaves; beyond, a bound and a tree of which the weight is right."""
    jets, found = mixed
    assert [row["method"] for row in found] == ["exact"] * 2 + ["sparse"] * 2
    for row, jet in zip(found, jets, strict=True):
        model = hct.Ginkgo(jet, **GINKGO)
        assert row["error"] is None
        tree = hct.Tree.from_newick(row["map_tree"])
        assert model.log_weight(tree) == pytest.approx(row["map_log_weight"], rel=1e-12)
        if row["method"] == "sparse":
            names = ("log_partition", "log_partition_error", "n_trees", "entropy")
            assert {row[name] for name in names} == {None}
            assert row["bound"] >= row["map_log_weight"]
    exact = hct.infer(hct.Ginkgo(jets[2], **GINKGO))
    assert found[2]["bound"] <= exact.log_partition + 1e-9
    assert found[2]["map_log_weight"] <= exact.map_log_weight + 1e-9
    post = hct.infer(hct.Ginkgo(jets[2], **GINKGO), max_leaves=7, beyond="sparse")
    assert (post.method, post.log_partition) == ("sparse", found[2]["bound"])  # one policy


def test_beyond_is_the_same_in_every_run(mixed):
    jets, found = mixed
    for scheduler in ("serial", "threads"):
        options = {"max_leaves": 7, "entropy": True, "chunk_size": 1}
        assert rows(batch(jets, scheduler=scheduler, **options)) == found


def test_sampled_beyond():
    (row,) = rows(batch([momenta(8)], max_leaves=7, beyond="sample", precision=0.1))
    exact = hct.infer(hct.Ginkgo(momenta(8), **GINKGO)).log_partition
    assert row["method"] == "sampled" and row["n_trees"] is None
    assert row["bound"] <= exact + 1e-9
    assert abs(row["log_partition"] - exact) <= 5 * row["log_partition_error"] + 0.05


def test_errors_beyond_do_not_depend_on_the_run(monkeypatch):
    (row,) = rows(batch([momenta(9)], max_leaves=8, beyond="error"))
    assert row["error"].startswith("there are 9 leaves, and at most 8 are solved exactly here")
    with pytest.raises(ValueError, match="at most 8 are solved exactly"):
        hct.infer(hct.Ginkgo(momenta(9), **GINKGO), max_leaves=8, beyond="error")
    said = []
    for free in (1 << 23, 1 << 24):  # memory that is left
        monkeypatch.setattr("hctrellis.trellis.full.available_memory", lambda free=free: free)
        said += rows(batch([momenta(20)], max_leaves=20))
    assert said[0] == said[1]
    assert "20 leaves needs about" in said[0]["error"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_leaves": 29}, "max_leaves must be at most 28"),
        ({"max_leaves": 0}, "max_leaves"),
        ({"beyond": "guess"}, "beyond must be 'sample', 'sparse', 'error'"),
    ],
)
def test_wrong_policies(options, message):
    with pytest.raises(ValueError, match=message):
        batch(**options)
    with pytest.raises(ValueError, match=message):
        hct.infer(hct.Ginkgo(momenta(4), **GINKGO), **options)


def test_longest_first():
    sizes = [3, 18, 5, 30, 19]
    chunks = [PotentialChunk([], np.array([n])) for n in sizes]
    order = [index for index, _ in longest_first(enumerate(chunks), 20)]
    assert order == [3, 4, 1, 2, 0]
    many = [PotentialChunk([], np.array([2 + i // 100])) for i in range(300)]
    found = [index for index, _ in longest_first(enumerate(many), 20)]
    assert sorted(found) == [*range(300)]


def test_progress():
    seen = []
    batch(chunk_size=5, progress=lambda *counts: seen.append(counts))
    assert sorted(seen) == seen and seen[0] == (0, 12) and seen[-2:] == [(12, 12)] * 2
    assert len(seen) == 5


def test_progress_bar(monkeypatch):
    shown = []

    @contextmanager
    def bar(what):
        yield lambda *at: shown.append(at)
        shown.append("gone")

    monkeypatch.setattr("hctrellis.support.progress.bar", bar)
    batch(chunk_size=5, progress=True)
    assert shown[0] == (0, 12) and shown[-2:] == [(12, 12), "gone"]


# ---- who computes -----------------------------------------------------------------------------


def test_processes(answers):
    assert batch(scheduler="processes", workers=2, chunk_size=2).to_arrow() == answers


def test_lambdas_in_processes():
    models = [
        hct.FunctionPotential(lambda left, right, parent: -parent[0], points(4, seed, 1))
        for seed in range(3)
    ]
    result = hct.infer_many(models, scheduler="processes", workers=2)
    assert result.to_arrow() == hct.infer_many(models, scheduler="serial").to_arrow()
    assert result.n_failed == 0


@pytest.mark.parametrize(
    "settings",
    [
        {"backend": "loky", "n_jobs": 2},
        {"backend": "threading", "n_jobs": 2},
        {"backend": "threading"},
        {"backend": "sequential"},
        {"n_jobs": 1},
    ],
    ids=str,
)
def test_joblib_is_honoured(settings, monkeypatch, answers):
    used = []

    class Watched(joblib.Parallel):
        def __call__(self, calls):
            used.append(type(self._backend).__name__)
            return super().__call__(calls)

    monkeypatch.setattr(joblib, "Parallel", Watched)
    with joblib.parallel_config(**settings):
        assert batch(scheduler=None, chunk_size=3).to_arrow() == answers
    assert used
    wanted = settings.get("backend", "sequential")
    assert all(wanted in name.lower() for name in used)


def test_threads_by_default(monkeypatch, answers):
    monkeypatch.setattr(engines, "joblib", None)
    assert batch(scheduler=None).to_arrow() == answers


def test_only_a_few_chunks_are_held():
    drawn = 0

    def source():
        nonlocal drawn
        for i in range(100):
            drawn += 1
            yield i, i

    for seen, _ in enumerate(engines.threads(abs, source(), workers=2), start=1):
        assert drawn <= seen + engines.AHEAD * 2


@pytest.mark.parametrize("engine", [engines.serial, engines.as_engine("threads", 2)])
def test_errors_of_a_run_stop_it(engine):
    def fail(chunk):
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        list(engine(fail, iter([(0, None), (1, None)])))


@pytest.fixture(scope="module")
def cluster():
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def many_jets():
    return ginkgo(400, leaves=(4, 9), rng=2)


def test_dask_and_a_worker_killed_in_the_middle(cluster, many_jets, tmp_path):
    from distributed import Client

    wanted = hct.infer_many(many_jets, scheduler="serial").to_arrow()
    with Client(cluster) as client:
        victim = next(iter(client.run(os.getpid).values()))
        killed_at = []

        def kill(done, total):
            if done >= 60 and not killed_at:
                os.kill(victim, signal.SIGKILL)
                killed_at.append(done)

        result = hct.infer_many(
            many_jets, scheduler=client, chunk_size=10, progress=kill, out=tmp_path / "out"
        )
        assert killed_at[0] < 200
        assert result.to_arrow() == wanted
        assert victim not in client.run(os.getpid).values()


def start(what, *options):
    """A part of a Dask cluster in a process of its own."""
    command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *options, "--no-dashboard"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.mark.filterwarnings("ignore:the Dask cluster has no workers")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_dask_workers_and_scheduler_killed(many_jets, tmp_path, monkeypatch):
    """A run ends in one sentence, and another continues from what is finished."""
    from distributed import Client

    monkeypatch.setattr(engines, "WORKERLESS_SECONDS", 1.0)
    monkeypatch.setattr(engines, "LOOK_FOR_WORKERS_SECONDS", 0.2)
    monkeypatch.setattr(engines, "CONNECT_SECONDS", 3)
    place, out = tmp_path / "scheduler.json", tmp_path / "out"
    out.mkdir()
    scheduler = start("scheduler", "--port", "0", "--scheduler-file", str(place))
    living = [scheduler]
    try:
        while not place.exists():
            time.sleep(0.05)
        address = json.loads(place.read_text())["address"]
        for victims, error, message in (
            ("worker", TimeoutError, "no workers for 1.0 s; start some, and the same call"),
            ("scheduler", ConnectionError, "scheduler does not answer any more; .* continues"),
        ):
            options = ("--scheduler-file", str(place), "--nthreads", "1", "--no-nanny")
            worker = start("worker", *options)
            living.append(worker)
            with Client(address) as client:
                client.wait_for_workers(1)  # which takes long on a busy machine
            victim = worker if victims == "worker" else scheduler
            before = len(names(out))

            def kill(done, total, victim=victim, before=before):
                if len(names(out)) > before + 3:
                    victim.kill()

            with pytest.raises(error, match=message):
                hct.infer_many(many_jets, scheduler=address, chunk_size=10, out=out, progress=kill)
    finally:
        for process in living:
            process.kill()
            process.wait()
    done = len([name for name in names(out) if name.startswith("part")])
    assert 4 <= done < 40
    wanted = hct.infer_many(many_jets, scheduler="serial").to_arrow()
    assert hct.infer_many(many_jets, scheduler="serial", out=out).to_arrow() == wanted
    assert len([name for name in names(out) if name.startswith("part")]) == 40


def test_dask_by_address(cluster, answers):
    assert batch(scheduler=cluster.scheduler_address, chunk_size=4).to_arrow() == answers


def test_dask_by_joblib(cluster, answers):
    from distributed import Client

    with Client(cluster), joblib.parallel_config("dask"):
        assert batch(scheduler=None, chunk_size=4).to_arrow() == answers


def test_dask_that_is_not_there(monkeypatch, tmp_path):
    monkeypatch.setattr(engines, "CONNECT_SECONDS", 0.2)
    with pytest.raises(OSError, match="tcp://localhost:1"):
        batch(scheduler="tcp://localhost:1")


# ---- the folder -------------------------------------------------------------------------------


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_folder(tmp_path, answers):
    out = tmp_path / "new" / "out"
    result = batch(out=out, chunk_size=5)
    assert names(out) == ["_lock", "_manifest.json", *(f"part-0000{i}.parquet" for i in range(3))]
    assert repr(result) == f"BatchResult(12 data sets, 0 failed, 0 without any tree, in {out})"
    assert result.folder == out
    assert result.to_arrow().replace_schema_metadata() == answers
    assert json.loads((out / "_manifest.json").read_text())["settings"]["lam"] == 1.5


def test_other_readers(tmp_path, answers):
    out = tmp_path / "out"
    batch(out=out, chunk_size=5)
    assert ak.from_parquet(out)["map_tree"].tolist() == answers["map_tree"].to_pylist()
    assert pd.read_parquet(out)["n_trees"].tolist() == answers["n_trees"].to_pylist()
    dataset = pyarrow.dataset.dataset(out)
    assert dataset.to_table().replace_schema_metadata() == answers


def test_other_forms(tmp_path, answers):
    result = batch()
    assert repr(result) == "BatchResult(12 data sets, 0 failed, 0 without any tree)"
    assert len(result) == 12
    assert result.to_pandas()["map_tree"].tolist() == answers["map_tree"].to_pylist()
    assert result.to_awkward()["log_partition"].tolist() == answers["log_partition"].to_pylist()
    result.write_parquet(tmp_path / "all.parquet")
    assert pq.read_table(tmp_path / "all.parquet") == answers


class Stopped(BaseException):
    """As if the process ended."""


def stop_at(number):
    def progress(done, total):
        if done >= number:
            raise Stopped

    return progress


@pytest.fixture
def solved(monkeypatch):
    """Numbers of data sets of the chunks that are solved."""
    sizes = []

    def watched(chunk, wanted, solve=run.solve_chunk):
        sizes.append(len(chunk))
        return solve(chunk, wanted)

    monkeypatch.setattr(run, "solve_chunk", watched)
    return sizes


@pytest.mark.parametrize("scheduler", ["serial", "threads", "joblib"])
def test_resume(scheduler, tmp_path, solved, answers):
    with joblib.parallel_config("threading", n_jobs=2), pytest.raises(Stopped):
        batch(out=tmp_path, chunk_size=2, scheduler=scheduler, progress=stop_at(4))
    kept = names(tmp_path)
    assert 2 <= len(kept) - 2 < 6
    assert not [name for name in kept if "tmp" in name]
    before = {name: (tmp_path / name).stat().st_mtime_ns for name in kept if "part" in name}
    solved.clear()
    seen = []
    result = batch(out=tmp_path, chunk_size=2, progress=lambda *counts: seen.append(counts))
    assert solved == [2] * (6 - len(before))
    assert seen[-1] == (12, 12)
    assert result.to_arrow().replace_schema_metadata() == answers
    assert {name: (tmp_path / name).stat().st_mtime_ns for name in before} == before


def test_resume_counts_what_was_there(tmp_path):
    jets = [BAD.get(i, momenta(4, i)) for i in range(10)]
    options = {"chunk_size": 3, "t_cut": 1e9, "on_shell": False}
    first = batch(jets, out=tmp_path, **options)
    again = batch(jets, out=tmp_path, **options)
    assert first == again
    assert (again.n_failed, again.n_without_tree) == (len(BAD), 10 - len(BAD))
    assert list(again.reasons) == [1, 2, 4]


def test_damaged_parts_are_computed_again(tmp_path, solved, answers):
    batch(out=tmp_path, chunk_size=4)
    solved.clear()
    half = tmp_path / "part-00001.parquet"
    half.write_bytes(half.read_bytes()[:100])
    (tmp_path / "part-00002.parquet").unlink()
    (tmp_path / ".part-00002.parquet.tmp").write_bytes(b"half a fi")
    (tmp_path / ".mine.tmp").touch()
    result = batch(out=tmp_path, chunk_size=4)
    assert solved == [4, 4]
    assert result.to_arrow().replace_schema_metadata() == answers
    assert len([name for name in names(tmp_path) if name.startswith("part-")]) == 3
    assert [path.name for path in tmp_path.glob(".*")] == [".mine.tmp"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lam": 2.0}, r"\(lam was 1.5, now 2.0\)"),
        ({"lam_root": 2.0}, r"\(lam_root was not given, now 2.0\)"),
        ({"chunk_size": 5}, r"\(chunk_size was 4, now 5\)"),
        ({"entropy": True}, r"\(columns now with entropy\)"),
        ({"data": JETS[:-1]}, r"\(data_sets was 12, now 11\)"),
        (
            {"data": JETS[::-1]},
            "was computed from other data sets, not those numbered 0 to 3 in this input",
        ),
    ],
)
def test_other_runs_are_refused(change, message, tmp_path, answers):
    batch(out=tmp_path, chunk_size=4)
    before = names(tmp_path)
    with pytest.raises(ValueError, match=message) as raised:
        batch(**{"out": tmp_path, "chunk_size": 4, **change})
    assert "give another folder, or start over with overwrite=True (--overwrite)" in str(
        raised.value
    )
    assert names(tmp_path) == before
    again = batch(**{"out": tmp_path, "chunk_size": 4, **change}, overwrite=True).to_arrow()
    change.pop("chunk_size", None)
    assert again.replace_schema_metadata() == batch(**change).to_arrow()


def test_input_changed_at_the_end(tmp_path):
    batch(out=tmp_path, chunk_size=4)
    with pytest.raises(ValueError, match=r"part-00002.parquet was computed .* numbered 8 to 11"):
        batch([*JETS[:-1], momenta(5, 99)], out=tmp_path, chunk_size=4)


def test_iterators(tmp_path):
    def models(n):
        return (hct.Linkage(points(3, seed)) for seed in range(n))

    wanted = hct.infer_many(list(models(5))).to_arrow()
    assert hct.infer_many(models(5)).to_arrow() == wanted
    for _ in range(2):
        result = hct.infer_many(models(5), out=tmp_path, chunk_size=2)
        assert result.to_arrow().select(ALWAYS[:4]).equals(wanted.select(ALWAYS[:4]))
    with pytest.raises(ValueError, match="1 more parts than this input has"):
        hct.infer_many(models(4), out=tmp_path, chunk_size=2)


def test_potentials_changed(tmp_path):
    def models(change):
        return [hct.Dasgupta(similarities(4) + change * (seed == 2)) for seed in range(3)]

    hct.infer_many(models(0.0), out=tmp_path)
    hct.infer_many(models(0.0), out=tmp_path)
    with pytest.raises(ValueError, match="other data sets"):
        hct.infer_many(models(1e-9), out=tmp_path)


def test_parts_of_unknown_origin(tmp_path):
    (tmp_path / "part-00000.parquet").touch()
    with pytest.raises(ValueError, match="parts of unknown origin"):
        batch(out=tmp_path)
    (tmp_path / "_manifest.json").write_text("[1, 2")
    with pytest.raises(ValueError, match="not written by this program"):
        batch(out=tmp_path)
    assert batch(out=tmp_path, overwrite=True).n_rows == 12


def test_other_files_stay(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    batch(out=tmp_path)
    batch(out=tmp_path, overwrite=True)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_one_writer_at_a_time(tmp_path):
    pytest.importorskip("fcntl")

    def intrude(done, total):
        with pytest.raises(BlockingIOError, match=f"number {os.getpid()}. is writing into"):
            batch(out=tmp_path)

    assert batch(out=tmp_path, progress=intrude).n_rows == 12
    assert batch(out=tmp_path).n_rows == 12


def test_file_in_the_place_of_the_folder(tmp_path):
    file = tmp_path / "file"
    file.touch()
    for out in (file, file / "below"):
        with pytest.raises(OSError, match="a file is in its place"):
            batch(out=out)


def test_folder_that_cannot_be_written(tmp_path, monkeypatch):
    def refuse(self, *args, **options):
        raise PermissionError(13, "Permission denied")

    tmp_path.chmod(0o500)
    if os.access(tmp_path, os.W_OK):  # as an administrator
        monkeypatch.setattr(store.Path, "open", refuse)
    with pytest.raises(OSError, match="cannot be written: Permission denied"):
        batch(out=tmp_path)
    tmp_path.chmod(0o700)


def test_disk_full(tmp_path, monkeypatch, answers):
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: exec("raise OSError(28, 'No space left')"))
        with pytest.raises(OSError, match="cannot be written: No space left"):
            batch(out=tmp_path)
    assert names(tmp_path) == ["_lock"]
    assert batch(out=tmp_path).to_arrow().replace_schema_metadata() == answers


def test_too_many_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "MAX_PARTS", 3)
    with pytest.raises(ValueError, match="more than 3 chunks of 2 data sets"):
        batch(out=tmp_path, chunk_size=2)


# ---- fingerprints -----------------------------------------------------------------------------


def test_fingerprints():
    def make(constant):
        return lambda left, right, parent: -parent[0] + constant

    def looped():
        return looped

    differing = [
        [1.0, "a"],
        [1.0, "b"],
        ["1.0", "a"],
        (1.0, "a"),
        [[1.0], "a"],
        np.arange(4),
        np.arange(4.0),
        np.arange(4).reshape(2, 2),
        {"a": 1},
        {"a": 2},
        {1, 2},
        None,
        make(1),
        make(2),
        looped,
        lambda x: [y + 1 for y in x],
        lambda x: [y + 2 for y in x],
        hct.Linkage(points(3)),
        hct.Linkage(points(3), beta=2.0),
        hct.Linkage(points(3), labels="abc"),
        hct.Linkage(points(3, 1)),
        hct.Ginkgo(momenta(3), 1.5, 1.0),
        hct.Ginkgo(momenta(3), 1.5, 1.0, 2.0),
        hct.JetMass(momenta(3), 1.5),
        hct.JetMass(momenta(3), 1.5) + hct.BetaSplitting(3),
    ]
    marks = [fingerprint(value) for value in differing]
    assert len(set(marks)) == len(marks)
    assert marks == [fingerprint(value) for value in differing]
    assert fingerprint(make(1)) == fingerprint(make(1))
    assert fingerprint(hct.Linkage(points(3))) == fingerprint(hct.Linkage(points(3)))


SCALE = 1.0


def by_scale(left, right, parent):
    return -SCALE * parent[0]


def test_a_changed_global_is_not_resumed(tmp_path, monkeypatch):
    def run():
        return hct.infer_many([hct.FunctionPotential(by_scale, np.ones(4))], out=tmp_path)

    assert run() == run()
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    with pytest.raises(ValueError, match="was computed from other data sets"):
        run()


def test_what_cannot_be_compared_is_computed_again(tmp_path, solved):
    lock = threading.Lock()

    def guarded(left, right, parent):
        with lock:
            return -parent[0]

    own = [hct.FunctionPotential(guarded, np.ones(4)) for _ in range(4)]
    first = hct.infer_many(own, out=tmp_path, chunk_size=2)
    with pytest.warns(UserWarning, match="it is not known .*, so they are computed again") as found:
        again = hct.infer_many(own, out=tmp_path, chunk_size=2)
    assert first.to_arrow() == again.to_arrow()
    assert solved == [2, 2, 2, 2]
    assert len(found) == 1


def test_without_pyarrow(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'pip install "hctrellis\[batch\]"'):
        hct.infer_many([])


@pytest.mark.parametrize(
    ("module", "scheduler", "extra"),
    [("joblib", "processes", "batch"), ("distributed", "tcp://localhost:1", "dask")],
)
def test_without_the_extra_of_a_scheduler(module, scheduler, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf'pip install "hctrellis\[{extra}\]"'):
        batch(scheduler=scheduler)


# ---- true trees -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        (hct.Ginkgo, {"lam": 1.5, "t_cut": 16.0, "lam_root": 2.0}),
        (hct.Ginkgo, {"lam": 1.5, "t_cut": 16.0, "non_stop": True}),
        (hct.JetMass, {"lam": 1.5}),
    ],
)
@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_trees_of_jets_are_weighed_together(model, parameters, n):
    """As `log_weight` does it, for trees that are possible and others."""
    jets = np.array([momenta(n, seed) for seed in range(20)]) * 10
    rng = np.random.default_rng(n)
    trees = [hct.infer(hct.BetaSplitting(n)).sample(1, rng)[0] for _ in jets]
    children = np.array([tree.children for tree in trees])
    found = lanes.weigh_jets(model, jets, children, parameters)
    wanted = lanes.weigh_group([model(jet, **parameters) for jet in jets], children)
    np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-13)


WRONG = ["((0,1),02);", "((0,1),3);", "((0,1),1);", "((0,1,2));", "(0,1),2;", "((0,1),2);;", ""]
WRONG += ["((0,1)2);", "((,1),2);", "(((0,1),2));", "((0,1),99999999999999999999);", "(" * 99]


@pytest.mark.parametrize("text", WRONG)
def test_trees_that_are_not_plain(text):
    children = np.zeros((2, 2, 2), int)
    assert read_plain([text, "(2,(1,0));"], children).tolist() == [False, True]
    assert children[1].tolist() == [[1, 0], [2, 3]]


@settings(deadline=None)  # the first example may compile
@given(st.data())
def test_plain_trees_are_read_as_others(data):
    n = data.draw(st.integers(1, 12))
    tree = hct.infer(hct.BetaSplitting(n)).sample(1, data.draw(st.integers(0, 99)))[0]
    children = np.zeros((1, n - 1, 2), int)
    assert read_plain([tree.to_newick()], children).all()
    assert hct.Tree(children[0], labels=map(str, range(n))) == tree
