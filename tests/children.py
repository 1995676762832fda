"""Python programs that tests start: with limits, in other surroundings, and to be interrupted."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
TESTS = Path(__file__).parent
SELDOM = "import gc; gc.set_threshold(20_000)\n"
"""Search for garbage as seldom as the tests themselves do: see `conftest.py`."""


def surroundings(**changes):
    """The environment of a program; None takes a variable out."""
    paths = os.pathsep.join([str(SOURCE), str(TESTS)])
    variables = os.environ | {"PYTHONPATH": paths, "MPLBACKEND": "agg"} | changes
    return {name: value for name, value in variables.items() if value is not None}


def start(code, *arguments, **options):
    """Start a Python program in a group of processes of its own."""
    environment = options.pop("environment", {})
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(
        [sys.executable, "-c", SELDOM + code, *map(str, arguments)],
        env=surroundings(**environment),
        **pipes | {"start_new_session": True} | options,
    )


def run(code, *arguments, **options):
    """Run a Python program that must succeed; returns what it prints."""
    with start(code, *arguments, **options) as process:
        printed, complaint = process.communicate()
    assert process.returncode == 0, complaint[-3000:]
    return printed


def told(printed):
    """The lines of JSON that a program has printed, by their names."""
    return dict(json.loads(line) for line in printed.splitlines() if line.startswith("["))


def die_once(chunk, flag):
    """What a worker does that is killed in the middle of its work, the first time."""
    if not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return chunk
