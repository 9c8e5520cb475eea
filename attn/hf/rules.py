"""Masks of transformers and of ours: the same predicates, in either hands.

A mask function of transformers and an ``attn.Mask`` both take ``(b, h, q_idx,
kv_idx)`` and say whether that pair is seen. So ours go where theirs are asked
for, as they are. The other way round, those that transformers builds itself
are recognised, so that a backend knows a window when it sees one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import reduce
from operator import and_, or_
from typing import Any

from attn.masks import Mask, causal, chunked, padding, window

__all__ = ["as_mask", "everything"]


def everything() -> Mask:
    """Every token sees every token."""
    return Mask(
        lambda b, h, q_idx, kv_idx: (q_idx == q_idx) & (kv_idx == kv_idx),
        "everything()",
        (),
        uses_query=False,
    )


def as_mask(function: Callable[..., Any]) -> Mask:
    """A mask function of transformers as a ``Mask``.

    Args:
        function: ``(batch_idx, head_idx, q_idx, kv_idx) -> bool``, over
            absolute positions; indices broadcast.

    Returns:
        A mask with terms, where the function is made of what transformers
        itself has: causal, bidirectional, sliding windows, chunks without
        padding, padding, and their conjunctions; else one that asks it.

    Source: transformers 5.23, ``masking_utils``.
    """
    if isinstance(function, Mask):
        return function
    known = _KNOWN.get(_origin(function))
    found = None
    if known:
        found = known(dict(inspect.getclosurevars(function).nonlocals))
    return Mask(function, _name(function)) if found is None else found


def _origin(function: Callable[..., Any]) -> str:
    module = getattr(function, "__module__", "")
    if module != "transformers.masking_utils":
        return ""
    return function.__qualname__.partition(".")[0]


def _name(function: Callable[..., Any]) -> str:
    return _origin(function) or getattr(function, "__name__", "a function")


def _joined(operator: Callable[[Any, Any], Any]) -> Callable[..., Mask]:
    def join(values: dict[str, Any]) -> Mask:
        return reduce(operator, map(as_mask, values["mask_functions"]))

    return join


def _chunks(values: dict[str, Any]) -> Mask | None:
    shifted = bool(values["left_padding"].any())
    return None if shifted else chunked(values["chunk_size"])


_KNOWN: dict[str, Callable[[dict[str, Any]], Mask | None]] = {
    "causal_mask_function": lambda values: causal(),
    "bidirectional_mask_function": lambda values: everything(),
    "sliding_window_overlay": lambda values: window(
        left=values["sliding_window"] - 1
    ),
    "sliding_window_bidirectional_overlay": lambda values: window(
        values["sliding_window"], values["sliding_window"]
    ),
    "chunked_overlay": _chunks,
    "padding_mask_function": lambda values: padding(
        values["padding_mask"].bool()
    ),
    "and_masks": _joined(and_),
    "or_masks": _joined(or_),
}
