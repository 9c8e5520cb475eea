"""Give a notebook what its chapter defines, and its tasks hand out."""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from functools import cache
from typing import Any

from attn.exercises import sources
from attn.exercises.bindings import names_bound, statements
from attn.exercises.cells import checked_id, exercise_id
from attn.exercises.spec import chapter


def given_names(key: str) -> dict[str, Any]:
    """Return the names that a chapter's tasks give, and their values."""
    own = {x.name for x in chapter(key)}
    every = [x.usual() for x in chapter(key)]
    return {k: v for usual in every for k, v in usual.items() if k not in own}


def given_text(key: str, used: set[str]) -> str:
    """Return what a chapter defines that a notebook with these names uses."""
    needed, before = used | {"Callable", "Iterable"}, 0  # of its answers
    while len(needed) > before:
        before = len(needed)
        chosen = [x for x in _statements(key) if x[0] & needed]
        needed = needed.union(*(words for _, words, _ in chosen))
    return "\n".join(dict.fromkeys(text for _, _, text in chosen))


@cache
def _statements(key: str) -> list[tuple[set[str], set[str], str]]:
    """Return what a chapter's own cells define: names, words, and text."""
    exercises, found = {*sources.names(key)}, []
    for cell in sources.notebook(key)["cells"]:
        is_exercise = exercise_id(cell) or checked_id(cell)
        if cell["cell_type"] != "code" or is_exercise:
            continue
        for node in statements("".join(cell["source"])) or ():
            if binds := _bound(node) - exercises:
                text = ast.unparse(node)
                found.append((binds, words(text), text))
    return found


def words(text: str) -> set[str]:
    """Return the names that may occur in a text."""
    return {*re.findall(r"[^\W\d]\w*", text)}


def _bound(node: ast.stmt) -> set[str]:
    """Return the names that an import, a definition or a constant binds."""
    if isinstance(node, ast.Assign):
        with suppress(ValueError, TypeError):
            ast.literal_eval(node.value)
            return {x.id for x in node.targets if isinstance(x, ast.Name)}
    is_named = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef
    return {*names_bound([node])} if isinstance(node, is_named) else set()
