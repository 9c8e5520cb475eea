"""Layers with a state: linear attention, and the gated delta rule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attn import arguments
from attn.functional import merge_heads, split_heads
from attn.linear import (
    gated_delta_rule,
    linear_attention,
    short_convolution,
)
from attn.linear.feature_maps import FeatureMap, choose
from attn.linear.inputs import check_form
from attn.nn import validation
from attn.nn.delta_weights import remap_delta_state_dict
from attn.nn.norms import RMSNorm
from attn.nn.state_layer import (
    Mixed,
    StateLayer,
    last_tokens,
    refuse_later,
)


class LinearAttention(StateLayer):
    """Linear attention with its projections.

    Args:
        embed_dim: ``E``.
        num_heads: ``H``.
        head_dim: of queries and keys, ``D``; ``E / H`` when None.
        value_dim: ``Dv``; ``D`` when None.
        feature_map, normalize: as in ``attn.linear_attention``.
        decay: of the state at each token, a factor from 0 to 1 for each head
            (RetNet, Lightning), which is not trained; none when None.
        bias, out_bias: as in ``MultiHeadAttention``.
        is_causal: must be True.
        mode, chunk_size: as in ``attn.linear_attention``.

    Raises:
        ValueError: sizes do not divide, or an argument is wrong.

    Example:
        >>> layer = attn.nn.LinearAttention(embed_dim=32, num_heads=4)
        >>> x = torch.randn(2, 10, 32)  # (B, L, E)
        >>> out = layer(x)
        >>> cache = attn.StateCache()
        >>> steps = [layer(x[:, i : i + 1], cache=cache) for i in range(10)]
        >>> torch.allclose(torch.cat(steps, 1), out, atol=1e-5)
        True

    Source: Katharopoulos et al. 2020, "Transformers are RNNs".
    """

    @arguments.named()
    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        head_dim: int | None = None,
        value_dim: int | None = None,
        *,
        feature_map: str | FeatureMap | None = "elu",
        normalize: bool = True,
        decay: Sequence[float] | None = None,
        bias: bool = True,
        out_bias: bool | None = None,
        is_causal: bool = True,
        mode: str = "chunk",
        chunk_size: int = 64,
    ):
        super().__init__()
        validation.sizes(embed_dim, num_heads, num_heads, head_dim)
        refuse_later(is_causal)
        check_form(mode, chunk_size)
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.head_dim = head_dim or embed_dim // num_heads
        self.value_dim = value_dim or self.head_dim
        self.feature_map, self.normalize = choose(feature_map), normalize
        self.mode, self.chunk_size = mode, chunk_size
        q_size, v_size = num_heads * self.head_dim, num_heads * self.value_dim
        self.q_proj = nn.Linear(embed_dim, q_size, bias=bias)
        self.k_proj = nn.Linear(embed_dim, q_size, bias=bias)
        self.v_proj = nn.Linear(embed_dim, v_size, bias=bias)
        out_bias = bias if out_bias is None else out_bias
        self.out_proj = nn.Linear(v_size, embed_dim, bias=out_bias)
        log_decay = None
        if decay is not None:
            if len(decay) != num_heads or not all(0 < x <= 1 for x in decay):
                raise ValueError(
                    "decay must be one factor a head, above 0 and at most 1, "
                    f"{num_heads} of them; got {decay!r}"
                )
            log_decay = torch.tensor([math.log(x) for x in decay])
        self.log_decay: Tensor | None
        self.register_buffer("log_decay", log_decay)

    def mix(
        self,
        x: Tensor,
        real: Tensor | None,
        state: Tensor | None,
        conv: Tensor | None,
        cu_seqlens: Tensor | None,
    ) -> Mixed:
        q, k, v = (
            split_heads(f(x), self.num_heads)
            for f in (self.q_proj, self.k_proj, self.v_proj)
        )
        if self.feature_map is not None:
            q, k = self.feature_map(q), self.feature_map(k)
        g = self.log_decay
        if g is not None:
            g = g[:, None].expand(v.shape[:-1])  # (B, H, L)
        if real is not None:
            k = without_padding(k, real)
            g = None if g is None else without_padding(g, real)
        out, state = linear_attention(
            q,
            k,
            v,
            g,
            normalize=self.normalize,
            initial_state=state,
            output_final_state=True,
            chunk_size=self.chunk_size,
            cu_seqlens=cu_seqlens,
            mode=self.mode,
        )
        assert state is not None
        return Mixed(self.out_proj(merge_heads(out)), state)

    def extra_repr(self) -> str:
        names = ("num_heads", "head_dim", "value_dim", "normalize")
        sizes = ", ".join(f"{name}={getattr(self, name)}" for name in names)
        return f"{self.embed_dim}, {sizes}"


class GatedDeltaNet(StateLayer):
    """The gated delta rule with its projections, convolution and gates.

    Queries, keys and values pass a short convolution. The gate of the state
    is ``exp(-A * softplus(a + dt_bias))``, with ``a`` from the token and
    ``A`` and ``dt_bias`` of the head; the writing strength is
    ``sigmoid(b)``. Each head's output is normalised, and gated by
    ``silu(z)``.

    The state dicts of transformers' ``Qwen3NextGatedDeltaNet`` and
    ``OlmoHybridGatedDeltaNet`` load as they are.

    Args:
        embed_dim: ``E``.
        num_heads: query and key heads.
        head_dim: of queries and keys, ``D``; ``E / num_heads`` when None.
        num_value_heads: ``H``, a multiple of ``num_heads``, which share the
            key heads; ``num_heads`` when None.
        value_dim: ``Dv``; ``D`` when None.
        conv_size: tokens that the convolution sees, its own included.
        allow_neg_eigval: double the writing strength, so that it reaches 2:
            a layer can then count modulo 2.
        norm_eps: of the norm of each head's output.
        is_causal: must be True.
        mode, chunk_size: as in ``attn.gated_delta_rule``.

    Raises:
        ValueError: sizes do not divide, or an argument is wrong.

    Example:
        >>> layer = attn.nn.GatedDeltaNet(32, num_heads=2, num_value_heads=4)
        >>> x = torch.randn(2, 10, 32)  # (B, L, E)
        >>> out, cache = layer(x), attn.StateCache()
        >>> first, last = layer(x[:, :9], cache=cache), x[:, 9:]
        >>> torch.allclose(layer(last, cache=cache), out[:, 9:], atol=1e-5)
        True
        >>> cache.state.shape  # (B, H, D, Dv)
        torch.Size([2, 4, 16, 16])

    Source: Yang et al. 2024, "Gated Delta Networks", section 3.4; Grazzi et
    al. 2024 (negative eigenvalues); transformers ``qwen3_next``.
    """

    @arguments.named()
    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        head_dim: int | None = None,
        num_value_heads: int | None = None,
        value_dim: int | None = None,
        *,
        conv_size: int = 4,
        allow_neg_eigval: bool = False,
        norm_eps: float = 1e-6,
        is_causal: bool = True,
        mode: str = "chunk",
        chunk_size: int = 64,
    ):
        super().__init__()
        validation.sizes(embed_dim, num_heads, num_heads, head_dim)
        arguments.count("conv_size", conv_size)
        refuse_later(is_causal)
        check_form(mode, chunk_size)
        H = num_heads if num_value_heads is None else num_value_heads
        arguments.count("num_value_heads", H)
        if H % num_heads:
            raise ValueError(
                "num_value_heads must be a multiple of num_heads; got "
                f"{H} and {num_heads}"
            )
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.num_value_heads = H
        self.head_dim = head_dim or embed_dim // num_heads
        self.value_dim = value_dim or self.head_dim
        self.allow_neg_eigval = allow_neg_eigval
        self.mode, self.chunk_size = mode, chunk_size
        k_size, v_size = num_heads * self.head_dim, H * self.value_dim
        self.proj_sizes = (k_size, k_size, v_size)
        linear = partial(nn.Linear, embed_dim, bias=False)
        self.q_proj, self.k_proj = linear(k_size), linear(k_size)
        self.v_proj, self.gate_proj = linear(v_size), linear(v_size)
        self.decay_proj, self.beta_proj = linear(H), linear(H)
        self.out_proj = nn.Linear(v_size, embed_dim, bias=False)
        self.norm = RMSNorm(self.value_dim, norm_eps)
        self.conv_weight = nn.Parameter(
            torch.empty(sum(self.proj_sizes), conv_size)
        )
        self.A_log = nn.Parameter(torch.empty(H))
        self.dt_bias = nn.Parameter(torch.empty(H))
        self.reset_own_parameters()
        self.register_load_state_dict_pre_hook(remap_delta_state_dict)

    @torch.no_grad()
    def reset_own_parameters(self) -> None:
        """Draw what is no projection: filters, and rates of forgetting.

        At first, a head forgets a fraction of its state that is between
        ``1e-3`` and 1 a token, as in Mamba 2.
        """
        bound = self.conv_weight.shape[1] ** -0.5  # as nn.Conv1d
        self.conv_weight.uniform_(-bound, bound)
        self.A_log.uniform_(1, 16).log_()
        dt = self.dt_bias.uniform_(math.log(1e-3), math.log(0.1)).exp()
        self.dt_bias.copy_(dt + torch.log(-torch.expm1(-dt)))  # softplus: dt

    def mix(
        self,
        x: Tensor,
        real: Tensor | None,
        state: Tensor | None,
        conv: Tensor | None,
        cu_seqlens: Tensor | None,
    ) -> Mixed:
        heads = [self.q_proj(x), self.k_proj(x), self.v_proj(x)]
        raw = torch.cat(heads, -1)  # (B, L, E')
        mixed, last = short_convolution(
            raw, self.conv_weight, state=conv, cu_seqlens=cu_seqlens
        )
        q, k, v = mixed.split(self.proj_sizes, -1)
        q, k = (split_heads(h, self.num_heads) for h in (q, k))
        v = split_heads(v, self.num_value_heads)  # (B, H, L, Dv)
        wide = torch.promote_types(x.dtype, torch.float32)
        rate = self.A_log.to(wide).exp()
        step = F.softplus(self.decay_proj(x).to(wide) + self.dt_bias)
        g = (-rate * step).mT  # (B, H, L)
        beta = self.beta_proj(x).sigmoid().mT
        beta = 2 * beta if self.allow_neg_eigval else beta
        if real is not None:
            k, g = without_padding(k, real), without_padding(g, real)
            before = last.shape[1]
            old = raw.new_zeros(last.shape) if conv is None else conv
            last = last_tokens(torch.cat([old, raw], 1), real, before)
        out, state = gated_delta_rule(
            q,
            k,
            v,
            g,
            beta,
            initial_state=state,
            output_final_state=True,
            chunk_size=self.chunk_size,
            cu_seqlens=cu_seqlens,
            mode=self.mode,
        )
        assert state is not None
        gate = split_heads(self.gate_proj(x), self.num_value_heads)
        out = self.norm(out) * F.silu(gate)
        return Mixed(self.out_proj(merge_heads(out)), state, last)

    def extra_repr(self) -> str:
        names = ("num_heads", "num_value_heads", "head_dim", "value_dim")
        sizes = ", ".join(f"{name}={getattr(self, name)}" for name in names)
        conv = self.conv_weight.shape[1]
        negative = ", allow_neg_eigval=True" if self.allow_neg_eigval else ""
        return f"{self.embed_dim}, {sizes}, conv_size={conv}{negative}"


#: The layers with a state that a configuration names.
STATE_LAYERS: dict[str, type[StateLayer]] = {
    "linear": LinearAttention,
    "gated_delta": GatedDeltaNet,
}


def state_layer_class(attention: Any) -> type[StateLayer] | None:
    """Return the class of a layer with a state; None for all others."""
    made = STATE_LAYERS.get(attention) if isinstance(attention, str) else None
    made = made or getattr(attention, "func", attention)
    is_state = isinstance(made, type) and issubclass(made, StateLayer)
    return made if is_state else None


def without_padding(x: Tensor, real: Tensor) -> Tensor:
    """Return keys or log decays with which padding changes no state."""
    real = real[:, None, :, None] if x.dim() == 4 else real[:, None]
    return x.masked_fill(~real, 0.0)
