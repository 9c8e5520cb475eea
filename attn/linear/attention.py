"""Linear attention: sums of products of features, with or without decay."""

from __future__ import annotations

import torch
from torch import Tensor

from attn import arguments
from attn.functional import validation
from attn.linear.feature_maps import FeatureMap, choose
from attn.linear.inputs import prepare, state_like


@arguments.named()
def linear_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    g: Tensor | None = None,
    *,
    feature_map: str | FeatureMap | None = None,
    normalize: bool = False,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    chunk_size: int = 64,
    cu_seqlens: Tensor | None = None,
    mode: str = "chunk",
) -> tuple[Tensor, Tensor | None]:
    """Compute causal attention whose weights are products of features.

    Token ``i`` gives token ``j <= i`` the weight ``scale * (q[i] · k[j])``,
    decayed by ``exp(g[j + 1] + … + g[i])``. The sum over all of them is
    ``q[i] @ S``, with ``S = exp(g[i]) * S + outer(k[i], v[i])``.

    Args:
        query, key: ``(..., Hk, L, D)``.
        value: ``(..., H, L, Dv)``; ``H`` is a multiple of ``Hk``, and
            consecutive value heads share a key head.
        g: **log** of the decay, at most 0: ``(H,)``, the same for all
            tokens; ``(..., H, L)``, by token; ``(..., H, L, D)``, by channel
            of the key, which needs ``D`` times the memory inside a chunk. No
            decay when None.
        feature_map: of queries and keys, a name in ``FEATURE_MAPS`` or a
            function of ``(..., D)``; the vectors themselves when None.
        normalize: divide by the sum of the weights, which positive features
            keep above 0. The sum is carried as one more value, always 1: the
            state is then ``(..., H, D, Dv + 1)``.
        scale: ``D ** -0.5`` when None, ``D`` after the feature map;
            ``normalize`` cancels it.
        initial_state: after the tokens before these, ``(..., H, D, Dv)``;
            zeros when None.
        output_final_state: also return the state after the last token.
        chunk_size: tokens at a time of ``mode="chunk"``.
        cu_seqlens: starts and end of texts packed into one row, ``B = 1``,
            integers ``(N + 1,)``. Each begins with its own state, of
            ``(N, H, D, Dv)``.
        mode: ``"chunk"``, ``"recurrent"`` or ``"parallel"``: equal but for
            rounding.

    Returns:
        The output ``(..., H, L, Dv)`` in the dtype of the query; and the
        state, float32 (float64 for float64), or None.

    Raises:
        ValueError, TypeError: an argument is wrong.

    Example:
        >>> from attn.linear import linear_attention
        >>> q, k, v = torch.randn(3, 1, 2, 10, 8)  # (B, H, L, D)
        >>> out, _ = linear_attention(
        ...     q, k, v, feature_map="elu", normalize=True
        ... )
        >>> first, state = linear_attention(
        ...     q[:, :, :9], k[:, :, :9], v[:, :, :9], feature_map="elu",
        ...     normalize=True, output_final_state=True,
        ... )
        >>> state.shape  # after any number of tokens
        torch.Size([1, 2, 8, 9])

    Source: Katharopoulos et al. 2020; Sun et al. 2023, "Retentive Network"
    (decay); Yang et al. 2023, "Gated Linear Attention" (chunks, and decay by
    channel); the interface of flash-linear-attention.
    """
    validation.tensors(query, key, value)
    mapped = choose(feature_map)
    if mapped is not None:
        query, key = mapped(query), mapped(key)
    if normalize:
        value = torch.cat([value, torch.ones_like(value[..., :1])], -1)
    scale = validation.scale(scale, query.shape[-1])
    inputs = prepare(
        query, key, value, g, None, initial_state, cu_seqlens, mode,
        chunk_size,
    )  # fmt: skip
    inputs = inputs._replace(q=inputs.q * scale)
    out, state = inputs.run(mode, chunk_size)
    if normalize:
        out, weights = out[..., :-1], out[..., -1:]
        out = out / weights.masked_fill(weights == 0, 1.0)
        value = value[..., :-1]
    out = out.reshape(value.shape).to(query.dtype)
    return out, state_like(state, value, cu_seqlens, output_final_state)
