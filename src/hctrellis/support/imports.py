"""What is imported when it is first needed, by one thread at a time.

Importing Numba, SciPy or Awkward Array takes a while, so it is put off until they are needed, which
may be in several threads at once. Modules of such packages import each other in circles: two
threads that enter a circle at different places wait for each other, and Python ends one of them
with an error. So whatever is imported late is imported under one lock. Numba comes in by
`hctrellis.kernels.door`.
"""

from __future__ import annotations

import sys
import warnings
from importlib.metadata import EntryPoint, entry_points
from threading import RLock
from typing import Any

ONE_AT_A_TIME = RLock()


def put_off_extensions(entrypoints: Any) -> None:
    """Have Numba load extensions of other packages only where these have been imported.

    Awkward Array and vector register extensions with Numba, which loads them before it first
    compiles. That takes most of a second, and nothing here needs them. They are loaded when
    something is compiled after their packages were imported.

    Parameters
    ----------
    entrypoints : module
        Of Numba: ``numba.core.entrypoints``.
    """
    if not getattr(entrypoints, "_already_initialized", True):
        entrypoints.init_all = _Extensions().load


class _Extensions:
    """The extensions of Numba whose packages have not been imported yet."""

    def __init__(self) -> None:
        self._waiting = list(entry_points(group="numba_extensions", name="init"))

    def load(self) -> None:
        """Load the extensions of packages that have been imported."""
        if not any(map(_is_imported, self._waiting)):
            return
        with ONE_AT_A_TIME:
            ready = [extension for extension in self._waiting if _is_imported(extension)]
            self._waiting = [extension for extension in self._waiting if extension not in ready]
            for extension in ready:
                try:
                    extension.load()()
                except Exception as error:
                    warnings.warn(
                        f"the extension {extension.module} of Numba failed to load: {error!r}",
                        stacklevel=2,
                    )


def _is_imported(extension: EntryPoint) -> bool:
    return extension.module.partition(".")[0] in sys.modules
