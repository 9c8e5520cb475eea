"""Cases, properties and correct variants of ``gqa-kv_cache_bytes``."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from attn import cost
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property

NAMES = ("batch", "seq_len", "num_layers", "num_kv_heads", "head_dim")


def _cases(g: Draw) -> Iterator[Case]:
    def small() -> tuple[int, ...]:
        """Draw five different sizes above 1."""
        order = torch.randperm(5, generator=g).tolist()
        return tuple((3, 5, 7, 11, 13)[i] for i in order)

    dtypes = {
        "the five sizes differ": [torch.bfloat16] * 3,
        "the elements are float32": [torch.float32],
        "the elements have other floating dtypes": [
            torch.float16,
            torch.float64,
            torch.float8_e4m3fn,
        ],
        "the cache is quantised to int8": [torch.int8],
    }
    when = "every size is 1: one key and one value, of one element each"
    yield Case(when, (1, 1, 1, 1, 1, torch.bfloat16))

    when = "the text is longer, and every other size is 1"
    yield Case(when, (1, g.between(3, 9), 1, 1, 1, torch.bfloat16))

    for when, dtype in entries(dtypes):
        yield Case(when, (*small(), dtype))

    yield Case("dtype is not given, so it is bfloat16", small())

    when = "the arguments are given by name"
    given = dict(zip(NAMES, small(), strict=True))
    yield Case(when, (), {**given, "dtype": torch.float16})
    yield Case(when, (), given)

    when = "the model is large"
    yield Case(when, (8 * g.between(2, 8), 8192, 80, 8, 128))  # Llama 3 70B
    yield Case(when, (7, g.between(100_003, 131_071), 126, 8, 128))
    sizes = g.between(101, 999), 1_000_003, 127, 17, 129
    yield Case(when, (*sizes, torch.float32))


def _arguments(args: tuple, kwargs: Any) -> dict[str, Any]:
    given = dict(zip((*NAMES, "dtype"), args, strict=False))
    return {"dtype": torch.bfloat16, **given, **kwargs}


def _each_is_a_factor(case: Case, out: Any) -> bool:
    given = _arguments(case.args, case.kwargs)
    return all(out % given[name] == 0 for name in NAMES)


exercise = Exercise(
    id="gqa-kv_cache_bytes",
    points=1,
    reference=cost.kv_cache_bytes,
    cases=_cases,
    properties=(
        Property(
            "A number of bytes is an integer, and this is not: is it in GiB, "
            "or in GB?",
            lambda _case, out: out == int(out),
        ),
        Property(
            "Each of the five sizes is a factor of the result, and here one "
            "does not divide it: did you multiply by each of them, and "
            "divide by none?",
            _each_is_a_factor,
        ),
    ),
    breaks={
        "H = 1": lambda c: len({*c.args[:5]}) == len(c.args[:5]) == 5,
    },
)


def _right(style: str) -> Callable:
    """Record ``formula(B, S, layers, Hkv, D, dtype)``."""

    def record(formula: Callable) -> Callable:
        def kv_cache_bytes(*args, **kwargs):
            given = _arguments(args, kwargs)
            return formula(*(given[name] for name in (*NAMES, "dtype")))

        return exercise.equivalent(style)(kv_cache_bytes)

    return record


@_right("keys, then values")
def _keys_and_values(B, S, layers, Hkv, D, dtype):
    keys = values = B * Hkv * S * D * dtype.itemsize
    return layers * (keys + values)


@_right("math.prod")
def _prod(B, S, layers, Hkv, D, dtype):
    return math.prod((dtype.itemsize, D, Hkv, layers, S, B, 2))


@_right("bits, then a division: a float without a fraction")
def _float(B, S, layers, Hkv, D, dtype):
    return 2 * B * S * layers * Hkv * D * (8 * dtype.itemsize) / 8


@_right("a tensor without axes")
def _tensor(B, S, layers, Hkv, D, dtype):
    return torch.tensor([2, B, S, layers, Hkv, D, dtype.itemsize]).prod()


@_right("layer by layer")
def _layers(B, S, layers, Hkv, D, dtype):
    total = 0
    for _ in range(layers):
        for _ in ("keys", "values"):
            total += B * S * Hkv * D * dtype.itemsize
    return total


@_right("the bytes of a tensor without memory")
def _meta(B, S, layers, Hkv, D, dtype):
    shape = (layers, 2, B, Hkv, S, D)
    return torch.empty(shape, dtype=dtype, device="meta").nbytes


@_right("the element size of an empty tensor")
def _element_size(B, S, layers, Hkv, D, dtype):
    size = torch.empty(0, dtype=dtype).element_size()
    return size * 2 * layers * B * S * Hkv * D


@_right("finfo or iinfo")
def _info(B, S, layers, Hkv, D, dtype):
    info = torch.finfo if dtype.is_floating_point else torch.iinfo
    return B * S * layers * (Hkv * D + Hkv * D) * (info(dtype).bits // 8)
