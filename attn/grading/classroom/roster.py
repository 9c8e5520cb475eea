"""Fill the points into a platform's own CSV of a class.

Canvas exports a gradebook, Moodle a grading worksheet, Gradescope a roster.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from attn.grading.classroom import reading
from attn.grading.classroom.reports.class_ import Class
from attn.grading.classroom.reports.wording import number

_NAMES = ("student", "full name", "name", "first name", "last name", "surname")
_IDS = (
    *("id", "identifier", "sis user id", "sis login id", "sid", "id number"),
    *("integration id", "login", "username", "email address", "email"),
)
_NOBODY = ("", "points possible", "student test")


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
        self,
        path: Path,
        column: str | None,
        people: Mapping[str, Sequence[str]],
    ) -> None:
        try:
            text, _ = reading.decode(path.read_bytes())
            self._delimiter = max(",;\t", key=text.partition("\n")[0].count)
            file = io.StringIO(text, newline="")
            self._table = [*csv.reader(file, delimiter=self._delimiter)]
        except (OSError, reading.Unreadable, csv.Error) as error:
            raise ValueError(f"{path} must be a CSV; {error}") from None
        self._column, self._head = column, self._table[0]
        columns = [x.strip().casefold() for x in self._head]
        is_known = column is None or column in self._head
        if not (is_known and {*columns} & {*_IDS, *_NAMES}):
            raise ValueError(
                f"{path} must have a column that names the learners, such as "
                f"ID or Email, and that of --column; got {self._head}"
            )
        #: The learners, present or absent, and other names of each.
        self.people = {name: [*ids] for name, ids in people.items()}
        self._rows: dict[str, int] = {}
        named = {}
        for i, row in enumerate(self._table[1:], 1):
            cells = [*zip(columns, map(str.strip, row), strict=False)]
            name = " ".join(x for column, x in cells if column in _NAMES)
            ids = [x for column, x in cells if column in _IDS and x]
            if _key(name or "".join(ids)) not in _NOBODY:
                named[i] = [name or ids[0], *ids]
        for learner, own in people.items():
            for key in map(_key, (*own, learner)):
                rows = [i for i, x in named.items() if key in map(_key, x)]
                if len(rows) == 1:
                    self._rows.setdefault(learner, rows[0])
        self.unknown = [x for x in people if x not in self._rows]
        for i, (name, *ids) in named.items():
            here = [x for x in people if self._rows.get(x) == i]
            if not here:
                here = [
                    f"{name} (row {i + 1})" if name in self.people else name
                ]
                self._rows[here[0]] = i
            for x in here:
                self.people.setdefault(x, []).extend([name, *ids])
        self.absent = [x for x in self.people if x not in people]

    def filled(self, class_: Class) -> str:
        """Return the table with the points of a class in it.

        A cell without points, of an unreadable file or of nothing handed in,
        stays as it was.
        """
        targets: dict[str, list[str]] = {}
        for chapter in class_.chapters:
            words = {*_key(chapter).split()}
            named = [x for x in self._head if words <= {*_key(x).split()}]
            named += [x for x in self._head if x.casefold() == "grade"]
            target = self._column or next(iter(named), chapter)
            targets.setdefault(target, []).append(chapter)
        table = [[*x] for x in self._table]
        table[0] += [x for x in targets if x not in self._head]
        for learner in class_.learners:
            row = table[self._rows.get(learner.name, 0)]
            for target, chapters in targets.items():
                counted = [x for x in chapters if x in learner.counted]
                points = sum(learner.counted[x].points for x in counted)
                if len(targets) == 1 and learner.total is not None:
                    points, counted = learner.total, chapters
                if counted and row is not table[0]:
                    row += [""] * (len(table[0]) - len(row))
                    row[table[0].index(target)] = str(number(points))
        file = io.StringIO()
        csv.writer(file, delimiter=self._delimiter).writerows(table)
        return file.getvalue()


def _key(text: str) -> str:
    """Return what is compared: the words, in order, without Moodle's own."""
    words = re.findall(r"[^\W_]+", text.casefold().replace("participant", ""))
    return " ".join(sorted(words))
