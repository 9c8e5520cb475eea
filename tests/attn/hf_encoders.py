"""Tiny encoders, and encoders with decoders, of transformers."""

from __future__ import annotations

import transformers as T

SMALL = {
    "vocab_size": 37,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 20,
    "max_position_embeddings": 64,
}
BOTH = {
    "vocab_size": 37,
    "d_model": 24,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 20,
    "decoder_ffn_dim": 20,
}
ENCODERS = {
    "bert": lambda: (T.BertModel, T.BertConfig(**SMALL)),
    "roberta": lambda: (T.RobertaModel, T.RobertaConfig(**SMALL)),
    "electra": lambda: (
        T.ElectraModel,
        T.ElectraConfig(**SMALL, embedding_size=24),
    ),
    "distilbert": lambda: (
        T.DistilBertModel,
        T.DistilBertConfig(
            vocab_size=37, dim=24, n_heads=4, n_layers=2, hidden_dim=20
        ),
    ),
    "modernbert": lambda: (
        T.ModernBertModel,
        T.ModernBertConfig(
            **SMALL,
            **dict.fromkeys(("bos_token_id", "cls_token_id"), 1),
            **dict.fromkeys(("eos_token_id", "sep_token_id"), 2),
            pad_token_id=0,
            local_attention=6,
            global_attn_every_n_layers=2,
        ),
    ),
    "t5": lambda: (
        T.T5ForConditionalGeneration,
        T.T5Config(
            vocab_size=37,
            d_model=24,
            d_kv=6,
            d_ff=20,
            num_layers=2,
            num_heads=4,
            decoder_start_token_id=0,
        ),
    ),
    "bart": lambda: (
        T.BartForConditionalGeneration,
        T.BartConfig(**BOTH, max_position_embeddings=64),
    ),
    "whisper": lambda: (
        T.WhisperForConditionalGeneration,
        T.WhisperConfig(
            **BOTH,
            num_mel_bins=8,
            max_source_positions=16,
            max_target_positions=32,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
        ),
    ),
}
