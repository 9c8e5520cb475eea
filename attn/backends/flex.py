"""FlexAttention: PyTorch compiles a fused kernel around our mask.

Only blocks of pairs that the mask leaves are computed. To compile takes
seconds, so nothing is compiled inside a call unless ``warmup`` was asked to,
or the implementation was named.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attn.backends.forms import block_mask
from attn.backends.registry import ONE_GRAPH
from attn.functional.inputs import Call

__all__ = [
    "has_lse",
    "run_flex",
    "slower_flex",
    "why_not_flex",
]

_HALVES = (torch.float16, torch.bfloat16)


def why_not_flex(call: Call) -> list[str]:
    """What FlexAttention cannot be told, or cannot do here."""
    if torch.compiler.is_compiling():
        return [ONE_GRAPH]
    lacks = []
    if missing := _no_compiler(call.query.device.type):
        lacks.append(missing)
    if call.attn_mask is not None:
        lacks.append("attn_mask is a tensor: it needs a Mask, or rules")
    if call.dropout_p:
        lacks.append(f"dropout_p is {call.dropout_p}: it drops nothing")
    if not isinstance(call.q_offset, int):
        lacks.append("q_offset is a tensor: it needs one for all rows")
    if call.query.dtype not in (torch.float32, *_HALVES):
        lacks.append(
            f"query is {call.query.dtype}: it needs float32, float16 or "
            "bfloat16"
        )
    if 0 in (*call.query.shape, *call.key.shape, *call.value.shape):
        lacks.append("a tensor is empty: there is nothing to compile for")
    if call.query.device.type == "cpu":
        if call.sinks is not None:
            lacks.append("sinks is given: on a CPU it has no lse to add them")
        if call.wants_gradient:
            lacks.append("a tensor requires a gradient: on a CPU it has none")
    return lacks


def slower_flex(call: Call) -> str | None:
    """Why another should take a call that this one could."""
    return (
        "it is not compiled for such calls: attn.api.warmup(...) does that, "
        "in seconds, and compares"
    )


ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def run_flex(
    call: Call, return_lse: bool = False, score_mod: ScoreMod | None = None
) -> Any:
    """The call, by FlexAttention, compiled for it if need be.

    Args:
        call: checked.
        return_lse: as in the contract.
        score_mod: ``(score, b, h, q_idx, kv_idx) -> score``, after the
            softcap and before the mask; ``attn.positions.alibi_score`` makes
            one. Positions count from the first query and the first key.
    """
    given = map(call.four_axes, (call.query, call.key, call.value))
    # FlexAttention wants the features side by side.
    tensors = (x if x.stride(-1) == 1 else x.contiguous() for x in given)
    options: dict[str, Any] = {
        "block_mask": block_mask(call),
        "score_mod": _scored(call.softcap, score_mod),
        "scale": call.scale,
        "enable_gqa": call.num_heads != call.num_kv_heads,
    }
    wants_lse = return_lse or call.sinks is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not wants_lse:
            out = _compiled()(*tensors, **options)
            return out.reshape(*call.scores_shape[:-1], out.shape[-1])
        from torch.nn.attention.flex_attention import AuxRequest

        options["return_aux"] = AuxRequest(lse=True)
        out, aux = _compiled()(*tensors, **options)
    lse = aux.lse
    if call.sinks is not None:
        share = torch.sigmoid(lse - call.sinks.view(1, -1, 1))[..., None]
        out = (out * share).to(out.dtype)
    out = out.reshape(*call.scores_shape[:-1], out.shape[-1])
    return (out, lse.reshape(call.scores_shape[:-1])) if return_lse else out


def has_lse(call: Call) -> bool:
    """Whether an lse can be had of it here."""
    return call.query.device.type == "cuda"


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


@functools.cache  # one function for one meaning: a new one is compiled anew
def _scored(
    softcap: float | None, score_mod: ScoreMod | None
) -> ScoreMod | None:
    if softcap is None:
        return score_mod

    def scored(s: Tensor, b: Any, h: Any, q: Any, kv: Any) -> Tensor:
        s = softcap * torch.tanh(s / softcap)
        return s if score_mod is None else score_mod(s, b, h, q, kv)

    return scored
