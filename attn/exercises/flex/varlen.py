"""Cases, properties and correct variants of ``flex-varlen``."""

import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from attn import functional
from attn.exercises.conditions import gradients, views
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property
from attn.exercises.symmetry import is_view


def _reference(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor,
    is_causal: bool = False,
) -> Tensor:
    outs = []
    for n in range(len(cu_seq_q) - 1):
        rows = slice(int(cu_seq_q[n]), int(cu_seq_q[n + 1]))
        columns = slice(int(cu_seq_k[n]), int(cu_seq_k[n + 1]))
        q, k, v = (
            x.transpose(0, 1)
            for x in (query[rows], key[columns], value[columns])
        )
        out = functional.scaled_dot_product_attention(
            q, k, v, is_causal=is_causal, q_offset=k.shape[1] - q.shape[1]
        )
        outs.append(out.transpose(0, 1))
    return torch.cat(outs)


def _borders(lengths: list[int]) -> Tensor:
    return F.pad(torch.tensor(lengths).cumsum(0), (1, 0)).int()


LENGTHS = {  # of the queries, and H
    "there is one sequence": [([3], 2), ([5], 1), ([4], 4)],
    "there are several sequences": [([3, 4], 3), ([1, 4, 2], 3)],
    "axes have the same length": [([2, 2, 2], 2), ([3], 3)],
}
BOTH = {  # of queries and keys, and D, Dv
    "values are wider than keys": [([2, 3], [2, 3], 4, 6)],
    "sequences have more keys than queries, or fewer": [
        ([2, 1, 3], [3, 5, 2], 4, 4),
        ([3, 2], [1, 4], 4, 5),
        ([2, 2, 2], [5, 1, 3], 4, 4),
    ],
    "some sequences have no queries": [([2, 0, 3], [3, 2, 3], 4, 4)],
    "some sequences have no keys": [([2, 3, 1], [3, 0, 2], 4, 4)],
}
CAUSAL = {  # of queries and keys
    "is_causal is True, with as many keys as queries": [
        ([4], [4]),
        ([1, 4, 2], [1, 4, 2]),
    ],
    "is_causal is True, with more keys than queries": [
        ([2, 1, 3], [4, 5, 3]),
        ([2, 2], [3, 6]),
    ],
    "is_causal is True, with fewer keys than queries": [
        ([4, 2], [2, 3]),
        ([2, 5], [2, 1]),
    ],
    "some sequences have no queries": [([0, 2, 0], [2, 3, 0])],
    "some sequences have no keys": [([2, 2], [0, 2])],
}


def _cases(g: Draw) -> Iterator[Case]:
    def packed(
        q_lens: list[int],
        k_lens: list[int],
        D: int = 4,
        Dv: int = 4,
        H: int = 2,
    ) -> tuple[Tensor, ...]:
        T, Tk = sum(q_lens), sum(k_lens)
        qkv = g.randn(T, H, D), g.randn(Tk, H, D), g.randn(Tk, H, Dv)
        return *qkv, _borders(q_lens), _borders(k_lens)

    for when, (lengths, H) in entries(LENGTHS):
        yield Case(when, packed(lengths, lengths, H=H))
    for when, sizes in entries(BOTH):
        yield Case(when, packed(*sizes))
    for when, both in entries(CAUSAL):
        yield Case(when, (*packed(*both), True))

    when = "is_causal is True, with more keys than queries"
    yield Case(when, packed([2, 2], [3, 6], H=1), {"is_causal": True})

    when = "the scores are large"
    q, k, *rest = packed([3, 4], [3, 4])
    yield Case(when, (30 * q, 30 * k, *rest))
    yield Case(when, (-30 * q, 30 * k.abs(), *rest, True))

    when = "values of another sequence are huge"
    q, k, v, *rest = packed([3, 3, 3], [3, 3, 3])
    v[3:6] *= 1e6
    yield Case(when, (q, k, v, *rest))
    yield Case(when, (q, k, v, *rest, True))

    when = "the borders are int64"
    *qkv, cu_q, cu_k = packed([2, 3], [3, 4])
    yield Case(when, (*qkv, cu_q.long(), cu_k.long()))

    when = "memory: only a sequence's own scores are made"
    # 24 sequences of 8: 24 * 64 scores in their blocks, 192 ** 2 in all.
    many = packed([8] * 24, [8] * 24)
    yield Case(when, many, max_live=2 * 8000)
    yield Case(when, (*many, True), max_live=2 * 8000)
    one_long = [1] * 40 + [30]  # padded: 41 * 30 ** 2 scores
    yield Case(when, packed(one_long, one_long), max_live=2 * 8000)


def _is_alone(case: Case, out: Tensor) -> bool:
    """The first sequence's result does not depend on the others."""
    q, k, v, cu_q, cu_k, *causal = case.args
    if len(cu_q) < 3:
        return True
    q_end, k_end = int(cu_q[1]), int(cu_k[1])
    alone = _reference(
        q[:q_end],
        k[:k_end],
        v[:k_end],
        cu_q[:2],
        cu_k[:2],
        *causal,
        **case.kwargs,
    )
    return torch.allclose(out[:q_end], alone.to(out.dtype), atol=1e-4)


exercise = Exercise(
    id="flex-varlen",
    points=3,
    reference=_reference,
    cases=_cases,
    also=(views(), gradients("query", "key", "value")),
    properties=(
        Property(
            "The first sequence, computed alone, gives another result: what "
            "does it see of the others?",
            _is_alone,
        ),
    ),
    breaks={
        "position 0": lambda c: len(c.args[3]) > 2,
        "S = 1": lambda c: c.args[1].shape[0] > 1,
        "H = 1": lambda c: c.args[0].shape[1] > 1,
        "L = S": lambda c: not torch.equal(c.args[3], c.args[4]),
        "contiguous strides": is_view,
    },
)


def _pieces(query, key, value, cu_q, cu_k):
    for n in range(len(cu_q) - 1):
        rows = slice(cu_q[n].item(), cu_q[n + 1].item())
        columns = slice(cu_k[n].item(), cu_k[n + 1].item())
        yield rows, query[rows], key[columns], value[columns]


@exercise.equivalent("einsum, with scores (H, L, S)")
def _einsum(query, key, value, cu_seq_q, cu_seq_k, is_causal=False):
    out = query.new_zeros(*query.shape[:2], value.shape[-1])
    pieces = _pieces(query, key, value, cu_seq_q, cu_seq_k)
    for rows, q, k, v in pieces:
        if not len(k) or not len(q):
            continue
        scores = torch.einsum("lhd,shd->hls", q, k) / math.sqrt(q.shape[-1])
        if is_causal:
            future = torch.ones(len(q), len(k)).triu(len(k) - len(q) + 1)
            scores = scores.masked_fill(future.bool(), -1e30)
        weights = scores.softmax(-1)
        if is_causal:
            weights = weights.masked_fill(future.bool(), 0.0)
        out[rows] = torch.einsum("hls,shd->lhd", weights, v)
    return out


@exercise.equivalent("one query at a time")
def _queries(query, key, value, cu_seq_q, cu_seq_k, is_causal=False):
    rows = []
    for _, q, k, v in _pieces(query, key, value, cu_seq_q, cu_seq_k):
        for i in range(len(q)):
            seen = len(k) - len(q) + i + 1 if is_causal else len(k)
            seen = max(seen, 0)
            scores = (q[i] * k[:seen]).sum(-1) * q.shape[-1] ** -0.5  # (S, H)
            weights = scores.softmax(0)
            rows.append((weights[..., None] * v[:seen]).sum(0))
    return torch.stack(rows)


@exercise.equivalent("scaled_dot_product_attention, causal by its bias")
def _lower_right(query, key, value, cu_seq_q, cu_seq_k, is_causal=False):
    outs = []
    for _, *piece in _pieces(query, key, value, cu_seq_q, cu_seq_k):
        q, k, v = (x.unsqueeze(0).transpose(1, 2) for x in piece)
        mask = None
        if is_causal:
            back = torch.arange(k.shape[2] - q.shape[2], k.shape[2])[:, None]
            mask = torch.where(
                torch.arange(k.shape[2]) <= back, 0.0, -torch.inf
            ).to(q.dtype)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        outs.append(out[0].transpose(0, 1))
    return torch.cat(outs)


@exercise.equivalent("attn's own function")
def _ours(query, key, value, cu_seq_q, cu_seq_k, is_causal=False):
    out = torch.empty(*query.shape[:2], value.shape[-1], dtype=query.dtype)
    for n in range(cu_seq_q.numel() - 1):
        a, b = cu_seq_q[n : n + 2].tolist()
        c, d = cu_seq_k[n : n + 2].tolist()
        out[a:b] = functional.scaled_dot_product_attention(
            query[a:b].movedim(1, 0),
            key[c:d].movedim(1, 0),
            value[c:d].movedim(1, 0),
            is_causal=is_causal,
            q_offset=(d - c) - (b - a),
        ).movedim(0, 1)
    return out


@exercise.equivalent("equal lengths in one batch")
def _buckets(query, key, value, cu_seq_q, cu_seq_k, is_causal=False):
    pieces = list(_pieces(query, key, value, cu_seq_q, cu_seq_k))
    outs = [None] * len(pieces)
    sizes = [(len(q), len(k)) for _, q, k, _ in pieces]
    for L, S in dict.fromkeys(sizes):
        same = [n for n, size in enumerate(sizes) if size == (L, S)]
        q, k, v = (
            torch.stack([pieces[n][i] for n in same]).transpose(1, 2)
            for i in (1, 2, 3)
        )
        mask = torch.ones(L, S, dtype=torch.bool)
        mask = mask.tril(S - L) if is_causal else mask
        out = F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2)
        for n, each in zip(same, out, strict=True):
            outs[n] = each
    return torch.cat(outs)


@exercise.equivalent("the softmax by hand")
def _by_hand(query, key, value, cu_seq_q, cu_seq_k, is_causal=False):
    out = torch.zeros_like(query[..., :1]).expand(
        -1, -1, value.shape[-1]
    ).clone()  # fmt: skip
    for rows, q, k, v in _pieces(query, key, value, cu_seq_q, cu_seq_k):
        if len(k) == 0 or len(q) == 0:
            continue
        scores = q.permute(1, 0, 2) @ k.permute(1, 2, 0) / q.shape[-1] ** 0.5
        seen = torch.ones(len(q), len(k), dtype=torch.bool)
        seen = seen.tril(len(k) - len(q)) if is_causal else seen
        top = scores.masked_fill(~seen, -torch.inf).amax(-1, keepdim=True)
        top = top.masked_fill(top == -torch.inf, 0.0).detach()
        exps = (scores - top).masked_fill(~seen, -torch.inf).exp()
        total = exps.sum(-1, keepdim=True).clamp(min=1e-30)
        out[rows] = (exps / total @ v.permute(1, 0, 2)).permute(1, 0, 2)
    return out
