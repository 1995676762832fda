"""The highest peaks of a curve when both its height and the area beneath it are known.

The heat capacity is such a curve: drawn over log beta, the area beneath it between two betas is the
entropy that is lost between them. So no peak can hide between two points: its area gives it away.
`find_peaks` bisects the interval in which the curve may reach highest, until none may reach above
the highest point found, and then looks for the tops.

How high may the curve reach between two points? As high as a parabola over the chord, if it is
smooth there. Or as high as the sharpest possible peak, that of trees of two energies: if there are
g times as many trees of the higher one, the area is A = log(1 + g), and the peak is lower than
A^2 / 4 + A / 2 for every g >= 1/2. Here A is the area above the lower one of the two points.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

SLACK = 0.005  # the search ends when no interval may reach this much above the top, relatively
NEARLY = 0.9  # other peaks are reported if they reach this fraction of the highest one, ...
VALLEY = 0.97  # ... and the curve falls to this fraction of the lower one in between
PRECISION = 0.02  # of the place of a peak


class Point(NamedTuple):
    """A point of a curve.

    Attributes
    ----------
    x : float
        Its place.
    height : float
    area : float
        Beneath the curve to the right of here, up to a constant that is the same for all points.
    """

    x: float
    height: float
    area: float


def find_peaks(
    at: Callable[[float], Point], places: Iterable[float]
) -> tuple[list[Point], list[Point]]:
    """The highest peak of a curve and all that are nearly as high, and all points looked at.

    Parameters
    ----------
    at : callable
        The point of the curve at a place.
    places : iterable of float
        Where to begin; the search stays between the first and the last.

    Returns
    -------
    peaks : list of Point
        The highest first; others are at least `NEARLY` as high.
    points : list of Point
        In order of their places.

    Examples
    --------
    >>> def bell(x):
    ...     return Point(x, 1 / math.cosh(x - 0.7) ** 2, -math.tanh(x - 0.7))
    >>> peaks, points = find_peaks(bell, [-5.0, 0.0, 5.0])
    >>> [round(peak.x, 1) for peak in peaks]
    [0.7]
    """
    points = [at(x) for x in sorted(places)]
    while (gap := _most_promising(points)) is not None:
        insort(points, at(gap))
    for low, high in _brackets(points):
        golden_section(lambda x: _add(points, at(x)), low, high, PRECISION)
    xs, heights, _ = zip(*points, strict=True)
    tops = [peak._replace(x=summit(xs, heights, peak.x)) for peak in _prominent(points)]
    return tops, points


def _most_promising(points: list[Point]) -> float | None:
    """The middle of the interval that may reach highest; None if none may reach above the top."""
    wide = [(a, b) for a, b in pairwise(points) if b.x - a.x > PRECISION]
    reach, middle = max(((_reach(a, b), (a.x + b.x) / 2) for a, b in wide), default=(0.0, 0.0))
    top = max(point.height for point in points)
    return middle if reach > (1 + SLACK) * top else None


def _reach(left: Point, right: Point) -> float:
    """How high the curve may be between two points."""
    width, area = right.x - left.x, left.area - right.area
    bulge = 1.5 * (area / width - (left.height + right.height) / 2)
    rest = max(0.0, area - width * min(left.height, right.height))
    return max(left.height, right.height) + max(bulge, rest**2 / 4 + rest / 2)


def _brackets(points: list[Point]) -> list[tuple[float, float]]:
    """Intervals around the points that are higher than both neighbours and nearly the highest."""
    heights = [point.height for point in points]
    around = [(max(k - 1, 0), k, min(k + 1, len(points) - 1)) for k in range(len(points))]
    return [
        (points[low].x, points[high].x)
        for low, k, high in around
        if heights[k] >= max(*heights[low : high + 1], NEARLY * max(heights))
    ]


def _add(points: list[Point], point: Point) -> float:
    insort(points, point)
    return point.height


def golden_section(
    function: Callable[[float], float], low: float, high: float, precision: float
) -> None:
    """Evaluate a function ever closer to its maximum between two numbers."""
    ratio = (math.sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = function(left), function(right)
    while high - low > precision:
        if at_left >= at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = function(right)


def summit(xs: Sequence[float], heights: Sequence[float], x: float) -> float:
    """Where the parabola through the point at x and its two neighbours is highest.

    Closer to the top of a smooth curve than any of the points, so it hardly depends on where they
    happen to be. The point itself, if it is not higher than its neighbours.

    Examples
    --------
    >>> summit([0.0, 1.0, 3.0], [-4.0, -1.0, -1.0], 1.0)
    2.0
    """
    k = xs.index(x)
    if not 0 < k < len(xs) - 1:
        return x
    left, right = x - xs[k - 1], xs[k + 1] - x
    down_left, down_right = heights[k] - heights[k - 1], heights[k] - heights[k + 1]
    width = left * down_right + right * down_left
    if min(left, right) <= 0 or min(down_left, down_right) < 0 or width <= 0:
        return x
    return x + (right**2 * down_left - left**2 * down_right) / (2 * width)


def _prominent(points: list[Point]) -> list[Point]:
    """The tops that are nearly the highest, one between any two valleys; the highest first."""
    top = max(point.height for point in points)
    tops: list[Point] = []
    valley = math.inf
    for point in points:
        valley = min(valley, point.height)
        if not tops or valley <= VALLEY * min(tops[-1].height, point.height):
            tops.append(point)
            valley = point.height
        elif point.height > tops[-1].height:
            tops[-1] = point
            valley = point.height
    return sorted(
        (peak for peak in tops if peak.height >= NEARLY * top), key=lambda peak: -peak.height
    )
