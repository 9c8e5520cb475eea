"""Fill the marks into a platform's own table of a class.

Canvas exports a gradebook, Moodle a grading worksheet, Gradescope a roster.
Each is a CSV with a row for each learner. Its cells are kept as they are,
byte for byte, and only those of the marks are written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from attn.grading.classroom.reports.batch import Batch
from attn.grading.classroom.reports.learner import Learner
from attn.grading.classroom.reports.wording import number

#: The columns that name a learner, the most certain first.
_IDS = (
    *("id", "identifier", "sis user id", "sis login id", "sid", "id number"),
    *("integration id", "username", "email address", "email"),
)
_NAMES = ("student", "full name", "name")
_FIRST, _LAST = ("first name", "given name"), ("last name", "surname")
_NOBODY = ("", "points possible", "student, test", "test student")


@dataclass(frozen=True)
class _Row:
    cells: list[str]  # as they are in the file, with their quotes
    end: str

    def value(self, column: int) -> str:
        cell = self.cells[column] if column < len(self.cells) else ""
        if len(cell) > 1 and cell[0] == cell[-1] == '"':
            cell = cell[1:-1].replace('""', '"')
        return cell.strip()


class Roster:
    """A table of a class, as a platform exports it.

    Args:
        path: of the CSV.
        column: takes the points; by default the column of each chapter
            that has its name, else one called Grade, else a new one.

    Raises:
        ValueError: the file cannot be read, has no column that names the
            learners, or no such column.
    """

    def __init__(self, path: Path, column: str | None = None) -> None:
        self.path = path
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ValueError(f"{path} must be a CSV; {error}") from None
        try:
            self._codec = "utf-8"
            text = data.decode()
        except UnicodeDecodeError:
            self._codec = "latin-1"  # any byte is a character of it
            text = data.decode("latin-1")
        self._mark = "\ufeff" if text.startswith("\ufeff") else ""
        text = text.removeprefix("\ufeff")
        first = text.partition("\n")[0]
        self._delimiter = max(",;\t", key=first.count)
        self._rows = _split(text, self._delimiter)
        head = self._rows[0] if self._rows else _Row([], "")
        self.head = [head.value(i) for i in range(len(head.cells))]
        self._ids = self._columns(*_IDS)
        self._full = self._columns(*_NAMES)
        self._parts = [self._columns(*x) for x in (_FIRST, _LAST)]
        if not (self._ids or self._full or all(self._parts)):
            raise ValueError(
                f"{path} must have a column that names the learners, such as "
                f"Student, ID, Full name or Email; got {', '.join(self.head)}"
            )
        if column is not None and self.head.count(column) != 1:
            raise ValueError(
                f"--column must be one of {', '.join(self.head)}; "
                f"got {column!r}"
            )
        self._column = column

    def _columns(self, *names: str) -> list[int]:
        lower = [x.casefold() for x in self.head]
        return [lower.index(x) for x in names if x in lower]

    # --- its learners --------------------------------------------------------

    def name(self, row: int) -> str:
        """Return the name of the learner in a row; "" if there is none."""
        found = self._rows[row]
        if self._full:
            name = found.value(self._full[0])
        else:
            name = " ".join(found.value(x[0]) for x in self._parts if x)
        name = name or next(filter(None, map(found.value, self._ids)), "")
        return "" if name.casefold() in _NOBODY else name

    def _people(self) -> list[int]:
        return [i for i in range(1, len(self._rows)) if self.name(i)]

    def ids(self, row: int) -> tuple[str, ...]:
        """Return what else names the learner in a row."""
        values = (self._rows[row].value(i) for i in self._ids)
        return tuple(dict.fromkeys(filter(None, values)))

    def matched(self, people: Mapping[str, Sequence[str]]) -> dict[str, int]:
        """Return the row of each learner that has one.

        An id, a login or an address counts first, then the name. What two
        rows have is no match, unless the name of one of them is.

        Args:
            people: the names of learners, and the ids of each.
        """
        rows = self._people()
        known = {i: {*map(_id, self.ids(i))} for i in rows}
        names = {i: _keys(self.name(i)) for i in rows}
        found = {}
        for name, ids in people.items():
            own = {*map(_id, (*ids, name))} - {""}
            by_id = [i for i in rows if own & known[i]]
            by_name = [i for i in by_id or rows if _keys(name) & names[i]]
            for match in (by_id, by_name):
                if len(match) == 1:
                    found[name] = match[0]
                    break
        return found

    def absent(self, people: Mapping[str, Sequence[str]]) -> dict[str, int]:
        """Return the learners without a submission, by name."""
        present = set(self.matched(people).values())
        rows: dict[str, int] = {}
        for i in self._people():
            if i not in present:
                name = self.name(i)
                is_taken = name in rows or name in people
                rows[f"{name} (row {i + 1})" if is_taken else name] = i
        return rows

    # --- its marks -----------------------------------------------------------

    def filled(self, batch: Batch, rows: Mapping[str, int]) -> bytes:
        """Return the file with the points of a batch in it.

        A cell without points, of an unreadable file or of nothing handed in,
        stays as it was.

        Args:
            batch: gives the points.
            rows: of its learners, by name.

        Raises:
            ValueError: two columns have a chapter's name.
        """
        learners: dict[int, list[Learner]] = {}
        for learner in batch.learners:
            if learner.name in rows:
                learners.setdefault(rows[learner.name], []).append(learner)
        wanted = self._targets([*batch.chapters])
        names = [*self.head, *(x for x in wanted if isinstance(x, str))]
        new = []
        for i, row in enumerate(self._rows):
            cells = [*row.cells]
            if cells != [""] and len(names) > len(self.head):
                cells += [""] * (len(names) - len(cells))
            for target, chapter in wanted.items():
                at = names.index(target) if isinstance(target, str) else target
                text = self._points(learners.get(i, []), chapter)
                text = str(target) if i == 0 and at >= len(self.head) else text
                if text:
                    cells += [""] * (at + 1 - len(cells))
                    cells[at] = text
            new.append(self._delimiter.join(cells) + row.end)
        return (self._mark + "".join(new)).encode(self._codec)

    def has_total(self, chapters: Iterable[str]) -> bool:
        """Return whether a column takes the total of these chapters."""
        return "" in self._targets([*chapters]).values()

    def _targets(self, chapters: list[str]) -> dict[int | str, str]:
        """Return the columns to fill, new ones by name, with their chapters.

        A column of the total has the chapter "".
        """
        if self._column is not None:
            return {self.head.index(self._column): ""}
        targets: dict[int | str, str] = {}
        for chapter in chapters:
            plain = _letters(chapter)
            named = [i for i, x in enumerate(self.head) if plain in _task(x)]
            if len(named) > 1:
                both = ", ".join(self.head[i] for i in named)
                raise ValueError(
                    f"one column of {self.path} must have the name of "
                    f"{chapter}; got {both}: choose with --column"
                )
            targets[named[0] if named else chapter] = chapter
        grade = self._columns("grade")
        if grade and all(isinstance(x, str) for x in targets):
            return {grade[0]: ""}
        return dict.fromkeys(targets, "") if len(targets) == 1 else targets

    def _points(self, learners: list[Learner], chapter: str) -> str:
        if not learners:
            return ""
        merged = Learner.merged(learners)
        if not chapter:
            return str(number(merged.points)) if merged.has_points else ""
        counted = merged.counted.get(chapter)
        return "" if counted is None else str(number(counted.points))


def _split(text: str, delimiter: str) -> list[_Row]:
    cell = re.compile(
        rf'("(?:[^"]|"")*"|(?!")[^{delimiter}\r\n]*)'
        rf"({delimiter}|\r\n|\n|\r|\Z)"
    )
    rows, cells, at = [], [], 0
    while at < len(text):
        match = cell.match(text, at)
        if not match:
            line = text.count("\n", 0, at) + 1
            raise ValueError(
                f"line {line} of a CSV must have quotes around whole cells"
            )
        cells.append(match[1])
        at = match.end()
        if match[2] != delimiter:
            rows.append(_Row(cells, match[2]))
            cells = []
    if cells:
        rows.append(_Row([*cells, ""], ""))
    return rows


def _id(text: str) -> str:
    return text.strip().casefold().removeprefix("participant ")


def _letters(text: str) -> str:
    return "".join(x for x in text.casefold() if x.isalnum())


def _task(header: str) -> str:
    return _letters(re.sub(r"\s*\(\d+\)\s*$", "", header))


def _keys(name: str) -> set[str]:
    """Return what a name is compared by: its words, and Canvas's one word."""
    words = re.findall(r"\w+", name.casefold())
    return {" ".join(sorted(words)), _letters(name)} - {""}
