"""The chapters as files: stubs, the solved run, stored outputs, drift."""

from __future__ import annotations

import copy
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat

from attn.data.book import root
from attn.exercises import APPENDICES, CHAPTERS, sources

CELL_TIMEOUT = 120  # seconds


class Edited(Exception):
    """A notebook holds a learner's work, so it is not touched."""


def read(path: Path) -> Any:
    """A notebook as nbformat 4; a broken file gives one clear line."""
    try:
        return nbformat.read(path, as_version=4)
    except FileNotFoundError:
        raise
    except Exception as error:
        raise ValueError(f"{path} is not a notebook: {error}") from error


def write(notebook: Any, path: Path) -> None:
    """All or nothing: a crash leaves the old file."""
    draft = path.with_name(f".{path.name}.tmp")
    nbformat.write(notebook, draft)
    os.replace(draft, path)


def grade_id(cell: Any) -> str | None:
    """A cell's id in nbgrader's metadata."""
    found = cell.metadata.get("nbgrader", {}).get("grade_id")
    return found if cell.cell_type == "code" else None


def exercise_id(cell: Any) -> str | None:
    """The exercise that the learner writes in this cell."""
    about = cell.metadata.get("nbgrader", {})
    is_answer = about.get("solution") and not about.get("grade")
    return grade_id(cell) if is_answer else None


def checked_id(cell: Any) -> str | None:
    """The exercise that this cell checks."""
    about = cell.metadata.get("nbgrader", {})
    found = grade_id(cell) if about.get("grade") else None
    return found.removeprefix("check-") if found else None


def pristine() -> list[Path]:
    """The book's own notebooks, chapters and appendices, in order."""
    folder = root() / "notebooks"
    return [folder / f"{n}.ipynb" for n in (*CHAPTERS.values(), *APPENDICES)]


def solved(notebook: Any) -> Any:
    """A copy with the book's solutions in place of the stubs."""
    notebook = copy.deepcopy(notebook)
    for cell in notebook.cells:
        if name := exercise_id(cell):
            cell.source = sources.solution(name)
    return notebook


def cleared(notebook: Any) -> Any:
    """A copy without any output, as after "Clear all outputs"."""
    notebook = copy.deepcopy(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return notebook


def without_ticks(notebook: Any) -> Any:
    """A copy whose check cells show nothing: the work is still to do."""
    notebook = copy.deepcopy(notebook)
    for cell in notebook.cells:
        if checked_id(cell):
            cell.outputs, cell.execution_count = [], None
    return notebook


def edited_stubs(notebook: Any) -> list[str]:
    """Exercises whose cell is no longer the stub that was put there.

    The mark of the stub is kept in the cell, so that a changed task (a new
    stub is due) is told from a learner's work (hands off).
    """
    found = []
    for cell in notebook.cells:
        if not (name := exercise_id(cell)):
            continue
        marks = (
            cell.metadata.get("attn", {}).get("stub"),
            mark(sources.stub(name)),
        )
        if cell.source.strip() and mark(cell.source) not in marks:
            found.append(name)
    return found


def refresh(path: Path) -> None:
    """Renew the stubs, run the solved notebook, store what it prints.

    Raises:
        Edited: a stub holds somebody's work.
    """
    notebook = read(path)
    if edited := edited_stubs(notebook):
        raise Edited(
            f"{path.name} is left as it is: somebody has written in "
            f"{', '.join(edited)}. Move that work to a copy (make lab) and "
            "restore the notebook with git, then refresh again."
        )
    run = execute(solved(notebook), path.parent)
    for cell, done in zip(notebook.cells, run.cells, strict=True):
        if cell.cell_type != "code":
            continue
        if name := exercise_id(cell):
            cell.source = sources.stub(name)
            cell.metadata["attn"] = {"stub": mark(cell.source)}
        if name := checked_id(cell):
            _require_tick(name, done)
        cell.metadata.pop("execution", None)
        cell.outputs, cell.execution_count = done.outputs, done.execution_count
    write(notebook, path)


def execute(notebook: Any, folder: Path) -> Any:
    """Run a notebook in this interpreter's environment; returns it run."""
    from nbclient import NotebookClient
    from tqdm import tqdm

    client = NotebookClient(
        notebook,
        timeout=CELL_TIMEOUT,
        coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
        record_timing=False,
    )
    manager = client.create_kernel_manager()
    spec = manager.kernel_spec
    if spec is None:
        raise RuntimeError("Jupyter has no Python kernel: install ipykernel")
    spec.argv[0] = sys.executable  # never another Python's
    cells = len(notebook.cells)
    with tqdm(total=cells, unit="cell", leave=False) as bar:
        client.on_cell_start = lambda **_: bar.update()
        client.execute(
            env={**os.environ, "ATTN_NO_RECORD": "1"},
            stderr=subprocess.DEVNULL,  # the kernel's own log
        )
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            output.pop("transient", None)
    return notebook


def drift(path: Path) -> Iterator[str]:
    """What in a notebook no longer agrees with ``solutions/``, in words."""
    notebook = read(path)
    seen = []
    for cell in notebook.cells:
        if name := exercise_id(cell):
            seen.append(name)
            if cell.source != sources.stub(name):
                yield f"{name}: the stub is not the one that solutions/ gives"
            if cell.metadata.get("attn", {}).get("stub") != mark(cell.source):
                yield f"{name}: the stub's mark is old"
        if name := checked_id(cell):
            if seen[-1:] != [name]:
                yield f"{name}: its check does not follow it"
            if cell.source != f'check("{name}")':
                yield f"{name}: its check cell was changed"
            if not any("✓" in o.get("text", "") for o in cell.outputs):
                yield f"{name}: its check has no stored line"
    if not seen:
        yield f"{path.name} has no exercise"


def _require_tick(name: str, cell: Any) -> None:
    text = "".join(o.get("text", "") for o in cell.outputs)
    if not text.startswith(f"✓ {name}  "):
        raise RuntimeError(
            f"the solution of {name} does not pass its own check:\n{text}"
        )


def mark(source: str) -> str:
    """Short and stable; trailing blanks do not count."""
    text = "\n".join(line.rstrip() for line in source.strip().splitlines())
    return hashlib.sha256(text.encode()).hexdigest()[:16]
