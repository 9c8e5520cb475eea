"""Build the peers that are modules or whole models: norms and generation."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attn.bench.case import Case, Sizes

VOCABULARY = 1000
LAYERS = 4


def call(name: str, case: Case, sizes: Sizes) -> Callable[[], Any]:
    """Return the call of a peer: of PyTorch or transformers, or ``auto``."""
    if case.step in ("layer norm", "RMS norm"):
        return _norm(name, case.step, sizes)
    return _generation(name, case.step, sizes)


def _norm(name: str, step: str, sizes: Sizes) -> Callable[[], Any]:
    from attn.nn import LayerNorm, RMSNorm

    layer = step == "layer norm"
    makers: dict[str, Callable[[int], nn.Module]] = {
        "torch": nn.LayerNorm if layer else partial(nn.RMSNorm, eps=1e-6),
        "auto": LayerNorm if layer else RMSNorm,
    }
    module = makers[name](sizes.D)
    x = torch.randn(sizes.L, sizes.D)
    return partial(module, x)


def _generation(name: str, step: str, sizes: Sizes) -> Callable[[], Any]:
    """Return the greedy continuation of a prompt by a tiny random Llama."""
    from transformers import LlamaConfig, LlamaForCausalLM

    from attn import hf, nn

    torch.manual_seed(0)
    width = sizes.H * sizes.D
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=LAYERS,
        num_attention_heads=sizes.H,
        num_key_value_heads=sizes.Hkv,
        eos_token_id=None,
        pad_token_id=0,
    )
    model = LlamaForCausalLM(config).eval()
    count = sizes.S - sizes.L
    ids = torch.randint(1, VOCABULARY, (sizes.B, sizes.L))
    real = torch.ones_like(ids)
    if step == "padded generation":
        real[0, : sizes.L // 2] = 0
    if step == "generation" and name == "auto":
        return partial(nn.generate, hf.load(model), ids, count)
    if name == "auto":
        model = hf.attach(copy.deepcopy(model))
    return partial(_theirs, model, ids, real, count)


def _theirs(model: Any, ids: Tensor, real: Tensor, count: int) -> Tensor:
    """Call transformers' ``generate``."""
    return model.generate(
        ids, attention_mask=real, max_new_tokens=count, do_sample=False
    )
