"""Count what attention costs: parameters, operations, bytes, and the cache.

Everything here is counted, not measured. A multiplication with its addition
is two floating-point operations (FLOPs); a byte is a byte that has to cross
the memory bus once, or to be kept; nothing is rounded.
"""

from attn.cost.attention import (
    AttentionCost,
    attention_cost,
    attention_parameters,
    kv_cache_bytes,
    roofline,
)
from attn.cost.mixers import MixerCost, mixer_cost
from attn.cost.model import ModelShape
from attn.cost.published import PUBLISHED

__all__ = [
    "PUBLISHED",
    "AttentionCost",
    "MixerCost",
    "ModelShape",
    "attention_cost",
    "attention_parameters",
    "kv_cache_bytes",
    "mixer_cost",
    "roofline",
]
