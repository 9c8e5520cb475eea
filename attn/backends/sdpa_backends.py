"""Which of torch's own backends takes a call, and why not the others.

``F.scaled_dot_product_attention`` is one name for four programs. Which one
runs depends on the call, and torch does not say. ``explain_torch`` does.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.backends import cuda
from torch.nn.attention import SDPBackend, sdpa_kernel

from attn.functional.inputs import Call, read
from attn.functional.validation import Window
from attn.masks import Mask

__all__ = ["TorchExplanation", "explain_torch"]

# Torch's backends in the order in which it asks them about nested tensors
# (for dense ones ask torch._C._get_sdp_priority_order), and their switches.
_SWITCHES = {
    "FLASH_ATTENTION": cuda.flash_sdp_enabled,
    "EFFICIENT_ATTENTION": cuda.mem_efficient_sdp_enabled,
    "MATH": cuda.math_sdp_enabled,
    "CUDNN_ATTENTION": cuda.cudnn_sdp_enabled,
}


@dataclass(frozen=True)
class TorchExplanation:
    """For each backend, why it cannot take the call; printed as a table.

    ``reasons`` maps the names of ``torch.nn.attention.SDPBackend`` to plain
    sentences: an empty list where the backend could take the call.
    ``taken`` is the one that torch takes; None where none can.
    """

    reasons: dict[str, list[str]]
    taken: str | None

    def __getitem__(self, backend: str) -> list[str]:
        return self.reasons[backend]

    def __str__(self) -> str:
        width = max(map(len, self.reasons)) + 2
        lines = []
        for name, reasons in self.reasons.items():
            free = "taken" if name == self.taken else "could take it"
            first, *more = reasons or [free]
            lines.append(f"{name:{width}}{'no: ' if reasons else ''}{first}")
            lines += [" " * width + "no: " + reason for reason in more]
        return "\n".join(lines)


class _Given(NamedTuple):
    """What torch would be given, and the checked call (None: nested)."""

    query: Tensor
    key: Tensor
    value: Tensor
    attn_mask: Tensor | None
    dropout_p: float
    is_causal: bool
    scale: float | None
    enable_gqa: bool
    call: Call | None

    def choice(self) -> int:
        """Torch's choice, which may still fail to run.

        Raises:
            RuntimeError: no backend that is switched on can take it.
        """
        return torch._fused_sdp_choice(
            self.query,
            self.key,
            self.value,
            self.attn_mask,
            self.dropout_p,
            self.is_causal,
            scale=self.scale,
            enable_gqa=self.enable_gqa,
        )

    def tensors(self) -> dict[str, Tensor]:
        return {"query": self.query, "key": self.key, "value": self.value}


def explain_torch(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | Mask | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    window: Window | None = None,
    q_offset: int | Tensor | None = None,
    return_lse: bool = False,
) -> TorchExplanation:
    """Say which backend of torch's takes this call, and why not the others.

    Nothing is computed. On the CPU the sentences are ours; elsewhere they
    are torch's own warnings, which name a backend's first obstacle only.

    Args:
        query, key, value: as in ``attn.scaled_dot_product_attention``, or
            jagged nested tensors.
        attn_mask, dropout_p, is_causal, scale, enable_gqa: as there.
        softcap, sinks, window, q_offset, return_lse: as there.

    Returns:
        The reasons of each backend, and the one that torch takes.

    Raises:
        TypeError, ValueError: an argument is wrong, whoever computes it.

    Source: ATen's ``native/transformers/sdp_utils_cpp.cpp``, and
    ``torch/nested/_internal/sdpa.py``.
    """
    tensors = {"query": query, "key": key, "value": value}
    call = None
    if any(isinstance(x, Tensor) and x.is_nested for x in tensors.values()):
        _check_nested(tensors)
    else:
        call = read(
            query,
            key,
            value,
            attn_mask,
            dropout_p,
            is_causal,
            scale,
            enable_gqa,
            softcap=softcap,
            sinks=sinks,
            window=window,
            q_offset=q_offset,
        )
    everyone = []  # what no backend can do
    for name, x in (("softcap", softcap), ("sinks", sinks)):
        if x is not None:
            everyone.append(f"{name} is given: torch has no such argument")
    if return_lse:
        everyone.append("return_lse is given: torch has no such argument")
    rules = [str(attn_mask)] if isinstance(attn_mask, Mask) else []
    rules += [f"window={window}"] if window is not None else []
    if is_causal and (isinstance(q_offset, Tensor) or q_offset):
        rules.append("is_causal with a q_offset")
    for rule in rules:
        everyone.append(f"{rule} is a rule: torch needs a tensor (Mask.dense)")
    if call and 0 in [x.numel() for x in tensors.values()]:
        everyone.append("a tensor is empty: torch answers without a backend")

    mask = None if isinstance(attn_mask, Mask) else attn_mask
    given = _Given(
        query,
        key,
        value,
        mask,
        dropout_p,
        is_causal,
        scale,
        enable_gqa,
        call,
    )
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
        reasons[name] = [*off, *everyone, *own]
    return TorchExplanation(reasons, _taken(given, reasons))


def _taken(given: _Given, reasons: dict[str, list[str]]) -> str | None:
    able = [name for name, why in reasons.items() if not why]
    if given.call is None or not able:
        return able[0] if able else None
    chosen = SDPBackend(given.choice()).name
    return chosen if chosen in able else None


def _flash_on_cpu(given: _Given) -> list[str]:
    """Every condition of ``use_flash_attention_cpp`` that fails."""
    if given.call is None:
        return ["the tensors are nested: on the CPU it needs dense ones"]
    found = []
    if given.dropout_p > 0:
        found.append(f"dropout_p is {given.dropout_p}: it drops no weights")
    tensors = given.tensors()
    for name, x in tensors.items():
        if x.dim() != 4:
            found.append(f"{name} has {x.dim()} axes: it needs (B, H, L, D)")
        if x.stride(-1) != 1:
            found.append(
                f"{name} has stride {x.stride(-1)} along head_dim: it needs "
                "1 (contiguous)"
            )
    batches = {x.shape[0]: None for x in tensors.values() if x.dim() == 4}
    if len(batches) > 1:
        sizes = " and ".join(map(str, batches))
        found.append(f"the batch sizes are {sizes}: it does not broadcast")
    D, Dv = given.query.shape[-1], given.value.shape[-1]
    if Dv != D:
        found.append(f"value has head_dim {Dv} and query {D}: it needs equal")
    mask = given.attn_mask
    if mask is not None and mask.dim() not in (2, 4):
        found.append(f"attn_mask has {mask.dim()} axes: it needs two or four")
    if mask is not None and mask.requires_grad:
        found.append("attn_mask requires a gradient: it has none to give")
    return found


def _math(given: _Given) -> list[str]:
    """What the reference backend refuses, on every device."""
    if given.call is not None:
        if given.is_causal and given.attn_mask is not None:
            return ["is_causal and attn_mask: it takes one of them"]
        return []
    found = []
    if given.is_causal:
        found.append("is_causal: it has none for nested tensors")
    if given.attn_mask is not None:
        found.append("attn_mask: torch takes none with nested tensors")
    for name, x in given.tensors().items():
        if not x.transpose(1, 2).is_contiguous():
            found.append(
                f"{name} is nested and not contiguous as (B, L, H, D): call "
                "contiguous() before the heads are brought forward"
            )
    return found


def _in_torchs_words(name: str, given: _Given) -> list[str]:
    """What torch warns when this is the only backend allowed."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if given.call is None:
            return _on_nested(name, given)
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


def _on_nested(name: str, given: _Given) -> list[str]:
    can = {
        "FLASH_ATTENTION": cuda.can_use_flash_attention,
        "EFFICIENT_ATTENTION": cuda.can_use_efficient_attention,
        "CUDNN_ATTENTION": cuda.can_use_cudnn_attention,
    }[name]
    call = cuda.SDPAParams(*given[:6], given.enable_gqa)
    return [] if can(call) else [f"torch.backends.cuda.{can.__name__} says no"]


def _check_nested(tensors: dict[str, Tensor]) -> None:
    for name, x in tensors.items():
        if not x.is_nested or x.layout != torch.jagged or x.dim() != 4:
            raise TypeError(
                f"{name} is not a jagged nested tensor (B, H, L, D): where "
                "one of query, key and value is, all need to be"
            )
