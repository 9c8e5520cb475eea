"""Transforms of torch.func, in twos: the numbers, or a refusal that says why.

What is expected is the reference's, with a loop where ``vmap`` is.
"""

from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
from torch import func
from torch.fx.experimental.proxy_tensor import make_fx

import attn
from tests.attn.cases import randn
from tests.attn.public_calls import CALLS, public_call
from tests.marks import exhaustive_but


def jvp(f):
    return lambda x: func.jvp(f, (x,), (x.cos(),))[1]


def both(x):
    return torch.stack([x, 2 * x])


TRANSFORMS: dict[str, Any] = {
    "vmap": lambda f: lambda x: func.vmap(f)(both(x)),
    "grad": lambda f: func.grad(lambda x: f(x).square().sum()),
    "jvp": jvp,
    "jacrev": lambda f: func.jacrev(lambda x: f(x).sum(-1)),
    "jacfwd": lambda f: func.jacfwd(lambda x: f(x).sum(-1)),
    "make_fx": lambda f: lambda x: make_fx(f)(x)(x),
}
LOOPS = {
    **TRANSFORMS,
    "vmap": lambda f: lambda x: torch.stack([*map(f, both(x))]),
    "make_fx": lambda f: f,
}
INNER = ("vmap", "grad", "jvp", "jacrev", "jacfwd")
PAIRS = [*product(TRANSFORMS, INNER)]
# Hessians, derivatives of a mapped function, gradients of each sample.
FEW = [("jacfwd", "jacrev"), ("jvp", "vmap"), ("vmap", "grad"),
       ("grad", "grad"), ("make_fx", "vmap")]  # fmt: skip
#: Query and value; the sizes of PyTorch's fused kernels, and others.
SIZES = {
    "4-D": ((1, 2, 3, 4), (1, 2, 5, 4)),
    "4-D, Dv": ((1, 2, 3, 4), (1, 2, 5, 2)),
    "3-D": ((2, 3, 4), (2, 5, 4)),
    "groups": ((1, 4, 3, 4), (1, 2, 5, 4)),
}
OPTIONS = {"": {}, "window": {"window": (1, 1), "q_offset": 2}}
NAMES = ("auto", "grouped", "sdpa", "tiled", "pack_gqa", "cpu_window")


#: All pairs with the sizes of a fused kernel, and few with each of the others.
CASES = [("4-D", x) for x in PAIRS]
CASES += [(sizes, x) for sizes in SIZES if sizes != "4-D" for x in FEW]
QUICK = [("4-D", x) for x in FEW]


@pytest.mark.parametrize("case", exhaustive_but(QUICK, CASES), ids=str)
@pytest.mark.parametrize("impl", NAMES)
def test_transforms_of_a_call_nest(impl, case):
    sizes, (outer, inner) = case
    query, value = (randn(*s, seed=i) for i, s in enumerate(SIZES[sizes]))
    key = randn(*value.shape[:-1], query.shape[-1], seed=2)

    def call(impl, options, x):
        return attn.attention(
            x, key * x.mean(), value, enable_gqa=True, impl=impl, **options
        )

    for options in OPTIONS.values():
        ours = partial(call, impl, options)
        exact = LOOPS[outer](LOOPS[inner](partial(call, "reference", options)))
        try:
            got = TRANSFORMS[outer](TRANSFORMS[inner](ours))(query)
        except ValueError as error:
            assert f"{impl} cannot: " in str(error), error
        else:
            torch.testing.assert_close(got, exact(query))


MODULES = [x for x in CALLS if x.startswith("nn.") and "BLE" in CALLS[x][0]]
WITHOUT = ("nn.RNN", "nn.LSTM")  # PyTorch has no batching rules for them
MODULES = [x for x in MODULES if x not in WITHOUT]


# Whole Jacobians of a module take minutes, and traces, which calls have.
SHORT = ("vmap", "grad", "jvp")
FEWER = [x for x in PAIRS if x in FEW or {*x} <= {*SHORT}]


@pytest.mark.parametrize("pair", exhaustive_but(FEW[:3], FEWER), ids="-".join)
@pytest.mark.parametrize(
    "name",
    exhaustive_but(["nn.MultiHeadAttention", "nn.GatedDeltaNet"], MODULES),
)
def test_transforms_of_a_module_nest(name, pair, in_double):
    """By its parameters too, with ``functional_call``."""
    module, given = public_call(name)
    first = next(iter(given))
    weights = dict(module.named_parameters())
    one = max(weights, key=lambda x: weights[x].numel())

    def run(weight, x):
        inputs = {**given, first: x}
        out = func.functional_call(module, {one: weight}, (), inputs)
        out = out if isinstance(out, tuple) else (out,)
        return sum(x.flatten()[:3] for x in out)

    x, w = given[first], weights[one].detach()

    def by_weight(row):
        return run(torch.cat([row, w[1:]]), x)

    outer, inner = pair
    for f, at in ((partial(run, w), x), (by_weight, w[:1])):
        with attn.api.use_impl("reference"):
            exact = LOOPS[outer](LOOPS[inner](f))(at)
        got = TRANSFORMS[outer](TRANSFORMS[inner](f))(at)
        torch.testing.assert_close(got, exact)
