"""The book's Triton kernels as backends: what is measured, and variants.

On a GPU the kernels compute what PyTorch's function does not support;
everything else they compute only after ``autotune`` has compared. In the
interpreter they are for tests, and never selected.

``triton_tma`` loads its tiles by tensor descriptors, which Hopper and newer
GPUs copy with one instruction (TMA) and without a register for each address.
``triton_persistent`` does so too, in a grid of as many programs as the GPU
runs at a time: each computes several blocks of rows, the longest first.
Neither was measured: ``make gpu`` tries both, and so does ``autotune``.
"""

from __future__ import annotations

import functools

from attn.functional.inputs import AttentionInputs
from attn.kernels import attention

__all__ = [
    "interpreted",
    "persistent",
    "tma",
    "tunable",
    "unmeasured",
    "without_descriptors",
]

tma = functools.partial(attention.fused, variant="tma")
persistent = functools.partial(attention.fused, variant="persistent")


def tunable(inputs: AttentionInputs) -> bool:
    """Return whether timing the kernels is meaningful."""
    return inputs.query.is_cuda


def interpreted(inputs: AttentionInputs) -> str | None:
    """Return why the kernel is not preferred."""
    return None if tunable(inputs) else "the interpreter is for tests"


def unmeasured(inputs: AttentionInputs) -> str:
    """Return why a variant must be measured first."""
    measure = "it was not measured here: attn.api.autotune(...) compares"
    return interpreted(inputs) or measure


def without_descriptors(inputs: AttentionInputs) -> list[str]:
    """Return why the variants cannot compute a call."""
    if reasons := attention.unsupported_reasons(inputs):
        return reasons
    from attn.kernels.variants import descriptor_reasons

    return descriptor_reasons(
        query=inputs.to_4d(inputs.query),
        key=inputs.to_4d(inputs.key),
        value=inputs.to_4d(inputs.value),
    )
