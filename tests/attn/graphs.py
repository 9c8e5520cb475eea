"""Compile a function in one piece, and count its graphs."""

import torch


def in_one_graph(function):
    """Return it compiled, where a break is an error, and its counter.

    ``counter.frame_count`` is the number of graphs so far.
    """
    from torch._dynamo.testing import CompileCounter  # takes its time

    torch._dynamo.reset()
    counter = CompileCounter()
    return torch.compile(function, backend=counter, fullgraph=True), counter
