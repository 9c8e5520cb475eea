"""Tiny decoders of transformers, to run with attn's attention.

More families than ``attn.hf.load`` supports, as no weight is mapped here.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

import torch
from torch import Tensor, nn

from tests.attn.hf_zoo import COMMON, VOCAB, randomised

SMALL = {
    "hidden_size": 24,
    "intermediate_size": 20,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
HEADS_OF_6 = {**SMALL, "head_dim": 6}
LAYERED = {"layer_types": ["sliding_attention", "full_attention"]}
EXPERTS = {
    "num_experts": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
}

# name: (folder, class, configuration)
DECODERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("llama", "Llama", SMALL),
    "mistral": ("mistral", "Mistral", {**SMALL, "sliding_window": 4}),
    "mixtral": ("mixtral", "Mixtral", {**SMALL, **EXPERTS}),
    "qwen2": ("qwen2", "Qwen2", SMALL),
    "qwen3": ("qwen3", "Qwen3", HEADS_OF_6),
    "qwen3_moe": ("qwen3_moe", "Qwen3Moe", {**HEADS_OF_6, **EXPERTS}),
    "gemma": ("gemma", "Gemma", HEADS_OF_6),
    "gemma2": (
        "gemma2",
        "Gemma2",
        {**HEADS_OF_6, "sliding_window": 4, "attn_logit_softcapping": 2.0},
    ),
    "gemma3": (
        "gemma3",
        "Gemma3:Gemma3Text",
        {**HEADS_OF_6, **LAYERED, "sliding_window": 4},
    ),
    "phi3": ("phi3", "Phi3", {**SMALL, "sliding_window": 4}),
    "phi": (
        "phi",
        "Phi",
        {**SMALL, "partial_rotary_factor": 1.0},
    ),
    "olmo2": ("olmo2", "Olmo2", SMALL),
    "olmo3": ("olmo3", "Olmo3", {**SMALL, **LAYERED, "sliding_window": 4}),
    "granite": ("granite", "Granite", {**SMALL, "attention_multiplier": 0.3}),
    "cohere": ("cohere", "Cohere", SMALL),
    "cohere2": (
        "cohere2",
        "Cohere2",
        {**HEADS_OF_6, **LAYERED, "sliding_window": 4},
    ),
    "starcoder2": ("starcoder2", "Starcoder2", {**SMALL, "sliding_window": 4}),
    "gpt_neox": ("gpt_neox", "GPTNeoX", SMALL),
    "gpt2": (
        "gpt2",
        "GPT2:GPT2:GPT2LMHeadModel",
        {"n_embd": 24, "n_head": 4, "n_layer": 2, "n_positions": 64},
    ),
    "stablelm": ("stablelm", "StableLm", {**SMALL, "hidden_size": 32}),
    "glm": ("glm", "Glm", HEADS_OF_6),
    "glm4": ("glm4", "Glm4", HEADS_OF_6),
    "nemotron": ("nemotron", "Nemotron", {**SMALL, "hidden_size": 32}),
    "smollm3": ("smollm3", "SmolLM3", SMALL),
    "helium": ("helium", "Helium", HEADS_OF_6),
    "deepseek_v3": (
        "deepseek_v3",
        "DeepseekV3",
        {
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
    ),
    "llama4": (
        "llama4",
        "Llama4:Llama4Text",
        {
            **HEADS_OF_6,
            "attention_chunk_size": 4,
            "intermediate_size_mlp": 20,
            "num_local_experts": 2,
            "layer_types": ["chunked_attention", "full_attention"],
            "no_rope_layers": [1, 0],
            "attn_temperature_tuning": False,
        },
    ),
    "gpt_oss": (
        "gpt_oss",
        "GptOss",
        {**HEADS_OF_6, **EXPERTS, **LAYERED, "sliding_window": 4},
    ),
}


def config(name: str, **changes: Any) -> Any:
    """Return a tiny configuration."""
    folder, prefix, base = DECODERS[name]
    home = f"transformers.models.{folder}.configuration_{folder}"
    cls = prefix.split(":")[1] if ":" in prefix else prefix
    made = getattr(importlib.import_module(home), f"{cls}Config")
    return made(**{"vocab_size": VOCAB, **COMMON, **base, **changes})


def model(name: str, attention: str, **changes: Any) -> nn.Module:
    """Return a tiny causal language model with random parameters."""
    folder, prefix, _ = DECODERS[name]
    home = f"transformers.models.{folder}.modeling_{folder}"
    parts = prefix.split(":")
    cls = parts[2] if len(parts) > 2 else f"{parts[0]}ForCausalLM"
    made = getattr(importlib.import_module(home), cls)
    settings = config(name, **changes)
    # Fused experts do not support float64, which the oracle needs.
    settings._experts_implementation = "eager"
    built = made._from_config(settings, attn_implementation=attention)
    return randomised(built, 0).eval()


@functools.cache
def tokens(batch: int = 3, length: int = 11) -> torch.Tensor:
    g = torch.Generator().manual_seed(1)
    return torch.randint(3, VOCAB, (batch, length), generator=g)


def pad(side: str) -> Tensor:
    """Return which tokens are real, in rows of 11, 7 and 10 tokens."""
    real = torch.tensor([11, 7, 10])[:, None]
    place = torch.arange(11)
    return place >= 11 - real if side == "left" else place < real


def size(x: Tensor) -> float:
    """Return the largest absolute element, at least 1."""
    return max(1.0, x.abs().max().item())
