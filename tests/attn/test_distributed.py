"""Attention of a sequence that is split over ranks, against one process."""

import re

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

import attn
from attn.distributed import (
    decode_attention,
    launch,
    ring_attention,
    shard,
    shard_heads,
    shard_positions,
    traffic,
    ulysses_attention,
    unshard,
)
from tests.attn import ranks
from tests.marks import exhaustive_but

pytestmark = pytest.mark.skipif(
    not dist.is_available(), reason="PyTorch without torch.distributed"
)


# Two ranks would hide a ring in the wrong direction.
@pytest.mark.parametrize("world", exhaustive_but([3], [1, 2, 3, 4]))
def test_results_and_gradients_equal_those_of_one_process(world):
    """With one or two numbers of key heads: split, shared, one for all."""
    kv_heads = {1: (2,), 2: (4, 1), 3: (3, 1), 4: (12, 2)}[world]
    cases = ranks.cases(12, kv_heads)[:: 3 if world > 2 else 7]
    found, *_ = launch(ranks.errors, world, cases, timeout=100)
    errors = dict(zip(cases, found, strict=True))
    assert {c: x for c, x in errors.items() if not x < 1e-12} == {}


@pytest.mark.exhaustive
def test_the_error_in_bfloat16_does_not_grow_with_the_ranks():
    cases = [(x, 12, 1, "contiguous", "causal") for x in ranks.SCHEMES]
    one, four = (launch(ranks.half_errors, w, cases)[0] for w in (1, 4))
    for alone, together in zip(one, four, strict=True):
        assert alone < 2**-7  # rounded once, and read from rounded inputs
        assert together < 1.3 * alone


SIZES = {
    "batch": 2, "seq_len": 24, "num_heads": 6, "num_kv_heads": 2,
    "head_dim": 8,
}  # fmt: skip


def test_bytes_that_leave_a_rank_are_those_of_the_formula():
    world = 3
    sizes = SIZES | {"num_kv_heads": 1}
    for found in launch(ranks.counted, world, sizes):
        for scheme, passes in found.items():
            for backward, counts in enumerate(passes):
                want = traffic(scheme, world, **sizes, backward=bool(backward))
                assert counts == [want, want], (scheme, backward)


def test_one_rank_sends_nothing():
    for scheme in ("ring", "all_gather", "ulysses", "decode", "heads"):
        assert traffic(scheme, 1, **SIZES) == 0


class Scores(TorchFunctionMode):
    """Count the pairs of which a score is computed."""

    pairs = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if func.__name__ == "matmul" and out.shape[-1] != args[0].shape[-2]:
            return out  # weights times values
        self.pairs += out.numel() if func.__name__ == "matmul" else 0
        return out


def pairs(rank, layout):
    x = torch.zeros(1, 1, 16, 4)
    with Scores() as scores:
        ring_attention(x, x, x, is_causal=True, layout=layout)
    return scores.pairs


def test_hidden_blocks_are_skipped_and_zigzag_gives_ranks_equal_work():
    block = 16 * 16
    uneven = [block, 2 * block, 3 * block, 4 * block]
    assert launch(pairs, 4, "contiguous") == uneven
    # Two parts of its own, of which one pair is hidden; half of the others.
    assert launch(pairs, 4, "zigzag") == [(3 + 3 * 2) * block // 4] * 4


# --- a cache in parts --------------------------------------------------------


def decode(rank, query, key, value, valid, sinks):
    """Ranks hold 7, 0 and 13 of 20 keys; a row of the batch has padding."""
    part = [slice(0, 7), slice(7, 7), slice(7, 20)][rank]
    return decode_attention(
        query, key[..., part, :], value[..., part, :],
        valid[:, None, None, part], enable_gqa=True, sinks=sinks,
        softcap=3.0, return_lse=True,
    )  # fmt: skip


def test_a_cache_in_unequal_parts_gives_every_rank_the_same_bits():
    query = torch.randn(2, 6, 1, 8, dtype=torch.float64)
    key, value = torch.randn(2, 2, 2, 20, 8, dtype=torch.float64)
    valid = torch.arange(20) >= torch.tensor([[0], [9]])
    valid[1, 7:] = False  # no key at all
    sinks = torch.randn(6, dtype=torch.float64)
    found = launch(decode, 3, query, key, value, valid, sinks)
    out, lse = attn.scaled_dot_product_attention(
        query, key, value, valid[:, None, None], enable_gqa=True,
        sinks=sinks, softcap=3.0, return_lse=True,
    )  # fmt: skip
    assert (out[1] == 0).all() and (lse[1] == -torch.inf).all()
    for mine, of_keys in found:
        torch.testing.assert_close(mine, out, rtol=0, atol=1e-14)
        torch.testing.assert_close(of_keys, lse, rtol=0, atol=1e-14)
        assert torch.equal(mine, found[0][0])


# --- heads -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("heads", "kv_heads", "world"),
    [(8, 8, 4), (8, 2, 2), (8, 2, 4), (8, 1, 8), (6, 3, 1)],
)
def test_every_query_head_is_with_its_key_head(heads, kv_heads, world):
    shards = [shard_heads(heads, kv_heads, r, world) for r in range(world)]
    assert [h for x in shards for h in x.query] == [*range(heads)]
    for mine in shards:
        read = {h // (heads // kv_heads) for h in mine.query}
        assert {*mine.kv} == read
        assert len(mine.kv) == max(1, kv_heads // world)


def test_heads_that_cannot_be_split_are_refused_with_what_fits():
    with pytest.raises(ValueError, match="use one of 1, 3, 9, or ring_att"):
        shard_heads(9, 3, 0, 2)
    with pytest.raises(ValueError, match=r"3 ranks: use one of 1, 2, 4, or"):
        shard_heads(4, 2, 0, 3)


def test_all_to_all_takes_any_attention_of_one_process():
    def work(rank, *whole):
        q, k, v = (shard(x, -2) for x in whole)
        return ulysses_attention(
            q, k, v, is_causal=True, attn=F.scaled_dot_product_attention
        )

    whole = torch.randn(3, 1, 4, 6, 8)
    out = torch.cat(launch(work, 2, *whole), -2)
    want = F.scaled_dot_product_attention(*whole, is_causal=True)
    torch.testing.assert_close(out, want)


# --- positions ---------------------------------------------------------------


@pytest.mark.parametrize("layout", ranks.LAYOUTS)
@pytest.mark.parametrize("world", (1, 2, 3, 5))
def test_every_token_is_on_one_rank(layout, world):
    n = 2 * world * 3
    parts = [shard_positions(n, r, world, layout=layout) for r in range(world)]
    assert torch.cat(parts).sort().values.tolist() == [*range(n)]
    assert all(x.diff().gt(0).all() for x in parts)
    if layout == "zigzag":  # causal pairs
        assert len({int((x + 1).sum()) for x in parts}) == 1


@pytest.mark.parametrize(
    ("n", "layout", "up"), [(2999, "zigzag", 3000), (7, "contiguous", 8)]
)
def test_a_length_that_cannot_split_is_refused_with_what_fits(n, layout, up):
    with pytest.raises(ValueError, match=f"got {n}: pad to {up}"):
        shard_positions(n, 0, 2, layout=layout)


def in_a_group(rank, *whole):
    """Ranks 1 and 2 of three are a group of their own."""
    group = dist.new_group([1, 2])
    if rank == 0:
        try:
            ring_attention(*whole, group=group)
        except ValueError as error:
            return str(error)
    q, k, v = (shard(x, -2, layout="zigzag", group=group) for x in whole)
    positions = shard_positions(8, rank - 1, 2, layout="zigzag")
    outs = [
        function(q, k, v, is_causal=True, layout=layout, group=group)
        for layout in ("zigzag", positions)
        for function in ranks.SCHEMES.values()
    ]
    return [unshard(x, -2, layout="zigzag", group=group) for x in outs]


def test_a_group_is_a_world_of_its_own_and_has_only_its_members():
    whole = torch.randn(3, 2, 8, 4)  # (H, L, D)
    refused, *found = launch(in_a_group, 3, *whole)
    assert refused.startswith("group must have this process, rank 0, as a")
    want = attn.scaled_dot_product_attention(*whole, is_causal=True)
    for out in (x for outs in found for x in outs):
        torch.testing.assert_close(out, want)


# --- what is refused ---------------------------------------------------------


def refusals(rank):
    x = torch.zeros(2, 4, 3)
    calls = {
        "key": lambda: ring_attention(x, *[x[:, : 4 - rank]] * 2),
        "dtype": lambda: ring_attention(*[x.double() if rank else x] * 3),
        "call": lambda: (ulysses_attention if rank else ring_attention)(
            x, x, x
        ),
        "is_causal": lambda: ring_attention(x, x, x, is_causal=bool(rank)),
        "grad": lambda: ring_attention(
            x.clone().requires_grad_(bool(rank)), x, x
        ),
        "mask": lambda: ring_attention(x, x, x, torch.ones(4, 4).bool()),
        "dropout": lambda: ring_attention(x, x, x, None, 0.1),
        "layout": lambda: ring_attention(x, x, x, layout="striped"),
        "positions": lambda: ring_attention(x, x, x, layout=torch.ones(4)),
        "backward": lambda: (
            unshard(x.clone().requires_grad_(), 0).sum().backward()
        ),
        "decode": lambda: decode_attention(x.clone().requires_grad_(), x, x),
    }
    said = {}
    for name, call in calls.items():
        try:
            call()
        except (TypeError, ValueError, RuntimeError) as error:
            said[name] = f"{type(error).__name__}: {error}"
    return said


def test_a_call_that_is_wrong_or_differs_between_ranks_is_refused():
    first, second = launch(refusals, 2)
    assert first == second, "on every rank, so that none waits"
    same = "must be the same on every rank of ring_attention; got"
    expected = {
        "key": rf"ValueError: key {same} \(2, 4, 3\) float32 on rank 0 and "
        r"\(2, 3, 3\) float32 on rank 1",
        "dtype": rf"ValueError: query {same} .* float32 .* float64 on rank 1",
        "call": "ValueError: the call must be the same on every rank; got "
        "ring_attention on rank 0 and ulysses_attention on rank 1",
        "is_causal": f"ValueError: is_causal {same} False",
        "grad": f"ValueError: requires_grad {same} False on rank 0 and True",
        "mask": "TypeError: attn_mask must be an attn Mask .*attn.documents",
        "dropout": "ValueError: dropout_p must be 0.0 .*; got 0.1",
        "layout": "ValueError: layout must be one of .*'zigzag'",
        "positions": "ValueError: positions as layout must be int64",
        "backward": "RuntimeError: unshard has no gradient",
        "decode": "ValueError: query must not require a gradient.*ring_att",
    }
    assert first.keys() == expected.keys()
    for name, pattern in expected.items():
        assert re.match(pattern, first[name]), first[name]


@pytest.mark.parametrize(
    "call",
    [ring_attention, ulysses_attention, decode_attention],
    ids=lambda x: x.__name__,
)
def test_without_a_process_group_the_way_out_is_said(call):
    x = torch.zeros(2, 4, 3)
    with pytest.raises(RuntimeError, match="that attn.distributed.launch"):
        call(x, x, x)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"scheme": "rings"}, "scheme must be one of .*ring.*all_gather"),
        ({"world_size": 0}, "world_size must be an int, at least 1; got 0"),
        ({"num_kv_heads": 4}, "multiple of num_kv_heads .*; got 6 and 4"),
        ({"world_size": 5}, "multiple of world_size, 5; got 24"),
        ({"scheme": "ulysses", "world_size": 4}, "use one of 1, 2, 6"),
        ({"scheme": "decode", "backward": True}, "False for 'decode'"),
    ],
)
def test_bytes_of_an_impossible_call_are_refused(wrong, text):
    with pytest.raises(ValueError, match=text):
        traffic(**{"scheme": "ring", "world_size": 2, **SIZES, **wrong})


# --- others ------------------------------------------------------------------


def context_parallel(rank, query, key, value):
    """Use PyTorch's context parallelism: by SDPA, then by FlexAttention."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.experimental import context_parallel as by
    from torch.distributed.tensor.experimental._attention import (
        _context_parallel_shard,
        _ContextParallel,
    )
    from torch.distributed.tensor.parallel import parallelize_module
    from torch.nn.attention.flex_attention import flex_attention

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    whole = [query.clone(), key.clone(), value.clone()]
    try:
        with by(mesh, buffers=whole, buffer_seq_dims=[2, 2, 2]):
            F.scaled_dot_product_attention(*whole, is_causal=True)
        refused = ""
    except NotImplementedError as error:
        refused = str(error)

    class Flex(torch.nn.Module):
        def forward(self, query, key, value, block_mask):
            return flex_attention(query, key, value, block_mask=block_mask)

    torch.compiler.set_stance("force_eager")
    kind = _ContextParallel.AttentionType.FLEX
    flex = parallelize_module(Flex(), mesh, _ContextParallel(2, kind))
    mask = attn.causal().block_mask(query.shape[2], block_size=128)
    *parts, mask = _context_parallel_shard(
        mesh, [query, key, value, mask], [2] * 4
    )
    out = flex(*parts, block_mask=mask)
    return refused, (out - ring_attention(*parts, is_causal=True)).abs().max()


@pytest.mark.exhaustive
@torch.no_grad()  # FlexAttention has no backward pass on a CPU
def test_pytorchs_context_parallelism_agrees_where_it_runs_on_a_cpu():
    query, key, value = torch.randn(3, 1, 1, 256, 8)
    for refused, error in launch(context_parallel, 2, query, key, value):
        assert "does not have a sharding strategy registered" in refused
        assert error < 1e-6
