"""Where ours and torch differ, on purpose. All of it, in one table.

``torch`` is what ``F.scaled_dot_product_attention`` does in torch 2.13 on a
CPU, by backend; ``ours`` is what ``attn`` does. When a row fails because
torch has changed, change the row.
"""

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import attn

NAN, LOWEST = float("nan"), torch.finfo(torch.float32).min


def rand(*shape: int) -> torch.Tensor:
    g = torch.Generator().manual_seed(len(shape) + sum(shape))
    return torch.randn(shape, generator=g)


def last_key(x: torch.Tensor, number: float) -> torch.Tensor:
    x = x.clone()
    x[..., -1, :] = number
    return x


Q, K, V = rand(2, 2, 3, 4), rand(2, 2, 3, 4) + 1, rand(2, 2, 3, 4) - 1
ONE = torch.ones(3, 3, dtype=torch.bool)
COIN = torch.rand(2, 3, 3, generator=torch.Generator().manual_seed(0)) < 0.5
NOT_LAST = torch.tensor([[True, True, False]])
EVEN = V.mean(-2, keepdim=True).expand_as(V)


class Refused(str):
    """An error whose message has these words."""


class Row(NamedTuple):
    what: str
    args: tuple
    math: object  # a tensor, a Refused, or a claim about the output
    flash: object
    ours: object
    options: dict = {}


def is_nan(out: torch.Tensor) -> bool:
    return bool(out.isnan().any())


def plain(*args, **options) -> torch.Tensor:
    with sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(*args, **options)


READS_STRANGE_MEMORY = None  # and returns numbers: not run
NO_KERNEL = Refused("No available kernel")
TABLE = (
    Row(
        "is_causal with attn_mask: both apply",
        (Q, K, V, COIN[0]),
        Refused("Explicit attn_mask should not be set"),
        plain(Q, K, V, COIN[0].tril()),
        plain(Q, K, V, COIN[0].tril()),
        {"is_causal": True},
    ),
    Row(
        "a single key head is not shared without enable_gqa",
        (rand(2, 4, 3, 4), rand(2, 1, 3, 4), rand(2, 1, 3, 4)),
        lambda out: out.shape == (2, 4, 3, 4),
        NO_KERNEL,
        Refused("key must have as many heads as query, 4; got 1"),
    ),
    Row(
        "a single query head is not repeated for every key head",
        (rand(1, 3, 4), rand(5, 3, 4), rand(5, 3, 4)),
        lambda out: out.shape == (5, 3, 4),
        NO_KERNEL,
        Refused("key must have as many heads as query, 1; got 5"),
    ),
    Row(
        "key and value share the same number of heads",
        (rand(2, 4, 3, 4), rand(2, 2, 3, 4), rand(2, 1, 3, 4)),
        lambda out: out.shape == (2, 4, 3, 4),
        NO_KERNEL,
        Refused("value must have as many heads as key, 2; got 1"),
        {"enable_gqa": True},
    ),
    Row(
        "every key has one value",
        (Q, rand(2, 2, 5, 4), rand(2, 2, 4, 4)),
        Refused("Expected size for first two dimensions"),
        READS_STRANGE_MEMORY,
        Refused("value must have one position for each key, 5; got 4"),
    ),
    Row(
        "three axes that may be (B, L, S) or (H, L, S) are ambiguous",
        (Q, K, V, COIN),
        plain(Q, K, V, COIN[None]),
        NO_KERNEL,
        Refused(r"ambiguous .*: pass \(B, 1, L, S\).*\(1, H, L, S\)"),
    ),
    Row(
        "a mask of one axis is not a row of keys",
        (Q, K, V, NOT_LAST[0]),
        plain(Q, K, V, NOT_LAST),
        Refused("Dimension out of range"),
        Refused(r"attn_mask must have two axes .*; got \(3,\)"),
    ),
    Row(
        "a row of finfo.min is not a row without keys (the same in torch)",
        (Q, K, V, torch.full((3, 3), LOWEST)),
        EVEN,
        EVEN,
        EVEN,
    ),
    Row(
        "a NaN in a key that a bool mask hides stays hidden",
        (Q, last_key(K, NAN), V, NOT_LAST),
        is_nan,
        is_nan,
        plain(Q, K[..., :2, :], V[..., :2, :]),
    ),
    Row(
        "a NaN in a value that a bool mask hides is seen (the same in torch)",
        (Q, K, last_key(V, NAN), NOT_LAST),
        is_nan,
        is_nan,
        is_nan,
    ),
    Row(
        "a scale is finite",
        (Q, K, V),
        is_nan,
        torch.zeros(2, 2, 3, 4),
        Refused("scale must be finite; got nan"),
        {"scale": NAN},
    ),
    Row(
        "with is_causal a scale may be 0, or below it",
        (Q, K, V),
        plain(Q, K, V, ONE.tril(), scale=-0.7),
        is_nan,  # it masks before it scales
        plain(Q, K, V, ONE.tril(), scale=-0.7),
        {"is_causal": True, "scale": -0.7},
    ),
    Row(
        "a dropout is a probability",
        (Q, K, V),
        plain(Q, K, V),
        Refused("do not support dropout"),
        Refused(r"dropout_p must be a number from 0 to 1; got -0\.5"),
        {"dropout_p": -0.5},
    ),
    Row(
        "no head_dim, no scale",
        (Q[..., :0], K[..., :0], V),
        EVEN,
        NO_KERNEL,
        Refused("head_dim must be at least 1"),
    ),
    Row(
        "a mask lives where the query lives",
        (Q, K, V, ONE.to("meta")),
        Refused("not on the expected device"),
        READS_STRANGE_MEMORY,
        Refused("attn_mask must be on the device of query, cpu; got meta"),
    ),
)


def assert_behaves(function: Callable, row: Row, expected: object) -> None:
    if isinstance(expected, Refused):
        errors = (ValueError, TypeError, RuntimeError, IndexError)
        with pytest.raises(errors, match=expected):
            function(*row.args, **row.options)
        return
    out = function(*row.args, **row.options)
    if isinstance(expected, torch.Tensor):
        few = 16 * torch.finfo(out.dtype).eps
        assert (out - expected).abs().max() <= few * expected.abs().max()
    else:
        assert expected(out)


@pytest.mark.parametrize("row", TABLE, ids=[row.what for row in TABLE])
def test_attn_behaves_as_the_table_of_differences_says(row):
    assert_behaves(attn.scaled_dot_product_attention, row, row.ours)


BACKENDS = {
    "math": SDPBackend.MATH,
    "flash": SDPBackend.FLASH_ATTENTION,
}
RUNS = [
    (row, backend)
    for row in TABLE
    for backend in BACKENDS
    if getattr(row, backend) is not READS_STRANGE_MEMORY
]


@pytest.mark.parametrize(
    "row,backend", RUNS, ids=[f"{b}: {row.what}" for row, b in RUNS]
)
@pytest.mark.filterwarnings("ignore::UserWarning")  # why no kernel fits
def test_torch_behaves_as_the_table_of_differences_says(row, backend):
    if not torch.__version__.startswith("2.13"):
        pytest.skip("the table says what torch 2.13 does")
    with sdpa_kernel(BACKENDS[backend]):
        function = F.scaled_dot_product_attention
        assert_behaves(function, row, getattr(row, backend))
