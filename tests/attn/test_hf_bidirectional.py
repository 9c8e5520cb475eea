"""A Llama without order: permuting its input permutes its output."""

import copy
import pickle

import pytest
import torch
import transformers as T

from attn import hf
from tests.attn.cases import randn
from tests.attn.hf_decoders import config, distance
from tests.processes import run_python


def set_model(**changes):
    settings = config("llama", **changes)
    torch.manual_seed(0)
    return hf.bidirectional_llama(settings).eval()


@torch.no_grad()
def test_permuting_the_input_permutes_the_output():
    network = set_model()
    x = randn(2, 9, 24, dtype=torch.float32)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(1))
    out = network(inputs_embeds=x).last_hidden_state
    permuted = network(inputs_embeds=x[:, order]).last_hidden_state
    assert distance(permuted, out[:, order]) < 1e-6
    causal = T.LlamaModel(config("llama"))
    causal.load_state_dict(network.state_dict(), strict=False)
    other = causal(inputs_embeds=x).last_hidden_state
    assert (out - other).abs().max() > 1e-3, (
        "a causal Llama depends on the order"
    )


@torch.no_grad()
@pytest.mark.parametrize("how", ["attn", "sdpa", "eager"])
def test_padding_does_not_change_the_output(how):
    network = set_model()
    network.set_attn_implementation(how)
    x = randn(2, 9, 24, dtype=torch.float32)
    mask = torch.ones(2, 9).long()
    mask[1, 5:] = 0
    out = network(inputs_embeds=x, attention_mask=mask).last_hidden_state
    alone = network(inputs_embeds=x[1:, :5]).last_hidden_state
    assert distance(out[1, :5], alone[0]) < 1e-5


def test_token_embeddings_are_zero_and_not_trained():
    network = set_model()
    assert not network.embed_tokens.weight.any()
    x = torch.randn(1, 4, 24, requires_grad=True)
    network(inputs_embeds=x).last_hidden_state.sum().backward()
    assert network.embed_tokens.weight.grad is None and x.grad.any()
    assert network.layers[0].self_attn.q_proj.weight.grad is not None


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"use_cache": True}, "no key can be cached"),
        ({"past_key_values": object()}, "no key can be cached"),
        ({"input_ids": torch.zeros(1, 4).long()}, "embeddings .* are 0"),
        ({"is_causal": True}, "attends to every other; got True"),
        ({"inputs_embeds": None}, "embeddings .* are 0"),
        ({"position_ids": torch.tensor([[0, 1, 0, 1]])}, "packed sequences"),
    ],
)
def test_arguments_that_assume_an_order_are_refused(kwargs, message):
    with pytest.raises(ValueError, match=message):
        set_model()(**{"inputs_embeds": torch.zeros(1, 4, 24), **kwargs})


OPEN = {
    "ours": lambda at: hf.bidirectional_llama(at),
    "AutoModel": lambda at: T.AutoModel.from_pretrained(at),
    "its class": lambda at: hf.BidirectionalLlama.from_pretrained(at),
    "AutoConfig": lambda at: hf.bidirectional_llama(
        T.AutoConfig.from_pretrained(at)
    ),
}


@torch.no_grad()
@pytest.mark.parametrize("how", OPEN)
def test_a_saved_model_is_reopened_as_the_same_model(how, tmp_path):
    """It once opened as a causal Llama with positions, silently."""
    network = set_model()
    network.save_pretrained(tmp_path)
    again = OPEN[how](tmp_path).eval()
    assert type(again) is hf.BidirectionalLlama
    assert again.config._attn_implementation == "attn"
    assert not again.embed_tokens.weight.requires_grad
    assert not again.embed_tokens.weight.any()
    if how == "AutoConfig":
        again.load_state_dict(network.state_dict())
    x = randn(1, 5, 24, dtype=torch.float32)
    want = network(inputs_embeds=x).last_hidden_state
    assert torch.equal(again(inputs_embeds=x).last_hidden_state, want)


OPENED_BY = """
{first}
from transformers import AutoModel
{then}
try:
    model = AutoModel.from_pretrained({at!r})
except ValueError as error:
    assert "bidirectional_llama" in str(error), error
    print("refused")
else:
    print(type(model).__name__)
"""
IMPORTED = """
import sys
import attn.hf
assert "transformers" not in sys.modules
del sys.modules["attn.hf"]
"""


@pytest.mark.parametrize(
    ("first", "then", "got"),
    [
        ("", "", "refused"),
        (
            IMPORTED,
            "import attn.hf",  # now after transformers
            "BidirectionalLlama",
        ),
    ],
)
def test_another_process_opens_a_model_or_refuses(first, then, got, tmp_path):
    set_model().save_pretrained(tmp_path)
    code = OPENED_BY.format(first=first, then=then, at=str(tmp_path))
    done = run_python(code)
    assert done.stdout.strip() == got, done.stderr


@torch.no_grad()
def test_the_layers_of_a_saved_llama_are_loaded(tmp_path):
    llama = T.LlamaForCausalLM(config("llama"))
    llama.save_pretrained(tmp_path)
    network = hf.bidirectional_llama(tmp_path)
    assert not network.embed_tokens.weight.any()
    mine, theirs = network.layers.state_dict(), llama.model.layers.state_dict()
    assert all(torch.equal(mine[name], x) for name, x in theirs.items())


@torch.no_grad()
@pytest.mark.parametrize(
    "how", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_a_copy_or_a_pickle_computes_the_same(how):
    network = set_model()
    x = randn(1, 5, 24, dtype=torch.float32)
    want = network(inputs_embeds=x).last_hidden_state
    assert torch.equal(how(network)(inputs_embeds=x).last_hidden_state, want)


def test_a_config_of_another_family_is_refused():
    with pytest.raises(ValueError, match="config must be a Llama's; got mis"):
        hf.bidirectional_llama(config("mistral"))


def test_the_given_config_is_not_changed():
    settings = config("llama")
    before = settings.to_dict()
    hf.bidirectional_llama(settings)
    assert settings.to_dict() == before
