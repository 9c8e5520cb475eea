"""The implementations that come with the book, in the order of their speed.

The order is what ``tests/attn/test_cpu_speed.py`` and ``attn.bench``
measure. Where speed depends on the call, ``slower`` says so.
"""

from __future__ import annotations

import math

import torch

from attn.backends import (
    cpu_gqa,
    cpu_half,
    cpu_window,
    flex,
    sdpa,
    triton,
)
from attn.backends.registry import ONE_GRAPH, registry
from attn.functional import (
    grouped_attention,
    scaled_dot_product_attention,
    tiled_attention,
)
from attn.functional.inputs import Call

LARGE = 2**28  # scores: a GiB in float32


def _few_scores(call: Call) -> str | None:
    if torch.compiler.is_compiling():
        return ONE_GRAPH
    count = math.prod(call.scores_shape)
    if count < LARGE:
        return f"there are {count:,} scores: they fit, and one product does it"
    return None


def _without_dropout(call: Call) -> list[str]:
    return [f"dropout_p is {call.dropout_p}: it drops nothing"] * bool(
        call.dropout_p
    )


def _little_memory(call: Call) -> bool:
    return _few_scores(call) is not None


registry.register(
    "banded",
    why_not=cpu_window.why_not_banded,
    slower=cpu_window.slower_banded,
    has_lse=False,
    mask="call",
)(cpu_window.run_banded)
registry.register(
    "halves",
    why_not=cpu_half.why_not_halves,
    slower=cpu_half.slower_halves,
    has_lse=False,
    mask="call",
)(cpu_half.run_halves)
registry.register(
    "packed",
    why_not=cpu_gqa.why_not_packed,
    slower=cpu_gqa.slower_packed,
    has_lse=False,
    mask="call",
)(cpu_gqa.run_packed)
registry.register(
    "flex",
    why_not=flex.why_not_flex,
    slower=flex.slower_flex,
    has_lse=flex.has_lse,
    mask="call",
)(flex.run_flex)
registry.register(
    "sdpa", why_not=sdpa.why_not_sdpa, has_lse=False, mask="call"
)(sdpa.run_sdpa)
registry.register(
    "decode",
    why_not=triton.why_not_decode,
    slower=triton.slower_decode,
    measured=triton.on_gpu,
    mask="call",
)(triton.run_decode)
registry.register(
    "fused",
    why_not=triton.why_not_fused,
    slower=triton.slower_fused,
    measured=triton.on_gpu,
    mask="call",
)(triton.run_fused)
registry.register("tiled", why_not=_without_dropout, slower=_few_scores)(
    tiled_attention
)
registry.register("grouped", measured=_little_memory)(grouped_attention)
registry.register(
    "reference",
    slower=lambda call: "it is written to be read: grouped does the same",
    measured=False,
)(scaled_dot_product_attention)
