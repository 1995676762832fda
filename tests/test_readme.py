"""The Python blocks of the README run and print what they say."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!http)([^)#]+)\)")


def test_examples():
    session = {}
    blocks = BLOCK.findall(README)
    assert len(blocks) >= 3
    for number, block in enumerate(blocks):
        test = doctest.DocTestParser().get_doctest(block, session, f"block {number}", None, None)
        report = []
        result = doctest.DocTestRunner().run(test, out=report.append, clear_globs=False)
        session.update(test.globs)
        assert result.failed == 0, "".join(report)


def test_first_commands():
    opening = README.splitlines()[:6]
    assert [line.split()[:2] for line in opening if line.startswith("    make")] == [
        ["make", "demo"],
        ["make", "test"],
    ]


@pytest.mark.parametrize("target", LINK.findall(README))
def test_links(target):
    assert (ROOT / target).exists()
