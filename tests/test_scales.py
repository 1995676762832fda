"""Extreme scales: an answer is right or refused with the range, by `infer` and `infer_many` alike.

In other units the same data have the same posterior, and log psi is shifted by a known number; so
an answer at any scale is known from that at scale 1, which other tests hold against the oracle.
Every model is asked of `infer_many` in a process without the compiler (see `test_kernels.py`).
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import hctrellis as hct
import naive
from gallery import (
    INTERPRETED,
    METHODS,
    affinities,
    is_batched,
    momenta,
    points,
    quiet,
    similarities,
)

N = 4 if INTERPRETED else 6
POWERS = (-300, -170, -149, -100, -50, -31, -25, 25, 31, 60, 100, 149)


def answers(make):
    """Log Z from infer and from infer_many; the same message from both if it is refused."""
    try:
        model = quiet(make)
    except ValueError as error:
        return str(error)
    try:
        found, error = quiet(hct.infer, model).log_partition, None
    except ValueError as refused:
        found, error = None, str(refused)
    if is_batched(model):
        row = hct.infer_many([model], scheduler="serial").to_arrow().to_pylist()[0]
        assert row["error"] == error
        if error is None:
            assert row["log_partition"] == pytest.approx(found, rel=1e-13, abs=1e-12)
    return found if error is None else error


def jets(scale):
    """The models of jets in another unit, and how log Z moves per factor e in that unit."""
    massless, heavy, square = (
        momenta(N, 3) * scale,
        momenta(N, 3, mass=1.0) * scale,
        max(scale**2, 1e-305),
    )
    yield "ginkgo", lambda: hct.Ginkgo(massless, 1.5, 0.1 * square, lam_root=2.0), -2 * (N - 2)
    yield "later", lambda: hct.Ginkgo(massless, 1.5, 0.5 * square, non_stop=True), -2 * (N - 2)
    yield "jet mass", lambda: hct.JetMass(heavy, 1.5), -4 * (N - 1)


@pytest.mark.parametrize("power", POWERS)
def test_units_of_jets(power):
    scale = 10.0**power
    for (name, make, shift), (_, usual, _) in zip(jets(scale), jets(1.0), strict=True):
        found = answers(make)
        usable = -130 if name == "jet mass" else -28
        assert isinstance(found, float) == (usable < power < 29), found
        if isinstance(found, float):
            wanted = answers(usual) + shift * math.log(scale)
            assert found == pytest.approx(wanted, rel=1e-12), name
        else:
            assert "1e" in found  # the range


def test_units_of_jets_in_batches():
    given = [momenta(N, 3, mass=1.0) * 10.0**power for power in (0, *POWERS)]
    for potential, t_cut in (("ginkgo", {"t_cut": 0.5}), ("jetmass", {}))[
        : 2 if INTERPRETED else 1
    ]:
        model = {"jetmass": hct.JetMass, "ginkgo": hct.Ginkgo}[potential]
        result = hct.infer_many(given, potential, lam=1.5, scheduler="serial", **t_cut)
        for jet, row in zip(given, result.to_arrow().to_pylist(), strict=True):
            wanted = answers(lambda jet=jet: model(jet, 1.5, **t_cut))  # noqa: B023
            if isinstance(wanted, str):
                assert row["error"] == wanted
            else:
                assert row["log_partition"] == pytest.approx(wanted, rel=1e-13, abs=1e-12)


@pytest.mark.parametrize("name", ["lam", "t_cut"])
@pytest.mark.parametrize("power", [-310, -100, -55, -25, -10, 7])
def test_parameters_of_jets(name, power):
    given = {"lam": 1.5, "t_cut": 0.01, name: 10.0**power}
    found = answers(lambda: hct.Ginkgo(momenta(N, 3), **given))
    if isinstance(found, str):
        assert power < (-30 if name == "lam" else -60)
        assert f"{name} must be " in found
    else:
        listed = naive.listing(N, naive.ginkgo(momenta(N, 3), **given))
        assert found == pytest.approx(naive.log_partition(listed), rel=1e-11)


def test_jets_of_which_some_pairs_vanish():
    """Tiny particles beside usual ones (ghosts) are weighed, or refused."""
    ghosts = np.vstack([momenta(4, 1), momenta(2, 2) * 1e-100])
    listed = naive.listing(6, naive.jet_mass(ghosts, 1.5))
    assert answers(lambda: hct.JetMass(ghosts, 1.5)) == pytest.approx(naive.log_partition(listed))
    ghosts[4:] *= 1e-60
    message = r"energies must be 0 or at least 1e-130; got 3.*e-160"
    with pytest.raises(ValueError, match=message):
        hct.JetMass(ghosts, 1.5)
    row = hct.infer_many([ghosts], "jetmass", lam=1.5, scheduler="serial").to_arrow().to_pylist()[0]
    assert "energies must be 0 or at least 1e-130" in row["error"]


@pytest.mark.parametrize("power", [*POWERS, 6, 13, 18])
def test_energies(power):
    """Scaled data; and the same with beta scaled back, where only squares may be lost."""
    scale = 10.0**power
    w, signed, table = similarities(N, 1), affinities(N, 2), points(N, 3)
    matrices = {
        "dasgupta": lambda s, beta: hct.Dasgupta(w * s, beta),
        "correlation": lambda s, beta: hct.CorrelationClustering(signed * s, beta),
        "prior": lambda s, beta: hct.Dasgupta(w * s, beta) + hct.BetaSplitting(N),
    }
    tables = {
        method: lambda s, beta, method=method: hct.Linkage(table * s, method, beta)
        for method in METHODS
    }
    for name, make in {**matrices, **tables}.items():
        scaled_back = answers(lambda make=make: make(scale, 1 / scale))
        if name in tables and power < -120:
            assert "rescale the data" in scaled_back
        else:
            assert scaled_back == pytest.approx(answers(lambda make=make: make(1.0, 1.0)), rel=1e-9)
        found = answers(lambda make=make: make(scale, 1.0))
        if power > 12:
            assert "beyond 1e+12 too few digits" in found
        elif power > 0:
            energy = -hct.infer(quiet(make, scale, 1.0)).map_log_weight
            assert found == pytest.approx(-energy, rel=1e-4)


@pytest.mark.parametrize("weight", [1e15, 6e17, 1e30])
def test_search_at_any_scale(weight):
    """The trellis itself finds the best tree of weights that leave no probabilities."""
    best = hct.infer(hct.Dasgupta(similarities(N, 1), 100.0)).map_tree
    steep = hct.Dasgupta(similarities(N, 1) * weight)
    assert hct.FullTrellis(N).solve(steep).map_tree == best
    choice = hct.choose_beta(lambda data, beta: hct.Dasgupta(similarities(N, 1) * weight, beta))
    usual = hct.choose_beta(lambda data, beta: hct.Dasgupta(similarities(N, 1), beta))
    assert choice.beta == pytest.approx(usual.beta / weight)
