"""Fill the points into a platform's own CSV of a class.

Canvas exports a gradebook, Moodle a grading worksheet, Gradescope a roster.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attn.grading.classroom import tables
from attn.grading.classroom.reports.class_ import Class
from attn.grading.classroom.result import number


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
        self._table, self._delimiter = tables.read(path)
        self._head, self._column = self._table[0], column
        names = tables.learners(self._table)
        if not names or column not in (None, *self._head):
            raise ValueError(
                f"{path} must have a column that names the learners, such as "
                f"ID or Email, and that of --column; got {self._head}"
            )
        rows: dict[str, set[int]] = {}  # that have a key
        for i, own in names.items():
            for x in own:
                rows.setdefault(tables.key(x), set()).add(i)
        #: The learners, present or absent, and other names of each.
        self.people = {x: [*own] for x, own in people.items()}
        self._rows: dict[str, int] = {}
        for learner, ids in people.items():
            found = [rows.get(tables.key(x), ()) for x in (*ids, learner)]
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
            words = {*tables.key(chapter).split()}
            named = [
                x for x in self._head if words <= {*tables.key(x).split()}
            ]
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
        return tables.text(self._table, self._delimiter)
