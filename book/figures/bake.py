"""Write a figure's numbers where its script finds them."""

from __future__ import annotations

import json
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "_static" / "touch"


def bake(name: str, numbers: dict[str, object]) -> None:
    """Write ``numbers`` as the data of the figure ``name``.

    A script, not JSON: a page that is opened as a file may not fetch.
    """
    path = FOLDER / f"{name}.data.js"
    path.write_text(text(name, numbers), encoding="utf-8")


def text(name: str, numbers: dict[str, object]) -> str:
    lines = json.dumps(numbers, ensure_ascii=False, separators=(",", ":"))
    return f"Play.data.{name} = {lines};\n"
