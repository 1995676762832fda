"""One decorator for all compiled code: Numba without the GIL, cached on disk where possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hctrellis.kernels.door import IS_COMPILING, numba
from hctrellis.kernels.kept import keep, kernel_texts
from hctrellis.kernels.parts import PartCompiler

INNER: Any = {  # called only by kernels
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "pipeline_class": PartCompiler,
}
LEAN: Any = {**INNER, "_nrt": False}  # without counting references


def jit(function: Callable[..., Any], *, key: str | None = None) -> Callable[..., Any]:
    """Compile a kernel, and keep the code on disk where that is possible.

    key : what stands for all that it is made of, if that is not the text of kernels alone
    """
    compiled: Callable[..., Any] = numba.njit(nogil=True, error_model="numpy")(function)
    if IS_COMPILING:
        keep(compiled, kernel_texts() if key is None else key.encode())
    return compiled


def jit_as(key: str, *, cache: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A `jit` whose cache files carry a key: Numba names them by source file and function only."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        function.__qualname__ += f"-{key}"
        if cache:
            return jit(function, key=key)
        compiled: Callable[..., Any] = numba.njit(nogil=True, error_model="numpy")(function)
        return compiled

    return decorate


def inner(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile what only kernels call: it becomes a part of these, in the cache, too.

    Called from Python, it would crash: it has no entry point for that.
    """
    compiled: Callable[..., Any] = numba.njit(nogil=True, error_model="numpy", **INNER)(function)
    return compiled


def lean(function: Callable[..., Any], *, into_callers: bool = False) -> Callable[..., Any]:
    """An `inner` function that makes no arrays, and does not count references to those it is given.

    Numba would count those to each array of each tuple, in every call of one function by another:
    some hundred times in a move of a Markov chain, which takes as long as the move.
    """
    options = {**LEAN, "forceinline": into_callers}
    compiled: Callable[..., Any] = numba.njit(nogil=True, error_model="numpy", **options)(function)
    return compiled


def fused(function: Callable[..., Any]) -> Callable[..., Any]:
    """A `lean` function that becomes a part of each of its callers: for what loops call."""
    return lean(function, into_callers=True)
