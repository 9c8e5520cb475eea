"""Lay out what a check, a hint and a goal say, as cards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from attn.exercises import CHAPTERS
from attn.exercises.markdown import as_html
from attn.exercises.spec import Exercise
from attn.grading.checks.oracle import Oracle
from attn.grading.diagnosis.judge import Verdict
from attn.grading.diagnosis.refusal import Parts
from attn.grading.learner import card, place, progress_store
from attn.grading.learner.card import CALM, RIGHT, WRONG, Kind
from attn.grading.learner.progress_table import ChapterProgress
from attn.grading.learner.tried import tried

GOES_ON = "The chapter goes on with the reference."


def right(exercise: Exercise, oracle: Oracle) -> str:
    """Return the card of a right answer: what was tried, and what is next."""
    key = exercise.id.partition("-")[0]
    own = ChapterProgress.of(key, progress_store.load())
    return _card(
        exercise,
        RIGHT,
        card.line(f"Tried: {escape(' · '.join(tried(oracle)))}"),
        card.line(own.bar("100%")),
        card.line(_next(own, exercise.id)),
        points=exercise.points,
    )


def wrong(
    exercise: Exercise, verdict: Verdict, why: str, *, is_open: bool = False
) -> str:
    """Return the card of a wrong answer, or of a stub.

    Args:
        exercise: the exercise that it answers.
        verdict: of the answer.
        why: how the notebook calls ``why``.
        is_open: whether all that is known is unfolded.
    """
    help_at_hand = card.line(
        f"A hint: {card.code(_hint(exercise))}. {GOES_ON}"
    )
    if not verdict.written:
        return _card(exercise, CALM, help_at_hand)
    if not (parts := verdict.parts):
        return calm(exercise, WRONG, verdict.message, GOES_ON)
    known = f"All that is known: {card.code(f'{why}()')}"
    return _card(
        exercise,
        WRONG,
        *_refusal(parts),
        card.folded(known, card.known(parts.details), is_open=is_open),
        help_at_hand,
        head=card.headline(parts.label, parts.title),
    )


def _refusal(parts: Parts) -> Iterator[str]:
    is_question = parts.question.endswith("?")
    if is_question:
        yield card.apart(parts.question)
    if parts.condition:
        what = f": <b>{as_html(parts.what)}</b>" if parts.what else "."
        yield card.line(f"Wrong when {escape(parts.condition)}{what}")
    if parts.more:
        yield card.as_it_is("\n".join(x.strip() for x in parts.more))
    if parts.elements:
        table = card.table(("index", "got", "expected"), parts.elements)
        where = card.matrix(parts.grid) if parts.grid else ""
        yield card.beside(table, where)
    if parts.inputs:
        yield card.line(f"Input: {escape(parts.inputs)}")
    is_new = not parts.inputs or not parts.question.endswith(parts.inputs)
    if parts.question and not is_question and is_new:
        yield card.line(as_html(parts.question))


def calm(
    exercise: Exercise, kind: Kind, *texts: str, points: int | None = 0
) -> str:
    """Return a card of a few sentences."""
    lines = [card.line(as_html(x)) for t in texts for x in t.splitlines()]
    return _card(exercise, kind, *lines, points=points)


def hints(exercise: Exercise, texts: Sequence[str], of: int) -> str:
    """Return the card of the hints so far.

    Args:
        exercise: the exercise.
        texts: the hints that are shown.
        of: how many there are.
    """
    kind = Kind("?", f"hint {len(texts)} of {of}", CALM.colour)
    items = "".join(
        f'<li style="margin:.4em 0 0">{as_html(x)}</li>' for x in texts
    )
    shown = f'<ol style="margin:.4em 0 0;padding-left:1.5em">{items}</ol>'
    last = len(texts) == of
    call = f'solution("{exercise.id}")' if last else _hint(exercise)
    after = f"{'The solution' if last else 'The next one'}: {card.code(call)}"
    return _card(exercise, kind, shown, card.line(after), points=None)


def goal(claim: str, measured: str, *, reached: bool) -> str:
    """Return the line of an open task's goal."""
    kind = Kind("✓", "reached", RIGHT.colour)
    if not reached:
        kind = CALM._replace(word="not yet")
    return (
        f'<p role="status" style="margin:.3em 0">{card.badge(kind)} '
        f"{escape(claim + measured)}</p>"
    )


def _card(
    exercise: Exercise,
    kind: Kind,
    *body: str,
    head: str = "",
    points: int | None = 0,
) -> str:
    worth = "" if points is None else f"{points}/{exercise.points} points"
    title = place.place(exercise.id).title
    first = card.header(kind, title, exercise.id, worth)
    return card.frame(kind, f"{kind.word}: {title}", first + head, *body)


def _hint(exercise: Exercise) -> str:
    return f'hint("{exercise.id}")'


def _next(own: ChapterProgress, name: str) -> str:
    """Return a link to the next exercise of the chapter, or chapter."""
    if row := own.open_after(name):
        return f"Next: <b>{row.link}</b> <code>{row.exercise.id}</code>"
    said = f"All {len(own.rows)} exercises of this chapter are done."
    stems = [*CHAPTERS.values(), ""]
    if after := stems[own.number]:
        title = place.chapter([*CHAPTERS][own.number]).title
        said += f" Next: {card.link(f'{after}.ipynb', title)}"
    return said
