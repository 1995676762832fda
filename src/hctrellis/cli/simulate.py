"""``hctrellis simulate jets``: jets of the toy shower Ginkgo, as a Parquet file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hctrellis.simulate import ginkgo


def run_simulate_jets(number: int, output: Path, quiet: bool, **options: Any) -> None:
    """Simulate jets, write them and say so in one line."""
    if not output.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {output.parent} to write {output.name} into")
    if output.is_dir():
        raise IsADirectoryError(f"{output} is a folder; give the name of a file, such as a.parquet")
    jets = ginkgo(number, progress=not quiet, **options)
    jets.to_parquet(output)
    if not quiet:
        print(f"{_counted(jets)} written to {output}")


def _counted(jets: Any) -> str:
    many = f"{len(jets):,} jet{'' if len(jets) == 1 else 's'}"
    if len(jets) == 0:
        return many
    low, high = int(jets.n_leaves.min()), int(jets.n_leaves.max())
    return f"{many} of {low} to {high} leaves"
