"""PyTorch's own backends: which one runs a call, and why the others do not.

``F.scaled_dot_product_attention`` is one name for four programs. PyTorch does
not report which one runs; ``explain_torch`` does.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple, Unpack

import torch
from torch import Tensor
from torch.backends import cuda
from torch.nn.attention import SDPBackend, sdpa_kernel

from attn import arguments
from attn.functional.inputs import (
    AttentionInputs,
    AttentionOptions,
    OptionsWithoutMask,
    validate,
)
from attn.masks import Mask
from attn.profiling import compat

__all__ = ["explain_torch", "TorchExplanation"]

# PyTorch's backends, in its order for nested tensors (for dense ones, see
# torch._C._get_sdp_priority_order), and their switches.
_SWITCHES = {
    "FLASH_ATTENTION": cuda.flash_sdp_enabled,
    "EFFICIENT_ATTENTION": cuda.mem_efficient_sdp_enabled,
    "MATH": cuda.math_sdp_enabled,
    "CUDNN_ATTENTION": cuda.cudnn_sdp_enabled,
}


@dataclass(frozen=True)
class TorchExplanation:
    """The reasons against each backend, printed as a table.

    ``reasons`` maps the names of ``torch.nn.attention.SDPBackend`` to
    sentences: an empty list where the backend supports the call.
    ``selected`` is the one that PyTorch runs; None without a supported one.

    Example:
        >>> from attn.backends.sdpa_backends import explain_torch
        >>> x = torch.randn(1, 2, 10, 64)
        >>> found = explain_torch(x, x, x, dropout_p=0.1)
        >>> found.selected
        'MATH'
        >>> found.reasons["FLASH_ATTENTION"]
        ['dropout_p is 0.1: it has no dropout']
    """

    reasons: dict[str, list[str]]
    selected: str | None

    def __getitem__(self, backend: str) -> list[str]:
        return self.reasons[backend]

    def __str__(self) -> str:
        return table(self.reasons, self.selected, {})


def table(
    reasons: dict[str, list[str]],
    selected: str | None,
    deprioritized: dict[str, str],
) -> str:
    """Return a table of the backends and what there is to say of each."""
    width = max(map(len, reasons)) + 2
    lines = []
    for name, against in reasons.items():
        notes = [f"no: {reason}" for reason in against]
        if name == selected:
            notes = ["selected"]
        elif not notes and name in deprioritized:
            notes = [f"slower: {deprioritized[name]}"]
        for i, text in enumerate(notes or ["supported"]):
            lines.append(f"{'' if i else name:{width}}{text}")
    return "\n".join(lines)


class _Given(NamedTuple):
    """PyTorch's arguments, and the validated inputs (None: nested)."""

    query: Tensor
    key: Tensor
    value: Tensor
    attn_mask: Tensor | None = None
    dropout_p: float = 0.0
    is_causal: bool = False
    scale: float | None = None
    enable_gqa: bool = False
    inputs: AttentionInputs | None = None

    def choice(self) -> int:
        """Return PyTorch's choice, which may fail to run; raise for none."""
        return compat.fused_sdp_choice(
            *self[:6], scale=self.scale, enable_gqa=self.enable_gqa
        )

    def tensors(self) -> dict[str, Tensor]:
        return {"query": self.query, "key": self.key, "value": self.value}


@arguments.named(*OptionsWithoutMask.__annotations__)
def explain_torch(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | Mask | None = None,
    *,
    return_lse: bool = False,
    **others: Unpack[OptionsWithoutMask],
) -> TorchExplanation:
    """Explain which of PyTorch's backends runs a call; nothing is computed.

    On the CPU the sentences are ours; elsewhere they are PyTorch's own
    warnings, which name only the first obstacle of a backend.

    Arguments are those of ``attn.scaled_dot_product_attention``; the tensors
    may be jagged nested tensors, too.

    Raises:
        TypeError, ValueError: an argument is wrong for every backend.

    Example:
        >>> from attn.backends.sdpa_backends import explain_torch
        >>> x = torch.randn(1, 2, 10, 64)
        >>> explain_torch(x, x, x, is_causal=True).selected
        'FLASH_ATTENTION'

    Source: ATen's ``native/transformers/sdp_utils_cpp.cpp``, and
    ``torch/nested/_internal/sdpa.py``.
    """
    options: AttentionOptions = {"attn_mask": attn_mask, **others}
    torchs: dict[str, Any] = {
        name: x
        for name, x in options.items()
        if name in _Given._fields and not isinstance(x, Mask)
    }
    given = _Given(query, key, value, **torchs)
    if any(isinstance(x, Tensor) and x.is_nested for x in given[:3]):
        _check_nested(given.tensors())
    else:
        given = given._replace(inputs=validate(query, key, value, **options))
    everywhere = _unsupported_everywhere(options, return_lse)
    if given.inputs and 0 in [x.numel() for x in given[:3]]:
        everywhere.append("a tensor is empty: torch returns without a backend")
    reasons = {}
    for name, is_on in _SWITCHES.items():
        off = [] if is_on() else ["it is switched off (sdpa_kernel)"]
        if name == "MATH":
            own = _math(given)
        elif query.device.type != "cpu":
            own = _in_torchs_words(name, given)
        elif name == "FLASH_ATTENTION":
            own = _flash_on_cpu(given)
        else:
            own = ["the tensors are on the CPU: it needs a GPU"]
        reasons[name] = [*off, *everywhere, *own]
    return TorchExplanation(reasons, _selected(given, reasons))


def _unsupported_everywhere(
    options: AttentionOptions, return_lse: bool
) -> list[str]:
    """Return what none of PyTorch's backends supports."""
    given = {**options, "return_lse": return_lse or None}
    found = [
        f"{name} is given: torch has no such argument"
        for name in ("softcap", "sinks", "return_lse")
        if given.get(name) is not None
    ]
    mask, start = options.get("attn_mask"), options.get("q_offset")
    masks = ["attn_mask"] if isinstance(mask, Mask) else []
    if options.get("window") is not None:
        masks.append(f"window={options['window']}")
    if options.get("is_causal") and (isinstance(start, Tensor) or start):
        masks.append("is_causal with a q_offset")
    found += [f"{x} is positional: pass a tensor (Mask.dense)" for x in masks]
    return found


def _selected(given: _Given, reasons: dict[str, list[str]]) -> str | None:
    able = [name for name, why in reasons.items() if not why]
    if able and given.inputs is not None:
        chosen = SDPBackend(given.choice()).name
        return chosen if chosen in able else None
    return next(iter(able), None)


def _flash_on_cpu(given: _Given) -> list[str]:
    """Return the conditions of ``use_flash_attention_cpp`` that fail."""
    if given.inputs is None:
        return ["the tensors are nested: on the CPU it needs dense ones"]
    found = []
    if given.dropout_p > 0:
        found.append(f"dropout_p is {given.dropout_p}: it has no dropout")
    for name, x in given.tensors().items():
        if x.dim() != 4:
            found.append(f"{name} must be (B, H, L, D); got {x.dim()} axes")
        if x.stride(-1) != 1:
            found.append(
                f"{name} must have stride 1 along head_dim; got "
                f"{x.stride(-1)}: call contiguous()"
            )
    batches = {str(x.shape[0]): None for x in given[:3] if x.dim() == 4}
    if len(batches) > 1:
        sizes = " and ".join(batches)
        found.append(f"the batch sizes are {sizes}: it does not broadcast")
    D, Dv = given.query.shape[-1], given.value.shape[-1]
    if Dv != D:
        found.append(
            f"value and query must have equal head_dim; got {Dv} and {D}"
        )
    mask = given.attn_mask
    if mask is not None and mask.dim() not in (2, 4):
        found.append(f"attn_mask must have two or four axes; got {mask.dim()}")
    if mask is not None and mask.requires_grad:
        found.append("attn_mask requires a gradient: it computes none")
    return found


def _math(given: _Given) -> list[str]:
    """Return what the reference backend refuses, on every device."""
    if given.inputs is not None:
        both = given.is_causal and given.attn_mask is not None
        return ["is_causal and attn_mask: pass one of them"] if both else []
    found = []
    if given.is_causal:
        found.append("is_causal: it has none for nested tensors")
    if given.attn_mask is not None:
        found.append("attn_mask: torch supports none with nested tensors")
    for name, x in given.tensors().items():
        if not x.transpose(1, 2).is_contiguous():
            found.append(
                f"{name} is nested and not contiguous as (B, L, H, D): call "
                "contiguous() before the heads are brought forward"
            )
    return found


def _in_torchs_words(name: str, given: _Given) -> list[str]:
    """Return PyTorch's warnings when this is the only backend allowed."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        if given.inputs is None:
            can = getattr(cuda, f"can_use_{name.lower()}")
            fits = can(cuda.SDPAParams(*given[:6], given.enable_gqa))
            said = f"torch.backends.cuda.{can.__name__} returns False"
            return [] if fits else [said]
        try:
            backend = getattr(SDPBackend, name)
            with sdpa_kernel(backend):
                if SDPBackend(given.choice()) == backend:
                    return []
            return [f"torch has none for {given.query.device.type}"]
        except RuntimeError as error:
            lines = [str(w.message) for w in caught] + [str(error)]
    # Under a heading each: "Flash attention kernel not used because:".
    heading = name.split("_")[0].replace("EFFICIENT", "MEMORY").lower()
    found, mine = [], False
    for line in (x.split(" (Triggered internally")[0] for x in lines):
        if "kernel not used because" in line:
            mine = line.lower().startswith(heading)
        elif mine:
            found.append(line)
    return found or [lines[-1].splitlines()[0]]


def _check_nested(tensors: dict[str, Tensor]) -> None:
    for name, x in tensors.items():
        if not x.is_nested or x.layout != torch.jagged or x.dim() != 4:
            raise TypeError(
                f"{name} must be a jagged nested tensor (B, H, L, D), as the "
                "other tensors are"
            )
