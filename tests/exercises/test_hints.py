"""Three hints lead to a solution, and none has a line of it."""

import ast
import re

import pytest

from attn.exercises import sources
from attn.exercises.spec import every_exercise

IDS = [x.id for x in every_exercise()]
STEPS = ast.BinOp | ast.BoolOp | ast.Call | ast.Compare | ast.IfExp
STEPS |= ast.Subscript
MANY = 3  # arguments, of a call that says all


def steps(node):
    """Count operators, calls and indices; a call of many arguments twice."""
    found = [x for x in ast.walk(node) if isinstance(x, STEPS)]
    calls = [x for x in found if isinstance(x, ast.Call)]
    return len(found) + sum(len(x.args + x.keywords) >= MANY for x in calls)


def bare(code):
    """Code as it is compared: layout, library and dtype do not count."""
    code = re.sub(r"\b(?:torch|math|self|tl|F)\.|\.float\(\)", "", code)
    return re.sub(r"[\s`()]", "", code).replace('"', "'")


def given_away(exercise_id, hint):
    """The longest expressions of the solution that are in a hint.

    What the task itself says is no secret.
    """
    task = bare(sources.stub(exercise_id))
    tree = ast.parse(sources.solution(exercise_id))
    found = []
    for node in ast.walk(tree):  # the outer ones first
        if isinstance(node, ast.expr) and steps(node) >= 2:
            code = ast.unparse(node)
            if bare(code) not in task and bare(code) in bare(hint):
                found += [code] * all(code not in x for x in found)
    return found


@pytest.mark.parametrize("exercise_id", IDS)
def test_there_are_three_hints_and_none_is_the_line(exercise_id):
    hints = sources.hints(exercise_id)
    assert len(hints) == 3
    told = {i: given_away(exercise_id, x) for i, x in enumerate(hints, 1)}
    assert not {i: x for i, x in told.items() if x}


@pytest.mark.parametrize(
    ("hint", "told"),
    [
        ("Divide by 1.0 + x.exp(): `1 / (1.0+exp)`.", ["1.0 + x.exp()"]),
        ("`torch.where(mask, x, 0)`, then?", ["torch.where(mask, x, 0)"]),
        ('`x[..., "a"] *2`', ["x[..., 'a'] * 2"]),
        ("x.exp() first, then add.", []),
        ("It is 2 * x + 1, as the task says.", []),
    ],
)
def test_an_expression_is_found_in_any_layout(hint, told, monkeypatch):
    solution = (
        'def f(x, mask):\n    """Return 2 * x + 1."""\n'
        '    y = x[..., "a"] * 2\n    z = 2 * x + 1\n'
        "    return torch.where(mask, x, 0) / (1.0 + x.exp())\n"
    )
    stub = solution.partition("    y =")[0]
    monkeypatch.setattr(sources, "solution", lambda _: solution)
    monkeypatch.setattr(sources, "stub", lambda _: stub)
    assert given_away("", hint) == told
