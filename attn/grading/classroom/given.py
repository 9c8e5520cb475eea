"""Tell which names an answer finds without defining them."""

from __future__ import annotations

import ast
from functools import cache

from attn.exercises import sources
from attn.exercises.cells import exercise_id
from attn.exercises.spec import find
from attn.grading.classroom.statements import statements
from attn.publishing.notebooks import read

#: Modules that an answer may rely on where the chapter's cells import them.
_USUAL = {
    *("collections", "collections.abc", "copy", "functools", "itertools"),
    *("math", "time", "torch", "torch.nn", "torch.nn.functional"),
}


@cache
def names(exercise: str) -> frozenset[str]:
    """Return what the sandbox defines before an exercise's answer runs.

    That is what the task gives, the chapter's imports, and the exercises
    before it: each in the book's version where the learner's is wrong.
    """
    key, name = sources.split_id(exercise)
    every = sources.names(key)
    lines = statements(imports(key)) or ()
    imported = (x for line in lines for x in line.effects)
    earlier = every[: every.index(name)]
    return frozenset((*find(exercise).usual(), *earlier, *imported))


@cache
def imports(key: str) -> str:
    """Return the imports of a chapter's cells that need nothing of attn."""
    lines: dict[str, None] = {}
    for cell in read(sources.notebook_path(key)).cells:
        if cell.cell_type != "code" or exercise_id(cell):
            continue
        try:
            tree = ast.parse(cell.source)
        except SyntaxError:  # a magic
            continue
        for node in tree.body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                name = getattr(node, "module", None) or node.names[0].name
                if name in _USUAL:
                    lines[ast.unparse(node)] = None
    return "\n".join(lines)
