"""A new token attends to a cache that is spread over ranks."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from attn import arguments
from attn.distributed.exchange import agree, all_gather, find_place
from attn.functional import merge_states, tiled_attention, validation
from attn.functional.attention import Result
from attn.functional.inputs import validate
from attn.functional.tiled import State

_KEYS = 4096  # converted to float32 at a time


@arguments.named()
def decode_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    group: dist.ProcessGroup | None = None,
    return_lse: bool = False,
) -> Result:
    """Attend to a cache of which every rank has a part.

    Keys stay where they are. What travels is a state of each rank, the
    output and ``lse`` in float32: bytes that do not depend on the length of
    the cache. All ranks merge the states in the same order, and get the same
    bits, from which they sample the same token.

    Args:
        query: the newest tokens, ``(..., H, L, D)``, the same on every rank.
        key: this rank's part of the cache, ``(..., Hkv, S, D)``. Any ``S``,
            0 included, and another on every rank.
        value: ``(..., Hkv, S, Dv)``.
        attn_mask: bool or float, broadcastable to ``(..., H, L, S)``, for
            this rank's keys. None: a query may attend to all of them.
        scale, enable_gqa, softcap, sinks, return_lse: those of
            ``attn.scaled_dot_product_attention``.
        group: the ranks that share the cache; all ranks when None.

    Returns:
        ``(..., H, L, Dv)``, in the dtype of ``query``, the same on every
        rank; with ``return_lse`` also ``(..., H, L)``.

    Raises:
        TypeError, ValueError: an argument is wrong, or differs between
            ranks; the message names them.
        RuntimeError: there is no process group, or a gradient is required.

    Example:
        >>> from attn.distributed import decode_attention, launch
        >>> def work(rank, query, keys, values):
        ...     return decode_attention(query, keys[rank], values[rank])
        >>> query = torch.randn(1, 2, 1, 8)
        >>> key, value = torch.randn(2, 1, 2, 10, 8)
        >>> keys, values = (x.split((7, 3), -2) for x in (key, value))
        >>> out, again = launch(work, 2, query, keys, values)
        >>> whole = attn.attention(query, key, value)
        >>> torch.allclose(out, whole, atol=1e-5), torch.equal(out, again)
        (True, True)

    Source: Dao et al. 2023, "Flash-Decoding", with ranks for its splits.
    """
    place = find_place(group, "decode_attention")
    if not (attn_mask is None or isinstance(attn_mask, Tensor)):
        raise TypeError(
            "attn_mask must be a tensor for this rank's keys, or None; got "
            f"{type(attn_mask).__name__}: take their columns of mask.dense()"
        )
    inputs = validate(
        query, key, value, attn_mask, scale=scale, enable_gqa=enable_gqa,
        softcap=softcap, sinks=sinks,
    )  # fmt: skip
    validation.no_grad(
        "ring_attention",
        query=query, key=key, value=value, attn_mask=attn_mask, sinks=sinks,
    )  # fmt: skip
    agree(
        place,
        "decode_attention",
        query.device,
        query=(tuple(query.shape), query.dtype),
        heads_of_key=inputs.num_kv_heads,
        head_dim_of_value=value.shape[-1],
        scale=inputs.scale,
        softcap=softcap,
        sinks=sinks is not None,
    )
    dtype = inputs.compute_dtype
    q, state = query.to(dtype), None
    for i in range(0, max(inputs.kv_len, 1), _KEYS):
        near = slice(i, i + _KEYS)
        mask = attn_mask
        if mask is not None and mask.shape[-1] > 1:
            mask = mask[..., near]
        block = tiled_attention(
            q, key[..., near, :].to(dtype), value[..., near, :].to(dtype),
            mask, scale=inputs.scale, enable_gqa=enable_gqa,
            softcap=softcap, return_lse=True,
        )  # fmt: skip
        assert isinstance(block, tuple)
        state = block if state is None else merge_states(state, block)
    assert state is not None
    sent = torch.cat([state[0], state[1][..., None]], -1)
    states: list[State] = [
        (x[..., :-1], x[..., -1]) for x in all_gather(sent, place)
    ]
    out, lse = states[0]
    for other in states[1:]:
        out, lse = merge_states((out, lse), other)
    if sinks is not None:
        sink = sinks.to(lse.dtype)
        sink = sink[:, None] if lse.dim() > 1 else sink
        out = out * torch.sigmoid(lse - sink)[..., None]
    out = out.to(query.dtype)
    return (out, lse) if return_lse else out
