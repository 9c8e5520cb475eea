"""Cases and correct variants of ``bwd-delta_kernel``."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from attn.exercises.draw import Draw
from attn.exercises.kernel import Emulated, amid, result, where_kernels_run
from attn.exercises.spec import Case, Exercise
from attn.exercises.symmetry import amid_others, is_view
from attn.exercises.triton_compat import tl, triton


def launch(
    kernel: Any,
    out: Tensor,
    d_out: Tensor,
    block_l: int = 16,
    block_d: int = 16,
) -> Tensor:
    """Launch one program per block of rows of each head."""
    out, d_out = where_kernels_run(out), where_kernels_run(d_out)
    H, L, D = out.shape
    dtype = torch.promote_types(out.dtype, torch.float32)
    names = ("DELTA",)
    with result((H, L), dtype, names=names, OUT=out, DO=d_out) as delta:
        kernel[(triton.cdiv(L, block_l), H)](
            out, d_out, delta, L, D, *out.stride()[:2], *d_out.stride()[:2],
            delta.stride(0), BLOCK_L=block_l, BLOCK_D=block_d,
        )  # fmt: skip
    return delta.cpu()


def _emulated(
    _grid: Any, OUT: Tensor, DO: Tensor, DELTA: Tensor, *_: int, **_blocks: int
) -> None:
    DELTA.copy_((OUT.to(DELTA.dtype) * DO.to(DELTA.dtype)).sum(-1))


def _cases(g: Draw) -> Iterator[Case]:
    def case(
        when: str,
        L: int,
        D: int,
        H: int = 1,
        *,
        gaps: tuple[int, int] = (0, 0),
        spread: float = 1.0,
        dtype: torch.dtype = torch.float32,
        **kwargs: Any,
    ) -> Case:
        tensors = (
            amid((spread * torch.randn(H, L, D, generator=g)).to(dtype), gap)
            for gap in gaps
        )
        return Case(when, tuple(tensors), kwargs)

    yield case("one block holds everything", 16, 16)
    yield case("there are several blocks of rows", 32, 16)
    when = "a block is not square"
    yield case(when, 32, 16, block_l=32)
    yield case(when, 32, 32, block_d=32)
    yield case("there are several heads", 16, 16, 3)
    when = "the tensors have strides of their own"
    yield case(when, 16, 16, 2, gaps=(1, 4))
    yield case("the rows end inside a block", 21, 16, 2, gaps=(2, 2))
    when = "a row is shorter than the block"
    yield case(when, 16, 11, gaps=(2, 2))
    yield case(when, 18, 13, 2, gaps=(7, 3))
    when = "the tensors are float16"
    half = {"dtype": torch.float16, "gaps": (1, 2)}
    yield case(when, 16, 16, **half)
    when = "the tensors are float16, and the products are large"
    yield case(when, 16, 16, **half, spread=300.0)


exercise = Exercise(
    id="bwd-delta_kernel",
    points=1,
    reference=Emulated(_emulated),
    launch=launch,
    cases=_cases,
    breaks={
        "H = 1": lambda c: c.args[0].shape[0] > 1,
        "position 0": lambda c: c.args[0].shape[1] > 16,
        "zeroed memory": amid_others,
        "contiguous strides": is_view,
    },
)


@exercise.equivalent("masks as the inputs' own, one row of pointers each")
@triton.jit
def _pointers(
    OUT, DO, DELTA, L, D, o_h, o_l, do_h, do_l, delta_h,
    BLOCK_L: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    h, first = tl.program_id(1), tl.program_id(0) * BLOCK_L
    l = first + tl.arange(0, BLOCK_L)[:, None]  # noqa: E741
    d = tl.arange(0, BLOCK_D)[None, :]
    x = tl.load(OUT + h * o_h + l * o_l + d, (l < L) & (d < D), other=0.0)
    y = tl.load(DO + h * do_h + l * do_l + d, (l < L) & (d < D), other=0.0)
    sums = tl.sum(x.to(tl.float32) * y.to(tl.float32), 1, keep_dims=True)
    tl.store(DELTA + h * delta_h + l, sums, l < L)


@exercise.equivalent("features first, summed over axis 0")
@triton.jit
def _features_first(
    OUT, DO, DELTA, L, D, o_h, o_l, do_h, do_l, delta_h,
    BLOCK_L: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    h = tl.program_id(1).to(tl.int64)
    l = tl.program_id(0) * BLOCK_L + tl.arange(0, BLOCK_L)  # noqa: E741
    d = tl.arange(0, BLOCK_D)[:, None]
    real = (l[None, :] < L) & (d < D)
    x = tl.load(OUT + h * o_h + l[None, :] * o_l + d, real, 0.0)
    y = tl.load(DO + h * do_h + l[None, :] * do_l + d, real, 0.0)
    tl.store(DELTA + h * delta_h + l, tl.sum(x * y.to(tl.float32), 0), l < L)


@exercise.equivalent("undefined lanes, removed by tl.where")
@triton.jit
def _chosen(
    OUT, DO, DELTA, L, D, o_h, o_l, do_h, do_l, delta_h,
    BLOCK_L: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * BLOCK_L + tl.arange(0, BLOCK_L)
    d = tl.arange(0, BLOCK_D)
    inside = (row[:, None] < L) & (d[None, :] < D)
    OUT += tl.program_id(1) * o_h
    DO += tl.program_id(1) * do_h
    o = tl.load(OUT + row[:, None] * o_l + d[None, :], mask=inside)
    do = tl.load(DO + row[:, None] * do_l + d[None, :], mask=inside)
    product = tl.where(inside, o.to(tl.float32) * do.to(tl.float32), 0.0)
    place = DELTA + tl.program_id(1) * delta_h + row
    tl.store(place, tl.sum(product, 1), mask=row < L)


@exercise.equivalent("one feature after the other")
@triton.jit
def _one_by_one(
    OUT, DO, DELTA, L, D, o_h, o_l, do_h, do_l, delta_h,
    BLOCK_L: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * BLOCK_L + tl.arange(0, BLOCK_L)
    OUT += tl.program_id(1) * o_h + row * o_l
    DO += tl.program_id(1) * do_h + row * do_l
    total = tl.zeros([BLOCK_L], tl.float32)
    for d in range(0, D):
        o = tl.load(OUT + d, row < L, 0.0).to(tl.float32)
        total += o * tl.load(DO + d, row < L, 0.0).to(tl.float32)
    tl.store(DELTA + tl.program_id(1) * delta_h + row, total, row < L)
