"""Blocks, by torch's own layers and by what must hold."""

import functools

import pytest
import torch
from torch import nn

import attn
from attn.nn import RMSNorm, TransformerBlock
from tests.attn.cases import assert_exact, randn
from tests.attn.models import E, H, L, randomised
from tests.attn.refusals import refused

X, MEMORY = randn(2, L, E), randn(2, 4, E, seed=1)


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


def like(theirs, **options):
    """Our block with the weights of theirs, which are drawn first."""
    randomised(theirs.double()).eval()
    ours = TransformerBlock(E, H, hidden_dim=20, **options).double()
    ours.load_state_dict(from_torch(theirs))
    return ours


@pytest.mark.parametrize("norm", ("pre", "post"))
@pytest.mark.parametrize("activation", ("relu", "gelu"))
@pytest.mark.parametrize("padded", (False, True))
def test_an_encoder_block_equals_pytorchs(norm, activation, padded):
    kind = {"activation": activation, "norm_first": norm == "pre"}
    theirs = nn.TransformerEncoderLayer(E, H, 20, batch_first=True, **kind)
    ours = like(theirs, norm_order=norm, feed_forward=activation)
    pad = torch.zeros(2, L, dtype=torch.bool)
    pad[0, 4:] = padded
    out = ours(X, key_padding_mask=pad)
    rival = theirs(X, src_key_padding_mask=pad)
    assert_exact(out[~pad], rival[~pad])
    upper = torch.ones(L, L).triu(1).bool()
    assert_exact(ours(X, ~upper), theirs(X, upper))
    assert_exact(ours(X, is_causal=True), theirs(X, upper))


@pytest.mark.parametrize("norm", ("pre", "post"))
def test_a_decoder_block_with_cross_attention_equals_pytorchs(norm):
    theirs = nn.TransformerDecoderLayer(
        E, H, 20, norm_first=norm == "pre", batch_first=True
    )
    kind = {"is_causal": True, "cross_attention": True}
    ours = like(theirs, norm_order=norm, feed_forward="relu", **kind)
    pad = torch.tensor([[False] * 4, [False] * 3 + [True]])
    upper = torch.ones(L, L).triu(1).bool()
    rival = theirs(X, MEMORY, tgt_mask=upper, memory_key_padding_mask=pad)
    out = ours(X, memory=MEMORY, memory_key_padding_mask=pad)
    assert_exact(out, rival)


@pytest.mark.parametrize("order", ({"rope": attn.Rope(4)}, {"alibi": True}))
def test_cross_attention_has_no_positions_window_or_causal_mask(order):
    options = {"num_kv_heads": 1, "window": (1, 0), "is_causal": True, **order}
    block = TransformerBlock(
        E, H, cross_attention=True, qk_norm=True, **options
    )
    own, other = block.attention, block.cross_attention
    assert (own.rope or own.alibi) and own.window and own.is_causal
    assert not (other.rope or other.window or other.alibi or other.is_causal)
    assert other.num_kv_heads == 1 and other.q_norm is not None
    randomised(block.double())
    order = torch.randperm(4)
    assert_exact(block(X, memory=MEMORY[:, order]), block(X, memory=MEMORY))


@pytest.mark.parametrize("norm", ("layer", "rms", RMSNorm))
def test_sandwich_and_parallel_place_the_norms_by_their_formulas(norm):

    def block(order):
        made = TransformerBlock(E, H, norm=norm, norm_order=order)
        return randomised(made.double())

    b = block("sandwich")
    y = X + b.attention_post_norm(b.attention(b.attention_norm(X)))
    ahead = b.feed_forward(b.feed_forward_norm(y))
    assert_exact(b(X), y + b.feed_forward_post_norm(ahead))

    b = block("parallel")
    ahead = b.feed_forward(b.feed_forward_norm(X))
    assert_exact(b(X), X + b.attention(b.attention_norm(X)) + ahead)


def test_a_block_without_self_attention_attends_to_the_memory_alone():
    torch.manual_seed(0)
    both = TransformerBlock(E, H, cross_attention=True).double()
    block = TransformerBlock(E, H, self_attention=False, cross_attention=True)
    state = {k: x for k, x in both.state_dict().items() if k[:4] != "atte"}
    block.double().load_state_dict(state)
    assert block.attention is None
    y = X + block.cross_attention(block.cross_attention_norm(X), MEMORY)
    want = y + block.feed_forward(block.feed_forward_norm(y))
    assert_exact(block(X, memory=MEMORY), want)
    keep = torch.ones(L, 4, dtype=torch.bool).tril()
    out, weights = block(X, keep, memory=MEMORY, need_weights=True)
    assert weights.shape == (2, H, L, 4) and not weights.triu(1).any()
    pad = torch.tensor([[False] * 4, [False, True, True, True]])
    alone = block(X[1:], memory=MEMORY[1:, :1])
    out = block(X, memory=MEMORY, memory_key_padding_mask=pad)
    assert_exact(out[1:], alone)
    for name, value in (("is_causal", True), ("q_offset", 1)):
        with pytest.raises(ValueError, match=f"{name} must be None for a"):
            block(X, memory=MEMORY, **{name: value})


@pytest.mark.parametrize("norm", ("layer", "rms"))
def test_memory_is_normalised_only_with_memory_norm(norm):
    """Without, twice the memory is another memory (source 004)."""
    for memory_norm in (False, True):
        block = TransformerBlock(
            E, H, norm=norm, cross_attention=True, memory_norm=memory_norm
        )
        randomised(block.double())
        out = block(X, memory=MEMORY)
        moved = (block(X, memory=2 * MEMORY) - out).abs().max()
        assert (moved < 1e-3) == memory_norm
        if memory_norm:
            normed, block.memory_norm = block.memory_norm(MEMORY), None
            assert_exact(block(X, memory=normed), out)


@pytest.mark.parametrize("cross", (False, True))
def test_a_block_without_feed_forward_is_attention_residual_and_norm(cross):
    """As in jadore801120's ``MultiHeadAttention``, post-norm, bias-free."""
    where = {"self_attention": not cross, "cross_attention": cross}
    where |= {"norm_order": "post", "norm_eps": 1e-6, "feed_forward": "none"}
    block = TransformerBlock(E, H, bias=False, value_dim=5, **where)
    randomised(block.double())
    assert block.feed_forward is None and block.feed_forward_norm is None
    other = MEMORY if cross else X
    attention = block.cross_attention if cross else block.attention
    norm = block.cross_attention_norm if cross else block.attention_norm
    expected = nn.functional.layer_norm(
        X + attention(X, other), (E,), norm.weight, norm.bias, 1e-6
    )
    assert_exact(block(X, memory=MEMORY if cross else None), expected)


def test_dropout_drops_both_branches_of_a_block_only_in_training():
    block = TransformerBlock(E, H, dropout=1.0).double()
    assert torch.equal(block(X), X)  # only the residual is left
    block.eval()
    assert not torch.equal(block(X), X)


VALUE_ERRORS = {
    "norm must be one of .*; got 'none'": {"norm": "none"},
    "norm_order must be one of .*; got 'last'": {"norm_order": "last"},
    "feed_forward must be one of .*'relu6'": {"feed_forward": "relu6"},
    "norm_eps must be None with": {"norm": RMSNorm, "norm_eps": 0.1},
    "hidden_dim must be None with a feed_forward of 'none'; got 8": {
        "feed_forward": "none",
        "hidden_dim": 8,
    },
    "norm_order must not be 'parallel' .* got cross_attention=True": {
        "cross_attention": True,
        "norm_order": "parallel",
    },
    "norm_order must not be 'parallel' .* feed_forward='none'": {
        "feed_forward": "none",
        "norm_order": "parallel",
    },
    "self_attention or cross_attention must be True; got False twice": {
        "self_attention": False
    },
    "memory_norm must be False .*; got True": {"memory_norm": True},
    "attention must be 'auto', .*; got 'magic'": {"attention": "magic"},
}
test_a_block_with_contradictory_options_is_refused = refused(
    VALUE_ERRORS, ValueError, functools.partial(TransformerBlock, E, H)
)


def test_memory_is_refused_without_cross_attention():
    x = torch.zeros(2, L, E)
    with pytest.raises(
        ValueError, match="memory must be None without cross_attention; got a"
    ):
        TransformerBlock(E, H)(x, memory=x)
