"""Bind the split functions of a potential into the kernels.

Some kernel files are templates: they import stand-ins of the split functions from `bound`, and
functions from other templates (`full` from `tiles` and `weights`, say). `bind` runs a chain of
templates once per distinct set of split functions, in a module of its own, with the real functions
as globals and without those imports. Numba then fuses the split functions into the loops, and,
since they are module globals, can keep the machine code in its disk cache. Cache files carry a
fingerprint of everything the code depends on, so a stale one is never hit; a function whose
dependencies cannot be fingerprinted is compiled in memory only.
"""

from __future__ import annotations

import ast
import math
import sys
import types
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hctrellis.kernels import bound, elementary, simd
from hctrellis.kernels.compile import INNER, fused, inner, jit_as, lean
from hctrellis.kernels.door import Dispatcher, numba
from hctrellis.kernels.kept import kernel_texts
from hctrellis.kernels.lifetime import kept_for, when_swept
from hctrellis.kernels.users import as_terms, inlined, is_scaled, lane_of, of_vectors, pack_terms
from hctrellis.support.fingerprint import OpaqueError, fingerprint
from hctrellis.support.logs import LARGEST

_FOLDER = Path(__file__).parent
_FUNCTIONS = (
    "pair",
    "leaf",
    "pair_one",
    "leaf_one",
    "unchecked_pair",
    "values",
    "leaf_values",
    "describe",
)
_ROWS = ("load_row", "take_row", "splat_row", "gather_row")
_CLUSTERS = ("fill_cluster", "fill_clusters", "take_cluster")
_VALUES = ("store_each", "add_each")
_LEAST_FINITE = -sys.float_info.max
_FACTOR_RANGE = 200.0  # log2 of the ratio of the largest factor to the smallest, of one function


@dataclass(frozen=True)
class SplitCode:
    """The compiled face of a potential: how the weight of a split follows from features.

    Attributes
    ----------
    pair : callable
        ``pair(left, right, parent, params, cross) -> (x, factor)``: the weight of a split is
        factor * e^x. The rows are tuples of features, each a float or a vector, so the text uses
        arithmetic and the functions of `simd` and `elementary` only. For a user's function
        (``users=True``): ``pair(left, right, parent)``, or with ``params`` if it has some, of
        floats, which returns the log weight or ``(x, factor)``.
    leaf : callable, optional
        The same where the left child is a single leaf, if that needs another formula.
    describe : callable
        ``describe(size, sums, params) -> (row, own)``: the features of a cluster from the number of
        its leaves and its sums (see `potentials.base.Sums`), and what it adds to log psi as a
        parent. Not for a user's function whose features are not sums.
    n_features, n_sums, n_params : int
        Lengths of the rows, of the sums and of `params`.
    has_own : bool
        Whether `own` is anything but 0.
    scaled : bool
        Whether `factor` is anything but 1. (For a user's function it follows from its text.)
    cross : callable, optional
        `simd.minimum` or `simd.maximum`: hand `pair` the least or greatest distance between
        leaves of the two children. The last feature is then the cross table (see `full`).
    uses_parent : bool
        Whether `pair` looks at the features of the parent.
    gains : bool
        Whether this is the function of separable potentials, gain(L) |R| + gain(R) |L|, with gain
        and size as features.
    users : bool
        A user's function: may return -inf, and is checked for NaN and +inf.
    forbids : bool
        Whether a function that is not a user's may return x = -inf.
    role : "weight" or "value"
        What becomes of log psi by this function: it is added to the log weight of a split; or it is
        apart from the weight, one of those that `values` returns.
    shared : int, optional
        If a number: its features and this many of its first parameters are those of the function
        before it, and not there again.
    """

    pair: Callable[..., Any]
    describe: Callable[..., Any]
    n_features: int
    n_sums: int = 0
    n_params: int = 0
    has_own: bool = False
    leaf: Callable[..., Any] | None = None
    scaled: bool = False
    cross: Callable[..., Any] | None = None
    uses_parent: bool = True
    gains: bool = False
    users: bool = False
    forbids: bool = False
    role: Literal["weight", "value"] = "weight"
    shared: int | None = None


def same(size: Any, sums: Any, params: Any) -> tuple[Any, float]:
    """The `describe` of a function whose features are the sums themselves."""
    return sums, 0.0


def in_range(x: Any) -> Any:
    """A log weight from a user's function; NaN if it is too large, or too small but not -inf.

    NaN is then found by the kernels, wherever it occurs.
    """
    return simd.choose(
        LARGEST - simd.maximum(x, -x), x, simd.choose(_LEAST_FINITE - x, x, math.nan)
    )


def bind(chain: Sequence[str], codes: Sequence[SplitCode]) -> types.ModuleType:
    """One module out of a chain of templates, with the given split functions in it.

    The weights of several split functions multiply.
    """
    module: types.ModuleType = _load(tuple(chain), tuple(codes))
    return module


def _users(chain: tuple[str, ...], codes: tuple[SplitCode, ...]) -> list[Any]:
    return [code.pair for code in codes if code.users]


def _unload(module: types.ModuleType) -> list[Any]:
    """Forget a module; returns the functions that were compiled for it alone."""
    when_swept(partial(_free_name, module))
    scopes = (vars(module), module.pair.py_func.__globals__)
    functions = (item for item in vars(module).values() if isinstance(item, Dispatcher))
    return [function for function in functions if function.py_func.__globals__ in scopes]


def _free_name(module: types.ModuleType) -> None:
    """Take a module's name away; another one, for a function of the same text, gets it."""
    name = module.__name__
    others = [found[0] for found in _load.table.values()]  # type: ignore[attr-defined]
    same = [other for other in others if other.__name__ == name]
    if same:
        sys.modules[name] = same[-1]
    elif sys.modules.get(name) is module:
        del sys.modules[name]


@kept_for(_users, _unload)
def _load(chain: tuple[str, ...], codes: tuple[SplitCode, ...]) -> types.ModuleType:
    text = _adaptor(codes)
    key, lasting = _fingerprint(text, codes)
    module = types.ModuleType(f"{__package__}.{'_'.join(chain)}_{key}")
    module.__dict__.update(_globals(text, codes), inner=inner, lean=lean, fused=fused)
    module.__dict__["jit"] = jit_as(f"{chain[-1]}-{key}", cache=lasting)
    sys.modules[module.__name__] = module
    _run(chain, module.__dict__)
    return module


def interpret(chain: Sequence[str], scope: Mapping[str, Any]) -> types.ModuleType:
    """A chain of templates as plain Python, with the given functions as globals.

    For potentials that only NumPy can evaluate.
    """
    module = types.ModuleType(f"{__package__}.{'_'.join(chain)}_interpreted")
    module.__dict__.update(scope, **dict.fromkeys(("jit", "inner", "lean", "fused"), lambda f: f))
    _run(chain, module.__dict__)
    return module


def _run(chain: Sequence[str], names: dict[str, Any]) -> None:
    """Run templates one after the other, with these names in place of what they import."""
    for template in chain:
        path = _FOLDER / f"{template}.py"
        tree = ast.parse(path.read_text())
        tree.body = [node for node in tree.body if not _is_supplied(node)]
        exec(compile(tree, str(path), "exec"), names)


def _is_supplied(node: ast.stmt) -> bool:
    """Whether a statement imports from `bound` or from a template."""
    if not isinstance(node, ast.ImportFrom) or node.module is None:
        return False
    return node.module == bound.__name__ or _is_template(node.module)


@cache
def _is_template(module: str) -> bool:
    """Whether a module is a kernel file that imports from `bound`."""
    package, _, name = module.rpartition(".")
    path = _FOLDER / f"{name}.py"
    return package == __package__ and f"from {bound.__name__} import" in path.read_text()


def _globals(text: str, codes: Sequence[SplitCode]) -> dict[str, Any]:
    """What a template expects: flags, and the functions of the adaptor, compiled."""
    scope: dict[str, Any] = {
        name: getattr(simd, name)
        for name in ("load", "store", "pack", "splat", "lane", "gather", "choose")
    }
    scope |= {"as_terms": as_terms, "pack_terms": pack_terms, "in_range": inner(in_range)}
    scope |= {"log": elementary.log, "lane_of": lane_of}
    for i, code in enumerate(codes):
        scope[f"pair{i}"] = _as_inner(code.pair)
        scope[f"leaf{i}"] = _as_inner(code.leaf or code.pair)
        scope[f"describe{i}"] = _as_inner(code.describe)
        if code.users:
            scope[f"vectors{i}"] = of_vectors(code)
    exec(compile(text, "<split functions>", "exec"), scope)
    crosses = [code.cross for code in codes if code.cross is not None]
    users = any(code.users for code in codes)
    inline = ("pair", "leaf", "unchecked_pair") if users else ()
    fused: dict[str, Any] = {
        name: numba.njit(forceinline=name in inline, **INNER)(scope[name])
        for name in (*_FUNCTIONS, *_ROWS, *_CLUSTERS, *_VALUES)
    }
    if not users:
        fused["unchecked_pair"] = fused["pair"]
    scope.update(fused)  # some call others
    return fused | {
        "combine": crosses[0] if crosses else simd.minimum,
        "NOWHERE": -math.inf if simd.maximum in crosses else math.inf,
        "GAINS": any(code.gains for code in codes),
        "LINEAR": all(code.gains for code in codes),
        "USES_PARENT": any(code.uses_parent for code in codes),
        "CROSS": bool(crosses),
        "SCALED": any(_factor(0, code) for code in codes),
        "FACTOR_RANGE": _FACTOR_RANGE * sum(_factor(0, code) != "" for code in codes),
        "LEAF_APART": any(code.leaf is not None for code in codes),
        "CHECKED": any(code.users or code.forbids for code in codes),
        "N_VALUES": sum(code.role == "value" for code in codes),
    }


def _as_inner(function: Callable[..., Any]) -> Callable[..., Any]:
    if isinstance(function, Dispatcher):
        return inlined(function)
    return inner(function)


# -- the adaptor: one pair function out of several, each with its slice of features -------------


def _tuple(items: Sequence[str]) -> str:
    return "(" + "".join(f"{item}, " for item in items) + ")"


def _items(name: str, places: Sequence[int]) -> str:
    return _tuple([f"{name}[{i}]" for i in places])


def _slice(name: str, start: int, count: int) -> str:
    return _items(name, range(start, start + count))


def _adaptor(codes: Sequence[SplitCode]) -> str:
    n = sum(code.n_features for code in codes if code.shared is None)
    first_sum, first_feature = 2, 2 + sum(code.n_sums for code in codes)
    columns = range(first_feature, first_feature + n)
    lines = [
        "def load_row(buffer, i, stride):",
        "    return " + _tuple([f"load(buffer, i + {f} * stride)" for f in range(n)]),
        "def take_row(features, i):",
        "    return " + _tuple([f"features[{f}, i]" for f in range(n)]),
        "def splat_row(features, i):",
        "    return " + _tuple([f"splat(features[{f}, i])" for f in range(n)]),
        "def gather_row(features, index, offset):",
        "    return " + _tuple([f"gather(features[{f}], index, offset)" for f in range(n)]),
        "def take_cluster(table, i):",
        "    return " + _tuple([f"table[i, {c}]" for c in columns]),
        "def fill_cluster(table, i, params):",
        "    sums = " + _tuple([f"table[i, {c}]" for c in range(first_sum, first_feature)]),
        "    row, table[i, 1] = describe(table[i, 0], sums, params)",
        *[f"    table[i, {c}] = row[{f}]" for f, c in enumerate(columns)],
        "def fill_clusters(table, places, at, offset, params):",
        *_filled(range(first_sum, first_feature), columns),
    ]
    for name in ("pair", "leaf"):
        lines += _combined(name, codes) + _combined(name, codes, one=True)
    lines += _combined("pair", codes, unchecked=True)
    for name, of in (("values", "pair"), ("leaf_values", "leaf")):
        lines += [f"def {name}(left, right, parent, params, cross):", *_terms(of, codes, False)]
        chosen = [_value(i, code) for i, code in enumerate(codes) if code.role == "value"]
        lines.append(f"    return {_tuple(chosen)}")
    places = [simd.LANES * k for k in range(sum(code.role == "value" for code in codes))]
    lines += [
        "def store_each(array, row):",
        *(f"    store(array, {at}, splat(row[{k}]))" for k, at in enumerate(places)),
        "    return",
        "def add_each(array, p, row):",
        *(
            f"    store(array, {at}, load(array, {at}) + choose(p, p * row[{k}], 0.0))"
            for k, at in enumerate(places)
        ),
        "    return",
    ]
    return "\n".join([*_described(codes), *lines]) + "\n"


def _filled(sums: Sequence[int], columns: Sequence[int]) -> list[str]:
    """The lines that describe eight rows of a table from their sums."""
    rows = [f"r{k}" for k in range(simd.LANES)]
    packed = {c: _call("pack", [f"table[{row}, {c}]" for row in rows]) for c in (0, *sums)}
    lines = [
        *(f"    {row} = offset + places[at + {k}]" for k, row in enumerate(rows)),
        f"    features, own = describe({packed[0]}, {_tuple([packed[c] for c in sums])}, params)",
    ]
    for k, row in enumerate(rows):
        lines += [f"    table[{row}, 1] = lane_of(own, {k})"]
        lines += [
            f"    table[{row}, {c}] = lane_of(features[{f}], {k})" for f, c in enumerate(columns)
        ]
    return lines


def _described(codes: Sequence[SplitCode]) -> list[str]:
    """The text of a function that describes a cluster for all codes."""
    lines = ["def describe(size, sums, params):"]
    row: list[str] = []
    start = param = 0
    for i, code in enumerate(codes):
        if code.shared is not None:
            continue
        sums, params = _slice("sums", start, code.n_sums), _slice("params", param, code.n_params)
        lines.append(f"    r{i}, o{i} = describe{i}(size, {sums}, {params})")
        row += [f"r{i}[{f}]" for f in range(code.n_features)]
        start += code.n_sums
        param += code.n_params
    own = " + ".join(f"o{i}" for i, code in enumerate(codes) if code.has_own) or "0.0"
    return [*lines, f"    return {_tuple(row)}, {own}"]


def _combined(
    name: str, codes: Sequence[SplitCode], one: bool = False, unchecked: bool = False
) -> list[str]:
    """The text of a function of vectors, or of one split, that calls those of all codes."""
    full_name = f"{'unchecked_' if unchecked else ''}{name}{'_one' if one else ''}"
    head = f"def {full_name}(left, right, parent, params, cross):"
    weights = [(i, code) for i, code in enumerate(codes) if code.role == "weight"]
    x = " + ".join(f"x{i}" for i, _ in weights) or "-0.0"
    if any(code.users for _, code in weights) and not unchecked:
        x = f"in_range({x})"
    f = " * ".join(factor for i, code in enumerate(codes) if (factor := _factor(i, code))) or "1.0"
    return [head, *_terms(name, codes, one), f"    return {x}, {f}"]


def _terms(name: str, codes: Sequence[SplitCode], one: bool) -> list[str]:
    """The lines that compute x and factor of each code."""
    lines = []
    columns: list[int] = []
    places: list[int] = []
    feature = param = 0
    for i, code in enumerate(codes):
        if code.shared is None:
            places = [*range(param, param + code.n_params)]
            columns = [*range(feature, feature + code.n_features)]
            feature += code.n_features
            param += code.n_params
        else:
            more = code.n_params - code.shared
            places = [*places[: code.shared], *range(param, param + more)]
            param += more
        rows = [_items(side, columns) for side in ("left", "right", "parent")]
        if code.n_params or not code.users:
            rows.append(_items("params", places))
        if code.users:
            if one:
                call = _as_terms(_call(f"{name}{i}", rows))
            elif of_vectors(code) is None:
                call = _call_lanes(f"{name}{i}", rows)
            else:  # with splat: what depends on the parent alone then leaves the loop
                rows[2:] = [_splat(row) for row in rows[2:]]
                call = _as_terms(_call(f"vectors{i}", rows))
        else:
            call = _call(f"{name}{i}", [*rows, "cross"])
        lines.append(f"    x{i}, f{i} = {call}")
    return lines


def _factor(i: int, code: SplitCode) -> str:
    """What a code multiplies the weight by, besides e^x; empty if by nothing."""
    return f"f{i}" if code.role == "weight" and is_scaled(code) else ""


def _value(i: int, code: SplitCode) -> str:
    """Log psi by a code."""
    x = f"in_range(x{i})" if code.users else f"x{i}"
    return f"({x} + log(f{i}))" if is_scaled(code) else x


def _splat(row: str) -> str:
    """A tuple of items, each in all lanes."""
    return _tuple([f"splat({item})" for item in row.strip("(), ").split(", ") if item])


def _call(name: str, arguments: Sequence[str]) -> str:
    return f"{name}({', '.join(arguments)})"


def _as_terms(call: str) -> str:
    return _call("as_terms", [call])


def _call_lanes(name: str, rows: Sequence[str]) -> str:
    """Call a function of floats for each lane of rows of vectors."""
    calls = []
    for i in range(simd.LANES):
        items = [[item for item in row.strip("(), ").split(", ") if item] for row in rows]
        lane = [_tuple([f"lane_of({item}, {i})" for item in row]) for row in items]
        calls.append(_as_terms(_call(name, lane)))
    return _call("pack_terms", calls)


# -- fingerprints ------------------------------------------------------------------------------


def _fingerprint(text: str, codes: Sequence[SplitCode]) -> tuple[str, bool]:
    """A name for the code, and whether it means the same in every process."""
    try:
        return fingerprint(
            kernel_texts(), numba.__version__, np.__version__, text, *map(_told, codes)
        )[:16], True
    except OpaqueError:
        return uuid.uuid4().hex[:16], False


def _told(code: SplitCode) -> list[Any]:
    flags = (code.n_params, code.scaled, code.has_own, code.forbids)
    return [flags, code.pair, code.leaf, code.cross, code.describe]
