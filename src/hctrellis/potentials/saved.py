"""Potentials as plain numbers and names, to be written to a file and made again."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hctrellis.potentials.base import Potential, SumPotential
from hctrellis.potentials.contrasts import Hyperparameters, StudentContrasts
from hctrellis.potentials.correlation import CorrelationClustering
from hctrellis.potentials.dasgupta import Dasgupta
from hctrellis.potentials.density import GinkgoDensity
from hctrellis.potentials.jets import Ginkgo, JetMass
from hctrellis.potentials.linkage import Linkage
from hctrellis.potentials.prior import BetaSplitting

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray


class _Form(NamedTuple):
    """How a potential is written: its data, and what else it was made with.

    keywords : where the values of keyword arguments are found, as attributes
    always : further keyword arguments
    """

    kind: type[Potential]
    data: str
    keywords: dict[str, str]
    always: dict[str, Any]


def _form(kind: type[Potential], data: str, *keywords: str, **more: str) -> _Form:
    """A form whose keywords are attributes of the same name, but for `more`."""
    return _Form(kind, data, {**{name: name for name in keywords}, **more}, {})


_CONTRASTS = {name: f"hyperparameters.{name}" for name in Hyperparameters._fields}
FORMS = {
    "linkage": _form(Linkage, "distances", "method", "beta")._replace(
        always={"metric": "precomputed"}
    ),
    "dasgupta": _form(Dasgupta, "similarity", "beta"),
    "correlation-clustering": _form(CorrelationClustering, "affinity", "beta", "ordered_pairs"),
    "contrasts": _form(
        StudentContrasts, "table", "prior", columns="effective_columns", **_CONTRASTS
    ),
    "ginkgo": _form(Ginkgo, "momenta", "lam", "t_cut", "lam_root", "non_stop", "on_shell"),
    "ginkgo-density": _form(GinkgoDensity, "momenta", "lam", "t_cut", "lam_root", "on_shell"),
    "jetmass": _form(JetMass, "momenta", "lam", "on_shell"),
    "beta-splitting": _form(BetaSplitting, "n_leaves", "shape"),
}


def to_parts(potential: Potential) -> tuple[list[dict[str, Any]], list[FloatArray]]:
    """The parts of a potential: names and numbers, and the array of each."""
    parts = potential.parts if isinstance(potential, SumPotential) else (potential,)
    said, arrays = [], []
    for part in parts:
        name = next((name for name, form in FORMS.items() if isinstance(part, form.kind)), None)
        if name is None or not type(part).__module__.startswith("hctrellis."):
            raise ValueError(
                f"{type(part).__name__} cannot be saved: models of your own are not written to "
                "files; save sampled trees instead"
            )
        form = FORMS[name]
        values = {name: attrgetter(where)(part) for name, where in form.keywords.items()}
        said.append({"model": name, "labels": list(part.labels), **values})
        arrays.append(np.array(getattr(part, form.data), float, order="C"))
    return said, arrays


def from_parts(said: list[dict[str, Any]], arrays: list[FloatArray]) -> Potential:
    """The potential of these parts."""
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
