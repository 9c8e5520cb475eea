"""Tiny models of any family of transformers, from its configuration alone.

The fields of a configuration are made small by their names, also in the
configurations of its parts. Where that gives no model that runs with eager
attention, the family is left out.
"""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import torch
import transformers as T
from torch import Tensor, nn
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

from tests.attn.hf_decoders import SMALL
from tests.attn.hf_zoo import COMMON, randomised

FAMILIES = sorted(CONFIG_MAPPING_NAMES)
LARGEST, VOCAB, ROWS, LENGTH = 6_000_000, 64, 2, 6
KINDS = (
    "CAUSAL_LM",
    "SEQ_TO_SEQ_CAUSAL_LM",
    "IMAGE_TEXT_TO_TEXT",
    "SPEECH_SEQ_2_SEQ",
    "MASKED_LM",
)
#: The first pattern that a field's name matches gives its size.
SIZES: dict[str, int] = {
    r"layers?$|^depth$|^num_blocks$|^encoder_depth$": 2,
    r"(_heads|^n_heads?|^num_query_heads)$": 4,
    r"qk_rope_head_dim$": 4,
    r"(head_dim|head_size|d_kv|head_width)$": 8,
    r"q_lora_rank$": 12,
    r"kv_lora_rank$": 8,
    r"(intermediate_size|ffn_dim|d_ff|inner_dim|n_inner|mlp_dim)$": 32,
    r"(ffn_size|ffn_hidden_size|intermediate_dim|hidden_dim)$": 32,
    r"(hidden_size|d_model|n_embd|^dim|embed_dim|hidden_channels)$": 32,
    r"(embedding_size|projection_dim|_width|^width|output_dim)$": 32,
    r"(embedding_dim|emb_dim)$": 32,
    r"vocab_size": VOCAB,
    r"(position_embeddings|_positions?|max_seq_len\w*|n_ctx)$": 64,
    r"(seq_length|max_sequence_length|max_target_length)$": 64,
    r"^image_size$": 16,
    r"^patch_size$": 8,
    r"num_mel_bins": 8,
    r"(num_experts|routed_experts|local_experts)$": 4,
    r"(experts_per_tok|experts_per_token|moe_k|moe_topk)$": 2,
    r"(moe_top_k|router_topk)$": 2,
    r"^(n_group|topk_group|n_groups|num_expert_group)$": 1,
    r"^first_k_dense_replace$": 1,
    r"^label_length$": 2,
    r"^(sliding_window|attention_chunk_size|window_size)$": 4,
    r"^(local_attention|attention_window|index_topk)$": 4,
}
KV_HEADS = re.compile("(key_value_heads|kv_heads|n_head_kv|num_heads_kv)$")
#: Fields that some configurations leave to the checkpoint.
MISSING = {
    "head_dim": 8,
    "vocab_size": VOCAB,
    "num_key_value_heads": 4,
    "num_experts_per_tok": 2,
    "context_length": 4,
    "prediction_length": 4,
}
LAYERS = re.compile("layer_types$|^layers_block_type$|^block_types$")
#: Of hybrids of softmax attention and states, whose sizes must fit each other.
OF_HYBRIDS = SMALL | COMMON
OF_HYBRIDS |= {"hidden_size": 32, "intermediate_size": 32, "vocab_size": VOCAB}
MAMBA = {
    "mamba_n_heads": 8,
    "mamba_d_head": 8,
    "mamba_d_state": 8,
    "mamba_chunk_size": 4,
}
HYBRIDS: dict[str, dict[str, Any]] = {
    "bamba": MAMBA | {"attn_layer_indices": [1], "mamba_n_groups": 1},
    "falcon_h1": MAMBA | {"mamba_d_ssm": 64, "head_dim": 8},
    "granitemoehybrid": MAMBA
    | {
        "layer_types": ["mamba", "attention"],
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "shared_intermediate_size": 32,
    },
    "nemotron_h": {
        "layers_block_type": ["mamba", "attention"],
        "head_dim": 8,
        "mamba_num_heads": 8,
        "mamba_head_dim": 8,
        "ssm_state_size": 8,
        "n_groups": 2,
        "chunk_size": 4,
    },
    "zamba2": {
        "layers_block_type": ["mamba", "hybrid"],
        "num_key_value_heads": 4,
        "num_mem_blocks": 1,
        "n_mamba_heads": 8,
        "mamba_headdim": 8,
        "mamba_ngroups": 1,
        "mamba_d_state": 8,
        "chunk_size": 4,
    },
}


def shrink(config: Any, kv_heads: int) -> Any:
    """Make a configuration small, in place, with those of its parts."""
    for name, x in list(vars(config).items()):
        if isinstance(x, T.PreTrainedConfig):
            shrink(x, kv_heads)
        elif isinstance(x, dict) and "rope_type" in x:
            x["mrope_section"] = [2, 1, 1]
        elif isinstance(x, list) and LAYERS.search(name):
            kinds = list(dict.fromkeys(x))
            setattr(config, name, [*kinds, *kinds][:2])
        elif isinstance(x, (list, tuple)) and name == "image_size":
            config.image_size = [64, 64]
        elif name.endswith("token_id") and type(x) is int:
            short = re.search("^(pad|bos|eos|cls|sep|decoder_start)", name)
            small = 0 if name.startswith("pad") else min(x, 3)
            setattr(config, name, small if short else VOCAB - 4)
        elif type(x) is int and x > 0 and not name.startswith("_"):
            _shrink_field(config, name, x)
        elif x is None and name in MISSING:
            setattr(config, name, MISSING[name])
        if KV_HEADS.search(name) and isinstance(getattr(config, name), int):
            setattr(config, name, kv_heads)
    if getattr(config, "kv_lora_rank", None):  # latent attention
        config.head_dim = config.qk_rope_head_dim
        if hasattr(config, "qk_head_dim"):
            config.qk_head_dim = 12
    if hasattr(config, "attn_layer_period"):
        config.attn_layer_period, config.attn_layer_offset = 2, 1
    if getattr(config, "attn_layer_indices", None):
        config.attn_layer_indices = [1]
    return config


def _shrink_field(config: Any, name: str, x: int) -> None:
    for pattern, size in SIZES.items():
        if re.search(pattern, name):
            is_wide = "head_dim" in name
            setattr(config, name, size if is_wide else min(size, x))
            return


def model_class(family: str) -> type[T.PreTrainedModel] | None:
    """Return a family's language model if there is one, otherwise its body."""
    tables = [f"MODEL_FOR_{kind}_MAPPING_NAMES" for kind in KINDS]
    for table in [*tables, "MODEL_MAPPING_NAMES"]:
        found = getattr(modeling_auto, table).get(family)
        if found:
            found = found if isinstance(found, str) else found[0]
            return getattr(T, found)  # type: ignore[no-any-return]
    return None


def build(family: str, kv_heads: int = 2) -> T.PreTrainedModel:
    """Return a tiny model with random parameters and eager attention.

    Of four heads; not every family shares its keys among them.
    """
    cls = model_class(family)
    if cls is None:
        raise LookupError(f"{family} has no model of its own")
    built = []
    for device in ("meta", "cpu"):  # large ones are left out unmade
        config = shrink(T.AutoConfig.for_model(family), kv_heads)
        config._attn_implementation = "eager"
        with torch.device(device):
            built.append(cls(config))
        if sum(x.numel() for x in built[-1].parameters()) > LARGEST:
            raise LookupError(f"{family} is large")
    floats = (x.is_floating_point() for x in built[1].parameters())
    assert all(floats)
    return randomised(built[1], 0).eval()


def hybrid(family: str) -> T.PreTrainedModel:
    """Return a tiny hybrid with random parameters and eager attention."""
    config = T.AutoConfig.for_model(family, **OF_HYBRIDS | HYBRIDS[family])
    config._attn_implementation = "eager"
    return randomised(model_class(family)(config), 0).eval()


def inputs(model: T.PreTrainedModel) -> dict[str, dict[str, Tensor]]:
    """Return inputs by their names: plain, and padded on either side."""
    g = torch.Generator().manual_seed(1)
    ids = torch.randint(4, VOCAB - 8, (ROWS, LENGTH), generator=g)
    main, config = model.main_input_name, model.config
    shapes = {
        "pixel_values": (_field(config, "num_channels", 3), *_image(config)),
        "input_features": (
            _field(config, "num_mel_bins", 8),
            2 * _field(config, "max_source_positions", 32),
        ),
        "input_values": (2000,),
    }
    if hasattr(config, "subsampling_conv_channels"):
        shapes["input_features"] = (24, 128)  # time first
    plain = {"input_ids": ids}
    if main in shapes:
        plain = {main: torch.randn(ROWS, *shapes[main], generator=g)}
    if main == "past_values":
        plain = _time_series(config, g)
    elif config.is_encoder_decoder:
        plain["decoder_input_ids"] = ids[:, :5]
    cases = {"none": plain}
    accepted = inspect.signature(model.forward).parameters
    if "input_ids" in plain and "attention_mask" in accepted:
        for side, hidden in {"left": slice(2), "right": slice(4, 6)}.items():
            real = torch.ones_like(ids)
            real[1, hidden] = 0
            cases[side] = plain | {"attention_mask": real}
    return cases


def _time_series(config: Any, g: torch.Generator) -> dict[str, Tensor]:
    past = config.context_length + max(config.lags_sequence)
    future = config.prediction_length
    found = {}
    for name, length in {"past": past, "future": future}.items():
        found[f"{name}_values"] = torch.randn(ROWS, length, generator=g)
        size = (ROWS, length, config.num_time_features)
        found[f"{name}_time_features"] = torch.randn(size, generator=g)
    found["past_observed_mask"] = torch.ones(ROWS, past)
    return found


def _image(config: Any) -> tuple[int, int]:
    side = _field(config, "image_size", 16)
    return (side, side) if isinstance(side, int) else tuple(side)


def _field(config: Any, name: str, default: Any) -> Any:
    """Return a field of a configuration or of one of its parts."""
    parts = (x for x in vars(config).values() if hasattr(x, "to_dict"))
    for part in (config, *parts):
        if getattr(part, name, None) is not None:
            return getattr(part, name)
    return default


def tensors(x: Any) -> Iterator[Tensor]:
    """Yield the floating tensors of a model's output."""
    if isinstance(x, Tensor) and x.is_floating_point():
        yield x
    for part in x.values() if isinstance(x, dict) else x:
        if isinstance(part, (Tensor, dict, list, tuple)):
            yield from tensors(part)


def output(model: nn.Module, kwargs: dict[str, Tensor]) -> Tensor:
    """Return what a model computes from the tokens that are real."""
    torch.manual_seed(0)
    result = model(**kwargs)
    out = getattr(result, "logits", None)
    if out is None:
        out = getattr(result, "last_hidden_state", None)
    if out is None:
        out = next(tensors(result))
    real = kwargs.get("attention_mask")
    is_by_token = real is not None and out.shape[:2] == real.shape
    return out[real.bool()] if is_by_token else out
