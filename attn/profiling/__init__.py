"""Measure calls, and count what a kernel moves.

``peak_bytes`` and ``benchmark_interleaved`` run a call on this machine;
``LiveMemory`` counts the elements that are alive while one runs.
``traffic`` executes a Triton kernel in the interpreter and counts the bytes
that it loads and stores: without a GPU, the same on every machine.
"""

from attn.profiling.calls import benchmark_interleaved, peak_bytes
from attn.profiling.kernel_traffic import Moved, Traffic, traffic
from attn.profiling.live_memory import LiveMemory

__all__ = [
    "peak_bytes",
    "benchmark_interleaved",
    "LiveMemory",
    "traffic",
    "Traffic",
    "Moved",
]
