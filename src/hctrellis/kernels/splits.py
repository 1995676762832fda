"""The split functions of the built-in models, as `hctrellis.kernels.bind.SplitCode` describes them.

Each is written once, in arithmetic that compiled vectors, compiled floats and NumPy arrays share.
"""

from __future__ import annotations

import numpy as np

from hctrellis.kernels.bind import SplitCode
from hctrellis.kernels.door import register_jitable
from hctrellis.kernels.elementary import expm1, log
from hctrellis.kernels.simd import choose, maximum, minimum, sqrt

_TINY = 1e-75  # keeps a square from vanishing
_LEAST = 1e-270  # of a squared mass that has a logarithm (see `potentials.jets`)
_NEVER = -np.inf


def _size_and_sum(size, sums, params):
    return (sums[0], size), 0.0


def _two_sums(size, sums, params):
    return (sums[0], sums[1]), 0.0


def _no_sums(size, sums, params):
    return (), 0.0


def _sum_and_inverse_size(size, sums, params):
    return (sums[0], 1.0 / maximum(size, 1.0)), 0.0


def _squares(size, sums, params):
    """The sum of squares about the centroid."""
    return (sums[0] / maximum(size, 1.0),), 0.0


def _squares_and_inverse_size(size, sums, params):
    inverse = 1.0 / maximum(size, 1.0)
    return (sums[0] * inverse, inverse), 0.0


def _jet_mass_row(size, sums, params):
    """A cluster without mass cannot split."""
    t = maximum(sums[0], 0.0)
    return (t,), choose(t, params[1] - 2.0 * log(maximum(t, _LEAST)), _NEVER)


@register_jitable
def _ginkgo_row(size, sums, params):
    """A leaf has no mass; a cluster below t_cut cannot split."""
    t = maximum(sums[0], 0.0)
    own = params[2] - log(maximum(t, _TINY))
    return (choose(size - 1.5, sqrt(t), 0.0),), choose(params[1] - t, _NEVER, own)


def _non_stop_row(size, sums, params):
    """The same, with log of the probability not to stop at once; t = t_cut cannot split either."""
    (mass,), own = _ginkgo_row(size, sums, params)
    x, factor = _go_on(params[1] / maximum(sums[0], _TINY), params)
    go_on = x + log(maximum(factor, _TINY))
    return (mass, go_on), choose(sums[0] - params[1], own, _NEVER)


@register_jitable
def _go_on(ratio, params):
    """1 - F for ratio = t_cut / T, as factor e^x, without cancellation or underflow."""
    lam = params[0]
    stops = minimum(ratio, 1.0)
    above = expm1(maximum(-lam * (1.0 - stops), -700.0))
    return -lam * stops, above / expm1(maximum(-lam, -700.0))


def _condition_row(size, sums, params):
    """Feature: how many leaves of a cluster C are in it. A tree must have C, or must not.

    params : the size of C, and 1 if it must be there, 0 if not.
    """
    shared, wanted = sums[0], params[0]
    crossing = minimum(minimum(shared, size - shared), wanted - shared) - 0.5
    other = maximum(wanted - shared, size - shared) - 0.5
    must = choose(crossing, _NEVER, 0.0)
    must_not = choose(other, 0.0, _NEVER)
    return (shared,), choose(params[1] + 0.0 * shared - 0.5, must, must_not)


def _nothing(left, right, parent, params, cross):
    """Feature: a sum over leaves; the splits have no weight of their own."""
    return parent[0] - left[0] - right[0], 1.0


def _gains(left, right, parent, params, cross):
    """Features gain, size: each child gains by every leaf of its sibling."""
    return left[0] * right[1] + right[0] * left[1], 1.0


def _sizes(left, right, parent, params, cross):
    """Features: log weight as a child, log weight as a parent."""
    return left[0] + right[0] + parent[1], 1.0


def _dasgupta(left, right, parent, params, cross):
    """Features w (similarity inside), size."""
    return (parent[0] - left[0] - right[0]) * (parent[1] * -params[0]), 1.0


def _correlation(left, right, parent, params, cross):
    """Features positive and |negative| affinity inside."""
    energy = (parent[0] - left[0] - right[0]) + (left[1] + right[1])
    return energy * -params[0], 1.0


def _average(left, right, parent, params, cross):
    """Features w (sum of distances inside), 1 / size."""
    return (parent[0] - left[0] - right[0]) * (left[1] * right[1]) * -params[0], 1.0


def _ward(left, right, parent, params, cross):
    """Feature: sum of squares about the centroid."""
    return sqrt(2.0 * maximum(parent[0] - left[0] - right[0], 0.0)) * -params[0], 1.0


def _centroid(left, right, parent, params, cross):
    """Features: sum of squares about the centroid, 1 / size."""
    increase = maximum(parent[0] - left[0] - right[0], 0.0)
    return sqrt(increase * (left[1] * right[1] / parent[1])) * -params[0], 1.0


def _extreme(left, right, parent, params, cross):
    """No features: the extreme distance between the children."""
    return cross * -params[0], 1.0


def _jet_mass(left, right, parent, params, cross):
    """Feature t (squared mass)."""
    return (left[0] + right[0]) * (-params[0] / maximum(parent[0], _LEAST)), 1.0


@register_jitable
def _ginkgo(left, right, parent, params, cross):
    """Feature sqrt(t): the heavier child decays first, the other from what is left."""
    first = maximum(left[0], right[0])
    second = minimum(left[0], right[0])
    gap = maximum(parent[0] - first, _TINY)
    inverse = 1.0 / (gap * gap)
    rate = params[0] / maximum(parent[0] * parent[0], _TINY)
    return -(first * first * rate + second * second * (inverse * params[0])), inverse


def _ginkgo_leaf(left, right, parent, params, cross):
    """The left child is a leaf (t = 0): the probability to stop at t_cut instead of a density."""
    lam, t_cut, _constant = params
    gap = maximum(parent[0] - right[0], _TINY)
    stop = -expm1(maximum(-lam * t_cut / (gap * gap), -700.0)) / lam
    square = maximum(parent[0] * parent[0], _TINY)
    rate = lam / square
    return -(right[0] * right[0] * rate), stop * choose(right[0], 1.0, stop * square)


def _non_stop(left, right, parent, params, cross):
    """Features sqrt(t), log probability not to stop at once: both children go on to split."""
    x, factor = _ginkgo(left, right, parent, params, cross)
    y, go_on = _go_on(params[1] * factor, params)
    return x + parent[1] + y, factor * go_on


def _non_stop_leaf(left, right, parent, params, cross):
    """The left child is a leaf: it stops below t_cut, or below what is left if that is less."""
    lam, t_cut, _constant = params
    gap = maximum(parent[0] - right[0], _TINY)
    stop = -expm1(maximum(-lam * minimum(t_cut / (gap * gap), 1.0), -700.0)) / lam
    square = maximum(parent[0] * parent[0], _TINY)
    rate = lam / square
    x = choose(right[0], parent[1], 0.0) - right[0] * right[0] * rate
    return x, stop * choose(right[0], 1.0, stop * square)


GAINS = SplitCode(_gains, _size_and_sum, n_features=2, n_sums=1, uses_parent=False, gains=True)
SIZES = SplitCode(_sizes, _two_sums, n_features=2, n_sums=2)
CONDITION = SplitCode(_nothing, _condition_row, n_features=1, n_sums=1, n_params=2, has_own=True)
DASGUPTA = SplitCode(_dasgupta, _size_and_sum, n_features=2, n_sums=1, n_params=1)
CORRELATION = SplitCode(_correlation, _two_sums, n_features=2, n_sums=2, n_params=1)
AVERAGE = SplitCode(_average, _sum_and_inverse_size, n_features=2, n_sums=1, n_params=1)
WARD = SplitCode(_ward, _squares, n_features=1, n_sums=1, n_params=1)
CENTROID = SplitCode(_centroid, _squares_and_inverse_size, n_features=2, n_sums=1, n_params=1)
SINGLE = SplitCode(_extreme, _no_sums, n_features=0, n_sums=0, n_params=1, cross=minimum)
COMPLETE = SplitCode(_extreme, _no_sums, n_features=0, n_sums=0, n_params=1, cross=maximum)
JET_MASS = SplitCode(_jet_mass, _jet_mass_row, n_features=1, n_sums=1, n_params=2, has_own=True)
GINKGO = SplitCode(
    _ginkgo,
    _ginkgo_row,
    n_features=1,
    n_sums=1,
    n_params=3,
    leaf=_ginkgo_leaf,
    scaled=True,
    has_own=True,
)
GINKGO_NON_STOP = SplitCode(
    _non_stop,
    _non_stop_row,
    n_features=2,
    n_sums=1,
    n_params=3,
    leaf=_non_stop_leaf,
    scaled=True,
    has_own=True,
)
