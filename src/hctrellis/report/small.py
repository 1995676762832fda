"""A small report, for notebooks: the tree with support, the clusters, one sentence on how sure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from hctrellis.posterior.base import BasePosterior
from hctrellis.posterior.lookup import Lookup
from hctrellis.report import words
from hctrellis.support.colors import MISSING_COLOR, PALETTE
from hctrellis.trees.svg import format_svg

if TYPE_CHECKING:
    from hctrellis.trust.beta import BetaChoice
    from hctrellis.trust.opinions import SecondOpinion

SHOWN = 8  # clusters
MOST_LEAVES = 150  # of a tree that is drawn
BOX = "max-width:60em;font-family:sans-serif;font-size:14px;line-height:1.45"


def small_report(
    post: BasePosterior,
    *,
    settings: Sequence[tuple[str, str]] = (),
    notes: Sequence[str] = (),
    groups: Mapping[str, str] | None = None,
    beta: BetaChoice | None = None,
    second: SecondOpinion | None = None,
    remarks: Sequence[str] = (),
) -> str:
    """HTML without scripts that shows what matters of a posterior."""
    known = Lookup(post)
    parts = [f"<p>{escape(sure(post, known))}</p>", drawn(post, known, groups or {})]
    parts.append(_clusters(post, known, second))
    if second is not None:
        parts.append(f"<p>{escape(second.sentence)}</p>")
    lines = [*(f"{name}: {value}" for name, value in settings), words.weighed(post)]
    if beta is not None:
        lines.append(beta.sentence)
    elif post.potential.has_energy:
        lines.append(f"beta = {post.potential.beta:g}, as given")
    lines += [*remarks, words.not_converged(post), *notes]
    small = "<br>".join(escape(line) for line in lines if line)
    parts.append(f'<p style="color:#555;font-size:12px">{small}</p>')
    return f'<div style="{BOX}">{"".join(parts)}</div>'


def sure(post: BasePosterior, known: Lookup) -> str:
    """One sentence on how sure the tree is."""
    tree = post.map_tree
    if not post.is_reliable:
        return words.not_converged(post)
    inner = tree.masks[tree.n_leaves : -1]
    (bound, _), (good, _), *_ = words.GRADES
    values = [known.probability(mask) or 0.0 for mask in inner]
    counts = [sum(value >= least for value in values) for least in (bound, good)]
    if not inner:
        return f"There is only one tree over {words.counted(tree.n_leaves, 'item')}."
    return (
        f"Of the {words.counted(len(inner), 'cluster')} of the {post.map_name} over "
        f"{tree.n_leaves} items, {counts[0]} have a probability of {bound} or more, {counts[1]} of "
        f"{good} or more."
    )


def drawn(post: BasePosterior, known: Lookup, groups: Mapping[str, str]) -> str:
    """The MAP tree as SVG."""
    if post.n_leaves > MOST_LEAVES:
        return f"<p>({post.n_leaves} leaves are too many to draw here.)</p>"
    names = sorted({*groups.values()})
    key = {name: PALETTE[k % len(PALETTE)] for k, name in enumerate(names)}
    colors = {label: key[group] for label, group in groups.items()}
    marks = {label: colors.get(label, MISSING_COLOR) for label in post.labels} if key else {}
    tree = post.map_tree
    picture = format_svg(tree, known.support(tree), marks=marks, axis=_axis(post))
    spans = (
        f'<span style="margin-right:1em"><span style="color:{color}">■</span> {escape(name)}</span>'
        for name, color in key.items()
    )
    return f"<div>{picture}</div><div>{''.join(spans)}</div>"


def _axis(post: BasePosterior) -> str:
    return "" if post.map_tree.heights is None else post.potential.height_name


def _clusters(post: BasePosterior, known: Lookup, second: SecondOpinion | None) -> str:
    masks = post.cluster_probabilities().masks[:SHOWN] if post.is_reliable else ()
    other = None if second is None else Lookup(second.posterior)
    rows = "".join(
        f"<tr><td>{escape(words.with_error(known.estimate(mask)))}</td>"
        f"<td>{words.grade(known.probability(mask))}</td>"
        + ("" if other is None else f"<td>{escape(words.with_error(other.estimate(mask)))}</td>")
        + f'<td style="text-align:left">{escape(words.members(mask, post.labels))}</td></tr>'
        for mask in masks
    )
    by = "" if second is None else f"<th>by {escape(second.names[1])}</th>"
    head = f'<tr><th>probability</th><th></th>{by}<th style="text-align:left">cluster</th></tr>'
    return f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>" if rows else ""
