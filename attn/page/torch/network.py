"""Compute what networks are made of: activations, norms, attention."""

from __future__ import annotations

import math
from typing import Any

from .along import softmax_of
from .choosing import clamp, masked_fill, where
from .conversion import convert
from .creation import CHANCE, filled
from .dtypes import bool_, finfo, float32, float64, int64
from .einsum import einsum
from .elementwise import elementwise, relu, sigmoid
from .errors import not_here, said
from .indexing import getitem
from .joining import cat, repeat_interleave
from .names import FUNCTIONAL, FUNCTIONS, METHODS, functional, short
from .pairs import add, div, mul, sub
from .products import matmul
from .reductions import linalg_vector_norm, mean_of, rows
from .shapes import narrow, transpose, unfold, unsqueeze
from .tensor import Tensor, elements, new, rounded


def _along(name: str) -> None:
    def compute(input, dim=None, _stacklevel=3, dtype=None):
        if dim is None:  # what PyTorch takes, with a warning
            dim = 0 if len(input.shape) in (0, 1, 3) else 1
        return METHODS[name](input, dim, dtype=dtype)

    short({name: compute}, FUNCTIONAL)


_along("softmax")
_along("log_softmax")


def _gelu(x: float) -> float:
    return x * 0.5 * (1 + math.erf(x / math.sqrt(2)))


_ACTIVATIONS: dict[str, Any] = {
    "silu": lambda x: x * sigmoid(x),
    "softplus": lambda x: x if x > 20 else math.log1p(math.exp(x)),
    "sigmoid": sigmoid,
    "tanh": math.tanh,
    "relu": relu,
    "logsigmoid": lambda x: min(x, 0) - math.log1p(math.exp(-abs(x))),
}
for _name, _f in _ACTIVATIONS.items():
    functional(elementwise(_name, _f))


@functional
def hardtanh(input, min_val=-1.0, max_val=1.0):
    x = masked_fill(input, input <= min_val, min_val)
    return masked_fill(x, input >= max_val, max_val)


@functional
def elu(input, alpha=1.0):
    f = lambda x: x if x > 0 else alpha * math.expm1(x)  # noqa: E731
    return elementwise("elu", f)(input)


@functional
def gelu(input, approximate="none"):
    if approximate != "none":
        raise not_here(f"F.gelu(approximate={approximate!r})")
    return elementwise("gelu", _gelu)(input)


@functional
def linear(input, weight, bias=None):
    if len(weight.shape) > 2:
        raise said("linear_axes", len(weight.shape))
    weight = transpose(weight, 0, -1)
    result = matmul(input, weight)
    return result if bias is None else add(result, bias)


@functional
def normalize(input, p=2.0, dim=1, eps=1e-12):
    norms = linalg_vector_norm(input, p, dim, True)
    return div(input, clamp(norms, eps))


@functional
def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    norms = [clamp(linalg_vector_norm(x, 2, dim), eps) for x in (x1, x2)]
    return div(METHODS["sum"](mul(x1, x2), dim), mul(*norms))


@functional
def kl_div(input, target, reduction="mean"):
    parts = sub(METHODS["xlogy"](target, target), mul(target, input))
    if reduction == "batchmean":
        return div(METHODS["sum"](parts), input.shape[0])
    return parts if reduction == "none" else METHODS[reduction](parts)


def _rows(x: Tensor, shape: Any) -> list[list[Any]]:
    """Return the elements of the last axes, which must have this shape."""
    shape = tuple(shape)
    n = len(x.shape) - len(shape)
    if n < 0 or tuple(x.shape[n:]) != shape:
        stars = ", ".join(["*", *map(str, shape)])
        raise said("normalized_input", list(shape), stars, list(x.shape))
    return rows(x, list(range(n, len(x.shape))))


def _normed(
    x: Tensor, shape: Any, weight: Any, bias: Any, eps: float, is_centred: bool
) -> Tensor:
    """Divide rows by their deviation from their mean, or from 0."""
    values: list[Any] = []
    for row in _rows(x, shape):
        middle = mean_of(row) if is_centred else 0.0
        centred = [v - middle for v in row]
        factor = 1 / math.sqrt(mean_of([v * v for v in centred]) + eps)
        values += [v * factor for v in centred]
    result = new(values, x.shape, float64)
    for f, y in ((mul, weight), (add, bias)):
        result = result if y is None else f(result, convert(y, float64))
    return convert(result, x.dtype)


@functional
def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    return _normed(input, normalized_shape, weight, bias, eps, True)


@functional
def rms_norm(input, normalized_shape, weight=None, eps=None):
    if eps is None:
        eps = finfo(float64 if input.dtype is float64 else float32).eps
    return _normed(input, normalized_shape, weight, None, eps, False)


@functional
def pad(input, pad, mode="constant", value=None):
    n, pad = len(input.shape), tuple(pad)
    if mode != "constant":
        raise not_here(f"F.pad(mode={mode!r})")
    for i, count in enumerate(pad):
        d, is_first = n - 1 - i // 2, i % 2 == 0
        if count < 0:
            cut = slice(-count, None) if is_first else slice(None, count)
            input = getitem(input, (*[slice(None)] * d, cut))
        elif count:
            shape = (*input.shape[:d], count, *input.shape[d + 1 :])
            more = filled(shape, value or 0, input.dtype)
            input = cat([more, input] if is_first else [input, more], d)
    return input


@functional
def one_hot(tensor, num_classes=-1):
    index = elements(tensor)
    n = max(index) + 1 if num_classes < 0 else num_classes
    if max(index, default=0) >= n:
        raise RuntimeError("Class values must be smaller than num_classes.")
    values = [int(k == i) for i in index for k in range(n)]
    return new(values, [*tensor.shape, n], int64)


@functional
def dropout(input, p=0.5, training=True, inplace=False):
    if not 0 <= p <= 1:
        raise said("dropout", p)
    if not training or p == 0:
        return input
    scaled = [
        x / (1 - p) if CHANCE.random() >= p else 0.0 for x in elements(input)
    ]
    return rounded(scaled, input.shape, input.dtype)


def _pool(name: str, reduce: Any, outside: float) -> None:
    def pool(input, kernel_size, stride=None, padding=0):
        x = pad(input, (padding, padding), value=outside)
        return reduce(unfold(x, -1, kernel_size, stride or kernel_size))

    short({name: pool}, FUNCTIONAL, FUNCTIONS)


_pool("avg_pool1d", lambda x: METHODS["mean"](x, -1), 0.0)
_pool("max_pool1d", lambda x: METHODS["max"](x, -1).values, -math.inf)


@functional
def conv1d(input, weight, bias=None, padding=0, groups=1):
    """Slide windows of weights along the last axis."""
    n, (out, per_group, width) = len(input.shape) - 2, weight.shape
    windows = unfold(pad(input, (padding, padding)), -1, width, 1)
    parts = []
    for k in range(groups):
        own = narrow(windows, n, k * per_group, per_group)
        w = narrow(weight, 0, k * (out // groups), out // groups)
        parts.append(einsum("...clw,ocw->...ol", own, w))
    result = cat(parts, n)
    return result if bias is None else add(result, unsqueeze(bias, -1))


@functional
def scaled_dot_product_attention(
    query,
    key,
    value,
    attn_mask=None,
    dropout_p=0.0,
    is_causal=False,
    scale=None,
    enable_gqa=False,
):
    if is_causal and attn_mask is not None:
        raise said("mask_twice")
    if query.dtype is not key.dtype or query.dtype is not value.dtype:
        names = [x.dtype.c_name for x in (query, key, value)]
        raise said("attention_dtypes", *names)
    counts = [len(x.shape) for x in (query, key, value)]
    if min(counts) < 2:
        raise said("attention_axes", *counts)
    kind = query.dtype if query.dtype.itemsize == 8 else float32
    q, k, v = (convert(x, kind) for x in (query, key, value))
    if enable_gqa:
        heads = q.shape[-3]
        k, v = (repeat_interleave(x, heads // x.shape[-3], -3) for x in (k, v))
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = mul(matmul(q, transpose(k, -1, -2)), scale)
    if is_causal:
        L, S = scores.shape[-2:]
        may = [j <= i for i in range(L) for j in range(S)]
        attn_mask = new(may, [L, S], bool_)
    if attn_mask is not None and attn_mask.dtype is bool_:
        hidden = METHODS["logical_not"](attn_mask)
        scores = masked_fill(scores, hidden, -math.inf)
    elif attn_mask is not None:
        scores = add(scores, convert(attn_mask, kind))
    values: list[float] = []
    for row in rows(scores, [len(scores.shape) - 1]):
        is_dead = max(row, default=0.0) == -math.inf  # it has no key
        values += [0.0] * len(row) if is_dead else softmax_of(row)
    weights = dropout(rounded(values, scores.shape, kind), dropout_p)
    return convert(matmul(weights, v), query.dtype)


short(
    {
        "leaky_relu": lambda input, negative_slope=0.01: where(
            input > 0, input, mul(input, negative_slope)
        ),
        "relu6": lambda input: hardtanh(input, 0.0, 6.0),
        "hardsigmoid": lambda input: div(hardtanh(add(input, 3), 0, 6), 6),
        "embedding": lambda input, weight: getitem(weight, input),
    },
    FUNCTIONAL,
)
for _f in (rms_norm, layer_norm, dropout, conv1d, cosine_similarity):
    FUNCTIONS[_f.__name__] = _f
