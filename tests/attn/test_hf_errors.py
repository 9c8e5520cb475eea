"""A mapping raises for what it does not support, by name."""

import pytest
import torch
from torch import nn

from attn import hf
from attn.hf.config_fields import Config
from attn.hf.weights import copy_weights, qkv_by_head, stacked, transposed
from tests.attn.cases import assert_equal


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


def test_weights_are_copied_under_their_mapped_names():
    module, state = Tiny(), a_checkpoint()
    copy_weights(module, state, TABLE, num_heads=1)
    assert torch.equal(module.layers[1].weight, state["h.1.dense.weight"])
    assert torch.equal(module.layers[0].bias, state["h.0.dense.bias"])


def test_a_filled_model_does_not_share_memory_with_the_checkpoint():
    module, state = Tiny(), a_checkpoint()
    copy_weights(module, state, TABLE, num_heads=1)
    before = module.layers[0].weight.clone()
    state["h.0.dense.weight"].zero_()
    assert torch.equal(module.layers[0].weight, before)


def test_a_missing_weight_is_reported_by_its_checkpoint_name():
    state = a_checkpoint(**{"h.1.dense.bias": None})
    with pytest.raises(ValueError, match=r"missing: h\.1\.dense\.bias"):
        copy_weights(Tiny(), state, TABLE, num_heads=1)


@pytest.mark.parametrize(
    "name", ("score.weight", "h.2.dense.weight", "h.0.dense.scale")
)
def test_an_unexpected_weight_is_named(name):
    state = a_checkpoint(**{name: torch.zeros(2)})
    with pytest.raises(ValueError, match=f"unexpected: {name}"):
        copy_weights(Tiny(), state, TABLE, num_heads=1)


def test_a_weight_of_another_shape_is_named():
    state = a_checkpoint(**{"h.0.dense.weight": torch.zeros(3, 2)})
    with pytest.raises(
        ValueError, match=r"h\.0\.dense\.weight must fit .*got shape \(3, 2\)"
    ):
        copy_weights(Tiny(), state, TABLE, num_heads=1)


def test_a_conv1d_is_transposed():
    x = torch.randn(3, 5)
    (y,) = transposed("a").split(x, 1, [])
    assert torch.equal(y, x.T)
    (bias,) = transposed("a").split(x[0], 1, [])
    assert torch.equal(bias, x[0])


def test_gpt2_stores_all_queries_then_all_keys_then_all_values():
    embed, heads, dim = 4, 2, 3
    parts = [torch.randn(heads * dim, embed) for _ in "qkv"]
    stored = torch.cat(parts).T
    assert_equal(transposed("q", "k", "v").split(stored, heads, []), parts)


def test_gpt_neox_stores_query_key_and_value_of_one_head_after_another():
    embed, heads, dim = 4, 2, 3
    parts = [torch.randn(heads * dim, embed) for _ in "qkv"]
    rows = [
        part[h * dim : (h + 1) * dim] for h in range(heads) for part in parts
    ]
    split = qkv_by_head("q", "k", "v").split
    assert_equal(split(torch.cat(rows), heads, []), parts)


def test_phi3_stores_projections_of_different_heights_one_below_the_other():
    parts = [torch.randn(rows, 4) for rows in (6, 2, 2)]
    split = stacked("q", "k", "v").split
    assert_equal(split(torch.cat(parts), 3, [6, 2, 2]), parts)


@pytest.mark.parametrize("mapping", (stacked, qkv_by_head))
def test_rows_that_cannot_be_split_are_named(mapping):
    module = nn.ModuleDict({"q": nn.Linear(4, 6, bias=False)})
    for name, rows in {"k": 2, "v": 3}.items():
        module[name] = nn.Linear(4, rows, bias=False)
    table = {"qkv": mapping("q", "k", "v")}
    message = r"qkv.weight must fit .*\(6, 4\), \(2, 4\), \(3, 4\).*\(10, 4\)"
    with pytest.raises(ValueError, match=message):
        copy_weights(module, {"qkv.weight": torch.zeros(10, 4)}, table, 3)


def test_an_unread_field_is_an_error_unless_it_is_off():
    c = Config({"model_type": "llama", "wings": 2, "tail": None, "fur": False})
    with pytest.raises(NotImplementedError, match="only fields .*got wings=2"):
        c.refuse_unread()


def test_a_missing_required_field_is_named():
    with pytest.raises(ValueError, match="config must have hidden_size"):
        Config({"model_type": "llama"})("hidden_size")


def test_an_unsupported_value_of_a_field_is_named():
    c = Config({"model_type": "bloom", "tp": 2})
    with pytest.raises(
        NotImplementedError, match="config.tp must be 1 .*got 2"
    ):
        c.require(tp=1)


@pytest.mark.parametrize("wrong", (3, None, "gpt2", nn.Linear(2, 2)), ids=str)
def test_only_a_model_or_its_weights_are_loaded(wrong):
    with pytest.raises(TypeError, match="model_or_weights must be a model of"):
        hf.load(wrong)


def test_a_configuration_needs_a_family():
    with pytest.raises(ValueError, match="model_type"):
        Config({})
    with pytest.raises(TypeError, match="int"):
        Config(3)
