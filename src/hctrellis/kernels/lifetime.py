"""What is compiled for a user's function is kept as long as the function lives, and no longer.

Numba would keep it to the end of the process: its target context refers to each compiled version of
a function, and this, by its globals, to the function, which is therefore never gone. So versions
are taken out of Numba's books here when the user's function is gone (nothing in the kernels refers
to it: they are made of copies, see `renewed`). LLVM's engine, too, owns the text of which it made
machine code; that is taken away from it once nothing refers to the library. The machine code itself
stays, since the engine has no way to free it.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any, TypeVar

from hctrellis.kernels.door import Dispatcher, compiler_lock

Function = TypeVar("Function", bound=Callable[..., Any])

_COLLECT_AFTER = 4  # functions that were let go; their parts refer to each other in circles
_EXPRESSION = "__numba_array_expr"
_making = threading.RLock()
_tables: list[dict[Any, tuple[Any, ...]]] = []
_ended: set[int] = set()
_leaving: list[tuple[Any, Any]] = []  # engines, and modules of theirs that nothing refers to
_put_off: list[Callable[[], object]] = []
_let_go = 0


def kept_for(
    owners: Callable[..., Iterable[Any]], parts: Callable[[Any], Iterable[Any]]
) -> Callable[[Function], Function]:
    """A cache, as `functools.cache`, of results that go when one of their owners ends.

    owners : from the arguments to the copies of users' functions that a result belongs to
    parts : called with a result that goes; the compiled functions that belong to it alone
    """

    def decorate(make: Function) -> Function:
        table: dict[Any, tuple[Any, ...]] = {}
        _tables.append(table)

        @wraps(make)
        def find(*key: Any) -> Any:
            found = table.get(key)
            if found is None:
                with _making:  # by one thread; another that waited finds it done
                    found = table.get(key)
                    if found is None:
                        found = (make(*key), parts, *owners(*key))
                        if not any(id(owner) in _ended for owner in found[2:]):
                            table[key] = found
            return found[0]

        find.__dict__["table"] = table
        return find  # type: ignore[return-value]

    return decorate


def end_with(function: Any, copy: Any, parts: Iterable[Any]) -> None:
    """Let go of all that belongs to a copy of a function when the function itself is gone.

    parts : the copy, and those of the functions that it calls
    """
    weakref.finalize(function, _end, copy, parts).atexit = False


def _end(copy: Any, parts: Iterable[Any]) -> None:
    """May be called in the midst of anything, by the garbage collector: waits for no lock."""
    global _let_go
    _let_go += 1
    _ended.add(id(copy))
    weakref.finalize(copy, _ended.discard, id(copy)).atexit = False
    let_go(parts)
    for table in _tables:
        for key in list(table):
            value, parts_of, *owners = table.get(key, (None, None))
            if any(owner is copy for owner in owners):
                table.pop(key, None)
                let_go(parts_of(value))


def let_go(functions: Iterable[Any]) -> None:
    """Take compiled functions away from Numba, and their libraries from LLVM in the end.

    That is when nothing refers to these any more: a library that others use as well stays. A
    function that is in use all the same works on, and is compiled anew where need be.
    """
    libraries: dict[int, Any] = {}
    environments: dict[int, Any] = {}
    for function in functions:
        if isinstance(function, Dispatcher):  # and not a plain function, without Numba
            known: Any = function
            for version in list(known.overloads.values()):
                known.targetctx._defns.pop(version.entry_point, None)
                environments[id(version.environment)] = version.environment
                libraries |= {id(library): library for library in _linked(version.library)}
            known.overloads.clear()
            _forget_expressions(known.targetctx.cached_internal_func, environments)
    for library in libraries.values():
        engine = getattr(library.codegen, "_engine", None)  # None for one without machine code
        if engine is not None and not hasattr(library, "hctrellis_leaves"):
            library.hctrellis_leaves = True
            module = (engine._ee, library._final_module)
            weakref.finalize(library, _leaving.append, module).atexit = False


def forget_failures(function: Any, seen: set[Any] | None = None) -> None:
    """Forget that a copy of a user's function, or one that it calls, could not be compiled.

    Numba keeps the error, which refers to the frames it came through, and they to whoever called.
    """
    seen = set() if seen is None else seen
    if not isinstance(function, Dispatcher) or function in seen:
        return
    seen.add(function)
    known: Any = function
    known._compiler._failed_cache.clear()
    cells = [cell.cell_contents for cell in known.py_func.__closure__ or ()]
    for other in (*known.py_func.__globals__.values(), *cells):
        forget_failures(other, seen)


def _forget_expressions(compiled: dict[Any, Any], environments: dict[int, Any]) -> None:
    """Forget what Numba compiled on its own inside of functions that are let go.

    Expressions of arrays are of use to these functions alone. Anything else may be of use to
    others, and stays, without what refers to the function in which it was first used.
    """
    for key in list(compiled):
        version = compiled.get(key)
        if version is not None and id(version.target_context.environment) in environments:
            if key[0].co_name.startswith(_EXPRESSION):
                compiled.pop(key, None)
            else:
                version.target_context.environment = None


def _linked(library: Any) -> Iterator[Any]:
    """A library, and those that are parts of it."""
    yield library
    for part in library._linking_libraries:
        yield from _linked(part)


def when_swept(call: Callable[[], object]) -> None:
    """Call something when nothing is being made."""
    _put_off.append(call)


def sweep() -> None:
    """Throw away what nothing refers to any more; called before a function is compiled."""
    global _let_go
    with _making:
        while _put_off:
            _put_off.pop()()
    if _let_go >= _COLLECT_AFTER:
        _let_go = 0
        gc.collect()
    with compiler_lock:
        while _leaving:
            engine, module = _leaving.pop()
            engine.remove_module(module)
            module.close()
