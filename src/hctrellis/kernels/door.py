"""The one door to Numba: compiled code takes all that it needs of Numba from here.

Numba is loaded when it is first needed, which may be in several threads at once. Its modules import
each other in circles: two threads that enter a circle at different places wait for each other, and
Python ends one of them with an error. Threads that import this module wait for the first to finish;
by then Numba is there, with the parts that it would load later, in whichever thread compiles.
"""

from __future__ import annotations

from typing import Any

from hctrellis.support import compiling
from hctrellis.support.imports import ONE_AT_A_TIME, put_off_extensions


def _have_pass_managers_freed() -> None:
    """Let llvmlite free the memory of pass managers: 15 MB for the kernels of one function.

    It has a method for that, which another one hides that does nothing (in llvmlite 0.50, at least,
    by the order of the base classes).
    """
    new: Any = getattr(binding, "newpassmanagers", None)
    for name in ("ModulePassManager", "FunctionPassManager"):
        kind = getattr(new, name, None)
        if kind is not None and kind._dispose is binding.ffi.ObjectRef._dispose:
            kind._dispose = new.NewPassManager._dispose


with ONE_AT_A_TIME:
    import numba
    from llvmlite import binding, ir
    from numba.core import cgutils, config, entrypoints, event, types
    from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import Compiler, Flags
    from numba.core.compiler_lock import global_compiler_lock as compiler_lock
    from numba.core.datamodel import models
    from numba.core.dispatcher import Dispatcher
    from numba.core.errors import NumbaError
    from numba.core.registry import cpu_target
    from numba.core.typeconv.castgraph import Conversion
    from numba.cpython.unsafe.numbers import trailing_zeros
    from numba.extending import (
        lower_builtin,
        lower_cast,
        overload,
        register_jitable,
        register_model,
        type_callable,
    )
    from numba.np.unsafe.ndarray import to_fixed_tuple

    IS_COMPILING = not getattr(config, "DISABLE_JIT")  # noqa: B009
    if IS_COMPILING:
        put_off_extensions(entrypoints)
        cpu_target.typing_context.refresh()
        cpu_target.target_context.refresh()
        _have_pass_managers_freed()


class _Told(event.Listener):
    """Passes on when Numba compiles; code that is read from disk is not compiled."""

    def on_start(self, event: object) -> None:
        compiling.begin()

    def on_end(self, event: object) -> None:
        compiling.end()


event.register("numba:compile", _Told())

__all__ = [
    "IS_COMPILING",
    "CompileResultCacheImpl",
    "Compiler",
    "Conversion",
    "Dispatcher",
    "Flags",
    "FunctionCache",
    "IndexDataCacheFile",
    "JITCodeLibrary",
    "NumbaError",
    "cgutils",
    "compiler_lock",
    "ir",
    "lower_builtin",
    "lower_cast",
    "models",
    "numba",
    "overload",
    "register_jitable",
    "register_model",
    "to_fixed_tuple",
    "trailing_zeros",
    "type_callable",
    "types",
]
