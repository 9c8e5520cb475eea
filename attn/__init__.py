"""Attention, built by hand: from one loop to a fused kernel.

The public names load when they are first used, so that reading the book's
sources needs no torch and plotting needs no import here.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attn import functional, masks, plot
    from attn.functional import (
        attention_loops,
        attention_weights,
        grouped_attention,
        merge_heads,
        pool_heads,
        repeat_kv,
        scaled_dot_product_attention,
        simple_attention,
        softmax,
        split_heads,
    )
    from attn.masks import (
        Mask,
        causal,
        chunked,
        documents,
        padding,
        prefix,
        sliding_window,
        window,
    )

__version__ = "0.1.0"

_NAMES = {
    "attn.functional": (
        "attention_loops",
        "attention_weights",
        "grouped_attention",
        "merge_heads",
        "pool_heads",
        "repeat_kv",
        "scaled_dot_product_attention",
        "simple_attention",
        "softmax",
        "split_heads",
    ),
    "attn.masks": (
        "Mask",
        "causal",
        "chunked",
        "documents",
        "padding",
        "prefix",
        "sliding_window",
        "window",
    ),
}
_MODULES = ("functional", "masks", "plot", "exercises", "grading")
_HOME = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [*_HOME, "functional", "masks", "plot"]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"attn.{name}")
    raise AttributeError(f"module 'attn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
