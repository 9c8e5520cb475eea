"""The score of a notebook is right, whatever outputs it stores."""

import nbformat
import pytest

from attn.exercises import CHAPTERS, cells, sources
from attn.exercises.cells import points
from attn.publishing import notebooks
from tests.notebooks.learners import (
    answered,
    carded,
    cleared,
    ids,
    junit_of,
    pytest_nbval,
    short,
    total,
    written,
)

#: As Jupyter leaves it after "Run all", each answer wrong. Whole chapters run
#: solved below, and untouched in test_capabilities.py.
ALL = "wrong-saved"
#: As it is handed out; every other answer right, the rest wrong; all right.
FEW = "untouched-cleared odd-cleared solved-cleared"
#: Of functions, of functions and a class, of kernels.
KINDS = dict.fromkeys(("mask", "sdp", "fwd"), FEW)
KINDS["mask"] = FEW.replace("odd-cleared", "odd-saved")


def in_state(key, state):
    """The notebook, and the points that it has earned."""
    notebook = short(key)
    names = ids(notebook)
    right, wrong = {
        "untouched": ((), ()),
        "odd": (names[1::2], names[::2]),
        "even": (names[::2], names[1::2]),
        "wrong": ((), names),
        "solved": (names, ()),
    }[state]
    signs = dict.fromkeys(names, "·") | dict.fromkeys(wrong, "✗")
    signs |= dict.fromkeys(right, "✓")
    return answered(notebook, right, wrong), {
        name: (signs[name], x * (name in right), x)
        for name, x in points(notebook).items()
    }


EVERY = [pytest.param(x, ALL, marks=pytest.mark.exhaustive) for x in CHAPTERS]


@pytest.mark.parametrize("nbval", ["prefork"], indirect=True)
@pytest.mark.parametrize(("key", "states"), [*KINDS.items(), *EVERY])
def test_the_score_is_what_each_state_has_earned(key, states, nbval, tmp_path):
    """Each state of a notebook, in the ways in which it comes back."""
    wanted = {}
    for name in states.split():
        state, _, kept = name.partition("-")
        notebook, wanted[name] = in_state(key, state)
        copy = cleared(notebook)
        if kept == "saved":
            copy = notebooks.execute(notebook, tmp_path)
        written(copy, tmp_path, f"{name}.ipynb")
    result, score = nbval(tmp_path)
    assert score == wanted, result.stdout  # what is worth nothing has failed
    earned, most = total(*wanted.values())
    assert f"total  {earned}/{most} points" in result.stdout
    for name, own in wanted.items():
        assert "{}.ipynb  {}/{}\n".format(name, *total(own)) in result.stdout
    assert result.returncode == 1


def test_a_wrong_chapter_scores_the_same_without_prefork(tmp_path):
    """The one kernel of a wrong chapter in `make test` that starts really."""
    notebook, expected = in_state("mask", "wrong")
    result, score = pytest_nbval(written(notebook, tmp_path))
    assert (score, result.returncode) == ({"mine": expected}, 1)


#: Goals are compared; what depends on what was done before is not.
SHOWING = """from attn.grading import goal
goal("loss", 1.5, at_most=1.9)
goal("no future", False)"""
DONE = """from attn.grading import check, hint
hint("mask-causal")
check("mask-padding", lambda *inputs: None)
c = case()  # which a check brings along"""


def test_saved_cards_change_neither_scores_nor_comparisons(nbval, tmp_path):
    """Right answers pass and wrong ones fail, with the outputs of both."""
    notebook, expected = in_state("mask", "solved")
    right = ids(notebook)[0]
    notebook.cells += map(nbformat.v4.new_code_cell, (DONE, SHOWING))
    ran = carded(notebooks.execute(notebook, tmp_path))
    shown = ran.cells[-1].outputs
    assert len(shown) == 2 and all("data" in x for x in shown)
    ran.cells[-2].outputs[0].data["text/plain"] = "Hint 2 of 3"
    result, score = nbval(written(ran, tmp_path))
    assert score == {"mine": expected}, result.stdout
    assert result.returncode == 0, result.stdout
    first = next(filter(cells.exercise_id, ran.cells))
    first.source = sources.stub(right)  # its check shows a tick still
    ran.cells[-1].outputs[0].data["text/plain"] = "✓ loss: 1.2, at most 1.9"
    result, score = nbval(written(ran, tmp_path))
    lost = {right: ("·", 0, expected[right][2])}
    assert score == {"mine": {**expected, **lost}}
    assert "2 failed" in result.stdout


def test_what_is_missing_edited_or_dead_is_worth_nothing(nbval, tmp_path):
    """One run: a check is gone, all are edited, a kernel dies, no exercise.

    A check that was typed anew is one.

    A dead kernel is noticed before the cell's time-out.
    """
    solved, expected = in_state("mask", "solved")
    first, gone = ids(solved)[:2]
    solved.cells = [x for x in solved.cells if cells.checked_id(x) != gone]
    written(solved, tmp_path, "missing.ipynb")
    missing = {gone: ("·", 0, expected[gone][2])}

    typed, _ = in_state("mask", "solved")
    for cell in typed.cells:
        if cells.checked_id(cell):
            cell.metadata = {}
    typed.cells.insert(-1, nbformat.v4.new_code_cell("%reset -f"))
    written(typed, tmp_path, "typed.ipynb")

    edited, none = in_state("mask", "untouched")
    for cell in edited.cells:
        if name := cells.checked_id(cell):
            worth = cell.metadata["nbgrader"]["points"]
            cell.source = f'print("✓ {name}  {worth}/{worth} points")'
            cell.metadata["tags"] = ["nbval-skip"]
    written(edited, tmp_path, "edited.ipynb")

    dead, _ = in_state("mask", "solved")
    victim = next(filter(cells.exercise_id, dead.cells))
    victim.source += "\nimport os\nos._exit(1)"
    written(dead, tmp_path, "dead.ipynb")

    other = short("mask")
    other.cells = [x for x in other.cells if "nbgrader" not in x.metadata][:1]
    written(other, tmp_path, "other.ipynb")

    result, score = nbval(tmp_path, "--tb=short")
    assert score == {
        "missing": {**expected, **missing},
        "typed": expected,
        "edited": none,
        "dead": {x: ("✗", *y[1:]) for x, y in none.items()},
    }, result.stdout
    assert f"{gone} " in result.stdout
    assert "its check cell is not in this notebook" in result.stdout
    assert "the kernel died while it ran this cell" in result.stdout
    assert "Timeout" not in result.stdout
    assert result.returncode == 1


def test_junit_and_parallel_workers_have_the_same_points(nbval, tmp_path):
    notebook, expected = in_state("mask", "even")
    junit = tmp_path / "junit.xml"
    workers = ("-n", "1", "--dist", "loadscope")
    path = written(notebook, tmp_path)
    _, score = nbval(path, f"--junitxml={junit}", *workers)
    assert score == {"mine": expected}
    every = (about for _, about in junit_of(junit) if "exercise" in about)
    found = {x["exercise"]: int(x["points"]) for x in every}
    assert found == {name: x[1] for name, x in expected.items()}


@pytest.mark.exhaustive
@pytest.mark.parametrize("key", CHAPTERS)
def test_a_solved_chapter_passes_every_cell(key, tmp_path):
    """With its demonstrations, which see the learner's functions.

    In an untouched chapter they see the book's own, and print the same.
    What compiles with torch for seconds is skipped elsewhere, and runs here.
    """
    notebook = notebooks.solved(notebooks.read(sources.notebook_path(key)))
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        cell.metadata["tags"] = [x for x in tags if x != "nbval-skip"]
    path = written(notebook, tmp_path, sources.notebook_path(key).name)
    result, score = pytest_nbval(path, "--tb=short")
    assert result.returncode == 0, result.stdout[-4000:]
    right = {x: ("✓", y, y) for x, y in points(notebook).items()}
    assert score == {path.stem: right}
