"""One module for every kind of attention, compared with PyTorch's modules."""

from __future__ import annotations

import copy
import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import attn
from attn.nn import MultiHeadAttention, RMSNorm
from tests.attn.cases import assert_exact

B, L, S, E, H = 3, 5, 7, 12, 3


def randn(*shape, dtype=torch.float64, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=g, dtype=torch.float64).to(dtype)


def make(cls, *args, seed=0, **kwargs):
    """A module in float64 whose every parameter is random, biases too."""
    module = cls(*args, **kwargs).double()
    with torch.no_grad():
        for i, x in enumerate(module.parameters()):
            noise = randn(*x.shape, seed=seed + i)
            x.copy_(noise / x.shape[-1] ** 0.5)
    return module.eval()


def pair(packed=True, bias=True, kdim=None, vdim=None, **ours):
    """torch's module, and ours with its weights."""
    sizes = {"kdim": kdim, "vdim": vdim, "bias": bias}
    theirs = make(nn.MultiheadAttention, E, H, batch_first=True, **sizes)
    mine = MultiHeadAttention(E, H, packed=packed, **sizes, **ours).double()
    mine.load_state_dict(theirs.state_dict())
    return theirs, mine.eval()


# --- nn.MultiheadAttention ---------------------------------------------------


@pytest.mark.parametrize("bias", (False, True))
@pytest.mark.parametrize("packed", (False, True))
def test_torchs_state_dict_loads_packed_or_not(packed, bias):
    theirs, ours = pair(packed, bias)
    x, y = randn(B, L, E), randn(B, S, E, seed=1)
    for q, k, v in ((x, x, x), (x, y, y), (x, y, y + 1), (x, x, x + 1)):
        rival, rival_weights = theirs(q, k, v)
        out, weights = ours(q, k, v, need_weights=True)
        assert_exact(out, rival)
        assert_exact(weights, rival_weights)
        _, each = theirs(q, k, v, average_attn_weights=False)
        heads = ours(q, k, v, need_weights=True, average_attn_weights=False)
        assert_exact(heads[1], each)
        assert heads[1].shape == (B, H, L, k.shape[1])


@pytest.mark.parametrize("kdim,vdim", ((8, 10), (8, None), (None, 10)))
@pytest.mark.parametrize("bias", (False, True))
def test_keys_and_values_of_other_sizes(kdim, vdim, bias):
    theirs, ours = pair(False, bias, kdim, vdim)
    q, k = randn(B, L, E), randn(B, S, kdim or E, seed=1)
    v = randn(B, S, vdim or E, seed=2)
    assert_exact(ours(q, k, v), theirs(q, k, v)[0])


def test_each_form_loads_the_other():
    whole = make(MultiHeadAttention, E, 4, 2, packed=True)
    apart = MultiHeadAttention(E, 4, 2).double()
    apart.load_state_dict(whole.state_dict())
    again = MultiHeadAttention(E, 4, 2, packed=True).double()
    again.load_state_dict(apart.state_dict())
    x, y = randn(B, L, E), randn(B, S, E, seed=1)
    for inputs in ((x,), (x, y), (x, y, y + 1)):
        assert_exact(apart(*inputs), whole(*inputs))
        assert torch.equal(again(*inputs), whole(*inputs))
    before = copy.deepcopy(whole.state_dict())
    apart.load_state_dict(whole.state_dict())
    assert all(map(torch.equal, before.values(), whole.state_dict().values()))


def test_state_dicts_load_inside_a_larger_model():
    theirs, ours = pair()
    state = nn.ModuleDict({"inner": theirs}).state_dict()
    holder = nn.ModuleDict({"inner": MultiHeadAttention(E, H).double()})
    holder.load_state_dict(state)
    x = randn(B, L, E)
    assert_exact(holder["inner"](x), ours(x))


@pytest.mark.parametrize(
    "extra", ({"add_bias_kv": True}, {"embed_dim": 24}), ids=str
)
def test_a_state_dict_that_does_not_fit_is_refused(extra):
    theirs = nn.MultiheadAttention(**{"embed_dim": E, "num_heads": H, **extra})
    for packed in (False, True):
        with pytest.raises(RuntimeError, match="state_dict"):
            MultiHeadAttention(E, H, packed=packed).load_state_dict(
                theirs.state_dict()
            )


def masks():
    """Our mask and torch's: True is the other way, heads are flattened."""
    g = torch.Generator().manual_seed(3)
    for shape in ((L, S), (B, H, L, S)):
        keep = torch.rand(shape, generator=g) < 0.7
        keep[..., 0] = True  # torch gives NaN to a row without keys
        bias = torch.randn(shape, generator=g, dtype=torch.float64)
        low = bias.masked_fill(~keep, -torch.inf)
        for ours, theirs in ((keep, ~keep), (bias, bias), (low, low)):
            flat = theirs.flatten(0, 1) if theirs.dim() == 4 else theirs
            yield ours, flat
    yield None, None


def paddings():
    """torch's key_padding_mask, which is ours."""
    pad = torch.zeros(B, S, dtype=torch.bool)
    pad[0, 4:] = pad[1, :2] = True
    pad[:, 2] = False
    yield None
    yield pad
    yield randn(B, S, seed=5)


@pytest.mark.parametrize("packed", (False, True))
@pytest.mark.filterwarnings("ignore:Support for mismatched")
@pytest.mark.parametrize(
    "mask,padding", [*itertools.product(range(7), range(3))]
)
def test_masks_of_every_kind_with_padding_of_every_kind(mask, padding, packed):
    theirs, ours = pair(packed)
    mine, flat = list(masks())[mask]
    pad = list(paddings())[padding]
    if mine is not None and pad is not None and pad.dtype == torch.bool:
        if mine.dtype == torch.bool:
            mine[..., 2] = True
            flat[..., 2] = False
        else:
            mine[..., 2] = 0.5
            flat[..., 2] = 0.5
    q, k = randn(B, L, E), randn(B, S, E, seed=1)
    options = {"key_padding_mask": pad, "average_attn_weights": False}
    rival, rival_weights = theirs(q, k, k, attn_mask=flat, **options)
    out, weights = ours(q, k, attn_mask=mine, need_weights=True, **options)
    assert_exact(out, rival)
    assert_exact(weights, rival_weights)


def test_causal_self_attention():
    theirs, ours = pair(is_causal=True)
    x = randn(B, L, E)
    upper = torch.ones(L, L, dtype=torch.bool).triu(1)
    assert_exact(ours(x), theirs(x, x, x, attn_mask=upper)[0])
    assert_exact(ours(x, is_causal=False), theirs(x, x, x)[0])
    future = x.clone()
    future[:, 3:] += 1
    assert torch.equal(ours(future)[:, :3], ours(x)[:, :3])


def test_an_input_without_a_batch():
    theirs, ours = pair()
    q, k = randn(L, E), randn(S, E, seed=1)
    pad = torch.tensor([False] * 5 + [True] * 2)
    rival = theirs(q, k, k, key_padding_mask=pad)
    out = ours(q, k, key_padding_mask=pad, need_weights=True)
    for mine, other in zip(out, rival, strict=True):
        assert_exact(mine, other)


def test_gradients_are_torchs():
    theirs, ours = pair(packed=True)
    x = randn(B, L, E)
    results = []
    for module in (theirs, ours):
        inputs = x.clone().requires_grad_()
        out = module(inputs, inputs, inputs)
        out = out[0] if isinstance(out, tuple) else out
        (out * randn(*out.shape, seed=9)).sum().backward()
        results.append(inputs.grad)
    assert_exact(results[1], results[0])
    names = {
        "in_proj_weight": "packed_proj.weight",
        "in_proj_bias": "packed_proj.bias",
    }
    mine = dict(ours.named_parameters())
    for name, x in theirs.named_parameters():
        assert_exact(mine[names.get(name, name)].grad, x.grad)


def test_float32_and_bfloat16_are_as_exact_as_torchs():
    for dtype in (torch.float32, torch.bfloat16):
        theirs, ours = (m.to(dtype) for m in pair())
        wide = copy.deepcopy(ours).double()
        x = randn(B, L, E).to(dtype)
        out = ours(x)
        assert out.dtype == dtype
        assert_exact(out, wide(x.double()), theirs(x, x, x)[0])


# --- the building block of PyTorch's tutorial --------------------------------


class Tutorial(nn.Module):
    """The tutorial's algorithm, with the two faults of 2025 repaired.

    Source: PyTorch, "Accelerating PyTorch Transformers by replacing
    nn.Transformer with Nested Tensors": chunk is made contiguous (jagged
    inputs on the CPU), dropout stops in eval.
    """

    def __init__(self, E_q, E_k, E_v, E_total, nheads, bias=True):
        super().__init__()
        self.nheads, self.same = nheads, E_q == E_k == E_v
        if self.same:
            self.packed_proj = nn.Linear(E_q, 3 * E_total, bias=bias)
        else:
            self.q_proj = nn.Linear(E_q, E_total, bias=bias)
            self.k_proj = nn.Linear(E_k, E_total, bias=bias)
            self.v_proj = nn.Linear(E_v, E_total, bias=bias)
        self.out_proj = nn.Linear(E_total, E_q, bias=bias)

    def forward(self, q, k, v, is_causal=False):
        if self.same and q is k is v:
            parts = self.packed_proj(q).chunk(3, -1)
            q, k, v = (x.contiguous() for x in parts)
        elif self.same:
            weights = self.packed_proj.weight.chunk(3)
            biases = self.packed_proj.bias.chunk(3)
            q, k, v = map(F.linear, (q, k, v), weights, biases)
        else:
            q, k, v = self.q_proj(q), self.k_proj(k), self.v_proj(v)
        q, k, v = (
            x.unflatten(-1, [self.nheads, -1]).transpose(1, 2)
            for x in (q, k, v)
        )
        out = F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
        return self.out_proj(out.transpose(1, 2).flatten(-2))


def tutorial(E_k=E, E_v=E, E_total=18):
    theirs = make(Tutorial, E, E_k, E_v, E_total, H)
    ours = MultiHeadAttention(
        E,
        H,
        head_dim=E_total // H,
        kdim=E_k,
        vdim=E_v,
        packed=theirs.same,
    ).double()
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours.eval()


def jagged(lengths, embed=E, seed=0):
    rows = [randn(n, embed, seed=seed + n) for n in lengths]
    return torch.nested.nested_tensor(rows, layout=torch.jagged)


@pytest.mark.parametrize("is_causal", (False, True))
def test_the_tutorials_module_on_padded_input(is_causal):
    theirs, ours = tutorial()
    x, y = randn(B, L, E), randn(B, S, E, seed=1)
    for q, k, v in ((x, x, x), (x, y, y)):
        rival = theirs(q, k, v, is_causal)
        assert_exact(ours(q, k, v, is_causal=is_causal), rival)
    theirs, ours = tutorial(8, 10)
    q, k, v = randn(B, L, E), randn(B, S, 8), randn(B, S, 10)
    assert_exact(ours(q, k, v), theirs(q, k, v))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_the_tutorials_module_on_jagged_input():
    theirs, ours = tutorial()
    x, y = jagged((3, 1, 6)), jagged((2, 5, 4), seed=20)
    for q, k, v in ((x, x, x), (x, y, y)):
        rival, out = theirs(q, k, v), ours(q, k, v)
        assert out.is_nested and out.layout == torch.jagged
        assert_exact(out.values(), rival.values())
    theirs, ours = tutorial(8, 10)
    k, v = jagged((2, 5, 4), 8), jagged((2, 5, 4), 10)
    assert_exact(ours(x, k, v).values(), theirs(x, k, v).values())


@pytest.fixture(params=["padded", "packed"])
def jagged_form(request, monkeypatch):
    scores = {"padded": 1 << 60, "packed": -1}[request.param]
    monkeypatch.setattr(attn.nn.nested, "SCORES_A_CALL", scores)
    return request.param


@pytest.mark.parametrize("order", ("rope", "alibi"))
def test_jagged_rows_are_sequences_by_themselves(order, jagged_form):
    """Causal too, for which torch has no CPU backend, and everything else."""
    orders = {"rope": {"rope": attn.Rope(6)}, "alibi": {"alibi": True}}
    ours = make(
        MultiHeadAttention,
        E,
        4,
        2,
        head_dim=6,
        value_dim=5,
        packed=True,
        is_causal=True,
        qk_norm=True,
        window=(2, None),
        **orders[order],
    )
    x = jagged((3, 1, 6, 3))
    out = ours(x)
    for row, alone in zip(x.unbind(), out.unbind(), strict=True):
        assert_exact(alone, ours(row))
    assert (x + out).shape == x.shape  # the residual of a block
    leaf = x.values().detach().clone().requires_grad_()
    again = torch.nested.nested_tensor_from_jagged(leaf, x.offsets())
    (ours(again).values() ** 2).sum().backward()
    dense = [row.detach().clone().requires_grad_() for row in x.unbind()]
    sum((ours(row) ** 2).sum() for row in dense).backward()
    assert_exact(leaf.grad, torch.cat([row.grad for row in dense]))


def test_jagged_queries_look_up_jagged_keys(jagged_form):
    ours = make(MultiHeadAttention, E, 4, 1, 6, rope=attn.Rope(6), kdim=8)
    x, key = jagged((3, 1, 3)), jagged((2, 5, 2), 8)
    value = jagged((2, 5, 2), E, seed=30)
    for q_offset in (None, 2):
        out = ours(x, key, value, q_offset=q_offset).unbind()
        rows = zip(x.unbind(), key.unbind(), value.unbind(), strict=True)
        for mine, row in zip(out, rows, strict=True):
            assert_exact(mine, ours(*row, q_offset=q_offset))


def test_jagged_rows_keep_what_only_padding_can_say(jagged_form):
    """A mask, positions or weights of padded rows: padded in either case."""
    ours = make(MultiHeadAttention, E, H, rope=attn.Rope(4))
    x = jagged((3, 1, 4))
    mask = torch.rand(3, 1, 4, 4) < 0.7
    positions = torch.randint(0, 9, (3, 4))
    said = {"attn_mask": mask, "positions": positions}
    out, weights = ours(x, need_weights=True, **said)
    assert weights.shape == (3, 4, 4)
    for i, (row, n) in enumerate(zip(x.unbind(), (3, 1, 4), strict=True)):
        alone = ours(
            row,
            attn_mask=mask[i, 0, :n, :n],
            positions=positions[i, :n],
            need_weights=True,
        )
        assert_exact(out[i], alone[0])
        assert_exact(weights[i, :n, :n], alone[1])


def test_a_jagged_batch_costs_no_padded_score(monkeypatch):
    calls = []

    def counted(q, k, v, **options):
        calls.append(q.shape[0] * q.shape[2] * k.shape[2])
        return attn.attention(q, k, v, **options)

    monkeypatch.setattr("attn.nn.attention.attention", counted)
    ours = make(MultiHeadAttention, E, H, is_causal=True)
    lengths = (300, 20, 20, 20, 5)
    ours(jagged(lengths))
    assert sum(calls) == sum(n * n for n in lengths) and len(calls) == 3
    calls.clear()
    ours(jagged((3, 1, 6)))  # tiny: one padded call is faster than three
    assert calls == [3 * 6 * 6]


def test_a_jagged_batch_may_have_no_rows_to_read(jagged_form):
    ours = make(MultiHeadAttention, E, H)
    x = jagged((2, 0, 3))
    out = ours(x)
    assert [len(row) for row in out.unbind()] == [2, 0, 3]
    assert_exact(out[2], ours(x[2]))


def test_jagged_and_dense_do_not_mix():
    ours = MultiHeadAttention(E, H).double()
    x, y = jagged((3, 1, 6)), randn(3, 6, E)
    with pytest.raises(TypeError, match="all dense; got nested, dense, dense"):
        ours(x, y)
    with pytest.raises(
        TypeError, match="all dense; got dense, nested, nested"
    ):
        ours(y, x)
    with pytest.raises(
        ValueError, match="key_padding_mask must be None with nested"
    ):
        ours(x, key_padding_mask=torch.zeros(3, 6, dtype=torch.bool))
    with pytest.raises(ValueError, match="key must have the batch size"):
        ours(x, jagged((3, 1)))
    with pytest.raises(
        ValueError, match=r"in every row, \[3, 1, 6\]; got \[1, 3, 6\]"
    ):
        ours(x, x, jagged((1, 3, 6)))
    strided = torch.nested.nested_tensor([randn(3, E), randn(2, E)])
    with pytest.raises(
        TypeError, match="must have layout torch.jagged .*; got"
    ):
        ours(strided)


# --- heads -------------------------------------------------------------------


@pytest.mark.parametrize("kv_heads", (1, 2, 3, 6))
@pytest.mark.parametrize("packed", (False, True))
def test_one_dial_from_many_heads_to_one(kv_heads, packed):
    """GQA is MHA whose key and value heads are copies."""
    few = make(MultiHeadAttention, E, 6, kv_heads, head_dim=4, packed=packed)
    many = MultiHeadAttention(E, 6, head_dim=4).double().eval()
    apart = MultiHeadAttention(E, 6, kv_heads, head_dim=4).double()
    apart.load_state_dict(few.state_dict())
    state = apart.state_dict()
    for name in ("k_proj", "v_proj"):
        for leaf in ("weight", "bias"):
            heads = state[f"{name}.{leaf}"].unflatten(0, (kv_heads, 4))
            copies = heads.repeat_interleave(6 // kv_heads, 0)
            state[f"{name}.{leaf}"] = copies.flatten(0, 1)
    many.load_state_dict(state)
    x = randn(B, L, E)
    assert_exact(few(x), many(x))
    a = few(x, need_weights=True, average_attn_weights=False)[1]
    b = many(x, need_weights=True, average_attn_weights=False)[1]
    assert_exact(a, b)


def test_the_number_of_parameters():
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
def test_every_option_does_what_its_name_says(options, kv_heads):
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
def test_masks_and_options_at_once(alibi, rows):
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


def test_a_mask_object_is_padding_the_other_way_round():
    module = make(MultiHeadAttention, E, H)
    x, valid = randn(B, L, E), torch.rand(B, L) < 0.6
    a = module(x, attn_mask=attn.padding(valid))
    assert_exact(a, module(x, key_padding_mask=~valid))
    assert not a.isnan().any()


def test_two_axes_are_queries_and_keys_also_where_the_batch_is_as_long():
    """As in PyTorch: padding ``(B, S)`` has an argument of its own."""
    module = make(MultiHeadAttention, E, H)
    x = randn(L, L, E)
    mask = torch.ones(L, L, dtype=torch.bool).tril()
    assert_exact(module(x, attn_mask=mask), module(x, is_causal=True))
    rows = module(x, key_padding_mask=~mask)
    assert_exact(rows, module(x, attn_mask=mask[:, None, None]))
    assert (rows - module(x, attn_mask=mask)).abs().max() > 1e-2


# --- one implementation for one module ---------------------------------------


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


# --- padding and positions ---------------------------------------------------


@pytest.mark.parametrize("side", ("left", "right"))
@pytest.mark.parametrize(
    "kind", ("rope", "interleaved", "alibi", "none", "norope")
)
def test_padding_on_either_side_changes_nothing(side, kind):
    options = {
        "rope": {"rope": attn.Rope(4)},
        "interleaved": {"rope": attn.Rope(4, interleaved=True)},
        "alibi": {"alibi": True},
        "none": {},
        "norope": {"rope": attn.NoRope(4)},
    }[kind]
    module = make(MultiHeadAttention, E, H, 1, is_causal=True, **options)
    x = randn(2, 6, E)
    lengths = (4, 6)
    padded = torch.full((2, 6, E), 1e3, dtype=torch.float64)
    valid = torch.zeros(2, 6, dtype=torch.bool)
    for row, n in enumerate(lengths):
        at = slice(6 - n, 6) if side == "left" else slice(0, n)
        padded[row, at], valid[row, at] = x[row, :n], True
    out = module(
        padded,
        key_padding_mask=~valid,
        positions=attn.position_ids(valid),
    )
    assert not out.isnan().any()
    for row, n in enumerate(lengths):
        assert_exact(out[row][valid[row]], module(x[row, :n]))


def test_norope_computes_what_no_rope_computes():
    turned = make(MultiHeadAttention, E, H, rope=attn.NoRope(4))
    plain = make(MultiHeadAttention, E, H)
    x, positions = randn(B, L, E), torch.randint(0, 99, (B, L))
    assert_exact(turned(x), plain(x))
    assert_exact(turned(x, positions=positions), plain(x))
    tables = turned.rope(positions)
    assert [t.shape for t in tables] == [(B, L, 4)] * 2
    assert_exact(turned(x, position_embeddings=tables), plain(x))


def test_tables_made_once_for_all_layers():
    module = make(
        MultiHeadAttention, E, H, rope=attn.Rope(4, interleaved=True)
    )
    x, positions = randn(B, L, E), torch.randint(0, 99, (B, L))
    out = module(x, positions=positions)
    assert_exact(module(x, position_embeddings=module.rope(positions)), out)
    assert (out - module(x)).abs().max() > 1e-3


def test_the_last_tokens_look_back_from_their_position():
    """Decoding: q_offset moves the mask, RoPE and ALiBi alike."""
    for options in ({"rope": attn.Rope(4)}, {"alibi": True}):
        module = make(
            MultiHeadAttention,
            E,
            H,
            is_causal=True,
            window=(3, 0),
            **options,
        )
        x = randn(B, L, E)
        last = module(x[:, 3:], x, x, q_offset=3)
        assert_exact(last, module(x)[:, 3:])
        rows = torch.full((B,), 3)
        assert_exact(module(x[:, 3:], x, x, q_offset=rows), last)


def test_keys_with_positions_of_their_own():
    module = make(MultiHeadAttention, E, H, rope=attn.Rope(4))
    x, y = randn(B, L, E), randn(B, S, E, seed=1)
    near = module(
        x,
        y,
        positions=torch.arange(L) + 40,
        key_positions=torch.arange(S) + 40,
    )
    assert (near - module(x, y)).abs().max() < 1e-4  # distances only


# --- weights and dropout -----------------------------------------------------


def test_dropout_is_off_in_eval_and_returned_weights_are_before_it():
    module = make(MultiHeadAttention, E, H, dropout=0.5)
    x = randn(B, L, E)
    calm = module(x)
    assert torch.equal(calm, module(x))
    module.train()
    torch.manual_seed(0)
    noisy, weights = module(x, need_weights=True, average_attn_weights=False)
    assert (noisy - calm).abs().max() > 1e-2
    assert_exact(weights.sum(-1), torch.ones(B, H, L).double())
    torch.manual_seed(0)
    assert torch.equal(module(x), noisy)
    module.dropout = 0.0
    assert torch.equal(module(x), calm)


def test_everything_dropped_leaves_the_bias():
    module = make(MultiHeadAttention, E, H, dropout=1.0).train()
    out = module(randn(B, L, E))
    assert_exact(out, module.out_proj.bias.expand(B, L, E))


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


def test_nothing_but_the_output_is_changed():
    module = make(MultiHeadAttention, E, H, dropout=0.3)
    x, mask = randn(B, L, E), torch.rand(L, L) < 0.5
    pad = torch.rand(B, L) < 0.3
    before = copy.deepcopy((x, mask, pad))
    state = torch.get_rng_state()
    module(x, attn_mask=mask, key_padding_mask=pad, need_weights=True)
    assert all(map(torch.equal, before, (x, mask, pad)))
    assert torch.equal(state, torch.get_rng_state())


# --- errors ------------------------------------------------------------------

MADE_WRONG = [
    (
        (12, 3),
        {"rope": attn.Rope(6)},
        "rope must have the head_dim of the queries, 4; got 6",
    ),
    (
        (12, 3),
        {"rope": attn.NoRope(4), "alibi": True},
        "alibi must be False with rope",
    ),
    ((12, 3), {"impl": "magic"}, "impl must be 'auto' or .*; got 'magic'"),
    ((12, 5), {}, "embed_dim must be a multiple of .*; got 12 and 5"),
    ((12, 4, 3), {}, "num_heads must be a multiple of .*; got 4 and 3"),
    ((12, 0), {}, "num_heads must be an int, at least 1; got 0"),
    ((12, 4, 0), {}, "num_kv_heads must be an int, at least 1; got 0"),
    ((12, 4.0), {}, "num_heads must be an int, at least 1; got 4.0"),
    ((12, 3), {"dropout": 1.5}, "dropout must be 0 to 1; got 1.5"),
    (
        (12, 3),
        {"packed": True, "kdim": 8},
        "kdim and vdim must be embed_dim .*, 12; got 8 and 12",
    ),
]


@pytest.mark.parametrize("sizes,options,says", MADE_WRONG)
def test_a_module_of_wrong_sizes_is_refused(sizes, options, says):
    with pytest.raises(ValueError, match=says):
        MultiHeadAttention(*sizes, **options)


def zeros(*shape, dtype=torch.float32):
    return torch.zeros(shape, dtype=dtype)


CALLED_WRONG = [
    ({"query": zeros(2, 5, 11)}, "query must have .* size 12.*; got 11"),
    ({"query": zeros(5)}, "query must have shape"),
    ({"query": zeros(1, 2, 5, 12)}, "query must have shape"),
    (
        {"key": zeros(3, 5, 12)},
        "key must have the batch size of query, 2; got 3",
    ),
    (
        {"key": zeros(1, 5, 12)},
        "key must have the batch size of query, 2; got 1",
    ),
    ({"key": zeros(5, 12)}, "key must have shape"),
    ({"value": zeros(2, 5, 12)}, "key must be given with value"),
    (
        {"key": zeros(2, 5, 12), "value": zeros(2, 6, 12)},
        "value must have one position for each key, 5; got 6",
    ),
    ({"key_padding_mask": zeros(2, 4).bool()}, r"\(B, S\) = \(2, 5\)"),
    ({"key_padding_mask": zeros(1, 5).bool()}, r"\(B, S\) = \(2, 5\)"),
    ({"key_padding_mask": zeros(5).bool()}, r"\(B, S\) = \(2, 5\)"),
    (
        {"attn_mask": zeros(2, 4).bool()},
        "attn_mask must have two axes .*; got",
    ),
    (
        {"attn_mask": zeros(3, 5, 5).bool()},
        "attn_mask must have two axes .*; got",
    ),
    (
        {
            "attn_mask": zeros(2, 5).bool(),
            "key_padding_mask": zeros(2, 5).bool(),
        },
        "attn_mask must have two axes .*; got",
    ),
    ({"positions": zeros(4).long()}, "^positions must have shape"),
    ({"positions": zeros(3, 5).long()}, "^positions must have shape"),
    ({"key_positions": zeros(4).long()}, "key_positions must have shape"),
]


@pytest.mark.parametrize("arguments,says", CALLED_WRONG)
def test_a_call_without_a_meaning_is_refused(arguments, says):
    module = MultiHeadAttention(12, 2, rope=attn.Rope(6))
    with pytest.raises(ValueError, match=says):
        module(**{"query": zeros(2, 5, 12), **arguments})


@pytest.mark.parametrize("alibi", (False, True))
@pytest.mark.parametrize("padded", (False, True))
def test_a_mask_that_may_mean_rows_or_heads_is_refused(alibi, padded):
    module = MultiHeadAttention(12, 3, alibi=alibi)
    pad = zeros(3, 5).bool() if padded else None
    mask = zeros(3, 5, 5).bool()
    with pytest.raises(
        ValueError, match=r"ambiguous .* 3 heads: pass \(B, 1, L, S\)"
    ):
        module(zeros(3, 5, 12), attn_mask=mask, key_padding_mask=pad)


@pytest.mark.parametrize("alibi", (False, True))
def test_a_window_over_keys_elsewhere_needs_an_offset(alibi):
    module = MultiHeadAttention(12, 3, alibi=alibi)
    x, y = zeros(2, 3, 12), zeros(2, 5, 12)
    with pytest.raises(ValueError, match="q_offset=2"):
        module(x, y, attn_mask=attn.sliding_window(2))
    out = module(x, y, attn_mask=attn.sliding_window(2), q_offset=2)
    assert out.shape == x.shape


def test_a_float_padding_of_another_dtype_is_refused():
    module = MultiHeadAttention(12, 3)
    message = "key_padding_mask must be bool .*; got torch.int64"
    with pytest.raises(TypeError, match=message):
        module(zeros(2, 5, 12), key_padding_mask=zeros(2, 5).long())


def test_head_norms_stay_where_the_module_goes():
    module = MultiHeadAttention(
        12, 3, qk_norm=True, dtype=torch.bfloat16, device="cpu"
    )
    assert isinstance(module.q_norm, RMSNorm)
    assert {x.dtype for x in module.parameters()} == {torch.bfloat16}
    assert module(zeros(1, 2, 12, dtype=torch.bfloat16)).shape == (1, 2, 12)
