"""Join what a teacher has beside the submissions: a roster, marks by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from attn.grading.classroom import marks
from attn.grading.classroom.marks import ByHand, Remark
from attn.grading.classroom.result import Result
from attn.grading.classroom.roster import Roster
from attn.grading.classroom.submissions import Submission


@dataclass(frozen=True)
class Register:
    """Hold the learners of a class, and what a teacher wrote of them.

    Args:
        by_hand: the marks by hand.
        roster: the platform's table, if there is one.
        rows: of the learners in it.
        absent: the learners without a submission.
        unknown: the learners that are not in the roster.
    """

    by_hand: ByHand
    roster: Roster | None = None
    rows: dict[str, int] = field(default_factory=dict)
    absent: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        submissions: Iterable[Submission],
        out: Path,
        roster: Path | None = None,
        column: str | None = None,
    ) -> Register:
        """Read the files of a teacher.

        Args:
            submissions: of the batch.
            out: its folder, with the marks by hand.
            roster: the CSV of a platform.
            column: of the roster, for the points.

        Raises:
            ValueError: a file is wrong.
        """
        people: dict[str, tuple[str, ...]] = {}
        for x in submissions:
            people[x.learner] = people.get(x.learner, ()) + x.ids
        path = out / marks.NAME
        if roster is None:
            if column is not None:
                raise ValueError("--column must come with --roster")
            return cls(marks.read(path, people))
        table = Roster(roster, column)
        matched, absent = table.matched(people), table.absent(people)
        rows = matched | absent
        for name, row in rows.items():
            others = people.get(name, ())
            people[name] = (*others, table.name(row), *table.ids(row))
        return cls(
            marks.read(path, people),
            table,
            rows,
            tuple(absent),
            tuple(x for x in people if x not in rows),
        )

    def applied(
        self, results: Sequence[Result]
    ) -> tuple[list[Result], dict[str, Any]]:
        """Return the results with marks by hand, and the rest for reports."""
        changed, remarks = self.by_hand.applied(results)
        return changed, {"remarks": remarks, "absent": self.absent}

    def without_column(
        self, results: Iterable[Result], remarks: Mapping[str, Remark]
    ) -> list[str]:
        """Return the learners whose total by hand the roster does not get.

        It has a column for each chapter, and none for the total.
        """
        chapters = dict.fromkeys(x.chapter for x in results if x.chapter)
        if not self.roster or self.roster.has_total(chapters):
            return []
        return [
            name
            for name, x in remarks.items()
            if x.points is not None and name in self.rows
        ]

    @property
    def filled(self) -> Any:
        """A function that fills a batch's points into the roster, or None."""
        return self.roster and partial(self.roster.filled, rows=self.rows)
