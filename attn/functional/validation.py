"""The checks behind ``inputs.validate``, one function an argument.

Each error names the argument, what it must be and what it is. A function
returns a valid argument, with the default in the place of None. Only a
refusal enters ``arguments``, so that nine files lead to the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import zip_longest
from numbers import Integral, Real

import torch
from torch import Tensor

from attn import arguments, tracing
from attn.masks.extent import check_q_offset

Window = tuple[int | None, int | None]
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def tensors(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Require three dense float tensors that fit each other."""
    for name, x in (("query", query), ("key", key), ("value", value)):
        if not isinstance(x, Tensor):
            arguments.tensor(name, x)
        if x.is_nested:
            raise TypeError(
                f"{name} must be dense; got a nested tensor: pad it and pass "
                "a padding mask"
            )
        if x.layout != torch.strided:
            raise TypeError(
                f"{name} must be a dense tensor; got layout {x.layout}"
            )
        if x.dim() < 2:
            raise ValueError(
                f"{name} must have at least two axes, (sequence, head_dim); "
                f"got shape {tuple(x.shape)}"
            )
        if x.dtype not in _FLOATS:
            raise TypeError(
                f"{name} must be float16, bfloat16, float32 or float64; got "
                f"{x.dtype}"
            )
        if x.dtype != query.dtype:
            advice = ": autocast leaves that to you, pass x.to(query.dtype)"
            advice = advice if tracing.is_autocast(query.device) else ""
            raise TypeError(
                f"{name} must have the dtype of query, {query.dtype}; got "
                f"{x.dtype}{advice}"
            )
        _on_device(name, x, query)
    if key.shape[-1] != query.shape[-1]:
        raise ValueError(
            f"key must have the head_dim of query, {query.shape[-1]}; got "
            f"{key.shape[-1]}"
        )
    if value.shape[-2] != key.shape[-2]:
        raise ValueError(
            f"value must have one position for each key, {key.shape[-2]}; "
            f"got {value.shape[-2]}"
        )


def batch_shape(query: Tensor, key: Tensor, value: Tensor) -> torch.Size:
    """Return the leading axes, broadcast."""
    q, k, v = (tuple(x.shape[:-3]) for x in (query, key, value))
    if q == k == v:
        return query.shape[:-3]
    # torch.broadcast_shapes imports sympy, in half a second.
    shape = []
    for sizes in zip_longest(q[::-1], k[::-1], v[::-1], fillvalue=1):
        wide = [n for n in sizes if n != 1]
        if any(n != wide[0] for n in wide):
            raise ValueError(
                "the batch axes must broadcast, with equal sizes or a 1; got "
                f"query {q}, key {k}, value {v}"
            )
        shape.append(wide[0] if wide else 1)
    return torch.Size(shape[::-1])


def heads(h: int, h_key: int, h_value: int, enable_gqa: bool) -> None:
    """Require equal numbers of heads, or groups of them."""
    if h_key != h_value:
        raise ValueError(
            f"value must have as many heads as key, {h_key}; got {h_value}"
        )
    if h == h_key:
        return
    if not enable_gqa:
        raise ValueError(
            f"key must have as many heads as query, {h}; got {h_key}: pass "
            "enable_gqa=True to let groups of query heads share a key head"
        )
    if h_key == 0 or h % h_key:
        raise ValueError(
            "with enable_gqa, the heads of query must be a multiple of those "
            f"of key (H % Hkv == 0); got {h} and {h_key}"
        )


def window(window: Window | None) -> Window | None:
    """Return a pair of bounds; None when neither side is bounded."""
    if window is None:
        return None
    if not isinstance(window, tuple | list) or len(window) != 2:
        raise TypeError(
            "window must be a pair (left, right), the neighbours kept on each "
            f"side, None for no bound; got {window!r}"
        )
    for side, size in zip(("left", "right"), window, strict=True):
        if size is None:
            continue
        if isinstance(size, bool) or not isinstance(size, Integral):
            raise TypeError(
                f"{side} of window must be an int or None; got {size!r}"
            )
        if size < 0:
            raise ValueError(
                f"{side} of window must be 0 or more, or None for no bound on "
                f"that side; got {size}"
            )
    left, right = window
    return None if left is None and right is None else (left, right)


def attn_mask(
    attn_mask: Tensor, query: Tensor, scores: tuple[int, ...]
) -> None:
    """Require an unambiguous tensor that broadcasts to the scores."""
    if not isinstance(attn_mask, Tensor):
        need = "a bool or float tensor, or an attn Mask"
        arguments.instance("attn_mask", attn_mask, Tensor, need)
    _on_device("attn_mask", attn_mask, query)
    floats = dict.fromkeys((query.dtype, torch.float32))
    if attn_mask.dtype not in (torch.bool, *floats):
        raise TypeError(
            "attn_mask must be bool (True = may attend), or "
            f"{' or '.join(map(str, floats))}, added to the scores; got "
            f"{attn_mask.dtype}"
        )
    shape, rank = tuple(attn_mask.shape), len(scores)
    fits = 2 <= len(shape) <= rank and all(
        got in (1, need)
        for got, need in zip(shape[::-1], scores[::-1], strict=False)
    )
    if not fits:
        advice = ""
        if rank == 4 and shape == (scores[0], scores[-1]):
            advice = (
                ": one row a sequence is (B, 1, 1, S); for padding pass "
                "attn.padding(valid), or key_padding_mask to a module"
            )
        elif rank == 4 and shape == (scores[0], *scores[2:]):
            advice = ": one mask a sequence is (B, 1, L, S)"
        raise ValueError(
            "attn_mask must have two axes or more that broadcast to the "
            f"scores, {scores}; got {shape}{advice}"
        )
    if (rank, len(shape)) == (4, 3) and shape[0] == scores[0] == scores[1] > 1:
        raise ValueError(
            f"attn_mask of shape {shape} is ambiguous with {shape[0]} "
            f"sequences and {shape[0]} heads: pass (B, 1, L, S) for one mask "
            "a sequence or (1, H, L, S) for one a head"
        )


def _number(
    name: str, x: object, need: str, fits: Callable[[float], bool]
) -> float:
    if isinstance(x, bool) or not isinstance(x, Real):
        raise TypeError(f"{name} must be {need}; got {x!r}")
    if not fits(float(x)):
        raise ValueError(f"{name} must be {need}; got {float(x)}")
    return float(x)


def dropout(dropout_p: float) -> float:
    """Return a probability."""
    need = "a number from 0 to 1"
    return _number("dropout_p", dropout_p, need, lambda p: 0.0 <= p <= 1.0)


def scale(scale: float | None, head_dim: int) -> float:
    """Return a finite number, by default ``head_dim ** -0.5``."""
    if scale is None and head_dim == 0:
        raise ValueError("head_dim must be at least 1 without a scale; got 0")
    if scale is None:
        return head_dim**-0.5
    need = "a number, or None for head_dim ** -0.5"
    number = _number("scale", scale, need, lambda _: True)
    if not math.isfinite(number):
        raise ValueError(f"scale must be finite; got {number}")
    return number


def softcap(softcap: float | None) -> float | None:
    """Return a positive number, or None."""
    if softcap is None:
        return None
    need = "a positive number, or None for no cap"
    return _number("softcap", softcap, need, lambda cap: 0 < cap < math.inf)


def sinks(
    sinks: Tensor | None, query: Tensor, num_heads: int
) -> Tensor | None:
    """Return one logit a query head, or None."""
    if sinks is None:
        return None
    is_tensor = isinstance(sinks, Tensor)
    if not is_tensor or not sinks.is_floating_point():
        got = sinks.dtype if is_tensor else type(sinks).__name__
        raise TypeError(
            f"sinks must be a float tensor with one logit a head; got {got}"
        )
    if sinks.shape != (num_heads,):
        raise ValueError(
            f"sinks must have one logit for each query head, ({num_heads},); "
            f"got shape {tuple(sinks.shape)}"
        )
    _on_device("sinks", sinks, query)
    return sinks.contiguous()  # as kernels read them


def q_offset(
    q_offset: int | Tensor | None, query: Tensor, batch_shape: torch.Size
) -> int | Tensor:
    """Return a position, or a tensor of them; by default 0."""
    if q_offset is None:
        return 0
    if isinstance(q_offset, Tensor):
        _on_device("q_offset", q_offset, query)
    check_q_offset(q_offset, math.prod(batch_shape))
    return q_offset


def _on_device(name: str, x: Tensor, query: Tensor) -> None:
    if x.device != query.device:
        arguments.same_device(name, x, "query", query)


def needs_grad(*tensors: Tensor | None) -> bool:
    """Return whether autograd records any of some tensors."""
    return torch.is_grad_enabled() and any(
        x is not None and x.requires_grad for x in tensors
    )


def no_grad(instead: str, **tensors: Tensor | None) -> None:
    """Refuse tensors whose gradient would be lost.

    Args:
        instead: what computes it.
        tensors: by name.
    """
    if names := [name for name, x in tensors.items() if needs_grad(x)]:
        raise ValueError(
            f"{' and '.join(names)} must not require a gradient, which is not "
            f"computed here: use torch.no_grad(), or {instead}"
        )
