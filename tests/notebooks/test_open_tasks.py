"""An open task starts short of its goals, and answers reach them."""

import math
import re
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from attn.data import minilm, smollm
from attn.exercises import CHAPTERS, cells, sources
from attn.grading import goal
from attn.publishing import notebooks
from tests.marks import exhaustive_but
from tests.notebooks.learners import short

#: Chapter and answer, as different as they come, all of them right.
ANSWERS = re.findall(
    r"(?ms)^## (\w+) · .+?^```ipython\n(.+?)^```",
    Path(__file__).with_name("open_tasks.md").read_text("utf-8"),
)
KEYS = list(dict(ANSWERS))
TAG, SETUP = "open-task", "open-task-setup"


def tags(cell):
    return cell.metadata.get("tags", [])


def task_cells(key):
    """The learner's cell and the goals, in pairs."""
    every = notebooks.read(sources.notebook_path(key)).cells
    code = [cell for cell in every if cell.cell_type == "code"]
    return [pair for pair in pairwise(code) if TAG in tags(pair[0])]


@cache
def before(key):
    """Run the chapter's imports, its solutions and what the task builds on."""
    names = {"__name__": "chapter"}
    every = notebooks.read(sources.notebook_path(key)).cells
    setup = [cell for cell in every if SETUP in tags(cell)]
    for cell in notebooks.solved(short(key)).cells + setup:
        if "%pip" not in cell.source and not cells.checked_id(cell):
            exec(cell.source, names)
    return names


def lines_of(key, answer, capsys):
    """Run the task after the cells before it; what it says."""
    [(task, goals)] = task_cells(key)
    for name, model in (("minilm", minilm), ("smollm", smollm)):
        if name in goals.source and not model.available():
            pytest.skip(model.HOW_TO_INSTALL)
    names = dict(before(key))
    exec(task.source if answer is None else answer, names)
    capsys.readouterr()
    exec(goals.source, names)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("key", CHAPTERS)
def test_a_task_has_known_answers_and_ignored_outputs(key):
    [(_, goals)] = task_cells(key)
    assert key in KEYS
    assert "nbval-ignore-output" in tags(goals)
    assert "goal(" in goals.source


@pytest.mark.parametrize("key", exhaustive_but(KEYS[1::4], KEYS))
def test_the_given_start_of_a_task_runs_and_misses_a_goal(key, capsys):
    lines = lines_of(key, None, capsys)
    assert any(line.startswith("·") for line in lines), lines


@pytest.mark.parametrize(
    "task",
    exhaustive_but([*dict(reversed(ANSWERS)).items()][1::2], ANSWERS),
    ids=lambda task: task[0],
)
def test_every_answer_reaches_every_goal(task, capsys):
    lines = lines_of(*task, capsys)
    assert lines
    assert all(line.startswith("✓") for line in lines), lines


@pytest.mark.parametrize(
    ("reached", "bounds", "line"),
    [
        (True, {}, "✓ it works"),
        (torch.tensor(False), {}, "· it works  (not yet)"),
        (0.95, {"at_least": 0.9}, "✓ it works: 0.95, at least 0.9"),
        (
            torch.tensor(3),
            {"at_least": 0.5, "at_most": 2},
            "· it works: 3, at least 0.5 and at most 2  (not yet)",
        ),
        (math.nan, {"at_most": 1}, "· it works: nan, at most 1  (not yet)"),
    ],
)
def test_a_goal_prints_what_was_reached(reached, bounds, line, capsys):
    goal("it works", reached, **bounds)
    assert capsys.readouterr().out == line + "\n"


@pytest.mark.parametrize(
    ("reached", "bounds"), [(0.5, {}), (True, {"at_least": 1})]
)
def test_a_goal_needs_a_bound_for_a_number_and_none_for_bools(reached, bounds):
    with pytest.raises(ValueError, match="reached must be"):
        goal("it works", reached, **bounds)
