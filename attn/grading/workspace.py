"""The learner's copies of the chapters, in ``workspace/``."""

from pathlib import Path
from typing import Any

from attn.exercises.cells import without_check_outputs
from attn.grading import notebooks


def fill(folder: Path) -> list[str]:
    """Copy the chapters that are not there yet; leave the others as they are.

    Args:
        folder: the learner's own; made when it does not exist.

    Returns:
        A line for each chapter. It says when a copy is of an older version.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for path in notebooks.pristine():
        pristine, own = notebooks.read(path), folder / path.name
        version = _version(pristine)
        if own.exists():
            news = _news(own, version)
            lines.append(f"{path.name}: yours, left as it is{news}")
            continue
        copy = without_check_outputs(pristine)
        copy.metadata["attn"] = {"version": version}
        notebooks.write(copy, own)
        lines.append(f"{path.name}: copied")
    return lines


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


def _version(notebook: Any) -> str:
    """Hash the text, the tasks and the demos of a chapter."""
    return notebooks.digest("\n".join(x.source for x in notebook.cells))
