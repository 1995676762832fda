"""Ginkgo510: simulated jets with 5 to 10 leaves and the exact answers, shared by experiments."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from hctrellis import simulate
from hctrellis.batch import infer_many

if TYPE_CHECKING:
    from hctrellis.reproduce.record import Size
    from hctrellis.support.types import FloatArray

N_JETS = {"small": 100, "full": 5000}
LEAVES = range(5, 11)


class Sample(NamedTuple):
    """Jets, and for each log Z and the log likelihood of its best tree."""

    jets: simulate.Jets
    log_partition: FloatArray
    best: FloatArray


@cache
def sample(size: Size, seed: int) -> Sample:
    """The jets of a seed, with the exact answers."""
    jets = simulate.ginkgo(N_JETS[size], n_leaves=(LEAVES[0], LEAVES[-1]), rng=seed)
    table = infer_many(jets).to_arrow()
    return Sample(jets, table["log_partition"].to_numpy(), table["map_log_weight"].to_numpy())
