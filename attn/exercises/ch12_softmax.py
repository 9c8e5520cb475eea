"""Exercise ``fwd-row_softmax_kernel``: one program, one row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Generator, Tensor

from attn.exercises.kernel import (
    Emulated,
    amid,
    result,
    where_kernels_run,
)
from attn.exercises.spec import Case, Exercise
from attn.exercises.triton_compat import tl, triton
from attn.functional import softmax


def launch(kernel: Any, x: Tensor, BLOCK: int) -> Tensor:  # noqa: N803
    """One program for each row; the rows of the result lie farther apart."""
    x = where_kernels_run(x)
    rows, columns = x.shape
    with result(x.shape, x) as out:
        kernel[(rows,)](
            x, out, x.stride(0), out.stride(0), columns, BLOCK=BLOCK
        )
    return out.cpu()


def _fill(
    grid: Any, X: Any, OUT: Any, x_stride: int, out_stride: int,
    columns: int, BLOCK: int,
) -> None:  # fmt: skip  # noqa: N803
    """The reference, in the kernel's place."""
    OUT.copy_(softmax(X, -1))


def _cases(g: Generator) -> Iterator[Case]:
    def case(
        stage: str,
        rows: int,
        columns: int,
        block: int,
        *,
        spread: float = 1.0,
        shift: float = 0.0,
        gap: int = 0,
        dtype: torch.dtype = torch.float32,
    ) -> Case:
        x = torch.randn(rows, columns, generator=g) * spread + shift
        # Finite numbers beside the rows, so that to read them is one
        # mistake, and to leave lanes undefined (NaN) another.
        return Case(stage, (amid(x.to(dtype), 1.5, gap), block))

    yield case("there is one row, as long as the block", 1, 4, 4)
    stage = "there are several rows"
    yield case(stage, 3, 8, 8)
    yield case(stage, 5, 2, 2)
    stage = "the rows lie apart in memory"
    yield case(stage, 3, 8, 8, gap=3)
    stage = "a row is shorter than the block"
    yield case(stage, 4, 5, 8, gap=2)
    yield case(stage, 2, 9, 32, gap=1)
    yield case(stage, 2, 1, 16, gap=1)
    stage = "all scores of a short row are negative"
    yield case(stage, 3, 5, 8, shift=-30.0, gap=2)
    stage = "the scores are large"
    yield case(stage, 3, 6, 8, spread=80.0, gap=1)
    stage = "the input is float16"
    yield case(stage, 3, 48, 64, dtype=torch.float16, gap=2)


exercise = Exercise(
    id="fwd-row_softmax_kernel",
    points=2,
    reference=Emulated(_fill),
    launch=launch,
    cases=_cases,
    hints=(
        "row = tl.program_id(0) says which row this program has. Its numbers "
        "start at X + row * x_stride. lane = tl.arange(0, BLOCK) are all "
        "places of the block at once.",
        "Lanes beyond the row: mask=lane < columns in tl.load, and "
        "other=-float('inf'), so that they neither win the maximum nor add "
        "to the sum. tl.max(x, 0) and tl.sum(x, 0) reduce a block to one "
        "number.",
        "x = tl.load(...).to(tl.float32); e = tl.exp(x minus the maximum); "
        "store e over its sum at OUT + row * out_stride + lane, with the same "
        "mask.",
    ),
)


# --- one kernel whose steps can be wrong -------------------------------------


@triton.jit
def _walk(
    X, OUT, x_stride, out_stride, columns, BLOCK: tl.constexpr,
    OTHER: tl.constexpr, LOAD_ALL: tl.constexpr, STORE_ALL: tl.constexpr,
    FROM: tl.constexpr, SUBTRACT: tl.constexpr, BASE_2: tl.constexpr,
    DIVIDE: tl.constexpr,
):  # fmt: skip
    row, lane = tl.program_id(0), tl.arange(0, BLOCK)
    start = row * x_stride
    if FROM == 1:
        start = row * columns
    if FROM == 2:
        start = row * BLOCK
    if FROM == 3:
        start = row
    inside = lane < columns
    if LOAD_ALL:
        inside = lane < BLOCK
    if OTHER is None:
        x = tl.load(X + start + lane, mask=inside).to(tl.float32)
    else:
        x = tl.load(X + start + lane, mask=inside, other=OTHER)
        x = x.to(tl.float32)
    if SUBTRACT:
        x = x - tl.max(x, 0)
    e = tl.math.exp2(x) if BASE_2 else tl.exp(x)
    if DIVIDE == 1:
        e = e / tl.sum(e, 0)
    if DIVIDE == 2:
        e = e / columns
    place = row * (x_stride if FROM == 4 else out_stride)
    if FROM == 5:
        place = row * columns
    inside = lane < columns
    if STORE_ALL:
        inside = lane < BLOCK
    tl.store(OUT + place + lane, e, mask=inside)


_RIGHT = {
    "OTHER": -float("inf"),
    "LOAD_ALL": False,
    "STORE_ALL": False,
    "FROM": 0,
    "SUBTRACT": True,
    "BASE_2": False,
    "DIVIDE": 1,
}


@exercise.misconception(
    "lanes beyond the row count as zeros", exposed_by="a short, negative row"
)
def other_is_zero(grid, *args, **kwargs):
    """With other=0.0 each lane beyond the row is one more score of 0: it adds
    exp(0 - max) to the sum, and wins the maximum where all scores are
    negative. Which number adds nothing after exp?"""
    _walk[grid](*args, **kwargs, **{**_RIGHT, "OTHER": 0.0})


@exercise.misconception("a load without other", exposed_by="a short row")
def no_other(grid, *args, **kwargs):
    """What a masked lane holds without other= is undefined: on a GPU whatever
    was in the register. (The interpreter alone gives 0; this check gives NaN.)
    What should those lanes be?"""
    _walk[grid](*args, **kwargs, **{**_RIGHT, "OTHER": None})


@exercise.misconception("a load without a mask", exposed_by="a short row")
def no_mask(grid, *args, **kwargs):
    """The program reads BLOCK numbers, and the row has fewer: what lies behind
    it in memory takes part. Which lanes belong to the row?"""
    _walk[grid](*args, **kwargs, **{**_RIGHT, "LOAD_ALL": True})


@exercise.misconception(
    "rows as if they lay end to end", exposed_by="rows that lie apart"
)
def end_to_end(grid, *args, **kwargs):
    """row * columns is where a row starts in a fresh tensor. In a view it is
    not. Which argument says how far apart the rows of X are?"""
    _walk[grid](*args, **kwargs, **{**_RIGHT, "FROM": 1})


@exercise.misconception("rows start a block apart", exposed_by="several rows")
def by_block(grid, *args, **kwargs):
    """row * BLOCK is right for one long vector cut into blocks. Here a program
    takes a row, and rows are x_stride apart. Where does row 1 start?"""
    _walk[grid](*args, **kwargs, **{**_RIGHT, "FROM": 2})


@exercise.misconception("rows start a number apart", exposed_by="several rows")
def by_one(grid, *args, **kwargs):
    """Each program starts one number after the one before, so rows overlap.
    By what does the row's index have to be multiplied?"""
    _walk[grid](*args, **kwargs, **{**_RIGHT, "FROM": 3})


@exercise.misconception(
    "the input's stride for the output", exposed_by="several rows"
)
def same_stride(grid, *args, **kwargs):
    """X and OUT are different tensors, and their rows need not be equally far
    apart. Which stride belongs to OUT?"""
    _walk[grid](*args, **kwargs, **{**_RIGHT, "FROM": 4})


@exercise.misconception(
    "the output as if its rows lay end to end", exposed_by="several rows"
)
def out_end_to_end(grid, *args, **kwargs):
    """OUT's rows are out_stride apart, not columns. Where does row 1 of the
    result go?"""
    _walk[grid](*args, **kwargs, **{**_RIGHT, "FROM": 5})


@exercise.misconception("a store without a mask", exposed_by="a short row")
def store_all(grid, *args, **kwargs):
    """BLOCK numbers are stored, and the row has fewer: what lies behind it is
    overwritten, on a GPU somebody else's memory. Which lanes may be
    stored?"""
    _walk[grid](*args, **kwargs, **{**_RIGHT, "STORE_ALL": True})


@exercise.misconception("no maximum", exposed_by="large scores")
def no_max(grid, *args, **kwargs):
    """exp of a score of 100 overflows, and inf / inf is NaN. What may be
    subtracted from all scores of a row without changing its softmax?"""
    _walk[grid](*args, **kwargs, **{**_RIGHT, "SUBTRACT": False})


@exercise.misconception("exp2 without log2(e)", exposed_by="any row")
def base_two(grid, *args, **kwargs):
    """2 ** x in the place of e ** x: a softmax at another temperature. A GPU
    has exp2, so kernels use it, after a multiplication by log2(e) = 1.4427.
    Where is that factor?"""
    _walk[grid](*args, **kwargs, **{**_RIGHT, "BASE_2": True})


@exercise.misconception("never divided by the sum", exposed_by="any row")
def no_sum(grid, *args, **kwargs):
    """The largest weight of each row is 1, and a row does not sum to 1. What
    is left to do?"""
    _walk[grid](*args, **kwargs, **{**_RIGHT, "DIVIDE": 0})


@exercise.misconception(
    "divided by the number of columns", exposed_by="any row"
)
def by_columns(grid, *args, **kwargs):
    """The exponentials are averaged, and their sum is what makes a row of
    weights sum to 1. Which of Triton's functions adds up a block?"""
    _walk[grid](*args, **kwargs, **{**_RIGHT, "DIVIDE": 2})


# --- right, in other styles --------------------------------------------------


@exercise.equivalent("exp2, with log2(e) in front")
@triton.jit
def _exp2(X, OUT, x_stride, out_stride, columns, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    inside = lane < columns
    X += tl.program_id(0).to(tl.int64) * x_stride
    x = tl.load(X + lane, mask=inside, other=float("-inf"))
    x = x.to(tl.float32) * 1.4426950408889634
    e = tl.math.exp2(x - tl.max(x, 0))
    OUT += tl.program_id(0).to(tl.int64) * out_stride
    tl.store(OUT + lane, (e / tl.sum(e, 0)).to(OUT.dtype.element_ty), inside)


@exercise.equivalent("zeros, put right by tl.where")
@triton.jit
def _where(X, OUT, x_stride, out_stride, columns, BLOCK: tl.constexpr):
    row, lane = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(X + row * x_stride + lane, mask=lane < columns, other=0.0)
    x = tl.where(lane < columns, x.to(tl.float32), -1e38)
    e = tl.where(lane < columns, tl.exp(x - tl.max(x, 0)), 0.0)
    e /= tl.sum(e, 0)
    tl.store(OUT + row * out_stride + lane, e, mask=lane < columns)


@exercise.equivalent("through the log")
@triton.jit
def _log(X, OUT, x_stride, out_stride, columns, BLOCK: tl.constexpr):
    row, lane = tl.program_id(0), tl.arange(0, BLOCK)
    place = X + row * x_stride + lane
    x = tl.load(place, mask=lane < columns, other=-float("inf"))
    x = x.to(tl.float32)
    top = tl.max(x, 0)
    lse = top + tl.log(tl.sum(tl.exp(x - top), 0))
    out = OUT + row * out_stride + lane
    tl.store(out, tl.exp(x - lse), mask=lane < columns)


@exercise.equivalent("tl.softmax")
@triton.jit
def _built_in(X, OUT, x_stride, out_stride, columns, BLOCK: tl.constexpr):
    row, lane = tl.program_id(0), tl.arange(0, BLOCK)
    place = X + row * x_stride + lane
    x = tl.load(place, mask=lane < columns, other=-float("inf"))
    out = tl.softmax(x.to(tl.float32), dim=0)
    tl.store(OUT + row * out_stride + lane, out, mask=lane < columns)
