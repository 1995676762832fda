"""Settings of the documentation: python -m sphinx docs docs/_build."""

from hctrellis import __version__

project = "hctrellis"
author = "The hctrellis developers"
release = version = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"hctrellis {__version__}"
html_static_path: list[str] = []
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autosummary_generate = False
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
suppress_warnings = ["myst.header"]
html_math_renderer = "mathml"
