"""The learner's copies of the chapters, in ``workspace/``.

A copy is made once and left alone. When the book has a newer version of a
chapter, a copy without any work is made again; one with work stays, and the
newer version comes beside it, with the learner's answers in it. Of the start
notebook the page of its one cell is renewed, whatever else is in it.

What attn itself wrote is signed, as ``jupyter trust`` does: JupyterLab shows
stored HTML as it is only in a notebook with a signature; in another one, no
figure moves before its cell has run.
"""

import contextlib
import json
import platform
import sqlite3
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
from nbformat.sign import NotebookNotary

from attn.exercises import kept
from attn.exercises.cells import exercise_id, stub_digest
from attn.grading.learner import cards, progress, start_page
from attn.publishing import myst_to_markdown, notebooks
from attn.publishing.myst_to_markdown.targets import GLOSSARY

_OPEN_TASK = "open-task"
_LEFT = "yours, left as it is"
_RENEWED = "a newer version, copied: you had not changed the old one"
#: What ipykernel says of Python, without the version.
_LANGUAGE = Path(__file__).with_name("jupyter") / "language_info.json"


def fill(folder: Path) -> list[str]:
    """Copy the chapters that are not there yet; leave the others as they are.

    Args:
        folder: the learner's own; made when it does not exist.

    Returns:
        A line for each notebook. It says when a copy is of an older version.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.chdir(folder):  # where progress is kept
        entries = progress.load()
        kept.folder()
    page = _versioned(start_page.start_notebook(entries))
    own = folder / start_page.NAME
    lines = [f"{name}: {_place(x, folder / name)}" for name, x in _copies()]
    said = _place(page, own)
    if _renew(own, page):
        said = "yours, its page brought up to date"
    glossary = folder / GLOSSARY
    lines.append(f"{glossary.name}: {_place_glossary(glossary)}")
    return [f"{own.name}: {said}", *lines]


def _copies() -> Iterator[tuple[str, Any]]:
    for path in notebooks.pristine():
        made = myst_to_markdown.copy_of(notebooks.read(path), set_up=False)
        made["cells"][-1]["source"] += f" | [Start page]({start_page.NAME})"
        yield path.name, _versioned(made)


def _versioned(copy: Any) -> Any:
    """Note in a copy what it was made of, so that work in it is seen.

    It has all that JupyterLab would add to it: to open it is no change.
    """
    copy = nbformat.from_dict(copy)
    language = json.loads(_LANGUAGE.read_text("utf-8"))
    language["version"] = platform.python_version()
    copy.metadata["language_info"] = language
    for cell in copy.cells:
        if exercise_id(cell) or _OPEN_TASK in cell.metadata.get("tags", []):
            cell.metadata["attn"] = {"stub": notebooks.digest(cell.source)}
    copy.metadata["attn"] = {"version": _version(copy)}
    return copy


def _place(copy: Any, own: Path) -> str:
    """Write a copy where none is, and say what was done."""
    if not own.exists():
        _write(copy, own)
        return "copied"
    try:
        mine = notebooks.read(own)
    except ValueError:
        return (
            "yours, left as it is (it does not open as a notebook: rename it "
            "to get a new copy)"
        )
    had = mine.metadata.get("attn", {}).get("version")
    if had == copy.metadata.attn.version:
        return _LEFT
    if had == _version(mine):
        _write(copy, own)
        return _RENEWED
    newer = own.with_name(f"{own.stem}-newer.ipynb")
    if not newer.exists():
        answers = {_task(x): x.source for x in mine.cells if _is_work(x)}
        for cell in copy.cells:
            cell.source = answers.get(_task(cell), cell.source)
        _write(copy, newer)
    return (
        "yours, left as it is. The book has a newer version of this chapter: "
        f"{newer.name}, with your answers in it"
    )


def _place_glossary(own: Path) -> str:
    """Write the glossary, unless a learner has; its last line tells."""
    text = myst_to_markdown.glossary()
    said = "copied"
    if own.exists():
        mine, _, mark = own.read_text("utf-8", "replace").rpartition("<!-- ")
        is_old = notebooks.digest(text) not in mark
        if not is_old or notebooks.digest(mine) not in mark:
            return _LEFT
        said = _RENEWED
    own.write_text(f"{text}\n<!-- {notebooks.digest(text)} -->\n", "utf-8")
    return said


def _renew(own: Path, page: Any) -> bool:
    """Put the newest page below its cell; return whether it was old."""
    with contextlib.suppress(ValueError):  # it does not open
        mine = notebooks.read(own)
        signed = _is_signed(mine)
        fresh = next(x.outputs for x in page.cells if x.id == start_page.CELL)
        for cell in mine.cells:
            is_page = cell.get("id") == start_page.CELL
            if is_page and cell.get("outputs", fresh) != fresh:
                cell.outputs = fresh
                _write(mine, own, signed=signed)
                return True
    return False


def _write(copy: Any, own: Path, *, signed: bool = True) -> None:
    """Write a notebook; a folder without room for signatures is no error."""
    notebooks.write(copy, own)
    if signed and cards.is_enabled():  # nothing is kept of a test
        with contextlib.suppress(OSError, sqlite3.Error):
            _notary().sign(notebooks.read(own))


def _is_signed(notebook: Any) -> bool:
    """Return whether JupyterLab shows the HTML of a notebook as it is."""
    if cards.is_enabled():
        with contextlib.suppress(OSError, sqlite3.Error):
            return bool(_notary().check_signature(notebook))
    return False


def _task(cell: Any) -> str:
    """Name the task of a cell: an exercise, or the cell's own."""
    return exercise_id(cell) or f"cell {cell.get('id')}"


def _is_work(cell: Any) -> bool:
    """Return whether a task's cell is no longer what was handed out."""
    given, source = stub_digest(cell), cell.source.strip()
    return bool(given and source) and notebooks.digest(source) != given


def _version(notebook: Any) -> str:
    """Hash the text, the tasks and the demos of a copy."""
    return notebooks.digest("\n".join(x.source for x in notebook.cells))


@cache
def _notary() -> NotebookNotary:
    return NotebookNotary()
