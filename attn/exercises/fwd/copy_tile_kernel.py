"""Cases and correct variants of ``fwd-copy_tile_kernel``."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from attn.exercises.draw import Draw
from attn.exercises.kernel import Emulated, amid, result, where_kernels_run
from attn.exercises.spec import Case, Exercise
from attn.exercises.symmetry import amid_others, is_view, not_square
from attn.exercises.triton_compat import tl, triton


def launch(
    kernel: Any, x: Tensor, BLOCK_R: int, BLOCK_C: int, transposed_out: bool
) -> Tensor:
    """Launch one program per tile."""
    x = where_kernels_run(x)
    rows, columns = x.shape
    shape = (columns, rows) if transposed_out else (rows, columns)
    with result(shape, X=x) as memory:
        out = memory.T if transposed_out else memory
        kernel[(triton.cdiv(rows, BLOCK_R), triton.cdiv(columns, BLOCK_C))](
            x, out, rows, columns, *x.stride(), *out.stride(),
            BLOCK_R=BLOCK_R, BLOCK_C=BLOCK_C,
        )  # fmt: skip
    return out.cpu()


def _emulated(
    _grid: Any, X: Tensor, OUT: Tensor, *_: int, **_blocks: int
) -> None:
    OUT.copy_(X)


def _cases(g: Draw) -> Iterator[Case]:
    def case(
        when: str,
        rows: int,
        columns: int,
        blocks: tuple[int, int] = (4, 8),
        *,
        gap: int = 0,
        transposed: bool = False,
        transposed_out: bool = False,
        dtype: torch.dtype = torch.float32,
    ) -> Case:
        shape = (columns, rows) if transposed else (rows, columns)
        x = amid(torch.randn(shape, generator=g).to(dtype), gap)
        x = x.T if transposed else x
        return Case(when, (x, *blocks, transposed_out))

    yield case("one tile holds the matrix", 4, 8)
    when = "there are several tiles below one another"
    yield case(when, 12, 8)
    when = "there are several tiles side by side"
    yield case(when, 4, 24)
    when = "there are several tiles in both directions"
    yield case(when, 8, 24, gap=3)
    when = "the rows end inside a tile"
    yield case(when, 6, 8, gap=3)
    when = "the columns end inside a tile"
    yield case(when, 4, 13, gap=3)
    yield case(when, 4, 3, gap=3)
    when = "the matrix is transposed"
    yield case(when, 4, 8, transposed=True, gap=2)
    yield case(when, 11, 13, transposed=True, gap=2)
    when = "the result is transposed"
    yield case(when, 11, 13, (8, 4), transposed_out=True, gap=1)
    when = "the matrix is float16"
    yield case(when, 5, 9, (4, 4), gap=1, dtype=torch.float16)


exercise = Exercise(
    id="fwd-copy_tile_kernel",
    points=1,
    reference=Emulated(_emulated),
    launch=launch,
    cases=_cases,
    breaks={
        "L = S": not_square,
        "zeroed memory": amid_others,
        "contiguous strides": is_view,
    },
)


@exercise.equivalent("blocks of indices, made two-dimensional late")
@triton.jit
def _late(
    X, OUT, rows, columns, x_r, x_c, o_r, o_c,
    BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    i, j = tl.program_id(0), tl.program_id(1)
    r = i * BLOCK_R + tl.arange(0, BLOCK_R)
    c = j * BLOCK_C + tl.arange(0, BLOCK_C)
    x = tl.load(
        X + r[:, None] * x_r + c[None, :] * x_c,
        mask=(r[:, None] < rows) & (c[None, :] < columns),
        other=0.0,
    )
    tl.store(
        OUT + (r[:, None] * o_r + c[None, :] * o_c),
        x,
        mask=(r[:, None] < rows) & (c[None, :] < columns),
    )


@exercise.equivalent("a tile of columns by rows, with the tile's corner first")
@triton.jit
def _columns_first(
    X, OUT, rows, columns, x_r, x_c, o_r, o_c,
    BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    top = tl.program_id(0).to(tl.int64) * BLOCK_R
    left = tl.program_id(1).to(tl.int64) * BLOCK_C
    X += top * x_r + left * x_c
    OUT += top * o_r + left * o_c
    r = tl.arange(0, BLOCK_R)[None, :]
    c = tl.arange(0, BLOCK_C)[:, None]
    inside = (r < rows - top) & (c < columns - left)
    tl.store(
        OUT + r * o_r + c * o_c, tl.load(X + r * x_r + c * x_c, inside), inside
    )


@exercise.equivalent("row by row")
@triton.jit
def _row_by_row(
    X, OUT, rows, columns, x_r, x_c, o_r, o_c,
    BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    for n in range(BLOCK_R):
        r = tl.program_id(0) * BLOCK_R + n
        if r < rows:
            x = tl.load(X + r * x_r + c * x_c, mask=c < columns)
            tl.store(OUT + r * o_r + c * o_c, x, mask=c < columns)


@exercise.equivalent("clamped indices, read again and again")
@triton.jit
def _clamped(
    X, OUT, rows, columns, x_r, x_c, o_r, o_c,
    BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    r, c = (
        tl.minimum(r, rows - 1)[:, None],
        tl.minimum(c, columns - 1)[None, :],
    )
    tl.store(OUT + r * o_r + c * o_c, tl.load(X + r * x_r + c * x_c))
