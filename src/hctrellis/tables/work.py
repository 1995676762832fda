"""From labelled numbers to a posterior: the model, beta, the inference, what goes with them."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Sequence

from hctrellis.posterior.base import BasePosterior
from hctrellis.tables.cells import Items, Options
from hctrellis.tables.models import (
    CONTRASTS,
    LINKAGES,
    MOST_CONTRASTS,
    WHY_CONTRASTS,
    WHY_NOT_CONTRASTS,
    described,
    maker,
    model_name,
    narrow,
)
from hctrellis.tables.result import Clustering
from hctrellis.tables.solve import solve
from hctrellis.tables.wish import Bars, Wish
from hctrellis.trust.beta import choose_beta
from hctrellis.trust.bootstrap import BootstrapSupport, bootstrap_support
from hctrellis.trust.contrasts import Contrasts

IDENTICAL = (
    "all items are identical, so nothing tells trees apart and every tree is equally probable; "
    "look at the numbers, or at which columns were left out"
)


def work(items: Items, wish: Wish, bars: Bars) -> Clustering:
    """Choose the model and beta, infer, and resample if that was asked for."""
    _check(items, wish)
    name = model_name(wish.potential, items.kind, items.used, _with_beta(wish))
    found = _by_contrasts(items, wish, bars) if name == CONTRASTS else _by(name, items, wish, bars)
    _ = found.certificate
    if wish.sensitivity:
        _ = found.moves
    if wish.second_opinion:
        _ = found.second_opinion
    return found


def _with_beta(wish: Wish) -> bool:
    """Whether something is asked for that contrasts do not have."""
    return wish.beta is not None or wish.bootstrap is not None or wish.metric != "euclidean"


def _would_be_contrasts(items: Items, wish: Wish) -> bool:
    """Whether only the number of rows kept contrasts from being the model."""
    asked = wish.potential is not None or _with_beta(wish)
    few = items.kind == "features" and narrow(items.used)
    return few and not asked and len(items.used) > MOST_CONTRASTS


def _by(name: str, items: Items, wish: Wish, bars: Bars) -> Clustering:
    """By a model that has a beta."""
    make = maker(name, items.kind, items.used, wish.metric, items.labels)
    table = items.used if items.kind == "features" else None
    make(table, 1.0)  # so that errors in the data are reported first
    choice, beta = None, wish.beta
    if beta is None:
        with bars("steps to choose beta", False) as progress:
            choice = choose_beta(make, table, rng=wish.seed, progress=progress)
        beta = choice.beta
    same = _identical(items)
    with warnings.catch_warnings():
        if same:  # which is said in other words
            warnings.filterwarnings("ignore", message="every tree has the same weight")
        post = solve(make(table, beta), wish, bars)
    watched = [as_mask(names, post.labels) for names in wish.clusters]
    settings = _settings(items, name, wish)
    if _would_be_contrasts(items, wish):
        settings.append(("Why this model", WHY_NOT_CONTRASTS))
    return Clustering(
        posterior=post,
        name=name,
        items=items,
        watched=watched,
        settings=settings,
        notes=[*items.notes, *([IDENTICAL] if same else [])],
        beta_choice=choice,
        bootstrap=_resample(items, post, name, wish, bars),
        make=make,
        metric=wish.metric,
        seed=wish.seed,
        model=_model(items, name, wish),
        wish=wish,
        bars=bars,
    )


def _by_contrasts(items: Items, wish: Wish, bars: Bars) -> Clustering:
    """By the model of tables that is fitted to the table and has no beta."""
    if _with_beta(wish):
        raise ValueError(
            "--potential contrasts has no beta, no metric, and is not resampled; leave out --beta, "
            "--metric and --bootstrap"
        )
    with bars("fits", False) as progress:
        model = Contrasts(items.used, labels=items.labels, rng=wish.seed, progress=progress)
    post = solve(model, wish, bars)
    settings = _settings(items, CONTRASTS, wish)
    if wish.potential is None:
        settings.append(("Why this model", WHY_CONTRASTS))
    settings.append(("How it was found", model.origin))
    settings += [("Structure", text) for text in _structure(model, post)]
    return Clustering(
        posterior=post,
        name=CONTRASTS,
        items=items,
        watched=[as_mask(names, post.labels) for names in wish.clusters],
        settings=settings,
        notes=[*items.notes],
        metric=wish.metric,
        seed=wish.seed,
        model=_model(items, CONTRASTS, wish),
        wish=wish,
        bars=bars,
    )


def _structure(model: Contrasts, post: BasePosterior) -> list[str]:
    """Whether there is any structure in the table, in words, if log Z is known."""
    log_z, error = post.log_partition, post.log_partition_error
    if log_z is None or error is None or not post.is_reliable:
        return []
    return [model.evidence_at(log_z, error).sentence]


def as_mask(names: Sequence[str], labels: Sequence[str]) -> int:
    """The mask of a cluster given by labels."""
    number = {label: k for k, label in enumerate(labels)}
    unknown = [name for name in names if name not in number]
    if unknown or not names:
        example = ", ".join(labels[:2])
        raise ValueError(
            f"there is no item {''.join(unknown[:1])!r:.80}; give labels of items, such as "
            f"{example}"
        )
    return sum(1 << number[name] for name in dict.fromkeys(names))


def as_names(text: str, labels: Sequence[str]) -> list[str]:
    """The labels in a text with commas between them; labels may themselves have commas.

    Examples
    --------
    >>> as_names("b, a", ["a", "b"]), as_names("Smith, J., Doe, A.", ["Smith, J.", "Doe, A."])
    (['b', 'a'], ['Smith, J.', 'Doe, A.'])
    """
    parts = [part.strip() for part in next(csv.reader([text], skipinitialspace=True), [])]
    whole = [part.strip() for part in text.split(",")]
    return _joined(parts, labels) or _joined(whole, labels) or parts


def _joined(parts: Sequence[str], labels: Sequence[str]) -> list[str]:
    """Parts put together, with commas, to labels, the longest first; empty if that fails."""
    known, found, k = set(labels), [], 0
    while k < len(parts):
        ends = range(len(parts), k, -1)
        end = next((end for end in ends if ", ".join(parts[k:end]) in known), None)
        if end is None:
            return []
        found.append(", ".join(parts[k:end]))
        k = end
    return found


# ---- inside -----------------------------------------------------------------------------------


def _check(items: Items, wish: Wish) -> None:
    if wish.bootstrap is not None and items.kind != "features":
        raise ValueError(f"--bootstrap resamples columns of features; these are {items.kind}")
    if items.kind != "features" and wish.metric != "euclidean":
        raise ValueError(f"--metric is for features; {items.name} was read as {items.kind}")


def _resample(
    items: Items, post: BasePosterior, name: str, wish: Wish, bars: Bars
) -> BootstrapSupport | None:
    if wish.bootstrap is None:
        return None
    if name not in LINKAGES:
        raise ValueError(f"--bootstrap clusters resamples by a linkage; {name} is none")
    with bars("resamples", False) as progress:
        return bootstrap_support(
            items.used,
            name,
            wish.metric,
            wish.bootstrap,
            tree=post.map_tree,
            labels=items.labels,
            rng=wish.seed,
            progress=progress,
        )


def _identical(items: Items) -> bool:
    """Whether there is no difference between any two items."""
    if items.kind == "features":
        return bool((items.used == items.used[0]).all())
    return items.kind == "distances" and not items.used.any()


def _settings(items: Items, name: str, wish: Wish) -> list[tuple[str, str]]:
    n, d = items.values.shape
    model = described(name, items.kind, items.used, wish.metric)
    if items.kind != "features":
        return [("Matrix", f"{items.name}: {items.kind} between {n} items"), ("Potential", model)]
    steps = [text for text, done in _steps(wish.reading) if done]
    what = f"{items.name}: {n} items, {d} column{'' if d == 1 else 's'}"
    return [("Table", ", ".join([what, *steps])), ("Potential", model)]


def _model(items: Items, name: str, wish: Wish) -> str:
    """The model in words, with what was done to the table."""
    steps = [text for text, done in _steps(wish.reading) if done]
    done = f" ({', '.join(steps)})" if steps else ""
    return f"{described(name, items.kind, items.used, wish.metric)}{done}"


def _steps(reading: Options) -> list[tuple[str, bool]]:
    return [
        ("transposed", reading.transpose),
        ("log10", reading.log10),
        ("columns standardised", reading.standardize),
    ]
