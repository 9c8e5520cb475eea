"""Take the text of a cell apart into statements: what each defines and uses.

Only statements at the top level count, and nothing is run.
"""

from __future__ import annotations

import ast
import re
import symtable
import textwrap
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property, lru_cache

from attn.grading.classroom.magics import parse

STAR = "*"
"""The name that ``from math import *`` defines."""
_IMPORTS = (ast.Import, ast.ImportFrom)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SCOPES = (*_FUNCTIONS, ast.ClassDef, ast.Lambda)
_COMPREHENSIONS = ("listcomp", "setcomp", "dictcomp", "genexpr")
_DIRECT = (ast.Assign, ast.AnnAssign)
_COPIES = {"wraps"}
_COMPILES = {"torch.compile", "torch.jit.script", "jit.script"}
_REST = re.compile(rb"[ \t]*(?:;[ \t]*)?(?:#[^\n]*)?")


class Effect(IntEnum):
    """Rank what a statement does to a name."""

    CALLS = 0  # a method that may change the object: ``x.append(1)``
    PATCHES = 1  # an attribute or an element: ``Layer.forward = forward``
    MAY_BIND = 2  # in a branch or a loop, or by ``+=`` or ``del``
    BINDS = 3  # whatever happened before


@dataclass(frozen=True)
class Statement:
    """A statement at the top level of a cell.

    Args:
        node: its tree.
        text: its lines, from its first decorator on.
        start: its first byte in the cell.
        end: the byte after it, and after a semicolon or a comment.
    """

    node: ast.stmt
    text: str
    start: int
    end: int

    @cached_property
    def effects(self) -> dict[str, Effect]:
        """The strongest effect that it has on each global name."""
        found: dict[str, Effect] = {}
        for name, effect in _effects(self.node):
            found[name] = max(effect, found.get(name, effect))
        return found

    @cached_property
    def uses(self) -> tuple[frozenset[str], frozenset[str]]:
        """The global names that it reads: at once, and when it is called."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # "\d"
                table = symtable.symtable(self.plain, "", "exec")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return frozenset(), frozenset()
        at_once: set[str] = set()
        when_called: set[str] = set()
        todo = [(table, at_once)]
        while todo:
            scope, found = todo.pop()
            found |= {x.get_name() for x in scope.get_symbols() if _is_read(x)}
            for child in scope.get_children():
                waits = child.get_type() == "function"
                waits = waits and child.get_name() not in _COMPREHENSIONS
                todo.append((child, when_called if waits else found))
        return frozenset(at_once), frozenset(when_called)

    @cached_property
    def plain(self) -> str:
        """Its text without decorators that the sandbox refuses.

        ``functools.wraps`` sets attributes of any name; and what is compiled
        computes what it would as it is.
        """
        if not any(x in self.text for x in _COPIES | _COMPILES):
            return self.text
        lines = self.text.split("\n")
        for node in ast.walk(parse(self.text) or ast.Module([], [])):
            if isinstance(node, _FUNCTIONS):
                for x in filter(_is_left_out, node.decorator_list):
                    end = x.end_lineno or x.lineno
                    lines[x.lineno - 1 : end] = [""] * (end - x.lineno + 1)
        text = "\n".join(lines)
        return self.text if parse(text) is None else text

    def importing(self, names: set[str]) -> str:
        """Return its text; of an import, with no other names than these."""
        node = self.node
        if not isinstance(node, _IMPORTS):
            return self.plain
        kept = [x for x in node.names if _bound(x) in {*names, STAR}]
        if len(kept) == len(node.names):
            return self.text
        if isinstance(node, ast.Import):
            return ast.unparse(ast.Import(kept))
        return ast.unparse(ast.ImportFrom(node.module, kept, node.level))

    @property
    def keeps(self) -> Effect:
        """The least effect that counts on what it binds.

        No method of a module or a class makes it another one.
        """
        if isinstance(self.node, _IMPORTS):
            return Effect.MAY_BIND
        return Effect.PATCHES if self.is_definition else Effect.CALLS

    @property
    def is_definition(self) -> bool:
        """True of a function and of a class."""
        return isinstance(self.node, (*_FUNCTIONS, ast.ClassDef))

    @property
    def is_remark(self) -> bool:
        """True of a text alone, such as a docstring."""
        node = self.node
        return isinstance(node, ast.Expr) and isinstance(
            node.value, ast.Constant
        )

    @property
    def short(self) -> str:
        """Its beginning."""
        line = self.text.partition("\n")[0]
        return textwrap.shorten(line, 40, placeholder=" …")


@lru_cache(maxsize=16)
def statements(text: str) -> tuple[Statement, ...] | None:
    """Return the statements of a text; None if it is not Python."""
    tree = parse(text)
    if tree is None:
        return None
    data = text.encode()
    lines = [0]
    for line in data.split(b"\n"):
        lines.append(lines[-1] + len(line) + 1)
    found = []
    for node in tree.body:
        above = getattr(node, "decorator_list", [])
        first = min(x.lineno for x in (node, *above))
        column = 0 if above else node.col_offset
        start = lines[first - 1] + column
        end = lines[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0)
        rest = _REST.match(data, end)
        own = data[start:end].decode()
        found.append(Statement(node, own, start, rest.end() if rest else end))
    return tuple(found)


def _is_read(symbol: symtable.Symbol) -> bool:
    reads = symbol.is_referenced() or symbol.is_declared_global()
    return symbol.is_global() and reads


def _is_left_out(node: ast.expr) -> bool:
    path = ast.unparse(node.func if isinstance(node, ast.Call) else node)
    return path in _COMPILES or path.rpartition(".")[2] in _COPIES


def _bound(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _effects(statement: ast.stmt) -> Iterator[tuple[str, Effect]]:
    targets = getattr(statement, "targets", [])
    if isinstance(statement, ast.AnnAssign):
        if statement.value is None:
            return
        targets = [statement.target]
    if isinstance(statement, _DIRECT):
        for target in targets:
            for x in ast.walk(target):
                if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store):
                    yield x.id, Effect.BINDS
    for node in _outside_scopes(statement):
        own = node is statement
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            yield node.name, Effect.BINDS if own else Effect.MAY_BIND
            for x in node.decorator_list:  # ``@add_to_class(Layer)``
                for y in getattr(x, "args", ()):
                    yield _root(y), Effect.PATCHES
        elif isinstance(node, _IMPORTS):
            for alias in node.names:
                in_part = alias.name == STAR or "." in alias.name
                whole = own and (alias.asname or not in_part)
                yield _bound(alias), Effect.BINDS if whole else Effect.MAY_BIND
        elif isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load):
                yield node.id, Effect.MAY_BIND
        elif isinstance(node, ast.Attribute | ast.Subscript):
            if not isinstance(node.ctx, ast.Load):
                yield _root(node), Effect.PATCHES
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
            if node.name:
                yield node.name, Effect.MAY_BIND
        elif isinstance(node, ast.Expr):
            yield from _by_call(node.value)


def _outside_scopes(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the nodes whose names are global."""
    todo: list[ast.AST] = [statement]
    while todo:
        node = todo.pop()
        yield node
        if isinstance(node, ast.comprehension):
            todo += [node.iter, *node.ifs]
        elif not isinstance(node, _SCOPES):
            todo += ast.iter_child_nodes(node)


def _by_call(value: ast.expr) -> Iterator[tuple[str, Effect]]:
    """Yield what a call changes whose result is not used."""
    call = getattr(value, "elt", value)  # of a comprehension
    if not isinstance(call, ast.Call):
        return
    function = call.func
    name = getattr(function, "attr", "") or getattr(function, "id", "")
    if isinstance(function, ast.Attribute):
        yield _root(function), Effect.CALLS
    if call.args and name in ("setattr", "delattr"):
        yield _root(call.args[0]), Effect.PATCHES
    elif call.args and name.endswith("_"):  # ``nn.init.zeros_(x)``
        yield _root(call.args[0]), Effect.CALLS


def _root(node: ast.AST) -> str:
    """Return the name that an expression begins with, if it is one."""
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call):
            node = node.func
        else:
            return ""
    return node.id
