"""Cases of ``fwd-copy_tile_kernel``."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from attn.exercises.draw import Draw
from attn.exercises.kernel import Emulated, amid, result
from attn.exercises.spec import Case, Exercise
from attn.exercises.symmetry import amid_others, is_view, not_square
from attn.exercises.triton_compat import triton


def launch(
    kernel: Any, x: Tensor, BLOCK_R: int, BLOCK_C: int, transposed_out: bool
) -> Tensor:
    """Launch one program per tile."""
    rows, columns = x.shape
    shape = (columns, rows) if transposed_out else (rows, columns)
    with result(shape, X=x) as memory:
        out = memory.T if transposed_out else memory
        kernel[(triton.cdiv(rows, BLOCK_R), triton.cdiv(columns, BLOCK_C))](
            x, out, rows, columns, *x.stride(), *out.stride(),
            BLOCK_R=BLOCK_R, BLOCK_C=BLOCK_C,
        )  # fmt: skip
    return out


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
    when = "X is a transposed view"
    yield case(when, 4, 8, transposed=True, gap=2)
    yield case(when, 11, 13, transposed=True, gap=2)
    when = "OUT is a transposed view"
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
