"""The split functions of the built-in models, as `hctrellis.kernels.bind.SplitCode` describes them.

Each is written once, in arithmetic that compiled vectors, compiled floats and NumPy arrays share.
"""

from __future__ import annotations

import numpy as np

from hctrellis.kernels.bind import SplitCode
from hctrellis.kernels.door import register_jitable
from hctrellis.kernels.elementary import exp2, expm1, log
from hctrellis.kernels.simd import choose, maximum, minimum, sqrt
from hctrellis.support.logs import LOG2E

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
def _contrast_row(size, sums, params):
    """Sum of squares about the centroid, size^gamma, and tau^2 / size^gamma; what a parent adds."""
    squares = sums[0] * params[4] / maximum(size, 1.0)
    return (squares, sums[1], params[1] / sums[1]), sums[2]


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


def _contrast(left, right, parent, params, cross):
    """Student's t of the contrast between the children, of variance sigma^2 + tau^2 q^gamma."""
    increase = maximum(parent[0] - left[0] - right[0], 0.0)
    variance = params[0] + left[1] * right[1] * parent[2]
    nu, columns = params[2], params[3]
    surprise = log(1.0 + increase / (nu * variance))
    return -0.5 * (columns * log(variance) + (nu + columns) * surprise), 1.0


def _shares(left, right, parent, params, cross):
    """Feature 1 / size: the share of a pair of leaves in the average over all that are cut."""
    return left[0] * right[0], 1.0


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


# -- derivatives with respect to hyperparameters of contrasts --------------------------------------


def _contrast_slope_row(size, sums, params):
    """As `_contrast_row`, and the log of the size."""
    (squares, power, inverse), _ = _contrast_row(size, (sums[0], sums[1], 0.0), params)
    return (squares, power, inverse, log(maximum(size, 1.0))), 0.0


def _contrast_slope(left, right, parent, params, cross):
    """The derivative of `_contrast` and of what its parent adds.

    The last five parameters are its parts by ln sigma^2, ln tau^2, gamma and nu, and what the
    derivatives by nu of all splits have in common.
    """
    noise, _, nu, columns, _, by_noise, by_scale, by_gamma, by_nu, common = params
    increase = maximum(parent[0] - left[0] - right[0], 0.0)
    between = left[1] * right[1] * parent[2]
    variance = noise + between
    ratio = increase / (nu * variance)
    pull = (nu + columns) * ratio / (1.0 + ratio)
    along = by_noise * noise + between * (by_scale + by_gamma * (left[3] + right[3] - parent[3]))
    of_nu = by_nu * (common - log(1.0 + ratio) + pull / nu)
    return 0.5 * ((pull - columns) / variance * along + of_nu), 1.0


# -- the density of the particles of a shower ------------------------------------------------------

_CUT = 0.999  # ratios of squared masses that the shower draws are below this
_NO_MASS = 1e100  # stands for the mass of a leaf that should have split
_ROUNDING = 2.0**-50  # of a difference of masses, relative to the mass of the parent


@register_jitable
def _density_row(size, sums, params):
    """The mass; a cluster that does not exceed t_cut cannot split, a leaf must not exceed it."""
    t = maximum(sums[0], 0.0)
    mass = sqrt(t)
    above = t - params[1]
    leaf_mass = choose(above, _NO_MASS, mass)
    return (choose(size - 1.5, mass, leaf_mass),), choose(above, params[2], _NEVER)


@register_jitable
def _orders(left, right, parent):
    """The two orders in which the children may have been drawn.

    For each, the sum u of the two ratios of squared masses and the weight 1 / T of the second,
    0 if it is impossible; u is then that of the other order.
    """
    square = maximum(parent * parent, _TINY)
    one, other = left * left, right * right
    left_over, right_over = parent - left, parent - right
    after_left = maximum(left_over * left_over, _TINY)
    after_right = maximum(right_over * right_over, _TINY)
    w = choose(_CUT * square - one, choose(_CUT * after_left - other, 1.0 / after_left, 0.0), 0.0)
    v = choose(_CUT * square - other, choose(_CUT * after_right - one, 1.0 / after_right, 0.0), 0.0)
    first = one / square + other / after_left
    second = other / square + one / after_right
    return choose(w, first, second), w, choose(v, second, first), v


def _density(left, right, parent, params, cross):
    """Feature m: either child may have been drawn first; divided by the phase space sqrt(K)."""
    lam = params[0]
    first, w, second, v = _orders(left[0], right[0], parent[0])
    gap = first - second
    more = exp2(-LOG2E * lam * maximum(gap, -gap))
    both = choose(gap, v, w) + choose(gap, w, v) * more
    least = parent[0] * _ROUNDING
    phase_space = sqrt(
        maximum(parent[0] - left[0] - right[0], least)
        * maximum(parent[0] + left[0] - right[0], least)
        * maximum(parent[0] - left[0] + right[0], least)
        * (parent[0] + left[0] + right[0])
    )
    x = choose(both, -lam * minimum(first, second), _NEVER)
    return x, both / maximum(phase_space, _TINY)


def _density_slope_row(size, sums, params):
    row, own = _density_row(size, sums, params)
    return row, 0.0


def _density_slope(left, right, parent, params, cross):
    """The derivative of `_density` and of what its parent adds."""
    lam, t_cut, norm, on = params
    first, w, second, v = _orders(left[0], right[0], parent[0])
    gap = first - second
    size = maximum(gap, -gap)
    more = choose(gap, w, v) * exp2(-LOG2E * lam * size)
    both = maximum(choose(gap, v, w) + more, _TINY)
    return (norm - minimum(first, second) - size * (more / both)) * on, 1.0


# -- derivatives with respect to rates; the last parameter is 1, or 0 where there is none ----------


def _jet_mass_slope_row(size, sums, params):
    return (maximum(sums[0], 0.0),), 0.0


def _jet_mass_slope(left, right, parent, params, cross):
    """Feature t: the derivative of `_jet_mass` and of what its parent adds."""
    return params[0] - (left[0] + right[0]) / maximum(parent[0], _LEAST), 1.0


@register_jitable
def _ginkgo_slope_row(size, sums, params):
    return (choose(size - 1.5, sqrt(maximum(sums[0], 0.0)), 0.0),), 0.0


@register_jitable
def _ginkgo_slope(left, right, parent, params, cross):
    """Feature sqrt(t): the derivative of `_ginkgo` and of what its parent adds."""
    first = maximum(left[0], right[0])
    second = minimum(left[0], right[0])
    gap = maximum(parent[0] - first, _TINY)
    square = maximum(parent[0] * parent[0], _TINY)
    ratio = first * first / square + second * second / (gap * gap)
    return (params[2] - ratio) * params[3], 1.0


@register_jitable
def _stop_slope(ratio, lam):
    """The derivative of log((1 - e^(-lam ratio)) / lam): (y / (e^y - 1) - 1) / lam."""
    y = minimum(maximum(lam * ratio, _TINY), 700.0)
    return (y / expm1(y) - 1.0) / lam


def _ginkgo_leaf_slope(left, right, parent, params, cross):
    """The same of `_ginkgo_leaf`."""
    lam, t_cut, norm, on = params
    gap = maximum(parent[0] - right[0], _TINY)
    stop = _stop_slope(t_cut / (gap * gap), lam)
    square = maximum(parent[0] * parent[0], _TINY)
    return (norm + stop + choose(right[0], -(right[0] * right[0]) / square, stop)) * on, 1.0


@register_jitable
def _go_on_slope(ratio, lam):
    """The derivative of log(1 - F) for ratio = t_cut / T (see `_go_on`)."""
    stops = minimum(ratio, 1.0)
    above = maximum(1.0 - stops, _TINY)
    return above / expm1(minimum(lam * above, 700.0)) - stops - 1.0 / expm1(minimum(lam, 700.0))


def _non_stop_slope_row(size, sums, params):
    (mass,), own = _ginkgo_slope_row(size, sums, params)
    return (mass, _go_on_slope(params[1] / maximum(sums[0], _TINY), params[0])), own


def _non_stop_slope(left, right, parent, params, cross):
    """Features sqrt(t), derivative of the log probability not to stop at once."""
    lam, t_cut, norm, on = params
    x, factor = _ginkgo_slope(left, right, parent, params, cross)
    gap = maximum(parent[0] - maximum(left[0], right[0]), _TINY)
    return x + (parent[1] + _go_on_slope(t_cut / (gap * gap), lam)) * on, factor


def _non_stop_leaf_slope(left, right, parent, params, cross):
    lam, t_cut, norm, on = params
    gap = maximum(parent[0] - right[0], _TINY)
    stop = _stop_slope(minimum(t_cut / (gap * gap), 1.0), lam)
    square = maximum(parent[0] * parent[0], _TINY)
    other = choose(right[0], parent[1] - right[0] * right[0] / square, stop)
    return (norm + stop + other) * on, 1.0


GAINS = SplitCode(_gains, _size_and_sum, n_features=2, n_sums=1, uses_parent=False, gains=True)
SIZES = SplitCode(_sizes, _two_sums, n_features=2, n_sums=2)
CONDITION = SplitCode(_nothing, _condition_row, n_features=1, n_sums=1, n_params=2, has_own=True)
DASGUPTA = SplitCode(_dasgupta, _size_and_sum, n_features=2, n_sums=1, n_params=1)
CORRELATION = SplitCode(_correlation, _two_sums, n_features=2, n_sums=2, n_params=1)
AVERAGE = SplitCode(_average, _sum_and_inverse_size, n_features=2, n_sums=1, n_params=1)
WARD = SplitCode(_ward, _squares, n_features=1, n_sums=1, n_params=1)
CENTROID = SplitCode(_centroid, _squares_and_inverse_size, n_features=2, n_sums=1, n_params=1)
CONTRAST = SplitCode(_contrast, _contrast_row, n_features=3, n_sums=3, n_params=5, has_own=True)
CONTRAST_SLOPE = SplitCode(
    _contrast_slope, _contrast_slope_row, n_features=4, n_sums=2, n_params=10
)
SHARES = SplitCode(_shares, _no_sums, n_features=1, uses_parent=False)
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
DENSITY = SplitCode(
    _density,
    _density_row,
    n_features=1,
    n_sums=1,
    n_params=3,
    scaled=True,
    has_own=True,
    forbids=True,
)
DENSITY_SLOPE = SplitCode(_density_slope, _density_slope_row, n_features=1, n_sums=1, n_params=4)
JET_MASS_SLOPE = SplitCode(_jet_mass_slope, _jet_mass_slope_row, n_features=1, n_sums=1, n_params=1)
GINKGO_SLOPE = SplitCode(
    _ginkgo_slope,
    _ginkgo_slope_row,
    n_features=1,
    n_sums=1,
    n_params=4,
    leaf=_ginkgo_leaf_slope,
)
NON_STOP_SLOPE = SplitCode(
    _non_stop_slope,
    _non_stop_slope_row,
    n_features=2,
    n_sums=1,
    n_params=4,
    leaf=_non_stop_leaf_slope,
)
