"""The checks behind ``contract.read``, one function an argument.

Each error names the argument, what it got and what it needs. A function
returns what it was given when nothing is wrong with it, with None made
explicit where None stands for a default.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attn.masks.mask import check_q_offset

Window = tuple[int | None, int | None]
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def tensors(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Three dense float tensors that fit each other."""
    for name, x in (("query", query), ("key", key), ("value", value)):
        if not isinstance(x, Tensor):
            got = type(x).__name__
            raise TypeError(f"{name} is a {got}: it needs a torch.Tensor")
        if x.is_nested:
            raise TypeError(
                f"{name} is a nested tensor: pad it and pass a padding mask"
            )
        if x.layout != torch.strided:
            raise TypeError(
                f"{name} has layout {x.layout}: it needs a dense tensor"
            )
        if x.dim() < 2:
            raise ValueError(
                f"{name} has shape {tuple(x.shape)}: it needs at least two "
                "axes, (sequence, head_dim)"
            )
        if x.dtype not in _FLOATS:
            raise TypeError(
                f"{name} has dtype {x.dtype}: it needs float16, bfloat16, "
                "float32 or float64"
            )
        if x.dtype != query.dtype:
            raise TypeError(
                f"{name} has dtype {x.dtype} and query {query.dtype}: they "
                "need the same"
            )
        if x.device != query.device:
            raise ValueError(
                f"{name} is on {x.device} and query on {query.device}: they "
                "need the same device"
            )
    if key.shape[-1] != query.shape[-1]:
        raise ValueError(
            f"key has head_dim {key.shape[-1]} and query {query.shape[-1]}: "
            "their dot product needs the same"
        )
    if value.shape[-2] != key.shape[-2]:
        raise ValueError(
            f"value has {value.shape[-2]} positions and key "
            f"{key.shape[-2]}: every key needs exactly one value"
        )


def batch_shape(query: Tensor, key: Tensor, value: Tensor) -> torch.Size:
    """The leading axes, broadcast."""
    shapes = [x.shape[:-3] for x in (query, key, value)]
    if shapes[0] == shapes[1] == shapes[2]:  # torch takes 30 µs to say so
        return shapes[0]
    try:
        return torch.broadcast_shapes(*shapes)
    except RuntimeError:
        names = zip(("query", "key", "value"), shapes, strict=True)
        got = ", ".join(f"{name} {tuple(shape)}" for name, shape in names)
        raise ValueError(
            f"the batch axes of {got} do not broadcast: each pair needs "
            "equal sizes, or a 1"
        ) from None


def heads(h: int, h_key: int, h_value: int, enable_gqa: bool) -> None:
    """Equal head counts, or groups of them."""
    if h_key != h_value:
        raise ValueError(
            f"value has {h_value} heads and key {h_key}: they need the same"
        )
    if h == h_key:
        return
    if not enable_gqa:
        raise ValueError(
            f"key has {h_key} heads and query {h}: they need the same, or "
            "enable_gqa=True to let groups of query heads share a key head"
        )
    if h_key == 0 or h % h_key:
        raise ValueError(
            f"key has {h_key} heads and query {h}: enable_gqa needs a "
            "multiple (H % Hkv == 0)"
        )


def window(window: Window | None) -> Window | None:
    """A pair of bounds; None when neither side is bounded."""
    if window is None:
        return None
    if not isinstance(window, tuple | list) or len(window) != 2:
        raise TypeError(
            f"window is {window!r}: it needs a pair (left, right), the "
            "neighbours kept on each side, None for no bound"
        )
    for side, size in zip(("left", "right"), window, strict=True):
        if size is None:
            continue
        if isinstance(size, bool) or not isinstance(size, int):
            raise TypeError(
                f"window has {side} = {size!r}: it needs an int or None"
            )
        if size < 0:
            raise ValueError(
                f"window has {side} = {size}: it needs 0 or more, or None "
                "for no bound on that side"
            )
    left, right = window
    return None if left is None and right is None else (left, right)


def attn_mask(
    attn_mask: Tensor | None, query: Tensor, scores: tuple[int, ...]
) -> None:
    """A mask tensor that broadcasts to the scores, and means one thing."""
    if attn_mask is None:
        return
    if not isinstance(attn_mask, Tensor):
        raise TypeError(
            f"attn_mask is a {type(attn_mask).__name__}: it needs a bool or "
            "float tensor, or an attn Mask"
        )
    if attn_mask.device != query.device:
        raise ValueError(
            f"attn_mask is on {attn_mask.device} and query on "
            f"{query.device}: they need the same device"
        )
    floats = dict.fromkeys((query.dtype, torch.float32))
    if attn_mask.dtype not in (torch.bool, *floats):
        raise TypeError(
            f"attn_mask has dtype {attn_mask.dtype}: it needs bool (True = "
            f"may attend), or {' or '.join(map(str, floats))} to be added to "
            "the scores"
        )
    shape, rank = tuple(attn_mask.shape), len(scores)
    fits = 2 <= len(shape) <= rank and all(
        got in (1, need)
        for got, need in zip(shape[::-1], scores[::-1], strict=False)
    )
    if not fits:
        advice = ""
        if rank == 4 and shape == (scores[0], scores[-1]):
            advice = "; one row a sequence is (B, 1, 1, S)"
        elif rank == 4 and shape == (scores[0], *scores[2:]):
            advice = "; one mask a sequence is (B, 1, L, S)"
        raise ValueError(
            f"attn_mask has shape {shape}: it needs two axes or more that "
            f"broadcast to the scores, {scores}{advice}"
        )
    if (
        rank == 4
        and len(shape) == 3
        and shape[0] == scores[0] == scores[1] > 1
    ):
        raise ValueError(
            f"attn_mask has shape {shape} with {shape[0]} sequences and "
            f"{shape[0]} heads: say which it means, (B, 1, L, S) for one "
            "mask a sequence or (1, H, L, S) for one a head"
        )


def _number(name: str, x: object, need: str) -> float:
    if isinstance(x, bool) or not isinstance(x, int | float):
        raise TypeError(f"{name} is {x!r}: it needs {need}")
    return float(x)


def dropout(dropout_p: float) -> float:
    """A probability."""
    p = _number("dropout_p", dropout_p, "a number from 0 to 1")
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout_p is {p}: it needs a number from 0 to 1")
    return p


def scale(scale: float | None, head_dim: int) -> float:
    """A finite number; the default is ``head_dim ** -0.5``."""
    if scale is None:
        if head_dim == 0:
            raise ValueError(
                "query has head_dim 0: it needs at least 1, or a scale"
            )
        return head_dim**-0.5
    number = _number("scale", scale, "a number, or None for head_dim ** -0.5")
    if not math.isfinite(number):
        raise ValueError(f"scale is {number}: it needs a finite number")
    return number


def softcap(softcap: float | None) -> float | None:
    """A positive number, or None."""
    if softcap is None:
        return None
    cap = _number("softcap", softcap, "a positive number, or None for no cap")
    if not 0.0 < cap < math.inf:
        raise ValueError(
            f"softcap is {cap}: it needs a positive number, or None for no cap"
        )
    return cap


def sinks(
    sinks: Tensor | None, query: Tensor, num_heads: int
) -> Tensor | None:
    """One logit a query head, or None."""
    if sinks is None:
        return None
    if not isinstance(sinks, Tensor) or not sinks.is_floating_point():
        got = (
            sinks.dtype if isinstance(sinks, Tensor) else type(sinks).__name__
        )
        raise TypeError(
            f"sinks is {got}: it needs a float tensor with one logit a head"
        )
    if sinks.shape != (num_heads,):
        raise ValueError(
            f"sinks has shape {tuple(sinks.shape)}: it needs one logit for "
            f"each query head, ({num_heads},)"
        )
    if sinks.device != query.device:
        raise ValueError(
            f"sinks is on {sinks.device} and query on {query.device}: they "
            "need the same device"
        )
    return sinks


def q_offset(
    q_offset: int | Tensor | None, query: Tensor, batch_shape: torch.Size
) -> int | Tensor:
    """A position, or one for each batch row; the default is 0."""
    if q_offset is None:
        return 0
    check_q_offset(q_offset, batch_shape.numel())
    if isinstance(q_offset, Tensor) and q_offset.device != query.device:
        raise ValueError(
            f"q_offset is on {q_offset.device} and query on {query.device}: "
            "they need the same device"
        )
    return q_offset
