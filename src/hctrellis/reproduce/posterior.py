"""Trees drawn from the posterior of a jet with five leaves, against the exact probabilities."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hctrellis import simulate
from hctrellis.infer import infer
from hctrellis.posterior.posterior import Posterior
from hctrellis.reproduce.figures import BLUE, INK, RED, SOFT, WIDTH, new_figure, styled
from hctrellis.reproduce.record import (
    Experiment,
    Number,
    Picture,
    Size,
    Table,
    Tell,
    plus_minus,
    silent,
)
from hctrellis.trellis.full import FullTrellis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hctrellis.support.types import FloatArray, IntArray

LEAVES = 5
ALL_TREES = 105
ALLOWED = 90  # the nearest possible number to the paper's
PAPER_ALLOWED = 88
PAPER_SAMPLES = 100_000
N_SAMPLES = {"small": 20_000, "full": PAPER_SAMPLES}
FEW = 5.0  # trees expected less often than this are counted together in the test of fit


class Drawn(NamedTuple):
    """The trees of a jet, the most probable first, and how often each was drawn."""

    log_weights: FloatArray
    probabilities: FloatArray
    counts: IntArray
    true: int
    """Place of the true tree."""
    tried: int
    """Jets that were simulated to find this one."""

    @property
    def n_samples(self) -> int:
        return int(self.counts.sum())

    @property
    def errors(self) -> FloatArray:
        """Standard deviations of the counts."""
        p = self.probabilities
        return np.sqrt(self.n_samples * p * (1 - p))

    @property
    def pulls(self) -> FloatArray:
        """Differences of the counts from what is expected, in standard deviations."""
        return (self.counts - self.n_samples * self.probabilities) / self.errors

    @property
    def n_distinct(self) -> int:
        """Number of different trees that were drawn."""
        return int((self.counts > 0).sum())

    @property
    def distinct_error(self) -> float:
        """An upper bound on the standard deviation of that number."""
        absent = (1 - self.probabilities) ** self.n_samples
        return float(np.sqrt((absent * (1 - absent)).sum()))

    def fit(self) -> tuple[float, int, float]:
        """Chi squared, degrees of freedom, and the probability of a larger one."""
        from scipy.stats import chi2

        expected = self.n_samples * self.probabilities
        common = expected >= FEW
        places = np.where(common, np.cumsum(common) - 1, common.sum())
        seen, wanted = (np.bincount(places, counts) for counts in (self.counts, expected))
        value = float(((seen - wanted) ** 2 / wanted).sum())
        freedom = len(wanted) - 1
        return value, freedom, float(chi2.sf(value, freedom))


def possible_counts() -> set[int]:
    """Numbers of trees over five leaves that a jet can allow.

    A split needs a parent of squared mass t_cut or more, and a cluster is heavier than any pair in
    it: so a tree is allowed if every pair of leaves that it joins directly is heavy enough. Each
    pair is the only one joined directly in 6 trees, and each two disjoint pairs are both joined
    directly in 3 trees.
    """
    pairs = list(combinations(range(LEAVES), 2))
    found = set()
    for choice in range(1 << len(pairs)):
        heavy = [pair for k, pair in enumerate(pairs) if choice >> k & 1]
        disjoint = sum(not set(a) & set(b) for a, b in combinations(heavy, 2))
        found.add(6 * len(heavy) + 3 * disjoint)
    return found


def find_jet(rng: np.random.Generator) -> tuple[simulate.Jet, Posterior, int]:
    """The first jet like the paper's, its posterior, and how many jets were tried."""
    tried = 0
    while True:
        tried += 1
        jet = simulate.ginkgo(1, n_leaves=LEAVES, rng=rng)[0]
        model = jet.potential()
        post = infer(model, FullTrellis(model.n_leaves))
        if post.n_trees == ALLOWED:
            probabilities = post.top_trees(ALL_TREES).probabilities
            if round(expected_distinct(probabilities, PAPER_SAMPLES)) == PAPER_ALLOWED:
                return jet, post, tried


def expected_distinct(probabilities: FloatArray, n_samples: int) -> float:
    """Expected number of different trees among samples."""
    return float((1 - (1 - probabilities) ** n_samples).sum())


def draw(n_samples: int, seed: int) -> Drawn:
    """Sample the posterior of a jet like the paper's."""
    rng = np.random.default_rng(seed)
    jet, post, tried = find_jet(rng)
    ranked = post.top_trees(ALL_TREES)
    place = {tree: k for k, tree in enumerate(ranked)}
    counts = np.zeros(len(place), np.int64)
    for tree, count in zip(*post.sample(n_samples, rng).counts(), strict=True):
        counts[place[tree]] = count
    log_probabilities = np.array([post.log_probability(tree) for tree in ranked])
    return Drawn(
        log_probabilities + post.log_partition,
        np.exp(log_probabilities),
        counts,
        place[jet.tree],
        tried,
    )


def run(size: Size = "full", seed: int = 1, tell: Tell = silent) -> Experiment:
    """Compare samples with the exact posterior."""
    tell(f"{N_SAMPLES[size]:,} samples")
    drawn = draw(N_SAMPLES[size], seed)
    value, freedom, p_value = drawn.fit()
    largest = float(np.abs(drawn.pulls).max())
    allowed, seen = len(drawn.counts), drawn.n_distinct
    expected = expected_distinct(drawn.probabilities, drawn.n_samples)
    true_share = 100 * drawn.probabilities[drawn.true]
    return Experiment(
        name="posterior",
        title="Sampling the posterior of a five-leaf jet",
        about=f"{drawn.n_samples:,} trees are drawn from the posterior of one jet with five "
        f"leaves, independently of each other. The paper compares such a histogram with an "
        f"expectation over the trees that were seen; here the probabilities of all allowed "
        "trees come from the trellis itself, exactly.",
        verdict=f"The sampled histogram agrees with the exact posterior: χ² = {value:.0f} for "
        f"{freedom} degrees of freedom (p\xa0=\xa0{p_value:.2f}).",
        conclusion=f"Over {allowed} trees whose probabilities span "
        f"{np.log10(drawn.probabilities[0] / drawn.probabilities[-1]):.1f} orders of magnitude, "
        f"the largest deviation of a count is {largest:.1f} of its standard deviations. The "
        f"true tree is number {drawn.true + 1} of {allowed}, with a probability of "
        f"{true_share:.2g}%; the best has {100 * drawn.probabilities[0]:.2g}%. "
        f"{seen} of the {allowed} allowed trees were drawn at least once; "
        f"{expected:.1f} were to be expected.",
        numbers=[
            Number("all trees over 5 leaves", f"{ALL_TREES}", f"{ALL_TREES}", "0"),
            Number(
                "allowed trees of the jet",
                f"{PAPER_ALLOWED}",
                f"{allowed} (exact), {seen} of them drawn",
                f"{allowed - PAPER_ALLOWED:+d} (see the note)",
            ),
            Number("samples", f"{PAPER_SAMPLES:,}", f"{drawn.n_samples:,}", ""),
        ],
        parts=[
            Picture(
                "posterior_histogram",
                [_histogram(drawn)],
                "Histogram of the log likelihood of sampled trees with error bars, on the exact "
                "expectation; a line marks the true tree.",
                "The samples by log likelihood (points, bars: one standard deviation) and the "
                "exact expectation (steps). The line is the true tree, from the simulator.",
            ),
            Picture(
                "posterior_trees",
                [_ranked(drawn)],
                "Probability of every allowed tree, exact and sampled, with the deviations below.",
                "The same, tree by tree, in order of probability. Below: deviation of each count "
                "in standard deviations, where 5 or more were expected; two thirds should lie in "
                "the grey band.",
            ),
            _best(drawn),
        ],
        notes=_notes(drawn),
        claims={
            f"chi squared is not improbable (p = {p_value:.2f}, above 0.001)": p_value > 0.001,
            "no count that is expected to be 5 or more is off by more than 4.5 deviations": (
                bool(np.abs(_common(drawn)[1]).max() < 4.5)
            ),
            "the probabilities of the allowed trees, listed one by one, add up to 1": (
                bool(abs(drawn.probabilities.sum() - 1) < 1e-9)
            ),
            "as many different trees were drawn as expected, within 4 standard deviations": (
                abs(seen - expected) < 4 * drawn.distinct_error
            ),
            f"no jet with 5 leaves can allow {PAPER_ALLOWED} trees": (
                PAPER_ALLOWED not in possible_counts()
            ),
        },
    )


def _notes(drawn: Drawn) -> list[str]:
    numbers = ", ".join(map(str, sorted(possible_counts())[-6:]))
    expected = expected_distinct(drawn.probabilities, PAPER_SAMPLES)
    return [
        f"Why not {PAPER_ALLOWED} allowed trees? No jet can allow {PAPER_ALLOWED}. A tree is "
        "forbidden exactly if it joins two leaves that are together lighter than t_cut, and "
        f"counting what is left gives multiples of three only (..., {numbers}). We take the "
        f"paper's {PAPER_ALLOWED} for the number of different trees among its "
        f"{PAPER_SAMPLES:,} samples.",
        "The paper's jet is not published. Ours is the first of "
        f"{drawn.tried:,} simulated five-leaf jets that allows {ALLOWED} trees of which, to the "
        f"nearest number, {PAPER_ALLOWED} are to be expected in {PAPER_SAMPLES:,} samples "
        f"({expected:.1f}).",
    ]


def _common(drawn: Drawn) -> tuple[IntArray, FloatArray]:
    """Places and pulls of the trees that are expected often enough."""
    places = np.flatnonzero(drawn.n_samples * drawn.probabilities >= FEW)
    return places, drawn.pulls[places]


def _share(drawn: Drawn, place: int) -> tuple[float, float]:
    """The sampled probability of a tree, and its error."""
    return drawn.counts[place] / drawn.n_samples, drawn.errors[place] / drawn.n_samples


def _best(drawn: Drawn) -> Table:
    rows = []
    for k in sorted({*range(5), drawn.true}):
        rows.append(
            (
                f"{k + 1}{' (true tree)' if k == drawn.true else ''}",
                f"{drawn.log_weights[k]:.3f}".replace("-", "−"),
                f"{drawn.probabilities[k]:.5f}",
                plus_minus(*_share(drawn, k), digits=5),
            )
        )
    return Table(
        "The five most probable trees, and the true one.",
        ("tree", "log likelihood", "exact probability", "sampled"),
        rows,
    )


@styled
def _histogram(drawn: Drawn) -> Figure:
    figure, ax = new_figure()
    edges = np.linspace(drawn.log_weights.min() - 0.1, drawn.log_weights.max() + 0.1, 27)
    middle = (edges[1:] + edges[:-1]) / 2
    exact = np.histogram(drawn.log_weights, edges, weights=drawn.probabilities)[0]
    sampled = np.histogram(drawn.log_weights, edges, weights=drawn.counts)[0] / drawn.n_samples
    errors = np.sqrt(exact * (1 - exact) / drawn.n_samples)
    ax.stairs(exact, edges, color=BLUE, fill=True, alpha=0.25)
    ax.stairs(exact, edges, color=BLUE, lw=1.5, label="exact, from the trellis")
    some = sampled > 0
    ax.errorbar(
        middle[some],
        sampled[some],
        np.minimum(errors, 0.999 * sampled)[some],
        fmt="o",
        ms=4,
        color=INK,
        capsize=2,
        lw=1,
        label=f"{drawn.n_samples:,} samples",
    )
    _mark_truth(ax, drawn.log_weights[drawn.true])
    ax.set_yscale("log")
    ax.set_ylim(bottom=0.3 / drawn.n_samples)
    ax.set_xlabel("log likelihood of the tree")
    ax.set_ylabel("posterior probability per bin")
    ax.legend(loc="upper left")
    return figure


def _mark_truth(ax: Axes, at: float) -> None:
    ax.axvline(at, color=RED, lw=1.6, ls="--", label="true tree")


@styled
def _ranked(drawn: Drawn) -> Figure:
    figure, (top, bottom) = new_figure(
        WIDTH, 4.8, nrows=2, sharex=True, gridspec_kw={"height_ratios": [2.6, 1]}
    )
    ranks = np.arange(1, len(drawn.counts) + 1)
    top.step(ranks, drawn.probabilities, where="mid", color=BLUE, label="exact, from the trellis")
    some = drawn.counts > 0
    errors = drawn.errors / drawn.n_samples
    sampled = drawn.counts / drawn.n_samples
    top.errorbar(
        ranks[some],
        sampled[some],
        np.minimum(errors, 0.999 * sampled)[some],
        fmt="o",
        ms=3.2,
        color=INK,
        capsize=1.5,
        lw=0.9,
        label=f"{drawn.n_samples:,} samples",
    )
    _mark_truth(top, drawn.true + 1)
    top.set_yscale("log")
    top.set_ylim(bottom=0.3 / drawn.n_samples)
    top.set_ylabel("posterior probability")
    top.legend(loc="upper right")
    places, pulls = _common(drawn)
    bottom.axhspan(-1, 1, color="#eeeeee", zorder=0)
    bottom.axhline(0, color=SOFT, lw=0.8)
    bottom.plot(places + 1, pulls, "o", ms=3.2, color=INK)
    bottom.set_ylim(-4, 4)
    bottom.set_ylabel("deviation / σ")
    bottom.set_xlabel("allowed trees, the most probable first")
    return figure
