"""A learner's kernel is checked in Triton's interpreter without a crash."""

import os

import pytest

pytest.importorskip("triton")

from attn.exercises import sources
from attn.exercises.fwd.row_softmax_kernel import exercise
from attn.grading.diagnosis.judge import judge, mutation_score
from tests.exercises.oracles import oracle, thinned
from tests.processes import run_python

HEAD = "import attn\nfrom attn.exercises.triton_compat import tl, triton\n\n"
RIGHT = sources.solution(exercise.id) + "\n"
FAR = "it writes memory that is far from OUT"


@pytest.fixture
def verdict(write):
    """Return the verdict on a kernel from its source."""
    return lambda text: judge(
        exercise, write(text, exercise.name), oracle=oracle(exercise.id)
    )


def notebook(*cells):
    """Run cells in IPython, in a process; return what it writes and errs."""
    code = (
        "import sys\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell()\n"
        "for cell in sys.argv[1:]:\n"
        "    shell.run_cell(cell)\n"
    )
    first = f"from attn.grading import check\n{HEAD}"
    env = {**os.environ, "ATTN_NO_PROGRESS": "1"}
    done = run_python(code, first, *cells, env=env)
    return done.stdout, done.stderr


def test_the_error_for_a_kernel_without_triton_jit_names_the_decorator():
    plain = RIGHT.replace("@triton.jit\n", "")
    out, err = notebook(plain, f"check({exercise.id!r})")
    assert out == ""
    assert "write @triton.jit above its def" in err


def test_the_reference_replaces_a_wrong_kernel():
    wrong = RIGHT.replace("tl.exp(", "tl.math.exp2(")
    launch = (
        "import torch\nx, out = torch.ones(2, 4), torch.zeros(2, 4)\n"
        "row_softmax_kernel[(2,)](x, out, 4, 4, 4, BLOCK=4)\n"
        "print(out.tolist())"
    )
    check = f"check({exercise.id!r})"
    out, err = notebook(wrong, check, launch, check)
    assert out == f"{[[0.25] * 4] * 2}\n"
    assert err.count("this looks like: The weights are computed by exp2") == 2


@pytest.mark.parametrize(
    "wild",
    [
        "tl.load(X + row * x_stride + lane + 2**40)",
        "tl.load(X - 2**33 + lane * 10**9, inside, 0.0)",
    ],
)
def test_a_load_outside_memory_is_a_wrong_answer_not_a_crash(verdict, wild):
    load = 'tl.load(X + row * x_stride + lane, inside, -float("inf"))'
    assert RIGHT.count(load) == 1
    assert not verdict(RIGHT.replace(load, wild)).passed


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("tl.store(OUT + 2**40 + lane, e)", FAR),
        ("lane = tl.nothing(3)", "has no attribute 'nothing'"),
    ],
)
def test_a_wrong_line_is_shown_without_a_crash(verdict, line, said):
    message = verdict(f"{RIGHT}    {line}\n").message
    assert said in message and f"in the line  {line}" in message


def test_an_endless_loop_in_a_kernel_is_stopped(verdict, monkeypatch):
    monkeypatch.setattr("attn.grading.checks.oracle.TIME_LIMIT", 0.3)
    text = RIGHT + "    while True:\n        lane += 0\n"
    assert "did not finish" in verdict(text).message


def test_a_right_kernel_that_prints_passes(verdict):
    assert verdict(RIGHT + "    print(lane)\n").passed


def test_the_books_own_kernels_are_refused(verdict):
    text = (
        "from attn.kernels.decode import decode_split\n\n\n"
        "@triton.jit\n"
        "def row_softmax_kernel(X, OUT, a, b, columns, BLOCK: tl.constexpr):\n"
        "    decode_split(X, OUT, a, b, columns, BLOCK)\n"
    )
    assert "which holds the answer" in verdict(text).message


def test_a_check_without_triton_is_neither_right_nor_wrong():
    code = (
        "import sys; sys.modules['triton'] = None\n"
        "from attn.grading import check\n"
        "from attn.exercises.triton_compat import tl, triton\n"
        "@triton.jit\n"
        "def row_softmax_kernel(X, OUT, BLOCK: tl.constexpr): ...\n"
        f"check({exercise.id!r})\n"
        "print(triton.cdiv(10, 4), triton.next_power_of_2(9))\n"
        "try:\n    row_softmax_kernel[(1,)](1, 2)\n"
        "except Exception as e:\n    print(e._render_traceback_())\n"
    )
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    unavailable, sizes, traceback = done.stdout.splitlines()
    said = f"· {exercise.id}  not available here: Triton"
    assert unavailable.startswith(said)
    assert sizes == "3 16"
    assert "colab" in traceback


def test_kernels_are_judged_the_same_where_triton_compiles():
    """As on a GPU, whose language is afterwards what the compiler needs.

    Without a GPU, that there is no interpreter is reported.
    """
    part = thinned(exercise)
    code = (
        "import os; os.environ.pop('TRITON_INTERPRET', None)\n"
        "import triton.language as tl\n"
        "parts = tl, tl.core, tl.math, tl.standard, tl.core.tensor\n"
        "before = [dict(vars(x)) for x in parts]\n"
        "from attn.exercises.spec import find\n"
        "from attn.grading.diagnosis.judge import mutation_score\n"
        "from tests.exercises.oracles import thinned\n"
        f"exercise = thinned(find({exercise.id!r}))\n"
        "score = mutation_score(exercise)\n"
        "kinds = {type(x.answer).__name__ for x in exercise.mistakes}\n"
        "print(kinds, score.failures, score.counts)\n"
        "after = zip(parts, before, strict=True)\n"
        "print([n for x, own in after for n in own\n"
        "       if vars(x)[n] is not own[n]])\n"
        "import torch; torch.cuda.is_available = lambda: False\n"
        "from attn.exercises.triton_compat import unavailable_reason\n"
        "print(unavailable_reason())\n"
    )
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    score = mutation_score(part)
    verdicts = f"{{'JITFunction'}} [] {score.counts}"
    *judged, reason = done.stdout.splitlines()
    assert judged == [verdicts, "[]"]
    assert "restart the kernel" in reason
