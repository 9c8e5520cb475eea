"""Cases, properties and right answers of ``cache-decode_step``."""

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attn import functional
from attn.exercises.draw import Draw
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


def _cases(g: Draw) -> Iterator[Case]:
    def randn(*shape: int, dtype: Any = None) -> Tensor:
        return torch.randn(*shape, generator=g).to(dtype)

    def tables(rows: int, D: int, still: bool) -> tuple[Tensor, Tensor]:
        positions = torch.zeros(rows) if still else torch.arange(rows)
        return rope_tables(positions, rope_frequencies(D, 100.0).inv_freq)

    def case(
        when: str,
        P: int,
        L: int,
        sizes: tuple[int, ...] = (2, 3, 3, 6, 5),  # B, H, Hkv, D, Dv
        spare: int = 4,
        still: bool = False,
        dtype: Any = None,
    ) -> Case:
        B, H, Hkv, D, Dv = sizes
        inputs = (
            2 * randn(B, H, L, D, dtype=dtype),
            randn(B, Hkv, L, D, dtype=dtype),
            randn(B, Hkv, L, Dv, dtype=dtype),
            randn(B, Hkv, P, D, dtype=dtype),
            randn(B, Hkv, P, Dv, dtype=dtype),
        )
        return Case(when, (*inputs, *tables(P + L + spare, D, still)))

    when = "there is one token and no past, so only its value counts"
    yield case(when, 0, 1, still=True)
    yield case(when, 0, 1)

    when = "cos is 1 and sin is 0, so nothing is rotated; one token is new"
    yield case(when, 4, 1, still=True)
    yield case(when, 1, 1, still=True)

    when = "cos is 1 and sin is 0; several tokens are new"
    yield case(when, 5, 3, still=True)
    yield case(when, 2, 4, still=True)

    when = "the past is empty: a prompt is read"
    yield case(when, 0, 5)
    yield case(when, 0, 3, spare=0)

    when = "one token follows"
    yield case(when, 6, 1)
    yield case(when, 1, 1, spare=0)

    when = "several tokens follow"
    yield case(when, 3, 4)
    yield case(when, 7, 2, spare=0)

    when = "there are as many new tokens as old ones"
    yield case(when, 3, 3)

    when = "query heads share key heads"
    yield case(when, 4, 1, (2, 6, 2, 4, 3))
    yield case(when, 3, 3, (2, 4, 2, 4, 4))
    yield case(when, 2, 5, (1, 4, 1, 6, 6))

    when = "axes have the same length"
    yield case(when, 2, 2, (2, 2, 2, 2, 2))
    yield case(when, 4, 4, (4, 4, 4, 4, 4))

    when = "there are one sequence and one head"
    yield case(when, 5, 1, (1, 1, 1, 8, 8))

    when = "keys and values are views of other tensors"
    found = case(when, 3, 2, (2, 3, 3, 4, 4))
    inputs = [x.transpose(1, 2).contiguous().mT.mT for x in found.args[:5]]
    views = tuple(x.transpose(1, 2) for x in inputs)
    yield Case(when, (*views, *found.args[5:]))

    when = "everything is float64"
    yield case(when, 3, 2, dtype=torch.float64)


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


@exercise.equivalent("grouped products by hand, scores masked with -inf")
def _by_hand(query, key, value, past_key, past_value, cos, sin):
    P, L = past_key.size(2), key.size(2)
    at = torch.arange(P, P + L)
    q, k = (
        apply_rope(query, cos[at], sin[at]),
        apply_rope(key, cos[at], sin[at]),
    )
    keys = torch.cat((past_key, k), dim=2)
    values = torch.cat((past_value, value), dim=2)
    B, H, _, D = q.shape
    q = q.view(B, keys.shape[1], -1, L, D) / math.sqrt(D)
    scores = q @ keys.unsqueeze(2).mT  # (B, Hkv, G, L, S)
    hidden = torch.arange(P + L) > at[:, None]
    weights = scores.masked_fill(hidden, -math.inf).softmax(-1)
    out = weights @ values.unsqueeze(2)
    return out.flatten(1, 2), keys, values


@exercise.equivalent("one new token at a time")
def _one_by_one(query, key, value, past_key, past_value, cos, sin):
    outs = []
    for i in range(key.shape[2]):
        m = past_key.shape[2]
        one = slice(i, i + 1)
        c, s = cos[m : m + 1], sin[m : m + 1]
        k = apply_rope(key[:, :, one], cos=c, sin=s)
        past_key = torch.cat([past_key, k], 2)
        past_value = torch.cat([past_value, value[:, :, one]], 2)
        q = apply_rope(query[:, :, one], c, s)
        outs.append(
            F.scaled_dot_product_attention(
                q, past_key, past_value, enable_gqa=True
            )
        )
    return torch.cat(outs, 2), past_key, past_value


@exercise.equivalent("rotated by hand, heads repeated, an additive mask")
def _repeated(query, key, value, past_key, past_value, cos, sin):
    def turn(x):
        P, L = past_key.shape[2], x.shape[2]
        a, b = x.chunk(2, -1)
        turned = torch.cat([-b, a], -1)
        out = x * cos.narrow(0, P, L) + turned * sin.narrow(0, P, L)
        return out.to(x.dtype)

    keys = torch.cat([past_key, turn(key)], -2)
    values = torch.cat([past_value, value], -2)
    G = query.shape[1] // key.shape[1]
    L, S = key.shape[2], keys.shape[2]
    bias = torch.full((L, S), -torch.inf, dtype=query.dtype).triu(S - L + 1)
    out = F.scaled_dot_product_attention(
        turn(query),
        keys.repeat_interleave(G, 1),
        values.repeat_interleave(G, 1),
        bias,
    )
    return out, keys, values


@exercise.equivalent("bottom right, from a whole square")
def _square(query, key, value, past_key, past_value, cos, sin):
    L = key.shape[2]
    keys = F.pad(past_key, (0, 0, 0, L))
    values = F.pad(past_value, (0, 0, 0, L))
    S = keys.shape[2]
    keys[:, :, S - L :] = apply_rope(key, cos[S - L : S], sin[S - L : S])
    values[:, :, S - L :] = value
    square = torch.ones(S, S).tril().bool()
    q = apply_rope(query, cos[S - L : S], sin[S - L : S])
    out = F.scaled_dot_product_attention(
        q, keys, values, attn_mask=square[-L:], enable_gqa=True
    )
    return [out, keys, values]
