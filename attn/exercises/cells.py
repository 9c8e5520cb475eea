"""Find what a chapter states once: its exercises' cells, and its box.

nbgrader's metadata marks the stub of an exercise and its check. A notebook is
a dict, as JSON or nbformat reads it, so that the book can be built without
either.
"""

from __future__ import annotations

import copy
import re
from typing import Any

CHECK = "check-"
#: The tag of a cell whose figure the page makes interactive.
TOUCH = "touch-"
#: A line that calls the check of an exercise.
CHECK_CALL = re.compile(
    r"""(?m)^check\(\s*(['"])(?P<id>[\w-]+)\1\s*\)(?:[^\S\n]|;)*(?:#.*)?$"""
)
_BOX = re.compile(r"(?s)\*\*You need\*\*(.+?)\n\n.+?in about (\d+) minutes")


def exercise_id(cell: Any) -> str | None:
    """Return the exercise that is written in this cell."""
    about = _metadata(cell)
    if not about.get("solution") or about.get("grade"):
        return None
    return about.get("grade_id")


def checked_id(cell: Any) -> str | None:
    """Return the exercise that this cell checks."""
    about = _metadata(cell)
    if not about.get("grade"):
        return None
    return about.get("grade_id", "").removeprefix(CHECK) or None


def adopt_checks(cells: Any) -> None:
    """Let a cell that calls a check replace the check's own, if it is gone."""
    known = {checked_id(x) for x in cells}
    for cell in cells:
        calls = CHECK_CALL.finditer(cell["source"])
        called = {x["id"] for x in calls} - known
        if not checked_id(cell) and cell["cell_type"] == "code" and called:
            name = min(called)
            about = {"grade": True, "grade_id": f"{CHECK}{name}"}
            cell["metadata"]["nbgrader"] = about
            known.add(name)


def without_checks(source: str) -> str:
    """Return a cell's source without its calls of checks."""
    return CHECK_CALL.sub("", source).strip()


def stub_digest(cell: Any) -> str | None:
    """Return the digest of what was handed out in this cell."""
    return cell["metadata"].get("attn", {}).get("stub")


def points(notebook: Any) -> dict[str, int]:
    """Return the points of each exercise that the notebook checks."""
    return {
        name: cell["metadata"]["nbgrader"]["points"]
        for cell in notebook["cells"]
        if (name := checked_id(cell))
    }


def box(notebook: Any) -> tuple[str, str]:
    """Return what a chapter needs, and the minutes that it takes.

    Raises:
        ValueError: no cell has both.
    """
    for cell in notebook["cells"]:
        if found := _BOX.search("".join(cell["source"])):
            return found[1], found[2]
    raise ValueError(
        "a chapter must have **You need** …, in about … minutes; got "
        + repr("".join(notebook["cells"][0]["source"])[:60])
    )


def touched(cell: Any) -> list[str]:
    """Return the names of the interactive figures that follow a cell."""
    tags = cell["metadata"].get("tags", [])
    return [x.removeprefix(TOUCH) for x in tags if x.startswith(TOUCH)]


def touching(name: str) -> str:
    """Return the code of a copy's cell that shows an interactive figure."""
    return f'from attn.publishing import touch\n\ntouch("{name}")'


def without_check_outputs(notebook: Any) -> Any:
    """Return a copy whose checks show nothing: the work is still to do."""
    notebook = copy.deepcopy(notebook)
    for cell in notebook["cells"]:
        if checked_id(cell):
            cell["outputs"], cell["execution_count"] = [], None
    return notebook


def as_printed(cell: Any) -> None:
    """Put its text in place of each of a learner's cards below a cell.

    A card without a stream is what lab said: it is no part of a result.
    """
    for output in [*cell.get("outputs", [])]:
        stream = output.get("metadata", {}).get("attn", {}).get("stream")
        if stream:
            text = output["data"]["text/plain"] + "\n"
            output.clear()
            output.update(output_type="stream", name=stream, text=text)
        elif stream == "":
            cell["outputs"].remove(output)


def _metadata(cell: Any) -> Any:
    if cell["cell_type"] != "code":
        return {}
    return cell["metadata"].get("nbgrader", {})
