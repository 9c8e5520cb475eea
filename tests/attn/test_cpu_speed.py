"""Why ``attention`` prefers whom: measured side by side, in one process."""

import pytest
import torch

import attn
from attn.api import attention
from attn.backends import cpu_half
from attn.functional.inputs import validate
from tests.timing import ratio

pytestmark = pytest.mark.serial


def by(impl, *tensors, **options):
    return lambda: attention(*tensors, impl=impl, **options)


@torch.no_grad()
@pytest.mark.parametrize(
    ("dtype", "transposed", "least"),
    [
        (torch.float32, False, 1.3),
        (torch.float32, True, 1.3),
        (torch.bfloat16, False, 4.0),
    ],
    ids=str,
)
def test_packed_groups_decode_faster_than_sdpa(dtype, transposed, least):
    query = torch.randn(1, 32, 1, 128).to(dtype)
    key, value = torch.randn(2, 1, 8, 8192, 128).to(dtype)
    cache = attn.StaticCache(
        1, 8, 8192, 128, dtype=dtype, transposed_keys=transposed
    )
    stored = cache.update(key, value)
    kwargs = {"enable_gqa": True, "is_causal": True, "q_offset": 8191}
    packed = by("pack_gqa", query, stored.key, stored.value, **kwargs)
    sdpa = by("sdpa", query, key, value, **kwargs)
    assert ratio(packed, sdpa) > least


@torch.no_grad()
def test_cpu_window_is_faster_than_sdpa_with_a_mask():
    tensors = torch.randn(3, 1, 4, 4096, 64)
    banded = by("cpu_window", *tensors, window=(511, 0))
    sdpa = by("sdpa", *tensors, window=(511, 0))
    assert ratio(banded, sdpa, 3) > 2.5


@pytest.mark.parametrize(
    ("dtype", "least"), [(torch.float16, 3.0), (torch.bfloat16, 2.5)], ids=str
)
def test_training_cast_to_float32_is_faster_than_in_16_bits(dtype, least):
    """Five and eight times, when nothing else runs."""
    tensors = [torch.randn(1, 8, 512, 64) for _ in range(3)]
    tensors = [x.to(dtype).requires_grad_() for x in tensors]
    if reason := cpu_half.deprioritized(validate(*tensors)):
        pytest.skip(reason)

    def training(impl):
        run = by(impl, *tensors, is_causal=True)
        return lambda: run().sum().backward()

    assert ratio(training("cpu_half"), training("sdpa"), 3) > least


@torch.no_grad()
def test_selection_adds_less_than_a_fifth_to_a_call():
    tensors = torch.randn(3, 1, 8, 1024, 64)

    def plain():
        torch.nn.functional.scaled_dot_product_attention(
            *tensors, is_causal=True
        )

    auto = by("auto", *tensors, is_causal=True)
    assert ratio(auto, plain) > 0.85
