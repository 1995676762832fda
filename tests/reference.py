"""The page of the reference, docs/api.md, read: which names it documents, and what these return."""

from __future__ import annotations

import ast
import inspect
import re
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import hctrellis

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "api.md"
PACKAGE = Path(hctrellis.__file__).parent
DIRECTIVE = re.compile(r"^\.\. (\w+):: ([\w.]+)\n((?:   :.*\n)*)", re.MULTILINE)
OPTION = re.compile(r":([\w-]+):(.*)")
OPTIONAL = {"hctrellis.torch": "torch"}  # modules that need packages which may be absent
SPECIAL = ("__getitem__", "__iter__", "__add__")  # methods by which users get values, too


class Entry(NamedTuple):
    """A name on the page: what it stands for, and those of its members that are documented."""

    name: str
    value: Any
    members: tuple[str, ...]


def entries() -> list[Entry]:
    """All functions, classes and values that the page documents."""
    found, module = [], "hctrellis"
    for kind, target, text in DIRECTIVE.findall(PAGE.read_text("utf-8")):
        if kind == "currentmodule":
            module = target
        elif find_spec(OPTIONAL.get(target, "hctrellis")) is None:
            continue
        elif kind == "automodule":
            listed = import_module(target)
            found += [
                _entry(getattr(listed, name), name, {"members": ""}) for name in listed.__all__
            ]
        elif kind.startswith("auto"):
            options = {name: value.strip() for name, value in OPTION.findall(text)}
            found.append(_entry(_resolve(module, target), target.rpartition(".")[2], options))
    return found


def _resolve(module: str, target: str) -> Any:
    path, _, name = target.rpartition(".")
    return getattr(import_module(path or module), name)


def _entry(value: Any, name: str, options: dict[str, str]) -> Entry:
    if not inspect.isclass(value) or "members" not in options:
        return Entry(name, value, ())
    asked = options["members"].split(", ") if options["members"] else dir(value)
    left_out = options.get("exclude-members", "").split(", ")
    members = (m for m in asked if not m.startswith("_") and m not in left_out)
    return Entry(name, value, tuple(members))


@cache
def classes() -> dict[str, list[str]]:
    """The modules that define each public class of the package, by its name."""
    found: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    return found


def returned(entry: Entry) -> set[str]:
    """The names of classes in what an entry and its members return or hold."""
    texts = [] if inspect.isclass(entry.value) else [_returns(entry.value)]
    if inspect.isclass(entry.value):
        fields = inspect.get_annotations(entry.value)
        texts += [str(text) for name, text in fields.items() if not name.startswith("_")]
        texts += [_returns(inspect.getattr_static(entry.value, m)) for m in entry.members]
        texts += [_returns(vars(entry.value)[m]) for m in SPECIAL if m in vars(entry.value)]
    return {word for text in texts for word in re.findall(r"\w+", text)} & classes().keys()


def _returns(value: Any) -> str:
    for name in ("fget", "func", "__func__"):
        value = getattr(value, name, value)
    return str(getattr(inspect.unwrap(value), "__annotations__", {}).get("return", ""))
