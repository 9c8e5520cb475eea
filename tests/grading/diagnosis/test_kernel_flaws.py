"""A kernel with right results is refused for what a GPU would not forgive."""

import re
from pathlib import Path

import pytest

from attn.exercises import sources
from attn.exercises.edits import edited
from attn.exercises.kernel import function_of
from attn.exercises.launches import Recorded
from attn.exercises.outcome import Outcome
from attn.exercises.solution import solution
from attn.exercises.spec import every_exercise, find
from attn.grading.checks import kernels
from attn.grading.checks.inputs import input_size
from attn.grading.checks.oracle import Oracle
from attn.grading.checks.run import fail, run
from attn.grading.classroom.examiner import Examiner
from attn.grading.diagnosis.judge import judge
from attn.profiling.compat import language_kept_patched
from tests.grading.classroom.damage.kinds import cell_of, planned, solved
from tests.grading.diagnosis.own_mistakes import judged

KERNELS = [x for x in every_exercise() if x.launch]

NOT_COMPILED = "A kernel that Triton cannot compile"
ONE_TOO_MANY = """\
- // BLOCK_L * BLOCK_L
+ // BLOCK_L * BLOCK_L - BLOCK_L
- range(first, L, BLOCK_L)
+ range(tl.maximum(first, 0), L, BLOCK_L)"""
HELPERS = """\
LOG2E = tl.constexpr(1.4426950408889634)

def drawn():  # is not compiled
    return {x for x in "ab"}

@triton.jit
def base_two(x):
    return tl.exp2(x * LOG2E)

@triton.jit
def row_softmax_kernel(
    X, OUT, x_stride, out_stride, columns, BLOCK: tl.constexpr,
    TIMES: tl.constexpr = 1,
):
    row, lane = tl.program_id(0), tl.arange(0, BLOCK)
    inside = lane < columns * TIMES
    x = tl.load(X + row * x_stride + lane, inside, -float("inf"))
    e = base_two(x.to(tl.float32) - tl.max(x, 0))
    tl.store(OUT + row * out_stride + lane, e / tl.sum(e, 0), inside)
"""
A_BREAK_IN_A_HELPER = HELPERS.replace(
    "    return tl", "    while True:\n        break\n    return tl"
)
#: An exercise, the mistake's name, an edit, and what is said of it, a line
#: each.
FLAWED = re.findall(
    r"^## (\S+) · ([^\n]+)\n\n```diff\n(.+?)\n```\n\n((?:[^\n]+\n)+)",
    Path(__file__).with_name("kernel_flaws.md").read_text("utf-8"),
    re.MULTILINE | re.DOTALL,
)


@pytest.mark.parametrize(
    ("exercise_id", "mistake", "code", "words"),
    FLAWED,
    ids=[f"{x}: {y}" for x, y, *_ in FLAWED],
)
def test_a_flaw_is_named_and_told(exercise_id, mistake, code, words):
    found = judged(exercise_id, code)
    assert not found.passed and found.mistake == mistake
    for part in words.splitlines():
        assert part in found.message


def test_there_are_as_many_flaws_as_the_file_has():
    assert len(FLAWED) == 7


def test_a_tile_too_many_may_be_loaded_below_the_mask():
    assert judged("bwd-dkdv_kernel", ONE_TOO_MANY).passed


def test_without_time_to_compile_the_syntax_is_read(monkeypatch):
    monkeypatch.setattr(kernels, "LIMIT", 0.001)
    key, _, code, _ = FLAWED[0]
    assert "`break`" in judged(key, code).message
    assert judge(find(key), find(key).equivalents[0].answer).passed


def test_constants_and_helpers_of_a_kernel_are_compiled_with_it(monkeypatch):
    decorated = HELPERS.replace(
        "@triton.jit\ndef row",
        '@triton.heuristics({"TIMES": lambda given: 1})\n@triton.jit\ndef row',
    )
    assert judged("fwd-row_softmax_kernel", decorated).passed
    monkeypatch.setattr(kernels, "refused_syntax", None)  # not called
    assert judged("fwd-row_softmax_kernel", HELPERS).passed
    found = judged("fwd-row_softmax_kernel", A_BREAK_IN_A_HELPER)
    assert found.mistake == NOT_COMPILED and "`break`" in found.message


def test_the_syntax_of_helpers_is_read():
    found = kernels.refused_syntax(A_BREAK_IN_A_HELPER, "row_softmax_kernel")
    assert found and found.words["line"] == "break"
    assert not kernels.refused_syntax(HELPERS, "row_softmax_kernel")


@pytest.mark.parametrize(
    "styles",
    [False, pytest.param(True, marks=pytest.mark.exhaustive)],
    ids=["the solution", "other styles"],
)
@pytest.mark.parametrize("exercise", KERNELS, ids=lambda x: x.id)
def test_every_right_kernel_has_a_record_and_is_compiled(
    exercise, styles, monkeypatch
):
    monkeypatch.setattr(kernels, "refused_syntax", None)  # not called
    oracle = Oracle(exercise, 0)
    case = max(oracle.cases, key=input_size)
    others = [x.answer for x in exercise.equivalents]
    for answer in others if styles else [solution(exercise)]:
        with language_kept_patched():
            outcome = run(answer, case, launch=Recorded(exercise.launch))
        assert outcome.error is None
        record = outcome.output
        assert {*record} == {"types", "constants", "bytes", "times", "tf32"}
        assert kernels.refusal(function_of(answer), record) is None
        for name in (*exercise.loads_once, *exercise.skips_hidden):
            assert record["bytes"][name] and record["times"][name]


def test_a_kernel_without_a_record_is_refused():
    exercise = find("fwd-row_softmax_kernel")
    right = solution(exercise)

    def runner(answer, case, **options):
        if isinstance(options["launch"], Recorded):
            return fail(Outcome(), RuntimeError("not again"))
        return run(answer, case, **options)

    found = judge(exercise, right, runner=runner)
    assert not found.passed and "RuntimeError: not again" in found.message


def test_the_classroom_finds_them_without_executing_anything_outside(tmp_path):
    flawed = FLAWED[:3]  # of an exercise each
    book = solved("fwd")
    for name, _, code, _ in flawed:
        source = edited(sources.solution(name), code)
        cell_of(book, name)["source"] = source
    found = planned(book, tmp_path)
    points = {f"fwd-{name}": 1 for name in sources.names("fwd")}
    with Examiner(seed=3, timeout=60) as examiner:
        marks = examiner.examine(found, points)
    refused = {x.exercise: x.mistake for x in marks if not x.passed}
    assert refused == {name: wanted for name, wanted, *_ in flawed}
