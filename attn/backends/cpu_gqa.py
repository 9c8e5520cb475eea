"""GQA decoding on a CPU: the queries of a group become the rows of one head.

PyTorch's fused function then reads each key once a group, not once a head.
Transposed keys, ``(D, S)`` in memory, are read by a matrix product, which
also pays where each head has its own.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attn.backends.registry import TRACING
from attn.backends.sdpa import torch_mask, torchs_function, unsupported_on_cpu
from attn.functional.attention import grouped
from attn.functional.inputs import AttentionInputs

__all__ = ["deprioritized", "run", "unsupported_reasons"]

FEW_ROWS = (3, 4)  # queries of a group for which two products win
LARGE_CACHE = 32 * 2**20  # bytes of keys and values


def unsupported_reasons(inputs: AttentionInputs) -> list[str]:
    """Return why the heads of a group cannot be packed."""
    if inputs.group_size == 1 and not _transposed(inputs):
        return ["every query head has its own keys: nothing to pack"]
    reasons = unsupported_on_cpu(inputs)
    leads = [x.shape[:-3] for x in (inputs.query, inputs.key, inputs.value)]
    if not leads[0] == leads[1] == leads[2]:
        reasons.append("the batch axes differ: packing needs equal ones")
    return reasons


def deprioritized(inputs: AttentionInputs) -> str | None:
    """Return why packing is no faster."""
    # A size of 1 has a graph of its own in any case.
    decides = inputs.q_len > 1 and not _transposed(inputs)
    if torch.compiler.is_compiling() and decides:
        return TRACING
    rows = inputs.group_size * inputs.q_len
    if rows > 64:
        return f"a group has {rows} queries: packing pays up to 64"
    return None


def run(inputs: AttentionInputs) -> Tensor:
    """Compute each key head once, for all query heads that share it."""
    given, heads, group = inputs.query, inputs.num_kv_heads, inputs.group_size
    *lead, _, length, features = given.shape
    # (..., H, L, D) as (..., Hkv, G * L, D)
    query = given.reshape(*lead, heads, group * length, features)
    mask = torch_mask(inputs, causal_flag=False)["attn_mask"]
    transposed = _transposed(inputs)
    if transposed and (mask is not None or inputs.dropout_p):
        out = grouped(inputs)
        assert isinstance(out, Tensor)
        return out
    if mask is not None:
        mask = mask.expand(*inputs.scores_shape).unflatten(-3, (heads, group))
        mask = mask.flatten(-3, -2)  # (..., Hkv, G * L, S)
    if transposed or (mask is None and _memory_bound(inputs)):
        out = _by_products(inputs, query)
    else:
        tensors = (query, inputs.key, inputs.value, mask)
        out = torchs_function(inputs)(*tensors, enable_gqa=False)
    return out.reshape(*lead, heads * group, length, out.shape[-1])


def _memory_bound(inputs: AttentionInputs) -> bool:
    """Return whether reading keys from memory bounds the time.

    That is so for a cache larger than the processor's, and few rows.
    """
    rows = inputs.group_size * inputs.q_len
    if rows not in FEW_ROWS or inputs.dropout_p:
        return False
    size = 4 * (inputs.key.numel() + inputs.value.numel())
    return inputs.query.dtype == torch.float32 and size >= LARGE_CACHE


def _transposed(inputs: AttentionInputs) -> bool:
    """Return whether the keys are ``(D, S)`` in memory, and not 16-bit."""
    key = inputs.key
    by_feature = key.dim() > 2 and key.stride(-2) == 1 != key.stride(-1)
    return by_feature and key.dtype == inputs.compute_dtype


def _by_products(inputs: AttentionInputs, query: Tensor) -> Tensor:
    """Multiply queries and keys so that the keys stream from memory."""
    query = query * inputs.scale
    if _transposed(inputs):
        scores = query @ inputs.key.mT  # (..., Hkv, G * L, S)
    else:  # a product streams its tall left operand
        scores = (inputs.key @ query.mT).mT.contiguous()
    return scores.softmax(-1) @ inputs.value
