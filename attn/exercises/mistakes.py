"""Read effort, hints and mistakes from an exercise's Markdown file.

A mistake is an edit of the solution. Below its heading, indented lines of
code say what changes, and the paragraph after them explains it:

* lines marked ``-`` and ``+`` replace text of the solution's body, which must
  contain the ``-`` text exactly once; several such pairs may follow one
  another. Part of a line may be replaced by part of a line; text of an
  indented block that becomes several lines begins at the start of its line;
* unmarked lines replace the whole body; in a class, methods alone replace the
  methods of the same names;
* unmarked lines that define the exercise's own name replace everything.

Docstrings are not part of the body. A line that is only a link to a file of
the same folder is replaced by that file: mistakes that two exercises share.
Nothing here needs torch.
"""

from __future__ import annotations

import ast
import linecache
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
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
        """The wrong version's source."""
        return edited(self.solution, self.code, self.place)

    def merged(self, other: Mistake) -> Mistake | None:
        """Return both edits at once; None if they do not fit together."""
        if not all(re.match(r"[-+]( |$)", x.code) for x in (self, other)):
            return None
        both = replace(
            self,
            name=f"{self.name}, and: {other.name}",
            code=f"{self.code}\n{other.code}",
            place=f"{self.place}, {other.name}",
        )
        try:
            _ = both.source
        except EditError:
            return None
        return both

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
        EditError: a part is missing or unknown, or two mistakes share a name.
    """
    place = f"{path.parent.name}/{path.name}"
    found = re.fullmatch(
        r"(?:# Effort\n.*\n)?# Hints\n(.*)\n# Mistakes\n(.*)",
        _text(path, place),
        re.S,
    )
    if not found:
        raise EditError(
            f"{place} must hold '# Effort', '# Hints' and then '# Mistakes'"
        )
    hints = [line for line in found[1].splitlines() if line.strip()]
    start, *parts = re.split(r"^## ", found[2], flags=re.M)
    odd = [x for x in hints if not re.match(r"\d+\. ", x)] + start.split("\n")
    if any(line.strip() for line in odd):
        text = "\n".join(odd).strip()
        raise EditError(
            f"{place}: a hint must be one line that begins with its number, "
            f"a mistake must begin with ## and its name; got\n{text}"
        )
    mistakes: dict[str, tuple[str, str, str]] = {}
    for part in parts:
        name, _, rest = part.partition("\n")
        name, lines = name.strip(), rest.splitlines()
        code = [line[4:] for line in lines if line.startswith("    ")]
        why = [line for line in lines if not line.startswith("    ")]
        entry = (name, "\n".join(code), " ".join(" ".join(why).split()))
        if not all(entry):
            raise EditError(
                f"{place}: ## {name}: a mistake must have a name, code and an "
                "explanation"
            )
        if name in mistakes:
            raise EditError(
                f"{place}: ## {name}: two mistakes share this name"
            )
        mistakes[name] = entry
    return tuple(x.partition(". ")[2] for x in hints), [*mistakes.values()]


def effort(path: Path) -> tuple[int, str]:
    """Read how many minutes an exercise takes, and how difficult it is.

    Raises:
        EditError: the file does not begin with both.
    """
    place = f"{path.parent.name}/{path.name}"
    found = re.match(
        r"# Effort\n(\d+) minutes, (easy|medium|hard)\n\n", _text(path, place)
    )
    if not found:
        raise EditError(
            f"{place} must begin with '# Effort' and, below it, a line such "
            "as '10 minutes, medium' (or easy, or hard)"
        )
    return int(found[1]), found[2]


def _text(path: Path, place: str) -> str:
    """Return a file's text, with each link replaced by the linked file."""

    def linked(link: re.Match[str]) -> str:
        return path.with_name(link[1]).read_text(encoding="utf-8")

    try:
        return _LINK.sub(linked, path.read_text(encoding="utf-8"))
    except (OSError, UnicodeError) as error:
        raise EditError(f"{place} cannot be read: {error}") from error


def edited(solution: str, code: str, place: str = "edit") -> str:
    """Return the solution's source with an edit applied.

    Args:
        solution: the source of the right answer.
        code: the edit, or the lines that replace the body.
        place: file and heading, for error messages.

    Raises:
        EditError: the edit does not match exactly once, would lose
            indentation, or gives no valid Python.
    """
    try:
        if re.match(r"[-+]( |$)", code):
            source = _with_edits(solution, code)
        else:
            source = _with_code(solution, code)
        ast.parse(source)
    except SyntaxError as error:
        raise EditError(f"{place}: {error}:\n{code}") from error
    except EditError as error:
        raise EditError(f"{place}: {error}") from None
    return source


def without_docstrings(solution: str) -> str:
    """Return the source that edits apply to."""
    return _join(*_split(solution))


def _with_edits(solution: str, code: str) -> str:
    """Apply the ``-`` and ``+`` lines of an edit."""
    head, body = _split(solution)
    for old, new in _hunks(code):
        part = body if old in body else head
        if not old or part.count(old) != 1:
            raise EditError(
                "the text to replace must occur exactly once in the "
                f"solution; it occurs {part.count(old) if old else 0} "
                f"times:\n{old}"
            )
        before, _, after = part.partition(old)
        line = before.rpartition("\n")[2]
        if line[:1].isspace() and "\n" in new:
            raise EditError(
                "text that several lines replace must begin with the "
                f"indentation of its line, on - and + lines alike; got\n{old}"
            )
        if part is body:
            body = before + new + after
        else:
            head = before + new + after
    return _join(head, body)


def _with_code(solution: str, code: str) -> str:
    """Replace the body, the methods of the same names, or everything."""
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
        if sign not in ("-", "+"):
            raise EditError(
                f"a line of an edit must begin with - or +; got\n{line}"
            )
        if not hunks or (sign == "-" and hunks[-1][1]):
            hunks.append(([], []))
        hunks[-1][sign == "+"].append(text)
    return [("\n".join(old), "\n".join(new)) for old, new in hunks]


def _definition(source: str) -> Any:
    """Return the last function or class of a source."""
    nodes = ast.parse(source).body
    return [node for node in nodes if isinstance(node, _DEFINITION)][-1]


@cache  # each solution has dozens of edits
def _split(source: str) -> tuple[str, str]:
    """Return the signature, and the body without docstrings, dedented."""
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
