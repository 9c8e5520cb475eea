"""Read a submitted file, whatever it is, and take it apart into cells.

nbformat refuses a file with one damaged cell. Here the others count. Nothing
in a file is executed, and no file is waited for.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attn.exercises.answers import Note
from attn.exercises.answers import notes as answer_notes
from attn.exercises.cells import CHECK

LIMIT = 32 * 2**20  # bytes of a file
_LONGEST = 2**18  # characters of a cell, or a Python file: parsing is slow
_WHOLE = 2**20  # of a notebook's code
_CELLS = 10_000
_MOST = 2_000_000  # JSON values that hold others: each takes 64 bytes
_LINES, _WIDTH = 20_000, 1000  # with more, jupytext may take minutes
_FORMATS = {
    b"PK\x03\x04": "a zip archive: unpack it first",
    b"\x1f\x8b": "a compressed file: unpack it first",
    b"%PDF": "a PDF: the notebook itself is needed",
    b"\x89PNG": "a picture: the notebook itself is needed",
    b"\xff\xd8\xff": "a picture: the notebook itself is needed",
    b"\x80": "a pickle, which is never loaded",
}
_NO_FILES: dict[int | None, str] = {
    errno.ELOOP: "it is a symbolic link, which is not followed: submit the "
    "file",
    errno.EISDIR: "it is a folder without a notebook (.ipynb) or a .py",
}
_DOCUMENTS = {".doc", ".docx", ".odt", ".pages", ".pptx", ".rtf", ".xlsx"}
_CONFLICT = re.compile(r"^(<<<<<<<|>>>>>>>)(?: |$)", re.MULTILINE)
_UNMERGED = "git's conflict markers (<<<<<<<) are in it: merge it first"
#: Where a cell of a Python file begins, by jupytext's name for the format;
#: VS Code's and nbconvert's are read as "percent".
_MARKERS = {
    "percent": re.compile(r"^# ?(?:%%|In\[[\d ]*\]:)", re.MULTILINE),
    "light": re.compile(r"^# \+(?=$| [\[{]| \S+=)", re.MULTILINE),
}


class Unreadable(Exception):
    """A submission in which nothing can be graded, and why."""


@dataclass(frozen=True)
class Cell:
    """A cell of a submission, with nothing in it but what is graded.

    Args:
        kind: ``code``, ``markdown``, ``raw``, or what the file says.
        source: its text; empty if it is none.
        exercise: that its metadata name, of whatever kind the cell is.
        checks: the exercise that it checks.
        stub: digest of what was handed out in it.
        noted: what the checks in it say in their cards.
        notes: what is odd about it.
    """

    kind: str
    source: str
    exercise: str | None = None
    checks: str | None = None
    stub: str | None = None
    notes: tuple[str, ...] = ()
    noted: tuple[Note, ...] = ()


def load(path: Path) -> bytes:
    """Return the bytes of a submitted file, and never wait for them.

    Raises:
        Unreadable: it is no regular file, cannot be opened, or is larger
            than ``LIMIT``.
    """

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NONBLOCK | os.O_NOFOLLOW)

    try:
        with open(path, "rb", opener=opener) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise Unreadable("it is a pipe or a device, not a file")
            data = file.read(LIMIT + 1)
    except OSError as error:
        why = f"it cannot be opened: {error.strerror}"
        raise Unreadable(_NO_FILES.get(error.errno, why)) from error
    if len(data) > LIMIT:
        size = os.path.getsize(path) / 2**20
        raise Unreadable(
            f"it must have at most {LIMIT // 2**20} MiB; it has {size:.0f}. "
            "Clear its outputs (in Jupyter: Edit, Clear Outputs of All "
            "Cells) and submit it again"
        )
    return data


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
    for start, kind in _FORMATS.items():
        if data.startswith(start):
            raise Unreadable(f"it is {kind}")
    try:
        return _clean(data.decode(json.detect_encoding(data))), ()
    except UnicodeDecodeError:
        text = data.decode("latin-1")
        return _clean(text), ("read as Latin-1: not UTF-8",)


def _clean(text: str) -> str:
    """Give a text one kind of line end, and characters that can be stored.

    Python ends a line at the same places. Half a surrogate pair, which JSON
    can hold and no file can, becomes U+FFFD.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def python(text: str) -> tuple[list[Cell], tuple[str, ...]]:
    """Read a Python file: an exported chapter's cells, or one with all of it.

    Raises:
        Unreadable: it is longer than any answer.
    """
    if len(text) > _LONGEST:
        raise Unreadable(f"it must have at most {_LONGEST:,} characters")
    cells = _marked(text)
    if any(x.exercise or re.match(r'check\(["\']', x.source) for x in cells):
        return cells, ()
    return [Cell("code", text)], ()


def _marked(text: str) -> list[Cell]:
    """Return the cells of a Python file; none where it does not mark them."""
    names = [x for x in _MARKERS if _MARKERS[x].search(text)]
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
    return [_cell(x | {"source": x.source.strip("\n")}) for x in cells]


def notebook(text: str) -> tuple[list[Cell], tuple[str, ...]]:
    """Read a notebook of format 3 or 4: its cells, and what is odd about it.

    Raises:
        Unreadable: it is no JSON, or holds no list of cells.
    """
    data = _json(text)
    entries, sheets = get(data, "cells"), get(data, "worksheets")
    if entries is None and isinstance(sheets, list):  # format 3
        lists = [get(x, "cells") for x in sheets]
        entries = [y for x in lists if isinstance(x, list) for y in x]
    if not isinstance(entries, list):
        raise Unreadable("it has no list of cells: is it a notebook?")
    cells = [_cell(x) for x in entries if isinstance(x, dict)]
    odd = len(entries) - len(cells)
    if len(cells) > _CELLS:
        raise Unreadable(f"it must have at most {_CELLS} cells")
    if sum(len(x.source) for x in cells if x.kind == "code") > _WHOLE:
        raise Unreadable("its code must have at most a million characters")
    note = f"{odd} of its {len(entries)} cells are no cells"
    return cells, (note,) if odd else ()


def _json(text: str) -> Any:
    if text.count("{") + text.count("[") > _MOST:
        raise Unreadable("its JSON has millions of values: clear its outputs")
    try:
        return json.loads(text, parse_int=float)  # an int may be too long
    except RecursionError:
        raise Unreadable("its JSON is nested too deeply") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        if re.match(r"\s*<(?:!doctype )?html", text, re.IGNORECASE):
            why = "it is a web page: download the notebook itself"
        elif _CONFLICT.search(text):
            why = _UNMERGED
        elif error.pos >= len(text.rstrip()) or "Untermin" in error.msg:
            why = f"its JSON breaks off (after {where}): it is not complete"
        else:
            why = f"it is no JSON: {error.msg} at {where}"
        raise Unreadable(why) from None


def _cell(entry: dict[str, Any]) -> Cell:
    kind = _text(entry, "cell_type") or "unknown"
    lines = entry.get("source", entry.get("input")) or ""
    notes: tuple[str, ...] = ()
    try:
        source = _clean("".join(lines if isinstance(lines, list) else [lines]))
    except TypeError:
        source, notes = "", ("the cell's source is not text",)
    if len(source) > _LONGEST:
        notes = (f"the cell has more than {_LONGEST:,} characters",)
        source = ""
    if _CONFLICT.search(source):
        notes = (_UNMERGED,)
    if kind != "code":
        notes += (f"its cell is {kind}, not code, and does not run",)
    marks, own = (get(entry.get("metadata"), x) for x in ("nbgrader", "attn"))
    name, is_check = _text(marks, "grade_id") or "", get(marks, "grade")
    exercise = name if get(marks, "solution") and not is_check else None
    checks = name.removeprefix(CHECK) if is_check else None
    stub, noted = _text(own, "stub"), answer_notes(entry.get("outputs"))
    return Cell(kind, source, exercise, checks, stub, notes, tuple(noted))


def get(value: Any, name: str) -> Any:
    """Return what an object has under a name; None of anything else."""
    return value.get(name) if isinstance(value, dict) else None


def _text(value: Any, name: str) -> str | None:
    text = get(value, name)
    return text if isinstance(text, str) else None
