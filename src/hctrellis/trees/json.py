"""JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hctrellis.trees.parts import Parts

if TYPE_CHECKING:
    from hctrellis.tree import Tree

JSON_FORMAT = "hctrellis-tree"
JSON_VERSION = 1


def parse_json(text: str | Mapping[str, Any]) -> Parts:
    """Read the JSON object written by `format_json`, as text or decoded."""
    record = _decode_json(text) if isinstance(text, str) else text
    if not isinstance(record, Mapping) or record.get("format") != JSON_FORMAT:
        raise ValueError(f'the JSON is not an object with "format": "{JSON_FORMAT}".')
    if record.get("version") != JSON_VERSION:
        raise ValueError(
            f"the tree is written in version {record.get('version')!r:.80} of the format; this "
            f"release reads version {JSON_VERSION}."
        )
    for field in ("labels", "children"):
        if not isinstance(record.get(field), list | tuple):
            raise ValueError(
                f'the JSON tree has no list "{field}"; see format_json for the fields.'
            )
    return Parts(record["children"], record["labels"], record.get("heights"))


def format_json(tree: Tree) -> str:
    """Write a tree as a JSON object with five fields.

    ``format`` is "hctrellis-tree", ``version`` is 1, ``labels`` lists the n labels, ``children``
    the n - 1 pairs of node numbers (k-th pair: the children of node n + k), ``heights`` the n - 1
    heights, or null.
    """
    return json.dumps(
        {
            "format": JSON_FORMAT,
            "version": JSON_VERSION,
            "labels": tree.labels,
            "children": tree.children.tolist(),
            "heights": None if tree.heights is None else tree.heights.tolist(),
        }
    )


def _decode_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"the text is not JSON ({error!s:.200}); expected what to_json writes."
        ) from None
