"""Multi-head, grouped-query and multi-query attention: one module.

The module owns the projections. What happens between them is
``attn.attention``, with every argument of the contract.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attn.api import attention
from attn.cache import Cache
from attn.functional import (
    attention_weights,
    merge_heads,
    split_heads,
)
from attn.functional.inputs import validate
from attn.functional.validation import Window
from attn.masks import Mask
from attn.masks.combine import combine_masks, key_padding
from attn.nn.jagged import pad, unpad
from attn.nn.loading import translate
from attn.nn.norms import RMSNorm
from attn.nn.places import Places
from attn.positions import Rope, alibi_bias, apply_rope

PositionEmbeddings = tuple[Tensor, Tensor]


class MultiHeadAttention(nn.Module):
    """Attention with its projections, for self- and cross-attention.

    ``num_kv_heads`` is one dial: ``num_heads`` gives multi-head attention
    (MHA), 1 gives multi-query (MQA), a divisor between them grouped-query
    (GQA). Inputs have the batch first; there is no ``batch_first``.

    The state dicts of ``torch.nn.MultiheadAttention`` and of the building
    block in PyTorch's tutorial load as they are, packed or not.

    Args:
        embed_dim: size of the query and of the output, ``E``.
        num_heads: query heads, ``H``.
        num_kv_heads: key and value heads, ``Hkv``; ``H`` when None.
        head_dim: size of a query and key head, ``D``; ``E / H`` when None.
        value_dim: size of a value head, ``Dv``; ``D`` when None.
        kdim, vdim: sizes of the key and value inputs; ``E`` when None.
        bias: of the query, key and value projections.
        out_bias: of the output projection; as ``bias`` when None.
        dropout: of the attention weights, in training only.
        packed: keep the three projections in one matrix.
        qk_norm: normalise each query and key head, before RoPE (Qwen3).
        norm_eps: of ``qk_norm``.
        rope: turns queries and keys by their positions; None does not.
        alibi: lower a score with the distance, at a pace for each head.
        window: ``(left, right)`` neighbours besides the token itself.
        softcap: squash scores to ``softcap * tanh(s / softcap)``.
        is_causal: a token sees itself and what came before it.
        scale: factor on the scores, ``D ** -0.5`` when None.
        device, dtype: of the parameters.

    Raises:
        ValueError: sizes do not divide, or options exclude each other.

    Source: Vaswani et al. 2017, section 3.2.2; Shazeer 2019 (MQA); Ainslie
    et al. 2023 (GQA).
    """

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
        rope: Rope | None = None,
        alibi: bool = False,
        window: Window | None = None,
        softcap: float | None = None,
        is_causal: bool = False,
        scale: float | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        _check_sizes(embed_dim, num_heads, num_kv_heads, head_dim)
        if not 0.0 <= dropout <= 1.0:
            raise ValueError(f"dropout is {dropout}: it needs 0 to 1")
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.head_dim = head_dim or embed_dim // num_heads
        self.value_dim = value_dim or self.head_dim
        self.kdim = kdim or embed_dim
        self.vdim = vdim or embed_dim
        self.dropout = dropout
        self.packed = packed
        self.rope = rope
        self.alibi = alibi
        self.window = window
        self.softcap = softcap
        self.is_causal = is_causal
        self.scale = scale

        self.rows = (
            num_heads * self.head_dim,
            num_kv_heads * self.head_dim,
            num_kv_heads * self.value_dim,
        )
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        if packed:
            if not embed_dim == self.kdim == self.vdim:
                raise ValueError(
                    f"kdim is {self.kdim}, vdim {self.vdim} and embed_dim "
                    f"{embed_dim}: packed needs the same"
                )
            self.packed_proj = nn.Linear(
                embed_dim, sum(self.rows), bias=bias, **made
            )
        else:
            q_rows, k_rows, v_rows = self.rows
            self.q_proj = nn.Linear(embed_dim, q_rows, bias=bias, **made)
            self.k_proj = nn.Linear(self.kdim, k_rows, bias=bias, **made)
            self.v_proj = nn.Linear(self.vdim, v_rows, bias=bias, **made)
        out_bias = bias if out_bias is None else out_bias
        self.out_proj = nn.Linear(
            num_heads * self.value_dim, embed_dim, bias=out_bias, **made
        )
        self.q_norm: nn.Module | None = None
        self.k_norm: nn.Module | None = None
        if qk_norm:
            like = self.out_proj.weight
            self.q_norm = RMSNorm(self.head_dim, norm_eps).to(like)
            self.k_norm = RMSNorm(self.head_dim, norm_eps).to(like)
        self.register_load_state_dict_pre_hook(translate)

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
        position_embeddings: PositionEmbeddings | None = None,
        q_offset: int | Tensor | None = None,
        cache: Cache | None = None,
    ) -> Any:
        """Attend.

        Args:
            query: ``(B, L, E)``, ``(L, E)``, or a jagged nested tensor
                ``(B, j, E)``.
            key: ``(B, S, kdim)``; the query (self-attention) when None.
            value: ``(B, S, vdim)``; the key when None.
            attn_mask: bool (True = may attend) or float to add to the
                scores, broadcastable to ``(B, H, L, S)``; or a ``Mask``.
                ``torch.nn.MultiheadAttention`` has True the other way.
            key_padding_mask: ``(B, S)`` with the meaning that it has in
                torch: True = padding, or a float to add. The other way
                round is ``attn_mask=attn.padding(valid)``.
            is_causal: the module's when None.
            need_weights: return the weights too, as they are before
                dropout.
            average_attn_weights: their mean over the heads.
            positions: of the queries, and in self-attention of the keys:
                ``(L,)`` or ``(B, L)``, for RoPE and ALiBi; counted from
                ``q_offset`` when None.
            key_positions: of the keys; counted from 0 when None.
            position_embeddings: RoPE's ``cos`` and ``sin``, computed once
                for all layers; self-attention only.
            q_offset: position of the first query among the keys, for
                causal and window masks, see
                ``attn.scaled_dot_product_attention``.
            cache: what was read before; the new keys and values are added
                to it. Positions and ``q_offset`` go on from there, and
                masks are about all keys that it gives back.

        Returns:
            ``(B, L, E)``, jagged if the query was; with ``need_weights``
            also ``(B, L, S)``, or ``(B, H, L, S)`` without averaging.

        Raises:
            ValueError, TypeError: an argument does not fit.
        """
        if key is None and value is not None:
            raise ValueError("value is given without key: it needs both")
        is_self = key is None or key is query
        key = query if key is None else key
        value = key if value is None else value
        if cache is not None:
            given = {"q_offset": q_offset, "key_positions": key_positions}
            _check_cache(query, is_self, given)
        if query.is_nested:
            return self._forward_jagged(
                query,
                key,
                value,
                attn_mask,
                key_padding_mask=key_padding_mask,
                is_causal=is_causal,
                need_weights=need_weights,
                average_attn_weights=average_attn_weights,
                positions=positions,
                key_positions=key_positions,
                position_embeddings=position_embeddings,
                q_offset=q_offset,
            )
        self._check_inputs(query, key, value)
        q, k, v = self._project(query, key, value)  # (B, H, L, D), …
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        if cache is not None and positions is None:
            positions = cache.positions(q.shape[2])
        places = Places(q, k, positions, key_positions, q_offset, is_self)
        if position_embeddings is not None:
            q, k = (self._turn(x, *position_embeddings) for x in (q, k))
        elif self.rope is not None:
            q = self._turn(q, *self.rope(places.of_queries()))
            k = self._turn(k, *self.rope(places.of_keys()))
        if cache is not None:
            first = cache.first_position
            k, v, q_offset = cache.update(k, v)
            places = places.among(k, first, q_offset)
            if key_padding_mask is not None:  # of what is still there
                seen = key_padding_mask.shape[1] - k.shape[2]
                key_padding_mask = key_padding_mask[:, max(seen, 0) :]
        mask = self._mask(q, k, v, attn_mask, key_padding_mask, places)
        said: dict[str, Any] = {
            "attn_mask": mask,
            "is_causal": self.is_causal if is_causal is None else is_causal,
            "scale": self.scale,
            "enable_gqa": self.num_kv_heads != self.num_heads,
            "softcap": self.softcap,
            "window": self.window,
            "q_offset": q_offset,
        }
        dropout_p = self.dropout if self.training else 0.0
        heads = attention(q, k, v, dropout_p=dropout_p, **said)
        assert isinstance(heads, Tensor)
        out = merge_heads(heads)  # (B, L, H * Dv)
        out = self.out_proj(out[0] if query.dim() == 2 else out)
        if not need_weights:
            return out
        weights = attention_weights(q, k, **said).weights.to(q.dtype)
        weights = weights.mean(1) if average_attn_weights else weights
        return out, weights[0] if query.dim() == 2 else weights

    def _forward_jagged(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | Mask | None,
        *,
        key_padding_mask: Tensor | None,
        **others: Any,
    ) -> Any:
        """Pad, attend with the padding masked, and take it off again."""
        for name, x in (("key", key), ("value", value)):
            if not x.is_nested:
                raise TypeError(
                    f"{name} is a dense tensor and query a nested one: they "
                    "need to be of one kind"
                )
        if key_padding_mask is not None:
            raise ValueError(
                "key_padding_mask is given with nested tensors, which have "
                "no padding: it needs None"
            )
        dense: dict[int, tuple[Tensor, Tensor]] = {}
        for x in (query, key, value):
            if id(x) not in dense:  # self-attention stays self-attention
                dense[id(x)] = pad(x)
        (q, q_valid), (k, k_valid), (v, _) = (
            dense[id(x)] for x in (query, key, value)
        )
        result = self(q, k, v, attn_mask, key_padding_mask=~k_valid, **others)
        if isinstance(result, tuple):
            return unpad(result[0], q_valid, query), result[1]
        return unpad(result, q_valid, query)

    def _check_inputs(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        sizes = (self.embed_dim, self.kdim, self.vdim)
        inputs = (("query", query), ("key", key), ("value", value))
        for (name, x), size in zip(inputs, sizes, strict=True):
            if x.is_nested:
                raise TypeError(
                    f"{name} is a nested tensor and query a dense one: they "
                    "need to be of one kind"
                )
            if x.dim() not in (2, 3) or x.dim() != query.dim():
                raise ValueError(
                    f"{name} has shape {tuple(x.shape)}: it needs (B, L, E), "
                    "or (L, E) as all three"
                )
            if x.shape[-1] != size:
                raise ValueError(
                    f"{name} has an embedding of {x.shape[-1]}: the module "
                    f"was made for {size}"
                )
            if x.shape[:-2] != query.shape[:-2]:
                raise ValueError(
                    f"{name} has batch size {len(x)} and query "
                    f"{len(query)}: they need the same"
                )

    def _project(
        self, query: Tensor, key: Tensor, value: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """``(B, H, L, D)``, ``(B, Hkv, S, D)``, ``(B, Hkv, S, Dv)``."""
        inputs = [x[None] if x.dim() == 2 else x for x in (query, key, value)]
        if not self.packed:
            layers = (self.q_proj, self.k_proj, self.v_proj)
            q, k, v = (f(x) for f, x in zip(layers, inputs, strict=True))
        elif query is key is value:
            q, k, v = self.packed_proj(inputs[0]).split(self.rows, -1)
        else:
            weights = self.packed_proj.weight.split(self.rows)
            biases: Any = (None, None, None)
            if self.packed_proj.bias is not None:
                biases = self.packed_proj.bias.split(self.rows)
            q, k, v = map(F.linear, inputs, weights, biases)
        return (
            split_heads(q, self.num_heads),
            split_heads(k, self.num_kv_heads),
            split_heads(v, self.num_kv_heads),
        )

    def _turn(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        interleaved = self.rope is not None and self.rope.interleaved
        return apply_rope(x, cos, sin, interleaved)

    def _mask(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        attn_mask: Tensor | Mask | None,
        key_padding_mask: Tensor | None,
        places: Places,
    ) -> Tensor | Mask | None:
        """The caller's mask, padding and ALiBi as one ``attn_mask``."""
        extra: list[Tensor | Mask] = []
        if key_padding_mask is not None:
            shape = (len(k), k.shape[2])
            extra.append(key_padding(key_padding_mask, shape, q.dtype))
        if self.alibi:
            at = (places.of_queries(), places.of_keys())
            bias = alibi_bias(self.num_heads, *at)
            extra.append(bias if bias.dim() == 4 else bias[None])
        if not extra:
            return attn_mask
        gqa = self.num_kv_heads != self.num_heads
        at_offset: dict[str, Any] = {"q_offset": places.q_offset}
        validate(
            q, k, v, attn_mask, enable_gqa=gqa, **at_offset
        )  # is it good?
        for more in extra:
            attn_mask = combine_masks(
                attn_mask,
                more,
                lambda m: validate(
                    q, k, v, m, enable_gqa=gqa, **at_offset
                ).allowed(),
            )
        return attn_mask

    def extra_repr(self) -> str:
        names = ("num_heads", "num_kv_heads", "head_dim", "value_dim")
        said = ", ".join(f"{name}={getattr(self, name)}" for name in names)
        return f"{self.embed_dim}, {said}"


def _check_cache(query: Tensor, is_self: bool, given: dict[str, Any]) -> None:
    if not is_self or query.dim() != 3 or query.is_nested:
        raise ValueError(
            "cache is given: it needs self-attention, with query (B, L, E)"
        )
    for name, x in given.items():
        if x is not None:
            raise ValueError(
                f"{name} is given with a cache, which knows it: it needs None"
            )


def _check_sizes(
    embed_dim: int, num_heads: int, num_kv_heads: int, head_dim: int | None
) -> None:
    for name, x in (
        ("embed_dim", embed_dim),
        ("num_heads", num_heads),
        ("num_kv_heads", num_kv_heads),
    ):
        if isinstance(x, bool) or not isinstance(x, int) or x < 1:
            raise ValueError(f"{name} is {x!r}: it needs an int, at least 1")
    if num_heads % num_kv_heads:
        raise ValueError(
            f"num_heads is {num_heads} and num_kv_heads {num_kv_heads}: it "
            "needs a multiple (H % Hkv == 0)"
        )
    if head_dim is None and embed_dim % num_heads:
        raise ValueError(
            f"embed_dim is {embed_dim} and num_heads {num_heads}: it needs "
            "a multiple, or an explicit head_dim"
        )
