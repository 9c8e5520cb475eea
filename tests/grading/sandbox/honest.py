"""Write the right answers in other styles as cells of their own.

A style is a function or class of an exercise's module. Its cell holds it and
the helpers of that module that it uses; what these take from the package,
which no answer can import, is handed over with the names of the task.
"""

import ast
import inspect
import sys
from pathlib import Path

from attn.exercises import sources
from attn.exercises.spec import Exercise
from attn.grading.sandbox.guarded import guarded_builtins

_DEFINITIONS = ast.FunctionDef | ast.ClassDef


def cell(exercise: Exercise, answer) -> tuple[str, dict]:
    """Return the text of a right answer, and the names that it needs."""
    plain = getattr(answer, "fn", answer)  # of a kernel
    module = sys.modules[plain.__module__]
    tree = ast.parse(Path(inspect.getfile(module)).read_text("utf-8"))
    if (node := _node(tree, plain)) is None:  # made by another function
        return f"{exercise.name} = right", {"right": answer}
    if exercise.name not in _parameters(node):
        _Renamed(exercise.name).visit(node)
    wanted, texts, given, first = _names(node), {}, {}, []
    while wanted:
        name = wanted.pop()
        if name in texts or name in given or name == "exercise":
            continue
        if name == _Renamed.other and hasattr(module, exercise.name):
            given[name] = getattr(module, exercise.name)
        if not hasattr(module, name):
            continue
        if name in guarded_builtins({}, "") or name == node.name:
            continue
        helper = _defined(tree, name)
        if helper is None and name == exercise.name:
            first = [sources.solution(exercise.id)]
            continue
        if helper is None:
            given[name] = getattr(module, name)
        else:
            texts[name] = helper
            wanted |= _names(helper)
    order = [x for x in tree.body if x in texts.values()]
    lines = first + [ast.unparse(x) for x in [*order, node]]
    if exercise.name != plain.__name__:
        lines.append(f"{exercise.name} = {plain.__name__}")
    return "\n\n\n".join(lines), given


class _Renamed(ast.NodeTransformer):
    """Call the reference, which has the answer's own name, by another."""

    other = "the_reference"

    def __init__(self, name):
        self.name = name

    def visit_Name(self, node):
        is_it = node.id == self.name and isinstance(node.ctx, ast.Load)
        return ast.Name(self.other, node.ctx) if is_it else node


def _node(tree, plain):
    """Return the definition of an answer, without the style's decorator."""
    found = [
        x
        for x in tree.body
        if isinstance(x, _DEFINITIONS) and x.name == plain.__name__
    ]
    if not inspect.isclass(plain):
        line = plain.__code__.co_firstlineno
        found = [x for x in found if _first(x) == line] or found
    if not found:
        return None
    return _undecorated(found[-1])


def _undecorated(node):
    node.decorator_list = [
        x for x in node.decorator_list if "exercise" not in ast.unparse(x)
    ]
    return node


def _first(node):
    return min([node.lineno, *(x.lineno for x in node.decorator_list)])


def _defined(tree, name):
    """Return what defines a name in the module; None if it is imported."""
    for node in tree.body:
        if isinstance(node, _DEFINITIONS) and node.name == name:
            return _undecorated(node)
        if isinstance(node, ast.Assign | ast.AnnAssign):
            stored = [
                x.id
                for x in ast.walk(node)
                if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store)
            ]
            if name in stored:
                return node
    return None


def _names(node):
    return {x.id for x in ast.walk(node) if isinstance(x, ast.Name)}


def _parameters(node):
    return {x.arg for x in ast.walk(node) if isinstance(x, ast.arg)}
