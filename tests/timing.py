"""Time as a ratio to other work of the same run: no clock is the limit."""

import statistics
import time

import torch

from attn.profiling import benchmark_interleaved


def ratio(first, second, enough, rounds=7):
    """Return how many times longer the second call takes than the first.

    Medians of interleaved runs on one thread: threads that wait for each
    other measure whatever else the machine does. Where that is less than
    enough, measure twice more: others' work hides a difference (both then
    wait for memory), and never makes one.
    """
    found = []
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        while len(found) < 3 and max(found, default=0.0) <= enough:
            spent = benchmark_interleaved(
                {"first": first, "second": second}, rounds
            )
            medians = {k: statistics.median(x) for k, x in spent.items()}
            found.append(medians["second"] / medians["first"])
    finally:
        torch.set_num_threads(threads)
    return max(found)


def cpu_ratio(first, second):
    """Return the same of CPU time, which others' work does not lengthen."""
    spent = []
    for call in (first, second):
        start = time.process_time()
        call()
        spent.append(time.process_time() - start)
    return spent[1] / spent[0]
