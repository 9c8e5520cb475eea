"""Take a notebook or a Python file apart into cells, whatever it holds.

nbformat refuses a file with one damaged cell. Here the others count.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from attn.exercises.cells import checked_id, exercise_id
from attn.grading.classroom.contents import Unreadable, clean

_LONGEST = 2**18  # characters of a cell: to parse one may take seconds
_WHOLE = 2**20  # of a Python file, and of a notebook's code
_CELLS = 10_000
_MOST = 2_000_000  # JSON values that hold others: each takes 64 bytes
_DIGITS = 20  # of a whole number
_READ = ("cells", "cell_type", "metadata", "nbgrader", "source")
_CONFLICT = re.compile(r"^(<<<<<<<|>>>>>>>)(?: |$)", re.MULTILINE)
_UNMERGED = "git's conflict markers (<<<<<<<) are in it: merge it first"
_DEFINED = re.compile(r"^(?:async\s+)?(?:def|class)\s+(\w+)", re.MULTILINE)
#: Where a cell of a Python file begins, by jupytext's name for the format;
#: VS Code's and nbconvert's are read as "percent".
_MARKERS = {
    "percent": re.compile(r"^# ?(?:%%|In\[[\d ]*\]:)", re.MULTILINE),
    "light": re.compile(r"^# \+(?=$| [\[{]| \S+=)", re.MULTILINE),
}
_LINES, _WIDTH = 20_000, 1000  # with more, jupytext may take minutes


@dataclass(frozen=True)
class Cell:
    """A cell of a submission, with nothing in it but what is graded.

    Args:
        kind: ``code``, ``markdown``, ``raw``, or what the file says.
        source: its text; empty if it is none.
        exercise: that its metadata name, of whatever kind the cell is.
        checks: the exercise that it checks.
        id: the notebook's own for it.
        stub: digest of what was handed out in it.
        notes: what is odd about it.
    """

    kind: str
    source: str
    exercise: str | None = None
    checks: str | None = None
    id: str | None = None
    stub: str | None = None
    notes: tuple[str, ...] = ()

    @cached_property
    def defined(self) -> frozenset[str]:
        """The functions and classes that the cell defines at top level."""
        names = frozenset(_DEFINED.findall(self.source))
        if self.kind != "code" or not names:
            return frozenset()
        tree = syntax_tree(self.source)
        if tree is None:
            return names
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        return frozenset(x.name for x in tree.body if isinstance(x, kinds))


@dataclass(frozen=True)
class Document:
    """The cells of a submission.

    Args:
        cells: in the file's order; of a plain Python file, one.
        plain: True of a Python file that is no copy of a chapter.
        notes: what is odd about the file.
    """

    cells: list[Cell]
    plain: bool = False
    notes: tuple[str, ...] = ()


def syntax_tree(source: str) -> ast.Module | None:
    """Return the tree of a cell as IPython reads it; None if it has none."""
    try:
        return ast.parse(_ipython().transform_cell(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@cache
def _ipython() -> Any:
    from IPython.core.inputtransformer2 import TransformerManager

    return TransformerManager()


def notebook(text: str) -> Document:
    """Read a notebook of format 3 or 4.

    Raises:
        Unreadable: it is no JSON, or holds no list of cells.
    """
    data, notes = _json(text)
    if not isinstance(data, dict):
        raise Unreadable(
            f"its JSON must be an object, as a notebook is; got {_kind(data)}"
        )
    version = data.get("nbformat")
    if isinstance(version, int) and version > 4:
        raise Unreadable(
            f"its notebook format must be 3 or 4; got {version}. Save it as "
            "format 4 (jupyter nbconvert --to notebook --nbformat 4)"
        )
    if not isinstance(version, int):
        notes.append("it does not say which notebook format it has")
    entries = data.get("cells")
    sheets = data.get("worksheets")
    if entries is None and isinstance(sheets, list):  # format 3
        sheets = [x.get("cells") for x in sheets if isinstance(x, dict)]
        lists = [x for x in sheets if isinstance(x, list)]
        entries = [entry for sheet in lists for entry in sheet]
    if not isinstance(entries, list):
        raise Unreadable(
            f"its cells must be a list; got {_kind(entries)}: is it a "
            "notebook?"
        )
    real = [x for x in entries if isinstance(x, dict)]
    if odd := len(entries) - len(real):
        notes.append(f"{odd} of its {len(entries)} cells are no cells")
    if len(real) > _CELLS:
        raise Unreadable(f"it must have at most {_CELLS} cells")
    cells = [_cell(x) for x in real]
    if sum(len(x.source) for x in cells if x.kind == "code") > _WHOLE:
        raise Unreadable("its code must have at most a million characters")
    return Document(cells, notes=tuple(notes))


def python(text: str) -> Document:
    """Read a Python file: a chapter exported as one, or any other.

    Raises:
        Unreadable: it is longer than any answer.
    """
    if len(text) > _WHOLE:
        raise Unreadable("it must have at most a million characters")
    cells = _marked(text)
    if any(_of_a_chapter(x) for x in cells):
        return Document(cells)
    if len(text) > _LONGEST:
        raise Unreadable(f"it must have at most {_LONGEST:,} characters")
    return Document([Cell("code", text)], plain=True)


def _of_a_chapter(cell: Cell) -> bool:
    return bool(cell.exercise or re.match(r'check\(["\']', cell.source))


def _json(text: str) -> tuple[Any, list[str]]:
    if text.count("{") + text.count("[") > _MOST:
        raise Unreadable("its JSON has millions of values: clear its outputs")
    repeated: set[str] = set()

    def an_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values = dict(pairs)
        if len(values) < len(pairs):
            count = Counter(name for name, _ in pairs)
            repeated.update(name for name in _READ if count[name] > 1)
        return values

    def whole(digits: str) -> int:
        return int(digits) if len(digits) < _DIGITS else 0

    try:
        data = json.loads(
            text,
            object_pairs_hook=an_object,
            parse_int=whole,
            parse_constant=lambda name: None,  # NaN
        )
    except json.JSONDecodeError as error:
        raise Unreadable(_why_no_json(text, error)) from None
    except RecursionError:
        raise Unreadable("its JSON is nested too deeply") from None
    notes = []
    if repeated:
        notes.append("keys are repeated in its JSON: the last of each counts")
    return data, notes


def _why_no_json(text: str, error: json.JSONDecodeError) -> str:
    start = text.lstrip()[:200].lower()
    if start.startswith(("<!doctype html", "<html")):
        return "it is a web page: download the notebook itself"
    if _CONFLICT.search(text):
        return _UNMERGED
    where = f"line {error.lineno}, column {error.colno}"
    if error.pos >= len(text.rstrip()) or "Unterminated" in error.msg:
        return f"its JSON breaks off (after {where}): it is not complete"
    return f"it is no JSON: {error.msg} at {where}"


def _cell(entry: dict[str, Any]) -> Cell:
    kind = entry.get("cell_type")
    source, notes = _source(entry.get("source", entry.get("input", "")))
    metadata = entry.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    nbgrader = metadata.get("nbgrader")
    has_id = isinstance(_get(nbgrader, "grade_id"), str)
    # The metadata of a cell that was retyped still name its exercise.
    code = {
        "cell_type": "code",
        "metadata": {"nbgrader": nbgrader} if has_id else {},
    }
    cell_id = entry.get("id", metadata.get("id"))  # Colab's: in the metadata
    stub = _get(metadata.get("attn"), "stub")
    return Cell(
        kind if isinstance(kind, str) else "unknown",
        source,
        exercise_id(code),
        checked_id(code),
        cell_id if isinstance(cell_id, str) else None,
        stub if isinstance(stub, str) else None,
        notes,
    )


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _source(value: Any) -> tuple[str, tuple[str, ...]]:
    lines = value if isinstance(value, list) else [value or ""]
    if not all(isinstance(line, str) for line in lines):
        return "", ("the cell's source is not text",)
    text = clean("".join(lines))
    if len(text) > _LONGEST:
        return "", (f"the cell has more than {_LONGEST:,} characters",)
    if _CONFLICT.search(text):
        return text, (_UNMERGED,)
    return text, ()


def _marked(text: str) -> list[Cell]:
    """Return the cells of a Python file; none where it does not mark them."""
    names = [name for name, mark in _MARKERS.items() if mark.search(text)]
    lines = text.split("\n")
    if not names or len(lines) > _LINES or max(map(len, lines)) > _WIDTH:
        return []
    import jupytext  # which takes half a second, and Jupyter's server

    # A comment that looks like a magic is a comment.
    kind = {"extension": ".py", "format_name": names[0]}
    options = kind | {"comment_magics": False}
    try:
        # The first line is for a header, which could choose other options.
        cells = jupytext.reads(f"# %%\n{text}", options).cells
    except Exception:  # at a damaged marker
        return []
    for cell in cells:
        cell.id = cell.metadata.get("id")  # jupytext's own is random
        cell.source = cell.source.strip("\n")
    return [_cell(x) for x in cells]


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    names: dict[type, str] = {dict: "an object", list: "a list", str: "a text"}
    return names.get(type(value), "a number")
