"""Read GGUF, the file format of llama.cpp: settings, then tensors.

The header is parsed here in a tenth of a second; ``gguf.GGUFReader`` makes an
array of each of its strings, which takes eight seconds for a vocabulary of
49,152. A tensor is read and dequantized when it is named.
"""

from __future__ import annotations

import mmap
import struct
from math import prod
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from attn.positions import convert_pairing

#: The kinds of values, as ``struct`` names them, but for two.
_SCALARS = dict(enumerate("BbHhIif?")) | dict(enumerate("Qqd", start=10))
_STRING, _ARRAY = 8, 9


class _Place(NamedTuple):
    shape: tuple[int, ...]
    kind: int  # a GGMLQuantizationType
    offset: int  # in bytes, from the start of the file


class GgufFile:
    """A GGUF file, open for reading.

    Args:
        path: of the file, version 2 or 3, little-endian.

    Attributes:
        path: of the file.
        metadata: settings and vocabulary by key,
            ``"llama.attention.head_count"`` for example.
        shapes: the shape of each tensor by name,
            ``"blk.0.attn_q.weight"`` for example.

    Raises:
        ValueError: the file is not GGUF, or of another version.

    Example:
        >>> from attn.data.smollm import gguf_file
        >>> file = gguf_file()  # GgufFile("model.gguf") opens another
        >>> file.metadata["general.architecture"]
        'llama'
        >>> file.shapes["blk.0.attn_q.weight"]
        (576, 576)
        >>> file.read("blk.0.attn_q.weight").dtype
        torch.float32

    Source: the specification, https://github.com/ggml-org/ggml,
    ``docs/gguf.md``.
    """

    def __init__(self, path: str | PathLike[str]):
        self.path = Path(path)
        with open(path, "rb") as file:
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._at = 0
        magic, version = self._unpack("4s"), self._unpack("I")
        if magic != b"GGUF" or version not in (2, 3):
            raise ValueError(
                "path must be a little-endian GGUF file of version 2 or 3; "
                f"got {magic!r}, version {version}: {path}"
            )
        tensors, settings = self._unpack("Q"), self._unpack("Q")
        self.metadata = {
            self._string(): self._value(self._unpack("I"))
            for _ in range(settings)
        }
        self._places = {
            self._string(): _Place(
                self._dimensions(), self._unpack("I"), self._unpack("Q")
            )
            for _ in range(tensors)
        }
        alignment = self.metadata.get("general.alignment", 32)
        self._start = -(-self._at // alignment) * alignment
        self.shapes = {name: x.shape for name, x in self._places.items()}

    def read(self, name: str) -> Tensor:
        """Return a tensor in float32, dequantized, as its own memory.

        A ``Linear`` weight is ``(out, in)``. The rows of a Llama's
        ``attn_q`` and ``attn_k`` are in the interleaved layout of RoPE.

        Raises:
            KeyError: the file has no tensor of this name.
        """
        from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
        from gguf.quants import dequantize

        if name not in self._places:
            raise KeyError(
                f"name must be a tensor of the file, one of "
                f"{', '.join(self.shapes)}; got {name!r}"
            )
        shape, kind, offset = self._places[name]
        quantization = GGMLQuantizationType(kind)
        elements, size = GGML_QUANT_SIZES[quantization]
        row = shape[-1] // elements * size  # bytes
        raw = np.frombuffer(
            self._data, np.uint8, prod(shape[:-1]) * row, self._start + offset
        )
        values = dequantize(raw.reshape(*shape[:-1], row), quantization)
        # Float32 is a view of the file; all else is a new array already.
        own = np.require(values, np.float32, "W")
        return torch.from_numpy(own.reshape(shape))

    def _unpack(self, form: str) -> Any:
        (value,) = struct.unpack_from(f"<{form}", self._data, self._at)
        self._at += struct.calcsize(f"<{form}")
        return value

    def _string(self) -> str:
        size = self._unpack("Q")
        self._at += size
        return self._data[self._at - size : self._at].decode()

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            kind, count = self._unpack("I"), self._unpack("Q")
            return [self._value(kind) for _ in range(count)]
        return self._unpack(_SCALARS[kind])

    def _dimensions(self) -> tuple[int, ...]:
        count = self._unpack("I")
        return tuple(self._unpack("Q") for _ in range(count))[::-1]


_LLAMA = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "token_embd": "embed_tokens",
    "output_norm": "norm",
}


def llama_of(file: GgufFile) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return a Llama's weights and configuration as transformers has them.

    ``attn.hf.load(*llama_of(file))`` is the model. The rows of query and key
    are permuted from the interleaved layout to the half one.

    Args:
        file: of the architecture ``"llama"``.

    Returns:
        A state dict in float32, and the mapping of a ``config.json``.

    Raises:
        ValueError: another architecture.

    Example:
        >>> from attn.data.smollm import gguf_file
        >>> weights, config = attn.hf.llama_of(gguf_file())
        >>> config["num_attention_heads"], config["num_key_value_heads"]
        (9, 3)

    Source: transformers 5.23, ``modeling_gguf_pytorch_utils.py``,
    ``LlamaTensorProcessor``.
    """
    kind = file.metadata.get("general.architecture")
    if kind != "llama":
        raise ValueError(f"file must hold a llama; got {kind!r}")
    settings = {
        name.removeprefix("llama."): value
        for name, value in file.metadata.items()
    }
    heads = settings["attention.head_count"]
    head_dim = settings.get(
        "rope.dimension_count", settings["embedding_length"] // heads
    )
    rope = {"rope_type": "default", "rope_theta": settings["rope.freq_base"]}
    config = {
        "model_type": "llama",
        "hidden_act": "silu",
        "vocab_size": file.shapes["token_embd.weight"][0],
        "hidden_size": settings["embedding_length"],
        "intermediate_size": settings["feed_forward_length"],
        "num_hidden_layers": settings["block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": settings["attention.head_count_kv"],
        "head_dim": head_dim,
        "max_position_embeddings": settings["context_length"],
        "rms_norm_eps": settings["attention.layer_norm_rms_epsilon"],
        "rope_parameters": rope,
        "tie_word_embeddings": "output.weight" not in file.shapes,
    }
    from tqdm import tqdm  # gguf needs it, too

    weights = {}
    # disable=None: it is shown on a terminal only.
    for name in tqdm(file.shapes, "weights", leave=False, disable=None):
        weight = file.read(name)
        part, _, leaf = name.removeprefix("blk.").rpartition(".")
        layer, _, short = part.rpartition(".")
        if short in ("attn_q", "attn_k"):
            weight = convert_pairing(weight, "half", dim=0, head_dim=head_dim)
        if short == "output":
            weights[f"lm_head.{leaf}"] = weight
            continue
        where = f"layers.{layer}." if layer else ""
        weights[f"model.{where}{_LLAMA[short]}.{leaf}"] = weight
    return weights, config
