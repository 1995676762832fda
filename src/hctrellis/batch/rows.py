"""Jets as rows: their particles, and what else is known of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from hctrellis.batch.lanes import JetPotential, Rates
from hctrellis.batch.momenta import Particles
from hctrellis.support.checks import as_floats

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray, IntArray


@dataclass(frozen=True)
class JetRows:
    """Some jets.

    Attributes
    ----------
    particles : Particles
    trees : sequence of str or None, or None
        Their true trees in Newick format, if any are known.
    rates : mapping from str to array
        Parameters of which each jet has its own.
    events : int64 array or None
        The number of the event of each, if they were nested in events.
    """

    particles: Particles
    trees: Sequence[str | None] | None = None
    rates: Rates = field(default_factory=dict)
    events: IntArray | None = None

    def __len__(self) -> int:
        return len(self.particles)

    def cut(self, start: int, stop: int) -> Self:
        """The jets from start to stop."""
        return type(self)(
            self.particles.cut(start, stop),
            None if self.trees is None else self.trees[start:stop],
            {name: values[start:stop] for name, values in self.rates.items()},
            None if self.events is None else self.events[start:stop],
        )

    def joined(self, other: Self) -> Self:
        """These jets, and then others."""
        if len(self) == 0:
            return other
        rates = {name: np.concatenate([v, other.rates[name]]) for name, v in self.rates.items()}
        return type(self)(
            self.particles.joined(other.particles),
            None if self.trees is None else [*self.trees, *(other.trees or ())],
            rates,
            None if self.events is None else np.concatenate([self.events, _known(other.events)]),
        )


def _known(events: IntArray | None) -> IntArray:
    if events is None:
        raise ValueError("one file has events with jets in them, another has jets alone")
    return events


def as_rows(
    particles: Particles,
    trees: Sequence[Any] | None,
    rates: Mapping[str, Any],
    first_event: int = 0,
) -> JetRows:
    """Rows of jets that may be nested in events; so are then their trees and rates.

    Parameters
    ----------
    first_event : int
        The number of the first event.
    """
    counts = particles.jets_per_event
    if counts is None:
        return JetRows(particles, trees, {name: _numbers(v, name) for name, v in rates.items()})
    events = first_event + np.repeat(np.arange(len(counts)), counts)
    flat = {name: _numbers(flattened(v, counts, name), name) for name, v in rates.items()}
    told = None if trees is None else flattened(trees, counts, "true_trees")
    return JetRows(particles, told, flat, events)


def _numbers(values: Any, name: str) -> FloatArray:
    """Numbers, NaN where missing."""
    if isinstance(values, list):
        values = [np.nan if value is None else value for value in values]
    return as_floats(values, name)


def flattened(values: Sequence[Any], counts: IntArray, what: str) -> list[Any]:
    """A list of what is given for each jet, nested as the jets are or one after the other."""
    given = [value if isinstance(value, str | None) else _as_list(value) for value in values]
    if not any(isinstance(value, list) for value in given):
        return given
    lengths = [len(value) if isinstance(value, list) else 0 for value in given]
    if lengths != counts.tolist():
        raise ValueError(
            f"{what} is not nested as the jets are: give as many for each event as it has jets"
        )
    return [item for value in given if isinstance(value, list) for item in value]


def _as_list(value: Any) -> Any:
    return list(value) if hasattr(value, "__len__") else value


def spoiled_rates(
    model: JetPotential, parameters: Mapping[str, Any], rates: Rates
) -> tuple[dict[int, str], Rates]:
    """The rows with rates that a model refuses, and why; and rates that it accepts in all rows."""
    errors: dict[int, str] = {}
    good = dict(rates)
    for name, values in rates.items():
        accepts = _acceptance(model, parameters, name)
        if len(values) == 0 or not (accepts(float(values.min())) or accepts(float(values.max()))):
            continue
        distinct, which = np.unique(values, return_inverse=True)
        for k, value in enumerate(distinct.tolist()):
            reason = accepts(value)
            if reason:
                errors |= {int(row): reason for row in np.flatnonzero(which == k)}
        bad = [*errors]
        good[name] = values.copy()
        good[name][bad] = parameters[name]
    return errors, good


def _acceptance(
    model: JetPotential, parameters: Mapping[str, Any], name: str
) -> Callable[[float], str]:
    """What a model says against a rate; nothing if it accepts it."""

    def accepts(value: float) -> str:
        try:
            model([[1.0, 0.0, 0.0, 0.0]], **{**parameters, name: value})
        except ValueError as error:
            return str(error)
        return ""

    return accepts
