"""Measure calls, and count what a kernel moves.

``peak_bytes`` and ``benchmark_interleaved`` run a call on this machine.
``traffic`` executes a Triton kernel in the interpreter and counts the bytes
that it loads and stores: without a GPU, the same on every machine.
"""

from attn.profiling.calls import benchmark_interleaved, peak_bytes
from attn.profiling.kernel_traffic import Moved, Traffic, traffic

__all__ = [
    "Moved",
    "Traffic",
    "benchmark_interleaved",
    "peak_bytes",
    "traffic",
]
