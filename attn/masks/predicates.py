"""Predicates over positions, and what combines them.

``functools.partial`` binds their data; pickle finds them in this module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attn import arguments

Predicate = Callable[[Any, Any, Any, Any], Any]


def both(one: Predicate, other: Predicate, *at: Any) -> Any:
    return one(*at) & other(*at)


def either(one: Predicate, other: Predicate, *at: Any) -> Any:
    return one(*at) | other(*at)


def negated(mask: Predicate, *at: Any) -> Any:
    return mask(*at) ^ True  # ~ of a Python bool is an int


def shifted(
    mask: Predicate, q: int, kv: int, b: Any, h: Any, q_idx: Any, kv_idx: Any
) -> Any:
    return mask(b, h, q_idx + q, kv_idx + kv)


def not_after(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
    return kv_idx <= q_idx


def near(
    left: int | None,
    right: int | None,
    b: Any,
    h: Any,
    q_idx: Any,
    kv_idx: Any,
) -> Any:
    near = kv_idx == kv_idx if left is None else q_idx - kv_idx <= left
    return near if right is None else near & (kv_idx - q_idx <= right)


def same_chunk(size: int, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
    return q_idx // size == kv_idx // size


def before(length: int, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
    return kv_idx < length


def before_length(
    lengths: Tensor, b: Any, h: Any, q_idx: Any, kv_idx: Any
) -> Any:
    return kv_idx < _entry(lengths[:, None], b, b * 0)


def same_document(ids: Tensor, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
    """Compare ``ids``, ``(1, S)`` or ``(B, S)``."""
    same = _entry(ids, b, q_idx) == _entry(ids, b, kv_idx)
    return _inside(q_idx, ids) & _inside(kv_idx, ids) & same


def real(valid: Tensor, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
    """Look up ``valid``, ``(1, S)`` or ``(B, S)``."""
    return _inside(kv_idx, valid) & _entry(valid, b, kv_idx)


def real_of_lengths(
    lengths: Tensor, b: Any, h: Any, q_idx: Any, kv_idx: Any
) -> Any:
    return (kv_idx >= 0) & before_length(lengths, b, h, q_idx, kv_idx)


def _entry(rows: Tensor, b: Any, position: Any) -> Any:
    """Return ``rows[b, position]``; one row serves the whole batch."""
    position = torch.as_tensor(position)  # a plain int is allowed, too
    if isinstance(b, Tensor):
        arguments.same_device("the mask's data", rows, "the positions", b)
    row = b if rows.shape[0] > 1 else b * 0
    return rows[row, position.clamp(0, max(rows.shape[1] - 1, 0))]


def _inside(position: Any, rows: Tensor) -> Any:
    return (position >= 0) & (position < rows.shape[1])
