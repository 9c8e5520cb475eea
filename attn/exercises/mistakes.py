"""Read hints and mistakes from an exercise's Markdown file.

A mistake is an edit of the solution. Below its heading, indented lines of
code say what changes, and the paragraph after them explains it:

* lines marked ``-`` and ``+`` replace text of the solution's body, which must
  contain the ``-`` text exactly once; several such pairs may follow one
  another;
* unmarked lines replace the whole body; in a class, methods alone replace the
  methods of the same names;
* unmarked lines that define the exercise's own name replace everything.

Docstrings are not part of the body. A line that is only a link to a file of
the same folder stands for that file: mistakes that two exercises share.
Nothing here needs torch.
"""

from __future__ import annotations

import ast
import linecache
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

_DEFINITION = ast.FunctionDef | ast.ClassDef
_LINK = re.compile(r"^\[.+\]\((\w+\.md)\)$", re.M)


class EditError(ValueError):
    """A mistake does not fit the solution that it edits."""


@dataclass(frozen=True)
class Mistake:
    """A wrong answer, as an edit of the solution.

    Args:
        name: the heading, shown to the learner.
        why: one paragraph that explains it and ends in a question.
        code: the indented lines, without their indentation.
        place: file and heading, for error messages.
        solution: the source of the right answer.
        namespace: returns the names that a chapter has defined by then.
    """

    name: str
    why: str
    code: str
    place: str
    solution: str
    namespace: Callable[[], Mapping[str, Any]]

    @property
    def source(self) -> str:
        """The wrong version's source.

        Raises:
            EditError: the edit does not match exactly once, or gives no
                valid Python.
        """
        source = edited(self.solution, self.code, self.place)
        try:
            ast.parse(source)
        except SyntaxError as error:
            raise EditError(f"{self.place}: {error}:\n{source}") from error
        return source

    @cached_property
    def answer(self) -> Any:
        """The wrong function, class or kernel."""
        source, file = self.source, f"<{self.place}>"
        lines = source.splitlines(keepends=True)
        linecache.cache[file] = (len(source), None, lines, file)
        names = {**self.namespace(), "__name__": "attn.exercises.mistakes"}
        exec(compile(source, file, "exec"), names)
        return names[_definition(self.solution).name]


def read(path: Path) -> tuple[tuple[str, ...], list[tuple[str, str, str]]]:
    """Read the hints, and the (name, code, why) of every mistake.

    Raises:
        EditError: a part is missing, or two mistakes share a name.
    """
    text = _LINK.sub(
        lambda link: path.with_name(link[1]).read_text(encoding="utf-8"),
        path.read_text(encoding="utf-8"),
    )
    found = re.fullmatch(r"# Hints\n(.*)\n# Mistakes\n(.*)", text, re.S)
    if not found:
        raise EditError(
            f"{path.name} must hold '# Hints' and then '# Mistakes'"
        )
    hints = re.findall(r"^\d+\. (.*)$", found[1], re.M)
    mistakes = []
    for part in re.split(r"^## ", found[2], flags=re.M)[1:]:
        name, _, rest = part.partition("\n")
        lines = rest.splitlines()
        code = [line[4:] for line in lines if line.startswith("    ")]
        why = [line for line in lines if not line.startswith("    ")]
        entry = (
            name.strip(),
            "\n".join(code),
            " ".join(" ".join(why).split()),
        )
        if not all(entry):
            raise EditError(
                f"{path.name}: ## {name}: a mistake must have a name, code "
                "and an explanation"
            )
        mistakes.append(entry)
    names = [name for name, _, _ in mistakes]
    if len(set(names)) < len(names):
        raise EditError(f"{path.name}: two mistakes have the same name")
    return tuple(hints), mistakes


def edited(solution: str, code: str, place: str = "edit") -> str:
    """Return the solution's source with an edit applied.

    Raises:
        EditError: the text of a ``-`` line does not occur exactly once.
    """
    if re.match(r"[-+]( |$)", code):
        head, body = _split(solution)
        for old, new in _hunks(code):
            part = body if old in body else head
            if not old or part.count(old) != 1:
                raise EditError(
                    f"{place}: the text to replace must occur exactly once "
                    f"in the solution; it occurs {part.count(old)} times:\n"
                    f"{old}"
                )
            if part is body:
                body = body.replace(old, new)
            else:
                head = head.replace(old, new)
        return _join(head, body)
    tree = ast.parse(code)
    right = _definition(solution)
    names = [x.name for x in tree.body if isinstance(x, _DEFINITION)]
    if right.name in names:
        return code
    head, body = _split(solution)
    if isinstance(right, ast.ClassDef) and len(names) == len(tree.body):
        code = _without_methods(body, names) + "\n" + code
    return _join(head, code)


def _hunks(code: str) -> list[tuple[str, str]]:
    """Pair the removed and the added text of each ``-``/``+`` group."""
    hunks: list[tuple[list[str], list[str]]] = []
    for line in code.splitlines():
        sign, text = line[:1], line[2:]
        if sign not in "-+":
            raise EditError(
                f"a line of an edit must begin with - or +: {line}"
            )
        if not hunks or (sign == "-" and hunks[-1][1]):
            hunks.append(([], []))
        hunks[-1][sign == "+"].append(text)
    return [("\n".join(old), "\n".join(new)) for old, new in hunks]


def _definition(source: str) -> Any:
    """The last function or class of a source."""
    nodes = ast.parse(source).body
    return [node for node in nodes if isinstance(node, _DEFINITION)][-1]


def _split(source: str) -> tuple[str, str]:
    """The signature, and the body without docstrings or indentation."""
    lines = source.splitlines()
    right = _definition(source)
    doc = right.body[0]
    inner = [doc]
    if isinstance(right, ast.ClassDef):
        methods = [x for x in right.body if isinstance(x, ast.FunctionDef)]
        inner += [x.body[0] for x in methods if ast.get_docstring(x)]
    hidden = {n for x in inner for n in range(x.lineno, x.end_lineno + 1)}
    body = [
        line
        for n, line in enumerate(lines, 1)
        if n > doc.lineno and n not in hidden
    ]
    head = "\n".join(lines[: doc.lineno - 1])
    return head, textwrap.dedent("\n".join(body))


def _without_methods(body: str, names: list[str]) -> str:
    lines = body.splitlines()
    for node in ast.parse(body).body:
        if isinstance(node, ast.FunctionDef) and node.name in names:
            for n in range(node.lineno - 1, node.end_lineno or 0):
                lines[n] = ""
    return "\n".join(lines)


def _join(head: str, body: str) -> str:
    return f"{head}\n{textwrap.indent(body, '    ')}\n"
