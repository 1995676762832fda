"""Numbers and clusters in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hctrellis.clusters import mask_labels
from hctrellis.posterior.base import BasePosterior, Estimate
from hctrellis.posterior.lookup import Lookup
from hctrellis.posterior.placements import Placements
from hctrellis.report.findings import Findings, Found, below_root
from hctrellis.support.printable import show_probability

if TYPE_CHECKING:
    from hctrellis.clades.distribution import CladeDistribution
    from hctrellis.posterior.optimality import Optimality

GRADES = ((0.95, "strong"), (0.8, "good"), (0.5, "weak"), (0.05, "undecided"), (0.0, "unlikely"))
"""What a probability is called: the first name whose bound it reaches."""

_RULES = {
    "ccd0": "A tree is weighed by how often its clusters occur",
    "ccd1": "Each split of a cluster is as probable as it is frequent among the trees that have "
    "the cluster",
}
_IN_CONTEXT = (
    "Each split of a cluster is as probable as it is frequent among the trees that have the "
    "cluster next to the same siblings"
)

SHOWN_NAMES = 6
DOUBTS = 3  # clusters about which chains disagree that are named
FEW = 5  # a cluster that was seen in fewer trees may be there by chance
LARGEST_WRITTEN = 10**18

PAPER = (
    "S. Macaluso, C. Greenberg, N. Monath, J. A. Lee, P. Flaherty, K. Cranmer, A. McGregor, "
    "A. McCallum: Cluster Trellis: Data Structures & Algorithms for Exact Inference in "
    "Hierarchical Clustering. AISTATS 2021, arXiv:2002.11661."
)
BIBTEX = """\
@inproceedings{macaluso2021cluster,
  title = {Cluster Trellis: Data Structures \\& Algorithms for Exact Inference in
           Hierarchical Clustering},
  author = {Macaluso, Sebastian and Greenberg, Craig and Monath, Nicholas and Lee, Ji Ah and
            Flaherty, Patrick and Cranmer, Kyle and McGregor, Andrew and McCallum, Andrew},
  booktitle = {Proceedings of The 24th International Conference on Artificial Intelligence and
               Statistics (AISTATS)},
  year = {2021},
  note = {arXiv:2002.11661}
}"""


def grade(probability: float | None) -> str:
    """What a probability is called; nothing if there is none.

    Examples
    --------
    >>> [grade(p) for p in (1.0, 0.9, 0.5, 0.1, 0.001)]
    ['strong', 'good', 'weak', 'undecided', 'unlikely']
    """
    if probability is None:
        return ""
    return next(name for bound, name in GRADES if probability >= bound)


def shown(probability: float) -> str:
    """A probability with three digits after the point; 0 or 1 only if it is exactly that."""
    return show_probability(probability, 3)


def spoken(probability: float) -> str:
    """The same within a sentence.

    Examples
    --------
    >>> spoken(0.25), spoken(1e-9)
    ('0.250', 'less than 0.001')
    """
    return shown(probability).replace("<", "less than ").replace(">", "more than ")


def tiny(probability: float) -> str:
    """A probability that may be very small.

    Examples
    --------
    >>> tiny(0.25), tiny(3.77e-07)
    ('0.250', '3.8e-07')
    """
    return shown(probability) if probability >= 0.001 else f"{probability:.1e}"


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """A number of things.

    Examples
    --------
    >>> counted(1, "tree"), counted(2000, "tree")
    ('1 tree', '2,000 trees')
    """
    return f"{many(number)} {singular if number == 1 else plural or singular + 's'}"


def many(number: int) -> str:
    """A whole number of any size.

    Examples
    --------
    >>> many(1234), many(10**40)
    ('1,234', '1.00e+40')
    """
    if number < LARGEST_WRITTEN:
        return f"{number:,}"
    digits = str(number)
    return f"{digits[0]}.{digits[1:3]}e+{len(digits) - 1}"


def listed(names: Sequence[str], most: int = SHOWN_NAMES) -> str:
    """Names in a row, cut if there are too many.

    Examples
    --------
    >>> listed(["a", "b", "c", "d"], 2)
    'a, b and 2 more'
    """
    shown = [f"“{name}”" if "," in name else name for name in names]
    if len(names) <= most + 1:
        return ", ".join(shown)
    return f"{', '.join(shown[:most])} and {len(names) - most} more"


def members(mask: int, labels: Sequence[str], most: int = SHOWN_NAMES) -> str:
    """A cluster in words: its members, or what it leaves out if that is far less to read.

    Examples
    --------
    >>> members(0b0111, "abcd"), members(0b1111110, "abcdefg")
    ('a, b, c', 'all but a')
    """
    inside = mask_labels(mask, labels)
    outside = mask_labels(~mask & ((1 << len(labels)) - 1), labels)
    if len(inside) > 2 * len(outside) and len(inside) > 3 and outside:
        return f"all but {listed(outside, most)}"
    return listed(inside, most)


def braced(mask: int, labels: Sequence[str], most: int = SHOWN_NAMES) -> str:
    """A cluster as a set, in words."""
    text = members(mask, labels, most)
    return text if text.startswith("all but ") else "{" + text + "}"


# ---- sentences --------------------------------------------------------------------------------


def summary(findings: Findings, proven: Optimality | None = None) -> list[str]:
    """What was found, in a few sentences."""
    post = findings.post
    close = about_best(post, proven)
    return [weighed(post), *_clusters(findings), f"{_best_tree(findings)} {close}".strip()]


def about_best(post: BasePosterior, proven: Optimality | None = None) -> str:
    """How close the best tree that was found is to the best there is; nothing if all were weighed.

    Parameters
    ----------
    post : BasePosterior
    proven : Optimality, optional
        What a search with proofs says of that tree; by default what the bound of the model says.
    """
    from hctrellis.clades.distribution import CladeDistribution

    if post.is_exact or isinstance(post.potential, CladeDistribution):
        return ""
    known = post.optimality if proven is None else proven
    if known.status == "optimal":
        return "It is proven optimal: no tree has a greater weight."
    if known.gap is None or known.gap > 1:
        return "It is the best found; how far from the optimum it is, is not known."
    what = "cost that is lower" if post.potential.has_energy else "log weight that is greater"
    return f"It is {known}: no tree has a {what} by more than that."


def _smoothed(model: CladeDistribution) -> str:
    """What smoothing does to the rule."""
    if model.smoothing == 0:
        return ""
    return f", but for a share of {model.smoothing:.2g} or more that goes to splits no tree has"


def weighed(post: BasePosterior) -> str:
    """Which trees were weighed, or how they were sampled."""
    from hctrellis.clades.distribution import CladeDistribution

    model = post.potential
    if isinstance(model, CladeDistribution):
        return (
            f"Trees read: {model.n_observed:,}, over {post.n_leaves} items{_counting(model)}. "
            f"{_RULES.get(model.model, _IN_CONTEXT)}{_smoothed(model)}; this gives a probability "
            f"to {counted(_n_trees(post), 'tree')}."
        )
    if not post.is_reliable:
        return (
            f"{post.n_leaves} items are too many to weigh every tree, so trees were sampled; but "
            "this gave no probability that can be quoted."
        )
    if post.method == "sampled":
        how = capitalised(post.how.removeprefix("Sampled: "))
        return (
            f"{post.n_leaves} items are too many to weigh every tree, so trees were sampled, and "
            f"every probability has a standard error. {how}"
        )
    if post.is_exact and _n_trees(post) == 1:
        return f"There is only one possible tree over the {counted(post.n_leaves, 'item')}."
    if post.is_exact:
        return (
            f"All {counted(_n_trees(post), 'binary tree')} over the {post.n_leaves} items were "
            "weighed; nothing was left out or sampled."
        )
    return (
        f"{post.n_leaves} items are too many to weigh every tree. "
        f"{counted(_n_trees(post), 'tree')} were weighed, all that can be made of "
        f"{post.trellis.n_clusters:,} promising clusters. So log Z is a lower bound, and every "
        "probability below is conditional on these trees."
    )


def capitalised(text: str) -> str:
    """Text that begins with a capital letter.

    Examples
    --------
    >>> capitalised("eight chains agree.")
    'Eight chains agree.'
    """
    return text[:1].upper() + text[1:]


def _n_trees(post: BasePosterior) -> int:
    return int(getattr(post, "n_trees", 0))


def _counting(model: CladeDistribution) -> str:
    return "" if model.n_draws == model.n_observed else ", which count by their weights"


def interval(post: BasePosterior, mask: int) -> tuple[float, float] | None:
    """Where the probability of a cluster lies, if it is a frequency among trees that were drawn."""
    from hctrellis.clades.distribution import CladeDistribution

    model = post.potential
    return model.interval(mask) if isinstance(model, CladeDistribution) else None


def too_few(post: BasePosterior) -> str:
    """A warning, if the trees that were read do not tell which tree is the best; else nothing."""
    from hctrellis.clades.distribution import CladeDistribution

    model = post.potential
    if not isinstance(model, CladeDistribution) or model.n_draws is None:
        return ""
    inner = below_root(post.map_tree)
    rare = sum(model.seen(mask) < FEW for mask in inner)
    if rare == 0:
        return ""
    if model.n_draws == 1:
        return (
            "There is one tree, so all of its clusters have probability 1. Give the trees of a run "
            "or of a bootstrap, not the one that sums them up."
        )
    few = f"{rare} {'is' if rare == 1 else 'are'} in fewer than {FEW}"
    return (
        "The sample is too small to say which tree is the most probable: of the "
        f"{counted(len(inner), 'cluster')} of the one shown, {few} of the "
        f"{counted(model.n_draws, 'tree')} that were read. Give more trees, or rely only on the "
        "frequent clusters."
    )


def not_converged(post: BasePosterior) -> str:
    """A warning, if the answers may be far off; else nothing."""
    if not post.is_reliable:
        return f"{post.diagnostics.verdict} {_doubted(post)}".strip()
    if post.method != "sparse" or post.growth is None or post.growth.converged:
        return ""
    return (
        "The search for promising clusters ended before it had settled, so better trees may be "
        "missing and probabilities may be too high. Leave out --max-clusters to have trees sampled "
        "instead, or take the answer as a first look."
    )


def _doubted(post: BasePosterior) -> str:
    """The clusters about which chains disagree most."""
    doubts = post.diagnostics.doubts[:DOUBTS]
    if not doubts:
        return ""
    said = [
        f"{braced(doubt.mask, post.labels, 3)} ({shown(doubt.low)} in one, {shown(doubt.high)} in "
        "another)"
        for doubt in doubts
    ]
    return f"Chains disagree most about {'; '.join(said)}."


def ties(post: BasePosterior) -> str:
    """What to say if several trees share the largest weight; else nothing."""
    number = getattr(post, "n_map_trees", 1)
    if number == 1:
        return ""
    many_of_them = "Very many" if number is None else many(number)
    return (
        f"{many_of_them} trees share the largest weight; the one shown is one of them, chosen by a "
        "fixed rule."
    )


def about_places(placed: Placements) -> str:
    """What the places of items are."""
    return (
        "The place of an item is the smallest cluster that holds it: the items it is joined with "
        "first. The entropy of its place over the posterior tells between how many places it "
        f"moves, as if they were equally probable (from {placed.size} sampled trees)."
    )


def about_rogues(placed: Placements) -> str:
    """Which items spoil the tree for the others."""
    if not placed.rogues:
        return "No single item spoils the tree: leaving one out makes the others no clearer."
    names = listed(placed.rogues)
    few = "It moves" if len(placed.rogues) == 1 else "They move"
    kept = placed.consensus_without()
    return (
        f"The tree would be clearer without {names}. {few} so far over the posterior that clusters "
        "of the other items lose support; without, "
        f"{counted(len(kept.support) - 1, 'cluster')} would have a probability above one half."
    )


def with_error(estimate: Estimate | None) -> str:
    """A probability, with its standard error if it was sampled.

    Examples
    --------
    >>> from hctrellis.posterior.base import Estimate
    >>> with_error(Estimate(0.25, 0.0)), with_error(Estimate(0.25, 0.01)), with_error(None)
    ('0.250', '0.25 ± 0.01', 'not known')
    """
    if estimate is None:
        return "not known"
    if estimate.error == 0:
        return shown(estimate.value)
    digits = 3 if estimate.error < 0.0095 else 2
    return f"{show_probability(estimate.value, digits)} ± {max(estimate.error, 0.001):.1g}"


def _clusters(findings: Findings) -> list[str]:
    if not findings.clusters or not findings.post.is_reliable:
        return []
    labels = findings.labels
    sure = [f for f in findings.clusters if (f.probability or 0.0) >= GRADES[1][0]]
    if not sure:
        best = findings.clusters[0]
        return [
            f"No cluster has a posterior probability of {GRADES[1][0]} or more; the most probable, "
            f"{braced(best.mask, labels)}, has {_said(findings, best)}."
        ]
    texts = [
        f"The cluster {braced(f.mask, labels)} has posterior probability {_said(findings, f)}."
        for f in sure[:3]
    ]
    more = len(sure) - len(texts)
    if more > 0:
        reach = f"reach{'es' if more == 1 else ''} {GRADES[1][0]}"
        texts[-1] += f" {counted(more, 'more cluster')} {reach}."
    return texts


def _said(findings: Findings, found: Found) -> str:
    """The probability of a cluster within a sentence."""
    estimate = findings.known.estimate(found.mask)
    return with_error(estimate).replace("<", "less than ").replace(">", "more than ")


def _best_tree(findings: Findings) -> str:
    inner = set(below_root(findings.tree))
    tied = ties(findings.post)
    known = len(findings.tree_probabilities) > 0
    text = f"The {findings.post.map_name}"
    if not findings.post.is_reliable:
        return f"{text} is drawn below, without probabilities."
    p = float(findings.tree_probabilities[0]) if known else 0.0
    if known:
        text += f" has probability {tiny(p)}"
    if len(inner) == 0:
        return f"{text}."
    good = GRADES[1][0]
    supported = sum((f.probability or 0.0) >= good for f in findings.clusters if f.mask in inner)
    verb = "has" if supported < 2 else "have"
    of_it = f"{supported or 'none'} of its {counted(len(inner), 'cluster')} {verb} {good} or more"
    if not known:
        said = f"{text} is one of very many; {of_it}."
    elif p >= 0.5:
        said = f"{text}, and {of_it}."
    else:
        said = f"{text}: do not trust it as a whole, but look at its clusters ({of_it})."
    return f"{said} {tied}".strip()


def difference(tree_masks: Sequence[int], best_masks: Sequence[int], labels: Sequence[str]) -> str:
    """How a tree differs from the best one."""
    inside, best = set(tree_masks), set(best_masks)
    new = [mask for mask in tree_masks if mask not in best]
    gone = [mask for mask in best_masks if mask not in inside]
    if not new:
        return "the most probable tree"
    first = braced(new[0], labels, 3)
    if len(new) > 1:
        return f"{len(new)} clusters, among them {first}"
    other = braced(gone[0], labels, 3)
    if first != other:
        return f"{first} instead of {other}"
    return f"{first}, {exchanged(new[0], gone[0], labels)}"


def exchanged(mask: int, other: int, labels: Sequence[str], most: int = 3) -> str:
    """How a cluster differs from another one.

    Examples
    --------
    >>> exchanged(0b0111, 0b1011, "abcd"), exchanged(0b0011, 0b1011, "abcd")
    ('with c, without d', 'without d')
    """
    more = listed(mask_labels(mask & ~other, labels), most)
    less = listed(mask_labels(other & ~mask, labels), most)
    return ", ".join([f"with {more}"] * bool(more) + [f"without {less}"] * bool(less))


def numbers(post: BasePosterior) -> list[tuple[str, str]]:
    """Names and values of the settings and results of a posterior."""
    log_p = post.map_log_probability
    known = "" if log_p is None else f", log probability {log_p:.4f}"
    found = [
        ("Model", repr(post.potential)),
        ("log Z", log_z(post)),
        (
            "Best tree" if post.is_exact else "Best tree found",
            f"log weight {post.map_log_weight:z.4f}{known}",
        ),
    ]
    if post.method == "sparse":
        found.append(("Trees weighed", repr(post.trellis)))
    if post.growth is not None:
        found.append(("Search", repr(post.growth)))
    if post.diagnostics is not None:
        lines = repr(post.diagnostics).splitlines()
        found.append(("Sampling", "; ".join(" ".join(line.split()) for line in lines[1:])))
    return found


def log_z(post: BasePosterior) -> str:
    """log Z, with how well it is known."""
    value, error = post.log_partition, post.log_partition_error
    if value is None or (error is None and post.potential.has_energy):
        return f"at least {post.log_partition_bound:z.4f}"
    return f"{value:z.4f}" if not error else f"{value:z.2f} ± {error:.2g}"


def listed_plainly(post: BasePosterior) -> list[str]:
    """A few lines on a posterior, for the prompt of Python."""
    if not post.is_reliable:
        return [not_converged(post)]
    table = post.cluster_probabilities(GRADES[2][0])
    known = Lookup(post)
    rows = [f"{with_error(known.estimate(m))}  {members(m, post.labels)}" for m in table.masks[:10]]
    title = f"clusters of probability {GRADES[2][0]} or more:" if rows else "no cluster reaches 0.5"
    return [weighed(post), title, *rows]
