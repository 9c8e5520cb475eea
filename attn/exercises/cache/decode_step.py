"""Cases and properties of ``cache-decode_step``."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from attn import functional
from attn.exercises.conditions import dtypes, ones, views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view
from attn.positions import apply_rope, rope_frequencies, rope_tables


def decode_step(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    past_key: Tensor,
    past_value: Tensor,
    cos: Tensor,
    sin: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Attend with ``attn``'s function and its ``q_offset``."""
    P, end = past_key.shape[2], past_key.shape[2] + key.shape[2]
    query, key = (apply_rope(x, cos[P:end], sin[P:end]) for x in (query, key))
    key = torch.cat([past_key, key], 2)
    value = torch.cat([past_value, value], 2)
    out = functional.scaled_dot_product_attention(
        query, key, value, is_causal=True, enable_gqa=True, q_offset=P
    )
    assert isinstance(out, Tensor)
    return out, key, value


SIZES = {  # P, L, B, H, Hkv, D, Dv
    "the past is empty: a prompt is read": [(0, 5, 2, 3, 3, 6, 5)],
    "one token follows": [(6, 1, 2, 3, 3, 6, 5)],
    "several tokens follow": [(3, 4, 2, 3, 3, 6, 5)],
    "there are as many new tokens as old ones": [(3, 3, 2, 3, 3, 6, 5)],
    "query heads share key heads": [
        (4, 1, 2, 6, 2, 4, 3),
        (3, 3, 2, 4, 2, 4, 4),
        (2, 5, 1, 4, 1, 6, 6),
    ],
    "axes have the same length": [
        (2, 2, 2, 2, 2, 2, 2),
        (4, 4, 4, 4, 4, 4, 4),
    ],
    "there are one sequence and one head": [(5, 1, 1, 1, 1, 8, 8)],
    "the past is long, of 150 tokens": [(150, 9, 1, 2, 1, 4, 3)],
}
STILL = {  # P, L
    "there is one token and no past, so only its value counts": [(0, 1)],
    "cos is 1 and sin is 0, so nothing is rotated; one token is new": [
        (4, 1),
        (1, 1),
    ],
    "cos is 1 and sin is 0; several tokens are new": [(5, 3), (2, 4)],
}
NO_MORE = {  # P, L
    "cos and sin have a row for each position, no more": [
        (0, 3),
        (1, 1),
        (7, 2),
    ],
}


def _cases(g: Draw) -> Iterator[Case]:
    def case(
        when: str,
        P: int,
        L: int,
        *sizes: int,
        spare: int = 4,
        still: bool = False,
    ) -> Case:
        B, H, Hkv, D, Dv = sizes or (2, 3, 3, 6, 5)
        rows = P + L + spare
        positions = torch.zeros(rows) if still else torch.arange(rows)
        inputs = (
            2 * g.randn(B, H, L, D),
            g.randn(B, Hkv, L, D),
            g.randn(B, Hkv, L, Dv),
            g.randn(B, Hkv, P, D),
            g.randn(B, Hkv, P, Dv),
            *rope_tables(positions, rope_frequencies(D, 100.0).inv_freq),
        )
        return Case(when, inputs)

    for when, lengths in entries(STILL):
        yield case(when, *lengths, still=True)
    yield case("there is one token and no past", 0, 1)
    for when, sizes in entries(SIZES):
        yield case(when, *sizes)
    for when, lengths in entries(NO_MORE):
        yield case(when, *lengths, spare=0)


def _three(case: Case, out: Any) -> bool:
    return isinstance(out, (tuple, list)) and len(out) == 3


def _appended(case: Case, out: Any) -> bool:
    """Compare the past with the beginning of what is returned."""
    if not _three(case, out):
        return True
    pasts = case.args[3:5]
    return all(
        isinstance(x, Tensor)
        and x.shape[:2] == past.shape[:2]
        and x.shape[2] == past.shape[2] + case.args[1].shape[2]
        and torch.allclose(x[:, :, : past.shape[2]], past)
        for x, past in zip(out[1:], pasts, strict=True)
    )


def _new_keys(case: Case, out: Any) -> bool:
    """Compare the new keys, for a past that is kept."""
    if not _three(case, out) or not _appended(case, out):
        return True
    P = case.args[3].shape[2]
    right = decode_step(*case.args)[1][:, :, P:]
    return torch.allclose(out[1][:, :, P:], right, atol=1e-4)


exercise = Exercise(
    id="cache-decode_step",
    points=3,
    reference=decode_step,
    cases=_cases,
    returns=("the output", "key", "value"),
    also=(
        dtypes(torch.float64),
        views(),
        ones("B L", "B H Hkv", "H Hkv L"),
    ),
    given={"apply_rope": apply_rope},
    properties=(
        Property(
            "A step returns three things: the output, all keys, all values.",
            _three,
        ),
        Property(
            "The keys and values returned begin with those of the past, as "
            "they came, and end with the new ones: P + L on axis 2. Here "
            "they do not: is something rotated twice, left out, or in "
            "front?",
            _appended,
        ),
        Property(
            "The new keys that are returned are those of other positions: "
            "by which rows of cos and sin was the first of them rotated, "
            "and at which position is it?",
            _new_keys,
        ),
    ),
    breaks={
        "position 0": lambda c: c.args[3].shape[2] and c.args[6].any(),
        "S = 1": lambda c: c.args[3].shape[2] > 0,
        "H = 1": lambda c: 1 < c.args[1].shape[1] < c.args[0].shape[1],
        "L = S": lambda c: c.args[1].shape[2] > 1 and c.args[3].shape[2],
        "contiguous strides": is_view,
    },
)
