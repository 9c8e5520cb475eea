"""Latent attention, sinks, gates and entries equal those of transformers.

Theirs compute norms in float32, whatever the input, and so does RoPE.
"""

import pytest
import torch
from transformers import AutoModelForCausalLM, DynamicCache
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.deepseek_v4 import modeling_deepseek_v4 as v4

import attn
from attn.nn import KeyCompressor, LatentAttention, LightningIndexer
from tests.attn import hf_decoders, hf_families
from tests.attn.cases import randn as draw

E, H, R, NOPE, ROPE, V, L = 32, 4, 12, 16, 8, 10, 20
TOP_K, INDEX_HEADS, INDEX_DIM = 5, 12, 16
CONFIG = hf_decoders.DECODERS["deepseek_v3"] | {
    "vocab_size": 17,
    "hidden_size": E,
    "num_hidden_layers": 1,
    "num_attention_heads": H,
    "num_key_value_heads": H,
    "q_lora_rank": 14,
    "kv_lora_rank": R,
    "qk_nope_head_dim": NOPE,
    "qk_rope_head_dim": ROPE,
    "v_head_dim": V,
    "head_dim": ROPE,
    "index_topk": TOP_K,
    "index_n_heads": INDEX_HEADS,
    "index_head_dim": INDEX_DIM,
    "max_position_embeddings": 640,
    "pad_token_id": 0,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 40.0,
    "mscale": 0.7,
    "mscale_all_dim": 1.0,
    "original_max_position_embeddings": 16,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
}
INDEXED = {"deepseek_v32": False, "glm_moe_dsa": True}  # interleaved?
X = draw(2, L, E)


def randomise(module):
    """Draw weights far from zero: the default ones hide mistakes."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for x in module.parameters():
            x.copy_(torch.randn(x.shape, generator=generator) * 0.4)
    return module.double().eval()


def theirs(family, rope=None, **fields):
    """Return a base model of one layer, and its configuration."""
    config = CONFIG | fields | ({"rope_parameters": rope} if rope else {})
    config = CONFIG_MAPPING[family](**config, attn_implementation="eager")
    model = AutoModelForCausalLM.from_config(config).model
    return randomise(model), config


def bias(rows, keys):
    allowed = torch.ones(keys, keys).tril().bool()[-rows:]
    zeros = torch.zeros(1, 1, rows, keys, dtype=torch.float64)
    return zeros.masked_fill(~allowed, -torch.inf)


@torch.no_grad()
def call(model, x, cache=None, start=0):
    """Run the attention of their first layer."""
    positions = torch.arange(start, start + x.shape[1])[None]
    keywords = {
        "position_embeddings": model.rotary_emb(x, positions),
        "attention_mask": bias(x.shape[1], start + x.shape[1]),
        "position_ids": positions,
        "past_key_values": cache,
    }
    return model.layers[0].self_attn(x, **keywords)[0]


def rope_of(parameters, dim=ROPE, interleaved=True):
    """Return our RoPE of their parameters."""
    ours = {"rope_type": "type", "rope_theta": "base"}
    given = {ours.get(k, k): x for k, x in (parameters or {}).items()}
    return attn.Rope(dim, interleaved=interleaved, **given)


def ours(model, absorb, rope, **options):
    """Return our layer with the state dict of theirs."""
    layer = LatentAttention(
        E, H, options.pop("q_lora_rank", 14), R, NOPE, ROPE, V,
        rope=rope, absorb=absorb, is_causal=True, **options,
    ).double()  # fmt: skip
    layer.load_state_dict(model.layers[0].self_attn.state_dict())
    return layer


def assert_equal(layer, model, config):
    """Compare a whole text, and another one token by token."""
    torch.testing.assert_close(layer(X), call(model, X), rtol=0, atol=1e-4)
    text = draw(1, L, E, seed=2)
    cache, their_cache = layer.new_cache(), DynamicCache(config=config)
    at = 0
    for new in text.split([L - 3, 1, 1, 1], 1):
        out = layer(new, cache=cache)
        want = call(model, new, their_cache, start=at)
        torch.testing.assert_close(out, want, rtol=0, atol=1e-4)
        at += new.shape[1]


@pytest.mark.parametrize("absorb", [False, True])
@pytest.mark.parametrize("rope", [None, YARN], ids=["plain", "yarn"])
@pytest.mark.parametrize("q_lora_rank", [None, 14])
@pytest.mark.parametrize("family", ["deepseek_v2", "deepseek_v3"])
def test_a_layer_equals_deepseeks(family, q_lora_rank, rope, absorb):
    model, config = theirs(family, rope, q_lora_rank=q_lora_rank)
    layer = ours(model, absorb, rope_of(rope), q_lora_rank=q_lora_rank)
    assert_equal(layer, model, config)


@pytest.mark.parametrize("absorb", [False, True])
@pytest.mark.parametrize("rope", [None, YARN], ids=["plain", "yarn"])
@pytest.mark.parametrize("family", INDEXED)
def test_a_layer_with_an_indexer_equals_its_familys(family, rope, absorb):
    model, config = theirs(family, rope)
    indexer = LightningIndexer(
        E, INDEX_HEADS, INDEX_DIM, q_dim=14, top_k=TOP_K,
        rope=rope_of(rope, interleaved=INDEXED[family]),
    )  # fmt: skip
    layer = ours(model, absorb, rope_of(rope), indexer=indexer)
    assert_equal(layer, model, config)
    layer.indexer.rope = rope_of(rope, interleaved=not INDEXED[family])
    assert not torch.allclose(layer(X), call(model, X), atol=1e-2)


def test_sinks_and_gates_of_elements_equal_those_of_hunyuan():
    model, _ = theirs("hy_v4", index_topk=L, indexer_types=["full"])
    del model.layers[0].self_attn.indexer  # it would keep all keys
    attention = model.layers[0].self_attn
    attention.indexer = lambda *_, **__: torch.arange(L).expand(2, L, L)
    for absorb in (False, True):
        mine = ours(model, absorb, attn.Rope(ROPE), sinks=True, gate="element")
        torch.testing.assert_close(mine(X), call(model, X), rtol=0, atol=1e-4)


#: How families beside DeepSeek's differ from it.
FAMILIES = {
    "axk1": {},
    "bailing_hybrid": {"gate": "head"},
    "glm4_moe_lite": {},
    "kimi_linear": {"rope": None},
    "minicpm3": {"interleaved": False},
    "youtu": {},
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_layer_equals_that_of_other_families(family):
    model = hf_families.build(family, kv_heads=4).double()
    theirs = next(m for m in model.modules() if hasattr(m, "kv_b_proj"))
    options = dict(FAMILIES[family])
    size, x = theirs.qk_rope_head_dim, draw(2, 9, 32)
    interleaved = options.pop("interleaved", True)
    given = getattr(model.config, "rope_parameters", None) or {}
    base = given.get("rope_theta", 1e4)
    rope = attn.Rope(size, base=base, interleaved=interleaved)
    at = torch.arange(9)[None]
    keywords = {"attention_mask": bias(9, 9), "position_ids": at}
    if "rope" not in options:
        keywords["position_embeddings"] = model.model.rotary_emb(x, at)
    with torch.no_grad():
        want = theirs(x, **keywords)[0]
    for absorb in (False, True):
        layer = LatentAttention(
            32, theirs.num_heads, getattr(theirs, "q_lora_rank", None),
            theirs.kv_lora_rank, theirs.qk_nope_head_dim, size,
            theirs.v_head_dim, absorb=absorb, is_causal=True,
            **{"rope": rope, **options},
        ).double()  # fmt: skip
        layer.load_state_dict(theirs.state_dict())
        torch.testing.assert_close(layer(x), want, rtol=0, atol=1e-5)


# --- MultiHeadAttention ------------------------------------------------------


def renamed(module):
    state = module.state_dict()
    return {k.replace("o_proj", "out_proj"): x for k, x in state.items()}


@pytest.mark.parametrize("window", [None, 3])
def test_multi_head_attention_with_sinks_equals_that_of_gpt_oss(window):
    kind = "sliding_attention" if window else "full_attention"
    yarn = YARN | {"mscale": None, "mscale_all_dim": None, "truncate": False}
    yarn = {k: x for k, x in yarn.items() if x is not None}
    model, _ = theirs(
        "gpt_oss", yarn, layer_types=[kind], sliding_window=3,
        num_key_value_heads=2, num_local_experts=4, experts_per_token=2,
    )  # fmt: skip
    positions = torch.arange(L)[None]
    mask = attn.sliding_window(3) if window else attn.causal()
    want = model.layers[0].self_attn(
        X,
        position_embeddings=model.rotary_emb(X, positions),
        attention_mask=mask.bias(torch.float64, L),
    )[0]
    layer = attn.MultiHeadAttention(
        E, H, num_kv_heads=2, head_dim=ROPE, is_causal=True, sinks=True,
        rope=rope_of(yarn, interleaved=False),
        window=(window - 1, 0) if window else None,
    ).double()  # fmt: skip
    layer.load_state_dict(renamed(model.layers[0].self_attn))
    torch.testing.assert_close(layer(X), want, rtol=0, atol=1e-4)
    cache = attn.DynamicCache()
    steps = [layer(new, cache=cache) for new in X.split(1, 1)]
    torch.testing.assert_close(torch.cat(steps, 1), layer(X))
    layer.sinks = None
    assert not torch.allclose(layer(X), want, atol=1e-2)


def test_multi_head_attention_with_a_gate_equals_that_of_qwen3_next():
    model, _ = theirs(
        "qwen3_next", head_dim=16, num_key_value_heads=2,
        layer_types=["full_attention"], num_experts=4,
        shared_expert_intermediate_size=8,
    )  # fmt: skip
    attention = model.layers[0].self_attn
    state = renamed(attention)
    both = state["q_proj.weight"].view(H, 2, 16, E)  # a query, then its gate
    state["q_proj.weight"], state["gate_proj.weight"] = (
        both[:, i].flatten(0, 1) for i in (0, 1)
    )
    for name in ("q_norm.weight", "k_norm.weight"):
        state[name] = state[name] + 1  # theirs are kept around zero
    layer = attn.MultiHeadAttention(
        E, H, num_kv_heads=2, head_dim=16, is_causal=True, bias=False,
        qk_norm=True, gate=True, norm_eps=attention.q_norm.eps,
    ).double()  # fmt: skip
    layer.load_state_dict(state)
    tables = model.rotary_emb(X, torch.arange(L)[None])
    want = attention(X, tables, bias(L, L))[0]
    out = layer(X, position_embeddings=tables)
    torch.testing.assert_close(out, want, rtol=0, atol=1e-4)


# --- DeepSeek-V4's compressed entries ----------------------------------------

BLOCKS = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 6}


@pytest.fixture(scope="module")
def v4_config():
    yarn = {**YARN, "partial_rotary_factor": 0.5}
    del yarn["mscale"], yarn["mscale_all_dim"]
    plain = {"rope_type": "default", "rope_theta": 10000.0}
    plain["partial_rotary_factor"] = 0.5
    return CONFIG_MAPPING["deepseek_v4"](
        hidden_size=E, num_attention_heads=H, head_dim=2 * ROPE,
        num_hidden_layers=2, layer_types=list(BLOCKS), compress_rates=BLOCKS,
        q_lora_rank=14, index_topk=2, index_n_heads=INDEX_HEADS,
        index_head_dim=2 * ROPE, max_position_embeddings=640,
        rope_parameters={"main": plain, "compress": yarn},
    )  # fmt: skip


def compressor(config, block_size, overlap):
    given = dict(config.rope_parameters["compress"])
    del given["partial_rotary_factor"]
    return KeyCompressor(
        E, 2 * ROPE, block_size, overlap=overlap, rope=rope_of(given)
    ).double()


@torch.no_grad()
def test_entries_equal_those_of_the_heavy_compressor(v4_config):
    module = randomise(v4.DeepseekV4HCACompressor(v4_config))
    layer = compressor(v4_config, 6, overlap=False)
    layer.load_state_dict(module.state_dict())
    x, positions = draw(2, L, E), torch.arange(L).expand(2, L)
    entries, mask = module(x, draw(2, L, 14), positions, None, 0)
    torch.testing.assert_close(layer(x), entries[:, 0], rtol=0, atol=1e-5)
    visible = attn.masks.compressed(6).dense(L, L // 6, batch=2)
    assert torch.equal(visible, mask == 0)


@torch.no_grad()
def test_entries_and_choice_equal_those_of_the_sparse_compressor(v4_config):
    module = randomise(v4.DeepseekV4CSACompressor(v4_config))
    layer = compressor(v4_config, 4, overlap=True)
    state = module.state_dict()
    own = {k: x for k, x in state.items() if not k.startswith("indexer.")}
    layer.load_state_dict(own)
    x, q_resid = draw(2, L, E), draw(2, L, 14, seed=3)
    positions = torch.arange(L).expand(2, L)
    entries, mask = module(x, q_resid, positions, None, 0)
    torch.testing.assert_close(layer(x), entries[:, 0], rtol=0, atol=1e-5)

    keys = compressor(v4_config, 4, overlap=True)
    index = module.indexer
    names = keys.state_dict().keys()
    keys.load_state_dict({k: state[f"indexer.{k}"] for k in names})
    query = attn.split_heads(index.q_b_proj(q_resid), INDEX_HEADS)
    cos, sin = keys.rope(torch.arange(L))
    still, moving = query.chunk(2, -1)  # V4 rotates the last
    moving = attn.apply_rope(moving, cos, sin, interleaved=True)
    query = torch.cat([still, moving], -1)
    factor = (INDEX_HEADS * 2 * ROPE) ** -0.5
    scores = attn.functional.index_scores(
        query, keys(x), index.scorer.weights_proj(x) * factor
    )
    chosen = attn.masks.top_k(
        scores, 2, attn.masks.compressed(4), q_offset=0
    ).dense(L, L // 4, batch=2)
    assert torch.equal(chosen, mask == 0)


def test_an_entry_does_not_change_with_the_tokens_after_its_block():
    for overlap in (False, True):
        layer = KeyCompressor(E, 16, 4, overlap=overlap).double()
        torch.nn.init.normal_(layer.position_bias)
        x = draw(1, 12, E)
        whole = layer(x)
        torch.testing.assert_close(layer(x[:, :9]), whole[:, :2])
        x[:, :4] += 1.0  # with an overlap, the next entry sees them too
        changed = (layer(x) != whole).any(-1)[0].tolist()
        assert changed == [True, overlap, False]
    assert layer(draw(1, 3, E)).shape == (1, 0, 16)
