"""Bytes, intensities and models of the cost sheet, computed in another way."""

import pytest
import torch
from torch import nn

from attn import cost
from tests.book.cost_sheet import PAGE, Mode, values, x

SHAPE = cost.ModelShape(
    x.N, x.V, x.E, x.F, x.H, x.Hkv, x.D, window=x.W, windowed_layers=x.N
)


class Crossings(Mode):
    """Collect the tensors that each operation reads and writes."""

    def __enter__(self):
        self.once, self.again = {}, 0
        return super().__enter__()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if not func.is_view and "empty" not in func.name():
            outs = out if isinstance(out, (tuple, list)) else (out,)
            for t in (*args, *outs):
                if torch.is_tensor(t) and t.dim() > 1:
                    self.once[t.data_ptr()] = t  # kept, so its place is too
                    self.again += t.nbytes * ({*t.shape[-2:]} == {x.L, x.S})
        return out

    def bytes(self):
        """Of tensors like query, key and lse, each once; of maps, each."""
        moved = dict.fromkeys(((x.L, x.D), (x.S, x.D), "lse"), 0)
        for t in self.once.values():
            size = {*t.shape[-2:]}
            if size == {x.L, x.S}:
                continue
            wide = x.L if x.L in size else x.S
            moved[(wide, x.D) if x.D in size else "lse"] += t.nbytes
        return [*moved.values()][:2] + [self.again, moved["lse"]]


def moved(attention):
    """What crosses the bus, forward and backward; every head has a key."""
    shape = (x.B * x.H,) if attention is plain_attention else (x.B, x.H)
    q, out_grad = (torch.randn(*shape, x.L, x.D) for _ in range(2))
    k, v = (torch.randn(*shape, x.S, x.D) for _ in range(2))
    q, k, v = (t.requires_grad_() for t in (q, k, v))
    with Crossings() as forward:
        out = attention(q, k, v)
    with Crossings() as backward:
        torch.autograd.grad(out, (q, k, v), out_grad)
    return forward.bytes(), backward.bytes()


def plain_attention(q, k, v):
    return torch.bmm(torch.bmm(q, k.mT).softmax(-1), v)


def test_bytes_on_the_page_equal_the_tensors_read_and_written():
    heading = "Bytes that attention moves"
    starts = ("query, output", "key, value", "scores and", "lse")
    lines = [values(heading, s, b=4, Hkv=x.H) for s in starts]
    fused = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    plain = moved(plain_attention)
    whole = moved(lambda q, k, v: fused(q, k, v)[0])
    columns = [plain[0], whole[0], plain[1], whole[1]]
    assert [*map(list, zip(*lines, strict=True))] == columns
    assert len(PAGE[heading]) == 5


def test_bytes_of_a_call_on_the_page_equal_the_cost_model():
    heading = "Bytes that attention moves"
    starts = ("query, output", "key, value", "scores and")
    for column, fused in ((0, False), (1, True)):
        call = cost.attention_cost(x.B, x.L, x.S, x.H, x.Hkv, x.D, fused=fused)
        assert call.bytes == sum(values(heading, s)[column] for s in starts)


def test_split_keys_write_and_read_their_parts():
    parts = []
    q, (k, v) = torch.randn(x.B, x.H, x.L, x.D), torch.randn(2, 1, 1, 14, x.D)
    for keys, vals in zip(k.chunk(x.M, -2), v.chunk(x.M, -2), strict=True):
        scores = q @ keys.mT
        parts += [scores.softmax(-1) @ vals, scores.logsumexp(-1)]
    crossed = 2 * sum(t.nbytes for t in parts)
    assert values("Bytes that attention moves", "keys split") == [crossed]


def test_bytes_held_on_the_page_equal_the_cost_model():
    B, L = x.B, x.L
    sizes = x.V, x.E, x.F, x.H, x.Hkv, x.D
    no_layers, rms = (cost.ModelShape(n, *sizes) for n in (0, 1))
    layer = {"gated": False, "norm": "layer", "max_positions": 9}
    gpt = [cost.ModelShape(n, *sizes, **layer) for n in (1, 0)]

    def kept(*shapes, **how):
        whole, none = (x.activation_bytes(B, L, **how) for x in shapes)
        return whole - none

    def line(start, **sizes):
        (found,) = values("Bytes held", start, **sizes)
        return found

    cached = cost.kv_cache_bytes(B, x.S, x.N, x.Hkv, x.D)
    assert line("KV cache") == cached
    assert line("window") == SHAPE.cache_bytes(B, x.S)
    fused, plain = line("by fused"), line("by plain")
    layers = {"layer of Llama": (rms, no_layers), "layer of GPT-2": gpt}
    for start, shapes in layers.items():
        assert line(start) + fused == kept(*shapes)
        assert line(start) + plain == kept(*shapes, fused=False)
    tables = 2 * L * x.D * 2  # of rotations, in bfloat16
    once = no_layers.activation_bytes(B, L) - tables
    assert line("the loss") == once
    assert len(PAGE["Bytes held"]) == 7


def test_adam_holds_sixteen_bytes_a_parameter():
    layer = nn.Linear(64, 64, bias=False)
    step = torch.optim.Adam(layer.parameters(), foreach=False)
    layer(torch.ones(1, 64)).sum().backward()
    step.step()
    tensors = [layer.weight, layer.weight.grad]
    tensors += [t for t in step.state[layer.weight].values() if t.dim()]
    assert sum(t.nbytes for t in tensors) == 16 * layer.weight.numel()


def test_intensities_are_flops_over_bytes():
    heading, G = "FLOPs for each byte", 3

    def line(start, **sizes):
        general, half = values(heading, start, **sizes)
        assert general == half  # of b = 2
        return float(general)

    E, F, B = 1000, 3000, 64
    assert line("weight matrices", B=B) == 2 * B * E * F / (2 * E * F)
    long = cost.attention_cost(9, 1, 10**6, 6, 2, 8)
    assert line("any batch") == pytest.approx(long.intensity, rel=1e-5)
    assert line("any batch") == G
    prompt = cost.attention_cost(9, 500, 500, 6, 2, 8, is_causal=True)
    assert line("fused attention", L=500) == prompt.intensity
    plain = cost.attention_cost(1, 10**7, 10**7, 6, 2, 8, fused=False)
    assert line("plain") == pytest.approx(plain.intensity, rel=1e-5)


def test_a_ridge_is_the_peak_over_the_bandwidth():
    lines = {
        name: [float(cell.replace(",", "")) for cell in cells]
        for name, cells in PAGE["FLOPs for each byte"].items()
        if "nvidia.com" in name
    }
    assert len(lines) == 4 == len(PAGE["FLOPs for each byte"]) - 5
    for peak, bandwidth, _, ridge in lines.values():
        assert ridge == round(peak / bandwidth)
        below = cost.roofline(ridge - 1, peak, bandwidth)
        assert below < peak == cost.roofline(ridge + 1, peak, bandwidth)


BF16, GIB, L = 2, 2**30, 1024


def short(number, unit=1):
    """Three digits."""
    return f"{number / unit:#.3g}".rstrip(".")


def read(m):
    """Bytes that a step reads: weights and cache; of look-ups, one row."""
    unused = max(m.max_positions - 1, 0) + (0 if m.tied else m.vocab_size - 1)
    weights = m.parameters() - unused * m.embed_dim
    return BF16 * weights + m.cache_bytes(1, L)


def pairs(m):
    """The operations between tokens, when the text is read."""
    heads = m.num_heads, m.num_kv_heads, m.head_dim
    call = cost.attention_cost(1, L, L, *heads, is_causal=True)
    return m.num_layers * call.flops


MODELS = {
    "$N$ layers": lambda m: f"{m.num_layers}",
    "$E$, $F$": lambda m: f"{m.embed_dim:,}, {m.hidden_dim:,}",
    "$H$, $H_{kv}$, $D$": (
        lambda m: f"{m.num_heads}, {m.num_kv_heads}, {m.head_dim}"
    ),
    "$V$": lambda m: f"{m.vocab_size:,}",
    "parameters": lambda m: f"{m.parameters():,}",
    "weights of a layer's matrices": lambda m: f"{m.layer_weights:,}",
    "weights, GB": lambda m: short(BF16 * m.parameters(), 1e9),
    "cache of a token, KiB": lambda m: short(m.cache_bytes(1, 1), 1024),
    "cache of 1,024 tokens, MiB": lambda m: short(m.cache_bytes(1, L), 2**20),
    "prompt, TFLOPs": lambda m: short(m.flops(1, L, logits_to_keep=1), 1e12),
    "… of which pairs": lambda m: (
        f"{100 * pairs(m) / m.flops(1, L, logits_to_keep=1):.1f} %"
    ),
    "step of decode, GFLOPs": lambda m: short(m.flops(1, 1, L), 1e9),
    "… GB that it reads": lambda m: short(read(m), 1e9),
    "… FLOPs a byte": lambda m: short(m.flops(1, 1, L) / read(m)),
    "… at least, on an H200, ms": lambda m: short(1e3 * read(m) / 4.8e12),
    "training step, TFLOPs": lambda m: short(m.training_flops(1, L), 1e12),
    "… 6 × parameters × tokens": lambda m: short(6 * m.parameters() * L, 1e12),
    "kept for backward, GiB": lambda m: short(m.activation_bytes(1, L), GIB),
    "… with plain attention": lambda m: short(
        m.activation_bytes(1, L, fused=False), GIB
    ),
    "training with Adam, 16 bytes a parameter, GB": lambda m: short(
        16 * m.parameters(), 1e9
    ),
}


def test_the_table_of_three_models_equals_the_cost_model():
    names = ("SmolLM2-135M", "GPT-2", "Llama-3-8B")
    assert PAGE["Three models"] == {
        label: [cell(cost.PUBLISHED[name]) for name in names]
        for label, cell in MODELS.items()
    }
