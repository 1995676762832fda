"""Too little memory, Ctrl-C, a full disk, two processes at once: clear ends, and nothing lost."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow.parquet as pq
import pytest

import hctrellis as hct
from children import run, start, told
from hctrellis.cli import main
from hctrellis.simulate import ginkgo
from hctrellis.support import memory
from hctrellis.support.files import replaced, write_text

SOON = 0.5  # seconds within which Ctrl-C is to end everything
TRIES = 3  # of each, since the machine may be busy
PATIENCE = 10  # seconds until helpers of a process that has ended are gone
GINKGO = ["--potential", "ginkgo", "--lam", "1.5", "--t-cut", "16"]

unix = pytest.mark.skipif(os.name == "nt", reason="Ctrl-C and limits are other things on Windows")
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits address space so")


# ---- memory -----------------------------------------------------------------------------------

LIMITED = """
import json, resource, warnings
import numpy as np
import hctrellis as hct
from hctrellis.cli import main

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)


def table(n):
    return rng.normal(size=(n, 4))


def make(values, beta):
    return hct.Linkage(values, "average", beta)


def many(n):
    (message,) = hct.infer_many([make(table(n), 1.0)], scheduler="serial").reasons.values()
    raise MemoryError(message)


small = hct.infer(make(table(9), 1.0))
hct.greedy(make(table(9), 1.0))
small.sample(2), small.top_trees(2), hct.simulate.ginkgo(2, rng=1)
hct.infer_many([make(table(9), 1.0)], scheduler="serial").reasons
growth = hct.grow(make(table(30), 1.0), max_clusters=100, rng=0, restarts=1, max_rounds=1)
CASES = {
    "full trellis": lambda: hct.infer(make(table(22), 1.0)),
    "coclustering": lambda: hct.infer(make(table(22), 1.0)).coclustering(3),
    "choice of beta": lambda: hct.choose_beta(make, table(10_000)),
    "grow": lambda: hct.grow(
        make(table(30), 1.0), max_clusters=10**8, rng=0, restarts=1, time_limit=1
    ),
    "infer_many": lambda: many(22),
    "samples": lambda: small.sample(10**12),
    "some samples": lambda: small.sample(10**6),
    "top trees": lambda: small.top_trees(10**12),
    "bootstrap": lambda: hct.bootstrap_support(table(10**5), n_resamples=10**9),
    "linkage": lambda: make(table(10**5), 1.0),
    "greedy": lambda: hct.greedy(hct.BetaSplitting(4000)),
    "beam": lambda: hct.beam_search(make(table(200), 1.0), width=10**5),
    "jets": lambda: hct.simulate.ginkgo(10**9, rng=1),
}
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (100 << 20),) * 2)
for name, call in CASES.items():
    try:
        call()
        print(json.dumps([name, "no error"]))
    except MemoryError as error:
        print(json.dumps([name, str(error)]))
assert small.sample(3).clusters.shape == (3, 8)  # and all goes on
"""
CASES = ["full trellis", "coclustering", "choice of beta", "grow", "infer_many", "samples"]
CASES += ["some samples", "top trees", "bootstrap", "linkage", "greedy", "beam", "jets"]


@pytest.fixture(scope="module")
def refusals():
    return told(run(LIMITED))


@linux
@pytest.mark.parametrize("name", CASES)
def test_too_little_memory(name, refusals):
    """One sentence with what is needed, what there is, and what to do instead."""
    message = refusals[name]
    assert "of memory, and" in message and "are available" in message and "; use " in message
    assert "\n" not in message


LIMITED_COMMAND = """
import resource, sys
import numpy as np
import hctrellis as hct
import hctrellis.cli.infer, hctrellis.cli.simulate
from hctrellis.cli import main
hct.infer(hct.Linkage(np.random.default_rng(0).normal(size=(5, 3)))).map_tree
hct.simulate.ginkgo(2, rng=1)
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (100 << 20),) * 2)
sys.exit(main(sys.argv[1:]))
"""


@linux
@pytest.mark.parametrize("command", ["infer", "simulate"])
def test_command_with_too_little_memory(command, tmp_path):
    items = tmp_path / "items.csv"
    rows = np.random.default_rng(0).normal(size=(22, 3))
    np.savetxt(items, rows, delimiter=",", header="a,b,c", comments="")
    arguments = {
        "infer": ["infer", items, "--beta", "1"],
        "simulate": ["simulate", "jets", "--number", 10**9, "-o", tmp_path / "jets.parquet"],
    }
    with start(LIMITED_COMMAND, *arguments[command]) as process:
        printed, complaint = process.communicate()
    assert (process.returncode, printed) == (1, "")
    (line,) = complaint.splitlines()
    assert line.startswith("hctrellis: ") and "of memory, and" in line
    assert not (tmp_path / "jets.parquet").exists()


def fake_groups(tmp_path, monkeypatch, lines, files):
    """Stand-ins for the files of control groups."""
    monkeypatch.setattr(memory, "OWN_CGROUPS", tmp_path / "own")
    monkeypatch.setattr(memory, "CGROUPS", tmp_path / "groups")
    (tmp_path / "own").write_text("".join(f"{line}\n" for line in lines))
    for name, text in files.items():
        path = tmp_path / "groups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


GROUPS = {
    "none": ([], {}, None),
    "no limit": (["0::/"], {"memory.max": "max\n", "memory.current": "5\n"}, None),
    "2": (["0::/"], {"memory.max": "9000\n", "memory.current": "2000\n"}, 7000),
    "2, file copies": (
        ["0::/"],
        {
            "memory.max": "9000",
            "memory.current": "2000",
            "memory.stat": "anon 7\ninactive_file 500\n",
        },
        7500,
    ),
    "2, nested": (
        ["0::/user/job"],
        {
            "user/job/memory.max": "max",
            "user/job/memory.current": "1",
            "user/memory.max": "800",
            "user/memory.current": "100",
        },
        700,
    ),
    "1": (
        ["4:memory:/"],
        {"memory/memory.limit_in_bytes": "600", "memory/memory.usage_in_bytes": "100"},
        500,
    ),
    "1, nested": (
        ["5:cpu:/other", "4:hugetlb,memory:/a/b"],
        {
            "memory/memory.limit_in_bytes": "600",
            "memory/memory.usage_in_bytes": "100",
            "memory/a/b/memory.limit_in_bytes": "300",
            "memory/a/b/memory.usage_in_bytes": "250",
            "memory/a/b/memory.stat": "total_inactive_file 10\n",
        },
        60,
    ),
    "in a container": (
        ["4:memory:/not/to/be/seen"],
        {"memory/memory.limit_in_bytes": "600", "memory/memory.usage_in_bytes": "700"},
        0,
    ),
}


@pytest.mark.parametrize("name", GROUPS)
def test_control_groups(name, tmp_path, monkeypatch):
    lines, files, left = GROUPS[name]
    fake_groups(tmp_path, monkeypatch, lines, files)
    without = 1 << 40
    monkeypatch.setattr(memory, "_machine", lambda: without)
    monkeypatch.setattr(memory, "_limits", list)
    assert memory.available_memory() == (without if left is None else left)


def test_control_group_stops_inference(tmp_path, monkeypatch):
    files = {"job/memory.max": "9000000", "job/memory.current": "2000000"}
    fake_groups(tmp_path, monkeypatch, ["0::/job"], files)
    with pytest.raises(hct.TooLargeError, match=r"about 41.9 MB of memory, and 7 MB are available"):
        hct.infer(hct.BetaSplitting(20))


# ---- Ctrl-C -----------------------------------------------------------------------------------

INTERRUPTED = """
import json, os, signal, sys, threading, time, warnings
import numpy as np
import hctrellis as hct
from hctrellis.cli import main

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
TRIES = 3


def table(n, d=4):
    return rng.normal(size=(n, d))


def make(values, beta=1.0):
    return hct.Linkage(values, "average", beta)


def interrupted(call, delay):
    sent = []

    def send():
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(delay, send)
    timer.start()
    try:
        end = call()
    except KeyboardInterrupt:
        end = "interrupted"
    took = time.perf_counter() - sent[0] if sent else None
    timer.cancel()
    timer.join()
    return end, took


def left_over(before):
    # a thread that is about to end has a second for it
    patience = time.perf_counter() + 1
    while threading.active_count() > before and time.perf_counter() < patience:
        time.sleep(0.01)
    return threading.active_count() - before


def report(name, call, first, delay=0.2, after=None):
    first()
    before = threading.active_count()
    for _ in range(TRIES):
        end, took = interrupted(call, delay)
        if took is not None and took < 0.5:
            break
    more = left_over(before)
    (after or first)()  # the next call works
    print(json.dumps([name, {"end": end, "seconds": took, "threads": more}]), flush=True)
"""

CALLS = """
post = hct.infer(make(table(16)))
jets = hct.simulate.ginkgo(100, leaves=(5, 7), rng=1)
big = [make(table(19)) for _ in range(6)]
CASES = {
    "infer": (lambda: hct.infer(make(table(21))), lambda: hct.infer(make(table(9)))),
    "infer, one thread": (
        lambda: hct.infer(make(table(21)), threads=1),
        lambda: hct.infer(make(table(9)), threads=1),
    ),
    "marginals": (
        lambda: [post._solution.around() for _ in range(10_000)],
        lambda: post.coclustering(3),
    ),
    "sample": (lambda: [post.sample(10**6) for _ in range(20)], lambda: post.sample(10)),
    "top trees": (lambda: post.top_trees(10**6), lambda: post.top_trees(2)),
    "grow": (
        lambda: hct.grow(make(table(60)), rng=0, restarts=0),
        lambda: hct.grow(make(table(9)), rng=0, max_rounds=1),
    ),
    "beam": (lambda: hct.beam_search(make(table(100))), lambda: hct.beam_search(make(table(6)))),
    "local search": (
        lambda: hct.local_search(make(table(200)), rng=0, restarts=10**6),
        lambda: hct.local_search(make(table(6)), rng=0),
    ),
    "simulate": (
        lambda: hct.simulate.ginkgo(10**7, leaves=(5, 10), rng=1),
        lambda: hct.simulate.ginkgo(3, rng=1),
    ),
    "infer_many, threads": (
        lambda: hct.infer_many(big, scheduler="threads", workers=2),
        lambda: hct.infer_many(jets, scheduler="threads", workers=2),
    ),
    "bootstrap": (
        lambda: hct.bootstrap_support(table(50, 40), n_resamples=10**6),
        lambda: hct.bootstrap_support(table(5, 40), n_resamples=10),
    ),
    "choice of beta": (
        lambda: hct.choose_beta(make, table(16, 100)),
        lambda: hct.choose_beta(make, table(5, 20)),
    ),
}
for name, (call, first) in CASES.items():
    report(name, call, first)
"""
NAMES = ["infer", "infer, one thread", "marginals", "sample", "top trees", "grow", "beam"]
NAMES += ["local search", "simulate", "infer_many, threads", "bootstrap", "choice of beta"]


@pytest.fixture(scope="module")
def ends():
    return told(run(INTERRUPTED + CALLS))


@unix
@pytest.mark.parametrize("name", NAMES)
def test_ctrl_c(name, ends):
    """KeyboardInterrupt, soon, no thread left over, and the next call works."""
    found = ends[name]
    assert found["end"] == "interrupted"
    assert found["seconds"] < SOON
    assert found["threads"] <= 0  # one of before may have ended


COMMANDS = """
import contextlib, io
from pathlib import Path

folder = Path(sys.argv[1])
np.savetxt(folder / "small.csv", table(6), delimiter=",", header="a,b,c,d", comments="")
np.savetxt(folder / "large.csv", table(22), delimiter=",", header="a,b,c,d", comments="")
hct.simulate.ginkgo(3000, leaves=(9, 10), rng=1).to_parquet(folder / "jets.parquet")
hct.simulate.ginkgo(3, leaves=(9, 10), rng=1).to_parquet(folder / "few.parquet")
old = folder / "old"
old.mkdir()
for name in ("tree.nwk", "jets.parquet", "report.html"):
    (old / name).write_text("old")
before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
ginkgo = ["--potential", "ginkgo", "--lam", "1.5", "--t-cut", "16"]


def commands(size):
    large = size == "large"
    out = old if large else folder / "first"
    out.mkdir(exist_ok=True)
    return {
        "infer": ["infer", folder / f"{size}.csv", "--beta", 1, "--newick", out / "tree.nwk"],
        "simulate": [
            *("simulate", "jets", "--number", 10**7 if large else 2, "--leaves", "5:10"),
            *("-o", out / "jets.parquet"),
        ],
        "batch": [
            *("batch", folder / ("jets.parquet" if large else "few.parquet"), *ginkgo),
            *("-o", folder / f"results {size} {time.time()}", "--chunk-size", 5),
        ],
        "demo": ["demo", "--output", out],
        "reproduce": [
            *("reproduce", "table1", "-o", folder / f"paper {size}"),
            *([] if large else ["--small"]),  # which compiles all that is interrupted later
        ],
    }


def call(arguments):
    said = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        code = main([str(argument) for argument in arguments])
    return code, said.getvalue()


for name in commands("small"):
    report(
        name,
        lambda: call(commands("large")[name]),
        lambda: call(commands("small")[name]),
        after=lambda: call(commands("small")["infer" if name == "demo" else name]),
    )
changed = [
    str(path.relative_to(folder))
    for path in [*old.iterdir(), *folder.glob("paper large/*")]
    if before.get(path) != path.stat().st_mtime_ns and not path.is_dir()
]
print(json.dumps(["changed", changed]))
"""


@pytest.fixture(scope="module")
def command_ends(tmp_path_factory):
    return told(run(INTERRUPTED + COMMANDS, tmp_path_factory.mktemp("commands")))


@unix
@pytest.mark.parametrize("name", ["infer", "simulate", "batch", "demo", "reproduce"])
def test_ctrl_c_of_commands(name, command_ends):
    found = command_ends[name]
    code, said = found["end"]
    assert code == 130
    *done, line = said.splitlines()
    assert all(text.startswith("[") for text in done)  # parts of `reproduce` that had ended
    assert line.startswith("hctrellis: interrupted")
    assert found["seconds"] < SOON
    assert found["threads"] <= 0  # one of before may have ended


@unix
def test_ctrl_c_leaves_old_files(command_ends):
    assert command_ends["changed"] == []


@unix
def test_ctrl_c_ends_the_process(tmp_path):
    """A real command on 22 items, with a real Ctrl-C for the whole group of processes."""
    rows = np.random.default_rng(0).normal(size=(22, 3))
    np.savetxt(tmp_path / "items.csv", rows, delimiter=",", header="a,b,c", comments="")
    command = ["infer", tmp_path / "items.csv", "--beta", "1", "--json", tmp_path / "out.json"]
    code = "import sys; from hctrellis.cli import command; sys.exit(command())"
    seconds = []
    while len(seconds) < TRIES and min(seconds, default=SOON) >= SOON:
        process = start(code, *command)
        watched = psutil.Process(process.pid)
        while watched.num_threads() < 2 or watched.cpu_times().user < 2.5:  # in the middle
            assert process.poll() is None
            time.sleep(0.05)
        began = time.perf_counter()
        os.killpg(process.pid, signal.SIGINT)
        _, complaint = process.communicate()
        seconds.append(time.perf_counter() - began)
        assert (process.returncode, complaint) == (130, "hctrellis: interrupted\n")
        assert [path.name for path in tmp_path.iterdir()] == ["items.csv"]
    assert min(seconds) < SOON


PROCESSES = """
big = [make(table(19)) for _ in range(6)]
if sys.argv[1] == "processes":
    scheduler = "processes"
else:
    from distributed import Client, LocalCluster
    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
    )
    scheduler = Client(cluster)
report(
    "end",
    lambda: hct.infer_many(big, scheduler=scheduler),
    lambda: hct.infer_many([make(table(9))] * 4, scheduler=scheduler),
    delay=0.5,
)
if sys.argv[1] == "dask":
    scheduler.close()
    cluster.close()
"""


def group_is_alive(number):
    try:
        os.killpg(number, 0)
    except ProcessLookupError:
        return False
    return True


@unix
@pytest.mark.parametrize("scheduler", ["processes", "dask"])
def test_ctrl_c_of_many_processes(scheduler):
    if scheduler == "dask":
        pytest.importorskip("distributed")
    code = f"{INTERRUPTED}\nif __name__ == '__main__':\n" + "".join(
        f"    {line}\n" for line in PROCESSES.splitlines()
    )
    with start(code, scheduler) as process:
        printed, complaint = process.communicate()
        assert process.returncode == 0, complaint[-2000:]
    until = time.monotonic() + PATIENCE
    while group_is_alive(process.pid):
        assert time.monotonic() < until, "a process of the group is left"
        time.sleep(0.02)
    found = told(printed)["end"]
    assert found["end"] == "interrupted"
    assert found["seconds"] < SOON


# ---- a full disk ------------------------------------------------------------------------------

FULL = """
import resource, sys
import hctrellis.cli.infer, hctrellis.cli.batch, hctrellis.report
from hctrellis.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
sys.exit(main(sys.argv[2:]))
"""
OUTPUTS = ["newick", "linkage", "samples", "json", "report"]


@pytest.fixture(scope="module")
def items(tmp_path_factory):
    path = tmp_path_factory.mktemp("items") / "items.csv"
    rows = np.random.default_rng(0).normal(size=(6, 3))
    np.savetxt(path, rows, delimiter=",", header="a,b,c", comments="")
    return path


def failed(size, *arguments):
    """The complaint of a command that may not write files larger than this."""
    with start(FULL, size, *arguments) as process:
        _, complaint = process.communicate()
    assert process.returncode == 1, complaint
    (line,) = complaint.splitlines()
    return line


@linux
def test_full_disk_leaves_old_outputs(items, tmp_path):
    """Each in turn is the first that cannot be written."""
    for output in ("newick", "report"):
        path = tmp_path / output
        path.write_text("old")
        line = failed(10, "infer", items, "--beta", "1", "-q", f"--{output}", path)
        assert f"{path} cannot be written: File too large" in line
        assert path.read_text() == "old"
        assert [found.name for found in tmp_path.iterdir()] == [output]
        path.unlink()


@linux
@pytest.mark.parametrize("output", OUTPUTS)
def test_full_device(output, items, capsys):
    """A device is written to as it is, and stays one."""
    code = main(["infer", str(items), "--beta", "1", "-q", f"--{output}", "/dev/full"])
    assert code == 1
    assert "/dev/full cannot be written: No space left on device" in capsys.readouterr().err
    assert Path("/dev/full").is_char_device()


@linux
def test_full_disk_in_a_batch(tmp_path):
    """Whole parts are kept, and the run resumes when there is room."""
    jets, out = tmp_path / "jets.parquet", tmp_path / "results"
    data = ginkgo(40, leaves=5, rng=1)
    data.to_parquet(jets)
    command = ["batch", str(jets), *GINKGO, "-o", str(out), "-q", "--chunk-size", "10"]
    assert main(["batch", str(jets), *GINKGO, "-o", str(out), "-q", "--chunk-size", "10"]) == 0
    parts = sorted(out.glob("part-*"))
    wanted = [pq.read_table(part) for part in parts]
    for part in parts[2:]:
        part.unlink()
    kept = {part: part.stat().st_mtime_ns for part in parts[:2]}
    line = failed(100, *command)
    assert f"{parts[2]} cannot be written" in line or f"{parts[3]} cannot be written" in line
    assert {part: part.stat().st_mtime_ns for part in out.glob("part-*")} == kept
    assert not list(out.glob(".*"))
    assert main(command) == 0
    assert [pq.read_table(part) for part in parts] == wanted
    assert {part: part.stat().st_mtime_ns for part in kept} == kept


SAVING = """
import resource, sys
import hctrellis as hct
import pyarrow.parquet
trellis = hct.SparseTrellis.from_trees([hct.Tree([[0, 1], [2, 3]])])
jets = hct.simulate.ginkgo(3, rng=1)
result = hct.infer_many(jets)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
for write in (trellis.save, jets.to_parquet, result.write_parquet):
    try:
        write(sys.argv[1])
    except OSError as error:
        print(error)
"""


@linux
def test_full_disk_leaves_old_data(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    lines = run(SAVING, path).splitlines()
    assert len(lines) == 3
    assert all(f"{path} cannot be written: " in line for line in lines)
    assert path.read_text() == "old"
    assert [found.name for found in tmp_path.iterdir()] == ["file"]


def test_full_disk(tmp_path, capsys):
    """A disk of one megabyte."""
    ginkgo(5, leaves=5, rng=1).to_parquet(tmp_path / "jets.parquet")
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("a small disk cannot be mounted here")
    try:
        file = disk / "file"
        write_text(file, "old")
        with pytest.raises(OSError, match="file cannot be written: No space left on device"):
            write_text(file, "x" * 2_000_000)
        assert file.read_text() == "old"
        assert [path.name for path in disk.iterdir()] == ["file"]
        with pytest.raises(OSError, match="No space left"):
            (disk / "fill").write_bytes(bytes(2_000_000))
        command = ["batch", tmp_path / "jets.parquet", *GINKGO, "-o", disk / "results", "-q"]
        assert main([*map(str, command)]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert "cannot be written: No space left on device" in line
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_files_are_replaced_whole(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    with pytest.raises(KeyboardInterrupt), replaced(link) as half:
        half.write_text("half")
        raise KeyboardInterrupt
    assert target.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "target"]
    write_text(link, "new")
    assert (target.read_text(), link.is_symlink()) == ("new", True)


# ---- two processes ----------------------------------------------------------------------------


def test_two_batches_into_one_folder(tmp_path):
    """One is refused, or both are right; the folder is whole in any case."""
    jets, out = tmp_path / "jets.parquet", tmp_path / "results"
    data = ginkgo(200, leaves=(7, 9), rng=1)
    data.to_parquet(jets)
    code = "import sys; from hctrellis.cli import main; sys.exit(main(sys.argv[1:]))"
    command = ["batch", jets, *GINKGO, "-o", out, "-q", "--chunk-size", 5]
    processes = [start(code, *command) for _ in range(2)]
    said = [process.communicate()[1] for process in processes]
    codes = [process.returncode for process in processes]
    assert sorted(codes) in ([0, 0], [0, 1])
    for code, complaint in zip(codes, said, strict=True):
        assert ("is writing into" in complaint) == (code == 1)
    found = [pq.read_table(part) for part in sorted(out.glob("part-*"))]
    wanted = hct.infer_many(data, scheduler="serial").to_arrow()
    rows = [row for table in found for row in table.to_pylist()]
    assert rows == wanted.to_pylist()
    assert not list(out.glob(".*"))


CACHED = """
import json
import numpy as np
from hctrellis.kernels import lattice
sums = np.zeros(8)
lattice.add_pairs(np.arange(9.0).reshape(3, 3), sums)
print(json.dumps(["answer", sums.tolist()]))
"""


def test_two_processes_fill_one_cache(tmp_path):
    """Both compile at the same time into one empty folder, and a third reads what they wrote."""
    environment = {"NUMBA_CACHE_DIR": str(tmp_path)}
    processes = [start(CACHED, environment=environment) for _ in range(2)]
    answers = [told(process.communicate()[0])["answer"] for process in processes]
    answers.append(told(run(CACHED, environment=environment))["answer"])
    assert answers == [[0.0, 0.0, 4.0, 7.0, 8.0, 14.0, 19.0, 28.0]] * 3
    assert any(tmp_path.rglob("*.nbc"))
