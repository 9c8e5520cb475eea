"""The learner's copies of the chapters, in ``workspace/``."""

from __future__ import annotations

from pathlib import Path

from attn.grading import notebooks


def fill(folder: Path) -> list[str]:
    """Copy the chapters that are not there yet; never touch one that is.

    Args:
        folder: the learner's own; made when it does not exist.

    Returns:
        What was done, a line each. A copy of an older version of a chapter
        is named, and left alone.
    """
    folder.mkdir(parents=True, exist_ok=True)
    told = []
    for path in notebooks.pristine():
        pristine = notebooks.read(path)
        version = _version(pristine)
        own = folder / path.name
        if not own.exists():
            copy = notebooks.without_ticks(pristine)
            copy.metadata["attn"] = {"version": version}
            notebooks.write(copy, own)
            told.append(f"{path.name}: copied")
            continue
        told.append(f"{path.name}: yours, left as it is{_news(own, version)}")
    return told


def _news(own: Path, version: str) -> str:
    try:
        had = notebooks.read(own).metadata.get("attn", {}).get("version")
    except ValueError:
        return " (it does not open as a notebook: rename it to get a new copy)"
    if had == version:
        return ""
    return (
        ". The book has a newer version of this chapter: rename yours and run "
        "`make lab` again to get it beside your work"
    )


def _version(notebook: object) -> str:
    """Changes when the text, the tasks or the demos of a chapter change."""
    cells = notebook.cells  # type: ignore[attr-defined]
    return notebooks.mark("\n".join(cell.source for cell in cells))
