"""Apply an edit to an exercise's solution: a mistake, or another style.

An edit is lines of code that say what changes:

* lines marked ``-`` and ``+`` replace text of the solution's body, which must
  contain the ``-`` text exactly once; several such pairs may follow one
  another. Part of a line may be replaced by part of a line; text of an
  indented block that becomes several lines begins at the start of its line;
* unmarked lines replace the whole body; in a class, methods alone replace the
  methods of the same names;
* unmarked lines that define the exercise's own name replace everything.

Docstrings are not part of the body. Nothing here needs torch.
"""

from __future__ import annotations

import ast
import linecache
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar

_DEFINITION = ast.FunctionDef | ast.ClassDef


class EditError(ValueError):
    """An edit does not fit the solution, or its file is malformed."""


@dataclass(frozen=True, eq=False)  # each is what it is, and a quick key
class Variant:
    """A solution with an edit applied: a right answer in another style.

    Args:
        name: the heading.
        code: the edit.
        place: file and label, for error messages.
        solution: the source of the solution.
        namespace: returns the names that a chapter has defined by then.
        why: of a mistake, a paragraph that explains it and ends in a question.
    """

    name: str
    code: str
    place: str
    solution: str
    namespace: Callable[[], Mapping[str, Any]]
    why: str = ""
    module: ClassVar[str] = __name__  # of what the edited source defines

    @property
    def label(self) -> str:
        """The name; with the edit's number, where several share the name."""
        return self.place.rpartition(".md: ")[2]

    @property
    def source(self) -> str:
        """The edited source."""
        return edited(self.solution, self.code, self.place)

    @cached_property
    def answer(self) -> Any:
        """The function, class or kernel that the edited source defines."""
        source, file = self.source, f"<{self.place}>"
        lines = source.splitlines(keepends=True)
        linecache.cache[file] = (len(source), None, lines, file)
        names = {**self.namespace(), "__name__": self.module}
        exec(compile(source, file, "exec"), names)
        return names[_name(self.solution)]


def is_marked(code: str) -> bool:
    """Return whether an edit consists of ``-`` and ``+`` lines."""
    return bool(re.match(r"[-+]( |$)", code))


def edited(solution: str, code: str, place: str = "edit") -> str:
    """Return the solution's source with an edit applied.

    Args:
        solution: the source of the right answer.
        code: the edit.
        place: file and heading, for error messages.

    Raises:
        EditError: the edit does not match exactly once, would lose
            indentation, or gives no valid Python.
    """
    replaced = _with_marked if is_marked(code) else _with_plain
    try:
        source = replaced(solution, code)
        compile(source, place, "exec")  # finds more than a parser
    except SyntaxError as error:
        raise EditError(f"{place}: {error}:\n{code}") from error
    except EditError as error:
        raise EditError(f"{place}: {error}") from None
    return source


def without_docstrings(solution: str) -> str:
    """Return the source that edits apply to."""
    return _join(*_split(solution))


def _with_marked(solution: str, code: str) -> str:
    """Replace each ``-`` text of an edit by its ``+`` text."""
    parts = dict(zip(("head", "body"), _split(solution), strict=True))
    for old, new in _hunks(code):
        at = "body" if old in parts["body"] else "head"
        times = parts[at].count(old) if old else 0
        if times != 1:
            raise EditError(
                "the text to replace must occur exactly once in the "
                f"solution; it occurs {times} times:\n{old}"
            )
        before, _, after = parts[at].partition(old)
        if before.rpartition("\n")[2][:1].isspace() and "\n" in new:
            raise EditError(
                "text that several lines replace must begin with the "
                f"indentation of its line, on - and + lines alike; got\n{old}"
            )
        parts[at] = before + new + after
    return _join(**parts)


def _with_plain(solution: str, code: str) -> str:
    """Replace the body, the methods of the same names, or everything."""
    right, nodes = _definition(solution), ast.parse(code).body
    names = [x.name for x in nodes if isinstance(x, _DEFINITION)]
    if right.name in names:
        return code
    head, body = _split(solution)
    if isinstance(right, ast.ClassDef) and len(names) == len(nodes):
        methods = ast.parse(body).body
        old = [x for x in methods if getattr(x, "name", "") in names]
        code = "\n".join([*_without(body, old), code])
    return _join(head, code)


def _hunks(code: str) -> list[tuple[str, str]]:
    """Pair the removed and the added text of each ``-``/``+`` group."""
    hunks: list[tuple[list[str], list[str]]] = []
    for line in code.splitlines():
        sign, text = line[:1], line[2:]
        if sign not in ("-", "+"):
            raise EditError(
                f"a line of an edit must begin with - or +; got\n{line}"
            )
        if not hunks or (sign == "-" and hunks[-1][1]):
            hunks.append(([], []))
        hunks[-1][sign == "+"].append(text)
    return [("\n".join(old), "\n".join(new)) for old, new in hunks]


@cache  # each solution has dozens of edits
def _name(solution: str) -> str:
    return _definition(solution).name


def _definition(source: str) -> Any:
    """Return the last function or class of a source."""
    nodes = ast.parse(source).body
    return [node for node in nodes if isinstance(node, _DEFINITION)][-1]


@cache  # each solution has dozens of edits
def _split(source: str) -> tuple[str, str]:
    """Return the signature, and the body without docstrings, dedented."""
    right = _definition(source)
    inner = [x for x in right.body if isinstance(x, ast.FunctionDef)]
    docs = [x.body[0] for x in (right, *inner) if ast.get_docstring(x)]
    start = docs[0].lineno - 1
    body = _without(source, docs)[start:]
    head = source.splitlines()[:start]
    return "\n".join(head), textwrap.dedent("\n".join(body))


def _without(source: str, nodes: list[ast.stmt]) -> list[str]:
    """Return the lines of a source that are not those of some statements."""
    gone = {n for x in nodes for n in range(x.lineno, x.end_lineno + 1)}
    lines = enumerate(source.splitlines(), 1)
    return [line for n, line in lines if n not in gone]


def _join(head: str, body: str) -> str:
    return f"{head}\n{textwrap.indent(body, '    ')}\n"
