"""What is asked of labelled numbers, and how the progress of the work is shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TypeAlias

from hctrellis.sampling.run import PRECISION, TIME_LIMIT
from hctrellis.support.progress import Progress, silent
from hctrellis.tables.cells import Options

Bars: TypeAlias = Callable[[str, bool], AbstractContextManager[Progress]]
"""What shows the progress of work: called with its name, and whether it is too short to show."""


@dataclass(frozen=True)
class Wish:
    """What is asked of labelled numbers.

    Attributes
    ----------
    potential : str or None
        The model; what fits the data if None.
    metric : str
        Of the distances between rows.
    beta : float or None
        Chosen if None.
    clusters : sequence of sequences of str
        To be asked about, by labels.
    bootstrap : int or None
        Resamples of columns at each scale.
    seed : int
    precision : float
        The standard error at which sampling ends, for more than 22 items.
    time_limit : float
        Seconds after which it ends in any case.
    max_clusters : int or None
        Of a sparse trellis whose trees are weighed instead of sampling.
    second_opinion : bool or None
        Whether another model is asked, too; if None, where that is quick.
    sensitivity : bool or None
        Whether probabilities at half and twice beta are found; if None, where that is quick.
    certify : bool
        Whether a search is to prove how good the best tree is, in the same time limit.
    reading : Options
        How the table was read, to be told.
    """

    potential: str | None = None
    metric: str = "euclidean"
    beta: float | None = None
    clusters: Sequence[Sequence[str]] = ()
    bootstrap: int | None = None
    seed: int = 0
    precision: float = PRECISION
    time_limit: float = TIME_LIMIT
    max_clusters: int | None = None
    second_opinion: bool | None = None
    sensitivity: bool | None = None
    certify: bool = False
    reading: Options = field(default_factory=Options)


def unseen(what: str, short: bool) -> AbstractContextManager[Progress]:
    """Show no progress."""
    return nullcontext(silent)
