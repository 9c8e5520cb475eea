"""Find the cells of a chapter that its experiments are made of."""

from __future__ import annotations

import ast
import builtins
import hashlib
import re
from collections.abc import Iterator

EXPERIMENT = "experiment"
SHOWS = "shows"


def experiments(source: str) -> list[str]:
    """Return the names of the experiments that a cell defines."""
    return [
        node.name
        for node in _parse(source).body
        if isinstance(node, ast.FunctionDef)
        if any(_called(x) == EXPERIMENT for x in node.decorator_list)
    ]


def shown(source: str) -> list[str]:
    """Return the experiments about which a cell makes claims."""
    return [
        name.value.id
        for node in _parse(source).body
        if isinstance(node, ast.FunctionDef)
        for name in map(_function, node.decorator_list)
        if isinstance(name, ast.Attribute) and name.attr == SHOWS
        if isinstance(name.value, ast.Name)
    ]


def needed(sources: list[str], name: str) -> list[int]:
    """Return the cells that an experiment and its claims need, in order.

    A cell is needed when it binds a name, or changes an object, that a later
    needed cell uses.
    """
    trees = [_parse(source) for source in sources]
    found = {
        i
        for i, source in enumerate(sources)
        if name in experiments(source) or name in shown(source)
    }
    wanted: set[str] = set()
    for i in reversed(range(len(trees))):
        if i in found or wanted & bound(trees[i]):
            found.add(i)
            wanted |= used(trees[i])
    return sorted(found)


def bound(tree: ast.Module) -> set[str]:
    """Return the names that a cell binds or whose object it changes."""
    names: set[str] = set()
    for node in _outside_functions(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names |= {
                    x.asname or x.name.partition(".")[0] for x in aliases
                }
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store()):
                names.add(name)
    return names


def used(tree: ast.Module) -> set[str]:
    """Return the names that a cell reads, its functions included."""
    names = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    return names - set(dir(builtins))


def digest(sources: list[str]) -> str:
    """Hash code without its layout, comments and docstrings."""
    text = "\n".join(ast.unparse(_without_docstrings(x)) for x in sources)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def without_magics(source: str) -> str:
    """Return a cell's Python; each of IPython's lines becomes ``pass``."""
    return re.sub(r"(?m)^( *)[%!].*$", r"\1pass", source)


def _parse(source: str) -> ast.Module:
    return ast.parse(without_magics(source))


def _without_docstrings(source: str) -> ast.Module:
    tree = _parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and isinstance(
            ast.get_docstring(node), str
        ):
            node.body = node.body[1:] or [ast.Pass()]
    return tree


def _outside_functions(tree: ast.Module) -> Iterator[ast.AST]:
    todo: list[ast.AST] = list(tree.body)
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(
            node, ast.FunctionDef | ast.ClassDef | ast.Lambda | ast.ListComp
        ):
            todo += ast.iter_child_nodes(node)


def _function(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node


def _called(node: ast.expr) -> str:
    function = _function(node)
    return function.id if isinstance(function, ast.Name) else ""
