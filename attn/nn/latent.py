"""Multi-head latent attention: keys and values from one narrow vector."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attn import arguments
from attn.api import Registry
from attn.cache import LatentCache
from attn.cost import latent_attention_cost
from attn.functional import attention_weights, merge_heads, split_heads
from attn.functional.inputs import validate
from attn.masks import Mask
from attn.nn import latent_checks, validation
from attn.nn.call_options import attend, call_options
from attn.nn.indexer import LightningIndexer, take_chosen
from attn.nn.norms import RMSNorm, placed
from attn.nn.position_ids import PositionIds
from attn.nn.projections import is_weight_alone
from attn.positions import NoRope, Rope
from attn.positions.rope import check_layout, rotate_pairs
from attn.positions.rope_scaling import yarn_mscale


class LatentAttention(nn.Module):
    """Attention whose cache is one latent and one rotated key a token.

    A token is compressed to a latent of ``R`` elements, from which every
    head's key and value are made, and beside it to a key of ``r`` elements
    that rotates and that all heads share. There are two ways to compute the
    same result. *Expanded*: make keys and values for each head, then attend.
    *Absorbed*: since ``q · (W c) = (Wᵀ q) · c``, move the up-projections to
    the queries and the outputs, and attend to the latents themselves: one
    key head of ``R + r`` for all, whose first ``R`` elements are the value.

    Parameters have the names of DeepSeek-V3 in transformers, whose state
    dict loads as it is. A model has these layers with ``positions="none"``
    and ``attention=functools.partial(LatentAttention, rope=…, …)`` in its
    ``TransformerConfig``, and ``generate`` makes their caches.

    Args:
        embed_dim: ``E``.
        num_heads: ``H``.
        q_lora_rank: width of the latent that queries are made of; None to
            project them directly (DeepSeek-V2-Lite).
        kv_lora_rank: width of the latent that is cached, ``R``.
        qk_nope_head_dim: elements of a head that do not rotate, ``n``.
        qk_rope_head_dim: elements that do, ``r``.
        v_head_dim: size of a value head, ``v``.
        rope: rotates the ``r`` elements; nothing does when None. DeepSeek's
            is ``Rope(r, interleaved=True)``.
        absorb: which way: True, False, or ``"auto"``, that with fewer FLOPs
            by ``attn.cost.latent_attention_cost``: absorbed in decoding,
            expanded for a prompt, and with an adapter or a hook on
            ``kv_b_proj``, whatever ``absorb`` is.
        bias: of the projections to the latents and of the output.
        dropout: of the attention weights, in training only.
        norm_eps: of the norms of the latents.
        is_causal: as in ``MultiHeadAttention``.
        scale: ``(n + r) ** -0.5`` when None, never that of the latents'
            width; times the square of YaRN's ``mscale`` if ``rope`` has
            ``mscale_all_dim``.
        sinks: as in ``MultiHeadAttention`` (transformers' ``hy_v4``).
        gate: multiply the heads' outputs by a sigmoid of the token, one for
            each ``"element"`` (``hy_v4``) or each ``"head"``
            (``bailing_hybrid``); None for no gate.
        indexer: chooses the keys of each query, which ``attn_mask`` and
            causality limit (DeepSeek-V3.2).
        impl, registry: as in ``MultiHeadAttention``.
        device, dtype: of the parameters.

    Raises:
        ValueError, TypeError: a size is no size, or options do not fit.

    Example:
        >>> layer = attn.nn.LatentAttention(
        ...     embed_dim=64, num_heads=4, q_lora_rank=None, kv_lora_rank=32,
        ...     qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16,
        ...     rope=attn.Rope(8, interleaved=True), is_causal=True,
        ... )
        >>> x, cache = torch.randn(2, 10, 64), attn.LatentCache()
        >>> steps = [layer(x[:, i : i + 1], cache=cache) for i in range(10)]
        >>> torch.allclose(torch.cat(steps, 1), layer(x), atol=1e-5)
        True

    Source: DeepSeek-AI 2024, "DeepSeek-V2", section 2.1;
    transformers ``DeepseekV3Attention``.
    """

    # What the module shares with MultiHeadAttention, for call_options.
    alibi, window, softcap = False, None, None

    @arguments.named()
    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        q_lora_rank: int | None,
        kv_lora_rank: int,
        qk_nope_head_dim: int,
        qk_rope_head_dim: int,
        v_head_dim: int,
        *,
        rope: Rope | NoRope | None = None,
        absorb: bool | str = "auto",
        bias: bool = False,
        dropout: float = 0.0,
        norm_eps: float = 1e-6,
        is_causal: bool = False,
        scale: float | None = None,
        sinks: bool = False,
        gate: str | None = None,
        indexer: LightningIndexer | None = None,
        impl: str = "auto",
        registry: Registry | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        arguments.counts(
            embed_dim=embed_dim,
            num_heads=num_heads,
            q_lora_rank=1 if q_lora_rank is None else q_lora_rank,
            kv_lora_rank=kv_lora_rank,
            qk_nope_head_dim=qk_nope_head_dim,
            qk_rope_head_dim=qk_rope_head_dim,
            v_head_dim=v_head_dim,
        )
        validation.rope(rope, qk_rope_head_dim)
        validation.options(dropout, norm_eps, scale, impl, registry)
        latent_checks.options(absorb, gate)
        latent_checks.indexer(indexer, q_lora_rank)
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.num_kv_heads = num_heads
        self.q_lora_rank, self.kv_lora_rank = q_lora_rank, kv_lora_rank
        self.qk_nope_head_dim = qk_nope_head_dim
        self.qk_rope_head_dim = qk_rope_head_dim
        self.v_head_dim = v_head_dim
        self.rope, self.absorb = rope, absorb
        self.dropout, self.is_causal = dropout, is_causal
        self.impl, self.registry = impl, registry
        head_dim = qk_nope_head_dim + qk_rope_head_dim
        self.scale = _scale(head_dim, rope) if scale is None else scale
        linear = partial(nn.Linear, bias=False, device=device, dtype=dtype)
        q_size = num_heads * head_dim
        if q_lora_rank is None:
            self.q_proj = linear(embed_dim, q_size)
        else:
            self.q_a_proj = linear(embed_dim, q_lora_rank, bias=bias)
            norm = RMSNorm(q_lora_rank, norm_eps)
            self.q_a_layernorm = placed(norm, self.q_a_proj.weight)
            self.q_b_proj = linear(q_lora_rank, q_size)
        self.kv_a_proj_with_mqa = linear(
            embed_dim, kv_lora_rank + qk_rope_head_dim, bias=bias
        )
        norm = RMSNorm(kv_lora_rank, norm_eps)
        self.kv_a_layernorm = placed(norm, self.kv_a_proj_with_mqa.weight)
        self.kv_b_proj = linear(
            kv_lora_rank, num_heads * (qk_nope_head_dim + v_head_dim)
        )
        self.o_proj = linear(num_heads * v_head_dim, embed_dim, bias=bias)
        zeros = torch.zeros(num_heads, device=device, dtype=dtype)
        self.sinks = nn.Parameter(zeros) if sinks else None
        self.gate = gate
        if gate == "element":
            self.gate_proj = linear(embed_dim, num_heads * v_head_dim)
        elif gate == "head":
            self.g_proj = linear(embed_dim, num_heads)
        self.indexer = indexer

    def new_cache(self) -> LatentCache:
        """Return an empty cache of the kind that the layer writes to."""
        return LatentCache()

    @arguments.named()
    def forward(
        self,
        x: Tensor,
        attn_mask: Tensor | Mask | None = None,
        *,
        key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
        need_weights: bool = False,
        average_attn_weights: bool = True,
        positions: Tensor | None = None,
        position_embeddings: tuple[Tensor, Tensor] | None = None,
        cache: LatentCache | None = None,
        lengths: Tensor | None = None,
    ) -> Any:
        """Compute self-attention between the projections.

        Args:
            x: ``(B, L, E)``.
            attn_mask, key_padding_mask, is_causal, need_weights: as in
                ``MultiHeadAttention.forward``, like those that follow.
            average_attn_weights, positions, position_embeddings: as there.
            cache, lengths: as there; the cache is an ``attn.LatentCache``.

        Returns:
            ``(B, L, E)``; with ``need_weights`` also ``(B, L, S)``, or
            ``(B, H, L, S)`` without averaging.

        Raises:
            ValueError, TypeError: an argument is wrong.
        """
        validation.tokens("x", x, self.embed_dim)
        latent_checks.cache(cache)
        lengths = validation.cached_lengths(
            lengths, x, cache, key_padding_mask
        )
        if cache is not None and positions is None:
            positions = cache.positions(x.shape[1]).to(x.device)
        q_nope, q_rope, q_resid = self._queries(x)  # (B, H, L, n or r)
        latent, rope_key = self._latents(x)  # (B, 1, L, R), (B, 1, L, r)
        ids = PositionIds(q_rope, latent, positions, None, None, True)
        if position_embeddings is not None or self.rope is not None:
            interleaved = self.rope is not None and self.rope.interleaved
            if position_embeddings is None:
                assert self.rope is not None
                position_embeddings = self.rope(ids.of_queries())
            else:
                check_layout(position_embeddings[0], interleaved)
            cos, sin = position_embeddings
            q_rope, rope_key = (
                rotate_pairs(part, cos, sin, interleaved)
                for part in (q_rope, rope_key)
            )
        index_key = None
        if self.indexer is not None:
            with torch.no_grad():
                index_key = self.indexer.keys(x, ids.of_queries())
        is_causal = self.is_causal if is_causal is None else is_causal
        real = None
        key = torch.cat([latent, rope_key], -1)  # (B, 1, S, R + r)
        if cache is not None:
            validation.cached_padding(key_padding_mask, cache, x.shape[1])
            view = cache.update(latent, rope_key, lengths, index_key=index_key)
            key, latent, _ = view
            index_key = None if index_key is None else cache.index_key
            ids = ids.with_cache(cache, view, lengths)
            real = None if is_causal else cache.valid()
        absorbs = self._absorbs(x.shape[1], key.shape[2], is_causal)
        masks: tuple[Any, ...] = (attn_mask, key_padding_mask, real)
        if self.indexer is not None:
            limits = self._limits(key, latent, ids, is_causal, *masks)
            mask = self.indexer.choose(
                x, q_resid, ids.of_queries(), key=index_key, limits=limits
            )
            is_step = x.shape[1] == 1 and mask is not limits
            if mask is not None and is_step and not need_weights:
                # A step reads the chosen entries alone.
                key, mask = take_chosen(key, mask, self.indexer.top_k)
                latent = key[..., : self.kv_lora_rank]
            masks, is_causal = (mask,), False  # which says it all
            ids = ids._replace(q_offset=0)
        q, k, v, up_value = self._heads(q_nope, q_rope, key, latent, absorbs)
        options = call_options(self, q, k, v, ids, is_causal, *masks)
        options["enable_gqa"] = k.shape[1] != q.shape[1]
        heads = attend(self, q, k, v, options)
        if up_value is not None:
            heads = heads @ up_value.mT  # (B, H, L, v)
        out = self.o_proj(self._gated(merge_heads(heads), x))
        if not need_weights:
            return out
        options["dropout_p"] = 0.0
        weights = attention_weights(q, k, **options).weights.to(q.dtype)
        return out, weights.mean(1) if average_attn_weights else weights

    def _queries(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return both parts of the queries, and the latent they come from."""
        resid = None
        if self.q_lora_rank is None:
            q = self.q_proj(x)
        else:
            resid = self.q_a_layernorm(self.q_a_proj(x))  # (B, L, Rq)
            q = self.q_b_proj(resid)
        q = split_heads(q, self.num_heads)  # (B, H, L, n + r)
        sizes = [self.qk_nope_head_dim, self.qk_rope_head_dim]
        q_nope, q_rope = q.split(sizes, -1)
        return q_nope, q_rope, resid

    def _latents(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the latents after their norm, and the keys to rotate."""
        both = self.kv_a_proj_with_mqa(x)[:, None]  # (B, 1, L, R + r)
        sizes = [self.kv_lora_rank, self.qk_rope_head_dim]
        latent, rope_key = both.split(sizes, -1)
        return self.kv_a_layernorm(latent), rope_key

    def _heads(
        self,
        q_nope: Tensor,
        q_rope: Tensor,
        key: Tensor,
        latent: Tensor,
        absorbs: bool,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Return query, key, value, and what is still to be applied."""
        sizes = [self.qk_nope_head_dim, self.v_head_dim]
        if not absorbs:
            both = split_heads(self.kv_b_proj(latent[:, 0]), self.num_heads)
            k_nope, value = both.split(sizes, -1)  # (B, H, S, n), (…, v)
            rope_key = key[..., self.kv_lora_rank :]
            rope_key = rope_key.expand(-1, self.num_heads, -1, -1)
            k = torch.cat([k_nope, rope_key], -1)  # (B, H, S, n + r)
            return torch.cat([q_nope, q_rope], -1), k, value, None
        up = self.kv_b_proj.weight.unflatten(0, (self.num_heads, -1))
        up_key, up_value = up.split(sizes, 1)  # (H, n, R), (H, v, R)
        q = torch.cat([q_nope @ up_key, q_rope], -1)  # (B, H, L, R + r)
        return q, key, latent, up_value

    def _absorbs(self, q_len: int, kv_len: int, is_causal: bool) -> bool:
        """Return whether the call takes the absorbed form."""
        if not is_weight_alone(self.kv_b_proj):
            return False
        if self.absorb != "auto":
            return bool(self.absorb)
        sizes = (
            (1, q_len, kv_len, self.num_heads)
            + (self.kv_lora_rank, self.qk_nope_head_dim)
            + (self.qk_rope_head_dim, self.v_head_dim)
        )
        cost = partial(latent_attention_cost, *sizes, is_causal=is_causal)
        return cost(absorb=True).flops < cost(absorb=False).flops

    def _limits(
        self,
        key: Tensor,
        latent: Tensor,
        ids: PositionIds,
        is_causal: bool,
        *masks: Any,
    ) -> Tensor | None:
        """Return what may attend, by every rule, as one tensor."""
        B, _, L, _ = ids.q.shape
        query = key.new_empty(()).expand(B, self.num_heads, L, key.shape[-1])
        options = call_options(
            self, query, key, latent, ids, is_causal, *masks
        )
        options["enable_gqa"] = True
        return validate(query, key, latent, **options).dense_mask()

    def _gated(self, heads: Tensor, x: Tensor) -> Tensor:
        """Return the heads' outputs, ``(B, L, H * v)``, times their gates."""
        if self.gate is None:
            return heads
        if self.gate == "element":
            return heads * self.gate_proj(x).sigmoid()
        gates = self.g_proj(x).sigmoid()  # (B, L, H)
        return heads * gates.repeat_interleave(self.v_head_dim, -1)

    def extra_repr(self) -> str:
        names = (
            "num_heads",
            "q_lora_rank",
            "kv_lora_rank",
            "qk_nope_head_dim",
            "qk_rope_head_dim",
            "v_head_dim",
            "absorb",
        )
        sizes = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{self.embed_dim}, {sizes}"


def _scale(head_dim: int, rope: Rope | NoRope | None) -> float:
    """Return the scale of the scores, as the expanded heads have it."""
    scale = head_dim**-0.5
    given = {} if rope is None else rope.arguments
    weight = given.get("mscale_all_dim")
    if not weight:
        return scale
    factor = given.get("factor")
    if factor is None:
        original = given["original_max_position_embeddings"]
        factor = given["max_position_embeddings"] / original
    return scale * yarn_mscale(factor, weight) ** 2
