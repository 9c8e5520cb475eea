"""Between transformers and us, in both directions.

``register`` puts our attention, with its masks, into the models of
transformers; ``attach`` does it for one model, or says why it cannot be.
``as_mask`` reads their mask functions, ``layer_masks`` shows a model's.
``load`` goes the other way: it runs the weights of GPT-2, Llama, Qwen3,
Mistral, Gemma2, GPT-NeoX, Bloom, BERT and more in our own modules.
"""

from attn.hf.attach import attach
from attn.hf.bert import Bert
from attn.hf.bidirectional import bidirectional_llama
from attn.hf.bridge import register
from attn.hf.families import FAMILIES
from attn.hf.layers import layer_masks
from attn.hf.loading import load
from attn.hf.rules import as_mask

__all__ = [
    "FAMILIES",
    "Bert",
    "as_mask",
    "attach",
    "bidirectional_llama",
    "layer_masks",
    "load",
    "register",
]
