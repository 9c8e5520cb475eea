"""Live memory is what is referenced at once, and counts in elements."""

import pytest
import torch

from attn.profiling import LiveMemory


@pytest.mark.parametrize(
    ("answer", "elements"),
    [
        (lambda x: x, 0),
        (lambda x: x * 2, 6),
        (lambda x: x.mT[None].expand(100, 3, 2)[0], 0),  # views are free
        (lambda x: (x * 2)[0, 0], 6),  # a view keeps all of its memory
        (lambda x: x.expand(100, 2, 3).clone()[0], 600),
        (lambda x: x.expand(100, 2, 3) @ x.mT, 400),
        (lambda x: torch.zeros(7)[:6], 7),
        (lambda x: torch.tensor(x.tolist() * 2), 12),
        (lambda x: [float(v) for row in x for v in row], 6),
        (lambda x: x.add_(1), 0),
        # The old total, the summand and the new total:
        (lambda x: sum((x * i for i in range(5)), x), 18),
        (lambda x: torch.stack([x * i for i in range(5)]).sum(0), 60),
    ],
    ids=range(12),
)
def test_memory_counts_as_long_as_it_is_referenced(answer, elements):
    x = torch.arange(6.0).reshape(2, 3)
    with LiveMemory() as memory:
        answer(x)
    assert memory.peak == elements


def test_tensors_allocated_earlier_do_not_count():
    weight = torch.ones(1, 9)
    with LiveMemory() as memory:
        weight.mT.reshape(-1)[:2].add_(1)
    assert memory.peak == 0


def test_watching_memory_does_not_import_the_compiler():
    """torch wraps a mode that skips dynamo, and imports it at the first call:
    2 s, or on a busy machine the 5 s that a check may take."""
    assert not hasattr(LiveMemory.__torch_dispatch__, "__wrapped__")
