"""Prompts of different lengths, padded on the right: each row as if alone."""

import functools

import pytest
import torch

import attn
from tests.attn.graphs import check_two_graphs
from tests.attn.models import small_llama
from tests.attn.refusals import value_error
from tests.marks import exhaustive_but

V, E, H, HKV, D, LAYERS = 29, 24, 4, 2, 6, 2
LENGTHS = [5, 17, 9]
NEW = 6
WINDOW = 4
MODELS = {
    "RoPE": {},
    "ALiBi": {"positions": "alibi"},
    "learned": {"positions": "learned", "max_positions": 17 + NEW - 1},
    "window": {"window": (WINDOW - 1, 0)},
    "ALiBi and a window": {
        "positions": "alibi",
        "window": (WINDOW - 1, 0),
    },
}
every_model = pytest.mark.parametrize("name", MODELS)


def kinds(name):
    every = ["dynamic", "static", "paged", "transposed"]
    return every + ["sliding"] * ("window" in name)


def caches(kind, batch, capacity=40):
    def one():
        if kind == "sliding":
            return attn.SlidingCache(WINDOW)
        if kind == "dynamic":
            return attn.DynamicCache()
        if kind == "paged":
            return attn.PagedCache(attn.PagePool(40, 3, HKV, D), batch)
        transposed = kind == "transposed"
        sizes = (batch, HKV, capacity, D)
        return attn.StaticCache(*sizes, transposed_keys=transposed)

    return [one() for _ in range(LAYERS)]


@functools.cache
def model_of(name):
    torch.manual_seed(0)
    config = attn.llama_style(
        vocab_size=V, embed_dim=E, num_layers=LAYERS, num_heads=H,
        num_kv_heads=HKV, hidden_dim=32, **MODELS[name],
    )  # fmt: skip
    model = attn.Transformer(config).eval()
    for x in model.parameters():
        if x.dim() > 1:
            torch.nn.init.normal_(x, std=0.2)
    return model


@functools.cache
def prompts():
    """Return ids, with padding that is a word elsewhere, and lengths."""
    g = torch.Generator().manual_seed(1)
    ids = torch.randint(V, (len(LENGTHS), max(LENGTHS)), generator=g)
    lengths = torch.tensor(LENGTHS)
    padding = torch.arange(ids.shape[1]) >= lengths[:, None]
    return ids.masked_fill(padding, 7), lengths


@every_model
@torch.no_grad()
def test_each_cache_stores_the_real_tokens_and_decodes_each_row_as_alone(name):
    model, (ids, lengths) = model_of(name), prompts()
    new = torch.randint(V, (len(ids), 3))
    whole = [
        model(torch.cat([row[None, :n], tail[None]], 1))
        for row, n, tail in zip(ids, LENGTHS, new, strict=True)
    ]
    for kind in kinds(name):
        stored = caches(kind, len(ids))
        logits = model(ids, lengths=lengths, caches=stored)
        assert all(c.seq_len.tolist() == LENGTHS for c in stored), kind
        steps = [
            model(new[:, i : i + 1], caches=stored, logits_to_keep=1)
            for i in range(3)
        ]
        steps = torch.cat(steps, 1)  # (B, 3, V)
        for row, n in enumerate(LENGTHS):
            got = torch.cat([logits[row, :n], steps[row]])
            torch.testing.assert_close(got, whole[row][0], msg=kind)
        assert all(
            c.seq_len.tolist() == [n + 3 for n in LENGTHS] for c in stored
        )


@every_model
@torch.no_grad()
def test_a_ragged_prompt_may_be_read_in_chunks(name):
    model, (ids, lengths) = model_of(name), prompts()
    whole = model(ids, lengths=lengths, logits_to_keep=1)
    for kind in kinds(name):
        stored = caches(kind, len(ids))
        for start, end in ((0, 7), (7, 8), (8, 17)):
            count = (lengths - start).clamp(0, end - start)
            logits = model(ids[:, start:end], lengths=count, caches=stored)
            for row in range(len(ids)):
                if start < LENGTHS[row] <= end:
                    last = logits[row, LENGTHS[row] - start - 1]
                    torch.testing.assert_close(last, whole[row, 0], msg=kind)
        assert stored[0].seq_len.tolist() == LENGTHS


@torch.no_grad()
def test_an_encoder_with_lengths_sees_no_padding():
    model = small_llama(vocab_size=V, num_layers=1, is_causal=False)
    ids, lengths = prompts()
    out = model(ids, lengths=lengths)
    stored = [attn.DynamicCache()]
    ragged = model(ids, lengths=lengths, caches=stored)
    for row, n in enumerate(LENGTHS):
        alone = model(ids[row, None, :n])[0]
        torch.testing.assert_close(out[row, :n], alone)
        torch.testing.assert_close(ragged[row, :n], alone)


def test_the_last_logits_are_those_of_the_last_real_tokens():
    model, (ids, lengths) = model_of("RoPE"), prompts()
    every = model(ids, lengths=lengths)
    last = model(ids, lengths=lengths, logits_to_keep=2)
    for row, n in enumerate(LENGTHS):
        torch.testing.assert_close(last[row], every[row, n - 2 : n])


@every_model
def test_a_ragged_row_generates_what_it_does_alone(name):
    model, (ids, lengths) = model_of(name), prompts()
    options = {"repetition_penalty": 1.2}
    for cache in ("dynamic", "static", None, *kinds(name)[2:]):
        given = cache
        if cache in ("paged", "transposed", "sliding"):
            given = caches(cache, len(ids))
        text = attn.generate(
            model, ids, NEW, lengths=lengths, cache=given, **options
        )
        assert text.shape == (3, 17 + NEW)
        for row, n in enumerate(LENGTHS):
            alone = attn.generate(model, ids[row, None, :n], NEW, **options)
            assert torch.equal(text[row, : n + NEW], alone[0]), cache
            assert (text[row, n + NEW :] == 7).all(), cache


def test_an_ended_ragged_row_is_filled_before_its_padding():
    model, (ids, lengths) = model_of("RoPE"), prompts()
    plain = attn.generate(model, ids, NEW, lengths=lengths)
    eos = int(plain[0, LENGTHS[0]])
    text = attn.generate(model, ids, NEW, lengths=lengths, eos=eos)
    assert (text[0, 5 : text.shape[1] - 12] == eos).all()
    assert (text[0, text.shape[1] - 12 :] == 7).all()


@pytest.mark.parametrize("kind", ["dynamic", "static", "paged"])
def test_a_second_ragged_turn_continues_from_the_caches(kind):
    model, (ids, lengths) = model_of("RoPE"), prompts()
    stored = caches(kind, len(ids))
    text = attn.generate(model, ids, 3, lengths=lengths, cache=stored)
    ends, said = lengths + 3, [4, 2, 1]
    more = torch.full((3, text.shape[1] + 4), 7)
    more[:, : text.shape[1]] = text
    for row, n in enumerate(said):
        more[row, ends[row] : ends[row] + n] = torch.arange(n) + 1
    ends = ends + torch.tensor(said)
    again = attn.generate(model, more, 3, lengths=ends, cache=stored)
    fresh = attn.generate(model, more, 3, lengths=ends)
    assert torch.equal(again, fresh)


@pytest.mark.parametrize(
    "kind", exhaustive_but(["static"], ["static", "transposed"])
)
@pytest.mark.parametrize("name", exhaustive_but(["RoPE"], MODELS))
def test_a_compiled_model_generates_ragged_rows_with_two_graphs(name, kind):
    model, (ids, lengths) = model_of(name), prompts()
    want = attn.generate(model, ids, NEW, lengths=lengths)
    rows = {"lengths": lengths, "cache": lambda: caches(kind, len(ids))}
    check_two_graphs(model, want, ids, NEW, **rows)


IDS, LONG = torch.ones(2, 3, dtype=torch.long), torch.tensor([2, 3])
WRONG = {
    "lengths must be an integer tensor .B,.; got list": {"lengths": [2, 3]},
    "lengths must be an integer tensor .*; got torch.float32": {
        "lengths": LONG.float()
    },
    "lengths must have .* values from 1 to 3; got .0, 3.": {
        "lengths": LONG - torch.tensor([2, 0])
    },
    "lengths must have shape .2,.* 3; got .3.": {"lengths": LONG[1:]},
    "lengths must be None with attention_mask": {
        "lengths": LONG, "attention_mask": torch.ones_like(IDS)
    },
    "lengths must be greater than .* in the cache, 2; got .2, 3.": {
        "lengths": LONG, "cache": [attn.DynamicCache(), attn.DynamicCache()]
    },
    "lengths must be None with a QuantizedCache": {
        "lengths": LONG,
        "cache": [attn.QuantizedCache(), attn.QuantizedCache()],
    },
    "cache must have a capacity of 4": {
        "lengths": LONG, "cache": caches("static", 2, capacity=3)
    },
}  # fmt: skip


@pytest.mark.parametrize("message", WRONG)
def test_wrong_lengths_of_generate_are_refused(message):
    model, options = model_of("RoPE"), WRONG[message]
    if "greater" in message:
        model(IDS[:, :2], caches=options["cache"])
    with pytest.raises((ValueError, TypeError), match=message):
        attn.generate(model, IDS, 2, **options)


def test_lengths_are_refused_where_they_have_no_use():
    model = model_of("RoPE")
    with value_error("lengths must be None with attention"):
        model(IDS, lengths=LONG, attention_mask=torch.ones_like(IDS))
    layer, x = attn.MultiHeadAttention(8, 2), torch.randn(2, 3, 8)
    with value_error("lengths must be None without a cach"):
        layer(x, lengths=LONG)
    with value_error("model must be an attn.Transformer"):
        attn.generate(lambda ids: ids, IDS, 2, lengths=LONG, cache=None)
    windowed, stored = model_of("window"), caches("sliding", 2)
    windowed(IDS, lengths=LONG, caches=stored)
    mask = torch.ones(2, 4)
    with value_error("key_padding_mask must be None with"):
        windowed(IDS[:, :1], caches=stored, attention_mask=mask.long())
