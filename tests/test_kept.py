"""Compiled code on disk: spoiled files, full disks and folders of others cannot break work."""

import os
import pickle
import re
import warnings
from pathlib import Path

import numba
import numpy as np
import pytest

from children import run, told
from hctrellis.kernels import bitsets, kept, lattice
from hctrellis.kernels.compile import jit
from hctrellis.kernels.kept import _digest
from hctrellis.support.compiling import told as compiling_told
from hctrellis.support.private import make_private, who_else_writes


def solve(folder, locators="", **environment):
    """One small kernel with this cache, as in a process that has just begun.

    Returns what is said, when code is compiled, and how often it was taken from the cache.
    """
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for name, value in environment.items():
            patch.setenv(name, str(value))
        patch.setattr(numba.config, "CACHE_DIR", str(folder))
        patch.setattr(numba.config, "CACHE_LOCATOR_CLASSES", locators, raising=False)
        patch.setattr(kept, "_said", [])
        patch.setattr(kept, "_refused", [])
        add_pairs = jit(lattice.add_pairs.py_func)
        sums = np.zeros(4)
        compiling = []
        with compiling_told(compiling.append):
            add_pairs(np.array([[0.0, 2.0], [2.0, 0.0]]), sums)
    assert sums[-1] == 2.0
    said = [str(each.message) for each in caught if each.category is RuntimeWarning]
    hits = sum(add_pairs.stats.cache_hits.values())
    return {"said": said, "compiling": compiling, "hits": hits}


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A cache that holds the kernel."""
    folder = tmp_path_factory.mktemp("filled") / "deep" / "cache"
    assert solve(folder) == {"said": [], "compiling": [True, False], "hits": 0}
    assert solve(folder) == {"said": [], "compiling": [], "hits": 1}
    return folder


def files(folder):
    return sorted(path for path in folder.rglob("*add_pairs*") if path.is_file())


def copied(filled, folder):
    """The kernel's files, in another cache."""
    for path in files(filled):
        place = folder / path.relative_to(filled)
        make_private(place.parent)
        place.write_bytes(path.read_bytes())
    return files(folder)


def flipped(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :]


SPOILED = {
    "truncated": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "garbage": lambda content: os.urandom(len(content)),
    "flipped": flipped,
}


def test_folders_are_made_for_their_owner_alone(filled):
    for folder in (filled, filled.parent, *(path.parent for path in files(filled))):
        assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("how", SPOILED)
def test_spoiled_files(how, filled, tmp_path):
    """All files at once: the answer, one sentence, and the next run is as fast as ever."""
    for path in copied(filled, tmp_path / "cache"):
        path.write_bytes(SPOILED[how](path.read_bytes()))
    found = solve(tmp_path / "cache")
    assert len(found["said"]) == 1
    assert "compiled anew" in found["said"][0] and "is spoiled" in found["said"][0]
    assert solve(tmp_path / "cache") == {"said": [], "compiling": [], "hits": 1}


def test_a_file_in_the_place_of_another(filled, tmp_path):
    """The code of another key is not taken, as a full disk could leave it."""
    index, code = sorted(copied(filled, tmp_path / "cache"), key=lambda path: path.suffix == ".nbc")
    key, _stamp, data = pickle.loads(code.read_bytes())
    old = pickle.dumps((key, "an earlier text", data))
    code.write_bytes(old + _digest(old))
    assert solve(tmp_path / "cache")["hits"] == 0
    assert index.suffix == ".nbi"


FULL = """
import json, resource, sys
import test_kept
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
print(json.dumps(["found", test_kept.solve(sys.argv[1])]))
"""


def test_full_disk(tmp_path):
    """The limit on the size of files stands for it."""
    found = told(run(FULL, tmp_path / "cache"))["found"]
    assert len(found["said"]) == 1 and "cannot be written" in found["said"][0]
    assert not files(tmp_path / "cache")


class Trap:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("mode", [0o700, 0o777])
def test_planted_files(mode, filled, tmp_path):
    """From a folder that others can write into nothing is read; (from one's own, it would be)."""
    sprung, cache = tmp_path / "sprung", tmp_path / "cache"
    for path in copied(filled, cache):
        content = pickle.dumps(Trap(sprung))
        path.write_bytes(content + _digest(content))
    cache.chmod(mode)
    home = tmp_path / "home"
    solve(cache, HOME=home, XDG_CACHE_HOME=home)
    assert sprung.exists() == (mode == 0o700)


@pytest.mark.skipif(
    not hasattr(numba.config, "CACHE_LOCATOR_CLASSES"), reason="this Numba looks in all places"
)
def test_nowhere_to_keep_it(tmp_path):
    """The only place is a folder that others can write into: it is said why."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    found = solve(shared, locators="UserProvidedCacheLocator")
    assert len(found["said"]) == 1 and "others may write into" in found["said"][0]
    assert not files(shared)


# ---- folders ----------------------------------------------------------------------------------


def test_who_else_writes(tmp_path, monkeypatch):
    ours = tmp_path / "a" / "b"
    make_private(ours)
    assert who_else_writes(ours) is None
    ours.chmod(0o722)
    assert who_else_writes(ours) == f"others may write into {ours}"
    ours.chmod(0o1777)
    assert who_else_writes(ours) == f"others may write into {ours}"  # they can add files
    ours.chmod(0o755)
    assert who_else_writes(ours) is None
    ours.parent.chmod(0o777)
    assert who_else_writes(ours) == f"others may write into {ours.parent}"
    ours.parent.chmod(0o1777)
    assert who_else_writes(ours) is None
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)
    if ours.stat().st_uid != 0:
        assert "belongs to another user" in who_else_writes(ours)
    ours.parent.chmod(0o700)


def test_groups(tmp_path, monkeypatch):
    """A group of one's own, as many systems have it for each user, is nobody else."""
    import hctrellis.support.private as private

    tmp_path.chmod(0o770)
    monkeypatch.setattr(private, "_is_own_group", lambda number: True)
    assert who_else_writes(tmp_path) is None
    monkeypatch.setattr(private, "_is_own_group", lambda number: False)
    assert "others may write into" in who_else_writes(tmp_path)


# ---- what code is made of -----------------------------------------------------------------------


def test_every_text_that_is_compiled_into_kernels_counts(tmp_path):
    """Functions and constants of other files, whatever the times of files say."""
    imported = set()
    for path in Path(kept.__file__).parent.glob("*.py"):
        imported |= set(re.findall(r"from hctrellis\.support\.(\w+) import", path.read_text()))
    assert imported - {"fingerprint", "imports", "private"} == set(kept.CONSTANTS)
    paths = [tmp_path / name for name in ("a.py", "b.py")]
    for path in paths:
        path.write_text("X = 1")
    first = kept.texts_of(paths)
    assert kept.texts_of(paths) == first
    paths[1].write_text("X = 2")
    assert kept.texts_of(paths) != first
    stamp = bitsets.interchanges._cache._cache_file._source_stamp
    assert stamp[1] == kept.kernel_texts()
