"""Who takes part in each comparison.

A peer is a call without arguments and the work that it stands for. Speeds
are work over time, so that a peer with other work (a copy, a product of
matrices) can be the measure of what a machine gives at most.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from attn import api, functional, masks

__all__ = [
    "Peer",
    "Sizes",
    "backward",
    "decode",
    "forward",
    "prefill",
    "training",
    "window",
]

Peers = dict[str, "Peer | str"]


@dataclass(frozen=True)
class Peer:
    """Something to be timed. ``work`` is in FLOPs or bytes."""

    call: Callable[[], Any]
    work: float


@dataclass(frozen=True)
class Sizes:
    """The sizes of a call, in the alphabet of the book."""

    L: int
    S: int
    H: int
    Hkv: int
    D: int
    B: int = 1
    window: int | None = None
    dtype: str = "bfloat16"
    device: str = "cpu"
    dry: bool = False

    def but(self, **changes: Any) -> Sizes:
        """The same with other sizes."""
        return replace(self, **changes)

    def small(self) -> Sizes:
        """For a dry run: enough for every line of code, and no more."""
        window = None if self.window is None else 8
        L, S = min(self.L, 32), min(self.S, 32)  # noqa: N806
        H, Hkv = (4, 2) if self.Hkv != self.H else (2, 2)  # noqa: N806
        return self.but(
            L=L, S=S, H=H, Hkv=Hkv, D=16, B=1, window=window, dry=True
        )

    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value, from a fixed seed."""
        g = torch.Generator(self.device).manual_seed(0)
        dtype = getattr(torch, self.dtype)

        def draw(heads: int, length: int) -> Tensor:
            return torch.randn(
                self.B, heads, length, self.D, generator=g, device=self.device
            ).to(dtype)

        key, value = draw(self.Hkv, self.S), draw(self.Hkv, self.S)
        return draw(self.H, self.L), key, value

    @property
    def pairs(self) -> int:
        """Scores that count, of all heads: causal, within the window."""
        last = self.window or self.S
        start = self.S - self.L
        seen = (min(start + i + 1, last) for i in range(self.L))
        return self.B * self.H * sum(seen)

    @property
    def cache_bytes(self) -> int:
        """What decoding has to read."""
        numbers = 2 * self.B * self.Hkv * self.S * self.D
        return numbers * getattr(torch, self.dtype).itemsize


def forward(sizes: Sizes) -> Peers:
    """Causal attention by everybody, and a product of matrices."""
    q, k, v = sizes.tensors()
    work = 4 * sizes.pairs * sizes.D
    said = {"is_causal": True}
    found: Peers = {
        name: _backend(backend, q, k, v, work)
        for name, backend in _BACKENDS.items()
    }
    found["Flex"] = _flex(sizes, masks.causal(), q, k, v, work)
    found["triton"] = _ours("triton", q, k, v, work, **said)
    found["auto"] = _auto(sizes, q, k, v, work, **said)
    n = 64 if sizes.dry else 8192
    a = torch.randn(n, n, device=q.device).to(q.dtype)
    found["matmul"] = Peer(lambda: a @ a, 2 * n**3)
    return found


def backward(sizes: Sizes) -> Peers:
    """Gradients of query, key and value alone: forward has been done."""
    work = 2.5 * 4 * sizes.pairs * sizes.D  # five products for two
    # A compiled backward pass may run once, unless it is compiled like this.
    torch._functorch.config.donated_buffer = False

    def gradients(one: Peer | str, *tensors: Tensor) -> Peer | str:
        if isinstance(one, str):
            return one
        out = one.call()
        cotangent = torch.randn_like(out)
        return _if_it_runs(
            lambda: torch.autograd.grad(
                out, tensors, cotangent, retain_graph=True
            ),
            work,
        )

    q, k, v = (x.requires_grad_() for x in sizes.tensors())
    found: Peers = {
        name: gradients(_backend(backend, q, k, v, work), q, k, v)
        for name, backend in _BACKENDS.items()
    }
    flex = _flex(sizes, masks.causal(), q, k, v, work)
    found["Flex"] = gradients(flex, q, k, v)
    said = {"is_causal": True}
    found["triton"] = gradients(
        _ours("triton", q, k, v, work, **said), q, k, v
    )
    found["auto"] = gradients(_auto(sizes, q, k, v, work, **said), q, k, v)
    return found


def window(sizes: Sizes) -> Peers:
    """A causal window: whoever cannot be told gets a mask."""
    q, k, v = sizes.tensors()
    size = sizes.window or sizes.S
    work = 4 * sizes.pairs * sizes.D
    rule = masks.sliding_window(size)
    dense = rule.dense(sizes.L, sizes.S, device=q.device)
    said = {"window": (size - 1, 0)}
    found: Peers = {
        "SDPA with a mask": Peer(
            lambda: F.scaled_dot_product_attention(q, k, v, dense), work
        ),
        "Flex": _flex(sizes, rule, q, k, v, work),
        "auto": _auto(sizes, q, k, v, work, **said),
    }
    if sizes.device == "cuda" or sizes.dry:
        found["triton"] = _ours("triton", q, k, v, work, **said)
    return found


def decode(sizes: Sizes) -> Peers:
    """One new token. The work is the bytes of the cache."""
    q, k, v = sizes.tensors()
    work = sizes.cache_bytes
    said = {
        "enable_gqa": True,
        "is_causal": True,
        "q_offset": sizes.S - sizes.L,
    }
    found: Peers = {
        "SDPA": Peer(
            lambda: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
            work,
        ),
        "auto": _auto(sizes, q, k, v, work, **said),
    }
    if sizes.device == "cuda" or sizes.dry:
        found["triton_split_kv"] = _decode_kernel(q, k, v, work)
        found["Flex"] = _flex(sizes, None, q, k, v, work)
        target = torch.empty_like(k)
        read_and_written = 2 * k.numel() * k.element_size()
        found["copy"] = Peer(lambda: target.copy_(k), read_and_written)
    return found


def prefill(sizes: Sizes) -> Peers:
    """A prompt, on a CPU: torch, the nine-line formula, and ours."""
    q, k, v = sizes.tensors()
    work = 4 * sizes.pairs * sizes.D
    mask = masks.causal().dense(sizes.L, sizes.S, device=q.device)[0, 0]
    return {
        "SDPA": Peer(
            lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True),
            work,
        ),
        "naive": Peer(
            lambda: functional.simple_attention(q, k, v, mask), work
        ),
        "auto": _auto(sizes, q, k, v, work, is_causal=True),
    }


def training(sizes: Sizes) -> Peers:
    """A prompt and its gradients, on a CPU."""
    tensors = [x.requires_grad_() for x in sizes.tensors()]
    work = 3.5 * 4 * sizes.pairs * sizes.D  # seven products for two

    def both(one: Peer | str) -> Peer | str:
        if isinstance(one, str):
            return one
        cotangent = torch.randn_like(one.call())
        return Peer(
            lambda: torch.autograd.grad(one.call(), tensors, cotangent), work
        )

    q, k, v = tensors
    torchs = Peer(
        lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True), work
    )
    return {
        "SDPA": both(torchs),
        "auto": both(_auto(sizes, q, k, v, work, is_causal=True)),
    }


# --- one peer each -----------------------------------------------------------

_BACKENDS = {
    "FA2": SDPBackend.FLASH_ATTENTION,
    "cuDNN": SDPBackend.CUDNN_ATTENTION,
    "SDPA": None,  # whichever PyTorch selects
}


def _backend(
    backend: SDPBackend | None, q: Tensor, k: Tensor, v: Tensor, work: float
) -> Peer | str:
    if backend is SDPBackend.CUDNN_ATTENTION and not q.is_cuda:
        return "cuDNN is for GPUs"

    def call() -> Tensor:
        with nullcontext() if backend is None else sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    return _if_it_runs(call, work)


_BLOCK_MASKS: dict[tuple[str, int, int, str], Any] = {}


def _flex(
    sizes: Sizes,
    rule: Any,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    work: float,
) -> Peer | str:
    from torch.nn.attention.flex_attention import flex_attention

    block_mask = None
    if rule is not None:
        # Flex compiles again for another mask, even with the same meaning.
        key = (str(rule), sizes.L, sizes.S, sizes.device)
        if key not in _BLOCK_MASKS:
            _BLOCK_MASKS[key] = rule.block_mask(*key[1:3], device=key[3])
        block_mask = _BLOCK_MASKS[key]
    run = flex_attention if sizes.dry else torch.compile(flex_attention)
    return _if_it_runs(
        lambda: run(
            q, k, v, block_mask=block_mask, enable_gqa=sizes.Hkv != sizes.H
        ),
        work,
    )


def _auto(
    sizes: Sizes, q: Tensor, k: Tensor, v: Tensor, work: float, **said: Any
) -> Peer | str:
    if not sizes.dry:
        api.autotune(q, k, v, **said)
    return _if_it_runs(lambda: api.attention(q, k, v, **said), work)


def _ours(
    impl: str, q: Tensor, k: Tensor, v: Tensor, work: float, **said: Any
) -> Peer | str:
    return _if_it_runs(lambda: api.attention(q, k, v, impl=impl, **said), work)


def _decode_kernel(q: Tensor, k: Tensor, v: Tensor, work: float) -> Peer | str:
    if importlib.util.find_spec("triton") is None:
        return "triton is not installed"
    from attn.kernels import decode_attention

    return _if_it_runs(lambda: decode_attention(q, k, v), work)


def _if_it_runs(call: Callable[[], Any], work: float) -> Peer | str:
    try:
        call()
    except Exception as error:  # compilers have errors of their own
        return " ".join(str(error).split())[:200] or type(error).__name__
    return Peer(call, work)
