"""Compute what networks are made of: activations, norms, attention."""

from __future__ import annotations

import math
from typing import Any

from .creation import _RANDOM, full_like
from .dtypes import FLOAT, bool_, finfo, float32, float64, int64
from .elementwise import elementwise, sigmoid
from .errors import not_here
from .indexing import getitem
from .names import FUNCTIONS, METHODS, called, functional
from .pairs import add, div, mul, pair, sub
from .products import einsum, matmul
from .reductions import linalg_vector_norm, mean_of, rows
from .shapes import cat, permuted, repeat_interleave
from .tensor import Tensor, elements, new, rounded, size_of

softmax_along = METHODS["softmax"]
log_softmax_along = METHODS["log_softmax"]


@functional
def softmax(input, dim=None, _stacklevel=3, dtype=None):
    return softmax_along(input, _usual_axis(input, dim), dtype=dtype)


@functional
def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    return log_softmax_along(input, _usual_axis(input, dim), dtype=dtype)


def _usual_axis(x: Tensor, dim: int | None) -> int:
    """Return what PyTorch takes without ``dim``, and warns about."""
    if dim is None:
        return 0 if len(x.shape) in (0, 1, 3) else 1
    return dim


@functional
def linear(input, weight, bias=None):
    if len(weight.shape) == 2:
        weight = permuted(weight, [1, 0])
    result = matmul(input, weight)
    return result if bias is None else add(result, bias)


def _silu(x: float) -> float:
    return x * sigmoid(x)


def _softplus(x: float) -> float:
    return x if x > 20 else math.log1p(math.exp(x))


def _logsigmoid(x: float) -> float:
    return min(x, 0.0) - math.log1p(math.exp(-abs(x)))


for _name, _f in {
    "silu": _silu,
    "softplus": _softplus,
    "logsigmoid": _logsigmoid,
    "sigmoid": sigmoid,
    "tanh": math.tanh,
}.items():
    functional(elementwise(_name, _f))


@functional
def relu(input):
    return METHODS["relu"](input)


@functional
def elu(input, alpha=1.0):
    f = lambda x: x if x > 0 else alpha * math.expm1(x)  # noqa: E731
    return elementwise("", f)(input)


@functional
def gelu(input, approximate="none"):

    def exact(x: float) -> float:
        return x * 0.5 * (1 + math.erf(x / math.sqrt(2)))

    def tanh(x: float) -> float:
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
        return 0.5 * x * (1 + math.tanh(inner))

    f = tanh if approximate == "tanh" else exact
    return elementwise("", f)(input)


@functional
def leaky_relu(input, negative_slope=0.01):
    values = [x if x > 0 else x * negative_slope for x in elements(input)]
    return rounded(values, input.shape, input.dtype)


@functional
def glu(input, dim=-1):
    a, b = METHODS["chunk"](input, 2, dim)
    return mul(a, METHODS["sigmoid"](b))


@functional
def normalize(input, p=2.0, dim=1, eps=1e-12):
    norms = linalg_vector_norm(input, p, dim, True)
    return div(input, METHODS["clamp"](norms, eps))


def _last_axes(
    name: str, x: Tensor, shape: Any, weight: Tensor | None
) -> list[int]:
    shape = tuple(shape)
    n = len(x.shape) - len(shape)
    if n < 0 or tuple(x.shape[n:]) != shape:
        stars = ", ".join(["*", *map(str, shape)])
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with "
            f"shape [{stars}], but got input of size{list(x.shape)}"
        )
    if weight is not None and tuple(weight.shape) != shape:
        raise RuntimeError(
            "Expected weight to be of same shape as normalized_shape, but "
            f"got weight of shape {list(weight.shape)} and normalized_shape "
            f"= {list(shape)}"
        )
    return list(range(n, len(x.shape)))


@functional
def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    dims = _last_axes("layer_norm", input, normalized_shape, weight)
    scale = elements(weight) if weight is not None else None
    shift = elements(bias) if bias is not None else None
    values: list[Any] = []
    for row in rows(input, dims):
        middle = mean_of(row)
        centred = [x - middle for x in row]
        factor = 1 / math.sqrt(mean_of([x * x for x in centred]) + eps)
        made = [x * factor for x in centred]
        if scale is not None:
            made = [x * s for x, s in zip(made, scale, strict=True)]
        if shift is not None:
            made = [x + s for x, s in zip(made, shift, strict=True)]
        values += made
    return rounded(values, input.shape, input.dtype)


@functional
def rms_norm(input, normalized_shape, weight=None, eps=None):
    dims = _last_axes("rms_norm", input, normalized_shape, weight)
    if eps is None:
        eps = finfo(float64 if input.dtype is float64 else float32).eps
    values: list[Any] = []
    for row in rows(input, dims):
        factor = 1 / math.sqrt(mean_of([x * x for x in row]) + eps)
        values += [x * factor for x in row]
    if weight is None:
        return rounded(values, input.shape, input.dtype)
    return mul(new(values, input.shape, input.dtype), weight)


@functional
def pad(input, pad, mode="constant", value=None):
    if mode != "constant":
        raise not_here(f"F.pad(mode={mode!r})")
    pad = tuple(pad)
    if len(pad) > 2 * len(input.shape):
        raise RuntimeError(
            "Padding length should be less than or equal to two times the "
            f"input dimension but got padding length {len(pad)} and input of "
            f"dimension {len(input.shape)}"
        )
    for i in range(len(pad) // 2):
        d = len(input.shape) - 1 - i
        for count, first in ((pad[2 * i], True), (pad[2 * i + 1], False)):
            if count < 0:
                cut = slice(-count, None) if first else slice(None, count)
                input = getitem(input, (*[slice(None)] * d, cut))
            elif count:
                shape = list(input.shape)
                shape[d] = count
                size = size_of(tuple(shape))
                edge = input.dtype.round([value or 0]) * size
                more = new(edge, shape, input.dtype)
                input = cat([more, input] if first else [input, more], d)
    return input


@functional
def one_hot(tensor, num_classes=-1):
    index = elements(tensor)
    n = max(index) + 1 if num_classes < 0 else num_classes
    if index and max(index) >= n:
        raise RuntimeError("Class values must be smaller than num_classes.")
    values = [0] * (len(index) * n)
    for i, k in enumerate(index):
        values[i * n + k] = 1
    return new(values, [*tensor.shape, n], int64)


@functional
def embedding(input, weight):
    return getitem(weight, input)


@functional
def dropout(input, p=0.5, training=True, inplace=False):
    if not 0 <= p <= 1:
        raise ValueError(
            f"dropout probability has to be between 0 and 1, but got {p}"
        )
    if not training or p == 0:
        return input
    kept = [_RANDOM.random() >= p for _ in range(len(elements(input)))]
    values = [
        x / (1 - p) if k else 0.0
        for x, k in zip(elements(input), kept, strict=True)
    ]
    return rounded(values, input.shape, input.dtype)


@functional
def conv1d(
    input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1
):
    """Slide windows of weights along the last axis."""
    if padding:
        input = pad(input, (padding, padding))
    out, per_group, width = weight.shape
    span = dilation * (width - 1) + 1
    x = getitem(
        METHODS["unfold"](input, -1, span, stride),
        (..., slice(None, None, dilation)),
    )
    n = len(input.shape) - 2
    parts = []
    for k in range(groups):
        own = METHODS["narrow"](x, n, k * per_group, per_group)
        w = METHODS["narrow"](weight, 0, k * (out // groups), out // groups)
        parts.append(einsum("...clw,ocw->...ol", own, w))
    result = cat(parts, n)
    if bias is None:
        return result
    return add(result, METHODS["unsqueeze"](bias, -1))


@functional
def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    dots = METHODS["sum"](mul(x1, x2), dim)
    norms = [
        METHODS["clamp"](linalg_vector_norm(x, 2, dim), eps) for x in (x1, x2)
    ]
    return div(dots, mul(*norms))


@functional
def mse_loss(input, target):
    values, _ = pair(lambda a, b: (a - b) ** 2, input, target, input.dtype)
    return rounded([mean_of(values)], (), input.dtype)


@functional
def kl_div(input, target, reduction="mean", log_target=False):
    if log_target:
        parts = mul(METHODS["exp"](target), sub(target, input))
    else:
        parts = sub(METHODS["xlogy"](target, target), mul(target, input))
    if reduction == "batchmean":
        return div(METHODS["sum"](parts), input.shape[0])
    return parts if reduction == "none" else METHODS[reduction](parts)


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
        raise RuntimeError(
            "_scaled_dot_product_attention: Explicit attn_mask should not be "
            "set when is_causal=True"
        )
    if query.dtype is not key.dtype or query.dtype is not value.dtype:
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got "
            f"query.dtype: {query.dtype.c_name} key.dtype: "
            f"{key.dtype.c_name} and value.dtype: {value.dtype.c_name} "
            "instead."
        )
    if enable_gqa:
        groups = query.shape[-3] // key.shape[-3]
        key = repeat_interleave(key, groups, -3)
        value = repeat_interleave(
            value, query.shape[-3] // value.shape[-3], -3
        )
    kind = query.dtype if query.dtype.itemsize == 8 else float32
    q, k, v = (METHODS["to"](x, kind) for x in (query, key, value))
    if scale is None:
        scale = 1 / math.sqrt(q.shape[-1])
    n = len(k.shape)
    k = permuted(k, [*range(n - 2), n - 1, n - 2])
    scores = mul(matmul(q, k), scale)
    L, S = scores.shape[-2:]
    if is_causal:
        may = [j <= i for i in range(L) for j in range(S)]
        attn_mask = new(may, [L, S], bool_)
    if attn_mask is not None and attn_mask.dtype is bool_:
        hidden = METHODS["logical_not"](attn_mask)
        scores = METHODS["masked_fill"](scores, hidden, -math.inf)
    elif attn_mask is not None:
        scores = add(scores, METHODS["to"](attn_mask, kind))
    weights: list[float] = []
    for row in rows(scores, [len(scores.shape) - 1]):
        high = max(row, default=0.0)
        if high == -math.inf:
            weights += [0.0] * len(row)
        else:
            exps = [math.exp(x - high) for x in row]
            whole = sum(exps)
            weights += [x / whole for x in exps]
    made = dropout(rounded(weights, scores.shape, kind), dropout_p)
    return METHODS["to"](matmul(made, v), query.dtype)


FUNCTIONS["rms_norm"] = rms_norm
FUNCTIONS["layer_norm"] = layer_norm
FUNCTIONS["dropout"] = dropout
__all__ = ["FLOAT", "called", "full_like"]
