"""Tell which names an answer finds without defining them."""

from __future__ import annotations

import ast
from functools import cache

from attn.exercises import sources
from attn.exercises.cells import exercise_id
from attn.grading.classroom.statements import statements

#: Modules that an answer may rely on where the chapter's cells import them.
_USUAL = {
    *("collections", "collections.abc", "copy", "functools", "itertools"),
    *("math", "time", "torch", "torch.nn", "torch.nn.functional"),
}


class Names:
    """The names that the sandbox defines before an exercise's answer runs.

    They are what the task gives, the chapter's imports, and the exercises
    before it: each in the book's version where the learner's is wrong.

    Args:
        exercise: its id.
    """

    def __init__(self, exercise: str) -> None:
        self._exercise = exercise

    def __contains__(self, name: object) -> bool:
        # PyTorch is imported only for a name that is none of the first.
        return name in _read(self._exercise) or name in _run(self._exercise)


@cache
def _read(exercise: str) -> frozenset[str]:
    key, name = sources.split_id(exercise)
    every = sources.names(key)
    lines = statements(imports(key)) or ()
    imported = (x for line in lines for x in line.effects)
    return frozenset((*every[: every.index(name)], *imported))


@cache
def _run(exercise: str) -> frozenset[str]:
    from attn.exercises.spec import find

    return frozenset(find(exercise).usual())


@cache
def imports(key: str) -> str:
    """Return the imports of a chapter's cells that need nothing of attn."""
    lines: dict[str, None] = {}
    for cell in sources.notebook(key)["cells"]:
        if cell["cell_type"] != "code" or exercise_id(cell):
            continue
        try:
            tree = ast.parse("".join(cell["source"]))
        except SyntaxError:  # a magic
            continue
        for node in tree.body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                name = getattr(node, "module", None) or node.names[0].name
                if name in _USUAL:
                    lines[ast.unparse(node)] = None
    return "\n".join(lines)
