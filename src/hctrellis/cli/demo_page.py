"""The report of ``hctrellis demo``, in words."""

from __future__ import annotations

from hctrellis.cli.demo import (
    NEWCOMER,
    OUTSIDER,
    QUESTION,
    SHOWN,
    STREPTOCOCCI,
    Findings,
    dilution_step,
    shown,
    trusted,
    verdict,
)
from hctrellis.report.figures import dendrogram_svg
from hctrellis.report.page import Bar, Page, Picture, Table

GRAM_COLORS = {"positive": "#5b2a86", "negative": "#c2447a"}
MEANING = (
    "Every tree is weighed by exp(-beta × the sum of its merge heights), and the probability of a "
    "cluster is the weight of all trees that contain it divided by the weight of all trees: it "
    "says how clearly these numbers, with this distance and this beta, single the cluster out, "
    "not how often it would come back in new experiments."
)
HISTORY = (
    "The names are those of 1951. Diplococcus pneumoniae became Streptococcus pneumoniae in 1974, "
    "and Streptococcus fecalis left the streptococci in 1984, as Enterococcus faecalis."
)
SOURCES = (
    "Data: W. Burtin, Scope, Fall 1951: minimum inhibitory concentrations of three antibiotics.",
    "Method: the hierarchical cluster trellis, arXiv:2002.11661.",
)


def make_page(findings: Findings) -> Page:
    """The page: question and answer first, then the tree and the numbers."""
    return Page(
        title="Sixteen bacteria, three antibiotics",
        question=QUESTION,
        answer=[verdict(findings.answer), HISTORY, _exactness(findings)],
        parts=[_tree(findings), _sensitivity(findings), _clusters(findings)],
        meaning=MEANING,
        settings=_settings(findings),
        sources=SOURCES,
    )


def _exactness(findings: Findings) -> str:
    return (
        f"Nothing was sampled: all {findings.post.n_trees:,} binary trees over the "
        f"{findings.post.n_leaves} bacteria were weighed."
    )


def _tree(findings: Findings) -> Picture:
    data = findings.data
    colors = {
        label: GRAM_COLORS[stain] for label, stain in zip(data.labels, data.gram, strict=True)
    }
    names = (*STREPTOCOCCI, NEWCOMER, OUTSIDER)
    return Picture(
        heading="The most probable tree",
        svg=dendrogram_svg(findings.tree, findings.post.cluster_probability, colors, names),
        note="Numbers are the probabilities of the clusters, over all trees; faint branches lead "
        "to doubtful ones. Bold: the bacteria of the question. Height: mean distance at the merge.",
        legend=[(color, f"Gram-{stain}") for stain, color in GRAM_COLORS.items()],
    )


def _sensitivity(findings: Findings) -> Table:
    both = " and ".join(STREPTOCOCCI)
    return Table(
        heading="How the answer moves with beta",
        note=f"The probability that {both} form a cluster with one of the two, and nothing else. "
        "A larger beta trusts small differences of height more.",
        columns=("beta", NEWCOMER, OUTSIDER),
        rows=[
            (
                f"{answer.beta:g}",
                *(Bar(p, shown(p)) for p in (answer.with_newcomer, answer.with_outsider)),
            )
            for answer in findings.answers
        ],
    )


def _clusters(findings: Findings) -> Table:
    return Table(
        heading="Clusters to trust, and their rivals",
        note=f"All clusters of probability {SHOWN:g} or more, whether in the tree above or not.",
        columns=("probability", "size", "cluster"),
        rows=[
            (Bar(p, shown(p)), str(size), members) for members, size, p in trusted(findings.post)
        ],
    )


def _settings(findings: Findings) -> list[tuple[str, str]]:
    post = findings.post
    return [
        ("Table", "log10 of the concentrations, columns standardised"),
        ("Distance", "Euclidean; merge height = average linkage"),
        (
            "beta",
            f"{findings.beta:g}: {1 / findings.beta:.3g} more height in all makes a tree e times "
            f"less probable. (A two-fold dilution of all three drugs is a distance of "
            f"{dilution_step(findings.data):.2f}.)",
        ),
        ("log Z", f"{post.log_partition:.4f}"),
        ("Best tree", f"log probability {post.map_log_probability:.4f}"),
        ("Time", f"{findings.seconds:.2f} s with compiled kernels"),
    ]
