"""Convert mask functions of transformers to masks of attn.

Both are predicates over ``(b, h, q_idx, kv_idx)``, so an ``attn.Mask`` is a
mask function as it is. The other way round, the mask functions that
transformers itself builds are recognised, so that a backend can use a window
as a window.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import and_, or_
from typing import Any

from attn.masks import Mask, causal, chunked, padding, window

_CAUSAL, _ALL = causal(), window()  # needed at every token


def as_mask(function: Callable[..., Any]) -> Mask:
    """Convert a mask function of transformers to a ``Mask``.

    Args:
        function: ``(batch_idx, head_idx, q_idx, kv_idx) -> bool``, over
            absolute positions; indices broadcast.

    Returns:
        A mask with terms if ``function`` is one of transformers' own (causal,
        bidirectional, sliding windows, chunks without padding, padding) or a
        conjunction of them; otherwise an opaque mask that calls it.

    Example:
        >>> from transformers.masking_utils import (
        ...     sliding_window_causal_mask_function,
        ... )
        >>> mask = attn.hf.as_mask(sliding_window_causal_mask_function(2))
        >>> mask.dense(3)[0, 0].long()
        tensor([[1, 0, 0],
                [1, 1, 0],
                [0, 1, 1]])

    Source: transformers 5.23, ``masking_utils``.
    """
    if isinstance(function, Mask):
        return function
    name = _builder_name(function)
    mask = None
    if name:
        cells = getattr(function, "__closure__", None) or ()
        names = function.__code__.co_freevars
        values = (cell.cell_contents for cell in cells)
        mask = _convert(name, dict(zip(names, values, strict=True)))
    name = name or getattr(function, "__name__", "a function")
    return Mask(function, name) if mask is None else mask


def _builder_name(function: Callable[..., Any]) -> str:
    """Return the name of the function of transformers that built it."""
    module = getattr(function, "__module__", "")
    if module != "transformers.masking_utils":
        return ""
    return function.__qualname__.partition(".")[0]


def _convert(name: str, closure: dict[str, Any]) -> Mask | None:
    """Convert what ``name`` built from the variables in its closure."""
    match name:
        case "causal_mask_function":
            return _CAUSAL
        case "bidirectional_mask_function":
            return _ALL
        # A window of 0, for models that have none, is opaque: no key passes.
        case "sliding_window_overlay" if closure["sliding_window"] > 0:
            return window(left=closure["sliding_window"] - 1)
        case "sliding_window_bidirectional_overlay":
            return window(closure["sliding_window"], closure["sliding_window"])
        case "chunked_overlay" if not closure["left_padding"].any():
            return chunked(closure["chunk_size"])
        case "padding_mask_function":
            return padding(closure["padding_mask"].bool())
        case "and_masks":
            return reduce(and_, map(as_mask, closure["mask_functions"]))
        case "or_masks":
            return reduce(or_, map(as_mask, closure["mask_functions"]))
    return None
