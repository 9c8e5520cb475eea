"""Read the recorded claims: their values over seeds, and the longer runs.

``record/`` holds one file a chapter, with an entry for each experiment: the
digest of the cells that it is made of, its provenance, and each run with its
claims. A longer run keeps its result, for the page to show.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("record")

#: Set in a process that repeats experiments: claims are kept, not asserted.
REPEATING = False


def chapter(stem: str) -> dict[str, Any]:
    """Return the entries of a chapter's experiments, by name."""
    path = FOLDER / f"{stem}.json"
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def chapters() -> dict[str, dict[str, Any]]:
    """Return the entries of all chapters that have any, in order."""
    paths = sorted(FOLDER.glob("*.json"))
    return {path.stem: chapter(path.stem) for path in paths}


def write(stem: str, entries: dict[str, Any], names: list[str]) -> None:
    """Store the entries of a chapter's experiments, and no others."""
    FOLDER.mkdir(exist_ok=True)
    kept = {name: entries[name] for name in names if name in entries}
    text = json.dumps(kept, indent=1, ensure_ascii=False) + "\n"
    (FOLDER / f"{stem}.json").write_text(text, "utf-8")


def result(name: str, seed: int, steps: int | None) -> Any:
    """Return what a recorded run of an experiment measured.

    Raises:
        LookupError: there is no such run; names the command that makes it.
    """
    for entries in chapters().values():
        for run in entries.get(name, {}).get("runs", ()):
            same = (run["seed"], run["steps"]) == (seed, steps)
            if same and "result" in run:
                return run["result"]
    raise LookupError(
        f"no recorded run of {name} with seed {seed} and {steps} steps: "
        "`make claims` makes it"
    )
