"""Every option of the module, compared with plain steps."""

import copy
import itertools

import pytest
import torch

import attn
from attn.nn import MultiHeadAttention
from tests.attn.cases import assert_exact, randn
from tests.attn.mha import B, E, H, L, S, make


def test_the_number_of_parameters_equals_the_cost_model():
    for kv_heads, bias in itertools.product((1, 2, 4), (False, True)):
        module = MultiHeadAttention(E, 4, kv_heads, head_dim=5, bias=bias)
        counted = sum(x.numel() for x in module.parameters())
        assert counted == attn.cost.attention_parameters(
            E, 4, kv_heads, 5, bias=bias
        )


def by_hand(module, x):
    """The module in plain steps: project, norm, rotate, attend, project."""
    H, Hkv, D = module.num_heads, module.num_kv_heads, module.head_dim
    q = module.q_proj(x).unflatten(-1, (H, D)).transpose(1, 2)
    k = module.k_proj(x).unflatten(-1, (Hkv, D)).transpose(1, 2)
    v = module.v_proj(x).unflatten(-1, (Hkv, -1)).transpose(1, 2)
    if module.q_norm is not None:
        q, k = module.q_norm(q), module.k_norm(k)
    if module.rope is not None:
        cos, sin = module.rope(torch.arange(x.shape[1]))
        interleaved = module.rope.interleaved
        q, k = (attn.apply_rope(y, cos, sin, interleaved) for y in (q, k))
    k, v = (y.repeat_interleave(H // Hkv, 1) for y in (k, v))
    scale = D**-0.5 if module.scale is None else module.scale
    scores = q @ k.mT * scale
    if module.softcap is not None:
        scores = module.softcap * (scores / module.softcap).tanh()
    i, j = torch.arange(x.shape[1])[:, None], torch.arange(x.shape[1])
    if module.alibi:
        slopes = attn.alibi_slopes(H).double()[:, None, None]
        scores = scores - slopes * (i - j).abs()
    keep = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool)
    if module.is_causal:
        keep = keep & (j <= i)
    if module.window is not None:
        left, right = module.window
        keep = keep & (i - j <= left) if left is not None else keep
        keep = keep & (j - i <= right) if right is not None else keep
    weights = scores.masked_fill(~keep, -torch.inf).softmax(-1)
    return module.out_proj((weights @ v).transpose(1, 2).flatten(-2))


OPTIONS = [
    {},
    {"value_dim": 7},
    {"bias": False},
    {"bias": False, "out_bias": True},
    {"out_bias": False},
    {"qk_norm": True, "norm_eps": 0.1},
    {"rope": attn.Rope(6)},
    {"rope": attn.Rope(6, interleaved=True)},
    {"rope": attn.Rope(6, partial_rotary_factor=0.7)},
    {"rope": attn.Rope(6), "qk_norm": True},
    {"alibi": True},
    {"alibi": True, "is_causal": True},
    {"window": (1, 2)},
    {"window": (2, 0)},
    {"window": (1, None), "is_causal": True},
    {"softcap": 0.5},
    {"scale": 0.3},
]
OPTIONS += [
    {
        **order,
        "qk_norm": True,
        "window": (3, 1),
        "softcap": 2.0,
        "is_causal": True,
        "scale": 0.3,
        "value_dim": 5,
        "bias": False,
    }
    for order in ({"rope": attn.Rope(6)}, {"alibi": True})
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: " ".join(o) or "-")
@pytest.mark.parametrize("kv_heads", (1, 2, 4))
def test_every_option_equals_its_plain_steps(options, kv_heads):
    module = make(MultiHeadAttention, E, 4, kv_heads, 6, **options)
    assert (module.out_proj.bias is not None) == options.get(
        "out_bias", options.get("bias", True)
    )
    value_dim = options.get("value_dim", 6)
    assert module.v_proj.out_features == kv_heads * value_dim
    assert module.out_proj.in_features == 4 * value_dim
    x = randn(4, 9, E)  # as many rows as heads
    assert_exact(module(x), by_hand(module, x))


@pytest.mark.parametrize("alibi", (False, True))
@pytest.mark.parametrize("rows", (3, 4))
def test_masks_padding_and_alibi_apply_together(alibi, rows):
    """A mask of every form and padding and ALiBi: all of them apply."""
    module = make(MultiHeadAttention, E, 4, 2, alibi=alibi, is_causal=True)
    x = randn(rows, 6, E)
    pad = torch.zeros(rows, 6, dtype=torch.bool)
    pad[0, 4:] = True
    keep = torch.rand(6, 6) < 0.6
    keep.fill_diagonal_(True)
    forms = (
        keep,
        torch.zeros(6, 6).masked_fill(~keep, -torch.inf).double(),
        keep.expand(rows, 1, -1, -1),
        attn.Mask(lambda b, h, i, j: keep[i, j]),
    )
    together = keep & ~pad[:, None, None]
    slopes = attn.alibi_bias(4, 6).double()[None]
    out = [module(x, attn_mask=mask, key_padding_mask=pad) for mask in forms]
    plain = copy.deepcopy(module)
    plain.alibi = False
    bias = slopes if alibi else torch.zeros_like(slopes)
    oracle = plain(x, attn_mask=bias.masked_fill(~together, -torch.inf))
    for each in out:
        assert_exact(each, oracle)


def test_a_padding_mask_object_equals_key_padding_mask():
    module = make(MultiHeadAttention, E, H)
    x, valid = randn(B, L, E), torch.rand(B, L) < 0.6
    a = module(x, attn_mask=attn.padding(valid))
    assert_exact(a, module(x, key_padding_mask=~valid))
    assert not a.isnan().any()


def test_two_axes_are_queries_and_keys_even_if_the_batch_is_as_long():
    """As in PyTorch: padding ``(B, S)`` has an argument of its own."""
    module = make(MultiHeadAttention, E, H)
    x = randn(L, L, E)
    mask = torch.ones(L, L, dtype=torch.bool).tril()
    assert_exact(module(x, attn_mask=mask), module(x, is_causal=True))
    rows = module(x, key_padding_mask=~mask)
    assert_exact(rows, module(x, attn_mask=mask[:, None, None]))
    assert (rows - module(x, attn_mask=mask)).abs().max() > 1e-2


def test_a_module_names_its_implementation_and_registry():
    module = make(MultiHeadAttention, E, H, impl="tiled")
    plain = make(MultiHeadAttention, E, H)
    x = randn(B, L, E)
    assert_exact(module(x), plain(x))
    assert "impl='tiled'" in repr(module) and "impl" not in repr(plain)

    mine = attn.api.Registry(parent=attn.api.registry)

    @mine.register("zeros")
    def zeros(query, key, value, attn_mask=None, **options):
        calls.append(options["is_causal"])
        return torch.zeros_like(query)

    calls = []
    mute = make(MultiHeadAttention, E, H, impl="zeros", registry=mine)
    assert_exact(mute(x), mute.out_proj.bias.expand(B, L, E))
    assert torch.equal(copy.deepcopy(mute)(x, is_causal=True), mute(x))
    assert calls == [False, True, False]
    assert copy.deepcopy(mute).registry is mine
    with pytest.raises(ValueError, match="impl must be .*; got 'zeros'"):
        MultiHeadAttention(E, H, impl="zeros")
    with attn.api.use_impl("reference"):  # of the default registry
        assert_exact(mute(x), mute.out_proj.bias.expand(B, L, E))


@pytest.mark.parametrize("other", (False, True))
def test_tables_are_computed_once_for_the_tokens_of_self_attention(other):
    rope, x = attn.Rope(6), torch.randn(2, 5, 12)
    calls = []
    rope.register_forward_hook(lambda _, args, out: calls.append(args))
    module = MultiHeadAttention(12, 2, rope=rope)
    module(x, torch.randn(2, 7, 12) if other else None)
    assert len(calls) == 1 + other


# --- positions, weights and dropout ------------------------------------------


def test_norope_equals_no_rope():
    without = make(MultiHeadAttention, E, H, rope=attn.NoRope(4))
    plain = make(MultiHeadAttention, E, H)
    x, positions = randn(B, L, E), torch.randint(0, 99, (B, L))
    assert_exact(without(x), plain(x))
    assert_exact(without(x, positions=positions), plain(x))
    tables = without.rope(positions)
    assert [t.shape for t in tables] == [(B, L, 4)] * 2
    assert_exact(without(x, position_embeddings=tables), plain(x))


def test_q_offset_places_the_last_tokens_for_rope_alibi_and_window():
    """Decoding: q_offset moves the mask, RoPE and ALiBi alike."""
    near = {"is_causal": True, "window": (3, 0)}
    for order in ({"rope": attn.Rope(4)}, {"alibi": True}):
        module = make(MultiHeadAttention, E, H, **near, **order)
        x = randn(B, L, E)
        last = module(x[:, 3:], x, x, q_offset=3)
        assert_exact(last, module(x)[:, 3:])
        rows = torch.full((B,), 3)
        assert_exact(module(x[:, 3:], x, x, q_offset=rows), last)


def test_only_distances_between_query_and_key_positions_matter():
    module = make(MultiHeadAttention, E, H, rope=attn.Rope(4))
    x, y = randn(B, L, E), randn(B, S, E, seed=1)
    near = module(
        x,
        y,
        positions=torch.arange(L) + 40,
        key_positions=torch.arange(S) + 40,
    )
    assert (near - module(x, y)).abs().max() < 1e-4  # distances only


def test_dropout_is_off_in_eval_and_returned_weights_are_before_it():
    module = make(MultiHeadAttention, E, H, dropout=0.5)
    x, state = randn(B, L, E), torch.get_rng_state()
    calm = module(x)
    assert torch.equal(calm, module(x))
    assert torch.equal(state, torch.get_rng_state())
    module.train()
    torch.manual_seed(0)
    noisy, weights = module(x, need_weights=True, average_attn_weights=False)
    assert (noisy - calm).abs().max() > 1e-2
    assert_exact(weights.sum(-1), torch.ones(B, H, L).double())
    torch.manual_seed(0)
    assert torch.equal(module(x), noisy)
    module.dropout = 0.0
    assert torch.equal(module(x), calm)


def test_a_row_without_keys_is_the_bias_and_has_no_gradient():
    module = make(MultiHeadAttention, E, H)
    x = randn(B, L, E).requires_grad_()
    pad = torch.zeros(B, L, dtype=torch.bool)
    pad[1] = True
    out, weights = module(x, key_padding_mask=pad, need_weights=True)
    assert_exact(out[1], module.out_proj.bias.expand(L, E))
    assert not weights[1].any()
    out[1].sum().backward()
    assert not x.grad.any()
