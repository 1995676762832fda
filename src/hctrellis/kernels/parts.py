"""Functions that only kernels call become parts of these, and nothing else.

Numba optimises every function, and makes machine code of it, before it is built into those that
call it, which are optimised with it once more. For what Python never calls, that code would never
run, and to make it takes a good part of the time of compiling a kernel. Such functions stay as they
are until the kernel is compiled. None of them may call itself: it would have no address.
"""

from __future__ import annotations

from typing import Any

from hctrellis.kernels.door import Compiler, JITCodeLibrary


class PartCompiler(Compiler):
    """Numba's compiler, for functions that only compiled code calls."""

    def compile_extra(self, func: Any) -> Any:
        """Compile a function into a library that only others can use."""
        self.state.library = _Part(self.state.targetctx.codegen(), func.__qualname__)
        return super().compile_extra(func)


class _NoMachineCode:
    """What stands for the generator of machine code where there is none."""

    @staticmethod
    def set_env(name: str, environment: Any) -> None:
        """Nothing: no code could use it."""


class _Part(JITCodeLibrary):
    """A function to be linked into others."""

    @property
    def codegen(self) -> Any:
        return _NoMachineCode

    def get_pointer_to_function(self, name: str) -> int:
        """0, which is the address of what does not exist."""
        self._ensure_finalized()
        return 0

    def _optimize_final_module(self) -> None:
        """Left to the kernel."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True
