"""A cache of latents: one narrow key for all heads, which is the value too."""

from __future__ import annotations

import torch
from torch import Tensor

from attn.cache import validation
from attn.cache.base import CacheView
from attn.cache.dynamic import DynamicCache


class LatentCache(DynamicCache):
    """Keeps a latent and one rotated key for each token, not keys and values.

    A token takes ``R + r`` elements a layer, whatever the number of heads
    (see ``attn.cost.latent_cache_bytes``). The two are stored end to end, so
    that an update returns, without a copy, what the absorbed form of
    ``attn.nn.LatentAttention`` attends to: one key head of ``R + r``, whose
    first ``R`` elements are the value. The latents come **after** their norm
    and the keys after their rotation.

    Rows may differ in length, and gradients are kept, as in
    ``DynamicCache``, with the same ``crop``, ``reorder`` and ``fork``.

    Example:
        >>> cache = attn.LatentCache()
        >>> latent = torch.randn(1, 1, 5, 512)  # (B, 1, L, R)
        >>> rope_key = torch.randn(1, 1, 5, 64)  # (B, 1, L, r)
        >>> key, value, q_offset = cache.update(latent, rope_key)
        >>> key.shape, value.shape
        (torch.Size([1, 1, 5, 576]), torch.Size([1, 1, 5, 512]))
        >>> cache.nbytes == 5 * (512 + 64) * 4
        True

    Source: DeepSeek-AI 2024, "DeepSeek-V2", section 2.1.2 and 2.1.3.
    """

    # Of the base: ``key`` holds (B, 1, S, R + r), ``value`` the keys of an
    # indexer, (B, 1, S, Di), of width 0 without one.

    @property
    def index_key(self) -> Tensor | None:
        """Return an indexer's keys, ``(B, S, Di)``; None before an update."""
        return None if self.value is None else self.value[:, 0]

    def update(
        self,
        latent: Tensor,
        rope_key: Tensor,
        lengths: Tensor | None = None,
        *,
        index_key: Tensor | None = None,
    ) -> CacheView:
        """Add the latents and rotated keys of new tokens.

        Args:
            latent: after its norm, ``(B, 1, L, R)``.
            rope_key: rotated, ``(B, 1, L, r)``.
            lengths: number of real tokens in each row, as in ``Cache``.
            index_key: the keys of an indexer, ``(B, L, Di)``, if the layer
                has one.

        Returns:
            ``key`` ``(B, 1, S, R + r)``, its view ``value``
            ``(B, 1, S, R)``, and ``q_offset``, as in ``Cache``.

        Raises:
            ValueError, TypeError: shapes, dtype or device differ from the
                stored ones or from each other.
        """
        validation.latents(latent, rope_key, index_key)
        entry = torch.cat([latent, rope_key], -1)  # (B, 1, L, R + r)
        index = entry[..., :0] if index_key is None else index_key[:, None]
        key, _, q_offset = super().update(entry, index, lengths)
        return CacheView(key, key[..., : latent.shape[-1]], q_offset)
