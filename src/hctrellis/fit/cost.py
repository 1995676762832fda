"""Minus the log likelihood of parameters, given one data set or thousands."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hctrellis.batch.slopes import DataSets, JetSets, log_partitions
from hctrellis.fit.jets import as_jets
from hctrellis.fit.selection import Selection
from hctrellis.potentials.base import Potential
from hctrellis.potentials.contrasts import StudentContrasts
from hctrellis.potentials.density import GinkgoDensity
from hctrellis.potentials.prior import BetaSplitting
from hctrellis.support.progress import Progress, silent

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray

STEP = 1e-4  # relative to the size of a parameter, for differences of derivatives
IMPOSSIBLE = 1e10  # what a data set that is impossible adds, so that minimisers turn back


RANGES = {
    **dict.fromkeys(("lam", "lam_root", "nu"), (1e-6, np.inf)),
    "beta": (0.0, np.inf),
    "shape": (-2 + 1e-6, np.inf),
    "sigma": (1e-12, np.inf),
    "tau": (0.0, np.inf),
    "gamma": (-10.0, 10.0),
}
"""Beyond which some parameters have no meaning."""
ANY = (-np.inf, np.inf)


class NegativeLogLikelihood:
    """Minus the sum of log Z over data sets, as a function of parameters that they share.

    It can be given to any minimiser: it is called with one number per parameter, in the order of
    `names`, as are its exact derivatives, ``cost.grad``. For instance, with iminuit, which finds
    the derivatives by itself::

        minuit = Minuit(cost, *cost.start.values(), name=cost.names)

    Parameters
    ----------
    model : class, callable, name or Potential
        See `fit`.
    data : optional
        See `fit`.
    free : sequence of str, optional
        The parameters; by default all that the model has.
    n_leaves : (int, int), optional
        Only jets with a number of particles in this range are kept, and the likelihood is divided
        by the probability of such a number. See `fit`.
    column : str, optional
        Which column of a table or file of jets to take the momenta from.
    threads : int, optional
    **parameters
        Those of the model: the values of fixed ones, and where a minimiser may start for free ones.

    Attributes
    ----------
    names : tuple of str
        The free parameters.
    start : dict from str to float
        Their values at the start.
    errordef : float
        1/2: by how much the cost rises from its minimum to one standard deviation.

    Examples
    --------
    >>> import hctrellis as hct
    >>> jets = hct.simulate.ginkgo(100, t_cut=64, rng=1)
    >>> cost = hct.NegativeLogLikelihood(hct.GinkgoDensity, jets, lam=1.0, t_cut=64)
    >>> cost.names
    ('lam',)
    >>> bool(cost(1.5) < cost(1.0)), cost.grad(1.0) < 0
    (True, array([ True]))
    """

    errordef = 0.5

    def __init__(
        self,
        model: Any,
        data: Any = None,
        *,
        free: Sequence[str] | str | None = None,
        n_leaves: tuple[int, int] | None = None,
        column: str | None = None,
        threads: int | None = None,
        **parameters: Any,
    ) -> None:
        self._threads = threads
        self.n_evaluations = 0
        self.report: Progress = silent
        self.impossible = np.empty(0, np.int64)
        self._known: tuple[tuple[float, ...], float, FloatArray] | None = None
        self._sets: DataSets | JetSets
        self.selection: Selection | None = None
        self.seen: Selection | None = None
        jets = as_jets(model, data, n_leaves, column, parameters)
        if jets is None:
            if n_leaves is not None:
                raise TypeError("n_leaves selects jets by their numbers of particles; got no jets")
            models = _potentials(model, data, parameters)
            self.start = _free(models[0].parameters(), free)
            self._sets = DataSets(models, tuple(self.start))
            others = {type(p).__name__ for one in models for p in one.parts if not _is_density(p)}
        else:
            one = jets.model([[1.0, 0.0, 0.0, 0.0]], **jets.parameters)
            self.start = _free(one.parameters(), free)
            self.selection = jets.selection
            self.seen = jets.seen
            self._sets = JetSets(jets.model, jets.particles, jets.parameters, tuple(self.start))
            others = set() if _is_density(one) else {jets.model.__name__}
        self.is_density = not others
        if not self.is_density:
            warnings.warn(_no_density(others), stacklevel=2)

    @property
    def names(self) -> tuple[str, ...]:
        """The free parameters."""
        return tuple(self.start)

    @property
    def _parameters(self) -> dict[str, None]:
        """What iminuit reads the names from."""
        return dict.fromkeys(self.names)

    @property
    def n_data_sets(self) -> int:
        """How many data sets there are."""
        return len(self._sets)

    def __call__(self, *values: float) -> float:
        """Minus the log likelihood; very large where a data set is impossible."""
        return self.with_grad(*values)[0]

    def grad(self, *values: float) -> FloatArray:
        """Its derivatives by the parameters."""
        return self.with_grad(*values)[1]

    def with_grad(self, *values: float) -> tuple[float, FloatArray]:
        """Both, which are found together; the last are kept."""
        point = tuple(map(float, values))
        if len(point) != len(self.names):
            raise TypeError(f"expected {len(self.names)} numbers, {', '.join(self.names)}")
        if self._known is None or self._known[0] != point:
            self._known = (point, *self._at(point))
        return self._known[1], self._known[2].copy()

    def each(self, *values: float) -> FloatArray:
        """The log likelihood of each data set; -inf for one that is impossible."""
        named = dict(zip(self.names, map(float, values), strict=True))
        found: FloatArray = log_partitions(self._sets, named, self._threads)[:, 0]
        if self.selection is not None:
            found = found - self.selection.log_probabilities(named)
        return found

    def curvature(self, *values: float) -> FloatArray:
        """The matrix of second derivatives: differences of the exact first ones."""
        point = np.array(values, float)
        rows = []
        for k, value in enumerate(point):
            step = np.zeros(len(point))
            step[k] = STEP * max(abs(value), STEP)
            inside = point.copy()
            low, high = RANGES.get(self.names[k], ANY)
            inside[k] = min(max(value, low + step[k]), high - step[k])
            far = self._at(tuple(inside + step))[1] - self._at(tuple(inside - step))[1]
            rows.append(far / (2 * step[k]))
        matrix = np.array(rows)
        both: FloatArray = (matrix + matrix.T) / 2
        return both

    def g2(self, *values: float) -> FloatArray:
        """The second derivatives by each parameter, which iminuit asks for under this name."""
        return np.diagonal(self.curvature(*values)).copy()

    def _at(self, point: tuple[float, ...]) -> tuple[float, FloatArray]:
        self.n_evaluations += 1
        self.report(self.n_evaluations, None)
        named = dict(zip(self.names, point, strict=True))
        table = log_partitions(self._sets, named, self._threads)
        possible = table[:, 0] > -np.inf
        self.impossible = np.flatnonzero(~possible)
        cost = float(-table[possible, 0].sum() + IMPOSSIBLE * (~possible).sum())
        slope: FloatArray = -table[possible, 1:].sum(axis=0)
        if self.selection is not None:
            more, slopes = self.selection.total(named)
            return cost + more, slope + slopes
        return cost, slope


def _is_density(model: Potential) -> bool:
    """Whether Z of a model is the probability, or the density, of the data."""
    if isinstance(model, StudentContrasts):  # columns that count in part are no density
        return bool(model.effective_columns == model.n_columns)
    return isinstance(model, GinkgoDensity | BetaSplitting)


def _no_density(kinds: set[str]) -> str:
    names = ", ".join(sorted(kinds))
    hint = (
        " (for the rates of showers, fit GinkgoDensity)"
        if any("Ginkgo" in kind or "JetMass" in kind for kind in kinds)
        else ""
    )
    return (
        f"log Z of {names} is not the log likelihood of data: its weights are not normalised over "
        "data, so its maximum need not be near the true parameters, and errors mean nothing"
        f"{hint}"
    )


def _free(known: Mapping[str, float], free: Sequence[str] | str | None) -> dict[str, float]:
    wanted = tuple(known) if free is None else (free,) if isinstance(free, str) else tuple(free)
    for name in wanted:
        if name not in known:
            has = ", ".join(known) or "none"
            hint = "; give lam_root a value if it is to differ" if name == "lam_root" else ""
            raise ValueError(f"{name!r:.80} is not a parameter of the model, which has {has}{hint}")
    if not wanted:
        raise ValueError("the model has no parameter to be fitted")
    return {name: known[name] for name in wanted}


def _potentials(model: Any, data: Any, parameters: Mapping[str, Any]) -> list[Potential]:
    """The potentials that a user means: given ones, or made of data."""
    if data is None:
        given = [model] if isinstance(model, Potential) else model
        if parameters:
            raise TypeError(
                f"{next(iter(parameters))} was given, but the potentials have their parameters "
                "already"
            )
        if not isinstance(given, Iterable):
            raise TypeError(
                "give potentials, or a model and data: a class such as GinkgoDensity, or a "
                f"function that makes a potential of a data set; got {type(model).__name__}"
            )
        models = list(given)
    elif isinstance(model, Callable) and not isinstance(model, Potential):  # type: ignore[arg-type]
        items = data if isinstance(data, list | tuple) else [data]
        models = [model(item, **parameters) for item in items]
    else:
        raise TypeError(
            "model must be a class or a function that makes a potential of a data set; got "
            f"{type(model).__name__}"
        )
    for one in models:
        if not isinstance(one, Potential):
            raise TypeError(f"expected potentials; got {type(one).__name__}")
    if not models:
        raise ValueError("there is no data to be fitted")
    for one in models:
        if one.parameters().keys() != models[0].parameters().keys():
            raise ValueError("all data sets must have the same parameters")
    return models
