"""A mapping raises for what it does not support, by name."""

import pytest
import torch
from torch import nn

from attn import hf
from attn.hf.config_fields import Config
from attn.hf.weights import copy_weights, qkv_by_head, stacked


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 2) for _ in range(2))


TABLE = {"h.*.dense": "layers.*"}


def a_checkpoint(**changes):
    state = {
        f"h.{i}.dense.{leaf}": torch.randn(2, 3)[
            :, : 3 if leaf == "weight" else 1
        ].squeeze(-1)
        for i in range(2)
        for leaf in ("weight", "bias")
    }
    return {k: v for k, v in (state | changes).items() if v is not None}


SHAPE = r"h\.0\.dense\.weight must fit .*got shape \(3, 2\)"
UNEXPECTED = ("score.weight", "h.2.dense.weight", "h.0.dense.scale")
WRONG = {f"unexpected: {x}": {x: torch.zeros(2)} for x in UNEXPECTED}
WRONG[SHAPE] = {"h.0.dense.weight": torch.zeros(3, 2)}


@pytest.mark.parametrize("message", WRONG)
def test_an_unexpected_weight_or_shape_is_named(message):
    state = a_checkpoint(**WRONG[message])
    with pytest.raises(ValueError, match=message):
        copy_weights(Tiny(), state, TABLE, num_heads=1)


@pytest.mark.parametrize("mapping", (stacked, qkv_by_head))
def test_rows_that_cannot_be_split_are_named(mapping):
    module = nn.ModuleDict({"q": nn.Linear(4, 6, bias=False)})
    for name, rows in {"k": 2, "v": 3}.items():
        module[name] = nn.Linear(4, rows, bias=False)
    table = {"qkv": mapping("q", "k", "v")}
    message = r"qkv.weight must fit .*\(6, 4\), \(2, 4\), \(3, 4\).*\(10, 4\)"
    with pytest.raises(ValueError, match=message):
        copy_weights(module, {"qkv.weight": torch.zeros(10, 4)}, table, 3)


def test_a_field_that_is_missing_or_not_supported_is_named():
    c = Config({"model_type": "bloom", "tp": 2})
    with pytest.raises(ValueError, match="config must have hidden_size"):
        c("hidden_size")
    with pytest.raises(
        NotImplementedError, match="config.tp must be 1 .*got 2"
    ):
        c.require(tp=1)
    with pytest.raises(ValueError, match="model_type"):
        Config({})
    with pytest.raises(TypeError, match="int"):
        Config(3)


@pytest.mark.parametrize("wrong", (3, None, "gpt2", nn.Linear(2, 2)), ids=str)
def test_only_a_model_or_its_weights_are_loaded(wrong):
    with pytest.raises(TypeError, match="model_or_weights must be a model of"):
        hf.load(wrong)
