"""Keywords that may still be given by their earlier names."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def renamed(**names: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let a function take some keywords by their earlier names, which its signature does not show.

    Parameters
    ----------
    **names : str
        The present name of each keyword, by its earlier one.

    Examples
    --------
    >>> @renamed(number="size")
    ... def draw(size):
    ...     return size
    >>> draw(number=3)
    3
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def call(*args: Any, **options: Any) -> T:
            for old in names.keys() & options.keys():
                if names[old] in options:
                    raise TypeError(
                        f"{function.__name__}() got {names[old]!r} and {old!r}, which mean the same"
                    )
                options[names[old]] = options.pop(old)
            return function(*args, **options)

        return call

    return decorate
