"""Count a whole model: parameters, operations, activations, and the cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from attn import arguments
from attn.cost.attention import (
    attention_cost,
    attention_parameters,
    bytes_of,
    check_heads,
    check_sizes,
    kv_cache_bytes,
)

_STATISTIC = torch.float32.itemsize  # those of norms, softmax and loss


@dataclass(frozen=True)
class ModelShape:
    """The sizes of a decoder with pre-norm layers, such as GPT-2 or Llama.

    Args:
        num_layers, vocab_size: layers and ``V``.
        embed_dim, hidden_dim: ``E``, and the hidden size of the
            feed-forward, ``F``.
        num_heads: ``H``.
        num_kv_heads: ``Hkv``.
        head_dim: ``D``.
        source: where the sizes are published.
        gated: the feed-forward has three matrices (SwiGLU, GeGLU), not two.
        bias: every linear map but the head has one.
        norm: ``"rms"``, or ``"layer"`` with a shift.
        norms: in each layer: 2, 4 (sandwich), or 1 (both halves read the
            same).
        qk_norm: an RMSNorm of query and key heads.
        max_positions: learned positions; 0 for RoPE.
        tied: the head shares the token embedding's weights.
        window, windowed_layers: tokens in the sliding window, and the layers
            that have it.

    Raises:
        ValueError: sizes do not fit each other, or are no sizes.

    Example:
        >>> llama = attn.cost.PUBLISHED["Llama-3-8B"]
        >>> f"{llama.parameters():,}"
        '8,030,261,248'
        >>> llama.cache_bytes(1, 8192) / 2**30  # GiB
        1.0
    """

    num_layers: int
    vocab_size: int
    embed_dim: int
    hidden_dim: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    source: str = ""
    gated: bool = True
    bias: bool = False
    norm: Literal["rms", "layer"] = "rms"
    norms: int = 2
    qk_norm: bool = False
    max_positions: int = 0
    tied: bool = False
    window: int | None = None
    windowed_layers: int = 0

    def __post_init__(self) -> None:
        check_sizes(
            num_layers=self.num_layers,
            vocab_size=self.vocab_size,
            embed_dim=self.embed_dim,
            hidden_dim=self.hidden_dim,
            head_dim=self.head_dim,
            max_positions=self.max_positions,
            windowed_layers=self.windowed_layers,
        )
        check_heads(self.num_heads, self.num_kv_heads)
        for name in ("gated", "bias", "qk_norm", "tied"):
            arguments.flag(name, getattr(self, name))
        arguments.choice("norm", self.norm, ("rms", "layer"))
        arguments.choice("norms", self.norms, (1, 2, 4))
        if self.windowed_layers > self.num_layers:
            raise ValueError(
                f"windowed_layers must be at most {self.num_layers}, all "
                f"layers; got {self.windowed_layers}"
            )
        if (self.window is None) == bool(self.windowed_layers):
            raise ValueError(
                "window and windowed_layers must be given together; got "
                f"{self.window} and {self.windowed_layers}"
            )

    @property
    def layer_weights(self) -> int:
        """Count the weights of a layer's linear maps, without biases.

        ``2 E H D + 2 E Hkv D`` of attention, and ``2 E F``, or ``3 E F``
        when gated.
        """
        E, F = self.embed_dim, self.hidden_dim
        feed_forward = (3 if self.gated else 2) * E * F
        return attention_parameters(E, *self._heads) + feed_forward

    @property
    def _heads(self) -> tuple[int, int, int]:
        return self.num_heads, self.num_kv_heads, self.head_dim

    def parameters(self) -> int:
        """Count the parameters, shared ones once.

        The layers' weights, biases and norms; ``V E`` for the token
        embedding, as many for a head that is not tied to it; the learned
        positions; the final norm.
        """
        E, (H, Hkv, D) = self.embed_dim, self._heads
        norm = E if self.norm == "rms" else 2 * E
        layer = self.layer_weights + self.norms * norm
        layer += 2 * D if self.qk_norm else 0
        if self.bias:
            layer += (H + 2 * Hkv) * D + E  # query, key, value; output
            layer += (2 if self.gated else 1) * self.hidden_dim + E
        embeddings = self.vocab_size * (1 if self.tied else 2)
        embeddings += self.max_positions
        return self.num_layers * layer + embeddings * E + norm

    @arguments.named()
    def flops(
        self,
        batch: int,
        q_len: int,
        kv_len: int | None = None,
        *,
        is_causal: bool = True,
        logits_to_keep: int = 0,
    ) -> int:
        """Count the matrix products of a forward pass.

        Two operations for each token and weight, the head's included; and
        ``4 D`` for each layer, head, and pair of a query and a key. Reading
        a prompt is ``q_len`` alone; a step of decoding is ``q_len=1`` and
        the tokens so far, the new one included, as ``kv_len``.

        Args:
            batch, q_len: ``B``, ``L``.
            kv_len: ``S``; ``L`` when None.
            is_causal: count only pairs that may attend. PyTorch's
                ``FlopCounterMode`` counts all.
            logits_to_keep: tokens, the last ones, that logits are computed
                for; 0 is all. To write, a model needs one.

        Source: Kaplan et al. 2020, "Scaling laws for neural language
        models", table 1: ``2 N`` a token, ``N`` without embeddings, and the
        attention.
        """
        check_sizes(logits_to_keep=logits_to_keep)
        kv_len = q_len if kv_len is None else kv_len
        weights = q_len * self.num_layers * self.layer_weights
        kept = min(logits_to_keep or q_len, q_len)
        weights += kept * self.vocab_size * self.embed_dim
        between = self._attention(batch, q_len, kv_len, is_causal)
        return 2 * batch * weights + between

    def _attention(
        self, batch: int, q_len: int, kv_len: int, is_causal: bool
    ) -> int:
        """Count the operations between the projections, in all layers."""
        full = self.num_layers - self.windowed_layers
        window = self.window if is_causal else None
        layers = ((full, None), (self.windowed_layers, window))
        sizes = (batch, q_len, kv_len, *self._heads)
        return sum(
            count
            * attention_cost(*sizes, is_causal=is_causal, window=window).flops
            for count, window in layers
        )

    @arguments.named()
    def training_flops(
        self,
        batch: int,
        seq_len: int,
        *,
        is_causal: bool = True,
        fused: bool = True,
    ) -> int:
        """Count the matrix products of a training step, forward and backward.

        Each product has two in the backward pass, one for each factor: three
        times ``flops``, about ``6 N`` a token. Fused attention also computes
        the scores a second time, one product more.

        Args:
            batch, seq_len: ``B`` and ``L``.
            is_causal: as in ``flops``.
            fused: attention keeps no scores (FlashAttention).

        Source: Kaplan et al. 2020, section 2.1; Hoffmann et al. 2022
        (Chinchilla), appendix F; Dao et al. 2022 (recomputation).
        """
        flops = 3 * self.flops(batch, seq_len, is_causal=is_causal)
        if fused:
            flops += self._attention(batch, seq_len, seq_len, is_causal) // 2
        return flops

    @arguments.named()
    def activation_bytes(
        self,
        batch: int,
        seq_len: int,
        dtype: torch.dtype = torch.bfloat16,
        *,
        fused: bool = True,
        dropout: bool = False,
    ) -> int:
        """Count the bytes that a forward pass keeps for the backward pass.

        For each token and layer, in ``dtype``: the input of each norm and
        of each linear map, each once: ``4 E`` around two norms,
        ``(H + 2 Hkv) D`` of query, key and value, ``H D`` of their result,
        ``2 F`` before and after the activation, or ``4 F`` when gated. Fused
        attention adds one float32 a head, other attention ``H S`` weights:
        the only term that grows with the square of the length. Then the
        final norm, and a log-probability for each entry of the vocabulary.

        Norms keep one or two float32 statistics a token. An RMSNorm made of
        several operations (transformers', ours, PyTorch's on a CPU) keeps
        another ``E``. Token ids, gradients, parameters and the optimizer's
        states are not counted.

        Args:
            batch, seq_len, dtype: ``B``, ``L``, and of the activations.
            fused: attention keeps no scores (FlashAttention).
            dropout: after the embeddings, of the attention weights and of
                both halves of a layer, with masks of one byte.

        Source: Korthikanti et al. 2022, "Reducing activation recomputation
        in large transformer models", section 4.1: for GPT in 16 bits and
        with dropout, ``s b h (34 + 5 a s / h)`` a layer.
        """
        check_sizes(batch=batch, seq_len=seq_len)
        E, F, (H, Hkv, D) = self.embed_dim, self.hidden_dim, self._heads
        statistics = _STATISTIC * (1 if self.norm == "rms" else 2)
        size, weights = bytes_of(dtype), 0 if fused else H * seq_len
        elements = (self.norms + min(self.norms, 2)) * E
        elements += (2 * H + 2 * Hkv) * D + (4 if self.gated else 2) * F
        layer = size * (elements + weights) + self.norms * statistics
        if fused:
            layer += _STATISTIC * H  # the log of each denominator
        if self.qk_norm:  # the inputs of these norms
            layer += (H + Hkv) * (size * D + _STATISTIC)
        if dropout:  # weights after it, and masks
            layer += (size + 1) * weights + 2 * E
        token = self.num_layers * layer + (E if dropout else 0)
        token += 2 * size * E + statistics + _STATISTIC * self.vocab_size
        tables = 0 if self.max_positions else 2 * seq_len * D * size  # RoPE
        return batch * seq_len * token + tables

    def cache_bytes(
        self, batch: int, seq_len: int, dtype: torch.dtype = torch.bfloat16
    ) -> int:
        """Count the bytes of its cache, cut to the window if it has one."""
        short = seq_len if self.window is None else min(seq_len, self.window)
        full = self.num_layers - self.windowed_layers
        heads = (self.num_kv_heads, self.head_dim, dtype)
        return kv_cache_bytes(batch, seq_len, full, *heads) + kv_cache_bytes(
            batch, short, self.windowed_layers, *heads
        )
