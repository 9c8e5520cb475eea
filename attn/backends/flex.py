"""FlexAttention: PyTorch compiles a fused kernel around a mask.

Blocks that the mask rules out are skipped. Compiling takes seconds, so it
happens inside a call only after ``autotune`` or where ``impl`` names it.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attn.backends.block_masks import block_mask
from attn.backends.registry import TRACING
from attn.functional.inputs import AttentionInputs

__all__ = ["deprioritized", "run", "supports_lse", "unsupported_reasons"]


def unsupported_reasons(inputs: AttentionInputs) -> list[str]:
    """Return what FlexAttention does not support, or not here."""
    if torch.compiler.is_compiling():
        return [TRACING]
    dtype, p = inputs.query.dtype, inputs.dropout_p
    on_cpu = inputs.query.device.type == "cpu"
    shapes = (*inputs.query.shape, *inputs.key.shape, *inputs.value.shape)
    found = {
        "attn_mask is a tensor: pass a Mask": inputs.attn_mask is not None,
        f"dropout_p is {p}: it has no dropout": p,
        "q_offset is a tensor: pass one int for all rows": not isinstance(
            inputs.q_offset, int
        ),
        f"query must be float32, float16 or bfloat16; got {dtype}": (
            dtype not in (torch.float32, torch.float16, torch.bfloat16)
        ),
        "a tensor is empty: there is nothing to compile for": 0 in shapes,
        "sinks is given: on a CPU it has no lse to add them": (
            on_cpu and inputs.sinks is not None
        ),
        "a tensor requires a gradient: on a CPU it has none": (
            on_cpu and inputs.requires_grad
        ),
    }
    missing = _no_compiler(inputs.query.device.type)
    reasons = [missing] if missing else []
    return reasons + [reason for reason, holds in found.items() if holds]


def deprioritized(inputs: AttentionInputs) -> str | None:
    """Return why it must be measured first."""
    return (
        "it is not compiled for such calls: attn.api.autotune(...) does that, "
        "in seconds, and compares"
    )


ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def run(
    inputs: AttentionInputs,
    return_lse: bool = False,
    score_mod: ScoreMod | None = None,
) -> Any:
    """Compute a call with FlexAttention, compiling it if needed.

    Args:
        inputs: validated.
        return_lse: as in the contract.
        score_mod: ``(score, b, h, q_idx, kv_idx) -> score``, after the
            softcap and before the mask; ``attn.positions.alibi_score`` makes
            one. Positions count from the first query and the first key.
    """
    given = map(inputs.to_4d, (inputs.query, inputs.key, inputs.value))
    # FlexAttention needs stride 1 along the features.
    tensors = (x if x.stride(-1) == 1 else x.contiguous() for x in given)
    options: dict[str, Any] = {
        "block_mask": block_mask(inputs),
        "score_mod": _scored(inputs.softcap, score_mod),
        "scale": inputs.scale,
        "enable_gqa": inputs.num_heads != inputs.num_kv_heads,
    }
    needs_lse = return_lse or inputs.sinks is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not needs_lse:
            out = _compiled()(*tensors, **options)
            return inputs.from_4d(out)
        from torch.nn.attention.flex_attention import AuxRequest

        options["return_aux"] = AuxRequest(lse=True)
        out, aux = _compiled()(*tensors, **options)
    lse = aux.lse
    if inputs.sinks is not None:
        share = torch.sigmoid(lse - inputs.sinks.view(1, -1, 1))[..., None]
        out = (out * share).to(out.dtype)
    out = inputs.from_4d(out)
    return (out, inputs.from_4d(lse)) if return_lse else out


def supports_lse(inputs: AttentionInputs) -> bool:
    """Return whether FlexAttention computes an lse on this device."""
    return inputs.query.device.type == "cuda"


@functools.cache
def _compiled() -> Callable[..., Any]:
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention)


@functools.cache
def _no_compiler(device: str) -> str | None:
    if device == "cuda":
        try:
            import triton  # noqa: F401
        except ImportError:
            return "triton is not installed: it compiles for GPUs"
        return None
    if device != "cpu":
        return f"query is on {device}: it is for CPUs and CUDA"
    from torch._inductor.cpp_builder import get_cpp_compiler

    try:
        get_cpp_compiler()
    except Exception:  # noqa: BLE001 torch has an error of its own for it
        return "no C++ compiler was found: it needs one on a CPU (g++, clang)"
    return None


@functools.cache  # a new function object would be compiled again
def _scored(
    softcap: float | None, score_mod: ScoreMod | None
) -> ScoreMod | None:
    if softcap is None:
        return score_mod

    def scored(s: Tensor, b: Any, h: Any, q: Any, kv: Any) -> Tensor:
        s = softcap * torch.tanh(s / softcap)
        return s if score_mod is None else score_mod(s, b, h, q, kv)

    return scored
