"""Tiny decoders of transformers, to run with attn's attention.

More families than ``attn.hf.load`` supports, as no weight is mapped here.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM

from tests.attn.hf_zoo import COMMON, VOCAB, ids, randomised

SMALL = {
    "hidden_size": 24,
    "intermediate_size": 20,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
HEADS_OF_6 = {**SMALL, "head_dim": 6}
WINDOW = {"sliding_window": 4}
LAYERED = {"layer_types": ["sliding_attention", "full_attention"]}
EXPERTS = {
    "num_experts": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
}

DECODERS: dict[str, dict[str, Any]] = {
    "llama": SMALL,
    "mistral": SMALL | WINDOW,
    "mixtral": SMALL | EXPERTS,
    "qwen2": SMALL,
    "qwen3": HEADS_OF_6,
    "qwen3_moe": HEADS_OF_6 | EXPERTS,
    "gemma": HEADS_OF_6,
    "gemma2": HEADS_OF_6 | WINDOW | {"attn_logit_softcapping": 2.0},
    "gemma3": HEADS_OF_6 | LAYERED | WINDOW,
    "phi3": SMALL | WINDOW,
    "phi": SMALL | {"partial_rotary_factor": 1.0},
    "olmo2": SMALL,
    "olmo3": SMALL | LAYERED | WINDOW,
    "granite": SMALL | {"attention_multiplier": 0.3},
    "cohere": SMALL,
    "cohere2": HEADS_OF_6 | LAYERED | WINDOW,
    "starcoder2": SMALL | WINDOW,
    "gpt_neox": SMALL,
    "gpt2": {"n_embd": 24, "n_head": 4, "n_layer": 2, "n_positions": 64},
    "stablelm": SMALL | {"hidden_size": 32},
    "glm": HEADS_OF_6,
    "glm4": HEADS_OF_6,
    "nemotron": SMALL | {"hidden_size": 32},
    "smollm3": SMALL,
    "helium": HEADS_OF_6,
    "deepseek_v3": {
        **SMALL,
        "num_key_value_heads": 4,
        "q_lora_rank": 12,
        "kv_lora_rank": 8,
        "qk_rope_head_dim": 4,
        "qk_nope_head_dim": 6,
        "v_head_dim": 8,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "n_group": 1,
        "topk_group": 1,
        "moe_intermediate_size": 16,
        "first_k_dense_replace": 1,
    },
    "llama4": {
        **HEADS_OF_6,
        "attention_chunk_size": 4,
        "intermediate_size_mlp": 20,
        "num_local_experts": 2,
        "layer_types": ["chunked_attention", "full_attention"],
        "no_rope_layers": [1, 0],
        "attn_temperature_tuning": False,
    },
    "gpt_oss": HEADS_OF_6 | EXPERTS | LAYERED | WINDOW,
}
#: Where the name of the text model differs.
TYPES = {"gemma3": "gemma3_text", "llama4": "llama4_text"}


def config(name: str, **changes: Any) -> Any:
    """Return a tiny configuration."""
    fields = {"vocab_size": VOCAB, **COMMON, **DECODERS[name], **changes}
    return AutoConfig.for_model(TYPES.get(name, name), **fields)


def model(name: str, attention: str, **changes: Any) -> nn.Module:
    """Return a tiny causal language model with random parameters."""
    tiny = config(name, **changes)
    # Fused experts do not support float64, which the oracle needs.
    tiny._experts_implementation = "eager"
    net = AutoModelForCausalLM.from_config(tiny, attn_implementation=attention)
    return randomised(net, 0).eval()


def tokens(batch: int = 3, length: int = 11) -> Tensor:
    return ids(batch, length)


def pad(side: str) -> Tensor:
    """Return which tokens are real, in rows of 11, 7 and 10 tokens."""
    real = torch.tensor([11, 7, 10])[:, None]
    place = torch.arange(11)
    return place >= 11 - real if side == "left" else place < real


def distance(got: Tensor, want: Tensor) -> float:
    """Return the largest error; relative, where elements are beyond 1."""
    size = want.abs().max().clamp(min=1)
    return ((got - want).abs().max() / size).item()
