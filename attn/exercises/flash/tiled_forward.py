"""Cases, properties and correct variants of ``flash-tiled_forward``."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from attn import functional
from attn.exercises.conditions import views
from attn.exercises.draw import Draw
from attn.exercises.flash.tiles import blocks, cases, tile_scores
from attn.exercises.spec import Case, Exercise
from attn.exercises.symmetry import OF_ATTENTION


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


def _cases(g: Draw) -> Iterator[Case]:
    def result(q: Tensor, k: Tensor, v: Tensor) -> int:
        return q[..., 0].numel() * (v.shape[-1] + 1)  # out and lse

    yield from cases(g, lambda q, k, v, causal: (q, k, v), result)


exercise = Exercise(
    id="flash-tiled_forward",
    points=3,
    reference=tiled_forward,
    cases=_cases,
    also=(views(),),
    forbids=("scaled_dot_product_attention",),
    breaks=OF_ATTENTION,
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


@exercise.equivalent("a stream of tiles through the online softmax")
def _stream(query, key, value, block_q, block_k, is_causal=False):
    def tiles(rows):
        for c in blocks(key.shape[-2], block_k):
            s = tile_scores(query, key, rows, c, is_causal)
            yield s, value[..., c, :]

    rows = blocks(query.shape[-2], block_q)
    return _joined(functional.online_softmax(tiles(r)) for r in rows)


@exercise.equivalent("states of tiles, merged")
def _merged(query, key, value, block_q, block_k, is_causal=False):
    states = []
    for r in blocks(query.shape[-2], block_q):
        state = None
        for c in blocks(key.shape[-2], block_k):
            s = tile_scores(query, key, r, c, is_causal)
            tile = functional.online_softmax([(s, value[..., c, :])])
            state = functional.merge_states(state, tile) if state else tile
        states.append(state)
    return _joined(states)


@exercise.equivalent("in double precision, written into the result")
def _double(query, key, value, block_q, block_k, is_causal=False):
    q, k, v = (x.double() for x in (query, key, value))
    out = torch.empty(*query.shape[:-1], value.shape[-1])
    lse = torch.empty(query.shape[:-1])
    for r in blocks(query.shape[-2], block_q):
        columns = blocks(key.shape[-2], block_k)
        out[..., r, :], lse[..., r] = _pass(q, k, v, r, columns, is_causal)
    return out, lse


@exercise.equivalent("skips fully masked tiles")
def _skips(query, key, value, block_q, block_k, is_causal=False):
    states = []
    for r in blocks(query.shape[-2], block_q):
        end = min(key.shape[-2], r.stop) if is_causal else key.shape[-2]
        columns = blocks(end, block_k)
        states.append(_pass(query, key, value, r, columns, is_causal))
    return _joined(states)
