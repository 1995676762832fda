"""``hctrellis simulate jets`` and ``hctrellis batch``, as a user types them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hctrellis as hct
from children import surroundings
from gallery import momenta
from hctrellis.cli import main
from hctrellis.simulate import Jets, ginkgo

GINKGO = ["--potential", "ginkgo", "--lam", "1.5", "--t-cut", "16"]


def only_line(text):
    (line,) = text.splitlines()
    return line


def read(folder):
    return pa.concat_tables(
        pq.read_table(path).replace_schema_metadata() for path in sorted(folder.glob("part-*"))
    )


def batch(file, out, *options):
    return main(["batch", str(file), *GINKGO, "-o", str(out), *options])


@pytest.fixture
def jets(tmp_path):
    path = tmp_path / "jets.parquet"
    assert main(f"simulate jets --number 30 --leaves 2:7 --seed 1 -q -o {path}".split()) == 0
    return path


def spoil(path):
    """Give some jets of a file errors."""
    table = pq.read_table(path, columns=["particles"])
    jets = table["particles"].to_pylist()
    jets[3][0]["E"] = float("nan")
    jets[5][1]["E"] = -1.0
    jets[7] = []
    jets[9][0]["px"] = 1e9
    pq.write_table(pa.table({"particles": pa.array(jets, table.schema.field(0).type)}), path)


# ---- simulate ---------------------------------------------------------------------------------


def test_simulate(tmp_path, capsys):
    path = tmp_path / "jets.parquet"
    command = "simulate jets --number 50 --leaves 5:10 --seed 1 -o"
    assert main([*command.split(), str(path)]) == 0
    out = only_line(capsys.readouterr().out)
    assert out == f"50 jets of 5 to 10 leaves written to {path}"
    found, wanted = Jets.from_parquet(path), ginkgo(50, leaves=(5, 10), rng=1)
    assert np.array_equal(found.momenta, wanted.momenta)
    assert found.newicks() == wanted.newicks()


def test_simulate_with_every_option(tmp_path, capsys):
    path = tmp_path / "jets.parquet"
    options = "--preset W --lam 2 --lam-root 2.5 --t-cut 20 --mass 50 --momentum 300 --leaves 4"
    assert main(f"simulate jets --number 3 --seed 2 {options} -q -o {path}".split()) == 0
    assert capsys.readouterr().out == ""
    rates = {"lam": 2.0, "lam_root": 2.5, "t_cut": 20.0, "mass": 50.0, "momentum": 300.0}
    wanted = ginkgo(3, "w", leaves=4, rng=2, **rates)
    assert np.array_equal(Jets.from_parquet(path).momenta, wanted.momenta)


def test_simulate_nothing(tmp_path, capsys):
    path = tmp_path / "jets.parquet"
    assert main(["simulate", "jets", "--number", "0", "-o", str(path)]) == 0
    assert capsys.readouterr().out == f"0 jets written to {path}\n"
    assert batch(path, tmp_path / "out") == 0
    assert read(tmp_path / "out").num_rows == 0


def test_rates_and_more_answers(jets, tmp_path, capsys):
    """A rate by number or by column; several files; more columns."""
    table = pq.read_table(jets)
    rates = tmp_path / "rates.parquet"
    pq.write_table(table.append_column("rate", pa.array(np.linspace(1, 2, 30))), rates)
    out = tmp_path / "out"
    command = ["batch", str(rates), str(rates), "--t-cut", "16", "--lam", "rate", "-o", str(out)]
    more = ["--clusters", "0.2", "--samples", "5", "--seed", "1", "--heights", "--count-trees"]
    assert main([*command, *more]) == 0
    assert "60 jets" in capsys.readouterr().out
    options = {"lam": np.tile(np.linspace(1, 2, 30), 2), "t_cut": 16.0, "clusters": 0.2, "seed": 1}
    given = pa.concat_tables([table, table])
    wanted = hct.infer_many(given, "ginkgo", samples=5, heights=True, **options)
    assert read(out) == wanted.to_arrow()
    assert main([*command, *more, "--lam-root", "no"]) == 1
    said = capsys.readouterr().err
    assert "no column 'no' with --lam-root; it has" in said
    assert "lam_root, t_cut" in said  # names of columns stay


@pytest.mark.parametrize("command", ["simulate", "simulate --help", "simulate jets --help"])
def test_help(command, capsys):
    assert main(command.split()) == 0
    assert "jets" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ("", 2, "--output"),
        ("-o a --leaves 5-10", 2, "a range such as 5:10; got '5-10'"),
        ("-o a --leaves 10:5", 1, "put the smaller number first"),
        ("-o a --number -1", 2, "--number"),
        ("-o a --number many", 2, "--number"),
        ("-o a --preset z", 2, "--preset"),
        ("-o a --t-cut 0", 1, "--t-cut must be a finite number and positive"),
        ("-o no/such/a --number 3", 1, "no folder no/such to write a into"),
        ("-o . --number 3", 1, ". is a folder"),
    ],
)
def test_wrong_simulations(options, code, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["simulate", "jets", *options.split()]) == code
    assert message in only_line(capsys.readouterr().err)
    assert not list(tmp_path.iterdir())


# ---- batch ------------------------------------------------------------------------------------


def test_batch(jets, tmp_path, capsys):
    out = tmp_path / "results"
    options = ["--entropy", "--seconds", "--true-trees", "tree", "--lam-root", "2.0"]
    assert batch(jets, out, *options) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    line = only_line(captured.out)
    assert line.startswith("30 jets (")
    assert line.endswith(f" s): {out}")
    found = read(out).to_pylist()
    for row, jet in zip(found, Jets.from_parquet(jets), strict=True):
        post = hct.infer(hct.Ginkgo(jet.momenta, 1.5, 16.0, 2.0), threads=1)
        assert row["log_partition"] == pytest.approx(post.log_partition, rel=1e-12)
        assert row["entropy"] == pytest.approx(post.entropy, rel=1e-12, abs=1e-12)
        weight = post.potential.log_weight(jet.tree)
        assert row["true_log_weight"] == pytest.approx(weight, rel=1e-12)
        assert row["map_tree"] == post.map_tree.to_newick()
        assert row["seconds"] > 0


def test_batch_of_jetmass(jets, tmp_path, monkeypatch):
    monkeypatch.setattr("hctrellis.batch.lanes.MOST_LEAVES", 0)  # no kernels for batches
    out = tmp_path / "results"
    command = ["batch", str(jets), "--potential", "jetmass", "--lam", "2", "-o", str(out), "-q"]
    assert main(command) == 0
    wanted = hct.infer_many(jets, "jetmass", lam=2.0).to_arrow()
    assert read(out) == wanted


def test_batch_of_four_columns(tmp_path):
    given = [momenta(n, seed) for seed, n in enumerate((3, 5, 4))]
    names = ("energy", "px", "py", "pz")
    columns = {name: [jet[:, i].tolist() for jet in given] for i, name in enumerate(names)}
    pq.write_table(pa.table(columns), tmp_path / "jets.parquet")
    assert batch(tmp_path / "jets.parquet", tmp_path / "out", "--t-cut", "0.5") == 0
    found = read(tmp_path / "out")["log_partition"].to_pylist()
    wanted = [hct.infer(hct.Ginkgo(jet, 1.5, 0.5)).log_partition for jet in given]
    assert found == pytest.approx(wanted, rel=1e-12)


def test_column_and_on_shell(tmp_path, capsys):
    """Which column has the momenta is said, and so is what was repaired."""
    path = tmp_path / "jets.parquet"
    off = momenta(4)
    off[0, 0] *= 1 - 1e-6
    names = ("E", "px", "py", "pz")
    first, second = (
        [[dict(zip(names, p, strict=True)) for p in jet.tolist()]] for jet in (off, momenta(5))
    )
    pq.write_table(pa.table({"first": first, "second": second}), path)
    assert batch(path, tmp_path / "out") == 1
    assert "several columns (first or second); say which" in only_line(capsys.readouterr().err)
    assert batch(path, tmp_path / "one", "--column", "first") == 0
    assert "1 jet, 1 with space-like particles put on" in only_line(capsys.readouterr().out)
    assert read(tmp_path / "one")["n_leaves"].to_pylist() == [4]
    assert batch(path, tmp_path / "two", "--column", "first", "--on-shell", "never") == 3
    assert "on_shell=False was asked for" in only_line(capsys.readouterr().err)


def test_failures_have_an_exit_code(jets, tmp_path, capsys):
    spoil(jets)
    assert batch(jets, tmp_path / "results") == 3
    captured = capsys.readouterr()
    assert "30 jets, 4 failed (" in only_line(captured.out)
    line = only_line(captured.err)
    assert "4 of 30 jets failed, see the column error (jet 3: momenta has 1 entries that" in line
    assert "jet 5: particle 1 has a negative energy" in line
    assert line.endswith("; ...)")
    assert batch(jets, tmp_path / "results", "--quiet") == 3  # nothing is left to do
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "4 of 30 jets failed" in only_line(captured.err)


def test_jets_without_a_tree(jets, tmp_path, capsys):
    assert batch(jets, tmp_path / "results", "--t-cut", "1e9") == 0
    assert "30 jets, 30 without any possible tree (" in only_line(capsys.readouterr().out)


def test_quiet(jets, tmp_path, capsys):
    assert batch(jets, tmp_path / "results", "--quiet") == 0
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_other_settings_and_overwrite(jets, tmp_path, capsys):
    out = tmp_path / "results"
    assert batch(jets, out) == 0
    assert batch(jets, out, "--lam", "2") == 1
    line = only_line(capsys.readouterr().err)
    assert "results of another run (lam was 1.5, now 2.0)" in line
    assert "--overwrite" in line
    assert batch(jets, out, "--entropy") == 1
    assert "another run (columns now with entropy)" in only_line(capsys.readouterr().err)
    assert batch(jets, out, "--lam", "2", "--overwrite") == 0
    assert json.loads((out / "_manifest.json").read_text())["settings"]["lam"] == 2.0
    assert read(out) == hct.infer_many(jets, "ginkgo", lam=2.0, t_cut=16.0).to_arrow()


@pytest.mark.parametrize("scheduler", ["serial", "threads", "processes"])
def test_schedulers(scheduler, jets, tmp_path):
    options = ["--scheduler", scheduler, "--chunk-size", "7"]
    options += [] if scheduler == "serial" else ["--workers", "2"]
    assert batch(jets, tmp_path / "results", *options) == 0
    assert (
        read(tmp_path / "results") == hct.infer_many(jets, "ginkgo", lam=1.5, t_cut=16).to_arrow()
    )


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("batch", 2, "FILE"),
        ("batch jets.parquet", 2, "--output"),
        ("batch jets.parquet -o out", 2, "--lam"),
        ("batch jets.parquet -o out --lam 1.5", 2, "ginkgo needs the threshold --t-cut"),
        ("batch jets.parquet -o out --lam x --t-cut 16", 1, "no column 'x' with lam"),
        ("batch jets.parquet -o out --lam -1 --t-cut 16", 1, "lam must be a finite number"),
        ("batch jets.parquet -o out --lam 1 --t-cut 16 --potential foo", 2, "--potential"),
        ("batch jets.parquet -o out --lam 1 --t-cut 16 --potential jetmass", 2, "only one rate"),
        ("batch jets.parquet -o out --lam 1 --t-cut 16 --chunk-size 0", 2, "--chunk-size"),
        ("batch jets.parquet -o out --lam 1 --t-cut 16 --scheduler foo", 1, "got 'foo'"),
        ("batch jets.parquet -o out --lam 1 --t-cut 16 --true-trees x", 1, "no column 'x'"),
        ("batch jets.parquet -o out --lam 1 --t-cut 16 --true-trees lam", 1, "Newick"),
        ("batch jets.parquet -o jets.parquet --lam 1 --t-cut 16", 1, "a file is in its place"),
        ("batch none.parquet -o out --lam 1 --t-cut 16", 1, "there is no file none.parquet"),
        ("batch empty -o out --lam 1 --t-cut 16", 1, "empty is not a Parquet file"),
        ("batch other.parquet -o out --lam 1 --t-cut 16", 1, "found the columns a, b"),
        ("batch bare -o out --lam 1 --t-cut 16", 1, "is a folder without Parquet or ROOT files"),
    ],
)
def test_wrong_batches(command, code, message, jets, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").touch()
    (tmp_path / "bare").mkdir()
    pq.write_table(pa.table({"a": [1], "b": ["x"]}), tmp_path / "other.parquet")
    assert main(command.split()) == code
    captured = capsys.readouterr()
    assert message in only_line(captured.err)
    assert captured.out == ""
    assert not (tmp_path / "out").exists()


# ---- runs that are stopped --------------------------------------------------------------------


@pytest.fixture
def long_run(tmp_path):
    """The file and the folder of a run that takes some seconds, and the process."""
    path, out = tmp_path / "many.parquet", tmp_path / "results"
    ginkgo(400, leaves=(8, 10), rng=4).to_parquet(path)
    command = [sys.executable, "-m", "hctrellis", "batch", str(path), *GINKGO, "-o", str(out)]
    process = subprocess.Popen(
        [*command, "--chunk-size", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until = time.monotonic() + 60
    while len(list(out.glob("part-*"))) < 3 and process.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.002)
    yield path, out, process
    process.kill()
    process.communicate()


def assert_resumes(path, out):
    """Whole parts only; the rest is computed, those that were there are kept."""
    parts = {part: part.stat().st_mtime_ns for part in out.glob("part-*")}
    assert 3 <= len(parts) < 400
    assert all(pq.read_table(part).num_rows == 1 for part in parts)
    assert batch(path, out, "--chunk-size", "1") == 0
    assert {part: part.stat().st_mtime_ns for part in parts} == parts
    assert not list(out.glob(".*"))
    wanted = hct.infer_many(path, "ginkgo", lam=1.5, t_cut=16, scheduler="serial").to_arrow()
    assert read(out) == wanted


def test_killed_run_resumes(long_run):
    path, out, process = long_run
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert_resumes(path, out)


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C is another thing on Windows")
def test_interrupted_run_resumes(long_run):
    path, out, process = long_run
    os.killpg(process.pid, signal.SIGINT)
    printed, complaint = process.communicate()
    assert process.returncode == 130
    assert printed == ""
    line = only_line(complaint)
    assert "of 400 jets are done, and the same command continues from there" in line
    assert_resumes(path, out)


def test_interrupt_names_overwrite(jets, tmp_path, monkeypatch, capsys):
    def stop(*args, progress, **options):
        progress(7, 30)
        raise KeyboardInterrupt

    monkeypatch.setattr("hctrellis.cli.batch.infer_many", stop)
    assert batch(jets, tmp_path / "results", "--overwrite") == 130
    line = only_line(capsys.readouterr().err)
    assert "7 of 30 jets are done, and the same command without --overwrite continues" in line


def test_two_runs_at_once(long_run, capsys):
    path, out, process = long_run
    assert batch(path, out, "--chunk-size", "1") == 1
    assert f"another process (number {process.pid}) is writing" in only_line(
        capsys.readouterr().err
    )
    assert process.poll() is None


def test_progress_only_in_a_terminal(jets, tmp_path):
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "hctrellis", "batch", str(jets), *GINKGO]
    command += ["-o", str(tmp_path / "results"), "--chunk-size", "2"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, text=True, check=True)
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 10_000):
            shown += piece
    except OSError:  # how the end looks on Linux
        pass
    os.close(ours)
    assert b"30/30" in shown
    assert only_line(done.stdout).startswith("30 jets (")


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams(closed, tmp_path):
    """Nobody listens: the work is done all the same."""
    hct.simulate.ginkgo(3, n_leaves=4, rng=1).to_parquet(tmp_path / "jets.parquet")
    command = f"{sys.executable} -m hctrellis batch jets.parquet -o out --lam 1.5 --t-cut 16"
    variables = surroundings()
    done = subprocess.run(f"{command} {closed}", shell=True, cwd=tmp_path, env=variables)
    assert done.returncode == 0
    assert pq.read_table(tmp_path / "out").num_rows == 3


def test_large_jets_and_non_stop(tmp_path, capsys):
    jets = hct.simulate.ginkgo(3, n_leaves=(6, 9), rng=1)
    jets.to_parquet(tmp_path / "jets.parquet")
    out = tmp_path / "out"
    arguments = ["batch", str(tmp_path / "jets.parquet"), "-o", str(out), "--lam", "1.5"]
    arguments += ["--t-cut", "16", "-q", "--overwrite", "--scheduler", "serial"]
    assert main([*arguments, "--non-stop"]) == 0
    found = pq.read_table(out)["log_partition"].to_pylist()
    models = [hct.Ginkgo(jet.momenta, 1.5, 16.0, non_stop=True) for jet in jets]
    assert found == pytest.approx([hct.infer(model).log_partition for model in models])
    assert main([*arguments, "--max-leaves", "5"]) == 0
    assert pq.read_table(out)["method"].to_pylist() == ["sparse"] * 3
    assert main([*arguments, "--max-leaves", "5", "--beyond", "error"]) == 3
    assert "at most 5 are solved exactly" in capsys.readouterr().err
