"""What the study of gene expression found, in words, tables and figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hctrellis.infer import infer
from hctrellis.plotting import plot_dendrogram
from hctrellis.potentials.correlation import CorrelationClustering
from hctrellis.reproduce.expression import LARGEST_CORRELATION, Expression, synthetic
from hctrellis.reproduce.figures import (
    BLUE,
    GOLD,
    GREEN,
    HALF,
    INK,
    PINK,
    RED,
    SKY,
    SOFT,
    WIDTH,
    new_figure,
    styled,
)
from hctrellis.reproduce.genomics import N_DRAWS, Draw, Study, study
from hctrellis.reproduce.record import (
    Experiment,
    Number,
    Picture,
    Size,
    Table,
    Tell,
    counted,
    rounded,
    show_factor,
    show_seconds,
    silent,
)
from hctrellis.support.printable import show_probability
from hctrellis.tree import Tree
from hctrellis.trellis.full import FullTrellis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER_SECONDS = 15 * 60.0
SHOWN_CLUSTERS = 12
BETAS = (0.5, 1.0, 2.0, 4.0, 8.0)
SUBTYPE_COLORS = (BLUE, RED, GREEN, PINK, SKY, GOLD, "#000000", "#8b4513")
UNKNOWN = "unlabelled"


def run(
    size: Size = "full", seed: int = 1, tell: Tell = silent, data: Expression | None = None
) -> Experiment:
    """Cluster gene expression, from a given table or from a made-up one."""
    return present(study(data or synthetic(seed), N_DRAWS[size], seed, tell))


def present(study: Study) -> Experiment:
    """The record of the experiment."""
    missed = 100 * (study.gaps > 0).mean()
    seconds = float(np.median(study.seconds))
    n = study.n_leaves
    return Experiment(
        name="genomics",
        title=f"Gene expression: correlation clustering of {n} samples",
        about=_about(study),
        verdict=f"Greedy misses the least energy in {missed:.0f}% of "
        f"{counted(study.n_draws, 'draw')}; the exact answer takes {show_seconds(seconds)}, not "
        "15 minutes. But it is not a single tree: in the median "
        f"{rounded(np.median(study.n_best))} trees share the least energy, each with a probability "
        f"of {rounded(np.median(study.best_probability), 1)}.",
        conclusion=_conclusion(study),
        numbers=[
            Number(
                f"time of the best tree, {n} samples",
                "15 min",
                show_seconds(seconds),
                show_factor(PAPER_SECONDS / seconds),
            ),
            Number(
                "greedy tree is not the best",
                "one draw, no number",
                f"in {missed:.0f}% of the draws",
                "",
            ),
        ],
        parts=[
            _trees(study),
            Picture(
                "genomics_draws",
                [_gap_figure(study), _pair_figure(study)],
                "Left: histogram of the energy of the greedy tree above the least. Right: "
                "probability that two samples of a subtype form a cluster, by subtype.",
                f"Over {counted(study.n_draws, 'draw')}. Left: how much more the greedy tree "
                "costs than the best. Right: posterior probability that the two samples of a "
                "subtype are a cluster of their own (point: mean and its standard error; pale "
                "bar: the middle half of the draws). The dashed line is chance, "
                f"{study.chance_of_pair:.3f}.",
            ),
            Picture(
                "genomics_unlabelled",
                [_matrix_figure(study)],
                "Matrix of how often samples go with each subtype.",
                "With which subtype a sample goes, averaged over the posterior and the draws: the "
                "smallest cluster that holds it and any labelled sample decides, if it holds one "
                "subtype only. Upper rows: a check on samples whose known label was hidden "
                "(in brackets: how many). Lower rows: the unlabelled samples, and chance.",
            ),
            _clusters(study),
            _betas(study.shown),
        ],
        notes=_notes(study),
        claims={
            "the greedy tree is never better than the exact one": bool((study.gaps >= 0).all()),
            "pairs of one subtype are clusters more often than by chance": bool(
                study.pairs.mean() > study.chance_of_pair
            ),
            "hidden samples go with their own subtype more often than by chance": bool(
                study.right().mean() > study.chance[:-1].mean()
            ),
        },
    )


def _about(study: Study) -> str:
    data = study.data
    table = "a made-up table with planted subtypes" if data.planted else f"the table {data.source}"
    return (
        f"Two samples of each of {len(data.names)} subtypes and two unlabelled ones, drawn from "
        f"{table} ({len(data.samples)} samples, {data.values.shape[1]} genes, "
        f"{100 * data.missing:.3g}% of the values missing and taken as 0). Affinity: "
        "tan(π/2 × correlation) minus its mean. Greedy is average linkage on the affinities; exact "
        "is the least energy over all trees. The paper shows one draw and its two trees; we add "
        f"the posterior (β = 1) and {counted(study.n_draws, 'random draw')}."
        + (" This run was not given the paper's kind of table (--data)." if data.planted else "")
    )


def _conclusion(study: Study) -> str:
    names = study.data.names
    means = study.pairs.mean(axis=0)
    order = np.argsort(-means)
    goes = 100 * study.unlabelled.mean(axis=(0, 1))
    shares = ", ".join(f"{name} {share:.0f}%" for name, share in zip(names, goes, strict=False))
    return (
        f"{_greedy_words(study)} But the posterior is broad, and the trees at its top are many: "
        "within a cluster without negative affinities every tree costs the same. So look at "
        f"clusters, averaged over all trees: two samples of {names[order[0]]} form one with a "
        f"probability of {means[order[0]]:.2f}, two of {names[order[-1]]} with "
        f"{means[order[-1]]:.2f} (chance: {study.chance_of_pair:.2f}). Unlabelled samples go with "
        f"{shares}, and with several subtypes at once in {goes[-1]:.0f}%. How far to trust this "
        "was tested by hiding labels: such samples go with their own subtype with a mean "
        f"probability of {study.right().mean():.2f} (chance: {study.chance[:-1].mean():.2f}), and "
        f"do so in {100 * study.right_in_best.mean():.0f}% of the best trees."
    )


def _greedy_words(study: Study) -> str:
    missed = study.gaps[study.gaps > 0]
    if len(missed) == 0:
        return "Greedy found the least energy in every draw."
    median = float(np.median(missed))
    return (
        f"Where greedy misses, its tree costs {median:.1f} more in the median: it is "
        f"exp({median:.1f}) ≈ {rounded(np.exp(median))} times less probable than the best."
    )


def _notes(study: Study) -> list[str]:
    data = study.data
    correlations = np.asarray(np.corrcoef(data.values))[np.triu_indices(len(data.values), 1)]
    notes = [
        "The twelve samples drawn for the paper are not published, so energies cannot be compared.",
        "Positive affinities are cut once in any tree and shift all energies alike; only the "
        "negative ones tell trees apart. Counting pairs inside a cluster twice, as the sum printed "
        "in the paper does, leaves the best trees as they are and doubles β.",
        "Of the trees that share the least energy one is shown, chosen by a fixed rule. The number "
        "of such trees is exact: 1 / probability of the best tree in the limit of large β.",
        f"{100 * (correlations > 0).mean():.1f}% of the correlations in the table are positive "
        "(in the paper, all).",
    ]
    if data.n_identical > 0:
        notes.append(
            f"{counted(data.n_identical, 'sample')} with the same values as another left out: "
            f"tan(π/2) is infinite. (Correlations beyond ±{LARGEST_CORRELATION} count as that.)"
        )
    return notes


# ---- the draw that is shown -------------------------------------------------------------------


def _names(draw: Draw, study: Study) -> list[str]:
    """The samples as they are shown: the subtype first."""
    data = study.data
    return [f"{data.subtypes[i] or UNKNOWN}: {data.samples[i]:.16}" for i in draw.places]


def _colors(draw: Draw, study: Study) -> list[str]:
    data = study.data
    colors = dict(zip(data.names, SUBTYPE_COLORS, strict=False))
    return [colors.get(data.subtypes[i], SOFT) for i in draw.places]


def _trees(study: Study) -> Picture:
    first = study.shown
    names, colors = _names(first, study), _colors(first, study)
    greedy, best = first.greedy, first.post.map_tree
    shown = [Tree(tree.children, labels=names) for tree in (greedy, best)]
    cost = first.model.energy
    return Picture(
        "genomics_trees",
        [
            _tree(first, shown[0], colors, f"greedy: energy {cost(greedy):.2f}"),
            _tree(first, shown[1], colors, f"exact: energy {cost(best):.2f}"),
        ],
        "The greedy tree and the best tree of the drawn samples, coloured by subtype.",
        f"{'The first draw in which greedy misses' if first.gap > 0 else 'The first draw'}. "
        f"Numbers: posterior probability of each cluster, over all {first.post.n_trees:,} trees "
        f"(β = 1); faint branches lead to doubtful clusters. The greedy tree costs "
        f"{first.gap:.2f} more. {counted(first.n_best(), 'tree')} share the least energy, and each "
        f"has a probability of {rounded(np.exp(first.post.map_log_probability), 1)}: trust the "
        "dark branches, not the tree.",
    )


@styled
def _tree(draw: Draw, tree: Tree, colors: list[str], title: str) -> Figure:
    figure, ax = new_figure(5.0, 3.9)
    plot_dendrogram(tree, draw.post.cluster_probability, colors, ax)
    ax.grid(visible=False)
    ax.set_title(title, loc="left")
    return figure


def _clusters(study: Study) -> Table:
    draw = study.shown
    names = dict(zip(draw.post.labels, _names(draw, study), strict=True))
    best, greedy = (tree.cluster_labels() for tree in (draw.post.map_tree, draw.greedy))
    rows = []
    for row in draw.post.cluster_probabilities(0.0)[:SHOWN_CLUSTERS]:
        members = frozenset(row.cluster)
        both = [word for word, tree in (("best", best), ("greedy", greedy)) if members in tree]
        rows.append(
            (
                show_probability(row.probability, 3),
                ", ".join(sorted(names[label] for label in members)),
                " and ".join(both) or "neither",
            )
        )
    return Table(
        f"The {len(rows)} most probable clusters of the draw shown, over all trees.",
        ("probability", "cluster", "in which of the two trees"),
        rows,
    )


def _betas(draw: Draw) -> Table:
    rows = []
    for beta in BETAS:
        model = CorrelationClustering(draw.model.affinity, beta=beta)
        post = infer(model, FullTrellis(model.n_leaves))
        top = post.cluster_probabilities(0.0)[0]
        rows.append(
            (
                f"{beta:g}",
                rounded(np.exp(post.map_log_probability), 1),
                rounded(np.exp(post.entropy)),
                show_probability(top.probability, 3),
            )
        )
    return Table(
        "How sure the answer sounds is a choice of β (the draw shown). A tree is weighed by "
        "exp(−β × energy); the best trees are the same for all β.",
        ("β", "P(a best tree)", "effective number of trees", "most probable cluster"),
        rows,
    )


# ---- figures over the draws -------------------------------------------------------------------


@styled
def _gap_figure(study: Study) -> Figure:
    figure, ax = new_figure(HALF, 3.6)
    found = study.gaps == 0
    edges = np.linspace(0, max(study.gaps.max(), 1.0), 25)
    share = 100 / study.n_draws
    counts = np.histogram(study.gaps[~found], edges)[0] * share
    ax.bar(edges[:-1], counts, np.diff(edges), align="edge", color=RED, label="greedy misses it")
    ax.bar(
        -edges[1],
        found.sum() * share,
        edges[1],
        align="edge",
        color=BLUE,
        label="greedy finds the best tree",
    )
    ax.set_xlabel("energy of greedy above the best")
    ax.set_ylabel("draws (%)")
    ax.grid(axis="x", visible=False)
    ax.legend()
    return figure


@styled
def _pair_figure(study: Study) -> Figure:
    figure, ax = new_figure(HALF, 3.6)
    names = study.data.names
    at = np.arange(len(names))
    low, high = (np.quantile(study.pairs, q, axis=0) for q in (0.25, 0.75))
    colors = SUBTYPE_COLORS[: len(names)]
    ax.bar(at, high - low, 0.55, low, color=colors, alpha=0.3)
    error = study.pairs.std(axis=0) / np.sqrt(study.n_draws)
    ax.errorbar(at, study.pairs.mean(axis=0), error, fmt="o", color=INK, capsize=4)
    ax.axhline(study.chance_of_pair, color=SOFT, ls="--", lw=1.2)
    ax.set_xticks(at, names)
    ax.set_ylim(bottom=0)
    ax.set_ylabel("P(the two are a cluster)")
    ax.grid(axis="x", visible=False)
    return figure


@styled
def _matrix_figure(study: Study) -> Figure:
    names = study.data.names
    rows, values = [], []
    for k, name in enumerate(names):
        of_kind = study.hidden[study.truth == k]
        if len(of_kind) > 0:
            rows.append(f"{name}, hidden ({len(of_kind)})")
            values.append(of_kind.mean(axis=0))
    rows += [f"{UNKNOWN} ({2 * study.n_draws})", "chance"]
    values += [study.unlabelled.mean(axis=(0, 1)), study.chance]
    table = 100 * np.array(values)
    figure, ax = new_figure(WIDTH, 1.2 + 0.42 * len(rows))
    ax.imshow(table, cmap="Blues", vmin=0, vmax=max(60.0, table.max()), aspect="auto")
    for i, row in enumerate(table):
        for j, value in enumerate(row):
            dark = value > 0.6 * max(60.0, table.max())
            ax.annotate(
                f"{value:.0f}%",
                (j, i),
                ha="center",
                va="center_baseline",
                color="white" if dark else INK,
            )
    ax.axhline(len(rows) - 2.5, color=INK, lw=1.2)
    ax.set_yticks(range(len(rows)), rows)
    ax.set_xticks(range(len(names) + 1), [*names, "several"])
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    ax.set_xlabel("goes with")
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    return figure
