"""Tell what a chapter gives its notebooks: names, definitions, imports."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from attn.exercises import sources
from attn.exercises.cells import checked_id, exercise_id
from attn.exercises.spec import chapter

#: Modules that an answer may rely on where the chapter's cells import them.
_USUAL = {
    *("collections", "collections.abc", "copy", "functools", "itertools"),
    *("math", "time", "torch", "torch.nn", "torch.nn.functional"),
}
#: What takes a second to import, by a word that needs it.
_SLOW = {
    "compile": "torch._dynamo",
    "einops": "einops",
    "flex_attention": "torch.nn.attention.flex_attention",
    "distributed": "torch.distributed",
    "matplotlib": "matplotlib.pyplot",
    "pandas": "pandas",
    "sklearn": "sklearn",
    "transformers": "transformers.models.llama.modeling_llama",
}
#: What the cases of a chapter import.
_CASES = {
    "cache": ("torch._dynamo",),
    "flex": ("torch._dynamo",),
    "iface": ("torch._dynamo", "transformers.models.llama.modeling_llama"),
}


@dataclass(frozen=True)
class _Statement:
    text: str
    binds: frozenset[str]
    words: frozenset[str]
    is_usual: bool


def words(text: str) -> frozenset[str]:
    """Return the names that may occur in a text."""
    return frozenset(re.findall(r"[^\W\d]\w*", text))


def names(key: str) -> dict[str, Any]:
    """Return the names that a chapter's tasks give, and their values."""
    own = {x.name for x in chapter(key)}
    every = [x.usual() for x in chapter(key)]
    return {k: v for usual in every for k, v in usual.items() if k not in own}


def definitions(key: str, used: frozenset[str]) -> str:
    """Return those of a chapter's own definitions that a notebook may use.

    They are imports, functions, classes and constants of cells that are no
    exercise.

    Args:
        key: of the chapter.
        used: the names that occur in the notebook's own cells.
    """
    every, needed = _statements(key), {*used}
    while new := {
        word
        for x in every
        if not x.binds.isdisjoint(needed)
        for word in x.words - needed
    }:
        needed |= new
    chosen = (x for x in every if x.is_usual or not x.binds.isdisjoint(needed))
    return "\n".join(dict.fromkeys(x.text for x in chosen))


def imports(key: str, used: frozenset[str]) -> tuple[str, ...]:
    """Return the modules that are worth importing once for many notebooks."""
    slow = (module for word, module in _SLOW.items() if word in used)
    return (*_CASES.get(key, ()), *slow)


@cache
def _statements(key: str) -> list[_Statement]:
    exercises = {*sources.names(key)}
    found = []
    for cell in sources.notebook(key)["cells"]:
        is_ours = not (exercise_id(cell) or checked_id(cell))
        if cell["cell_type"] != "code" or not is_ours:
            continue
        try:
            tree = ast.parse("".join(cell["source"]))
        except SyntaxError:  # a magic
            continue
        for node in tree.body:
            binds = _bound(node) - exercises
            if binds:
                text = ast.unparse(node)
                inner = words(text) - binds
                found.append(_Statement(text, binds, inner, _is_usual(node)))
    return found


def _bound(node: ast.stmt) -> frozenset[str]:
    """Return the names that an import, a definition or a constant binds."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        every = (x.asname or x.name.partition(".")[0] for x in node.names)
        return frozenset(every)
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return frozenset({node.name})
    if isinstance(node, ast.Assign) and _is_constant(node.value):
        targets = (x for x in node.targets if isinstance(x, ast.Name))
        return frozenset(x.id for x in targets)
    return frozenset()


def _is_constant(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError):
        return False
    return True


def _is_usual(node: ast.stmt) -> bool:
    if not isinstance(node, ast.Import | ast.ImportFrom):
        return False
    return (getattr(node, "module", None) or node.names[0].name) in _USUAL
