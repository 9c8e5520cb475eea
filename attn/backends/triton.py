"""The book's Triton kernels as a backend: prompts and training.

On a GPU they compute what PyTorch's function does not support; everything
else they compute only after ``autotune`` has compared. In the interpreter
they are for tests, and never selected.
"""

from __future__ import annotations

from typing import Any

from attn.functional.inputs import AttentionInputs

__all__ = ["deprioritized", "run", "tunable", "unsupported_reasons"]


def unsupported_reasons(inputs: AttentionInputs) -> list[str]:
    """Return why the kernels cannot compute a call."""
    try:
        from attn.kernels import attention
    except ImportError as error:
        missing = error.name or "triton"
        return [f"{missing} is not installed: pip install triton"]
    return attention.unsupported_reasons(inputs)


def deprioritized(inputs: AttentionInputs) -> str | None:
    """Return why the kernel is not preferred."""
    return None if tunable(inputs) else "the interpreter is for tests"


def tunable(inputs: AttentionInputs) -> bool:
    """Return whether timing the kernels is meaningful."""
    return inputs.query.is_cuda


def run(inputs: AttentionInputs, return_lse: bool = False) -> Any:
    """Compute FlashAttention on validated inputs."""
    from attn.kernels.attention import fused

    return fused(inputs, return_lse)
