"""Two variants of the book's forward kernel as backends.

``triton_tma`` loads its tiles by tensor descriptors, which Hopper and newer
GPUs copy with one instruction (TMA) and without a register for each address.
``triton_persistent`` does so too, in a grid of as many programs as the GPU
runs at a time: each computes several blocks of rows, the longest first.
Neither was measured: ``make gpu`` tries both, and so does ``autotune``.
"""

from __future__ import annotations

from typing import Any

from attn.backends import triton
from attn.functional.inputs import AttentionInputs

__all__ = [
    "deprioritized",
    "run_persistent",
    "run_tma",
    "tunable",
    "unsupported_reasons",
]

tunable = triton.tunable


def unsupported_reasons(inputs: AttentionInputs) -> list[str]:
    """Return why the variants cannot compute a call."""
    if reasons := triton.unsupported_reasons(inputs):
        return reasons
    from attn.kernels.variants import descriptor_reasons

    given = (inputs.query, inputs.key, inputs.value)
    return descriptor_reasons(*map(inputs.to_4d, given))


def deprioritized(inputs: AttentionInputs) -> str:
    """Return why they must be measured first."""
    if not tunable(inputs):
        return "the interpreter is for tests"
    return "it was not measured here: attn.api.autotune(...) compares"


def run_tma(inputs: AttentionInputs, return_lse: bool = False) -> Any:
    """Compute FlashAttention, loading by tensor descriptors."""
    from attn.kernels.attention import fused

    return fused(inputs, return_lse, "tma")


def run_persistent(inputs: AttentionInputs, return_lse: bool = False) -> Any:
    """Compute FlashAttention in a persistent grid."""
    from attn.kernels.attention import fused

    return fused(inputs, return_lse, "persistent")
