"""Settings of the documentation: python -m sphinx docs docs/_build."""

from importlib.util import find_spec
from typing import Any

from hctrellis import __version__

project = "hctrellis"
author = "The hctrellis developers"
release = version = __version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "numpydoc",
    "sphinx-mathjax-offline",
]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"hctrellis {__version__}"
html_static_path: list[str] = []
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
autodoc_typehints = "none"
autodoc_mock_imports = [] if find_spec("torch") else ["torch"]
autodoc_member_order = "bysource"
autosummary_generate = False
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
suppress_warnings = ["myst.header"]


def setup(app: Any) -> None:
    """Let docstrings write |L| for the size of L."""

    def escape(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
        lines[:] = [line if ">>>" in line else line.replace("|", r"\|") for line in lines]

    app.connect("autodoc-process-docstring", escape)
