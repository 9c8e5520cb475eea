"""Peak memory and live memory, against sizes that are known beforehand."""

import os
import time

import pytest
import torch

from attn.profiling import LiveMemory, benchmark_interleaved, peak_bytes

MB = 2**20


def test_peak_bytes_counts_what_the_call_holds_at_once():
    x = torch.zeros(MB // 4)  # 1 MB, before the call

    def two_then_one():
        y = x + 1  # 1 MB
        z = y + 1  # and another
        del y
        return z + 1  # in the place of the first

    scalars = 100  # the ones that are added
    assert 0 <= peak_bytes(two_then_one) - 2 * MB <= scalars


def test_peak_bytes_ignores_views_and_counts_kernel_scratch():
    x = torch.randn(1, 8, 256, 32)
    assert peak_bytes(lambda: x.transpose(1, 2)[:, :5]) == 0
    fused = torch.nn.functional.scaled_dot_product_attention
    out = x.numel() * 4
    assert peak_bytes(fused, x, x, x) > out  # its blocks of scores


@pytest.mark.parametrize("error", (ValueError, KeyboardInterrupt))
def test_peak_bytes_raises_the_error_and_restores_stderr(error, capfd):
    def fails():
        raise error("said so")

    with pytest.raises(error, match="said so"):
        peak_bytes(fails)
    os.write(2, b"heard")
    assert "heard" in capfd.readouterr().err


def test_benchmarked_calls_warm_up_twice_and_are_interleaved():
    ran = []
    calls = {name: (lambda n=name: ran.append(n)) for name in "abc"}
    spent = benchmark_interleaved(calls, 4)
    assert ran[:6] == [*"abcabc"]
    rounds = [ran[i : i + 3] for i in range(6, 18, 3)]
    assert all(sorted(turn) == [*"abc"] for turn in rounds)
    assert len({*map(tuple, rounds)}) > 1, "not always in the same order"
    assert {n: len(x) for n, x in spent.items()} == dict.fromkeys("abc", 4)


def test_benchmark_times_are_in_seconds():
    start = time.perf_counter()
    (spent,) = benchmark_interleaved(
        {"sleeps": lambda: time.sleep(0.02)}, 1
    ).values()
    all_three = time.perf_counter() - start
    assert 0.02 <= spent[0] <= all_three - 2 * 0.02


# --- what is referenced at once, counted in elements -------------------------


@pytest.mark.parametrize(
    ("answer", "elements"),
    [
        (lambda x: x, 0),
        (lambda x: x * 2, 6),
        (lambda x: x.mT[None].expand(100, 3, 2)[0], 0),  # views are free
        (lambda x: (x * 2)[0, 0], 6),  # a view keeps all of its memory
        (lambda x: x.expand(100, 2, 3).clone()[0], 600),
        (lambda x: x.expand(100, 2, 3) @ x.mT, 400),
        (lambda x: torch.zeros(7)[:6], 7),
        (lambda x: torch.tensor(x.tolist() * 2), 12),
        (lambda x: [float(v) for row in x for v in row], 6),
        (lambda x: x.add_(1), 0),
        # The old total, the summand and the new total:
        (lambda x: sum((x * i for i in range(5)), x), 18),
        (lambda x: torch.stack([x * i for i in range(5)]).sum(0), 60),
    ],
    ids=range(12),
)
def test_memory_counts_as_long_as_it_is_referenced(answer, elements):
    x = torch.arange(6.0).reshape(2, 3)
    with LiveMemory() as memory:
        answer(x)
    assert memory.peak == elements


def test_tensors_allocated_earlier_do_not_count():
    weight = torch.ones(1, 9)
    with LiveMemory() as memory:
        weight.mT.reshape(-1)[:2].add_(1)
    assert memory.peak == 0


def test_watching_memory_does_not_import_the_compiler():
    """torch wraps a mode that skips dynamo, and imports it at the first call:
    2 s, or on a busy machine the 5 s that a check may take."""
    assert not hasattr(LiveMemory.__torch_dispatch__, "__wrapped__")
