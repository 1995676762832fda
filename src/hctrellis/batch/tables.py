"""Arrow, where it is installed (an extra: ``hctrellis[batch]``)."""

from __future__ import annotations

from typing import Any


def arrow() -> Any:
    """The module pyarrow."""
    try:
        import pyarrow
    except ImportError:
        raise ImportError('batches need pyarrow: pip install "hctrellis[batch]"') from None
    return pyarrow


def is_text(kind: Any) -> bool:
    """Whether an Arrow type is one of texts."""
    types = arrow().types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def parquet() -> Any:
    """The module pyarrow.parquet."""
    arrow()
    import pyarrow.parquet

    return pyarrow.parquet
