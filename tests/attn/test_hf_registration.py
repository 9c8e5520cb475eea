"""Attention under names in transformers: pairs, and each model its own."""

import copy
import pickle
import warnings

import pytest
import torch
from torch import Tensor, nn

from attn import api, hf
from attn.backends import Registry
from attn.hf import MaskSpec, registration
from tests.attn.hf_decoders import config, distance, model, pad, tokens
from tests.processes import run_python

with warnings.catch_warnings(action="ignore"):
    import transformers as T
    from torch.nn.attention.flex_attention import BlockMask
    from transformers import masking_utils
    from transformers.models.llama import modeling_llama


@pytest.fixture(autouse=True)
def forget():
    """Remove the names that a test registers."""
    before = set(registration.registered)
    yield
    for name in set(registration.registered) - before:
        hf.unregister(name)


@pytest.fixture
def own():
    return Registry(parent=api.registry)


@torch.no_grad()
def logits(one: nn.Module, side: str = "left", **kwargs: object) -> Tensor:
    """Return the logits of the real tokens."""
    real = pad(side)
    kwargs = {"attention_mask": real.long(), "use_cache": False, **kwargs}
    return one(tokens(), **kwargs).logits[real]


# --- each model its own ------------------------------------------------------


def counting(registry: Registry, name: str) -> list[str]:
    """Register an implementation that records its calls."""
    calls: list[str] = []

    @registry.register(name, mask="inputs", tunable=False)
    def counted(inputs):
        calls.append(name)
        return api.registry["reference"].function(inputs)

    return calls


def test_two_attached_models_keep_their_implementations(own):
    """The second ``attach`` once changed the first model too."""
    calls = {name: counting(own, name) for name in ("one", "two")}
    models = {
        name: hf.attach(model("llama", "eager"), name, registry=own)
        for name in calls
    }
    hf.attach(model("llama", "eager"))
    hf.register()
    want = logits(model("llama", "eager"))
    for name, one in models.items():
        [seen.clear() for seen in calls.values()]
        assert distance(logits(one), want) < 1e-5
        assert {n: len(seen) for n, seen in calls.items()} == {
            n: 2 * (n == name) for n in calls
        }


def test_a_model_keeps_its_registry(own):
    """One name in two registries is two implementations."""
    other = Registry(parent=api.registry)
    calls = [counting(registry, "mine") for registry in (own, other)]
    models = [
        hf.attach(model("llama", "eager"), "mine", registry=registry)
        for registry in (own, other)
    ]
    logits(models[0])
    assert [len(x) for x in calls] == [2, 0]
    logits(models[1])
    assert [len(x) for x in calls] == [2, 2]
    names = {one.config._attn_implementation for one in models}
    assert len(names) == 2
    again = hf.attach(model("llama", "eager"), "mine", registry=own)
    assert again.config._attn_implementation in names


def test_models_of_one_configuration_keep_their_implementations():
    """A comparison of one with the other would be with itself."""
    settings = config("llama")
    settings._attn_implementation = "eager"
    one, other = (T.LlamaForCausalLM(settings) for _ in range(2))
    assert one.config is other.config
    hf.attach(one)
    assert one.config._attn_implementation == "attn"
    assert one.model.layers[0].self_attn.config is one.config
    assert other.config._attn_implementation == "eager"
    assert settings._attn_implementation == "eager"


def test_a_registry_of_ones_own_can_be_automatic(own):
    calls = counting(own, "first")
    one = hf.attach(model("llama", "eager"), registry=own)
    logits(one)
    assert len(calls) == 2
    with own.use_impl("reference"):
        logits(one)
    assert len(calls) == 2


@pytest.mark.parametrize("impl", ["sdpa", "tiled", "triton_split_kv"])
def test_names_mean_nothing_to_transformers(impl):
    """It treats names with "sdpa" and "flash" in its own ways."""
    hf.register(f"mine-{impl}", impl)  # a name that somebody chose
    one = hf.attach(model("gpt_oss", "eager"), impl)
    name = one.config._attn_implementation
    assert name == f"attn-{impl.upper()}"


@pytest.mark.parametrize(
    "how", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_a_copy_computes_as_the_model_does(how, own):
    calls = counting(own, "mine")
    one = hf.attach(model("llama", "eager"), "mine", registry=own)
    again = how(one)
    want = logits(one)
    assert torch.equal(logits(again), want) and len(calls) == 4
    one.set_attn_implementation("sdpa")
    logits(again)
    assert len(calls) == 6


def test_a_saved_model_opens_everywhere(tmp_path):
    one = hf.attach(model("llama", "eager"), "tiled")
    one.save_pretrained(tmp_path)
    assert "attn" not in (tmp_path / "config.json").read_text()
    again = T.AutoModelForCausalLM.from_pretrained(tmp_path)
    assert again.config._attn_implementation == "sdpa"
    assert distance(logits(again), logits(one)) < 1e-5
    name = hf.register("attn-mine", "tiled")
    again = T.AutoModelForCausalLM.from_pretrained(
        tmp_path, attn_implementation=name
    )
    assert torch.equal(logits(again), logits(one))


def test_a_pickle_in_another_process_is_refused_until_attached(tmp_path):
    """Transformers names the missing implementation."""
    one = hf.attach(model("llama", "eager"), "tiled")
    file = tmp_path / "model.pickle"
    file.write_bytes(pickle.dumps(one))
    code = f"""
import pickle, torch
from pathlib import Path
one = pickle.loads(Path({str(file)!r}).read_bytes())
try:
    one(torch.zeros(1, 3).long())
except KeyError as error:
    assert "attn-TILED" in str(error), error
else:
    raise AssertionError("it computed something")
from attn import hf
hf.attach(one, "tiled")(torch.zeros(1, 3).long())
"""
    done = run_python(code)
    assert done.returncode == 0, done.stderr


# --- all or nothing ----------------------------------------------------------


def test_an_exception_leaves_the_model_as_it_was(monkeypatch):
    """The configuration of the whole is changed before those of parts."""
    vision = T.CLIPVisionConfig(
        hidden_size=24, intermediate_size=20, num_hidden_layers=1,
        num_attention_heads=4, image_size=8, patch_size=4,
    )  # fmt: skip
    text = T.LlamaConfig(
        hidden_size=24, intermediate_size=20, num_hidden_layers=1,
        num_attention_heads=4, vocab_size=37,
    )  # fmt: skip
    given = {"vision_config": vision, "text_config": text}
    both = T.LlavaConfig(**given, image_token_id=36)
    one = T.LlavaForConditionalGeneration(both)
    one.set_attn_implementation({"vision_config": "eager", "": "sdpa"})
    parts = (one.config, one.config.vision_config, one.config.text_config)
    before = ["sdpa", "eager", "sdpa"]
    assert [x._attn_implementation for x in parts] == before

    def failing(self, *args, **kwargs):
        raise RuntimeError("this part cannot")

    for part in (T.CLIPVisionModel, T.LlamaModel):
        monkeypatch.setattr(part, "get_correct_attn_implementation", failing)
    names = set(T.AttentionInterface._global_mapping)
    with pytest.raises(RuntimeError, match="this part cannot"):
        hf.attach(one, "grouped")
    assert set(T.AttentionInterface._global_mapping) == names
    assert [x._attn_implementation for x in parts] == before
    assert one.config is parts[0]
    assert one.model.language_model.config is parts[2]
    monkeypatch.undo()
    hf.attach(one)
    towers = (one.model.vision_tower.config, one.model.language_model.config)
    assert {x._attn_implementation for x in towers} == {"attn"}
    assert one.config.vision_config is towers[0]
    assert one.config.text_config is towers[1]


def test_what_cannot_be_attached_changes_nothing(own):
    one = model("llama", "sdpa")
    known = dict(T.AttentionInterface._global_mapping)
    for impl, error, message in (
        ("quick", ValueError, "impl must be 'auto' or one of"),
        (by_hand, TypeError, "impl must be a name; got .* Register a functi"),
        (None, TypeError, "impl must be a name; got None"),
    ):
        with pytest.raises(error, match=message):
            hf.attach(one, impl, registry=own)
    for wrong in (torch.nn.Linear(2, 2), None, one.config):
        with pytest.raises(TypeError, match="model must be one of transf"):
            hf.attach(wrong)
    with pytest.raises(TypeError, match="registry must be .*; got {}"):
        hf.attach(one, registry={})
    assert one.config._attn_implementation == "sdpa"
    assert T.AttentionInterface._global_mapping == known


def test_a_compiled_model_is_attached_as_the_one_within():
    one = model("llama", "sdpa")
    hf.attach(torch.compile(one))
    assert one.config._attn_implementation == "attn"


# --- functions with transformers' signature ----------------------------------


def by_hand(module, query, key, value, attention_mask, scaling, **kwargs):
    """Attend as a reader of transformers would write it."""
    key, value = (x.repeat_interleave(2, 1) for x in (key, value))
    scores = query @ key.mT * scaling
    if attention_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attention_mask, -1e9)
    else:
        scores = scores + attention_mask
    weights = scores.softmax(-1)
    return (weights @ value).transpose(1, 2), weights


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("mask", ["bool", "additive"])
def test_a_function_gets_every_mask_in_its_form(mask, side):
    masks = []

    @hf.register("mine", mask=mask)
    def mine(module, query, key, value, attention_mask, **kwargs):
        masks.append(attention_mask)
        return by_hand(module, query, key, value, attention_mask, **kwargs)

    for family in ("llama", "mistral"):
        got = logits(model(family, "mine"), side)
        assert distance(got, logits(model(family, "eager"), side)) < 1e-5
    dtype = torch.bool if mask == "bool" else torch.float32
    assert {x.dtype for x in masks} == {dtype}
    assert {tuple(x.shape) for x in masks} == {(3, 1, 11, 11)}


def test_it_gets_a_mask_even_where_no_token_is_padded():
    hf.register("mine", by_hand, mask="bool")
    both, ids = [model("llama", x) for x in ("mine", "eager")], tokens()
    with torch.no_grad():
        got, want = (one(ids).logits for one in both)
    assert (got - want).abs().max() < 1e-4
    few = {"max_new_tokens": 3, "do_sample": False}
    assert torch.equal(*(one.generate(ids, **few) for one in both))


@pytest.mark.filterwarnings("ignore:flex_attention called without torch")
def test_blocks_and_specs():
    seen = []

    @hf.register("blocks", mask="block")
    def blocks(module, query, key, value, attention_mask, *, scaling):
        seen.append(attention_mask)
        out = torch.nn.attention.flex_attention.flex_attention(
            query, key, value, block_mask=attention_mask, enable_gqa=True
        )
        return out.transpose(1, 2), None

    @hf.register("specs", mask="spec")
    def specs(module, query, key, value, attention_mask):
        seen.append(attention_mask)
        at = {"q_offset": attention_mask.q_offset, "enable_gqa": True}
        out = api.attention(query, key, value, attention_mask.mask, **at)
        return out.transpose(1, 2), None

    want = logits(model("mistral", "eager"))
    for name, kind in (("blocks", BlockMask), ("specs", MaskSpec)):
        assert distance(logits(model("mistral", name)), want) < 1e-5
        assert isinstance(seen[-1], kind)


def test_a_mask_function_of_transformers_makes_the_masks():
    """Its own eager attention, and ``sdpa_mask`` without its short cut."""
    eager = modeling_llama.eager_attention_forward
    hf.register("theirs", eager, mask=masking_utils.eager_mask)
    want = logits(model("llama", "eager"))
    assert torch.equal(logits(model("llama", "theirs")), want)
    hf.register("again", eager, mask="additive")
    assert torch.equal(logits(model("llama", "again")), want)
    hf.register("mine", by_hand, mask=masking_utils.sdpa_mask)
    one, ids = model("llama", "mine"), tokens()
    with torch.no_grad():
        want = model("llama", "eager")(ids).logits
        assert distance(one(ids).logits, want) < 1e-5


def test_a_mask_of_four_axes_is_converted_or_refused():
    ids, allowed = tokens(), torch.ones(3, 1, 11, 11).tril().bool()
    for form in ("bool", "additive", "block", "spec"):
        hf.register(f"by-{form}", by_hand, mask=form)
    want = logits(model("llama", "eager"), "right")
    real = pad("right")
    mask = allowed & real[:, None, None]
    for form in ("bool", "additive"):
        got = model("llama", f"by-{form}")(ids, attention_mask=mask).logits
        assert distance(got[real], want) < 1e-5
    bias = torch.zeros(3, 1, 11, 11)
    for form in ("bool", "block", "spec"):
        with pytest.raises(TypeError, match=f'four axes .*mask="{form}"'):
            model("llama", f"by-{form}")(ids, attention_mask=bias)


def test_keywords_reach_the_function_that_declares_them():
    seen = {}

    @hf.register("declared", mask="bool")
    def declared(
        module, query, key, value, attention_mask, scaling, temperature=1.0
    ):
        seen["declared"] = temperature
        args = (module, query, key, value, attention_mask)
        return by_hand(*args, scaling / temperature)

    @hf.register("all", mask="bool")
    def takes_all(module, query, key, value, attention_mask, **kwargs):
        seen["all"] = kwargs
        return by_hand(module, query, key, value, attention_mask, **kwargs)

    want = logits(model("llama", "declared"))
    assert seen["declared"] == 1.0
    warm = logits(model("llama", "declared"), temperature=2.0)
    assert seen["declared"] == 2.0 and distance(warm, want) > 1e-3
    logits(model("llama", "all"), temperature=3.0)
    assert seen["all"]["temperature"] == 3.0
    assert {"scaling", "dropout", "position_ids"} <= seen["all"].keys()
    with pytest.raises(
        TypeError, match="declared got an unexpected .*LlamaAttention: warmth"
    ):
        logits(model("llama", "declared"), warmth=2.0)


def test_a_keyword_that_changes_the_result_is_not_dropped():
    """A function without ``scaling`` would use its own, silently."""

    @hf.register("mine", mask="bool")
    def mine(module, query, key, value, attention_mask):
        scaling = query.shape[-1] ** -0.5
        return by_hand(module, query, key, value, attention_mask, scaling)

    assert logits(model("llama", "mine")).isfinite().all()
    with pytest.raises(TypeError, match="GraniteAttention: scaling"):
        logits(model("granite", "mine"))
    with pytest.raises(TypeError, match="Gemma2Attention: .*softcap"):
        logits(model("gemma2", "mine"))
    training = model("llama", "mine", attention_dropout=0.5).train()
    with pytest.raises(TypeError, match="LlamaAttention: dropout"):
        logits(training)


@pytest.mark.parametrize(
    "result",
    [
        lambda out, weights: out,
        lambda out, weights: (out.transpose(1, 2), weights),
        lambda out, weights: (out, weights, None),
    ],
    ids=["no weights", "not transposed", "three"],
)
def test_a_wrong_result_is_named(result):
    @hf.register("mine", mask="bool")
    def mine(*args, **kwargs):
        return result(*by_hand(*args, **kwargs))

    with pytest.raises(ValueError, match="'mine' must return its output, "):
        logits(model("llama", "mine"))


def test_half_a_pair_cannot_be_registered():
    with pytest.raises(TypeError, match="mask must be one of .*; got None"):
        hf.register("mine", by_hand)
    with pytest.raises(TypeError, match="mask must be None for impl='tiled'"):
        hf.register("mine", "tiled", mask="bool")
    with pytest.raises(ValueError, match="mask must be one of .*; got 'four'"):
        hf.register("mine", by_hand, mask="four")
    with pytest.raises(ValueError, match="mask must be one of .*; got 'four'"):
        hf.register("mine", mask="four")
    with pytest.raises(TypeError, match="name must be a string; got <func"):
        hf.register(by_hand, mask="bool")
    with pytest.raises(TypeError, match="'mine' must take .module, query, k"):
        hf.register("mine", lambda query, key, value: query, mask="bool")
    assert "mine" not in T.AttentionInterface._global_mapping


def test_a_name_never_changes_its_meaning():
    hf.register("mine", by_hand, mask="bool")
    assert hf.register("mine", by_hand, mask="bool") == "mine"
    for again in (
        lambda: hf.register("mine", by_hand, mask="additive"),
        lambda: hf.register("mine", lambda *args: None, mask="bool"),
        lambda: hf.register("mine", "tiled"),
    ):
        with pytest.raises(ValueError, match="name must be new, .*unregister"):
            again()
    hf.unregister("mine")
    hf.register("mine", "tiled")
    one = model("llama", "mine")
    hf.unregister("mine")
    with pytest.raises(KeyError, match="`mine` is not a valid attention"):
        logits(one)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("eager", "not belong to transformers"),
        ("sdpa", "not belong to transformers"),
        ("flash_attention_2", "not belong to transformers"),
        ("my_flash", ".*, which transformers gives a meaning"),
        ("me/mine", ".*, which transformers gives a meaning"),
        ("paged|mine", ".*, which transformers gives a meaning"),
    ],
)
def test_a_name_with_a_meaning_for_transformers_is_refused(name, message):
    with pytest.raises(ValueError, match=f"name must {message}"):
        hf.register(name)


# --- implementations of attn -------------------------------------------------


def test_masks_of_booleans_keep_the_padding(own):
    """It was once lost: left padding was wrong by 4.4."""

    @own.register("mine", mask="bool")
    def mine(query, key, value, mask, *, scale, enable_gqa=False):
        return nn.functional.scaled_dot_product_attention(
            query, key, value, mask, scale=scale, enable_gqa=enable_gqa
        )

    one = hf.attach(model("llama", "eager"), "mine", registry=own)
    for side in ("left", "right"):
        want = logits(model("llama", "eager"), side)
        assert distance(logits(one, side), want) < 1e-5


def test_keywords_reach_the_implementation_that_declares_them(own):
    @own.register("warm", mask="bool")
    def warm(
        query, key, value, mask, *, scale, enable_gqa=False, temperature=1.0,
        position_ids=None,
    ):  # fmt: skip
        seen.append(position_ids)
        return nn.functional.scaled_dot_product_attention(
            query, key, value, mask, scale=scale / temperature, enable_gqa=True
        )

    seen = []
    one = hf.attach(model("llama", "eager"), "warm", registry=own)
    want = logits(one)
    assert isinstance(seen[-1], Tensor)
    assert distance(logits(one, temperature=1.0), want) < 1e-6
    assert distance(logits(one, temperature=2.0), want) > 1e-3
    with pytest.raises(TypeError, match="unexpected .*LlamaAttention: warmth"):
        logits(one, warmth=2.0)
    auto = hf.attach(model("llama", "eager"), registry=own)
    got = logits(auto, temperature=2.0)
    assert distance(got, logits(one, temperature=2.0)) < 1e-6
    with pytest.raises(TypeError, match="unexpected .*LlamaAttention: warmth"):
        logits(auto, warmth=2.0)
    with own.use_impl("warm"):
        logits(auto)
    assert isinstance(seen[-1], Tensor)
