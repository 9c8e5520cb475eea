"""An argument of a wrong kind is a TypeError, a wrong value a ValueError."""

import numpy as np
import pytest
import torch

import attn
from attn import arguments

KINDS = {
    "x must be a torch.Tensor; got list": lambda: arguments.tensor("x", [1]),
    "x must be a float tensor; got torch.int64": lambda: arguments.tensor(
        "x", torch.ones(1, dtype=torch.int64), floating=True
    ),
    "x must be real; got torch.complex64": lambda: arguments.real(
        "x", torch.ones(1, dtype=torch.complex64)
    ),
    "x must be an int; got True": lambda: arguments.integer("x", True),
    "x must be an int, at least 1; got 2.0": lambda: arguments.count("x", 2.0),
    "x must be a finite number; got '1'": lambda: arguments.number("x", "1"),
    "x must be a finite number; got None": lambda: arguments.positive(
        "x", None
    ),
}
VALUES = {
    "x must be an int, at least 1; got 0": lambda: arguments.count("x", 0),
    "x must be an int, at least 0; got -1": lambda: arguments.count(
        "x", np.int64(-1), 0
    ),
    "x must be a finite number; got nan": lambda: arguments.number(
        "x", float("nan")
    ),
    "x must be a finite number, at least 0; got -0.5": (
        lambda: arguments.number("x", -0.5, 0)
    ),
    "x must be positive; got 0": lambda: arguments.positive("x", 0),
    "x must be on the device of y, cpu; got meta": (
        lambda: arguments.same_device(
            "x", torch.ones(1, device="meta"), "y", torch.ones(1)
        )
    ),
}


@pytest.mark.parametrize("message", KINDS)
def test_a_wrong_kind_is_a_type_error(message):
    with pytest.raises(TypeError) as error:
        KINDS[message]()
    assert str(error.value) == message


@pytest.mark.parametrize("message", VALUES)
def test_a_wrong_value_is_a_value_error(message):
    with pytest.raises(ValueError) as error:
        VALUES[message]()
    assert str(error.value).replace("np.int64(-1)", "-1") == message


def test_a_size_that_is_traced_is_a_count():
    """Its sizes are tensors in torch.jit, and symbols in torch.export."""

    class Layer(torch.nn.Module):
        def forward(self, x):
            arguments.count("length", x.shape[0])
            arguments.integer("length", x.shape[0])
            return x + x.shape[0]

    x = torch.zeros(3)
    traced = torch.jit.trace(Layer(), x)
    assert torch.equal(traced(torch.zeros(5)), torch.full((5,), 5.0))
    lengths = {"x": {0: torch.export.Dim.DYNAMIC}}
    program = torch.export.export(Layer(), (x,), dynamic_shapes=lengths)
    assert torch.equal(program.module()(torch.zeros(5)), torch.full((5,), 5.0))


@pytest.mark.parametrize("dynamic", [False, True])
def test_checks_break_no_graph(dynamic):
    def call(x):
        length, width = x.shape[-2:]
        mask = attn.sliding_window(3).dense(length)
        y = attn.repeat_kv(x, 2) + attn.sinusoidal(length, width)
        return attn.attention(y, y, y, mask, window=(2, 0), scale=0.5)

    options = {"fullgraph": True, "backend": "eager", "dynamic": dynamic}
    compiled = torch.compile(call, **options)
    for length in (5, 7):
        x = torch.randn(1, 2, length, 8)
        torch.testing.assert_close(compiled(x), call(x))


def test_numbers_of_numpy_are_numbers():
    """Sizes come from arrays, and from what a grid search draws."""
    two, four, eight = np.array([2, 4, 8])
    x = torch.randn(1, eight, 6, four)
    for make in (
        lambda n: attn.sliding_window(n).dense(6),
        lambda n: attn.causal().shift(q=n).dense(3, 6),
        lambda n: attn.alibi_slopes(n),
        lambda n: attn.repeat_kv(x, n),
        lambda n: attn.rope_frequencies(n)[0],
        lambda n: attn.sinusoidal(n, 4),
        lambda n: attn.attention(x, x, x, window=(n, 0), scale=1 / n),
        lambda n: attn.tiled_attention(x, x, x, block_q=n, block_k=n),
        lambda n: attn.nn.MultiHeadAttention(8, n).q_proj.weight[:0],
        lambda n: attn.StaticCache(1, n, n, n).capacity,
    ):
        given, plain = make(two), make(2)
        if isinstance(given, torch.Tensor):
            assert torch.equal(given, plain)
        else:
            assert given == plain
