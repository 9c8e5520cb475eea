"""Exercises with a list of mistakes of their own."""

from dataclasses import replace

from attn.exercises.spec import find


def with_mistakes(exercise_id, *edits):
    """Return an exercise with a list of mistakes of its own."""
    exercise = replace(find(exercise_id))
    first = find(exercise_id).mistakes[0]
    exercise.__dict__["mistakes"] = [
        replace(first, name=name, why=f"Why {name}?", code=code, place=name)
        for name, code in edits
    ]
    return exercise
