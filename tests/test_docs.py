"""The Python blocks of the README and of the documentation run and print what they say."""

from __future__ import annotations

import doctest
import re
import sys
from pathlib import Path

import pytest

from children import run

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
NEEDS = {"docs/layer.md": "torch"}  # pages that need packages which may be absent
REPEATED = {"docs/without_beta.md": ("range(12)", "range(2)")}  # what is only drawn, less often
LINK = re.compile(r"\]\((?!http)([^)#]+)\)")


def name(page):
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [p for p in PAGES if BLOCK.search(p.read_text("utf-8"))], ids=name)
def test_examples(page):
    if name(page) in NEEDS:
        pytest.importorskip(NEEDS[name(page)])
    session, text = {}, page.read_text("utf-8")
    often, seldom = REPEATED.get(name(page), ("", ""))
    assert often in text
    for number, block in enumerate(BLOCK.findall(text.replace(often, seldom))):
        test = doctest.DocTestParser().get_doctest(block, session, f"block {number}", None, None)
        assert len(test.examples) > 0
        report = []
        result = doctest.DocTestRunner().run(test, out=report.append, clear_globs=False)
        session.update(test.globs)
        assert result.failed == 0, "".join(report)
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def test_first_commands():
    opening = README.read_text("utf-8").splitlines()[:6]
    assert [line.split()[:2] for line in opening if line.startswith("    make")] == [
        ["make", "demo"],
        ["make", "test"],
    ]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links(page):
    for target in LINK.findall(page.read_text("utf-8")):
        assert (page.parent / target).exists(), target


def test_promises_are_held():
    """Every test that the page of promises names is there."""
    text = (ROOT / "docs" / "reliability.md").read_text("utf-8")
    named = re.findall(r"`(tests/\w+\.py)(?:::(\w+))?`", text)
    assert len(named) > 30
    for path, function in named:
        assert f"def {function or 'main'}(" in (ROOT / path).read_text("utf-8"), (path, function)
    for path in re.findall(r"`(benchmarks/\w+\.py)`", text):
        assert (ROOT / path).exists()


def test_site_builds_without_warnings(tmp_path):
    pytest.importorskip("sphinx", reason="the documentation needs the extra docs")
    code = "import sys; from sphinx.cmd.build import main; sys.exit(main(sys.argv[1:]))"
    run(code, "-W", "--keep-going", "-q", ROOT / "docs", tmp_path)
    assert "autofunction" not in (tmp_path / "api.html").read_text("utf-8")
