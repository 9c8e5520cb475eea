"""Cases of ``fwd-row_softmax_kernel``."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from attn.exercises.draw import Draw
from attn.exercises.kernel import Emulated, amid, result
from attn.exercises.spec import Case, Exercise
from attn.exercises.symmetry import amid_others, is_view
from attn.functional import softmax


def launch(kernel: Any, x: Tensor, BLOCK: int) -> Tensor:
    """Launch one program per row; the result's rows are farther apart."""
    rows, columns = x.shape
    with result(x.shape, X=x) as out:
        kernel[(rows,)](
            x, out, x.stride(0), out.stride(0), columns, BLOCK=BLOCK
        )
    return out


def _emulated(_grid: Any, X: Tensor, OUT: Tensor, *_: int, BLOCK: int) -> None:
    OUT.copy_(softmax(X, -1))


def _cases(g: Draw) -> Iterator[Case]:
    def case(
        when: str,
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
        return Case(when, (amid(x.to(dtype), gap), block))

    yield case("there is one row, as long as the block", 1, 4, 4)
    when = "there are several rows"
    yield case(when, 3, 8, 8)
    yield case(when, 5, 2, 2)
    when = "the rows are apart in memory"
    yield case(when, 3, 8, 8, gap=3)
    when = "a row is shorter than the block"
    yield case(when, 4, 5, 8, gap=2)
    yield case(when, 2, 9, 32, gap=1)
    yield case(when, 2, 1, 16, gap=1)
    when = "all scores of a short row are negative"
    yield case(when, 3, 5, 8, shift=-200.0, gap=2)
    when = "all scores are negative, and the row is as long as the block"
    yield case(when, 3, 8, 8, shift=-200.0, gap=2)
    when = "the scores are large"
    yield case(when, 3, 6, 8, spread=80.0, gap=1)
    yield case(when, 2, 5, 8, shift=200.0, gap=1)
    when = "the input is float16"
    yield case(when, 3, 48, 64, dtype=torch.float16, gap=2)


exercise = Exercise(
    id="fwd-row_softmax_kernel",
    points=2,
    reference=Emulated(_emulated),
    launch=launch,
    cases=_cases,
    loads_once=("X",),
    breaks={
        "S = 1": lambda c: c.args[0].shape[1] > 1,
        "L = S": lambda c: len({*c.args[0].shape, c.args[1]}) == 3,
        "zeroed memory": amid_others,
        "contiguous strides": is_view,
    },
)
