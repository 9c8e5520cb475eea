"""Solutions of chapter 03, masks. True = may attend, everywhere."""

import torch
from torch import Tensor


def causal(q_len: int, kv_len: int, q_offset: int = 0) -> Tensor:
    """Let each query see its own position and everything before it.

    Key j is at position j, query i at position i + q_offset. The offset
    is 0 when both start together; with a KV cache it is the number of
    tokens before the first query. It may be negative, or larger than
    kv_len. The check compares every entry, including L != S. One token
    too many, and a language model reads the answer instead of guessing
    it.

    Args:
        q_len: number of queries, L.
        kv_len: number of keys, S.
        q_offset: position of the first query.

    Returns:
        bool (L, S), True = may attend.
    """
    q_idx = torch.arange(q_len)[:, None] + q_offset  # (L, 1)
    kv_idx = torch.arange(kv_len)  # (S,)
    return kv_idx <= q_idx  # (L, S)


def padding(lengths: Tensor, kv_len: int) -> Tensor:
    """Mask out the padding in a batch of sequences of unequal length.

    Row b of the batch holds lengths[b] real tokens, then padding up to
    kv_len. No query may attend to a padding token. The check looks at
    the shape as much as the values: aligned with scores (B, H, L, S)
    axis by axis, the mask must be the same for every head and query. A
    length of 0, and a kv_len beyond the longest row, are allowed.

    Args:
        lengths: real tokens in each row, integers (B,).
        kv_len: number of keys, S, at least lengths.max().

    Returns:
        bool (B, 1, 1, S), True for a real token.
    """
    real = torch.arange(kv_len) < lengths[:, None]  # (B, S)
    return real[:, None, None, :]  # (B, 1, 1, S)


def apply_mask(scores: Tensor, mask: Tensor) -> Tensor:
    """Turn scores into weights over the keys that the mask allows.

    Softmax over the allowed keys; a masked key gets exactly 0. A query
    that may attend to nothing gets 0 everywhere and passes no gradient
    back: no NaN, forward or backward. You may call torch.softmax. The
    check uses float64, float32, float16 and bfloat16, scores of +100
    and -20000, broadcast masks and gradients; your inputs must stay
    unchanged. Every attention layer has this step.

    Args:
        scores: floats (..., L, S).
        mask: bool, broadcasts to (..., L, S), True = may attend.

    Returns:
        weights (..., L, S), in the dtype of scores.
    """
    dead = ~mask.any(-1, keepdim=True)  # (..., L or 1, 1)
    scores = scores.masked_fill(~mask, -torch.inf)
    weights = torch.softmax(scores.masked_fill(dead, 0.0), -1)
    return weights.masked_fill(dead, 0.0)  # (..., L, S)


def combine(*masks: Tensor) -> Tensor:
    """Combine several masks that all apply into one additive bias.

    A bool mask marks the pairs that may attend (True = may). A float
    mask is a bias added to the scores: finite or -inf, never +inf. The
    result is -inf where any mask forbids, the sum of the biases
    elsewhere, never NaN. The check mixes both kinds, in any order and
    in broadcastable shapes; your inputs must stay unchanged. Attention
    functions take one mask; a model has several.

    Args:
        masks: at least one; bool or float32, broadcasting together.

    Returns:
        float32, in the shape that all masks broadcast to.
    """
    total = torch.zeros(())
    for mask in masks:
        if mask.dtype == torch.bool:
            mask = torch.where(mask, 0.0, -torch.inf)
        total = total + mask
    return total


def sliding_window(
    q_len: int, kv_len: int, size: int, q_offset: int = 0
) -> Tensor:
    """Let each query see the last size tokens, its own included.

    Positions are as in causal: key j at j, query i at i + q_offset. A
    query sees size keys (fewer at the start), counted backwards from
    its own position, and none after it: size=1 leaves only the token
    itself. The check compares every entry, including L != S and windows
    longer than the sequence. This mask limited the cache of the first
    Mistral to 4096 tokens, however long the text.

    Args:
        q_len: number of queries, L.
        kv_len: number of keys, S.
        size: keys that a query sees, at least 1.
        q_offset: position of the first query.

    Returns:
        bool (L, S), True = may attend.
    """
    q_idx = torch.arange(q_len)[:, None] + q_offset  # (L, 1)
    kv_idx = torch.arange(kv_len)  # (S,)
    return (kv_idx <= q_idx) & (kv_idx > q_idx - size)  # (L, S)


def document(ids: Tensor) -> Tensor:
    """Keep the documents of a packed batch apart, causally.

    To waste nothing on padding, training packs several documents into
    one row; ids names the document of each token. A token sees itself
    and the earlier tokens of its own document. Equal ids in one row are
    one document, wherever they are: ids may be any integers, in any
    order, and a document may continue after another. The check compares
    every entry, with each row packed differently.

    Args:
        ids: the document of each token, integers (B, S).

    Returns:
        bool (B, 1, S, S), queries before keys, True = may attend.
    """
    position = torch.arange(ids.shape[1])  # (S,)
    earlier = position <= position[:, None]  # (S, S)
    same = ids[:, :, None] == ids[:, None, :]  # (B, S, S)
    return (same & earlier)[:, None]  # (B, 1, S, S)
