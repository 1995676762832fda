"""How options are called: as the command line has them, or as Python has them.

What is wrong with a table is said in the words of the command line, --missing mean; `in_python`
says the same as missing="mean". What is wrong further down is said in the words of Python,
time_limit; `on_command_line` says the same as --time-limit.
"""

from __future__ import annotations

import re

KINDS = ("distances", "similarities", "features")
FLAGS = (
    *("all-columns", "standardize", "log10", "decimal-comma", "transpose"),
    *("second-opinion", "sensitivity"),
)

_WITH_VALUE = re.compile(r'--(missing|labels|color|ignore|potential|metric|beta) ("[^"]*"|[\w.-]+)')
_NAME = re.compile(r"--([a-z0-9]+(?:-[a-z]+)*)")
_KEYWORD = re.compile(
    r"(?<![\w'\"-])(time_limit|max_clusters|n_clusters|n_samples|all_columns|decimal_comma|burn_in|"
    r"second_opinion|max_leaves|chunk_size|t_cut|lam_root|true_trees|on_shell|non_stop)\b"
)
_LISTED = re.compile(r"; (?:it has|found) ")  # what comes next are names from a file


def in_python(text: str) -> str:
    """A message in Python's words.

    Examples
    --------
    >>> print(in_python('give --missing mean, or leave it out: --ignore "my kind"'))
    give missing="mean", or leave it out: ignore=["my kind"]
    >>> print(in_python("give --distances or --standardize; name a column with --labels"))
    give kind="distances" or standardize=True; name a column with labels=
    """
    return _NAME.sub(_as_keyword, _WITH_VALUE.sub(_as_argument, text))


def _as_argument(match: re.Match[str]) -> str:
    value = f'"{match[2].strip(chr(34))}"'
    return f"{match[1]}=[{value}]" if match[1] == "ignore" else f"{match[1]}={value}"


def _as_keyword(match: re.Match[str]) -> str:
    name = match[1]
    if name in KINDS:
        return f'kind="{name}"'
    return f"{name.replace('-', '_')}={'True' if name in FLAGS else ''}"


def on_command_line(text: str) -> str:
    """A message in the words of the command line.

    Examples
    --------
    >>> print(on_command_line("raise time_limit, or give n_clusters; see --time-limit"))
    raise --time-limit, or give --n-clusters; see --time-limit
    >>> print(on_command_line("jets.parquet has no column 'x' with t_cut; it has lam, t_cut"))
    jets.parquet has no column 'x' with --t-cut; it has lam, t_cut
    """
    names = _LISTED.search(text)
    end = len(text) if names is None else names.start()
    return _KEYWORD.sub(lambda match: f"--{match[1].replace('_', '-')}", text[:end]) + text[end:]
