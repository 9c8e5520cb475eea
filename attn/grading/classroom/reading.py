"""Read a submitted file, whatever it is, and take it apart into cells.

nbformat refuses a file with one damaged cell. Here the others count. Nothing
in a file is executed, and no file is waited for.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import stat
import warnings
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from attn.exercises.cells import checked_id, exercise_id

LIMIT = 32 * 2**20  # bytes of a file
_LONGEST = 2**18  # characters of a cell: to parse one may take seconds
_WHOLE = 2**20  # of a Python file, and of a notebook's code
_CELLS = 10_000
_MOST = 2_000_000  # JSON values that hold others: each takes 64 bytes
_LINES, _WIDTH = 20_000, 1000  # with more, jupytext may take minutes
_FORMATS = {
    "a zip archive: unpack it first": (b"PK\x03\x04",),
    "a compressed file: unpack it first": (b"\x1f\x8b",),
    "a PDF: the notebook itself is needed": (b"%PDF",),
    "a picture: the notebook itself is needed": (b"\x89PNG", b"\xff\xd8\xff"),
    "a pickle, which is never loaded": (b"\x80\x04", b"\x80\x05"),
}
_DOCUMENTS = {".doc", ".docx", ".odt", ".pages", ".pptx", ".rtf", ".xlsx"}
_CONFLICT = re.compile(r"^(<<<<<<<|>>>>>>>)(?: |$)", re.MULTILINE)
_UNMERGED = "git's conflict markers (<<<<<<<) are in it: merge it first"
_DEFINED = re.compile(r"^(?:async\s+)?(?:def|class)\s+(\w+)", re.MULTILINE)
#: Where a cell of a Python file begins, by jupytext's name for the format;
#: VS Code's and nbconvert's are read as "percent".
_MARKERS = {
    "percent": re.compile(r"^# ?(?:%%|In\[[\d ]*\]:)", re.MULTILINE),
    "light": re.compile(r"^# \+(?=$| [\[{]| \S+=)", re.MULTILINE),
}


class Unreadable(Exception):
    """A submission in which nothing can be graded.

    Args:
        message: why, after "it is" or as a sentence of its own.
    """


# --- A file ------------------------------------------------------------------


def load(path: Path) -> bytes:
    """Return the bytes of a submitted file, and never wait for them.

    Raises:
        Unreadable: it is no regular file, cannot be opened, or is larger
            than ``LIMIT``.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        if path.is_symlink():
            raise Unreadable(
                "it is a symbolic link, which is not followed: submit the file"
            )
        if path.is_dir():
            os.listdir(path)  # which may say why there is nothing
            raise Unreadable(
                "it is a folder without a notebook (.ipynb) or a .py"
            )
        with open(os.open(path, flags), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise Unreadable("it is a pipe or a device, not a file")
            data = file.read(LIMIT + 1)
    except OSError as error:
        raise Unreadable(f"it cannot be opened: {error.strerror}") from error
    if len(data) > LIMIT:
        size = os.path.getsize(path) / 2**20
        raise Unreadable(
            f"it must have at most {LIMIT // 2**20} MiB; it has {size:.0f}. "
            "Clear its outputs (in Jupyter: Edit, Clear Outputs of All "
            "Cells) and submit it again"
        )
    return data


def digest(path: Path) -> str:
    """Hash a submitted file, or the reason why it cannot be read."""
    try:
        data = load(path)
    except Unreadable as error:
        data = f"unreadable: {error}".encode()
    return hashlib.sha256(data).hexdigest()


def decode(data: bytes, suffix: str = "") -> tuple[str, tuple[str, ...]]:
    """Return a text with ``\\n`` at the end of its lines, and notes on it.

    Args:
        data: of a file.
        suffix: of its name: a word processor's document is a zip archive.

    Raises:
        Unreadable: it is empty, or of a kind that is no text.
    """
    if not data.strip():
        raise Unreadable("it is empty")
    if suffix in _DOCUMENTS:
        raise Unreadable(f"it is a {suffix} file: the notebook is needed")
    for kind, starts in _FORMATS.items():
        if data.startswith(starts):
            raise Unreadable(f"it is {kind}")
    notes: tuple[str, ...] = ()
    try:
        text = data.decode(json.detect_encoding(data))
    except UnicodeDecodeError:
        text, notes = data.decode("latin-1"), ("read as Latin-1: not UTF-8",)
    return clean(text), notes


def clean(text: str) -> str:
    """Give a text one kind of line end, and characters that can be stored.

    Python ends a line at the same places. Half a surrogate pair, which JSON
    can hold and no file can, becomes U+FFFD.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# --- Its cells ---------------------------------------------------------------
_TIMER = re.compile(r"\A\s*%%(?:time|capture)\b.*\n?")


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

    @property
    def defined(self) -> list[str]:
        """The functions and classes that the cell defines at top level."""
        if self.kind != "code":
            return []
        tree = tree_of(python_of(self.source))
        if tree is None:
            return _DEFINED.findall(self.source)
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        return [x.name for x in tree.body if isinstance(x, kinds)]


@dataclass(frozen=True)
class Document:
    """The cells of a submission.

    Args:
        cells: in the file's order; of a plain Python file, one.
        notes: what is odd about the file.
    """

    cells: list[Cell]
    notes: tuple[str, ...] = ()


def without_timer(source: str) -> str:
    """Drop a first line that measures a cell, or captures what it prints.

    IPython would execute the rest out of sight of its errors.
    """
    return _TIMER.sub("", source)


def python_of(source: str) -> str:
    """Return a cell's source as IPython would execute it."""
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        return _ipython().transform_cell(source)
    return source


def tree_of(text: str) -> ast.Module | None:
    """Return the syntax tree of a text; None if it has none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "\d"
            return ast.parse(text)
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
    data, notes = _json(text), []
    if not isinstance(data, dict):
        raise Unreadable(
            f"its JSON must be an object, as a notebook is; got {_kind(data)}"
        )
    version = data.get("nbformat")
    if not isinstance(version, int):
        notes.append("it does not say which notebook format it has")
    elif version > 4:
        raise Unreadable(
            f"its notebook format must be 3 or 4; got {version}. Save it as "
            "format 4 (jupyter nbconvert --to notebook --nbformat 4)"
        )
    entries, sheets = data.get("cells"), data.get("worksheets")
    if entries is None and isinstance(sheets, list):  # format 3
        lists = [get(x, "cells") for x in sheets]
        entries = [y for x in lists if isinstance(x, list) for y in x]
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
    return Document(cells, tuple(notes))


def python(text: str) -> Document:
    """Read a Python file: a chapter exported as one, or any other.

    Raises:
        Unreadable: it is longer than any answer.
    """
    if len(text) > _WHOLE:
        raise Unreadable("it must have at most a million characters")
    cells = _marked(text)
    if any(x.exercise or re.match(r'check\(["\']', x.source) for x in cells):
        return Document(cells)
    if len(text) > _LONGEST:
        raise Unreadable(f"it must have at most {_LONGEST:,} characters")
    return Document([Cell("code", text)])


def _json(text: str) -> Any:
    if text.count("{") + text.count("[") > _MOST:
        raise Unreadable("its JSON has millions of values: clear its outputs")

    def whole(digits: str) -> int:  # Python reads no more than 4,300
        return int(digits) if len(digits) < 20 else 0

    try:
        return json.loads(text, parse_int=whole)
    except json.JSONDecodeError as error:
        raise Unreadable(_why_no_json(text, error)) from None
    except RecursionError:
        raise Unreadable("its JSON is nested too deeply") from None


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
    nbgrader = get(metadata, "nbgrader")
    # The metadata of a cell that was retyped still name its exercise.
    marks = nbgrader if _text(nbgrader, "grade_id") else {}
    code = {"cell_type": "code", "metadata": {"nbgrader": marks}}
    return Cell(
        kind if isinstance(kind, str) else "unknown",
        source,
        exercise_id(code),
        checked_id(code),
        _text(entry if "id" in entry else metadata, "id"),  # or Colab's
        _text(get(metadata, "attn"), "stub"),
        notes,
    )


def get(value: Any, name: str) -> Any:
    """Return what an object has under a name; None of anything else."""
    return value.get(name) if isinstance(value, dict) else None


def _text(value: Any, name: str) -> str | None:
    text = get(value, name)
    return text if isinstance(text, str) else None


def _source(value: Any) -> tuple[str, tuple[str, ...]]:
    lines = value if isinstance(value, list) else [value or ""]
    if not all(isinstance(line, str) for line in lines):
        return "", ("the cell's source is not text",)
    text = clean("".join(lines))
    if len(text) > _LONGEST:
        return "", (f"the cell has more than {_LONGEST:,} characters",)
    return text, (_UNMERGED,) if _CONFLICT.search(text) else ()


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
    names: dict[type, str] = {dict: "an object", list: "a list", str: "a text"}
    return "nothing" if value is None else names.get(type(value), "a number")
