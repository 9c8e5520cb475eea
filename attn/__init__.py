"""Attention, built by hand: exact, checked, and small enough to read.

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

__all__ = [
    "Mask",
    "attention_loops",
    "attention_weights",
    "causal",
    "chunked",
    "documents",
    "functional",
    "grouped_attention",
    "masks",
    "merge_heads",
    "padding",
    "plot",
    "pool_heads",
    "prefix",
    "repeat_kv",
    "scaled_dot_product_attention",
    "simple_attention",
    "sliding_window",
    "softmax",
    "split_heads",
    "window",
]

_MODULES = ("functional", "masks", "plot", "exercises", "grading")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"attn.{name}")
    if name in __all__:
        for home in ("attn.functional", "attn.masks"):
            module = importlib.import_module(home)
            if name in module.__all__:
                return getattr(module, name)
    raise AttributeError(f"module 'attn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
