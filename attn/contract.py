"""The one contract of every attention function, checked in one place.

``read`` turns the arguments of ``scaled_dot_product_attention`` into a
``Call``: the same arguments, known to be good, with their sizes named. Each
implementation starts from it, so a mistake gets the same clear answer from
all of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NoReturn

import torch
from torch import Tensor

from attn.masks import Mask, causal, check_q_offset
from attn.masks import window as window_mask

Window = tuple[int | None, int | None]
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@dataclass(frozen=True, eq=False)
class Call:
    """One checked call. Sizes use the alphabet of the book.

    ``mask`` holds everything that depends on positions (``is_causal``,
    ``window`` and a ``Mask`` given as ``attn_mask``) as one ``Mask``;
    ``attn_mask`` holds a mask that came as a tensor. Both apply.
    """

    query: Tensor  # (..., H, L, D)
    key: Tensor  # (..., Hkv, S, D)
    value: Tensor  # (..., Hkv, S, Dv)
    attn_mask: Tensor | None  # broadcastable to (..., H, L, S)
    mask: Mask | None
    dropout_p: float
    scale: float
    softcap: float | None
    sinks: Tensor | None  # (H,)
    q_offset: int | Tensor  # or (B,)
    batch_shape: torch.Size
    num_heads: int
    num_kv_heads: int
    q_len: int
    kv_len: int

    @property
    def group_size(self) -> int:
        """Query heads per key/value head, ``G``; 1 when there are none."""
        return self.num_heads // self.num_kv_heads if self.num_heads else 1

    @property
    def compute_dtype(self) -> torch.dtype:
        """float32, or float64 for float64 input."""
        is_double = self.query.dtype == torch.float64
        return torch.float64 if is_double else torch.float32

    def allowed(self) -> Tensor | None:
        """``mask`` as booleans, in the rank of the scores; None: no mask.

        Returns:
            bool, broadcastable to ``(..., H, L, S)``.
        """
        if self.mask is None:
            return None
        dense = self.mask.dense(
            self.q_len,
            self.kv_len,
            batch=self.batch_shape.numel(),
            heads=self.num_heads,
            q_offset=self.q_offset,
            device=self.query.device,
        )  # (B, H, L, S)
        rank = max(self.query.dim(), self.key.dim(), self.value.dim())
        if rank < 4:
            return dense[(0,) * (4 - rank)]
        return dense.unflatten(0, self.batch_shape) if rank > 4 else dense


def read(
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
) -> Call:
    """Check the arguments of an attention call and name their sizes.

    Args:
        query, key, value, attn_mask, dropout_p, is_causal, scale,
            enable_gqa, softcap, sinks, window, q_offset: as in
            ``attn.scaled_dot_product_attention``.

    Returns:
        The checked call.

    Raises:
        TypeError, ValueError: an argument is wrong; the message names the
            argument, what it got and what it needs.
    """
    _check_tensors(query, key, value)
    batch_shape = _batch_shape(query, key, value)
    num_heads, num_kv_heads = _heads(query), _heads(key)
    q_len, kv_len = query.shape[-2], key.shape[-2]
    _check_heads(num_heads, num_kv_heads, _heads(value), enable_gqa)
    for name, flag in (("is_causal", is_causal), ("enable_gqa", enable_gqa)):
        if not isinstance(flag, bool):
            raise TypeError(f"{name} is {flag!r}: it needs True or False")

    mask = attn_mask if isinstance(attn_mask, Mask) else None
    bounds = _check_window(window)
    if bounds is not None:
        mask = _both(window_mask(*bounds), mask)
    if q_offset is None and q_len != kv_len and mask and mask.uses_query:
        _ambiguous(mask, q_len, kv_len)
    if is_causal:
        mask = _both(causal(), mask)

    rank = max(query.dim(), key.dim(), value.dim())
    heads_shape = (num_heads,) if rank > 2 else ()
    scores_shape = (*batch_shape, *heads_shape, q_len, kv_len)
    if isinstance(attn_mask, Mask):
        attn_mask = None
    _check_attn_mask(attn_mask, query, scores_shape)
    return Call(
        query=query,
        key=key,
        value=value,
        attn_mask=attn_mask,
        mask=mask,
        dropout_p=_check_dropout(dropout_p),
        scale=_check_scale(scale, query.shape[-1]),
        softcap=_check_softcap(softcap),
        sinks=_check_sinks(sinks, query, num_heads),
        q_offset=_check_q_offset(q_offset, query, batch_shape),
        batch_shape=batch_shape,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        q_len=q_len,
        kv_len=kv_len,
    )


def _both(first: Mask, second: Mask | None) -> Mask:
    return first if second is None else first & second


def _heads(x: Tensor) -> int:
    return x.shape[-3] if x.dim() > 2 else 1


def _check_tensors(query: Tensor, key: Tensor, value: Tensor) -> None:
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


def _batch_shape(query: Tensor, key: Tensor, value: Tensor) -> torch.Size:
    shapes = [x.shape[:-3] for x in (query, key, value)]
    try:
        return torch.broadcast_shapes(*shapes)
    except RuntimeError:
        names = zip(("query", "key", "value"), shapes, strict=True)
        got = ", ".join(f"{name} {tuple(shape)}" for name, shape in names)
        raise ValueError(
            f"the batch axes of {got} do not broadcast: each pair needs "
            "equal sizes, or a 1"
        ) from None


def _check_heads(h: int, h_key: int, h_value: int, enable_gqa: bool) -> None:
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


def _check_window(window: Window | None) -> Window | None:
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


def _ambiguous(mask: Mask, q_len: int, kv_len: int) -> NoReturn:
    raise ValueError(
        f"query has {q_len} positions and key {kv_len}, and {mask} needs to "
        "know where the queries start: q_offset=0 when both start together, "
        f"q_offset={kv_len - q_len} when the queries are the last tokens "
        "(decoding)"
    )


def _check_attn_mask(
    attn_mask: Tensor | None, query: Tensor, scores: tuple[int, ...]
) -> None:
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


def _check_dropout(dropout_p: float) -> float:
    p = _number("dropout_p", dropout_p, "a number from 0 to 1")
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout_p is {p}: it needs a number from 0 to 1")
    return p


def _check_scale(scale: float | None, head_dim: int) -> float:
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


def _check_softcap(softcap: float | None) -> float | None:
    if softcap is None:
        return None
    cap = _number("softcap", softcap, "a positive number, or None for no cap")
    if not 0.0 < cap < math.inf:
        raise ValueError(
            f"softcap is {cap}: it needs a positive number, or None for no cap"
        )
    return cap


def _check_sinks(
    sinks: Tensor | None, query: Tensor, num_heads: int
) -> Tensor | None:
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


def _check_q_offset(
    q_offset: int | Tensor | None, query: Tensor, batch_shape: torch.Size
) -> int | Tensor:
    if q_offset is None:
        return 0
    check_q_offset(q_offset, batch_shape.numel())
    if isinstance(q_offset, Tensor) and q_offset.device != query.device:
        raise ValueError(
            f"q_offset is on {q_offset.device} and query on {query.device}: "
            "they need the same device"
        )
    return q_offset
