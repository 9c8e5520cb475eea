"""Every right answer, in every style, earns its points in the sandbox."""

import importlib

import cloudpickle
import pytest

from attn.exercises import CHAPTERS, sources
from attn.exercises.spec import Exercise, chapter, every_exercise
from attn.grading.classroom import examiner
from tests.grading.sandbox.conftest import examined
from tests.grading.sandbox.honest import cell

PLAIN = ("gqa",)  # of the plain run: functions and a class
#: Parts of the package that helpers of exercises are taken from.
HELPERS = ("cost", "functional", "nn")
#: Styles that are made of the package itself, which is not in the sandbox.
OUTSIDE = (
    "mha-MultiHeadAttention: a loop over the heads",
    "mha-MultiHeadAttention: one packed product, masked with the lowest "
    "number",
    "mha-MultiHeadAttention: sequence by sequence, head by head",
    "rope-apply_rope_interleaved: to the other layout and back",
    "tfm-TransformerBlock: one product for the three projections",
)
STYLES = [
    pytest.param(
        exercise,
        style,
        id=f"{exercise.id}: {style}",
        marks=()
        if exercise.id == "why-soft_lookup"
        else pytest.mark.exhaustive,
    )
    for exercise in every_exercise()
    for style in exercise.equivalents
    if f"{exercise.id}: {style}" not in OUTSIDE
]


@pytest.fixture(scope="module")
def honest():
    """An examiner, in whose sandbox the package's helpers may be unpickled.

    Where torch has compiled one of them, it is pickled with its compiler.
    """
    modules = [importlib.import_module(f"attn.{x}") for x in HELPERS]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    with pytest.MonkeyPatch.context() as patch:
        compiler = dict.fromkeys(CHAPTERS, ("torch._dynamo",))
        patch.setattr(examiner, "IMPORTS", compiler | examiner.IMPORTS)
        with examiner.Examiner(20261) as one:
            yield one
    for module in modules:
        cloudpickle.unregister_pickle_by_value(module)


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(x, marks=() if x in PLAIN else pytest.mark.exhaustive)
        for x in CHAPTERS
        if sources.solutions_path(x).is_file()
    ],
)
def test_the_solutions_of_a_chapter_earn_all_points(honest, key):
    cells = {x.id: sources.solution(x.id) for x in chapter(key)}
    marks = examined(honest, key, cells)
    assert [x for x in marks.values() if not x.passed] == []
    assert marks.keys() == cells.keys()


@pytest.mark.parametrize(("exercise", "style"), STYLES)
def test_a_right_answer_in_another_style_earns_the_points(
    honest, exercise, style, monkeypatch
):
    text, given = cell(exercise, exercise.equivalents[style])
    usual = Exercise.usual
    monkeypatch.setattr(Exercise, "usual", lambda self: given | usual(self))
    mark = examined(honest, exercise.id.partition("-")[0], {exercise.id: text})
    assert mark[exercise.id].passed, mark[exercise.id].message


def test_nearly_all_styles_are_examined():
    every = sum(len(x.equivalents) for x in every_exercise())
    assert len(STYLES) == every - len(OUTSIDE) > 400
