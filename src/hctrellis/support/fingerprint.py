"""Fingerprints: short texts by which data, functions and what these refer to are recognised.

Equal things have equal fingerprints in any process; what differs in anything that may matter has
a different one. Numbers, texts, arrays and containers count with what they hold, objects with their
attributes and their class, functions with their code, their defaults and what they refer to:
globals, variables of enclosing functions, attributes of modules, and so on from there. Functions
and classes of Python's own library and of installed packages count by name and version. Something
that cannot be recognised in this way raises an `OpaqueError`: it must never be taken for unchanged.
"""

from __future__ import annotations

import builtins
import dis
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from copyreg import dispatch_table
from functools import cache, cached_property, lru_cache, partial
from hashlib import blake2b
from importlib.util import resolve_name
from pathlib import Path
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, NamedTuple

import numpy as np

PLAIN = (str, bytes, float, complex, bool, type(None), type(Ellipsis), type(NotImplemented), range)
_CONTAINERS = (tuple, list, dict, set, frozenset, MappingProxyType)
_ARRAYS = (np.ndarray, np.memmap)
_MUTABLE = (list, dict, set, bytearray, MappingProxyType, np.ndarray)
_NUMBERS = (int, float, complex, str, bytes)
_MADE_OF: dict[type, tuple[str, ...]] = {
    property: ("fget", "fset", "fdel"),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    cached_property: ("func",),
    partial: ("func", "args", "keywords"),
    type(lru_cache(lambda: None)): ("__wrapped__",),
    MethodType: ("__func__", "__self__"),
    MethodWrapperType: ("__name__", "__self__"),
    WrapperDescriptorType: ("__objclass__", "__name__"),
    MethodDescriptorType: ("__objclass__", "__name__"),
    MemberDescriptorType: ("__name__",),
    GetSetDescriptorType: ("__name__",),
    slice: ("start", "stop", "step"),
}
"""What some built-in objects of Python consist of."""
_OF_CODE = (
    *("co_code", "co_consts", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_flags"),
    *("co_argcount", "co_kwonlyargcount", "co_posonlyargcount", "co_exceptiontable"),
)
_OF_EVERY_CLASS = (
    *("__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__annotations__"),
    *("__abstractmethods__", "_abc_impl", "__slotnames__", "__firstlineno__", "__annotate__"),
    *("__static_attributes__", "__annotations_cache__", "__annotate_func__"),
)
_DYNAMIC = ("__import__", "compile", "eval", "exec", "globals", "input", "locals", "open", "vars")
"""Built-in functions whose caller may depend on anything."""
_KNOWN = ("hctrellis", "math", "numba", "numpy", "scipy")  # packages in which users set nothing
_UFUNCS = ("numpy", "scipy.special")  # modules in which ufuncs are found by name
_HEAP_TYPE = 1 << 9  # the flag of classes that are made by a class statement
_WORD = 8  # bytes
_ROOM = 4 * _WORD  # of an object without slots and without data hidden from Python


class OpaqueError(TypeError):
    """It cannot be told whether something is what it was before."""


def fingerprint(*values: object) -> str:
    """A short text that is the same for equal values, in any process.

    Raises
    ------
    OpaqueError
        If something that matters cannot be recognised by its parts: a file, a lock, a generator, a
        compiled object without a state, a function that calls `eval`.

    Examples
    --------
    >>> fingerprint([1.0, "a"]) == fingerprint([1.0, "a"])
    True
    >>> fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 2)
    False
    """
    return Reader().digest(values).hex()


# ---- from things to digests -------------------------------------------------------------------


class Reader:
    """Computes digests, reading each thing once; `shallow` leaves out what mutable things hold."""

    def __init__(self, shallow: bool = False) -> None:
        self._shallow = shallow
        self._seen: dict[int, tuple[object, bytes]] = {}  # keeps them alive: ids stay theirs
        self._above: list[object] = []

    @property
    def seen(self) -> list[object]:
        """All that was read, except for numbers and texts."""
        return [value for value, _ in self._seen.values()]

    def digest(self, value: Any) -> bytes:
        """The digest of a thing and of all that it consists of."""
        kind = type(value)
        if kind is int:
            return _hashed(hex(value))
        if kind in PLAIN:
            return _hashed(f"{kind.__name__} {value!r}")
        if id(value) not in self._seen:
            self._above.append(value)
            self._seen[id(value)] = value, b""  # until it is known: it may refer to itself
            self._seen[id(value)] = value, self._read(value)
            self._above.pop()
        return self._seen[id(value)][1] or self._upwards(value)

    def _upwards(self, value: object) -> bytes:
        """How far above a thing is that is being read."""
        steps = next(i for i, above in enumerate(reversed(self._above)) if above is value)
        return b"%d above" % steps

    def _read(self, value: Any) -> bytes:
        kind = type(value)
        if kind is CodeType:
            return _of_code(value)
        name = name_of(value)
        if name is not None:
            return _hashed(name)
        if self._shallow and (isinstance(value, _MUTABLE) or _has_state(value)):
            return _hashed(kind.__qualname__)
        if kind in (set, frozenset):
            return _hashed(kind.__name__, sorted(map(self.digest, value)))
        if isinstance(value, np.generic) or (kind in _ARRAYS and not value.dtype.hasobject):
            described = f"{kind.__name__} {value.dtype!r} {value.shape}"
            return _hashed(described, [np.ascontiguousarray(value).tobytes()])
        return _hashed(kind.__qualname__, map(self.digest, self._parts(value)))

    def _parts(self, value: Any) -> Iterable[Any]:
        """What a thing consists of."""
        kind = type(value)
        if isinstance(getattr(value, "py_func", None), FunctionType):  # a function of Numba
            return [getattr(value, "targetoptions", None), value.py_func]
        if isinstance(value, FunctionType):
            return [*own_parts(value), *references(value, self._shallow)]
        if kind in (tuple, list):
            return list(value)
        if kind in (dict, MappingProxyType):
            return list(value.items())
        if kind in _MADE_OF:
            return [getattr(value, name) for name in _MADE_OF[kind]]
        if isinstance(value, BuiltinFunctionType):
            return [value.__qualname__, value.__self__]
        if isinstance(value, type):
            return [value.__bases__, *_attributes(vars(value), _OF_EVERY_CLASS)]
        if isinstance(value, ModuleType | np.ufunc):
            raise OpaqueError(f"{value!r:.80} may have changed")
        return _parts_of_object(value)


@lru_cache(maxsize=1000)
def _of_code(code: CodeType) -> bytes:
    """The digest of a piece of code, which never changes."""
    parts = [getattr(code, name) for name in _OF_CODE]
    return _hashed("code", map(Reader().digest, parts))


def _hashed(text: str, parts: Iterable[bytes] = ()) -> bytes:
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16)
    for part in parts:
        digest.update(b"%d:" % len(part))
        digest.update(part)
    return digest.digest()


def _attributes(found: Mapping[str, Any], others: Iterable[str]) -> list[tuple[str, Any]]:
    return sorted((name, found[name]) for name in found.keys() - set(others))


# ---- objects ----------------------------------------------------------------------------------


def _has_state(value: Any) -> bool:
    """Whether this object may change: it is no function, class, or built-in thing of Python."""
    kind = type(value)
    known = (*_CONTAINERS, *_MADE_OF, CodeType, BuiltinFunctionType, ModuleType, np.ufunc)
    called = isinstance(getattr(value, "py_func", value), FunctionType)
    return not (called or isinstance(value, type | np.generic) or kind in known)


def _parts_of_object(value: Any) -> list[Any]:
    """The class of an object, its attributes, and what it holds as a container or a number."""
    kind = type(value)
    tell = getattr(kind, "fingerprint_parts", None)
    if tell is not None:
        return [kind, *tell(value)]
    known = getattr(value, "__dict__", {})
    cached = [name for name in known if isinstance(getattr(kind, name, None), cached_property)]
    state = _attributes(known, cached)
    return [kind, *state, *_slots_of(value), *_held(value)]


def _slots_of(value: Any) -> list[tuple[str, Any]]:
    """The slots of an object that hold something, and what they hold."""
    names = names_of_slots(type(value))
    return [(name, getattr(value, name)) for name in names if hasattr(value, name)]


def names_of_slots(kind: type) -> list[str]:
    """The names of the slots of the objects of a class."""
    return [
        name
        for base in kind.__mro__
        for name, slot in sorted(vars(base).items())
        if isinstance(slot, MemberDescriptorType)
    ]


def has_attributes_only(value: Any) -> bool:
    """Whether an object is told by its class, its attributes and its slots alone."""
    kind = type(value)
    room = _ROOM + len(_slots_of(value)) * _WORD
    plain = _built_in_base(kind) is object and kind.__basicsize__ <= room
    return plain and kind not in _MADE_OF and not hasattr(kind, "fingerprint_parts")


def _built_in_base(kind: type) -> type:
    return next(each for each in kind.__mro__ if not each.__flags__ & _HEAP_TYPE)


def _held(value: Any) -> list[Any]:
    """What an object holds besides its attributes."""
    kind = type(value)
    base = _built_in_base(kind)
    if base in (tuple, list, set, frozenset):
        return [base(value)]
    if base is dict:
        return [dict(dict.items(value))]
    if base in _NUMBERS:
        return [base.__repr__(value)]
    if has_attributes_only(value):
        return []
    try:
        known = dispatch_table.get(kind)
        reduced = known(value) if known else value.__reduce_ex__(4)
    except Exception:
        raise OpaqueError(f"{value!r:.80} may have changed") from None
    if isinstance(reduced, str):
        return [reduced]
    return [list(part) if isinstance(part, Iterator) else part for part in reduced]


# ---- functions --------------------------------------------------------------------------------


class _Analysed(NamedTuple):
    """The names that a piece of code, and functions inside it, refer to."""

    loaded: frozenset[str]
    """As globals."""
    stored: frozenset[str]
    """Globals, and variables of enclosing functions, that it assigns to."""
    imported: frozenset[tuple[str, int]]
    """Modules, and from how many packages above."""
    attributes: frozenset[str]
    """Any names, among them those of attributes of modules."""


def own_parts(function: FunctionType) -> list[Any]:
    """What a function consists of, without what it refers to."""
    return [
        function.__code__,
        function.__defaults__,
        function.__kwdefaults__,
        _attributes(vars(function), ()),
    ]


def references(function: FunctionType, shallow: bool = False) -> list[tuple[str, Any]]:
    """What a function refers to, by names; `shallow` leaves out names that it assigns to."""
    names = analysed(function.__code__)
    found: dict[str, Any] = {}
    for name in names.loaded:
        value = function.__globals__.get(name, getattr(builtins, name, "undefined"))
        if name in _DYNAMIC and value is getattr(builtins, name):
            raise OpaqueError(f"{function.__qualname__} calls {name}")
        found |= _reached(name, value, names.attributes)
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    for name, cell in cells:
        found |= _reached(name, content(cell), names.attributes)
    for name, level in names.imported:
        package = function.__globals__.get("__package__")
        module = sys.modules.get(resolve_name("." * level + name, package) if level else name)
        found |= _reached(name, module, names.attributes)
    return _attributes(found, names.stored if shallow else ())


def content(cell: Any) -> Any:
    """What a variable of an enclosing function holds."""
    try:
        return cell.cell_contents
    except ValueError:
        return "undefined"


def _reached(name: str, value: Any, attributes: frozenset[str], depth: int = 8) -> dict[str, Any]:
    """A value by its name; for a module, what attributes of these names may refer to."""
    if not is_open(value) or depth == 0:
        return {name: value}
    inside: dict[str, Any] = {}
    for attribute in attributes & vars(value).keys() - {"__name__", "__doc__"}:
        held = vars(value)[attribute]
        inside |= _reached(f"{name}.{attribute}", held, attributes, depth - 1)
    return inside or {name: value}


def is_open(value: Any) -> bool:
    """Whether this is a module in which users may set something."""
    return isinstance(value, ModuleType) and value.__name__.partition(".")[0] not in _KNOWN


@lru_cache(maxsize=1000)
def analysed(code: CodeType) -> _Analysed:
    """The names that a piece of code refers to."""
    loaded, stored, imported, before = set(), set(), set(), [0, 0]
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
            loaded.add(step.argval)
        elif step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            stored.add(step.argval)
        elif step.opname in ("STORE_DEREF", "DELETE_DEREF"):
            stored |= {step.argval} & {*code.co_freevars}
        elif step.opname == "IMPORT_NAME":
            imported.add((step.argval, before[-2]))
        if step.opname != "EXTENDED_ARG":
            before.append(step.argval)
    texts = {item for item in code.co_consts if isinstance(item, str) and item.isidentifier()}
    own = (loaded, stored, imported, {*code.co_names} | texts)
    inner = [analysed(item) for item in code.co_consts if isinstance(item, CodeType)]
    joined = (frozenset(some).union(*more) for some, *more in zip(own, *inner, strict=True))
    return _Analysed(*joined)


# ---- what has a name --------------------------------------------------------------------------


def name_of(value: Any) -> str | None:
    """The name and version of something of Python's library or an installed package."""
    if isinstance(value, ModuleType):
        return f"{value.__name__} {_version(value)}" if _is_installed(value) else None
    modules, path = _home(value)
    for name in modules:
        module = sys.modules.get(name) if isinstance(name, str) else None
        if module is not None and isinstance(path, str) and _is_installed(module):
            found: Any = module
            for key in path.split("."):
                found = getattr(found, key, None)
            if found is value:
                return f"{name}.{path} {_version(module)}"
    return None


def _home(value: Any) -> tuple[Iterable[Any], Any]:
    """The modules in which something may be found, and its name there."""
    if isinstance(value, np.ufunc):
        return _UFUNCS, value.__name__
    return [getattr(value, "__module__", None)], getattr(value, "__qualname__", None)


@cache
def _is_installed(module: ModuleType) -> bool:
    """Whether a module is of this package, of Python's library, or of an installed package."""
    name = module.__name__
    if name.partition(".")[0] in (*_KNOWN, *sys.builtin_module_names):
        return True
    spec = getattr(module, "__spec__", None)
    origin = getattr(module, "__file__", None) or getattr(spec, "origin", None)
    if origin in ("built-in", "frozen"):
        return True
    return origin is not None and any(Path(origin).is_relative_to(path) for path in _folders())


@cache
def _folders() -> list[str]:
    """Where Python's library and installed packages are."""
    paths = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    return [*paths, *site.getsitepackages(), site.getusersitepackages()]


def _version(module: ModuleType) -> str:
    package = sys.modules.get(module.__name__.partition(".")[0])
    return str(getattr(package, "__version__", sys.version_info[:2]))
