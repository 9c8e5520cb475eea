"""What a learner has done so far, kept beside the learner's notebooks.

Two things stand in ``.attn/``: ``progress.json``, and ``kept/``, the text of
every answer that was reset. Nothing is written under pytest.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any


def folder() -> Path:
    """Where the record stands: a kernel runs beside its notebook."""
    return Path.cwd() / ".attn"


def is_recording() -> bool:
    """False under pytest, and while the book itself runs its chapters."""
    off = ("PYTEST_VERSION", "PYTEST_CURRENT_TEST", "ATTN_NO_RECORD")
    return not any(name in os.environ for name in off)


def load() -> dict[str, dict[str, Any]]:
    """The record, exercise id to entry; empty when there is none."""
    path = folder() / "progress.json"
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return entries if isinstance(entries, dict) else {}


def update(exercise_id: str, **entry: Any) -> None:
    """Change one entry. A folder that cannot be written is no error: a
    learner's check must not fail for it."""
    if not is_recording():
        return
    entries = load()
    entries[exercise_id] = {**entries.get(exercise_id, {}), **entry}
    text = json.dumps(entries, indent=1, ensure_ascii=False)
    with contextlib.suppress(OSError):
        _write(folder() / "progress.json", text)


def keep(exercise_id: str, text: str) -> Path:
    """Save the text of an answer before it is replaced."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    path = folder() / "kept" / f"{exercise_id}-{stamp}.py"
    number = 1
    while path.exists():
        number += 1
        path = path.with_name(f"{exercise_id}-{stamp}-{number}.py")
    _write(path, text + "\n")
    return path


def _write(path: Path, text: str) -> None:
    """All or nothing, so that a crash never leaves half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, path)
