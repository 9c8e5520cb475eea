"""A learner's progress, kept in ``.attn/`` beside the notebooks.

``progress.json`` has an entry for each exercise, ``kept/`` the text of every
answer that was reset. Nothing is written under pytest, nor under nbgrader.
"""

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any

_OFF = (
    "ATTN_NO_PROGRESS",
    "NBGRADER_EXECUTION",
    "PYTEST_CURRENT_TEST",
    "PYTEST_VERSION",
)


def folder() -> Path:
    """Return where progress is kept: a kernel runs beside its notebook."""
    return Path.cwd() / ".attn"


def is_enabled() -> bool:
    """Return False in a test, and while the book runs its own chapters."""
    return not any(name in os.environ for name in _OFF)


def load() -> dict[str, dict[str, Any]]:
    """Return the entries by exercise id; none when there is no file."""
    path = folder() / "progress.json"
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return entries if isinstance(entries, dict) else {}


def update(exercise_id: str, **entry: Any) -> None:
    """Change one entry.

    A folder that cannot be written to is no error: a check must not fail
    because of it.
    """
    if not is_enabled():
        return
    entries = load()
    entries[exercise_id] = {**entries.get(exercise_id, {}), **entry}
    text = json.dumps(entries, indent=1, ensure_ascii=False)
    with contextlib.suppress(OSError):
        _write(folder() / "progress.json", text)


def keep_answer(exercise_id: str, text: str) -> Path:
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
    """Replace a file in one step, so that a crash never leaves half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, path)
