"""What is imported when it is first needed, by one thread at a time.

Importing Numba, SciPy or Awkward Array takes a while, so it is put off until they are needed, which
may be in several threads at once. Modules of such packages import each other in circles: two
threads that enter a circle at different places wait for each other, and Python ends one of them
with an error. So whatever is imported late is imported under one lock; `load_kernel` is the
only way to compiled code, and thus to Numba.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from threading import RLock
from typing import Any

ONE_AT_A_TIME = RLock()


@cache
def load_kernel(name: str) -> Any:
    """A module of `hctrellis.kernels`."""
    with ONE_AT_A_TIME:
        _load_numba()
        return import_module(f"hctrellis.kernels.{name}")


@cache
def _load_numba() -> None:
    """Load Numba with what it would load later, in whichever thread compiles first.

    These are parts of its own, and the extensions that other packages register with it.
    """
    from numba.core import config
    from numba.core.entrypoints import init_all
    from numba.core.registry import cpu_target

    if not getattr(config, "DISABLE_JIT"):  # noqa: B009
        init_all()  # type: ignore[no-untyped-call]
        cpu_target.typing_context.refresh()
        cpu_target.target_context.refresh()
