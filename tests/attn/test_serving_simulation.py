"""The gain of continuous batching is the raggedness: no clock is read."""

import math
import random
from statistics import mean, median

import pytest

import attn
from attn.serving import Request, Scheduler, simulate, simulate_static

# Measured on SmolLM2-135M, one thread: rows, milliseconds a step.
TIMES = [(1, 84.0), (4, 101.0), (8, 120.0), (16, 127.0)]
ROWS = 16


def step_time(counts):
    """Interpolate between the measured numbers of rows; seconds."""
    rows = len(counts)
    for (a, x), (b, y) in zip(TIMES, TIMES[1:], strict=False):
        if rows <= b:
            return (x + (y - x) * (max(rows, a) - a) / (b - a)) / 1000
    raise AssertionError(rows)


def continuous(requests, num_pages=100_000, time=step_time, **options):
    pool = attn.PageAllocator(num_pages, 16)
    options = {"max_num_batched_tokens": 8192, **options}
    scheduler = Scheduler(pool, max_num_seqs=ROWS, **options)
    return simulate(requests, time, scheduler)


def lengths(seed, count=64):
    """Draw lognormal lengths, with sigma 1 and a mean of 128."""
    r, mu = random.Random(seed), math.log(128) - 0.5
    drawn = (int(r.lognormvariate(mu, 1.0)) for _ in range(count))
    return [max(1, min(2048, x)) for x in drawn]


def of(lengths, arrivals=None):
    arrivals = arrivals or [0.0] * len(lengths)
    return [
        Request(i, [1] * 8, n, arrival=t)
        for i, (n, t) in enumerate(zip(lengths, arrivals, strict=True))
    ]


def gain(lengths, **options):
    static = simulate_static(of(lengths), step_time, ROWS, **options)
    return continuous(of(lengths)).tokens_per_second / static.tokens_per_second


def test_requests_of_equal_length_gain_nothing():
    assert gain([128] * 64) == pytest.approx(1.0)


def test_ragged_requests_gain_a_factor_of_more_than_two():
    gains = [gain(lengths(seed)) for seed in range(6)]
    assert min(gains) > 1.5 and 2.0 < median(gains) < 3.0


def test_a_batch_sorted_by_length_gains_most_of_it_back():
    """But no server knows the lengths; shrinking helps, and not enough."""
    for seed in range(3):
        plain = gain(lengths(seed))
        assert 1 <= gain(lengths(seed), sort=True) < 0.75 * plain
        assert 1 < gain(lengths(seed), shrink=True) < plain


def test_a_new_request_waits_for_a_step_not_for_a_batch():
    r, t, arrivals = random.Random(1), 0.0, []
    for _ in range(100):
        t += r.expovariate(0.25)
        arrivals.append(t)
    requests = of(lengths(1, 100), arrivals)
    static = simulate_static(requests, step_time, ROWS)
    trace = continuous(requests)
    assert mean(trace.ttft.values()) < 0.3
    assert mean(static.ttft.values()) > 10 * mean(trace.ttft.values())


def test_a_trace_counts_what_happened():
    requests = of([2, 4, 1], [0.0, 0.5, 10.0])
    trace = continuous(requests, time=lambda counts: 1.0)
    assert trace.ttft == {0: 1.0, 1: 1.5, 2: 1.0}
    assert trace.itl == {0: [1.0], 1: [1.0] * 3, 2: []}
    assert trace.e2e == {0: 2.0, 1: 4.5, 2: 1.0}
    assert trace.duration == 11.0 and trace.padding == 0
    assert trace.tokens_per_second == 7 / 11
    assert [x.start for x in trace.steps] == [0.0, 1.0, 2.0, 3.0, 4.0, 10.0]


def test_static_batches_compute_padding():
    requests = [Request(0, [1] * 4, 1), Request(1, [1], 3)]
    trace = simulate_static(requests, sum, 2)
    # Prompts: 4 and 1 of 8. Then two steps with an idle row each.
    assert [x.end - x.start for x in trace.steps] == [8, 2, 2]
    assert [x.num_padding for x in trace.steps] == [3, 1, 1]
    assert trace.padding == 5 / 12
    assert [x.idle for x in trace.steps] == [(), (0,), (0,)]
    shrunk = simulate_static(requests, sum, 2, shrink=True)
    assert [x.end - x.start for x in shrunk.steps] == [8, 1, 1]


def test_long_prompts_in_chunks_do_not_hold_up_the_others():
    """Chunked prefill bounds the time between two tokens."""
    requests = of([50] * 4)
    requests.append(Request("long", [1] * 2000, 5, arrival=0.2))

    def time(counts):
        return 0.01 + 1e-4 * sum(counts)

    def worst(**options):
        itl = continuous(requests, time=time, **options).itl
        return max(max(itl[i]) for i in range(4))

    assert worst() > 0.2
    assert worst(max_num_batched_tokens=128) < 0.03


def test_too_few_pages_cost_time_and_no_token():
    requests = of(lengths(2, 40))
    most = max(x.max_tokens for x in requests)
    few, many = continuous(requests, -(-most // 16)), continuous(requests)
    assert any(x.preempted for x in few.steps)
    assert few.duration > many.duration
    for trace in (few, many):
        for x in requests:
            assert len(trace.token_times[x.id]) == x.max_new_tokens


def test_a_simulation_can_be_repeated():
    requests = of(lengths(3, 20))
    assert continuous(requests) == continuous(requests)
    assert all(not x.output_ids for x in requests)


def test_equal_ids_and_steps_without_time_are_refused():
    for run in (continuous, lambda x, **y: simulate_static(x, y["time"])):
        with pytest.raises(ValueError, match="ids of their own.*\\[0, 0\\]"):
            run(of([1]) + of([1]), time=step_time)
        with pytest.raises(ValueError, match="above 0; got 0.0 for"):
            run(of([1]), time=lambda counts: 0.0)


def test_a_scheduler_that_is_busy_is_refused():
    scheduler = Scheduler(attn.PageAllocator(8, 4))
    scheduler.add(Request("a", [1], 1))
    with pytest.raises(ValueError, match="no requests yet"):
        simulate([], step_time, scheduler)
