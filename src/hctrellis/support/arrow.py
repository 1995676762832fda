"""Arrow and Parquet files, where pyarrow is installed (an extra: ``hctrellis[batch]``).

A file may be damaged, or state sizes that are not true: errors say in one sentence what is wrong
with it, and `check_size` refuses what would not fit in memory before it is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import Any

from hctrellis.support.memory import check_fits
from hctrellis.support.printable import printable

BYTES_PER_VALUE = 8


def arrow() -> Any:
    """The module pyarrow."""
    try:
        import pyarrow
    except ImportError:
        raise ImportError('batches need pyarrow: pip install "hctrellis[batch]"') from None
    return pyarrow


def parquet() -> Any:
    """The module pyarrow.parquet."""
    arrow()
    import pyarrow.parquet

    return pyarrow.parquet


def is_text(kind: Any) -> bool:
    """Whether an Arrow type is a type of text."""
    types = arrow().types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def stored(columns: Any) -> Any:
    """A table or record batch, with extension types replaced by those that they are stored as.

    Awkward has such types, in its tables and in files that some of its versions wrote; lists and
    records inside them would not be known as such.
    """
    schema = stored_schema(columns.schema)
    if schema.equals(columns.schema):
        return columns
    pa = arrow()
    arrays = [columns.column(k).cast(field.type) for k, field in enumerate(schema)]
    return (pa.Table if isinstance(columns, pa.Table) else pa.RecordBatch).from_arrays(
        arrays, schema=schema
    )


def stored_schema(schema: Any) -> Any:
    """The schema of `stored`."""
    return arrow().schema([_stored_field(field) for field in schema])


def _stored_field(field: Any) -> Any:
    return field.with_type(_stored_type(field.type))


def _stored_type(kind: Any) -> Any:
    pa = arrow()
    if isinstance(kind, pa.BaseExtensionType):
        return _stored_type(kind.storage_type)
    if pa.types.is_struct(kind):
        return pa.struct([_stored_field(field) for field in kind])
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_stored_field(kind.value_field), kind.list_size)
    for is_kind, make in ((pa.types.is_list, pa.list_), (pa.types.is_large_list, pa.large_list)):
        if is_kind(kind):
            return make(_stored_field(kind.value_field))
    return kind


# ---- files ------------------------------------------------------------------------------------


@contextmanager
def readable(path: str | PathLike[str]) -> Iterator[None]:
    """Say in one sentence what pyarrow finds wrong with a file that is read meanwhile."""
    pa = arrow()
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {path}") from None
    except (pa.ArrowException, UnicodeDecodeError, KeyError, OSError) as error:
        if getattr(error, "errno", None):  # the system does not let us read it
            raise
        reason = printable(" ".join(str(error).split()))[:200]
        raise ValueError(f"{path} is not a Parquet file that can be read: {reason}") from None


def open_parquet(path: str | PathLike[str], **options: Any) -> Any:
    """A Parquet file, as pyarrow opens it; its columns must have different names."""
    with readable(path):
        file = parquet().ParquetFile(path, **options)
        names = Counter(file.schema_arrow.names)
    name, times = max(names.items(), key=lambda item: item[1], default=("", 0))
    if times > 1:
        raise ValueError(f"{path} has {times} columns named {name!r:.80}; give each its own name")
    return file


def check_size(
    file: Any, path: str | PathLike[str], columns: Sequence[str] | None, whole: bool
) -> None:
    """Refuse a file whose columns do not fit in memory.

    Parameters
    ----------
    columns : sequence of str or None
        Their names; None for all.
    whole : bool
        Whether all of it is read at once; if not, one row group at a time.
    """
    with readable(path):
        file.scan_contents(columns and list(columns))  # else wrong sizes may abort Python
    chosen = _leaf_columns(file.schema, columns)
    sizes = [_group_bytes(file.metadata.row_group(k), chosen) for k in range(file.num_row_groups)]
    needed = sum(sizes) if whole else max(sizes, default=0)
    what = f"the columns of {path}" if whole else f"the columns of a row group of {path}"
    check_fits(needed, what, "a file of fewer rows" if whole else "smaller row groups")


def _leaf_columns(schema: Any, columns: Sequence[str] | None) -> list[int]:
    """The numbers of the columns of a Parquet schema that are, or are inside, given columns."""
    every = range(len(schema))
    if columns is None:
        return list(every)
    starts = tuple(f"{name}." for name in columns)
    return [k for k in every if f"{schema.column(k).path}.".startswith(starts)]


def _group_bytes(group: Any, columns: Sequence[int]) -> int:
    chunks = [group.column(k) for k in columns]
    return sum(
        BYTES_PER_VALUE * max(0, chunk.num_values) + max(0, chunk.total_uncompressed_size)
        for chunk in chunks
    )


def read_columns(file: Any, path: str | PathLike[str], columns: Sequence[str] | None = None) -> Any:
    """Some columns of an open file, or all, as an Arrow table."""
    check_size(file, path, columns, whole=True)
    with readable(path):
        table = file.read(columns=columns and list(columns))
        table.validate(full=True)
    return table


def texts(column: Any) -> list[Any]:
    """The texts of a column; those that a dictionary holds are shared, not copied."""
    if not arrow().types.is_dictionary(column.type):
        return list(column.to_pylist())
    found: list[Any] = []
    for chunk in column.chunks:
        values = chunk.dictionary.to_pylist()
        found += [None if k is None else values[k] for k in chunk.indices.to_pylist()]
    return found
