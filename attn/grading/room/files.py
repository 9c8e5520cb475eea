"""Name the files that are in the room: none of them holds a right answer."""

from __future__ import annotations

import shutil
from pathlib import Path

_ATTN = Path(__file__).resolve().parents[2]

FILES = str.split(
    """
    exercises/__init__.py exercises/case.py exercises/guard.py
    exercises/kernel.py exercises/kernel_errors.py exercises/mistakes.py
    exercises/triton_compat.py
    grading/__init__.py grading/chance.py grading/clock.py
    grading/forbidden.py grading/inputs.py grading/interpreter.py
    grading/memory.py grading/parameters.py grading/result.py grading/run.py
    grading/room/__init__.py grading/room/guarded.py grading/room/limits.py
    grading/room/policy.py grading/room/privileges.py
    grading/room/server.py grading/room/watch.py grading/room/wire.py
    grading/room/worker.py
    """
)


def furnish(folder: Path) -> Path:
    """Copy the room's files into a folder; return the server's."""
    for name in FILES:
        target = folder / "attn" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_ATTN / name, target)
    about = (
        '"""The part of attn that is beside an answer when it is graded."""\n'
    )
    (folder / "attn" / "__init__.py").write_text(about, "utf-8")
    return folder / "attn" / "grading" / "room" / "server.py"


def answers() -> list[Path]:
    """Return the folders that hold right answers, or what checks them."""
    root = _ATTN.parent
    names = ("attn", "solutions", "notebooks", "tests", "book", "_build")
    places = [root / name for name in (*names, ".git")]
    from attn.grading.room.jail import packages

    places += [x / name for x in packages() for name in ("attn", "solutions")]
    return [x for x in places if x.is_dir()]
