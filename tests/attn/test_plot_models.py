"""The attention of whole models is shown as their own eager code has it."""

import base64
import json
import re

import pytest
import torch

import attn
from attn import plot
from tests.attn import hf_decoders, hf_encoders
from tests.attn.models import small_llama

IDS = hf_decoders.tokens(1)
DECODERS = ["llama", "gpt2", "mistral", "gemma2", "gpt_oss"]


@pytest.fixture(scope="module")
def llama():
    return hf_decoders.model("llama", "eager")


class Words:
    """A tokenizer with a word for each id."""

    def decode(self, ids, skip_special_tokens):
        assert not skip_special_tokens
        return f" w{ids[0]}"


def assert_equal(weights, theirs):
    torch.testing.assert_close(
        weights, torch.cat(list(theirs)).float(), atol=5e-6, rtol=0
    )


@pytest.mark.parametrize("name", [*DECODERS, "bert"])
def test_an_attached_model_shows_the_weights_of_eager_attention(name):
    """With windows, a softcap, sinks, shared keys, and padding."""
    model = (
        hf_encoders.encoder(name)
        if name == "bert"
        else hf_decoders.model(name, "eager")
    )
    real = torch.ones_like(IDS)
    real[:, :2] = 0
    inputs = {"attention_mask": real}
    with torch.no_grad():
        theirs = model(IDS, output_attentions=True, **inputs).attentions
    eager = plot.model_attention(model, IDS, **inputs).weights
    attached = plot.model_attention(attn.hf.attach(model), IDS, **inputs)
    assert_equal(eager, theirs)
    rows = slice(2, None)  # what a token of padding reads is never used
    assert_equal(attached.weights[:, :, rows], [x[:, :, rows] for x in theirs])
    assert attached.weights.shape[2:] == (11, 11)


@pytest.mark.parametrize("is_attached", [False, True])
def test_each_field_of_t5_has_its_own_tokens(is_attached):
    model = hf_encoders.encoder("t5")
    written = IDS[:, :4] + 1
    with torch.no_grad():
        out = model(IDS, decoder_input_ids=written, output_attentions=True)
    if is_attached:
        attn.hf.attach(model)
    read, new = (tuple(f"w{i}" for i in x[0].tolist()) for x in (IDS, written))
    for field, queries, keys in [
        ("encoder_attentions", read, read),
        ("decoder_attentions", new, new),
        ("cross_attentions", new, read),
    ]:
        shown = plot.model_attention(
            model, IDS, Words(), field=field, decoder_input_ids=written
        )
        assert_equal(shown.weights, out[field])
        assert (shown.queries, shown.keys) == (queries, keys)


def test_our_own_model_shows_the_weights_that_it_returns():
    model = small_llama(vocab_size=50).eval()
    with torch.no_grad():
        theirs = model(IDS, need_weights=True)[1]
    shown = plot.model_attention(model, IDS[0])
    assert_equal(shown.weights, theirs)
    assert shown.queries == tuple(map(str, IDS[0].tolist()))


def test_chosen_layers_and_heads_keep_their_numbers(llama):
    every = plot.model_attention(llama, IDS)
    some = plot.model_attention(
        llama, IDS, layers=[1], heads=[3, 1], head=(1, 1)
    )
    assert torch.equal(some.weights, every.weights[1:, [3, 1]])
    assert (some.layers, some.heads, some.head) == ((1,), (3, 1), (1, 1))
    small, large = some.figure().axes
    assert large.get_title() == "layer 1, head 1"
    assert [x.get_text() for x in small.get_xticklabels()] == ["3", "1"]
    drawn = large.images[0].get_array()
    allowed = torch.ones(11, 11).tril().bool()
    torch.testing.assert_close(
        torch.tensor(drawn.filled(0))[allowed].float(),
        some.weights[0, 1][allowed],
    )


def test_nothing_of_the_model_is_changed(llama):
    before = llama.config.to_dict()
    plot.model_attention(llama, IDS)
    assert llama.config.to_dict() == before


REFUSED = {
    "ids must have shape": {"ids": IDS.expand(2, -1)},
    "ids must have at most 64 tokens.*got 65": {
        "ids": torch.ones(65, dtype=torch.long)
    },
    "layers must be numbers from 0 to 1; got": {"layers": [2]},
    "heads must be numbers from 0 to 3; got": {"heads": []},
    "head must be one of layers .* got": {"head": (0, 4)},
    "field must be one of .*attentions.*; got": {"field": "cross_attentions"},
}


@pytest.mark.parametrize("message", REFUSED)
def test_a_wrong_argument_is_named(llama, message):
    given = {"ids": IDS, **REFUSED[message]}
    with pytest.raises(ValueError, match=f"^{message}"):
        plot.model_attention(llama, **given)


def test_a_model_without_weights_or_with_dropout_is_refused():
    model = hf_decoders.model("llama", "sdpa")
    message = r"got none from 'sdpa': attn.hf.attach\(model\)"
    with pytest.raises(ValueError, match=message):
        plot.model_attention(model, IDS)
    with pytest.raises(ValueError, match=r"got training mode.*model.eval\(\)"):
        plot.model_attention(model.train(), IDS)


class Large(torch.nn.Module):
    """Return as many maps as a large model."""

    def forward(self, ids, need_weights):
        L = ids.shape[1]
        return ids, [torch.zeros(1, 32, L, L)] * 80


def test_too_much_to_show_says_what_to_choose():
    ids = torch.ones(40, dtype=torch.long)
    message = (
        r"layers x heads x queries x keys must be at most 1,048,576; got 80 x "
        r"32 x 40 x 40 = 4,096,000: choose some, such as "
        r"layers=range\(0, 80, 4\)"
    )
    model = Large().eval()
    with pytest.raises(ValueError, match=message):
        plot.model_attention(model, ids)
    shown = plot.model_attention(model, ids, layers=range(0, 80, 4))
    assert shown.weights.shape == (20, 32, 40, 40)


def numbers(page):
    """Return the numbers that a page draws."""
    [found] = re.findall(r"Play\.data\.attention_heads = (.*);</script>", page)
    return json.loads(found)


def test_a_file_holds_the_weights_and_refers_to_no_other(llama, tmp_path):
    shown = plot.model_attention(llama, IDS, Words(), head=(1, 2))
    shown.save(tmp_path / "heads.html")
    page = (tmp_path / "heads.html").read_text("utf-8")
    assert re.findall(r"(?:src|href)=|url\(|@import|fetch\(", page) == []
    held = numbers(page)
    (text,) = held["sentences"]
    shares = list(base64.b64decode(text["weights"]))
    drawn = torch.tensor(shares).view(shown.weights.shape) / 255
    torch.testing.assert_close(drawn, shown.weights, atol=0.51 / 255, rtol=0)
    assert text["tokens"] == list(shown.queries)
    assert held["head"] == 1 * 4 + 2


def test_a_token_cannot_end_the_script(llama):
    class Tags:
        def decode(self, ids, skip_special_tokens):
            return "</script><b>"

    page = plot.model_attention(llama, IDS, Tags())._touch().page()
    assert page.count("<script>") == page.count("</script>") == 4
    assert numbers(page)["sentences"][0]["tokens"][0] == "</script><b>"


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_picture_is_saved_by_the_ending_of_its_name(llama, tmp_path, ending):
    path = tmp_path / f"heads.{ending}"
    plot.model_attention(llama, IDS).save(path)
    start = {"png": b"\x89PNG", "svg": b"<?xml"}[ending]
    assert path.read_bytes().startswith(start)


def test_a_blank_token_is_visible():
    class Blank:
        def decode(self, ids, skip_special_tokens):
            return " \n"

    model = small_llama(vocab_size=50).eval()
    shown = plot.model_attention(model, IDS, Blank())
    assert set(shown.queries) == {"␣⏎"}
