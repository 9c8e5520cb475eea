"""Blocks and whole models, by torch's own layers and by what must hold."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import attn
from attn.api import use_impl
from attn.nn import (
    FeedForward,
    LayerNorm,
    MultiHeadAttention,
    RMSNorm,
    SwiGLU,
    Transformer,
    TransformerBlock,
    TransformerConfig,
    gpt2_small,
    llama_style,
)
from tests.attn.cases import assert_exact

V, E, H, N, L = 11, 12, 3, 2, 6


def randn(*shape, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=g, dtype=torch.float64)


@torch.no_grad()
def randomised(module, seed=0):
    for i, x in enumerate(module.parameters()):
        noise = randn(*x.shape, seed=seed + i)
        x.copy_(noise / x.shape[-1] ** 0.5 + 0.3 * (x.dim() == 1))
    return module


def ids(batch=2, length=L, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randint(V, (batch, length), generator=g)


def count(module):
    return sum(x.numel() for x in module.parameters())


# --- a block ----------------------------------------------------------------


def from_torch(layer):
    """The state dict of torch's encoder or decoder layer in our names."""
    decoder = isinstance(layer, nn.TransformerDecoderLayer)
    names = {
        "self_attn": "attention",
        "multihead_attn": "cross_attention",
        "linear1": "feed_forward.up_proj",
        "linear2": "feed_forward.down_proj",
        "norm1": "attention_norm",
        "norm2": "cross_attention_norm" if decoder else "feed_forward_norm",
        "norm3": "feed_forward_norm",
    }
    state = {}
    for key, x in layer.state_dict().items():
        first, _, rest = key.partition(".")
        state[f"{names[first]}.{rest}"] = x
    return state


@pytest.mark.parametrize("norm", ("pre", "post"))
@pytest.mark.parametrize("activation", ("relu", "gelu"))
@pytest.mark.parametrize("padded", (False, True))
def test_an_encoder_block_is_torchs(norm, activation, padded):
    theirs = nn.TransformerEncoderLayer(
        E,
        H,
        20,
        activation=activation,
        norm_first=norm == "pre",
        batch_first=True,
    )
    randomised(theirs.double()).eval()
    ours = TransformerBlock(
        E,
        H,
        norm_order=norm,
        feed_forward=activation,
        hidden_dim=20,
    )
    ours.double().load_state_dict(from_torch(theirs))
    x = randn(2, L, E)
    pad = torch.zeros(2, L, dtype=torch.bool)
    pad[0, 4:] = padded
    out = ours(x, key_padding_mask=pad)
    rival = theirs(x, src_key_padding_mask=pad)
    assert_exact(out[~pad], rival[~pad])
    upper = torch.ones(L, L).triu(1).bool()
    assert_exact(ours(x, ~upper), theirs(x, upper))
    assert_exact(ours(x, is_causal=True), theirs(x, upper))


@pytest.mark.parametrize("norm", ("pre", "post"))
def test_a_decoder_block_with_cross_attention_is_torchs(norm):
    theirs = nn.TransformerDecoderLayer(
        E, H, 20, norm_first=norm == "pre", batch_first=True
    )
    randomised(theirs.double()).eval()
    ours = TransformerBlock(
        E,
        H,
        norm_order=norm,
        is_causal=True,
        cross_attention=True,
        feed_forward="relu",
        hidden_dim=20,
    )
    ours.double().load_state_dict(from_torch(theirs))
    x, memory = randn(2, L, E), randn(2, 4, E, seed=1)
    pad = torch.tensor([[False] * 4, [False] * 3 + [True]])
    upper = torch.ones(L, L).triu(1).bool()
    rival = theirs(x, memory, tgt_mask=upper, memory_key_padding_mask=pad)
    out = ours(x, memory=memory, memory_key_padding_mask=pad)
    assert_exact(out, rival)


@pytest.mark.parametrize("order", ({"rope": attn.Rope(4)}, {"alibi": True}))
def test_what_is_about_order_stays_out_of_cross_attention(order):
    block = TransformerBlock(
        E,
        H,
        num_kv_heads=1,
        window=(1, 0),
        is_causal=True,
        cross_attention=True,
        qk_norm=True,
        **order,
    )
    own, other = block.attention, block.cross_attention
    assert (own.rope or own.alibi) and own.window and own.is_causal
    assert not (other.rope or other.window or other.alibi or other.is_causal)
    assert other.num_kv_heads == 1 and other.q_norm is not None
    randomised(block.double())
    x, memory = randn(2, L, E), randn(2, 4, E, seed=1)
    order = torch.randperm(4)
    assert_exact(block(x, memory=memory[:, order]), block(x, memory=memory))


@pytest.mark.parametrize("norm", ("layer", "rms", RMSNorm))
def test_where_the_norms_are(norm):
    x = randn(2, L, E)

    def block(order):
        made = TransformerBlock(E, H, norm=norm, norm_order=order)
        return randomised(made.double())

    b = block("sandwich")
    y = x + b.attention_post_norm(b.attention(b.attention_norm(x)))
    ahead = b.feed_forward(b.feed_forward_norm(y))
    assert_exact(b(x), y + b.feed_forward_post_norm(ahead))

    b = block("parallel")
    ahead = b.feed_forward(b.feed_forward_norm(x))
    assert_exact(b(x), x + b.attention(b.attention_norm(x)) + ahead)

    b = block("pre")
    y = x + b.attention(b.attention_norm(x))
    assert_exact(b(x), y + b.feed_forward(b.feed_forward_norm(y)))

    b = block("post")
    y = b.attention_norm(x + b.attention(x))
    assert_exact(b(x), b.feed_forward_norm(y + b.feed_forward(y)))


def test_a_block_may_attend_to_the_memory_alone():
    torch.manual_seed(0)
    both = TransformerBlock(E, H, cross_attention=True).double()
    block = TransformerBlock(E, H, self_attention=False, cross_attention=True)
    state = {k: x for k, x in both.state_dict().items() if k[:4] != "atte"}
    block.double().load_state_dict(state)
    assert block.attention is None
    x, memory = randn(2, L, E), randn(2, 4, E, seed=1)
    y = x + block.cross_attention(block.cross_attention_norm(x), memory)
    want = y + block.feed_forward(block.feed_forward_norm(y))
    assert_exact(block(x, memory=memory), want)
    keep = torch.ones(L, 4, dtype=torch.bool).tril()
    out, weights = block(x, keep, memory=memory, need_weights=True)
    assert weights.shape == (2, H, L, 4) and not weights.triu(1).any()
    pad = torch.tensor([[False] * 4, [False, True, True, True]])
    alone = block(x[1:], memory=memory[1:, :1])
    out = block(x, memory=memory, memory_key_padding_mask=pad)
    assert_exact(out[1:], alone)
    for name, value in (("is_causal", True), ("q_offset", 1)):
        with pytest.raises(ValueError, match=f"{name} must be None for a"):
            block(x, memory=memory, **{name: value})


@pytest.mark.parametrize("norm", ("layer", "rms"))
def test_memory_is_normalised_or_not(norm):
    """Without, twice the memory is another memory (source 004)."""
    x, memory = randn(2, L, E), randn(2, 4, E, seed=1)
    for memory_norm in (False, True):
        block = TransformerBlock(
            E, H, norm=norm, cross_attention=True, memory_norm=memory_norm
        )
        randomised(block.double())
        out = block(x, memory=memory)
        moved = (block(x, memory=2 * memory) - out).abs().max()
        assert (moved < 1e-3) == memory_norm
        if memory_norm:
            normed, block.memory_norm = block.memory_norm(memory), None
            assert_exact(block(x, memory=normed), out)


@pytest.mark.parametrize("cross", (False, True))
def test_attention_with_its_residual_and_norm_inside(cross):
    """As in jadore801120's ``MultiHeadAttention``, post-norm, bias-free."""
    where = {"self_attention": not cross, "cross_attention": cross}
    block = TransformerBlock(
        E,
        H,
        norm_order="post",
        norm_eps=1e-6,
        feed_forward="none",
        bias=False,
        value_dim=5,
        **where,
    )
    randomised(block.double())
    assert block.feed_forward is None and block.feed_forward_norm is None
    x, memory = randn(2, L, E), randn(2, 4, E, seed=1)
    other = memory if cross else x
    attention = block.cross_attention if cross else block.attention
    q, k, v = (
        getattr(attention, f"{name}_proj")(y).unflatten(-1, (H, -1))
        for name, y in (("q", x), ("k", other), ("v", other))
    )
    weights = torch.einsum("blhd,bshd->bhls", q / 2.0, k).softmax(-1)
    heads = torch.einsum("bhls,bshd->blhd", weights, v).flatten(-2)
    norm = block.cross_attention_norm if cross else block.attention_norm
    want = nn.functional.layer_norm(
        x + attention.out_proj(heads), (E,), norm.weight, norm.bias, 1e-6
    )
    out, given = block(x, memory=memory if cross else None, need_weights=True)
    assert_exact(out, want)
    assert_exact(given, weights)


def test_a_block_gives_its_weights_of_each_head():
    block = randomised(TransformerBlock(E, H, is_causal=True).double())
    x = randn(2, L, E)
    out, weights = block(x, need_weights=True)
    assert_exact(out, block(x))
    assert weights.shape == (2, H, L, L)
    assert not weights.triu(1).any()


def test_dropout_falls_on_each_half_and_only_in_training():
    block = TransformerBlock(E, H, dropout=1.0).double()
    x = randn(2, L, E)
    assert torch.equal(block(x), x)  # only the residual is left
    block.eval()
    assert not torch.equal(block(x), x)


@pytest.mark.parametrize(
    "options,says",
    (
        ({"norm": "none"}, "norm must be one of .*; got 'none'"),
        ({"norm_order": "last"}, "norm_order must be one of .*; got 'last'"),
        ({"feed_forward": "relu6"}, "feed_forward must be one of .*'relu6'"),
        ({"norm": RMSNorm, "norm_eps": 0.1}, "norm_eps must be None with"),
        (
            {"feed_forward": "none", "hidden_dim": 8},
            "hidden_dim must be None with a feed_forward of 'none'; got 8",
        ),
        (
            {"cross_attention": True, "norm_order": "parallel"},
            "norm_order must not be 'parallel' .* got cross_attention=True",
        ),
        (
            {"feed_forward": "none", "norm_order": "parallel"},
            "norm_order must not be 'parallel' .* feed_forward='none'",
        ),
        (
            {"self_attention": False},
            "self_attention or cross_attention must be True; got False twice",
        ),
        ({"memory_norm": True}, "memory_norm must be False .*; got True"),
        (
            {"rope": attn.Rope(4), "alibi": True},
            "alibi must be False with rope",
        ),
        ({"rope": attn.Rope(8)}, "rope must have the head_dim .* 4; got 8"),
        ({"attention": "magic"}, "attention must be 'auto', .*; got 'magic'"),
    ),
)
def test_a_block_of_contradictions_is_refused(options, says):
    with pytest.raises(ValueError, match=says):
        TransformerBlock(E, H, **options)


def test_memory_and_cross_attention_go_together():
    x = torch.zeros(2, L, E)
    with pytest.raises(
        ValueError, match="memory must be None without cross_attention; got a"
    ):
        TransformerBlock(E, H)(x, memory=x)
    with pytest.raises(
        ValueError, match="memory must be given with cross_attention; got None"
    ):
        TransformerBlock(E, H, cross_attention=True)(x)


def test_a_block_takes_jagged_batches():
    block = randomised(TransformerBlock(E, H, is_causal=True).double())
    rows = [randn(n, E, seed=n) for n in (3, 1, 5)]
    x = torch.nested.nested_tensor(rows, layout=torch.jagged)
    out = attn.nn.nested.pad(x)[0]
    assert out.shape == (3, 5, E)
    for row, alone in zip(rows, block.attention(x).unbind(), strict=True):
        assert_exact(alone, block.attention(row))


# --- whole models -----------------------------------------------------------

MODELS = {
    "gpt": {"positions": "learned", "max_positions": 16},
    "sinusoidal": {"positions": "sinusoidal"},
    "rope": {"positions": "rope"},
    "alibi": {"positions": "alibi"},
    "none": {"positions": "none"},
    "parallel": {"positions": "rope", "norm_order": "parallel"},
    "sandwich": {"positions": "rope", "norm_order": "sandwich"},
    "post": {
        "positions": "learned",
        "max_positions": 16,
        "norm_order": "post",
        "embed_norm": True,
    },
}
SIZES = {"vocab_size": V, "embed_dim": E, "num_layers": N, "num_heads": H}


def new(name, **options):
    fields = {**SIZES, "is_causal": True, **MODELS[name], **options}
    return Transformer(TransformerConfig(**fields))


def model(name, **options):
    return randomised(new(name, **options).double()).eval()


def small_llama(**options):
    fields = {"num_heads": 4, "num_kv_heads": 2, "embed_dim": 24}
    return Transformer(llama_style(**{**SIZES, **fields, **options}))


EVERY = pytest.mark.parametrize("name", MODELS)


@EVERY
def test_a_decoder_does_not_see_the_future(name):
    x = ids()
    changed = x.clone()
    changed[:, 4:] = (x[:, 4:] + 1) % V
    decoder = model(name)
    assert torch.equal(decoder(x)[:, :4], decoder(changed)[:, :4])
    encoder = model(name, is_causal=False)
    moved = (encoder(x)[:, :4] - encoder(changed)[:, :4]).abs()
    assert (moved.amax((0, 2)) > 1e-4).all()


@pytest.mark.parametrize("kind", ("attention", "block", "model"))
def test_is_causal_means_one_thing_for_every_module(kind):
    """False unless given; a model must be given it; a call overrides it."""
    x = ids() if kind == "model" else randn(2, L, E)

    def make(**options):
        if kind == "model":
            return model("rope", **{"is_causal": False, **options})
        cls = MultiHeadAttention if kind == "attention" else TransformerBlock
        return randomised(cls(E, H, **options).double())

    plain, causal = make(), make(is_causal=True)
    assert torch.equal(causal(x, is_causal=False), plain(x))
    assert torch.equal(plain(x, is_causal=True), causal(x))
    assert not torch.equal(causal(x), plain(x))


@pytest.mark.parametrize("kind", ("attention", "block", "model"))
def test_a_mask_is_positional_in_every_module(kind):
    keep = torch.ones(L, L, dtype=torch.bool).tril()
    x = randn(2, L, E)
    if kind == "model":
        made, inputs = model("rope", is_causal=False), (ids(),)
    elif kind == "block":
        made, inputs = randomised(TransformerBlock(E, H).double()), (x,)
    else:
        made = randomised(MultiHeadAttention(E, H).double())
        inputs = (x, x, x)
    want = made(*inputs, is_causal=True)
    for mask in (keep, attn.causal(), torch.where(keep, 0.0, -torch.inf)):
        assert_exact(made(*inputs, mask), want)
    # A tokenizer's mask in the place of attn_mask, as transformers takes it.
    valid = torch.ones(2, L, dtype=torch.long)
    for wrong, error in ((valid, TypeError), (valid.bool(), ValueError)):
        with pytest.raises(error, match=r"^attn_mask must .*attn\.padding"):
            made(*inputs, wrong)


@EVERY
@pytest.mark.parametrize("side", ("left", "right"))
@pytest.mark.parametrize("is_causal", (False, True))
def test_padding_changes_no_logit(name, side, is_causal):
    made = model(name, is_causal=is_causal)
    x, n = ids(), 4
    valid = torch.ones(2, L, dtype=torch.long)
    valid[0, : L - n] = 0
    row = torch.cat([torch.full((L - n,), 7), x[0, :n]])
    if side == "right":
        valid, row = valid.flip(1), torch.cat([x[0, :n], row[: L - n]])
    padded = torch.stack([row, x[1]])
    out = made(
        padded, attention_mask=valid, positions=attn.position_ids(valid)
    )
    assert not out.isnan().any()
    assert_exact(out[0][valid[0].bool()], made(x[:1, :n])[0])
    assert_exact(out[1], made(x)[1])
    again = made(
        padded,
        attention_mask=valid.bool(),
        positions=attn.position_ids(valid),
    )
    assert torch.equal(out, again)


def test_without_positions_an_encoder_sees_a_set():
    x, order = ids(), torch.randperm(L)
    for name in MODELS:
        made = model(name, is_causal=False)
        moved = (made(x)[:, order] - made(x[:, order])).abs().max()
        assert (moved < 1e-12) == (name == "none"), name


@EVERY
def test_positions_that_one_gives_are_used(name):
    made = model(name)
    x = ids()
    plain = made(x)
    assert_exact(made(x, positions=torch.arange(L)), plain)
    assert_exact(made(x, positions=torch.arange(L).expand(2, -1)), plain)
    moved = (made(x, positions=torch.arange(L) * 2) - plain).abs().max()
    assert (moved > 1e-5) == (name != "none")


def test_vectors_instead_of_ids():
    made = model("gpt")
    x = ids()
    vectors = made.token_embedding(x)
    assert torch.equal(made(inputs_embeds=vectors), made(x))
    for wrong in ({}, {"ids": x, "inputs_embeds": vectors}):
        with pytest.raises(
            ValueError, match="exactly one of .*; got (neither|both)"
        ):
            made(**wrong)


def test_a_last_norm_only_where_the_blocks_end_without():
    for order in ("pre", "post", "sandwich", "parallel"):
        made = new("rope", norm_order=order)
        assert (made.final_norm is None) == (order == "post")
    states = model("gpt", head=False)(ids())
    assert states.shape == (2, L, E)


def test_a_tied_head_is_one_parameter():
    tied, free = (new("rope", tied=tied) for tied in (True, False))
    assert tied.head.weight is tied.token_embedding.weight
    assert count(free) - count(tied) == V * E
    copied = new("rope")
    copied.load_state_dict(tied.state_dict())
    assert copied.head.weight is copied.token_embedding.weight
    x = ids()
    assert torch.equal(copied(x), tied(x))
    tied.loss(x).backward()
    assert tied.token_embedding.weight.grad.abs().sum() > 0


def test_an_encoder_and_a_decoder():
    encoder = model("sinusoidal", is_causal=False, head=False)
    decoder = model("sinusoidal", cross_attention=True)
    x, y, valid = ids(), ids(seed=1), torch.ones(2, L).bool()
    valid[0, 3:] = False
    memory = encoder(x, attention_mask=valid)
    out = decoder(y, memory=memory, memory_attention_mask=valid)
    short = encoder(x[:1, :3])
    assert_exact(out[:1], decoder(y[:1], memory=short))
    with pytest.raises(
        ValueError, match="memory must be given with cross_attention; got None"
    ):
        decoder(y)


def test_segments_scales_and_caps():
    made = model("none", segments=2, embed_scale=3.0, final_softcap=0.5)
    x = ids()
    kinds = torch.zeros_like(x)
    assert torch.equal(made(x), made(x, segments=kinds))
    assert not torch.equal(made(x), made(x, segments=kinds + 1))
    assert made(x).abs().max() < 0.5
    vectors = 3.0 * made.token_embedding(x)
    assert_exact(made(inputs_embeds=vectors), made(x))
    plain = model("none")
    with pytest.raises(
        ValueError, match="segments must be None .*; got a tensor"
    ):
        plain(x, segments=kinds)


def test_dropout_falls_on_the_embeddings_too():
    made = model("gpt", dropout=1.0).train()
    nothing = made.final_norm(torch.zeros(E).double())
    assert_exact(made(ids()), made.head(nothing).expand(2, L, V))


def test_all_attention_weights():
    made = model("gpt")
    x = ids()
    logits, weights = made(x, need_weights=True)
    assert_exact(logits, made(x))
    assert [w.shape for w in weights] == [(2, H, L, L)] * N
    assert_exact(weights[1].sum(-1), torch.ones(2, H, L).double())


@pytest.mark.parametrize(
    "arguments,error,says",
    (
        ({"attention_mask": torch.ones(2, 5).long()}, ValueError, r"\(2, 6\)"),
        ({"attention_mask": torch.ones(2, L)}, TypeError, "float32"),
        (
            {"memory_attention_mask": torch.ones(2, L).long()},
            ValueError,
            "must be None without memory",
        ),
        (
            {"positions": torch.arange(5)},
            ValueError,
            "^positions must have shape",
        ),
        ({"positions": ids(3)}, ValueError, "^positions must have shape"),
        (
            {"positions": torch.arange(L) + 20},
            ValueError,
            "positions must be 0 to 15, .*; got 20 to 25",
        ),
    ),
)
def test_inputs_that_do_not_fit_are_refused(arguments, error, says):
    with pytest.raises(error, match=says):
        model("gpt")(ids(), **arguments)


# --- two well-known models --------------------------------------------------


def test_gpt2_small_has_124_439_808_parameters():
    with torch.device("meta"):
        built = Transformer(gpt2_small(dropout=0.1))
    assert count(built) == 124_439_808
    assert built.blocks[0].feed_forward.activation == "gelu_tanh"
    assert built.final_norm.eps == 1e-5
    assert built.blocks[11].attention.dropout == built.dropout.p == 0.1


@pytest.mark.parametrize(
    "name,vocab,hidden,options,parameters",
    (
        ("Llama-2-7B", 32000, 11008, {}, 6_738_415_616),
        ("Llama-2-70B", 32000, 28672, {}, 68_976_648_192),
        ("Llama-3-8B", 128256, 14336, {}, 8_030_261_248),
        ("Llama-3-70B", 128256, 28672, {}, 70_553_706_496),
        ("Mistral-7B-v0.1", 32000, 14336, {}, 7_241_732_096),
        ("Qwen3-8B", 151936, 12288, {"qk_norm": True}, 8_190_735_360),
        (
            "Gemma-2-9B",
            256000,
            14336,
            {"tied": True, "norm_order": "sandwich"},
            9_241_705_984,
        ),
    ),
)
def test_published_models_have_their_published_size(
    name, vocab, hidden, options, parameters
):
    """Which also proves ``attn.cost.PUBLISHED`` right."""
    shape = attn.cost.PUBLISHED[name]
    with torch.device("meta"):
        built = Transformer(
            llama_style(
                vocab_size=vocab,
                embed_dim=shape.embed_dim,
                num_layers=shape.num_layers,
                num_heads=shape.num_heads,
                num_kv_heads=shape.num_kv_heads,
                head_dim=shape.head_dim,
                hidden_dim=hidden,
                **options,
            )
        )
    assert count(built) == parameters


def test_llama_style_is_made_of_llamas_parts():
    built = small_llama(embed_dim=48, num_heads=6)
    kinds = [type(m) for m in built.modules()]
    assert kinds.count(attn.Rope) == 1  # one, shared
    assert kinds.count(RMSNorm) == 5 and LayerNorm not in kinds
    assert kinds.count(SwiGLU) == 2 and FeedForward not in kinds
    assert nn.Embedding in kinds and built.positions is None
    for block in built.blocks:
        assert block.attention.num_kv_heads == 2
        assert block.attention.is_causal
    assert not [name for name in built.state_dict() if "bias" in name]
    assert built.head.weight is not built.token_embedding.weight
    assert built.blocks[0].feed_forward.up_proj.out_features == 256
    other = small_llama(
        embed_dim=48,
        num_heads=6,
        positions={"rope": {"base": 5e5}},
        norm_eps=0.1,
    )
    assert other.final_norm.eps == other.blocks[0].attention_norm.eps == 0.1
    slow = other.rope(torch.arange(9))[0] - built.rope(torch.arange(9))[0]
    assert slow.abs().max() > 0.1


@pytest.mark.parametrize("vocab", (64, 1009))
@pytest.mark.parametrize("depth", (1, 6))
@pytest.mark.parametrize("kind", ("gpt", "llama"))
def test_the_loss_of_a_new_model_is_ln_v(vocab, depth, kind):
    """Tied or not; the source system's tied head began at 466, not 10.8."""
    torch.manual_seed(0)
    sizes = {"vocab_size": vocab, "embed_dim": 96, "num_layers": depth}
    sizes["num_heads"] = 4
    if kind == "gpt":
        built = new("gpt", **sizes, max_positions=64)
    else:
        built = small_llama(**sizes, tied=True)
    x = torch.randint(vocab, (16, 64))
    with torch.no_grad():
        loss = float(built.loss(x))
    # Logits of variance E * 0.02 ** 2 add half of it.
    assert abs(loss - math.log(vocab)) < 0.02 * math.log(vocab)


def test_what_enters_the_residual_stream_is_scaled_by_depth():
    torch.manual_seed(0)
    built = new("gpt", vocab_size=64, embed_dim=64, num_layers=8, num_heads=4)
    block = built.blocks[3]
    for weight, std in (
        (block.attention.q_proj.weight, 0.02),
        (block.feed_forward.up_proj.weight, 0.02),
        (block.attention.out_proj.weight, 0.02 / 4),
        (block.feed_forward.down_proj.weight, 0.02 / 4),
        (built.token_embedding.weight, 0.02),
    ):
        assert weight.std().item() == pytest.approx(std, rel=0.1)
    assert not block.attention.out_proj.bias.any()


@pytest.mark.parametrize("kind", ("gpt", "llama"))
def test_a_small_model_learns(kind):
    torch.manual_seed(0)
    built = small_llama() if kind == "llama" else new("gpt", embed_dim=24)
    x = ids(8, 12)
    optimizer = torch.optim.AdamW(built.parameters(), 1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        loss = built.loss(x)
        loss.backward()
        optimizer.step()
    assert loss < 0.3 < math.log(V)
    assert all(p.grad is not None for p in built.parameters())


def test_the_module_of_attention_is_the_only_one():
    built = small_llama()
    found = [m for m in built.modules() if "ttention" in type(m).__name__]
    assert all(isinstance(m, MultiHeadAttention) for m in found)
    assert len(found) == 2


def test_a_model_compiles_in_one_piece():
    built = small_llama(num_layers=1)
    whole = torch.compile(built, backend="eager", fullgraph=True)
    x, valid = ids(), torch.ones(2, L, dtype=torch.bool)
    valid[0, :2] = False
    for mask in (None, valid):
        out = whole(x, attention_mask=mask)
        want = built(x, attention_mask=mask)
        # A graph selects no backend by a length: another order of sums.
        assert (out - want).abs().max() <= 1e-6 * want.abs().max()
        with use_impl("grouped"):  # the same computation, bit by bit
            out = whole(x, attention_mask=mask)
            assert torch.equal(out, built(x, attention_mask=mask))
