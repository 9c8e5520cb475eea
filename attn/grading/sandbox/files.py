"""Name the files in the sandbox: none of them holds a right answer."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

_ATTN = Path(__file__).resolve().parents[2]

FILES = str.split(
    """
    arguments.py
    exercises/__init__.py exercises/case.py exercises/guard.py
    exercises/kernel.py exercises/kernel_errors.py exercises/launches.py
    exercises/triton_compat.py
    grading/__init__.py grading/checks/__init__.py grading/checks/clock.py
    grading/checks/effects.py grading/checks/forbidden.py
    grading/checks/inputs.py grading/checks/objects.py
    grading/checks/result.py grading/checks/run.py
    grading/sandbox/__init__.py grading/sandbox/guarded.py
    grading/sandbox/limits.py grading/sandbox/missing.py
    grading/sandbox/policy.py grading/sandbox/rewriting.py
    grading/sandbox/server.py grading/sandbox/silent.py
    grading/sandbox/watch.py
    grading/sandbox/wire.py grading/sandbox/worker.py
    profiling/__init__.py profiling/calls.py profiling/compat.py
    profiling/kernel_traffic.py
    profiling/live_memory.py
    """
)


def populate(folder: Path) -> Path:
    """Copy the sandbox's files into a folder; return the server's."""
    for name in FILES:
        target = folder / "attn" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_ATTN / name, target)
    about = (
        '"""The part of attn that is beside an answer when it is graded."""\n'
    )
    (folder / "attn" / "__init__.py").write_text(about, "utf-8")
    return folder / "attn" / "grading" / "sandbox" / "server.py"


def answers() -> list[Path]:
    """Return the folders that hold right answers, or what checks them."""
    root = _ATTN.parent
    names = ("attn", "solutions", "notebooks", "tests", "book", "_build")
    places = [root / name for name in (*names, ".git")]
    from attn.grading.sandbox.isolation import packages

    places += [x / name for x in packages() for name in ("attn", "solutions")]
    return [x for x in places if x.is_dir()]


def state_folder() -> Path:
    """Return the folder of the key that seals results; make it if need be.

    It is made before the first sandbox, which hides what is there.
    """
    import platformdirs

    folder = Path(platformdirs.user_state_dir("attn"))
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder
