"""Measure the peak memory of a call, and the time of several in turn."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import Any

import torch
from torch.autograd.profiler import profile

from attn import arguments

__all__ = ["benchmark_interleaved", "peak_bytes"]

L2_BYTES = 256 * 2**20  # more than any GPU's cache: writing them empties it
FLUSHES = 24  # two milliseconds on a large GPU


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Run on one thread: more cost more than they give on small tensors.

    On a busy machine a softmax of ten elements takes 8 ms with two threads,
    1 µs with one.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def peak_bytes(function: Callable[..., Any], *args: Any, **kwargs: Any) -> int:
    """Return the peak number of bytes that a call allocates.

    It is the allocator's own count, so a kernel's scratch memory is
    included. The arguments do not count, the result does.

    Args:
        function: called once; on CUDA if an argument is.
        args, kwargs: its arguments.

    Returns:
        Bytes, 0 or more.

    Example:
        >>> from attn.profiling import peak_bytes
        >>> peak_bytes(torch.ones, 1000)  # float32
        4000

    Source: ``torch.autograd.profiler`` with ``profile_memory``, on a CPU;
    ``torch.cuda.max_memory_allocated`` on a GPU.
    """
    arguments.function("function", function)
    given = [*args, *kwargs.values()]
    if any(isinstance(x, torch.Tensor) and x.is_cuda for x in given):
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        function(*args, **kwargs)
        return torch.cuda.max_memory_allocated() - before
    # torch.profiler.profile would import PyTorch's compiler, in a second.
    log: Any = profile(profile_memory=True)
    with _no_log(), log:
        function(*args, **kwargs)
    events = log.kineto_results.events()
    steps = [e for e in events if e.name() == "[memory]"]
    steps.sort(key=lambda e: e.start_ns())
    return max(accumulate((e.nbytes() for e in steps), initial=0))


@contextlib.contextmanager
def _no_log() -> Iterator[None]:
    """Hide the profiler's own messages, which go past Python's stderr."""
    stderr, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(nowhere)


def benchmark_interleaved(
    calls: Mapping[str, Callable[[], Any]],
    rounds: int,
    device: str | torch.device = "cpu",
) -> dict[str, list[float]]:
    """Time calls side by side, so that a busy machine slows all of them.

    Args:
        calls: by name. Each runs twice before it counts.
        rounds: in each, every call runs once, in shuffled order.
        device: of the calls. A GPU is timed by its own events, with its
            cache emptied before each run and the time to launch hidden.

    Returns:
        Seconds, ``rounds`` of them for each name.

    Example:
        >>> from attn.profiling import benchmark_interleaved
        >>> x = torch.randn(1, 4, 64, 16)
        >>> seconds = benchmark_interleaved(
        ...     {
        ...         "attention": lambda: attn.attention(x, x, x),
        ...         "tiled": lambda: attn.tiled_attention(x, x, x),
        ...     },
        ...     rounds=5,
        ... )
        >>> {name: len(times) for name, times in seconds.items()}
        {'attention': 5, 'tiled': 5}
    """
    need = "functions by name, {name: function}"
    arguments.instance("calls", calls, Mapping, need)
    for name, call in calls.items():
        arguments.function(f"{name!r} of calls", call)
    arguments.count("rounds", rounds)
    on_gpu = torch.device(device).type == "cuda"
    size, flushes = (L2_BYTES, FLUSHES) if on_gpu else (0, 0)
    flush = torch.empty(size, dtype=torch.uint8, device=device)
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for call in (*calls.values(), *calls.values()):
        call()
    order, shuffle = list(calls.items()), random.Random(0)
    for i in range(rounds):
        # Reverse every second round, so that no call always follows the
        # same one.
        if i % 2:
            order.reverse()
        else:
            shuffle.shuffle(order)
        for name, call in order:
            # While these run, the call gets into the GPU's queue: what the
            # CPU needs to launch it does not count.
            for _ in range(flushes):
                flush.zero_()
            with _clock(on_gpu, spent[name]):
                call()
    return spent


@contextlib.contextmanager
def _clock(on_gpu: bool, into: list[float]) -> Iterator[None]:
    if not on_gpu:
        start = time.perf_counter()
        yield
        into.append(time.perf_counter() - start)
        return
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    yield
    last.record()
    torch.cuda.synchronize()
    into.append(first.elapsed_time(last) / 1000)
