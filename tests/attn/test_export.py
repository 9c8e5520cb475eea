"""Calls recorded at one size and run at others: torch.export and trace."""

import itertools
from functools import partial

import pytest
import torch
import torch._dynamo.testing

import attn
from attn import attention, causal, documents, padding, prefix, sliding_window
from tests.attn.models import small_llama
from tests.attn.public_calls import With
from tests.marks import exhaustive_but

#: Masks of a call, from data ``(B, S)`` of any batch and length. What depends
#: on data must not fix the number of rows either.
MASKS = {
    "no mask": lambda x: {},
    "is_causal": lambda x: {"is_causal": True},
    "booleans": lambda x: {"attn_mask": x[:, None, None] > -1},
    "numbers": lambda x: {"attn_mask": x[:, None, None]},
    "padding": lambda x: {"attn_mask": padding(x > -1)},
    "documents": lambda x: {"attn_mask": documents((x > 0).long())},
    "a mask": lambda x: {"attn_mask": causal() | prefix(2)},
}
OTHERS = {
    "a window": lambda x: {"attn_mask": sliding_window(2), "window": (3, 1)},
    "a prefix for each row": lambda x: {"attn_mask": prefix((x > 0).sum(1))},
    "q_offset of each row": lambda x: {
        "is_causal": True,
        "q_offset": (x > 0).sum(1),
    },
    "q_offset": lambda x: {"is_causal": True, "q_offset": 3},
    "softcap": lambda x: {"is_causal": True, "softcap": 3.0},
    "reference": lambda x: {"attn_mask": causal(), "impl": "reference"},
}


def call_of(options):
    return lambda q, k: attention(
        q, k, k, enable_gqa=True, **options(k[:, 0, :, 0])
    )


CALLS = {name: call_of(x) for name, x in (MASKS | OTHERS).items()} | {
    "five axes": lambda q, k: attention(
        q[:, None], k[:, None], k[:, None], causal(), enable_gqa=True
    ),
    "weights": lambda q, k: (
        attn.attention_weights(q, k, is_causal=True, enable_gqa=True).weights
    ),
}


def as_module(function):
    """Return what torch.export needs."""
    return With(None, lambda _, *tensors: function(*tensors))


def padded(model, x):
    """Find the padding of a model in its input."""
    return model(x[..., 0].gt(0).long(), attention_mask=x[..., 1] > -1)


def heads(batch, length):
    """Query and key."""
    query = torch.randn(batch, 4, length, 8)
    return query, torch.randn(batch, 2, length, 8)


def tokens(batch, length):
    """The input of a module."""
    return (torch.randn(batch, length, 16),)


MODULES = {
    "multi-query": lambda: attn.MultiHeadAttention(16, 4, 1, is_causal=True),
    "ALiBi": lambda: attn.MultiHeadAttention(16, 4, alibi=True),
    "RoPE and a window": lambda: attn.MultiHeadAttention(
        16, 4, rope=attn.Rope(4), window=(2, 0)
    ),
    "a padded model": lambda: With(small_llama(num_layers=1), padded),
}
CASES = {
    **{name: (partial(as_module, f), heads) for name, f in CALLS.items()},
    **{name: (build, tokens) for name, build in MODULES.items()},
}


@pytest.mark.grid
@pytest.mark.parametrize("name", CASES)
def test_an_exported_call_takes_another_batch_and_length(name):
    build, inputs = CASES[name]
    shapes = [{1: LENGTH}] if inputs is tokens else [{2: LENGTH}] * 2
    exports(build().eval(), inputs, shapes)


#: Every fifth of all combinations: each two choices meet.
OPTIONS = [
    *itertools.product(
        (4, 2, 1),
        ({}, {"softcap": 3.0}, {"sinks": torch.linspace(-1, 1, 4)}),
        MASKS,
        ({}, {"window": (3, 0)}),
        ({"q_offset": 0}, {"q_offset": 0, "return_lse": True}),
    )
][::5]


@pytest.mark.parametrize(
    "options", exhaustive_but(OPTIONS[20::17], OPTIONS), ids=str
)
def test_an_exported_call_takes_any_batch_and_lengths(options):
    """Grouped heads, softcap, sinks, masks, windows: in any pair."""
    kv_heads, numbers, kind, near, others = options

    def call(q, k, x):
        given = {**numbers, **near, **others, **MASKS[kind](x)}
        return attention(q, k, k, enable_gqa=True, **given)

    def inputs(batch, length):
        keys = length if kind == "documents" else 49 - length
        key = torch.randn(batch, kv_heads, keys, 8)
        return torch.randn(batch, 4, length, 8), key, torch.randn(batch, keys)

    keys = LENGTH if kind == "documents" else torch.export.Dim("S", min=2)
    exports(as_module(call), inputs, ({2: LENGTH}, {2: keys}, {1: keys}))


traced = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning"
)
BATCH, LENGTH = (torch.export.Dim(x, min=2, max=64) for x in ("B", "L"))


def exports(module, inputs, shapes):
    """Compare what was exported with the module, at other sizes."""
    shapes = [{0: BATCH, **shape} for shape in shapes]
    example = inputs(2, 9)
    if isinstance(module, With):
        shapes = (tuple(shapes),)
    program = torch.export.export(module, example, dynamic_shapes=shapes)
    for sizes in ((2, 9), (3, 5), (5, 40)):
        other = inputs(*sizes)
        torch.testing.assert_close(program.module()(*other), module(*other))


def stateful(layer, x, state):
    """Call a layer whose state comes in and goes out."""
    cache = attn.StateCache()
    cache.update(state)
    return layer(x, cache=cache), cache.state


STATEFUL = [
    partial(layer, 16, 2, mode=mode)
    for layer in (attn.nn.GatedDeltaNet, attn.nn.LinearAttention)
    for mode in ("chunk", "recurrent", "parallel")
]


@pytest.mark.parametrize("build", exhaustive_but(STATEFUL[:1], STATEFUL))
def test_a_state_layer_exports_and_compiles_for_any_length(build):
    layer = build().eval()
    exports(layer, tokens, [{1: LENGTH}])
    counter = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(layer, fullgraph=True, backend=counter)
    for length in range(2, 98, 8):
        (x,) = tokens(2, length)
        torch.testing.assert_close(compiled(x), layer(x))
    assert counter.frame_count <= 2
    if build.func is attn.nn.LinearAttention:

        def inputs(batch, length):
            return *tokens(batch, length), torch.randn(batch, 2, 8, 9)

        exports(With(layer, stateful), inputs, [{1: LENGTH}, {}])


@pytest.mark.parametrize("name", [x for x in MODULES if "model" not in x])
def test_an_exported_batch_may_be_known_only_at_run_time(name):
    """As many rows as a tensor says."""
    module = With(MODULES[name](), lambda layer, x, keep: layer(x[keep]))
    module, (x,) = module.eval(), tokens(4, 6)
    example = x, torch.tensor([True, False, True, True])
    program = torch.export.export(module, example, strict=False)
    for few in (example[1], x[:, 0, 0] < 9, torch.arange(4) == 1):
        torch.testing.assert_close(program.module()(x, few), module(x, few))


@traced
@pytest.mark.parametrize(
    ("options", "length", "other"),
    [
        # Each of few queries sees all of few keys: no mask, but only here.
        ({"is_causal": True, "q_offset": 3}, 4, 9),
        # Bands of a long sequence, each of them a step of the recording.
        ({"window": (64, 0), "q_offset": 0}, 1024, 1500),
    ],
)
def test_a_trace_forgets_what_held_for_its_example(options, length, other):
    module = as_module(
        lambda q, k: attention(q, k, k, enable_gqa=True, **options)
    )
    traced = torch.jit.trace(module, heads(1, length))
    inputs = heads(1, other)
    torch.testing.assert_close(traced(*inputs), module(*inputs))


@pytest.mark.parametrize("name", CASES)
@traced
def test_a_traced_call_takes_other_sizes(name):
    build, inputs = CASES[name]
    module = build().eval()
    traced = torch.jit.trace(module, inputs(2, 6))
    for sizes in ((2, 6), (5, 9)):
        other = inputs(*sizes)
        torch.testing.assert_close(traced(*other), module(*other))


@traced
def test_tiles_are_refused_in_a_trace():
    tiled = as_module(lambda q, k: attention(q, k, k, impl="tiled"))
    with pytest.raises(ValueError, match=r"tiled cannot: torch\.jit\.trace"):
        torch.jit.trace(tiled, (torch.randn(1, 2, 3, 4),) * 2)
