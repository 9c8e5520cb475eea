"""The tokenizer of a GGUF file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attn.hf.gguf import GgufFile

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_CONTROL = 3  # a token type: <|im_end|> and its like, never made from text


def tokenizer_of(file: GgufFile) -> Tokenizer:
    """Return the byte-level BPE that a file describes.

    A text is split into words, spaces and single digits, and the merges of
    the file join bytes within each of these parts.

    Args:
        file: with the settings ``tokenizer.ggml.model`` ``"gpt2"`` and
            ``tokenizer.ggml.pre`` ``"smollm"``.

    Returns:
        A ``tokenizers.Tokenizer``, without padding and truncation.

    Raises:
        ValueError: another kind of tokenizer.

    Example:
        >>> from attn.data.smollm import gguf_file
        >>> tokenizer = attn.hf.tokenizer_of(gguf_file())
        >>> tokenizer.encode("attention in 2017").tokens
        ['attention', 'Ġin', 'Ġ', '2', '0', '1', '7']

    Source: llama.cpp, ``src/llama-vocab.cpp``,
    ``LLAMA_VOCAB_PRE_TYPE_SMOLLM``. transformers 5.23 does not split at
    digits when it reads such a file: two spaces before a number become other
    tokens there.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE

    settings: dict[str, Any] = {
        name.removeprefix("tokenizer.ggml."): value
        for name, value in file.metadata.items()
    }
    kind = settings.get("model"), settings.get("pre")
    if kind != ("gpt2", "smollm"):
        raise ValueError(
            "file must have tokenizer.ggml.model 'gpt2' and "
            f"tokenizer.ggml.pre 'smollm'; got {kind[0]!r} and {kind[1]!r}. "
            "transformers' AutoTokenizer.from_pretrained(folder, gguf_file="
            "name) reads others"
        )
    tokens = settings["tokens"]
    merges = [tuple(pair.split(" ")) for pair in settings["merges"]]
    tokenizer = Tokenizer(BPE({x: i for i, x in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [
            AddedToken(token, normalized=False, special=True)
            for token, type_ in zip(
                tokens, settings["token_type"], strict=True
            )
            if type_ == _CONTROL
        ]
    )
    return tokenizer
