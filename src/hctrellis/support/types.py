"""Names for the types of arrays and of seeds."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

IntArray: TypeAlias = npt.NDArray[np.int64]
FloatArray: TypeAlias = npt.NDArray[np.float64]
SmallArray: TypeAlias = npt.NDArray[np.int16]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

Seed: TypeAlias = int | np.random.Generator | None
"""What every call that draws random numbers takes: a seed, a generator, or None for a new one."""
