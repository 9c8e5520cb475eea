"""Run a notebook in the sandbox: with the book's help, and without.

The first run is that of the notebook: an exercise is judged at its check, and
where it is wrong the notebook goes on with the book's answer, so that the
mistake counts once. An exercise that only a later cell completes is judged
again, at the end of a second run, in a new process that gets no answer of the
book's: *no process in which an exercise is judged has ever held the book's
text of it*.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence

from attn.exercises import answers, sources
from attn.exercises.bindings import bound
from attn.exercises.spec import Exercise, chapter, find
from attn.grading.classroom.plan import Judge, Own, Plan, Step, python_of
from attn.grading.classroom.result import Status
from attn.grading.diagnosis.judge import Verdict
from attn.grading.sandbox.requests import Cell, Check
from attn.grading.sandbox.session import Answer, CellDied, Note, Session

_RESTARTS = 3  # of a notebook's process, without what ended it
_MOST_NOTES = 3  # on a page, for one exercise
#: Kinds of notes that are no errors of Python's, and what they come to.
_ENDED: dict[str, Status] = {"OutOfTime": "out of time", "Died": "died"}
Graded = tuple[Status, Verdict]


class NotebookRun:
    """The runs of one notebook: one with the book's help, one without.

    Args:
        plan: of the notebook.
        start: its process.
        judge: an answer's process, forked at a check; given all Python.
        timeout: seconds on the wall for one exercise.
    """

    def __init__(
        self,
        plan: Plan,
        start: Callable[[Plan], Session],
        judge: Callable[[Exercise, Answer, str], Graded],
        timeout: float,
    ) -> None:
        self._plan, self._timeout = plan, timeout
        self._text = plan.python  # parsed before any time counts
        self._start, self._verdict = start, judge
        self._left = timeout / 3  # for cells
        self._slack = self._left  # for imports; less after a death
        self._raised: dict[Own, list[Note]] = {}
        self._why = "its notebook's process could not be kept running"

    def judged(self) -> dict[str, Graded]:
        """Return what became of each exercise, in the chapter's order."""
        names = [x.id for x in chapter(self._plan.key)]
        own, steps = self._plan.own, [*self._plan.steps]
        while isinstance(steps[-1], Own):
            steps.pop()  # nothing is judged below it
        graded = self._run(steps, helped=True)
        again = [x for x in names if x not in graded]
        again += [x for x, y in graded.items() if self._may_gain(x, y[1])]
        if again:
            self._left = max(self._left, self._timeout / 6)
            # A helper may be below its use.
            twice: list[Step] = [*own, *own, *map(Judge, again)]
            better = self._run(twice, helped=False)
            graded = better | graded
            graded |= {x: y for x, y in better.items() if y[1].passed}
        died: Graded = "died", Verdict(False, self._why)
        return {x: graded.get(x, died) for x in names}

    def notes(self, used: set[str]) -> tuple[str, ...]:
        """Say which cells that an answer may need did not run to the end."""
        texts = [
            _said(f"cell {own.number}", note)
            for own, notes in self._raised.items()
            for note in notes
            if note.kind in _ENDED or used & bound(own.text)
        ]
        return tuple(dict.fromkeys(texts))[:_MOST_NOTES]

    def _run(self, steps: list[Step], helped: bool) -> dict[str, Graded]:
        """Judge in a process; after a death in another, without its cause.

        Where ``helped``, the book's answer comes after a wrong one.
        """
        graded: dict[str, Graded] = {}
        for _ in range(1 + _RESTARTS):
            try:
                with self._start(self._plan) as session:
                    for n, step in enumerate(steps, 1):
                        if isinstance(step, Own):
                            self._run_cell(session, step)
                            continue
                        name = step.exercise
                        if name not in graded:
                            graded[name] = self._judge(session, name)
                        is_wrong = not graded[name][1].passed
                        if helped and is_wrong and n < len(steps):
                            text = sources.solution(name)
                            session.give(text, slack=self._timeout / 3)
                    break
            except CellDied as died:
                self._slack = self._timeout / 12
                self._why = f"{died.note.text}, in the notebook's process"
        return graded

    def _run_cell(self, session: Session, own: Own) -> None:
        """Run a cell, without the statements that would not end again."""
        ended = [x for x in self._raised.get(own, ()) if x.kind in _ENDED]
        skip = frozenset(x.statement for x in ended)
        cell = Cell(own.number, own.text, self._timeout / 12, self._left, skip)
        start = time.monotonic()
        try:
            if self._left < -self._timeout:
                raise CellDied(Note(0, "Died", "its cells take too long"))
            notes, spent = session.run(cell, self._slack)
        except CellDied as died:
            ended.append(died.note)
            raise
        finally:
            self._raised[own] = ended
        ended += notes
        # Its process says what it spent: a quarter of the wall's at least.
        self._left -= max(spent, (time.monotonic() - start) / 4)

    def _judge(self, session: Session, name: str) -> Graded:
        exercise, plan = find(name), self._plan
        if said := plan.settled.get(name):
            is_stub = said == answers.NOT_STARTED
            return "not written" if is_stub else "wrong", Verdict(False, said)
        if name in plan.written and self._has_failed(exercise):
            return self._undefined(exercise)
        if _mention(plan.own, exercise):
            check = Check(exercise.name, exercise.form, exercise.usual())
            with session.check(check, self._timeout) as answer:
                graded = self._verdict(exercise, answer, self._text)
            if not isinstance(answer.undefined, NameError):
                return graded
            if name in plan.written:
                return self._undefined(exercise)
        if name in plan.stubs:
            return "not written", Verdict(False, answers.NOT_STARTED)
        return "missing", Verdict(False, "nothing in the notebook defines it")

    def _has_failed(self, exercise: Exercise) -> bool:
        """Return whether what defines it raised, and an older one is left."""
        *others, number = self._plan.written[exercise.id]
        cells = [(x, y) for x, y in self._raised.items() if x.number == number]
        has_raised = bool(others) and any(notes for _, notes in cells)
        return has_raised and not any(
            answers.defines(exercise.name, python_of(x.text)[0], notes)
            for x, notes in cells
        )

    def _undefined(self, exercise: Exercise) -> Graded:
        """Say why the cells of an exercise left nothing under its name."""
        message = f"no cell of the notebook defines {exercise.name}"
        status: Status = "missing"
        for number in self._plan.written[exercise.id]:
            for own, notes in self._raised.items():
                if notes and own.number == number:
                    message = _said(f"the cell of {exercise.name}", notes[0])
                    status = _ENDED.get(notes[0].kind, "wrong")
        return status, Verdict(False, message)

    def _may_gain(self, name: str, verdict: Verdict) -> bool:
        """Return whether later cells may complete an answer."""
        numbers = self._plan.written.get(name, [0])
        is_last = numbers[-1] == max(numbers)  # else another would be judged
        if verdict.passed or name in self._plan.settled or not is_last:
            return False
        if "NameError" in verdict.message:
            return True
        steps = self._plan.steps
        return _mention(steps[steps.index(Judge(name)) :], find(name))


def _mention(steps: Sequence[Step], exercise: Exercise) -> bool:
    """Return whether cells name what an exercise defines."""
    word = re.compile(rf"\b{re.escape(exercise.name)}\b")
    return any(isinstance(x, Own) and word.search(x.text) for x in steps)


def _said(where: str, note: Note) -> str:
    raised = "" if note.kind in _ENDED else f" raised {note.kind}"
    return f"{where}{raised}: {note.text}"
