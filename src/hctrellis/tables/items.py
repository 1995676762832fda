"""From the cells of a table to labelled numbers: features, or distances or similarities.

`as_items` finds the labels, the colours and the numbers, and sees to missing values and scales.
Whatever is wrong with a table is reported in one sentence that says what to do.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hctrellis.support.checks import LARGEST
from hctrellis.support.printable import printable
from hctrellis.tables.cells import Cells, Items, Options
from hctrellis.tables.ids import id_columns, named_as_ids
from hctrellis.tables.matrices import as_matrix
from hctrellis.tables.sides import looks_transposed

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
WIDE = 20  # times the usual spread of columns: such a column is said to dominate the distances

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WHOLE = re.compile(r"[0-9]{1,15}")
_INFINITE = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)
_COMMA_NUMBER = re.compile(r"[+-]?[0-9]*,[0-9]+(?:[eE][+-]?[0-9]+)?")


# ---- from cells to numbers --------------------------------------------------------------------


def as_items(cells: Cells, options: Options) -> Items:
    """The labelled numbers of a table."""
    cells = _with_header(cells.transposed() if options.transpose else cells, options)
    columns = cells.columns or []
    notes: list[str] = [*cells.notes]
    special = [_find(cells, given) for given in (*_given(options.color), *options.ignore)]
    given = None if options.labels is None else _find(cells, options.labels)
    free = [k for k in range(len(columns)) if k not in (given, *special)]
    texts = [k for k in free if _is_text([row[k] for row in cells.rows])]
    numbers = [k for k in free if k not in texts]
    ids = [] if options.all_columns else id_columns(cells, numbers, options.kind)
    labels = _label_column(cells, texts, ids) if given is None else given
    notes += [_about_ids(columns, k, labels) for k in ids]
    kept = [k for k in free if k not in (labels, *ids)]
    if not kept:
        left = f" ({'; '.join(notes)})" if notes else ""
        raise ValueError(f"{cells.name} has no column of numbers left to compare items by{left}")
    _check_numeric(cells, kept, options)
    values = np.array([_numbers(cells, k, options) for k in kept]).T
    groups = [] if options.color is None else [_class(row[special[0]]) for row in cells.rows]
    items = Items(
        cells.name,
        options.kind or "features",
        _labels(cells, labels),
        values,
        [columns[k] for k in kept],
        groups,
        values,
        notes,
    )
    if options.kind is None:
        _check_features(items)
        if not options.transpose and looks_transposed(items, _name(columns, labels)):
            notes.append(_about_sides(items))
    items = _features(items, options) if items.kind == "features" else as_matrix(items, options)
    if len(items.labels) < 2:
        raise ValueError(f"{cells.name} has only one item; there is nothing to cluster")
    return items


def _name(columns: Sequence[str], column: int | None) -> str:
    return "" if column is None else columns[column]


def _about_sides(items: Items) -> str:
    n, d = items.values.shape
    return (
        f"the {n} rows were taken for the items and the {d} columns for what is known of them; if "
        "the columns are the items (samples, say, and the rows genes), give --transpose"
    )


def _class(cell: str) -> str:
    """The class in a cell; nothing if it is missing."""
    return "" if cell.lower() in MISSING else printable(cell)


def _given(name: str | None) -> tuple[str, ...]:
    return () if name is None else (name,)


def _with_header(cells: Cells, options: Options) -> Cells:
    """The cells with names for all columns: those of the first row, or numbers."""
    if cells.columns is not None:
        return cells
    first, *others = cells.rows
    header = options.header
    if header is None:
        header = not first[0] or not all(map(_is_number, first[1:] or first))
    if not header:
        names = [f"column {k + 1}" for k in range(len(first))]
        return replace(cells, columns=names)
    if not others:
        raise ValueError(f"{cells.name} has names of columns but no rows below them")
    return replace(cells, rows=others, columns=first)


def _is_number(cell: str) -> bool:
    return bool(_NUMBER.fullmatch(cell) or _COMMA_NUMBER.fullmatch(cell)) or cell.lower() in MISSING


def _find(cells: Cells, given: str) -> int:
    """The position of a column given by name or number."""
    columns = cells.columns or []
    if given in columns:
        return columns.index(given)
    if _WHOLE.fullmatch(given) and 1 <= int(given) <= len(columns):
        return int(given) - 1
    there = ", ".join(f"{name!r:.40}" for name in columns[:10])
    more = ", ..." if len(columns) > 10 else ""
    raise ValueError(f"{cells.name} has no column {given!r:.40}; it has {there}{more}")


def _label_column(cells: Cells, texts: Sequence[int], ids: Sequence[int]) -> int | None:
    """The first column of text, or of ids if the texts repeat."""
    if texts and (not ids or len({row[texts[0]] for row in cells.rows}) == len(cells.rows)):
        return texts[0]
    return ids[0] if ids else None


def _about_ids(columns: Sequence[str], column: int, labels: int | None) -> str:
    name = columns[column] or "without a name"
    which = f"the first column ({name:.40})" if column == 0 else f"column {name!r:.40}"
    done = "was taken for the labels" if column == labels else "was left out"
    return f"{which} numbers the rows and {done}; --all-columns makes it a feature"


def _is_text(column: Iterable[str]) -> bool:
    known = [cell for cell in column if cell.lower() not in MISSING]
    return bool(known) and not any(map(_is_number, known))


def _labels(cells: Cells, column: int | None) -> list[str]:
    if column is None:
        return [str(k + cells.first) for k in range(len(cells.rows))]
    labels = [printable(row[column]) for row in cells.rows]
    name = (cells.columns or [])[column]
    if "" in labels:
        raise ValueError(
            f"row {labels.index('') + cells.first} of {cells.name} has no label in column "
            f"{name!r:.40}; give it one, or name another column with --labels"
        )
    twice, times = Counter(labels).most_common(1)[0]
    if times > 1:
        raise ValueError(
            f"column {name!r:.40} of {cells.name} has {twice!r:.40} {times} times, so it cannot "
            "name the items; name another column with --labels, or make it the colour with --color "
            f"{_argument(name)} (rows are then numbered)"
        )
    return labels


def _argument(name: str) -> str:
    """A name as it is typed in a command."""
    shown = f"{printable(name):.80}"
    return f'"{shown}"' if re.search(r"[^\w.-]", shown) or not shown else shown


def _numbers(cells: Cells, column: int, options: Options) -> list[float]:
    """The numbers of a column, NaN where a value is missing."""
    name = (cells.columns or [])[column]
    texts = [row[column] for row in cells.rows]
    if options.decimal_comma:
        texts = [text.replace(",", ".") for text in texts]
    values = []
    for k, text in enumerate(texts):
        if text.lower() in MISSING:
            values.append(np.nan)
        elif _NUMBER.fullmatch(text) and abs(float(text)) <= LARGEST:
            values.append(float(text))
        else:
            raise ValueError(_not_a_number(cells, name, k, texts))
    return values


def _not_a_number(cells: Cells, name: str, row: int, texts: Sequence[str]) -> str:
    text, column = texts[row], f"column {name!r:.40} of {cells.name}"
    if _COMMA_NUMBER.fullmatch(text):
        return f"{column} has a decimal comma, as in {text!r:.40}; give --decimal-comma"
    if _INFINITE.fullmatch(text) or _NUMBER.fullmatch(text):
        beyond = f"which is not finite, or beyond {LARGEST:g}"
        return f"{column} has {text!r:.40} in row {row + cells.first}, {beyond}; correct it"
    if row == 0 and len(texts) > 1 and all(map(_is_number, texts[1:])):
        return (
            f"{column} has {text!r:.40} in its first row and numbers below; if that is a second "
            "line of names or units, delete the line, and correct it otherwise"
        )
    return (
        f"{column} has {text!r:.40} in row {row + cells.first}, which is not a number; correct it "
        f"or leave the column out with --ignore {_argument(name)}"
    )


def _check_numeric(cells: Cells, kept: Sequence[int], options: Options) -> None:
    """Raise an error that says what to do about columns of text, if there are any."""
    columns = cells.columns or []
    odd = [columns[k] for k in kept if _is_text([row[k] for row in cells.rows])]
    if not odd:
        return
    shown = ", ".join(f"{name!r:.40}" for name in odd[:3]) + (", ..." if len(odd) > 3 else "")
    uses = [f"show it as colour (--color {_argument(odd[0])})"] if options.color is None else []
    uses += [f"name the items by it (--labels {_argument(odd[0])})"] if not options.labels else []
    uses.append(
        "leave it out (" + " ".join(f"--ignore {_argument(name)}" for name in odd[:3]) + ")"
    )
    raise ValueError(
        f"{cells.name} has text in {'column' if len(odd) == 1 else 'columns'} {shown}; text is not "
        f"a feature: {', '.join(uses[:-1])}{' or ' if len(uses) > 1 else ''}{uses[-1]}"
    )


def _check_features(items: Items) -> None:
    """Raise an error if what is read as features looks like a matrix between items."""
    n, d = items.values.shape
    if n != d or n < 3:
        return
    symmetric = np.allclose(items.values, items.values.T, equal_nan=True)
    half = np.isnan(items.values[np.triu_indices(n, 1)]).all()
    if symmetric or half or items.columns == items.labels:
        raise ValueError(
            f"{items.name} looks like a matrix between {n} items; give --distances or "
            "--similarities, or --features if it is a table of features nonetheless"
        )


# ---- features ---------------------------------------------------------------------------------


def _features(items: Items, options: Options) -> Items:
    items = _without_holes(items, options.missing)
    used = _scaled(items, options)
    _warn_of_scales(used, items)
    return replace(items, used=used)


def _without_holes(items: Items, policy: str) -> Items:
    """The items without missing values, by the policy that the user chose."""
    holes = np.isnan(items.values)
    count = f"{holes.sum()} missing value{'s' if holes.sum() > 1 else ''}"
    rows, columns = np.arange(len(holes)), np.arange(holes.shape[1])
    if not holes.any():
        return items
    if policy == "drop-rows":
        rows = np.flatnonzero(~holes.any(axis=1))
        items.notes.append(_about_left_out(len(holes) - len(rows), "row"))
    elif policy == "drop-columns":
        columns = np.flatnonzero(~holes.any(axis=0))
        items.notes.append(_about_left_out(holes.shape[1] - len(columns), "column"))
    elif policy in ("mean", "zero"):
        items.notes.append(f"filled in ({policy}): {count}")
        return replace(items, values=np.where(holes, _filling(items, policy), items.values))
    else:
        row, column = np.argwhere(holes)[0]
        raise ValueError(
            f"{items.name} has {count}, the first in row {items.labels[row]!r:.40}, column "
            f"{items.columns[column]!r:.40}; give --missing mean, zero, drop-rows or drop-columns"
        )
    if len(rows) == 0 or len(columns) == 0:
        raise ValueError(
            f"nothing is left of {items.name} without missing values; try --missing mean"
        )
    return items.keep(rows, columns)


def _about_left_out(number: int, what: str) -> str:
    return f"left out for missing values: {number} {what}{'' if number == 1 else 's'}"


def _filling(items: Items, policy: str) -> FloatArray:
    """What to put in place of missing values, for each column."""
    known = ~np.isnan(items.values)
    counts = known.sum(axis=0)
    if policy == "mean" and (counts == 0).any():
        odd = items.columns[int(counts.argmin())]
        raise ValueError(
            f"column {odd!r:.40} of {items.name} has no value at all; leave it out with --ignore "
            f"{_argument(odd)}"
        )
    sums = np.where(known, items.values, 0.0).sum(axis=0)
    return np.asarray(sums / counts if policy == "mean" else np.zeros(len(counts)))


def _scaled(items: Items, options: Options) -> FloatArray:
    used = items.values
    if options.log10:
        if (used <= 0).any():
            row, column = np.argwhere(used <= 0)[0]
            raise ValueError(
                f"--log10 needs positive numbers; {items.name} has {used[row, column]:g} in row "
                f"{items.labels[row]!r:.40}, column {items.columns[column]!r:.40}"
            )
        used = np.log10(used)
    if options.standardize:
        spread = used.std(axis=0)
        used = (used - used.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return used


def _warn_of_scales(used: FloatArray, items: Items) -> None:
    spread = used.std(axis=0)
    if len(spread) > 1 and spread.max() > WIDE * np.median(spread):
        widest = items.columns[int(spread.argmax())]
        advice = "--standardize gives all columns the same spread"
        if named_as_ids(widest):
            advice = f"if it holds ids, leave it out: --ignore {_argument(widest)}"
        items.notes.append(
            f"column {widest!r:.40} varies far more than the others and dominates the distances; "
            f"{advice}"
        )
