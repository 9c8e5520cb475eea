"""What a learner types: check, hint, solution, progress, reset."""

from __future__ import annotations

import functools
import inspect
import sys
import textwrap
import time
from typing import Any

from attn.exercises import CHAPTERS, sources
from attn.exercises.kernel import Emulated, is_kernel
from attn.exercises.spec import Exercise, chapter, find
from attn.exercises.triton_compat import why_not
from attn.grading import record
from attn.grading.judge import Verdict, checking, judge

_last: dict[str, Verdict] = {}
_hints_shown: dict[str, int] = {}


def check(exercise_id: str, answer: Any = None) -> None:
    """Check your answer, and say what is wrong with it.

    A right answer prints one line. A wrong one gets a diagnosis on stderr,
    and the reference takes its place in your notebook, so that the chapter
    goes on; your own text stays where it is.

    Args:
        exercise_id: for instance ``"sdp-softmax"``.
        answer: what to check; when None, the function or class of that
            name in your notebook.

    Raises:
        ValueError: there is no such exercise.
    """
    exercise = find(exercise_id)
    if exercise.launch and (missing := why_not()):
        print(f"· {exercise.id}  not available here: {missing}")
        return
    frame = sys._getframe(1)
    if answer is None:
        answer = frame.f_locals.get(exercise.name)
    if answer is None:
        answer = frame.f_globals.get(exercise.name)
    verdict = _verdict(exercise, answer)
    _last[exercise_id] = verdict
    if _stands_in_for(answer) != exercise.id:
        _record(exercise, verdict)
    if verdict.passed:
        print(f"✓ {exercise.id}  {exercise.points}/{exercise.points} points")
        return
    goes_on = (
        f"The reference {exercise.name} stands in from here on. To try again, "
        "change your cell, run it, and run this one."
    )
    lines = [f"✗ {exercise.id}  0/{exercise.points} points"]
    for line in [*verdict.message.splitlines(), goes_on]:
        margin = "  " + line[: len(line) - len(line.lstrip())]
        lines += textwrap.wrap(
            line.strip(),
            78,
            initial_indent=margin,
            subsequent_indent=margin,
            break_on_hyphens=False,
        )
    print("\n".join(lines), file=sys.stderr)
    frame.f_globals[exercise.name] = stand_in(exercise)


def _verdict(exercise: Exercise, answer: Any) -> Verdict:
    if answer is None:
        return Verdict(
            False,
            f"{exercise.name} is not defined: run the cell above first. Did "
            "it end with an error?",
        )
    if _stands_in_for(answer) == exercise.id:
        told = _last.get(exercise.id)
        again = (
            f"{exercise.name} is still the reference that was put in place "
            "of your answer: run your own cell first."
        )
        message = f"{again}\nLast time: {told.message}" if told else again
        return Verdict(False, message)
    if not callable(answer):
        what = type(answer).__name__
        return Verdict(False, f"{exercise.name} is a {what}, not a function")
    if exercise.launch:
        if not is_kernel(answer):
            need = "a kernel: write @triton.jit above its def"
            return Verdict(False, f"{exercise.name} needs to be {need}")
        return judge(exercise, answer)
    wants_class = inspect.isclass(exercise.reference)
    if wants_class != inspect.isclass(answer):
        need = "a class" if wants_class else "a function"
        return Verdict(False, f"{exercise.name} needs to be {need}")
    return judge(exercise, answer)


def _record(exercise: Exercise, verdict: Verdict) -> None:
    before = record.load().get(exercise.id, {})
    entry: dict[str, Any] = {"attempts": before.get("attempts", 0) + 1}
    if verdict.passed:
        entry["passed"] = before.get("passed") or time.strftime(
            "%Y-%m-%d %H:%M"
        )
    else:
        entry["last"] = verdict.mistake or verdict.message.splitlines()[0]
    record.update(exercise.id, **entry)


def stand_in(exercise: Exercise) -> Any:
    """The reference, marked, so that it never passes for an answer."""

    def refuse() -> None:
        if checking.get() == exercise.id:
            raise RuntimeError(
                f"this {exercise.name} is the reference, put there so that "
                "the chapter goes on: write your own"
            )

    if exercise.launch:

        def launched(*args: Any, **kwargs: Any) -> None:
            refuse()
            exercise.reference.function(*args, **kwargs)

        kernel = Emulated(launched)
        kernel.__attn_reference__ = exercise.id  # type: ignore[attr-defined]
        return kernel

    if inspect.isclass(exercise.reference):

        class Marked(exercise.reference):  # type: ignore[name-defined]
            def __init__(self, *args: Any, **kwargs: Any):
                refuse()
                super().__init__(*args, **kwargs)

        Marked.__name__ = Marked.__qualname__ = exercise.name
        Marked.__doc__ = exercise.reference.__doc__
        Marked.__attn_reference__ = exercise.id
        return Marked

    @functools.wraps(exercise.reference)
    def marked(*args: Any, **kwargs: Any) -> Any:
        refuse()
        return exercise.reference(*args, **kwargs)

    marked.__attn_reference__ = exercise.id  # type: ignore[attr-defined]
    return marked


def _stands_in_for(answer: Any) -> str | None:
    return getattr(answer, "__attn_reference__", None)


def hint(exercise_id: str) -> None:
    """Show the next hint; each call shows one more.

    Args:
        exercise_id: for instance ``"sdp-softmax"``.
    """
    find(exercise_id)
    texts = sources.hints(exercise_id)
    known = record.load().get(exercise_id, {}).get("hints", 0)
    shown = min(max(_hints_shown.get(exercise_id, 0), known) + 1, len(texts))
    _hints_shown[exercise_id] = shown
    record.update(exercise_id, hints=shown)
    for number, text in enumerate(texts[:shown], 1):
        print(f"Hint {number} of {len(texts)}: {text}")
    if shown == len(texts):
        print(f'That was the last one: solution("{exercise_id}") is next.')


def solution(exercise_id: str) -> None:
    """Show the book's solution. Your own answer is not touched.

    Args:
        exercise_id: for instance ``"sdp-softmax"``.
    """
    find(exercise_id)
    record.update(exercise_id, solution_seen=True)
    print(sources.solution(exercise_id))


def progress() -> None:
    """Print where you are in the whole book."""
    entries = record.load()
    done = possible = 0
    for key, stem in CHAPTERS.items():
        print(stem)
        for exercise in chapter(key):
            entry = entries.get(exercise.id, {})
            passed = bool(entry.get("passed"))
            done += exercise.points if passed else 0
            possible += exercise.points
            told = _details(exercise, entry)
            print(f"  {_state(entry)} {exercise.id:<24} {told}")
    print(f"{done} of {possible} points")


def _state(entry: dict[str, Any]) -> str:
    if entry.get("passed"):
        return "✓"
    return "✗" if entry.get("attempts") else "·"


def _details(exercise: Exercise, entry: dict[str, Any]) -> str:
    got = exercise.points if entry.get("passed") else 0
    parts = [f"{got}/{exercise.points}"]
    if entry.get("attempts"):
        parts.append(f"checks: {entry['attempts']}")
    if entry.get("hints"):
        parts.append(f"hints: {entry['hints']}")
    if not entry.get("passed") and entry.get("last"):
        parts.append(str(entry["last"]))
    return "  ".join(parts)


def reset(exercise_id: str) -> None:
    """Start an exercise again: the stub comes back, your text is kept.

    In Jupyter the stub appears in a new cell below; move it over your old
    answer. Your old text is saved first, in a file that is named.

    Args:
        exercise_id: for instance ``"sdp-softmax"``.
    """
    exercise = find(exercise_id)
    namespace = sys._getframe(1).f_globals
    text = _text_of(exercise.name, namespace)
    if text:
        kept = record.keep(exercise_id, text)
        print(f"Your answer is kept in {kept.relative_to(kept.parents[2])}.")
    stub = sources.stub(exercise_id)
    exec(compile(stub, f"<stub of {exercise_id}>", "exec"), namespace)  # noqa: S102
    _last.pop(exercise_id, None)
    _hints_shown.pop(exercise_id, None)
    record.update(exercise_id, passed=None, last=None, hints=0)
    shell = _shell()
    if shell is None:
        print(stub)
    else:
        shell.set_next_input(stub)


def _shell() -> Any:
    from IPython.core.getipython import get_ipython

    return get_ipython()


def _text_of(name: str, namespace: dict[str, Any]) -> str:
    """The learner's last text of a function or class."""
    value = namespace.get(name)
    if value is not None and _stands_in_for(value) is None:
        value = value.fn if is_kernel(value) else value
        try:
            return inspect.getsource(value)
        except (OSError, TypeError):
            pass
    for cell in reversed(namespace.get("In", [])):
        if f"def {name}(" in cell or f"class {name}(" in cell:
            return cell
    return ""
