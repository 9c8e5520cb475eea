"""Refresh the chapters: stubs, the solved run, stored outputs, drift."""

import copy
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from math import ceil
from pathlib import Path
from queue import Empty
from typing import Any

from attn.data.book import root
from attn.exercises import APPENDICES, CHAPTERS, sources
from attn.exercises.answers import digest as digest
from attn.exercises.answers import is_stub
from attn.exercises.cells import checked_id, exercise_id, stub_digest
from attn.publishing import stored_drawings

_CELL_TIMEOUT = 120  # seconds
#: A file, as the traceback of one machine names it.
PLACE = re.compile(r"(?:/[\w.-]+){2,}\.py\b")


class Edited(Exception):
    """Say that a notebook holds a learner's work, and is left as it is."""


def read(path: Path) -> Any:
    """Read a notebook as nbformat 4; an error names a broken file."""
    import nbformat  # only here: it takes longer than a grader's other imports

    try:
        return nbformat.read(path, as_version=4)
    except FileNotFoundError:
        raise
    except Exception as error:
        raise ValueError(f"{path} is not a notebook: {error}") from error


def write(notebook: Any, path: Path) -> None:
    """Write a notebook in one step: a crash leaves the old file."""
    import nbformat

    draft = path.with_name(f".{path.name}.tmp")
    nbformat.write(notebook, draft)
    os.replace(draft, path)


def pristine() -> list[Path]:
    """Return the book's own notebooks, chapters and appendices, in order."""
    folder = root() / "notebooks"
    return [folder / f"{n}.ipynb" for n in (*CHAPTERS.values(), *APPENDICES)]


def solved(notebook: Any) -> Any:
    """Return a copy with the book's solutions in place of the stubs."""
    notebook = copy.deepcopy(notebook)
    for cell in notebook.cells:
        if name := exercise_id(cell):
            cell.source = sources.solution(name)
    return notebook


def edited_stubs(notebook: Any) -> list[str]:
    """Return the exercises whose cell holds a learner's work.

    An old stub is to be renewed, a learner's work is not.
    """
    return [
        name
        for x in notebook.cells
        if (name := exercise_id(x))
        and x.source.strip()
        and not is_stub(x, name)
    ]


def refresh(path: Path) -> None:
    """Renew the stubs, run the solved notebook, store outputs and drawings.

    Raises:
        Edited: a stub holds a learner's work.
    """
    notebook = read(path)
    if edited := edited_stubs(notebook):
        raise Edited(
            f"{path.name} is left as it is: there is work in "
            f"{', '.join(edited)}. Move that work to a copy (make lab) and "
            "restore the notebook with git, then refresh again."
        )
    executed = execute(solved(notebook), path.parent, ATTN_SVG="1").cells
    stored_drawings.store(executed, path, digest)
    for cell, ran in zip(notebook.cells, executed, strict=True):
        if cell.cell_type != "code":
            continue
        if name := exercise_id(cell):
            cell.source = sources.stub(name)
            cell.metadata["attn"] = {"stub": digest(cell.source)}
        if name := checked_id(cell):
            text = "".join(x.get("text", "") for x in ran.outputs)
            if not text.startswith(f"✓ {name}  "):
                raise RuntimeError(
                    f"the solution of {name} does not pass its own check:\n"
                    f"{text}"
                )
        cell.metadata.pop("execution", None)
        cell.outputs, cell.execution_count = ran.outputs, ran.execution_count
    write(notebook, path)


def execute(notebook: Any, folder: Path, **environment: str) -> Any:
    """Run a notebook in this interpreter's environment, and return it."""
    from nbclient import NotebookClient
    from tqdm import tqdm

    client = NotebookClient(
        notebook,
        timeout=_CELL_TIMEOUT,
        coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
        record_timing=False,
        shutdown_kernel="immediate",  # its outputs are all that is kept
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
            env={**os.environ, "ATTN_NO_PROGRESS": "1", **environment},
            stderr=subprocess.DEVNULL,  # the kernel's own log
        )
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            output.pop("transient", None)
            if frames := output.get("traceback"):
                output.traceback = [
                    x for x in frames[:-1] if not PLACE.search(x)
                ] + frames[-1:]
    return notebook


@cache
def notice_dead_kernels() -> None:
    """Have nbval notice a dead kernel at once, not at a cell's time-out."""
    from nbval.kernel import RunningKernel

    def get_message(self: Any, stream: str, timeout: float) -> Any:
        for _ in range(ceil(timeout)):
            with suppress(Empty):
                return getattr(self.kc, f"get_{stream}_msg")(timeout=1)
            if not self.is_alive():
                raise RuntimeError("the kernel died while it ran this cell")
        raise Empty

    RunningKernel.get_message = get_message


def drift(path: Path) -> Iterator[str]:
    """Yield what in a notebook no longer agrees with ``solutions/``."""
    notebook = read(path)
    seen = []
    for cell in notebook.cells:
        if name := exercise_id(cell):
            seen.append(name)
            if cell.source != sources.stub(name):
                yield f"{name}: the stub is not the one that solutions/ gives"
            if stub_digest(cell) != digest(cell.source):
                yield f"{name}: the stub's digest is old"
        if name := checked_id(cell):
            if seen[-1:] != [name]:
                yield f"{name}: its check does not follow it"
            if cell.source != f'check("{name}")':
                yield f"{name}: its check cell was changed"
            if not any("✓" in o.get("text", "") for o in cell.outputs):
                yield f"{name}: its check has no stored line"
    yield from stored_drawings.drift(notebook.cells, path, digest)
    if not seen:
        yield f"{path.name} has no exercise"
