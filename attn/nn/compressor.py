"""Compressed entries: one key, and value, for every block of tokens."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attn import arguments
from attn.nn import validation
from attn.nn.norms import RMSNorm, placed
from attn.positions import NoRope, Rope
from attn.positions.rope import rotate_pairs


class KeyCompressor(nn.Module):
    """Pool every ``block_size`` tokens into one entry, by learned weights.

    Each feature has a softmax of its own over the tokens of the block. An
    entry is key and value at once, and serves all heads; a query may attend
    to it as soon as its block is complete: ``masks.compressed``. Tokens of a
    last block that is not complete have no entry yet: models keep a sliding
    window beside.

    A rotated entry is also a rotated value, so models rotate the output of
    the attention back: ``apply_rope(out, cos, -sin)`` at the queries' places.

    Parameters have the names of DeepSeek-V4 in transformers.

    Args:
        embed_dim: of the tokens, ``E``.
        head_dim: of an entry, ``D``.
        block_size: tokens in a block: 4 for entries that an indexer chooses
            from, 128 for entries that all queries read.
        overlap: pool over the block before, too, in features of its own:
            twice as many tokens an entry.
        rope: rotates the **last** elements of an entry, as many as its
            ``head_dim``, by the position of the block's first token.
        norm_eps: of the norm of the entries.
        device, dtype: of the parameters.

    Example:
        >>> compress = attn.nn.KeyCompressor(64, head_dim=16, block_size=4)
        >>> entries = compress(torch.randn(2, 11, 64))
        >>> entries.shape  # 2 blocks are complete
        torch.Size([2, 2, 16])
        >>> attn.masks.compressed(4).dense(11, 2)[0, 0].sum(-1)
        tensor([0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2])

    Source: transformers ``DeepseekV4HCACompressor`` and, with ``overlap``,
    ``DeepseekV4CSACompressor``.
    """

    @arguments.named()
    def __init__(
        self,
        embed_dim: int,
        head_dim: int,
        block_size: int,
        *,
        overlap: bool = False,
        rope: Rope | NoRope | None = None,
        norm_eps: float = 1e-6,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        arguments.counts(
            embed_dim=embed_dim, head_dim=head_dim, block_size=block_size
        )
        validation.rope(rope, head_dim, is_part=True)
        self.head_dim, self.block_size = head_dim, block_size
        self.overlap, self.rope = overlap, rope
        width = head_dim * (2 if overlap else 1)
        linear = partial(nn.Linear, bias=False, device=device, dtype=dtype)
        self.kv_proj = linear(embed_dim, width)
        self.gate_proj = linear(embed_dim, width)
        self.position_bias = nn.Parameter(
            torch.zeros(block_size, width, device=device, dtype=dtype)
        )
        norm = RMSNorm(head_dim, norm_eps)
        self.kv_norm = placed(norm, self.kv_proj.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Return an entry for each complete block, ``(B, L // bs, D)``."""
        blocks = x.shape[1] // self.block_size
        x = x[:, : blocks * self.block_size].unflatten(
            1, (blocks, self.block_size)
        )  # (B, n, bs, E)
        kv = self.kv_proj(x)
        gate = self.gate_proj(x) + self.position_bias
        if self.overlap:
            kv, gate = self._with_block_before(kv, gate)
        wide = torch.promote_types(gate.dtype, torch.float32)
        weights = gate.softmax(2, dtype=wide).to(kv.dtype)
        entries = self.kv_norm((kv * weights).sum(2))  # (B, n, D)
        if self.rope is None:
            return entries
        first = torch.arange(blocks, device=x.device) * self.block_size
        cos, sin = self.rope(first)
        rotated = self.rope.head_dim
        still, moving = entries.split([self.head_dim - rotated, rotated], -1)
        moving = rotate_pairs(moving, cos, sin, self.rope.interleaved)
        return torch.cat([still, moving], -1)

    def _with_block_before(
        self, kv: Tensor, gate: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the slots of two blocks for each, ``(B, n, 2 bs, D)``.

        A token's first features are for the next block, the others for its
        own. The first block has none before: its slots weigh nothing.
        """
        first = (0, 0, 0, 0, 1, 0)
        (kv_next, kv_own), (gate_next, gate_own) = (
            x.split(self.head_dim, -1) for x in (kv, gate)
        )
        kv_before = F.pad(kv_next, first)[:, :-1]
        gate_before = F.pad(gate_next, first, value=-torch.inf)[:, :-1]
        return (
            torch.cat([kv_before, kv_own], 2),
            torch.cat([gate_before, gate_own], 2),
        )

    def extra_repr(self) -> str:
        names = ("head_dim", "block_size", "overlap")
        return ", ".join(f"{name}={getattr(self, name)}" for name in names)
