"""FlexAttention: PyTorch compiles a fused kernel around a mask.

Blocks that the mask rules out are skipped. Compiling takes seconds, so it
happens inside a call only after ``autotune`` or where ``impl`` names it.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attn.backends.mask_formats import MaskSpec, convert, unsupported
from attn.backends.registry import TRACING
from attn.functional.inputs import AttentionInputs
from attn.profiling import compat
from attn.tracing import in_graph

__all__ = ["deprioritized", "run", "supports_lse", "unsupported_reasons"]


def unsupported_reasons(inputs: AttentionInputs) -> list[str]:
    """Return what FlexAttention does not support, or not here."""
    if torch.compiler.is_compiling():
        return [TRACING]
    reasons = unsupported(inputs.attn_mask, "block")
    if not isinstance(inputs.q_offset, int):
        reasons.append("q_offset is a tensor: pass one int for all rows")
    device, dtype = inputs.query.device.type, inputs.query.dtype
    if missing := _no_compiler(device):
        reasons.append(missing)
    if inputs.dropout_p:
        reasons.append(f"dropout_p is {inputs.dropout_p}: it has no dropout")
    if dtype not in (torch.float32, torch.float16, torch.bfloat16):
        reasons.append(
            f"query must be float32, float16 or bfloat16; got {dtype}"
        )
    if 0 in (*inputs.query.shape, *inputs.key.shape, *inputs.value.shape):
        reasons.append("a tensor is empty: there is nothing to compile for")
    if device == "cpu" and inputs.sinks is not None:
        reasons.append("sinks is given: on a CPU it has no lse to add them")
    if device == "cpu" and inputs.requires_grad:
        reasons.append(
            "a tensor requires a gradient: on a CPU it has none, use "
            "impl='grouped'"
        )
    if device == "cpu" and overruns(inputs.query.shape[-1], inputs.kv_len):
        reasons.append(
            f"head_dim is {inputs.query.shape[-1]} with {inputs.kv_len} keys: "
            "PyTorch's kernel for AVX2 reads 8 keys more, and is wrong"
        )
    return reasons


def overruns(head_dim: int, kv_len: int) -> bool:
    """Return whether PyTorch's compiled kernel is wrong on this CPU.

    With vectors of 8, PyTorch 2.13 multiplies by blocks of 16 keys where the
    features are one or two vectors, also where 8 keys are left: it reads
    behind the last key, and writes the scores over the first rows' maxima.
    The source is ``CppMicroGemmFP32Vec``; tests/attn/test_flex.py tells when
    it is right. (With ``ATEN_CPU_CAPABILITY`` set, give PyTorch a cache of
    its own too, ``TORCHINDUCTOR_CACHE_DIR``: kernels are not told apart by
    it, and those of another capability are wrong.)
    """
    if head_dim not in (8, 16) or kv_len % 16 != 8:
        return False
    return torch.backends.cpu.get_cpu_capability() == "AVX2"


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

    ``score_mod(score, b, h, q_idx, kv_idx) -> score`` comes after the softcap
    and before the mask; ``attn.positions.alibi_score`` makes one. Positions
    count from the first query and the first key.
    """
    # FlexAttention needs stride 1 along the features.
    tensors = [
        x if x.stride(-1) == 1 else x.contiguous()
        for x in map(inputs.to_4d, inputs.qkv)
    ]
    options: dict[str, Any] = {
        "block_mask": block_mask(inputs),
        "score_mod": _scored(inputs.softcap, score_mod),
        "scale": inputs.scale,
        "enable_gqa": inputs.num_heads != inputs.num_kv_heads,
    }
    with warnings.catch_warnings(action="ignore"):
        if not return_lse and inputs.sinks is None:
            return inputs.from_4d(_attend(*tensors, **options))
        from torch.nn.attention.flex_attention import AuxRequest

        options["return_aux"] = AuxRequest(lse=True)
        out, aux = _attend(*tensors, **options)
    lse = aux.lse
    if inputs.sinks is not None:
        share = torch.sigmoid(lse - inputs.sinks.view(1, -1, 1))[..., None]
        out = (out * share).to(out.dtype)
    out = inputs.from_4d(out)
    return (out, inputs.from_4d(lse)) if return_lse else out


def block_mask(inputs: AttentionInputs) -> Any:
    """Return ``inputs.mask`` as a ``BlockMask``; None without one."""
    if inputs.mask is None:
        return None
    assert isinstance(inputs.q_offset, int)
    sizes = {
        "q_len": inputs.q_len,
        "kv_len": inputs.kv_len,
        "batch": math.prod(inputs.batch_shape),
        "heads": inputs.num_heads,
        "device": inputs.query.device,
    }
    spec = MaskSpec(inputs.mask, inputs.q_offset, sizes)
    return convert(spec, "block", inputs.query.dtype)


def supports_lse(inputs: AttentionInputs) -> bool:
    """Return whether FlexAttention computes an lse on this device."""
    return inputs.query.device.type == "cuda"


def _attend(*tensors: Tensor, **options: Any) -> Any:
    if in_graph():
        return _compiled()(*tensors, **options)
    with compat.float_constants():  # a softcap
        return _compiled()(*tensors, **options)


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
    try:
        compat.require_cpp_compiler()
    except Exception:  # torch raises a class of its own
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
