"""Generated text is that of transformers, token for token."""

import functools

import pytest
import torch

import attn
from attn import hf
from tests.attn import hf_decoders, hf_zoo
from tests.attn.cases import assert_equal
from tests.attn.graphs import check_two_graphs
from tests.attn.models import small_llama, varied
from tests.marks import exhaustive_but

NEW = 6
FAMILIES = [x for x in hf_zoo.FAMILIES if x != "bert"]
QUICK = ("llama", "gpt2", "gemma2", "bloom", "mistral")


@functools.cache
def theirs_of(family):
    return hf_zoo.model(family)


@functools.cache
def ours_of(family):
    return hf.load(theirs_of(family))


def prompt(padding="left"):
    """Return three prompts, of 9, 6 and 2 tokens when padded."""
    valid = hf_zoo.padding(padding)
    return hf_zoo.ids(), None if valid is None else valid.long()


def their_text(model, ids, mask, eos=None, **options):
    """Return the text of transformers' own generate."""
    if mask is None:
        mask = torch.ones_like(ids)
    return model.generate(
        ids,
        attention_mask=mask,
        max_new_tokens=NEW,
        do_sample="temperature" in options,
        eos_token_id=eos,
        pad_token_id=0 if eos is None else torch.tensor(eos).flatten()[0],
        bos_token_id=None,
        **{"top_k": 0, **options},
    )


@pytest.mark.parametrize("padding", ["none", "left"])
@pytest.mark.parametrize("family", exhaustive_but(QUICK, FAMILIES))
def test_greedy_text_equals_that_of_transformers(family, padding):
    ids, mask = prompt(padding)
    want = their_text(theirs_of(family), ids, mask)
    assert want.shape == (3, 9 + NEW)
    write = functools.partial(attn.generate, ids=ids, attention_mask=mask)
    kinds = ["dynamic", "static", None]
    if family in ("mistral", "gemma2"):
        kinds.append("sliding")
    for cache in kinds:
        text = write(ours_of(family), max_new_tokens=NEW, cache=cache)
        assert torch.equal(text, want), cache
    for cache in ("dynamic", "static", None):
        text = write(theirs_of(family), max_new_tokens=NEW, cache=cache)
        assert torch.equal(text, want), cache


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", hf_decoders.DECODERS)
def test_generate_equals_transformers_own_in_every_family(name):
    ids = hf_decoders.tokens()
    model = hf_decoders.model(name, "eager")
    for mask in (None, hf_decoders.pad("left").long()):
        want = their_text(model, ids, mask)
        text = attn.generate(model, ids, NEW, attention_mask=mask)
        assert torch.equal(text, want)


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 1.0},
        {"temperature": 1.5, "top_k": 5},
        {"temperature": 0.7, "top_p": 0.8, "repetition_penalty": 1.3},
        {"temperature": 2.0, "top_k": 20, "top_p": 0.9, "min_p": 0.1},
        {"repetition_penalty": 1.7},
    ],
    ids=str,
)
def test_text_sampled_from_a_seed_equals_that_of_transformers(options):
    """Padding is no repetition; the rest of the prompt is."""
    ids, mask = prompt()
    ids = ids.masked_fill(mask == 0, int(ids[0, 0]))
    theirs = theirs_of("llama")  # made, it draws numbers
    torch.manual_seed(3)
    want = their_text(theirs, ids, mask, **options)
    assert not torch.equal(want, their_text(theirs, ids, mask))
    for model in (ours_of("llama"), theirs):
        torch.manual_seed(3)
        text = attn.generate(model, ids, NEW, attention_mask=mask, **options)
        assert torch.equal(text, want)


@pytest.mark.parametrize("padding", ["none", "left"])
def test_an_ended_row_is_filled_while_the_others_continue(padding):
    ids, mask = prompt(padding)
    model = ours_of("llama")
    plain = attn.generate(model, ids, NEW, attention_mask=mask)
    first, second = int(plain[0, 10]), int(plain[1, 12])
    for eos in (first, [first, second]):
        want = their_text(theirs_of("llama"), ids, mask, eos=eos)
        text = attn.generate(model, ids, NEW, attention_mask=mask, eos=eos)
        assert torch.equal(text, want)
        assert (text[0, 10:] == first).all()
    both = attn.generate(model, ids[:1], NEW, eos=int(plain[0, 9]))
    assert both.shape == (1, 10) and torch.equal(both, plain[:1, :10])


@pytest.mark.parametrize("family", ["llama", "qwen3"])  # with norms of keys
def test_a_static_cache_generates_under_autocast(family):
    ids, mask = prompt()
    text = {}
    with torch.autocast("cpu", torch.bfloat16):
        for cache in ("dynamic", "static"):
            text[cache] = attn.generate(
                ours_of(family), ids, NEW, attention_mask=mask, cache=cache
            )
    assert torch.equal(text["static"], text["dynamic"])


def test_logits_are_computed_only_for_the_last_token():
    model, ids = ours_of("llama"), hf_zoo.ids()
    got = []
    hook = model.head.register_forward_hook(
        lambda module, args, out: got.append(out.shape)
    )
    try:
        attn.generate(model, ids, 2)
        last = model(ids, logits_to_keep=2)
    finally:
        hook.remove()
    assert got == [(3, 1, hf_zoo.VOCAB)] * 2 + [(3, 2, hf_zoo.VOCAB)]
    torch.testing.assert_close(last, model(ids)[:, -2:])


def test_each_token_is_read_once_with_a_cache():
    read = []

    def note(module, args):
        read.append(args[0].shape[1])

    for model, body in (
        (ours_of("llama"), "token_embedding"),
        (theirs_of("llama"), "model.embed_tokens"),
    ):
        hook = model.get_submodule(body).register_forward_pre_hook(note)
        try:
            for cache in ("dynamic", "static"):
                attn.generate(model, hf_zoo.ids(), 4, cache=cache)
                assert read == [9, 1, 1, 1]
                read.clear()
            attn.generate(model, hf_zoo.ids(), 4, cache=None)
            assert read == [9, 10, 11, 12]
            read.clear()
        finally:
            hook.remove()


@pytest.mark.parametrize("padding", exhaustive_but(["left"], ["none", "left"]))
def test_a_compiled_model_generates_with_two_graphs(padding):
    ids, mask = prompt(padding)
    model = hf.load(hf_zoo.model("llama", num_hidden_layers=1))
    want = attn.generate(model, ids, NEW, attention_mask=mask)
    check_two_graphs(model, want, ids, NEW, attention_mask=mask)


def caches_of(kind):
    if kind == "theirs":
        from transformers import DynamicCache

        return DynamicCache(config=theirs_of("llama").config)
    return ours_of("llama").new_caches(kind, batch=3, capacity=30)


def test_a_model_has_caches_of_the_kinds_that_its_layers_write_to():
    hybrid = varied("rope", attention=("gated_delta", "auto"))
    kinds = [type(x) for x in hybrid.new_caches("static", capacity=9)]
    assert kinds == [attn.StateCache, attn.StaticCache]
    with pytest.raises(TypeError, match="capacity must be an int"):
        hybrid.new_caches("static")
    with pytest.raises(ValueError, match="kind must be one of .*; got 'x'"):
        hybrid.new_caches("x")


@pytest.mark.parametrize("kind", ["dynamic", "static", "theirs"])
@pytest.mark.parametrize("padding", ["none", "left"])
def test_a_second_turn_continues_from_the_caches(kind, padding):
    ids, mask = prompt(padding)
    model = (theirs_of if kind == "theirs" else ours_of)("llama")
    cache = caches_of(kind)
    text = attn.generate(model, ids, 3, attention_mask=mask, cache=cache)
    text = torch.cat([text, ids[:, :2]], 1)
    if mask is not None:
        mask = torch.cat([mask, torch.ones(3, 5, dtype=mask.dtype)], 1)
    want = attn.generate(model, text, 3, attention_mask=mask, cache=None)
    got = attn.generate(model, text, 3, attention_mask=mask, cache=cache)
    assert torch.equal(got, want)
    read = cache.get_seq_length() if kind == "theirs" else cache[0].seq_len
    assert read == text.shape[1] + 3 - 1


def test_sampling_draws_only_from_the_given_generator():
    ids, _ = prompt("none")
    model = ours_of("llama")

    def text(seed):
        g = torch.Generator().manual_seed(seed)
        return attn.generate(model, ids, NEW, temperature=1.0, generator=g)

    before = torch.get_rng_state()
    first, again, other = text(0), text(0), text(1)
    attn.generate(model, ids, NEW)  # draws nothing at all
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_generation_leaves_the_model_and_the_prompt_unchanged():
    model = hf_zoo.model("gpt2", attn_pdrop=0.5, resid_pdrop=0.5)
    model.train()
    model.transformer.h[1].eval()
    modes = [x.training for x in model.modules()]
    ids, mask = prompt()
    copies = ids.clone(), mask.clone()
    text = attn.generate(model, ids, NEW, attention_mask=mask)
    again = attn.generate(model, ids, NEW, attention_mask=mask)
    assert torch.equal(text, again)  # without dropout
    assert [x.training for x in model.modules()] == modes
    with pytest.raises(ZeroDivisionError):
        attn.generate(model, ids, NEW, streamer=lambda new: 1 / 0)
    assert [x.training for x in model.modules()] == modes
    assert torch.equal(ids, copies[0]) and torch.equal(mask, copies[1])
    assert not text.requires_grad


class Streamer:
    """transformers' protocol of streamers."""

    def __init__(self, fails_at=99):
        self.heard, self.ended, self.fails_at = [], 0, fails_at

    def put(self, ids):
        self.heard.append(ids)
        if len(self.heard) > self.fails_at:
            raise KeyboardInterrupt

    def end(self):
        self.ended += 1


def test_streamers_receive_what_transformers_streams():
    ids = hf_zoo.ids()[:1]
    theirs, ours, new = Streamer(), Streamer(), []
    their_text(theirs_of("llama"), ids, None, streamer=theirs)
    text = attn.generate(ours_of("llama"), ids, NEW, streamer=ours)
    attn.generate(ours_of("llama"), ids, NEW, streamer=new.append)
    assert len(ours.heard) == len(theirs.heard) == 1 + NEW
    assert_equal(ours.heard, theirs.heard)
    assert theirs.ended == ours.ended == 1
    assert torch.equal(torch.stack(new, 1), text[:, 9:])


def test_an_interrupted_streamer_is_ended():
    streamer = Streamer(fails_at=3)
    with pytest.raises(KeyboardInterrupt):
        attn.generate(ours_of("llama"), hf_zoo.ids(), NEW, streamer=streamer)
    assert streamer.ended == 1


def test_a_progress_bar_is_shown_only_with_progress(capsys):
    run = functools.partial(attn.generate, ours_of("llama"), hf_zoo.ids(), 3)
    run()
    assert capsys.readouterr().err == ""
    run(progress=True)
    assert "/3" in capsys.readouterr().err


def test_any_function_from_ids_to_logits_generates():
    def one_more(ids):
        return torch.nn.functional.one_hot((ids + 1) % 10, 10).float()

    text = attn.generate(one_more, torch.tensor([[3], [8]]), 4, cache=None)
    assert text.tolist() == [[3, 4, 5, 6, 7], [8, 9, 0, 1, 2]]


def test_ids_may_be_int32():
    ids = hf_zoo.ids().int()
    options = {"repetition_penalty": 1.2}
    text = attn.generate(ours_of("llama"), ids, NEW, **options)
    assert text.dtype == torch.int32
    want = attn.generate(ours_of("llama"), ids.long(), NEW, **options)
    assert torch.equal(text.long(), want)


IDS = torch.ones(1, 9, dtype=torch.long)
ERRORS = {
    "max_new_tokens must be an int, at least 1; got 0": {"max_new_tokens": 0},
    "ids must be integers (B, L); got torch.float32": {"ids": IDS.float()},
    "ids must be integers (B, L); got torch.int64 of shape (9,)": {
        "ids": IDS[0]
    },
    "ids must have a row and a token": {"ids": IDS[:, :0]},
    "attention_mask must have the shape of ids": {
        "attention_mask": IDS[:, 1:]
    },
    "attention_mask must end with 1 in every row": {
        "attention_mask": torch.tensor([[1] * 8 + [0]])
    },
    "temperature must be a finite number, at least 0; got -1.0": {
        "temperature": -1.0
    },
    "top_k must be None with temperature 0": {"top_k": 3},
    "top_k must be an int, at least 1; got 0": {
        "top_k": 0,
        "temperature": 1.0,
    },
    "top_p must be above 0 and at most 1": {"top_p": 0.0, "temperature": 1.0},
    "min_p must be above 0 and at most 1": {"min_p": 1.1, "temperature": 1.0},
    "repetition_penalty must be positive; got 0": {"repetition_penalty": 0.0},
    "cache must be one of ('dynamic', 'static', 'sliding')": {
        "cache": "quantized"
    },
    "cache must be 'dynamic' or 'static' for a model without windows": {
        "cache": "sliding"
    },
    "cache must be 'dynamic' for a model of transformers": {
        "cache": "sliding",
        "model": lambda: theirs_of("llama"),
    },
    "cache must have a capacity of 11": {
        "cache": [attn.StaticCache(1, 2, 10, 6) for _ in range(3)]
    },
    "cache must be caches of attn, one for each block of the model": {
        "cache": attn.DynamicCache()
    },
    "cache must be one of transformers for a model of transformers": {
        "cache": [attn.DynamicCache()],
        "model": lambda: theirs_of("llama"),
    },
    "caches must have one entry for each block, 3; got 1": {
        "cache": [attn.DynamicCache()]
    },
    "caches must have one entry for each block, 3; got 0": {"cache": []},
    "max_new_tokens must leave at most 32 tokens to read": {
        "model": lambda: ours_of("gpt2"),
        "max_new_tokens": 25,
    },
    "model must be causal and end with logits; got is_causal=True, head=F": {
        "model": lambda: hf.load(hf_zoo.model("llama", "Model"))
    },
    "model must be causal and end with logits; got is_causal=False": {
        "model": lambda: small_llama(is_causal=False)
    },
    "model must be an attn.Transformer, or a language model of transf": {
        "model": lambda: torch.nn.Embedding(7, 7)
    },
    "model must return logits (B, L, V), (1, 9) and V; got Tensor of": {
        "model": lambda: lambda ids: torch.zeros(1, 7),
        "cache": None,
    },
    "ids must be a torch.Tensor; got list": {"ids": [[1, 2]]},
    "attention_mask must be a torch.Tensor; got list": {
        "attention_mask": [[1] * 9]
    },
    "top_p must be a finite number; got '1'": {
        "top_p": "1",
        "temperature": 1.0,
    },
    "eos must be an int, at least 0; got -1": {"eos": [3, -1]},
    "eos must be an int, at least 0; got '</s>'": {"eos": "</s>"},
    "streamer must be a function of tokens, or have put": {"streamer": 3},
    "generator must be a torch.Generator; got 3": {"generator": 3},
    "model must return numbers as logits; got nan after 9 tokens": {
        "model": lambda: lambda ids: torch.full((1, 9, 7), torch.nan),
        "cache": None,
    },
}


@pytest.mark.parametrize("message", ERRORS)
def test_generation_errors_name_the_argument(message):
    changes = {"model": lambda: ours_of("llama"), "ids": IDS}
    changes |= {"max_new_tokens": 3, **ERRORS[message]}
    model = changes.pop("model")()
    with pytest.raises((ValueError, TypeError)) as error:
        attn.generate(model, **changes)
    assert message in str(error.value)


def test_caches_that_already_hold_the_whole_prompt_are_refused():
    cache = caches_of("dynamic")
    text = attn.generate(ours_of("llama"), IDS, 3, cache=cache)
    with pytest.raises(ValueError, match="must go on after the 11 tokens"):
        attn.generate(ours_of("llama"), text[:, :11], 3, cache=cache)


def test_generation_may_use_the_last_learned_position():
    text = attn.generate(ours_of("gpt2"), IDS, 24)
    assert text.shape == (1, 33)  # the last token is not read
