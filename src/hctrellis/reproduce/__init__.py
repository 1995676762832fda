"""The tables and figures of arXiv:2002.11661, made again with this engine and simulator.

One module per experiment, each with a function ``run(size, seed, tell)`` that returns an
`hctrellis.reproduce.record.Experiment`; `hctrellis.reproduce.page` writes what came out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING

from hctrellis.reproduce.record import Experiment, Size, Tell, silent

if TYPE_CHECKING:
    from hctrellis.reproduce.expression import Expression

EXPERIMENTS = {
    "table1": "table1",
    "zmap": "zmap",
    "posterior": "posterior",
    "sparse": "sparse_map",
    "vertices": "vertices",
    "dasgupta": "dasgupta",
    "genomics": "genomics_page",
    "complexity": "complexity",
    "runtime": "runtime",
    "w-jets": "wjets",
}
"""The experiments in the order of the page, and their modules."""


def reproduce(
    name: str,
    size: Size = "full",
    seed: int = 1,
    tell: Tell = silent,
    data: Expression | None = None,
) -> Experiment:
    """Run one experiment.

    Parameters
    ----------
    name : str
        One of `EXPERIMENTS`.
    size : "small" or "full"
        A run of seconds, or one as large as in the paper.
    seed : int
        Of all random numbers.
    tell : callable
        Called with a text that says what is going on.
    data : Expression, optional
        For genomics; by default a made-up table.
    """
    run: Callable[..., Experiment] = import_module(f"{__name__}.{EXPERIMENTS[name]}").run
    return run(size, seed, tell, data) if name == "genomics" else run(size, seed, tell)


def chosen(names: Iterable[str]) -> list[str]:
    """The experiments meant by some names, in the order of the page; "all", or none, is all.

    >>> chosen(["zmap", "table1"])
    ['table1', 'zmap']
    """
    wanted = set(names) or {"all"}
    for name in sorted(wanted - {"all", *EXPERIMENTS}):
        raise ValueError(f"there is no experiment {name!r}; choose all, {', '.join(EXPERIMENTS)}")
    return [name for name in EXPERIMENTS if wanted & {"all", name}]
