"""GQA decoding on a CPU: the queries of a group become the rows of one head.

PyTorch's fused function then reads each key once a group, not once a head.
Transposed keys, ``(D, S)`` in memory, are read by a matrix product, which
also pays where each head has its own. So are keys and values of two widths,
as in latent attention: PyTorch's function would repeat the keys for each head.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from attn.backends import sdpa
from attn.backends.cpu_half import cpu_features
from attn.backends.registry import TRACING
from attn.backends.sdpa import (
    Repeated,
    masks_nothing,
    torch_mask,
    torchs_function,
    unsupported_on_cpu,
)
from attn.functional import softmax
from attn.functional.attention import grouped
from attn.functional.heads import pack_groups
from attn.functional.inputs import AttentionInputs
from attn.masks.combine import apply_masks

__all__ = ["deprioritized", "repeated", "run", "unsupported_reasons"]

FEW_ROWS = 4  # queries of a group for which two products win
LARGE_CACHE = 32 * 2**20  # bytes of keys and values
FEW_KEYS = 2**19  # elements read again; below, packing takes longer
CHUNK = 1024  # keys of a product


def unsupported_reasons(inputs: AttentionInputs) -> list[str]:
    """Return why the heads of a group cannot be packed."""
    if inputs.group_size == 1 and not _transposed(inputs):
        return ["every query head has its own keys: nothing to pack"]
    reasons = unsupported_on_cpu(inputs)
    leads = [x.shape[:-3] for x in inputs.qkv]
    if not leads[0] == leads[1] == leads[2]:
        reasons.append("the batch axes differ: packing needs equal ones")
    return reasons


def deprioritized(inputs: AttentionInputs) -> str | None:
    """Return why packing is no faster."""
    if _two_widths(inputs):
        return None
    transposed, in_graph = _transposed(inputs), torch.compiler.is_compiling()
    # A size of 1 has a graph of its own in any case.
    if in_graph and inputs.q_len > 1 and not transposed:
        return TRACING
    rows = inputs.group_size * inputs.q_len
    if rows > 64:
        return f"a group has {rows} queries: packing pays up to 64"
    is_half = inputs.query.itemsize == 2
    if in_graph or inputs.q_len > 1 or transposed or is_half:
        return None
    group = inputs.group_size
    if group < FEW_ROWS and _cache_bytes(inputs) < LARGE_CACHE:
        return f"a group has {group} queries: packing pays for a large cache"
    again = inputs.key.numel() * (group - 1)
    if again < FEW_KEYS:
        return (
            f"{again:,} elements of keys are read again: packing pays from "
            f"{FEW_KEYS:,}"
        )
    return None


def run(inputs: AttentionInputs) -> Tensor:
    """Compute each key head once, for all query heads that share it."""
    given, heads, group = inputs.query, inputs.num_kv_heads, inputs.group_size
    *lead, _, length, features = given.shape
    # (..., H, L, D) as (..., Hkv, G * L, D)
    query = given.reshape(*lead, heads, group * length, features)
    mask = torch_mask(inputs, causal_flag=False)["attn_mask"]
    transposed, two_widths = _transposed(inputs), _two_widths(inputs)
    eager = not (inputs.requires_grad or torch.compiler.is_compiling())
    by_chunks = two_widths and eager and not inputs.dropout_p
    bare = mask is None and not inputs.dropout_p
    by_products = bare and (transposed or _memory_bound(inputs))
    if (transposed or two_widths) and not (by_chunks or by_products):
        out = grouped(inputs)
        assert isinstance(out, Tensor)
        return out
    if mask is not None:
        mask = pack_groups(mask.expand(*inputs.scores_shape), heads)
    if by_chunks:
        out = _by_chunks(inputs, query, mask)
    elif by_products:
        out = _by_products(inputs, query)
    else:
        tensors = (query, inputs.key, inputs.value, mask)
        out = torchs_function(inputs)(*tensors, enable_gqa=False)
    return out.reshape(*lead, heads * group, length, out.shape[-1])


def repeated(inputs: AttentionInputs) -> Repeated | None:
    """Return the function of each call like this one, if it is torch's.

    As ``sdpa.repeated``, without masks.
    """
    masked = inputs.attn_mask is not None or not masks_nothing(inputs)
    torchs = sdpa.repeated(inputs)
    if masked or _two_widths(inputs) or _memory_bound(inputs) or not torchs:
        return None
    given = inputs.query.shape
    packed = (*given[:-3], inputs.num_kv_heads, -1, given[-1])

    def attend(
        query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
    ) -> Tensor:
        return torchs(query.reshape(packed), key, value, mask).reshape(given)

    return attend


def _memory_bound(inputs: AttentionInputs) -> bool:
    """Return whether few rows read keys that no processor's cache holds."""
    few = inputs.group_size * inputs.q_len <= FEW_ROWS
    large = few and _cache_bytes(inputs) >= LARGE_CACHE
    return inputs.query.dtype == torch.float32 and large


def _cache_bytes(inputs: AttentionInputs) -> int:
    elements = inputs.key.numel() + inputs.value.numel()
    return elements * inputs.key.element_size()


def _transposed(inputs: AttentionInputs) -> bool:
    """Return whether the keys are ``(D, S)`` in memory, and not 16-bit."""
    key = inputs.key
    by_feature = key.dim() > 2 and key.stride(-2) == 1 != key.stride(-1)
    return by_feature and key.dtype == inputs.compute_dtype


def _two_widths(inputs: AttentionInputs) -> bool:
    """Return whether a group's ``Dv`` is not ``D``: torch fuses no such."""
    differ = inputs.query.shape[-1] != inputs.value.shape[-1]
    return differ and inputs.group_size > 1


def _by_chunks(
    inputs: AttentionInputs, query: Tensor, mask: Tensor | None
) -> Tensor:
    """Multiply by some keys at a time: they are not copied, whatever ``S``.

    A product of 16 bits takes a quarter of the time of one of 32. Its sums
    are float32, and rounded: a second product gives what the first has lost.
    """
    dtype = inputs.compute_dtype
    if query.dtype == torch.bfloat16 and cpu_features().get("avx512_bf16"):
        dtype = query.dtype
    lead, outs = query.shape[:-2], []
    for at in itertools.product(*map(range, lead)):
        q = query[at].to(dtype)  # (G * L, D)
        keys = inputs.key[at].split(CHUNK)
        tiles = [_scores(q, k.to(dtype)) for k in keys]
        scores = tiles[0] if len(tiles) == 1 else torch.cat(tiles, -1)
        scores *= inputs.scale
        if mask is None:
            weights = scores.softmax(-1)
        else:
            weights = softmax(apply_masks(scores, mask[at]))
        parts = weights.to(dtype).split(CHUNK, -1)
        values = inputs.value[at].split(CHUNK)
        first, *others = (
            (w @ v.to(dtype)).to(inputs.compute_dtype)
            for w, v in zip(parts, values, strict=True)
        )
        outs.append(sum(others, first))
    return torch.stack(outs).to(query.dtype).unflatten(0, lead)


def _scores(query: Tensor, key: Tensor) -> Tensor:
    """Return ``query @ key.mT``, in float32 even for bfloat16."""
    scores = query @ key.mT
    if scores.dtype != torch.bfloat16:
        return scores
    lost = torch.addmm(scores, query, key.mT, beta=-1)
    return scores.float() + lost


def _by_products(inputs: AttentionInputs, query: Tensor) -> Tensor:
    """Multiply queries and keys so that the keys stream from memory."""
    query = query * inputs.scale
    if _transposed(inputs):
        scores = query @ inputs.key.mT  # (..., Hkv, G * L, S)
    else:  # a product streams its tall left operand
        scores = (inputs.key @ query.mT).mT.contiguous()
    return scores.softmax(-1) @ inputs.value
