"""How much memory a call takes at once, whatever language it is written in."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

__all__ = ["peak_bytes"]


def peak_bytes(function: Callable[..., Any], *args: Any, **kwargs: Any) -> int:
    """The most bytes that a call's own tensors took at one time.

    Torch's allocator is asked, so a kernel's scratch memory counts too,
    which no tensor of Python's shows. The arguments do not count, the
    result does.

    Args:
        function: what to call, once. On CUDA when an argument is there.
        args, kwargs: its arguments.

    Returns:
        Bytes, 0 or more.

    Source: ``torch.profiler`` with ``profile_memory``, on a CPU;
    ``torch.cuda.max_memory_allocated`` on a GPU.
    """
    given = [*args, *kwargs.values()]
    if any(isinstance(x, torch.Tensor) and x.is_cuda for x in given):
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        function(*args, **kwargs)
        return torch.cuda.max_memory_allocated() - before
    with (
        _no_log(),
        profile(activities=[ProfilerActivity.CPU], profile_memory=True) as log,
    ):
        function(*args, **kwargs)
    assert log.profiler is not None
    events = log.profiler.kineto_results.events()
    steps = [e for e in events if e.name() == "[memory]"]
    now = most = 0
    for step in sorted(steps, key=lambda e: e.start_ns()):
        now += step.nbytes()
        most = max(most, now)
    return most


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
