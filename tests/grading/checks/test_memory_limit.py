"""Memory has a limit, and blocks may be read once only."""

import numpy as np
import pytest
import torch

from attn.exercises.spec import Case
from attn.grading.checks.run import run

X = torch.arange(6.0).reshape(2, 3)
BLOCKS = [torch.full((4,), float(i)) for i in range(8)]


@pytest.mark.parametrize(
    "beside", [lambda x: x.tolist(), lambda x: x.numpy(), np.asarray]
)
def test_numbers_beside_tensors_count_as_memory(beside):
    case = Case("room for three", (X,), max_live=2)
    outcome = run(lambda x: len(beside(x)), case, forbids=("softmax",))
    assert "it holds 6 elements" in outcome.side_effect.text


def test_memory_above_the_limit_is_reported_with_both_sizes():
    case = Case("room for three", (X,), max_live=18)
    added_up = run(lambda x: sum((x * i for i in range(5)), x), case)
    assert added_up.error is None and not added_up.side_effect
    stacked = run(
        lambda x: torch.stack([x * i for i in range(5)]).sum(0), case
    )
    assert stacked.error is None
    sizes = "it holds 60 elements beyond its inputs, where 18 are enough"
    assert sizes in stacked.side_effect.text
    assert "(5, 2, 3)" in stacked.side_effect.text


def once(answer, **options):
    case = Case("blocks", (BLOCKS,), once=("args.0",), **options)
    return run(answer, case, names=["scores"])


@pytest.mark.parametrize(
    "forwards",
    [
        list,
        lambda x: [x[i] for i in range(len(x))],
        lambda x: [x[i] + 0 * x[i] for i, _ in enumerate(range(8))],
        lambda x: [x[0], *x][1:],  # an index does not use a block up
        lambda x: [x[0], *x[1:]],
        lambda x: [next(x), *x],
        lambda x: [block for _, block in zip(range(8), x[0:], strict=False)],
    ],
    ids=range(7),
)
def test_each_block_is_read_once_and_in_order(forwards):
    outcome = once(lambda blocks: torch.stack(forwards(blocks)))
    assert outcome.error is None
    assert torch.equal(outcome.output, torch.stack(BLOCKS))


@pytest.mark.parametrize(
    "back",
    [
        lambda x: [list(x) for _ in range(2)],
        lambda x: x[::-1],
        lambda x: x[-1],
        lambda x: x[:2],
        lambda x: (x[1], x[0]),
        lambda x: (x[3], x[2:]),
        lambda x: [x[0] for _ in x],
    ],
    ids=range(7),
)
def test_blocks_read_out_of_order_are_an_error(back):
    error = once(back).error
    assert isinstance(error, TypeError)
    assert "of scores cannot be read here" in str(error)


def test_blocks_that_are_kept_count_as_memory():
    def total(blocks):
        return sum(block.sum() for block in blocks)

    def listed(blocks):
        return total(list(blocks))

    assert not once(total, max_live=16).side_effect
    assert "it holds 3" in once(listed, max_live=16).side_effect.text


def test_a_block_changed_in_place_is_reported():
    outcome = once(lambda blocks: [block.sub_(1.0) for block in blocks])
    assert outcome.side_effect.text == "it changes scores in place"
