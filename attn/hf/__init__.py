"""Models of transformers, run by our own: the same weights, the same logits.

``load`` knows GPT-2, Llama, Qwen3, Mistral, Gemma2, GPT-NeoX, Bloom and
BERT. It does not import transformers: it reads what transformers made.
"""

from attn.hf.bert import Bert
from attn.hf.families import FAMILIES
from attn.hf.loading import load

__all__ = ["FAMILIES", "Bert", "load"]
