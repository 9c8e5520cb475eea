"""Exercise ``gqa-kv_cache_bytes``: what a cache costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Generator

from attn import cost
from attn.exercises.draw import between
from attn.exercises.spec import Case, Exercise, Property

NAMES = ("batch", "seq_len", "num_layers", "num_kv_heads", "head_dim")


def kv_cache_bytes(
    batch: int,
    seq_len: int,
    num_layers: int,
    num_kv_heads: int,
    head_dim: int,
    dtype: torch.dtype = torch.bfloat16,
) -> int:
    """The reference, with the task's own arguments."""
    sizes = (batch, seq_len, num_layers, num_kv_heads, head_dim)
    return cost.kv_cache_bytes(*sizes, dtype)


def _cases(g: Generator) -> Iterator[Case]:
    def pick(*choices: int) -> int:
        return choices[between(g, 0, len(choices) - 1)]

    def small() -> tuple[int, ...]:
        """Five different sizes above 1."""
        order = torch.randperm(5, generator=g).tolist()
        return tuple((3, 5, 7, 11, 13)[i] for i in order)

    stage = "every size is 1: one key and one value, of one number each"
    yield Case(stage, (1, 1, 1, 1, 1, torch.bfloat16))

    stage = "the text is longer, and all else is 1"
    yield Case(stage, (1, between(g, 3, 9), 1, 1, 1, torch.bfloat16))

    stage = "every size is another number"
    for _ in range(3):
        yield Case(stage, (*small(), torch.bfloat16))

    stage = "dtype is not given, so it is bfloat16"
    yield Case(stage, small())

    stage = "the numbers are float32"
    yield Case(stage, (*small(), torch.float32))

    stage = "the numbers are of other floating dtypes"
    for dtype in (torch.float16, torch.float64, torch.float8_e4m3fn):
        yield Case(stage, (*small(), dtype))

    stage = "the cache is quantised to int8"
    yield Case(stage, (*small(), torch.int8))

    stage = "the arguments are given by name"
    given = dict(zip(NAMES, small(), strict=True))
    yield Case(stage, (), {**given, "dtype": torch.float16})
    yield Case(stage, (), given)

    stage = "the model is large"
    yield Case(stage, (pick(16, 32, 64), 8192, 80, 8, 128))  # Llama 3 70B
    yield Case(stage, (pick(3, 7, 9), pick(100_003, 131_071), 126, 8, 128))
    sizes = between(g, 101, 999), pick(1_000_003, 1_000_033), 127, 17, 129
    yield Case(stage, (*sizes, torch.float32))


def _arguments(case: Case) -> dict[str, Any]:
    given = dict(zip((*NAMES, "dtype"), case.args, strict=False))
    return {"dtype": torch.bfloat16, **given, **case.kwargs}


def _each_is_a_factor(case: Case, out: Any) -> bool:
    given = _arguments(case)
    return all(out % given[name] == 0 for name in NAMES)


def _is_whole(_case: Case, out: Any) -> bool:
    return out == int(out)


exercise = Exercise(
    id="gqa-kv_cache_bytes",
    points=1,
    reference=kv_cache_bytes,
    cases=_cases,
    hints=(
        "Count numbers first: what does one layer keep for one token and "
        "one key/value head? Two vectors. How long are they?",
        "Then every token of every sequence has that, in every layer, for "
        "every key/value head: five sizes are multiplied, and 2 for keys "
        "and values. Query heads do not appear.",
        "A number takes dtype.itemsize bytes: 4 in float32, 2 in bfloat16, "
        "1 in int8. Multiply whole numbers and return their product; who "
        "wants GiB divides by 2 ** 30.",
    ),
    properties=(
        Property(
            "A number of bytes is whole, and this is not: is it in GiB, or "
            "in GB?",
            _is_whole,
        ),
        Property(
            "Each of the five sizes is a factor of the result, and here one "
            "does not divide it: was each of them multiplied, and none "
            "divided?",
            _each_is_a_factor,
        ),
    ),
)

Formula = Callable[[int, int, int, int, int, int], Any]


def _from(formula: Formula) -> Callable[..., Any]:
    """A function of the task from ``formula(B, S, layers, Hkv, D, bytes)``."""

    def kv_cache_bytes(
        batch,
        seq_len,
        num_layers,
        num_kv_heads,
        head_dim,
        dtype=torch.bfloat16,
    ):
        sizes = (batch, seq_len, num_layers, num_kv_heads, head_dim)
        return formula(*sizes, dtype.itemsize)

    kv_cache_bytes.__doc__ = formula.__doc__
    return kv_cache_bytes


def _wrong(name: str, *, exposed_by: str) -> Callable[[Formula], Any]:
    """Record a wrong formula; its docstring is the explanation."""
    return lambda formula: exercise.misconception(name, exposed_by=exposed_by)(
        _from(formula)
    )


def _right(style: str) -> Callable[[Formula], Any]:
    return lambda formula: exercise.equivalent(style)(_from(formula))


@_wrong("only the keys, or only the values", exposed_by="all sizes 1")
def no_two(B, S, layers, Hkv, D, size):  # noqa: N803
    """The factor 2 is missing: a cache keeps a key and a value for each
    token. Your machine would be half as large as it has to be. What are K
    and V in "KV cache"?"""
    return B * S * layers * Hkv * D * size


@_wrong("keys and values are counted twice", exposed_by="all sizes 1")
def four(B, S, layers, Hkv, D, size):  # noqa: N803
    """There is a factor of 4 where 2 belongs: 2 for keys and values, and
    another 2 that may stand for the bytes of a bfloat16. Those are
    dtype.itemsize already. Can you say what each of your factors
    stands for?"""
    return 4 * B * S * layers * Hkv * D * size


@_wrong("numbers are counted, not their bytes", exposed_by="all sizes 1")
def numbers(B, S, layers, Hkv, D, size):  # noqa: N803
    """2 * B * S * layers * Hkv * D are the numbers of keys and values. (If
    your 2 stands for the bytes, it is keys and values that are missing,
    and dtype.) How many bytes does one of them take?"""
    return 2 * B * S * layers * Hkv * D


@_wrong("bits, not bytes", exposed_by="all sizes 1")
def bits(B, S, layers, Hkv, D, size):  # noqa: N803
    """torch.finfo(dtype).bits counts bits: the result is 8 times too
    large. Which attribute of a dtype counts bytes?"""
    return 2 * B * S * layers * Hkv * D * size * 8


@_wrong("every number takes 2 bytes", exposed_by="dtype=torch.float32")
def always_two(B, S, layers, Hkv, D, size):  # noqa: N803
    """dtype is ignored: a cache in float32 is twice, and one in int8 half,
    as large as you say. Where does your code read dtype?"""
    return 2 * B * S * layers * Hkv * D * 2


@_wrong("every number takes 4 bytes", exposed_by="all sizes 1, bfloat16")
def always_four(B, S, layers, Hkv, D, size):  # noqa: N803
    """dtype is ignored, and float32 assumed. Models are served in bfloat16
    or less. Where does your code read dtype?"""
    return 2 * B * S * layers * Hkv * D * 4


@_wrong("the batch is left out", exposed_by="batch above 1")
def no_batch(B, S, layers, Hkv, D, size):  # noqa: N803
    """This is one sequence. Every sequence has keys and values of its own:
    that is why a server can hold only so many conversations. What happens
    to the cache when twice as many people write?"""
    return 2 * S * layers * Hkv * D * size


@_wrong("one layer only", exposed_by="num_layers above 1")
def no_layers(B, S, layers, Hkv, D, size):  # noqa: N803
    """Each layer makes keys and values from its own input, and keeps its
    own. A model has dozens of layers: can they share a cache?"""
    return 2 * B * S * Hkv * D * size


@_wrong("one token only", exposed_by="seq_len above 1")
def no_tokens(B, S, layers, Hkv, D, size):  # noqa: N803
    """This is what each new token adds. The cache keeps them all, from the
    first one on: that is what it is for. How does it grow with the
    text?"""
    return 2 * B * layers * Hkv * D * size


@_wrong("one head only", exposed_by="num_kv_heads above 1")
def no_heads(B, S, layers, Hkv, D, size):  # noqa: N803
    """num_kv_heads is left out (or head_dim is divided by it): head_dim is
    the width of one head, and there are Hkv of them. This is the cache of
    multi-query attention. What does GQA keep?"""
    return 2 * B * S * layers * D * size


@_wrong("one number for each head", exposed_by="head_dim above 1")
def no_width(B, S, layers, Hkv, D, size):  # noqa: N803
    """head_dim is left out: a key is a vector of D numbers. What has to be
    there for a dot product with a query?"""
    return 2 * B * S * layers * Hkv * size


@_wrong("head_dim squared", exposed_by="head_dim above 1")
def width_squared(B, S, layers, Hkv, D, size):  # noqa: N803
    """D * D is the size of a matrix of weights, or of a product. What is
    kept for one token and one head is a vector: how many numbers has
    it?"""
    return 2 * B * S * layers * Hkv * D * D * size


@_wrong("seq_len squared", exposed_by="seq_len above 1")
def scores_too(B, S, layers, Hkv, D, size):  # noqa: N803
    """S * S is the number of scores of a prompt, and they are not kept. What
    is kept for each token does not depend on how many others there are.
    How does the cache grow when one token is added?"""
    return 2 * B * S * S * layers * Hkv * D * size


@_wrong("heads squared", exposed_by="num_kv_heads above 1")
def heads_squared(B, S, layers, Hkv, D, size):  # noqa: N803
    """num_kv_heads is multiplied twice: once by itself, and once hidden in
    a width that you took for head_dim times heads. D is the width of one
    head. How many numbers do all keys of one token have?"""
    return 2 * B * S * layers * Hkv * Hkv * D * size


@_wrong("KiB, not bytes", exposed_by="all sizes 1: less than 1")
def in_kib(B, S, layers, Hkv, D, size):  # noqa: N803
    """The result is divided by 1024. The task asks for bytes, an int, so
    that nothing is rounded; the reader can divide. What should come out
    when all sizes are 1?"""
    return 2 * B * S * layers * Hkv * D * size / 2**10


@_wrong("MiB, not bytes", exposed_by="all sizes 1: less than 1")
def in_mib(B, S, layers, Hkv, D, size):  # noqa: N803
    """The result is divided by 2 ** 20. The task asks for bytes, an int, so
    that nothing is rounded; the reader can divide. What should come out
    when all sizes are 1?"""
    return 2 * B * S * layers * Hkv * D * size / 2**20


@_wrong("GiB, not bytes", exposed_by="all sizes 1: less than 1")
def in_gib(B, S, layers, Hkv, D, size):  # noqa: N803
    """The result is divided by 2 ** 30. The task asks for bytes, an int, so
    that nothing is rounded; the reader can divide. What should come out
    when all sizes are 1?"""
    return 2 * B * S * layers * Hkv * D * size / 2**30


@_wrong("GB, not bytes", exposed_by="all sizes 1: less than 1")
def in_gb(B, S, layers, Hkv, D, size):  # noqa: N803
    """The result is divided by 10 ** 9. The task asks for bytes, an int, so
    that nothing is rounded; the reader can divide. What should come out
    when all sizes are 1?"""
    return 2 * B * S * layers * Hkv * D * size / 1e9


@_wrong("whole GiB, so 0 for a small cache", exposed_by="all sizes 1")
def whole_gib(B, S, layers, Hkv, D, size):  # noqa: N803
    """The result is divided by 2 ** 30 and rounded down: 0 for every small
    model. The task asks for bytes. Who should round, and when?"""
    return 2 * B * S * layers * Hkv * D * size // 2**30


@_wrong("multiplied in float32", exposed_by="a large model")
def in_float32(B, S, layers, Hkv, D, size):  # noqa: N803
    """A float32 has 24 bits: above 16 million it cannot hold every whole
    number, and the last digits of the result are wrong. Python's own ints
    are exact, however large. Where does a float come in?"""
    sizes = torch.tensor([2.0, B, S, layers, Hkv, D, size])
    return int(sizes.prod().item())


@exercise.misconception(
    "int8 has no finfo", exposed_by="a cache in int8, as quantised ones are"
)
def floats_only(
    batch,
    seq_len,
    num_layers,
    num_kv_heads,
    head_dim,
    dtype=torch.bfloat16,
):
    """torch.finfo knows floating dtypes only, and torch.iinfo the others.
    Quantised caches are int8. Which attribute does every dtype have?"""
    numbers = 2 * batch * seq_len * num_layers * num_kv_heads * head_dim
    return numbers * torch.finfo(dtype).bits // 8


@exercise.misconception(
    "the size of a number is read from the dtype's name",
    exposed_by="float8_e4m3fn",
)
def from_name(
    batch,
    seq_len,
    num_layers,
    num_kv_heads,
    head_dim,
    dtype=torch.bfloat16,
):
    """The digits of "bfloat16" are its bits, by luck: "float8_e4m3fn" has
    the digits 8, 4 and 3. A name is for people. Which attribute of a
    dtype says its size?"""
    numbers = 2 * batch * seq_len * num_layers * num_kv_heads * head_dim
    digits = "".join(c for c in str(dtype) if c.isdigit())
    return numbers * int(digits) // 8


@_right("keys, then values")
def _keys_and_values(B, S, layers, Hkv, D, size):  # noqa: N803
    keys = values = B * Hkv * S * D * size
    return layers * (keys + values)


@_right("math.prod")
def _prod(B, S, layers, Hkv, D, size):  # noqa: N803
    return math.prod((size, D, Hkv, layers, S, B, 2))


@_right("bits, then a division: a float without a fraction")
def _float(B, S, layers, Hkv, D, size):  # noqa: N803
    return 2 * B * S * layers * Hkv * D * (8 * size) / 8


@_right("a tensor without axes")
def _tensor(B, S, layers, Hkv, D, size):  # noqa: N803
    return torch.tensor([2, B, S, layers, Hkv, D, size]).prod()


@_right("layer by layer")
def _layers(B, S, layers, Hkv, D, size):  # noqa: N803
    total = 0
    for _ in range(layers):
        for _ in ("keys", "values"):
            total += B * S * Hkv * D * size
    return total


@exercise.equivalent("asked of a tensor that has no memory")
def _meta(
    batch,
    seq_len,
    num_layers,
    num_kv_heads,
    head_dim,
    dtype=torch.bfloat16,
):
    shape = (num_layers, 2, batch, num_kv_heads, seq_len, head_dim)
    return torch.empty(shape, dtype=dtype, device="meta").nbytes


@exercise.equivalent("the size asked of an empty tensor")
def _element_size(
    batch,
    seq_len,
    num_layers,
    num_kv_heads,
    head_dim,
    dtype=torch.bfloat16,
):
    size = torch.empty(0, dtype=dtype).element_size()
    return size * 2 * num_layers * batch * seq_len * num_kv_heads * head_dim


@exercise.equivalent("finfo or iinfo")
def _info(batch, seq_len, num_layers, num_kv_heads, head_dim, dtype=None):
    dtype = dtype or torch.bfloat16
    info = torch.finfo if dtype.is_floating_point else torch.iinfo
    width = num_kv_heads * head_dim
    numbers = batch * seq_len * num_layers * (width + width)
    return numbers * (info(dtype).bits // 8)
