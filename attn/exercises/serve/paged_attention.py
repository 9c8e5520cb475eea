"""Cases and properties of ``serve-paged_attention``."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from attn import functional
from attn.exercises.conditions import views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view


def paged_attention(
    query: Tensor,
    key_pages: Tensor,
    value_pages: Tensor,
    block_table: Tensor,
    seq_len: Tensor,
) -> Tensor:
    """Gather each row's tokens one by one, and attend to them alone."""
    size = key_pages.shape[2]
    rows = []
    for q, pages, n in zip(
        query, block_table.tolist(), seq_len.tolist(), strict=True
    ):
        at = [pages[t // size] for t in range(n)], [t % size for t in range(n)]
        key, value = (
            x[at[0], :, at[1]].transpose(0, 1)  # (Hkv, n, D)
            for x in (key_pages, value_pages)
        )
        rows.append(
            functional.scaled_dot_product_attention(
                q[:, None], key, value, enable_gqa=True
            )[:, 0]
        )
    return torch.stack(rows)  # (B, H, Dv)


LENGTHS = {  # H, Hkv, D, Dv, page_size, and the tokens of each row
    "each row has one token, so its value is the result": [
        (2, 2, 4, 3, 4, 1, 1),
        (3, 3, 5, 4, 1, 1),
    ],
    "each row has one page, and it is full": [(2, 2, 4, 5, 3, 3, 3)],
    "a row's last page is not full": [
        (2, 2, 4, 6, 4, 3, 3),
        (3, 3, 4, 2, 5, 9, 9, 9),
    ],
    "the rows have different lengths": [
        (2, 2, 4, 3, 3, 8, 2, 5),
        (3, 3, 8, 4, 7, 1, 13, 14, 15),
    ],
    "key heads are shared": [
        (6, 2, 4, 5, 3, 7, 4),
        (6, 3, 8, 4, 2, 5, 1, 6),
        (4, 1, 6, 3, 5, 11),
    ],
    "axes have the same length": [(2, 2, 2, 2, 2, 2, 2), (4, 4, 4, 4, 4, 9)],
    "B and H are 1": [(1, 1, 4, 3, 3, 5)],
    "a page holds one token": [(2, 2, 4, 5, 1, 3, 4)],
    "a text is long": [(2, 1, 4, 3, 5, 301, 77)],
}


def _cases(g: Draw) -> Iterator[Case]:
    def case(
        when: str,
        *sizes: int,
        fill: float = 0.0,
        scale: float = 1.0,
        shared: int = 0,
        table: torch.dtype = torch.int64,
    ) -> Case:
        """Put the rows of these lengths into a pool, pages in any order.

        The pool's first page and its last one are no row's: an answer that
        reads -1 as one or as the other reads the same.
        """
        H, Hkv, D, Dv, size, *lengths = sizes
        counts = [-(-n // size) for n in lengths]
        order = torch.randperm(sum(counts) + 1, generator=g).add(1).tolist()
        most = max(counts) + 1
        rows, taken = [], 0
        for count in counts:
            own = order[taken : taken + count]
            taken += count
            own = rows[0][:shared] + own[shared:] if rows else own
            rows.append(own + [-1] * (most - count))
        pool = (len(order) + 2, Hkv, size)
        key = torch.full((*pool, D), fill)
        value = torch.full((*pool, Dv), fill)
        for row, n in zip(rows, lengths, strict=True):
            for t in range(n):
                at = row[t // size], slice(None), t % size
                key[at] = scale * g.randn(Hkv, D)
                value[at] = g.randn(Hkv, Dv)
        query = scale * g.randn(len(lengths), H, D)
        numbers = torch.tensor(rows, dtype=table)
        return Case(when, (query, key, value, numbers, torch.tensor(lengths)))

    for when, sizes in entries(LENGTHS):
        yield case(when, *sizes)
    when = "a row has no token"
    yield case(when, 4, 2, 4, 3, 3, 5, 0, 2, fill=7.0)
    yield case(when, 2, 2, 3, 4, 2, 0, 3, fill=-7.0)
    when = "slots that were never written are large"
    yield case(when, 2, 2, 4, 3, 4, 6, 3, fill=50.0)
    yield case(when, 4, 2, 6, 5, 3, 4, 8, 1, fill=-50.0)
    when = "slots that were never written are NaN or infinite"
    yield case(when, 2, 2, 4, 3, 4, 6, 3, fill=math.nan)
    yield case(when, 4, 2, 5, 6, 3, 7, 0, 4, fill=math.nan)
    yield case(when, 2, 1, 4, 3, 3, 5, 1, fill=math.inf)
    when = "the scores are large"
    yield case(when, 4, 2, 8, 3, 4, 7, 10, scale=8.0)
    when = "two rows share their first pages"
    yield case(when, 4, 2, 4, 3, 3, 7, 8, shared=2)
    when = "block_table is int32, as kernels have it"
    yield case(when, 6, 3, 4, 5, 3, 5, 7, table=torch.int32)


def _within(case: Case, out: Tensor) -> bool:
    """Return whether each result is between the values of its row."""
    right = paged_attention(*case.args)
    if out.shape != right.shape:
        return True
    values = case.args[2]
    values = values[values.isfinite()]
    return bool(out.abs().max() <= values.abs().max() + 1e-4)


def _empty(case: Case, out: Tensor) -> bool:
    gone = case.args[4] == 0
    return out.shape[0] != len(gone) or bool((out[gone] == 0).all())


exercise = Exercise(
    id="serve-paged_attention",
    points=3,
    reference=paged_attention,
    cases=_cases,
    also=(views(),),
    properties=(
        Property(
            "An average of values is between the smallest and the largest, "
            "and this one is not: do the weights sum to 1?",
            _within,
        ),
        Property("A row without tokens must be 0.", _empty),
    ),
    breaks={
        "S = 1": lambda c: c.args[4].max() > 1,
        "H = 1": lambda c: c.args[0].shape[1] > c.args[1].shape[1] > 1,
        "identity block table": lambda c: (
            c.args[3][0, 0] != 0 and c.args[3].shape[0] > 1
        ),
        "zeroed memory": lambda c: not c.args[2].isfinite().all(),
        "contiguous strides": is_view,
    },
)
