"""Solutions of chapter 14. Each signature and docstring is the task."""

import torch
import torch.nn.functional as F
from torch import Tensor


def score_mod(
    score: Tensor,
    b: Tensor,
    h: Tensor,
    q_idx: Tensor,
    kv_idx: Tensor,
    cap: float,
    slopes: Tensor,
    start: Tensor,
) -> Tensor:
    """Cap a score, then lower it by the distance of query and key.

    First ``cap * tanh(score / cap)``, as in Gemma 2. Then subtract the
    head's slope times the distance, in either direction. Query
    ``q_idx`` of row ``b`` is at position ``start[b] + q_idx``; key
    ``kv_idx`` is at ``kv_idx``. The check passes single elements and
    whole grids, so an ``if`` does not work, and compares gradients.
    FlexAttention compiles such a function into its kernel, between the
    two matrix products.

    Args:
        score: scaled scores, float32, ``()`` or ``(B, H, L, S)``.
        b, h, q_idx, kv_idx: integers, int32 or int64, that broadcast
            with ``score``.
        cap: above 0.
        slopes: one for each head, float32, ``(H,)``.
        start: position of each row's first query, ``(B,)``.

    Returns:
        The new score, with the shape of ``score``.
    """
    capped = cap * torch.tanh(score / cap)
    distance = (start[b] + q_idx - kv_idx).abs()
    return capped - slopes[h] * distance


def block_mask(
    mask: Tensor, block_size: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """List the blocks of a mask that a kernel has to visit.

    A block is **full** if all of its ``block_size ** 2`` pairs may
    attend, **partial** if only some may, and empty if none may. At the
    edges, pairs that do not exist count as masked, so a cut block is
    never full. An order holds every column once: the blocks to visit,
    ascending, then the others, ascending. The check compares integers
    with those of PyTorch's ``BlockMask``. A kernel visits only the
    listed blocks, and evaluates the mask only in partial ones.

    Args:
        mask: bool, True = may attend, ``(B, H, L, S)``.
        block_size: of queries and of keys.

    Returns:
        For the partial blocks, their number in each row of blocks,
        ``(B, H, rows)``, and the order, ``(B, H, rows, columns)``; then
        the same for the full ones. All int32.
    """
    below, right = (-n % block_size for n in mask.shape[-2:])
    mask = F.pad(mask, (0, right, 0, below))  # False
    blocks = mask.unflatten(-1, (-1, block_size))
    blocks = blocks.unflatten(-3, (-1, block_size))
    allowed = blocks.sum((-3, -1))  # (B, H, rows, columns)
    full = allowed == block_size**2
    partial = (allowed > 0) & ~full
    found = []
    for kind in (partial, full):
        order = (~kind).int().argsort(stable=True)
        found += [kind.sum(-1).int(), order.int()]
    return tuple(found)


def varlen(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor,
    is_causal: bool = False,
) -> Tensor:
    """Let packed sequences attend, each to its own keys.

    Sequence ``n`` has queries ``cu_seq_q[n]`` to ``cu_seq_q[n + 1]``
    (that one excluded), and keys by ``cu_seq_k``. Scale by
    ``1 / sqrt(D)``. Causal is bottom right: a sequence's last query
    sees all of its keys. A query without keys gives 0. A length may be
    0, too. You may call any function of PyTorch. The check compares
    gradients, and measures the memory that is alive: no scores between
    sequences, none for padding.

    Args:
        query: ``(T, H, D)``, all sequences end to end.
        key: ``(Tk, H, D)``.
        value: ``(Tk, H, Dv)``.
        cu_seq_q: borders ``(N + 1,)``, 0 to ``T``, int32 or int64.
        cu_seq_k: borders ``(N + 1,)``, 0 to ``Tk``, of the same dtype.
        is_causal: mask the future.

    Returns:
        ``(T, H, Dv)``, in the dtype of ``query``.
    """
    q_lens, k_lens = cu_seq_q.diff().tolist(), cu_seq_k.diff().tolist()
    queries = query.transpose(0, 1).split(q_lens, 1)  # (H, L, D) each
    keys = key.transpose(0, 1).split(k_lens, 1)
    values = value.transpose(0, 1).split(k_lens, 1)
    outs = []
    for q, k, v in zip(queries, keys, values, strict=True):
        q, k, v = q[None], k[None], v[None]  # FLASH needs a batch axis
        L, S = q.shape[2], k.shape[2]
        mask = torch.ones(L, S, dtype=torch.bool)
        if is_causal:
            mask = mask.tril(S - L)
        square = is_causal and L == S  # then the flag is enough
        out = F.scaled_dot_product_attention(
            q, k, v, None if square else mask, is_causal=square
        )
        outs.append(out[0])
    return torch.cat(outs, 1).transpose(0, 1)  # (T, H, Dv)
