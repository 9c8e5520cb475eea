"""Fill the points into a platform's own CSV of a class.

Canvas exports a gradebook, Moodle a grading worksheet, Gradescope a roster.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from attn.grading.classroom import reading
from attn.grading.classroom.reports.class_ import Class
from attn.grading.classroom.result import number

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
        is_known = column in (None, *self._head)
        if not is_known or {*columns}.isdisjoint((*_IDS, *_NAMES)):
            raise ValueError(
                f"{path} must have a column that names the learners, such as "
                f"ID or Email, and that of --column; got {self._head}"
            )
        named: dict[int, list[str]] = {}  # the rows that are a learner's
        for i, row in enumerate(self._table[1:], 1):
            cells = [*zip(columns, map(str.strip, row), strict=False)]
            name = " ".join(x for column, x in cells if column in _NAMES)
            ids = [x for column, x in cells if column in _IDS and x]
            if _key(name or "".join(ids)) not in _NOBODY:
                named[i] = [name or ids[0], *ids]
        row_of = {_key(x): i for i, own in named.items() for x in own}
        count = Counter(x for y in named.values() for x in {*map(_key, y)})
        self._rows: dict[str, int] = {}
        for learner, own in people.items():
            keys = [x for x in map(_key, (*own, learner)) if count[x] == 1]
            if keys:
                self._rows[learner] = row_of[keys[0]]
        self.unknown = [x for x in people if x not in self._rows]
        for i, (name, *_) in named.items():
            if i not in self._rows.values():
                is_taken = name in people or name in self._rows
                self._rows[f"{name} (row {i + 1})" if is_taken else name] = i
        #: The learners, present or absent, and other names of each.
        self.people = {
            x: [*people.get(x, ()), *named.get(self._rows.get(x, 0), ())]
            for x in (*people, *self._rows)
        }
        self.absent = [x for x in self.people if x not in people]

    def filled(self, class_: Class) -> str:
        """Fill in the points of a class, and return the table.

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
        self._head += [x for x in targets if x not in self._head]
        for learner in class_.learners:
            at = self._rows.get(learner.name)
            row = self._table[at] if at else []
            for target, chapters in targets.items():
                own = {*chapters} & {*learner.counted}
                points = [learner.counted[x].points for x in own]
                if len(targets) == 1 and learner.total is not None:
                    points = [learner.total]
                if points:
                    row += [""] * (len(self._head) - len(row))
                    row[self._head.index(target)] = str(number(sum(points)))
        file = io.StringIO()
        csv.writer(file, delimiter=self._delimiter).writerows(self._table)
        return file.getvalue()


def _key(text: str) -> str:
    """Return what is compared: the words, in order, without Moodle's own."""
    words = re.findall(r"[^\W_]+", text.casefold().replace("participant", ""))
    return " ".join(sorted(words))
