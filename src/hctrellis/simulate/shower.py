r"""Simulated jets: the toy shower Ginkgo, with the history of every jet known.

A node of squared mass t > t_cut splits. With r_1, r_2 exponential of rate lam (lam_root at the
root) and below 0.999,

t_a = t r_1, t_b = (sqrt(t) - sqrt(t_a))^2 r_2,

and the two children fly apart in a direction uniform on the sphere in the rest frame of their
parent; the two are swapped with probability 1/2. A node with t <= t_cut is a leaf, a particle.

`ginkgo` makes `Jets`, a sequence of `Jet`: the particles, the true tree and its log likelihood.

References
----------
K. Cranmer, S. Macaluso, D. Pappadopulo, Toy generative model for jets, 2019.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hctrellis.potentials.fourvectors import LARGEST_ENERGY, LEAST_SQUARE
from hctrellis.potentials.jets import RATES
from hctrellis.simulate.jets import Jets, as_offsets
from hctrellis.support.checks import as_between, as_count, as_finite, as_positive
from hctrellis.support.keywords import renamed
from hctrellis.support.memory import check_fits
from hctrellis.support.progress import Progress, followed

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray, Seed

MOMENTUM = 400.0  # of the root
MOST_LEAVES = 1_000_000  # of one jet
MASSES = (math.sqrt(LEAST_SQUARE), LARGEST_ENERGY)  # between which those of the root must be
MOST_JETS = 10**12
HOPELESS = 100_000  # jets, none with a wanted number of leaves, after which we give up
_EFFORT = 200_000  # nodes simulated between two checks for Ctrl-C: some 50 ms


class Preset(NamedTuple):
    """A kind of jet: the mass of its root and its rates (lam_root None: the same as lam)."""

    mass: float
    lam: float
    lam_root: float | None


PRESETS = {"qcd": Preset(30.0, 1.5, None), "w": Preset(80.0, 1.5, 3.0)}


@renamed(leaves="n_leaves")
def ginkgo(
    size: int,
    preset: str = "qcd",
    *,
    lam: float | None = None,
    lam_root: float | None = None,
    t_cut: float = 16.0,
    mass: float | None = None,
    momentum: npt.ArrayLike | None = None,
    n_leaves: int | tuple[int, int] | None = None,
    rng: Seed = None,
    progress: Progress | bool | None = None,
) -> Jets:
    """Simulate jets with the toy shower Ginkgo.

    The log likelihood of a jet is that of its true tree under the model `Ginkgo`, which knows
    neither the masses of leaves nor which child was drawn first: of the two children of a split
    the heavier counts as the first, a leaf has t = 0 and the probability of stopping at t_cut. It
    is computed from the squared masses that were drawn. Those that follow from the momenta of the
    particles of a cluster of energy E agree with them to about 1e-16 E^2 / t (relative), the
    rounding of the momenta; energy and momentum are conserved to 1e-14.

    Parameters
    ----------
    size : int
        Number of jets.
    preset : "qcd" or "w"
        What is used for `mass`, `lam` and `lam_root` if they are not given: mass 30 and both rates
        1.5 for a jet of a light quark or gluon, mass 80, lam 1.5 and lam_root 3 for a W boson.
    lam : float, optional
        Decay rate.
    lam_root : float, optional
        Decay rate of the first splitting; in a QCD jet the same as `lam`.
    t_cut : float
        Squared mass up to which nothing splits.
    mass : float, optional
        Mass of the root.
    momentum : float or array_like, shape (3,), optional
        Momentum of the root: its size (400 by default), in the direction (1, 1, 1), or its three
        components.
    n_leaves : int or (int, int), optional
        Keep only jets with this number of leaves, or from the first to the second of two numbers.
    rng : int, numpy Generator or None
        Seed of the random numbers.
    progress : bool or callable, optional
        True shows a progress bar; a callable is called as progress(jets made, jets in all).

    Returns
    -------
    Jets

    Raises
    ------
    ValueError
        If a parameter is out of range, or (almost) no jet has the wanted number of leaves.

    Examples
    --------
    >>> jets = ginkgo(1000, n_leaves=(5, 10), rng=1)
    >>> jets
    Jets(1000 jets, 5 to 10 leaves, lam=1.5, t_cut=16)
    >>> jet = jets[0]
    >>> bool(np.isclose(jet.potential().log_weight(jet.tree), jet.log_likelihood))
    True
    """
    if not isinstance(size, int | np.integer) or isinstance(size, bool) or size < 0:
        raise ValueError(f"size must be a whole number, not negative; got {size!r:.80}")
    if size > MOST_JETS:
        raise ValueError(f"size must not exceed {MOST_JETS:,} jets at a time; got {size!r:.80}")
    if str(preset).lower() not in PRESETS:
        raise ValueError(f"preset must be 'qcd' or 'w'; got {preset!r:.80}")
    usual = PRESETS[str(preset).lower()]
    mass = as_between(usual.mass if mass is None else mass, "mass", *MASSES)
    lam = as_between(usual.lam if lam is None else lam, "lam", *RATES)
    if lam_root is None:
        lam_root = usual.lam_root or lam
    shower = _Shower(
        _root_momentum(mass, MOMENTUM if momentum is None else momentum),
        mass**2,
        as_between(t_cut, "t_cut", LEAST_SQUARE),
        lam,
        as_between(lam_root, "lam_root", *RATES),
    )
    window = _as_window(n_leaves)
    with followed(progress, "jets") as report, ThreadPoolExecutor(1) as pool:
        return _simulate(int(size), shower, window, np.random.default_rng(rng), report, pool)


class _Shower(NamedTuple):
    root: FloatArray
    t_root: float
    t_cut: float
    lam: float
    lam_root: float


def _simulate(
    size: int,
    shower: _Shower,
    window: tuple[int, int] | None,
    rng: np.random.Generator,
    progress: Progress,
    pool: ThreadPoolExecutor,
) -> Jets:
    """Jets from the kernel, in batches that do not change the stream of random numbers."""
    from hctrellis.kernels.shower import showers

    low, high = window or (1, MOST_LEAVES)
    batches: list[list[npt.NDArray[Any]]] = []
    made = fewer = more = 0
    check_fits(32 * low * size, f"{size} jets", "fewer jets at a time")  # their momenta, at least
    while made < size or not batches:
        # in another thread, since Ctrl-C while Numba hands out arrays is a SystemError
        call = pool.submit(showers, rng, *shower, low, high, size - made, _EFFORT)
        *arrays, n_fewer, n_more = call.result()
        batches.append(arrays)
        made, fewer, more = made + len(arrays[0]), fewer + n_fewer, more + n_more
        needed = 2 * size * sum(array.nbytes for array in arrays) // max(1, len(arrays[0]))
        check_fits(needed, f"{size} jets", "fewer jets at a time")
        if more > 0 and window is None:
            raise ValueError(
                f"a jet grew beyond {MOST_LEAVES:,} leaves; raise t_cut ({shower.t_cut:g} now) or "
                "say how many leaves are wanted, n_leaves=(low, high)"
            )
        if made == 0 and fewer + more >= HOPELESS:
            raise ValueError(
                f"none of {fewer + more:,} jets had {_show_window(low, high)} leaves ({fewer:,} "
                f"had fewer, {more:,} more); ask for other sizes, or change t_cut or mass"
            )
        progress(made, size)
    sizes, momenta, children, t, likelihoods = map(np.concatenate, zip(*batches, strict=True))
    return Jets(
        as_offsets(sizes),
        momenta,
        children,
        t,
        likelihoods,
        shower.lam,
        shower.lam_root,
        shower.t_cut,
    )


# ---- what was asked for -----------------------------------------------------------------------


def _root_momentum(mass: float, momentum: npt.ArrayLike) -> FloatArray:
    vector = as_finite(momentum, "momentum")
    if vector.ndim == 0:
        vector = np.full(3, as_positive(float(vector), "momentum", zero=True) / math.sqrt(3.0))
    if vector.shape != (3,):
        raise ValueError(
            f"momentum must be a number, or three components px, py, pz; got shape {vector.shape}"
        )
    energy = as_between(math.hypot(mass, *vector), "the energy of the root", *MASSES)
    return np.array([energy, *vector])


def _as_window(n_leaves: int | tuple[int, int] | None) -> tuple[int, int] | None:
    if n_leaves is None:
        return None
    ends = n_leaves if isinstance(n_leaves, tuple | list) else (n_leaves, n_leaves)
    if len(ends) != 2:
        raise ValueError(f"n_leaves must be a number or a pair (low, high); got {n_leaves!r:.80}")
    low, high = (as_count(end, "each number of leaves") for end in ends)
    if low > high:
        raise ValueError(f"n_leaves=({low}, {high}) is empty; put the smaller number first")
    if high > MOST_LEAVES:
        raise ValueError(f"n_leaves must not exceed {MOST_LEAVES:,} per jet; got {high:,}")
    return low, high


def _show_window(low: int, high: int) -> str:
    return f"{low}" if low == high else f"{low} to {high}"
