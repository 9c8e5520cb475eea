"""Start an exercise again: the stub comes back, and the answer is kept."""

# compile() hands it on: the annotations of a stub are not evaluated.
from __future__ import annotations

import re
import sys

from attn.exercises import ran, sources
from attn.exercises.answers import binds, digest
from attn.exercises.place import place
from attn.exercises.spec import Exercise
from attn.exercises.standing import Run
from attn.grading.diagnosis.judge import Verdict
from attn.grading.learner import progress, session

_CALL = re.compile(r"(?m)^[ \t]*reset\(.*\n?")
_HERE = "The stub is back in this cell."
_BELOW = """\
The stub is in a new cell below: write there, and run it. Until then your old
cell counts; delete it when you like. Nothing of this costs a point."""


def reset(exercise_id: str = "") -> None:
    """Start an exercise again: the stub comes back, your text is kept.

    Called in the cell of your answer, as a line of it or alone, the stub comes
    back in that cell; called elsewhere, in a new cell below. Your old text is
    saved first, in a file that is named.

    Args:
        exercise_id: for instance ``"sdp-softmax"``.
    """
    from IPython.core.getipython import get_ipython

    exercise = session._exercise(exercise_id, "reset")
    name, stub = exercise.name, sources.stub(exercise.id)
    namespace, run = sys._getframe(1).f_globals, ran.current()
    stands = ran.standing(name, namespace)
    text = stands.text if stands else ""
    if run and binds(name, run.text):
        text = _CALL.sub("", run.text)  # as the front end shows it now
    session._last.pop(exercise.id, None)
    session._hints_shown.pop(exercise.id, None)
    text = "" if digest(text) == digest(stub) else text
    if kept := progress.keep_answer(exercise.id, text):
        print(f"Your answer is kept in {kept}.")
    is_own = bool(stands and run and _is_own(exercise, run))
    if is_own or not stands:
        unwritten = Verdict(False, written=False)
        progress.settle(exercise.id, unwritten, stub)
    progress.update(exercise.id, hints=0)
    shell = get_ipython()
    if not (stands and shell):
        exec(compile(stub, f"<stub of {exercise_id}>", "exec"), namespace)
        print(stub)
        return
    if is_own:
        ran.take_back(name)
    print(_HERE if is_own else _BELOW)
    shell.set_next_input(stub, replace=is_own)


def _is_own(exercise: Exercise, run: Run) -> bool:
    """Return whether a cell is the answer's, and no other exercise's too."""
    names = sources.names(exercise.id.partition("-")[0])
    if bound := [x for x in names if binds(x, run.text)]:
        return bound == [exercise.name]
    at = place(exercise.id).address.partition("#cell-id=")[2]
    return run.cell is not None and (
        run.cell == at or ran.held(exercise.name, run.cell)
    )
