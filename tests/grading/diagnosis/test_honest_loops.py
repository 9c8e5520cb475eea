"""A right answer in Python loops is slow, and accepted.

The limit is one of each call: hundreds of calls may take a minute.
"""

import math
import time

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


def test_an_honest_loop_is_accepted():
    verdict = judge(find("tfm-sample"), sample)
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
