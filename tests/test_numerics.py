"""A slice of the campaign of benchmarks/numerics.py: hard numbers, precisely."""

from __future__ import annotations

import pytest

import campaign
from gallery import quiet

N_LEAVES = 5


def some():
    """Every fourth problem of one seed, and all of the prior: models meet several betas."""
    problems = quiet(lambda: list(campaign.problems(N_LEAVES, seed=1)))
    return [p for i, p in enumerate(problems) if i % 4 == 0 or p.model == "BetaSplitting"]


@pytest.mark.parametrize("problem", some(), ids=lambda p: f"{p.model}, {p.data}, {p.beta:g}")
def test_against_200_bits(problem):
    pytest.importorskip("flint", reason="python-flint is not installed")
    found = quiet(campaign.errors, problem)
    assert found.log_partition < 1e-10
    assert found.map_log_weight < 1e-12
