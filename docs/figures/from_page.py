"""Draw the picture of a page again: its code makes `ax`, which is written as PNG.

python docs/figures/from_page.py docs/tutorials/fit.md docs/figures/fit.png
"""

from __future__ import annotations

import doctest
import re
import sys
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def main(page: str, picture: str) -> None:
    """Run the Python blocks of a page and save what they have drawn."""
    names: dict[str, Any] = {}
    for block in BLOCK.findall(Path(page).read_text("utf-8")):
        for example in doctest.DocTestParser().get_examples(block):
            exec(compile(example.source, page, "single"), names)
    names["ax"].figure.savefig(picture, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:])
