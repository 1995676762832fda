"""Models whose weight is exp(-beta energy): how log psi changes with beta."""

from __future__ import annotations

from copy import copy
from typing import Self

from hctrellis.potentials.base import Potential
from hctrellis.support.checks import as_positive


class EnergyPotential(Potential):
    """A potential whose log psi is -beta times an energy that does not depend on beta."""

    def parameters(self) -> dict[str, float]:
        return {"beta": self.beta}

    def derivative(self, name: str) -> Potential:
        """Minus the energy of a split: log psi at beta = 1."""
        return self._at(1.0) if name == "beta" else super().derivative(name)

    def with_parameters(self, **values: float) -> Potential:
        super().with_parameters(**values)
        return self._at(as_positive(values.get("beta", self.beta), "beta", zero=True))

    def _at(self, beta: float) -> Self:
        model = copy(self)
        model.beta = beta
        return model
