"""The command line: answers, exit codes, and one line for each error."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from functools import cache

import pytest

import hctrellis
from browser import browser
from hctrellis.cli import main
from hctrellis.cli.demo import QUESTION, find

HEAVY = ("numba", "scipy", "matplotlib", "pandas", "plotly")


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def only_line(text: str) -> str:
    (line,) = text.splitlines()
    return line


def test_help_is_light():
    done = python(
        "import sys; from hctrellis.cli import main; code = main(['--help'])\n"
        f"print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)\n"
        "sys.exit(code)"
    )
    assert done.returncode == 0
    assert "demo" in done.stdout
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize(
    "arguments", [["--help"], [], *([name, "--help"] for name in ("demo", "infer"))]
)
def test_help(arguments, capsys):
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "Usage" in out
    assert (arguments or ["demo"])[0].removeprefix("--help") in out


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"hctrellis {hctrellis.__version__}\n"


def test_module():
    done = subprocess.run(
        [sys.executable, "-m", "hctrellis", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"hctrellis {hctrellis.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["frobnicate"], "frobnicate"),
        (["--frobnicate"], "--frobnicate"),
        (["demo", "surplus"], "surplus"),
        (["infer"], "Missing argument 'FILE...'. (see hctrellis infer --help)"),
        (["demo", "--beta", "many"], "--beta"),
        (["demo", "--beta", "0"], "positive number; got 0"),
        (["demo", "--beta", "-1"], "positive number; got -1"),
        (["demo", "--beta", "nan"], "positive number; got nan"),
        (["demo", "--beta", "inf"], "positive number; got inf"),
    ],
)
def test_wrong_arguments(arguments, message, capsys):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert message in only_line(captured.err)
    assert captured.out == ""


def test_folder_that_cannot_be_made(tmp_path, capsys):
    file = tmp_path / "file"
    file.touch()
    assert main(["demo", "--output", str(file / "folder")]) == 1
    assert "folder" in only_line(capsys.readouterr().err)


def test_interrupt(monkeypatch, capsys):
    def stop(output, beta):
        raise KeyboardInterrupt

    monkeypatch.setattr("hctrellis.cli.demo.run_demo", stop)
    assert main(["demo"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_unforeseen_error_is_one_line(monkeypatch, capsys):
    def fail(output, beta):
        raise RuntimeError("two\nlines")

    monkeypatch.setattr("hctrellis.cli.demo.run_demo", fail)
    assert main(["demo"]) == 1
    assert only_line(capsys.readouterr().err) == "hctrellis: RuntimeError: two lines"


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra(missing):
    done = python(
        f"import sys; sys.modules[{missing!r}] = None\n"
        "from hctrellis.cli import main; sys.exit(main(['infer', 'table.csv']))"
    )
    assert done.returncode == 1
    assert 'pip install "hctrellis[cli]"' in only_line(done.stderr)


@pytest.fixture
def found_once(monkeypatch):
    """What the demo finds is found by the first test that asks for it."""
    monkeypatch.setattr("hctrellis.cli.demo.find", find_once)


find_once = cache(find)


def test_demo(tmp_path, capsys, found_once):
    folder = tmp_path / "new" / "demo"
    assert main(["demo", "--output", str(folder)]) == 0
    assert (folder / "tree.pdf").read_bytes().startswith(b"%PDF")
    assert (folder / "tree.svg").exists() and (folder / "tree.png").exists()
    out = " ".join(capsys.readouterr().out.split())
    assert "Probably: Diplococcus pneumoniae forms a cluster with" in out
    assert "a probability of 0.890" in out
    assert "log Z = -17.2131" in out
    assert "6,190,283,353,629,375" in out
    html = (folder / "report.html").read_text(encoding="utf-8")
    for text in ("0.890", "0.277", "0.999", "Streptococcus fecalis", "Gram-positive", "Plotly"):
        assert text in html


@pytest.mark.parametrize(
    ("beta", "words"), [("0.1", "Undecided at beta = 0.1"), ("10", "Yes: Diplococcus")]
)
def test_demo_speaks_as_surely_as_it_may(beta, words, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("hctrellis.cli.demo.draw", lambda findings, output: [])
    monkeypatch.setattr("hctrellis.report.write_report", lambda post, path, **options: path)
    assert main(["demo", "--beta", beta, "--output", str(tmp_path)]) == 0
    assert words in " ".join(capsys.readouterr().out.split())


def test_demo_without_plotly_still_answers(tmp_path, monkeypatch, capsys, found_once):
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    assert main(["demo", "--output", str(tmp_path)]) == 1
    captured = capsys.readouterr()
    assert "0.890" in captured.out
    assert 'pip install "hctrellis[report]"' in only_line(captured.err)


def test_demo_in_a_browser(tmp_path, capsys, found_once):
    pytest.importorskip("plotly")
    with browser(tmp_path / "browser") as page:
        assert main(["demo", "--output", str(tmp_path)]) == 0
        page.open(tmp_path / "report.html")
        assert page.text(".question") == QUESTION
        assert page.text(".answer").startswith("Probably: Diplococcus pneumoniae")
        assert page.count("#dendrogram .node") == 14
        assert page.problems == []


# ---- terminals --------------------------------------------------------------------------------


def complete(words: str) -> list[str]:
    """What tab completion offers for the last word."""
    parts = words.split(" ")
    done = subprocess.run(
        [sys.executable, "-m", "hctrellis"],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "_HCTRELLIS_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(parts) - 1),
        },
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("hctrellis inf", ["infer"]),
        ("hctrellis infer x.csv --missing dr", ["drop-rows", "drop-columns"]),
        ("hctrellis infer x.csv --metric city", ["cityblock"]),
    ],
)
def test_tab_completion(words, offered):
    assert complete(words) == offered


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_completion_script():
    command = f"{shlex.quote(sys.executable)} -m hctrellis --show-completion; exit $?"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert "_HCTRELLIS_COMPLETE=complete_bash" in done.stdout


def test_terminal_without_line_drawing(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("name,x\na,1\nb,2\nc,9\n")
    done = subprocess.run(
        [sys.executable, "-m", "hctrellis", "infer", str(table), "--beta", "1"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert "log Z" in done.stdout
