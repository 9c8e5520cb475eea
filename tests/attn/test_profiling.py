"""Peak memory, against sizes that are known beforehand."""

import os
import time

import pytest
import torch

from attn.profiling import benchmark_interleaved, peak_bytes

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
