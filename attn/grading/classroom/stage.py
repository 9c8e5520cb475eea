"""Run a chapter with a learner's answers in it: what happens to its cells.

The answers take the place of the stubs in the pristine notebook, and nbval
runs that in the jail, next to neither solutions nor exercises. It tells a
teacher how the demonstrations fare with these answers, and has no part in a
mark: an answer shares its process with the cells, and could change the count.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

import nbformat

from attn.data.book import root
from attn.exercises import CHAPTERS, sources
from attn.exercises.cells import exercise_id, points
from attn.grading.classroom.result import Mark, Run
from attn.grading.sandbox import isolation
from attn.publishing import notebooks

SERVER = [sys.executable, "-m", "attn.grading.classroom.stage_server"]
_START = 180.0  # seconds until the server has imported everything
_GRACE = 60.0  # seconds until it is given up, after a chapter's time
_MOST = 16 << 10  # bytes of an answer of the server's
_stages: dict[int, _Stage] = {}  # the process's own


def run(
    key: str, cells: Mapping[str, str], marks: Iterable[Mark], timeout: float
) -> Run:
    """Run a chapter with answers in it; never raise for what they do.

    Args:
        key: of the chapter, for instance ``"sdp"``.
        cells: the text of each answer, by exercise; a stub stays where there
            is none.
        marks: of its exercises: what passed stays in place, and a solution
            replaces what did not, for the cells that follow.
        timeout: in seconds, of all cells together.
    """
    if sys.platform != "linux":
        return Run(message="needs Linux")
    notebook = spliced(notebooks.read(sources.notebook_path(key)), cells)
    return play(notebook, marks, timeout)


def spliced(notebook: Any, cells: Mapping[str, str]) -> Any:
    """Put answers in place of a notebook's stubs; return it."""
    for cell in notebook.cells:
        name = exercise_id(cell) or ""
        if name in cells:
            cell.source = cells[name]
            # Nothing is stored, and nbval compares no output.
            cell.outputs, cell.execution_count = [], None
    return notebook


def play(notebook: Any, marks: Iterable[Mark], timeout: float) -> Run:
    """Run a notebook on the stage of this process; start it if need be."""
    passed = {mark.exercise for mark in marks if mark.passed}
    about = {
        name: (worth, None if name in passed else sources.solution(name))
        for name, worth in points(notebook).items()
    }
    files = {
        "notebook.ipynb": nbformat.writes(notebook),
        "marks.json": json.dumps(about),
    }
    stage = _stages.get(os.getpid()) or _Stage()
    _stages[os.getpid()] = stage
    try:
        answer = stage.perform(files, timeout)
    except RuntimeError as error:
        run = Run(message=str(error))
    except (OSError, ValueError):
        run = Run("died", message="the server ended, or gave no result")
    else:
        count = sum(cell.cell_type == "code" for cell in notebook.cells)
        return _read(answer, count, timeout)
    del _stages[os.getpid()]  # the next chapter starts another
    stage.close()
    return run


def _read(answer: Any, count: int, timeout: float) -> Run:
    """Read an answer of the server's; what is odd about it is "died"."""
    found = answer if isinstance(answer, dict) else {}
    letters, end = str(found.get("cells")), found.get("end")
    if not re.fullmatch("[.sFK]*", letters) or len(letters) > count:
        return Run("died", message="the result of its run cannot be read")
    if end == "jail":
        return Run(message="as root it needs bubblewrap or user namespaces")
    ran = len(letters) - letters.count("s")
    failed = letters.count("F") + letters.count("K")
    place = f"after {len(letters)} of {count} cells"
    if end == "time":
        message = f"stopped after {timeout:g} s, {place}"
        return Run("out of time", ran, failed, message)
    if isinstance(end, str) and end in _TOO_MUCH:
        message = f"stopped {place}: too {_TOO_MUCH[end]}"
        return Run("died", ran, failed, message)
    if "K" in letters:
        message = f"the kernel died in cell {letters.index('K') + 1}"
        return Run("died", ran, failed, f"{message} of {count}")
    if end not in (0, 1) or len(letters) < count:
        return Run("died", ran, failed, f"it ended {place}")
    return Run("ran", ran, failed)


_TOO_MUCH = {"memory": "much memory", "processes": "many processes"}


class _Stage:
    """The server in its jail; one for all chapters of this process."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self.socket = ours
        # Beneath /tmp: there each chapter gets a file system of its own.
        self.folder = Path(tempfile.mkdtemp(prefix="attn-", dir="/tmp"))
        self.log = self.folder / "log"
        with theirs, self.log.open("wb") as log:
            self.process = subprocess.Popen(
                _command(self.folder),
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=log,
                cwd="/",
                env=_environment(self.folder),
                start_new_session=True,
            )
        self.lines = ours.makefile("rb")
        self.is_ready = False
        # A worker of a pool ends without atexit's functions.
        self.at_exit = Finalize(None, self.close, exitpriority=1)

    def perform(self, files: dict[str, str], seconds: float) -> Any:
        """Return what the server says of a chapter.

        Raises:
            RuntimeError: it did not start.
            OSError: it says nothing in time.
            ValueError: what it says is not JSON.
        """
        if not self.is_ready:
            self.socket.settimeout(_START)
            with contextlib.suppress(OSError):
                self.is_ready = self.lines.readline() == b"ready\n"
        if not self.is_ready:
            log = self.log.read_text(encoding="utf-8", errors="replace")
            said = log[-500:].strip()
            raise RuntimeError(f"the stage did not start: {said}")
        task = self.folder / "task.json"
        task.write_text(json.dumps(files), encoding="utf-8")
        request = {"task": str(task), "seconds": seconds}
        try:
            self.socket.settimeout(seconds + _GRACE)
            self.socket.sendall(json.dumps(request).encode() + b"\n")
            return json.loads(self.lines.readline(_MOST))
        finally:
            task.unlink()

    def close(self) -> None:
        """End the server and all that it has started."""
        self.at_exit.cancel()
        self.lines.close()
        self.socket.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def _command(folder: Path) -> list[str]:
    package = Path(sources.__file__).resolve().parents[1]
    book = root().resolve()
    answers = [package / "exercises" / key for key in CHAPTERS]
    return isolation.command(
        SERVER,
        shown=[package, book / "notebooks", book / "book/benchmarks"],
        hidden=[book / "solutions", *answers],
        writable=[folder],
    )


def _environment(folder: Path) -> dict[str, str]:
    """Return the little that the server gets of this process's."""
    package = Path(sources.__file__).resolve().parents[1]
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "PYTHONPATH": str(package.parent),
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "TRITON_INTERPRET": "1",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }
