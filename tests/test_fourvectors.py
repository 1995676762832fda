"""Space-like particles: repaired where it cannot matter, refused where it does, by one rule."""

from __future__ import annotations

import numpy as np
import pytest

import hctrellis as hct
from gallery import momenta
from hctrellis.clusters import Lattice
from hctrellis.potentials.fourvectors import MOST_CHANGE, minkowski_products, repair, space_like

LAM = 1.5
PHOTON = [0.01, 0.0100005, 0.0, 0.0]  # 10 MeV, m^2 = -1e-8 GeV^2
HARD = [1000.0, 1000.00495, 0.0, 0.0]  # 1 TeV, m^2 = -9.9 GeV^2


def massless(momenta):
    return np.column_stack([np.sqrt((momenta**2).sum(axis=1)), momenta])


def narrow_jet(rng, energy=600.0):
    """6 to 9 massless particles within a cone, some of them soft: 10 MeV to 1 GeV."""
    n = int(rng.integers(6, 10))
    energies = np.maximum(rng.dirichlet(np.full(n, 0.25)) * energy, 0.01)
    soft = rng.random(n) < 0.25
    energies[soft] = 10 ** rng.uniform(-2, 0, soft.sum())
    spread = 0.25 * rng.random(n) * np.minimum(1, (20 / energies) ** 0.3)
    angles = rng.uniform(0, 2 * np.pi, n)
    across = spread * np.cos(angles), spread * np.sin(angles)
    directions = np.column_stack([np.ones(n), *across])
    directions @= np.linalg.qr([[1, 0.5, 1.2], [0, 1, 0], [0, 0, 1]])[0]
    return massless(energies[:, None] * directions / np.linalg.norm(directions, axis=1)[:, None])


def narrow_jets(n, seed):
    rng = np.random.default_rng(seed)
    return [narrow_jet(rng) for _ in range(n)]


def log_partitions(jets, t_cut, **options):
    found = hct.infer_many(jets, "ginkgo", lam=LAM, t_cut=t_cut, scheduler="serial", **options)
    return found, np.array(found.to_arrow()["log_partition"].to_pylist(), float)


def with_particle(particle):
    """A jet along x, with one particle more."""
    along = [[1.0, 0.02, 0.0], [1.0, -0.01, 0.02], [1.0, 0.01, -0.03], [1.0, 0.0, 0.05]]
    return np.vstack([massless(np.array([[200.0], [80.0], [40.0], [20.0]]) * along), particle])


# ---- what is accepted -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("digits", "t_cut", "moved", "refused"),
    [(6, 1.21, 0.001, 0), (6, 16.0, 1e-4, 0), (5, 16.0, 0.001, 0), (3, 16.0, 0.05, 0.2)],
)
def test_rounded_jets_are_accepted(digits, t_cut, moved, refused):
    """As they are written to files; log Z is that of the jets before they were rounded."""
    jets = narrow_jets(100, seed=digits)
    rounded = [np.round(jet, digits) for jet in jets]
    spoilt = sum(bool(space_like(jet).any()) for jet in rounded)
    result, found = log_partitions(rounded, t_cut)
    _, wanted = log_partitions(jets, t_cut)
    assert spoilt > 90
    assert result.n_failed <= refused * len(jets)
    assert result.n_repaired == spoilt - result.n_failed
    possible = np.isfinite(found) & np.isfinite(wanted)
    assert possible.sum() > 50
    assert np.median(np.abs(found[possible] - wanted[possible])) < moved


def test_soft_photon_and_hard_particle():
    soft = hct.Ginkgo(with_particle(PHOTON), LAM, 16.0)
    assert soft.repaired == (4,)
    assert soft.momenta[4, 0] == PHOTON[1]
    hard = with_particle(HARD)
    with pytest.raises(ValueError, match=r"particle 4 is space-like .* -9.9.*moves .* on_shell"):
        hct.Ginkgo(hard, LAM, 16.0)
    assert hct.Ginkgo(hard, LAM, 16.0, on_shell=True).repaired == (4,)
    assert hct.JetMass(hard, LAM, on_shell=True).repaired == (4,)


def test_without_threshold_light_pairs_count():
    """The same photon matters to a model without t_cut if it flies close to another particle."""
    with pytest.raises(ValueError, match=r"particle 4 is space-like .* by up to 25%"):
        hct.JetMass(with_particle(PHOTON), LAM)
    assert hct.JetMass(with_particle([0.01, 0.0, 0.0100005, 0.0]), LAM).repaired == (4,)


def test_other_choices():
    with pytest.raises(ValueError, match=r"particle 4 is space-like .* on_shell=False was asked"):
        hct.JetMass(with_particle(PHOTON), LAM, on_shell=False)
    with pytest.raises(ValueError, match="on_shell must be 'auto', True or False; got 'maybe'"):
        hct.JetMass(with_particle(PHOTON), LAM, on_shell="maybe")


def test_double_precision_is_no_repair():
    for seed in range(20):
        assert hct.Ginkgo(momenta(8, seed), LAM, 0.5, on_shell=False).repaired == ()


# ---- the rule ---------------------------------------------------------------------------------


def squares(jet):
    return Lattice(len(jet)).pair_sums(minkowski_products(jet))


@pytest.mark.parametrize("t_cut", [0.0, 1.21, 16.0, 300.0])
def test_no_cluster_moves_by_more(t_cut):
    for seed, jet in enumerate(narrow_jets(60, seed=5)):
        rounded = np.round(jet, 2 + seed % 5)
        found = repair(rounded, t_cut)
        before, after = squares(rounded), squares(found.momenta)
        inner = Lattice(len(jet)).sizes > 1
        matter = inner & (np.maximum(before, after) >= t_cut) & (after > 0)
        moved = (after - before)[matter] / after[matter]
        assert moved.max(initial=0.0) <= found.changes.sum() * (1 + 1e-6) + 1e-9


def test_what_is_accepted_does_not_matter():
    """Another repair, which shortens p instead, has the same log Z unless t_cut is crossed."""
    t_cut = 16.0
    jets = [np.round(jet, 3) for jet in narrow_jets(150, seed=7)]
    repairs = [repair(jet, t_cut) for jet in jets]
    kept = [found for found in repairs if found.accepted("auto")]
    assert len(kept) > 100
    ones, others = [found.momenta for found in kept], []
    for jet, found in zip(jets, repairs, strict=True):
        if found.accepted("auto"):
            short = jet.copy()
            shrink = jet[:, :1] / np.maximum(found.momenta[:, :1], 1e-300)
            short[:, 1:] *= np.where(found.moved[:, None], shrink, 1.0)
            others.append(short)
    (_, one), (_, other) = log_partitions(ones, t_cut), log_partitions(others, t_cut)
    crossed = [
        ((squares(a) >= t_cut) != (squares(b) >= t_cut)).any()
        for a, b in zip(ones, others, strict=True)
    ]
    same = np.isfinite(one) & np.isfinite(other) & ~np.array(crossed)
    gap = np.abs(one[same] - other[same])
    assert len(gap) > 50
    assert gap.max() < 3 * MOST_CHANGE
    assert np.median(gap) < 0.05


# ---- infer and infer_many agree ---------------------------------------------------------------


@pytest.mark.parametrize("on_shell", ["auto", True, False])
def test_batches_agree(on_shell):
    rounded = [np.round(jet, 3) for jet in narrow_jets(25, seed=3)]
    jets = [*rounded, with_particle(PHOTON), with_particle(HARD), momenta(4), np.array([HARD])]
    options = {"lam": LAM, "t_cut": 2.0, "on_shell": on_shell}
    result = hct.infer_many(jets, "ginkgo", scheduler="serial", chunk_size=7, **options)
    refused = 0
    for row, jet in zip(result.to_arrow().to_pylist(), jets, strict=True):
        try:
            model = hct.Ginkgo(jet, **options)
        except ValueError as error:
            assert (row["error"], row["log_partition"], row["repaired"]) == (str(error), None, 0)
            refused += 1
            continue
        assert (row["error"], row["repaired"]) == (None, len(model.repaired))
        wanted = hct.infer(model).log_partition
        assert row["log_partition"] == pytest.approx(wanted, rel=1e-12, abs=1e-12)
    assert result.n_failed == refused
    assert (refused == 0) == (on_shell is True)
    assert ("repaired" in repr(result)) == (on_shell is not False)
