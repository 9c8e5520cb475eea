"""Keep answers that no longer count, as files beside the notebooks."""

from __future__ import annotations

import time
from pathlib import Path

from attn.data.files import write

FOLDER = "kept answers"


def keep(exercise_id: str, text: str) -> str:
    """Save the text of an answer, if there is any; return where it is."""
    if not text.strip():
        return ""
    for path in folder().glob(f"{exercise_id}-*.py"):
        if path.read_text("utf-8").strip() == text.strip():
            return f"{FOLDER}/{path.name}"
    stamp = time.strftime("%Y%m%d-%H%M%S")
    return f"{FOLDER}/{_new(f'{exercise_id}-{stamp}', text).name}"


def folder() -> Path:
    """Return the folder; what an older one holds, out of sight, moves here."""
    for path in (Path.cwd() / ".attn" / "kept").glob("*.py"):
        _new(path.stem, path.read_text("utf-8"))
        path.unlink()
    return Path.cwd() / FOLDER


def _new(stem: str, text: str) -> Path:
    path, number = Path.cwd() / FOLDER / f"{stem}.py", 1
    while path.exists():
        number += 1
        path = path.with_stem(f"{stem}-{number}")
    write(path, text.strip() + "\n")
    return path
