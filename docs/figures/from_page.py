"""Draw the pictures of a page again: its code makes `ax`, which is written as PNG.

Each picture is of the last `ax` that was made before the page shows it.

python docs/figures/from_page.py docs/tutorials/fit.md
"""

from __future__ import annotations

import doctest
import re
import sys
from pathlib import Path
from typing import Any

PART = re.compile(r"^```python\n(.*?)^```|^!\[[^\]]*\]\(([^)]*)\)", re.MULTILINE | re.DOTALL)


def main(page: str) -> None:
    """Run the Python blocks of a page and save what they have drawn."""
    names: dict[str, Any] = {}
    for block, picture in PART.findall(Path(page).read_text("utf-8")):
        for example in doctest.DocTestParser().get_examples(block):
            exec(compile(example.source, page, "single"), names)
        if picture:
            path = Path(page).parent / picture
            names["ax"].figure.savefig(path, dpi=120)
            print(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
