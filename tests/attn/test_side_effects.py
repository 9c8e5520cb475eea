"""What a call leaves alone, what dropout does, and what an import costs."""

import pytest
import torch

import attn
from tests.attn.cases import SIZES, assert_equal, qkv
from tests.attn.graphs import in_one_graph
from tests.attn.implementations import EXACT
from tests.processes import run_python

# torch's own, when its compiler is first imported.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script")
FUNCTIONS = {**EXACT, "weights": attn.attention_weights}
Q, K, V = qkv(SIZES[0])
CALL = {
    "enable_gqa": True,
    "is_causal": True,
    "softcap": 2.0,
    "window": (2, 1),
    "q_offset": 1,
}


@pytest.mark.parametrize("implementation", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float32), ids=str)
def test_a_call_changes_no_input_and_no_random_state(implementation, dtype):
    q, k, v = qkv(SIZES[0], dtype)
    mask = torch.zeros(3, 7, dtype=dtype)
    sinks = torch.linspace(-1, 1, SIZES[0].H)
    inputs = (q, k, v, mask, sinks)
    kept = tuple(x.clone() for x in inputs)
    before = torch.get_rng_state()
    results = implementation(q, k, v, attn_mask=mask, sinks=sinks, **CALL)
    assert torch.equal(torch.get_rng_state(), before)
    assert_equal(inputs, kept)
    again = implementation(q, k, v, attn_mask=mask, sinks=sinks, **CALL)
    results, again = torch.stack(tuple(results)), torch.stack(tuple(again))
    assert torch.equal(results, again), "the same call, the same numbers"


def test_dropout_of_0_changes_nothing_and_of_1_leaves_nothing():
    call = attn.scaled_dot_product_attention
    plain = call(Q, K, V, enable_gqa=True)
    assert torch.equal(call(Q, K, V, dropout_p=0, enable_gqa=True), plain)
    assert (call(Q, K, V, dropout_p=1.0, enable_gqa=True) == 0).all()


@pytest.mark.parametrize(
    "implementation", [f for n, f in FUNCTIONS.items() if n != "tiled"]
)
def test_dropout_repeats_from_the_seed(implementation):

    def run(seed):
        torch.manual_seed(seed)
        results = implementation(Q, K, V, dropout_p=0.1, enable_gqa=True)
        return results if torch.is_tensor(results) else results.weights

    assert torch.equal(run(3), run(3))
    assert not torch.equal(run(3), run(4))


@pytest.mark.parametrize("p", (0.1, 0.6))
def test_dropout_drops_weights_and_keeps_the_mean(p):
    torch.manual_seed(0)
    B, L, S = 200, 10, 16
    q, k = torch.randn(1, 1, L, 4), torch.randn(1, 1, S, 4)
    q, k = q.expand(B, -1, -1, -1), k.expand(B, -1, -1, -1)
    plain = attn.attention_weights(q, k).weights
    weights = attn.attention_weights(q, k, dropout_p=p).weights
    kept = weights != 0
    scaled = plain[kept] / (1 - p)
    assert (weights[kept] - scaled).abs().max() < 1e-6 * scaled.max()
    rate = 1 - kept.double().mean()
    n = kept.numel()
    assert abs(rate - p) < 5 * (p * (1 - p) / n) ** 0.5
    error = (weights - plain).mean(0).abs()  # of B draws
    spread = plain[0] * (p / (1 - p) / B) ** 0.5
    assert (error < 5 * spread).all()


def test_dropout_does_not_change_the_lse():
    call = attn.scaled_dot_product_attention
    options = {"enable_gqa": True, "return_lse": True}
    _, lse = call(Q, K, V, **options)
    _, same = call(Q, K, V, dropout_p=0.5, **options)
    assert torch.equal(lse, same)


def test_torch_compiles_a_call_with_options_without_a_graph_break():
    call = attn.scaled_dot_product_attention
    options = {"window": (2, 0), "softcap": 3.0, "return_lse": True}
    options |= {"enable_gqa": True, "q_offset": 4}
    compiled = torch.compile(call, backend="eager", fullgraph=True)
    assert_equal(compiled(Q, K, V, **options), call(Q, K, V, **options))


@pytest.mark.parametrize(
    ("rows", "impl"),
    [((), "auto"), ((2,), "tiled")]
    + [
        pytest.param(rows, impl, marks=pytest.mark.exhaustive)
        for rows in ((), (2,))
        for impl in ("sdpa", "pack_gqa", "grouped", "reference", "tiled")
    ],
)
@pytest.mark.grid
@pytest.mark.parametrize(
    "options",
    (
        {"is_causal": True},
        {"window": (3, 1)},
        {
            "attn_mask": attn.sliding_window(3)
            & attn.padding(torch.arange(7) < 5)
        },
    ),
    ids=lambda options: ", ".join(options),
)
def test_one_graph_serves_every_offset_given_as_a_tensor(options, rows, impl):
    """In a cache's memory, too, where other queries come later."""
    q, k, v = torch.randn(3, 2, 4, 7, 8)
    k, v = k[:, :2], v[:, :2]
    compiled, counter = in_one_graph(attn.attention)
    options = {"enable_gqa": True} | options
    by = {"impl": impl} | options
    for first in range(7):
        query, at = q[:, :, first : first + 1], torch.full(rows, first)
        want = attn.scaled_dot_product_attention(
            query, k, v, q_offset=first, **options
        )
        for out in (
            compiled(query, k, v, q_offset=at, **by),
            attn.attention(query, k, v, q_offset=at, **by),
        ):
            assert torch.allclose(out, want, atol=1e-6)
    assert counter.frame_count == 1


def test_keys_that_grow_need_a_second_graph_and_no_third():
    compiled, counter = in_one_graph(attn.attention)
    for size in range(5, 10):
        q, k = torch.randn(1, 2, 1, 8), torch.randn(1, 2, size, 8)
        last = torch.tensor(size - 1)
        out = compiled(q, k, k, is_causal=True, q_offset=last)
        assert torch.allclose(out, attn.attention(q, k, k), atol=1e-6)
    assert counter.frame_count == 2


def test_a_graph_packs_groups_for_one_query_or_transposed_keys(monkeypatch):
    """Of several, another length would need another graph."""
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    key = torch.randn(2, 2, 9, 8)
    call = {"is_causal": True, "enable_gqa": True, "q_offset": torch.tensor(5)}
    selected = [
        attn.api.explain(torch.randn(2, 4, n, 8), keys, key, **call).selected
        for n, keys in ((1, key), (3, key), (3, key.mT.contiguous().mT))
    ]
    assert selected == ["pack_gqa", "sdpa", "pack_gqa"]


HEAVY = ("torch", "transformers", "matplotlib", "triton", "onnx")


def loaded_by(*statements: str) -> list[set[str]]:
    """Return what is loaded after each statement of one process."""
    lines = [f"{x}; print(*sys.modules)" for x in statements]
    done = run_python("\n".join(["import sys", *lines]))
    assert done.returncode == 0, done.stderr
    return [set(x.split()) for x in done.stdout.splitlines()]


def test_importing_attn_loads_nothing_heavy():
    [modules] = loaded_by("import attn; attn.__all__; dir(attn)")
    assert not modules & {*HEAVY}


def test_importing_and_calling_a_function_loads_torch_alone():
    """And no compiler, which takes as long as torch itself.

    Nor does measuring memory.
    """
    called, measured = loaded_by(
        "from attn import attention; import torch; "
        "x = torch.ones(1, 2, 3, 8); attention(x, x, x, is_causal=True); "
        "attention(torch.ones(4, 2, 3, 8), x, x)",
        "from attn.profiling import peak_bytes; peak_bytes(torch.ones, 3)",
    )
    assert called & {*HEAVY} == {"torch"}
    assert not any(m.startswith("attn.exercises") for m in called)
    assert not any(m.startswith("attn.grading") for m in called)
    assert not measured & {"torch._dynamo", "torch._inductor", "sympy"}
