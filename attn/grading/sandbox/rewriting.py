"""Rewrite an answer where a rule of ``policy.py`` is known at run time only.

A private name is read by what looks whose it is; where a missing module is
expected, it is missing; and a cell is ``__main__``, as in a notebook.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

OWN = "__own__"
"""The builtin that holds an object's private names; no answer can name it."""
NEED = "__need__"
"""The builtin that raises ``ImportError`` for a module that is not there."""
_IMPORT_ERRORS = {
    *("ImportError", "ModuleNotFoundError", "Exception", "BaseException"),
}


def rewritten(tree: ast.Module, hidden: Callable[[str], str]) -> ast.Module:
    """Return a tree that calls the builtins of ``guarded.py``.

    Args:
        tree: of an answer; it is changed.
        hidden: returns a complaint about the name of an attribute.
    """
    return ast.fix_missing_locations(_Rewriting(hidden).visit(tree))


class _Rewriting(ast.NodeTransformer):
    def __init__(self, hidden: Callable[[str], str]) -> None:
        self._hidden = hidden
        self._classes: list[str] = []

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self._classes.append(node.name.lstrip("_"))
        self.generic_visit(node)
        self._classes.pop()
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if not self._hidden(node.attr):
            return node
        own = ast.Call(ast.Name(OWN, ast.Load()), [node.value], [])
        name = ast.Constant(self._mangled(node.attr))
        return ast.copy_location(ast.Subscript(own, name, node.ctx), node)

    def _mangled(self, name: str) -> str:
        """Return the name as Python's compiler writes it in a class."""
        inside = self._classes[-1] if self._classes else ""
        return f"_{inside}{name}" if inside and name[:2] == "__" else name

    def visit_Try(self, node: ast.Try) -> ast.AST:
        self.generic_visit(node)
        if any(map(_expects_no_module, node.handlers)):
            node.body = [y for x in node.body for y in (*_needs(x), x)]
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        if ast.unparse(node) == "__name__ == '__main__'":
            return ast.copy_location(ast.Constant(True), node)
        return self.generic_visit(node)


def _expects_no_module(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    names = (getattr(x, "id", "") for x in ast.walk(handler.type))
    return not _IMPORT_ERRORS.isdisjoint(names)


def _needs(node: ast.stmt) -> list[ast.stmt]:
    if isinstance(node, ast.ImportFrom):
        names = [node.module or ""]
    elif isinstance(node, ast.Import):
        names = [x.name for x in node.names]
    else:
        return []
    need = ast.Name(NEED, ast.Load())
    calls = [ast.Call(need, [ast.Constant(x)], []) for x in names]
    return [ast.copy_location(ast.Expr(x), node) for x in calls]
