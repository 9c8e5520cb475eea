"""The functions of a learner: check, why, hint, solution."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any

from attn.exercises import begun, ran, sources
from attn.exercises.answers import UNFINISHED
from attn.exercises.finding import FIRST, UNJUDGED, Found, found
from attn.exercises.form import misfit
from attn.exercises.literal import and_list, dtype_name
from attn.exercises.outcome import Outcome
from attn.exercises.place import named
from attn.exercises.spec import Exercise, find
from attn.exercises.triton_compat import unavailable_reason
from attn.exercises.wrapping import wrapped
from attn.grading.checks.failures import fallback, fallback_of, one_thread
from attn.grading.checks.inputs import named_tensors
from attn.grading.checks.oracle import Oracle
from attn.grading.checks.run import run
from attn.grading.diagnosis.judge import Verdict, judge
from attn.grading.learner import cards, progress
from attn.grading.learner.cards import CALM, RIGHT, WRONG, html, show
from attn.grading.learner.case import case, meant, refused
from attn.grading.learner.case import verdicts as _last

_hints_shown: dict[str, int] = {}
_OWN = "__attn_own__"  # of a reference: whose place it takes
_ENDED = "The check before did not end: did the kernel end in it?"
_TRIED = "Nothing is stored: the points are for the answer in your notebook."


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
    names, is_own, state = frame.f_globals, answer is None, Found("")
    if is_own:
        answer = {**names, **frame.f_locals}.get(exercise.name)
    if fallback_of(answer) == exercise.id:
        answer = getattr(answer, _OWN, None)
    beside, calls = [_TRIED], _calls(names)
    if is_own:
        entries = progress.load() if cards.is_enabled() else {}
        state = found(exercise.id, names, answer, entries)
        beside = [*state.beside, *_lend(state.open, names)]
        if exercise.id in begun.begun():
            beside.append(_ENDED)
    word = state.word
    try:
        is_kept = is_own and not state.said and cards.is_enabled()
        with begun.checking(exercise.id) if is_kept else nullcontext():
            verdict = _verdict(exercise, answer, state)
    except KeyboardInterrupt:
        kind, said = CALM._replace(word="stopped"), "nothing is judged"
        card = functools.partial(html, "calm", exercise, kind, said, None)
        note = progress.noted(exercise.id) if is_own else None
        show(f"· {exercise.id}  {kind.word}; {said}", card, note=note)
        return
    if not (state.said or verdict.passed or verdict.written):
        word = UNFINISHED
    if word != FIRST:
        _last.pop(exercise.id, None)
        _last[exercise.id] = verdict
    if is_own:
        if word != FIRST:
            progress.settle(exercise.id, verdict, state)
        elif state.is_void:
            progress.settle(exercise.id, Verdict(False, written=False))
        beside += progress.was_right(exercise.id)
    note = progress.noted(exercise.id) if is_own else None
    say = functools.partial(show, note=note, below=beside)
    worth = exercise.points
    head = f"{exercise.id}  {worth * verdict.passed}/{worth} points"
    if not is_own:
        kind = RIGHT if verdict.passed else WRONG
        head = f"{exercise.id}  {kind.word}, not stored"
    if verdict.passed:
        say(f"✓ {head}", lambda: _right(exercise, is_own))
        return
    said, goes_on = verdict.message, ""
    if word != FIRST:
        said, goes_on = _told(exercise.name * is_own, verdict, calls)
    sign = "✗" if verdict.written and word != FIRST else "·"
    card = functools.partial(html, "wrong", exercise, verdict, goes_on, *calls)
    if word:
        is_open = word == FIRST  # the points of before count
        head = f"{exercise.id}  {word}" if is_open else head
        kind, points = CALM._replace(word=word), None if is_open else 0
        card = functools.partial(html, "calm", exercise, kind, said, points)
    own = state.doubts.items()
    doubts = [y for x, y in own if not fallback_of(names.get(x))]
    lines = [y for x in (*doubts, said) for y in wrapped(x, "  ")]
    text = "\n".join([f"{sign} {head}", *lines])
    say(text, lambda: html("notes", doubts) + card(), wrong=True)
    if is_own and (word != FIRST or state.is_open):
        _put_reference(exercise, answer, names)


def _lend(ids: Sequence[str], names: dict[str, Any]) -> Iterator[str]:
    """Put the reference in the place of what an answer uses; say so."""
    for exercise in map(find, ids):
        if not fallback_of(own := names.get(exercise.name)):
            _put_reference(exercise, own, names)
        yield f"{exercise.name} is not written yet: here it is the reference."


def _put_reference(
    exercise: Exercise, own: Any, names: dict[str, Any]
) -> None:
    """Let a chapter go on; the next check judges the same answer again."""
    reference = fallback(exercise)
    setattr(reference, _OWN, own)
    ran.put(exercise.name, reference, names)


def why(exercise_id: str = "") -> None:
    """Show all that is known of the last wrong answer.

    Args:
        exercise_id: ``"sdp-softmax"``; without it, the one refused last.
    """
    if not (exercise := refused(exercise_id, "why")):
        return
    verdict = _last[exercise.id]
    lines = wrapped(verdict.details or verdict.message, "  ")
    show(
        "\n".join([f"✗ {named(exercise.id)}", *lines]),
        lambda: html("wrong", exercise, verdict, "", is_open=True),
    )


def _calls(names: dict[str, Any]) -> list[str]:
    """Put ``why`` and ``case`` where there are none; return their names."""
    calls = []
    for function in (why, case):
        name = function.__name__
        own = names.setdefault(name, function)
        is_ours = getattr(own, "__module__", "").startswith("attn.grading")
        calls.append(name if is_ours else f"attn.grading.{name}")
    return calls


def _told(name: str, verdict: Verdict, calls: list[str]) -> tuple[str, str]:
    """Return a refusal in text, and what a name means after it, if given."""
    message, goes_on, more = verdict.message, "", ""
    yours = "; your cell, run again, brings yours back" * verdict.written
    if verdict.details:
        more = f"More: {calls[0]}()"
    if verdict.parts and (call := verdict.parts.call):
        message = message.removesuffix(call)
        more += f". {calls[1]}() has this call:\n{call}"
        yours = f"; yours is `{calls[1]}().yours()`"
    if name:
        book = f"From here on `{name}` is the book's"
        goes_on = f"{book}, so that the chapter goes on{yours}. "
    return f"{message.rstrip()}\n{goes_on}{more}".rstrip(), goes_on


def _right(exercise: Exercise, is_stored: bool = True) -> str:
    """Return the card of a right answer: what was tried, and what is next."""
    key = exercise.id.partition("-")[0]
    chapter = progress.ChapterProgress(key, progress.load())
    tried = _tried(_oracle(exercise.id))
    return html("right", exercise, tried, chapter, is_stored)


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


def _verdict(exercise: Exercise, answer: Any, state: Found) -> Verdict:
    """Judge an answer that can be judged, and has the right form."""
    if said := state.said:
        judged, written = state.word != UNJUDGED, bool(state.word)
        return Verdict(False, said, written=written, judged=judged)
    if said := misfit(exercise.name, exercise.form, answer):
        return Verdict(False, said)
    return judge(exercise, answer, oracle=_oracle(exercise.id), runner=_run)


def _run(*args: Any, **options: Any) -> Outcome:
    """Run an answer on a case; what stops the check is no result of it."""
    outcome = run(*args, **options)
    if isinstance(outcome.error, KeyboardInterrupt):
        raise outcome.error
    return outcome


@functools.cache
def _oracle(exercise_id: str) -> Oracle:
    """Return what the next checks of an exercise will need again."""
    with one_thread():
        return Oracle(find(exercise_id), seed=0)


def hint(exercise_id: str = "") -> None:
    """Show the next hint; each call shows one more.

    Args:
        exercise_id: ``"sdp-softmax"``; without it, the one refused last.
    """
    if not (exercise := meant(exercise_id, "hint")):
        return
    exercise_id = exercise.id
    texts = sources.hints(exercise_id)
    stored = progress.load().get(exercise_id, {}).get("hints", 0)
    shown = min(max(_hints_shown.get(exercise_id, 0), stored) + 1, len(texts))
    _hints_shown[exercise_id] = shown
    progress.update(exercise_id, hints=shown)
    lines = [named(exercise_id)] + [
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
        exercise_id: ``"sdp-softmax"``; without it, the one refused last.
    """
    if not (exercise := meant(exercise_id, "solution")):
        return
    progress.update(exercise.id, solution_seen=True)
    text = f"# {named(exercise.id)}\n{sources.solution(exercise.id)}"
    show(text, lambda: f"```python\n{text}\n```", mime="text/markdown")
