"""Cases and properties of ``iface-mask_function``."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from attn import masks
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property


def mask_function(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int,
    kv_offset: int,
    mask_function: Callable,
    attention_mask: Tensor | None = None,
    **kwargs: Any,
) -> Tensor:
    """Cut the mask out of that of the whole text: the reference."""
    tokens = q_offset + q_length, kv_offset + kv_length
    q, kv = torch.meshgrid(*map(torch.arange, tokens), indexing="ij")
    b = torch.arange(batch_size)[:, None, None, None]
    whole = mask_function(b, torch.zeros_like(b[:1]), q, kv)
    allowed = whole[..., q_offset:, kv_offset:]
    if attention_mask is not None:
        real = torch.zeros(batch_size, 1, 1, tokens[1], dtype=torch.bool)
        n = min(tokens[1], attention_mask.shape[1])
        real[:, 0, 0, :n] = attention_mask[:, :n] != 0
        allowed = allowed & real[..., kv_offset:]
    return allowed.expand(batch_size, 1, q_length, kv_length)


def _cases(g: Draw) -> Iterator[Case]:
    def real(*rows: tuple[int, int, int]) -> Tensor:
        """Rows of so much padding, text, and padding again."""
        parts = [[0] * a + [1] * b + [0] * c for a, b, c in rows]
        return torch.tensor(parts, dtype=torch.bool)

    n = g.between(1, 2)
    causal, both = masks.causal(), masks.window(2, 1)
    window = causal & masks.sliding_window(2 + n)
    ids = torch.tensor([[0, 0, 1, 1, 1, 2], [0, 1, 1, 2, 2, 2]])
    packed = causal & masks.documents(ids)
    chunks = causal & masks.chunked(4)
    grown, short = real((3, 4, 0), (0, 7, 0)), real((2, 3, 0), (0, 5, 0))
    late = real((4, 5, 0), (0, 9, 0), (5, 4, 0))
    long = real((1, 6, 0), (0, 7, 0))
    table = {  # B, L, S, the two offsets, predicate, attention_mask
        "there is one query and one key": [(1, 1, 1, 0, 0, causal)],
        "a prompt is read, one text": [(1, 4 + n, 4 + n, 0, 0, causal)],
        "a prompt is read, several texts": [(3, 5, 5, 0, 0, causal)],
        "the predicate is a sliding window": [(2, 7, 7, 0, 0, window)],
        "the predicate looks both ways": [(2, 6, 6, 0, 0, both)],
        "the predicate looks at the batch: documents": [
            (2, 6, 6, 0, 0, packed),
            (2, 2, 6, 4, 0, packed),
        ],
        "the predicate looks at the places in the text: chunks of 4": [
            (2, 7, 7, 0, 0, chunks),
            (2, 3, 8, 6, 1, chunks),
            (1, 2, 5, 6, 3, chunks),
        ],
        "one new token is decoded": [
            (2, 1, 6, 5, 0, causal),
            (1, 1, 6, 5, 0, window),
        ],
        "several new tokens are read": [
            (2, 3, 7 + n, 4 + n, 0, causal),
            (2, 3, 9, 6, 0, window),
        ],
        "the cache has dropped its first tokens": [
            (2, 1, 4, 6, 3, window),
            (1, 3, 5, 7, 5, window),
            (1, 2, 6, 6, 2, both),
        ],
        "the cache has room for more tokens (static)": [
            (2, 3, 8, 0, 0, causal),
            (2, 1, 8, 3, 0, both),
        ],
        "no token is padding, says attention_mask": [
            (2, 6, 6, 0, 0, causal, real((0, 6, 0), (0, 6, 0))),
        ],
        "the shorter text is padded on the right": [
            (3, 6, 6, 0, 0, causal, real((0, 6, 0), (0, 3, 3), (0, 5, 1))),
        ],
        "the shorter text is padded on the left": [
            (3, 5, 5, 0, 0, causal, real((0, 5, 0), (2, 3, 0), (1, 4, 0))),
        ],
        "attention_mask is made of the integers 0 and 1": [
            (2, 6, 6, 0, 0, causal, real((3, 3, 0), (0, 6, 0)).long()),
        ],
        "there are as many texts as tokens, and padding": [
            (3, 3, 3, 0, 0, causal, real((1, 2, 0), (0, 3, 0), (0, 2, 1))),
        ],
        "one new token is decoded, and some keys are padding": [
            (2, 1, 7, 6, 0, causal, grown),
            (2, 2, 7, 5, 0, window, grown),
        ],
        "some keys are padding, and the first are no longer in the cache": [
            (3, 1, 5, 8, 4, causal, late),
            (3, 1, 5, 8, 4, window, late),
            (3, 2, 6, 7, 3, both, late),
        ],
        "attention_mask ends before the cache does (static)": [
            (2, 5, 8, 0, 0, causal, short),
            (2, 5, 8, 0, 0, both, short),
            (2, 1, 8, 4, 0, both, short),
            (2, 1, 8, 4, 0, both, short | True),
        ],
        "attention_mask goes on behind the keys": [
            (2, 5, 5, 0, 0, causal, long),
            (2, 2, 4, 3, 1, both, long),
        ],
    }
    names = "batch_size", "q_length", "kv_length", "q_offset", "kv_offset"
    names = *names, "mask_function", "attention_mask"
    for when, values in entries(table):
        given: dict[str, Any] = {"attention_mask": None}
        given |= dict(zip(names, values, strict=False))
        yield Case(
            when, (), given | {"dtype": torch.float32, "use_vmap": False}
        )


def _axes(case: Case, out: Any) -> bool:
    x = case.kwargs
    shape = (x["batch_size"], 1, x["q_length"], x["kv_length"])
    return out.shape == shape


exercise = Exercise(
    id="iface-mask_function",
    points=3,
    reference=mask_function,
    cases=_cases,
    given={"Callable": Callable},
    properties=(
        Property(
            "The result is a bool tensor, also where nothing is masked: "
            "None would mean: attend to everything.",
            lambda case, out: (
                isinstance(out, Tensor) and out.dtype == torch.bool
            ),
        ),
        Property(
            "Attention needs four axes, (B, 1, L, S): one for the heads, "
            "even if they all share the mask.",
            _axes,
        ),
    ),
    breaks={
        "position 0": lambda c: c.kwargs["q_offset"] > 0,
        "S = 1": lambda c: c.kwargs["kv_length"] > 1,
        "L = S": lambda c: c.kwargs["q_length"] != c.kwargs["kv_length"],
    },
)
