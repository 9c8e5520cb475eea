"""A kernel with right results is refused for what a GPU would not forgive."""

import json

import pytest

from attn.exercises import sources
from attn.exercises.edits import edited
from attn.exercises.kernel import function_of
from attn.exercises.launches import Recorded
from attn.exercises.spec import every_exercise, find
from attn.grading.checks import kernels
from attn.grading.checks.inputs import input_size
from attn.grading.checks.oracle import Oracle
from attn.grading.checks.run import Outcome, fail, run
from attn.grading.classroom import plan
from attn.grading.classroom.examiner import Examiner
from attn.grading.classroom.submissions import Submission
from attn.grading.diagnosis.judge import judge, solution
from attn.profiling.compat import language_kept_patched
from tests.grading.classroom.damage.kinds import cell_of, solved
from tests.grading.diagnosis.own_mistakes import judged

KERNELS = [x for x in every_exercise() if x.launch]

NOT_COMPILED = "A kernel that Triton cannot compile"
AGAIN = "A tile is loaded more than once"
A_BREAK = """\
-     column = {0} + tl.arange(0, BLOCK_S)  # (s,)
+     if {0} >= S:
+         break
+     column = {0} + tl.arange(0, BLOCK_S)  # (s,)"""
IN_A_BRANCH = """\
- if IS_CAUSAL:
-     future = column[None, :] > row[:, None]
+ if IS_CAUSAL:
+     parts = {0: column[None, :]}
+     future = parts[0] > row[:, None]"""
A_LIST = """\
- tl.store(OUT + row * out_stride + lane, e / tl.sum(e, 0), inside)
+ tiles = []
+ tiles.append(e)
+ tl.store(OUT + row * out_stride + lane, tiles[0] / tl.sum(e, 0), inside)"""
#: What Triton refuses: an exercise, an edit, and what is said of its line.
REFUSED = [
    (
        "fwd-attention_forward_kernel",
        A_BREAK.format("start"),
        "unsupported AST node type: Break in the line `break`",
    ),
    ("fwd-scores_kernel", IN_A_BRANCH, "type: Dict"),
    ("fwd-row_softmax_kernel", A_LIST, "tiles.append"),
]
TWICE = {
    "fwd-attention_forward_kernel": (
        "K",
        """\
- out = tl.zeros([BLOCK_L, D], tl.float32)
+ out = tl.zeros([BLOCK_L, D], tl.float32)
+ for start in range(0, S, BLOCK_S):
+     column = start + tl.arange(0, BLOCK_S)
+     inside = column[:, None] < S
+     k = tl.load(K + column[:, None] * k_s + d[None, :], inside, 0.0)""",
    ),
    "fwd-row_softmax_kernel": (
        "X",
        """\
- e = tl.exp(
+ x = tl.load(X + row * x_stride + lane, inside, -float("inf"))
+ e = tl.exp(""",
    ),
}
NOTHING_SKIPPED = """\
- if IS_CAUSAL:  # the first block with a query that sees a key
-     first = tl.maximum(start - q_offset, 0) // BLOCK_L * BLOCK_L"""
ONE_TOO_MANY = """\
- // BLOCK_L * BLOCK_L
+ // BLOCK_L * BLOCK_L - BLOCK_L
- range(first, L, BLOCK_L)
+ range(tl.maximum(first, 0), L, BLOCK_L)"""
HELPERS = """\
LOG2E = tl.constexpr(1.4426950408889634)

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
A_BREAK_IN_A_HELPER = """\
def drawn():  # is not compiled
    return {x for x in "ab"}

@triton.jit
def fill(x, inside):
    while True:
        break
    return tl.where(inside, x, -float("inf"))

@triton.jit
def row_softmax_kernel(
    X, OUT, x_stride, out_stride, columns, BLOCK: tl.constexpr
):
    row, lane = tl.program_id(0), tl.arange(0, BLOCK)
    inside = lane < columns
    x = tl.load(X + row * x_stride + lane, inside, 0.0)
    e = tl.exp(fill(x, inside).to(tl.float32) - tl.max(fill(x, inside), 0))
    tl.store(OUT + row * out_stride + lane, e / tl.sum(e, 0), inside)
"""
NOT_IEEE = """\
- tl.dot(q, tl.trans(k), input_precision="ieee")
+ tl.dot(q, tl.trans(k))"""


@pytest.mark.parametrize(
    ("exercise_id", "code", "words"), REFUSED, ids=lambda x: x[:20]
)
def test_what_triton_refuses_is_told_with_its_line(exercise_id, code, words):
    found = judged(exercise_id, code)
    assert not found.passed and found.mistake == NOT_COMPILED
    for part in words.split(" in the "):
        assert part in found.message


def test_without_time_to_compile_the_syntax_is_read(monkeypatch):
    monkeypatch.setattr(kernels, "LIMIT", 0.001)
    (key, code, _), *_ = REFUSED
    assert "`break`" in judged(key, code).message
    assert judge(find(key), find(key).equivalents[0].answer).passed


@pytest.mark.parametrize("exercise_id", TWICE)
def test_a_tile_is_loaded_once(exercise_id):
    tensor, code = TWICE[exercise_id]
    found = judged(exercise_id, code)
    assert not found.passed and found.mistake == AGAIN
    assert f"the elements of {tensor} 2 times" in found.message


def test_a_product_keeps_all_bits_where_the_task_says_so():
    found = judged("fwd-scores_kernel", NOT_IEEE)
    assert not found.passed and found.mistake == "tl.dot rounds to TF32"


def test_hidden_tiles_are_not_loaded():
    found = judged("bwd-dkdv_kernel", NOTHING_SKIPPED)
    assert not found.passed
    assert found.mistake == "Tiles that the mask hides are read"
    assert "loads 100 % of what it loads" in found.message
    assert judged("bwd-dkdv_kernel", ONE_TOO_MANY).passed


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


def test_the_classroom_finds_them_without_executing_anything_outside(
    tmp_path,
):
    flawed = {
        "fwd-row_softmax_kernel": (TWICE["fwd-row_softmax_kernel"][1], AGAIN),
        "fwd-scores_kernel": (NOT_IEEE, "tl.dot rounds to TF32"),
        REFUSED[0][0]: (REFUSED[0][1], NOT_COMPILED),
    }
    book, path = solved("fwd"), tmp_path / "x.ipynb"
    for name, (code, _) in flawed.items():
        source = edited(sources.solution(name), code)
        cell_of(book, name)["source"] = source
    path.write_text(json.dumps(book))
    found = plan.read(Submission(path, path.name, path.stem))
    points = {f"fwd-{name}": 1 for name in sources.names("fwd")}
    with Examiner(seed=3, timeout=60) as examiner:
        marks = examiner.examine(found, points)
    refused = {x.exercise: x.mistake for x in marks if not x.passed}
    assert refused == {name: wanted for name, (_, wanted) in flawed.items()}
