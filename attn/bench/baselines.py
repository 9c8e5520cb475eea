"""Build the peers of a case: implementations, ready to be timed.

A peer is a call without arguments and its work, in FLOPs or bytes. Speed is
work over time. A peer with other work, a matrix product or a copy, shows the
most that the machine can reach.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import flex_attention

from attn import api, functional, masks
from attn.bench import modules
from attn.bench.case import Case, Sizes
from attn.cache import StaticCache
from attn.profiling import compat

Function = Callable[..., Any]  # of query, key and value


@dataclass(frozen=True)
class Peer:
    """A call to be timed, and its work in FLOPs or bytes."""

    call: Callable[[], Any]
    work: float


Peers = dict[str, Peer | str]


def build(case: Case, sizes: Sizes) -> Peers:
    """Return each peer, which has run once, or why it does not run."""
    if case.gradients:  # a compiled backward pass could run only once
        compat.allow_second_backward()
    tensors = [x.requires_grad_(case.gradients) for x in sizes.tensors()]
    peers: Peers = {}
    for name in case.peers:
        try:
            peer = _peer(name, case, sizes, tensors)
            if case.calls > 1:
                peer = _repeated(peer, case.calls)
            peer.call()
            peers[name] = peer
        except Exception as error:  # compilers have errors of their own
            text = " ".join(str(error).split())[:200]
            peers[name] = text or type(error).__name__
    return peers


def _repeated(peer: Peer, calls: int) -> Peer:
    def repeat() -> None:
        for _ in range(calls):
            peer.call()

    return Peer(repeat, calls * peer.work)


def _peer(name: str, case: Case, sizes: Sizes, tensors: list[Tensor]) -> Peer:
    if case.of_modules:
        return Peer(modules.call(name, case, sizes), sizes.B * sizes.S)
    step = case.step
    if name == "matmul":
        n = 64 if sizes.dry else 8192
        a = torch.randn(n, n, device=sizes.device).to(tensors[0].dtype)
        return Peer(lambda: a @ a, 2 * n**3)
    if name == "copy":
        key = tensors[1]
        copied = 2 * key.numel() * key.element_size()  # read and written
        return Peer(partial(torch.empty_like(key).copy_, key), copied)
    if name == "auto, transposed keys":
        query, *stored = tensors
        shape = (sizes.B, sizes.Hkv, sizes.S, sizes.D)
        kept = StaticCache(
            *shape,
            dtype=query.dtype,
            device=sizes.device,
            transposed_keys=True,
        )
        tensors = [query, *kept.update(*stored)[:2]]
    if name == "triton, packed":  # rows end to end, heads within tokens
        rows = [x.detach().transpose(1, 2).flatten(0, 1) for x in tensors]
        tensors = [x.contiguous().requires_grad_(case.gradients) for x in rows]
    function = _function(name, sizes, tensors, case.tuned)
    if step in ("forward", "decode"):
        work = sizes.flops if step == "forward" else sizes.cache_bytes
        return Peer(partial(function, *tensors), work)
    out = function(*tensors)
    cotangent = torch.randn_like(out)
    if step == "backward":  # five products instead of two
        gradients = partial(torch.autograd.grad, out, tensors, cotangent)
        return Peer(partial(gradients, retain_graph=True), 2.5 * sizes.flops)
    return Peer(  # seven
        lambda: torch.autograd.grad(function(*tensors), tensors, cotangent),
        3.5 * sizes.flops,
    )


def _function(
    name: str, sizes: Sizes, tensors: list[Tensor], tuned: bool
) -> Function:
    """Return an implementation with the options of the computation."""
    sdpa = F.scaled_dot_product_attention
    gqa, decoding = sizes.Hkv != sizes.H, sizes.L != sizes.S
    options: dict[str, Any] = {"enable_gqa": gqa, "is_causal": True}
    if decoding:
        options["q_offset"] = sizes.S - sizes.L
    if sizes.window is not None:
        options = {"window": (sizes.window - 1, 0)}
    match name:
        case "SDPA":
            return partial(sdpa, is_causal=not decoding, enable_gqa=gqa)
        case "FA2":
            return partial(_sdpa_on, SDPBackend.FLASH_ATTENTION)
        case "cuDNN" if sizes.device == "cuda":
            return partial(_sdpa_on, SDPBackend.CUDNN_ATTENTION)
        case "cuDNN":
            raise ValueError("cuDNN is for GPUs")
        case "SDPA with a mask" | "naive":
            dense = _mask(sizes).dense(sizes.L, sizes.S, device=sizes.device)
            naive = functional.simple_attention
            return partial(naive if name == "naive" else sdpa, attn_mask=dense)
        case "two products":
            return _two_products
        case "three products":
            return _three_products
        case "Flex" | "Flex, tuned" | "Flex, tuned, TMA":
            flex: Function = flex_attention
            if not sizes.dry:
                tuning = "max-autotune-no-cudagraphs"
                mode = tuning if name != "Flex" else None
                flex = torch.compile(flex_attention, mode=mode)
            if name.endswith("TMA"):
                flex = partial(flex, kernel_options={"USE_TMA": True})
            mask = None if decoding else _block_mask(sizes)
            return partial(flex, block_mask=mask, enable_gqa=gqa)
        case "triton_split_kv" | "triton, one split":
            from attn.kernels import decode_attention  # needs Triton

            splits = 1 if name == "triton, one split" else None
            return partial(decode_attention, splits=splits)
        case "triton, packed":
            from attn.kernels import varlen_attention

            starts = torch.arange(sizes.B + 1, device=sizes.device) * sizes.L
            ends = starts.int()
            return partial(
                varlen_attention, cu_seqlens_q=ends, cu_seqlens_k=ends,
                max_seqlen_q=sizes.L, is_causal=True,
            )  # fmt: skip
        case "triton":
            return partial(api.attention, impl="triton", **options)
    if tuned and not sizes.dry:
        api.autotune(*tensors, **options)
    return partial(api.attention, **options)


def _two_products(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Compute one token on one key head, in the dtype of the tensors."""
    scores = (q[:, :, 0] * q.shape[-1] ** -0.5) @ k[:, 0].mT  # (B, H, S)
    return (scores.softmax(-1) @ v[:, 0])[:, :, None]


def _three_products(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Keep scores that 16 bits round: a second product has what is lost."""
    query, key = q[0, :, 0], k[0, 0]
    scores = query @ key.mT  # (H, S)
    lost = torch.addmm(scores, query, key.mT, beta=-1)
    scaled = (scores.float() + lost) * q.shape[-1] ** -0.5
    return (scaled.softmax(-1).to(v.dtype) @ v[0, 0])[None, :, None]


def _sdpa_on(backend: SDPBackend, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    with sdpa_kernel(backend):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


@cache  # FlexAttention compiles again for another mask, even an equal one
def _block_mask(sizes: Sizes) -> Any:
    return _mask(sizes).block_mask(sizes.L, sizes.S, device=sizes.device)


def _mask(sizes: Sizes) -> masks.Mask:
    if sizes.window is None:
        return masks.causal()
    return masks.sliding_window(sizes.window)
