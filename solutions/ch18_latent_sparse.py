"""Solutions of chapter 18. Each signature and docstring is the task."""

import math

import torch
import torch.nn.functional as F
from attn import apply_rope
from torch import Tensor


def latent_attention(
    query: Tensor,
    compressed: Tensor,
    gain: Tensor,
    up: Tensor,
    cos: Tensor,
    sin: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute causal latent attention, with keys and values expanded.

    ``compressed`` holds R elements, which RMSNorm (``eps=1e-6``) with
    ``gain`` makes the latent, and Dr of a key that all heads share.
    ``apply_rope(…, interleaved=True)`` rotates that key, and the last
    Dr of each query's ``D = Dn + Dr``. From the latent ``up`` makes
    each head's other Dn key elements, then its value. Scale by
    ``1 / sqrt(D)``. The check also compares what a cache keeps: latent
    and rotated key.

    Args:
        query: ``(B, H, L, D)``, not rotated.
        compressed: ``(B, L, R + Dr)``.
        gain: ``(R,)``.
        up: ``(H, Dn + Dv, R)``.
        cos, sin: interleaved tables, ``(L, Dr)``.

    Returns:
        out, ``(B, H, L, Dv)``; latent, ``(B, L, R)``; rope_key,
        ``(B, L, Dr)``.
    """
    H, R, Dr = up.shape[0], up.shape[-1], cos.shape[-1]
    Dn = query.shape[-1] - Dr
    latent = F.rms_norm(compressed[..., :R], (R,), gain, 1e-6)
    rope_key = apply_rope(compressed[..., R:], cos, sin, True)
    q_rope = apply_rope(query[..., Dn:], cos, sin, True)
    made = torch.einsum("blr,hdr->bhld", latent, up)
    key, value = made[..., :Dn], made[..., Dn:]
    shared = rope_key[:, None].expand(-1, H, -1, -1)
    key = torch.cat([key, shared], -1)  # (B, H, L, D)
    query = torch.cat([query[..., :Dn], q_rope], -1)
    out = F.scaled_dot_product_attention(
        query, key, value, is_causal=True
    )
    return out, latent, rope_key  # (B, H, L, Dv)


def absorb(
    query: Tensor,
    latent: Tensor,
    rope_key: Tensor,
    up: Tensor,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """Compute latent attention on the cache as it is.

    Never make a head's keys or values: multiply each query by its
    head's key part of ``up`` instead, attend to the latents, and
    multiply the R elements that come out by the value part. The check
    measures the memory that is alive, and compares gradients. Decoding
    with a long cache is this function.

    Args:
        query: ``(B, H, L, D)``, its last Dr elements rotated.
        latent: ``(B, S, R)``, after its norm.
        rope_key: ``(B, S, Dr)``, rotated.
        up: ``(H, Dn + Dv, R)``, with ``D = Dn + Dr``.
        attn_mask: bool, ``(L, S)`` or ``(B, 1, L, S)``, True where a
            query may attend; each query may attend to some key.
        scale: factor on the scores; None is ``1 / sqrt(D)``.

    Returns:
        ``(B, H, L, Dv)``.
    """
    Dn = query.shape[-1] - rope_key.shape[-1]
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    plain, rotated = query[..., :Dn], query[..., Dn:]
    q = torch.einsum("bhld,hdr->bhlr", plain, up[:, :Dn])
    scores = torch.einsum("bhlr,bsr->bhls", q, latent)
    scores = scores + torch.einsum("bhld,bsd->bhls", rotated, rope_key)
    scores = scores * scale
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -math.inf)
    mixed = torch.einsum("bhls,bsr->bhlr", scores.softmax(-1), latent)
    return torch.einsum("bhlr,hdr->bhld", mixed, up[:, Dn:])


def top_k_keys(scores: Tensor, k: int, attn_mask: Tensor) -> Tensor:
    """Choose the keys that each query reads, by their scores.

    Of the keys that ``attn_mask`` allows, keep the ``k`` with the
    highest scores in each row: never a masked key, and never more than
    ``k``. Of equal scores, the first go first. A row that allows fewer
    than ``k`` keeps those. The check has early rows of a causal mask,
    scores of any size, and ties. Sparse attention is as good as this
    choice, and as causal.

    Args:
        scores: ``(B, L, S)``, finite; not to be changed in place.
        k: keys a row, at least 1; may exceed S.
        attn_mask: bool, ``(L, S)`` or ``(B, L, S)``.

    Returns:
        A bool tensor, ``(B, L, S)``, True where a key is read.
    """
    scores = scores.masked_fill(~attn_mask, -math.inf)
    order = scores.argsort(dim=-1, descending=True, stable=True)
    keep = torch.zeros_like(scores, dtype=torch.bool)
    return keep.scatter(-1, order[..., :k], True) & attn_mask


def block_choice(
    query: Tensor, key: Tensor, block_size: int, k: int
) -> Tensor:
    """Choose blocks of keys by their means, for causal attention.

    Query i, in block ``i // block_size``, reads its own block, up to
    itself, and the ``k - 1`` earlier blocks that score highest: query
    times the mean of the block's keys, summed over the query heads
    that share the key head, which all read the same. Where there are
    fewer, it reads them all. No later key may change the choice: the
    check tries. A kernel skips blocks that nothing reads.

    Args:
        query: ``(B, H, L, D)``.
        key: ``(B, Hkv, L, D)``; query head h uses ``h // (H // Hkv)``.
        block_size: keys a block; the last block may have fewer.
        k: blocks a query reads, its own included; at least 1.

    Returns:
        A bool tensor, ``(B, H, L, L)``, True where a key is read.
    """
    Hkv, L, D = key.shape[1:]
    means = [x.mean(2) for x in key.split(block_size, 2)]
    means = torch.stack(means, 2)  # (B, Hkv, N, D)
    shared = query.unflatten(1, (Hkv, -1)).sum(2)  # (B, Hkv, L, D)
    scores = shared @ means.mT  # (B, Hkv, L, N)
    own = torch.arange(L)[:, None] // block_size
    block = torch.arange(scores.shape[-1])
    scores = scores.masked_fill(block > own, -math.inf)
    scores = scores.masked_fill(block == own, math.inf)
    best = scores.topk(min(k, len(block)), -1).indices
    keep = torch.zeros_like(scores, dtype=torch.bool)
    keep = keep.scatter(-1, best, True).repeat_interleave(
        block_size, -1
    )
    keep = keep[..., :L] & torch.ones(L, L, dtype=torch.bool).tril()
    return keep.repeat_interleave(query.shape[1] // Hkv, 1)


def indexer_loss(
    scores: Tensor,
    weights: Tensor,
    attn_mask: Tensor,
) -> Tensor:
    """Compare an indexer's scores with the attention it has to predict.

    A choice passes no gradient, so an indexer learns from attention's
    own weights. Sum these over the heads and divide each row by its
    sum: the target p, which gets no gradient. Mask the scores, then
    softmax: q. The loss is the mean over the ``B * L`` rows of
    KL(p ‖ q), the sum over keys of ``p * log(p / q)``, 0 where p is 0.
    The check compares gradients, too.

    Args:
        scores: ``(B, L, S)``, before any softmax.
        weights: of attention, ``(B, H, L, S)``, 0 where masked.
        attn_mask: bool, ``(L, S)`` or ``(B, L, S)``; each row allows
            some key.

    Returns:
        The loss, a tensor without axes.
    """
    p = weights.detach().sum(1)  # (B, L, S)
    p = p / p.sum(-1, keepdim=True)
    log_q = scores.masked_fill(~attn_mask, -math.inf).log_softmax(-1)
    log_q = log_q.masked_fill(~attn_mask, 0)  # 0 * -inf is NaN
    return (p.xlogy(p) - p * log_q).sum(-1).mean()
