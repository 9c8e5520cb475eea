"""A right answer in Python loops is slow, and accepted.

The limit is one of each call: hundreds of calls may take a minute.
"""

import math
import time

import pytest
import torch

from attn.exercises.spec import find
from attn.grading.diagnosis.judge import judge


def sample(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
    """Draw for one text after the other, token by token."""
    drawn = []
    for row in logits.tolist():
        ranked = sorted(range(len(row)), key=lambda i: -row[i])
        if temperature == 0:
            drawn.append(ranked[0])
            continue
        if top_k is not None:
            ranked = ranked[:top_k]
        highest = row[ranked[0]]
        p = [math.exp((row[i] - highest) / temperature) for i in ranked]
        kept, reached = [], 0.0
        for x in p:
            if top_p is not None and reached >= top_p * sum(p):
                break
            kept.append(x)
            reached += x
        coin = torch.rand((), generator=generator).item() * reached
        i = 0
        while i < len(kept) - 1 and coin >= kept[i]:
            coin -= kept[i]
            i += 1
        drawn.append(ranked[i])
    return torch.tensor(drawn)


def attention_loops(query, key, value):
    """Multiply and add Python floats."""
    q, k, v = query.tolist(), key.tolist(), value.tolist()
    rows = []
    for x in q:
        scores = [
            sum(a * b for a, b in zip(x, y, strict=True)) / len(x) ** 0.5
            for y in k
        ]
        e = [math.exp(s - max(scores)) for s in scores]
        rows.append(
            [
                sum(w * y[d] for w, y in zip(e, v, strict=True)) / sum(e)
                for d in range(len(v[0]))
            ]
        )
    return torch.tensor(rows).reshape(len(q), value.shape[-1])


def attention(query, key, value, scale=None):
    """Compute each result from one query and one head."""
    D = query.shape[-1]
    scale = D**-0.5 if scale is None else scale
    front = torch.broadcast_shapes(
        *(x.shape[:-2] for x in (query, key, value))
    )
    q, k, v = (
        x.expand(*front, *x.shape[-2:]).reshape(-1, *x.shape[-2:])
        for x in (query, key, value)
    )
    results = [
        (torch.stack([x @ y * scale for y in k[n]]).softmax(-1) @ v[n])
        for n in range(len(q))
        for x in q[n]
    ]
    flat = torch.stack(results) if results else q.new_zeros(0)
    return flat.reshape(*front, query.shape[-2], value.shape[-1])


def sliding_window(q_len, kv_len, size, q_offset=0, device=None):
    """Decide on each pair."""
    allowed = [
        [q + q_offset - size < k <= q + q_offset for k in range(kv_len)]
        for q in range(q_len)
    ]
    return torch.tensor(allowed, dtype=torch.bool).reshape(q_len, kv_len)


def layer_norm(x, weight, bias, eps=1e-5):
    """Normalise one token after the other."""
    rows = []
    for row in x.reshape(-1, x.shape[-1]).float():
        mean = sum(row) / len(row)
        spread = sum((y - mean) ** 2 for y in row) / len(row)
        rows.append((row - mean) / (spread + eps) ** 0.5)
    normal = torch.stack(rows).reshape(x.shape)
    return (normal * weight + bias).to(x.dtype)


ANSWERS = {
    "tfm-sample": sample,
    "sdp-attention_loops": attention_loops,
    "sdp-attention": attention,
    "mask-sliding_window": sliding_window,
    "tfm-layer_norm": layer_norm,
}


@pytest.mark.parametrize("exercise_id", ANSWERS)
def test_an_honest_loop_is_accepted(exercise_id):
    verdict = judge(find(exercise_id), ANSWERS[exercise_id])
    assert verdict.passed, verdict.message


def test_an_endless_loop_is_told_after_the_limit_of_one_call(monkeypatch):
    monkeypatch.setattr("attn.grading.checks.oracle.TIME_LIMIT", 0.3)

    def endless(logits, *_, **__):
        while logits is not None:
            pass

    start = time.thread_time()
    message = judge(find("tfm-sample"), endless).message
    assert "is there an endless loop?" in message
    assert time.thread_time() - start < 1
