"""Accesses outside the tensors are refused; Triton's errors get a lesson."""

from functools import partial

import pytest
import torch

pytest.importorskip("triton")

from attn.exercises import sources
from attn.exercises.guard import watched
from attn.exercises.kernel import result
from attn.exercises.kernel_errors import LESSONS
from attn.exercises.out_of_bounds import OutOfBounds
from attn.exercises.spec import chapter
from attn.grading.diagnosis.judge import judge
from tests.exercises.oracles import oracle
from tests.grading.diagnosis.own_mistakes import edited, judged, rows

if torch.cuda.is_available():
    pytest.skip("kernels are compiled here", allow_module_level=True)

KERNELS = {x.name: x for x in chapter("fwd") if x.launch}


def message(name, edit):
    """Return the diagnosis of a solution with an edit applied."""
    exercise = KERNELS[name]
    answer, right = edited(exercise.id, edit), oracle(exercise.id)
    return judge(exercise, answer, oracle=right).details


#: Kernels, edits of them, and the first element that is read.
READS = rows("""
copy_tile_kernel | x_c, inside) => x_c) | X[6, 0]
scores_kernel | q_l + d[None, :], real, 0.0) => q_l + d[None, :]) | Q[21, 0]
attention_forward_kernel | place, real, 0.0) => place) | Q[0, 21, 0]
attention_forward_kernel | k_s + d[None, :], inside, 0.0) => k_s + d[None, :])\
 | K[0, 30, 0]
""")
LONG = [pytest.param(*x, marks=pytest.mark.exhaustive) for x in READS[2:]]


@pytest.mark.parametrize(("name", "edit", "element"), [*READS[:2], *LONG])
def test_a_read_past_the_end_is_refused_even_if_the_result_is_right(
    name, edit, element
):
    text = message(name, edit)
    tensor, place = element[0], element[1:]
    assert f"it reads {tensor}{place}, and {tensor} has the shape" in text
    assert "in the line" in text and "tl.load(" in text


#: In the gap between two rows; an atomic addition, without a crash.
OUTSIDE = """
row_softmax_kernel | inside, -float => lane <= columns, -float\
 ; e = tl.exp(x => x = tl.where(inside, x, -1e38); e = tl.exp(x\
 | it reads X[0, 9], and X has the shape (2, 9)
copy_tile_kernel | tl.store(OUT + r => tl.atomic_add(OUT + 2**40 + r\
 | it writes memory that is far from OUT
"""


@pytest.mark.parametrize(("name", "edit", "said"), rows(OUTSIDE))
def test_an_access_outside_the_elements_is_refused(name, edit, said):
    assert said in message(name, edit)


def test_a_read_past_the_end_is_not_named_as_another_mistake():
    """What the kernel left behind is kept, and may be right."""
    verdict = judged("bwd-delta_kernel", "- (row < L)[:\n+ (row <= L)[:")
    assert not verdict.passed and verdict.mistake is None
    assert "it reads DO[0, 21, 0], and DO has" in verdict.message


@pytest.mark.parametrize("name", KERNELS)
def test_every_input_is_surrounded_by_nan(name):
    """Also between its rows, in every condition: a GPU sees no guard."""
    for case in KERNELS[name].generate(0):
        for x in case.args:
            if isinstance(x, torch.Tensor):
                memory = torch.empty(0).to(x.dtype).set_(x.untyped_storage())
                assert memory[:64].isnan().all() and memory[-64:].isnan().all()
                own = int((~memory.isnan()).sum())
                assert own == x.numel(), case.condition


def test_a_tile_loaded_by_a_descriptor_is_watched(write):
    """The interpreter calls its own method with a keyword there."""
    copy = write(
        "@triton.jit\ndef copy(X, OUT, B: tl.constexpr):\n"
        "    x = tl.make_tensor_descriptor(X, [B, B], [B, 1], [B, B])\n"
        "    out = tl.make_tensor_descriptor(OUT, [B, B], [B, 1], [B, B])\n"
        "    out.store([0, 0], x.load([0, 0]))\n",
        "copy",
    )
    x, out = torch.randn(16, 16), torch.zeros(16, 16)
    with watched(X=x[:8], OUT=out) as accesses:
        copy[(1,)](x, out, B=16)
    assert torch.equal(out[:8], x[:8]) and out[8:].isnan().all()
    assert "it reads X[8, 0]" in accesses.outside["X"].message


def test_each_of_several_results_has_its_own_name(write):
    two = write(
        "@triton.jit\ndef two(X, DK, DV, n, B: tl.constexpr):\n"
        "    i = tl.arange(0, B)\n"
        "    x = tl.load(X + i, i < 8, 0.0)\n"
        "    tl.store(DK + i, x, i < 8)\n"
        "    tl.store(DV + i, 2 * x, i < n)\n",
        "two",
    )
    x = torch.randn(8)
    results = partial(result, (2, 8), names=("DK", "DV"), X=x)
    with results() as out:
        two[(1,)](x, *out, 8, B=16)
    assert torch.equal(out, torch.stack([x, 2 * x]))
    said = r"it writes DV\[8\], and DV has"
    with pytest.raises(OutOfBounds, match=said), results() as out:
        two[(1,)](x, *out, 16, B=16)
    said = "it writes outside DK and DV"  # by PyTorch
    with pytest.raises(OutOfBounds, match=said), results() as out:
        out.fill_(0.0)
        out.as_strided((1,), (1,), 0).fill_(1.0)


def test_watching_leaves_the_interpreter_unchanged(write):
    from triton.runtime.interpreter import interpreter_builder

    before = set(vars(interpreter_builder))
    copy = write(sources.solution("fwd-copy_tile_kernel"), "copy_tile_kernel")
    x, out = torch.randn(5, 6), torch.zeros(5, 6)
    with watched(X=x[:4], OUT=out) as outer:
        with watched(X=x, OUT=out) as inner:
            copy[(2, 1)](x, out, 5, 6, 6, 1, 6, 1, BLOCK_R=4, BLOCK_C=8)
        assert torch.equal(x, out)
        assert not inner.outside and not outer.outside
        copy[(2, 1)](x, out, 5, 6, 6, 1, 6, 1, BLOCK_R=4, BLOCK_C=8)
        assert outer.outside and not inner.outside
    assert set(vars(interpreter_builder)) == before


ERRORS = """
attention_forward_kernel | weights.to(v.dtype) => weights | one dtype
copy_tile_kernel | tl.arange(0, BLOCK_R)[:, None] => tl.arange(0, BLOCK_R)\
 | shapes meet
copy_tile_kernel | (r < rows) => (X[r] < rows) | is moved
scores_kernel | tl.dot(q, tl.trans(k), input_precision="ieee") => (q @ k)\
 | with tl.dot
attention_forward_kernel | tl.zeros([BLOCK_L], tl => tl.zeros([L], tl\
 | tl.constexpr
row_softmax_kernel | tl.arange(0, BLOCK) => tl.arange(0, BLOCK + 1)\
 | power of two
row_softmax_kernel | tl.max(x, 0) => tl.max(x, 1) | as many axes
row_softmax_kernel | tl.sum(e, 0) => e.norm() | no torch tensor
row_softmax_kernel | X + row * x_stride + lane => lane | need pointers
row_softmax_kernel | X + row * x_stride + lane => X + row * x_stride\
 | same shape
"""


@pytest.mark.parametrize(("name", "edit", "lesson"), rows(ERRORS))
def test_an_error_of_triton_comes_with_a_lesson(name, edit, lesson):
    text = " ".join(message(name, edit).split())
    assert "it raised " in text and "in the line" in text
    assert lesson in text


def test_lessons_are_short():
    assert max(map(len, LESSONS.values())) < 200


def test_a_wrong_signature_is_reported_without_a_line_of_the_checker():
    fewer = "- x_stride, out_stride, columns\n+ x_stride, columns\n"
    fewer += "- row * out_stride\n+ row * x_stride"
    text = message("row_softmax_kernel", fewer)
    assert "it raised TypeError" in text and "in the line" not in text
