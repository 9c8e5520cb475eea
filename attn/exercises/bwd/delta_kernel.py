"""Cases of ``bwd-delta_kernel``."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from attn.exercises.draw import Draw
from attn.exercises.kernel import Emulated, amid, result
from attn.exercises.spec import Case, Exercise
from attn.exercises.symmetry import amid_others, is_view
from attn.exercises.triton_compat import triton


def launch(
    kernel: Any,
    out: Tensor,
    d_out: Tensor,
    block_l: int = 16,
    block_d: int = 16,
) -> Tensor:
    """Launch one program per block of rows of each head."""
    H, L, D = out.shape
    dtype = torch.promote_types(out.dtype, torch.float32)
    names = ("DELTA",)
    with result((H, L), dtype, names=names, OUT=out, DO=d_out) as delta:
        kernel[(triton.cdiv(L, block_l), H)](
            out, d_out, delta, L, D, *out.stride()[:2], *d_out.stride()[:2],
            delta.stride(0), BLOCK_L=block_l, BLOCK_D=block_d,
        )  # fmt: skip
    return delta


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
