"""One decorator for all compiled code: Numba without the GIL, cached on disk where possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def jit(function: Callable[..., Any], *, cache: bool = True) -> Callable[..., Any]:
    """Compile a kernel; where no cache folder is writable, compile it anew in each process."""
    try:
        return numba.njit(nogil=True, cache=cache, error_model="numpy")(function)
    except RuntimeError:  # Numba found no folder to cache in
        return jit(function, cache=False)


def jit_as(key: str, *, cache: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A `jit` whose cache files carry a key: Numba names them by source file and function only."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        function.__qualname__ += f"-{key}"
        return jit(function, cache=cache)

    return decorate
