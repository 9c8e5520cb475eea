"""What a kernel loads and stores, against counts by hand."""

import itertools
import math

import pytest
import torch

import attn
from attn.profiling import Moved, traffic

triton = pytest.importorskip("triton")
if torch.cuda.is_available():
    pytest.skip("kernels are compiled here", allow_module_level=True)

import triton.language as tl  # noqa: E402
from triton.tools.tensor_descriptor import TensorDescriptor  # noqa: E402

from attn.kernels import configs, decode, decode_attention, forward  # noqa: E402
from solutions import ch12_fused_forward as ch12  # noqa: E402
from tests.marks import exhaustive_but  # noqa: E402

cdiv = triton.cdiv
FLOAT = 4  # bytes


def ceil_to(n, block):
    return cdiv(n, block) * block


# --- small kernels -----------------------------------------------------------


@pytest.mark.parametrize(("rows", "columns"), ((5, 6), (8, 8), (1, 17)))
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
def test_a_copy_loads_and_stores_every_byte_once(rows, columns, dtype):
    x = torch.randn(rows, columns).to(dtype)
    out = torch.empty(columns, rows, dtype=dtype).T
    grid = cdiv(rows, 4), cdiv(columns, 8)
    measured = traffic(
        ch12.copy_tile_kernel, grid, x, out, rows, columns, columns, 1, 1,
        rows, BLOCK_R=4, BLOCK_C=8,
    )  # fmt: skip
    size = rows * columns * dtype.itemsize
    masked = ceil_to(rows, 4) * ceil_to(columns, 8) - rows * columns
    moved = Moved(math.prod(grid), size, size, masked)
    assert measured.loads == {"X": moved} and measured.stores == {"OUT": moved}
    assert measured.loaded == measured.stored == size
    assert torch.equal(x, out), "it runs"


def test_each_program_has_its_own_count():
    x, out = torch.randn(5, 6), torch.empty(5, 6)
    measured = traffic(
        ch12.copy_tile_kernel, (3, 1), x, out, 5, 6, 6, 1, 6, 1,
        BLOCK_R=4, BLOCK_C=8,
    )  # fmt: skip
    parts = measured.programs
    assert [*parts] == [(0, 0, 0), (1, 0, 0), (2, 0, 0)]
    for i, rows in enumerate((4, 1, 0)):
        size = rows * 6 * FLOAT
        moved = Moved(1, size, size, 32 - rows * 6)
        assert parts[i, 0, 0].loads == {"X": moved}
        assert parts[i, 0, 0].stores == {"OUT": moved}


def test_a_softmax_of_rows_reads_each_row_once():
    rows, columns = 7, 37
    x, out = torch.randn(rows, columns + 3)[:, :columns], torch.empty(7, 37)
    measured = traffic(
        ch12.row_softmax_kernel, (rows,), x, out, 40, 37, columns, BLOCK=64
    )
    size = rows * columns * FLOAT
    moved = Moved(rows, size, size, rows * (64 - columns))
    assert measured.loads == {"X": moved} and measured.stores == {"OUT": moved}


def test_scores_read_the_queries_once_for_every_block_of_keys():
    L, S, D, BL, BS = 37, 50, 16, 16, 32
    q, k, out = torch.randn(L, D), torch.randn(S, D), torch.empty(L, S)
    grid = cdiv(L, BL), cdiv(S, BS)
    measured = traffic(
        ch12.scores_kernel, grid, q, k, out, 1.0, L, S, D, D, S,
        IS_CAUSAL=False, D=D, BLOCK_L=BL, BLOCK_S=BS,
    )  # fmt: skip
    queries, keys = L * D * FLOAT, S * D * FLOAT
    assert measured.loads["Q"].bytes == grid[1] * queries
    assert measured.loads["K"].bytes == grid[0] * keys
    assert measured.loads["Q"].distinct == queries
    assert measured.loads["K"].times == grid[0]
    assert measured.loads["K"].masked == grid[0] * (ceil_to(S, BS) - S) * D
    assert measured.stored == L * S * FLOAT


# --- attention forward -------------------------------------------------------


def by_a_learner(q, k, v, block_l, block_s, is_causal=False):
    """Count chapter 12's kernel, which goes through all keys."""
    (H, L, D), (Hkv, S, _) = q.shape, k.shape
    out = torch.empty_like(q)
    strides = (n for x in (q, k, v, out) for n in x.stride()[:2])
    return traffic(
        ch12.attention_forward_kernel, (cdiv(L, block_l), H), q, k, v, out,
        1.0, L, S, S - L, *strides, GROUP=H // Hkv, IS_CAUSAL=is_causal, D=D,
        BLOCK_L=block_l, BLOCK_S=block_s,
    )  # fmt: skip


class Counting:
    """A kernel whose launches are counted."""

    def __init__(self, kernel):
        self.kernel, self.found = kernel, []

    def __getitem__(self, grid):
        def run(*args, **kwargs):
            self.found.append(traffic(self.kernel, grid, *args, **kwargs))

        return run


@pytest.fixture
def by_the_library(monkeypatch):
    """Count the library's kernel with tiles of one's own."""

    def counted(q, k, v, block_l, block_s, **options):
        tile = configs.Config(block_l, block_s, 4, 1, "for a test")
        monkeypatch.setattr(configs, "config_of", lambda *_: tile)
        kernel = Counting(forward.attention_forward)
        with monkeypatch.context() as patched:
            patched.setattr(forward, "attention_forward", kernel)
            attn.kernels.fused_attention(q, k, v, enable_gqa=True, **options)
        (found,) = kernel.found
        return found

    return counted


def qkv(L, S, H=2, Hkv=2, D=16, dtype=torch.float32, lead=()):
    q = torch.randn(*lead, H, L, D, dtype=dtype)
    k, v = (torch.randn(*lead, Hkv, S, D, dtype=dtype) for _ in range(2))
    return q, k, v


def keys_read(L, S, block_l, block_s, offset=None):
    """Count the keys that all blocks of one head's queries load.

    Args:
        offset: the position of the first query under a causal mask.
    """
    total = 0
    for start in range(0, L, block_l):
        end = S
        if offset is not None:
            end = min(start + block_l, L) + offset
        end = max(min(end, S), 0)
        total += min(ceil_to(end, block_s), S)
    return total


SIZES = [(40, 40, 16, 16), (37, 50, 16, 32), (50, 37, 32, 16), (1, 45, 16, 16)]
CASES = [*itertools.product(SIZES, [(2, 2), (4, 2), (3, 1)])]


@pytest.mark.parametrize(
    "case", exhaustive_but([CASES[4], CASES[8]], CASES), ids=str
)
@pytest.mark.parametrize("is_causal", (False, True))
def test_forward_traffic_equals_the_formula(by_the_library, case, is_causal):
    ((L, S, BL, BS), (H, Hkv)), D = case, 16
    q, k, v = qkv(L, S, H, Hkv)
    offset = S - L if is_causal else None
    ours = by_the_library(q, k, v, BL, BS, is_causal=is_causal, q_offset=S - L)
    once = Hkv * S * D * FLOAT
    for name in "KV":
        moved = ours.loads[name]
        keys = keys_read(L, S, BL, BS, offset)
        assert moved.bytes == H * keys * D * FLOAT
        assert moved.distinct == once
        assert moved.times == moved.bytes / once
    assert ours.loads["Q"][1:3] == (H * L * D * FLOAT,) * 2
    programs = cdiv(L, BL) * H
    assert ours.loads["OFFSETS"][:3] == (programs, programs * 4, 4)
    assert ours.stores["OUT"][:3] == (programs, *(H * L * D * FLOAT,) * 2)
    assert ours.stores["LSE"].bytes == H * L * 4
    assert len(ours.programs) == programs
    # Without ranges, the learner's kernel is the same but for the mask.
    learners = by_a_learner(q, k, v, BL, BS, is_causal)
    for name in "KV":
        every = keys_read(L, S, BL, BS)
        assert learners.loads[name].bytes == H * every * D * FLOAT
        assert learners.loads[name].times == H // Hkv * cdiv(L, BL)


def test_a_window_reads_only_the_keys_around_it(by_the_library):
    q, k, v = qkv(128, 128, 1, 1)
    measured = by_the_library(q, k, v, 16, 16, window=(16, 0))
    # A block of 16 queries attends to its own keys and the 16 before.
    assert measured.loads["K"].bytes == (1 + 7 * 2) * 16 * 16 * FLOAT


def test_narrow_tiles_and_a_loop_over_all_keys_load_more_bytes(by_the_library):
    q, k, v = qkv(64, 64, 2, 1)
    ours = by_the_library(q, k, v, 32, 16, is_causal=True)
    narrow = by_the_library(q, k, v, 16, 16, is_causal=True)
    whole = by_a_learner(q, k, v, 32, 16, is_causal=True)
    assert ours.loaded < min(narrow.loaded, whole.loaded)
    assert narrow.loads["K"].bytes == sum((16, 32, 48, 64)) * 2 * 64
    assert ours.loads["K"].bytes == sum((32, 64)) * 2 * 64
    half = by_the_library(q.half(), k.half(), v.half(), 32, 16, is_causal=True)
    assert half.loads["K"].bytes == ours.loads["K"].bytes / 2
    assert half.loads["K"].times == ours.loads["K"].times


@pytest.mark.parametrize(
    ("splits", "L"), ((1, 1), (3, 1), (2, 2)), ids=("one", "three", "two")
)
def test_decoding_reads_the_cache_once_for_each_group(monkeypatch, splits, L):
    B, H, Hkv, S, D, BS = 2, 4, 2, 90, 16, 16
    tile = configs.Config(16, BS, 4, 1, "for a test")
    monkeypatch.setattr(configs, "config_of", lambda *_: tile)
    kernels = {}
    for name in ("decode_split", "merge_splits"):
        kernels[name] = Counting(getattr(decode, name))
        monkeypatch.setattr(decode, name, kernels[name])
    q, k, v = qkv(L, S, H, Hkv, lead=(B,))
    lengths = torch.tensor([S, 20])
    decode_attention(q, k, v, lengths, splits=splits)
    (measured,), (merged,) = (kernel.found for kernel in kernels.values())
    cached = Hkv * int(lengths.sum()) * D * FLOAT
    for name in "KV":
        assert measured.loads[name][1:3] == (cached, cached)
    queries = B * H * L
    assert measured.loads["Q"].bytes == splits * queries * D * FLOAT
    assert measured.loads["Q"].times == splits
    part = splits * queries * D * FLOAT
    assert measured.stores["PART"][1:3] == (part, part)
    assert merged.loads["PART"][1:3] == (part, part)
    assert merged.loads["PART_LSE"].bytes == splits * queries * FLOAT
    assert merged.stores["OUT"].bytes == queries * D * FLOAT
    # The heads of a group one by one would read the cache G times.
    each = by_a_learner(q[0], k[0], v[0], 16, BS)
    assert each.loads["K"].times == H // Hkv


# --- kernels of one's own ----------------------------------------------------


@triton.jit
def histogram(X, COUNTS, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(X + at, at < n, 0)
    tl.atomic_add(COUNTS + x, 1, at < n)


def test_an_atomic_operation_is_a_load_and_a_store():
    x, counts = torch.tensor([0, 2, 2, 2, 1]), torch.zeros(4).int()
    measured = traffic(histogram, (2,), x, counts, 5, BLOCK=4)
    assert counts.tolist() == [1, 1, 3, 0]
    assert measured.loads["X"] == Moved(2, 5 * 8, 5 * 8, 3)
    twice = Moved(2, 5 * 4, 3 * 4, 3)  # three different counters
    assert measured.loads["COUNTS"] == measured.stores["COUNTS"] == twice
    assert measured.programs[0, 0, 0].stores["COUNTS"][:3] == (1, 16, 8)


@triton.jit
def exchange(LOCK):
    tl.atomic_cas(LOCK, 0, 1)


def test_a_compare_and_swap_is_a_load_and_a_store():
    lock = torch.zeros(1, dtype=torch.int32)
    measured = traffic(exchange, (3,), lock)
    moved = Moved(3, 12, 4, 0)
    assert measured.loads == measured.stores == {"LOCK": moved}


@triton.jit
def copy_by_descriptor(
    X, out, rows, columns, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr
):
    x = tl.make_tensor_descriptor(
        X, [rows, columns], [columns, 1], [BLOCK_R, BLOCK_C]
    )
    r, c = tl.program_id(0) * BLOCK_R, tl.program_id(1) * BLOCK_C
    out.store([r, c], x.load([r, c]))


def test_descriptors_made_by_the_kernel_or_before_count_like_pointers():
    x, out = torch.randn(6, 20), torch.empty(6, 20)
    descriptor = TensorDescriptor.from_tensor(out, [4, 16])
    measured = traffic(
        copy_by_descriptor, (2, 2), x, descriptor, 6, 20, BLOCK_R=4, BLOCK_C=16
    )
    size = 6 * 20 * FLOAT
    moved = Moved(4, size, size, 8 * 32 - 6 * 20)
    assert measured.loads == {"X": moved} and measured.stores == {"out": moved}
    assert torch.equal(x, out)


@triton.jit
def add_three(TENSORS, OUT, stride):
    q, k, v = TENSORS
    d = tl.arange(0, 4)
    at = tl.program_id(0) * stride + d
    x = tl.load(q + at) + tl.load(k + at) + tl.load(v + at)
    tl.store(OUT + tl.program_id(0) * 4 + d, x)


def test_views_of_one_tensor_are_counted_separately():
    rows, out = torch.randn(5, 3, 4), torch.empty(5, 4)
    measured = traffic(add_three, (5,), rows.unbind(1), out, 12)
    assert torch.allclose(out, rows.sum(1))
    assert [*measured.loads] == ["TENSORS[0]", "TENSORS[1]", "TENSORS[2]"]
    assert set(measured.loads.values()) == {Moved(5, 80, 80, 0)}


@triton.jit
def twice(X, OUT, BLOCK: tl.constexpr):
    if tl.program_id(0) > 0:
        return
    at = tl.arange(0, BLOCK)
    tl.store(OUT + at, tl.load(X + at) + tl.load(X + at))


def test_a_byte_loaded_twice_counts_twice_but_is_distinct_once():
    x, out = torch.randn(8), torch.empty(8)
    measured = traffic(twice, (3,), X=x, OUT=out, BLOCK=8)
    assert measured.loads["X"] == Moved(2, 64, 32, 0)
    assert measured.loads["X"].times == 2
    assert measured.programs[0, 0, 0].loads == measured.loads
    idle = measured.programs[2, 0, 0]
    assert len(measured.programs) == 3 and idle.loaded == idle.stored == 0


def test_loads_between_the_rows_of_a_view_count_as_elsewhere():
    x, out = torch.randn(2, 8)[:, :6], torch.empty(8)
    measured = traffic(twice, (1,), x, out, BLOCK=8)
    assert measured.loads["X"] == Moved(2, 48, 24, 0)
    assert measured.loads["elsewhere"][:3] == (2, 16, 0)
    assert math.isnan(measured.loads["elsewhere"].times)
    assert measured.loaded == 64


def test_a_tensor_passed_twice_counts_for_its_first_argument():
    x = torch.randn(8)
    measured = traffic(twice, lambda meta: (1,), x, x, BLOCK=8)
    assert [*measured.loads] == [*measured.stores] == ["X"]


def test_a_kernel_behind_heuristics_is_counted():
    kernel = triton.heuristics({"BLOCK": lambda args: len(args["X"])})(twice)
    x, out = torch.randn(8), torch.empty(8)
    assert traffic(kernel, (1,), x, out).loaded == 64


def test_traffic_prints_as_a_table():
    measured = traffic(twice, (2,), torch.randn(8), torch.empty(8), BLOCK=8)
    assert str(measured) == "\n".join(
        [
            "twice, programs: 2",
            "tensor          calls  bytes  distinct  masked  times",
            "X       loads       2     64        32       0      2",
            "all     loads       2     64        32       0      2",
            "OUT     stores      1     32        32       0      1",
            "all     stores      1     32        32       0      1",
        ]
    )
    assert measured._repr_html_().count("<tr>") == 5


def test_the_interpreter_is_restored_even_after_an_error():
    from triton.runtime.interpreter import interpreter_builder

    before = dict(vars(interpreter_builder))
    with pytest.raises(Exception, match="BLOCK|arange"):
        traffic(twice, (1,), torch.randn(8), torch.empty(8), BLOCK=3.5)
    x = torch.zeros(8)
    traffic(twice, (1,), x, x, BLOCK=8)
    kept = ("grid_dim", "grid_idx", "options")
    for name in set(vars(interpreter_builder)) - set(kept):
        assert vars(interpreter_builder)[name] is before[name], name


def test_traffic_is_counted_within_the_guard_of_an_exercise():
    from attn.exercises.guard import watched

    x, out = torch.randn(2, 8)[:, :6], torch.empty(8)
    with watched(X=x, OUT=out) as accesses:
        measured = traffic(twice, (1,), x, out, BLOCK=8)
    assert measured.loads["elsewhere"].calls == 2
    assert "it reads X[0, 6]" in accesses.outside["X"].message


def test_a_kernel_that_triton_would_compile_is_counted_too():
    from triton.runtime.jit import JITFunction

    x, out = torch.ones(8), torch.empty(8)
    counts = [
        traffic(kernel, (1,), x, out, BLOCK=8).table()
        for kernel in (twice, JITFunction(twice.fn))
    ]
    assert str(counts[0]) == str(counts[1])
    assert out.unique().numel() == 1


def test_an_uncountable_launch_raises_with_the_way_out():
    x = torch.zeros(8)
    for kernel in (twice.fn, print):
        name = type(kernel).__name__
        with pytest.raises(TypeError, match=f"by triton.jit; got {name}"):
            traffic(kernel, (1,), x, x, BLOCK=8)
    with pytest.raises(ValueError, match="OUT must be on the CPU; got meta"):
        traffic(twice, (1,), x, x.to("meta"), BLOCK=8)
