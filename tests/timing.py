"""Time as a ratio to other work of the same run: no clock is the limit."""

import statistics
import time

import torch

from attn.profiling import benchmark_interleaved


def ratio(first, second, rounds=7):
    """Return how many times longer the second call takes than the first.

    Medians of interleaved runs on one thread: threads that wait for each
    other measure whatever else the machine does.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        spent = benchmark_interleaved(
            {"first": first, "second": second}, rounds
        )
    finally:
        torch.set_num_threads(threads)
    medians = {name: statistics.median(x) for name, x in spent.items()}
    return medians["second"] / medians["first"]


def cpu_ratio(first, second):
    """Return the same of CPU time, which others' work does not lengthen."""
    spent = []
    for call in (first, second):
        start = time.process_time()
        call()
        spent.append(time.process_time() - start)
    return spent[1] / spent[0]
