"""Whether runs of sampled trees are enough, for the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hctrellis.report.page import Note
from hctrellis.support.printable import show_probability

if TYPE_CHECKING:
    from hctrellis.runs.enough import RunReport

SHOWN_NAMES = 4
HEADING = "Are these runs enough?"


def compared(runs: RunReport) -> list[Note]:
    """The verdict, the runs, and the clusters on which they differ most."""
    sizes = [
        [name, f"{size:,}", "not known" if runs.ess is None else f"{runs.ess[k]:.0f}"]
        for k, (name, size) in enumerate(zip(runs.names, runs.sizes, strict=True))
    ]
    texts = [runs.verdict, f"The entropy of the distribution is {runs.entropy:.2f} nats."]
    if runs.divergence is not None:
        texts.append(
            "The distribution of a run is at most "
            f"{runs.divergence:.3g} nats from that of all runs together (Kullback-Leibler)."
        )
    notes = [Note(texts, HEADING, ["run", "trees", "independent trees"], sizes)]
    if runs.differences:
        rows = [
            [_named(found.cluster), *(show_probability(f, 3) for f in found.frequencies)]
            for found in runs.differences
        ]
        text = "The clusters whose frequencies differ most between the runs:"
        notes.append(Note([text], "", ["cluster", *runs.names], rows))
    return notes


def _named(cluster: frozenset[str]) -> str:
    names = sorted(cluster)
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    return ", ".join(names[:SHOWN_NAMES]) + more
