"""No gradient is lost in silence: it is right, or refused with a way out.

One input at a time requires a gradient, of every public callable and of every
implementation by its name. What the call gives is compared with the
difference of two calls; so a result that depends on the input, but carries no
gradient, is found.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import attn
from tests.attn.public_calls import CALLS, Call, public_call, unknown
from tests.marks import exhaustive_but

#: By docstring: a choice teaches an indexer nothing, and no weights.
BY_DESIGN = {("functional.indexer_loss", "weights")}
WAY_OUT = "gradient.* use "
QUICK = (
    "api.attention: options",
    "cache.StaticCache",
    "kernels.decode_attention",
    "kernels.varlen_attention",
    "linear.gated_delta_rule: packed",
    "nn.LatentAttention: a cache",
    "nn.GatedDeltaNet: packed",
    "positions.apply_rope",
    "serving.paged_attention",
)


@pytest.fixture(autouse=True)
def in_double():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def loss(call: Call) -> Tensor:
    """Add up what a call gives, with weights that are drawn once."""
    torch.manual_seed(1)  # of a call that samples
    g, total = torch.Generator().manual_seed(2), torch.zeros(())
    for x in call.tensors():
        if x.is_floating_point():
            finite = x.where(x.isfinite(), 0.0)  # of masked logits, an lse
            total = total + (finite * torch.randn(x.shape, generator=g)).sum()
    return total


def inputs(call: Call) -> dict[str, list[Tensor]]:
    """Return the float tensors of a call by name, and its parameters."""
    found = {
        name: [x]
        for name, x in call.given.items()
        if isinstance(x, Tensor) and x.is_floating_point()
    }
    if isinstance(call.function, nn.Module):
        found["parameters"] = [*call.function.parameters()]
    return {name: tensors for name, tensors in found.items() if tensors}


def by_autograd(
    call: Call, tensors: list[Tensor], along: list[Tensor]
) -> float:
    found = loss(call)
    if not found.requires_grad:
        return 0.0
    grads = torch.autograd.grad(found, tensors, allow_unused=True)
    parts = zip(grads, along, strict=True)
    return sum(float((a * b).sum()) for a, b in parts if a is not None)


@torch.no_grad()
def by_differences(
    call: Call, tensors: list[Tensor], along: list[Tensor], step: float
) -> float:
    """Return the derivative of ``loss`` in a direction."""
    values = []
    for sign in (1, -2, 1):  # there, to the other side, and back
        for x, t in zip(tensors, along, strict=True):
            x.add_(t, alpha=sign * step)
        values.append(float(loss(call)))
    return (values[0] - values[1]) / (2 * step)


def assert_none_is_lost(name: str, call: Call) -> None:
    given = inputs(call)
    for tensors in given.values():
        for x in tensors:
            x.requires_grad_(False)
    with torch.no_grad():
        outputs = [x for x in call.tensors() if x.is_floating_point()]
    if not outputs:
        return
    everything = [*outputs, *(x for xs in given.values() for x in xs)]
    narrow = any(x.dtype != torch.float64 for x in everything)
    step, most = (1e-2, 2e-2) if narrow else (1e-6, 1e-6)
    for which, tensors in given.items():
        g = torch.Generator().manual_seed(3)
        along = [torch.randn(x.shape, generator=g).to(x) for x in tensors]
        for x in tensors:
            x.requires_grad_()
        try:
            got = by_autograd(call, tensors, along)
        except (ValueError, TypeError, RuntimeError) as error:
            assert re.search(WAY_OUT, str(error)), error
            continue
        finally:
            for x in tensors:
                x.requires_grad_(False)
        want = by_differences(call, tensors, along, step)
        if (name, which) in BY_DESIGN:
            assert got == 0.0 != want
        else:
            assert abs(got - want) <= most * max(1.0, abs(want)), (
                f"{which}: {got}, by differences {want}"
            )


def drawn(name: str) -> Call:
    """Draw the arguments in float64, or float32 for what refuses that."""
    torch.manual_seed(0)
    call = public_call(name)
    try:
        with torch.no_grad():
            call.tensors()
    except (TypeError, ValueError) as error:
        if "float64" not in str(error):
            raise
        torch.set_default_dtype(torch.float32)
        call = public_call(name)
    return call


@pytest.mark.parametrize("name", exhaustive_but(QUICK, [*CALLS]))
def test_the_gradient_of_each_input_is_right_or_refused(name):
    assert not unknown()
    assert_none_is_lost(name, drawn(name))


@pytest.mark.parametrize("option", ["none", "attn_mask", "sinks"])
@pytest.mark.parametrize("impl", attn.api.implementations())
def test_so_is_that_of_each_implementation_by_name(impl, option):
    shapes = {"attn_mask": (5, 7), "sinks": (4,)}
    for dtype in (torch.float64, torch.float32):
        torch.set_default_dtype(dtype)
        given: dict[str, Any] = dict(public_call("api.attention").given)
        if option in shapes:
            given[option] = torch.randn(shapes[option])
        if not attn.api.explain(**given)[impl]:
            break
    else:
        pytest.skip(f"{impl} does not support it")
    wanted = given[option] if option in given else given["query"]
    wanted.requires_grad_()
    refused = attn.api.explain(**given)[impl]
    if refused:
        assert any(re.search(WAY_OUT, reason) for reason in refused)
    else:
        call = functools.partial(attn.attention, impl=impl)
        assert_none_is_lost(impl, Call(call, given))
