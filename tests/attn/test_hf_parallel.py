"""Tensor parallelism: transformers' own plan, on two processes.

Each has half of the heads, and our attention sees these alone.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from transformers.distributed.tensor_parallel import apply_tensor_parallelism

from attn import hf
from attn.distributed import launch
from attn.hf import attention_interface
from tests.attn.hf_decoders import distance, model, pad, tokens

RANKS = 2
OPTIONS: dict[str, Any] = {"max_new_tokens": 4, "do_sample": False}


def inputs() -> dict[str, Tensor]:
    return {"input_ids": tokens(), "attention_mask": pad("left").long()}


def work(rank: int, family: str) -> Any:
    """Compute as one of the processes."""
    mesh = dist.init_device_mesh("cpu", (RANKS,), mesh_dim_names=("tp",))
    network = model(family, "eager")
    plan = network._expand_parallel_plan(network.tp_plan)
    apply_tensor_parallelism(network, mesh, plan)
    hf.attach(network)
    heads = []
    real = attention_interface.api.attention

    def counted(query: Tensor, key: Tensor, *args: Any, **kwargs: Any) -> Any:
        heads.append((query.shape[1], key.shape[1]))
        return real(query, key, *args, **kwargs)

    attention_interface.api.attention = counted
    with torch.no_grad():
        logits = network(**inputs()).logits
        text = network.generate(**inputs(), **OPTIONS)
    return logits, text, sorted(set(heads))


@pytest.mark.parametrize("family", ["llama", "mistral"])
@torch.no_grad()
def test_two_processes_with_half_of_the_heads_give_the_same_logits(
    family,
):
    network = model(family, "eager")
    want = network(**inputs()).logits
    text = network.generate(**inputs(), **OPTIONS)
    real = pad("left")
    for logits, tokens_, heads in launch(work, RANKS, family):
        assert distance(logits[real], want[real]) < 1e-5
        assert torch.equal(tokens_, text)
        assert heads == [(2, 1)], "of four on two"
