"""The built-in backends, in the order in which auto considers them.

The order is measured by ``tests/attn/test_cpu_speed.py`` and ``attn.bench``.
Where speed depends on the call, ``deprioritized`` says so.
"""

from __future__ import annotations

import functools
import math

import torch

from attn.backends import (
    cpu_gqa,
    cpu_half,
    cpu_window,
    flex,
    sdpa,
    triton,
    triton_split_kv,
    triton_variants,
)
from attn.backends.registry import TRACING, registry
from attn.functional.attention import grouped, reference
from attn.functional.inputs import AttentionInputs
from attn.functional.tiled import tiled

LARGE = 2**28  # scores: a GiB in float32


def _no_dropout(inputs: AttentionInputs) -> list[str]:
    p = inputs.dropout_p
    return [f"dropout_p is {p}: it has no dropout"] if p else []


def _few_scores(inputs: AttentionInputs) -> str | None:
    if torch.compiler.is_compiling():
        return TRACING
    count = math.prod(inputs.scores_shape)
    if count < LARGE:
        return f"the {count:,} scores fit into memory: one product is faster"
    return None


register = functools.partial(registry.register, mask="inputs")
for name, backend, supports_lse in (
    ("cpu_window", cpu_window, False),
    ("cpu_half", cpu_half, False),
    ("pack_gqa", cpu_gqa, False),
    ("flex", flex, flex.supports_lse),
    ("sdpa", sdpa, False),
    ("triton_split_kv", triton_split_kv, True),
    ("triton", triton, True),
):
    options = {
        option: getattr(backend, option)
        for option in ("unsupported_reasons", "deprioritized", "tunable")
        if hasattr(backend, option)
    }
    register(name, supports_lse=supports_lse, **options)(backend.run)
for name, run in (
    ("triton_tma", triton_variants.run_tma),
    ("triton_persistent", triton_variants.run_persistent),
):
    register(
        name,
        unsupported_reasons=triton_variants.unsupported_reasons,
        deprioritized=triton_variants.deprioritized,
        tunable=triton_variants.tunable,
    )(run)
register("tiled", unsupported_reasons=_no_dropout, deprioritized=_few_scores)(
    tiled
)
register("grouped", tunable=lambda inputs: _few_scores(inputs) is not None)(
    grouped
)
register(
    "reference",
    deprioritized=lambda inputs: "it is written to be read; see grouped",
    tunable=False,
)(reference)
