"""Exercises with mistakes of their own, and solutions with an edit."""

from dataclasses import replace

from attn.exercises import sources
from attn.exercises.edits import Variant
from attn.exercises.spec import find
from attn.grading.diagnosis.judge import judge


def with_mistakes(exercise_id, *edits):
    """Return an exercise with a list of mistakes of its own."""
    exercise = replace(find(exercise_id))
    first = find(exercise_id).mistakes[0]
    exercise.__dict__["mistakes"] = [
        replace(first, name=name, why=f"Why {name}?", code=code, place=name)
        for name, code in edits
    ]
    return exercise


def judged(exercise_id, edit):
    """Judge a solution with an edit applied, or another answer's text."""
    exercise, right = find(exercise_id), sources.solution(exercise_id)
    variant = Variant("edited", edit, "test", right, exercise.namespace)
    return judge(exercise, variant.answer)
