"""The masks of layers: specs where they are exact, tensors elsewhere."""

from __future__ import annotations

import warnings

import pytest
import torch

import attn
from attn import hf, plot
from attn.hf import MaskSpec
from attn.hf.mask_interface import make_mask
from tests.attn.hf_decoders import config, pad

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import transformers
    from transformers import masking_utils as theirs


def test_a_spec_equals_the_tensor_that_it_replaces():
    """Chunks of a padded prompt, and a sliding cache that begins later."""
    window = theirs.sliding_window_causal_mask_function(4)
    for L, S, start, first in ((5, 5, 0, 0), (3, 9, 6, 0), (1, 4, 9, 6)):
        kwargs = {
            "batch_size": 3,
            "q_length": L,
            "kv_length": S,
            "q_offset": start,
            "kv_offset": first,
            "mask_function": window,
            "attention_mask": pad("left")[:, : first + S],
        }
        got = make_mask(**kwargs, always_spec=True).dense()
        want = theirs.sdpa_mask(**kwargs, allow_is_causal_skip=False)
        assert torch.equal(got, want)


SIZES = {
    "batch_size": 2,
    "q_length": 5,
    "kv_length": 9,
    "mask_function": theirs.causal_mask_function,
}


@pytest.mark.parametrize(
    ("kwargs", "is_spec"),
    [
        ({}, True),
        ({"attention_mask": torch.ones(2, 9)}, True),
        ({"attention_mask": torch.tensor([[1] * 9, [0] + [1] * 8])}, False),
        # A static cache: behind the tokens there is nothing yet.
        ({"attention_mask": torch.ones(2, 6).bool()}, False),
        ({"q_offset": torch.tensor(0)}, False),
        ({"use_vmap": True}, False),
    ],
)
def test_a_mask_is_a_spec_if_a_spec_is_exact(kwargs, is_spec):
    made = make_mask(**{**SIZES, "q_offset": 4, **kwargs})
    assert isinstance(made, MaskSpec) == is_spec
    start = int(kwargs.get("q_offset", 4))
    allowed = attn.causal().dense(5, 9, batch=2, q_offset=start)
    if "attention_mask" in kwargs:
        real = kwargs["attention_mask"].bool()
        real = torch.nn.functional.pad(real, (0, 9 - real.shape[1]))
        allowed = allowed & real[:, None, None]
    if isinstance(made, MaskSpec):
        made = made.dense()
    assert torch.equal(made.expand(2, 1, 5, 9), allowed)


def test_the_masks_of_a_models_layers_are_returned():
    settings = config("gemma2")
    masks = hf.layer_masks(settings, 12)
    assert set(masks) == {"sliding_attention", "full_attention"}
    full, window = attn.causal(), attn.sliding_window(4)
    assert torch.equal(masks["full_attention"], full.dense(12)[0, 0])
    assert torch.equal(masks["sliding_attention"], window.dense(12)[0, 0])
    words = plot.alt_text(plot.masks_grid(masks))
    assert "sliding_attention" in words
    chunks = hf.layer_masks(config("llama4"), 10)["chunked_attention"]
    want = (attn.chunked(4) & attn.causal()).dense(10)[0, 0]
    assert torch.equal(chunks, want)
    real = torch.tensor([[0, 0, 1, 1, 1]])
    ((kind, only),) = hf.layer_masks(config("llama"), 5, real).items()
    assert kind == "full_attention"
    assert list(hf.layer_masks(config("mistral"), 5)) == ["sliding_attention"]
    assert not only[:, :2].any() and only[4, 2:].all()


def test_looking_at_masks_changes_no_registered_attention():
    hf.register()
    before = transformers.AttentionInterface()["attn"]
    hf.layer_masks(config("llama"), 5)
    after = transformers.AttentionInterface()["attn"]
    assert after is before
