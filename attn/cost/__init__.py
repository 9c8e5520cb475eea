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
from attn.cost.latent import latent_attention_cost, latent_cache_bytes
from attn.cost.linear import linear_cost, state_bytes
from attn.cost.mixers import MixerCost, mixer_cost
from attn.cost.model import ModelShape
from attn.cost.published import PUBLISHED

__all__ = [
    "attention_cost",
    "AttentionCost",
    "attention_parameters",
    "kv_cache_bytes",
    "roofline",
    "latent_attention_cost",
    "latent_cache_bytes",
    "linear_cost",
    "state_bytes",
    "mixer_cost",
    "MixerCost",
    "ModelShape",
    "PUBLISHED",
]
