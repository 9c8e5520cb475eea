"""Cases and properties of ``gqa-kv_cache_bytes``."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Generator

from attn import cost
from attn.exercises.draw import between
from attn.exercises.spec import Case, Exercise, Property

NAMES = ("batch", "seq_len", "num_layers", "num_kv_heads", "head_dim")


def _cases(g: Generator) -> Iterator[Case]:
    def pick(*choices: int) -> int:
        return choices[between(g, 0, len(choices) - 1)]

    def small() -> tuple[int, ...]:
        """Draw five different sizes above 1."""
        order = torch.randperm(5, generator=g).tolist()
        return tuple((3, 5, 7, 11, 13)[i] for i in order)

    when = "every size is 1: one key and one value, of one element each"
    yield Case(when, (1, 1, 1, 1, 1, torch.bfloat16))

    when = "the text is longer, and every other size is 1"
    yield Case(when, (1, between(g, 3, 9), 1, 1, 1, torch.bfloat16))

    when = "the five sizes differ"
    for _ in range(3):
        yield Case(when, (*small(), torch.bfloat16))

    when = "dtype is not given, so it is bfloat16"
    yield Case(when, small())

    when = "the elements are float32"
    yield Case(when, (*small(), torch.float32))

    when = "the elements have other floating dtypes"
    for dtype in (torch.float16, torch.float64, torch.float8_e4m3fn):
        yield Case(when, (*small(), dtype))

    when = "the cache is quantised to int8"
    yield Case(when, (*small(), torch.int8))

    when = "the arguments are given by name"
    given = dict(zip(NAMES, small(), strict=True))
    yield Case(when, (), {**given, "dtype": torch.float16})
    yield Case(when, (), given)

    when = "the model is large"
    yield Case(when, (pick(16, 32, 64), 8192, 80, 8, 128))  # Llama 3 70B
    yield Case(when, (pick(3, 7, 9), pick(100_003, 131_071), 126, 8, 128))
    sizes = between(g, 101, 999), pick(1_000_003, 1_000_033), 127, 17, 129
    yield Case(when, (*sizes, torch.float32))


def _arguments(args: tuple, kwargs: Any) -> dict[str, Any]:
    given = dict(zip((*NAMES, "dtype"), args, strict=False))
    return {"dtype": torch.bfloat16, **given, **kwargs}


def _each_is_a_factor(case: Case, out: Any) -> bool:
    given = _arguments(case.args, case.kwargs)
    return all(out % given[name] == 0 for name in NAMES)


def _is_whole(_case: Case, out: Any) -> bool:
    return out == int(out)


exercise = Exercise(
    id="gqa-kv_cache_bytes",
    points=1,
    reference=cost.kv_cache_bytes,
    cases=_cases,
    properties=(
        Property(
            "A number of bytes is an integer, and this is not: is it in GiB, "
            "or in GB?",
            _is_whole,
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
