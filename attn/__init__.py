"""Attention, built by hand: exact, checked, and small enough to read.

The public names load on first use: reading the book's sources needs no torch,
and importing ``attn`` loads neither Triton nor transformers.
"""

# Type checkers read the star imports; at run time __getattr__ serves them.
# ruff: noqa: F403, F405

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attn import (
        api,
        cache,
        cost,
        functional,
        hf,
        masks,
        nn,
        plot,
        positions,
        profiling,
    )
    from attn.api import attention
    from attn.cache import *
    from attn.functional import *
    from attn.masks import *
    from attn.nn import *
    from attn.positions import *

__version__ = "0.1.0"

__all__ = [
    "BatchNorm",
    "DynamicCache",
    "FeedForward",
    "LayerNorm",
    "LearnedPositions",
    "Mask",
    "MultiHeadAttention",
    "NoRope",
    "PagePool",
    "PagedCache",
    "RMSNorm",
    "Rope",
    "SinusoidalPositions",
    "SlidingCache",
    "StaticCache",
    "SwiGLU",
    "Transformer",
    "TransformerBlock",
    "alibi_bias",
    "alibi_score",
    "alibi_slopes",
    "api",
    "apply_rope",
    "attention",
    "attention_loops",
    "attention_weights",
    "cache",
    "causal",
    "chunked",
    "convert_pairing",
    "cost",
    "documents",
    "functional",
    "gpt2_small",
    "grouped_attention",
    "hf",
    "llama_style",
    "masks",
    "merge_heads",
    "merge_states",
    "nn",
    "online_softmax",
    "padding",
    "plot",
    "pool_heads",
    "position_ids",
    "positions",
    "prefix",
    "profiling",
    "repeat_kv",
    "rope_frequencies",
    "rope_tables",
    "scaled_dot_product_attention",
    "simple_attention",
    "sinusoidal",
    "sliding_window",
    "softmax",
    "split_heads",
    "tiled_attention",
    "window",
]

_MODULES = (
    "api",
    "cache",
    "cost",
    "exercises",
    "functional",
    "grading",
    "hf",
    "masks",
    "nn",
    "plot",
    "positions",
    "profiling",
)
_HOMES = ("functional", "api", "masks", "cache", "positions", "nn")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"attn.{name}")
    if name in __all__:
        for home in _HOMES:
            module = importlib.import_module(f"attn.{home}")
            if name in module.__all__:
                return getattr(module, name)
    raise AttributeError(f"module 'attn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
