"""Gene expression: samples by genes, from a file or made up, and affinities between samples."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hctrellis.support.textfiles import as_text, read_bytes

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray, IntArray

PER_SUBTYPE = 2
UNLABELLED = 2
MOST_SUBTYPES = 8
LARGEST_CORRELATION = 0.999  # tan(pi/2 w) has a pole at 1
MISSING = ("", "NA", "NaN", "nan")


@dataclass(frozen=True)
class Expression:
    """A table of gene expression.

    Attributes
    ----------
    source : str
        Where it is from, in words.
    samples : tuple of str
    subtypes : tuple of str
        Of each sample; empty if it is not known.
    values : float64 array, shape (samples, genes)
        Missing values are 0.
    missing : float
        Share of the values that were missing.
    n_identical : int
        Samples that were left out because another has the same values.
    planted : bool
        Whether the table is made up.
    """

    source: str
    samples: tuple[str, ...]
    subtypes: tuple[str, ...]
    values: FloatArray
    missing: float
    n_identical: int = 0
    planted: bool = False

    @property
    def names(self) -> list[str]:
        """The subtypes there are."""
        return sorted({name for name in self.subtypes if name})

    def places(self, subtype: str) -> IntArray:
        """Where the samples of a subtype are."""
        return np.flatnonzero(np.array(self.subtypes) == subtype)


def read_expression(path: Path) -> Expression:
    """Read a CSV file with the columns sample, subtype (may be empty) and one for each gene.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file, a column is missing, a value is not a number, a sample has the
        same value for all genes, or there are too few samples.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path} with gene expression")
    text = as_text(read_bytes(path), path.name)
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    except csv.Error as error:
        raise ValueError(f"{path} is not a table in CSV format: {error}") from None
    if not rows or rows[0][:2] != ["sample", "subtype"] or len(rows[0]) < 4:
        raise ValueError(
            f"{path} must begin with a line of names: sample, subtype, and at least two genes"
        )
    for line, row in enumerate(rows[1:], start=2):
        if len(row) != len(rows[0]):
            raise ValueError(
                f"line {line} of {path} has {len(row)} cells, the first has {len(rows[0])}"
            )
    cells = [[_number(cell, path, row[0]) for cell in row[2:]] for row in rows[1:]]
    table = np.array(cells, float).reshape(len(cells), -1)
    filled = np.nan_to_num(table)
    kept = np.sort(np.unique(filled, axis=0, return_index=True)[1])
    data = Expression(
        source=path.name,
        samples=tuple(rows[i + 1][0] for i in kept),
        subtypes=tuple(rows[i + 1][1].strip() for i in kept),
        values=filled[kept],
        missing=float(np.isnan(table).mean()) if table.size else 0.0,
        n_identical=len(table) - len(kept),
    )
    _check(data, path)
    return data


def _number(cell: str, path: Path, sample: str) -> float:
    if cell.strip() in MISSING:
        return np.nan
    try:
        value = float(cell)
    except ValueError:
        value = np.inf
    if not np.isfinite(value):
        raise ValueError(
            f"{path} has {cell!r:.40} for sample {sample!r:.40}; expected a number, or nothing"
        )
    return value


def _check(data: Expression, path: Path) -> None:
    flat = np.ptp(data.values, axis=1) == 0
    if flat.any():
        raise ValueError(
            f"sample {data.samples[int(np.argmax(flat))]!r:.40} of {path} has the same value for "
            "all genes, so it has no correlation with others"
        )
    if not 2 <= len(data.names) <= MOST_SUBTYPES:
        raise ValueError(
            f"{path} has {len(data.names)} subtypes; expected from 2 to {MOST_SUBTYPES}"
        )
    for name in data.names:
        if len(data.places(name)) < PER_SUBTYPE + 1:
            raise ValueError(
                f"{path} has {len(data.places(name))} different samples of subtype {name!r:.40}; "
                f"expected {PER_SUBTYPE + 1} or more"
            )
    if len(data.places("")) < UNLABELLED:
        raise ValueError(
            f"{path} has {len(data.places(''))} samples without a subtype; expected "
            f"{UNLABELLED} or more"
        )


def synthetic(seed: int) -> Expression:
    """A made-up table: 50 genes, five planted subtypes with 20 samples each, 40 unlabelled.

    The subtypes share a common profile; "A" and "B" are similar, as are "C" and "D". Each
    unlabelled sample is of one of the five subtypes.
    """
    rng = np.random.default_rng(seed)
    genes, size, n_unlabelled = 50, 20, 40
    common, one, other = rng.normal(size=(3, genes)) * [[1.3], [0.7], [0.7]]
    families = dict(zip("ABCDE", (one, one, other, other, np.zeros(genes)), strict=True))
    profiles = {name: common + kin + rng.normal(size=genes) for name, kin in families.items()}
    labels = [name for name in profiles for _ in range(size)] + [""] * n_unlabelled
    truth = labels[: size * len(profiles)] + rng.choice(list(profiles), n_unlabelled).tolist()
    values = np.array([profiles[name] for name in truth])
    values += 0.9 * rng.normal(size=values.shape)
    absent = rng.random(values.shape) < 0.02
    values[absent] = 0.0
    return Expression(
        source="made-up table with planted subtypes",
        samples=tuple(f"{name or 'unlabelled'}-{k}" for k, name in enumerate(labels)),
        subtypes=tuple(labels),
        values=values,
        missing=float(absent.mean()),
        planted=True,
    )


def affinity(values: FloatArray) -> FloatArray:
    """Affinities between samples, as in the paper: tan(pi/2 correlation) minus its mean."""
    correlation = np.clip(np.corrcoef(values), -LARGEST_CORRELATION, LARGEST_CORRELATION)
    stretched = np.tan(correlation * np.pi / 2)
    np.fill_diagonal(stretched, 0.0)
    n = len(values)
    level = stretched.sum() / (n * (n - 1))
    shifted: FloatArray = stretched - level
    np.fill_diagonal(shifted, 0.0)
    return shifted
