"""Locate and read an exercise's text: the task, its solution and its hints.

Everything is read from source by static analysis and nothing is run, so that
the book can be built on a machine without torch.
"""

from __future__ import annotations

import ast
import json
from functools import cache
from pathlib import Path
from typing import Any

from attn.data.book import root
from attn.exercises import CHAPTERS, markdown

_PACKAGE = Path(__file__).resolve().parents[1]


def split_id(exercise_id: str) -> tuple[str, str]:
    """Split ``"sdp-softmax"`` into its chapter key and the name to define."""
    key, _, name = exercise_id.partition("-")
    if key not in CHAPTERS or not name:
        known = ", ".join(f"{key}-…" for key in CHAPTERS)
        raise ValueError(
            f"exercise_id must be one of {known}; got {exercise_id!r}"
        )
    return key, name


def notebook_path(key: str) -> Path:
    """Return the pristine notebook of a chapter."""
    return root() / "notebooks" / f"{CHAPTERS[key]}.ipynb"


def notebook(key: str) -> Any:
    """Read a chapter's pristine notebook as JSON: nbformat takes longer."""
    return json.loads(notebook_path(key).read_text(encoding="utf-8"))


def solutions_path(key: str) -> Path:
    """Return the module that holds a chapter's solutions."""
    return root() / "solutions" / f"ch{CHAPTERS[key]}.py"


def folder(key: str) -> Path:
    """Return the folder that holds a chapter's exercises."""
    return _PACKAGE / "exercises" / key


def text(exercise_id: str) -> markdown.Text:
    """Return effort, hints, mistakes and right answers in other styles."""
    key, name = split_id(exercise_id)
    return markdown.read(folder(key) / f"{name}.md")


def names(key: str) -> list[str]:
    """Return the exercises of a chapter, in the order of its solutions."""
    _, tree = _parse(solutions_path(key))
    return [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    ]


def solution(exercise_id: str) -> str:
    """Return the solution's source, comments included."""
    lines, node = _find(exercise_id)
    return "\n".join(lines[_first(node) - 1 : node.end_lineno])


def stub(exercise_id: str, docstrings: bool = True) -> str:
    """Return the task: the solution without the bodies of its functions.

    Args:
        exercise_id: the exercise.
        docstrings: whether the stub has them, as in the notebook.
    """
    lines, node = _find(exercise_id)
    if isinstance(node, ast.FunctionDef):
        return "\n".join(_without_body(lines, node, docstrings))
    parts = [_header(lines, node, docstrings)]
    parts += [_without_body(lines, x, docstrings) for x in _methods(node)]
    return "\n\n".join(map("\n".join, parts))


def marked(exercise_id: str, begin: str, end: str) -> str:
    """Return the solution with a comment above and below what a stub lacks.

    Args:
        exercise_id: the exercise.
        begin: comment above each body, below its docstring.
        end: comment below each body.
    """
    lines, node = _find(exercise_id)
    lines = lines[: node.end_lineno]
    single = isinstance(node, ast.FunctionDef)
    for function in [node] if single else reversed(_methods(node)):
        given = 2 if function.name == "__init__" else 1
        indent = " " * (function.col_offset + 4)
        lines.insert(function.end_lineno or 0, indent + end)
        lines.insert(function.body[given - 1].end_lineno or 0, indent + begin)
    return "\n".join(lines[_first(node) - 1 :])


def docstrings(exercise_id: str) -> dict[str, str]:
    """Return the docstrings of a solution, by the names that have them."""
    _, node = _find(exercise_id)
    documented = [node, *_methods(node)]
    return {x.name: ast.get_docstring(x) or "" for x in documented}


def effort(exercise_id: str) -> str:
    """Return the minutes that an exercise takes and its difficulty."""
    return text(exercise_id).effort


def hints(exercise_id: str) -> tuple[str, ...]:
    """Return the hints."""
    return text(exercise_id).hints


def _find(
    exercise_id: str,
) -> tuple[list[str], ast.FunctionDef | ast.ClassDef]:
    key, name = split_id(exercise_id)
    lines, tree = _parse(solutions_path(key))
    for node in tree.body:
        if (
            isinstance(node, ast.FunctionDef | ast.ClassDef)
            and node.name == name
        ):
            return lines, node
    raise LookupError(f"{solutions_path(key).name} does not define {name}")


@cache
def _parse_version(path: Path, _mtime: int) -> tuple[list[str], ast.Module]:
    text = path.read_text(encoding="utf-8")
    return text.splitlines(), ast.parse(text)


def _parse(path: Path) -> tuple[list[str], ast.Module]:
    return _parse_version(path, path.stat().st_mtime_ns)


def _first(node: ast.FunctionDef | ast.ClassDef) -> int:
    return min([node.lineno, *(d.lineno for d in node.decorator_list)])


def _methods(node: ast.FunctionDef | ast.ClassDef) -> list[ast.FunctionDef]:
    body = node.body if isinstance(node, ast.ClassDef) else []
    return [x for x in body if isinstance(x, ast.FunctionDef)]


def _header(
    lines: list[str], node: ast.FunctionDef | ast.ClassDef, docstring: bool
) -> list[str]:
    """Return the lines of a definition up to its docstring, or to its end."""
    statement = node.body[0]
    if ast.get_docstring(node, clean=False) is None:
        raise ValueError(
            f"{node.name} must have a docstring: it is the task; an "
            "exercise's solution needs one, and each of its methods"
        )
    end = statement.end_lineno if docstring else statement.lineno - 1
    return lines[_first(node) - 1 : end]


def _without_body(
    lines: list[str], node: ast.FunctionDef, docstring: bool
) -> list[str]:
    indent = " " * (node.col_offset + 4)
    start = [f"{indent}super().__init__()"] if node.name == "__init__" else []
    body = [f"{indent}# YOUR CODE HERE", f"{indent}raise NotImplementedError"]
    return _header(lines, node, docstring) + start + body
