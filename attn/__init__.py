"""Attention, built by hand: exact, checked, and small enough to read.

The public names load when they are first used, so that reading the book's
sources needs no torch and plotting needs no import here.
"""

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
    from attn.cache import (
        DynamicCache,
        PagedCache,
        PagePool,
        SlidingCache,
        StaticCache,
    )
    from attn.functional import (
        attention_loops,
        attention_weights,
        grouped_attention,
        merge_heads,
        merge_states,
        online_softmax,
        pool_heads,
        repeat_kv,
        scaled_dot_product_attention,
        simple_attention,
        softmax,
        split_heads,
        tiled_attention,
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
    from attn.nn import (
        BatchNorm,
        FeedForward,
        LayerNorm,
        MultiHeadAttention,
        RMSNorm,
        SwiGLU,
        Transformer,
        TransformerBlock,
        gpt2_small,
        llama_style,
    )
    from attn.positions import (
        LearnedPositions,
        NoRope,
        Rope,
        SinusoidalPositions,
        alibi_bias,
        alibi_score,
        alibi_slopes,
        apply_rope,
        convert_pairing,
        position_ids,
        rope_frequencies,
        rope_tables,
        sinusoidal,
    )

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
_HOMES = (
    "attn.functional",
    "attn.api",
    "attn.masks",
    "attn.cache",
    "attn.positions",
    "attn.nn",
)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"attn.{name}")
    if name in __all__:
        for home in _HOMES:
            module = importlib.import_module(home)
            if name in module.__all__:
                return getattr(module, name)
    raise AttributeError(f"module 'attn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
