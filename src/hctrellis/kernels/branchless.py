"""Rewrite a user's function without branches, so that it can be computed for many splits at once.

``if``, ``and``, ``or``, ``not`` and ``a if c else b`` become `hctrellis.where`, ``&`` and ``|``;
each assignment makes a new name. Both sides of a branch are then computed, and one is chosen. What
cannot be rewritten safely (``while``, exceptions, changes of arrays, ...) is left to be called for
one split after the other: `branchless` returns None for it.
"""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any, TypeAlias

from hctrellis.kernels.door import Dispatcher, numba
from hctrellis.support.branch import where

_MOST_STATEMENTS = 400  # of a rewritten function; what follows a branch may be there twice
_WHERE, _CALL, _MADE = "hctrellis_where", "hctrellis_call", "hctrellis_made"

Names: TypeAlias = "dict[str, str]"  # what a variable is called now


class _Stays(Exception):
    """This function keeps its branches."""


def branchless(function: Any) -> Callable[..., Any] | None:
    """The same function of floats or vectors, without branches; None if there is none."""
    try:
        return _Rewriter(function.py_func).rewritten()
    except (_Stays, RecursionError):
        return None


class _Rewriter:
    """Rewrites one function, and those that it calls."""

    def __init__(self, function: types.FunctionType, callers: tuple[Any, ...] = ()) -> None:
        self.callers = (*callers, function.__code__)
        self.definition = _definition(function)
        self.parameters = [argument.arg for argument in self.definition.args.args]
        code = function.__code__
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        self.locals = set(code.co_varnames) | set(code.co_cellvars)
        self.scope = function.__globals__ | {name: cell.cell_contents for name, cell in cells}
        self.scope[_WHERE] = where
        self.body: list[ast.stmt] = []
        self.number = count()

    def rewritten(self) -> Callable[..., Any]:
        result = self.block(self.definition.body, {name: name for name in self.parameters})
        self.body.append(ast.Return(result))
        definition = ast.parse(f"def {_MADE}({', '.join(self.parameters)}): pass")
        definition.body[0].body = self.body  # type: ignore[attr-defined]
        ast.fix_missing_locations(definition)
        exec(compile(definition, "<branchless>", "exec"), self.scope)
        made: Callable[..., Any] = self.scope[_MADE]
        return made

    # -- statements ----------------------------------------------------------------------------

    def block(self, statements: list[ast.stmt], names: Names) -> ast.expr:
        """Rewrite statements up to the end of the function; returns what that returns."""
        for i, statement in enumerate(statements):
            match statement:
                case ast.Return(ast.expr() as value):
                    return self.expression(value, names)
                case ast.If(test, body, orelse) if _returns(statement):
                    chosen = self.named(self.test(test, names))
                    rest = statements[i + 1 :]
                    then = self.named(self.block([*body, *rest], dict(names)))
                    other = self.named(self.block([*orelse, *rest], dict(names)))
                    return _choice(chosen, then, other)
                case ast.For() if _returns(statement):
                    rest = statements[i + 1 :]
                    return self.block([*self.unrolled(statement), *rest], names)
                case _:
                    self.statement(statement, names)
        raise _Stays  # it may end without a result

    def statement(self, statement: ast.stmt, names: Names) -> None:
        """Rewrite a statement after which the function goes on."""
        match statement:
            case ast.Pass() | ast.Expr(ast.Constant()):
                pass
            case ast.Assign([target], value):
                self.assign(target, value, names)
            case ast.AnnAssign(ast.Name() as target, value=ast.expr() as value):
                self.assign(target, value, names)
            case ast.AugAssign(ast.Name(name), operator, value):
                old = ast.Name(name, ast.Load())
                self.assign(ast.Name(name), ast.BinOp(old, operator, value), names)
            case ast.If():
                self.merge(statement, names)
            case ast.For():
                for inner in self.unrolled(statement):
                    self.statement(inner, names)
            case _:
                raise _Stays

    def assign(self, target: ast.expr, value: ast.expr, names: Names) -> None:
        match target, value:
            case ast.Name(name), _:
                names[name] = self.named(self.expression(value, names)).id
            case ast.Tuple(targets), ast.Tuple(values) if len(targets) == len(values):
                found = [self.named(self.expression(item, names)) for item in values]
                for one, item in zip(targets, found, strict=True):
                    if not isinstance(one, ast.Name):
                        raise _Stays
                    names[one.id] = item.id
            case _:
                raise _Stays

    def merge(self, branch: ast.If, names: Names) -> None:
        """Rewrite a branch after which the function goes on, whichever side was taken."""
        test = self.named(self.test(branch.test, names))
        sides = [dict(names), dict(names)]
        for side, body in zip(sides, (branch.body, branch.orelse), strict=True):
            for statement in body:
                self.statement(statement, side)
        then, other = sides
        for name in dict.fromkeys([*then, *other]):
            if name not in then or name not in other:
                names.pop(name, None)  # it has a value on one side only
            elif then[name] == other[name]:
                names[name] = then[name]
            else:
                chosen = _choice(test, _read(then[name]), _read(other[name]))
                names[name] = self.named(chosen).id

    def unrolled(self, loop: ast.For) -> list[ast.stmt]:
        """The statements of a loop over items that are known, or over a known range."""
        items: list[ast.expr]
        match loop.iter:
            case ast.Tuple(items) | ast.List(items):
                pass
            case ast.Call(ast.Name("range"), [ast.Constant(int(number))], []):
                if "range" in self.scope or number > _MOST_STATEMENTS:
                    raise _Stays
                items = [ast.Constant(k) for k in range(number)]
            case _:
                raise _Stays
        if loop.orelse:
            raise _Stays
        held = [f"{_MADE}_{next(self.number)}" for _ in items]
        found: list[ast.stmt] = [
            ast.Assign([ast.Name(name, ast.Store())], item)
            for name, item in zip(held, items, strict=True)
        ]
        for name in held:
            found += [ast.Assign([loop.target], _read(name)), *loop.body]
        return found

    def named(self, value: ast.expr) -> ast.Name:
        """A new name for a value."""
        if isinstance(value, ast.Name):
            return value
        name = f"{_MADE}_{next(self.number)}"
        self.body.append(ast.Assign([ast.Name(name, ast.Store())], value))
        if len(self.body) > _MOST_STATEMENTS:
            raise _Stays
        return _read(name)

    # -- expressions ---------------------------------------------------------------------------

    def expression(self, node: ast.expr, names: Names) -> ast.expr:
        match node:
            case ast.Constant():
                return node
            case ast.Name(name):
                return self.name(name, names)
            case ast.IfExp(test, body, orelse):
                then, other = (self.expression(part, names) for part in (body, orelse))
                return _choice(self.test(test, names), then, other)
            case ast.BoolOp() | ast.Compare() | ast.UnaryOp(ast.Not()):
                return self.test(node, names)
            case ast.BinOp(left, operator, right):
                sides = [self.expression(side, names) for side in (left, right)]
                return ast.BinOp(sides[0], operator, sides[1])
            case ast.UnaryOp(operator, operand):
                return ast.UnaryOp(operator, self.expression(operand, names))
            case ast.Subscript(value, index):
                item = self.expression(index, names)
                return ast.Subscript(self.expression(value, names), item, ast.Load())
            case ast.Attribute(value, name):
                return ast.Attribute(self.expression(value, names), name, ast.Load())
            case ast.Tuple(items):
                return ast.Tuple([self.expression(item, names) for item in items], ast.Load())
            case ast.Call(function, arguments, []):
                called = self.called(function, names)
                return ast.Call(called, [self.expression(item, names) for item in arguments], [])
            case _:
                raise _Stays

    def test(self, node: ast.expr, names: Names) -> ast.expr:
        """A condition; all of its parts are evaluated."""
        match node:
            case ast.BoolOp(operator, values):
                joins = ast.BitAnd() if isinstance(operator, ast.And) else ast.BitOr()
                return _joined([self.test(value, names) for value in values], joins)
            case ast.UnaryOp(ast.Not(), operand):
                zero, one = ast.Constant(0.0), ast.Constant(1.0)
                number = _choice(self.test(operand, names), zero, one)
                return ast.Compare(number, [ast.Eq()], [one])
            case ast.Compare(left, signs, others):
                if not all(isinstance(sign, _SIGNS) for sign in signs):
                    raise _Stays
                items = [self.named(self.expression(item, names)) for item in (left, *others)]
                pairs = zip(items[:-1], signs, items[1:], strict=True)
                return _joined([ast.Compare(a, [sign], [b]) for a, sign, b in pairs], ast.BitAnd())
            case ast.Name() | ast.Constant(bool()):
                return self.expression(node, names)
            case _:
                raise _Stays

    def name(self, name: str, names: Names) -> ast.expr:
        if name in names:
            return _read(names[name])
        if name in self.locals:
            raise _Stays  # it has no value, or only on one side of a branch
        return _read(name)

    def called(self, function: ast.expr, names: Names) -> ast.expr:
        """The function to call: a compiled one in its form without branches, if it has one."""
        known = self.scope.get(function.id) if isinstance(function, ast.Name) else None
        if not isinstance(known, Dispatcher) or function.id in self.locals:  # type: ignore[attr-defined]
            return self.expression(function, names)
        if known.py_func.__code__ in self.callers:
            raise _Stays  # it calls itself
        try:
            inner = _Rewriter(known.py_func, self.callers).rewritten()
        except _Stays:
            return self.expression(function, names)
        name = f"{_CALL}_{next(self.number)}"
        self.scope[name] = numba.njit(error_model="numpy", forceinline=True)(inner)
        return _read(name)


_SIGNS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)


def _definition(function: types.FunctionType) -> ast.FunctionDef:
    """The text of a function, if it is the text that was compiled: a file may have changed."""
    code = function.__code__
    try:
        text = "".join(inspect.findsource(function)[0])
        tree, compiled = ast.parse(text), compile(text, "", "exec", dont_inherit=True)
    except (OSError, TypeError, SyntaxError, ValueError):
        raise _Stays from None
    nodes = [node for node in ast.walk(tree) if _begins(node) == code.co_firstlineno]
    if len(nodes) != 1 or _meaning(code) not in map(_meaning, _inside(compiled)):
        raise _Stays
    definition = nodes[0]
    if not isinstance(definition, ast.FunctionDef) or definition.name != code.co_name:
        raise _Stays
    plain = ast.arguments([], definition.args.args, None, [], [], None, [])
    if ast.dump(definition.args) != ast.dump(plain):
        raise _Stays  # with defaults, or any number of arguments
    return definition


def _begins(node: ast.AST) -> int | None:
    """The first line of a function."""
    if not isinstance(node, ast.FunctionDef | ast.Lambda | ast.AsyncFunctionDef):
        return None
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return min(part.lineno for part in (node, *decorators))


def _inside(code: types.CodeType) -> Iterator[types.CodeType]:
    """The functions inside a piece of code, and inside them."""
    for item in code.co_consts:
        if isinstance(item, types.CodeType):
            yield item
            yield from _inside(item)


def _meaning(code: types.CodeType) -> tuple[Any, ...]:
    constants = [repr(item) for item in code.co_consts if not isinstance(item, types.CodeType)]
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return code.co_firstlineno, code.co_code, constants, names


def _returns(node: ast.stmt) -> bool:
    return any(isinstance(item, ast.Return) for item in ast.walk(node))


def _read(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _choice(test: ast.expr, then: ast.expr, other: ast.expr) -> ast.expr:
    return ast.Call(_read(_WHERE), [test, then, other], [])


def _joined(tests: Iterable[ast.expr], operator: ast.operator) -> ast.expr:
    first, *others = tests
    for other in others:
        first = ast.BinOp(first, operator, other)
    return first
