"""Find the cells of a chapter that its experiments are made of."""

from __future__ import annotations

import ast
import builtins
import hashlib
import re
import symtable
from collections.abc import Iterator


def experiments(source: str) -> list[str]:
    """Return the names of the experiments that a cell defines."""
    return [name for name, mark in _marks(source) if mark == "experiment"]


def shown(source: str) -> list[str]:
    """Return the experiments about which a cell makes claims."""
    marks = [mark.rpartition(".") for _, mark in _marks(source)]
    return [name for name, _, method in marks if method == "shows"]


def needed(sources: list[str], name: str) -> list[int]:
    """Return the cells that an experiment and its claims need, in order.

    A cell is needed when it binds a name, or changes an object, that a later
    needed cell uses.
    """
    found = {
        i
        for i, source in enumerate(sources)
        if name in experiments(source) or name in shown(source)
    }
    wanted: set[str] = set()
    for i, source in reversed(list(enumerate(sources))):
        if i in found or wanted & bound(source):
            found.add(i)
            wanted |= used(source)
    return sorted(found)


def bound(source: str) -> set[str]:
    """Return the names that a cell binds or whose object it changes."""
    symbols = _table(source).get_symbols()
    names = {x.get_name() for x in symbols if x.is_assigned()}
    names |= {x.get_name() for x in symbols if x.is_imported()}
    return names | {
        node.value.id
        for node in ast.walk(_parse(source))
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
        if isinstance(node.value, ast.Name)
    }


def used(source: str) -> set[str]:
    """Return the names that a cell, or a function in it, reads from others."""
    names, todo = set(), [_table(source)]
    while todo:
        table = todo.pop()
        todo += table.get_children()
        names |= {
            x.get_name()
            for x in table.get_symbols()
            if x.is_referenced()
            and (x.is_global() or table.get_type() == "module")
        }
    return names - set(dir(builtins))


def digest(sources: list[str]) -> str:
    """Hash what an experiment depends on.

    Layout, comments and docstrings are no part of it, nor are imports from
    ``attn.grading``: no experiment is graded.
    """
    text = "\n".join(ast.unparse(_essence(x)) for x in sources)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def without_magics(source: str) -> str:
    """Return a cell's Python; each of IPython's lines becomes ``pass``."""
    return re.sub(r"(?m)^( *)[%!].*$", r"\1pass", source)


def _parse(source: str) -> ast.Module:
    return ast.parse(without_magics(source))


def _table(source: str) -> symtable.SymbolTable:
    return symtable.symtable(without_magics(source), "<cell>", "exec")


def _essence(source: str) -> ast.Module:
    """Parse a cell, without docstrings and imports of the grader."""
    tree = _parse(source)
    tree.body = [x for x in tree.body if not _imports_grading(x)]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and isinstance(
            ast.get_docstring(node), str
        ):
            node.body = node.body[1:] or [ast.Pass()]
    return tree


def _imports_grading(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "attn.grading"


def _marks(source: str) -> Iterator[tuple[str, str]]:
    """Yield the name of each function of a cell, and each decorator's."""
    for node in ast.walk(_parse(source)):
        if isinstance(node, ast.FunctionDef):
            for mark in node.decorator_list:
                name = mark.func if isinstance(mark, ast.Call) else mark
                yield node.name, ast.unparse(name)
