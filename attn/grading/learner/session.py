"""The functions of a learner: check, why, hint, solution, reset."""

# compile() hands it on: the annotations of a stub are not evaluated.
from __future__ import annotations

import functools
import inspect
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from attn.exercises import sources
from attn.exercises.kernel import is_kernel, misfit
from attn.exercises.literal import and_list, dtype_name
from attn.exercises.spec import Exercise, find
from attn.exercises.triton_compat import unavailable_reason
from attn.exercises.wrapping import wrapped
from attn.grading.checks.failures import one_thread
from attn.grading.checks.inputs import named_tensors
from attn.grading.checks.oracle import Oracle
from attn.grading.diagnosis.judge import Verdict, judge
from attn.grading.learner import cards, progress
from attn.grading.learner.cards import CALM, html, show
from attn.grading.learner.case import case, meant, refused
from attn.grading.learner.case import verdicts as _last
from attn.grading.learner.fallback import fallback, fallback_of

_hints_shown: dict[str, int] = {}


def check(exercise_id: str = "", answer: Any = None) -> None:
    """Check your answer, and say what is wrong with it.

    A notebook shows a card. A terminal prints a line for a right answer and,
    on stderr, a few for a wrong one, of which ``why()`` prints the rest. The
    reference takes its place in your notebook, so that the chapter goes on;
    your own text stays where it is.

    Args:
        exercise_id: for instance ``"sdp-softmax"``.
        answer: what to check; when None, the function or class of that
            name in your notebook.
    """
    if not (exercise := meant(exercise_id, "check")):
        return
    if exercise.launch and (reason := unavailable_reason()):
        kind = CALM._replace(word="not available here")
        show(
            f"· {exercise.id}  {kind.word}: {reason}",
            lambda: html("calm", exercise, kind, reason, points=None),
        )
        return
    frame = sys._getframe(1)
    if answer is None:
        answer = {**frame.f_globals, **frame.f_locals}.get(exercise.name)
    if fallback_of(answer) == exercise.id:
        said = (
            f"{exercise.name} is still the reference that was put in place "
            "of your answer: run your own cell first."
        )
        if last := _last.get(exercise.id):
            said += f"\nLast time: {last.message.splitlines()[0].strip()}"
        _refuse(exercise, said, "run your cell first")
        return
    verdict = _verdict(exercise, answer)
    _last.pop(exercise_id, None)
    _last[exercise_id] = verdict
    _store(exercise, verdict)
    if verdict.passed:
        points = f"{exercise.points}/{exercise.points} points"
        show(f"✓ {exercise.id}  {points}", lambda: _right(exercise))
        return
    text, calls = _told(verdict, frame.f_globals)
    if answer is None:
        _refuse(exercise, text, "not defined")
    else:
        card = functools.partial(html, "wrong", exercise, verdict, *calls)
        _refuse(exercise, text, card=card)
    frame.f_globals[exercise.name] = fallback(exercise)


def why(exercise_id: str = "") -> None:
    """Show all that is known of the last wrong answer.

    Args:
        exercise_id: for instance ``"sdp-softmax"``; when it is left out, the
            exercise that was refused last.
    """
    if not (exercise := refused(exercise_id, "why")):
        return
    verdict = _last[exercise.id]
    lines = wrapped(verdict.details or verdict.message, "  ")
    show(
        "\n".join([f"✗ {exercise.id}", *lines]),
        lambda: html("wrong", exercise, verdict, is_open=True),
    )


def _told(verdict: Verdict, names: dict[str, Any]) -> tuple[str, list[str]]:
    """Return a refusal in text, and how ``why`` and ``case`` are called.

    They are in the learner's namespace, unless it has others of that name.
    """
    calls = []
    for function in (why, case):
        name = function.__name__
        own = names.setdefault(name, function)
        is_ours = getattr(own, "__module__", "").startswith("attn.grading")
        calls.append(name if is_ours else f"attn.grading.{name}")
    message, end = verdict.message, cards.GOES_ON
    if verdict.details:
        end += f" More: {calls[0]}()"
    if verdict.parts and (call := verdict.parts.call):
        message = message.removesuffix(call)
        end += f". {calls[1]}() has this call:\n{call}"
    return f"{message.rstrip()}\n{end}", calls


def _refuse(
    exercise: Exercise,
    said: str,
    word: str = "",
    card: Callable[[], str] | None = None,
) -> None:
    """Say that an answer is not right: in its own card, or in a calm one."""
    first = f"✗ {exercise.id}  0/{exercise.points} points"
    kind = CALM._replace(word=word)
    calm = functools.partial(html, "calm", exercise, kind, said)
    text = "\n".join([first, *wrapped(said, "  ")])
    show(text, card or calm, wrong=True)


def _right(exercise: Exercise) -> str:
    """Return the card of a right answer: what was tried, and what is next."""
    key = exercise.id.partition("-")[0]
    chapter = progress.ChapterProgress(key, progress.load())
    return html("right", exercise, _tried(_oracle(exercise.id)), chapter)


def _tried(oracle: Oracle) -> Iterator[str]:
    """Say in a few words each what the checks of a right answer have tried."""
    cases, exercise = oracle.cases, oracle.exercise
    conditions = len({case.condition for case in cases})
    yield f"{len(cases)} inputs in {conditions} conditions"
    if again := sum(bool(case.before) for case in cases):
        yield f"{again} after earlier calls"
    if gradients := sum(bool(case.grad) for case in cases):
        yield f"{gradients} with gradients"
    dtypes = {
        dtype_name(x)
        for case in cases
        for _, x in named_tensors([case.args, dict(case.kwargs), case.state])
        if x.is_floating_point()
    }
    if len(dtypes) > 1:
        yield and_list(sorted(dtypes, key=lambda x: (len(x), x)))
    if limited := sum(case.max_live is not None for case in cases):
        yield f"{limited} with memory measured"
    if exercise.launch:
        yield "no access beyond the tensors"
    if exercise.forbids:
        yield f"no call of {and_list(exercise.forbids)}"


def _verdict(exercise: Exercise, answer: Any) -> Verdict:
    """Judge an answer that has the right form."""
    name = exercise.name
    if answer is None:
        message = f"{name} is not defined: run the cell above first. Did "
        return Verdict(False, message + "it end with an error?")
    if not callable(answer):
        what = type(answer).__name__
        return Verdict(False, f"{name} is a {what}, not a function")
    if said := misfit(name, exercise.form, answer):
        return Verdict(False, said)
    return judge(exercise, answer, oracle=_oracle(exercise.id))


@functools.cache
def _oracle(exercise_id: str) -> Oracle:
    """Return what the next checks of an exercise will need again."""
    with one_thread():
        return Oracle(find(exercise_id), seed=0)


def _store(exercise: Exercise, verdict: Verdict) -> None:
    before = progress.load().get(exercise.id, {})
    entry: dict[str, Any] = {"attempts": before.get("attempts", 0) + 1}
    if verdict.passed:
        now = time.strftime("%Y-%m-%d %H:%M")
        entry["passed"] = before.get("passed") or now
    else:
        entry["last"] = verdict.mistake or verdict.message.splitlines()[0]
    progress.update(exercise.id, **entry)


def hint(exercise_id: str = "") -> None:
    """Show the next hint; each call shows one more.

    Args:
        exercise_id: for instance ``"sdp-softmax"``; when it is left out, the
            exercise that was refused last, or else checked last.
    """
    if not (exercise := meant(exercise_id, "hint")):
        return
    exercise_id = exercise.id
    texts = sources.hints(exercise_id)
    stored = progress.load().get(exercise_id, {}).get("hints", 0)
    shown = min(max(_hints_shown.get(exercise_id, 0), stored) + 1, len(texts))
    _hints_shown[exercise_id] = shown
    progress.update(exercise_id, hints=shown)
    lines = [
        f"Hint {number} of {len(texts)}: {text}"
        for number, text in enumerate(texts[:shown], 1)
    ]
    if shown == len(texts):
        call = f'solution("{exercise_id}")'
        lines.append(f"That was the last one: {call} is next.")
    show(
        "\n".join(wrapped("\n".join(lines))),
        lambda: html("hints", exercise, texts[:shown], len(texts)),
    )


def solution(exercise_id: str = "") -> None:
    """Show the book's solution. Your own answer is not touched.

    Args:
        exercise_id: for instance ``"sdp-softmax"``; when it is left out, the
            exercise that was refused last, or else checked last.
    """
    if not (exercise := meant(exercise_id, "solution")):
        return
    exercise_id = exercise.id
    progress.update(exercise_id, solution_seen=True)
    text = sources.solution(exercise_id)
    show(text, lambda: f"```python\n{text}\n```", mime="text/markdown")


def reset(exercise_id: str = "") -> None:
    """Start an exercise again: the stub comes back, your text is kept.

    In Jupyter the stub appears in a new cell below; move it over your old
    answer. Your old text is saved first, in a file that is named.

    Args:
        exercise_id: for instance ``"sdp-softmax"``; when it is left out, the
            exercise that was refused last, or else checked last.
    """
    from IPython.core.getipython import get_ipython

    if not (exercise := meant(exercise_id, "reset")):
        return
    exercise_id = exercise.id
    namespace = sys._getframe(1).f_globals
    if text := _text_of(exercise, namespace):
        kept = progress.keep_answer(exercise_id, text)
        print(f"Your answer is kept in {kept.relative_to(kept.parents[2])}.")
    stub = sources.stub(exercise_id)
    exec(compile(stub, f"<stub of {exercise_id}>", "exec"), namespace)
    _last.pop(exercise_id, None)
    _hints_shown.pop(exercise_id, None)
    progress.update(exercise_id, passed=None, last=None, hints=0)
    if shell := get_ipython():
        shell.set_next_input(stub)
    else:
        print(stub)


def _text_of(exercise: Exercise, namespace: dict[str, Any]) -> str:
    """Return the learner's last text of a function or class."""
    name = exercise.name
    value = namespace.get(name)
    if value is not None and fallback_of(value) is None:
        value = value.fn if is_kernel(value) else value
        try:
            return inspect.getsource(value)
        except (OSError, TypeError):
            pass
    for cell in reversed(namespace.get("In", [])):
        if f"def {name}(" in cell or f"class {name}(" in cell:
            return cell
    return ""
