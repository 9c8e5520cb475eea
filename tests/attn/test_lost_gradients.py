"""No gradient is lost in silence: it is right, or refused with a way out.

One input at a time requires a gradient, of every public callable and of every
implementation by its name; the difference of two calls says what is right.
"""

import copy
import functools
import re

import pytest
import torch
from torch import Tensor, nn

import attn
from tests.attn.implementations import EXACT
from tests.attn.public_calls import CALLS, Call, public_call, unknown
from tests.marks import exhaustive_but

#: By its docstring: what an indexer learns teaches the attention nothing.
BY_DESIGN = {("functional.indexer_loss", "weights")}
QUICK = (
    "api.attention: options",
    "cache.DynamicCache",
    "cache.StaticCache",
    "kernels.decode_attention",
    "nn.GatedDeltaNet: packed",
    "nn.LatentAttention: a cache",
    "serving.paged_attention",
)
NAMED = {
    name: functools.partial(attn.attention, impl=name)
    for name in attn.api.implementations()
}
ALL = EXACT | NAMED  # a quick grid but for "triton", which test_kernels has
#: A tuple is the shape of a tensor of floats.
OPTIONS = (
    {},
    {"is_causal": True},
    {"scale": 0.9},
    {"softcap": 1.3, "sinks": (4,)},
    {"window": (1, 0), "q_offset": 1},
    {"is_causal": True, "q_offset": torch.tensor([1, -2])},
    {"attn_mask": attn.causal() & attn.prefix(3), "q_offset": 1},
    {"attn_mask": (5, 7), "sinks": (4,)},
    {"attn_mask": (1, 7)},
    {"attn_mask": (4, 1, 7), "softcap": 0.8},
    {"attn_mask": (2, 1, 5, 1), "sinks": (4,), "return_lse": True},
)
pytestmark = pytest.mark.usefixtures("in_double")


def floats(call: Call) -> list[Tensor]:
    return [x for x in call.tensors() if x.is_floating_point()]


def loss(call: Call) -> Tensor:
    """Add up what a call gives, with weights that are always the same."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        parts = [x.where(x.isfinite(), 0.0) for x in floats(call)]
        return sum((torch.randn(x.shape) * x).sum() for x in parts)


def assert_none_is_lost(name: str, call: Call) -> None:
    given = {
        n: [x]
        for n, x in call.given.items()
        if isinstance(x, Tensor) and x.is_floating_point()
    }
    if isinstance(call.function, nn.Module):
        given["parameters"] = [*call.function.parameters()]
    every = [x for tensors in given.values() for x in tensors]
    for x in every:
        x.requires_grad_(False)
    found = floats(call)
    wide = all(x.dtype == torch.float64 for x in (*every, *found))
    step, most = (1e-6, 1e-6) if wide else (1e-2, 2e-2)
    for which, tensors in given.items() if found else ():
        along = [torch.randn(x.shape).to(x) for x in tensors]
        for x in tensors:
            x.requires_grad_()
        try:
            value, got = loss(call), 0.0
        except (ValueError, TypeError, RuntimeError) as error:
            assert re.search("gradient.* use ", str(error)), error
            continue
        else:
            if value.requires_grad:
                grads = torch.autograd.grad(
                    value, tensors, materialize_grads=True
                )
                pairs = zip(grads, along, strict=True)
                got = sum(float((a * b).sum()) for a, b in pairs)
        finally:
            for x in tensors:
                x.requires_grad_(False)
        ends = []
        for sign in (1, -2, 1):  # there, to the other side, and back
            for x, t in zip(tensors, along, strict=True):
                x.add_(t, alpha=sign * step)
            ends.append(float(loss(call)))
        want = (ends[0] - ends[1]) / (2 * step)
        lost = (name, which) in BY_DESIGN
        right = abs(got - want) <= most * max(1.0, abs(want))
        assert right != lost, (which, got, want)


@pytest.mark.parametrize("name", exhaustive_but(QUICK, [*CALLS]))
def test_the_gradient_of_each_input_is_right_or_refused(name):
    assert not unknown()
    call = public_call(name)
    try:
        floats(call)
    except (TypeError, ValueError) as error:
        assert "float64" in str(error)
        torch.set_default_dtype(torch.float32)
        call = public_call(name)
    assert_none_is_lost(name, call)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", exhaustive_but(ALL.keys() - {"triton"}, ALL))
def test_so_is_that_of_each_implementation(name, options):
    for dtype in (torch.float64, torch.float32):
        torch.set_default_dtype(dtype)
        given = public_call("api.attention").given | {
            n: torch.randn(x) if isinstance(x, tuple) and n != "window" else x
            for n, x in options.items()
        }
        reasons = attn.api.explain(**given)
        if name in EXACT or not reasons[name]:
            break
    else:
        return  # it does not compute such a call, and says why
    if name == "flex":  # a call would compile it
        given["query"].requires_grad_()
        assert re.search("gradient.* use ", attn.api.explain(**given)[name][0])
        return
    assert_none_is_lost(name, Call(ALL[name], given))


class Adapter(nn.Module):
    """A layer and a low rank beside it, as LoRA replaces it."""

    weight = property(lambda self: self.base.weight)
    bias = property(lambda self: self.base.bias)

    def __init__(self, base: nn.Linear):
        super().__init__()
        self.base = base
        self.down = nn.Linear(base.in_features, 1, bias=False)
        self.up = nn.Linear(1, base.out_features, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self.up(self.down(x))


def layers(module: nn.Module) -> dict[str, nn.Linear]:
    found = module.named_modules()
    return {name: x for name, x in found if type(x) is nn.Linear}


ADAPTED = [
    x
    for x in CALLS
    if x.startswith("nn.") and "BLE" in CALLS[x][0]
    if not re.search("Norm|RNN|LSTM|Conv", x)  # they have no such layer
]


@pytest.mark.parametrize("name", ADAPTED)
def test_an_adapter_is_part_of_each_layer_it_replaces(name):
    call = public_call(name)
    merged = Call(copy.deepcopy(call.function), call.given)
    wide = layers(merged.function)
    adapters = {n: Adapter(x) for n, x in layers(call.function).items()}
    for n, adapter in adapters.items():
        call.function.set_submodule(n, adapter)
        with torch.no_grad():
            wide[n].weight += adapter.up.weight @ adapter.down.weight
    torch.testing.assert_close(floats(call), floats(merged))
    up = [x.up.weight for x in adapters.values()]
    torch.autograd.grad(loss(call), up)  # which raises for an unused one
