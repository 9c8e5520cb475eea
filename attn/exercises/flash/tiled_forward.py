"""Cases, properties and correct variants of ``flash-tiled_forward``."""

import math
from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from attn import functional
from attn.exercises.flash.tiles import blocks, cases, tile_scores
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view, many_keys, many_queries


def tiled_forward(query, key, value, block_q, block_k, is_causal=False):
    """Call the reference with the task's own signature."""
    return functional.tiled_attention(
        query,
        key,
        value,
        is_causal=is_causal,
        return_lse=True,
        block_q=block_q,
        block_k=block_k,
    )


def _max_live(
    q: Tensor, k: Tensor, v: Tensor, block_q: int, block_k: int
) -> int:
    """Allow the result in parts and joined, and eight tiles."""
    lead = q[..., 0, 0].numel()
    result = q[..., 0].numel() * (v.shape[-1] + 1)
    return 2 * result + 8 * lead * block_q * (block_k + v.shape[-1] + 2)


def _cases(g: Generator) -> Iterator[Case]:
    yield from cases(g, lambda q, k, v, causal: (q, k, v), _max_live)


exercise = Exercise(
    id="flash-tiled_forward",
    points=3,
    reference=tiled_forward,
    cases=_cases,
    properties=(
        Property(
            "All scores are in memory at once. That is right, and it is not "
            "FlashAttention: no tensor may be much larger than an input.",
            lambda case, out: case.max_live is None,
        ),
    ),
    breaks={
        "S = 1": many_keys,
        "L = S": many_queries,
        "contiguous strides": is_view,
    },
)


def _pass(query, key, value, rows, columns, causal):
    top = torch.full_like(query[..., rows, :1], -math.inf)
    total, out = 0.0, 0.0
    for c in columns:
        s = tile_scores(query, key, rows, c, causal)
        new = torch.maximum(top, s.amax(-1, keepdim=True))
        weights, fade = (s - new).exp(), (top - new).exp()
        total = total * fade + weights.sum(-1, keepdim=True)
        out = out * fade + weights @ value[..., c, :]
        top = new
    return out / total, (top + total.log())[..., 0]


def _joined(states):
    outs, logs = zip(*states, strict=True)
    return torch.cat(outs, -2), torch.cat(logs, -1)


@exercise.equivalent("three sums in the loop")
def _three_sums(query, key, value, block_q, block_k, is_causal=False):
    columns = blocks(key.shape[-2], block_k)
    rows = blocks(query.shape[-2], block_q)
    return _joined(
        _pass(query, key, value, r, columns, is_causal) for r in rows
    )


@exercise.equivalent("keys outside, queries inside")
def _keys_outside(query, key, value, block_q, block_k, is_causal=False):
    lead = query.shape[:-1]
    lse = torch.full(lead, -math.inf)
    out = torch.zeros(*lead, value.shape[-1])
    for c in blocks(key.shape[-2], block_k):
        for r in blocks(query.shape[-2], block_q):
            s = tile_scores(query, key, r, c, is_causal)
            new = torch.logaddexp(lse[..., r], s.logsumexp(-1))
            safe = new.masked_fill(new == -math.inf, 0.0)
            fade = (lse[..., r] - safe).exp()[..., None]
            part = (s - safe[..., None]).exp() @ value[..., c, :]
            out[..., r, :] = out[..., r, :] * fade + part
            lse[..., r] = new
    return out, lse


@exercise.equivalent("one query at a time")
def _one_by_one(query, key, value, block_q, block_k, is_causal=False):
    return _three_sums(query, key, value, 1, block_k, is_causal)


@exercise.equivalent("skips fully masked tiles")
def _skips(query, key, value, block_q, block_k, is_causal=False):
    states = []
    for r in blocks(query.shape[-2], block_q):
        end = min(key.shape[-2], r.stop) if is_causal else key.shape[-2]
        columns = blocks(end, block_k)
        states.append(_pass(query, key, value, r, columns, is_causal))
    return _joined(states)
