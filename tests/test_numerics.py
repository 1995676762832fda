"""A slice of the campaign of benchmarks/numerics.py: hard numbers, precisely."""

from __future__ import annotations

import pytest

import campaign
from gallery import quiet

N_LEAVES = 5


def some():
    """Every fifth problem of one seed: all models, kinds of data and betas occur."""
    with_flat = quiet(lambda: list(campaign.problems(N_LEAVES, seed=1)))
    return with_flat[::5]


@pytest.mark.parametrize("problem", some(), ids=lambda p: f"{p.model}, {p.data}, {p.beta:g}")
def test_against_200_bits(problem):
    pytest.importorskip("flint", reason="python-flint is not installed")
    found = quiet(campaign.errors, problem)
    assert found.log_partition < 1e-10
    assert found.map_log_weight < 1e-12
