"""The density of the particles of a jet: the toy shower as a likelihood of what is seen."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy.typing as npt

from hctrellis.potentials.fourvectors import OnShell
from hctrellis.potentials.jets import Shower

if TYPE_CHECKING:
    from hctrellis.kernels.bind import SplitCode

RATIO_CUT = 0.999  # ratios of squared masses are drawn below this


class GinkgoDensity(Shower):
    r"""The toy shower Ginkgo as a density of the particles: log Z is a log likelihood of rates.

    The sum over trees, Z, is the density p(particles | momentum of the root, lam, lam_root) of the
    four-momenta of the particles, in any order (its integral over the momenta of n particles is n!
    times the probability that a jet has n). So it may be maximised over the rates, which the
    weights of `Ginkgo` must not: those are densities of the variables of the splittings, and their
    sum over trees is no density of anything that is seen.

    With f(r) = lam e^(-lam r) / (1 - e^(-0.999 lam)) for 0 < r < 0.999, T_a = (sqrt(t_P) -
    sqrt(t_a))^2 and g(a, b) = f(t_a / t_P) / t_P f(t_b / T_a) / T_a, either child may have been
    drawn first:

    psi = (g(L, R) + g(R, L)) / (4 pi) 8 t_P / sqrt(K), K = (t_P - t_L - t_R)^2 - 4 t_L t_R,

    where sqrt(K) / (8 t_P) is the volume of the two-body phase space per t_L, t_R and direction. It
    is 0 for a parent with t_P <= t_cut. Leaves have their true masses; a leaf with t > t_cut, which
    would have split, makes a jet impossible.

    Parameters
    ----------
    momenta : array_like, shape (n, 4)
        Rows E, px, py, pz, none beyond 1e30.
    lam : float
        Decay rate, from 1e-30 to 1e30.
    t_cut : float
        Squared mass up to which nothing splits, at least 1e-60.
    lam_root : float, optional
        Decay rate of the first splitting, if it differs (decay of a heavy particle).
    labels : iterable of str, optional
    on_shell : "auto", True or False
        What is done with space-like particles; see `Ginkgo`.

    Attributes
    ----------
    momenta : array, shape (n, 4)
        After repairs.
    repaired : tuple of int
        The particles that were put on their mass shells.

    Examples
    --------
    >>> import hctrellis as hct
    >>> jet = hct.simulate.ginkgo(1, t_cut=64, n_leaves=5, rng=0)[0]
    >>> post = hct.infer(hct.GinkgoDensity(jet.momenta, lam=1.5, t_cut=64))
    >>> round(post.gradient()["lam"], 3)
    -0.06
    """

    upper = RATIO_CUT
    log_measure = math.log(8 / (4 * math.pi))

    def __init__(
        self,
        momenta: npt.ArrayLike,
        lam: float,
        t_cut: float,
        lam_root: float | None = None,
        *,
        labels: Iterable[object] | None = None,
        on_shell: OnShell = "auto",
    ) -> None:
        super().__init__(momenta, lam, t_cut, lam_root, labels, on_shell)

    def code(self) -> SplitCode:
        from hctrellis.kernels.splits import DENSITY

        return DENSITY

    def slope_code(self) -> SplitCode:
        from hctrellis.kernels.splits import DENSITY_SLOPE

        return DENSITY_SLOPE
