"""Draw the picture of a page: run its Python blocks and save what they call `fig`.

python docs/pictures.py without_beta layer
"""

from __future__ import annotations

import doctest
import re
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")

DOCS = Path(__file__).parent
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def draw(name: str) -> Path:
    """Run a page and save its last figure under its name."""
    session: dict[str, Any] = {}
    for block in BLOCK.findall((DOCS / f"{name}.md").read_text("utf-8")):
        test = doctest.DocTestParser().get_doctest(block, session, name, None, None)
        doctest.DocTestRunner().run(test, clear_globs=False)
        session.update(test.globs)
    path = DOCS / "figures" / f"{name}.png"
    session["fig"].savefig(path, dpi=110)
    return path


if __name__ == "__main__":
    for page in sys.argv[1:]:
        print(draw(page))
