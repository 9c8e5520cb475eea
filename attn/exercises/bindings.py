"""Read a cell's statements as IPython sees them: the names that it binds.

What is no Python, as a cell that ends in a SyntaxError, is read by its lines.
"""

from __future__ import annotations

import ast
import re
import symtable
import textwrap
import warnings
from collections.abc import Iterable, Iterator
from functools import lru_cache

#: What measures a cell, or captures what it prints. Other magics of a cell
#: run no Python of the notebook's.
TIMERS = re.compile(r"\A(?:[ \t]*\n|[ \t]*%%(?:time|capture)\b.*\n?)+")
#: A line of IPython's own, whole or behind a sign of equality.
_MAGIC = re.compile(r"(?m)^([ \t]*)(?:[%!?].*|\w[\w.]*\?+[ \t]*)$")
_GIVEN = re.compile(r"(?m)=[ \t]*[%!].*$")
_LINE = re.compile(
    r"^(?:(?:async\s+)?(?:def|class)\s+(\w+)|(\w+)\s*(?::[^=\n]+)?=(?!=))",
    re.MULTILINE,
)
_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_SCOPES = _DEFINITIONS | _COMPREHENSIONS | ast.Lambda


def binds(name: str, source: str) -> bool:
    """Return whether a cell's source may give a name its value."""
    return name in bound(source)


@lru_cache(4096)
def deleted(source: str) -> frozenset[str]:
    """Return the names that a cell's source may delete."""
    nodes = _nodes(statements(source) or ())
    names = (x for x in nodes if isinstance(x, ast.Name))
    return frozenset(x.id for x in names if isinstance(x.ctx, ast.Del))


@lru_cache(4096)
def bound(source: str, imports: bool = True) -> frozenset[str]:
    """Return the names to which a cell's source may give values.

    Args:
        source: of the cell.
        imports: whether those of imports count.
    """
    tree = statements(source)
    if tree is None:
        found = _LINE.findall(TIMERS.sub("", source))
        return frozenset(x or y for x, y in found)
    return frozenset(names_bound(tree, imports))


@lru_cache(4096)
def used(name: str, source: str) -> frozenset[str]:
    """Return the names that the value of a name needs, as its cell gives it.

    They are of other statements; a function's own variables are none.
    """
    own = _own(name, source)
    try:
        text = ast.unparse(ast.Module(own, []))
        table = symtable.symtable(text, "<cell>", "exec")
    except (SyntaxError, RecursionError):  # in compiling: it never ran
        return frozenset()
    local = {x.name for x in own if isinstance(x, _DEFINITIONS)}
    local |= {
        x.get_name()
        for x in table.get_symbols()
        if x.is_assigned() and x.get_name() != name
    }
    return frozenset(_read(table)) - local


@lru_cache(4096)
def used_at_once(name: str, source: str) -> frozenset[str]:
    """Return the names whose values a cell read as it ran, for that of a name.

    Those are a function's defaults and decorators, and the bases of a class,
    but not what is in a function's body: it is read when that is called.
    """
    todo: list[ast.AST] = [*_own(name, source)]
    for node in todo:
        if isinstance(node, _FUNCTIONS):
            given = node.args
            todo += [*given.defaults, *filter(None, given.kw_defaults)]
            todo += getattr(node, "decorator_list", ())
        else:
            todo += ast.iter_child_nodes(node)
    names = [x for x in todo if isinstance(x, ast.Name)]
    stored = {x.id for x in names if isinstance(x.ctx, ast.Store)}
    return frozenset(x.id for x in names) - stored


def is_unfinished(name: str, source: str) -> bool:
    """Return whether a stub's last line is still in a definition."""
    return any(
        isinstance(x, ast.Raise)
        and isinstance(x.exc, ast.Name)
        and x.exc.id == "NotImplementedError"
        for y in _own(name, source)
        for x in ast.walk(y)
    )


def statements(source: str) -> list[ast.stmt] | None:
    """Return the statements of a cell; None where it is no Python."""
    if TIMERS.sub("", source).startswith("%%"):
        return []
    return _python(source)[1]


def python(source: str) -> str:
    """Return a cell without IPython's own lines, which keep their places.

    What is no Python even so is returned as it is.
    """
    return _python(source)[0]


def _python(source: str) -> tuple[str, list[ast.stmt] | None]:
    """Return the Python of a cell, and its statements; None if it has none."""
    text = TIMERS.sub(lambda lines: "\n" * lines[0].count("\n"), source)
    plain = _GIVEN.sub("= None", _MAGIC.sub(r"\1pass", text))
    for python in (text, textwrap.dedent(plain)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # "\d"
                return python, ast.parse(python).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return source, None


def names_bound(
    tree: Iterable[ast.stmt], imports: bool = True
) -> Iterator[str]:
    """Yield the names to which statements may give values."""
    for node in _nodes(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.Import() | ast.ImportFrom() if imports:
                for x in node.names:
                    yield x.asname or x.name.partition(".")[0]
            case ast.Name(ctx=ast.Store()):
                yield node.id
            case ast.Subscript(ctx=ast.Store()):  # a part of its value
                yield from _root(node)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name


def _root(node: ast.expr) -> list[str]:
    while isinstance(node, ast.Subscript):
        node = node.value
    return [node.id] if isinstance(node, ast.Name) else []


def _own(name: str, source: str) -> list[ast.stmt]:
    return [x for x in statements(source) or () if name in names_bound([x])]


def _read(table: symtable.SymbolTable) -> Iterator[str]:
    """Yield the names of a session that statements and their scopes use."""
    is_module = table.get_type() == "module"
    for x in table.get_symbols():
        if x.is_referenced() if is_module else x.is_global():
            yield x.get_name()
    for inner in table.get_children():
        yield from _read(inner)


def _nodes(tree: Iterable[ast.stmt]) -> Iterator[ast.AST]:
    """Yield all nodes but those in functions, classes and comprehensions."""
    todo: list[ast.AST] = [*tree]
    for node in todo:
        yield node
        is_bare = isinstance(node, ast.AnnAssign) and node.value is None
        if not is_bare and not isinstance(node, _SCOPES):
            todo += ast.iter_child_nodes(node)
