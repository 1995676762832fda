"""What several commands ask of their options."""

from __future__ import annotations

import typer


def as_positive(beta: float) -> float:
    """Refuse a beta that is not a positive number."""
    if not 0 < beta < float("inf"):
        raise typer.BadParameter(f"beta must be a positive number; got {beta:g}")
    return beta


def as_leaves(text: str | None) -> tuple[int, int] | None:
    """A range of numbers of leaves."""
    if text is None:
        return None
    low, _, high = text.partition(":")
    try:
        return int(low), int(high or low)
    except ValueError:
        raise typer.BadParameter(
            f"give a number of leaves or a range such as 5:10; got {text!r}"
        ) from None
