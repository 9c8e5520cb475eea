"""Tiny encoders, and encoders with decoders, of transformers."""

from typing import Any

import transformers as T
from torch import nn

from tests.attn import hf_decoders
from tests.attn.hf_zoo import VOCAB, randomised

SHARED = "num_key_value_heads"  # by no encoder
SMALL = {k: x for k, x in hf_decoders.SMALL.items() if k != SHARED}
BOTH = {
    "d_model": 24,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 20,
    "decoder_ffn_dim": 20,
}
ENCODERS: dict[str, dict[str, Any]] = {
    "bert": SMALL,
    "roberta": SMALL,
    "electra": SMALL | {"embedding_size": 24},
    "distilbert": {"dim": 24, "n_heads": 4, "n_layers": 2, "hidden_dim": 20},
    "modernbert": {
        **SMALL,
        **dict.fromkeys(("bos_token_id", "cls_token_id"), 1),
        **dict.fromkeys(("eos_token_id", "sep_token_id"), 2),
        "pad_token_id": 0,
        "local_attention": 6,
        "global_attn_every_n_layers": 2,
    },
    "t5": {
        "d_model": 24,
        "d_kv": 6,
        "d_ff": 20,
        "num_layers": 2,
        "num_heads": 4,
        "decoder_start_token_id": 0,
    },
    "bart": BOTH | {"max_position_embeddings": 64},
    "whisper": {
        **BOTH,
        "num_mel_bins": 8,
        "max_source_positions": 16,
        "max_target_positions": 32,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "decoder_start_token_id": 1,
    },
}
KINDS = {
    "t5": T.AutoModelForSeq2SeqLM,
    "bart": T.AutoModelForSeq2SeqLM,
    "whisper": T.AutoModelForSpeechSeq2Seq,
}


def encoder(name: str) -> nn.Module:
    """Return a tiny model with random parameters and eager attention."""
    settings = T.AutoConfig.for_model(
        name, **{"vocab_size": VOCAB, **ENCODERS[name]}
    )
    built = KINDS.get(name, T.AutoModel).from_config(
        settings, attn_implementation="eager"
    )
    return randomised(built, 0).eval()
