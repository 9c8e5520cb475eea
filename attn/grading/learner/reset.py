"""Start an exercise again: the stub comes back, and the answer is kept."""

# compile() hands it on: the annotations of a stub are not evaluated.
from __future__ import annotations

import re
import sys

from attn.exercises import kept, ran, sources
from attn.exercises.answers import digest
from attn.exercises.bindings import binds
from attn.exercises.finding import Found
from attn.exercises.place import named
from attn.grading.diagnosis.judge import Verdict
from attn.grading.learner import cards, progress, session
from attn.grading.learner.case import meant, verdicts

_CALL = re.compile(r"(?m)^[ \t]*reset\(.*\n?")
_HERE = "the stub is back in this cell."
_BELOW = """\
the stub is in a new cell below: write there, and run it. Until then your old
cell counts. Delete this cell: it resets once."""
_ONCE = """\
This cell has reset {}, and does so once: delete it. In the cell of
your answer, reset puts the stub back there."""


def reset(exercise_id: str = "") -> None:
    """Start an exercise again: the stub comes back, your text is kept.

    Called in the cell of your answer, as a line of it or alone, the stub comes
    back in that cell; called elsewhere, in a new cell below. Your old text is
    saved first, in a file that is named.

    Args:
        exercise_id: ``"sdp-softmax"``; without it, the one refused last.
    """
    from IPython.core.getipython import get_ipython

    if not (found := meant(exercise_id, "reset")):
        return
    exercise = found.id
    name, stub = found.name, sources.stub(exercise)
    namespace, run = sys._getframe(1).f_globals, ran.current()
    stands, shell = ran.standing(name, namespace), get_ipython()
    text, is_own = stands.text if stands else "", ran.is_own(exercise)
    cell = run.cell if run and not is_own else None
    if cell and progress.load().get(exercise, {}).get("reset") == cell:
        print(_ONCE.format(name))
        return
    if run and binds(name, run.text):
        text = _CALL.sub("", run.text)  # as the front end shows it now
    verdicts.pop(exercise, None)
    session._hints_shown.pop(exercise, None)
    if digest(text) == digest(stub) or not cards.is_enabled():
        text = ""  # there is nothing to keep
    if at := kept.keep(exercise, text):
        print(f"Your answer is kept in {at}.")
    if is_own or not stands:
        progress.settle(exercise, Verdict(False, written=False), Found(stub))
    progress.update(exercise, hints=0, reset=cell)
    if not (stands and shell):
        exec(compile(stub, f"<stub of {exercise}>", "exec"), namespace)
        print(f"# {named(exercise)}\n{stub}")
        return
    if is_own:
        ran.begin_again(name, stub)
    print(named(exercise), _HERE if is_own else _BELOW, sep=":\n")
    shell.set_next_input(stub, replace=is_own)
