"""The embedded data and the numbers that follow from them."""

from __future__ import annotations

import numpy as np
import pytest

import hctrellis as hct
from hctrellis.datasets import burtin


def test_shapes():
    table = burtin()
    assert table.values.shape == (len(table.labels), len(table.columns)) == (16, 3)
    assert len(set(table.labels)) == len(table.gram) == len(table.genus) == 16
    assert set(table.gram) == {"positive", "negative"}
    assert (table.values > 0).all()


def test_values_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        burtin().values[0, 0] = 1.0


def test_standardised_columns():
    table = burtin().log10_standardised()
    np.testing.assert_allclose(table.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose((table**2).mean(axis=0), 1.0)


@pytest.mark.parametrize(("beta", "log_probability"), [(5.0, -8.84), (2.0, -14.79)])
def test_map_probability(beta, log_probability):
    table = burtin()
    model = hct.Linkage(table.log10_standardised(), "average", beta=beta, labels=table.labels)
    post = hct.infer(model)
    assert post.map_log_probability == pytest.approx(log_probability, abs=0.005)
    assert post.n_trees == 6190283353629375


@pytest.mark.parametrize(
    ("beta", "probability", "tolerance"), [(5.0, 1.0, 5e-4), (2.0, 0.89, 5e-4)]
)
def test_question_of_the_streptococci(beta, probability, tolerance):
    table = burtin()
    model = hct.Linkage(table.log10_standardised(), "average", beta=beta, labels=table.labels)
    post = hct.infer(model)
    new = ["Diplococcus pneumoniae", "Streptococcus hemolyticus", "Streptococcus viridans"]
    old = ["Streptococcus fecalis", "Streptococcus hemolyticus", "Streptococcus viridans"]
    assert post.cluster_probability(new) == pytest.approx(probability, abs=tolerance)
    assert post.cluster_probability(old) < 0.002
