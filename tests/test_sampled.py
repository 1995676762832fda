"""Sampled posteriors: what they say is true, or they say nothing."""

import math
import time
from dataclasses import replace
from itertools import chain, repeat

import numpy as np
import pytest

import hctrellis as hct
from gallery import LevelTrellis, built_in, points
from hctrellis.chains.chains import Chains
from hctrellis.chains.frequencies import BATCHES, Frequencies, Shares, shares
from hctrellis.chains.temper import Ladders
from hctrellis.posterior.base import Estimate
from hctrellis.potentials.constraint import Constraint, conditions
from hctrellis.sampling import partition, run
from hctrellis.sampling.partition import agreed, of_coverage, of_runs, of_sweeps
from hctrellis.sampling.posterior import SampledPosterior
from hctrellis.sampling.redraw import Redraws
from hctrellis.sampling.run import sample_posterior
from hctrellis.sampling.verdict import (
    kept_elsewhere,
    rare_error,
    strangers,
    uncertain,
    widened,
)
from test_sampling import crossed

MODELS = ["average", "ginkgo"]


@pytest.fixture(scope="module")
def pairs():
    """Sampled and exact posteriors of the same potentials."""
    models = {name: built_in(10)[name] for name in MODELS}
    return {
        name: (sample_posterior(model, rng=5), hct.infer(model)) for name, model in models.items()
    }


# ---- against exact answers --------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_probabilities_are_those_of_the_full_trellis(pairs, name):
    sampled, exact = pairs[name]
    assert sampled.method == "sampled" and sampled.is_reliable and not sampled.is_exact
    table = sampled.cluster_probabilities(0.05)
    assert len(table) >= 5
    off = [
        abs(row.probability - exact.cluster_probability(row.cluster)) / row.error for row in table
    ]
    assert max(off) < 5
    assert np.mean(np.array(off) < 2) > 0.8
    assert max(row.error for row in table) <= 0.01
    missing = [row for row in exact.cluster_probabilities(0.1) if row.probability > 0.1]
    assert {row.cluster for row in missing} <= {row.cluster for row in table}


@pytest.mark.parametrize("name", MODELS)
def test_summaries_are_those_of_the_full_trellis(pairs, name):
    sampled, exact = pairs[name]
    assert sampled.map_log_weight == pytest.approx(exact.map_log_weight)
    assert sampled.log_partition == pytest.approx(
        exact.log_partition, abs=max(0.01, 4 * sampled.log_partition_error)
    )
    assert sampled.log_partition_bound <= exact.log_partition + 1e-9
    mean = sampled.expected_log_weight_estimate
    assert mean.value == pytest.approx(exact.expected_log_weight, abs=5 * mean.error)
    assert sampled.entropy == pytest.approx(exact.entropy, abs=0.2)
    assert sampled.log_weight_variance == pytest.approx(exact.log_weight_variance, rel=0.25)
    for size in (2, 4):
        for one, other in zip(sampled.coclustering(size), exact.coclustering(size), strict=True):
            np.testing.assert_allclose(one, other, atol=0.05 * other.max())
    best = sampled.expected_clusters_tree()
    reached = sum(exact.support(best).values())
    assert reached >= sum(exact.support(exact.expected_clusters_tree()).values()) - 0.1
    assert sampled.consensus_tree(0.6).labels == exact.labels
    probable = {m for m, p in exact.consensus_tree(0.6).support.items() if p > 0.65}
    assert probable <= sampled.consensus_tree(0.6).clusters()


@pytest.mark.parametrize("name", MODELS)
def test_conditions(pairs, name):
    sampled, exact = pairs[name]
    tree = exact.map_tree
    inner = [names for names in tree.cluster_labels() if 2 <= len(names) < tree.n_leaves]
    asked = {
        "contains": ([inner[0], inner[1]], []),
        "lacks": ([inner[0]], [inner[1]]),
        "subtree": ([tree.subtree(inner[-1])], []),
    }
    for contains, lacks in asked.values():
        found = sampled.estimate(contains, lacks)
        assert found.value == pytest.approx(
            exact.probability(contains, lacks), abs=5 * found.error + 1e-9
        )
        assert sampled.probability(contains, lacks) == found.value
    small = tree.subtree(inner[-1])
    assert sampled.subtree_probability(small) == pytest.approx(
        exact.subtree_probability(small), abs=0.06
    )
    left, right = (tree.masks[k] for k in tree.children[-1])
    assert sampled.split_probability(left, right) == pytest.approx(
        exact.split_probability(left, right), abs=0.06
    )
    assert sampled.cluster_probability([0]) == 1.0
    with pytest.raises(ValueError, match="must be disjoint"):
        sampled.split_probability([0, 1], [1, 2])
    with pytest.raises(ValueError, match="in every tree"):
        sampled.estimate(lacks=[[0]])


@pytest.mark.parametrize("name", MODELS)
def test_splits_are_those_of_the_full_trellis(pairs, name):
    sampled, exact = pairs[name]
    table, known = sampled.split_probabilities(0.02), exact.split_probabilities(0.05)
    off = [
        abs(row.probability - exact.split_probability(row.left, row.right)) / row.error
        for row in table
        if row.probability >= 0.05
    ]
    assert len(off) >= 5 and max(off) < 5 and np.mean(np.array(off) < 2) > 0.8
    assert {(row.left, row.right) for row in known if row.probability > 0.1} <= {
        (row.left, row.right) for row in table
    }
    assert [row.probability for row in table] == sorted(table.probabilities, reverse=True)
    assert sampled.split_probability(*table.masks[0]) == pytest.approx(table[0].probability)
    assert "standard errors" in repr(table) and "error" in table.to_pandas().columns
    assert "error" not in known.to_pandas().columns


def test_conditions_of_compiled_chains_are_constraints():
    model, trellis = built_in(7)["average"], LevelTrellis(7)
    for contains, lacks in (([0b110], [0b1010000]), ([0b110, 0b1110], []), ([], [0b11])):
        constraint = Constraint(model.labels, contains, lacks)
        one, other = (
            hct.infer(part, trellis)
            for part in (model + constraint, sum(conditions(constraint), model))
        )
        assert one.log_partition == pytest.approx(other.log_partition, abs=1e-12)
        assert one.n_trees == other.n_trees


def test_samples_are_trees_of_the_chains(pairs):
    sampled, exact = pairs["average"]
    drawn = sampled.sample(2000, rng=1)
    assert len(drawn) == 2000 and drawn[0].labels == exact.labels
    np.testing.assert_allclose(
        drawn.log_weights[:20], [exact.potential.log_weight(tree) for tree in drawn[:20]]
    )
    for row in drawn.cluster_frequencies(0.2):
        assert row.probability == pytest.approx(exact.cluster_probability(row.cluster), abs=0.06)
    assert len(sampled.sample(0)) == 0
    again = sampled.sample(3, rng=7)
    assert again[:] == sampled.sample(3, rng=7)[:]
    with pytest.raises(ValueError, match="number of trees that were sampled"):
        sampled.sample(10**9)


def test_what_a_sample_cannot_tell(pairs):
    sampled, _ = pairs["average"]
    with pytest.raises(ValueError, match="cannot be told from sampled trees"):
        sampled.top_trees(3)
    with pytest.raises(ValueError, match="cannot be told from sampled trees"):
        sampled.credible_set()


# ---- refusal ----------------------------------------------------------------------------------


def test_without_a_verdict_there_is_no_number(pairs):
    sampled, _ = pairs["average"]
    doubtful = SampledPosterior(
        sampled.potential,
        sampled._draws,
        sampled.map_tree,
        sampled.growth,
        replace(sampled.diagnostics, reasons=("chains disagree about 3 clusters",)),
        sampled._again,
    )
    assert not doubtful.is_reliable
    assert "No probability can be quoted: chains disagree" in doubtful.how
    for ask in (
        lambda: doubtful.cluster_probability([0, 1]),
        lambda: doubtful.cluster_probabilities(),
        lambda: doubtful.coclustering(2),
        lambda: doubtful.consensus_tree(),
        lambda: doubtful.expected_clusters_tree(),
        lambda: doubtful.sample(1),
        lambda: doubtful.support(doubtful.map_tree),
        lambda: doubtful.expected_log_weight,
    ):
        with pytest.raises(hct.UnreliableError, match="No probability can be quoted"):
            ask()
    assert doubtful.map_tree == sampled.map_tree
    assert "unreliable" in repr(doubtful)


def test_crossed_designs_are_balanced_or_refused():
    """Rows and columns are equally probable, and no chain at one temperature goes between them."""
    potential, row, column = crossed(4)
    growth = hct.grow(potential, rng=0)
    assert not growth.converged
    post = sample_posterior(potential, time_limit=2, rng=1)
    assert post.diagnostics.round_trips is not None
    if post.is_reliable:
        kinds = [
            np.mean(
                [post.cluster_probability(np.flatnonzero(kind == k).tolist()) for k in range(4)]
            )
            for kind in (row, column)
        ]
        assert kinds[0] == pytest.approx(kinds[1], abs=0.1)
    else:
        with pytest.raises(hct.UnreliableError):
            post.cluster_probability([0, 1, 2, 3])


def test_sharp_kernels_are_refused():
    """Dasgupta's cost of a Gaussian kernel of 100 rows at beta = 1: annealing loses its lineages,
    and single chains agree by R-hat while their frequencies differ."""
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(100, 20)) + 2 * rng.normal(size=(5, 20))[rng.integers(5, size=100)]
    squares = ((rows[:, None] - rows[None]) ** 2).sum(axis=-1)
    w = np.exp(-squares / np.median(squares))
    np.fill_diagonal(w, 0.0)
    post = sample_posterior(hct.Dasgupta(w, beta=1.0), time_limit=2, rng=0)
    assert not post.is_reliable
    assert post.log_partition is None or post.log_partition >= post.log_partition_bound
    with pytest.raises(hct.UnreliableError, match="raise time_limit"):
        post.cluster_probabilities()


def massless(n):
    """A jet of particles without mass."""
    momenta = np.random.default_rng(n).normal(size=(n, 3))
    energies = np.linalg.norm(momenta, axis=1)
    return hct.Ginkgo(np.column_stack([energies, momenta]), lam=1.5, t_cut=1e-9)


@pytest.mark.parametrize(
    ("model", "has_beta"), [(hct.Linkage(points(23)), True), (massless(23), False)]
)
def test_advice_names_beta_only_where_there_is_one(model, has_beta, monkeypatch):
    monkeypatch.setattr("hctrellis.sampling.run.LEAST_EFFECTIVE", math.inf)
    post = sample_posterior(model, time_limit=0.1, rng=0)
    assert not post.is_reliable
    with pytest.raises(hct.UnreliableError, match="raise time_limit") as caught:
        post.cluster_probabilities()
    assert ("lower beta" in str(caught.value)) == has_beta


def counted(values):
    """Frequencies of one cluster, from the means of batches, shape (chains, BATCHES)."""
    table = np.asarray(values, float)[:, :, None]
    return Frequencies(table, np.zeros(1, np.int64), np.zeros((1, 2), np.int64))


def batches(means, spread, seed=0):
    noise = np.random.default_rng(seed).normal(scale=spread, size=(len(means), BATCHES))
    return np.clip(np.asarray(means)[:, None] + noise, 0, 1)


TEMPERED = np.arange(8) < 4


@pytest.mark.parametrize(
    ("means", "spread", "flagged"),
    [
        ([0.5] * 8, 0.05, False),
        ([1.0] * 7 + [0.0], 0.0, True),  # one chain in another mode, none moves
        ([0.6] * 4 + [0.4] * 4, 0.05, True),  # worlds differ by 0.2
        ([0.55] * 4 + [0.45] * 4, 0.6, False),  # within their fluctuations
        ([0.52] * 4 + [0.48] * 4, 0.001, False),  # surely different, and too little to matter
        ([0.04, 0.0] * 4, 0.0, False),  # too rare to matter
        ([0.3, 0.5] * 4, 0.02, True),  # chains of each world differ
    ],
)
def test_agreement_of_starts(means, spread, flagged):
    assert bool(uncertain(counted(batches(means, spread)), TEMPERED)[0]) is flagged


def test_agreement_with_annealed_trees():
    here, there = counted([[1.0] * BATCHES] * 8), counted([[0.5] * BATCHES] * 8)
    assert len(strangers(here, there, 40)) == 1
    assert len(strangers(here, there, 2)) == 0  # two lineages say nothing
    assert len(strangers(here, here, 40)) == 0
    nowhere = Frequencies(np.empty((8, BATCHES, 0)), np.empty(0, np.int64), np.empty((0, 2), int))
    assert len(strangers(nowhere, there, 40)) == 1
    rare = counted([[0.085] * BATCHES] * 8)  # a mode that chains have never been in
    assert len(strangers(nowhere, rare, 60)) == 1
    assert len(strangers(nowhere, rare, 40)) == 0  # three lineages may be chance


def test_one_chain_that_stays_elsewhere_tells():
    """Clusters that it keeps, unless the other chains have them as well."""
    found = counted([[0.3] * BATCHES] * 8)  # of cluster 0; they have no other
    passing = np.array([[[0, k] for k in range(100, 110)]])  # 100, 101, ... for a moment each
    staying = np.array([[[7, k] for k in range(100, 107)] + [[8, 9]] * 3])
    assert kept_elsewhere(found, passing).tolist() == []
    assert kept_elsewhere(found, np.concatenate([passing, staying])).tolist() == [7]
    everywhere = counted([[0.02] * BATCHES] * 8)
    assert kept_elsewhere(everywhere, passing).tolist() == []
    assert kept_elsewhere(counted([[0.01] * BATCHES] * 8), passing).tolist() == [0]


@pytest.mark.parametrize("seed", range(2))
def test_a_mode_that_is_rare_is_not_missed(seed):
    """Columns are more probable than rows; no chain goes from one to the other."""
    row, column = np.divmod(np.arange(16), 4)
    same = np.equal.outer(row, row) + 1.01 * np.equal.outer(column, column)
    model = hct.Dasgupta(same, beta=1.0)
    post = hct.sample_posterior(model, time_limit=2.0, rng=seed)
    if post.is_reliable:
        probability, error = post.estimate([[0, 1, 2, 3]])
        exact = hct.infer(model).cluster_probability([0, 1, 2, 3])
        assert abs(probability - exact) < 5 * error


def test_a_log_partition_is_no_surer_than_its_trees():
    """A trellis that has every sampled tree may lack the next."""
    rows = np.random.default_rng(0).normal(size=(5, 2)) * 9
    post = hct.sample_posterior(hct.Linkage(rows, beta=9.0), time_limit=3.0, rng=0)
    assert post.diagnostics.coverage.value == 1.0
    assert post.diagnostics.coverage.error == 1 / post.diagnostics.n_draws


def test_chance_alone_raises_no_alarm():
    """Chains that agree, with 300 clusters each, are flagged in none of 20 cases."""
    rng = np.random.default_rng(2)
    flagged = 0
    for _ in range(20):
        p = rng.uniform(0.05, 0.95, 300)
        table = p + rng.normal(scale=0.08, size=(8, BATCHES, 300))
        found = Frequencies(table, np.arange(300), np.zeros((300, 2), np.int64))
        flagged += bool(uncertain(found, TEMPERED).any())
    assert flagged == 0


# ---- errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [0.0, 0.9, 0.98])
def test_standard_errors_of_chains_with_memory(memory):
    """The mean of chains that forget slowly lies within two errors of the truth as it should."""
    rng = np.random.default_rng(3)
    n_trials, n_chains, n_draws = 400, 8, 2000
    x = rng.normal(size=(n_trials, n_chains))
    sums = []
    for _ in range(n_draws):
        x = memory * x + np.sqrt(1 - memory**2) * rng.normal(size=x.shape)
        sums.append(x.copy())
    values = np.array(sums).transpose(1, 2, 0)
    inside = []
    for trial in values:
        found = shares(trial)
        inside.append(abs(found.means[0]) < 2 * found.errors[0])
    assert 0.92 <= np.mean(inside) <= 0.985


def test_stuck_chains_have_large_errors():
    found = Shares(np.repeat(np.array([0.0, 1.0] * 4), BATCHES).reshape(8, BATCHES, 1))
    assert found.errors[0] > 0.15
    assert widened(np.array([0.5]), np.array([0.01]), 200)[0] == pytest.approx(0.05)
    assert widened(np.array([0.5]), np.array([0.01]), None)[0] == 0.01


@pytest.mark.parametrize("share", [0.0005, 0.002, 0.004, 0.998])
def test_errors_of_rare_clusters(share):
    """A handful of trees with a cluster, or without it: the truth is hardly ever 5 errors away."""
    n = 3000
    found = np.random.default_rng(0).binomial(n, share, 100_000) / n
    plain = np.sqrt(found * (1 - found) / n)
    errors = np.maximum(plain, rare_error(found, n))
    assert (np.abs(found - share) > 5 * errors).mean() < 5e-4
    assert (np.abs(found - share) > 2 * errors).mean() < 0.07
    assert (np.abs(found - share) > 5 * plain).mean() > 1e-3
    assert widened(np.array([0.0]), np.array([0.0]), n)[0] > 0


def test_time_limits_are_kept_at_150_leaves():
    rows = np.random.default_rng(0).normal(size=(150, 5))
    sample_posterior(built_in(10)["average"], 0.5, time_limit=0.5, rng=0)  # compiles
    began, cpu = time.monotonic(), time.process_time()
    post = sample_posterior(hct.Linkage(rows, beta=4.0), time_limit=1.0, rng=0)
    assert min(time.process_time() - cpu, time.monotonic() - began) < 6.0
    assert not post.is_reliable and post.diagnostics.stopped != "precision"
    with pytest.raises(hct.UnreliableError, match="raise time_limit"):
        post.cluster_probability([0, 1])


# ---- log Z ------------------------------------------------------------------------------------


def test_log_z_is_given_where_two_ways_agree():
    found = agreed({"annealing": Estimate(-10.0, 0.2), "bridge": Estimate(-10.3, 0.2)}, -12.0)
    assert found.value == pytest.approx(-10.15) and found.reason == ""
    assert 0.1 < found.error < 0.3
    precise = agreed({"annealing": Estimate(-10.0, 0.5), "coverage": Estimate(-10.2, 0.001)}, -11)
    assert precise.value == pytest.approx(-10.2, abs=1e-3)


@pytest.mark.parametrize(
    ("estimates", "reason"),
    [
        ({}, "there is none"),
        ({"bridge": Estimate(-10.0, 0.1)}, "only bridge gave an estimate"),
        ({"bridge": Estimate(-10.0, 0.1), "annealing": Estimate(-12.0, 0.1)}, "annealing -12.00"),
        ({"bridge": Estimate(-22.0, 0.1), "annealing": Estimate(-22.0, 0.1)}, "lower bound"),
    ],
)
def test_log_z_is_withheld(estimates, reason):
    found = agreed(estimates, -20.0)
    assert found.value is None and found.error is None
    assert reason in found.reason


def test_estimates_of_log_z():
    assert of_coverage(-5.0, Estimate(0.5, 0.01)).value == pytest.approx(-5.0 + np.log(2))
    assert of_coverage(-5.0, Estimate(1.0, 0.0), unseen=0.02) == (-5.0, 0.02)
    assert of_coverage(-5.0, Estimate(0.001, 0.0001)) is None
    assert of_coverage(-5.0, Estimate(0.05, 0.03)) is None
    assert of_runs([-1.0, -np.inf, -1.0, -1.0]) is None
    assert of_runs([-1.0, -1.0]) is None
    runs = of_runs(np.log([1.0, 2.0, 3.0]).tolist())
    assert runs.value == pytest.approx(np.log(2.0))


# ---- redraws, budgets, small things -----------------------------------------------------------


def test_redraws_are_draws_from_the_trellis():
    model = built_in(9)["average"]
    growth = hct.grow(model, rng=0)
    solution = growth.trellis.solve(model)
    redraws = Redraws(solution, np.random.default_rng(1))
    drawn = redraws.draw(4000)
    trees = [hct.Tree(rows.astype(int), labels=model.labels) for rows in drawn[:200]]
    assert all(tree in growth.trellis for tree in trees)
    post = hct.infer(model, growth)
    from hctrellis.sampling.posterior import tree_sample

    for row in tree_sample(model, drawn).cluster_frequencies(0.1):
        assert row.probability == pytest.approx(post.cluster_probability(row.cluster), abs=0.05)
    outside = hct.greedy(hct.Linkage(np.random.default_rng(9).normal(size=(9, 2))))
    given = np.array([trees[0].children, outside.children], np.int16)
    renewed = redraws.renew(given)
    assert outside in growth.trellis or (renewed[1] == given[1]).all()


def test_a_budget_in_moves_is_reproducible():
    model = built_in(10)["average"]
    runs = [
        sample_posterior(
            model, precision=1e-4, time_limit=None, max_moves=3000, rng=2, threads=threads
        )
        for threads in (1, 2)
    ]
    one, two = (run.cluster_probabilities(0.01) for run in runs)
    assert one.masks == two.masks
    np.testing.assert_array_equal(one.probabilities, two.probabilities)
    assert runs[0].log_partition == runs[1].log_partition
    assert runs[0].diagnostics.stopped == "moves"
    assert "give it more time" in runs[0].diagnostics.verdict


def test_interrupted_chains_keep_what_they_have():
    model = built_in(10)["average"]

    def interrupt(done, total):
        if total is not None and 0 < done < 1000:
            raise KeyboardInterrupt

    post = sample_posterior(model, precision=1e-3, rng=2, progress=interrupt)
    assert post.diagnostics.stopped == "interrupted"
    assert post.diagnostics.worst_error > 1e-3


def sampled_briefly(model, precision=0.1):
    return sample_posterior(model, precision, None, max_moves=1, rng=0)


def test_log_z_is_brought_to_ten_times_the_precision(monkeypatch):
    """Where neither annealing nor coverage are precise enough, by ever more sweeps."""
    monkeypatch.setattr(run, "of_coverage", lambda *_: None)
    model = built_in(10)["average"]
    found = []
    monkeypatch.setattr(run, "LOG_MOVES", 1000)
    for goal in (3.0, 0.3):
        monkeypatch.setattr(run, "LOG_PRECISION", goal)
        found.append(sampled_briefly(model).diagnostics.log_partition)
        assert found[-1].error <= goal * 0.1
        assert found[-1].value == pytest.approx(
            hct.infer(model).log_partition, abs=4 * found[-1].error
        )
    assert found[1].estimates["bridge"].error < found[0].estimates["annealing"].error
    assert [*found[0].estimates] == ["annealing", "bridge"]


def test_errors_of_log_z_do_not_fall_by_chance(monkeypatch):
    """Sampling ends when an error is small enough, so what was found before counts as well."""
    errors = chain([0.4], repeat(0.001))
    monkeypatch.setattr(partition, "of_runs", lambda values: Estimate(values[0], next(errors)))
    chains = Chains(built_in(5)["average"], 1)
    rng = np.random.default_rng(0)
    trees = chains.uniform(3, rng)[:, None].repeat(2, axis=1)
    ladders = Ladders(chains, np.array([0.0, 1.0]), trees, rng)
    bridges = [*of_sweeps(ladders, 1, 768, lambda first: False)]
    assert [*map(type, bridges)] == [Estimate, Estimate] and ladders.n_sweeps == 768
    assert [found.error for found in bridges] == pytest.approx([0.4, 0.4 / math.sqrt(3)], rel=1e-3)
    late = [*of_sweeps(Ladders(chains, np.array([0.0, 1.0]), trees, rng), 1, 768, lambda _: True)]
    assert late == []


def test_interrupted_log_z_keeps_the_probabilities(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(run.Ladders, "run", interrupt)
    monkeypatch.setattr(run, "of_coverage", lambda *_: None)
    post = sampled_briefly(built_in(10)["average"])
    assert post.is_reliable
    assert post.log_partition is None and "only annealing" in post.diagnostics.log_partition.reason


def test_chains_that_disagree_less_and_less_go_on(monkeypatch):
    """Rounds in which the disagreement shrinks do not count."""

    def always(found, _):
        return found.means == found.means.max()

    monkeypatch.setattr(run, "uncertain", always)
    monkeypatch.setattr(run._Sampler, "temper", lambda self: pytest.fail("no tempering"))
    monkeypatch.setattr(run._Sampler, "doubtful", lambda *_: False)
    model, budget = built_in(10)["average"], 50_000
    monkeypatch.setattr(run, "STUCK", math.inf)
    patient = sample_posterior(model, 0.1, None, max_moves=budget, rng=0).diagnostics
    monkeypatch.setattr(run, "STUCK", 0.0)
    hasty = sample_posterior(model, 0.1, None, max_moves=budget, rng=0).diagnostics
    assert (patient.stopped, hasty.stopped) == ("moves", "doubt")
    assert hasty.n_moves < budget / 3 < budget <= patient.n_moves


def test_infer_samples_beyond_the_exact_limit():
    rng = np.random.default_rng(0)
    model = hct.Linkage(rng.normal(size=(23, 4)), beta=6.0, labels=[f"s{k}" for k in range(23)])
    post = hct.infer(model, time_limit=20, precision=0.03)
    assert isinstance(post, SampledPosterior) and isinstance(post, hct.BasePosterior)
    assert set(post.map_tree.labels) == set(model.labels)
    assert post.map_log_weight >= post.growth.trace[-1].map_log_weight - 1e-9
    table = post.cluster_probabilities(0.3)
    assert "sampled" in repr(table) and "standard error" in table._repr_html_()
    assert "error" in table.to_pandas().columns
    sparse = hct.infer(model, post.growth)
    assert isinstance(sparse, hct.Posterior) and sparse.method == "sparse"
    assert post.log_partition is None or sparse.log_partition <= post.log_partition + 0.5


def test_numpy_functions_are_sampled_too():
    def far(left, right, parent):
        return -2.0 * np.abs(left[0] / left[1] - right[0] / right[1])

    values = np.array([0.0, 1.0, 3.0, 7.0, 8.0])
    model = hct.FunctionPotential(
        far, n_leaves=5, features=lambda c: [c.leaf_sums(values), c.sizes]
    )
    post = sample_posterior(model, precision=0.05, time_limit=20, rng=1)
    exact = hct.infer(model)
    assert not post.diagnostics.is_compiled and "NumPy" in post.how
    for row in post.cluster_probabilities(0.1):
        expected = exact.cluster_probability(row.cluster)
        assert row.probability == pytest.approx(expected, abs=5 * row.error)


def test_bad_arguments():
    model = built_in(5)["average"]
    with pytest.raises(TypeError, match="expected a Potential"):
        sample_posterior("no")
    with pytest.raises(ValueError, match="nothing to sample"):
        sample_posterior(hct.Linkage([[0.0], [1.0]]))
    with pytest.raises(ValueError, match="precision must be between 0 and 1"):
        sample_posterior(model, precision=0)
    with pytest.raises(ValueError, match="n_chains must be at least 4"):
        sample_posterior(model, n_chains=2)
    never = hct.FunctionPotential(
        lambda left, right, parent: -np.inf + 0 * parent[0], lambda c: [c.sizes], n_leaves=4
    )
    with pytest.raises(hct.NoTreeError, match="forbidden"):
        sample_posterior(never, time_limit=5)


def test_expectations_and_gradients_have_errors(pairs):
    sampled, exact = pairs["average"]
    statistic = hct.BetaSplitting(10, labels=exact.labels)
    found = sampled.expected_estimate(statistic)
    assert found.value == pytest.approx(exact.expected(statistic), abs=5 * found.error)
    assert sampled.expected(statistic) == found.value and 0 < found.error < 1
    slopes, known = sampled.gradient(), exact.gradient()
    assert slopes["beta"] == pytest.approx(known["beta"], abs=5 * slopes.errors["beta"])
    np.testing.assert_array_less(
        np.abs(slopes["distances"] - known["distances"]), 6 * slopes.errors["distances"] + 0.1
    )
