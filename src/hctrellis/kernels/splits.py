"""The split functions of the built-in models, as `hctrellis.kernels.bind.SplitCode` describes them.

Each is written once, in arithmetic that compiled vectors, compiled floats and NumPy arrays share.
"""

from __future__ import annotations

from hctrellis.kernels.bind import SplitCode
from hctrellis.kernels.simd import choose, expm1, maximum, minimum, sqrt

_TINY = 1e-75  # keeps a square from vanishing


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
    return (left[0] + right[0]) * (-params[0] / maximum(parent[0], _TINY)), 1.0


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
    lam, t_cut = params
    gap = maximum(parent[0] - right[0], _TINY)
    stop = -expm1(maximum(-lam * t_cut / (gap * gap), -700.0)) / lam
    square = maximum(parent[0] * parent[0], _TINY)
    rate = lam / square
    return -(right[0] * right[0] * rate), stop * choose(right[0], 1.0, stop * square)


GAINS = SplitCode(_gains, n_features=2, uses_parent=False, gains=True)
SIZES = SplitCode(_sizes, n_features=2)
DASGUPTA = SplitCode(_dasgupta, n_features=2, n_params=1)
CORRELATION = SplitCode(_correlation, n_features=2, n_params=1)
AVERAGE = SplitCode(_average, n_features=2, n_params=1)
WARD = SplitCode(_ward, n_features=1, n_params=1)
CENTROID = SplitCode(_centroid, n_features=2, n_params=1)
SINGLE = SplitCode(_extreme, n_features=0, n_params=1, cross=minimum)
COMPLETE = SplitCode(_extreme, n_features=0, n_params=1, cross=maximum)
JET_MASS = SplitCode(_jet_mass, n_features=1, n_params=1)
GINKGO = SplitCode(_ginkgo, n_features=1, n_params=2, leaf=_ginkgo_leaf, scaled=True)
