"""Gradients are right, and a query without keys has none."""

import pytest
import torch

import attn
from tests.attn.cases import Sizes, qkv, randn
from tests.attn.implementations import every_implementation

SIZES = Sizes("", (2,), 4, 2, 3, 4, 3, 2)
INF = torch.inf


def test_second_derivatives_equal_finite_differences():
    q, k, v = (x[:1, :2].requires_grad_() for x in qkv(SIZES))

    def call(q, k, v):
        return attn.scaled_dot_product_attention(q, k, v, is_causal=True)

    assert torch.autograd.gradgradcheck(call, (q, k, v))


DEAD_ROWS = {
    "bool mask": {"attn_mask": torch.tensor([[1], [0], [1]]).bool()},
    "-inf mask": {"attn_mask": torch.tensor([[0.0], [-INF], [0.5]]).double()},
    "two masks that leave nothing": {
        "attn_mask": torch.tensor([[1] * 4, [0, 0, 1, 1], [1] * 4]).bool(),
        "is_causal": True,
    },
    "window past the keys": {
        "window": (0, 0),
        "q_offset": torch.tensor([2, 3]),
    },
    "queries before the keys": {"q_offset": -2, "is_causal": True},
    "Mask": {
        "attn_mask": attn.Mask(lambda b, h, i, j: (i != 1) & (j >= 0)),
        "q_offset": 0,
    },
    "padding alone": {
        "attn_mask": attn.padding(torch.tensor([[1] * 4, [0] * 4]).bool())
    },
    "no keys": {},
}


@every_implementation
@pytest.mark.parametrize("extra", ("", "sinks", "softcap"))
@pytest.mark.parametrize("reason", DEAD_ROWS)
def test_a_row_without_keys_is_zero_and_has_no_gradient(
    implementation, reason, extra
):
    options = {"enable_gqa": True, "return_lse": True, **DEAD_ROWS[reason]}
    sizes = SIZES._replace(S=0) if reason == "no keys" else SIZES
    q, k, v = (x.requires_grad_() for x in qkv(sizes))
    leaves = [q, k, v]
    if extra == "sinks":
        options["sinks"] = randn(4, seed=3).requires_grad_()
        leaves.append(options["sinks"])
    if extra == "softcap":
        options["softcap"] = 2.0
    mask = options.get("attn_mask")
    if isinstance(mask, torch.Tensor) and mask.is_floating_point():
        options["attn_mask"] = mask.clone().requires_grad_()
        leaves.append(options["attn_mask"])
    out, lse = implementation(q, k, v, **options)
    dead = lse == -INF  # (B, H, L)
    assert dead.any(), "the case has no such row"
    assert (out[dead] == 0).all()
    assert out.isfinite().all() and lse[~dead].isfinite().all()
    loss = out.sum() + lse[~dead].sum()
    grads = torch.autograd.grad(loss, leaves, materialize_grads=True)
    for grad in grads:
        assert grad.isfinite().all()
    assert (grads[0][dead] == 0).all()
    # Nothing at all flows back from such a row alone.
    out, lse = implementation(q, k, v, **options)
    loss = out[dead].sum() + lse[dead].masked_fill(dead[dead], 0.0).sum()
    for grad in torch.autograd.grad(loss, leaves, materialize_grads=True):
        assert (grad == 0).all()


def test_simple_attention_gives_nan_for_a_row_without_keys():
    q, k, v = (x[:, :2] for x in qkv(SIZES))
    mask = DEAD_ROWS["bool mask"]["attn_mask"]
    out = attn.simple_attention(q, k, v, mask)
    assert out[:, :, 1].isnan().all() and out[:, :, [0, 2]].isfinite().all()
