"""Count the bytes that each way to split attention sends."""

from __future__ import annotations

import torch

from attn import arguments
from attn.cost.attention import bytes_of, check_heads
from attn.distributed.ulysses import shard_heads

_SCHEMES = ("ring", "all_gather", "ulysses", "decode", "heads")


@arguments.named()
def traffic(
    scheme: str,
    world_size: int,
    *,
    batch: int,
    seq_len: int,
    num_heads: int,
    num_kv_heads: int,
    head_dim: int,
    dtype: torch.dtype = torch.bfloat16,
    backward: bool = False,
) -> int:
    """Count the bytes that one rank sends for one layer of attention.

    They are what ``count_sent`` counts, and the same for every rank. A rank
    holds ``KV = 2 * B * Hkv * (L / W) * D`` elements of keys and values.

    - ``"ring"``: ``(W - 1) * KV`` elements forward; backward, the same
      again with their gradients in float32.
    - ``"all_gather"``: ``(W - 1) * KV`` elements forward; backward, their
      gradients in float32.
    - ``"ulysses"``: ``(W - 1) / W`` of the query, key, value and output of a
      rank, forward and again backward. Key heads that are fewer than ranks
      count as ``W``. Forward, a ring sends less if
      ``W * Hkv < H + max(Hkv, W)``.
    - ``"decode"``: ``W - 1`` times ``B * H * (D + 1)`` elements in float32,
      for one new token; ``seq_len`` does not matter.
    - ``"heads"`` (tensor parallelism): the sum over ranks of the output
      projection's ``B * L * E`` elements, ``E = H * D``: ``2 * (W - 1) / W``
      of them, forward and again backward.

    Args:
        scheme: one of the names above.
        world_size: ranks, ``W``.
        batch, seq_len: ``B`` and the tokens of the whole sequence, ``L``.
        num_heads: ``H``.
        num_kv_heads: ``Hkv``.
        head_dim: ``D = Dv``.
        dtype: of query, key and value.
        backward: count the backward pass, instead of forward.

    Returns:
        Bytes.

    Raises:
        ValueError: a size is wrong or cannot be split; ``"decode"`` has no
            backward pass.

    Example:
        >>> sizes = {"batch": 1, "seq_len": 2**17, "num_heads": 32}
        >>> sizes |= {"num_kv_heads": 8, "head_dim": 128}  # Llama 3, 8B
        >>> for scheme in ("ring", "ulysses", "decode"):
        ...     sent = attn.distributed.traffic(scheme, 8, **sizes)
        ...     print(f"{scheme:8} {sent / 2**20:.3f} MiB")
        ring     448.000 MiB
        ulysses  280.000 MiB
        decode   0.110 MiB

    Source: Liu et al. 2023, "Ring Attention", section 3; Jacobs et al. 2023,
    "DeepSpeed Ulysses", section 3.2; Shoeybi et al. 2019, "Megatron-LM".
    """
    arguments.counts(world_size=world_size, batch=batch, seq_len=seq_len)
    arguments.counts(num_heads=num_heads, num_kv_heads=num_kv_heads)
    arguments.count("head_dim", head_dim)
    arguments.choice("scheme", scheme, _SCHEMES)
    check_heads(num_heads, num_kv_heads)
    others, size = world_size - 1, bytes_of(dtype)
    exact = torch.promote_types(dtype, torch.float32).itemsize
    if scheme == "decode":
        if backward:
            raise ValueError("backward must be False for 'decode'; got True")
        return others * batch * num_heads * (head_dim + 1) * exact
    if seq_len % world_size:
        raise ValueError(
            f"seq_len must be a multiple of world_size, {world_size}; got "
            f"{seq_len}"
        )
    head = batch * seq_len // world_size * head_dim  # elements, of one head
    kv = 2 * num_kv_heads * head
    if scheme == "ring":
        return others * kv * (size + exact if backward else size)
    if scheme == "all_gather":
        return others * kv * (exact if backward else size)
    heads = 2 * num_heads  # query and output
    if scheme == "ulysses":
        shard_heads(num_heads, num_kv_heads, 0, world_size)  # or raises
        heads += 2 * max(num_kv_heads, world_size)
        return others * heads * head * size // world_size
    return others * heads * head * size
