"""Compare recurrence, convolution and attention: operations and distance."""

from __future__ import annotations

from typing import NamedTuple

from attn import arguments
from attn.cost.attention import (
    attention_cost,
    attention_parameters,
    check_sizes,
)

EVERY_TOKEN = "sequences and tokens"
KINDS = (
    "rnn",
    "lstm",
    "convolution",
    "dilated convolution",
    "window",
    "attention",
)


class MixerCost(NamedTuple):
    """The cost of a layer that lets tokens see others.

    Example:
        >>> cost = attn.cost.mixer_cost("attention", 1024, 512)
        >>> cost.sequential_steps, cost.path_length
        (1, 1)
    """

    flops: int  # of one layer, for one sequence
    sequential_steps: int  # of one layer, each needs the one before
    path_length: int  # layers or steps from the first token to the last
    parallel_over: str  # what can be computed at the same time


@arguments.named()
def mixer_cost(
    kind: str,
    seq_len: int,
    embed_dim: int,
    *,
    kernel_size: int = 3,
    is_causal: bool = True,
) -> MixerCost:
    """Count a layer of recurrence, convolution or attention.

    =================== =============== ===== ==========================
    kind                FLOPs           steps path length
    =================== =============== ===== ==========================
    rnn                 ``4 L E²``      ``L`` ``L``
    lstm                ``16 L E²``     ``L`` ``L``
    convolution         ``2 k L E²``    1     ``(L - 1) / (k - 1)``
    dilated convolution ``2 k L E²``    1     ``log L / log k``
    window              ``8 L E²``, and 1     ``(L - 1) / (k - 1)``
                        ``4 E`` a pair
    attention           ``8 L E²``, and 1     1
                        ``4 E`` a pair
    =================== =============== ===== ==========================

    Path lengths are rounded up; a path of several layers costs as many. The
    published table names ``log_k L`` for convolutions, which is true of
    dilated ones, and no projections for attention, which are most of it
    while ``L`` is below ``4 E`` (causal) or ``2 E`` (full). Convolutions are
    as parallel as attention. Steps are those of the formulas as written: a
    linear recurrence can be scanned in ``log2 L`` rounds. An LSTM layer has
    its non-linearity inside; attention is followed by a feed-forward layer.

    Args:
        kind: a name of the table.
        seq_len: ``L``.
        embed_dim: ``E``.
        kernel_size: ``k``, tokens that a convolution or a window spans, its
            own included.
        is_causal: of attention and window, count only pairs that may attend.

    Raises:
        ValueError: an unknown kind, or a size below 0; with ``kernel_size``
            below 2 nothing arrives.

    Example:
        >>> for kind in ("rnn", "dilated convolution", "attention"):
        ...     cost = attn.cost.mixer_cost(kind, seq_len=1024, embed_dim=512)
        ...     print(kind, cost.sequential_steps, cost.path_length)
        rnn 1024 1024
        dilated convolution 1 7
        attention 1 1

    Source: Vaswani et al. 2017, table 1 and section 4.
    """
    arguments.choice("kind", kind, KINDS)
    check_sizes(seq_len=seq_len, embed_dim=embed_dim, kernel_size=kernel_size)
    L, E, k = seq_len, embed_dim, kernel_size
    if kind in ("rnn", "lstm"):
        matrices = 2 * (4 if kind == "lstm" else 1)
        return MixerCost(2 * matrices * L * E * E, L, L, "sequences")
    if kind == "attention":
        return MixerCost(_attention(L, E, None, is_causal), 1, 1, EVERY_TOKEN)
    if k < 2:
        raise ValueError(
            f"kernel_size must be 2 or more: a token sees itself; got {k}"
        )
    layers = -(-(L - 1) // (k - 1))
    if kind == "dilated convolution":
        layers = 0
        while k**layers < L:
            layers += 1
    flops = 2 * k * L * E * E
    if kind == "window":
        flops = _attention(L, E, k if is_causal else None, is_causal)
    return MixerCost(flops, 1, max(layers, 1), EVERY_TOKEN)


def _attention(L: int, E: int, window: int | None, is_causal: bool) -> int:
    """Count the projections, and the products between them."""
    pairs = attention_cost(
        1, L, L, 1, 1, E, is_causal=is_causal, window=window
    )
    return 2 * L * attention_parameters(E, 1) + pairs.flops
