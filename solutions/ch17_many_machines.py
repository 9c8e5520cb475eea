"""Solutions of chapter 17. Each signature and docstring is the task."""

from collections.abc import Callable

import torch
from attn.exercises.ring.blocks import (
    attend,
    block_gradients,
    merge_states,
)
from torch import Tensor


def decode_attention(
    query: Tensor, key: Tensor, value: Tensor, gather: Callable
) -> Tensor:
    """Attend to a cache that is spread over ranks, as one of them.

    Each rank has the new token's query and some of the keys, of any
    number; one may have none. Keys must stay where they are: the check
    counts the elements that you send. ``attend(query, key, value)``
    gives the state ``(out, lse)`` over your keys, and
    ``merge_states(first, second)`` merges two. All ranks run this
    function, and all need the result.

    Args:
        query: ``(B, H, 1, D)``, the same on all ranks.
        key, value: this rank's, ``(B, Hkv, S, D)`` and
            ``(B, Hkv, S, Dv)``.
        gather: ``gather(*tensors)`` sends tensors to all ranks, and
            returns a list of what each sent, in the order of ranks.

    Returns:
        Attention over the keys of all ranks, ``(B, H, 1, Dv)``.
    """
    states = gather(*attend(query, key, value))
    state = states[0]
    for other in states[1:]:
        state = merge_states(state, other)
    return state[0]


def shard_positions(
    length: int, rank: int, world_size: int, layout: str = "contiguous"
) -> Tensor:
    """Say which tokens of a text are a rank's.

    ``"contiguous"`` cuts the text into as many pieces as there are
    ranks, one after the other. ``"zigzag"`` cuts it into twice as many,
    and gives rank r piece r and piece r from the end, so that under a
    causal mask all ranks have the same work. A length that does not
    divide into equal pieces is a ValueError: ranks that hold different
    numbers of tokens wait for bytes that never come.

    Args:
        length: tokens of the whole text.
        rank: from 0 to ``world_size - 1``.
        world_size: number of ranks.
        layout: ``"contiguous"`` or ``"zigzag"``.

    Returns:
        The tokens' positions, rising, int64.
    """
    pieces = world_size if layout == "contiguous" else 2 * world_size
    if length % pieces:
        raise ValueError(
            f"length must be a multiple of {pieces}; got {length}"
        )
    parts = torch.arange(length).chunk(pieces)
    if layout == "contiguous":
        return parts[rank]
    return torch.cat([parts[rank], parts[pieces - 1 - rank]])


def ring_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    rank: int,
    world_size: int,
    shift: Callable,
    layout: str = "contiguous",
    is_causal: bool = False,
) -> tuple[Tensor, Tensor]:
    """Attend from your tokens to those of all ranks, round a ring.

    Queries stay. A block of keys and values goes from rank to rank, and
    each rank adds it to its state. Use ``shard_positions``, ``attend``
    and ``merge_states``; ``attend(query, key, value, allowed)`` takes a
    bool mask. The check counts shifts: send no block to its owner.

    Args:
        query: your tokens', ``(B, H, L, D)``.
        key: ``(B, Hkv, L, D)``.
        value: ``(B, Hkv, L, Dv)``.
        rank, world_size, layout: as in ``shard_positions``.
        shift: ``wait = shift(*tensors)`` starts to send them to rank +
            1, and the last rank's to rank 0; ``wait()`` returns a list
            of what the previous rank sent. Until then change nothing
            that is being sent.
        is_causal: whether tokens see only those up to themselves.

    Returns:
        out, ``(B, H, L, Dv)``, and lse, ``(B, H, L)``.
    """
    length = query.shape[2] * world_size
    rows = shard_positions(length, rank, world_size, layout)
    state = None
    for step in range(world_size):
        last = step == world_size - 1
        wait = None if last else shift(key, value)
        source = (rank - step) % world_size
        columns = shard_positions(length, source, world_size, layout)
        allowed = rows[:, None] >= columns if is_causal else None
        part = attend(query, key, value, allowed)
        state = merge_states(state, part) if state else part
        if wait:
            key, value = wait()
    return state


def ring_backward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    d_out: Tensor,
    rank: int,
    world_size: int,
    shift: Callable,
    layout: str = "contiguous",
    is_causal: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the gradients of your tokens, round the ring once more.

    Every rank adds to the gradients of a block of keys and values. So
    they travel with it, and end at its owner. For one block,
    ``block_gradients(query, key, value, out, lse, d_out, allowed)``
    returns the three gradients of chapter 11.

    Args:
        query, key, value: as in ``ring_forward``.
        out, lse: what it returned, over the keys of all ranks.
        d_out: the gradient of out, ``(B, H, L, Dv)``.
        rank, world_size, shift, layout, is_causal: as before.

    Returns:
        The gradients of your query, key and value.
    """
    length = query.shape[2] * world_size
    rows = shard_positions(length, rank, world_size, layout)
    dq, dk, dv = (torch.zeros_like(x) for x in (query, key, value))
    for step in range(world_size):
        source = (rank - step) % world_size
        columns = shard_positions(length, source, world_size, layout)
        allowed = rows[:, None] >= columns if is_causal else None
        parts = block_gradients(
            query, key, value, out, lse, d_out, allowed
        )
        dq, dk, dv = dq + parts[0], dk + parts[1], dv + parts[2]
        key, value, dk, dv = shift(key, value, dk, dv)()
    return dq, dk, dv


def all_to_all_heads(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    world_size: int,
    all_to_all: Callable,
    is_causal: bool = False,
) -> Tensor:
    """Attend by trading tokens for heads, as one of the ranks.

    You have all heads of some tokens. Trade, so that you have some
    heads of all tokens; ``attend(query, key, value, allowed)``; trade
    back. With fewer key heads than ranks, repeat each just often enough
    that every rank gets one, the one that its query heads read. The
    check counts the elements that you send.

    Args:
        query: your tokens', ``(B, H, L, D)``; rank 0 has the text's
            first L. H is a multiple of ``world_size``.
        key: ``(B, Hkv, L, D)``; Hkv is a multiple or a divisor of
            ``world_size``.
        value: ``(B, Hkv, L, Dv)``.
        world_size: number of ranks.
        all_to_all: takes a list of tensors, entry j for rank j, and
            returns a list; entry j is what rank j sent you.
        is_causal: whether tokens see only those up to themselves.

    Returns:
        Attention of all heads of your tokens, ``(B, H, L, Dv)``.
    """
    copies = max(1, world_size // key.shape[1])
    key = key.repeat_interleave(copies, 1)
    value = value.repeat_interleave(copies, 1)
    whole = []
    for x in (query, key, value):
        parts = all_to_all(list(x.chunk(world_size, 1)))
        whole.append(torch.cat(parts, 2))  # (B, heads / W, W L, D)
    length = whole[0].shape[2]
    at = torch.arange(length)
    allowed = at[:, None] >= at if is_causal else None
    out, _ = attend(*whole, allowed)
    parts = all_to_all(list(out.chunk(world_size, 2)))
    return torch.cat(parts, 1)  # (B, H, L, Dv)
