"""Potentials as plain numbers and names, to be written to a file and made again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hctrellis.potentials.base import Potential, SumPotential
from hctrellis.potentials.contrasts import StudentContrasts
from hctrellis.potentials.correlation import CorrelationClustering
from hctrellis.potentials.dasgupta import Dasgupta
from hctrellis.potentials.jets import Ginkgo, JetMass
from hctrellis.potentials.linkage import Linkage
from hctrellis.potentials.prior import BetaSplitting

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray


class _Form(NamedTuple):
    """How a potential is written: its data, and what else it was made with."""

    kind: type[Potential]
    data: str
    keywords: tuple[str, ...]
    always: dict[str, Any]


FORMS = {
    "linkage": _Form(Linkage, "distances", ("method", "beta"), {"metric": "precomputed"}),
    "dasgupta": _Form(Dasgupta, "similarity", ("beta",), {}),
    "correlation-clustering": _Form(
        CorrelationClustering, "affinity", ("beta", "ordered_pairs"), {}
    ),
    "ginkgo": _Form(Ginkgo, "momenta", ("lam", "t_cut", "lam_root", "non_stop", "on_shell"), {}),
    "jetmass": _Form(JetMass, "momenta", ("lam", "on_shell"), {}),
    "beta-splitting": _Form(BetaSplitting, "n_leaves", ("shape",), {}),
    "contrasts": _Form(
        StudentContrasts, "table", ("sigma", "tau", "gamma", "nu", "columns", "prior"), {}
    ),
}


def describe(potential: Potential) -> tuple[list[dict[str, Any]], list[FloatArray]]:
    """The parts of a potential: names and numbers, and the array of each."""
    parts = potential.parts if isinstance(potential, SumPotential) else (potential,)
    said, arrays = [], []
    for part in parts:
        name = next((name for name, form in FORMS.items() if _is_written_as(part, form)), None)
        if name is None:
            raise ValueError(
                f"{type(part).__name__} cannot be saved: only models that come with the package "
                "can; save sampled trees instead"
            )
        form = FORMS[name]
        values = {keyword: _value(part, keyword) for keyword in form.keywords}
        said.append({"model": name, "labels": list(part.labels), **values})
        arrays.append(np.array(getattr(part, form.data), float, order="C"))
    return said, arrays


def _is_written_as(part: Potential, form: _Form) -> bool:
    """Whether a potential is of a kind; fitted contrasts are written as those with their values."""
    fitted = form.kind is StudentContrasts and isinstance(part, StudentContrasts)
    return fitted or type(part) is form.kind


def _value(part: Potential, keyword: str) -> Any:
    if isinstance(part, StudentContrasts):
        known = {**part.parameters(), "columns": part.effective_columns}
        return known.get(keyword, part.prior)
    return getattr(part, keyword)


def restore(said: list[dict[str, Any]], arrays: list[FloatArray]) -> Potential:
    """The potential that `describe` has described."""
    parts: list[Potential] = []
    for part, array in zip(said, arrays, strict=True):
        form = FORMS[part["model"]]
        values = {keyword: part[keyword] for keyword in form.keywords}
        data = int(array) if form.data == "n_leaves" else array
        parts.append(form.kind(data, labels=part["labels"], **values, **form.always))  # type: ignore[call-arg]
    total = parts[0]
    for other in parts[1:]:
        total = total + other
    return total
