"""A kernel with right results is refused for what a GPU would not forgive."""

import pytest

from attn.exercises import sources
from attn.exercises.edits import Variant, edited
from attn.exercises.spec import find
from attn.grading.checks import front_end
from attn.grading.classroom.examiner import Examiner
from attn.grading.diagnosis.judge import judge

NOT_COMPILED = "A kernel that Triton cannot compile"
AGAIN = "A tile is loaded more than once"
BREAKS = {
    "fwd-attention_forward_kernel": """\
-     column = start + tl.arange(0, BLOCK_S)  # (s,)
+     if start >= S:
+         break
+     column = start + tl.arange(0, BLOCK_S)  # (s,)""",
    "bwd-dq_kernel": """\
-     column = block + tl.arange(0, BLOCK_S)  # (s,)
+     if block >= S:
+         break
+     column = block + tl.arange(0, BLOCK_S)  # (s,)""",
    "bwd-decode_split_kernel": """\
-     column = start + tl.arange(0, BLOCK_S)  # (s,)
+     if start >= S:
+         break
+     column = start + tl.arange(0, BLOCK_S)  # (s,)""",
}
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
    "bwd-dq_kernel": (
        "V",
        """\
-     s = tl.dot(q,
+     v = tl.load(V + column[:, None] * v_s + d[None, :], inside, 0.0)
+     s = tl.dot(q,""",
    ),
}
NOT_IEEE = """\
- tl.dot(q, tl.trans(k), input_precision="ieee")
+ tl.dot(q, tl.trans(k))"""


def verdict(exercise_id, code):
    exercise = find(exercise_id)
    variant = Variant(
        "edited",
        code,
        exercise_id,
        sources.solution(exercise_id),
        exercise.namespace,
    )
    return judge(exercise, variant.answer)


@pytest.mark.parametrize("exercise_id", BREAKS)
def test_what_triton_refuses_is_told_with_its_line(exercise_id):
    found = verdict(exercise_id, BREAKS[exercise_id])
    assert not found.passed and found.mistake == NOT_COMPILED
    assert "unsupported AST node type: Break" in found.message
    assert "in the line `break`" in found.message


def test_both_branches_of_a_constant_are_compiled():
    found = verdict("fwd-scores_kernel", IN_A_BRANCH)
    assert found.mistake == NOT_COMPILED and "type: Dict" in found.message


def test_a_list_of_tiles_is_refused():
    found = verdict("fwd-row_softmax_kernel", A_LIST)
    assert found.mistake == NOT_COMPILED and "tiles.append" in found.message


def test_without_time_to_compile_the_syntax_is_read(monkeypatch):
    monkeypatch.setattr(front_end, "LIMIT", 0.001)
    key = "bwd-dq_kernel"
    assert "`break`" in verdict(key, BREAKS[key]).message
    assert judge(find(key), find(key).equivalents[0].answer).passed


@pytest.mark.parametrize("exercise_id", TWICE)
def test_a_tile_is_loaded_once(exercise_id):
    tensor, code = TWICE[exercise_id]
    found = verdict(exercise_id, code)
    assert not found.passed and found.mistake == AGAIN
    assert f"the elements of {tensor} 2 times" in found.message


def test_a_product_keeps_all_bits_where_the_task_says_so():
    found = verdict("fwd-scores_kernel", NOT_IEEE)
    assert not found.passed and found.mistake == "tl.dot rounds to TF32"


def test_the_classroom_finds_them_without_executing_anything_outside():
    flawed = {
        "fwd-row_softmax_kernel": TWICE["fwd-row_softmax_kernel"][1],
        "fwd-scores_kernel": NOT_IEEE,
        "fwd-attention_forward_kernel": BREAKS["fwd-attention_forward_kernel"],
    }
    names = [f"fwd-{name}" for name in sources.names("fwd")]
    cells = {name: sources.solution(name) for name in names}
    for name, code in flawed.items():
        cells[name] = edited(cells[name], code)
    with Examiner(seed=3, timeout=60) as examiner:
        points = dict.fromkeys(names, 1)
        marks = list(examiner.examine("fwd", cells, points))
    refused = {x.exercise: x.mistake for x in marks if not x.passed}
    wanted = [AGAIN, "tl.dot rounds to TF32", NOT_COMPILED]
    assert refused == dict(zip(flawed, wanted, strict=True))
