"""Exercises with mistakes of their own, and solutions with an edit."""

from dataclasses import replace

from attn.exercises import sources
from attn.exercises.edits import Variant
from attn.exercises.spec import find
from attn.grading.checks.evidence import Evidence
from attn.grading.checks.failures import run_all
from attn.grading.checks.problems import failures
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


def rows(table):
    """Return the rows of a table with bars; ``a => b`` is an edit of a part.

    Several of a row have `` ; `` between them.
    """
    lines = [row.split(" | ") for row in table.strip().splitlines()]
    return [[_edit(x) if " => " in x else x for x in row] for row in lines]


def _edit(cell):
    parts = (x.split(" => ") for x in cell.split(" ; "))
    return "\n".join(f"- {old}\n+ {new}" for old, new in parts)


def edited(exercise_id, edit):
    """Return the solution with an edit applied, or another answer's text."""
    namespace = find(exercise_id).namespace
    right = sources.solution(exercise_id)
    return Variant("edited", edit, "test", right, namespace).answer


def judged(exercise_id, edit):
    """Judge a solution with an edit applied, or another answer's text."""
    return judge(find(exercise_id), edited(exercise_id, edit))


def evidence(oracle, answer):
    """Return what the cases show of an answer, and its failures."""
    outcomes = run_all(answer, oracle)
    wrong = failures(oracle, outcomes)
    return Evidence(oracle, outcomes, wrong, answer), wrong


def unlisted(exercise_id, name):
    """Return an exercise without a mistake of its list, and that mistake.

    The name is the beginning of a label, ``The sign is wrong, edit 2``; no
    edit of that heading is on the list.
    """
    exercise = replace(find(exercise_id))
    (mistake,) = [x for x in exercise.mistakes if x.label.startswith(name)]
    others = [x for x in exercise.mistakes if x.name != mistake.name]
    exercise.__dict__["mistakes"] = others
    return exercise, mistake
