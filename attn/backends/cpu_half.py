"""float16 and bfloat16 on a CPU: a tile of heads at a time, in float32.

CPUs without native 16-bit arithmetic are slow in half precision, above all in
the backward pass. A few heads cast to float32 stay in the cache while
PyTorch's fused function computes them, which saves more than it costs. It is
more exact, too: the probabilities are not rounded to 16 bits on the way.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from attn.backends.registry import TRACING
from attn.backends.sdpa import torch_mask, torchs_function, unsupported_on_cpu
from attn.functional.inputs import AttentionInputs

__all__ = ["casting_pays", "deprioritized", "run", "unsupported_reasons"]

HALVES = (torch.float16, torch.bfloat16)
# tests/attn/test_cpu_speed.py has run on x86-64 with AVX2, and with AVX-512
# and its bfloat16; nowhere with these, by torch's names.
UNMEASURED = ("avx512_fp16", "avx10_2", "amx_tile")
AUTOTUNE = "attn.api.autotune(...) compares"
TILE_BYTES = 2 * 2**20  # keys and values of a tile, in float32
FEW = 2**15  # scores; below, it takes longer to cut than to compute
FEW_KEYS = 2**13  # the same where each head has one query


def unsupported_reasons(inputs: AttentionInputs) -> list[str]:
    """Return why a call cannot be cast."""
    if inputs.query.dtype not in HALVES:
        return ["query is not float16 or bfloat16: nothing to cast"]
    return unsupported_on_cpu(inputs)


def deprioritized(inputs: AttentionInputs) -> str | None:
    """Return why casting is no faster."""
    if inputs.query.dtype not in HALVES:
        return None
    if torch.compiler.is_compiling():
        return TRACING
    if reason := unmeasured():
        return reason
    one = inputs.q_len == 1
    if inputs.query.dtype == torch.bfloat16 and inputs.requires_grad:
        if cpu_features().get("avx512_f"):
            return (
                "with AVX-512 torch is as fast in bfloat16, where it was "
                f"measured: {AUTOTUNE}"
            )
    elif inputs.query.dtype == torch.bfloat16:
        if not one:
            return "torch is as fast in bfloat16, but for gradients"
        if inputs.group_size > 1:
            return "pack_gqa reads the keys as they are"
    scores, enough = math.prod(inputs.scores_shape), FEW_KEYS if one else FEW
    if scores < enough:
        return f"there are {scores:,} scores: casting pays from {enough:,}"
    return None


def casting_pays(inputs: AttentionInputs) -> bool:
    """Return whether float32 is the faster way to compute a call."""
    return inputs.query.dtype in HALVES and deprioritized(inputs) is None


def run(inputs: AttentionInputs) -> Tensor:
    """Cast, compute with PyTorch and cast back, tile by tile."""
    rows, heads = _tile(inputs)
    torchs, options = torchs_function(inputs), torch_mask(inputs)
    mask = options.pop("attn_mask", None)
    if mask is not None:
        mask = mask if mask.dtype == torch.bool else mask.float()
        mask = inputs.to_4d(mask.expand(inputs.scores_shape))
    outs, dtype = [], inputs.query.dtype
    q_heads = heads * inputs.group_size
    tensors = (*map(inputs.to_4d, inputs.qkv), mask)
    for row in _split(tensors, (rows,) * 4, 0):
        tiles = [
            torchs(q.float(), k.float(), v.float(), m, **options).to(dtype)
            for q, k, v, m in _split(row, (q_heads, heads, heads, q_heads), 1)
        ]
        outs.append(torch.cat(tiles, 1))
    return inputs.from_4d(torch.cat(outs))


def _tile(inputs: AttentionInputs) -> tuple[int, int]:
    """Return the batch rows and key heads that are cast at a time."""
    features = inputs.key.shape[-1] + inputs.value.shape[-1]
    fit = TILE_BYTES // (4 * inputs.kv_len * features)
    fit = max(fit, torch.get_num_threads())  # a head for each
    return max(fit // inputs.num_kv_heads, 1), min(fit, inputs.num_kv_heads)


def _split(
    tensors: tuple[Tensor | None, ...], sizes: tuple[int, ...], axis: int
) -> Iterator[tuple[Any, ...]]:
    """Split tensors along an axis, in step."""
    # The gradient of slices would add up a tensor of zeros for every tile.
    parts = [
        itertools.repeat(None) if x is None else x.split(size, axis)
        for x, size in zip(tensors, sizes, strict=True)
    ]
    return zip(*parts, strict=False)


def unmeasured() -> str | None:
    """Return why it is not known if casting pays on this CPU."""
    features = cpu_features()
    if not features:
        found = f"torch {torch.__version__} does not say what this CPU has"
    elif features["architecture"] != "x86_64":
        found = f"this CPU is {features['architecture']}"
    elif new := [name for name in UNMEASURED if features.get(name)]:
        found = f"this CPU has {', '.join(new)}"
    else:
        return None
    return f"{found}, where it was not measured: {AUTOTUNE}"


def cpu_features() -> Mapping[str, Any]:
    """Return the CPU's architecture and instructions; empty in old torch.

    They are the machine's own, whatever ``ATEN_CPU_CAPABILITY`` makes torch
    use of them: matrix products do not heed it.
    """
    return getattr(torch.cpu, "get_capabilities", dict)()
