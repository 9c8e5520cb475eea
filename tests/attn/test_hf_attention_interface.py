"""The models of transformers give the same logits with attn's attention.

Every family, padded, with its caches; compared with the model's own eager
attention. That it generates and learns the same is in test_hf_families and
test_hf_training.
"""

from functools import partial

import pytest
import torch
import transformers as T
from torch import Tensor, nn
from transformers.masking_utils import causal_mask_function

from attn import api, hf
from attn.hf import attention_interface, mask_interface
from tests.attn.hf_decoders import DECODERS, distance, model, pad, tokens
from tests.attn.hf_encoders import ENCODERS, encoder
from tests.marks import exhaustive_but

STEPS = (5, 3, 1, 1, 1)


@pytest.fixture(autouse=True)
def registered():
    hf.register()


@pytest.fixture
def calls(record):
    """Return every call of our attention."""
    return record(attention_interface.api, "attention")


@pytest.mark.parametrize("family", DECODERS)
@pytest.mark.parametrize(
    "kind", exhaustive_but(["dynamic"], ["dynamic", "static"])
)
@torch.no_grad()
def test_cached_steps_with_attn_equal_those_of_eager(family, kind, calls):
    """Chunks of 5, 3 and single tokens, padded on the left."""
    eager, ours = (model(family, how) for how in ("eager", "attn"))
    ids, real = tokens(), pad("left")

    def in_steps(network: nn.Module, cache: object) -> Tensor:
        outs, at = [], 0
        for step in STEPS:
            end = at + step
            kept = {"past_key_values": cache}
            kept["attention_mask"] = real[:, :end].long()
            outs.append(network(ids[:, at:end], **kept).logits)
            at = end
        return torch.cat(outs, 1)[real]

    cache = (
        T.DynamicCache(config=ours.config)
        if kind == "dynamic"
        else T.StaticCache(config=ours.config, max_cache_len=16)
    )
    want = in_steps(eager, T.DynamicCache(config=eager.config))
    assert not calls, "eager is theirs"
    got = in_steps(ours, cache)
    assert len(calls) == len(STEPS) * eager.config.num_hidden_layers
    assert distance(got, want) < 1e-5


# --- encoders, and encoders with decoders ------------------------------------


@pytest.mark.parametrize("name", ENCODERS)
@torch.no_grad()
def test_encoders_and_encoder_decoders_equal_eager_attention(name, calls):
    network, ids, real = encoder(name), tokens(), pad("right")

    def run() -> Tensor:
        if name == "whisper":
            g = torch.Generator().manual_seed(0)
            sound = torch.randn(3, 8, 32, generator=g)
            return network(
                input_features=sound, decoder_input_ids=ids[:, :5]
            ).logits
        kwargs = {"input_ids": ids, "attention_mask": real.long()}
        if name in ("t5", "bart"):
            return network(**kwargs, decoder_input_ids=ids[:, :5]).logits
        return network(**kwargs).last_hidden_state[real]

    want = run()
    hf.attach(network)
    assert not calls
    got = run()
    # Two layers: of the encoder, and twice two of a decoder.
    assert len(calls) == (6 if name in ("t5", "bart", "whisper") else 2)
    assert distance(got, want) < 1e-5


# --- what is refused, and by which message -----------------------------------


def test_attach_refuses_a_family_with_inline_attention():
    bloom = T.BloomForCausalLM(
        T.BloomConfig(vocab_size=37, hidden_size=24, n_head=4, n_layer=1)
    )
    with pytest.raises(
        ValueError, match=r"BloomAttention .* inline.*attn.hf.load\(model\)"
    ):
        hf.attach(bloom)


@pytest.mark.parametrize(
    ("kwargs", "error", "message"),
    [
        ({"window": (1, 1)}, TypeError, "argument from LlamaAttention: wind"),
        ({"is_causal": False}, ValueError, "config.is_causal = False"),
    ],
)
def test_unsupported_keywords_of_a_layer_are_refused(kwargs, error, message):
    decoder = model("llama", "attn")
    with pytest.raises(error, match=message):
        decoder.model.layers[0].self_attn(
            torch.zeros(1, 4, 24),
            (torch.ones(1, 4, 6), torch.zeros(1, 4, 6)),
            mask_interface.make_mask(
                batch_size=1,
                q_length=4,
                kv_length=4,
                mask_function=causal_mask_function,
            ),
            **kwargs,
        )


def test_attention_functions_without_mask_functions_are_refused(monkeypatch):
    """Without the mask function transformers makes no mask, silently."""
    function = partial(
        attention_interface.attn_forward, impl="auto", registry=api.registry
    )
    known = T.AttentionInterface._global_mapping
    monkeypatch.setitem(known, "half", function)
    with pytest.raises(ValueError, match="If only the attention function"):
        model("llama", "half")(tokens())


@torch.no_grad()
def test_the_implementation_can_be_switched_between_calls(calls):
    decoder = model("llama", "attn")
    want = decoder(tokens()).logits
    counts = [len(calls)]
    for name in ("sdpa", "attn"):
        decoder.set_attn_implementation(name)
        assert (decoder(tokens()).logits - want).abs().max() < 1e-4
        counts.append(len(calls))
    assert counts == [2, 2, 4]


@torch.no_grad()
@pytest.mark.parametrize("impl", ["grouped", "tiled", "sdpa", "reference"])
def test_a_registered_name_selects_its_implementation(impl, calls):
    want = model("mistral", "eager")(tokens()).logits
    hf.register(f"attn-{impl}", impl)
    decoder = model("mistral", f"attn-{impl}")
    assert (decoder(tokens()).logits - want).abs().max() < 1e-4
    assert {options["impl"] for _, options in calls} == {impl}


@torch.no_grad()
@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_flex_builds_block_masks_from_a_models_masks(family, monkeypatch):
    """Padding and windows included; uncompiled here, for the time's sake."""
    from torch.nn.attention import flex_attention as flex

    from attn.backends import flex as ours

    blocks = []

    def eager(*tensors, block_mask=None, **kwargs):
        blocks.append(block_mask)
        return flex.flex_attention(*tensors, block_mask=block_mask, **kwargs)

    monkeypatch.setattr(ours, "_compiled", lambda: eager)
    hf.register("attn-flex", "flex")
    real = pad("left")
    kwargs = {"attention_mask": real.long(), "use_cache": False}
    got = model(family, "attn-flex")(tokens(), **kwargs).logits
    want = model(family, "eager")(tokens(), **kwargs).logits
    assert (got - want)[real].abs().max() < 1e-4
    assert len(blocks) == 2
    assert all(isinstance(x, flex.BlockMask) for x in blocks)


@torch.no_grad()
def test_masks_reach_the_layers_as_predicates(calls, monkeypatch):
    """A layer's mask is a tensor only where tokens are padded."""
    decoder = model("gemma2", "attn")
    decoder(tokens(), attention_mask=torch.ones(3, 11).long())
    assert [options["softcap"] for _, options in calls] == [2.0, 2.0]
    masks = []

    def caught(query, key, value, mask, **rest):
        masks.append(str(mask))
        return query

    monkeypatch.setattr(attention_interface.api, "attention", caught)
    decoder(tokens())
    assert masks == [
        "window(left=3, right=None) & causal()",
        "causal()",
    ]
