"""The implementations that come with the book, in the order of their speed.

The order is what ``tests/attn/test_cpu_speed.py`` and ``attn.bench``
measure. Where speed depends on the call, ``slower`` says so.
"""

from __future__ import annotations

from typing import Any

import torch

from attn.backends import cpu, flex, sdpa
from attn.contract import Call
from attn.functional import grouped_attention, scaled_dot_product_attention
from attn.online import tiled_attention
from attn.registry import ONE_GRAPH, registry


def _no_kernels(call: Call) -> list[str]:
    try:
        from attn.kernels import why_not
    except ImportError as error:
        return [
            f"{error.name or 'triton'} is not installed: pip install triton"
        ]
    return why_not(call)


def _interpreted(call: Call) -> str | None:
    if call.query.device.type == "cuda":
        return None
    return "the interpreter is for tests"


def _fused(call: Call, return_lse: bool = False) -> Any:
    from attn.kernels import fused_call

    return fused_call(call, return_lse)


LARGE = 2**28  # scores: a GiB in float32


def _few_scores(call: Call) -> str | None:
    if torch.compiler.is_compiling():
        return ONE_GRAPH
    shape = call.scores_shape
    count = 1
    for size in shape:
        count *= size
    if count < LARGE:
        return f"there are {count:,} scores: they fit, and one product does it"
    return None


def _without_dropout(call: Call) -> list[str]:
    return [f"dropout_p is {call.dropout_p}: it drops nothing"] * bool(
        call.dropout_p
    )


registry.register(
    "banded",
    why_not=cpu.why_not_banded,
    slower=cpu.slower_banded,
    has_lse=False,
    mask="call",
)(cpu.run_banded)
registry.register(
    "packed",
    why_not=cpu.why_not_packed,
    slower=cpu.slower_packed,
    has_lse=False,
    mask="call",
)(cpu.run_packed)
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
    "fused", why_not=_no_kernels, slower=_interpreted, mask="call"
)(_fused)
registry.register("tiled", why_not=_without_dropout, slower=_few_scores)(
    tiled_attention
)
registry.register("grouped")(grouped_attention)
registry.register(
    "reference",
    slower=lambda call: "it is written to be read: grouped does the same",
)(scaled_dot_product_attention)
