"""Read and fill a teacher's tables: CSV with commas, semicolons or tabs.

``marks.csv`` has the points and comments that a teacher gives by hand. A row
without an exercise gives the total; of two alike the last counts::

    ana,gqa-repeat_kv,1.5,"right idea, wrong axis"

The points are filled into a platform's own CSV of the class: Canvas exports a
gradebook, Moodle a grading worksheet, Gradescope a roster.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attn.grading.classroom import reading
from attn.grading.classroom.result import ByHand, Mark, Result, number

if TYPE_CHECKING:
    from attn.grading.classroom.reports.class_ import Class

MARKS, MARKS_HEAD = "marks.csv", "learner,exercise,points,comment"
_NAMES = ("student", "full name", "name", "first name", "last name", "surname")
_IDS = (
    *("id", "identifier", "sis user id", "sis login id", "sid", "id number"),
    *("integration id", "login", "username", "email address", "email"),
)
_NOBODY = ("", "points possible", "student test")


def read_marks(path: Path, people: Mapping[str, Sequence[str]]) -> ByHand:
    """Return what a teacher wrote, by learner and exercise.

    Raises:
        ValueError: the file is no CSV, or a row is wrong.
    """
    has_rows = path.exists() and path.stat().st_size
    table = _read(path)[0] if has_rows else []
    by_hand: dict[tuple[str, str], tuple[float | None, str]] = {}
    for line, row in enumerate(table, 1):
        cells = [x.strip() for x in row]
        if not any(cells) or (line == 1 and cells == MARKS_HEAD.split(",")):
            continue
        name, exercise, points, comment = [*cells, *4 * [""]][:4]
        named = [x for x, ids in people.items() if name in (x, *ids)]
        is_number = re.fullmatch(r"(\d+([.,]\d*)?)?", points)
        if not (name and len(named) == 1 and is_number and len(cells) == 4):
            raise ValueError(
                f"{path}, row {line} must be {MARKS_HEAD}, of one learner "
                f"({', '.join(named or [*people][:3])}, …) or an id, with "
                f"points from 0; got {', '.join(cells)}"
            )
        value = float(points.replace(",", ".")) if points else None
        by_hand[named[0], exercise] = value, comment
    return by_hand


def applied(results: Iterable[Result], by_hand: ByHand) -> list[Result]:
    """Return results with the points and the comments of exercises."""
    return [
        replace(
            x, marks=tuple(_changed(x.learner, y, by_hand) for y in x.marks)
        )
        for x in results
    ]


def _changed(learner: str, mark: Mark, by_hand: ByHand) -> Mark:
    points, comment = by_hand.get((learner, mark.exercise), (None, ""))
    if points is not None:
        comment = f"it was judged as {mark.points}. {comment}".strip()
        mark = replace(mark, points=points)
    note = (f"by hand: {comment}",) if comment else ()
    return replace(mark, notes=mark.notes + note)


class Roster:
    """A table with a row for each learner.

    A learner is found by an id, a login or an address, then by the name,
    with its words in any order. What two rows have is no match.

    Args:
        path: of the CSV.
        column: takes the points; by default that with the chapter's name,
            else one called Grade, else a new one.
        people: the learners with a submission, and the ids of each.

    Raises:
        ValueError: the file is no CSV, or has no such column.
    """

    def __init__(
        self, path: Path, column: str | None, people: Mapping[str, list[str]]
    ) -> None:
        self._table, self._delimiter = _read(path)
        self._head, self._column = self._table[0], column
        names = _learners(self._table)
        if not names or column not in (None, *self._head):
            raise ValueError(
                f"{path} must have a column that names the learners, such as "
                f"ID or Email, and that of --column; got {self._head}"
            )
        rows: dict[str, set[int]] = {}  # that have a key
        for i, own in names.items():
            for x in own:
                rows.setdefault(_key(x), set()).add(i)
        #: The learners, present or absent, and other names of each.
        self.people = {x: [*own] for x, own in people.items()}
        self._rows: dict[str, int] = {}
        for learner, ids in people.items():
            found = [rows.get(_key(x), ()) for x in (*ids, learner)]
            for (i,) in [x for x in found if len(x) == 1][:1]:
                self._rows[learner] = i
                self.people[learner] += names[i]
        self.unknown = [x for x in people if x not in self._rows]
        for i in sorted(names.keys() - self._rows.values()):
            name = names[i][0]
            name += f" (row {i + 1})" * (name in self.people)
            self._rows[name], self.people[name] = i, names[i]
        self.absent = [x for x in self.people if x not in people]

    def filled(self, class_: Class) -> str:
        """Return the table with the points of a class in it.

        A cell without points, of an unreadable file or of nothing handed in,
        stays as it was.
        """
        columns = {}
        for chapter in class_.chapters:
            words = {*_key(chapter).split()}
            named = [x for x in self._head if words <= {*_key(x).split()}]
            named += [x for x in self._head if x.casefold() == "grade"]
            columns[chapter] = self._column or [*named, chapter][0]
        each = dict.fromkeys(columns.values())
        self._head += [x for x in each if x not in self._head]
        for learner in class_.learners:
            sums = dict.fromkeys((columns[x] for x in learner.counted), 0.0)
            for chapter, result in learner.counted.items():
                sums[columns[chapter]] += result.points
            if len(each) == 1 and learner.total is not None:
                sums = dict.fromkeys(each, learner.total)
            at = self._rows.get(learner.name)
            row = self._table[at] if at else []
            for column, points in sums.items():
                row += [""] * (len(self._head) - len(row))
                row[self._head.index(column)] = str(number(points))
        return text(self._table, self._delimiter)


def _read(path: Path) -> tuple[list[list[str]], str]:
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


def _learners(table: list[list[str]]) -> dict[int, list[str]]:
    """Return the name and the ids of each learner, by the number of a row."""
    kinds = [x.strip().casefold() for x in table[0]]
    found = {}
    for i, row in enumerate(table[1:], 1):
        cells = [*zip(kinds, map(str.strip, row), strict=False)]
        name = " ".join(x for kind, x in cells if kind in _NAMES)
        ids = [x for kind, x in cells if kind in _IDS and x]
        if _key(name or "".join(ids)) not in _NOBODY:
            found[i] = [name or ids[0], *ids]
    return found


def _key(text: str) -> str:
    """Return what is compared: the words, in order, without Moodle's own."""
    words = re.findall(r"[^\W_]+", text.casefold().replace("participant", ""))
    return " ".join(sorted(words))
