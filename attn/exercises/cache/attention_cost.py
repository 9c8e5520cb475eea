"""Cases and properties of ``cache-attention_cost``."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from attn import cost
from attn.exercises.draw import Draw, entries
from attn.exercises.spec import Case, Exercise, Property

SIZES = "batch", "q_len", "kv_len", "num_heads", "num_kv_heads", "head_dim"
NAMES = (*SIZES, "peak", "bandwidth", "dtype", "is_causal")


def attention_cost(
    batch: int,
    q_len: int,
    kv_len: int,
    num_heads: int,
    num_kv_heads: int,
    head_dim: int,
    peak: float,
    bandwidth: float,
    dtype: torch.dtype = torch.bfloat16,
    is_causal: bool = False,
) -> tuple[int, int, float, float]:
    """Divide the operations by the rate that the roofline allows."""
    sizes = batch, q_len, kv_len, num_heads, num_kv_heads, head_dim
    found = cost.attention_cost(*sizes, dtype, is_causal=is_causal)
    rate = cost.roofline(found.intensity, peak, bandwidth)
    return *found, found.intensity, found.flops / rate


def _cases(g: Draw) -> Iterator[Case]:
    def machine(flops_a_byte: float) -> tuple[float, float]:
        """Draw peak and bandwidth of a machine with this ratio."""
        bandwidth = 1e9 * g.between(11, 97)
        return flops_a_byte * bandwidth, bandwidth

    def slow_memory() -> tuple[float, float]:
        return machine(1e3 * g.between(3, 9))

    def slow_arithmetic() -> tuple[float, float]:
        return machine(g.between(3, 9) / 1e3)

    def sizes(q_len: int, kv_len: int, groups: int = 2) -> tuple[int, ...]:
        """Draw B, Hkv and D, all of them different."""
        odd = [(3, 7, 11, 13)[i] for i in torch.randperm(4, generator=g)]
        B, Hkv, D, _ = odd
        return B, q_len, kv_len, Hkv * groups, Hkv, D

    n, full, causal = (
        g.between(17, 40),
        (torch.bfloat16, False),
        (torch.bfloat16, True),
    )
    table = {  # the sizes, and dtype and is_causal
        "there is one query and one key, and every other size is 1": [
            (1, 1, 1, 1, 1, 1, *full)
        ],
        "one query meets many keys: decoding": [(1, 1, n, 1, 1, 4, *full)],
        "query heads share key heads": [(1, 1, 40, 6, 2, 5, *full)],
        "there is a batch": [sizes(1, n + 20, 3)],
        "there are as many queries as keys: prefill, without a mask": [
            (*sizes(n, n), *full)
        ],
        "prefill is causal": [(*sizes(n, n, 4), *causal)],
        "one query is causal: it sees every key": [(*sizes(1, 19), *causal)],
        "a chunk of queries meets a cache, causal": [
            (*sizes(g.between(6, 9), 31), *causal),
            (1, 7, 29, 6, 3, 5, *causal),
        ],
        "queries and keys differ in number: cross-attention": [
            (*sizes(8, 21), *full)
        ],
        "dtype and is_causal are not given: bfloat16, and no mask": [
            sizes(9, 9)
        ],
        "the elements are of another dtype": [
            (*sizes(4, 29), torch.float32, True),
            (*sizes(4, 29), torch.float8_e4m3fn, True),
            (*sizes(4, 29), torch.float64, False),
        ],
    }

    for when, args in entries(table):
        yield Case(when, (*args[:6], *slow_memory(), *args[6:]))

    when = "the arithmetic is slow, and bounds the time"
    yield Case(when, (*sizes(12, 12), *slow_arithmetic(), *full))
    yield Case(when, (*sizes(1, 50), *slow_arithmetic(), *causal))

    when = "one machine reads a prompt, then adds a token"
    one = machine(90)
    model = 4, 2048, 2048, 32, 8, 128
    yield Case(when, (*model, *one, *causal))
    yield Case(when, (4, 1, *model[2:], *one, *causal))

    when = "the arguments are given by name"
    values = (*sizes(3, 17), *slow_memory(), torch.float16, True)
    yield Case(when, (), dict(zip(NAMES, values, strict=True)))

    when = "the model is large"
    big = g.between(31, 63), 32_771, 131_071, 128, 8, 128
    yield Case(when, (*big, *machine(295), *causal))
    yield Case(when, (*big, *machine(295), *full))
    # Sizes at which a mean number of keys rounds to another count.
    odd = 13, 20_011, 60_001, 77, 11, 119
    yield Case(when, (*odd, *machine(295), *causal))


def _arguments(args: tuple, kwargs: Any) -> dict[str, Any]:
    given = dict(zip(NAMES, args, strict=False))
    defaults = {"dtype": torch.bfloat16, "is_causal": False}
    return {**defaults, **given, **kwargs}


def _claim(says: str) -> Callable[[Callable], Property]:
    """Make a property of ``holds(arguments, *output)``."""

    def of(holds: Callable[..., bool]) -> Property:
        def four(case: Case, out: Any) -> bool:
            if not isinstance(out, tuple | list) or len(out) != 4:
                return True
            return holds(_arguments(case.args, case.kwargs), *out)

        return Property(says, four)

    return of


@_claim(
    "The third result should be the first divided by the second: how many "
    "FLOPs are there for each byte?"
)
def _is_a_ratio(_given, flops, moved, intensity, _seconds):
    return math.isclose(intensity * moved, flops, rel_tol=1e-3)


@_claim(
    "Neither arithmetic nor memory can be done in the time that you give: "
    "it should be the longer of two times."
)
def _takes_as_long(given, flops, moved, _intensity, seconds):
    times = flops / given["peak"], moved / given["bandwidth"]
    return seconds >= max(times) * (1 - 1e-3)


@_claim(
    "Two sequences cost twice as much as one, in FLOPs and in bytes, and "
    "here the batch does not divide both."
)
def _by_the_batch(given, flops, moved, _intensity, _seconds):
    return flops % given["batch"] == moved % given["batch"] == 0


def _of(case: Case, name: str) -> Any:
    return _arguments(case.args, case.kwargs)[name]


exercise = Exercise(
    id="cache-attention_cost",
    points=2,
    reference=attention_cost,
    cases=_cases,
    returns=(
        "the number of FLOPs",
        "the number of bytes",
        "intensity",
        "the time",
    ),
    properties=(_is_a_ratio, _by_the_batch, _takes_as_long),
    breaks={
        "S = 1": lambda c: _of(c, "kv_len") > 1,
        "H = 1": lambda c: _of(c, "num_heads") > _of(c, "num_kv_heads") > 1,
        "L = S": lambda c: 1 < _of(c, "q_len") < _of(c, "kv_len"),
    },
)
