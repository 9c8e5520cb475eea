"""Write a file in one step, and keep texts beside one another."""

from __future__ import annotations

import os
from pathlib import Path


def write(path: Path, text: str) -> None:
    """Write a file, and its folder: a crash leaves the old file, or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    draft.write_bytes(text.encode())
    os.replace(draft, path)


def keep(folder: Path, stem: str, text: str) -> Path:
    """Write a text to a new file of a folder, unless one has it already."""
    known = sorted(folder.glob(f"{stem}-*.py"))
    for path in known:
        if path.read_text("utf-8").strip() == text.strip():
            return path
    path = folder / f"{stem}-{len(known) + 1}.py"
    while path.exists():
        path = path.with_stem(path.stem + "-new")
    write(path, text.strip() + "\n")
    return path
