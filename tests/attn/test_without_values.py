"""Meta and fake tensors: shapes and dtypes of every public callable.

With values, a call leaves its arguments and the random state alone.
"""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.attn.cases import assert_equal
from tests.attn.public_calls import CALLS, Call, public_call
from tests.marks import exhaustive_but

pytest.importorskip("triton")

#: Their results depend on values in more than their elements.
NEED_VALUES = {
    "functional.attention_loops",
    "cache.DynamicCache: lengths",
    "cache.StaticCache: lengths",
    "cache.PagedCache",
    "kernels.decode_attention",
    "kernels.varlen_attention",
    "kernels.linear_attention_chunks",
    "serving.verify_greedy",
    "serving.rejection_sample",
}
NEED_VALUES |= {x for x in CALLS if x.endswith(": packed")}


def on_meta(x: Any) -> Any:
    if isinstance(x, nn.Module):
        return copy.deepcopy(x).to("meta")
    return x.to("meta") if isinstance(x, Tensor) else x


def meta(name: str) -> list[Tensor]:
    call = public_call(name)
    given = {n: on_meta(x) for n, x in call.given.items()}
    found = Call(on_meta(call.function), given).tensors()
    assert all(x.is_meta for x in found)
    return found


def fake(name: str) -> list[Tensor]:
    with FakeTensorMode():
        return public_call(name).tensors()


def with_values(name: str) -> list[Tensor]:
    call, before = public_call(name), torch.get_rng_state()
    given = [x for x in call.given.values() if isinstance(x, Tensor)]
    kept = [x.clone() for x in given]
    found = call.tensors()
    assert torch.equal(torch.get_rng_state(), before), name
    assert_equal(given, kept)
    return found


@pytest.mark.parametrize("without", exhaustive_but([meta], [meta, fake]))
def test_shapes_and_dtypes_need_no_values(without):
    for name in CALLS:
        if name in NEED_VALUES:
            with pytest.raises(ValueError, match="must have values, which"):
                without(name)
            continue
        shapes = [
            [(x.shape, x.dtype) for x in found]
            for found in (without(name), with_values(name))
        ]
        assert shapes[0] == shapes[1], name
