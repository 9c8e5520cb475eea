"""Compile a function in one piece, and count its graphs."""

import torch

import attn


def in_one_graph(function):
    """Return it compiled, where a break is an error, and its counter.

    ``counter.frame_count`` is the number of graphs so far.
    """
    from torch._dynamo.testing import CompileCounter  # takes its time

    torch._dynamo.reset()
    counter = CompileCounter()
    return torch.compile(function, backend=counter, fullgraph=True), counter


def check_two_graphs(model, want, *args, cache=lambda: "static", **options):
    """Require two graphs for two texts: of the prompts, and of one token."""
    compiled, counter = in_one_graph(model)
    for _ in range(2):
        text = attn.generate(compiled, *args, cache=cache(), **options)
        assert torch.equal(text, want)
    assert counter.frame_count == 2
