"""Masks of transformers and ours are the same predicates, in every layer."""

import pytest
import torch
import transformers
from transformers import masking_utils as theirs

import attn
from attn import hf, plot
from attn.hf import MaskSpec
from attn.hf.mask_interface import make_mask
from tests.attn.hf_decoders import config, pad
from tests.attn.hf_families import build

NO_PADDING = torch.zeros(2, dtype=torch.int64)
LEFT = torch.tensor([0, 3])
VALID = torch.arange(40) >= torch.tensor([[0], [3]])
HOLES = torch.arange(40) % 4 != torch.tensor([[1], [3]])
IDS = torch.tensor([[0] * 4 + [1] * 36, [0] * 15 + [1] * 25])
BLOCKS = torch.tensor([[0, 0, 0, 1, 1, 2], [0, 1, 1, 1, 1, 2]])
BLOCKS = torch.nn.functional.pad(BLOCKS, (0, 34), value=3)
CAUSAL, DOCUMENTS = attn.causal(), attn.documents(BLOCKS)
THEIR_CAUSAL = theirs.causal_mask_function
THEIR_PACKED = theirs.packed_sequence_mask_function
THEIR_DOCUMENTS = THEIR_PACKED(BLOCKS)
THEIR_PADDING = theirs.padding_mask_function
THEIR_CHUNKS = theirs.chunked_causal_mask_function
THEIR_WINDOW = theirs.sliding_window_causal_mask_function
BOTH_SIDES = theirs.sliding_window_bidirectional_mask_function

# A mask of transformers, and ours: those that a backend can recognise.
RECOGNISED = {
    "causal": (THEIR_CAUSAL, CAUSAL),
    "bidirectional": (theirs.bidirectional_mask_function, CAUSAL | ~CAUSAL),
    "sliding": (THEIR_WINDOW(4), attn.sliding_window(4)),
    "window of one": (THEIR_WINDOW(1), attn.sliding_window(1)),
    "both sides": (BOTH_SIDES(3), attn.window(3, 3)),
    "chunked": (THEIR_CHUNKS(5, NO_PADDING), attn.chunked(5) & CAUSAL),
    "padding": (THEIR_PADDING(HOLES), attn.padding(HOLES)),
    "from a tokenizer": (THEIR_PADDING(HOLES), attn.padding(HOLES.long())),
    "padded": (
        theirs.and_masks(THEIR_CAUSAL, THEIR_PADDING(VALID)),
        CAUSAL & attn.padding(VALID),
    ),
}
MASKS = RECOGNISED | {
    "chunked, from the first real token": (THEIR_CHUNKS(5, LEFT), None),
    "documents": (THEIR_DOCUMENTS, DOCUMENTS),
    "packed": (
        theirs.and_masks(THEIR_CAUSAL, THEIR_PACKED(IDS)),
        CAUSAL & attn.documents(IDS),
    ),
    "packed and padded": (
        theirs.and_masks(THEIR_CAUSAL, THEIR_DOCUMENTS, THEIR_PADDING(HOLES)),
        CAUSAL & DOCUMENTS & attn.padding(HOLES),
    ),
    "either": (
        theirs.or_masks(
            THEIR_CAUSAL, theirs.sliding_window_bidirectional_overlay(2)
        ),
        CAUSAL | attn.window(2, 2),
    ),
    "either documents": (
        theirs.or_masks(THEIR_CAUSAL, THEIR_DOCUMENTS),
        CAUSAL | DOCUMENTS,
    ),
}
# Prompts, chunks, single tokens, and a static cache with an empty end.
PLACES = [(9, 9, 0), (4, 13, 9), (1, 20, 19), (3, 24, 8), (7, 40, 0)]
PLACES += [
    (L, S, offset)
    for L, S in ((1, 1), (1, 9), (4, 4), (3, 8), (7, 5))
    for offset in sorted({0, max(S - L, 0), 2})
]


def their_mask(function, L, S, offset, kv_offset=0):
    return theirs.sdpa_mask(
        batch_size=2,
        q_length=L,
        kv_length=S,
        q_offset=offset,
        kv_offset=kv_offset,
        mask_function=function,
        allow_is_causal_skip=False,
    ).expand(2, 1, L, S)


@pytest.mark.parametrize(("L", "S", "offset"), PLACES)
@pytest.mark.parametrize("name", MASKS)
def test_converted_masks_equal_the_originals_at_every_pair(name, L, S, offset):
    function, ours = MASKS[name]
    want = their_mask(function, L, S, offset)
    at = {"batch": 2, "q_offset": offset}
    assert torch.equal(hf.as_mask(function).dense(L, S, **at), want)
    if ours is not None:
        assert torch.equal(ours.dense(L, S, **at), want)
        made = their_mask(ours, L, S, offset)
        assert torch.equal(made, want), "ours, as a mask function of theirs"


@pytest.mark.parametrize("name", MASKS)
def test_shifted_masks_equal_those_of_transformers(name):
    function, ours = MASKS[name]
    mask = hf.as_mask(function) if ours is None else ours
    block = mask.shift(q=4, kv=2)
    want = their_mask(function, 3, 5, 4, 2)
    assert torch.equal(block.dense(3, 5, batch=2), want)


@pytest.mark.parametrize("name", MASKS)
def test_masks_that_a_backend_supports_are_recognised(name):
    terms = hf.as_mask(MASKS[name][0]).terms
    recognised = all(term.kind != "opaque" for term in terms)
    assert recognised == (name in RECOGNISED)


def test_an_unknown_mask_function_becomes_an_opaque_predicate():
    def every_other(b, h, q_idx, kv_idx):
        return (q_idx - kv_idx) % 2 == 0

    mask = hf.as_mask(every_other)
    assert str(mask) == "every_other" and mask.terms[0].kind == "opaque"
    assert hf.as_mask(mask) is mask
    want = their_mask(every_other, 5, 9, 4)[:1]
    assert torch.equal(mask.dense(5, 9, q_offset=4), want)


def test_transformers_has_the_version_whose_closures_were_reviewed():
    """as_mask looks into transformers' closures: a new version is news."""
    assert transformers.__version__.startswith("5.23.")


def test_a_window_of_size_zero_masks_every_pair():
    """Qwen2-MoE makes one, though none of its layers slides."""
    nobody = hf.as_mask(THEIR_WINDOW(0))
    assert not nobody.dense(4).any()
    made = build("qwen2_moe")
    assert made.config.sliding_window == 0
    ids = torch.arange(5)[None]
    want, got = made(ids).logits, hf.attach(made)(ids).logits
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-4)


# --- the masks of layers: specs where they are exact, tensors elsewhere ------


def test_a_spec_equals_the_tensor_that_it_replaces():
    """Chunks of a padded prompt, and a sliding cache that begins later."""
    for L, S, start, first in ((5, 5, 0, 0), (3, 9, 6, 0), (1, 4, 9, 6)):
        kwargs = {
            "batch_size": 3,
            "q_length": L,
            "kv_length": S,
            "q_offset": start,
            "kv_offset": first,
            "mask_function": THEIR_WINDOW(4),
            "attention_mask": pad("left")[:, : first + S],
        }
        got = make_mask(**kwargs, always_spec=True).dense()
        want = theirs.sdpa_mask(**kwargs, allow_is_causal_skip=False)
        assert torch.equal(got, want)


SIZES = {
    "batch_size": 2,
    "q_length": 5,
    "kv_length": 9,
    "mask_function": THEIR_CAUSAL,
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
