"""Jets that a fit is given: which model, which particles, and how they were selected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from hctrellis.batch.inputs import MODELS, as_source
from hctrellis.batch.lanes import JetPotential
from hctrellis.batch.momenta import Particles
from hctrellis.batch.prepared import prepare
from hctrellis.fit.selection import Selection
from hctrellis.infer import MAX_EXACT_LEAVES
from hctrellis.potentials.density import GinkgoDensity
from hctrellis.simulate import Jets

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray


class JetData(NamedTuple):
    """Jets that are ready to be fitted.

    Attributes
    ----------
    selection : Selection or None
        What the likelihood has to be divided by, if jets were selected.
    seen : Selection or None
        The range of numbers of particles that occur, if jets were not selected here.
    """

    model: JetPotential
    parameters: dict[str, Any]
    particles: Particles
    selection: Selection | None
    seen: Selection | None


def as_jets(
    model: Any,
    data: Any,
    n_leaves: tuple[int, int] | None,
    column: str | None,
    parameters: Mapping[str, Any],
) -> JetData | None:
    """The jets that a user means; None if it is another model that is to be fitted."""
    known = MODELS.get(model.lower()) if isinstance(model, str) else model
    if isinstance(model, str) and known is None:
        raise ValueError(f"model must be one of {', '.join(MODELS)}, or a class; got {model!r:.80}")
    if known not in MODELS.values():
        return None
    if data is None:
        raise TypeError("no data was given: jets, or the path of a Parquet file of jets")
    if isinstance(data, np.ndarray) and data.ndim == 2:
        data = [data]
    given = {"lam": 1.0, **parameters}
    if isinstance(data, Jets) and known is not MODELS["jetmass"]:
        given.setdefault("t_cut", data.t_cut)
    source = as_source(data, known, column, None, given, lasting=False)
    chunks = list(source.chunks(source.chunk_size()))
    found = [_checked(chunk, start) for chunk, start in _starts(chunks)]
    particles = Particles(
        np.concatenate([each.momenta for each in found]),
        np.concatenate([each.sizes for each in found]),
        {},
    )
    if len(particles) == 0:
        raise ValueError("there are no jets to be fitted")
    selection = None
    if n_leaves is not None:
        particles, selection = _selected(cast(JetPotential, known), particles, n_leaves, given)
    largest = int(particles.sizes.max())
    if largest > MAX_EXACT_LEAVES:
        many = int((particles.sizes > MAX_EXACT_LEAVES).sum())
        raise ValueError(
            f"{many} of {len(particles)} jets have more than {MAX_EXACT_LEAVES} particles (up to "
            f"{largest}), too many for exact sums over trees; to leave them out would be a "
            f"selection that depends on the rates: say n_leaves=(1, {MAX_EXACT_LEAVES}), which "
            "corrects for it, or raise t_cut"
        )
    seen = None
    if known is GinkgoDensity and selection is None:
        ends = (int(particles.sizes.min()), largest)
        seen = Selection(ends, _root_squares(particles), given)
    return JetData(cast(JetPotential, known), given, particles, selection, seen)


def _starts(chunks: list[Any]) -> list[tuple[Any, int]]:
    ends = np.cumsum([0, *(len(chunk) for chunk in chunks)]).tolist()
    return list(zip(chunks, ends, strict=False))


def _checked(chunk: Any, start: int) -> Particles:
    """The particles of a chunk of jets, repaired; an error if one cannot be used."""
    ready = prepare(chunk.model, chunk.parameters, chunk.momenta, chunk.sizes, chunk.errors)
    if ready.errors:
        row, reason = min(ready.errors.items())
        raise ValueError(f"jet {start + row} cannot be fitted: {reason}")
    return Particles(ready.momenta, chunk.sizes, {})


def _selected(
    model: JetPotential,
    particles: Particles,
    window: tuple[int, int],
    parameters: Mapping[str, Any],
) -> tuple[Particles, Selection]:
    """The jets with a number of particles in a window, and how probable such a number is."""
    if model is not GinkgoDensity:
        raise ValueError(
            "a selection by number of particles can be corrected for in fits of GinkgoDensity "
            f"only, not of {model.__name__}, which is no density"
        )
    low, high = window
    if not 1 <= low <= high:
        raise ValueError(f"n_leaves must be a range (low, high) from 1 on; got {window!r:.80}")
    kept = (particles.sizes >= low) & (particles.sizes <= high)
    if not kept.any():
        raise ValueError(f"no jet has from {low} to {high} particles")
    momenta = particles.momenta[np.repeat(kept, particles.sizes)]
    chosen = Particles(momenta, particles.sizes[kept], {})
    return chosen, Selection((low, high), _root_squares(chosen), parameters)


def _root_squares(particles: Particles) -> FloatArray:
    """The squared mass of each jet."""
    starts = np.cumsum(particles.sizes) - particles.sizes
    roots = np.add.reduceat(particles.momenta, starts)
    squares: FloatArray = roots[:, 0] ** 2 - (roots[:, 1:] ** 2).sum(axis=1)
    return np.maximum(squares, 0.0)
