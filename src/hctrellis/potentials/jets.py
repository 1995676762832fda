"""Particle showers: the likelihood of a binary splitting history of a jet's constituents.

A leaf is a particle with four-momentum (E, px, py, pz); the momentum of a cluster is the sum; its
squared mass is t = E^2 - |p|^2, a sum over pairs of particles (twice their Minkowski products).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable
from copy import copy
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hctrellis.clusters import ClusterList
from hctrellis.potentials.base import Potential, Sums
from hctrellis.potentials.fourvectors import (
    LARGEST_ENERGY,
    LEAST_SQUARE,
    MOST_CHANGE,
    OnShell,
    Repair,
    minkowski_products,
    repair,
    space_like,
)
from hctrellis.support.checks import as_between, as_finite, as_labels
from hctrellis.trees.heights import raised

if TYPE_CHECKING:
    from hctrellis.kernels.bind import SplitCode
    from hctrellis.support.types import FloatArray
    from hctrellis.tree import Tree

RATES = (1e-30, 1e30)  # between which decay rates must be
LEAST_ENERGY, LEAST_PAIR = 1e-130, 1e-270  # of particles and squared masses of pairs, where not 0


class _Jet(Potential):
    """Leaves with four-momenta, an exponential decay rate in units of t / t_parent."""

    height_name = "invariant mass"
    t_cut: float = 0.0
    """Squared mass below which nothing splits."""

    def __init__(
        self,
        momenta: npt.ArrayLike,
        lam: float,
        labels: Iterable[object] | None,
        on_shell: OnShell,
    ) -> None:
        rows = _as_momenta(momenta)
        self.labels = as_labels(labels, len(rows))
        self.lam = as_between(lam, "lam", *RATES)
        self.on_shell = on_shell
        self.momenta, self.repaired = _put_on_shell(rows, self.t_cut, on_shell)
        self._products = minkowski_products(self.momenta)

    def sums(self) -> Sums:
        """The squared mass t = E^2 - |p|^2."""
        return Sums(pairs=[self._products])

    def parameters(self) -> dict[str, float]:
        return {"lam": self.lam}

    def derivative(self, name: str) -> Potential:
        return _RateSlope(self, name) if name in self.parameters() else super().derivative(name)

    def with_parameters(self, **values: float) -> Potential:
        super().with_parameters(**values)
        model = copy(self)
        for name, value in values.items():
            setattr(model, name, as_between(value, name, *RATES))
        return model

    @abstractmethod
    def slope_code(self) -> SplitCode:
        """The split function of the derivative of log psi with respect to a rate."""

    @abstractmethod
    def slope_params(self, name: str, root: bool) -> tuple[float, ...]:
        """Its parameters, if the rate is that of this name."""

    def heights(self, tree: Tree) -> FloatArray:
        """The invariant mass of each cluster, which is no less than that of its parts."""
        _, _, parents = self._members(tree)
        t = ClusterList(parents).pair_sums(self._products)
        return raised(tree, np.sqrt(np.maximum(t, 0.0)))


class _RateSlope(Potential):
    """The derivative of log psi of a model of jets with respect to one of its rates."""

    def __init__(self, model: _Jet, name: str) -> None:
        self.labels = model.labels
        self.model = model
        self.name = name
        self.only_root = name == "lam_root"

    def sums(self) -> Sums:
        return self.model.sums()

    def code(self) -> SplitCode:
        return self.model.slope_code()

    def params(self, root: bool = False) -> tuple[float, ...]:
        return self.model.slope_params(self.name, root)

    def _details(self) -> str:
        return f", by {self.name} of {self.model!r}"


class Shower(_Jet):
    """A model of jets with a threshold t_cut, whose first splitting may have a rate of its own."""

    upper: float = 1.0
    """Below which ratios of squared masses are drawn."""

    def __init__(
        self,
        momenta: npt.ArrayLike,
        lam: float,
        t_cut: float,
        lam_root: float | None,
        labels: Iterable[object] | None,
        on_shell: OnShell,
    ) -> None:
        self.t_cut = as_between(t_cut, "t_cut", LEAST_SQUARE)
        super().__init__(momenta, lam, labels, on_shell)
        self._lam_root = None if lam_root is None else as_between(lam_root, "lam_root", *RATES)

    @property
    def lam_root(self) -> float:
        """The decay rate of the first splitting: that of all others if none was given."""
        return self.lam if self._lam_root is None else self._lam_root

    @lam_root.setter
    def lam_root(self, value: float) -> None:
        self._lam_root = value

    def parameters(self) -> dict[str, float]:
        """lam, and lam_root if it was given (if not, lam is the rate of all splittings)."""
        return super().parameters() | (
            {} if self._lam_root is None else {"lam_root": self._lam_root}
        )

    def slope_params(self, name: str, root: bool) -> tuple[float, ...]:
        lam = self.lam_root if root else self.lam
        applies = self._lam_root is None or root == (name == "lam_root")
        return (lam, self.t_cut, 2 * _log_norm_slope(lam, self.upper), float(applies))

    def params(self, root: bool = False) -> tuple[float, ...]:
        lam = self.lam_root if root else self.lam
        return (lam, self.t_cut, 2 * _log_norm(lam, self.upper) + self.log_measure)

    log_measure: float = -math.log(4 * math.pi)
    """What every splitting adds to its log weight, whatever the rates."""

    def _details(self) -> str:
        root = "" if self.lam_root == self.lam else f", lam_root={self.lam_root:g}"
        return f", lam={self.lam:g}, t_cut={self.t_cut:g}{root}"


class Ginkgo(Shower):
    r"""The toy shower Ginkgo: splittings ordered by mass, with a threshold t_cut.

    With t_P the parent's squared mass, t_1 >= t_2 those of the children (0 for a leaf) and
    T_2 = (sqrt(t_P) - sqrt(t_1))^2,

    log psi = g(t_1 | t_P) + g(t_2 | T_2) - log(4 pi), or -inf if t_P < t_cut,

    where g(t | T) is the log of lam e^(-lam t / T) / T / (1 - e^-lam) for t > 0, and of
    (1 - e^(-lam t_cut / T)) / (1 - e^-lam) for a leaf.

    Parameters
    ----------
    momenta : array_like, shape (n, 4)
        Rows E, px, py, pz, none beyond 1e30.
    lam : float
        Decay rate, from 1e-30 to 1e30.
    t_cut : float
        Squared mass below which nothing splits, at least 1e-60.
    lam_root : float, optional
        Decay rate of the first splitting, if it differs (decay of a heavy particle).
    labels : iterable of str, optional
    non_stop : bool
        The later variant of the model, in which a particle that splits also had to survive the
        stopping rule: for t > t_cut the density is multiplied by 1 - F, with
        F = (1 - e^(-lam t_cut / T))
        / (1 - e^-lam); a leaf has min(T, t_cut) in place of t_cut; and t_P = t_cut does not split.
    on_shell : "auto", True or False
        What is done with space-like particles (E < |p| by more than rounding in double precision):
        "auto" puts them on their mass shells, E = |p|, if that surely moves no squared mass t of a
        cluster with t >= t_cut by more than a tenth (see `hctrellis.potentials.fourvectors`), True
        always, False never. A jet with such particles that is not repaired is refused.

    Attributes
    ----------
    momenta : array, shape (n, 4)
        After repairs.
    repaired : tuple of int
        The particles that were put on their mass shells.

    References
    ----------
    K. Cranmer, S. Macaluso, D. Pappadopulo, Toy generative model for jets, 2019.
    """

    def __init__(
        self,
        momenta: npt.ArrayLike,
        lam: float,
        t_cut: float,
        lam_root: float | None = None,
        *,
        labels: Iterable[object] | None = None,
        non_stop: bool = False,
        on_shell: OnShell = "auto",
    ) -> None:
        super().__init__(momenta, lam, t_cut, lam_root, labels, on_shell)
        self.non_stop = bool(non_stop)

    def slope_code(self) -> SplitCode:
        from hctrellis.kernels import splits

        code: SplitCode = splits.NON_STOP_SLOPE if self.non_stop else splits.GINKGO_SLOPE
        return code

    def code(self) -> SplitCode:
        from hctrellis.kernels import splits

        code: SplitCode = splits.GINKGO_NON_STOP if self.non_stop else splits.GINKGO
        return code

    def _details(self) -> str:
        return super()._details() + (", non_stop" if self.non_stop else "")


def _log_norm(lam: float, upper: float = 1.0) -> float:
    """log of lam / (1 - e^(-lam upper))."""
    return math.log(lam) - math.log(-math.expm1(-lam * upper))


def _log_norm_slope(lam: float, upper: float = 1.0) -> float:
    """The derivative of that with respect to lam, 1 / lam - upper / (e^(lam upper) - 1)."""
    x = lam * upper
    if x < 1e-3:  # the two terms nearly cancel
        return upper * (0.5 - x / 12 + x**3 / 720)
    return upper * (1 / x - (1 / math.expm1(x) if x < 700 else 0.0))


class JetMass(_Jet):
    """The jet model as displayed in the paper: psi = f(t_L | t_P) f(t_R | t_P).

    f(t | T) = lam / (1 - e^-lam) e^(-lam t / T) / T, with the true masses of the leaves and no
    threshold. Clusters without mass (collinear massless particles) cannot split.

    Parameters
    ----------
    momenta : array_like, shape (n, 4)
        Rows E, px, py, pz, none beyond 1e30. An energy that is not 0 must be at least 1e-130, and
        a squared mass of two particles that is not 0 at least 1e-270.
    lam : float
        Decay rate, from 1e-30 to 1e30.
    labels : iterable of str, optional
    on_shell : "auto", True or False
        What is done with space-like particles (E < |p| by more than rounding in double precision):
        "auto" puts them on their mass shells, E = |p|, if that surely moves no squared mass of a
        cluster by more than a tenth (see `hctrellis.potentials.fourvectors`), True always, False
        never. A jet with such particles that is not repaired is refused.

    Attributes
    ----------
    momenta : array, shape (n, 4)
        After repairs.
    repaired : tuple of int
        The particles that were put on their mass shells.
    """

    def __init__(
        self,
        momenta: npt.ArrayLike,
        lam: float,
        *,
        labels: Iterable[object] | None = None,
        on_shell: OnShell = "auto",
    ) -> None:
        super().__init__(momenta, lam, labels, on_shell)
        _check_small(self.momenta, self._products)

    def code(self) -> SplitCode:
        from hctrellis.kernels.splits import JET_MASS

        return JET_MASS

    def params(self, root: bool = False) -> tuple[float, ...]:
        return (self.lam, 2 * _log_norm(self.lam))

    def slope_code(self) -> SplitCode:
        from hctrellis.kernels.splits import JET_MASS_SLOPE

        return JET_MASS_SLOPE

    def slope_params(self, name: str, root: bool) -> tuple[float, ...]:
        return (2 * _log_norm_slope(self.lam),)

    def _details(self) -> str:
        return f", lam={self.lam:g}"


def _check_small(momenta: FloatArray, products: FloatArray) -> None:
    """Refuse squared masses of pairs that would be lost, or whose logarithms would be."""
    energies = momenta[:, 0]
    if ((energies > 0) & (energies < LEAST_ENERGY)).any():
        raise ValueError(
            f"energies must be 0 or at least {LEAST_ENERGY:g}; got {energies[energies > 0].min():g}"
            ": choose a smaller unit, or leave such particles out"
        )
    tiny = np.tril((products > 0) & (products < LEAST_PAIR), -1)
    if tiny.any():
        i, j = np.argwhere(tiny)[0]
        raise ValueError(
            f"particles {j} and {i} have the squared mass {products[i, j]:g}; it must be 0 or at "
            f"least {LEAST_PAIR:g}: choose a smaller unit, or leave one of them out"
        )


def _as_momenta(momenta: npt.ArrayLike) -> FloatArray:
    rows = as_finite(momenta, "momenta")
    if rows.size == 0:
        raise ValueError("the jet has no particles; leave it out, a jet has at least one")
    if rows.ndim != 2 or rows.shape[1] != 4:
        raise ValueError(
            f"momenta must have one row (E, px, py, pz) per particle; got shape {rows.shape}"
        )
    energy = rows[:, 0]
    if (energy < 0).any():
        i = int(np.argmin(energy))
        raise ValueError(
            f"particle {i} has a negative energy ({energy[i]:g}); rows are E, px, py, pz"
        )
    if np.abs(rows).max() > LARGEST_ENERGY:
        raise ValueError(
            f"momenta must not exceed {LARGEST_ENERGY:g}; got {np.abs(rows).max():g}: choose a "
            "larger unit"
        )
    return rows


def _put_on_shell(
    rows: FloatArray, t_cut: float, on_shell: OnShell
) -> tuple[FloatArray, tuple[int, ...]]:
    """Momenta without space-like particles, and which were put on their mass shells."""
    if on_shell not in ("auto", True, False):
        raise ValueError(f"on_shell must be 'auto', True or False; got {on_shell!r:.80}")
    if not space_like(rows).any():
        return rows, ()
    found = repair(rows, t_cut)
    if not found.accepted(on_shell):
        raise ValueError(_refusal(rows, found, on_shell))
    return found.momenta, tuple(map(int, np.flatnonzero(found.moved)))


def _refusal(rows: FloatArray, found: Repair, on_shell: OnShell) -> str:
    i = int(np.argmax(np.where(found.moved, found.changes, -1.0)))
    square = minkowski_products(rows[i : i + 1])[0, 0]
    why = "on_shell=False was asked for"
    if on_shell == "auto":
        why = (
            f"setting E = |p| moves squared masses of clusters by up to {found.changes.sum():.0%}, "
            f"more than the allowed {MOST_CHANGE:.0%}; on_shell=True overrules this"
        )
    return f"particle {i} is space-like (E^2 - |p|^2 = {square:g}); rows are E, px, py, pz; {why}"
