"""The linters and the type checker are part of the suite."""

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "command", [("ruff", "check"), ("ruff", "format", "--check"), ("mypy",)], ids=" ".join
)
def test_clean(command):
    tool, *arguments = command
    if find_spec(tool) is None and shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    start = [sys.executable, "-m", tool] if find_spec(tool) else [tool]
    done = subprocess.run([*start, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
