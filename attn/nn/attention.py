"""Multi-head, grouped-query and multi-query attention: one module."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attn import arguments
from attn.api import Registry
from attn.cache import Cache
from attn.functional import attention_weights, merge_heads
from attn.functional.validation import Window
from attn.masks import Mask
from attn.nn import nested, validation
from attn.nn.call_options import attend, call_options
from attn.nn.norms import RMSNorm, placed
from attn.nn.position_ids import PositionIds
from attn.nn.projections import project, remap_state_dict
from attn.positions import NoRope, Rope
from attn.positions.rope import check_layout, rotate_pairs


class MultiHeadAttention(nn.Module):
    """Attention with its projections, for self- and cross-attention.

    ``num_kv_heads`` is one dial: ``num_heads`` gives multi-head attention
    (MHA), 1 gives multi-query (MQA), a divisor between them grouped-query
    (GQA). Inputs have the batch first; there is no ``batch_first``.

    The state dicts of ``torch.nn.MultiheadAttention`` and of the building
    block in PyTorch's tutorial load as they are, packed or not. Its masks do
    not: a boolean ``attn_mask`` is True there where a token may **not**
    attend, here where it may, and no check can tell. ``key_padding_mask`` is
    True at padding in both.

    Args:
        embed_dim: size of the query and of the output, ``E``.
        num_heads: ``H``.
        num_kv_heads: ``Hkv``; ``H`` when None.
        head_dim: size of a query and key head, ``D``; ``E / H`` when None.
        value_dim: size of a value head, ``Dv``; ``D`` when None.
        kdim: size of the key inputs; ``E`` when None.
        vdim: size of the value inputs; ``E`` when None.
        bias: of the query, key and value projections.
        out_bias: of the output projection; as ``bias`` when None.
        dropout: of the attention weights, in training only.
        packed: keep the three projections in one matrix.
        qk_norm: normalise query and key heads, before RoPE (Qwen3).
        norm_eps: epsilon of that norm.
        sinks: learn a logit for each head that takes weight and gives no
            value (gpt-oss).
        gate: multiply each element of the heads' outputs by a sigmoid of
            the query (Qwen3-Next).
        rope: rotate queries and keys by their positions, over ``D``.
        alibi: lower the scores with the distance, by a slope for each head.
        window: ``(left, right)`` neighbours kept in addition to the token.
        is_causal: False unless given, as in every layer of PyTorch; the
            ``is_causal`` of a call overrides it.
        softcap, scale: as in ``attn.attention``.
        impl, registry: the implementation that computes every call, as in
            ``attn.attention``, and where its name is registered (the default
            registry when None). ``need_weights`` computes weights apart.
        device, dtype: of the parameters.

    Raises:
        ValueError: sizes do not divide, or options exclude each other.

    Example:
        >>> layer = attn.MultiHeadAttention(
        ...     embed_dim=64, num_heads=8, num_kv_heads=2, is_causal=True,
        ... )
        >>> x = torch.randn(2, 10, 64)  # (B, L, E)
        >>> out, weights = layer(x, need_weights=True)
        >>> out.shape, weights.shape
        (torch.Size([2, 10, 64]), torch.Size([2, 10, 10]))
        >>> cache = attn.DynamicCache()
        >>> steps = [layer(x[:, i : i + 1], cache=cache) for i in range(10)]
        >>> torch.allclose(torch.cat(steps, 1), out, atol=1e-5)
        True

    Source: Vaswani et al. 2017, section 3.2.2; Shazeer 2019 (MQA); Ainslie
    et al. 2023 (GQA); transformers ``GptOssAttention`` (sinks); Qiu et al.
    2025 (gate).
    """

    @arguments.named()
    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        value_dim: int | None = None,
        *,
        kdim: int | None = None,
        vdim: int | None = None,
        bias: bool = True,
        out_bias: bool | None = None,
        dropout: float = 0.0,
        packed: bool = False,
        qk_norm: bool = False,
        norm_eps: float = 1e-6,
        sinks: bool = False,
        gate: bool = False,
        rope: Rope | NoRope | None = None,
        alibi: bool = False,
        window: Window | None = None,
        softcap: float | None = None,
        is_causal: bool = False,
        scale: float | None = None,
        impl: str = "auto",
        registry: Registry | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.num_kv_heads = num_kv_heads
        validation.sizes(embed_dim, num_heads, num_kv_heads, head_dim)
        head_dim = embed_dim // num_heads if head_dim is None else head_dim
        self.head_dim = head_dim
        self.value_dim = head_dim if value_dim is None else value_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        arguments.counts(head_dim=head_dim, value_dim=self.value_dim)
        arguments.counts(kdim=self.kdim, vdim=self.vdim)
        validation.options(
            dropout, norm_eps, scale, impl, registry, window, softcap
        )
        validation.rope(rope, head_dim, alibi)
        self.dropout, self.packed = dropout, packed
        self.rope, self.alibi = rope, alibi
        self.window, self.is_causal = window, is_causal
        self.softcap, self.scale = softcap, scale
        self.impl, self.registry = impl, registry
        q_size = num_heads * self.head_dim
        k_size = num_kv_heads * self.head_dim
        v_size = num_kv_heads * self.value_dim
        self.proj_sizes = (q_size, k_size, v_size)
        linear = partial(nn.Linear, device=device, dtype=dtype)
        if packed:
            if not embed_dim == self.kdim == self.vdim:
                raise ValueError(
                    "kdim and vdim must be embed_dim for packed=True, "
                    f"{embed_dim}; got {self.kdim} and {self.vdim}"
                )
            rows = sum(self.proj_sizes)
            self.packed_proj = linear(embed_dim, rows, bias=bias)
        else:
            self.q_proj = linear(embed_dim, q_size, bias=bias)
            self.k_proj = linear(self.kdim, k_size, bias=bias)
            self.v_proj = linear(self.vdim, v_size, bias=bias)
        out_size = num_heads * self.value_dim
        out_bias = bias if out_bias is None else out_bias
        self.out_proj = linear(out_size, embed_dim, bias=out_bias)
        self.gate_proj = (
            linear(embed_dim, out_size, bias=bias) if gate else None
        )
        zeros = torch.zeros(num_heads, device=device, dtype=dtype)
        self.sinks = nn.Parameter(zeros) if sinks else None
        self.q_norm: nn.Module | None = None
        self.k_norm: nn.Module | None = None
        if qk_norm:
            like = self.out_proj.weight
            self.q_norm = placed(RMSNorm(self.head_dim, norm_eps), like)
            self.k_norm = placed(RMSNorm(self.head_dim, norm_eps), like)
        self.register_load_state_dict_pre_hook(remap_state_dict)

    @arguments.named()
    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        attn_mask: Tensor | Mask | None = None,
        *,
        key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
        need_weights: bool = False,
        average_attn_weights: bool = True,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
        position_embeddings: tuple[Tensor, Tensor] | None = None,
        q_offset: int | Tensor | None = None,
        cache: Cache | None = None,
        lengths: Tensor | None = None,
    ) -> Any:
        """Compute attention between the projections.

        Args:
            query: ``(B, L, E)``, ``(L, E)``, or jagged ``(B, j, E)``, which
                is computed without padding where that saves work.
            key, value: ``(B, S, kdim)`` and ``(B, S, vdim)``; when None, the
                query (self-attention) and the key.
            attn_mask: True = **may attend**, as in PyTorch's
                ``scaled_dot_product_attention`` and the opposite of its
                ``MultiheadAttention``; or float, added to the scores;
                broadcastable to ``(B, H, L, S)``. Or a ``Mask``. Two axes
                are always ``(L, S)``, as in PyTorch, also where ``B = L``:
                padding ``(B, S)`` is one of the next two.
            key_padding_mask: ``(B, S)``, True = **padding**, as in PyTorch;
                or float, added to the scores. The opposite of a tokenizer's
                ``attention_mask``, which is
                ``attn_mask=attn.padding(attention_mask.bool())``.
            is_causal: the module's when None.
            need_weights: also return the weights, before dropout.
            average_attn_weights: return their mean over the heads.
            positions: of the queries, and in self-attention of the keys,
                ``(L,)`` or ``(B, L)``; counted from ``q_offset`` when None.
            key_positions: of the keys; counted from 0 when None.
            position_embeddings: RoPE's ``cos`` and ``sin``, computed once
                for all layers; self-attention only.
            q_offset: position of the first query among the keys, as in
                ``attn.scaled_dot_product_attention``.
            cache: of the tokens read before; the new keys and values are
                added to it. Positions and ``q_offset`` continue from there,
                ``attn_mask`` covers all keys that it returns, and
                ``key_padding_mask`` all tokens, or a static cache's capacity.
            lengths: number of real tokens in each row of the query, ``(B,)``,
                which come first: only they are added to the cache, which is
                needed.

        Returns:
            ``(B, L, E)``, jagged if the query was; with ``need_weights``
            also ``(B, L, S)``, or ``(B, H, L, S)`` without averaging.

        Raises:
            ValueError, TypeError: an argument is wrong.
        """
        if key is None and value is not None:
            raise ValueError("key must be given with value; got None")
        is_self = key is None or key is query
        key = query if key is None else key
        value = key if value is None else value
        if cache is not None:
            validation.cache(
                query, is_self, q_offset=q_offset, key_positions=key_positions
            )
        lengths = validation.cached_lengths(
            lengths, query, cache, key_padding_mask
        )
        validation.given_tensors(
            query=query, key=key, value=value,
            positions=positions, key_positions=key_positions,
        )  # fmt: skip
        if query.is_nested or key.is_nested or value.is_nested:
            return nested.forward(
                self, query, key, value, key_padding_mask,
                attn_mask=attn_mask, is_causal=is_causal, q_offset=q_offset,
                positions=positions, key_positions=key_positions,
                position_embeddings=position_embeddings,
                need_weights=need_weights or None,
                average_attn_weights=average_attn_weights,
            )  # fmt: skip
        validation.inputs(self, query, key, value)
        q, k, v = project(self, query, key, value)  # (B, H, L, D), …
        if cache is not None and positions is None:
            positions = cache.positions(q.shape[2])
        ids = PositionIds(q, k, positions, key_positions, q_offset, is_self)
        rope = self.rope
        interleaved = rope is not None and rope.interleaved
        if position_embeddings is not None:
            check_layout(position_embeddings[0], interleaved)
            q, k = (
                rotate_pairs(x, *position_embeddings, interleaved=interleaved)
                for x in (q, k)
            )
        elif rope is not None:
            cos, sin = rope(ids.of_queries())
            q = rotate_pairs(q, cos, sin, interleaved)
            if key_positions is not None or not is_self:
                cos, sin = rope(ids.of_keys())
            k = rotate_pairs(k, cos, sin, interleaved)
        if cache is not None and cache.attend is not None:
            heads = cache.attend(self, q, k, v, ids.of_queries())
            return self._output(query, heads)
        is_causal = self.is_causal if is_causal is None else is_causal
        real = None
        if cache is not None:
            validation.cached_padding(key_padding_mask, cache, q.shape[2])
            # Caches defined elsewhere need not take lengths.
            ragged = () if lengths is None else (lengths,)
            view = cache.update(k, v, *ragged)
            k, v, _ = view
            ids = ids.with_cache(cache, view, lengths)
            padding = key_padding_mask
            if padding is not None and padding.shape[-1] != k.shape[2]:
                # Without the forgotten keys.
                key_padding_mask = padding[..., cache.key_positions(view)]
            real = None if is_causal else cache.valid()
        masks = (attn_mask, key_padding_mask, real)
        options = call_options(self, q, k, v, ids, is_causal, *masks)
        out = self._output(query, attend(self, q, k, v, options))
        if not need_weights:
            return out
        options["dropout_p"] = 0.0
        weights = attention_weights(q, k, **options).weights.to(q.dtype)
        weights = weights.mean(1) if average_attn_weights else weights
        return out, weights[0] if query.dim() == 2 else weights

    def _output(self, query: Tensor, heads: Tensor) -> Tensor:
        """Merge and project the heads, ``(B, L, E)``, or ``(L, E)``."""
        out = merge_heads(heads)  # (B, L, H * Dv)
        if self.gate_proj is not None:
            out = out * self.gate_proj(query).sigmoid()
        return self.out_proj(out[0] if query.dim() == 2 else out)

    def extra_repr(self) -> str:
        names = ("num_heads", "num_kv_heads", "head_dim", "value_dim")
        sizes = ", ".join(f"{name}={getattr(self, name)}" for name in names)
        impl = "" if self.impl == "auto" else f", impl={self.impl!r}"
        return f"{self.embed_dim}, {sizes}{impl}"
