"""Cases and properties of ``gqa-kv_cache_bytes``."""

from collections.abc import Iterator
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
        "the cache is quantised to int8": [torch.int8, torch.uint8],
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
