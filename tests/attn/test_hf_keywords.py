"""What a caller passes to an attached model: masks, packing, weights."""

import warnings

import pytest
import torch
import transformers as T

from attn import api, hf
from attn.backends import Registry
from attn.hf import attention_interface
from tests.attn.hf_decoders import distance, model, pad, tokens


@pytest.fixture(autouse=True)
def registered():
    hf.register()


# --- ready masks -------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("how", ["eager", "sdpa"])
def test_a_mask_of_four_axes_is_used_as_given(how):
    """As by transformers: all zeros make a decoder bidirectional."""
    ids = tokens()
    causal = torch.full((11, 11), -torch.inf).triu(1)
    outs = {}
    for name, mask in {
        "zeros": 0 * causal.nan_to_num(),
        "causal": causal,
    }.items():
        mask = mask.expand(3, 1, 11, 11)
        outs[name] = model("llama", "attn")(ids, attention_mask=mask).logits
        want = model("llama", how)(ids, attention_mask=mask).logits
        assert distance(outs[name], want) < 1e-5
    assert distance(outs["causal"], model("llama", "attn")(ids).logits) < 1e-5
    settings = {"is_causal": False}
    both = model("llama", "attn", **settings)(ids, use_cache=False).logits
    assert distance(outs["zeros"], both) < 1e-5
    assert (outs["zeros"] - outs["causal"]).abs().max() > 1e-3


# --- keywords without effect -------------------------------------------------


@torch.no_grad()
def test_a_renamed_argument_is_refused_with_its_new_name():
    """Eager attention swallows the old one, and the cache holds nothing."""
    ids, cache = tokens(), T.DynamicCache()
    model("llama", "eager")(ids, past_key_value=cache)
    assert cache.get_seq_length() == 0, "so eager is no advice"
    for family in ("llama", "mistral"):
        with pytest.raises(TypeError) as info:
            model(family, "attn")(ids, past_key_value=cache)
        message = str(info.value)
        assert "Attention: past_key_value. past_key_value is now" in message
        assert "now past_key_values: transformers ignores the" in message
        assert "Use attn_implementation" not in message
    model("llama", "attn")(ids, past_key_values=cache)
    assert cache.get_seq_length() == 11
    with pytest.raises(TypeError, match="is now logits_to_keep"):
        model("llama", "attn")(ids, num_logits_to_keep=1)


@torch.no_grad()
def test_the_advice_for_a_keyword_is_eager_only_where_eager_declares_it():
    warm = {"temperature": 2.0}
    ids = tokens()
    want = model("llama", "eager")(ids).logits
    assert torch.equal(model("llama", "eager")(ids, **warm).logits, want)
    with pytest.raises(TypeError, match="ignores it too: remove it, or"):
        model("llama", "attn")(ids, **warm)

    def declared(module, query, key, value, attention_mask):
        return query.transpose(1, 2), None

    name = hf.register("mine", declared, mask="bool")
    try:
        with pytest.raises(TypeError, match='"eager", which declares it'):
            model("gemma2", name)(ids)  # its softcap
    finally:
        hf.unregister(name)


@torch.no_grad()
def test_the_keys_that_an_indexer_chose_are_the_only_ones():
    layer = model("llama", "attn").model.layers[0].self_attn
    q, k, v = torch.randn(3, 2, 4, 5, 6).unbind(0)
    chosen = torch.tensor([[0, 3], [1, 0], [2, 1], [4, 4], [3, 2]])
    options = {"impl": "auto", "registry": api.registry}
    attend = attention_interface.attn_forward
    got, _ = attend(
        layer, q, k, v, None, is_causal=False,
        indices=chosen.int().expand(2, 5, 2), **options,
    )  # fmt: skip
    allowed = torch.zeros(5, 5, dtype=torch.bool).scatter(-1, chosen, True)
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, allowed)
    assert distance(got, want.transpose(1, 2)) < 1e-5
    causal = torch.ones(5, 5, dtype=torch.bool).tril()[None, None]
    both, _ = attend(
        layer, q, k, v, causal, indices=chosen.expand(2, 5, 2), **options
    )
    want = api.attention(q, k, v, causal & allowed).transpose(1, 2)
    assert distance(both, want) < 1e-5
    with pytest.raises(ValueError, match=r"indices must be .*\(2, 5, 'K'\)"):
        attend(layer, q, k, v, causal, indices=chosen, **options)


# --- packed sequences --------------------------------------------------------

LENGTHS = (4, 1, 6)


def packed(lengths: tuple[int, ...] = LENGTHS) -> dict[str, object]:
    """Return what DataCollatorWithFlattening(return_flash_attn_kwargs=True)
    gives a model, for one row of 11 tokens."""
    collate = T.DataCollatorWithFlattening(return_flash_attn_kwargs=True)
    rows = tokens()[0].split(lengths)
    batch = collate([{"input_ids": row.tolist()} for row in rows])
    batch.pop("labels")
    return dict(batch)


def borders(*ends: int, **options: torch.dtype) -> dict[str, torch.Tensor]:
    both = torch.tensor(ends, **options)
    return {"cu_seq_lens_q": both, "cu_seq_lens_k": both}


@torch.no_grad()
@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize("family", ["llama", "mistral", "gemma2", "gpt_oss"])
def test_packed_sequences_equal_each_sequence_alone(family, use_cache):
    """FlashAttention's keywords; with a cache, positions alone do not do."""
    batch = packed()
    assert {"cu_seq_lens_q", "cu_seq_lens_k", "max_length_q"} <= batch.keys()
    network = model(family, "attn")
    got = network(**batch, use_cache=use_cache).logits
    rows = tokens()[0].split(LENGTHS)
    alone = [network(row[None], use_cache=False).logits for row in rows]
    assert distance(got, torch.cat(alone, 1)) < 1e-5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"cu_seq_lens_k": None},
            "together; got cu_seq_lens_q alone",
        ),
        (
            {"cu_seq_lens_q": None},
            "together; got cu_seq_lens_k alone",
        ),
        ({"cu_seq_lens_k": torch.tensor([0, 5, 11])}, "must be equal"),
        ({"input_ids": tokens()[:2]}, "one row of packed .*; got 2 rows"),
        (borders(0, 4, 12), r"from 0 up to the 11 tokens; got \[0, 4, 12\]"),
        (borders(4, 11), r"from 0 up to the 11 tokens; got \[4, 11\]"),
        (borders(0, 7, 4, 11), "from 0 up to the 11 tokens; got"),
        (borders(0, 4), "from 0 up to the 11 tokens; got"),
    ],
)
def test_inconsistent_packing_keywords_are_refused(changes, message):
    batch = {**packed((4, 7)), "position_ids": None, **changes}
    with pytest.raises(ValueError, match=message):
        model("llama", "attn")(**batch)


def test_borders_of_packed_sequences_must_be_integers():
    batch = packed((4, 7)) | borders(0, 4, 11, dtype=torch.float32)
    with pytest.raises(TypeError, match="cu_seq_lens_q must be integers"):
        model("llama", "attn")(**batch)


@torch.no_grad()
def test_packing_with_a_cache_or_chunked_attention_is_refused():
    network, batch = model("llama", "attn"), packed()
    cache = network(tokens()[:1]).past_key_values
    with pytest.raises(ValueError, match="got 1 rows of 11 queries and 22 k"):
        network(**batch, past_key_values=cache)
    with pytest.raises(ValueError, match="got 11 tokens and chunks of 4"):
        model("llama4", "attn")(**batch)


@torch.no_grad()
def test_packed_positions_that_nothing_reads_are_warned_of():
    batch = packed()
    given = {k: batch[k] for k in ("input_ids", "position_ids")}
    real = torch.ones(1, 11, dtype=torch.long)
    network, said = model("llama", "attn"), "position_ids start again"
    for leaks in ({"attention_mask": real}, {"use_cache": True}):
        with pytest.warns(UserWarning, match=said):
            network(**given, **{"use_cache": False} | leaks)
    with warnings.catch_warnings(action="error"):
        network(**given, use_cache=False)
        network(given["input_ids"], attention_mask=real)


# --- weights -----------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(
    "family", ["llama", "gemma2", "gpt2", "gpt_oss", "llama4", "deepseek_v3"]
)
def test_returned_weights_equal_those_of_eager_attention(family, side):
    real = pad(side)
    given = {"attention_mask": real.long(), "output_attentions": True}
    got, want = (
        model(family, x)(tokens(), **given) for x in ("attn", "eager")
    )
    assert len(got.attentions) == 2
    assert distance(got.logits[real], want.logits[real]) < 1e-5
    rows = real[:, None, :, None].expand(3, 4, 11, 11)
    for mine, theirs in zip(got.attentions, want.attentions, strict=True):
        assert mine.shape == theirs.shape == (3, 4, 11, 11)
        assert mine.dtype == theirs.dtype
        assert (mine - theirs)[rows].abs().max() < 1e-5


@torch.no_grad()
@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_weights_of_generation_equal_those_of_eager_attention(kind):
    kwargs = {
        "max_new_tokens": 3,
        "do_sample": False,
        "output_attentions": True,
        "return_dict_in_generate": True,
        "eos_token_id": None,
        "cache_implementation": kind if kind == "static" else None,
    }
    want, got = (
        model("llama", how).generate(tokens(), **kwargs).attentions
        for how in ("eager", "attn")
    )
    assert len(got) == len(want) == 3
    for step, theirs in zip(got, want, strict=True):
        for mine, other in zip(step, theirs, strict=True):
            assert mine.shape == other.shape
            assert (mine - other).abs().max() < 1e-5


@torch.no_grad()
def test_weights_are_computed_only_with_output_attentions(monkeypatch):
    calls = []
    monkeypatch.setattr(
        "attn.hf.attention_interface.attention_weights",
        lambda *args, **kwargs: calls.append(1),
    )
    model("llama", "attn")(tokens())
    model("llama", "attn")(tokens(), output_attentions=False)
    assert not calls


def test_output_attentions_are_refused_for_functions_without_weights():
    own = Registry(parent=api.registry)

    @own.register("warm", mask="bool")
    def warm(query, key, value, mask, *, scale, temperature, enable_gqa=True):
        return query

    network = hf.attach(model("llama", "eager"), "warm", registry=own)
    with pytest.raises(ValueError, match="must be False with temperature"):
        network(tokens(), output_attentions=True, temperature=2.0)

    def none(module, query, key, value, attention_mask, **kwargs):
        return query.transpose(1, 2), None

    name = hf.register("none", none, mask="bool")
    try:
        with pytest.raises(ValueError, match="'none', which returned no"):
            model("llama", name)(tokens(), output_attentions=True)
    finally:
        hf.unregister(name)
