"""Read and write a teacher's tables: CSV with commas, semicolons or tabs."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from attn.grading.classroom import reading

_NAMES = ("student", "full name", "name", "first name", "last name", "surname")
_IDS = (
    *("id", "identifier", "sis user id", "sis login id", "sid", "id number"),
    *("integration id", "login", "username", "email address", "email"),
)
_NOBODY = ("", "points possible", "student test")


def read(path: Path) -> tuple[list[list[str]], str]:
    """Return the rows of a table, and what separates its cells.

    Raises:
        ValueError: the file cannot be read, or is no CSV.
    """
    try:
        text, _ = reading.decode(path.read_bytes())
        delimiter = max(",;\t", key=text.partition("\n")[0].count)
        file = io.StringIO(text, newline="")
        return [*csv.reader(file, delimiter=delimiter)], delimiter
    except (OSError, reading.Unreadable, csv.Error) as error:
        raise ValueError(f"{path} must be a CSV; {error}") from None


def text(rows: Iterable[Iterable[Any]], delimiter: str = ",") -> str:
    """Return rows as the text of a CSV."""
    file = io.StringIO()
    csv.writer(file, delimiter=delimiter).writerows(rows)
    return file.getvalue()


def learners(table: list[list[str]]) -> dict[int, list[str]]:
    """Return the name and the ids of each learner, by the number of a row."""
    kinds = [x.strip().casefold() for x in table[0]]
    found = {}
    for i, row in enumerate(table[1:], 1):
        cells = [*zip(kinds, map(str.strip, row), strict=False)]
        name = " ".join(x for kind, x in cells if kind in _NAMES)
        ids = [x for kind, x in cells if kind in _IDS and x]
        if key(name or "".join(ids)) not in _NOBODY:
            found[i] = [name or ids[0], *ids]
    return found


def key(text: str) -> str:
    """Return what is compared: the words, in order, without Moodle's own."""
    words = re.findall(r"[^\W_]+", text.casefold().replace("participant", ""))
    return " ".join(sorted(words))
