"""The score of a notebook is right, whatever outputs it stores."""

import xml.etree.ElementTree as ElementTree

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
    pytest_nbval,
    short,
    written,
)

#: Cleared, or as Jupyter leaves it after "Run all". Both, where an output
#: could help to a point; for a wrong answer the one that agrees with itself.
#: Whole chapters run solved below, and untouched in test_capabilities.py.
ALL = {
    "half": ("cleared", "saved"),
    "wrong": ("saved",),
    "solved": ("cleared", "saved"),
}
#: With real starts: one exercise right, the next wrong.
ONE = {key: {"mixed": ("cleared",)} for key in CHAPTERS}
#: In `make test`, besides: as it is handed out; and every way in a chapter of
#: functions and in one of kernels.
FEW = {key: {"untouched": ("cleared",), **ONE[key]} for key in CHAPTERS}
FEW["mask"] = FEW["fwd"] = {"mixed": ("saved",), "solved": ("cleared",)}


def in_state(key, state):
    """The notebook, and the points that it has earned."""
    notebook = short(key)
    names = ids(notebook)
    every = {"half": names[::2], "mixed": names[1::2], "solved": names}
    right = every.get(state, [])
    wrong = {"wrong": names, "mixed": names[::2]}.get(state, [])
    worth = points(notebook)
    return answered(notebook, right, wrong), {
        name: worth[name] if name in right else 0 for name in names
    }


@pytest.mark.parametrize(
    ("states", "nbval"),
    [
        pytest.param(FEW, "prefork", id="few-prefork"),
        pytest.param(
            dict.fromkeys(CHAPTERS, ALL),
            "prefork",
            id="all-prefork",
            marks=pytest.mark.exhaustive,
        ),
        pytest.param(ONE, "real", id="one-real", marks=pytest.mark.exhaustive),
    ],
    indirect=["nbval"],
)
@pytest.mark.parametrize("key", CHAPTERS)
def test_the_score_equals_the_earned_points_in_every_state(
    key, states, nbval, tmp_path
):
    """Each state of a notebook, in the ways in which it comes back."""
    wanted = {}
    for state, ways in states[key].items():
        notebook, expected = in_state(key, state)
        for kept in ways:
            name = f"{state}-{kept}.ipynb"
            if kept == "cleared":
                copy = cleared(notebook)
            else:
                copy = notebooks.execute(notebook, tmp_path)
            notebooks.write(copy, tmp_path / name)
            wanted[name] = expected
    result, score = nbval(tmp_path)
    for name, expected in wanted.items():
        own = [e for e in score["exercises"] if e["notebook"].endswith(name)]
        got = {e["exercise"]: e["points"] for e in own}
        assert got == expected, result.stdout
        for e in own:  # what is worth nothing is a failed cell
            right = e["points"] == e["max_points"]
            assert e["status"] == ("passed" if right else "failed")
    total = sum(sum(x.values()) for x in wanted.values())
    most = len(wanted) * sum(points(short(key)).values())
    assert (score["points"], score["max_points"]) == (total, most)
    assert f"total  {total}/{most} points" in result.stdout
    assert result.returncode == 1


def test_a_wrong_chapter_scores_the_same_without_prefork(tmp_path):
    """The one kernel of a wrong chapter in `make test` that starts really."""
    notebook, expected = in_state("mask", "wrong")
    result, score = pytest_nbval(written(notebook, tmp_path))
    assert (score["points"], result.returncode) == (0, 1)
    assert {e["exercise"] for e in score["exercises"]} == set(expected)


SHOWING = """from attn.grading import check, goal, hint, why
padding = lambda *inputs: None
goal("loss", 1.5, at_most=1.9)
goal("no future", False)
hint("mask-causal")
check("mask-padding")
why()"""


def test_saved_cards_change_neither_the_score_nor_what_is_compared(
    nbval, tmp_path
):
    """Right answers pass and wrong ones fail, with the outputs of both."""
    notebook = short("mask")
    right = ids(notebook)[0]
    notebook = answered(notebook, ids(notebook), [])
    notebook.cells.append(nbformat.v4.new_code_cell(SHOWING))
    ran = carded(notebooks.execute(notebook, tmp_path))
    shown = ran.cells[-1].outputs
    assert len(shown) > 3 and all("data" in x for x in shown)
    result, score = nbval(written(ran, tmp_path))
    assert score["points"] == score["max_points"], result.stdout
    assert result.returncode == 0, result.stdout
    for cell in ran.cells:
        if cells.exercise_id(cell) == right:
            cell.source = sources.stub(right)  # its check shows a tick still
    ran.cells[-1].outputs[0].data["text/plain"] = "✓ loss: 1.2, at most 1.9"
    result, score = nbval(written(ran, tmp_path))
    lost = points(notebook)[right]
    assert score["points"] == score["max_points"] - lost
    assert "2 failed" in result.stdout


def test_a_missing_check_is_worth_nothing_and_is_named(nbval, tmp_path):
    notebook, expected = in_state("mask", "solved")
    gone = ids(notebook)[1]
    notebook.cells = [c for c in notebook.cells if cells.checked_id(c) != gone]
    _, score = nbval(written(notebook, tmp_path))
    statuses = {e["exercise"]: e["status"] for e in score["exercises"]}
    assert statuses.pop(gone) == "missing"
    assert set(statuses.values()) == {"passed"}
    assert score["points"] == sum(expected.values()) - expected[gone]


def test_an_edited_check_cell_earns_nothing(nbval, tmp_path):
    notebook, expected = in_state("mask", "untouched")
    for cell in notebook.cells:
        if name := cells.checked_id(cell):
            worth = cell.metadata["nbgrader"]["points"]
            cell.source = f'print("✓ {name}  {worth}/{worth} points")'
            cell.metadata["tags"] = ["nbval-skip"]
    _, score = nbval(written(notebook, tmp_path))
    assert score["points"] == 0


def test_a_dead_kernel_is_reported_before_the_timeout(nbval, tmp_path):
    notebook, _ = in_state("mask", "solved")
    victim = next(c for c in notebook.cells if cells.exercise_id(c))
    victim.source += "\nimport os\nos._exit(1)"
    result, score = nbval(written(notebook, tmp_path), "--tb=short")
    assert "the kernel died while it ran this cell" in result.stdout
    assert "Timeout" not in result.stdout
    assert result.returncode == 1
    assert score["points"] == 0


def test_junit_names_the_exercise_and_its_points(nbval, tmp_path):
    notebook, expected = in_state("mask", "half")
    junit = tmp_path / "junit.xml"
    nbval(written(notebook, tmp_path), f"--junitxml={junit}")
    points_of = {}
    for case in ElementTree.parse(junit).iter("testcase"):
        about = {p.get("name"): p.get("value") for p in case.iter("property")}
        if "exercise" in about:
            points_of[about["exercise"]] = int(about["points"])
    assert points_of == expected


def test_the_score_is_the_same_with_parallel_workers(nbval, tmp_path):
    notebook, expected = in_state("mask", "half")
    _, score = nbval(
        written(notebook, tmp_path), "-n", "2", "--dist", "loadscope"
    )
    assert score["points"] == sum(expected.values())


def test_a_notebook_without_exercises_is_not_scored(nbval, tmp_path):
    notebook = short("mask")
    for cell in notebook.cells:
        cell.metadata.pop("nbgrader", None)
    notebook.cells = notebook.cells[:1]
    result, score = nbval(written(notebook, tmp_path))
    assert score is None
    assert "points" not in result.stdout


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
    worth = points(notebook)
    assert {e["exercise"]: e["points"] for e in score["exercises"]} == worth
    assert {e["status"] for e in score["exercises"]} == {"passed"}
    total = sum(worth.values())
    assert (score["points"], score["max_points"]) == (total, total)
    assert f"total  {total}/{total} points" in result.stdout
