"""Attention, built by hand: exact, checked, and small enough to read.

Example:
    >>> import torch
    >>> import attn
    >>> query = torch.randn(1, 8, 100, 64)  # 8 heads, 100 tokens
    >>> key, value = torch.randn(2, 1, 2, 100, 64)  # 2 heads, for 4 each
    >>> call = {"enable_gqa": True, "attn_mask": attn.sliding_window(16)}
    >>> out = attn.attention(query, key, value, **call)
    >>> out.shape
    torch.Size([1, 8, 100, 64])
    >>> exact = attn.scaled_dot_product_attention(query, key, value, **call)
    >>> torch.allclose(out, exact, atol=1e-5)
    True

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
    from attn import distributed as distributed
    from attn import functional as functional
    from attn import hf as hf
    from attn import linear as linear
    from attn import masks as masks
    from attn import nn as nn
    from attn import plot as plot
    from attn import positions as positions
    from attn import profiling as profiling
    from attn import serving as serving
    from attn.api import attention as attention
    from attn.cache import *
    from attn.functional import *
    from attn.linear import *
    from attn.masks import *
    from attn.nn import *
    from attn.positions import *

__version__ = "1.0.0"

_HOMES = {
    "api": "attention",
    "cache": (
        "DynamicCache LatentCache PageAllocator PagePool PagedCache "
        "QuantizedCache SlidingCache StateCache StaticCache"
    ),
    "functional": (
        "attention_loops attention_weights grouped_attention merge_heads "
        "merge_states online_softmax pool_heads repeat_kv "
        "scaled_dot_product_attention simple_attention softmax split_heads "
        "tiled_attention"
    ),
    "linear": "gated_delta_rule linear_attention short_convolution",
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
_MODULES = (
    *_HOMES,
    *("cost", "data", "distributed", "hf", "masks", "plot", "profiling"),
    "serving",
)


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
        home = importlib.import_module(f"attn.{_HOME_OF[name]}")
        return globals().setdefault(name, getattr(home, name))
    if name in (*_MODULES, "exercises", "grading"):
        try:
            return importlib.import_module(f"attn.{name}")
        except ModuleNotFoundError as error:
            package = (error.name or "attn").partition(".")[0]
            if package == "attn":
                raise
            said = f"attn.{name} needs {package}: pip install {package}"
            raise ModuleNotFoundError(said, name=package) from None
    raise AttributeError(f"module 'attn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
