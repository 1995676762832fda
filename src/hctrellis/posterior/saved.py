"""Posteriors in files: the model and the trees that are considered, as arrays of numbers.

`write_posterior` writes an .npz file, `read_posterior` reads it. Nothing is pickled. The file holds

- ``header``: JSON as bytes, with the format, names and numbers of the model, and log Z;
- ``data_0``, ``data_1``, ...: an array for each part of the model;
- the arrays of a sparse trellis, if not all trees are considered;
- the trees that chains have come through, if they were sampled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from hctrellis.potentials.base import Potential
from hctrellis.potentials.saved import from_parts, to_parts
from hctrellis.support.checks import as_count
from hctrellis.support.files import replaced
from hctrellis.trellis.full import FullTrellis
from hctrellis.trellis.saved import NUMBERS, read_arrays
from hctrellis.trellis.sparse import Keep, SparseTrellis
from hctrellis.trellis.vertices import SparseVertices

FORMAT = "hctrellis-posterior-1"
ARRAYS = ("words", "offsets", "lefts", "rights")  # of a sparse trellis
SAMPLED = ("children", "log_weights", "forbidden", "best")  # of sampled trees


class Saved(NamedTuple):
    """What a file holds.

    Attributes
    ----------
    potential : Potential
    trellis : FullTrellis or SparseTrellis
    log_partition : float
        As it was when the file was written.
    growth : dict or None
        How the trellis was grown: its fields.
    said : dict or None
        How trees were sampled, if they were.
    more : dict from str to arrays
        The sampled trees.
    """

    potential: Potential
    trellis: FullTrellis | SparseTrellis
    log_partition: float
    growth: dict[str, Any] | None
    said: dict[str, Any] | None
    more: dict[str, npt.NDArray[Any]]


def write_posterior(
    path: Path,
    potential: Potential,
    trellis: FullTrellis | SparseTrellis,
    log_partition: float,
    growth: dict[str, Any] | None,
    more: Mapping[str, npt.NDArray[Any]] | None = None,
    said: Mapping[str, Any] | None = None,
) -> Path:
    """Write a model and the trees that are considered; more arrays, and what is said of them."""
    model, arrays = to_parts(potential)
    header = {
        "format": FORMAT,
        "model": model,
        "log_partition": log_partition,
        "growth": growth,
        "n_leaves": potential.n_leaves,
        "keep": trellis.keep if isinstance(trellis, SparseTrellis) else None,
        "sampled": said,
    }
    stored: dict[str, Any] = {f"data_{k}": array for k, array in enumerate(arrays)}
    stored |= more or {}
    if isinstance(trellis, SparseTrellis):
        stored |= {name: getattr(trellis.vertices, name) for name in ARRAYS}
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with replaced(path) as half, half.open("wb") as file:
        np.savez_compressed(file, header=text, **stored)
    return path


def read_posterior(path: Path) -> Saved:
    """Read what `write_posterior` has written; whatever is wrong with it is an error in words."""
    try:
        header = json.loads(bytes(read_arrays(path, ["header"], NUMBERS)["header"]).decode())
        if header["format"] != FORMAT:
            raise ValueError(f"its format is {header['format']!r:.80}")
        names = [f"data_{k}" for k in range(len(header["model"]))]
        arrays = read_arrays(path, names, NUMBERS)
        potential = from_parts(header["model"], [arrays[name] for name in names])
        trellis = _trellis(path, header, potential.n_leaves)
        log_z = float(header["log_partition"])
        said = header["sampled"]
        more = {} if said is None else read_arrays(path, SAMPLED, NUMBERS)
        return Saved(potential, trellis, log_z, header["growth"], said, more)
    except MemoryError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"{path} is not a saved posterior: {reason}") from None


def _trellis(path: Path, header: dict[str, Any], n: int) -> FullTrellis | SparseTrellis:
    if header["keep"] is None:
        return FullTrellis(n)
    found = read_arrays(path, ARRAYS)
    kinds = [array.dtype for array in found.values()]
    if kinds != [np.uint64, *[np.int64] * 3]:
        raise ValueError("the arrays of its trellis are of another kind")
    vertices = SparseVertices(as_count(header["n_leaves"], "n_leaves"), **found)
    keep = header["keep"]
    if keep not in get_args(Keep):
        raise ValueError(f"it keeps {keep!r:.80}")
    trellis = SparseTrellis(vertices, keep)
    trellis.validate()
    return trellis
