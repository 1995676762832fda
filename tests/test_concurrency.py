"""Several threads, forks, event loops, notebooks, no compiler, no cache: the same answers."""

import ast
import asyncio
import json
import multiprocessing
import os
import shutil
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest

import hctrellis as hct
from children import SOURCE, run, told

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(11, 4))


# ---- threads ----------------------------------------------------------------------------------


def inferred(k):
    post = hct.infer(hct.Linkage(TABLE[: 8 + k % 3], "average", 2.0))
    return post.log_partition, post.map_tree, post.cluster_probability([0, 1])


def sampled(k):
    post = hct.infer(hct.Linkage(TABLE[:8], "ward", 2.0))
    return post.sample(50, rng=k).clusters.tolist()


@cache
def jets():
    return hct.simulate.ginkgo(30, leaves=(4, 7), rng=1)


def many(k):
    return hct.infer_many(jets(), scheduler=("serial", "threads")[k % 2]).to_arrow().to_pylist()


def grown(k):
    model = hct.Linkage(TABLE, "average", 2.0)
    growth = hct.grow(model, max_clusters=60, rng=k, restarts=20, max_rounds=2, time_limit=None)
    return hct.infer(model, trellis=growth).log_partition


def searched(k):
    model = hct.Linkage(TABLE, "average", 2.0)
    return hct.greedy(model), hct.beam_search(model, 5), hct.local_search(model, rng=k).tree


CALLS = [inferred, sampled, many, grown, searched]


def test_threads_agree_with_one():
    """All calls at once, from eight threads that begin together."""
    work = [(call, k) for k in range(4) for call in CALLS]
    serial = [call(k) for call, k in work]
    together = threading.Barrier(8, timeout=60)

    def run_one(i):
        if i < 8:
            together.wait()
        call, k = work[i]
        return call(k)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(run_one, range(len(work)))) == serial


def test_threads_share_a_posterior():
    """What is computed when first asked for is asked for by many threads."""
    wanted = hct.infer(hct.Linkage(TABLE, "average", 2.0))
    shared = hct.infer(hct.Linkage(TABLE, "average", 2.0))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda k: shared.cluster_probability([k % 5, 5]), range(40)))
        trees = list(pool.map(lambda k: shared.sample(5, rng=k).clusters.tolist(), range(8)))
    assert found == [wanted.cluster_probability([k % 5, 5]) for k in range(40)]
    assert trees == [wanted.sample(5, rng=k).clusters.tolist() for k in range(8)]


FRESH_BATCH = """
import json
import numpy as np
import hctrellis as hct

momenta = np.random.default_rng(1).normal(size=(12, 40, 4))
momenta[..., 0] = np.sqrt(1.0 + (momenta[..., 1:] ** 2).sum(axis=-1))
sizes = [8, 8, 14, 14, 40, 40] * 2  # each chunk wants other kernels; 40 particles are too many
jets = [jet[:n] for jet, n in zip(momenta, sizes)]
many = hct.infer_many(jets, "ginkgo", lam=1.5, t_cut=1.0, chunk_size=2, workers=4,
                      beyond="error")
errors = many.to_arrow()["error"].to_pylist()
print(json.dumps(["failed", [row for row, error in enumerate(errors) if error]]))
"""

FRESH_CALLS = """
import json, sys, threading
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import hctrellis as hct

table = np.random.default_rng(0).normal(size=(8, 3))
CALLS = {
    "infer": lambda: hct.infer(hct.Linkage(table, "average", 2.0)).log_partition,
    "prior": lambda: hct.infer(hct.BetaSplitting(6)).cluster_probability([0, 1]),
    "sample": lambda: len(hct.infer(hct.Dasgupta(np.corrcoef(table) + 1)).sample(3, rng=1)),
    "greedy": lambda: hct.greedy(hct.Linkage(table, "average", 2.0)).to_newick(),
    "beam search": lambda: hct.beam_search(hct.Linkage(table, "average", 2.0), 3)[0].to_newick(),
    "local search": lambda: hct.local_search(hct.Linkage(table), rng=1).log_weight,
    "simulate": lambda: len(hct.simulate.ginkgo(3, leaves=5, rng=1)),
    "from trees": lambda: hct.build.from_linkages(table).n_clusters,
}
together = threading.Barrier(len(CALLS))
sys.setswitchinterval(1e-5)  # seconds


def call(name):
    together.wait()  # nothing is loaded yet: all threads want different parts of Numba and SciPy
    return CALLS[name]()


with ThreadPoolExecutor(len(CALLS)) as pool:
    threaded = list(pool.map(call, CALLS))
print(json.dumps(["same", threaded == [CALLS[name]() for name in CALLS]]))
"""


def test_first_use_in_threads():
    """Different functions, kernels and sizes, each in a thread, before anything is loaded."""
    assert told(run(FRESH_BATCH))["failed"] == [4, 5, 10, 11]
    assert told(run(FRESH_CALLS))["same"]


LATE = ("numba", "scipy", "awkward")


def late_imports(path):
    """The imports inside functions of what may be imported by one thread at a time only."""
    tree = ast.parse(path.read_text())
    held = {
        line
        for block in ast.walk(tree)
        if isinstance(block, ast.With) and ast.unparse(block.items[0]) == "ONE_AT_A_TIME"
        for line in range(block.lineno, block.end_lineno + 1)
    }
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Import | ast.ImportFrom) and node.lineno not in held:
                    names = [getattr(node, "module", None) or node.names[0].name]
                    yield from (f"{path.name}:{node.lineno} {name}" for name in names)


def top_imports(path):
    """The packages that are imported with a module."""
    tree = ast.parse(path.read_text())
    inside = {
        node for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) for node in ast.walk(f)
    }
    names = [
        getattr(node, "module", None) or node.names[0].name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom) and node not in inside
    ]
    return {name.partition(".")[0] for name in names}


def test_one_door():
    """Numba is loaded by `kernels.door` alone, and SciPy and Awkward Array under a lock."""
    package = SOURCE / "hctrellis"
    loaders = [path.stem for path in package.rglob("*.py") if "numba" in top_imports(path)]
    assert loaders == ["door"]
    thin = {package / "plotting", package / "reproduce"}
    found = [
        place
        for path in package.rglob("*.py")
        if not thin & set(path.parents)
        for place in late_imports(path)
        if place.split()[1].startswith(LATE)
    ]
    assert found == []


# ---- processes --------------------------------------------------------------------------------

STARTED = """
import json, multiprocessing, sys, warnings
import numpy as np
import hctrellis as hct

warnings.simplefilter("ignore")  # of Python: forks of processes with threads
TABLE = np.random.default_rng(0).normal(size=(10, 4))


def answer(k):
    post = hct.infer(hct.Linkage(TABLE[: 7 + k], "average", 2.0))
    drawn = post.sample(3, rng=k).clusters.tolist()
    jets = hct.simulate.ginkgo(3, leaves=(4, 5), rng=k)
    many = hct.infer_many(jets, scheduler="threads", workers=2).to_arrow()
    return post.log_partition, drawn, many["log_partition"].to_pylist()


if __name__ == "__main__":
    method, before = sys.argv[1:]
    wanted = [answer(k) for k in range(3)] if before == "used before" else None
    with multiprocessing.get_context(method).Pool(2) as pool:
        found = pool.map(answer, range(3))
    assert found == (wanted or [answer(k) for k in range(3)])
    print(json.dumps(["same", True]))
"""


@pytest.mark.parametrize(
    ("method", "before"),
    [("fork", "used before"), ("fork", "not used before"), ("spawn", "used before")],
)
def test_other_processes(method, before, tmp_path):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system cannot start processes by {method}")
    script = tmp_path / "script.py"
    script.write_text(STARTED)
    code = "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], "
    if method == "fork":
        found = run(f"{code}run_name='__main__')", script, method, before)
    else:  # which reads the script again, so it must be a file
        found = run(f"import subprocess, sys; {SPAWNER}", script, method, before)
    assert told(found)["same"]


SPAWNER = "sys.exit(subprocess.run([sys.executable, *sys.argv[1:]]).returncode)"


# ---- settings of Numba ------------------------------------------------------------------------

REDUCED = """
import json, sys, warnings
import numpy as np
import hctrellis as hct

warnings.simplefilter("ignore")
table = np.random.default_rng(0).normal(size=(6, 3))
jet = hct.simulate.ginkgo(1, leaves=5, rng=1)[0]
MODELS = {
    "average": hct.Linkage(table[:5], "average", 2.0),
    "single": hct.Linkage(table[:4], "single", 2.0),
    "dasgupta": hct.Dasgupta(np.abs(np.corrcoef(table))),
    "ginkgo": jet.potential(),
}
for name, model in MODELS.items():
    post = hct.infer(model)
    found = {
        "log Z": post.log_partition,
        "tree": post.map_tree.to_newick(),
        "count": post.n_trees,
        "marginals": [post.cluster_probability([0, k]) for k in (1, 2, 3)],
        "samples": post.sample(4, rng=1).clusters.tolist(),
    }
    if name == "average":
        found["greedy"] = hct.greedy(model).to_newick()
        found["beam"] = hct.beam_search(model, 3)[0].to_newick()
        trees = [post.map_tree, hct.greedy(model), *post.sample(3, rng=2)]
        sparse = hct.SparseTrellis.from_trees(trees, splits="all")
        found["sparse"] = hct.infer(model, trellis=sparse).log_partition
        found["local search"] = hct.local_search(model, rng=1, restarts=3).log_weight
        found["given"] = post.given(contains=[[0, 1]]).n_trees
    print(json.dumps([name, found]))
many = hct.infer_many([MODELS["average"], MODELS["dasgupta"]], scheduler="serial", entropy=True)
print(json.dumps(["many", many.to_arrow().drop_columns(["map_tree"]).to_pydict()], default=int))
"""


@pytest.fixture(scope="module")
def compiled():
    return told(run(REDUCED))


def assert_same(found, wanted):
    """Equal, numbers up to rounding."""
    assert type(found) is type(wanted)
    if isinstance(found, dict):
        assert found.keys() == wanted.keys()
        for name in found:
            assert_same(found[name], wanted[name])
    elif isinstance(found, list):
        assert len(found) == len(wanted)
        for pair in zip(found, wanted, strict=True):
            assert_same(*pair)
    else:
        assert found == (pytest.approx(wanted, rel=1e-9) if isinstance(wanted, float) else wanted)


@pytest.mark.parametrize(
    "setting", [{"NUMBA_DISABLE_JIT": "1"}, {"NUMBA_NUM_THREADS": "1"}], ids=str
)
def test_settings_of_numba(setting, compiled):
    assert_same(told(run(REDUCED, environment=setting)), compiled)


# ---- nothing can be written -------------------------------------------------------------------

ANSWER = """
import json
import hctrellis as hct
from hctrellis.kernels import passes
from hctrellis.cli import main
code = main(["--version"])
post = hct.infer(hct.BetaSplitting(3, shape=0.0))
print(json.dumps(["answer", [code, post.n_trees, type(passes.absorb._cache).__name__]]))
"""


@pytest.mark.skipif(os.name == "nt", reason="rights are other things on Windows")
def test_read_only_home_and_package(tmp_path):
    """There is no home, and the folders of the package cannot be written into."""
    copy, wall = tmp_path / "package", tmp_path / "wall"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(SOURCE / "hctrellis", copy / "hctrellis", ignore=ignored)
    folders = [copy, *(path for path in copy.rglob("*") if path.is_dir())]
    if os.geteuid() == 0:  # who may write anywhere, but not below a file
        wall.touch()
        for folder in folders:
            (folder / "__pycache__").touch()
    for folder in folders:
        folder.chmod(0o555)
    nowhere = str(wall / "home")
    environment = {"PYTHONPATH": str(copy), "HOME": nowhere, "NUMBA_CACHE_DIR": None}
    environment |= {"XDG_CACHE_HOME": None, "LOCALAPPDATA": None, "USERPROFILE": None}
    try:
        found = told(run(ANSWER, environment=environment, cwd=tmp_path))
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert found["answer"] == [0, 3, "NullCache"]


# ---- event loops and notebooks ----------------------------------------------------------------


def test_inside_an_event_loop():
    wanted = [inferred(0), many(1)]

    async def work():
        here = [inferred(0), many(1)]
        apart = await asyncio.gather(asyncio.to_thread(inferred, 0), asyncio.to_thread(many, 1))
        return here, list(apart)

    assert asyncio.run(work()) == (wanted, wanted)


CELLS = """
import hctrellis as hct
post = hct.infer(hct.Linkage([[0.0], [1.0], [3.0], [7.0]], beta=1.0), progress=True)
jets = hct.simulate.ginkgo(20, leaves=(4, 6), rng=1)
result = hct.infer_many(jets, scheduler="threads", workers=2, progress=True)
print(post.n_trees, result.n_rows)
"""
SHOWN = "post.cluster_probabilities()"


def test_in_a_notebook(tmp_path):
    """In a kernel, whose event loop runs already."""
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    kernels = tmp_path / "kernels" / "here"
    kernels.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    environment = {"PYTHONPATH": str(SOURCE), "IPYTHONDIR": str(tmp_path)}
    described = {"argv": command, "display_name": "here", "language": "python", "env": environment}
    (kernels / "kernel.json").write_text(json.dumps(described))
    code = NOTEBOOK.format(cells=[CELLS, SHOWN])
    outputs = told(run(code, environment={"JUPYTER_PATH": str(tmp_path)}))["outputs"]
    assert nbclient and nbformat
    assert "".join(o.get("text", "") for o in outputs[0] if o.get("name") == "stdout") == "15 20\n"
    assert "<table" in outputs[1][0]["data"]["text/html"]


NOTEBOOK = """
import json, warnings
warnings.simplefilter("ignore")
import nbformat
from nbclient import NotebookClient
book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in {cells!r}])
NotebookClient(book, timeout=120, kernel_name="here").execute()
print(json.dumps(["outputs", [cell["outputs"] for cell in book["cells"]]]))
"""
