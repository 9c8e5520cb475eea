"""Parameters and operations of the cost sheet, counted on modules."""

import inspect

import pytest
import torch

import attn
from attn import cost
from tests.attn.models import count
from tests.book.cost_sheet import PAGE, Mode, Products, value, values, x


def llama(**sizes):
    options = {
        "num_layers": x.N, "vocab_size": x.V, "embed_dim": x.E,
        "hidden_dim": x.F, "num_heads": x.H, "num_kv_heads": x.Hkv,
        "head_dim": x.D,
    }  # fmt: skip
    return attn.Transformer(attn.llama_style(**options | sizes))


def gpt2(E=48):
    return attn.Transformer(
        attn.gpt2_small(
            num_layers=x.N, vocab_size=x.V, embed_dim=E, num_heads=x.H,
            num_kv_heads=x.H, head_dim=E // x.H, hidden_dim=4 * E,
        )
    )  # fmt: skip


def test_a_latex_formula_is_evaluated_as_written():
    assert value(r"2ED(H + H_{kv}) + E^2") == 2 * 40 * 8 * 8 + 1600
    assert value(r"\frac{L(L + 1)}{2}") == 15
    assert value(r"2bBHL^2", b=4) == 4 * 2 * 2 * 6 * 25
    assert value(r"\min(S, W)") == 4


def test_parameters_on_the_page_equal_those_of_the_modules():
    model, block = llama(), llama().blocks[0]
    maps, ffn = block.attention, block.feed_forward
    plain = gpt2()
    expected = {
        "query and output": count(maps.q_proj, maps.out_proj),
        "key and value": count(maps.k_proj, maps.v_proj),
        "(GELU)": 2 * ffn.up_proj.weight.numel(),
        "(SwiGLU)": count(ffn),
        "RMSNorm": count(block.attention_norm),
        "a layer of Llama": count(block),
        "token embedding": count(model.token_embedding),
    }
    for start, number in expected.items():
        assert values("Parameters", start) == [number], start
    assert count(model.head) == expected["token embedding"]
    E = 48
    for start, part in {
        "layer norm": plain.blocks[0].attention_norm,
        "a layer of GPT-2": plain.blocks[0],
        "learned positions": plain.positions,
    }.items():
        assert values("Parameters", start, E=E) == [count(part)], start
    weights = plain.blocks[0].feed_forward.up_proj.weight.numel() * 2
    assert values("Parameters", "(GELU)", E=E, F=4 * E) == [weights]
    assert len(PAGE["Parameters"]) == len(expected) + 3


class Elementwise(Mode):
    """Count the elements that elementwise operations and sums go through."""

    NONE = ("view", "transpose", "slice", "cat", "_to_copy", "ones", "expand")
    total = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if not any(word in func.name() for word in self.NONE):
            tensors = [t for t in (*args, out) if torch.is_tensor(t)]
            self.total += max(t.numel() for t in tensors)
        return out


def operations(function, *sizes):
    """Operations for each element; those once a row are less than half."""
    ones = torch.ones(2, 3, *sizes)
    with torch.no_grad(), Elementwise() as counter:
        function(ones)
    return round(counter.total / ones.numel())


def softmax(scores):
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    return weights / weights.sum(-1, keepdim=True)


def test_elementwise_steps_are_counted_in_round_numbers():
    cos = sin = torch.ones(64)

    def rotate(head):
        swapped = torch.cat((head[..., 32:], head[..., :32]), -1)
        return head * cos + swapped * sin

    for start, each, size in (
        ("softmax", operations(softmax, 64), x.H * x.S),
        ("RMSNorm", operations(attn.RMSNorm(64).definition, 64), x.E),
        ("layer norm", operations(attn.LayerNorm(64).definition, 64), x.E),
        ("rotation", operations(rotate, 64), (x.H + x.Hkv) * x.D),
    ):
        step = x.B * each * size
        assert values("FLOPs, forward", start) == [x.L * step, step], start


def products(*modules, of):
    """The operations of modules, of a prompt and of a step of decode."""
    totals = []
    for length in (x.L, 1):
        with torch.no_grad(), Products() as counter:
            for module in modules:
                size = getattr(module, "in_features", of)
                module(torch.ones(x.B, length, size))
        totals.append(counter.total)
    return totals


def test_products_on_the_page_equal_those_that_torch_counts():
    model, plain = llama(), gpt2()
    block = model.blocks[0]
    maps, heading = block.attention, "FLOPs, forward"
    for start, modules in {
        "query and output": (maps.q_proj, maps.out_proj),
        "key and value": (maps.k_proj, maps.v_proj),
        "three matrices": (block.feed_forward,),
        "output layer, once": (model.head,),
    }.items():
        assert values(heading, start) == products(*modules, of=x.E), start
    two = products(plain.blocks[0].feed_forward, of=48)
    assert values(heading, "two matrices", E=48, F=192) == two
    with Products() as counter:
        model.token_embedding(torch.zeros(x.B, x.L, dtype=torch.long))
    assert values(heading, "embedding") == [counter.total] * 2
    assert len(PAGE[heading]) == 12  # with those of other tests


@pytest.mark.parametrize("start", ("scores, $QK", "weights times"))
def test_each_product_of_attention_is_half_of_its_operations(start):
    prompt, step = values("FLOPs, forward", start)
    for L, flops in ((x.L, prompt), (1, step)):
        whole = cost.attention_cost(x.B, L, x.S, x.H, x.Hkv, x.D)
        assert 2 * flops == whole.flops


def test_pairs_on_the_page_equal_the_true_elements_of_masks():
    def pairs(L, S, window=None, is_causal=True):
        flops = cost.attention_cost(
            1, L, S, 1, 1, 1, is_causal=is_causal, window=window
        ).flops
        query = torch.arange(S - L, S)[:, None]
        allowed = torch.arange(S) <= query
        allowed &= torch.arange(S) > query - (window or S)
        if is_causal:
            assert flops == 4 * allowed.sum()
        return flops // 4

    for start, number in {
        "none": pairs(x.L, x.S, is_causal=False),
        "causal, all": pairs(x.L, x.L),
        "causal, the last": pairs(x.L, x.S),
        "causal, window": pairs(x.L, x.L, x.W),
        "window, one": pairs(1, x.S, x.W),
    }.items():
        assert values("Pairs", start) == [number], start
    assert values("Pairs", "window, one", S=3) == [pairs(1, 3, x.W)]
    assert len(PAGE["Pairs"]) == 5


def test_flops_of_training_on_the_page_equal_the_cost_model():
    shapes = [
        cost.ModelShape(n, x.V, x.E, f, x.H, x.Hkv, x.D)
        for n, f in ((1, x.F), (0, x.F), (1, 0))
    ]

    def layer(fused, forward=False, less=1):
        whole, none = (
            s.flops(x.B, x.L, is_causal=False)
            if forward
            else s.training_flops(x.B, x.L, is_causal=False, fused=fused)
            for s in (shapes[0], shapes[less])
        )
        return whole - none

    heading = "FLOPs, training"
    forward, plain, fused, two = values(heading, "matrix with")
    assert 3 * forward == layer(True, forward=True, less=2)  # of three maps
    assert 3 * (forward + plain) == layer(False, less=2)
    assert fused == two == plain
    weights = 2 * x.B * x.L * shapes[0].layer_weights
    forward, plain, fused, two = values(heading, "attention", S=x.L)
    assert forward == layer(True, forward=True) - weights
    assert forward + plain == layer(False) - 3 * weights
    assert forward + fused == layer(True) - 3 * weights
    assert len(PAGE[heading]) == 2
    kernels = inspect.getsource(pytest.importorskip("attn.kernels.backward"))
    assert two == forward // 2 * kernels.count(" dot(")
