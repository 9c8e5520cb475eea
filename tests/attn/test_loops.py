"""The tensor implementations equal plain Python loops, on everything."""

import itertools
import random

import pytest
import torch

import attn
from tests.attn import loops
from tests.attn.cases import SIZES, Sizes, assert_exact, qkv
from tests.attn.implementations import EXACT


def some_masks(sizes, rng):
    """Masks for ``attn``, and the same ones for the loops."""
    B, H, L, S = *sizes.batch, sizes.H, sizes.L, sizes.S
    shape = (B, H, L, S)
    broadcast = tuple(n if rng.random() < 0.7 else 1 for n in shape)
    broadcast = broadcast[rng.choice((0, 2)) :]
    g = torch.Generator().manual_seed(rng.randrange(1000))
    coin = torch.rand(broadcast, generator=g) < 0.7
    far = max(L, S) + 8  # data for positions that offsets reach
    ids = torch.randint(0, 3, (B, far), generator=g).sort().values
    valid = torch.rand(B, far, generator=g) < 0.7
    lengths = [rng.randint(0, S) for _ in range(B)]
    if max(lengths) < 2:  # two of them would be ambiguous
        lengths = lengths[:1]
    bias = torch.randn(broadcast, generator=g, dtype=torch.float64)
    some = bias.masked_fill(~coin, -torch.inf)
    same = torch.zeros(broadcast).masked_fill(~coin, -torch.inf)
    return {
        "none": (None, {}),
        "bool": (coin, {"bias": same.expand(shape)}),
        "float": (bias, {"bias": bias.expand(shape)}),
        "-inf": (some, {"bias": some.expand(shape)}),
        "causal": (attn.causal(), lambda b, h, i, j: j <= i),
        "sliding_window": (
            attn.sliding_window(2),
            lambda b, h, i, j: j in (i - 1, i),
        ),
        "window": (
            attn.window(1, 2),
            lambda b, h, i, j: -1 <= j - i <= 2,
        ),
        "chunked": (
            attn.chunked(3),
            lambda b, h, i, j: -(-(i + 1) // 3) == -(-(j + 1) // 3),
        ),
        "prefix": (attn.prefix(2), lambda b, h, i, j: j in (0, 1)),
        "documents": (
            attn.documents(ids) & attn.causal(),
            lambda b, h, i, j: i >= 0 and ids[b, i] == ids[b, j] and not j > i,
        ),
        "padding": (attn.padding(valid), lambda b, h, i, j: valid[b, j]),
        "lengths": (
            attn.padding(torch.tensor(lengths)),
            lambda b, h, i, j: j < lengths[b % len(lengths)],
        ),
        "either": (
            attn.causal() & attn.padding(valid) | attn.prefix(1),
            lambda b, h, i, j: j == 0 or (j <= i and bool(valid[b, j])),
        ),
        "opposite": (~attn.causal(), lambda b, h, i, j: j > i),
    }


MASKS = tuple(some_masks(SIZES[0], random.Random(0)))


def some_call(kind, seed):
    """Everything at random: sizes, offsets, window, softcap, sinks."""
    rng = random.Random(f"{kind} {seed}")
    Hkv, G = rng.choice(((1, 1), (1, 3), (2, 1), (2, 2), (3, 2)))
    L, S, D, Dv = (rng.randint(1, 6) for _ in range(4))
    sizes = Sizes(kind, (rng.randint(1, 3),), Hkv * G, Hkv, L, S, D, Dv)
    mask, same = some_masks(sizes, rng)[kind]
    if callable(same):
        same = {"may_attend": same}
    B = sizes.batch[0]
    least = 0 if kind == "documents" else -2
    per_row = [rng.randint(least, 6) for _ in range(B)]
    if rng.random() < 0.5:
        per_row = [per_row[0]] * B
        q_offset = per_row[0]
    else:
        q_offset = torch.tensor(per_row)
    side = (None, 0, 1, 3)
    settings = {
        "is_causal": rng.random() < 0.3,
        "scale": rng.choice((None, 0.3, -1.0)),
        "softcap": rng.choice((None, None, 1.5)),
        "window": rng.choice((None, (rng.choice(side), rng.choice(side)))),
    }
    sinks = torch.randn(sizes.H, dtype=torch.float64)
    sinks = rng.choice((None, sinks))
    theirs = settings | same | {"offsets": per_row}
    theirs["sinks"] = None if sinks is None else sinks.tolist()
    ours = settings | {"attn_mask": mask, "sinks": sinks, "enable_gqa": True}
    return sizes, ours | {"q_offset": q_offset}, theirs


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", MASKS)
def test_every_implementation_equals_plain_loops(kind, seed):
    torch.manual_seed(seed)
    sizes, arguments, theirs = some_call(kind, seed)
    q, k, v = qkv(sizes, seed=seed)
    oracle = loops.attention(q, k, v, **theirs)
    for implementation in EXACT.values():
        both = implementation(q, k, v, return_lse=True, **arguments)
        assert_exact(both, oracle)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ("none", "-inf", "documents", "padding"))
def test_weights_times_values_is_the_output(kind, seed):
    sizes, arguments, theirs = some_call(kind, seed)
    q, k, v = qkv(sizes, seed=seed)
    scores, weights = attn.attention_weights(q, k, **arguments)
    oracle, _ = loops.attention(q, k, v, **theirs)
    assert_exact(weights @ attn.repeat_kv(v, sizes.H // sizes.Hkv), oracle)
    assert torch.equal(weights == 0, scores == -torch.inf)


FOUR_AXES = [s for s in SIZES if len(s.batch) == 1]


@pytest.mark.parametrize("sizes", FOUR_AXES, ids=str)
def test_half_precision_computes_in_float32(sizes):
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        q, k, v = qkv(sizes, dtype)
        oracle, oracle_lse = loops.attention(q, k, v)
        for implementation in EXACT.values():
            out, lse = implementation(
                q, k, v, enable_gqa=True, return_lse=True
            )
            assert out.dtype == dtype and lse.dtype == torch.float32
            assert_exact(out, oracle, rival=oracle.to(dtype))
            assert_exact(lse, oracle_lse)


@pytest.mark.parametrize("sizes", [s for s in SIZES if s.Hkv == s.H], ids=str)
def test_simple_attention_and_attention_loops_equal_the_oracle(sizes):
    q, k, v = (x.reshape(-1, *x.shape[-2:])[0] for x in qkv(sizes))
    oracle, _ = loops.attention(q[None, None], k[None, None], v[None, None])
    assert_exact(attn.attention_loops(q, k, v), oracle[0, 0])
    assert_exact(attn.simple_attention(q, k, v), oracle[0, 0])


def test_huge_scores_neither_overflow_nor_vanish():
    sizes = SIZES[0]
    for size, dtype in itertools.product(
        (1.0, 30.0, 1e4), (torch.float32, torch.float64)
    ):
        q, k, v = qkv(sizes, dtype)
        q = q * size
        oracle, oracle_lse = loops.attention(q, k, v)
        out, lse = attn.scaled_dot_product_attention(
            q, k, v, enable_gqa=True, return_lse=True
        )
        rival = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, enable_gqa=True
        )
        assert_exact(out, oracle, rival)
        assert_exact(lse, oracle_lse)
