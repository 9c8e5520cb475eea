"""Find an exercise's answer in a session, and what keeps it from a verdict.

The cells that define what an answer uses are part of it, as they are where a
file of it runs.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attn.exercises import first_cell, ran, saved, sources
from attn.exercises.answers import NOT_STARTED, digest, handed_out
from attn.exercises.bindings import bound, is_unfinished
from attn.exercises.place import place
from attn.exercises.saved import Saved
from attn.exercises.standing import Run, Standing

#: The words for no new verdict: that of before counts, or there is none.
FIRST, UNJUDGED = "run your cell first", "not judged"
_NEXT = {
    FIRST: "Run your cell first, then check.",
    UNJUDGED: "Run it again, then check.",
}
_LOST = "Your cell has changed since it ran, or is gone."
_UNSAVED = "Not saved yet: what is handed in is the file's."


@dataclass
class Found:
    """The state of an answer, before a check judges it.

    Args:
        text: that a verdict is about; empty if it is not known.
        said: why there is nothing to judge; empty if there is.
        word: ``FIRST`` or ``UNJUDGED``; empty if it is not started.
        beside: sentences on the answer's cell, and on others.
        uses: digests of the other cells that it needs, by what they define.
        open: the exercises that it uses and that are not written yet.
        doubts: sentences on exercises that it uses, by their names, of which
            no right answer is known.
        is_void: whether the verdict of before is of other such cells.
        is_open: whether there is nothing of the learner's to go on with.
    """

    text: str
    said: str = ""
    word: str = ""
    beside: Iterable[str] = ()
    uses: dict[str, str] = field(default_factory=dict)
    open: Sequence[str] = ()
    doubts: dict[str, str] = field(default_factory=dict)
    is_void: bool = False
    is_open: bool = True


def found(
    exercise: str,
    namespace: dict[str, Any],
    value: Any,
    entries: Mapping[str, Mapping[str, Any]],
) -> Found:
    """Return what a check finds.

    In a namespace that is no notebook's, only the value is known.

    Args:
        exercise: its id.
        namespace: in which it is checked.
        value: what its name means there; None for nothing of the learner's.
        entries: what is stored of verdicts, by exercise.
    """
    key, _, name = exercise.partition("-")
    stands = ran.standing(name, namespace)
    if stands is None:
        is_none = value is None
        said = f"{name} is not defined: run its cell first."
        return Found("", said if is_none else "", FIRST if is_none else "")
    text, file = stands.text, saved.read(namespace)
    entry, given = entries.get(exercise, {}), handed_out(key)
    run, stub = stands.failed or stands.run, sources.stub(exercise)
    state = Found(text, beside=stands.beside)
    state.is_open = value is None or is_unfinished(name, text)
    if run and file.has_lost(run):
        state.word, state.said = FIRST, _LOST
    elif digest(text) == digest(stub):
        state.said = f'{NOT_STARTED}. hint("{exercise}") gives a hint.'
        below = file.binding(name)
        if not all(digest(x) in given or ran.has_run(x) for x in below):
            state.word = FIRST
            state.said = f"Another cell defines {name}, and has not run."
        for x in stands.others:
            if not (x.error or file.has_lost(x)):
                state.word = FIRST
                at = stands.run.number if stands.run else 0
                state.said = (
                    f"The stub of {name} ran last, in another cell, [{at}]: "
                    "delete that one."
                )
    elif run is None and value is None:
        state.word = FIRST
        state.said = f"{name} has not run since the kernel started."
    elif said := stands.trouble:
        is_known = digest(text) == entry.get("text")
        state.word, state.said = FIRST if is_known else UNJUDGED, said
    elif value is None:
        state.word, state.said = FIRST, f"{name} is not defined."
    elif beside := _file_of(value):
        state.word = UNJUDGED
        state.said = (
            f"{name} comes from {beside}, which is not handed in: write it in "
            "a cell."
        )
    if state.word:
        state.said += f" {_NEXT[state.word]}"
        if state.word == FIRST and state.is_open:
            state.said += f" Until then `{name}` is the book's."
    elif run and not state.said:
        _see_helpers(state, exercise, run, namespace, file, entries)
    if run and (others := bound(run.text) & {*sources.names(key)} - {name}):
        names = " and ".join(sorted(others))
        said = f"Its cell defines {names}, too, and counts there."
        state.beside = [*state.beside, said]
    if state.word == FIRST:  # no cell counts yet
        state.beside = ()
        state.is_void = any(_changed(entry, file, namespace))
    elif run and file.lacks(run):
        state.beside = dict.fromkeys([*state.beside, _UNSAVED])
    return state


def _see_helpers(
    state: Found,
    exercise: str,
    run: Run,
    namespace: dict[str, Any],
    file: Saved,
    entries: Mapping[str, Mapping[str, Any]],
) -> None:
    """Note the cells that an answer needs, and what is wrong with them."""
    key, _, name = exercise.partition("-")
    entry = entries.get(exercise, {})
    own, given = {*sources.names(key)} - {name}, handed_out(key)
    known = {*namespace, *vars(builtins)}
    for used, x in ran.helpers(name, run).items():
        last, said, word = x.failed or x.run, "", UNJUDGED
        then = _NEXT[word]
        text, first = x.text, x.run or x.failed
        if used not in known and not last:
            word, said = FIRST, "It is not defined."
            then = f"Run {_where(key, used)} first, then check."
            if used in entry.get("uses", {}) or file.binding(used):
                said = "It has not run since the kernel started."
        elif used in own:
            is_stub = digest(text) == digest(sources.stub(f"{key}-{used}"))
            known_of = entries.get(f"{key}-{used}", {})
            is_known = digest(text) == known_of.get("text")
            if is_stub or is_unfinished(used, text):
                state.open = [*state.open, f"{key}-{used}"]
            elif x.calls_back:
                said = f"{used} uses {name}."
                then = "Write one of them without the other."
            elif last and not (is_known and known_of.get("passed")):
                how = "not right" if is_known else "not checked yet"
                state.doubts[used] = (
                    f"It uses your {used}, of cell [{last.number}], which is "
                    f"{how}."
                )
        elif (
            last
            and first
            and used in bound(first.text, imports=False)
            and digest(text) not in given
        ):
            state.uses[used] = digest(text)
            said = _LOST if file.has_lost(last) else x.trouble
            if file.lacks(last):
                state.beside = [*state.beside, _UNSAVED]
        if x.is_newer and last and not said:
            said = f"Cell [{last.number}] has changed it since."
            then = f"Run the cell of {name} again, then check."
        if said and not state.said:
            state.word, said = word, said.replace("Your", "Its")
            state.said = f"{name} uses {used}. {said} {then}"


def _where(key: str, name: str) -> str:
    """Say which cell of a chapter gives a name its value."""
    if name in sources.names(key):
        return f"the cell of {name} ({place(f'{key}-{name}').title})"
    first = first_cell.of(sources.notebook(key))
    if name in bound("".join(first.get("source", ""))):
        return f"*{first_cell.TITLE}*"
    return f"the cell of {name}"


def _file_of(value: Any) -> str:
    """Return the name of a file beside the notebook that a value is from."""
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    path = Path(getattr(module, "__file__", None) or Path.cwd().anchor)
    return path.name if path.parent == Path.cwd() else ""


def _changed(
    entry: Mapping[str, Any], file: Saved, namespace: dict[str, Any]
) -> Iterator[bool]:
    """Tell of each cell that a verdict needed whether it has changed."""
    for used, text in entry.get("uses", {}).items():
        is_lost = file.at > entry.get("at", 0) and text not in file.texts
        stands: Standing | None = ran.standing(used, namespace)
        now = stands.text if stands else ""
        yield is_lost or bool(now) and digest(now) != text
