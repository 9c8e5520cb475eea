"""Convert between transformers and attn, in both directions.

``register`` puts attn's attention, with its masks, into the models of
transformers; ``attach`` does it for one model or raises the reason why not.
``as_mask`` converts a mask function, ``layer_masks`` returns a model's masks.
``load`` goes the other way: it runs the weights of GPT-2, Llama, Qwen3,
Mistral, Gemma2, GPT-NeoX, Bloom, BERT and more in the modules of attn.nn.
``GgufFile`` reads llama.cpp's files; ``llama_of`` and ``tokenizer_of`` return
the model and the tokenizer in one.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from attn.backends.mask_formats import MaskSpec
from attn.hf.attachment import attach
from attn.hf.bert import Bert
from attn.hf.gguf import GgufFile, llama_of
from attn.hf.gguf_tokenizer import tokenizer_of
from attn.hf.loading import FAMILIES, load
from attn.hf.mask_functions import as_mask
from attn.hf.mask_interface import layer_masks
from attn.hf.registration import register, unregister

if TYPE_CHECKING:
    from attn.hf.bidirectional import (
        BidirectionalLlama,
        BidirectionalLlamaConfig,
        bidirectional_llama,
    )

__all__ = [
    "attach",
    "register",
    "unregister",
    "load",
    "FAMILIES",
    "Bert",
    "as_mask",
    "layer_masks",
    "MaskSpec",
    "GgufFile",
    "llama_of",
    "tokenizer_of",
    # Subclasses of transformers' classes: it is loaded on first use.
    "BidirectionalLlama",
    "BidirectionalLlamaConfig",
    "bidirectional_llama",
]


if sys.modules.get("transformers"):  # AutoModel can open a saved one
    importlib.import_module("attn.hf.bidirectional")


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module("attn.hf.bidirectional"), name)
    raise AttributeError(f"module 'attn.hf' has no attribute {name!r}")
