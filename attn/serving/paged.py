"""Attention over pages where they are: no row is copied together first."""

from __future__ import annotations

import torch
from torch import Tensor

from attn import arguments, tracing
from attn.api import attention
from attn.functional import merge_states


def paged_attention(
    query: Tensor,
    key_pages: Tensor,
    value_pages: Tensor,
    block_table: Tensor,
    seq_len: Tensor,
    *,
    scale: float | None = None,
    softcap: float | None = None,
) -> Tensor:
    """Compute causal attention of the last tokens of each row, page by page.

    One page of each row is read at a time, and its state merged into that of
    the pages before it: of keys and values, never more than a page a row is
    in one piece. Slots that were not written may hold anything, NaN too.

    Args:
        query: ``(B, H, L, D)``, of the last ``L`` tokens of each row.
        key_pages, value_pages: the pool, ``(N, Hkv, P, D)`` and
            ``(N, Hkv, P, Dv)``; ``H`` is a multiple of ``Hkv``.
        block_table: pages of each row, integers ``(B, M)``; what follows the
            last page, such as -1, is not read.
        seq_len: tokens of each row, the new ones included, ``(B,)``.
        scale, softcap: as in ``attn.attention``.

    Returns:
        ``(B, H, L, Dv)``, 0 for a query before the first token of its row.

    Raises:
        ValueError: a row has more tokens than its pages hold, or pages that
            are not in the pool.

    Example:
        >>> pool = attn.PagePool(9, page_size=4, num_kv_heads=2, head_dim=8)
        >>> cache = attn.PagedCache(pool, batch=3)
        >>> x, lengths = torch.randn(3, 2, 6, 8), torch.tensor([6, 1, 5])
        >>> key, value, _ = cache.update(x, x, lengths)
        >>> table, query = cache.block_table, torch.randn(3, 4, 1, 8)
        >>> out = attn.serving.paged_attention(
        ...     query, pool.key, pool.value, table, cache.seq_len
        ... )
        >>> mask = attn.padding(lengths)
        >>> exact = attn.attention(query, key, value, mask, enable_gqa=True)
        >>> torch.allclose(out, exact, atol=1e-5)
        True

    Source: Kwon et al. 2023, "PagedAttention", section 4.1; vLLM
    ``triton_unified_attention.py`` follows the table in its loop over tiles.
    """
    given = {"key_pages": key_pages, "value_pages": value_pages}
    for name, x in {"query": query, **given}.items():
        arguments.tensor(name, x, floating=True)
        arguments.same_device(name, x, "query", query)
        if x.dim() != 4:
            raise ValueError(
                f"{name} must have four axes, those of the docstring; got "
                f"{tuple(x.shape)}"
            )
    if value_pages.shape[:3] != key_pages.shape[:3]:
        raise ValueError(
            "value_pages must have as many pages, heads and slots as "
            f"key_pages, {tuple(key_pages.shape[:3])}; got "
            f"{tuple(value_pages.shape[:3])}"
        )
    for name, x in {"block_table": block_table, "seq_len": seq_len}.items():
        arguments.tensor(name, x)
        arguments.same_device(name, x, "query", query)
        if x.dtype not in (torch.int32, torch.int64):
            raise TypeError(f"{name} must be integers; got {x.dtype}")
    B, H, L, _ = query.shape
    size = key_pages.shape[2]
    needed = -(-seq_len // size)  # (B,)
    _check_table(block_table, needed, B, len(key_pages))
    out = query.new_zeros(B, H, L, value_pages.shape[3])
    lse = query.new_full((B, H, L), -torch.inf)
    # The last key that each query sees, (B, L).
    last = seq_len[:, None] - L + torch.arange(L, device=query.device)
    slots = torch.arange(size, device=query.device)
    most = block_table.shape[1]
    if tracing.has_values(needed):
        most = int(needed.max()) if B else 0
    for i in range(most):
        pages = block_table[:, i].long().masked_fill(i >= needed, 0)
        index = i * size + slots  # (P,)
        is_real = (index < seq_len[:, None])[:, None, :, None]  # (B, 1, P, 1)
        state = attention(
            query,
            # A weight of 0 does not hide a NaN.
            key_pages[pages].masked_fill(~is_real, 0.0),
            value_pages[pages].masked_fill(~is_real, 0.0),
            (index <= last[..., None])[:, None],  # (B, 1, L, P)
            scale=scale,
            enable_gqa=True,
            softcap=softcap,
            return_lse=True,
        )
        out, lse = merge_states((out, lse), (state[0], state[1]))
    return out


def _check_table(
    block_table: Tensor, needed: Tensor, batch: int, num_pages: int
) -> None:
    """Require the pages that are read, and that they are in the pool."""
    if block_table.dim() != 2 or needed.shape != (batch,):
        raise ValueError(
            "block_table and seq_len must have shapes (B, M) and (B,); got "
            f"{tuple(block_table.shape)} and {tuple(needed.shape)}"
        )
    if len(block_table) != batch:
        raise ValueError(
            f"block_table must have the {batch} rows of query; got "
            f"{len(block_table)}"
        )
    if not tracing.has_values(block_table, needed):
        return
    if batch and int(needed.min()) < 0:
        raise ValueError(
            "seq_len must be 0 or more for each row; got fewer pages than "
            f"none, {needed.tolist()}"
        )
    most = int(needed.max()) if batch else 0
    if most > block_table.shape[1]:
        raise ValueError(
            f"block_table must have {most} pages for the longest row; got "
            f"{block_table.shape[1]}"
        )
    columns = torch.arange(block_table.shape[1], device=needed.device)
    read = block_table[columns < needed[:, None]]
    if bool(((read < 0) | (read >= num_pages)).any()):
        raise ValueError(
            f"block_table must have pages 0 to {num_pages - 1} for all "
            f"tokens of a row; got {read.tolist()}"
        )
