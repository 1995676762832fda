"""What the probabilities of a report mean, and how they move with beta."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hctrellis.posterior.base import BasePosterior
from hctrellis.potentials.base import Potential
from hctrellis.report.findings import Findings
from hctrellis.report.page import Chart, Note
from hctrellis.report.words import capitalised, members
from hctrellis.support.colors import BLUE

if TYPE_CHECKING:
    from hctrellis.clades.distribution import CladeDistribution
    from hctrellis.trust.beta import BetaChoice, SensitivityRow
    from hctrellis.trust.bootstrap import BootstrapSupport
    from hctrellis.trust.opinions import SecondOpinion

NO_HEAT = 0.01  # where the heat capacity is below this fraction of its peak, it is not drawn
MOVES, SECOND = "How the answers move with beta", "A second opinion"
COMPARED = 10  # clusters whose probability is compared between values of beta
RATIO = (
    "The probability of a cluster is the weight of all trees that contain it divided by the weight "
    "of all trees: it says how clearly these numbers, with this model and this beta, single the "
    "cluster out, not how often it would come back in new experiments."
)


CONTRASTS = (
    "Every tree is weighed by how probable it makes the table: at each split the two sides differ "
    "by a contrast of their means, drawn from a distribution whose width follows from the table "
    "itself. The probability of a cluster is the weight of all trees that contain it divided by "
    "the weight of all trees: how probable the cluster is if tables come about as this model says. "
    "There is no beta. A join stands at the spread of its cluster, the root of twice the sum of "
    "squares within it: for two items, their distance."
)


def meaning(post: BasePosterior) -> Note:
    """How a tree is weighed, and what a probability is."""
    from hctrellis.clades.distribution import CladeDistribution
    from hctrellis.potentials.contrasts import StudentContrasts

    if isinstance(post.potential, CladeDistribution):
        return Note([_of_clades(post.potential)])
    if isinstance(post.potential, StudentContrasts):
        return Note([CONTRASTS])
    return Note([f"{_weight(post.potential)} {RATIO if post.is_reliable else ''}".strip()])


def _weight(potential: Potential) -> str:
    from hctrellis.potentials.correlation import CorrelationClustering
    from hctrellis.potentials.dasgupta import Dasgupta
    from hctrellis.potentials.linkage import Linkage

    if isinstance(potential, Linkage):
        return "Every tree is weighed by exp(-beta × the sum of its merge heights)."
    if isinstance(potential, Dasgupta):
        return "Every tree is weighed by exp(-beta × Dasgupta's cost of the tree)."
    if isinstance(potential, CorrelationClustering):
        return (
            "Every tree is weighed by exp(-beta × its energy): the negative affinity within its "
            "clusters plus the positive affinity that it cuts."
        )
    return "Every tree is weighed by the product of the weights of its splits."


def _surroundings(potential: CladeDistribution) -> str:
    if potential.model in ("ccd0", "ccd1"):
        return "the cluster alone"
    return f"the cluster and at most {int(potential.model[3:]) - 1} of the siblings above it"


def _of_clades(potential: CladeDistribution) -> str:
    return (
        "The trees that were read are taken as draws from some distribution, which is estimated "
        "split by split (the conditional clade distribution): how a cluster is split depends "
        f"on {_surroundings(potential)}. {_precision(potential)} There is no beta."
    )


def _precision(potential: CladeDistribution) -> str:
    """How well the probabilities are known."""
    n = potential.n_draws
    if n is None:
        return (
            "The probabilities are as good as the weights of the trees, which do not say how many "
            "trees were drawn."
        )
    low, _ = potential.interval(range(potential.n_leaves)) or (0.0, 1.0)
    return (
        f"If the {n:,} trees are independent draws, the probability of a cluster is known to "
        f"± {0.98 / math.sqrt(n):.2g} or better (95 %), and a cluster that all trees have has "
        f"a probability of {low:.3g} or more; draws of a Markov chain count for fewer."
    )


def chosen(choice: BetaChoice) -> list[Note]:
    """How beta was chosen, and what was tried."""
    found = [Note([choice.sentence], curve=_tried(choice))]
    if choice.calibration:
        found.append(
            Note(
                [
                    "Each point is a group of clusters: how probable they are on average, and how "
                    f"often they come back in the best trees of {choice.n_resamples} tables with "
                    "resampled columns."
                ],
                heading="Probabilities against the bootstrap",
                curve=_calibration(choice),
            )
        )
    return found


def _tried(choice: BetaChoice) -> Chart | None:
    betas, scores = choice.curve.betas.tolist(), choice.curve.scores.tolist()
    heat = choice.rule == "heat capacity"
    least = NO_HEAT * max(scores, default=0.0) if heat else -math.inf
    kept = [(b, s) for b, s in zip(betas, scores, strict=True) if least < s < math.inf]
    if len(kept) < 2:
        return None
    score = "heat capacity" if heat else "log score of a cluster tree"
    x, y = zip(*kept, strict=True)
    return Chart("beta", score, [("tried", BLUE, x, y)], mark=choice.beta, log=True)


def _calibration(choice: BetaChoice) -> Chart:
    bins = [each for each in choice.calibration if each.n_clusters > 0]
    x, y = [each.probability for each in bins], [each.frequency for each in bins]
    lines = [("clusters", BLUE, x, y)]
    return Chart("posterior probability", "bootstrap frequency", lines, diagonal=True)


def moves(findings: Findings, rows: Sequence[SensitivityRow]) -> Note:
    """How the probabilities of clusters move with beta."""
    labels = findings.labels
    masks = {
        names: sum(1 << i for i, label in enumerate(labels) if label in names)
        for names in rows[0].probabilities
    }
    shown = sorted(masks, key=lambda names: -rows[len(rows) // 2].probabilities[names])
    asked = {found.mask for found in findings.watched}
    shown = sorted(shown, key=lambda names: masks[names] not in asked)[:COMPARED]
    text = "A larger beta trusts small differences more, and all answers sound surer."
    if not findings.post.is_exact:
        text += " The same trees are weighed at every beta: those found for the beta above."
    return Note(
        [text],
        heading=MOVES,
        columns=["cluster", *(f"beta = {row.beta:.3g}" for row in rows)],
        rows=[
            [members(masks[names], labels, 4), *(row.probabilities[names] for row in rows)]
            for names in shown
        ],
    )


def second(findings: Findings, opinion: SecondOpinion) -> Note:
    """Where another model disagrees, cluster by cluster."""
    labels, (one, other) = findings.labels, opinion.names
    masks = [sum(1 << labels.index(name) for name in each.cluster) for each in opinion.disputed]
    model = opinion.posterior.potential
    how = f", with beta = {model.beta:g} chosen automatically" if model.has_energy else ""
    return Note(
        [f"{opinion.told()}", f"{capitalised(other)} is another model of the same table{how}."],
        heading=SECOND,
        columns=["cluster", f"by {one}", f"by {other}"],
        rows=[
            [members(mask, labels, 4), each.first, each.second]
            for mask, each in zip(masks, opinion.disputed, strict=True)
        ],
    )


def resampled(bootstrap: BootstrapSupport) -> Note:
    """What the values of the bootstrap say."""
    return Note(
        [
            f"BP is how often a cluster comes back among {bootstrap.n_resamples.max():,} trees of "
            "SciPy's linkage (one greedy tree each) when the columns of the table are resampled; "
            "AU corrects its bias by drawing more and fewer columns (the multiscale bootstrap of "
            "pvclust). They answer another question than the posterior: not how clearly these "
            "columns single a cluster out, but whether it would come back with other columns. Both "
            "are given for the clusters of the tree above."
        ],
        heading="AU and BP",
    )
