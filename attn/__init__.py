"""Attention, built by hand: exact, checked, and small enough to read.

The public names load on first use: reading the book's sources needs no torch,
and importing ``attn`` loads neither Triton nor transformers.
"""

# Type checkers read the star imports; at run time __getattr__ serves them.
# ruff: noqa: F403

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attn import api as api
    from attn import cache as cache
    from attn import cost as cost
    from attn import data as data
    from attn import functional as functional
    from attn import hf as hf
    from attn import masks as masks
    from attn import nn as nn
    from attn import plot as plot
    from attn import positions as positions
    from attn import profiling as profiling
    from attn.api import attention as attention
    from attn.cache import *
    from attn.functional import *
    from attn.masks import *
    from attn.nn import *
    from attn.positions import *

__version__ = "0.1.0"

_HOMES = {
    "api": "attention",
    "cache": (
        "DynamicCache PagePool PagedCache QuantizedCache SlidingCache "
        "StaticCache"
    ),
    "functional": (
        "attention_loops attention_weights grouped_attention merge_heads "
        "merge_states online_softmax pool_heads repeat_kv "
        "scaled_dot_product_attention simple_attention softmax split_heads "
        "tiled_attention"
    ),
    "nn": (
        "BatchNorm FeedForward LayerNorm MultiHeadAttention RMSNorm SwiGLU "
        "Transformer TransformerBlock TransformerConfig generate gpt2_small "
        "llama_style"
    ),
    "positions": (
        "LearnedPositions NoRope Rope SinusoidalPositions alibi_bias "
        "alibi_score alibi_slopes apply_rope convert_pairing position_ids "
        "rope_frequencies rope_tables sinusoidal"
    ),
}
_MODULES = (*_HOMES, "cost", "data", "hf", "masks", "plot", "profiling")


def _masks() -> list[str]:
    """Read the names of the masks, from the one list, without torch."""
    source = Path(__file__).parent / "masks" / "patterns.py"
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and "__all__" in ast.dump(node):
            return ast.literal_eval(node.value)
    raise ImportError(f"{source} must list its masks in __all__")


_HOME_OF = {name: home for home in _HOMES for name in _HOMES[home].split()}
_HOME_OF |= dict.fromkeys(["Mask", "dependency_mask", *_masks()], "masks")

__all__ = sorted([*_HOME_OF, *_MODULES])


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(importlib.import_module(f"attn.{_HOME_OF[name]}"), name)
    if name in (*_MODULES, "exercises", "grading"):
        return importlib.import_module(f"attn.{name}")
    raise AttributeError(f"module 'attn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
