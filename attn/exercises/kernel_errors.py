"""Say what an error of Triton's means, in terms of the kernel."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from types import FrameType

from attn.exercises.guard import kernels_line

#: A pattern in the error, and the lesson. The first that matches counts.
LESSONS = {
    r"same dtype|[Ee]ither both|dtypes? .*mismatch": (
        "tl.dot multiplies two tiles of one dtype. The weights are float32 "
        "and a tile may be float16: convert one of them, for instance with "
        ".to(v.dtype)"
    ),
    r"not compatible for matmul|inner dimension|size .* is different from": (
        "tl.dot multiplies (m, k) by (k, n). Which of the two tiles is to be "
        "transposed, with tl.trans?"
    ),
    r"operand type\(s\) for @": (
        "a kernel multiplies tiles with tl.dot, and transposes with tl.trans"
    ),
    r"incompatible dimensions|could not be broadcast|Cannot broadcast": (
        "two blocks of different shapes meet. x[:, None] makes a column of a "
        "block, x[None, :] a row: which axis is each of them?"
    ),
    r"axis \d+ (is )?out of bounds": (
        "a block has as many axes as its shape has entries: tl.max(x, 1) "
        "needs two"
    ),
    r"power of (2|two)": (
        "tl.arange, tl.zeros and tl.full need a power of two that is known "
        "when the kernel is compiled: a tl.constexpr, such as a BLOCK"
    ),
    r"must have type `constexpr|must be (a )?(compile[- ]time|constexpr)": (
        "the compiler needs this number: it must be one of the arguments "
        "that are marked tl.constexpr"
    ),
    r"[Uu]nsupported ptr type|not a pointer|expected ptr": (
        "tl.load and tl.store need pointers: the tensor's argument, such as "
        "X, plus offsets"
    ),
    r"argument cannot be block type": (
        "the pointers are a single one, or a smaller block, and the mask is "
        "a block: give all three of tl.load's arguments the same shape"
    ),
    r"not (iterable|subscriptable)": (
        "a pointer is moved, X + offset, not indexed, X[offset]; the shape "
        "of tl.zeros is a list, [BLOCK]"
    ),
    r"'(tensor|TensorHandle)' object has no attribute": (
        "inside a kernel a block is no torch tensor: use tl.sum(x, 0), "
        "tl.max(x, 1), tl.trans(x), x.to(tl.float32)"
    ),
    r"torch\.(float|bfloat|int|Tensor)|must be Tensor, not tensor": (
        "inside a kernel only tl's functions and dtypes work: tl.exp, "
        "tl.where, tl.float32"
    ),
}


def explained(error: BaseException) -> BaseException:
    """Return an error that Triton wraps, with its meaning as a note.

    Its attribute ``where`` is the kernel's line. Triton's own functions may
    be kernels too, so that several errors wrap one another.
    """
    chain = [error]
    while type(error).__name__ == "InterpreterError" and error.__cause__:
        error = error.__cause__
        chain.append(error)
    text = f"{type(error).__name__}: {error}"
    for pattern, lesson in LESSONS.items():
        if re.search(pattern, text):
            error.add_note(lesson)
            break
    lines = [
        line
        for wrapped in reversed(chain)
        if (line := kernels_line(reversed([*_frames(wrapped)])))
    ]
    error.where = lines[0] if lines else ""  # type: ignore[attr-defined]
    return error


def _frames(error: BaseException) -> Iterator[FrameType]:
    for frame, _ in traceback.walk_tb(error.__traceback__):
        yield frame
