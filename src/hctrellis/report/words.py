"""Numbers and clusters in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hctrellis.clusters import mask_labels
from hctrellis.posterior.posterior import Posterior
from hctrellis.report.findings import Findings, Found, below_root
from hctrellis.support.printable import show_probability
from hctrellis.trellis.sparse import SparseTrellis

if TYPE_CHECKING:
    from hctrellis.clades.distribution import CladeDistribution

GRADES = ((0.95, "strong"), (0.8, "good"), (0.5, "weak"), (0.0, "open"))
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


def grade(probability: float) -> str:
    """What a probability is called.

    Examples
    --------
    >>> [grade(p) for p in (1.0, 0.9, 0.5, 0.1)]
    ['strong', 'good', 'weak', 'open']
    """
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


def summary(findings: Findings) -> list[str]:
    """What was found, in a few sentences."""
    return [weighed(findings.post), *_clusters(findings), _best_tree(findings)]


def weighed(post: Posterior) -> str:
    """Which trees were weighed."""
    from hctrellis.clades.distribution import CladeDistribution

    if isinstance(post.potential, CladeDistribution):
        return (
            f"Trees read: {post.potential.n_observed:,}, over {post.n_leaves} items"
            f"{_counting(post.potential)}. "
            f"{_RULES.get(post.potential.model, _IN_CONTEXT)}; this gives a probability to "
            f"{counted(post.n_trees, 'tree')}."
        )
    if post.is_exact and post.n_trees == 1:
        return f"There is only one possible tree over the {counted(post.n_leaves, 'item')}."
    if post.is_exact:
        return (
            f"All {counted(post.n_trees, 'binary tree')} over the {post.n_leaves} items were "
            "weighed; nothing was left out or sampled."
        )
    return (
        f"{post.n_leaves} items are too many to weigh every tree. {counted(post.n_trees, 'tree')} "
        f"were weighed, all that can be made of {post.trellis.n_clusters:,} promising clusters. So "
        "log Z is a lower bound, and every probability below is conditional on these trees."
    )


def _counting(model: CladeDistribution) -> str:
    return "" if model.n_draws == model.n_observed else ", which count by their weights"


def interval(post: Posterior, mask: int) -> tuple[float, float] | None:
    """Where the probability of a cluster lies, if it is a frequency among trees that were drawn."""
    from hctrellis.clades.distribution import CladeDistribution

    model = post.potential
    return model.interval(mask) if isinstance(model, CladeDistribution) else None


def too_few(post: Posterior) -> str:
    """A warning, if the trees that were read do not tell which tree is the best; else nothing."""
    from hctrellis.clades.distribution import CladeDistribution

    model = post.potential
    if not isinstance(model, CladeDistribution) or model.n_draws is None:
        return ""
    inner = below_root(post.map_tree)
    rare = sum(model.seen(mask) < FEW for mask in inner)
    if rare == 0:
        return ""
    few = f"{rare} {'is' if rare == 1 else 'are'} in fewer than {FEW}"
    return (
        "The sample is too small to say which tree is the most probable: of the "
        f"{counted(len(inner), 'cluster')} of the one shown, {few} of the "
        f"{counted(model.n_draws, 'tree')} that were read. Give more trees, or rely only on the "
        "frequent clusters."
    )


def not_converged(post: Posterior) -> str:
    """A warning, if the trees that were weighed may miss much of the posterior; else nothing."""
    if post.growth is None or post.growth.converged:
        return ""
    return (
        "The search for promising clusters ended before it had settled, so better trees may be "
        "missing and probabilities may be too high. Give it more time, or take the answer as a "
        "first look."
    )


def _clusters(findings: Findings) -> list[str]:
    if not findings.clusters:
        return []
    labels = findings.labels
    sure = [found for found in findings.clusters if found.probability >= GRADES[1][0]]
    if not sure:
        best = findings.clusters[0]
        return [
            f"No cluster has a posterior probability of {GRADES[1][0]} or more; the most probable, "
            f"{braced(best.mask, labels)}, has {spoken(best.probability)}."
        ]
    texts = [f"The cluster {_with_probability(found, labels)}." for found in sure[:3]]
    more = len(sure) - len(texts)
    if more > 0:
        reach = f"reach{'es' if more == 1 else ''} {GRADES[1][0]}"
        texts[-1] += f" {counted(more, 'more cluster')} {reach}."
    return texts


def _with_probability(found: Found, labels: Sequence[str]) -> str:
    return f"{braced(found.mask, labels)} has posterior probability {spoken(found.probability)}"


def _best_tree(findings: Findings) -> str:
    inner = set(below_root(findings.tree))
    supported = sum(f.probability >= GRADES[1][0] for f in findings.clusters if f.mask in inner)
    verb = "has" if supported < 2 else "have"
    number = supported or "none"
    of_it = f"{number} of its {counted(len(inner), 'cluster')} {verb} {GRADES[1][0]} or more"
    p = float(findings.tree_probabilities[0])
    text = f"The most probable tree has probability {tiny(p)}"
    if len(inner) == 0:
        return f"{text}."
    if p >= 0.5:
        return f"{text}, and {of_it}."
    return f"{text}: do not trust it as a whole, but look at its clusters ({of_it})."


def difference(tree_masks: Sequence[int], best_masks: Sequence[int], labels: Sequence[str]) -> str:
    """How a tree differs from the best one."""
    inside, best = set(tree_masks), set(best_masks)
    new = [mask for mask in tree_masks if mask not in best]
    gone = [mask for mask in best_masks if mask not in inside]
    if not new:
        return "the most probable tree"
    first = braced(new[0], labels, 3)
    if len(new) == 1:
        return f"{first} instead of {braced(gone[0], labels, 3)}"
    return f"{len(new)} clusters, among them {first}"


def numbers(post: Posterior) -> list[tuple[str, str]]:
    """Names and values of the settings and results of a posterior."""
    sign = "" if post.is_exact or not post.potential.has_energy else "at least "
    found = [
        ("Model", repr(post.potential)),
        ("log Z", f"{sign}{post.log_partition:.4f}"),
        (
            "Best tree",
            f"log weight {post.map_log_weight:.4f}, log probability {post.map_log_probability:.4f}",
        ),
    ]
    if isinstance(post.trellis, SparseTrellis):
        found.append(("Trees weighed", repr(post.trellis)))
    if post.growth is not None:
        found.append(("Search", repr(post.growth)))
    return found
