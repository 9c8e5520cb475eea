"""One module on jagged batches, compared with PyTorch's tutorial."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import attn
from attn.nn import MultiHeadAttention, call_options
from tests.attn.cases import assert_exact, randn
from tests.attn.mha import E, H, make
from tests.attn.refusals import type_error, value_error


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

    def forward(self, q, k, v):
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
        out = F.scaled_dot_product_attention(q, k, v)
        return self.out_proj(out.transpose(1, 2).flatten(-2))


def tutorial(E_k=E, E_v=E, E_total=18):
    theirs = make(Tutorial, E, E_k, E_v, E_total, H)
    sizes = {"head_dim": E_total // H, "kdim": E_k, "vdim": E_v}
    ours = MultiHeadAttention(E, H, **sizes, packed=theirs.same).double()
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours.eval()


def jagged(lengths, embed=E, seed=0):
    rows = [randn(n, embed, seed=seed + n) for n in lengths]
    return torch.nested.nested_tensor(rows, layout=torch.jagged)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_the_module_equals_pytorchs_tutorial_on_jagged_input():
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
def test_jagged_rows_equal_each_sequence_alone(order, jagged_form):
    """Causal too, for which torch has no CPU backend, and everything else."""
    orders = {
        "rope": {"rope": attn.Rope(6), "sinks": True},
        "alibi": {"alibi": True, "gate": True},
    }
    options = {"head_dim": 6, "value_dim": 5, "packed": True, "qk_norm": True}
    options |= {"is_causal": True, "window": (2, None), **orders[order]}
    ours = make(MultiHeadAttention, E, 4, 2, **options)
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


def test_jagged_cross_attention_equals_each_row_alone(jagged_form):
    ours = make(MultiHeadAttention, E, 4, 1, 6, rope=attn.Rope(6), kdim=8)
    x, key = jagged((3, 1, 3)), jagged((2, 5, 2), 8)
    value = jagged((2, 5, 2), E, seed=30)
    for q_offset in (None, 2):
        out = ours(x, key, value, q_offset=q_offset).unbind()
        rows = zip(x.unbind(), key.unbind(), value.unbind(), strict=True)
        for mine, row in zip(out, rows, strict=True):
            assert_exact(mine, ours(*row, q_offset=q_offset))


def test_jagged_masks_positions_and_weights_are_each_rows_alone(jagged_form):
    """A mask, positions or weights of padded rows: padded in either case."""
    ours = make(MultiHeadAttention, E, H, rope=attn.Rope(4))
    x = jagged((3, 1, 4))
    mask = torch.rand(3, 1, 4, 4) < 0.7
    positions = torch.randint(0, 9, (3, 4))
    kwargs = {"attn_mask": mask, "positions": positions}
    out, weights = ours(x, need_weights=True, **kwargs)
    assert weights.shape == (3, 4, 4)
    for i, (row, n) in enumerate(zip(x.unbind(), (3, 1, 4), strict=True)):
        alone = ours(
            row,
            attn_mask=mask[i, 0, :n, :n],
            positions=positions[i, :n],
            need_weights=True,
        )
        assert_exact((out[i], weights[i, :n, :n]), alone)


def test_a_jagged_batch_computes_no_padded_scores(record):
    calls = record(call_options, "attention")
    ours = make(MultiHeadAttention, E, H, is_causal=True)
    lengths = (300, 20, 20, 20, 5)
    ours(jagged(lengths))
    ours(jagged((3, 1, 6)))  # tiny: one padded call is faster than three
    *some, tiny = (len(q) * q.shape[2] * k.shape[2] for (q, k, *_), _ in calls)
    assert sum(some) == sum(n * n for n in lengths) and len(some) == 3
    assert tiny == 3 * 6 * 6


def test_a_jagged_batch_may_have_an_empty_row(jagged_form):
    ours = make(MultiHeadAttention, E, H)
    x = jagged((2, 0, 3))
    out = ours(x)
    assert [len(row) for row in out.unbind()] == [2, 0, 3]
    assert_exact(out[2], ours(x[2]))


def test_mixed_jagged_and_dense_inputs_are_refused():
    ours = MultiHeadAttention(E, H).double()
    x, y = jagged((3, 1, 6)), randn(3, 6, E)
    with type_error("all dense; got nested, dense, dense"):
        ours(x, y)
    with type_error("all dense; got dense, nested, nested"):
        ours(y, x)
    with value_error("key_padding_mask must be None with nested"):
        ours(x, key_padding_mask=torch.zeros(3, 6, dtype=torch.bool))
    with value_error("key must have the batch size"):
        ours(x, jagged((3, 1)))
    with value_error(r"in every row, \[3, 1, 6\]; got \[1, 3, 6\]"):
        ours(x, x, jagged((1, 3, 6)))
    strided = torch.nested.nested_tensor([randn(3, E), randn(2, E)])
    with type_error("must have layout torch.jagged .*; got"):
        ours(strided)
